"""The best γ for many numbers of steps: a basin that has been looked for is followed where it may be."""

from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any

import numpy as np

from sgdtheory.critical.risk_against_rate import NOISE_FALLS, RESONANT, SCAN_ERROR
from sgdtheory.critical.tuned_risk import Tuned, TunedRisk

FOLLOWED = np.log(4)  # of n: within this factor of where the best γ was looked for, its basin is followed
FOLLOWED_RESONANT = 0.03  # of log n, where steps resonate and n is as even or odd: basins change places more slowly
QUIET = 16.0  # times the steps that resonate or swing: from there on γ/B alone may matter


class Remembered:
    """What was best for settings that a search may ask about again."""

    def __init__(self) -> None:
        self.known: dict[tuple[float, float], np.ndarray] = {}

    def best(self, keys: Iterable[tuple[float, float]], look: Callable[[np.ndarray], np.ndarray]) -> Tuned:
        """Of (P,) settings; `look` is asked for (3, Q) of the Q new ones, by a mask (P,)."""
        keys = list(keys)
        new = np.array([key not in self.known for key in keys], dtype=bool)
        if new.any():
            self.known.update(zip(compress(keys, new), look(new).T, strict=True))
        return Tuned(*np.array([self.known[key] for key in keys]).reshape(-1, 3).T)


class Basins:
    """`min_γ Δ(B, γ, n)` with n ≈ D/B, by the nearest number of steps at which all γ have been looked at.

    With small steps only γ/B matters: what is best with n steps is best with more, and all that a smaller B adds are
    larger γ/B. Where the variance of half the largest one is more than the least risk those cannot be the best.
    """

    def __init__(self, tuned: TunedRisk, samples: float) -> None:
        self.tuned = tuned
        self.looked = np.empty((4, 0))  # n, kind, γ and γ/edge
        self.remembered = Remembered()
        self.quiet = np.inf  # from so many steps on the basin stays what it is
        steps = np.ceil(QUIET * max(np.sqrt(RESONANT * samples), tuned.rippling, tuned.averaged))
        if 2 * steps <= samples:
            self._look_for_quiet(np.array([samples / steps]), np.array([steps]))

    def _look_for_quiet(self, batch: np.ndarray, steps: np.ndarray) -> None:
        best = self.least(batch, steps)
        half = self.tuned.edge(batch, steps) / 2
        variance = self.tuned.parts(batch, half, steps, SCAN_ERROR)[1, 0]
        if NOISE_FALLS * variance > best.risk[0]:
            self.quiet = steps[0]

    def least(self, batch: np.ndarray, steps: np.ndarray) -> Tuned:
        """`TunedRisk.least` of (P,) settings with about D samples each."""
        keys = zip(batch.tolist(), steps.tolist(), strict=True)
        return self.remembered.best(keys, lambda new: self._looked_for(batch[new], steps[new]))

    def _looked_for(self, batch: np.ndarray, steps: np.ndarray) -> np.ndarray:
        kind = self.tuned.kind(batch, steps)
        nearest = self._nearest(steps, kind)
        best = np.empty((3, steps.size))
        if (near := nearest >= 0).any():
            before, kinds, rate, share = self.looked[:, nearest[near]]
            in_time = np.minimum(rate * before / steps[near] / self.tuned.edge(batch[near], steps[near]), 1.0)
            share = np.where((kinds > 0) & (share >= 0.5), share, in_time)  # nγ or, where steps resonate at the edge, γ
            best[:, near] = self.tuned.least_near(batch[near], steps[near], share, steps[near])
        if (new := ~near).any():
            best[:, new] = self.tuned.least(batch[new], steps[new])
            self.looked = np.hstack([self.looked, [steps[new], kind[new], best[0, new], best[2, new]]])
        return best

    def _nearest(self, steps: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """(P,) index of the number of steps from which the basin may be followed; −1 where there is none."""
        if not self.looked.size:
            return np.full(steps.size, -1)
        looked = self.looked[0]
        away = np.abs(np.log(steps[:, None] / looked))
        reach = np.where(self.looked[1] > 0, FOLLOWED_RESONANT, FOLLOWED)
        follows = (away < reach) | ((looked >= self.quiet) & (steps[:, None] >= looked))
        away = np.where(follows & (kind[:, None] == self.looked[1]), away, np.inf)
        return np.where(np.isfinite(away.min(1)), away.argmin(1), -1)


class Looked:
    """Numbers of steps at which all γ have been looked at in one search, L of them, and the best over the largest."""

    def __init__(self, tuned: TunedRisk) -> None:
        self.tuned = tuned
        self.steps, self.kind, self.share = np.empty((3, 0))

    def add(self, batch: np.ndarray, steps: np.ndarray, share: np.ndarray) -> None:
        """(P,) more."""
        self.steps = np.append(self.steps, steps)
        self.kind = np.append(self.kind, self.tuned.kind(batch, steps))
        self.share = np.append(self.share, share)

    def nearest(self, about: float, steps: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """(P,) index of the nearest number of steps of the same kind; −1 where there is none.

        Among those no farther from `about` than where steps resonate a basin is followed, or than these are from it.
        """
        reach = max(FOLLOWED_RESONANT, np.abs(np.log(steps / about)).max(initial=0.0))
        known = np.abs(np.log(self.steps / about)) <= reach
        away = np.where(known & (kind[:, None] == self.kind), np.abs(steps[:, None] - self.steps), np.inf)
        return np.where(np.isfinite(away).any(1), away.argmin(1), -1)


class TrackedRate:
    """The best γ for P questions whose number of steps changes from call to call.

    The basin that holds the least risk is followed, and looked for anew where n has moved far from where it was found:
    not far at all where steps may resonate, since there another basin may be the best from one n to the next.
    """

    def __init__(
        self, tuned: TunedRisk, number: int, steps: Any = np.nan, share: Any = np.nan, looked: Looked | None = None
    ) -> None:
        self.tuned = tuned
        self.looked = looked or Looked(tuned)
        self.found_at = np.full(number, steps)
        self.steps = np.full(number, steps)
        self.share = np.full(number, share)
        self.remembered = Remembered()

    def __call__(self, batch: np.ndarray, steps: np.ndarray, index: np.ndarray) -> Tuned:
        """The best for the questions `index`, with B and n of each; B is a function of question and n."""
        keys = zip(index.tolist(), steps.tolist(), strict=True)
        return self.remembered.best(keys, lambda new: self._looked_for(batch[new], steps[new], index[new]))

    def _looked_for(self, batch: np.ndarray, steps: np.ndarray, index: np.ndarray) -> np.ndarray:
        before = self.found_at[index]
        moved = np.abs(np.log(steps / before))
        likewise = (moved < FOLLOWED_RESONANT) & ((steps - before) % 2 == 0)
        near = np.where(steps > self.tuned.resonant * batch, moved < FOLLOWED, likewise) & (steps > self.tuned.rippling)
        best = np.empty((3, index.size))
        if near.any():
            here = index[near]
            best[:, near] = self.tuned.least_near(batch[near], steps[near], self.share[here], self.steps[here])
        if not near.all():
            best[:, ~near] = self.tuned.least(batch[~near], steps[~near])
            self.found_at[index[~near]] = steps[~near]
            self.looked.add(batch[~near], steps[~near], best[2, ~near])
        self.share[index], self.steps[index] = best[2], steps
        return best
