"""Normalized SGD: steps of length γ, the same in all coordinates (THEORY.md T37).

`normalized_means` has the means of g/‖g‖ that a step needs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory.algorithms import NormalizedSGD
from sgdtheory.risk.mean_field.chi import chi_rules
from sgdtheory.risk.mean_field.closure import Closure, shares
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Field, Known, second_moment
from sgdtheory.risk.mean_field.normalized_means import (
    Directions,
    Integrals,
    integrals,
    mean_square,
    means,
    two_sided,
    y_nodes,
)

SIDES = 2  # The values have the two-sided part b of the variance in this row.
# From each batch size on, means over χ take this many Gauss nodes. The integrals of this file depend on χ more smoothly
# than signs do: with twice as many nodes risks change by 4e-6, with half as many by 7e-4. Time is in proportion.
NODES_BY_BATCH = {0.0: 6, 4.0: 5, 16.0: 4, 256.0: 3}
# Directions that make up less than this share of E‖h‖² have one side. With half or twice the share risks change by less
# than 2e-7.
LEAST_SHARE = 0.05
# At this share of E‖h‖² half of the two-sided part counts. With half or twice the share risks change by 2e-4 and 3e-5.
HALF_SHARE = 0.3
# Two-sided parts well below this fraction of the variance count less than in full: polynomials in the step number could
# not follow the square root of a small part. A third or three times as much changes risks by 4e-5 and 2e-5.
SOFT_SIDES = 0.01
# The relative error of the scatter is at most this much: larger numbers would overflow later. Neither 1e3 nor 1e9
# changes a stated error.
LARGEST_SCATTER_ERROR = 1e6


# Compiled steps let this many directions have two sides. Shares add up to at most 1, so that others have less than 1/9
# of E‖h‖², of which 2% counts.
MOST_SIDED = 8


@dataclass(frozen=True)
class NormalizedErrorFactors:
    """Factors of the stated error of normalized SGD. Larger factors state larger errors.

    They are fitted to 375 simulated settings, all of which the stated errors cover; `integration` is measured.

    Attributes:
        fluctuation: error of the pull over q; 3/8 is derived.
        spread: error of the pull over s².
        saturation: error of the pull over s² B r/T_i.
        largest_share: error of the pull over the square of the largest share of a direction in ‖g‖².
        integration: error of the mean square of a step. The exact sum Σ λ_i E(h_i/‖h‖)² = 1 is off by up to 2.2e-4 in
            one direction, and by 1e-5 in three.
    """

    fluctuation: float = 0.5
    spread: float = 1.6
    saturation: float = 0.13
    largest_share: float = 0.4
    integration: float = 2.5e-4


def field_of_normalized(method: NormalizedSGD) -> Field | None:
    """Return the field of normalized SGD, None with momentum, which can only be simulated."""
    return None if method.momentum else NormalizedField()


def _largest(share: Any) -> Any:
    """Return the indices of the largest shares in a compiled step."""
    from jax.lax import top_k

    return top_k(share, min(MOST_SIDED, share.size))[1]


@dataclass(frozen=True)
class NormalizedField(Field):
    """Step of normalized SGD, `w ← w − γ g/‖g‖`.

    A direction that makes up much of ‖g‖ jumps to and fro at a distance A from its optimum. It is no Gaussian about 0:
    then ‖g‖ would often be small, and all other steps large. A direction and its mirror image behave the same, and so u
    is ±A and a Gaussian beside it, `A² = a² + b`: values are E u = a, Var u = r, and its part b.
    """

    first = first_compiled = 128.0
    # Where panels fail, and a search repeats them, compiled steps are sooner done: with 64 searches took 1.3 times as
    # long, with 512 as long.
    shortest_compiled = 256.0
    compiled_from = 32.0
    # Smaller batch sizes have rules of χ of their own, each of which takes a second to compile, and few single steps.
    compiled_batch = 16.0
    # Two sides begin and end at corners, which longer panels smooth: with 1e-2 risks of two problems were off by up to
    # 2e-4, with this by 1.3e-5, in 3% more time.
    rough_tail = 1e-3
    # Each risk of 65 to 256 steps takes 30 times as long as one of signs: narrow minima, which are up to 1% lower, are
    # left alone there.
    jagged = 64.0
    in_loss_alone = False
    factors = NormalizedErrorFactors()

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Return the errors of the closure, which is wrong where T fluctuates.

        It is wrong too where the fluctuations of one direction make up much of ‖g‖. The scatter is a difference of
        integrals: where steps are as good as certain, only the errors of these are left of it.
        """
        share = shares(ensemble, values, loss, known.batch)
        given = _directions(ensemble, values, loss, known)
        largest = np.max(known.batch * ensemble.root**2 * np.maximum(values[VARIANCE], 0.0), axis=-1, keepdims=True)
        factors = self.factors
        pull = factors.fluctuation * share.fluctuation + factors.spread * share.spread**2
        pull = pull + factors.saturation * share.saturated
        pull = pull + factors.largest_share * np.minimum(largest / given.size, 1.0) ** 2
        mean = means(ensemble, given, Integrals(*known.together))
        uncertain = np.maximum(mean.square - given.signal * mean.gain**2, TINY)
        scatter = np.minimum(factors.integration * mean.square / uncertain, LARGEST_SCATTER_ERROR)
        return Closure(pull, scatter, np.zeros_like(pull), np.zeros_like(pull))

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the rules of χ, nodes and weights (P, M)."""
        return chi_rules(batch, NODES_BY_BATCH)

    def compiled_table(self, ensemble: Ensemble, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the nodes y of these steps."""
        return (np.tile(y_nodes(ensemble, batch.max()), (len(batch), 1)),)

    def totals(self, ensemble: Ensemble) -> np.ndarray:
        """Return the weights of R, and of the part of `‖h‖²` that is signal."""
        xp = ensemble.multiplicity.__array_namespace__()
        return xp.stack([ensemble.multiplicity, ensemble.multiplicity * ensemble.root**2])

    def start(self, ensemble: Ensemble) -> np.ndarray:
        """Return the values at w_0."""
        return np.stack([ensemble.start, np.zeros_like(ensemble.start), np.zeros_like(ensemble.start)])

    def together(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known
    ) -> tuple[np.ndarray, ...]:
        """Return `Integrals`, by which all directions act on each one."""
        return integrals(ensemble, _directions(ensemble, values, loss, known))

    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the change of the values, (3, P, K)."""
        xp = values.__array_namespace__()
        given = _directions(ensemble, values, loss, known)
        mean = means(ensemble, given, Integrals(*known.together))
        step = known.rate * ensemble.root**2
        gain = step * mean.gain
        scatter = step**2 * xp.maximum(mean.square - given.signal * mean.gain**2, 0.0)
        sides = given.signal - values[MEAN] ** 2
        # The Gaussian part follows its own slope; the two sides move as a mean does, by the gain.
        variance = scatter - 2 * step * mean.slope * given.spread - gain * (2 - gain) * sides
        mean_square = (1 - gain) ** 2 * given.signal
        square = (1 - gain) ** 2 * values[MEAN] ** 2 + xp.maximum(values[VARIANCE] + variance, 0.0)
        sided = self._new_sides(ensemble, given, known, mean_square, square) - gain * (2 - gain) * sides
        limited = xp.clip(sided, -sides, values[VARIANCE] + variance - sides)
        # A direction and its mirror image behave the same: a mean that changes its sign in every step, which no
        # polynomial in the step number does, keeps it on panels (see `turning`).
        kept = abs(1 - gain) if known.smooth else 1 - gain
        return xp.stack([(kept - 1) * values[MEAN], variance, limited])

    def _new_sides(
        self, ensemble: Ensemble, given: Directions, known: Known, mean_square: np.ndarray, square: np.ndarray
    ) -> np.ndarray:
        """Return by how much A² exceeds (E u)² of one side, (P, K): by the fourth moment, as steps are not linear."""
        xp = square.__array_namespace__()
        share = known.batch * ensemble.root**2 * (given.signal + given.spread) / given.size
        # A mode that stands for several directions has small ones, which keep one side.
        large = (share > LEAST_SHARE) & (ensemble.multiplicity <= 1)
        anywhere = large.max(axis=0)
        chosen = np.flatnonzero(anywhere) if xp is np else _largest(xp.where(large, share, 0.0)[0])
        if not chosen.size:
            return xp.zeros_like(square)
        sides = xp.maximum(two_sided(ensemble, given, Integrals(*known.together), known.rate, chosen), 0.0)
        counts = 1 / (1 + (HALF_SHARE / xp.maximum(share[:, chosen], TINY)) ** 4)
        soft = sides / xp.sqrt(sides + SOFT_SIDES)
        excess = counts * (square[:, chosen] * soft - mean_square[:, chosen]) * anywhere[chosen]
        return excess @ (chosen[:, None] == np.arange(square.shape[1]))

    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return 1 − `Cov(u, Δu)`/Var u, of the two sides and of the Gaussian part together."""
        xp = values.__array_namespace__()
        given = _directions(ensemble, values, loss, known)
        mean = means(ensemble, given, Integrals(*known.together))
        sides = (given.signal - values[MEAN] ** 2) / xp.maximum(values[VARIANCE], TINY)
        pull = sides * mean.gain + (1 - sides) * mean.slope
        return (1 - known.rate * ensemble.root**2 * pull)[None, None]

    def turning(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the factor 1 − gain of means that change their sign in a step, and 0 of others, (P, K)."""
        given = _directions(ensemble, values, loss, known)
        gain = known.rate * ensemble.root**2 * means(ensemble, given, Integrals(*known.together)).gain
        return np.minimum(1 - gain, 0.0)

    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """Return r."""
        return values[VARIANCE : VARIANCE + 1]

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Return the scales of a, r and b."""
        size = second_moment(values[MEAN], values[VARIANCE])
        return np.stack([np.sqrt(size), size, size])


def _directions(ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Directions:
    """Return the directions with A² in the place of a² and r − b in that of r."""
    xp = values.__array_namespace__()
    sides = xp.clip(values[SIDES], 0.0, values[VARIANCE])
    total = loss[:, :1]
    pull = loss[:, 1:]
    size = mean_square(ensemble, total, pull, known.batch)
    signal, spread = values[MEAN] ** 2 + sides, values[VARIANCE] - sides
    chi, chi_weight, *y = known.table
    return Directions(signal, spread, total, pull, known.batch, size, chi, chi_weight, *(y or [np.empty((1, 0))]))
