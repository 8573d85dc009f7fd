"""Profile likelihood of fitted numbers, and of what follows from them, where residuals are correlated along curves."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sgdtheory.curves.row_covariance import RowCovariance, largest_eigenvalue
from sgdtheory.curves.valley import Held, Rows, Valley, least, repeated

UNRESOLVED = float(np.log(20.0))  # An end that is farther from the estimate than this, in logs, is open.
ROUNDS = 12  # The search for ends stops after this many rounds.
CLOSE = 0.02  # An end is found where √w is within this fraction of the quantile.
# The search stops at a bracket narrower than this fraction of the distance, as √w jumps where a bound is met.
NARROW = 0.005
STRIDE = 2.5  # Until the end is passed, each distance is at most this many times the one before.
FARTHEST = 50.0  # The first distance is at most this, even for a combination that the data hardly determine.
ON_THE_WAY = 0.3, 0.6, 1.0  # The fit at a given value stops at these fractions of the way, each the start of the next.
SMALLEST = 1e-9  # The first distance, and the divisors of the search, are at least this.
FLAT = 1e-12  # Eigenvalues of the scaled JᵀJ below this fraction of the largest count as 0.
ATTAINED = 1e-6  # A search that misses its held value by more than this goes no farther.


class Ends(NamedTuple):
    """Ends of T linear functions of the coordinates: (T, P) points, and (T,) whether the rows determine that end."""

    points: np.ndarray
    known: np.ndarray


class AbstractConfidenceSet(ABC):
    """Coordinates that fit about as well as the best, with the points where linear functions of them end.

    Attributes:
        best: (P,) the coordinates found.
    """

    best: np.ndarray

    @abstractmethod
    def ends(self, normal: np.ndarray, limit: float = UNRESOLVED) -> Ends:
        """Return where T functions `normal · θ`, (T, P), end; an end is not known from `limit` away from the best."""


@dataclass(frozen=True, eq=False)
class LinearSet(AbstractConfidenceSet):
    """Confidence set of losses that are linear in the coordinates: `θ = θ̂ + t V g/√(gᵀVg)`.

    Attributes:
        best: (P,) θ̂.
        covariance: (P, P) V.
        quantile: t.
    """

    best: np.ndarray
    covariance: np.ndarray
    quantile: float

    def ends(self, normal: np.ndarray, limit: float = UNRESOLVED) -> Ends:
        """Return the ends by the formula."""
        pull = normal @ self.covariance
        error = np.sqrt(np.maximum((normal * pull).sum(-1), 0.0))
        points = self.best + self.quantile * pull / np.where(error > 0, error, 1.0)[:, None]
        return Ends(points, self.quantile * error < limit)


@dataclass(frozen=True, eq=False)
class ProfileSet(AbstractConfidenceSet):
    """Confidence set by profile likelihood (THEORY.md T34).

        w(c) = [S(c) − S] / κ,   S(c) = min over g·θ = c of Σ r²,   κ = gᵀ B JᵀCJ B g / gᵀ B g,   B = (JᵀJ)⁻¹

    J and κ are those at the constrained optimum. Rows count alike in S, as in the fit; κ is what a row of independent
    ones would need for a variance to let g·θ vary as much as correlated ones do. c is inside where √w is at most the
    quantile of Student's t. Where losses are linear in the coordinates this is `LinearSet`.

    Attributes:
        rows: that were fitted: without spikes, and what lies far off as near as the fit takes it to be.
        best: (P,) the coordinates found.
        row_covariance: C, whose products with columns are asked.
        linear: the set of the linear law there, where the search starts.

    Reference:
        Chandler & Bate 2007; Pace, Salvan & Sartori 2011: likelihoods that take rows as independent, to scale.
    """

    rows: Rows
    best: np.ndarray
    row_covariance: RowCovariance | np.ndarray
    linear: LinearSet

    @cached_property
    def squares(self) -> float:
        """S at the coordinates found."""
        return float(((self.rows.target - self.rows.predicted(self.best[None])[0]) ** 2).sum())

    @cached_property
    def widest(self) -> float:
        """The largest variance of a combination of rows."""
        return largest_eigenvalue(self.row_covariance, self.rows.target.size)

    def ends(self, normal: np.ndarray, limit: float = UNRESOLVED) -> Ends:
        """By the line through the last two points of √w, which is about linear in c, and between them once passed."""
        middle = normal @ self.best
        first = (normal * self.linear.ends(normal).points).sum(-1) - middle
        begin = _Search.begin(np.clip(np.nan_to_num(first), SMALLEST, min(limit, FARTHEST)), self.best)

        def attempt(state: _Search, active: np.ndarray) -> _Search:
            held = Held(normal[active], middle[active] + state.reach)
            found = least(self.rows, state.start, held)
            depth = self._depth(found, held.normal) / self.linear.quantile
            stopped = (np.abs(held.missing(found.points)) > ATTAINED) | (state.reach >= limit)
            return state.tried(found.points, depth, stopped, limit)

        found = repeated(attempt, begin, ROUNDS)
        return Ends(found.points, found.known)

    def depth_at(self, normal: np.ndarray, value: np.ndarray) -> np.ndarray:
        """(T,) √w over the quantile where `normal · θ` has a value: at most 1 inside the set."""
        middle = normal @ self.best
        points = np.repeat(self.best[None], len(value), 0)
        for share in ON_THE_WAY:
            found = least(self.rows, points, Held(normal, middle + share * (value - middle)))
            points = found.points.copy()
        return self._depth(found, normal) / self.linear.quantile

    def _depth(self, found: Valley, normal: np.ndarray) -> np.ndarray:
        """(T,) √w at constrained optima."""
        return np.sqrt(np.maximum(found.squares - self.squares, 0.0) / self._row_variance(found, normal))

    def _row_variance(self, found: Valley, normal: np.ndarray) -> np.ndarray:
        """(T,) κ at constrained optima; coordinates at an end of their range do not move."""
        inside = (found.points > self.rows.low) & (found.points < self.rows.high)
        size = np.where(inside, np.linalg.norm(found.slopes, axis=1), 0.0)
        unit = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
        slopes = found.slopes * unit[:, None, :]
        bread = np.linalg.pinv(slopes.transpose(0, 2, 1) @ slopes, rcond=FLAT, hermitian=True)
        along = np.einsum("tnp,tpq,tq->tn", slopes, bread, normal * unit)  # J B g: gᵀBg is its square
        alone = (along**2).sum(-1)
        together = (along * (self.row_covariance @ along.T).T).sum(-1)
        if (alone > 0).all():
            return together / alone
        widest = np.full_like(alone, self.widest)  # where the rows no longer tell the number
        return np.divide(together, alone, out=widest, where=alone > 0)


class _Search(NamedTuple):
    """State of the search for T ends.

    It has (T,) distances to try, the farthest inside and nearest outside with √w over the quantile there, (T, P) points
    to start from and points tried last; (T,) whether the last try was inside, whether done, and whether the rows
    determine the end.
    """

    reach: np.ndarray
    inside: np.ndarray
    inside_depth: np.ndarray
    outside: np.ndarray
    outside_depth: np.ndarray
    start: np.ndarray
    points: np.ndarray
    was_in: np.ndarray
    done: np.ndarray
    known: np.ndarray

    @classmethod
    def begin(cls, reach: np.ndarray, best: np.ndarray) -> "_Search":
        """Return the state of a search that begins at the best coordinates."""
        none = np.zeros_like(reach)
        every = np.repeat(best[None], reach.size, 0)
        never = np.full_like(reach, np.inf)
        false = np.zeros(reach.size, dtype=bool)
        return cls(reach, none, none.copy(), never, never.copy(), every, every.copy(), ~false, false, ~false)

    def tried(self, points: np.ndarray, depth: np.ndarray, stopped: np.ndarray, limit: float) -> "_Search":
        """Return the state after a try at `reach`; `stopped` marks ends that go no farther."""
        is_in = depth < 1
        rise = np.where(depth > self.inside_depth, depth - self.inside_depth, SMALLEST)
        rise = np.maximum(rise / np.maximum(self.reach - self.inside, SMALLEST), SMALLEST)
        # of an end of the bracket that stays once more half is believed: depths are bent (Illinois)
        again = np.isfinite(self.outside) & (is_in == self.was_in)
        inside = np.where(is_in, self.reach, self.inside)
        inside_depth = np.where(is_in, depth, np.where(again, (1 + self.inside_depth) / 2, self.inside_depth))
        outside = np.where(is_in, self.outside, self.reach)
        outside_depth = np.where(is_in, np.where(again, (1 + self.outside_depth) / 2, self.outside_depth), depth)
        onwards = np.minimum(np.minimum(inside + (1 - inside_depth) / rise, STRIDE * self.reach), limit)
        passed = np.isfinite(outside)
        gap = np.where(passed, outside - inside, 0.0)
        climb = np.where(np.isfinite(outside_depth), outside_depth, 2.0) - inside_depth
        between = inside + np.clip((1 - inside_depth) / climb, 0.1, 0.9) * gap
        known = ~(is_in & stopped)
        narrow = passed & (gap < NARROW * inside)
        done = ~known | (np.abs(depth - 1) < CLOSE) | narrow
        start = np.where(is_in[:, None], points, self.start)
        points = np.where(narrow[:, None], start, points)
        reach = np.where(passed, between, onwards)
        return _Search(reach, inside, inside_depth, outside, outside_depth, start, points, is_in, done, known)
