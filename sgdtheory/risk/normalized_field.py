"""Normalized SGD: steps of length γ, coordinates do not matter (THEORY.md T37)."""

import numpy as np

from sgdtheory.risk.chi import chi_rules
from sgdtheory.risk.closure import Closure, shares
from sgdtheory.risk.ensemble import Ensemble
from sgdtheory.risk.field import MEAN, VARIANCE, Field, Known, second_moment
from sgdtheory.risk.normalized_law import Directions, Integrals, integrals, means, two_sided

NODES = {0.0: 6, 4.0: 5, 16.0: 4, 256.0: 3}  # B → nodes of the mean over χ from there on: to 1e-3 of a step's mean
SIDES = 2  # row of values: what of the variance is two-sided
NOTICED = 0.05  # share of E‖h‖² from which it is asked whether a direction is,
HALF = 0.3  # and at which half of the answer counts
SOFT = 0.01  # of the answer: fewer have no square root that a polynomial could follow
# Relative errors of the pull over q, for which 3/8 is derived, s², s² B r/T_i and the square of the largest share of
# ‖g‖². Larger factors state larger errors; these cover all of 375 simulated settings.
DOUBTS = 0.5, 1.6, 0.13, 0.4
# Error of the mean square of a step, relative: Σ λ_i E(h_i/‖h‖)² is 1 to 2.2e-4 in one direction, to 1e-5 in three.
INTEGRATED = 2.5e-4
MOST_SCATTER = 1e6  # relative error of the scatter: beyond, numbers would overflow
TINY = np.finfo(float).tiny


class NormalizedField(Field):
    """`w ← w − γ g/‖g‖`.

    A direction that holds much of ‖g‖ jumps to and fro, at a distance A from its optimum, and is no Gaussian about 0:
    then ‖g‖ would often be small, and all other steps large. What happens to a direction and to its mirror image is the
    same, and so u is ±A and a Gaussian beside it, `A² = a² + b`: values are E u = a, Var u = r, and its part b.
    """

    first = 128.0  # with two sides
    in_loss_alone = False

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Wrong where T fluctuates, and where what fluctuates in one direction makes up much of ‖g‖.

        The scatter is a difference of integrals: nothing is left of it where steps are as good as certain.
        """
        seen = shares(ensemble, values, loss, known.batch)
        trace = ensemble.multiplicity @ ensemble.spread
        size = np.maximum(loss[:, :1] * trace + (known.batch - 1) * loss[:, 1:], TINY)
        largest = np.max(known.batch * ensemble.root**2 * np.maximum(values[VARIANCE], 0.0), axis=-1, keepdims=True)
        fluctuation, spread, saturated, share = DOUBTS
        pull = fluctuation * seen.fluctuation + spread * seen.spread**2 + saturated * seen.saturated
        pull = pull + share * np.minimum(largest / size, 1.0) ** 2
        given = _given(values, loss, known)
        found = means(ensemble, given, Integrals(*known.together))
        uncertain = np.maximum(found.square - given.signal * found.gain**2, TINY)
        scatter = np.minimum(INTEGRATED * found.square / uncertain, MOST_SCATTER)
        return Closure(pull, scatter, np.zeros_like(pull), np.zeros_like(pull))

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rules of χ, (P, M) nodes and weights."""
        return chi_rules(batch, NODES)

    def totals(self, ensemble: Ensemble) -> np.ndarray:
        """Return the weights of R, and of what signal adds to `‖h‖²`."""
        return np.stack([ensemble.multiplicity, ensemble.multiplicity * ensemble.root**2])

    def start(self, ensemble: Ensemble) -> np.ndarray:
        """w_0."""
        return np.stack([ensemble.start, np.zeros_like(ensemble.start), np.zeros_like(ensemble.start)])

    def together(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known
    ) -> tuple[np.ndarray, ...]:
        """`Integrals`."""
        return integrals(ensemble, _given(values, loss, known))

    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(3, P, K)."""
        given = _given(values, loss, known)
        found = means(ensemble, given, Integrals(*known.together))
        moved = known.rate * ensemble.root**2
        gain = moved * found.gain
        scatter = moved**2 * np.maximum(found.square - given.signal * found.gain**2, 0.0)
        sides = given.signal - values[MEAN] ** 2
        variance = scatter - 2 * moved * found.slope * given.spread - gain * (2 - gain) * sides
        mean_square = (1 - gain) ** 2 * given.signal
        square = (1 - gain) ** 2 * values[MEAN] ** 2 + np.maximum(values[VARIANCE] + variance, 0.0)
        if known.smooth:  # A leads to and fro about where it stays, and so may the mean
            mean = np.where(gain > 1, -1.0, -gain) * values[MEAN]
            return np.stack([mean, variance + np.where(gain > 1, (1 - gain) * values[MEAN], 0.0) ** 2, -sides])
        away = self._away(ensemble, given, known, mean_square, square) - gain * (2 - gain) * sides
        return np.stack([-gain * values[MEAN], variance, np.clip(away, -sides, values[VARIANCE] + variance - sides)])

    def _away(
        self, ensemble: Ensemble, given: Directions, known: Known, mean_square: np.ndarray, square: np.ndarray
    ) -> np.ndarray:
        """(P, K) by how much A² is more than (E u)² of one side: by the fourth moment, where steps are not linear."""
        found = np.zeros_like(square)
        share = known.batch * ensemble.root**2 * (given.signal + given.spread) / given.size(ensemble, known.batch)
        some = np.flatnonzero((share > NOTICED).any(axis=0) & (ensemble.multiplicity <= 1))
        if some.size:
            shared = Integrals(*known.together)
            sides = np.maximum(two_sided(ensemble, given, shared, known.rate, some), 0.0)
            counts = 1 / (1 + (HALF / np.maximum(share[:, some], TINY)) ** 4)
            found[:, some] = counts * (square[:, some] * sides / np.sqrt(sides + SOFT) - mean_square[:, some])
        return found

    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """`Cov(u, Δu)` over Var u: of the two sides and of what is Gaussian."""
        given = _given(values, loss, known)
        found = means(ensemble, given, Integrals(*known.together))
        sides = (given.signal - values[MEAN] ** 2) / np.maximum(values[VARIANCE], TINY)
        pull = sides * found.gain + (1 - sides) * found.slope
        return (1 - known.rate * ensemble.root**2 * pull)[None, None]

    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """r."""
        return values[[VARIANCE]]

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Return the scales of a, r and b."""
        size = second_moment(values[MEAN], values[VARIANCE])
        return np.stack([np.sqrt(size), size, size])


def _given(values: np.ndarray, loss: np.ndarray, known: Known) -> Directions:
    """A² in the place of a², r − b in that of r."""
    sides = np.clip(values[SIDES], 0.0, values[VARIANCE])
    return Directions(
        values[MEAN] ** 2 + sides, values[VARIANCE] - sides, loss[:, :1], loss[:, 1:], known.batch, *known.table
    )
