"""`fit_law`: the numbers of any law from loss curves, with intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sgdtheory._common.arguments import share_between_0_and_1
from sgdtheory._common.interval import Interval
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.curves.laws.law import AbstractLaw
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.curves.profile import AbstractConfidenceSet, LinearSet, ProfileSet
from sgdtheory.curves.robust_fit import DIFFERENCE, TUNING, Observed, RobustFit, fit, observed, rows_of, spread
from sgdtheory.curves.valley import GAIN

LARGEST = 600.0  # Log losses of a band are clipped to ± this value, so that the losses stay finite.
POOR = 0.05  # A remark says that the law does not fit if its residuals scatter by more than this fraction of the loss.


class LossPrediction(NamedTuple):
    """A predicted curve.

    Attributes:
        step: (K,) numbers of steps.
        learning_rate: (K,) of these steps.
        loss: (K,) expected.
        low, high: (K,) band for a new run, from the errors of the fitted numbers and the scatter of runs about the law.
            The theory's band also has the theory's own error. Bands of other laws hold if the law is right.
    """

    step: np.ndarray
    learning_rate: np.ndarray
    loss: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class LawFit(Shown):
    """A law's numbers that `fit_law` has found.

    Attributes:
        law: that was fitted.
        numbers: name → value and interval; its ends least and inf where the curves do not tell them.
        scatter: robust standard deviation of log loss about the fit.
        remark: what a reader should know; empty if nothing.
        curves: that were fitted.
        level: of the intervals.
    """

    law: AbstractLaw
    numbers: dict[str, Interval]
    scatter: float
    remark: str
    curves: tuple[LossCurve, ...]
    level: float
    fitted: RobustFit = field(repr=False)
    data: Observed = field(repr=False)

    def predict_curve(self, curve: LossCurve, level: float | None = None) -> LossPrediction:
        """The loss at the rows of a curve, from its learning rates (and batch sizes) alone."""
        prepared = self.law.prepared_beside([curve], self.data.prepared)

        def log_losses(coordinates: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):  # overflow is a result here
                return np.log(self.law.losses(self.law.values(coordinates), prepared)[0])

        checked = self.level if level is None else share_between_0_and_1("level", level)
        return LossPrediction(curve.step, curve.learning_rate, *band(self.fitted, log_losses, checked))

    def sheet(self) -> Sheet:
        """Return the numbers of the fit with their intervals."""
        found = [Quantity(name, name, each.value, each.interval) for name, each in self.numbers.items()]
        error = f"off by {self.scatter:.2%} (standard deviation of log loss)"
        table = Table(found, "parameters", interval=f"{self.level:.0%}", legend=error)
        return Sheet(type(self.law).__name__, [table], [self.remark])


def fit_law(
    curves: LossCurve | Sequence[LossCurve],
    law: AbstractLaw,
    *,
    level: float = 0.95,
    progress: Callable[[str], None] | None = None,
) -> LawFit:
    """Fit any law to loss curves, as `fit_loss_curves` fits the theory: robustly, with intervals.

    By Huber's M-estimate on log losses; rows ten standard deviations off, where they are few, are spikes and left out.
    Residuals of a curve are correlated: a process along log t is fitted to them, and intervals are profile likelihoods
    scaled by it. Rows that a curve shares with one before it count once.

    Args:
        curves: of one group.
        law: `MultiPowerLaw()`, `PowerOfSum()`, `TheoryLaw()` or your own AbstractLaw.
        level: of the intervals.
        progress: is called, in a few words, with what is computed.

    Returns:
        LawFit.

    Raises:
        ValueError: no curves, of several groups, some with and some without batch sizes, or fewer rows than numbers.

    Example:
        >>> import sgdtheory as st
        >>> curves = st.example_loss_curves("100M")
        >>> found = st.curves.fit_law(curves["wsdcon_18"], st.curves.PowerOfSum())
        >>> held_out = curves["wsdcon_9"]
        >>> error = found.predict_curve(held_out).loss / held_out.loss - 1
        >>> print(f"largest error {abs(error).max():.1%}")
        largest error 1.9%
    """
    curves = checked_curves(curves)
    if not isinstance(law, AbstractLaw):
        raise ValueError(f"law must be an object such as MultiPowerLaw(), or your own AbstractLaw, got {law!r}")
    share = share_between_0_and_1("level", level)
    found, data = fit_to(curves, law, progress)
    numbers, unknown = intervals(found, data, share)
    nothing = "the residuals of the law are as large as the changes of these losses: its numbers are not known"
    remarks = general_remarks(found) if found.identified.any() else [nothing]
    if unknown and found.identified.any():
        remarks.append(f"the curves do not determine {', '.join(unknown)}")
    return LawFit(law, numbers, found.scale, "; ".join(remarks), curves, share, found, data)


def fit_to(
    curves: tuple[LossCurve, ...], law: AbstractLaw, progress: Callable[[str], None] | None
) -> tuple[RobustFit, Observed]:
    """The fit of a law to checked curves, and their rows."""
    data = observed(curves, law)
    least = 3 * len(law.names)
    if data.log_loss.size < least:
        raise ValueError(
            f"curves must have at least {least} different rows for {len(law.names)} numbers, got "
            f"{data.log_loss.size}; give more rows or curves"
        )
    return fit(data, law.starts(curves), progress or (lambda text: None)), data


def optimizer_of(curves: Sequence[LossCurve], weight_decay: float | None, optimizer: str | None) -> str:
    """Return the optimizer that is given, or "adam" for runs with weight decay or with tokens.

    Raises:
        ValueError: none is given, and nothing says which one took the steps.
    """
    if optimizer is not None:
        return optimizer
    if not weight_decay and all(curve.tokens is None for curve in curves):
        raise ValueError(
            'optimizer must be given, "sgd" or "adam": neither weight decay nor tokens say that it is Adam'
        )
    return "adam"


def checked_curves(curves: LossCurve | Sequence[LossCurve]) -> tuple[LossCurve, ...]:
    """Curves of one group, all with batch sizes or all without."""
    curves = (curves,) if isinstance(curves, LossCurve) else tuple(curves)
    if not curves or not all(isinstance(curve, LossCurve) for curve in curves):
        raise ValueError("curves must be LossCurves, one or more; read_loss_curves makes them from files")
    groups = {curve.group for curve in curves}
    if len(groups) > 1:
        raise ValueError(f"curves must be of one group, got {', '.join(sorted(groups))}; fit each on its own")
    if len({curve.batch_size is not None for curve in curves}) > 1:
        raise ValueError("curves must all have batch sizes or none of them; give those that are missing")
    return curves


def confidence_set(found: RobustFit, data: Observed, level: float) -> AbstractConfidenceSet:
    """Return the confidence set of the coordinates found."""
    linear = LinearSet(found.coordinates, found.covariance, found.quantile(level))
    if found.row_covariance is None or found.held is None:
        return linear
    middle = data.predicted(found.coordinates[None])[0][found.used]
    rows = rows_of(data, found.used, middle + found.held, GAIN[0] * found.scale**2)
    return ProfileSet(rows, found.coordinates, found.row_covariance, linear)


def intervals(found: RobustFit, data: Observed, level: float) -> tuple[dict[str, Interval], list[str]]:
    """Return the interval of every number, and the names of those with an open end, which are not identified."""
    point = found.coordinates
    low = np.full(point.size, -np.inf)
    high = np.full(point.size, np.inf)
    among = np.flatnonzero(found.identified)
    if among.size:
        unit = np.eye(point.size)[among]
        ends = confidence_set(found, data, level).ends(np.concatenate([-unit, unit]))
        reached = np.where(ends.known, ends.points[np.arange(2 * among.size), np.tile(among, 2)], np.nan)
        below, above = np.split(reached, 2)
        low[among] = np.nan_to_num(below, nan=-np.inf)
        high[among] = np.nan_to_num(above, nan=np.inf)
    values = {}
    for k, each in enumerate(found.law.numbers):
        middle, *ends = (float(each.least + np.exp(place)) for place in (point[k], low[k], high[k]))
        values[each.name] = Interval(middle, (ends[0], ends[1]))
    open_ended = ~(np.isfinite(low) & np.isfinite(high))
    return values, [name for name, unknown in zip(found.law.names, open_ended, strict=True) if unknown]


def nothing_identified(found: RobustFit, log_loss: np.ndarray) -> str:
    """Return the remark for curves that identify nothing; if their losses change, residuals that drift are named."""
    if found.identified.any():
        return ""
    if spread(log_loss) > TUNING * found.scale and found.freedom < found.coordinates.size:
        return (
            "these curves determine too little: the loss changes by more than the residuals of the law, but these "
            "drift so slowly that the rows count as fewer than the law's numbers; numbers, predictions and B* are not "
            "known; give a longer run, or runs with other schedules beside it"
        )
    return (
        "these curves determine nothing: their losses change no more than they scatter, and numbers, predictions "
        "and B* are not known; give curves along which the loss falls"
    )


def general_remarks(found: RobustFit, law: str = "law") -> list[str]:
    """Return remarks that hold for a fit of any law."""
    remarks = []
    if found.scale > POOR:
        remarks.append(
            f"the {law} does not fit: half of the rows are off by {0.6745 * found.scale:.2g} or more of their loss; "
            "look at the plot, and leave out what is not SGD on one model and one kind of data"
        )
    if not found.used.all():
        remarks.append(f"{(~found.used).sum()} of {found.used.size} rows are spikes, which were not fitted")
    return remarks


def slopes_of(found: RobustFit, function: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A function (K,) of the coordinates found, and its derivatives (P, K) by them."""
    count = found.coordinates.size
    change = DIFFERENCE * np.concatenate([np.zeros((1, count)), np.eye(count), -np.eye(count)])
    values = function(found.coordinates + change)
    with np.errstate(invalid="ignore"):  # inf − inf, where a run diverges
        slopes = (values[1 : count + 1] - values[count + 1 :]) / (2 * DIFFERENCE)
    return values[0], np.nan_to_num(slopes)


