"""signSGD without momentum, where coordinates are eigenvectors: the mean of a step over u and χ is exact (T37)."""

import numpy as np
from scipy import special

from sgdtheory.risk.chi import chi_rules
from sgdtheory.risk.ensemble import Ensemble
from sgdtheory.risk.field import MEAN, VARIANCE, Known, MemorylessField, Step


class SignField(MemorylessField):
    """`w ← w − γ sign(g)`."""

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rules of χ, (P, M) nodes and weights."""
        return chi_rules(batch)

    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """With T' = T − E u_i², the others' part of the loss, and z ~ N(0, 1), g_i has the sign of `χ u_i + √T' z`.

        E sign(g_i) = E_χ erf(χ a_i/√(2 (T' + χ² r_i))),    E sign(g_i)² = 1.
        """
        mean = values[MEAN]
        variance = values[VARIANCE]
        others = np.maximum(loss - (mean**2 + variance), np.finfo(float).tiny)
        sign = np.zeros_like(mean)
        slope = np.zeros_like(mean)
        for k in range(known.table[0].shape[1]):
            node, weight = (each[:, k, None] for each in known.table)
            width = node / np.sqrt(2 * (others + node**2 * variance))
            place = width * mean
            sign += weight * special.erf(place)
            slope += weight * width * np.exp(-(place**2))
        slope *= 2 / np.sqrt(np.pi)
        moved = known.rate * ensemble.root
        return Step(moved * sign, moved * slope, known.rate**2 * ensemble.spread * (1 - sign**2))
