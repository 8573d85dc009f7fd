"""The history of a run: its evaluations so far, its outcome and its speed."""

from dataclasses import dataclass, field, replace

import numpy as np

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.evaluation import is_scheduled
from sgdtheory.training.result import Outcome, TrainResult

NUM_SUMS = 3


@dataclass
class History:
    """Evaluations of one run so far.

    Attributes:
        config: config of the run.
        steps: evaluated steps.
        losses: one row of losses per evaluation.
        sums: one row per evaluation of means since the previous one: training loss, ‖g‖², tr Σ.
        outcome: how the run ended; None while it is not over.
        seconds: time spent on the run.
        steps_per_second: speed without compilation and evaluation; 0 until it is known.
        since: step from which sums are accumulated: the last scheduled evaluation.
    """

    config: TrainConfig
    steps: list[int] = field(default_factory=list)
    losses: list[np.ndarray] = field(default_factory=list)
    sums: list[np.ndarray] = field(default_factory=list)
    outcome: Outcome | None = None
    seconds: float = 0.0
    steps_per_second: float = 0.0
    since: int = 0

    @property
    def step(self) -> int:
        """The last evaluated step; −1 before the first evaluation."""
        return self.steps[-1] if self.steps else -1

    def add(self, step: int, losses: np.ndarray, sums: np.ndarray, failed: int) -> None:
        """Add an evaluation and decide whether it was the last."""
        self.steps.append(step)
        self.losses.append(np.asarray(losses, float))
        self.sums.append(
            np.asarray(sums, float) / (step - self.since) if step > self.since else np.full(NUM_SUMS, np.nan)
        )
        if is_scheduled(self.config, step):
            self.since = step
        target = self.config.target_loss
        if failed >= 0 or not np.isfinite(losses[0]):
            self.outcome = "diverged"
        elif target is not None and np.nanmin(losses) <= target:
            self.outcome = "target"
        elif step >= self.config.max_steps:
            self.outcome = "steps"

    def continued(self, config: TrainConfig) -> "History":
        """Return the history that a run of `config`, with more steps or a lower target, would have at this point.

        Another duration schedules other evaluations; those that were scheduled before are kept.
        """
        since = next((step for step in reversed(self.steps) if is_scheduled(self.config, step)), 0)
        history = replace(self, config=config, since=since)
        if self.outcome == "diverged" or self.step < 0:
            return history
        target = config.target_loss
        history.outcome = "steps" if self.step >= config.max_steps else None
        if target is not None and np.nanmin(self.losses[-1]) <= target:
            history.outcome = "target"
        elif not history.outcome and not any(is_scheduled(each, self.step) for each in (self.config, config)):
            # The last evaluation was only made because the shorter run ended there: a longer run does not have it.
            history.steps, history.losses, history.sums = self.steps[:-1], self.losses[:-1], self.sums[:-1]
        return history

    def result(self, num_steps: int, num_weights: int) -> TrainResult:
        """Return the result of the run so far."""
        losses = np.array(self.losses, float).reshape(len(self.steps), len(self.config.average_names))
        train_loss, squared, trace = np.array(self.sums).reshape(-1, NUM_SUMS).T
        return TrainResult(
            self.config,
            self.outcome or "interrupted",
            num_steps,
            np.array(self.steps),
            losses,
            train_loss,
            squared,
            trace,
            num_weights,
            self.seconds,
            self.steps_per_second,
        )
