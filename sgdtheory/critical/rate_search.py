"""A global search for the least risk over the learning rate, for many pairs of batch size and steps at once.

A coarse grid of γ is cut where less risk may hide, and the minima that it shows are refined by polynomials. No minimum
is followed from one pair to the next: every round is one bulk call of the risk.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from sgdtheory.critical.quartics import FITTED, Quartics, quartics

# The points of the first grid are this far apart in log γ below half of the range's end; narrower basins are found by
# cutting.
SPACING = np.log(10) / 2
# In this share of the range next to its end, a risk that does not resonate has no features but a pole.
SMOOTH_SCALE = 0.05
# Where steps resonate, the first grid ends with these distances from its end: minima there are at least 14/9 apart.
FINE_GRID = 0.3 * np.arange(-9.0, 1)
# Where steps do not resonate, the first grid ends with these: where the peak of a schedule passes the threshold, the
# risk rises there like a wall.
WALL_GRID = 0.15 * np.arange(-4.0, 1)
# A risk of the grid may have this relative error, unless another one is given. The grid decides only which minima are
# refined.
GRID_ERROR = 1e-5
# A minimum is settled where a polynomial promises a log risk lower by no more than this; γ is then known to about 1e-4.
SETTLED = 1e-9
# A point nearer to the grid than this share of its bracket does not test a polynomial, which was made from the grid.
UNTESTED = 0.1
UNEVEN = 10.0  # If one side of a bracket is more than this many times as wide as the other, both are narrowed apart.
# The end of the range is the lowest if a quartic falls towards it and is off by at most this share of its slope. With 1
# a dip 1e-5 before the end was missed, after four steps of 204,456 samples.
SLOPE_DOUBT = 0.1
# A minimum is taken as it is after this many rounds; three settle a minimum that is a function of log γ.
MOST_ROUNDS = 20
# A least risk that exceeds the asked one by more than this factor is not computed once more without an error, and where
# a bound does, no risk of the pair is computed.
HOPELESS = 3.0
# At most this many minima of a pair are refined. Where the risk oscillates with γ there are hundreds on the grid.
MOST_MINIMA = 6
# A minimum above the goal has to be known to this share of its height in log Δ, because less will do far above it.
FAR_FROM_GOAL = 1e-3
WINDOW = np.log(3.0)  # Risks are low where log Δ is less than this above the least one, or above the goal.
# After more steps than this the risk at the edge itself is lost to rounding: 1e18 steps without noise seemed to leave a
# seventh of the least risk.
MOST_RESOLVED_STEPS = 1e12
LEAST_GAP = 1e-9  # After more than MOST_RESOLVED_STEPS steps γ keeps this relative distance to the edge.
# Positions nearer to each other than this are one point of the grid.
SAME_POSITION = 1e-9
LEAST_RISK = 1e-300  # A smaller risk counts as this in logarithms: a run without noise may end at 0.

RiskOf = Callable[[np.ndarray, np.ndarray, float], np.ndarray]  # of γ, the index of a pair, and the error allowed


class Tuned(NamedTuple):
    """The best γ, the risk that it attains, and the γ between which the risk is low. Arrays (P,)."""

    rate: np.ndarray
    risk: np.ndarray
    low: np.ndarray
    high: np.ndarray


class RateSearch:
    """log Δ of P pairs (B, n) at more and more positions of γ.

    A position x stands for `γ/edge = (1 + 1/n) / (1 + e^−x)`: log(γ/edge) for small γ, −log(1 − γ/edge) near the edge,
    where directions that overshoot give the risk features down to 1 − γ/edge ≈ 1/n. The edge itself is at x = log n.

    Args:
        risk: Δ of γ and the index of a pair.
        edge: (P,) ends of the range of γ.
        steps: (P,) n.
        resonant: (P,) whether the risk may have features as narrow as 1/n of the edge.
        steepest: the largest slope of log Δ against x that is reckoned with.
        finest: an interval this narrow hides no minimum.
        rough_rounds: in how many rounds minima are looked for with an error of `GRID_ERROR`. An error ε that changes
            with γ within a bracket's width h moves a minimum of curvature c by ε/hc, and adds ε²/2h²c to its log risk:
            1e-9 where it is as large as allowed. The rounds that follow are exact, for minima that errors hide.
        grid_error: relative error that risks of the grid may have.

    Attributes:
        pair, position: (G,) the grid, sorted by pair and position.
        value, error: (G,) log Δ, and the error that it may have.
        slope_error: (G,) by how much a model was off that was tested there, over the distance to its own points.
    """

    def __init__(
        self,
        risk: RiskOf,
        edge: np.ndarray,
        steps: np.ndarray,
        resonant: np.ndarray,
        steepest: float,
        finest: float,
        rough_rounds: int = 0,
        grid_error: float = GRID_ERROR,
    ) -> None:
        self.risk = risk
        self.edge = edge
        # A single step leaves the risk as it is, whatever γ.
        self.scale = np.maximum(1 / np.maximum(steps, 2.0), np.where(resonant, 0.0, SMOOTH_SCALE))
        self.end = -np.log(self.scale)
        self.most = np.where(steps > MOST_RESOLVED_STEPS, 1 - LEAST_GAP, 1.0)  # share of the edge
        self.resonant = resonant
        self.steepest = steepest
        self.finest = finest
        self.rough_rounds = rough_rounds
        self.grid_error = grid_error
        self.pair: np.ndarray = np.empty(0, dtype=int)
        self.position: np.ndarray = np.empty(0)
        self.value: np.ndarray = np.empty(0)
        self.error: np.ndarray = np.empty(0)
        self.slope_error: np.ndarray = np.empty(0)

    def at(self, rate: np.ndarray, pair: np.ndarray) -> np.ndarray:
        """Return the positions of learning rates."""
        share = np.minimum(rate / self.edge[pair], 1.0)
        return np.log(share / (1 - share + self.scale[pair]))

    def rate(self, position: np.ndarray, pair: np.ndarray) -> np.ndarray:
        """Return the learning rates at positions."""
        share = (1 + self.scale[pair]) * special.expit(position)
        return self.edge[pair] * np.minimum(share, self.most[pair])

    def log_risk(self, position: np.ndarray, pair: np.ndarray, error: float) -> np.ndarray:
        """Return log Δ at positions."""
        found = self.risk(self.rate(position, pair), pair, error)
        assert not np.isnan(found).any(), "a risk is a number: comparisons with nan would be false ever after"
        return np.log(np.maximum(found, LEAST_RISK))

    def add(self, pair: np.ndarray, position: np.ndarray, error: float | None = None) -> None:
        """Add points to the grid, those that are not there; with the error of a grid if none is given."""
        error = self.grid_error if error is None else error
        old = self.pair.size
        pairs, positions = np.append(self.pair, pair), np.append(self.position, position)
        order = np.lexsort((positions, pairs))
        there = (np.diff(pairs[order]) == 0) & (np.diff(positions[order]) < SAME_POSITION)
        # The second one of two equal points is dropped, and the grid's own are kept.
        order = order[~np.append(False, there) | (order < old)]
        new = order[order >= old]
        if not new.size:
            return
        values = np.empty(pairs.size)
        values[:old] = self.value
        values[new] = self.log_risk(positions[new], pairs[new], error)
        errors = np.append(self.error, np.full(pair.size, error))
        slopes = np.append(self.slope_error, np.full(pair.size, np.inf))
        self.pair, self.position, self.value, self.error, self.slope_error = (
            each[order] for each in (pairs, positions, values, errors, slopes)
        )

    def _index(self, pair: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the (K,) indices of points that are on the grid."""
        order = np.lexsort((np.append(self.position, position - SAME_POSITION), np.append(self.pair, pair)))
        rank = np.empty(order.size, dtype=int)
        rank[order] = np.arange(order.size)
        new = rank[self.pair.size :]
        return new - np.argsort(np.argsort(new))

    def _starts(self) -> np.ndarray:
        """Return the (P,) indices of the first points of pairs."""
        return np.flatnonzero(np.diff(self.pair, prepend=-1))

    def _ends(self) -> np.ndarray:
        """Return the (P,) indices of the last points of pairs."""
        return np.flatnonzero(np.diff(self.pair, append=self.edge.size))

    def lowest(self) -> np.ndarray:
        """Return the (P,) least log Δ on the grid."""
        return np.minimum.reduceat(self.value, self._starts())

    def begin(self, first: np.ndarray, last: np.ndarray, windowed: np.ndarray) -> None:
        """Compute a first grid of γ between (P,) learning rates, and further on while the risk falls there.

        It is fine where the learning rates are those of a window.
        """
        everything = np.arange(first.size)
        self._begin(everything, first, np.minimum(last, self.edge), windowed)
        tail = self._ends()
        # A window at whose end the risk is lowest was too narrow: go on to the end of the range.
        falling = np.flatnonzero((self.position[tail] < self.end - 1e-9) & (self.value[tail] <= self.lowest()))
        if falling.size:
            self._begin(
                falling, self.rate(self.position[tail], everything)[falling] * 1.01, self.edge[falling], windowed
            )
        while True:
            # The same at its beginning, three points at a time.
            head = self._starts()
            head = head[(self.value[head] <= self.lowest()) & (self.value[head] < self.value[head + 1])]
            if not head.size:
                break
            further = self.position[head][:, None] - SPACING * np.arange(1.0, 4)
            self.add(np.repeat(self.pair[head], 3), further.ravel())

    def _begin(self, pairs: np.ndarray, first: np.ndarray, last: np.ndarray, windowed: np.ndarray) -> None:
        start = np.minimum(self.at(first, pairs), -SPACING)
        grids = []
        for pair, low, high in zip(pairs, start, self.at(last, pairs), strict=True):
            end = float(self.end[pair])
            whole = high >= end - 1e-9
            fine = end + (FINE_GRID if self.resonant[pair] else WALL_GRID)
            top = float(fine[0])
            top = top if whole else float(high)
            # A window is narrow: as fine a grid as cutting would make costs less than the rounds of cutting.
            spacing = self.finest if windowed[pair] else SPACING
            number = max(int(np.ceil((top - float(low)) / spacing)), FITTED - 1)
            below = top - spacing * np.arange(number + 1.0)
            grids.append(np.union1d(below, fine[fine <= high + 1e-9]))
        self.add(np.repeat(pairs, [grid.size for grid in grids]), np.concatenate(grids))

    def cut(self, goal: float) -> None:
        """Halve the intervals in which log Δ may be below the least one of the pair, and below the goal.

        Between two points it falls no more than the steepest slope allows.
        """
        while True:
            width = np.where(np.diff(self.pair) == 0, np.diff(self.position), 0.0)
            bound = (self.value[:-1] + self.value[1:] - self.steepest * width) / 2
            k = np.flatnonzero(
                (width > self.finest * (1 + SAME_POSITION)) & (bound < np.minimum(self.lowest(), goal)[self.pair[1:]])
            )
            if not k.size:
                break
            self.add(self.pair[k], (self.position[k] + self.position[k + 1]) / 2)

    def minima(self) -> np.ndarray:
        """Return the (K,) indices of the local minima of the grid that may be the least of their pair.

        No grid is lowest at its first point.
        """
        inside = np.diff(self.pair) == 0
        left = np.where(np.append(False, inside), np.append(np.inf, self.value[:-1]), np.inf)
        right = np.where(np.append(inside, False), np.append(self.value[1:], np.inf), np.inf)
        drop = 2 * self.steepest * np.where(inside, np.diff(self.position), 0.0)
        # Between neighbours log Δ may fall and rise again by the steepest slope, and be as low as this.
        bound = (self.value + np.minimum(left - np.append(0.0, drop), right - np.append(drop, 0.0))) / 2
        lowest = self.lowest()[self.pair]
        local = (self.value <= left) & (self.value <= right) & np.append(False, inside)
        k = np.flatnonzero(local & ((bound < lowest) | (self.value <= lowest + self.grid_error)))
        k = k[np.lexsort((self.value[k], self.pair[k]))]
        number = np.arange(k.size) - np.searchsorted(self.pair[k], self.pair[k])
        return k[number < MOST_MINIMA]

    def refine(self, log_goal: float, settled: float) -> None:
        """Try the lowest points of quartics about each minimum until these predict what is found there."""
        for number in range(MOST_ROUNDS):
            k = self.minima()
            last = self._ends()[self.pair[k]]
            triple = np.array([k - 1, k, np.minimum(k + 1, last)])
            # Five neighbours, which at an end of the grid lie on one side.
            first = np.clip(k - FITTED // 2, self._starts()[self.pair[k]], last - FITTED + 1)
            five = first + np.arange(FITTED)[:, None]
            curve = quartics(self.position[five], self.value[five], self.position[triple])
            allowed = np.full(k.size, settled)
            if log_goal < np.inf:
                allowed = np.maximum(settled, FAR_FROM_GOAL * np.abs(self.value[k] - log_goal))
            promising = curve.gain > allowed
            wanted = promising | (self._missed(curve, triple) > allowed)
            if not wanted.any():
                break
            error = GRID_ERROR if number < self.rough_rounds else 0.0
            self._try(curve.select(wanted), triple[:, wanted], promising[wanted], error)

    def _missed(self, curve: Quartics, triple: np.ndarray) -> np.ndarray:
        """Return how much lower log Δ may be than quartics are at the least, by the tests of them.

        Where the slope is off by s a minimum of curvature c is s²/2c lower; and no more than s times the bracket.
        """
        off = self.slope_error[triple].min(0)
        with np.errstate(divide="ignore", invalid="ignore"):
            curved = np.where(curve.bend > 0, off**2 / (2 * curve.bend), np.inf)
        return np.where(off < SLOPE_DOUBT * curve.outwards, 0.0, np.fmin(off * curve.unit, curved))

    def _try(self, curve: Quartics, triple: np.ndarray, promising: np.ndarray, error: float) -> None:
        """Compute the risk where quartics are lowest, and keep by how much their slopes were off.

        A quartic is right at its own points: where it is lowest at one, it is tested a little beside it.
        """
        k = triple[1]
        inwards = np.where((curve.lowest < 0) | (triple[2] == k), -UNTESTED, UNTESTED)
        u = np.where(promising | (np.abs(curve.lowest) > UNTESTED), curve.lowest, inwards)
        position = self.position[k] + curve.unit * u
        predicted = self.value[k] + curve.at(u)
        pair = self.pair[k]
        away = np.abs(position - self.position[triple]).min(0)
        # Earlier tests were of quartics that no longer stand.
        self.slope_error[triple] = np.inf
        self._make_exact(k[~promising & (self.error[k] > error)])
        # Where a wall follows a slope, polynomials creep up to it: its side of the bracket is narrowed as well.
        wall = self._in_wide_side(triple)
        wide = ~np.isnan(wall[0])
        self.add(np.append(pair, np.tile(pair[wide], 2)), np.append(position, wall[:, wide]), error)
        there = self._index(pair, position)
        self.slope_error[there] = np.abs(self.value[there] - predicted) / np.maximum(away, SAME_POSITION)

    def _in_wide_side(self, triple: np.ndarray) -> np.ndarray:
        """Return (2, K) positions in the wider sides of brackets; nan where both sides are alike."""
        low, here, high = self.position[triple]
        sides = np.array([low, high]) - here
        sides[1] = np.where(sides[1] > 0, sides[1], -sides[0])  # the last point has one side
        wide = np.abs(sides).argmax(0)
        narrow, width = np.sort(np.abs(sides), axis=0)
        apart = np.where(width > UNEVEN * narrow, np.array([np.sqrt(narrow * width), width / 2]), np.nan)
        return here + np.where(wide == 0, -apart, apart)

    def _make_exact(self, k: np.ndarray) -> None:
        """Compute the risks of points of the grid once more, without an error."""
        if k.size:
            self.value[k] = self.log_risk(self.position[k], self.pair[k], 0.0)
            self.error[k] = 0.0

    def answers(self, log_goal: float) -> Tuned:
        """Return the best γ and the least risks, exact but where they are beyond `HOPELESS` times the goal."""
        everything = np.arange(self.edge.size)
        while True:
            best = np.lexsort((self.value, self.pair))[self._starts()]
            rough = best[(self.error[best] > 0) & (self.value[best] <= log_goal + np.log(HOPELESS))]
            if not rough.size:
                break
            self._make_exact(rough)
        lowest = self.value[best]
        level = np.maximum(log_goal, lowest) if log_goal < np.inf else lowest
        low = np.flatnonzero(self.value <= level[self.pair] + WINDOW)
        _, first = np.unique(self.pair[low], return_index=True)
        ends = np.array([low[first], low[np.append(first[1:], low.size) - 1]])
        return Tuned(
            self.rate(self.position[best], everything), np.exp(lowest), *self.rate(self.position[ends], everything)
        )
