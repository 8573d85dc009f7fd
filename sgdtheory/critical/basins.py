"""The least risk as a search asks for it, many times: a basin that has been looked for is followed where it may be."""

from itertools import compress

import numpy as np

from sgdtheory.critical.least_risk import Tuned
from sgdtheory.critical.risk_against_rate import NOISE_FALLS, RESONANT, SCAN_ERROR
from sgdtheory.critical.tuned_risk import TunedRisk

FOLLOWED = np.log(4)  # of n, and of nB: within this factor of where the best γ was looked for, its basin is followed
FOLLOWED_RESONANT = 0.015  # of either, where steps resonate and n is as even or odd: basins change places more slowly
QUIET = 16.0  # times the steps that resonate or swing: from there on γ/B alone may matter


class FollowedRisk:
    """`min_γ Δ(B, γ, n)` for one search about D samples: `TunedRisk.least`, with what is known of other B and n.

    All γ are looked at for some settings; about these the basin that was best is followed: not far at all where steps
    may resonate, since there another may be the best from one n to the next. With small steps only γ/B matters: what is
    best with n steps is best with more, and all that a smaller B adds are larger γ/B. Where the variance of half the
    largest one is more than the least risk those cannot be the best, and a basin is followed to any larger n.

    A new search has to begin with a new one of these, so that its answer is its own.

    Args:
        tuned: the tuned risk.
        samples: D.
    """

    def __init__(self, tuned: TunedRisk, samples: float) -> None:
        self.tuned = tuned
        self.problem = tuned.problem
        self.workers = tuned.workers
        self.patterns = tuned.patterns
        self.out_of_reach = tuned.out_of_reach
        self.risk = tuned.risk
        self.initial_risk = tuned.initial_risk
        self.largest_eigenvalue = tuned.largest_eigenvalue
        self._answers: dict[tuple[float, float], np.ndarray] = {}
        self._known = _Settings(*np.empty((3, 0)))
        self._rate, self._share = np.empty((2, 0))
        self._looked = np.empty(0, dtype=bool)  # at all γ
        self._lowest = tuned.initial_risk
        self.quiet = np.inf  # from so many steps on the basin stays what it is
        steps = np.ceil(QUIET * max(np.sqrt(RESONANT * samples), tuned.patterns.rippling, tuned.patterns.averaged))
        if 2 * steps <= samples:
            self._look_for_quiet(np.array([samples / steps]), np.array([steps]))

    def _look_for_quiet(self, batch: np.ndarray, steps: np.ndarray) -> None:
        best = self.least(batch, steps)
        half = self.tuned.edge(batch, steps) / 2
        variance = self.tuned.parts(batch, half, steps, SCAN_ERROR)[1, 0]
        if NOISE_FALLS * variance > best.risk[0]:
            self.quiet = steps[0]

    def least(self, batch: np.ndarray, steps: np.ndarray) -> Tuned:
        """The best γ of (P,) settings; what has been asked before is remembered."""
        asked = list(zip(batch.tolist(), steps.tolist(), strict=True))
        new = np.array([each not in self._answers for each in asked], dtype=bool)
        if new.any():
            found = self._found(_Settings(batch[new], steps[new], self.patterns.kind(batch[new], steps[new])))
            self._answers.update(zip(compress(asked, new), np.array(found).T, strict=True))
        return Tuned(*np.array([self._answers[each] for each in asked]).reshape(-1, 3).T)

    def _found(self, new: "_Settings") -> Tuned:
        first = self._to_look_at(new)
        best = np.empty((3, first.size))
        if first.any():
            best[:, first] = self.tuned.least(new.batch[first], new.steps[first])
            self._remember(new.some(first), best[:, first], looked=True)
        if (others := ~first).any():
            best[:, others] = self._followed(new.some(others))
            self._remember(new.some(others), best[:, others], looked=False)
        self._lowest = min(self._lowest, float(best[1].min()))
        self.patterns = self.tuned.patterns_at(self._lowest)
        return Tuned(*best)

    def _to_look_at(self, new: "_Settings") -> np.ndarray:
        """(P,) for which all γ have to be looked at: no basin leads there from what has been, or will have been.

        Of settings that are asked together only those next to one another wait for one of them.
        """
        looked = self._known.some(self._looked)
        first = np.logical_not(new.lead_from(looked, self.quiet).any(1))
        beside = new.beside(new)
        for k in np.flatnonzero(first):
            first[k] = not (beside[k, :k] & first[:k]).any()
        return first

    def _followed(self, new: "_Settings") -> Tuned:
        """From the nearest that is known: nγ stays or, near the edge, its share of that."""
        nearest = new.nearest(self._known)
        edge = self.tuned.edge(new.batch, new.steps)
        in_time = np.minimum(self._rate[nearest] * self._known.steps[nearest] / new.steps / edge, 1.0)
        share = np.where(self._share[nearest] < 0.5, in_time, self._share[nearest])
        return self.tuned.least_near(new.batch, new.steps, share)

    def _remember(self, settings: "_Settings", best: np.ndarray, looked: bool) -> None:
        self._known = self._known.and_more(settings)
        self._rate = np.append(self._rate, best[0])
        self._share = np.append(self._share, best[2])
        self._looked = np.append(self._looked, np.full(best.shape[1], looked))


class _Settings:
    """(P,) batch sizes and numbers of steps, and the kinds of these (`StepPatterns.kind`)."""

    def __init__(self, batch: np.ndarray, steps: np.ndarray, kind: np.ndarray) -> None:
        self.batch = batch
        self.steps = steps
        self.kind = kind

    def some(self, which: np.ndarray) -> "_Settings":
        """Those of a mask or of indices."""
        return _Settings(self.batch[which], self.steps[which], self.kind[which])

    def and_more(self, others: "_Settings") -> "_Settings":
        """Both."""
        return _Settings(
            np.append(self.batch, others.batch),
            np.append(self.steps, others.steps),
            np.append(self.kind, others.kind),
        )

    def lead_from(self, others: "_Settings", quiet: float) -> np.ndarray:
        """(P, Q) whether the basin of another setting may be followed to these."""
        steps, samples = self._away(others)
        far = np.where(others.kind > 0, FOLLOWED_RESONANT, FOLLOWED)
        quietly = (others.steps >= quiet) & (self.steps[:, None] >= others.steps)
        return ((steps < far) | quietly) & (samples < far) & (self.kind[:, None] == others.kind)

    def beside(self, others: "_Settings") -> np.ndarray:
        """(P, Q) whether another setting is of the same kind, and as near as where steps resonate."""
        steps, samples = self._away(others)
        return (np.maximum(steps, samples) < FOLLOWED_RESONANT) & (self.kind[:, None] == others.kind)

    def nearest(self, others: "_Settings") -> np.ndarray:
        """(P,) indices of the nearest of the same kind, of which there is one."""
        steps, samples = self._away(others)
        return np.where(self.kind[:, None] == others.kind, steps + samples, np.inf).argmin(1)

    def _away(self, others: "_Settings") -> tuple[np.ndarray, np.ndarray]:
        """(P, Q) how far log n and log nB are from those of others."""
        steps = np.abs(np.log(self.steps[:, None] / others.steps))
        samples = np.abs(np.log((self.steps * self.batch)[:, None] / (others.steps * others.batch)))
        return steps, samples
