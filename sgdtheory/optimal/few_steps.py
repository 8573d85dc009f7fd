"""The best schedule of a few steps: where single steps cancel each other there are many local optima.

Searches begin at many schedules, smooth, Chebyshev's in several orders and random ones, and go on from the best one
with its steps in other orders, and with single steps changed, until that brings no better one.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sgdtheory.optimal.newton import Many, Searches
from sgdtheory.optimal.side_by_side import Runs
from sgdtheory.optimal.variables import BELOW_BOUND, BELOW_EDGE, FARTHEST_BATCH, REFUSED, Freedom

SMOOTH = {  # γ/edge as a function of t/n
    "linear decay": lambda u: 0.3 * (1 - u),
    "constant": lambda u: np.full_like(u, 0.5),
    "small": lambda u: np.full_like(u, 0.01),
    "large, linear decay": lambda u: 0.9 * (1 - u),
    "next to the edge": lambda u: np.full_like(u, 0.95),
    "cosine": lambda u: 0.9 * np.cos(np.pi / 2 * u) ** 2,
    "late decay": lambda u: np.minimum(0.95, 2 * (1 - u)),
}
LEAST_EIGENVALUES = 0.3, 0.03, 0.003  # over λ_1: where Chebyshev's nodes end
SHARES = 12  # starts where one learning rate is kept
SMALL_SHARES = (0.02, 0.5, 8)  # where batch sizes vary: of γ/edge,
LARGE_SHARES = (0.5, 1e-4, 20)  # and of 1 − γ/edge
CLOSER = 7  # rates tried about each of the best ones,
ROUNDS = 4  # and how often
RANDOM = 40  # random starts
KEPT = 24  # searches that go on after the comparison
AT_EDGE = 0.3  # of the random rates
LEAST_SHARE = 1e-6  # of the edge, to begin with
ROUGH_GAIN = 1e-4  # of log risk: searches are compared when a step promises no more,
GAIN = 1e-7  # and end
FINE_GAIN = 1e-11  # likewise, of the best one
MOST_MOVES = 1024  # changes that are computed in one round
BEST_MOVES = 8  # searched from in one round: those with the least risk,
DRAWN_MOVES = 12  # and some of the others
OTHERS = 8  # optima that other searches begin with
SAME = 1e-6  # log risk: of one optimum,
UNCHANGED = 1e-8  # and of equal steps exchanged
MOST_ROUNDS = 20  # of changes,
IDLE_ROUNDS = 2  # and without a better optimum
CHANGED = 1.0, 0.5, 0.25  # of the edge: what single rates are changed to


class AbstractSchedules(ABC):
    """The log risk of S schedules by what is varied, (S, N), side by side, at every one of few steps.

    What is varied are log(γ/edge) of every step or one log γ, `rates` of them, and then logarithms of batch sizes.

    Attributes:
        num_steps: n.
        rates: how many of what is varied stand for learning rates, 1 or n.
        constant: whether one γ is kept.
        ramp: whether the batch size may vary.
        highest: what is varied in the place of γ where that is as large as starts are.
    """

    num_steps: int
    rates: int
    constant = False
    ramp = False
    highest: float

    @abstractmethod
    def steps(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log γ and log B of every step, (S, n) each."""

    @abstractmethod
    def __call__(self, point: np.ndarray) -> Many:
        """log R, its slopes, and what bounds hold."""


def with_refused(found: Many, possible: np.ndarray) -> Many:
    """The logarithms of risks; what is not possible is refused, and held where it is.

    Args:
        found: risks as values, and slopes of their logarithms.
        possible: (S,).
    """
    value = np.where(possible, np.log(np.where(possible, found.value, 1.0)), REFUSED)
    slope = np.where(possible[:, None], found.slope, 0.0)
    return Many(found.point, value, slope, found.held | ~possible[:, None])


class FewSteps(NamedTuple):
    """The best schedule found, and what is known of it.

    Attributes:
        risk: of the best one.
        slope: largest |∂ log risk| by what is varied, where no bound holds it.
        log_rate, log_batch: (n,) log γ_t and log B_t.
        varied: (E, N) points of the best different optima, the best one first, to begin other searches with.
        from_starts: risk where the search from each start ended, or was given up as worse than others.
        searches: local searches that ended.
        agreeing: how many of them ended at the best one.
    """

    risk: float
    slope: float
    log_rate: np.ndarray
    log_batch: np.ndarray
    varied: np.ndarray
    from_starts: dict[str, float]
    searches: int
    agreeing: int


