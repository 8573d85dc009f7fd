"""Evidence for the change from measurements: B*, and the exponent of the best learning rate."""

from typing import NamedTuple

import numpy as np

from sgdtheory.advice.row import Estimate
from sgdtheory.advice.setup import TrainingSetup
from sgdtheory.curves import CurvesFit
from sgdtheory.fits import SMALLEST, LossGrid, LossTarget, StepsLaw

Fit = LossGrid | StepsLaw | CurvesFit
OVERHEAD = 0.2  # of data, by which B* is defined here
UNKNOWN = float("nan"), float("nan")  # ends of the interval of a number that is given without one


class StatedSize(NamedTuple):
    """B* as `fit`, `fit-grid`, `fit-curves` and `plan` print it.

    Attributes:
        size: B*.
        reference: B_ref, over whose data its own are counted; None: over those of batches that waste nothing.
        overhead: ω, how much more.
    """

    size: Estimate
    reference: float | None
    overhead: float

    @property
    def text(self) -> str:
        """B* with its interval and its reference, for a sentence."""
        value, low, high = self.size
        ends = "" if np.isnan(low) else f" ({low:.4g} … {high:.4g})"
        counted = "the smallest batches" if self.reference is None else f"batch size {self.reference:g}"
        return f"B* = {value:.4g}{ends}, {self.overhead:.0%} more data than {counted}"


class Evidence(NamedTuple):
    """Measured quantities that the advice uses beside theory.

    Attributes:
        critical: B* by the definition in theory, 20% more data than vanishing batches need; None: not known. What is
            computed here counts from these, `B* = ω b/a + (1 + ω) B_ref` leads to any other reference.
        stated: B* by the convention of the commands that fit it: the same number there and here.
        exponent: of γ* in B at a fixed number of samples; None: not measured.
        source: of both.
        remark: what the fit does not tell; "" if nothing.
    """

    critical: Estimate | None = None
    stated: StatedSize | None = None
    exponent: Estimate | None = None
    source: str = ""
    remark: str = ""


def evidence(current: TrainingSetup, fit: Fit | None, level: float) -> Evidence:
    """Collect the evidence from a fit, or from the B* of the setup.

    Raises:
        ValueError: a fit of another kind, both a fit and a B*, or curves without the number of steps.
    """
    if fit is None:
        return Evidence() if current.critical_batch_size is None else _of_setup(current)
    if current.critical_batch_size is not None:
        raise ValueError("critical_batch_size is what fit tells: give one of the two")
    if isinstance(fit, StepsLaw):
        return _of_law(fit, level)
    if isinstance(fit, LossGrid):
        return _of_grid(fit, level)
    if isinstance(fit, CurvesFit):
        return _of_curves(current, fit)
    raise ValueError(f"fit must be a LossGrid, a StepsLaw or a CurvesFit, got {type(fit).__name__}")


def _of_setup(current: TrainingSetup) -> Evidence:
    """The B* that is given, over its reference batch size."""
    size = current.critical_batch_size
    assert size is not None
    small = size - (1 + OVERHEAD) * (current.reference or 0.0)
    if small <= 0:
        raise ValueError(
            f"critical_batch_size must exceed {1 + OVERHEAD:g} × reference, since B* = ω b/a + (1 + ω) B_ref, got "
            f"{size:g} with reference {current.reference:g}; give both as one fit says them"
        )
    stated = StatedSize(Estimate(size, *UNKNOWN), current.reference, OVERHEAD)
    return Evidence(Estimate(small, *UNKNOWN), stated, source="your B*")


def _of_law(law: StepsLaw, level: float) -> Evidence:
    """ω b/a, and B* over the smallest batch size measured."""
    if law.alpha != 1 or not law.b:
        raise ValueError("fit must be a law a + b/B with b above 0: fit_steps_law without fit_alpha")
    value = law.b / law.a if law.a else np.inf
    size = law.critical_batch_size(convention=SMALLEST)
    try:
        ratio = Estimate(value, *law.interval("b/a", level))
        over = Estimate(size, *law.interval("critical_batch_size", level, convention=SMALLEST))
    except ValueError:  # as many numbers as points
        ratio = Estimate(value, 0.0, np.inf)
        over = Estimate(size, 0.0, np.inf)
    stated = StatedSize(over, SMALLEST.reference_among(law.batch_sizes), SMALLEST.overhead)
    return Evidence(ratio.times(OVERHEAD), stated, source="your steps to a target, a + b/B (T13)")


def _of_grid(grid: LossGrid, level: float) -> Evidence:
    """The lowest target's B* and the exponent of the best learning rate."""
    laws = [law.fit for law in grid.laws if law.quantity == "learning rate" and "batch_size" in law.fit.exponents]
    exponent = None
    if laws:
        most = max(laws, key=lambda law: law.num_points)
        exponent = Estimate(most.exponents["batch_size"], *most.interval("batch_size", level))
    targets = [each for each in grid.targets if each.law.a and each.law.b]
    lowest = min(targets, key=lambda each: each.target) if targets else None
    critical = None if lowest is None else _of_target(lowest)
    stated = None
    if lowest is not None:
        size = Estimate(lowest.critical_batch_size, *lowest.interval)
        stated = StatedSize(size, lowest.reference, lowest.convention.overhead)
    remark = "" if exponent else "the grid has too few tuned (B, D) for a law of the best learning rate"
    return Evidence(critical, stated, exponent, "your grid of losses", remark)


def _of_target(target: LossTarget) -> Estimate:
    """B* over small batches, from that over the grid's reference: B* = ω b/a + (1 + ω) B_ref."""
    overhead = target.convention.overhead
    reference = (1 + overhead) * target.convention.reference_among(target.batch_sizes)
    ends = [max(0.0, end - reference) for end in target.interval]
    value = target.law.b / target.law.a * overhead
    return Estimate(value, min(value, ends[0]), max(value, ends[1])).times(OVERHEAD / overhead)


def _of_curves(current: TrainingSetup, fit: CurvesFit) -> Evidence:
    if current.num_steps is None:
        raise ValueError("num_steps must be given with loss curves: B* grows with the data")
    if not fit.knows_batch_size:
        raise ValueError("fit must know the batch size of its curves: give it to fit_loss_curves")
    found = fit.critical_batch_size(current.num_steps * current.batch_size)
    low, high = np.ravel(found.interval)
    size = Estimate(float(np.ravel(found.batch_size)[0]), float(low), float(high))
    return Evidence(size, StatedSize(size, None, OVERHEAD), source="your loss curves")
