"""The least risk with n steps when B need not be whole, `ρ(n) = min_γ Δ(D/n, γ, n)`: smooth in n but for resonance."""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import PchipInterpolator

from sgdtheory.critical.least_risk import LeastRisk, Tuned
from sgdtheory.critical.patterns import EVERY_FEW_STEPS, TAILS, whole_numbers
from sgdtheory.critical.risk_against_rate import SCAN_ERROR

# n at which ρ is computed first: in general, and where steps resonate
RELAXED_PER_DECADE = 1.5
RESONANT_PER_DECADE = 5.0
ROUGH_FEW_STEPS = 4  # where all is to some 1e-3: up to this many steps every n, since one may be better than two
RELAXED_NEAR = 0.02  # relative: a minimum of ρ this little above what is attained is looked into, where steps resonate
LEAST_BEND = 1e-9  # of log ρ in log n: a minimum that is flatter is no lower than it looks
BETWEEN = 1000  # numbers of steps at which ρ is interpolated, to guess where it reaches a target
LESS_DATA = 0.9  # of the samples, to see what samples are worth

LeastOf = Callable[[np.ndarray, np.ndarray], Tuned]  # of B and n


class RelaxedRisk:
    """ρ(n) at increasing n, (K,) each, and the γ that attain it: even n where steps may resonate.

    A tail of ⌈φn⌉ iterates is up to one iterate longer than φn, and the risk depends on that: n are taken for which it
    is as little longer as may be, or as much.

    Args:
        tuned: the tuned risk.
        samples: D.
        fewest: n below it are of no interest; nor are those up to `EVERY_FEW_STEPS` that are all tried.
        most: where steps resonate, larger n are computed at wider spacing.
        longer: whether tails are as much longer than φn as may be.
        roughly: the tuned risk to some 1e-3, where that will do; then all is as if no steps resonated.
    """

    def __init__(
        self,
        tuned: LeastRisk,
        samples: float,
        fewest: float,
        most: float = 0.0,
        longer: bool = False,
        roughly: LeastOf | None = None,
    ) -> None:
        self.tuned = tuned
        self.patterns = tuned.patterns
        self.samples = samples
        self.longer = longer
        self.rough = roughly is not None
        self.least = roughly or tuned.least
        first = fewest if self.rough else max(fewest, EVERY_FEW_STEPS + 1.0)
        self.resonant = np.sqrt(tuned.patterns.resonant * samples)  # n ≤ 4B
        steps = _spaced(first, np.floor(samples), RELAXED_PER_DECADE)
        if self.rough:
            steps = np.append(steps, whole_numbers(first, ROUGH_FEW_STEPS))
        else:
            for end in (min(most, self.resonant), tuned.patterns.rippling, min(tuned.patterns.averaged, samples)):
                steps = np.append(steps, _spaced(first, end, RESONANT_PER_DECADE))
        self.steps = self._allowed(steps)
        self.rate, self.risk = self._at(self.steps)

    def _allowed(self, steps: np.ndarray) -> np.ndarray:
        """Whole numbers near these, even where steps may resonate."""
        if self.patterns.fraction and not self.rough:
            return self._with_tails(np.round(steps))
        even = 2 * np.round(steps / 2)
        resonate = (even > 0) & (even <= self.resonant)
        return np.unique(np.where(resonate, even, np.minimum(np.round(steps), np.floor(self.samples))))

    def _with_tails(self, steps: np.ndarray) -> np.ndarray:
        """Numbers of steps a little above these: of the tails of even length the least or the most above φn."""
        others = np.minimum(steps, np.floor(self.samples))[:, None] + np.arange(np.ceil(TAILS / self.patterns.fraction))
        length = np.ceil(self.patterns.fraction * others)
        above = length - self.patterns.fraction * others
        refused = np.where(length % 2 == 0, 0.0, 10.0) + np.where(others > np.floor(self.samples), 100.0, 0.0)
        return np.unique(others[np.arange(steps.size), (refused + (-above if self.longer else above)).argmin(1)])

    def _at(self, steps: np.ndarray, share: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        best = self.least(share * self.samples / steps, steps)
        return best.rate, best.risk

    def refine(self, attained: float) -> None:
        """Halve the intervals about every minimum that may be below what is attained."""
        risk = self.risk
        k = 1 + np.flatnonzero((risk[1:-1] <= risk[:-2]) & (risk[1:-1] <= risk[2:]))
        k = k[self._lowest_about(k) < np.log(attained)]
        left = np.append(k - 1, k)
        if risk[0] <= min(risk[1], attained * (1 + RELAXED_NEAR)):  # it may be less between the first two
            left = np.append(left, 0)
        middle = np.sqrt(self.steps[left] * self.steps[left + 1])
        new = np.setdiff1d(self._allowed(middle), self.steps)
        if new.size:
            columns = np.hstack([np.array([self.steps, self.rate, risk]), np.array([new, *self._at(new)])])
            self.steps, self.rate, self.risk = columns[:, np.argsort(columns[0])]

    def _lowest_about(self, k: np.ndarray) -> np.ndarray:
        """How low log ρ may be about the minima k: where it is smooth, twice as far down as a parabola says."""
        here = np.log(self.risk[k])
        if self.patterns.resonant or self.patterns.rippling:
            return here - RELAXED_NEAR
        place = np.log(self.steps)
        value = np.log(self.risk)
        left = place[k] - place[k - 1]
        right = place[k + 1] - place[k]
        down = (value[k - 1] - here) / left
        up = (value[k + 1] - here) / right
        slope = (up * left - down * right) / (left + right)
        bend = (up + down) / (left + right)
        return here - 2 * slope**2 / (4 * np.maximum(bend, LEAST_BEND))

    def worth_of_samples(self) -> float:
        """−d log ρ/d log D at the least ρ."""
        k = int(np.argmin(self.risk))
        return float(np.log(self._at(self.steps[[k]], LESS_DATA)[1][0] / self.risk[k]) / -np.log(LESS_DATA))

    def estimate(self, batch: np.ndarray) -> np.ndarray:
        """(K,) the risk that whole batch sizes will attain: ρ between the numbers of steps, and samples left over."""
        steps = np.floor(self.samples / batch)
        within = np.clip(steps, self.steps[0], self.steps[-1])
        log_risk = PchipInterpolator(np.log(self.steps), np.log(self.risk))(np.log(within))
        return np.exp(log_risk + self.worth_of_samples() * np.log(self.samples / (steps * batch)))

    def steps_about(self, budget: float, target: float) -> float:
        """About how few steps reach a target with a budget of samples near D, B not rounded; nan where ρ cannot tell.

        At the γ that are best with D samples: the risk differs from the least by the square of what they are off.
        """
        if self.steps.size < 2:
            return np.nan
        # what is enough with D samples is enough with more: the crossing is before
        some = slice(max(int(np.argmax(np.append(self.risk <= target, True))) + 1, 2))
        steps = self.steps[some]
        risk = self.tuned.risk(budget / steps, self.rate[some], steps, SCAN_ERROR)
        place = np.log(steps)
        between = np.linspace(place[0], place[-1], BETWEEN)
        enough = PchipInterpolator(place, np.log(risk / target))(between) <= 0
        return float(np.exp(between[np.argmax(enough)])) if enough.any() else np.nan


def _spaced(low: float, high: float, per_decade: float) -> np.ndarray:
    """Numbers from low to high, evenly in logs; none if low is above high."""
    return np.geomspace(low, high, int(np.log10(high / low) * per_decade) + 2) if low <= high else np.empty(0)
