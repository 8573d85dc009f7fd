"""What measurements say of the change: B*, and the exponent of the best learning rate."""

from typing import NamedTuple

import numpy as np

from sgdtheory.advice.row import Estimate
from sgdtheory.advice.setup import TrainingSetup
from sgdtheory.curves import CurvesFit
from sgdtheory.fits import LossGrid, LossTarget, StepsLaw

Fit = LossGrid | StepsLaw | CurvesFit
OVERHEAD = 0.2  # of data, by which B* is defined here


class Evidence(NamedTuple):
    """What is known beyond theory.

    Attributes:
        critical: B*, 20% more data than small batches need; None: not known.
        exponent: of γ* in B at a fixed number of samples; None: not measured.
        source: of both.
        remark: what the fit does not tell; "" if nothing.
    """

    critical: Estimate | None = None
    exponent: Estimate | None = None
    source: str = ""
    remark: str = ""


def evidence(current: TrainingSetup, fit: Fit | None, level: float) -> Evidence:
    """From a fit, or the B* that the setup has.

    Raises:
        ValueError: a fit of another kind, both a fit and a B*, or curves without the number of steps.
    """
    if fit is None:
        known = current.critical_batch_size
        return Evidence() if known is None else Evidence(Estimate(known, known, known), source="your B*")
    if current.critical_batch_size is not None:
        raise ValueError("critical_batch_size is what fit tells: give one of the two")
    if isinstance(fit, StepsLaw):
        return Evidence(_of_law(fit, level), source="your steps to a target, a + b/B (T13)")
    if isinstance(fit, LossGrid):
        return _of_grid(fit, level)
    if isinstance(fit, CurvesFit):
        return _of_curves(current, fit)
    raise ValueError(f"fit must be a LossGrid, a StepsLaw or a CurvesFit, got {type(fit).__name__}")


def _of_law(law: StepsLaw, level: float) -> Estimate:
    """ω b/a: B* over batches so small that they waste nothing."""
    if law.alpha != 1 or not law.b:
        raise ValueError("fit must be a law a + b/B with b above 0: fit_steps_law without fit_alpha")
    value = law.b / law.a if law.a else np.inf
    try:
        low, high = law.interval("b/a", level)
    except ValueError:  # as many numbers as points
        low, high = 0.0, np.inf
    return Estimate(value, low, high).times(OVERHEAD)


def _of_grid(grid: LossGrid, level: float) -> Evidence:
    """The lowest target's B* and the exponent of the best learning rate."""
    laws = [law.fit for law in grid.laws if law.quantity == "learning rate" and "batch_size" in law.fit.exponents]
    exponent = None
    if laws:
        most = max(laws, key=lambda law: law.num_points)
        exponent = Estimate(most.exponents["batch_size"], *most.interval("batch_size", level))
    targets = [each for each in grid.targets if each.law.a and each.law.b]
    critical = _of_target(min(targets, key=lambda each: each.target)) if targets else None
    remark = "" if exponent else "the grid has too few tuned (B, D) for a law of the best learning rate"
    return Evidence(critical, exponent, "your grid of losses", remark)


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
    return Evidence(Estimate(float(np.ravel(found.batch_size)[0]), float(low), float(high)), source="your loss curves")
