"""The least risk as the searches for one data size ask for it: answers are remembered, and where the risk was low."""

from collections.abc import Callable

import numpy as np

from sgdtheory.critical.rate_search import HOPELESS, Tuned
from sgdtheory.critical.tuned_risk import TunedRisk

# A pair with more steps looks only at the learning rates at which the risk of a pair nearby was low,
WINDOW_FROM = 64.0
# where nearby means n and B within this factor,
NEARBY = 1.5
# and the window is wider on both sides by this power of their ratio: a basin of (B, n) moves by less than n and B.
WIDER = 1.7


class LeastRisk:
    """`min_γ Δ(B, γ, n)` of one problem, algorithm and data size.

    It begins with nothing known, so that the answer for one data size does not depend on others.

    Args:
        tuned: the least risk of any B and n.
        report: called with the number of pairs of B and n that are tuned, whenever it has grown.
    """

    def __init__(self, tuned: TunedRisk, report: Callable[[int], None] = lambda count: None) -> None:
        self.tuned = tuned
        self.report = report
        self.index: dict[tuple[float, float], int] = {}
        self.logs = np.empty((2, 0))  # of B and n
        self.goals = np.empty(0)
        self.found = Tuned(*np.empty((4, 0)))

    def __call__(self, batch: np.ndarray, steps: np.ndarray, goal: float = np.inf) -> Tuned:
        """Return the best γ of (P,) pairs; beyond `HOPELESS` times the goal the risk is known roughly."""
        keys = list(zip(batch.tolist(), steps.tolist(), strict=True))
        new = np.array([not self._is_known(key, goal) for key in keys], dtype=bool)
        if new.any():
            found = self.tuned.least(batch[new], steps[new], goal, self._windows(batch[new], steps[new]))
            asked = [key for key, is_new in zip(keys, new, strict=True) if is_new]
            self.index.update((key, self.goals.size + k) for k, key in enumerate(asked))
            self.logs = np.hstack([self.logs, np.log([batch[new], steps[new]])])
            self.goals = np.append(self.goals, np.full(found.rate.size, goal))
            self.found = Tuned(*np.hstack([self.found, found]))
            self.report(self.goals.size)
        indices = [self.index[key] for key in keys]
        return Tuned(*(column[indices] for column in self.found))

    def known(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the (P,) B, n and risks of all pairs that have been looked at."""
        return *np.exp(self.logs), self.found.risk

    def _is_known(self, key: tuple[float, float], goal: float) -> bool:
        """Return whether a pair is known well enough for a goal: the nearer to it, the better it has to be."""
        index = self.index.get(key)
        if index is None:
            return False
        risk, before = self.found.risk[index], self.goals[index]
        if before == np.inf or goal == before:
            return True
        if risk > HOPELESS * before:
            return goal <= before
        return goal < np.inf and bool(np.abs(np.log(risk / before)) <= np.abs(np.log(risk / goal)))

    def _windows(self, batch: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the (P,) learning rates between which the risk of pairs nearby was low."""
        low, high = np.zeros(batch.size), np.full(batch.size, np.inf)
        if self.goals.size:
            away = np.abs(np.log([batch, steps])[:, :, None] - self.logs[:, None]).max(0)
            # Where runs resonate, even numbers of steps have a dip near the edge that odd ones do not have.
            odd = np.rint(np.exp(self.logs[1])) % 2
            unlike = (steps % 2)[:, None] != odd
            unlike &= (steps <= self.tuned.resonant * batch)[:, None]
            away = np.where((self.found.low > 0) & ~unlike, away, np.inf)
            nearest = away.argmin(1)
            near = (away.min(1) < np.log(NEARBY)) & (steps > WINDOW_FROM)
            wider = np.exp(WIDER * away.min(1)[near])
            low[near] = self.found.low[nearest[near]] / wider
            high[near] = self.found.high[nearest[near]] * wider
        return low, high
