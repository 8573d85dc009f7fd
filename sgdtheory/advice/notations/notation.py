"""`Notation`: a ramp in a trainer's own settings, and the run that the trainer makes of it."""

from dataclasses import dataclass
from typing import Any

from sgdtheory.advice.ramped_run import RampedRun

FEW = 6  # A remark lists the numbers of up to this many stages; more would fill the screen.


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


def in_words(numbers: list[str]) -> str:
    """Return all of a few numbers, or the first two and the last one of many.

    >>> from sgdtheory.advice import in_words
    >>> in_words([str(number) for number in range(8)])
    '0, 1, …, 7'

    Args:
        numbers: as they are to be printed.
    """
    return ", ".join(numbers) if len(numbers) <= FEW else f"{numbers[0]}, {numbers[1]}, …, {numbers[-1]}"


def no_ramp(run: RampedRun, real: RampedRun, family: str) -> tuple[str, ...]:
    """Say that a constant batch size, or another ramp, stands in place of the planned ramp."""
    if real.stages == run.stages:
        return ()
    taken = f"{real.num_steps:,} steps, planned were {run.num_steps:,}"
    if len(real.stages) == 1:
        size = real.stages[0][1]
        return (f"no ramp {family} takes fewer steps than the constant batch size {size}, which is written: {taken}",)
    return (f"this is the nearest ramp {family}, not the ramp that was planned: {taken}",)


def one_rate(run: RampedRun, trainer: str) -> tuple[str, ...]:
    """Return a remark that a trainer with one peak learning rate leaves out γ ∝ B^p, where the ramp has several."""
    if run.exponent == 0 or len(run.stages) == 1:
        return ()
    rates = in_words([f"{rate:.3g}" for rate in run.peak_learning_rates])
    return (f"{trainer} has one peak learning rate: the stages' own, {rates}, need a scheduler of yours",)
