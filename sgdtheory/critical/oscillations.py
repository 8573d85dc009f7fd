"""Minima of risks that oscillate with the learning rate: the mean path has the same ones, at next to no cost.

After few steps the mean path is a polynomial in γ with as many zeros, and momentum turns it like `cos(n ω(γ))`. Noise
only adds to its risk, so that the least risk of the mean path also bounds from below what n steps can reach.
"""

import numpy as np

from sgdtheory.algorithms import Algorithm, LinearMethod
from sgdtheory.critical.rate_search import RateSearch
from sgdtheory.problems import Modes
from sgdtheory.risk import mean_risk, mean_risks_along

# The mean path follows this many directions, those with most of the signal. Others oscillate less than the error
# allows.
LEADING = 8
# The mean path has this many learning rates a step, even in √γ: oscillators turn by √(γλ) a step, so that a period has
# at least 17 of them.
POINTS_A_STEP = 8
# The number of learning rates is between these two. With the largest, a period of 1,000 steps still has 7 of them.
POINTS = 64, 3200
# In this many rounds the lowest minima of the mean path are sampled ten times as densely: it may be 0 between two
# points.
ZOOMS = 3
# A round looks into at most this many minima. Of 12 some were missed that noise makes the least, by a factor of 1.6.
MOST_ZOOMED = 100
MOST_ADDED = 6  # At most this many minima of the mean path with the interpolated noise are added to the grid of a pair.
# Minima are added if their expected risk is at most this many times the least risk, in the first round and in later
# ones.
WITHIN, WITHIN_AGAIN = 3.0, 1.1
ROUNDS = 4  # Minima are added in at most this many rounds.
KNOWN_BY = 3  # A minimum with at least this many grid points about it is known already, and is not added.
# Noise below this share of the risk is not resolved, because the mean path is interpolated where it is steep.
LEAST_NOISE = 1e-3
# An interval beside the least point is halved if it is wider than this.
WIDE = 0.5
# The mean path of up to this many steps is computed for every method: it has as many zeros as there are steps.
FEW_STEPS = 40.0
# A transient that has decayed to this share of the squared weights is no longer seen beside any risk.
FORGOTTEN = 1e-8
# Early oscillations last this many times as long where iterates are averaged, or delayed steps have a schedule.
LASTING = 10.0
# Early oscillations last no longer than this many steps. Longer runs of benchmarks and golden problems showed none.
LONGEST = 1000.0


def oscillating_steps(algorithm: Algorithm) -> float:
    """Return the number of steps up to which the least risk has to be looked for with the mean path."""
    method = algorithm.method
    averaged = bool(algorithm.average.returned(2.0, 2.0).total)
    if is_plain(algorithm) and averaged:
        return 0.0  # The average of plain steps oscillates near the edge alone, where the grid is fine.
    if method.step_dependence not in ("none", "period"):
        return LONGEST
    memory = memory_of(method)
    # A schedule of delayed steps keeps oscillations that equal steps would forget: a record of 175 steps missed one.
    forgetting = algorithm.constant if method.late else not averaged
    lasting = memory if forgetting else min(LASTING * memory, max(memory, LONGEST))
    return max(lasting, FEW_STEPS)


def is_plain(algorithm: Algorithm) -> bool:
    """Return whether equal steps without momentum end in the last iterate or the mean of all of them."""
    average = algorithm.average
    shares = average.returned(2.0, 2.0)
    mean = not shares.iterate and average.first(2.0) == 0 and average.forgetting(2.0) == 0
    whole = mean or not shares.total
    return algorithm.constant and len(algorithm.method.start) == 1 and whole


def memory_of(method: LinearMethod) -> float:
    """Return the steps after which a method with constant coefficients has forgotten all but its weights."""
    if method.late:
        return LASTING * (2 * method.longest_delay + 1)
    step, last = np.eye(len(method.start)) - method.matrices(np.zeros(2), np.array([0.0, method.period - 1])).decay
    sizes = np.sort(np.abs(np.linalg.eigvals(last @ np.linalg.matrix_power(step, method.period - 1))))
    fading = sizes[(sizes > 0) & (sizes < 1)]
    return method.period * float(np.log(FORGOTTEN) / np.log(fading[-1])) if fading.size else 0.0


