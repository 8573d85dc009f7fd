"""Results of a fit to loss curves: the theory's numbers, predictions, the critical batch size and schedules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.arguments import positive_array, positive_number, share_between_0_and_1
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.interval import Interval
from sgdtheory._common.sheets import Sheet
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import Linear, Shape
from sgdtheory.curves.best_rates import best_rates
from sgdtheory.curves.equal_loss import EqualLoss, compare_at_equal_loss
from sgdtheory.curves.fit_sheet import CurvesCriticalBatchSize, sheet_of_fit
from sgdtheory.curves.forecast import Forecast, forecast_loss, run_last
from sgdtheory.curves.law_fit import LossPrediction, band, farthest
from sgdtheory.curves.laws.theory import ERROR_SHARE, Panelled, TheoryLaw
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.curves.loss_model import LossModel, in_batches, losses
from sgdtheory.curves.loss_table import FEWEST_STEPS as FEWEST_STEPS_OF_TABLE
from sgdtheory.curves.loss_table import AbstractLossTable, loss_tables
from sgdtheory.curves.panels import Optimizer, at_rows, panels_of
from sgdtheory.curves.robust_fit import Observed, RobustFit
from sgdtheory.curves.run_learning_rates import checked_shape, rates_of
from sgdtheory.curves.size_remarks import ENOUGH, at_least, below_table, why_open
from sgdtheory.fits import Convention, FittedCriticalBatchSize, StepsTable
from sgdtheory.problems import PowerLaw

PARTS = 1e6  # A batch of unknown size counts as this many samples of the theory.
POINTS = 200  # A predicted curve has about this many points.
MOST_BATCH = 8.0  # A table of steps ends at this many times B*.
LEAST_BATCH = 64.0  # A table of steps by comparison begins at B* over this; it then needs D samples within 1%.
ROWS = 28  # A table of steps by comparison has this many rows, three in a factor of two.
FEWEST_STEPS = 100  # `best_schedule` needs a run of at least this many steps.
STABLE = 1.99  # Learning rates of SGD are limited to this γλ_1: from 2 on SGD diverges.


class BestSchedule(NamedTuple):
    """The best learning rates of a run.

    Attributes:
        step: (K,) numbers of steps.
        learning_rate: (K,) of these steps.
        loss: expected at the end.
    """

    step: np.ndarray
    learning_rate: np.ndarray
    loss: float


@dataclass(frozen=True, eq=False)
class CurvesFit(Shown):
    """The theory's numbers that `fit_loss_curves` has found.

    Attributes:
        capacity, source: exponents a and b of `λ_i = i^−a` and `s_i = A i^−b`.
        signal: A, units of the loss.
        noise: σ² in units of the loss; where batch sizes are not known σ²/B.
        step_size: γλ_1 at the largest learning rate; of Adam, where noise at the batch size of the curves dominates.
        irreducible_loss: L0.
        growth: g of the weights' squared norm in a step at the largest learning rate; None without weight decay.
        scatter: robust standard deviation of log loss about the fit.
        not_identified: names of the numbers of which the curves leave an end open.
        remark: what a reader should know; empty if nothing.
        curves: that were fitted.
        level: of the intervals.
    """

    capacity: Interval
    source: Interval
    signal: Interval
    noise: Interval
    step_size: Interval
    irreducible_loss: Interval
    growth: Interval | None
    scatter: float
    not_identified: tuple[str, ...]
    remark: str
    curves: tuple[LossCurve, ...]
    level: float
    fitted: RobustFit = field(repr=False)
    data: Observed = field(repr=False)

    @property
    def knows_batch_size(self) -> bool:
        """Return whether the curves came with their batch sizes."""
        return self.curves[0].batch_size is not None

    @property
    def max_learning_rate(self) -> float:
        """The largest of the curves."""
        return self._optimizer.learning_rate

    @property
    def _optimizer(self) -> Optimizer:
        prepared: Panelled = self.data.prepared
        return prepared.optimizer

    @property
    def model(self) -> LossModel:
        """The fitted loss model, Q = 1."""
        return self._model(self.fitted.coordinates)

    def _model(self, coordinates: np.ndarray) -> LossModel:
        """Return the loss model of coordinates (P,) or (Q, P)."""
        law = self.fitted.law
        assert isinstance(law, TheoryLaw)
        return law.model(law.values(np.atleast_2d(coordinates)))

    @property
    def problem(self) -> PowerLaw:
        """The theory's problem, in units in which A = 1; where batch sizes are not known a batch is 10⁶ samples.

        With Adam that of SGD with the same eigenvalues: a covariance has their squares, `preconditioned(0.5)` of it is
        this.
        """
        unit = 1.0 if self.knows_batch_size else PARTS
        noise = unit * self.noise.value / self.signal.value
        return PowerLaw(self.capacity.value, self.source.value, noise_variance=noise)

    def predict(
        self,
        learning_rate: ArrayLike,
        *,
        num_steps: int | None = None,
        schedule: Shape | None = None,
        batch_size: float | None = None,
        level: float | None = None,
    ) -> LossPrediction:
        """Predict the loss along a run with another schedule, length or batch size.

        Args:
            learning_rate: (n,) of all steps, or the peak of `schedule`.
            num_steps: n, where learning_rate is a number.
            schedule: of the theory's shapes, `st.Cosine(final=0.1, warmup=0.1)` for example; constant by default.
            batch_size: B; by default that of the curves. Where theirs is not known: in batches of theirs.
            level: of the band, by default that of the fit.

        Returns:
            LossPrediction, at up to 200 numbers of steps.

        Raises:
            ValueError: an argument outside its range.
        """
        rates = rates_of(learning_rate, num_steps, schedule)
        batch = None if batch_size is None else positive_number("batch_size", batch_size)
        steps = np.unique(np.round(np.concatenate([np.linspace(0, rates.size, POINTS // 2), _dense(rates.size)])))
        shown = np.append(rates, rates[-1])[steps.astype(int)]
        curve = LossCurve(steps, shown, np.ones_like(steps), self._batch_for(batch))
        return self._band(curve, level)

    def predict_curve(self, curve: LossCurve, level: float | None = None) -> LossPrediction:
        """Predict the loss at the rows of a curve from its learning rates and batch sizes."""
        if (curve.batch_size is None) == self.knows_batch_size:
            raise ValueError(
                f"curve must {'' if self.knows_batch_size else 'not '}have batch sizes, as those that were fitted"
            )
        return self._band(curve, level)

    def forecast(
        self,
        num_steps: int,
        *,
        learning_rate: ArrayLike | None = None,
        schedule: Shape | None = None,
        run: str | None = None,
        level: float | None = None,
    ) -> Forecast:
        """Forecast the end of a run under way: `forecast_loss` of the last of these curves, or of that named `run`."""
        law: Any = self.fitted.law
        share = self.level if level is None else level
        options = {"weight_decay": law.weight_decay, "optimizer": law.optimizer, "level": share}
        curves = run_last(self.curves, run)
        return forecast_loss(curves, num_steps=num_steps, learning_rate=learning_rate, schedule=schedule, **options)

    def _batch_for(self, batch: float | None) -> float | None:
        if batch is None:
            return float(np.median(self.curves[-1].batch_size)) if self.knows_batch_size else None
        return batch

    def _band(self, curve: LossCurve, level: float | None) -> LossPrediction:
        panels = panels_of([curve])
        unknown = not self.knows_batch_size and curve.batch_size is not None

        def log_losses(coordinates: np.ndarray) -> np.ndarray:
            model = self._model(coordinates)
            if unknown:  # in batches of the curves: nothing is multiplied
                model = in_batches(model, float(curve.batch_size[0]), self._optimizer)
            used = panels._replace(batch=np.full_like(panels.batch, np.nan)) if unknown else panels
            with np.errstate(all="ignore"):  # overflow is a result here
                return np.log(at_rows(losses(model, used, self._optimizer)[:, 0], panels.rows[0]))

        def law_error(log_loss: np.ndarray) -> np.ndarray:
            fitted = law.losses(law.values(self.fitted.coordinates[None]), self.data.prepared)
            return ERROR_SHARE * farthest(self.curves, [each[0] for each in fitted], curve.step, log_loss)

        law = self.fitted.law
        checked = self.level if level is None else share_between_0_and_1("level", level)
        return LossPrediction(curve.step, curve.learning_rate, *band(self.fitted, log_losses, checked, law_error))

    def critical_batch_size(
        self,
        num_samples: ArrayLike,
        *,
        schedule: Shape = Linear(),  # noqa: B008 (frozen)
        max_learning_rate: float | None = None,
        overhead: float = 0.2,
        progress: Callable[[str], None] | None = None,
    ) -> CurvesCriticalBatchSize:
        """Return B*: the largest batch size that needs at most (1 + ω) D samples for the least loss of D samples.

        The least loss is that of the best batch size, which may be far below those of the curves, and learning rates
        are the best ones up to `max_learning_rate`. Runs at three or more batch sizes are compared at equal loss, at
        the best learning rate of each batch size; the interval allows for learning rates that were not tried, for a
        number of samples that is not quite linear in the batch size, and for a B* that changes along the run. With
        fewer batch sizes B* is that of the fitted theory, which assumes how noise falls with the batch size, and its
        interval is 0 to inf.

        Args:
            num_samples: D, in the unit of the batch sizes; in batches of the curves where these are not known.
            schedule: shape of the learning rate.
            max_learning_rate: by default the largest of the curves: nothing is extrapolated.
            overhead: ω.
            progress: is called, in a few words, with what is computed.

        Returns:
            CurvesCriticalBatchSize.
        """
        samples = np.atleast_1d(positive_array("num_samples", num_samples))
        top, shape = self._top(max_learning_rate), checked_shape(schedule)
        extra = positive_number("overhead", overhead)
        show = progress or (lambda text: None)
        sizes, least, compared = [], [], []
        for number, each in enumerate(samples.tolist(), 1):
            show(f"B* of data size {number} of {samples.size}")
            comparison = self._compared(each, max_learning_rate, extra)
            compared.append(comparison)
            if comparison is None:
                size, risk = self._table(each, shape, top).critical_batch_size(each, extra)
                found, loss = (size, 0.0, np.inf), risk + self.irreducible_loss.value
            else:
                found, loss = (comparison.batch_size, *comparison.interval), comparison.loss
            sizes.append(found)
            least.append(loss)
        size, low, high = np.array(sizes).T
        # The theory's value is the largest batch size that is looked at: its derivatives would be 0 there.
        unlooked = np.array([each is None for each in compared]) & (size > samples / FEWEST_STEPS_OF_TABLE * (1 - 1e-6))
        return CurvesCriticalBatchSize(
            samples,
            size,
            np.stack([low, high], axis=1),
            np.array(least),
            top,
            at_least(samples[unlooked]),
            extra,
            self.level,
            self.knows_batch_size,
            tuple(compared),
            why_open(self.curves, compared[0], top),
        )

    def _compared(self, samples: float, largest: float | None, overhead: float) -> EqualLoss | None:
        """Return B* by comparing runs at equal loss; None where they have fewer than three batch sizes."""
        limit = np.inf if largest is None else positive_number("max_learning_rate", largest)
        found = compare_at_equal_loss(self.curves, samples, overhead, self.level, max_learning_rate=limit)
        if found is None or largest is None or limit <= self.max_learning_rate * (1 + 1e-9):
            return found
        # B* grows with the largest learning rate, and no run has one that is larger.
        return replace(
            found,
            interval=(found.interval[0], np.inf),
            from_smallest_interval=(found.from_smallest_interval[0], np.inf),
        )

    def _top(self, largest: float | None) -> float:
        """The largest learning rate that is allowed and stable; Adam's step shrinks as the risk grows: no edge."""
        if largest is None:
            return self.max_learning_rate
        if self._optimizer.adaptive:
            return positive_number("max_learning_rate", largest)
        stable = STABLE / self.step_size.value * self.max_learning_rate
        return min(positive_number("max_learning_rate", largest), stable)

    def _table(self, samples: float, shape: Shape, top: float, point: np.ndarray | None = None) -> AbstractLossTable:
        """Return the theory's risks of all runs at coordinates (P,), by default those found."""
        model = self.model if point is None else self._model(point)
        return loss_tables(model, self._optimizer, shape, samples, self._batch_for(None) or 1.0, top)[0]

    def steps_law(
        self,
        num_samples: float,
        *,
        schedule: Shape = Linear(),  # noqa: B008 (frozen)
        max_learning_rate: float | None = None,
        overhead: float = 0.2,
        critical: FittedCriticalBatchSize | None = None,
    ) -> StepsTable:
        """Return the steps to the least loss of D samples at several batch sizes, for a plan.

        Its B* and the interval are those of `critical_batch_size`, and no batch size takes fewer than D samples. The
        steps do not scatter: how far they are known follows from how far B* is.

        Args:
            num_samples, schedule, max_learning_rate, overhead: as in `critical_batch_size`.
            critical: what `critical_batch_size` has found with these; None: it is found here.

        Returns:
            StepsTable, from the largest batch size that needs no more than D up to 8 B*. Smaller ones take more steps,
            and as much data or, with Adam, more: B_opt is about the first row then, and `remark` says what is below it.
        """
        samples = positive_number("num_samples", num_samples)
        shape = checked_shape(schedule)
        if critical is None:
            how = {"schedule": shape, "max_learning_rate": max_learning_rate, "overhead": overhead}
            found = self.critical_batch_size(samples, **how)
            low, high = found.interval[0].tolist()
            convention = Convention(None, overhead)
            critical = FittedCriticalBatchSize(float(found.batch_size[0]), low, high, convention, self.level)
        size = critical.batch_size
        comparison = self._compared(samples, max_learning_rate, overhead)
        if comparison is not None:  # The steps that the runs have shown, not those of a theory.
            every = critical.batch_size * np.geomspace(1 / LEAST_BATCH, MOST_BATCH, ROWS)
            return StepsTable(every, samples * comparison.samples(every) / every, critical=critical)
        table = self._table(samples, shape, self._top(max_learning_rate))
        risk = table.optimal_risk(samples)
        every = samples / np.exp(table.log_steps)[::-1]
        every = np.unique(np.append(every[every <= MOST_BATCH * size], size))
        needed = every * np.array([table.steps_to(risk * (1 + 1e-9), float(batch)) for batch in every])
        needed = np.maximum(needed, samples)  # by its definition D is the least; between rows steps are interpolated
        below = every < size
        enough = np.flatnonzero((needed <= (1 + ENOUGH) * samples) & below)
        first = enough[-1] if enough.size else int(np.where(below, needed, np.inf).argmin())
        if below.any():
            needed[first] = samples  # what B* is relative to
        taken = np.isfinite(needed) & (np.arange(every.size) >= first)
        said = below_table(every[first], needed[:first] / samples, self._optimizer.adaptive, self.knows_batch_size)
        return StepsTable(every[taken], (needed / every)[taken], critical=critical, remark=said)

    def best_schedule(
        self, num_samples: float, *, batch_size: float | None = None, max_learning_rate: float | None = None
    ) -> BestSchedule:
        """Return the learning rates that leave the least expected loss after D samples at one batch size.

        Args:
            num_samples: D, in the unit of the batch sizes; in batches of the curves where these are not known.
            batch_size: B, by default that of the curves.
            max_learning_rate: by default the largest of the curves: nothing is extrapolated.

        Returns:
            BestSchedule.
        """
        samples = positive_number("num_samples", num_samples)
        batch = self._batch_for(batch_size) or 1.0
        n = samples // positive_number("batch_size", batch)
        if n < FEWEST_STEPS:
            raise ValueError(f"num_samples must be enough for {FEWEST_STEPS} steps, got {n:g}; lower batch_size")
        model = self.model
        if not self.knows_batch_size:
            model = in_batches(model, batch, self._optimizer)
        how = n, batch if self.knows_batch_size else np.nan, self._top(max_learning_rate)
        knots, rates, loss = best_rates(model, self._optimizer, *how)
        steps = np.unique(np.round(np.concatenate([np.linspace(0, n - 1, POINTS // 2), _dense(n - 1)])))
        return BestSchedule(steps, np.exp(np.interp(steps / n, knots, np.log(rates))), loss)

    def plot(self, *, others: Sequence[LossCurve] = (), title: str = "") -> Any:
        """Draw the curves with the fit, other curves with their prediction, and the residuals; a matplotlib Figure."""
        from sgdtheory.curves.figure import curves_figure

        every = [*self.curves, *others]
        exponents = f"$a$ = {self.capacity.value:.2f}, $b$ = {self.source.value:.2f}"
        method = "Adam" if self._optimizer.adaptive else "SGD"
        heading = title or f"{method} on a power law, {exponents}: fitted to within {self.scatter:.2%}"
        return curves_figure(every, [self.predict_curve(each).loss for each in every], len(self.curves), heading)

    def sheet(self, others: Sequence[LossCurve] = ()) -> Sheet:
        """Return its numbers with their intervals, and how far off it is on each curve; others were held out of it."""
        return sheet_of_fit(self, others)


def _dense(last: float) -> np.ndarray:
    """Numbers of steps that lie dense at both ends."""
    near = np.geomspace(1, max(last, 1), POINTS // 4)
    return np.concatenate([near, last - near])
