"""signSGD: what is known exactly of a sign's mean over u and χ (THEORY.md T37)."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from sgdtheory.risk.chi import chi_rules
from sgdtheory.risk.ensemble import Ensemble
from sgdtheory.risk.field import MEAN, VARIANCE, Known, MemorylessField, MomentumField, MomentumStep, Step
from sgdtheory.risk.sign_gain import correlated, sign_gain

LONG_MEMORY = 0.8  # β from which on m is as good as Gaussian
SHORT_MEMORY_ERROR = 0.1
TINY = np.finfo(float).tiny


class SignField(MemorylessField):
    """`w ← w − γ sign(g)`, coordinates = eigenvectors."""

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rules of χ, (P, M) nodes and weights."""
        return chi_rules(batch)

    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """With T' = T − E u_i², the others' part of the loss, and z ~ N(0, 1), g_i has the sign of `χ u_i + √T' z`.

        E sign(g_i) = E_χ erf(χ a_i/√(2 (T' + χ² r_i))),    E sign(g_i)² = 1.
        """
        mean = values[MEAN]
        variance = values[VARIANCE]
        others = np.maximum(loss - (mean**2 + variance), TINY)
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


@dataclass(frozen=True)
class SignMomentumField(MomentumField):
    """`m ← βm + (1 − β) g, w ← w − γ sign(m)`, coordinates = eigenvectors; m is Gaussian but for its slope at 0.

    That takes a sum over several steps: with a short memory and small batches it is not close.
    """

    momentum: float

    def error(self, steps: float) -> float:
        """As measured for memories of one to five steps, and for longer ones."""
        return SHORT_MEMORY_ERROR if self.momentum < LONG_MEMORY else super().error(steps)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """(P, 1): the slope of E sign at 0 over that of a Gaussian m."""
        return (sign_gain(self.momentum, number, batch)[:, None],)

    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> MomentumStep:
        """`E sign(m) = erf(E m/√(2 Var m))`; signs of later steps are correlated by the arcsine law."""
        a, r, m, c, q = values
        beta = self.momentum
        learns = ensemble.root > 0
        own = np.where(learns, a**2 + r, 0.0)
        gain = (1 - beta) * learns
        noise = (1 - beta) ** 2 * (own + loss) / known.batch
        mean = beta * m + gain * a
        variance = beta**2 * q + 2 * beta * gain * c + gain**2 * r + noise
        width = known.table[0] / np.sqrt(2 * np.maximum(variance, TINY))
        place = width * mean
        sign = special.erf(place)
        slope = 2 / np.sqrt(np.pi) * width * np.exp(-(place**2))
        moved = known.rate * np.sqrt(ensemble.spread)
        rest = np.maximum(1 - sign**2 - slope**2 * variance, 0.0)
        scatter = moved**2 * correlated(beta) * rest
        return MomentumStep(gain, noise, moved * sign, moved * slope, scatter, kept=np.zeros((0, *a.shape)))