def band(
    found: RobustFit,
    log_losses: Callable[[np.ndarray], np.ndarray],
    level: float,
    law_error: Callable[[np.ndarray], np.ndarray] = np.zeros_like,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predicted losses (K,), and ends of the band for what would be measured, from log losses of coordinates.

    Args:
        found: the fit.
        log_losses: (K,) of coordinates.
        level: of the band.
        law_error: (K,) standard deviations of the law's own error, of the predicted log losses.
    """
    middle, slopes = slopes_of(found, log_losses)
    variance = np.maximum(np.einsum("pk,pq,qk->k", slopes, found.covariance, slopes), 0)
    reach = found.quantile(level) * np.sqrt(variance + found.scale**2 + law_error(middle) ** 2)
    reach = np.minimum(np.nan_to_num(reach, nan=LARGEST), LARGEST)
    reach = reach if found.identified.any() else np.full_like(reach, LARGEST)
    ends = np.exp(np.clip([middle, middle - reach, middle + reach], -LARGEST, LARGEST))
    between, low, high = (np.where(np.isposinf(middle), np.inf, each) for each in ends)
    return between, low, high


def farthest(
    curves: Sequence[LossCurve], fitted: Sequence[np.ndarray], steps: np.ndarray, log_loss: np.ndarray
) -> np.ndarray:
    """(K,) by how much a predicted curve has differed up to each step from the fitted curve that is nearest to it.

    A fitted curve has its last loss after its end. It has its first loss before its beginning, where the theory has not
    been compared with any row; a difference there does not count at later steps.

    Args:
        curves: that were fitted.
        fitted: losses of the law at their rows.
        steps: (K,) of the predicted curve.
        log_loss: (K,) predicted.
    """
    found = []
    for curve, losses in zip(curves, fitted, strict=True):
        at = np.log(np.maximum(steps, 1)), np.log(np.maximum(curve.step, 1))
        away = np.abs(log_loss - np.interp(*at, np.log(losses)))
        begun = steps >= curve.step[0]
        found.append(np.where(begun, np.maximum.accumulate(np.where(begun, away, 0.0)), away))
    return np.min(found, axis=0)