def few_steps(schedules: AbstractSchedules) -> FewSteps:
    """The best of many local optima."""
    rng = np.random.default_rng(0)
    alone = schedules.constant and schedules.ramp  # one rate, and batch sizes
    names, begin = _best_batches(schedules) if alone else _starts(schedules, rng, RANDOM)
    searches = Searches(schedules, begin)
    reached = searches.ended(ROUGH_GAIN).value.copy()
    kept = np.argsort(reached)[:KEPT]
    searches.keep(kept)
    found = searches.ended(GAIN)
    reached[kept] = found.value
    idle = 0
    for _ in range(MOST_ROUNDS):
        best = found.rows(np.array([found.value.argmin()]))
        tried = _tried(schedules, best, rng)
        if len(tried) == 0 or idle == IDLE_ROUNDS:
            break
        ended = Searches(schedules, tried).ended(GAIN)
        idle = 0 if ended.value.min() < best.value[0] - SAME else idle + 1
        found = found.with_others(ended)
    return _few(schedules, found, dict(zip(names, np.exp(reached).tolist(), strict=True)), finely=True)


def few_steps_near(schedules: AbstractSchedules, varied: np.ndarray) -> FewSteps:
    """The best of the local optima next to some points."""
    return _few(schedules, Searches(schedules, varied).ended(GAIN), {}, finely=False)


def _few(schedules: AbstractSchedules, found: Many, from_starts: dict[str, float], *, finely: bool) -> FewSteps:
    best = found.rows(np.array([found.value.argmin()]))
    if finely:
        best = Searches(schedules, best.point).ended(FINE_GAIN)
    log_rate, log_batch = schedules.steps(best.point)
    _, first = np.unique((found.value / SAME).round(), return_index=True)  # the least first
    return FewSteps(
        float(np.exp(best.value[0])),
        float(np.abs(np.where(best.held, 0.0, best.slope)).max()),
        log_rate[0],
        log_batch[0],
        np.concatenate([best.point, found.point[first[:OTHERS]]]),
        from_starts,
        found.value.size,
        int((found.value < best.value[0] + SAME).sum()),
    )


# ------------------------------------------------------------------ where searches begin


