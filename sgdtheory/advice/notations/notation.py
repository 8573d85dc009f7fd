"""`Notation`: a ramp in a trainer's own settings, and the run that the trainer makes of it."""

from dataclasses import dataclass
from typing import Any

from sgdtheory.advice.ramped_run import RampedRun


@dataclass(frozen=True)
class Notation:
    """A ramp in a trainer's own settings.

    Attributes:
        trainer: name.
        text: to copy.
        settings: the same by name.
        run: what the trainer does with it; where it cannot do what was planned, its stages are others.
        remarks: what it cannot do, and what to watch; a sentence each.
    """

    trainer: str
    text: str
    settings: dict[str, Any]
    run: RampedRun
    remarks: tuple[str, ...] = ()


def one_rate(run: RampedRun, trainer: str) -> tuple[str, ...]:
    """That a trainer with one peak learning rate leaves out γ ∝ B^p."""
    if run.exponent == 0 or len(run.stages) == 1:
        return ()
    rates = ", ".join(f"{rate:.3g}" for rate in run.peak_learning_rates)
    return (f"{trainer} has one peak learning rate: the stages' own, {rates}, need a scheduler of yours",)
