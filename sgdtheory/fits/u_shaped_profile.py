"""Profile likelihood of `Y = a + b/B + c/B²`: the range of a quantity over all laws that fit about as well as the best.

The confidence set is `RSS ≤ RSS_min + F_{1,f} s²`, as of `profile_likelihood`. A value q of a quantity lies in its
range if the least RSS of laws with that value is within the limit. With B_opt = q the law is `a (1 + q²/B²) + b/B`, two
terms again; a number of the law, or its steps at one B, is a linear condition; with an end of the useful range at q,
B_opt alone is free. The set is convex where no law in it lies above the steps by a factor of e (`log_least_squares`),
so that the values within the limit form one interval; the outermost ones on a grid are taken all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.log_least_squares import below, log_least_squares
from sgdtheory.fits.profile_likelihood import EXACT_FIT, WIDEST
from sgdtheory.fits.searches import golden_section

QUANTITIES = "critical_batch_size", "smallest_batch_size", "optimal_batch_size", "a", "b", "c"
OPTIMUM_WIDEST = 12.0  # As `WIDEST` for B_opt: the data show its square.

Least = Callable[[np.ndarray], np.ndarray]  # (R,) values of log q → (R,) the least sum of squares there


def terms_at(batch_size: np.ndarray) -> np.ndarray:
    """(…, 3) 1, 1/B, 1/B²."""
    inverse = 1 / np.asarray(batch_size, dtype=float)
    return np.stack([np.ones_like(inverse), inverse, inverse**2], -1)


@dataclass(frozen=True, eq=False)
class ConfidenceSet:
    """The laws with `Σ w r² ≤ limit`.

    Attributes:
        batch_sizes, log_steps, weights: (m,) the measurements, and how much each counts.
        best: (3,) a, b, c of the best law.
        limit: of the sum of squares.
    """

    batch_sizes: np.ndarray
    log_steps: np.ndarray
    weights: np.ndarray
    best: np.ndarray
    limit: float

    def range_of(self, quantity: str, estimate: float, convention: Convention) -> tuple[float, float]:
        """(low, high) of a quantity of `QUANTITIES`."""
        low = np.log(self.batch_sizes.min())
        high = np.log(self.batch_sizes.max())
        if quantity == "optimal_batch_size":
            return self._ends(self._least_with_optimum, estimate, low - OPTIMUM_WIDEST, high + OPTIMUM_WIDEST)
        if quantity in ("critical_batch_size", "smallest_batch_size"):
            upper = quantity == "critical_batch_size"
            least = partial(
                self._least_with_end,
                reference=convention.reference_among(self.batch_sizes),
                overhead=convention.overhead,
                upper=upper,
            )
            return self._ends(least, estimate, low - WIDEST, high + WIDEST)
        place = ("a", "b", "c").index(quantity)
        at = self.log_steps + place * np.log(self.batch_sizes)  # the number, were the rest 0
        return self._ends(self._least_with(np.eye(3)[place]), estimate, at.min() - WIDEST, at.max() + WIDEST)

    def range_of_steps(self, batch_size: float) -> tuple[float, float]:
        """(low, high) of the steps at a batch size."""
        along = terms_at(np.array(batch_size))
        log_steps = float(np.log(along @ self.best))
        return self._ends(self._least_with(along), float(np.exp(log_steps)), log_steps - WIDEST, log_steps + WIDEST)

    def _least_with(self, along: np.ndarray) -> Least:
        """Return the least sum of squares of laws with h·(a, b, c) = q."""

        def least(log_values: np.ndarray) -> np.ndarray:
            values = np.exp(log_values)[:, None]
            one = np.count_nonzero(along) == 1  # of the three numbers: the others start at their best
            starts = np.where(along > 0, values, self.best) if one else self.best * values / (along @ self.best)
            terms = terms_at(self.batch_sizes)
            return log_least_squares(self.log_steps, terms, self.weights, starts, along)[1]

        return least

    def _least_with_optimum(self, log_values: np.ndarray) -> np.ndarray:
        """Return the least sum of squares of laws with B_opt = q: a (1 + q²/B²) + b/B."""
        inverse = 1 / self.batch_sizes
        first = 1 + (np.exp(log_values)[:, None] * inverse) ** 2
        terms = np.stack([first, np.broadcast_to(inverse, first.shape)], -1)
        return log_least_squares(self.log_steps, terms, self.weights, below(self.log_steps, terms))[1]

    def _least_with_end(self, log_values: np.ndarray, *, reference: float, overhead: float, upper: bool) -> np.ndarray:
        """Return the least sum of squares of laws whose useful range ends at q, over B_opt (grid, golden section).

        With r = B_opt and R = max{r, B_ref} the condition is `b/a = (q + r²/q − (1 + ω)(R + r²/R))/ω ≥ 0`.
        """
        values = np.exp(log_values)[:, None]

        def squares(log_optimum: np.ndarray) -> np.ndarray:
            optimum = np.exp(log_optimum)
            start = np.maximum(optimum, reference)
            ratio = (values + optimum**2 / values - (1 + overhead) * (start + optimum**2 / start)) / overhead
            wrong = (ratio < 0) | ((values > optimum) != upper)
            inverse = 1 / self.batch_sizes
            shape = 1 + (np.maximum(ratio, 0.0)[..., None] + optimum[..., None] ** 2 * inverse) * inverse
            rest = self.log_steps - np.log(shape)
            rest = rest - (rest @ self.weights)[..., None] / self.weights.sum()
            return np.where(wrong, np.inf, (self.weights * rest**2).sum(-1))

        ends = _optima(values[:, 0], reference, overhead, upper, self.batch_sizes)
        # Only some B_opt have laws with an end at q, and others are inf: a grid finds the bracket of the least first.
        grid = ends[0][:, None] + np.linspace(0, 1, 121) * (ends[1] - ends[0])[:, None]
        found = squares(grid)
        place = found.argmin(1)[:, None]
        low = np.take_along_axis(grid, np.maximum(place - 1, 0), 1)
        high = np.take_along_axis(grid, np.minimum(place + 1, grid.shape[1] - 1), 1)
        return np.minimum(found.min(1), squares(golden_section(squares, low, high))[:, 0])

    def _ends(self, least: Least, estimate: float, lowest: float, highest: float) -> tuple[float, float]:
        """exp of the outermost log q within the limit; 0 or inf where an end of the range counts as such."""
        with np.errstate(divide="ignore"):
            centre = float(np.clip(np.log(estimate), lowest, highest))
        # Intervals may be as narrow as 1e-6 or as wide as the range: points lie ever closer around the estimate.
        away = np.geomspace(1e-6, highest - lowest, 41)
        grid = np.concatenate([np.linspace(lowest, highest, 61), centre - away, centre + away, [centre]])
        grid = np.unique(grid[(grid >= lowest) & (grid <= highest)])
        limit = self.limit + EXACT_FIT
        inside = np.flatnonzero((least(grid) <= limit) | (grid == centre))
        low = 0.0
        high = float("inf")
        if inside[0] > 0:
            low = self._crossing(least, grid[inside[0] - 1 : inside[0] + 1][::-1], limit)
        if inside[-1] < grid.size - 1:
            high = self._crossing(least, grid[inside[-1] : inside[-1] + 2], limit)
        return min(low, estimate), max(high, estimate)

    @staticmethod
    def _crossing(least: Least, ends: np.ndarray, limit: float) -> float:
        """The value between two log q, one within the limit and one beyond it, at which it is reached."""
        # Many values at once cost little more than one: four cuts into 32 parts are 20 bisections.
        for _ in range(4):
            cuts = np.linspace(ends[0], ends[1], 32 + 1)
            first = int(np.append(least(cuts[1:-1]) > limit, True).argmax())
            ends = cuts[first : first + 2]
        return float(np.exp(ends.mean()))


def _optima(
    values: np.ndarray, reference: float, overhead: float, upper: bool, batch_sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest log B_opt, (R,) each, of laws with an end of the useful range at q; b = 0 at one of them.

    There `q + r²/q = (1 + ω)(R + r²/R)`: `r = q e^{∓z}`, `cosh z = 1 + ω`, for R = r, a square root for R = B_ref > r.
    """
    lowest = np.log(batch_sizes.min()) - OPTIMUM_WIDEST
    highest = np.log(batch_sizes.max()) + OPTIMUM_WIDEST
    reach = np.arccosh(1 + overhead)
    own = np.log(values) - reach if upper else np.log(values) + reach
    larger = (1 + overhead) * reference
    with np.errstate(divide="ignore", invalid="ignore"):
        square = (values - larger) / (larger / reference**2 - 1 / values)
        given = np.log(square) / 2
    given = np.where(given < np.log(reference), given, own)  # nan, where there is none, is not
    at_reference = own < np.log(reference)
    edge = np.clip(np.where(at_reference, given, own), lowest, highest)
    low, high = (np.full_like(edge, lowest), edge) if upper else (edge, np.full_like(edge, highest))
    return low, high
