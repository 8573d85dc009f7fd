"""The learning rates that leave the least risk of a deterministic equivalent (THEORY.md T26)."""

import numpy as np

from sgdtheory.algorithms import Algorithm, LastIterate, Linear, NonlinearMethod
from sgdtheory.critical import optimal_learning_rate
from sgdtheory.optimal.few_steps import AbstractSchedules, with_refused
from sgdtheory.optimal.newton import Many, Searches
from sgdtheory.optimal.run import place
from sgdtheory.optimal.search import LEAST_SHARE, ROUGH_GAIN, SPACINGS, STARTS, AbstractSearch, Knots, lower_bound
from sgdtheory.optimal.variables import BELOW_EDGE
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import EquivalentRuns

MOST_STEPS = 20_000.0  # which are taken one by one: a search of so many takes minutes
OF_LINEAR = float(STARTS["linear decay"](0.0))  # what starts call the edge times this is its best peak
FARTHEST = 10.0  # times its way Σ γ_t: directions that do not move by so much more are left out
GAIN = 1e-9  # of log risk: searches end when a step promises no more
RISING = {"warm-up, linear decay": lambda u: np.minimum(10 * u, 1.0) * 0.3 * (1 - u)}


class _Rates(AbstractSchedules):
    """log R by log γ: at every step, or at knots between which it is linear in `place`; no bound above.

    Args:
        runs: of the equivalent.
        batch: B of all steps.
        between: (J, n) log γ at the steps from those at J knots.
        scale: γ that starts call the edge.
    """

    def __init__(self, runs: EquivalentRuns, batch: float, between: np.ndarray, scale: float) -> None:
        self.runs = runs
        self.between = between
        self.num_steps = runs.num_steps
        self.rates = len(between)
        self.highest = float(np.log(scale))
        self.log_batch = float(np.log(batch))

    def steps(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log γ and log B."""
        log_rate = np.maximum(point, self.highest - BELOW_EDGE) @ self.between
        return log_rate, np.full_like(log_rate, self.log_batch)

    def __call__(self, point: np.ndarray) -> Many:
        """Many of them side by side."""
        point = np.maximum(point, self.highest - BELOW_EDGE)
        at = self.runs.risks(point @ self.between)
        with np.errstate(all="ignore"):
            slope = at.by_rate @ self.between.T / at.risk[:, None]
        possible = (at.risk > 0) & np.isfinite(at.risk) & np.isfinite(slope).all(1)
        lowest = (point <= self.highest - BELOW_EDGE) & (slope >= 0)
        return with_refused(Many(point, at.risk, slope, lowest), possible)


class EquivalentSearch(AbstractSearch):
    """Of a method that has a deterministic equivalent.

    There is no stability edge: in its place is a γ by which a linear decay, tuned, would be the first of `STARTS`.

    Args:
        problem: with finitely many directions, or a PowerLaw.
        method: that has a field.
        num_steps: n.
        batch: B, whole, of all steps.

    Raises:
        ValueError: more steps than can be taken one by one.
    """

    starts = STARTS | RISING

    def __init__(self, problem: AbstractProblem, method: NonlinearMethod, num_steps: float, batch: float) -> None:
        if num_steps > MOST_STEPS:
            raise ValueError(
                f"num_samples must be at most {MOST_STEPS:g} steps' for {method!r}, whose steps are taken one by one, "
                f"got {num_steps:g} steps; raise batch_size, or take fewer samples"
            )
        self.num_steps = num_steps
        self.num_samples = num_steps * batch
        self.average = LastIterate()
        self.mean_batch = batch
        self.lower_bound = lower_bound(problem, self.num_samples)
        linear = Algorithm(method, Linear(), average=self.average)
        peak = optimal_learning_rate(problem, batch_size=batch, num_samples=self.num_samples, algorithm=linear)
        self.edge = float(peak.learning_rate) / OF_LINEAR
        travel = FARTHEST * num_steps / 2 * float(peak.learning_rate)
        self.runs = EquivalentRuns(problem, method, batch, int(num_steps), travel)

    def schedules(self) -> _Rates:
        """A knot at every step."""
        return _Rates(self.runs, self.mean_batch, np.eye(self.runs.num_steps), self.edge)

    def begun_each(self) -> dict[str, Knots]:
        """The searches from all starts side by side, each as `begun`."""
        steps = self._knots(SPACINGS[0])
        shares = [start((steps + 0.5) / self.num_steps) for start in self.starts.values()]
        rough = self._minima(steps, np.log(np.maximum(shares, LEAST_SHARE) * self.edge), ROUGH_GAIN)
        more = self._knots(SPACINGS[1])
        where = place(more, self.num_steps)
        known = place(steps, self.num_steps)
        closer = np.array([np.interp(where, known, each) for each in rough.point])
        found = self._minima(more, closer, ROUGH_GAIN)
        return {name: self._found(more, found, row) for row, name in enumerate(self.starts)}

    def _minimum(
        self, steps: np.ndarray, log_rate: np.ndarray, log_batch: np.ndarray, gain: float, *, first: bool = False
    ) -> Knots:
        return self._found(steps, self._minima(steps, log_rate[None], gain), 0)

    def _minima(self, steps: np.ndarray, log_rates: np.ndarray, gain: float) -> Many:
        """From (S, J) log γ at the knots."""
        where = place(np.arange(self.num_steps), self.num_steps)
        known = place(steps, self.num_steps)
        between = np.array([np.interp(where, known, each) for each in np.eye(steps.size)])
        return Searches(_Rates(self.runs, self.mean_batch, between, self.edge), log_rates).ended(max(gain, GAIN))

    def _found(self, steps: np.ndarray, ended: Many, row: int) -> Knots:
        slope = np.where(ended.held[row], 0.0, np.abs(ended.slope[row])).max()
        log_batch = np.full(steps.size, np.log(self.mean_batch))
        return Knots(steps, ended.point[row], log_batch, float(np.exp(ended.value[row])), float(slope))