def _starts(schedules: AbstractSchedules, rng: np.random.Generator, number: int) -> tuple[list[str], np.ndarray]:
    """Names, and what is varied, (S, N); `number` of them are random."""
    steps = schedules.num_steps
    left = 1 - (np.arange(steps) + 0.5) / steps
    if schedules.constant:
        named = {f"{share:.3g} of the edge": np.array([share]) for share in np.geomspace(0.02, 1, SHARES)}
        random = rng.uniform(0.02, 1, (number, 1))
    else:
        named = {name: shape(1 - left) for name, shape in SMOOTH.items()} | _chebyshev(steps)
        random = np.where(rng.random((number, steps)) < AT_EDGE, 1.0, rng.uniform(0.02, 1, (number, steps)))
        random[::2] *= left ** rng.uniform(0, 2, (len(random[::2]), 1))
    named |= {f"random {k + 1}": share for k, share in enumerate(random)}
    varied = np.log(np.maximum(list(named.values()), LEAST_SHARE)) + schedules.highest
    if not schedules.ramp:
        return list(named), varied
    batches = np.zeros((len(varied), steps))
    batches -= rng.uniform(0, 1, (len(varied), 1)) * np.log(left)  # that rise towards the end
    batches[-(number // 2) :] += rng.normal(size=(number // 2, steps))
    return list(named), np.concatenate([varied, batches], 1)


class _OneRate:
    """Schedules of one γ whose batch sizes alone vary: a convex problem, which a search solves from anywhere.

    The risk is a polynomial in the 1/B_t with coefficients ≥ 0, so that its logarithm is convex in the log B_t; and so
    is the set of those that D and the stability of γ allow. Searches that vary γ as well may pass a minimum just below
    the edge of the mean batch and end at that edge, where all batches are the same.
    """

    def __init__(self, schedules: AbstractSchedules) -> None:
        self.schedules = schedules

    def __call__(self, point: np.ndarray) -> Many:
        found = self.schedules(point)
        found.held[:, 0] = True
        return found


def _best_batches(schedules: AbstractSchedules) -> tuple[list[str], np.ndarray]:
    """Names, and what is varied, (S, N): many γ with the best batch sizes for each, more of them about the best."""
    one_rate = _OneRate(schedules)
    steps = schedules.num_steps

    def ended(share: np.ndarray) -> Many:
        rates = np.log(share)[:, None] + schedules.highest
        return Searches(one_rate, np.concatenate([rates, np.zeros((share.size, steps))], 1)).ended(GAIN)

    share = np.concatenate([np.geomspace(*SMALL_SHARES, endpoint=False), 1 - np.geomspace(*LARGE_SHARES), [1.0]])
    found = ended(share)
    for _ in range(ROUNDS):
        order = np.argsort(share)
        value = np.pad(found.value[order], 1, constant_values=np.inf)
        low = np.flatnonzero((value[1:-1] <= value[:-2]) & (value[1:-1] <= value[2:]))
        low = low[np.argsort(found.value[order[low]])[:OTHERS]]
        ends = share[order[np.maximum(low - 1, 0)]], share[order[np.minimum(low + 1, share.size - 1)]]
        closer = np.setdiff1d(np.linspace(*ends, CLOSER), share)
        share = np.append(share, closer)
        found = found.with_others(ended(closer))
    return [f"{each:.6g} of the edge" for each in share], found.point


def _chebyshev(steps: int) -> dict[str, np.ndarray]:
    """γ/edge of the steps that are best for eigenvalues anywhere between two, without noise, in several orders."""
    found = {}
    for low in LEAST_EIGENVALUES:
        nodes = (1 + low) / 2 + (1 - low) / 2 * np.cos(np.pi * (np.arange(steps) + 0.5) / steps)  # the largest first
        rising = np.minimum(0.5 / nodes, 1.0)
        mixed = np.empty(steps)
        mixed[::2] = rising[: (steps + 1) // 2]
        mixed[1::2] = rising[(steps + 1) // 2 :][::-1]
        orders = {"rising": rising, "falling": rising[::-1], "mixed": mixed}
        found |= {f"Chebyshev's from {low:g}, {name}": share for name, share in orders.items()}
    return found


def _tried(schedules: AbstractSchedules, best: Many, rng: np.random.Generator) -> np.ndarray:
    """The best schedule changed: those with the least risk, which differ, and some others."""
    moved = _moves(schedules, best.point[0])
    if len(moved) > MOST_MOVES:
        moved = moved[rng.choice(len(moved), MOST_MOVES, replace=False)]
    if len(moved) == 0:
        return moved
    value, first = np.unique(schedules(moved).value.round(9), return_index=True)
    moved = moved[first][np.abs(value - best.value[0]) > UNCHANGED]
    others = np.arange(BEST_MOVES, max(BEST_MOVES, len(moved) // 2))
    drawn = rng.choice(others, min(others.size, DRAWN_MOVES), replace=False)
    return np.concatenate([moved[:BEST_MOVES], moved[drawn]])


def _moves(schedules: AbstractSchedules, point: np.ndarray) -> np.ndarray:
    """A schedule with one step put elsewhere, with two exchanged, and with one rate changed."""
    steps = schedules.num_steps
    orders = _orders(steps)
    rates = point[: schedules.rates]
    batches = point[schedules.rates :]
    if schedules.constant:
        return np.concatenate([np.tile(rates, (len(orders), 1)), batches[orders]], 1) if schedules.ramp else orders[:0]
    changed = np.repeat(rates[None], len(CHANGED) * steps, 0)
    changed[np.arange(len(changed)), np.arange(len(changed)) % steps] = np.repeat(np.log(CHANGED), steps)
    moved = np.concatenate([rates[orders], changed])
    if not schedules.ramp:
        return moved
    with_batches = np.concatenate([rates[orders], batches[orders]], 1)
    return np.concatenate([with_batches, np.concatenate([moved, np.tile(batches, (len(moved), 1))], 1)])


@lru_cache(maxsize=4)
def _orders(steps: int) -> np.ndarray:
    """Orders of the steps that put one elsewhere or exchange two, (M, n)."""
    every = list(range(steps))
    orders = []
    for one in range(steps):
        others = every[:one] + every[one + 1 :]
        orders += [[*others[:place], one, *others[place:]] for place in range(steps) if place != one]
        for other in range(one + 2, steps):
            exchanged = every.copy()
            exchanged[one] = other
            exchanged[other] = one
            orders.append(exchanged)
    return np.array(orders)


# ------------------------------------------------------------------ the risk of what is varied


class _LaidOut(NamedTuple):
    """What is varied, in its bounds, and what it means.

    Attributes:
        rates, shares: (S, 1) or (S, n), and (S, n): log γ or log(γ/edge), and the logarithms of shares of the samples.
        log_rate, log_batch: (S, n).
        edge_slope: (S, n) of log edge by log B.
        floor, floor_slope: (S, 1) the smallest batch, and its slope by log γ.
    """

    rates: np.ndarray
    shares: np.ndarray
    log_rate: np.ndarray
    log_batch: np.ndarray
    edge_slope: np.ndarray
    floor: np.ndarray
    floor_slope: np.ndarray


class Schedules(AbstractSchedules):
    """Of SGD, exact.

    As in `variables.Varied` log(γ/edge) ≤ 0, or one log γ. Batches are `B_t = floor + (D − n floor) p_t`, with
    shares p_t that add up to 1, of which the logarithms vary: without a bound, and batches at the floor go with it
    smoothly.
    """

    def __init__(self, freedom: Freedom, runs: Runs) -> None:
        self.freedom = freedom
        self.runs = runs
        self.constant = freedom.constant
        self.ramp = freedom.ramp
        self.highest = freedom.highest
        self.num_steps = runs.num_steps
        self.rates = 1 if freedom.constant else runs.num_steps

    def steps(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As laid out."""
        laid = self.laid_out(point)
        return laid.log_rate, laid.log_batch

    def laid_out(self, point: np.ndarray) -> _LaidOut:
        """γ and B of every step."""
        freedom = self.freedom
        shape = (len(point), self.runs.num_steps)
        rates = np.clip(point[:, : self.rates], freedom.highest - BELOW_EDGE, freedom.highest)
        floor = np.ones((len(point), 1))
        floor_slope = np.zeros((len(point), 1))
        if freedom.constant:
            least = np.array([freedom.edge.least_batch(each) for each in rates[:, 0].tolist()])
            floor = np.minimum(np.exp(least[:, :1]), freedom.mean_batch)
            floor_slope = floor * least[:, 1:]
        shares = np.zeros(shape)
        batch = np.full(shape, freedom.mean_batch)
        if freedom.ramp:
            shares = point[:, self.rates :] - point[:, self.rates :].max(1, keepdims=True)
            shares = np.maximum(shares, -FARTHEST_BATCH)
            shares = shares - np.log(np.exp(shares).sum(1, keepdims=True))
            batch = floor + (freedom.num_samples - shape[1] * floor) * np.exp(shares)
        edge, edge_slope = freedom.edge.at(np.log(batch))
        log_rate = np.broadcast_to(rates, shape) if freedom.constant else rates + edge
        return _LaidOut(rates, shares, log_rate, np.log(batch), edge_slope, floor, floor_slope)

    def __call__(self, point: np.ndarray) -> Many:
        """log R, its slopes, and what bounds hold."""
        freedom = self.freedom
        laid = self.laid_out(point)
        with np.errstate(all="ignore"):
            at = self.runs.risks(laid.log_rate, laid.log_batch)
            slope, by_shares = self._slopes(laid, at.by_rate / at.risk[:, None], at.by_batch / at.risk[:, None])
        lowest = laid.rates <= freedom.highest - BELOW_EDGE
        held = (laid.rates >= freedom.highest) & (slope <= 0) | lowest & (slope >= 0)
        point = laid.rates
        if freedom.ramp:
            point = np.concatenate([point, laid.shares], 1)
            slope = np.concatenate([slope, by_shares], 1)
            first = np.arange(laid.shares.shape[1]) == laid.shares.argmax(1)[:, None]  # the others are relative to it
            held = np.concatenate([held, first], 1)
        possible = (at.risk > freedom.lower_bound * (1 - BELOW_BOUND)) & np.isfinite(slope).all(1)
        return with_refused(Many(point, at.risk, slope, held), possible)

    def _slopes(self, laid: _LaidOut, by_rate: np.ndarray, by_batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By the rates and by the shares, from those by log γ_t and log B_t."""
        steps = self.runs.num_steps
        if not self.freedom.constant:
            by_batch = by_batch + by_rate * laid.edge_slope
        each = by_batch / np.exp(laid.log_batch)  # by B_t
        share = np.exp(laid.shares)
        free = self.freedom.num_samples - steps * laid.floor
        by_shares = free * share * (each - (share * each).sum(1, keepdims=True))
        if self.freedom.constant:
            by_rate = by_rate.sum(1, keepdims=True)
            if self.freedom.ramp:
                by_rate = by_rate + laid.floor_slope * (each * (1 - steps * share)).sum(1, keepdims=True)
        return by_rate, by_shares
