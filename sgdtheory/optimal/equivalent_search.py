"""Search for the learning rates that leave the least risk of a deterministic equivalent (THEORY.md T26)."""

import numpy as np

from sgdtheory.algorithms import Algorithm, LastIterate, Linear, NonlinearMethod
from sgdtheory.critical import optimal_learning_rate
from sgdtheory.optimal.knots import interpolation
from sgdtheory.optimal.run import AbstractRun, Gradient
from sgdtheory.optimal.schedules import STARTS, Freedom
from sgdtheory.optimal.search import AbstractSearch, lower_bound
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import EquivalentRuns

MOST_STEPS = 20_000.0  # A search has at most this many steps: they are taken one by one, which takes minutes.
FARTHEST = 10.0  # Directions that would not move if Σ γ_t were this many times that of the start are left out.


class EquivalentRun(AbstractRun):
    """Run of a deterministic equivalent whose learning rates at the knots vary, at a constant batch size."""

    def __init__(self, runs: EquivalentRuns, knots: np.ndarray) -> None:
        self.runs = runs
        self.num_steps = float(runs.num_steps)
        self.knots = knots
        steps = np.arange(self.num_steps)
        self.between = interpolation(steps, steps, knots, self.num_steps)
        self.weight = np.ones(steps.size)

    def risk_and_gradient(self, log_rate: np.ndarray, log_batch: np.ndarray) -> Gradient:
        """Return risks and slopes by log γ for (S, J) values."""
        at = self.runs.risks(log_rate @ self.between)
        return Gradient(at.risk, at.by_rate @ self.between.T, np.zeros_like(log_batch))


class EquivalentSearch(AbstractSearch):
    """Search for the best learning rates of a method that has a deterministic equivalent.

    There is no stability edge. The γ by which a linear decay, tuned, would be the first of the starts is in its place.

    Args:
        problem: with finitely many directions, or a PowerLaw.
        method: that has a field.
        num_steps: n.
        batch: B, whole, of all steps.

    Raises:
        ValueError: more steps than can be taken one by one.
    """

    starts = STARTS | {"warm-up, linear decay": lambda u: np.minimum(10 * u, 1.0) * 0.3 * (1 - u)}

    def __init__(self, problem: AbstractProblem, method: NonlinearMethod, num_steps: float, batch: float) -> None:
        if num_steps > MOST_STEPS:
            raise ValueError(
                f"num_samples must be at most {MOST_STEPS:g} steps' for {method!r}, whose steps are taken one by one, "
                f"got {num_steps:g} steps; raise batch_size, or take fewer samples"
            )
        self.num_steps = num_steps
        self.average = LastIterate()
        samples = num_steps * batch
        linear = Algorithm(method, Linear(), average=self.average)
        tuned = optimal_learning_rate(problem, batch_size=batch, num_samples=samples, algorithm=linear)
        peak = float(tuned.learning_rate)
        scale = peak / float(STARTS["linear decay"](np.zeros(1))[0])
        # A method that is not linear may go below the bound: no risk is refused for it.
        self.freedom = Freedom(None, scale, samples, batch)
        self.lower_bound = lower_bound(problem, samples)
        self.runs = EquivalentRuns(problem, method, batch, int(num_steps), FARTHEST * num_steps / 2 * peak)

    def run(self, knots: np.ndarray) -> EquivalentRun:
        """Return the run with these knots."""
        return EquivalentRun(self.runs, knots)
