"""From L*(B, D) of a group to the steps to a target loss, the law through them, and B* with an interval."""

from dataclasses import dataclass

import numpy as np

from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.data_to_loss import LossCurves
from sgdtheory.fits.invariance import interpolated_critical_batch_size
from sgdtheory.fits.loss_noise import widened
from sgdtheory.fits.many_laws import critical_batch_sizes_of
from sgdtheory.fits.measurements import StepsMeasurement
from sgdtheory.fits.steps_law import MIN_POINTS, StepsLaw, fit_steps_law
from sgdtheory.fits.tuned_loss import TunedLosses

PLACES = 0.25, 0.5, 0.75  # of the default targets, in log D of the smallest batch size
CANDIDATES = 201  # data sizes at which it is asked who reaches the loss there
DIGITS = 4  # of a default target


@dataclass(frozen=True, eq=False)
class LossTarget:
    """Steps to a target loss, and the critical batch size there.

    Attributes:
        group, size: of the grid; "" and nan where there are none.
        target: the loss.
        batch_sizes, steps: (n,) of the batch sizes that reach it between their least and most data, Y = D/B.
        left_out: the other batch sizes, and why.
        law: fitted, Y = a + b/B.
        convention: of B*.
        critical_batch_size: B* of the law.
        interval: of it: the wider of the next two, and in squares what the third adds.
        scatter_interval: profile likelihood by the scatter of log steps about the law.
        resampled_interval: with other runs; nan where nothing says how losses scatter.
        edge_interval: with other learning rates at which runs begin to diverge.
        interpolated: B* read off without a law.
    """

    group: str
    size: float
    target: float
    batch_sizes: np.ndarray
    steps: np.ndarray
    left_out: dict[float, str]
    law: StepsLaw
    convention: Convention
    critical_batch_size: float
    interval: tuple[float, float]
    scatter_interval: tuple[float, float]
    resampled_interval: tuple[float, float]
    edge_interval: tuple[float, float]
    interpolated: float

    @property
    def samples(self) -> float:
        """D = B_ref Y(B_ref), data to the target at the reference batch size, by the law."""
        reference = self.convention.reference_among(self.batch_sizes)
        return float(reference * self.law.predict(reference))

    @property
    def measurement(self) -> StepsMeasurement:
        """The steps, as `fit_steps_law` and figures have them."""
        name = f"{self.group}, loss {self.target:g}" if self.group else f"loss {self.target:g}"
        return StepsMeasurement(name, self.size, self.batch_sizes, self.steps)


def curves_of(tuned: TunedLosses, log_losses: np.ndarray, edges: bool) -> dict[int, LossCurves]:
    """Place of B → its curve of L* against D, of every row of `log_losses`, (R, m, k); two data sizes or more."""
    usable, found = tuned.usable(edges), {}
    for place, here in enumerate(usable):
        if here.sum() >= 2:
            found[place] = LossCurves(tuned.samples[here], log_losses[:, place, here])
    return found


def default_targets(tuned: TunedLosses, curves: dict[int, LossCurves]) -> list[float]:
    """Three losses that as many batch sizes as possible reach, evenly in log D of the first that has a curve."""
    if len(curves) < MIN_POINTS:
        return []
    first = next(iter(curves.values()))
    log_samples = np.linspace(first.log_samples[0], first.log_samples[-1], CANDIDATES)
    losses = np.array([first.log_loss_at(each)[0] for each in np.exp(log_samples)[1:-1]])
    ends = np.array([each.knots[0, [0, -1]] for each in curves.values()])
    reached = ((ends[:, :1] >= losses) & (losses >= ends[:, 1:])).sum(0)
    if reached.max() < MIN_POINTS:
        return []
    here = losses[reached == reached.max()]
    chosen = np.exp(here[[round(share * (here.size - 1)) for share in PLACES]])
    return sorted({float(f"{each:.{DIGITS}g}") for each in chosen}, reverse=True)


def loss_target(
    tuned: TunedLosses,
    target: float,
    curves: dict[int, LossCurves],
    others: tuple[dict[int, LossCurves], dict[int, LossCurves]],
    convention: Convention,
    level: float,
    noisy: bool,
) -> LossTarget | None:
    """The fit at one target; None where fewer than three batch sizes reach it.

    Args:
        tuned: L*(B, D).
        target: the loss.
        curves: of L*.
        others: of L* with other runs, and with other edges.
        convention, level: of B* and its interval.
        noisy: whether anything is known of how other runs differ.
    """
    data = {place: float(curve.samples_to(np.log(target))[0]) for place, curve in curves.items()}
    places = [place for place, samples in data.items() if np.isfinite(samples)]
    if len(places) < MIN_POINTS:
        return None
    batch_sizes = tuned.batch_sizes[places]
    steps = np.array([data[place] for place in places]) / batch_sizes
    law = fit_steps_law(batch_sizes, steps)
    critical = law.critical_batch_size(convention=convention)
    scatter = law.interval(level=level, convention=convention)
    drawn, edges = (
        critical_batch_sizes_of(batch_sizes, _drawn_steps(each, places, target, batch_sizes), convention)
        for each in others
    )
    tails = (1 - level) / 2, (1 + level) / 2
    low, high = np.quantile(drawn, tails, method="closest_observation") if noisy else (np.nan, np.nan)
    resampled = float(low), float(high)
    ends = widened(critical, (scatter, resampled), edges)
    left_out = {
        float(tuned.batch_sizes[place]): _why(tuned, place, curves, target)
        for place in range(tuned.batch_sizes.size)
        if place not in places
    }
    read_off = interpolated_critical_batch_size(batch_sizes, steps, convention)
    found = law, convention, critical, ends, scatter, resampled, (float(edges.min()), float(edges.max())), read_off
    return LossTarget(tuned.group, tuned.size, target, batch_sizes, steps, left_out, *found)


def _drawn_steps(
    others: dict[int, LossCurves], places: list[int], target: float, batch_sizes: np.ndarray
) -> np.ndarray:
    """(R, n) steps to the target on other curves; those that miss it end at the nearest data size."""
    columns = []
    for place in places:
        curve = others[place]
        data = curve.samples_to(np.log(target))
        nearest = np.exp(np.where(curve.knots[:, 0] < np.log(target), curve.log_samples[0], curve.log_samples[-1]))
        columns.append(np.where(np.isfinite(data), data, nearest))
    return np.column_stack(columns) / batch_sizes


def _why(tuned: TunedLosses, place: int, curves: dict[int, LossCurves], target: float) -> str:
    """Why a batch size has no steps to the target."""
    if place not in curves:
        return "fewer than two data sizes with a tuned loss"
    high, low = np.exp(curves[place].knots[0, [0, -1]])
    return f"its L* lies above, {low:.4g} at the least" if low > target else f"its L* begins below, at {high:.4g}"
