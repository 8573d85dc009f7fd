"""signSGD without momentum: what is known exactly of a sign's mean over u and χ (THEORY.md T37)."""

import numpy as np
from scipy import special

from sgdtheory.risk.mean_field.chi import chi_rules
from sgdtheory.risk.mean_field.closure import Closure, grain, shares
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Known, MemorylessField, Step

IN_CACHE = 10_000  # numbers of an array: with many more, arrays of all nodes are slower than node by node
MOST_JUMP = 2.0  # relative error of the scatter where few signs are wrong: two signs do not differ by more
# Relative errors of the pull over q, s times grain and s² B r/T_i, and of the scatter over that of rare jumps. Larger
# factors state larger errors. These cover all but 6 of 891 simulated settings; derived are at most 3/8 and 1/3 for the
# first two.
SIGN_DOUBTS = 0.25, 0.42, 0.13, 0.7


class SignField(MemorylessField):
    """`w ← w − γ sign(g)`, coordinates = eigenvectors."""

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Signs scatter by 1 − e², whatever the law of u; but few wrong signs among certain ones make no Gaussian.

        Where e² is near 1 a direction's variance is that of rare jumps of 2γ√λ, and what they do next is not what
        happens to a Gaussian of that variance if the sign is certain there too: if B γ²λ/T_i is not small.
        """
        seen = shares(ensemble, values, loss, known.batch)
        fluctuation, grained, saturated, jumping = SIGN_DOUBTS
        pull = fluctuation * seen.fluctuation + saturated * seen.saturated
        pull = pull + grained * seen.spread * grain(ensemble, values, known.rate)
        others = np.maximum(loss - values[MEAN] ** 2 - values[VARIANCE], TINY)
        jump = np.minimum(known.batch * known.rate**2 * ensemble.spread / others, MOST_JUMP)
        sign = self.step(ensemble, values, loss, known).drift / np.maximum(known.rate * ensemble.root, TINY)
        return Closure(pull, jumping * sign**2 * jump, np.zeros_like(pull), seen.spread / 2)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rules of χ, (P, M) nodes and weights."""
        return chi_rules(batch)

    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """Return the step of signs: g_i has the sign of `χ u_i + √T' z`, T' = T − E u_i², z ~ N(0, 1).

        E sign(g_i) = E_χ erf(χ a_i/√(2 (T' + χ² r_i))),    E sign(g_i)² = 1.
        """
        sign, slope = mean_signs(values, loss, known.table)
        moved = known.rate * ensemble.root
        return Step(moved * sign, moved * slope, known.rate**2 * ensemble.spread * (1 - sign**2))


def mean_signs(values: np.ndarray, loss: np.ndarray, rules: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return E sign(g) and its derivative by the mean of u, (P, K), with the `chi_rules` of P steps."""
    mean = values[MEAN]
    variance = values[VARIANCE]
    others = np.maximum(loss - (mean**2 + variance), TINY)
    sign = np.zeros_like(mean)
    slope = np.zeros_like(mean)
    nodes = rules[0].shape[1]
    together = max(1, IN_CACHE // mean.size)  # for one node of few directions calls cost more than their numbers
    for first in range(0, nodes, together):
        node, weight = (each.T[first : first + together, :, None] for each in rules)
        width = node / np.sqrt(2 * (others + node**2 * variance))
        place = width * mean
        sign += (weight * special.erf(place)).sum(axis=0)
        slope += (weight * width * np.exp(-(place**2))).sum(axis=0)
    slope *= 2 / np.sqrt(np.pi)
    return sign, slope
