"""`forecast_loss`: where a run under way will end, with a band, from its first rows and what other runs say."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from sgdtheory._common.arguments import checked_name, positive_number, real_array, share_between_0_and_1, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Sheet
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import Constant, Shape
from sgdtheory.curves.experience import PUBLIC, Experience, Prior, prior_of
from sgdtheory.curves.law_fit import POOR, LossPrediction, checked_curves, optimizer_of
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.loss_curve import LossCurve, curve_remarks
from sgdtheory.curves.posterior import Posterior, posterior
from sgdtheory.curves.run_under_way import Rows, after_warmup, rows_of

LATEST = 3  # The loss of a run is the mean of this many last cells.
FALLEN = 3.0  # A fall of the loss below this many standard deviations counts as none.
TENTH = 0.1  # A run is nearly done if the fall ahead is less than this fraction of the fall so far.
OTHERS = "the band reflects other public runs rather than this one"
OTHERS_WORD = 0.5  # Above this share of the deviation before the run a number follows more from other runs.
NOT_NEEDED = "batch size not known"  # The loss of a run with a constant batch size does not depend on it.
FINALS = 0.0, 0.01, 0.05, 0.1, 0.2, 0.5  # A remedy is sought among these last learning rates, as fractions of the peak.
OFF = 0.05  # A log whose learning rate differs by more than this fraction follows another schedule.


@dataclass(frozen=True, eq=False)
class Forecast(Shown):
    """The forecast loss at the end of a run under way.

    Attributes:
        num_steps: n, of the whole run.
        loss: expected after them.
        band: of what will be measured there, at `level`.
        level: of the band.
        step: how far the run is.
        now: its loss there, smoothed by the law.
        scatter: standard deviation of log loss about the law, of what is averaged in a cell.
        too_early: a sentence, where the band follows from other runs more than from this one; empty otherwise.
        remark: what a reader should know; empty if nothing.
        path: losses and bands along the rest of the run.
        run: that is forecast.
    """

    num_steps: int
    loss: float
    band: tuple[float, float]
    level: float
    step: int
    now: float
    scatter: float
    too_early: str
    remark: str
    path: LossPrediction
    run: LossCurve = field(repr=False)

    @property
    def line(self) -> str:
        """The answer in one line: the final loss, its band, and when."""
        low, high = self.band
        return f"final loss {self.loss:.4g} ({low:.4g} … {high:.4g}) at step {self.num_steps:,}, {self.level:.0%}"

    def sheet(self) -> Sheet:
        """Return the final loss and its band, how far the run is, and what limits the forecast."""
        lines = [
            self.line,
            f"now {self.now:.4g} at step {self.step:,}, {self.step / self.num_steps:.0%} of the run",
        ]
        lines += [f"too early: {self.too_early}"] if self.too_early else []
        names = "num_steps", "loss", "band", "level", "step", "now", "scatter", "too_early", "remark"
        settings = {name: getattr(self, name) for name in names} | {"path": self.path._asdict()}
        remarks = [each for each in curve_remarks([self.run]) if NOT_NEEDED not in each]
        return Sheet("", [], [self.remark, *remarks], settings, answer="\n".join(lines))

    def plot(self, *, title: str = "") -> Any:
        """The run, what is ahead and its band; a matplotlib Figure."""
        from sgdtheory.curves.forecast_figure import forecast_figure

        return forecast_figure(self.run, self.now, self.path, self.level, title or self.line.capitalize())


def forecast_loss(
    curves: LossCurve | Sequence[LossCurve],
    *,
    num_steps: int,
    learning_rate: ArrayLike | None = None,
    schedule: Shape | None = None,
    weight_decay: float | None = None,
    optimizer: str | None = None,
    level: float = 0.95,
    experience: Experience = PUBLIC,
) -> Forecast:
    """Forecast the loss at the end of a run under way, from its rows so far and the planned learning rates.

    The law is that of `fit_loss_curves`. A run that has not ended does not tell all its numbers: one at a constant
    rate does not say what a decay will gain. So they start from what other runs say, the language models of
    `example_loss_curves`, each number within a factor of about two, and rows take over as they come. The band adds

        numbers  gᵀ Σ g,   scatter  s²,   law  (0.28 · predicted fall of log loss)²

    Σ the numbers' covariance given rows and other runs, g the forecast's slopes by them; the last is how far the law
    was off on 228 runs of another group cut at 30 … 70% (experiment `forecasts_unseen`). Rows are
    averaged in cells of log step, and those in which the learning rate rises at first are left out.

    Args:
        curves: the run; or several, the run last, with others of the same model that tell more.
        num_steps: n, of the whole run.
        learning_rate: (n,) of all steps, or the peak of `schedule`; by default the schedule's peak is that of the run.
        schedule: `st.Cosine(final=0.1, warmup=0.09)` for example, along all n steps. Without it and an array the
            learning rate is taken to stay as it is, which the remark says.
        weight_decay, optimizer, level: as in `fit_loss_curves`.
        experience: what other runs say; another model's numbers can take its place.

    Returns:
        Forecast; `too_early` is a sentence where the run does not yet determine a forecast.

    Raises:
        ValueError: a run that has ended, an argument outside its range, what `LossCurve` and `fit_loss_curves` refuse.

    Example:
        >>> import sgdtheory as st
        >>> run = st.example_loss_curves("100M")["cosine_24000"]
        >>> part = st.LossCurve(run.step[:120], run.learning_rate[:120], run.loss[:120], warmup=run.warmup)
        >>> cosine = st.Cosine(final=0.1, warmup=0.09)
        >>> print(st.curves.forecast_loss(part, num_steps=24_000, schedule=cosine, weight_decay=0.1))
        final loss 2.984 (2.959 … 3.01) at step 24,000, 95%
        now 3.03 at step 17,392, 72% of the run
        >>> print(run.loss[-1])
        2.9791
    """
    curves = checked_curves(curves)
    run = curves[-1]
    share = share_between_0_and_1("level", level)
    count = whole_number("num_steps", num_steps, 2)
    if count <= run.step[-1]:
        raise ValueError(f"num_steps must be more than the run has, {run.step[-1]:g}, got {count}; it has ended")
    rates, remarks = planned_rates(run, count, learning_rate, schedule)
    decay = None if weight_decay is None else positive_number("weight_decay", weight_decay)
    law = TheoryLaw(decay, optimizer_of(curves, decay, optimizer))
    rows = rows_of(curves, rates, law)
    latest = float(np.exp(rows.log_loss[-LATEST:].mean()))
    batch = 1.0 if run.batch_size is None else float(np.median(run.batch_size))
    prior = prior_of(law, experience, latest, batch, rows.whole.optimizer.learning_rate)
    found = posterior(rows, prior)
    return _forecast(run, rows, found, prior, experience.doubt, share, remarks)


def run_last(curves: Sequence[LossCurve], name: str | None) -> list[LossCurve]:
    """The curves, with that of this name last; the last one unless it is named."""
    last = checked_name("run", curves[-1].name if name is None else name, [curve.name for curve in curves])
    return sorted(curves, key=lambda curve: curve.name == last)  # stable


def planned_rates(
    run: LossCurve, count: int, learning_rate: ArrayLike | None, schedule: Shape | None
) -> tuple[np.ndarray, list[str]]:
    """(n,) learning rates of all steps, and what is to be said of them."""
    if learning_rate is not None and np.ndim(learning_rate) > 0:
        rates = real_array("learning_rate", learning_rate)
        good = rates.shape == (count,) and (np.isfinite(rates) & (rates >= 0)).all()
        if not good or schedule is not None:
            raise ValueError(
                f"learning_rate must have 0 or more for each of {count} steps, without a schedule, got {rates.shape}"
            )
        return rates, _differences(run, rates)
    if schedule is None and learning_rate is None:
        changing = run.learning_rate.size > 1 and run.learning_rate[-1] != run.learning_rate[-2]
        what = "; it is changing: give a schedule" if changing else ""
        return np.full(count, run.learning_rate[-1]), [f"the learning rate is assumed to stay at its last value{what}"]
    given = None if learning_rate is None else float(real_array("learning_rate", learning_rate))
    rates = _rates(run, count, given, schedule or Constant())
    differences = _differences(run, rates)
    return rates, [f"{each}; {_remedy(run, count, given, schedule)}" for each in differences]


def _rates(run: LossCurve, count: int, peak: float | None, schedule: Shape) -> np.ndarray:
    """(n,) learning rates of a schedule, whose peak is that of the log unless it is given."""
    factors = schedule.factors(np.arange(count), count)
    top = _peak(after_warmup(run), factors) if peak is None else positive_number("learning_rate", peak)
    return top * factors


def _remedy(run: LossCurve, count: int, peak: float | None, schedule: Shape | None) -> str:
    """Return the remedy for a schedule that the log does not follow: another last learning rate, if that is it."""
    for final in FINALS if hasattr(schedule, "final") else ():
        other: Any = replace(schedule, final=final)  # pyright: ignore[reportArgumentType]
        if not _differences(run, _rates(run, count, peak, other)):
            return f"final={final:g} in the schedule would agree"
    return "give the schedule that the run follows"


def _peak(run: LossCurve, factors: np.ndarray) -> float:
    """Return the peak learning rate of a schedule with these factors, as the log has it."""
    here = factors[run.step.astype(int)]
    known = here > 0
    return float(np.median(run.learning_rate[known] / here[known]) if known.any() else run.learning_rate.max())


def _differences(run: LossCurve, rates: np.ndarray) -> list[str]:
    """Return the remark on a log that does not follow the planned rates."""
    planned = rates[run.step.astype(int)]
    off = np.abs(planned - run.learning_rate) > OFF * np.maximum(planned, run.learning_rate)
    if not off[-LATEST:].any():
        return []
    return [
        f"at step {run.step[-1]:,.0f} the log has learning rate {run.learning_rate[-1]:.3g}, the schedule "
        f"{planned[-1]:.3g}: they do not agree"
    ]


def _forecast(
    run: LossCurve, rows: Rows, found: Posterior, prior: Prior, doubt: float, level: float, remarks: list[str]
) -> Forecast:
    middle = found.ahead
    fall = found.now - middle
    unsure = np.einsum("kp,pq,kq->k", found.slopes, found.covariance, found.slopes) + (doubt * fall) ** 2
    quantile = float(stats.norm.ppf((1 + level) / 2))
    reach = quantile * np.sqrt(unsure + found.scatter**2)
    path = LossPrediction(*rows.ahead, *np.exp([middle, middle - reach, middle + reach]))
    last = quantile * float(np.sqrt(unsure[-1]))
    return Forecast(
        num_steps=int(rows.ahead.step[-1]),
        loss=float(path.loss[-1]),
        band=(float(path.low[-1]), float(path.high[-1])),
        level=level,
        step=int(run.step[-1]),
        now=float(np.exp(found.now)),
        scatter=found.scatter,
        too_early=_too_early(run, rows, found, float(fall[-1]), last),
        remark="; ".join(remarks + _remarks(rows, found, prior)),
        path=path,
        run=run,
    )


def _too_early(run: LossCurve, rows: Rows, found: Posterior, fall: float, reach: float) -> str:
    """Return why a forecast is not yet reliable; empty if it is.

    The rows of the warm-up do not determine what follows it, and fewer than P rows do not determine P numbers. While
    the losses have fallen by no more than they scatter, they determine no number. Later it is too early while the band,
    scatter aside, is as wide as the fall that is ahead: "it stays as it is" is not ruled out. Unless that fall is
    small, less than a tenth of that so far: then the run is nearly done.
    """
    own = rows.log_loss[-rows.log_steps[-1].size :]
    rising = (np.diff(run.learning_rate) > 0).all() and rows.ahead.learning_rate.max() > run.learning_rate[-1]
    if rising or run.step[-1] <= run.warmup:
        return f"the learning rate is still warming up; {OTHERS}"
    if own.size < len(rows.law.names):
        return f"{own.size} rows after the warm-up are too few for {len(rows.law.names)} numbers; {OTHERS}"
    fallen = float(own[:LATEST].mean() - own[-LATEST:].mean())
    if fallen < FALLEN * found.scatter:
        return f"the loss has not yet fallen by more than it scatters; {OTHERS}"
    if 2 * reach < abs(fall) or abs(fall) < TENTH * fallen:
        return ""
    wide = "the band is as wide as the fall that is ahead"
    if np.ptp(after_warmup(run).learning_rate) == 0 and np.ptp(rows.ahead.learning_rate) > 0:
        return f"{wide}: the learning rate has not changed yet, and the gain of its decay is known from other runs only"
    return f"{wide}, and may hold no further fall at all"


def _remarks(rows: Rows, found: Posterior, prior: Prior) -> list[str]:
    remarks = []
    if found.scatter > POOR:
        remarks.append(f"the theory does not fit: rows are off by {found.scatter:.2g} of their loss")
    if not found.used.all():
        remarks.append(f"{(~found.used).sum()} of {found.used.size} groups of rows are spikes, which were not fitted")
    place = rows.law.names.index("floor")
    before = np.sqrt(np.linalg.inv(prior.matrix.T @ prior.matrix)[place, place])
    if np.sqrt(found.covariance[place, place]) > OTHERS_WORD * before:
        remarks.append("how low the loss can fall follows from other public runs more than from this one")
    return remarks