class MeanPath:
    """The risk of the mean path `Σ_i s_i (oᵀE u_i)²` of the leading directions, against γ.

    Args:
        algorithm: what is run.
        modes: the spectrum.
        largest: a risk; all beyond it is the same.
    """

    def __init__(self, algorithm: Algorithm, modes: Modes, largest: float) -> None:
        most = np.argsort(modes.signal)[::-1][:LEADING]
        self.algorithm = algorithm
        self.directions = modes.eigenvalue[most], modes.signal[most]
        self.largest = largest
        # One run has every n where neither γ nor the average depends on it.
        changing = algorithm.method.step_dependence not in ("none", "period")
        self.one_run = changing and algorithm.schedule.flat and algorithm.average.any_length
        self.tables: dict[tuple[float, float], tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, edge: float, steps: float) -> tuple[np.ndarray, np.ndarray]:
        """Return increasing learning rates up to the edge and the risk of the mean path of n steps there."""
        rate, risk = self._table(edge, steps) if self.one_run else self._zoomed(edge, steps)
        inside = rate <= edge
        return rate[inside], np.clip(np.nan_to_num(risk[inside], nan=self.largest), 0.0, self.largest)

    def _even(self, edge: float, steps: float) -> np.ndarray:
        turns = np.sqrt(max(edge * self.directions[0].max() / 2, 1.0))
        number = int(np.clip(POINTS_A_STEP * steps * turns, *POINTS))
        roots = np.arange(1.0, number + 1) / number
        return edge * np.union1d(roots**2, np.geomspace(1e-3 / steps, 1.0, POINTS[0]))

    def _table(self, edge: float, steps: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the learning rates and risks of one run for all n up to a power of two, γ up to another.

        The risks of a longer run serve as well: its learning rates are as dense or denser.
        """
        most = 2.0 ** np.ceil(np.log2(steps))
        end = 2.0 ** np.ceil(np.log2(edge))
        longest = max((number for number, last in self.tables if last == end), default=0.0)
        if longest < most:
            longest, rate = most, self._even(end, most)
            self.tables[most, end] = rate, mean_risks_along(self.algorithm, *self.directions, rate, most)
        rate, risks = self.tables[longest, end]
        return rate, risks[int(steps)]

    def _zoomed(self, edge: float, steps: float) -> tuple[np.ndarray, np.ndarray]:
        rate = self._even(edge, steps)
        risk = mean_risk(self.algorithm, *self.directions, rate, steps)
        for _ in range(ZOOMS):
            k = dips(risk)
            k = k[np.argsort(risk[k])[:MOST_ZOOMED]]
            new = np.setdiff1d(np.linspace(rate[k - 1], rate[k + 1], 11).ravel(), rate)
            if not new.size:
                break
            rate = np.append(rate, new)
            risk = np.append(risk, mean_risk(self.algorithm, *self.directions, new, steps))
            order = np.argsort(rate)
            rate, risk = rate[order], risk[order]
        return rate, risk


def dips(value: np.ndarray) -> np.ndarray:
    """Return the indices of local minima."""
    return 1 + np.flatnonzero((value[1:-1] <= value[:-2]) & (value[1:-1] <= value[2:]))


def add_minima_of_mean(search: RateSearch, means: dict[int, tuple[np.ndarray, np.ndarray]], goal: float) -> None:
    """Add to the grids of pairs the points about minima that their mean paths make.

    Each round knows better what noise adds, until nothing new is expected.
    """
    within = WITHIN
    for _ in range(ROUNDS):
        new = {pair: _expected_minima(search, pair, *mean, goal, within) for pair, mean in means.items()}
        means = {pair: mean for pair, mean in means.items() if new[pair].size}
        if not means:
            break
        pairs = np.repeat(list(means), [new[pair].size for pair in means])
        # Three points of a dip are so close that an error would be a dip of its own.
        search.add(pairs, np.concatenate([new[pair] for pair in means]), 0.0)
        within = WITHIN_AGAIN


def _lower_hull(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Return the indices of the points of which no other two have a chord below them; x increases."""
    hull: list[int] = []
    for k in range(x.size):
        while len(hull) > 1:
            i, j = hull[-2:]
            if (y[j] - y[i]) * (x[k] - x[i]) < (y[k] - y[i]) * (x[j] - x[i]):
                break
            hull.pop()
        hull.append(k)
    return hull


def _expected_minima(
    search: RateSearch, pair: int, rate: np.ndarray, mean: np.ndarray, goal: float, within: float
) -> np.ndarray:
    """Return positions about the lowest minima that are expected between the grid points of a pair.

    The mean path oscillates with γ, and what noise adds to it does not: their sum is what is expected. Beside the least
    point wide intervals are halved, so that the noise is known there.
    """
    mine = np.flatnonzero((search.pair == pair) & (search.position <= search.end[pair]))
    known = search.position[mine]
    value = np.exp(search.value[mine])
    position = search.at(rate, np.full(rate.size, pair))
    noise = value - np.interp(known, position, mean)
    # Where the mean path is all that is seen, noise is taken to be proportional to γ.
    resolved = np.flatnonzero(noise > LEAST_NOISE * value)
    expected = mean
    if resolved.size:
        # Noise is smooth in γ, but inaccurate where the mean path peaks: the lower hull leaves that out.
        hull = resolved[_lower_hull(known[resolved], np.log(noise[resolved]))]
        least = np.minimum(rate / search.rate(known[hull[:1]], np.array([pair])), 1.0)
        expected = mean + least * np.exp(np.interp(position, known[hull], np.log(noise[hull])))
    k = dips(mean)
    k = k[expected[k] <= within * min(value.min(), goal)]
    # A dip that has several points of the grid about it is known already.
    k = k[np.searchsorted(known, position[k + 1], side="right") - np.searchsorted(known, position[k - 1]) < KNOWN_BY]
    k = k[np.argsort(expected[k])[:MOST_ADDED]]
    lowest = int(value.argmin())
    beside = known[max(lowest - 1, 0) : lowest + 2]
    middles = ((beside[1:] + beside[:-1]) / 2)[np.diff(beside) > WIDE]
    return np.setdiff1d(np.append(position[k], middles), known)
