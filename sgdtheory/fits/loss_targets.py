"""Steps to a target loss from L*(B, D) of a group, the law through them, and B* with an interval."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.fits.abstract_law import AbstractStepsLaw
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.invariance import interpolated_critical_batch_size
from sgdtheory.fits.loss_noise import widened
from sgdtheory.fits.steps_fit import fit_steps_law
from sgdtheory.fits.steps_measurement import MIN_POINTS, StepsMeasurement, points_needed
from sgdtheory.fits.tuned_loss import LossCurves, TunedLosses
from sgdtheory.fits.u_shaped_law import UsefulRange, useful_range, visible
from sgdtheory.fits.u_shaped_profile import below, log_least_squares, terms_at


@dataclass(frozen=True, eq=False)
class LossTarget(Shown):
    """Steps to a target loss, and the critical batch size there.

    Attributes:
        group, size: of the grid; "" and nan where there are none.
        target: the loss.
        batch_sizes, steps: (n,) of the batch sizes that reach it between their least and most data, Y = D/B.
        left_out: the other batch sizes, and why.
        law: fitted, Y = a + b/B, or with c/B².
        convention: of B*.
        critical_batch_size: B* of the law.
        interval: of it: the wider of the next two, and in squares what the third adds.
        scatter_interval: profile likelihood by the scatter of log steps about the law.
        resampled_interval: with other runs; nan where nothing says how losses scatter.
        edge_interval: with other learning rates at which runs begin to diverge.
        interpolated: B* read off without a law.
        optimal_batch_size, optimal_interval: B_opt of the law and the interval, as of B*; 0 of a + b/B.
        smallest_batch_size, smallest_interval: the lower end of the useful range, likewise.
    """

    group: str
    size: float
    target: float
    batch_sizes: np.ndarray
    steps: np.ndarray
    left_out: dict[float, str]
    law: AbstractStepsLaw
    convention: Convention
    critical_batch_size: float
    interval: tuple[float, float]
    scatter_interval: tuple[float, float]
    resampled_interval: tuple[float, float]
    edge_interval: tuple[float, float]
    interpolated: float
    optimal_batch_size: float = 0.0
    optimal_interval: tuple[float, float] = (0.0, 0.0)
    smallest_batch_size: float = 0.0
    smallest_interval: tuple[float, float] = (0.0, 0.0)

    @property
    def reference(self) -> float:
        """R, from which overheads count: B_ref, or B_opt above it; without a plateau the largest B measured."""
        counted = max(self.convention.reference_among(self.batch_sizes), self.optimal_batch_size)
        return counted if np.isfinite(counted) else float(self.batch_sizes[-1])

    @property
    def samples(self) -> float:
        """D = R Y(R), data to the target at the reference batch size, by the law."""
        return float(self.reference * self.law.predict(self.reference))

    @property
    def measurement(self) -> StepsMeasurement:
        """The steps, as `fit_steps_law` and figures have them."""
        name = f"{self.group}, loss {self.target:g}" if self.group else f"loss {self.target:g}"
        return StepsMeasurement(name, self.size, self.batch_sizes, self.steps)

    def sheet(self) -> Sheet:
        """B*, and the ends of the useful range where the law has them."""
        quantities = [Quantity("critical_batch_size", "B*", self.critical_batch_size, self.interval)]
        if self.optimal_batch_size:
            smallest = self.smallest_batch_size, self.smallest_interval
            quantities += [
                Quantity("optimal_batch_size", "best B", self.optimal_batch_size, self.optimal_interval),
                Quantity("smallest_batch_size", "smallest useful B", *smallest),
            ]
        title = f"{self.group} at loss {number(self.target)}: batch sizes, samples".strip()
        convention = f"B*: {self.convention.overhead:.0%} more data than batch size {number(self.reference)}"
        return Sheet(title, [Table(quantities, interval="interval", legend=convention)])


def curves_of(tuned: TunedLosses, log_losses: np.ndarray, edges: bool) -> dict[int, LossCurves]:
    """Place of B → its curve of L* against D, of every row of `log_losses`, (R, m, k); two data sizes or more."""
    usable, found = tuned.usable(edges), {}
    for place, here in enumerate(usable):
        if here.sum() >= 2:
            found[place] = LossCurves(tuned.samples[here], log_losses[:, place, here])
    return found


def default_targets(tuned: TunedLosses, curves: dict[int, LossCurves], needed: int = MIN_POINTS) -> list[float]:
    """Return up to three losses, to four digits, that as many batch sizes as possible reach.

    They are at the quarters, in log D, of the part of the first batch size's curve where as many reach them.
    """
    if len(curves) < needed:
        return []
    first = next(iter(curves.values()))
    # 201 data sizes: targets are at quarters of those that most batch sizes reach, so that they need not be closer.
    log_samples = np.linspace(first.log_samples[0], first.log_samples[-1], 201)
    losses = np.array([first.log_loss_at(each)[0] for each in np.exp(log_samples)[1:-1]])
    ends = np.array([each.knots[0, [0, -1]] for each in curves.values()])
    reached = ((ends[:, :1] >= losses) & (losses >= ends[:, 1:])).sum(0)
    if reached.max() < needed:
        return []
    here = losses[reached == reached.max()]
    chosen = np.exp(here[[round(share * (here.size - 1)) for share in (0.25, 0.5, 0.75)]])
    return sorted({float(f"{each:.4g}") for each in chosen}, reverse=True)


def data_to(target: float, curves: dict[int, LossCurves]) -> dict[int, float]:
    """Place of B → D at which L* is the target, of the batch sizes that reach it."""
    data = {place: float(curve.samples_to(np.log(target))[0]) for place, curve in curves.items()}
    return {place: samples for place, samples in data.items() if np.isfinite(samples)}


class _Estimate(NamedTuple):
    """A batch size of a law, the interval, and the three that it is made of."""

    value: float
    interval: tuple[float, float]
    scatter: tuple[float, float]
    resampled: tuple[float, float]
    edges: tuple[float, float]


def loss_target(
    tuned: TunedLosses,
    target: float,
    curves: dict[int, LossCurves],
    others: dict[int, LossCurves],
    convention: Convention,
    level: float,
    noisy: bool,
    optimal_batch_size: bool = False,
) -> LossTarget | None:
    """The fit at one target; None where too few batch sizes reach it.

    Args:
        tuned: L*(B, D).
        target: the loss.
        curves: of L*.
        others: of L* with other runs, and in the last two rows with other edges.
        convention, level: of B* and its interval.
        noisy: whether anything is known of how other runs differ.
        optimal_batch_size: whether the law has c/B² too.
    """
    data = data_to(target, curves)
    places = list(data)
    if len(places) < points_needed(optimal_batch_size):
        return None
    batch_sizes = tuned.batch_sizes[places]
    steps = np.array(list(data.values())) / batch_sizes
    # The law is fitted once to the measured losses, and to each draw of other runs and edges.
    law = fit_steps_law(batch_sizes, steps, optimal_batch_size=optimal_batch_size)
    other_steps = _drawn_steps(others, places, target, batch_sizes)
    drawn = useful_ranges_of(batch_sizes, other_steps, convention, curved=optimal_batch_size)

    def estimate(quantity: str) -> _Estimate:
        return _estimate(quantity, law, getattr(drawn, quantity), convention, level, noisy)

    critical = estimate("critical_batch_size")
    left_out = {
        float(tuned.batch_sizes[place]): _why(tuned, place, curves, target)
        for place in range(tuned.batch_sizes.size)
        if place not in places
    }
    read_off = interpolated_critical_batch_size(batch_sizes, steps, convention)
    found = [tuned.group, tuned.size, target, batch_sizes, steps, left_out, law, convention, *critical, read_off]
    if optimal_batch_size:
        for quantity in ("optimal_batch_size", "smallest_batch_size"):
            found += estimate(quantity)[:2]
    return LossTarget(*found)


def _estimate(
    quantity: str, law: AbstractStepsLaw, drawn: np.ndarray, convention: Convention, level: float, noisy: bool
) -> _Estimate:
    """Estimate "critical_batch_size", "optimal_batch_size" or "smallest_batch_size"; `drawn`: other runs and edges."""
    found = getattr(law, quantity)
    value = found if quantity == "optimal_batch_size" else found(convention=convention)
    scatter = law.interval(quantity, level, convention=convention)
    runs, edges = drawn[:-2], drawn[-2:]
    tails = (1 - level) / 2, (1 + level) / 2
    low, high = np.quantile(runs, tails, method="closest_observation") if noisy else (np.nan, np.nan)
    resampled = float(low), float(high)
    ends = widened(value, (scatter, resampled), edges)
    return _Estimate(value, ends, scatter, resampled, (float(edges.min()), float(edges.max())))


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
    """Return why a batch size has no steps to the target."""
    if place not in curves:
        return "fewer than two data sizes with a tuned loss"
    high, low = np.exp(curves[place].knots[0, [0, -1]])
    return f"its L* lies above, {low:.4g} at the least" if low > target else f"its L* begins below, at {high:.4g}"


# ------------------------------------------------------------------ many laws at once, for resampling


def useful_ranges_of(
    batch_sizes: np.ndarray, steps: np.ndarray, convention: Convention, *, curved: bool
) -> UsefulRange:
    """B_opt and the ends of the useful range, (R,) each, of laws fitted to rows of steps, as `fit_steps_law` does.

    Args:
        batch_sizes: (m,).
        steps: (R, m).
        convention: of the ends.
        curved: whether the laws have c/B² too; without it B_opt and the smallest useful batch size are 0.
    """
    log_steps = np.log(steps)
    terms = terms_at(batch_sizes)[:, : 3 if curved else 2]
    theta, _ = log_least_squares(log_steps, terms, np.ones(batch_sizes.size), below(log_steps, terms[None]))
    numbers = np.pad(visible(theta, terms, steps), ((0, 0), (0, 3 - terms.shape[1])))
    return useful_range(numbers, convention.reference_among(batch_sizes), convention.overhead)
