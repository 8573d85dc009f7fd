"""Evidence for the change from measurements: B*, and the exponent of the best learning rate."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from sgdtheory._common.sheets import between, number
from sgdtheory.advice.row import Estimate
from sgdtheory.advice.setup import TrainingSetup
from sgdtheory.curves import CurvesFit
from sgdtheory.fits import SMALLEST, AbstractStepsLaw, Convention, LossGrid, StepsLaw, StepsTable

Fit = LossGrid | StepsLaw | StepsTable | CurvesFit
OVERHEAD = 0.2  # B* is the largest batch size that needs at most this fraction more data.
UNKNOWN = float("nan"), float("nan")  # A number that is given without an interval has these ends.


class StatedSize(NamedTuple):
    """B* as `fit`, `fit-grid`, `fit-curves` and `plan` print it.

    Attributes:
        size: B*.
        reference: B_ref, over whose data its own are counted; None: over those of vanishing batch sizes.
        overhead: ω, how much more.
    """

    size: Estimate
    reference: float | None
    overhead: float

    @property
    def text(self) -> str:
        """B* with its interval and its reference, for a sentence."""
        value, low, high = self.size
        ends = "" if np.isnan(low) else f" ({between(low, high)})"
        return f"B* = {number(value)}{ends}, {self._definition}"

    @property
    def answer(self) -> str:
        """Return the same, or that B* is not determined if its interval is open."""
        _, low, high = self.size
        if low > 0 and np.isfinite(high) or np.isnan(low):
            return self.text
        return f"B* is not determined: its interval is {between(low, high)}, for {self._definition}"

    @property
    def _definition(self) -> str:
        """Return how much more data B* needs, and than what."""
        counted = "vanishing batch sizes need" if self.reference is None else f"at batch size {self.reference:g}"
        return f"{self.overhead:.0%} more data than {counted}"


class Evidence(NamedTuple):
    """Measured quantities that the advice uses beside theory.

    Attributes:
        critical: B* by the definition in theory, 20% more data than vanishing batches need; None: not known. What is
            computed here counts from these, `B* = ω b/a + (1 + ω) B_ref` leads to any other reference.
        stated: B* by the convention of the commands that fit it: the same number there and here.
        exponent: of γ* in B at a fixed number of samples; None: not measured.
        source: of both.
        remark: what the fit does not tell; "" if nothing.
        extra_data: interval of the extra data from one batch size to another; None: it follows from `critical`.
    """

    critical: Estimate | None = None
    stated: StatedSize | None = None
    exponent: Estimate | None = None
    source: str = ""
    remark: str = ""
    extra_data: Callable[[float, float], tuple[float, float]] | None = None


def evidence(current: TrainingSetup, fit: Fit | None, level: float) -> Evidence:
    """Collect the evidence from a fit, or from the B* of the setup.

    Raises:
        ValueError: a fit of another kind, both a fit and a B*, or curves without the number of steps.
    """
    if fit is None:
        return Evidence() if current.critical_batch_size is None else _of_setup(current)
    if current.critical_batch_size is not None:
        raise ValueError("fit already gives critical_batch_size: give one of the two")
    if isinstance(fit, StepsLaw):
        return _of_law(fit, level)
    if isinstance(fit, LossGrid):
        return _of_grid(fit, level)
    if isinstance(fit, StepsTable):
        return _of_table(fit)
    if isinstance(fit, CurvesFit):
        return _of_curves(current, fit)
    raise ValueError(f"fit must be a LossGrid, a StepsLaw, a StepsTable or a CurvesFit, got {type(fit).__name__}")


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
    known = law.freedom > 0
    ends = law.interval(level=level) if known else (0.0, np.inf)
    size = Estimate(law.critical_batch_size(), *ends)
    stated = StatedSize(size, SMALLEST.reference_among(law.batch_sizes), SMALLEST.overhead)
    interval = partial(law.extra_data_interval, level=level) if known else None
    source = "your steps to a target, a + b/B (T13)"
    return Evidence(_over_vanishing(law, ends, SMALLEST), stated, source=source, extra_data=interval)


def _of_table(table: StepsTable) -> Evidence:
    """B* that goes with the steps, and its difference from the data of the reference."""
    found = table.critical
    if found is None:
        raise ValueError("fit must have a critical batch size, as steps_table of a fitted law has: take fit_steps_law")
    convention = found.convention
    reference = convention.reference_among(table.batch_sizes)
    small = (max(0.0, end - (1 + convention.overhead) * reference) for end in found[:3])
    stated = StatedSize(Estimate(*found[:3]), reference, convention.overhead)
    return Evidence(Estimate(*small).times(OVERHEAD / convention.overhead), stated, source="your law of steps")


def _of_grid(grid: LossGrid, level: float) -> Evidence:
    """The lowest target's B* and the exponent of the best learning rate."""
    laws = [law.fit for law in grid.laws if law.quantity == "learning rate" and "batch_size" in law.fit.exponents]
    exponent = None
    if laws:
        most = max(laws, key=lambda law: law.num_points)
        exponent = Estimate(most.exponents["batch_size"], *most.interval("batch_size", level))
    targets = [each for each in grid.targets if each.law.a and each.law.b]
    lowest = min(targets, key=lambda each: each.target) if targets else None
    critical = stated = None
    if lowest is not None:
        critical = _over_vanishing(lowest.law, lowest.interval, lowest.convention)
        size = Estimate(lowest.critical_batch_size, *lowest.interval)
        stated = StatedSize(size, lowest.reference, lowest.convention.overhead)
    remark = "" if exponent else "the grid has too few tuned (B, D) for a law of the best learning rate"
    return Evidence(critical, stated, exponent, "your grid of losses", remark)


def _over_vanishing(law: AbstractStepsLaw, interval: tuple[float, float], convention: Convention) -> Estimate:
    """B* over vanishing batch sizes, with the interval of B* over a reference: B* = ω b/a + (1 + ω) B_ref."""
    overhead = convention.overhead
    reference = (1 + overhead) * convention.reference_among(law.batch_sizes)
    low, high = (max(0.0, end - reference) for end in interval)
    value = overhead * law.b / law.a if law.a else np.inf
    return Estimate(value, min(value, low), max(value, high)).times(OVERHEAD / overhead)


def _of_curves(current: TrainingSetup, fit: CurvesFit) -> Evidence:
    if current.samples is None:
        raise ValueError("num_steps must be given with loss curves: B* grows with the data")
    if not fit.knows_batch_size:
        raise ValueError("fit must know the batch size of its curves: give it to fit_loss_curves")
    found = fit.critical_batch_size(current.samples)
    low, high = np.ravel(found.interval)
    size = Estimate(float(np.ravel(found.batch_size)[0]), float(low), float(high))
    return Evidence(size, StatedSize(size, None, OVERHEAD), source="your loss curves")
