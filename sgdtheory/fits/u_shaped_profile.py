"""Numerics of `Y = a + b/B + c/B²`: least squares in logs, and ranges over all laws that fit about as well as the best.

The fit is of a sum of terms, `log Y = log(Σ_j θ_j φ_j(B))` with θ ≥ 0, of many problems at once. With residuals
r = log Y − log f and shares J_ij = φ_ij/f_i the Hessian of ½Σ w r² is `Σ_i w_i (1 + r_i) J_i J_iᵀ`: where the law is
nowhere above the steps by a factor of e, a convex set of θ, the sum of squares is convex. Its least value there is the
least of all if it is below min w, since elsewhere one residual alone makes as much (THEORY.md T43). A Newton step is a
quadratic programme in three numbers that are not negative: the best of its seven faces, each solved directly, so that a
term that does not help is 0 exactly.

The confidence set is `RSS ≤ RSS_min + F_{1,f} s²`, as of `profile_likelihood`. A value q of a quantity lies in its
range if the least RSS of laws with that value is within the limit. With B_opt = q the law is `a (1 + q²/B²) + b/B`, two
terms again; a number of the law, or its steps at one B, is a linear condition; with an end of the useful range at q,
B_opt alone is free. The set is convex where no law in it lies above the steps by a factor of e, so that the values
within the limit form one interval; the outermost ones on a grid are taken all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.profile_likelihood import EXACT_FIT, WIDEST
from sgdtheory.fits.searches import golden_section


def log_least_squares(
    log_steps: np.ndarray,
    terms: np.ndarray,
    weights: np.ndarray,
    starts: np.ndarray,
    along: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The lowest points of `Σ_i w_i (log Y_i − log Σ_j θ_j φ_ij)²` over θ ≥ 0 that are reached from the starts.

    Args:
        log_steps: (R, m), or (m,) for all, log Y.
        terms: (R, m, k), or (m, k) for all, φ ≥ 0.
        weights: (m,) w.
        starts: (R, k) θ, with a positive sum of terms everywhere.
        along: (R, k), or (k,) for all, h ≥ 0: h·θ is kept as the start has it; None: θ is free.

    Returns:
        (θ, sum of squares), (R, k) and (R,).
    """
    terms = np.broadcast_to(terms, (len(starts), *np.shape(terms)[-2:]))
    unit = (terms * np.exp(-log_steps)[..., None]).max(-2)  # θ in units of what is seen of a term where it is largest
    unit = np.where(unit > 0, unit, 1.0)
    terms = terms / unit[:, None]
    theta = starts * unit
    border = None if along is None else along / unit
    squares = _squares(log_steps, terms, weights, theta)
    # Outside of the convex region a whole step may lead uphill. Shorter ones are tried too, and the lowest counts.
    parts = 0.5 ** np.array([0, 1, 2, 3, 5, 8, 12, 20])[:, None]
    for _ in range(60):  # Newton's method takes about eight steps.
        wanted = _newton(log_steps, terms, weights, theta, border)
        tried = theta[:, None] + parts * (wanted - theta)[:, None]
        values = _squares(log_steps[..., None, :], terms[:, None], weights, tried)
        best = values.argmin(1)
        rows = np.arange(len(theta))
        lower = values[rows, best] < squares
        gained = np.where(lower, squares - values[rows, best], 0.0)
        theta = np.where(lower[:, None], tried[rows, best], theta)
        squares = np.where(lower, values[rows, best], squares)
        if (gained <= 1e-15 * squares).all():
            break
    return theta / unit, squares


def _squares(log_steps: np.ndarray, terms: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        rest = log_steps - np.log((terms @ theta[..., None])[..., 0])
    return (weights * rest**2).sum(-1)


def _newton(
    log_steps: np.ndarray, terms: np.ndarray, weights: np.ndarray, theta: np.ndarray, along: np.ndarray | None
) -> np.ndarray:
    """(R, k) the least of the quadratic model about θ over θ' ≥ 0: the best of its faces that is feasible."""
    value = (terms @ theta[..., None])[..., 0]
    rest = log_steps - np.log(value)
    shares = terms / value[..., None]
    # A point far below the law has a negative weight 1 + r, with which the Hessian need not be positive.
    hessian = (shares * (weights * np.maximum(1 + rest, 0.1))[..., None]).swapaxes(-1, -2) @ shares
    slope = ((weights * rest)[..., None] * shares).sum(-2) + (hessian @ theta[..., None])[..., 0]
    found = _on_faces(hessian, slope, theta, along)
    model = (found * (0.5 * (found @ hessian) - slope[:, None])).sum(-1)
    model = np.where((found >= 0).all(-1), model, np.inf)  # nan is not
    return np.take_along_axis(found, model.argmin(1)[:, None, None], 1)[:, 0]


def _on_faces(hessian: np.ndarray, slope: np.ndarray, theta: np.ndarray, along: np.ndarray | None) -> np.ndarray:
    """(R, faces, k) the stationary point with some terms alone, the others at 0; nan where there is none."""
    terms = theta.shape[1]
    faces = np.array([face for face in product((False, True), repeat=terms) if any(face)])
    # A term that is 0 has the equation θ = 0, and a condition has its multiplier as the last unknown.
    size = terms if along is None else terms + 1
    matrix = np.broadcast_to(np.eye(size), (len(theta), len(faces), size, size)).copy()
    right = np.zeros((len(theta), len(faces), size))
    both = faces[:, :, None] & faces[:, None, :]
    matrix[..., :terms, :terms] = np.where(both, hessian[:, None], np.eye(terms))
    right[..., :terms] = np.where(faces, slope[:, None], 0.0)
    if along is not None:
        along = np.broadcast_to(along, theta.shape)
        border = np.where(faces, along[:, None], 0.0)
        # On a face without any term of the condition it cannot hold: nan, so that the face is never the best.
        held = np.any(border > 0, axis=-1)
        matrix[..., :terms, terms] = matrix[..., terms, :terms] = border
        matrix[..., terms, terms] = ~held
        right[..., terms] = np.where(held, (along * theta).sum(-1)[:, None], np.nan)
        right[..., :terms] = np.where(held[..., None], right[..., :terms], np.nan)
    return _solve(matrix, right)[..., :terms]


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions, nan of systems that are singular."""
    try:
        return np.linalg.solve(matrix, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        singular = np.linalg.matrix_rank(matrix) < matrix.shape[-1]
        matrix = np.where(singular[..., None, None], np.eye(matrix.shape[-1]), matrix)
        return np.where(singular[..., None], np.nan, np.linalg.solve(matrix, right[..., None])[..., 0])


def below(log_steps: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """(…, k) θ of a sum that is nowhere above the steps, each term as large as it may be over k: a start."""
    with np.errstate(divide="ignore"):
        log_most = (log_steps[..., None] - np.log(terms)).min(-2)
    return np.exp(log_most) / terms.shape[-1]


QUANTITIES = "critical_batch_size", "smallest_batch_size", "optimal_batch_size", "a", "b", "c"
OPTIMUM_WIDEST = 12.0  # This is `WIDEST` for B_opt, of which the data show the square.

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
