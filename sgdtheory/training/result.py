"""The result of a training run."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from sgdtheory._common.arguments import checked_name
from sgdtheory._common.files import csv_columns
from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.evaluation import steps_to_target
from sgdtheory.training.noise import noise_scale

Outcome = Literal["target", "steps", "diverged", "interrupted"]
ENDED = {  # Results put outcomes in these words.
    "target": "reached the target",
    "steps": "did all its steps",
    "diverged": "diverged",
    "interrupted": "was interrupted",
}
SHOWN = 12  # A table has at most this many points of the curve, so that it fits a terminal.


@dataclass(frozen=True, eq=False)
class TrainResult(Shown):
    """The result of one run: its curve on the hold-out, and how it ended.

    Attributes:
        config: everything that determined the run.
        outcome: "target" (target_loss was reached), "steps" (max_steps were done), "diverged" (a loss was not
            finite), or "interrupted" (Ctrl-C came before the end).
        num_steps: steps done when it ended.
        steps: (E,) evaluated steps.
        losses: (E, 1 + K) losses on the hold-out of the iterate and of every average, in the order of `names`.
        train_loss: (E,) mean loss of the batches since the last evaluation; nan at step 0.
        squared_gradient, gradient_variance: (E,) estimates of ‖g‖² and tr Σ, means since the last evaluation, in the
            metric of `clip_norm`; nan without micro-batches.
        num_weights: number of weights of the network.
        seconds: time that the run took, including the runs that advanced beside it.
        steps_per_second: steps of this run per second, without compilation and evaluation.
    """

    figure: ClassVar[str] = "loss_curves"

    config: TrainConfig
    outcome: Outcome
    num_steps: int
    steps: np.ndarray
    losses: np.ndarray
    train_loss: np.ndarray
    squared_gradient: np.ndarray
    gradient_variance: np.ndarray
    num_weights: int
    seconds: float
    steps_per_second: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of `losses`: "iterate", each τ, and "uniform"."""
        return self.config.average_names

    @property
    def diverged(self) -> bool:
        """Return whether a loss was not finite."""
        return self.outcome == "diverged"

    @property
    def interrupted(self) -> bool:
        """Return whether Ctrl-C came before the end."""
        return self.outcome == "interrupted"

    def curve(self, name: str = "iterate") -> np.ndarray:
        """Return (E,) losses of the iterate or of an average, by its name."""
        return self.losses[:, self.names.index(checked_name("name", str(name), self.names))]

    def steps_to(self, target_loss: float) -> dict[str, float]:
        """Return the steps to a hold-out loss for the iterate and each average; nan where it was not reached."""
        return {name: steps_to_target(self.steps, self.curve(name), target_loss) for name in self.names}

    @property
    def steps_to_target(self) -> dict[str, float]:
        """Steps to the config's target_loss; nan where the run did not reach it or has none."""
        target = self.config.target_loss
        return self.steps_to(-np.inf if target is None else target)

    @property
    def best(self) -> tuple[str, float]:
        """Name and loss of the best of the iterate and its averages at the last evaluation; nan before the first."""
        if not self.steps.size:
            return "iterate", float("nan")
        last = np.where(np.isfinite(self.losses[-1]), self.losses[-1], np.inf)
        return self.names[int(last.argmin())], float(last.min())

    @property
    def noise_scale(self) -> np.ndarray:
        """(E,) simple gradient noise scale tr Σ / ‖g‖², in samples; nan without micro-batches."""
        return noise_scale(self.squared_gradient, self.gradient_variance)

    @property
    def samples_per_second(self) -> float:
        """Samples (sequences, on text) per second."""
        return self.steps_per_second * self.config.samples_per_step

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second; nan for data without tokens."""
        return self.samples_per_second * (self.config.value("context") or float("nan"))

    def columns(self) -> dict[str, np.ndarray]:
        """Return the curve as named columns."""
        return {
            "step": self.steps,
            "train_loss": self.train_loss,
            **{f"loss_{name}": self.curve(name) for name in self.names},
            "squared_gradient": self.squared_gradient,
            "gradient_variance": self.gradient_variance,
            "noise_scale": self.noise_scale,
        }

    def summary(self) -> dict[str, Any]:
        """Return the result in numbers and words for JSON, without the curve."""
        best, loss = self.best
        return {
            "outcome": self.outcome,
            "num_steps": self.num_steps,
            "best": best,
            "loss": loss,
            "steps_to_target": self.steps_to_target,
            "noise_scale": float(self.noise_scale[-1]) if self.steps.size else float("nan"),
            "num_weights": self.num_weights,
            "seconds": self.seconds,
            "steps_per_second": self.steps_per_second,
            "samples_per_second": self.samples_per_second,
            "tokens_per_second": self.tokens_per_second,
        }

    def to_csv(self) -> str:
        """Return the curve as CSV."""
        return csv_columns(self.columns())

    def sheet(self) -> Sheet:
        """Return how the run ended, and a dozen points of its curve."""
        best, loss = self.best
        ended = f"{ENDED[self.outcome]} at step {self.num_steps}; best loss {loss:.5g} ({best})"
        run = f"{self.config.value('model')}, width {self.config.width}, {self.num_weights:,} weights"
        indices = np.unique(np.linspace(0, self.steps.size - 1, SHOWN).round().astype(int)) if self.steps.size else []
        quantities = []
        for name, column in self.columns().items():
            if "gradient" in name:
                continue
            average = name.removeprefix("loss_")
            heading = f"loss, τ = {average}" if average[-1].isdigit() else name.replace("loss_", "loss, ")
            digits = 5 if "loss" in name else 4
            quantities.append(Quantity("", heading.replace("_", " "), column[indices], digits=digits))
        legends = []
        if self.config.target_loss is not None:
            steps = ", ".join(f"{name} {number(each)}" for name, each in self.steps_to_target.items())
            legends.append(f"steps to loss {self.config.target_loss:g}: {steps}")
        if self.steps_per_second:
            tokens = f", {self.tokens_per_second:.4g} tokens/s" if self.config.data.kind == "tokens" else ""
            legends.append(f"{self.steps_per_second:.4g} steps/s{tokens}, {self.seconds:.1f} s in all")
        table = Table(quantities, legend="\n".join(legends))
        settings = self.summary() | {"config": self.config.as_fields(), "curve": self.columns()}
        return Sheet(f"{run}: {ended}", [table], settings=settings)
