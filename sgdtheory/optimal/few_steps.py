"""The best schedule of a few steps: where single steps cancel each other there are many local optima.

Searches begin at many schedules, smooth, Chebyshev's in several orders and random ones, and go on from the best one
with its steps in other orders, and with single steps changed, until that brings no better one.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sgdtheory.optimal.newton import FINE_GAIN, ROUGH_GAIN, SAME, Found, Searches
from sgdtheory.optimal.schedules import LEAST_SHARE, STARTS, Schedules

SMOOTH = STARTS | {  # Searches start from these γ/edge as functions of t/n.
    "large, linear decay": lambda u: 0.9 * (1 - u),
    "next to the edge": lambda u: np.full_like(u, 0.95),
    "cosine": lambda u: 0.9 * np.cos(np.pi / 2 * u) ** 2,
    "late decay": lambda u: np.minimum(0.95, 2 * (1 - u)),
}
# Searches start from this many random schedules. Schedules of a few signs have very many optima: with other starts the
# best one found is often another.
RANDOM = 40
KEPT = 24  # This many searches go on after all have ended roughly; the best one has always been among them.
COMPARED_GAIN = 1e-4  # All searches end at this gain of log risk before the worse ones are given up.
MOST_IDLE = 2  # Changes are random: only so many rounds of them without a better optimum end the search.
MOST_MOVES = 1024  # A round computes at most this many changes; with 64 steps these are a quarter of all.
# A round searches from this many changes with the least risk, and from this many of the others. With fewer one of three
# seeds missed the best 40 steps with free batches by 6e-5.
SEARCHED = 16, 16


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


def few_steps(schedules: Schedules) -> FewSteps:
    """Return the best of many local optima."""
    rng = np.random.default_rng(0)
    starts = _starts(schedules, rng)
    searches = Searches(schedules, np.array(list(starts.values())))
    reached = searches.ended(COMPARED_GAIN).value.copy()
    kept = np.argsort(reached)[:KEPT]
    searches.keep(kept)
    found = searches.ended(ROUGH_GAIN)
    reached[kept] = found.value
    idle = 0
    while idle < MOST_IDLE:
        best = found.rows(np.array([found.value.argmin()]))
        tried = _tried(schedules, best, rng)
        if len(tried) == 0:
            break
        ended = Searches(schedules, tried).ended(ROUGH_GAIN)
        idle = 0 if ended.value.min() < best.value[0] - SAME else idle + 1
        found = found.with_others(ended)
    best = Searches(schedules, found.point[[found.value.argmin()]]).ended(FINE_GAIN)
    return _few(schedules, found, best, dict(zip(starts, np.exp(reached).tolist(), strict=True)))


def few_steps_near(schedules: Schedules, varied: np.ndarray) -> FewSteps:
    """Return the best of the local optima next to some points."""
    found = Searches(schedules, varied).ended(ROUGH_GAIN)
    return _few(schedules, found, found.rows(np.array([found.value.argmin()])), {})


def _few(schedules: Schedules, found: Found, best: Found, from_starts: dict[str, float]) -> FewSteps:
    log_rate, log_batch = schedules.steps(best.point)
    _, different = np.unique((found.value / SAME).round(), return_index=True)  # the least first
    return FewSteps(
        risk=float(np.exp(best.value[0])),
        slope=float(best.steepest[0]),
        log_rate=log_rate[0],
        log_batch=log_batch[0],
        varied=np.concatenate([best.point, found.point[different[:8]]]),
        from_starts=from_starts,
        searches=found.value.size,
        agreeing=int((found.value < best.value[0] + SAME).sum()),
    )


# ------------------------------------------------------------------ where searches begin


def _starts(schedules: Schedules, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return names and what is varied, (N,) each."""
    steps = schedules.run.knots.size
    left = 1 - (np.arange(steps) + 0.5) / steps
    if schedules.freedom.constant:
        shares = {f"{share:.3g} of the edge": np.array([share]) for share in np.geomspace(0.02, 1, 12)}
        random = rng.uniform(0.02, 1, (RANDOM, 1))
    else:
        shares = {name: shape(1 - left) for name, shape in SMOOTH.items()} | _chebyshev(steps)
        # Many of the best schedules have steps at the edge: so have three tenths of the random ones.
        random = np.where(rng.random((RANDOM, steps)) < 0.3, 1.0, rng.uniform(0.02, 1, (RANDOM, steps)))
        random[::2] *= left ** rng.uniform(0, 2, (len(random[::2]), 1))
    shares |= {f"random {k + 1}": share for k, share in enumerate(random)}
    varied = np.log(np.maximum(list(shares.values()), LEAST_SHARE))
    if schedules.freedom.ramp:
        batches = -rng.uniform(0, 1, (len(varied), 1)) * np.log(left)  # that rise towards the end
        batches[-(RANDOM // 2) :] += rng.normal(size=(RANDOM // 2, steps))
        varied = np.concatenate([varied, batches], 1)
    return dict(zip(shares, varied, strict=True))


def _chebyshev(steps: int) -> dict[str, np.ndarray]:
    """Return γ/edge of the steps that are best for eigenvalues anywhere between two, without noise, in three orders."""
    found = {}
    for low in (0.3, 0.03, 0.003):  # times λ_1
        nodes = (1 + low) / 2 + (1 - low) / 2 * np.cos(np.pi * (np.arange(steps) + 0.5) / steps)  # the largest first
        rising = np.minimum(0.5 / nodes, 1.0)
        mixed = np.empty(steps)
        mixed[::2] = rising[: (steps + 1) // 2]
        mixed[1::2] = rising[(steps + 1) // 2 :][::-1]
        orders = {"rising": rising, "falling": rising[::-1], "mixed": mixed}
        found |= {f"Chebyshev's from {low:g}, {name}": share for name, share in orders.items()}
    return found


# ------------------------------------------------------------------ what they try


def _tried(schedules: Schedules, best: Found, rng: np.random.Generator) -> np.ndarray:
    """Return changes of the best schedule: those with the least risk, which differ, and some others."""
    moved = _moves(schedules, best.point[0])
    if len(moved) > MOST_MOVES:
        moved = moved[rng.choice(len(moved), MOST_MOVES, replace=False)]
    if len(moved) == 0:
        return moved
    value, first = np.unique(schedules(moved).value.round(9), return_index=True)
    moved = moved[first][np.abs(value - best.value[0]) > 1e-8]  # exchanged steps that are alike change nothing
    least, others = SEARCHED
    rest = np.arange(least, max(least, len(moved) // 2))
    return np.concatenate([moved[:least], moved[rng.choice(rest, min(rest.size, others), replace=False)]])


def _moves(schedules: Schedules, point: np.ndarray) -> np.ndarray:
    """Return a schedule with one step put elsewhere, with two exchanged, and with one rate changed."""
    steps = schedules.run.knots.size
    # Numbers of the variables of single steps: (1, n) of γ or of B, (2, n) of both. A constant γ belongs to no step.
    of_steps = np.arange(1 if schedules.freedom.constant else 0, point.size).reshape(-1, steps)
    orders = _orders(steps)[: None if of_steps.size else 0]
    ordered = np.tile(point, (len(orders), 1))
    for variables in of_steps:
        ordered[:, variables] = point[variables][orders]
    if schedules.freedom.constant:
        return ordered
    shares = 1.0, 0.5, 0.25, 0.1, 0.01  # of the edge
    changed = np.tile(point, (len(shares) * steps, 1))
    changed[np.arange(len(changed)), np.arange(len(changed)) % steps] = np.repeat(np.log(shares), steps)
    return np.concatenate([ordered, changed])


@lru_cache(maxsize=4)
def _orders(steps: int) -> np.ndarray:
    """Return the orders of the steps that put one elsewhere or exchange two, (M, n)."""
    every = list(range(steps))
    orders = []
    for one in range(steps):
        others = every[:one] + every[one + 1 :]
        orders += [[*others[:to], one, *others[to:]] for to in range(steps) if to != one]
        for other in range(one + 2, steps):
            exchanged = every.copy()
            exchanged[one] = other
            exchanged[other] = one
            orders.append(exchanged)
    return np.array(orders)
