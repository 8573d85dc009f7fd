"""The least risk as the searches for one data size ask for it: answers are remembered, and where the risk was low."""

from collections.abc import Callable

import numpy as np

from sgdtheory.critical.rate_search import HOPELESS, Tuned
from sgdtheory.critical.tuned_risk import TunedRisk

# A pair with more steps than this is tuned only at learning rates at which the risk of a pair nearby was low.
WINDOW_FROM = 64.0
NEARBY = 1.5  # Pairs whose n and B are within this factor are nearby.
# The window of a pair nearby is wider on both sides by this power of the ratio of n or B: a basin of (B, n) moves by
# less than n and B.
WIDER = 1.7
# A batch size is not tuned if a larger one with as many steps has a risk beyond the goal by this factor. It exceeds 1
# because such a risk may be known roughly, and because searches extrapolate from it to other numbers of steps. B* of
# heavy ball with 10⁶ samples takes 1.2 times as long with 3, and about as long with 1.1.
BEYOND = 1.5


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
        self.index: dict[float, dict[float, int]] = {}  # of n and B
        self.logs = np.empty((2, 0))  # of B and n
        self.goals = np.empty(0)
        self.found = Tuned(*np.empty((4, 0)))

    def __call__(self, batch: np.ndarray, steps: np.ndarray, goal: float = np.inf) -> Tuned:
        """Return the best γ of (P,) pairs; beyond `HOPELESS` times the goal the risk is known roughly.

        Beyond `BEYOND` times the goal it may be that of a larger batch: with n and γ fixed, the risk falls with B.
        """
        indices = [self._known(*key, goal) for key in zip(batch.tolist(), steps.tolist(), strict=True)]
        new = [k for k, index in enumerate(indices) if index is None]
        if new:
            found = self.tuned.least(batch[new], steps[new], goal, self._windows(batch[new], steps[new]))
            for index, k in enumerate(new, self.goals.size):
                self.index.setdefault(float(steps[k]), {})[float(batch[k])] = indices[k] = index
            self.logs = np.hstack([self.logs, np.log([batch[new], steps[new]])])
            self.goals = np.append(self.goals, np.full(found.rate.size, goal))
            self.found = Tuned(*np.hstack([self.found, found]))
            self.report(self.goals.size)
        return Tuned(*(column[np.array(indices, dtype=int)] for column in self.found))

    def known(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the (P,) B, n and risks of all pairs that have been looked at."""
        return *np.exp(self.logs), self.found.risk

    def _known(self, batch: float, steps: float, goal: float) -> int | None:
        """Return the index of a pair, or of a larger batch size that is beyond the goal; None if it has to be tuned."""
        sizes = self.index.get(steps, {})
        if batch in sizes and self._is_near(sizes[batch], goal):
            return sizes[batch]
        larger = (index for size, index in sizes.items() if size > batch)
        return next((index for index in larger if self.found.risk[index] > BEYOND * goal), None)

    def _is_near(self, index: int, goal: float) -> bool:
        """Return whether a risk is known well enough for a goal: the nearer to it, the better it has to be."""
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
