"""Fits of L*(B, D) to a grid of losses over batch size, data and learning rate; critical batch sizes and laws.

Intervals (THEORY.md T33). B* of a target has three. Profile likelihood takes the scatter of log steps about the law
a + b/B for noise: it holds whatever makes them scatter, seeds, the grid of learning rates, the interpolation, the law's
misfit. Resampling draws other runs, from repeated ones or from what parabolas in log γ leave: it sees no misfit, but
does not hang on how closely a few points happen to follow the law. The wider of these counts; neither sees that at
large batch sizes runs diverge before the best learning rate of the grid's spacing, which moves all of them alike: what
that does to B* is added in squares.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sgdtheory._common.arguments import positive_array, positive_number, share_between_0_and_1, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Sheet
from sgdtheory._common.shown import Shown
from sgdtheory.fits.conventions import SMALLEST, Convention, common_convention
from sgdtheory.fits.degradation import Degradation, degradations
from sgdtheory.fits.grid_laws import GridLaw, grid_laws, grid_sheet
from sgdtheory.fits.laws_of_groups import law_remarks
from sgdtheory.fits.loss_noise import LossNoise, loss_noise, other_edges, resampled, tuned_groups
from sgdtheory.fits.loss_targets import (
    LossTarget,
    curves_of,
    data_to,
    default_targets,
    loss_target,
)
from sgdtheory.fits.steps_measurement import MIN_POINTS, points_needed
from sgdtheory.fits.tuned_loss import ABOVE, BELOW, CLIFF, DIVERGED, LossCurves, TunedLosses


@dataclass(frozen=True, eq=False)
class LossGrid(Shown):
    """Results of a grid of losses; made by `fit_loss_grid`, drawn by `st.plot.loss_grid`.

    Attributes:
        groups: L*(B, D), the best γ, and where they are not tuned, of every group.
        noise: how much a loss scatters between runs, of every group.
        targets: steps to a loss and B*, of every group and target that three batch sizes reach.
        degradations: L* over the least of all batch sizes, of every group and data size.
        laws: powers of B, D and model size.
        convention, level: of B* and all intervals; without a reference the targets have no batch size in common.
        remarks: what a reader should know, a sentence each.
    """

    figure: ClassVar[str] = "loss_grid"

    groups: tuple[TunedLosses, ...]
    noise: tuple[LossNoise, ...]
    targets: tuple[LossTarget, ...]
    degradations: tuple[Degradation, ...]
    laws: tuple[GridLaw, ...]
    convention: Convention
    level: float
    remarks: tuple[str, ...]

    @property
    def remark(self) -> str:
        """The remarks as one text."""
        return "; ".join(self.remarks)

    def sheet(self) -> Sheet:
        """Return B* at every target, the largest batch size at fixed data, and the exponents of power laws."""
        return grid_sheet(self)


def fit_loss_grid(
    table: Mapping[str, Any] | Sequence[Any],
    *,
    convention: Convention = SMALLEST,
    targets: ArrayLike | None = None,
    degradation: float = 0.01,
    level: float = 0.95,
    edges: bool = False,
    seed: int = 0,
    optimal_batch_size: bool = False,
) -> LossGrid:
    """L*(B, D), critical batch sizes and laws from losses at several batch sizes, data sizes and learning rates.

    L* is the least over γ of a parabola in log γ through the rates around the best. At each B the data to a target are
    read off L*, a monotone cubic of log D; steps are Y = D/B, and a + b/B is fitted to them.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> B, D, rate = np.meshgrid(2.0 ** np.arange(4, 11), 2.0 ** np.arange(16, 23), 2.0 ** np.arange(-6, 3))
    >>> best = 2 + 30 * (D / (1 + B / 200)) ** -0.5  # steps to a loss are ∝ 1/200 + 1/B: b/a is 200
    >>> loss = best * (1 + 0.02 * np.log(rate / (B / 256)**0.5) ** 2)
    >>> columns = {"batch_size": B, "samples": D, "learning_rate": rate, "loss": loss}
    >>> grid = st.fit_loss_grid({name: column.ravel() for name, column in columns.items()}, targets=2.05)
    >>> (found,) = grid.targets
    >>> round(found.critical_batch_size, 1), 0.2 * 200 + 1.2 * 16
    (59.2, 59.2)
    >>> rates = next(law.fit for law in grid.laws if law.quantity == "learning rate")
    >>> round(rates.exponents["batch_size"], 2)
    0.5

    Args:
        table: columns by name (a dict, a pandas DataFrame, what `read_loss_grid` returns) or rows: batch_size,
            samples (D, in the unit of B), learning_rate, loss (positive; nan or inf of a run that diverged), perhaps
            group (its name), size (of the model), seed. Repeated rows are other runs; with seeds the rows of one B, γ
            and seed are points of one run's curve, without them each row is a run of its own.
        convention: of B*: reference and overhead; without a reference the smallest batch size that reaches each target
            of each group, one for all.
        targets: losses, for every group; None: three that as many batch sizes as possible reach.
        degradation: x, the share by which the loss may be worse than that of the best batch size.
        level: of all intervals.
        edges: use losses whose best learning rate lies at an end of the rates too: upper bounds, which make B* wrong.
        seed: of the resampling.
        optimal_batch_size: fit steps = a + b/B + c/B², with an optimal batch size, the useful range around it and a
            test whether c is needed; then four batch sizes have to reach a target.

    Returns:
        LossGrid.

    Raises:
        ValueError: a table that is none, fewer than three batch sizes, or targets that three do not reach.
    """
    degradation, level = positive_number("degradation", degradation), share_between_0_and_1("level", level)
    seed = whole_number("seed", seed, 0)
    wanted = None if targets is None else np.atleast_1d(positive_array("targets", targets)).ravel().tolist()
    needed = points_needed(optimal_batch_size)
    every = tuned_groups(table)
    tuned = [each for each, _ in every]
    _check_batch_sizes(tuned)
    groups = [
        _prepared(each, margin, wanted, level, edges, seed + place, needed)
        for place, (each, margin) in enumerate(every)
    ]
    if convention.reference is None:
        # One reference for all targets, so that their B* can be compared.
        reached = [each for group in groups for each in group.batch_sizes_at_targets(needed)]
        convention = common_convention(reached, None, convention.overhead)
    found = []
    worse = []
    for group in groups:
        options = group.drawn, convention, level, group.noisy, optimal_batch_size
        fits = [loss_target(group.tuned, each, group.curves, *options) for each in group.targets]
        found += [each for each in fits if each is not None]
        more = {"share": degradation, "level": level, "noisy": group.noisy}
        worse += degradations(group.tuned, group.log_losses, group.others, edges, **more)
    _check_targets(wanted, found, tuned, needed)
    noises = tuple(group.noise for group in groups)
    laws = grid_laws(tuned, found, worse)
    remarks = tuple(_remarks(groups, found, worse, wanted, edges, convention, needed))
    return LossGrid(tuple(tuned), noises, tuple(found), tuple(worse), laws, convention, level, remarks)


class _Group(NamedTuple):
    """Data of the fits of a group: L*(B, D), its scatter, and its curves."""

    tuned: TunedLosses
    noise: LossNoise
    noisy: bool
    log_losses: np.ndarray
    others: np.ndarray
    curves: dict[int, LossCurves]
    drawn: dict[int, LossCurves]
    targets: list[float]

    def batch_sizes_at_targets(self, needed: int) -> Iterator[np.ndarray]:
        """Yield, for each target that enough batch sizes reach, the batch sizes that reach it."""
        for target in self.targets:
            places = list(data_to(target, self.curves))
            if len(places) >= needed:
                yield self.tuned.batch_sizes[places]


def _prepared(
    tuned: TunedLosses,
    margins: np.ndarray,
    wanted: list[float] | None,
    level: float,
    edges: bool,
    seed: int,
    needed: int,
) -> _Group:
    noise = loss_noise(tuned)
    noisy = bool(noise.source) or bool((tuned.slack > 0).any())
    with np.errstate(divide="ignore"):
        here = np.log(tuned.loss)[None]
    # With 400 draws ten lie beyond each end of a 95% interval.
    others = np.concatenate([resampled(tuned, noise, 400, seed, margins), other_edges(tuned, level)])
    curves, drawn = (curves_of(tuned, each, edges) for each in (here, others))
    # Default targets are those of the measured losses, not of a draw.
    targets = default_targets(tuned, curves, needed) if wanted is None else wanted
    return _Group(tuned, noise, noisy, here, others, curves, drawn, targets)


def _check_batch_sizes(groups: list[TunedLosses]) -> None:
    most = max(groups, key=lambda group: group.batch_sizes.size)
    if most.batch_sizes.size < MIN_POINTS:
        raise ValueError(
            f"batch_size must have at least {MIN_POINTS} different values in a group, got {most.batch_sizes.size}"
            f"{f' in {most.group}' if most.group else ''}; run more batch sizes"
        )


def _check_targets(wanted: list[float] | None, found: list[LossTarget], groups: list[TunedLosses], needed: int) -> None:
    """Require that each target asked for is fitted in some group."""
    for target in wanted or ():
        if not any(each.target == target for each in found):
            least = min(float(np.nanmin(group.loss)) for group in groups)
            raise ValueError(
                f"targets must be reached by {needed} batch sizes of a group, each between its least and most data "
                f"with tuned rates, got {target:g}; the least L* is {least:.4g}: leave targets out to have them chosen"
            )


# ------------------------------------------------------------------ remarks


def _remarks(
    groups: Sequence[_Group],
    targets: Sequence[LossTarget],
    worse: Sequence[Degradation],
    wanted: list[float] | None,
    edges: bool,
    convention: Convention,
    needed: int,
) -> Iterator[str]:
    number = {3: "three", 4: "four"}[needed]
    for group, noise, *_ in groups:
        name = f"{group.group}: " if group.group else ""
        # Targets that were asked for may be missing in a group; of chosen ones a group has some or none.
        fitted = {each.target for each in targets if each.group == group.group}
        for text in (
            *_on_rates(group, edges),
            *_on_noise(noise),
            *(f"loss {each:g} is not reached by {number} batch sizes" for each in wanted or () if each not in fitted),
        ):
            yield name + text
        if wanted is None and not fitted:
            yield (
                f"{name}steps to a target need a loss that at least {number} batch sizes reach, "
                "each run for two data sizes"
            )
        if not any(each.group == group.group for each in worse):
            yield f"{name}no data size that the smallest batch size and two others have in common: no degradation"
    for target in targets:
        name = f"{target.group}, loss {target.target:g}: " if target.group else f"loss {target.target:g}: "
        for text in _on_target(target, convention):
            yield name + text


def _on_rates(group: TunedLosses, edges: bool) -> Iterator[str]:
    """Yield remarks on settings whose learning rate is not tuned."""
    if group.untuned:
        yield "one learning rate at each batch size and data size: nothing is tuned, L* is the loss at that rate"
        return
    # Shares are of the settings that were run.
    number = int((group.state != "").sum())
    left_out = "used as they are, though upper bounds" if edges else "left out of fits"
    for state, where, remedy in ((BELOW, "lowest", "smaller"), (ABOVE, "highest", "larger")):
        at = group.state == state
        if at.any():
            yield (
                f"the best rate is the {where} one in {at.sum()} of {number} (B, D), at B = "
                f"{_some(group.batch_sizes[at.any(1)])}: {left_out}; run {remedy} rates there"
            )
    cliff = group.state == CLIFF
    if cliff.any():
        most = 100 * np.expm1(group.slack[cliff].max())
        yield (
            f"the loss still falls towards a rate that diverges in {cliff.sum()} of {number} (B, D), at B = "
            f"{_some(group.batch_sizes[cliff.any(1)])}: L* is known within {most:.2g}%, which intervals allow for; run "
            "rates between"
        )
    alone = np.isin(group.state, ("one rate", DIVERGED))
    if alone.any():
        yield f"{alone.sum()} of {number} (B, D) have one rate or none that did not diverge: left out of fits"


def _on_noise(noise: LossNoise) -> Iterator[str]:
    if noise.source == "rates":
        yield (
            "no runs are repeated: losses are taken to scatter as they do about parabolas in log γ, "
            f"by {100 * np.sqrt(np.median(noise.variances)):.2g}%"
        )
    elif not noise.source:
        yield "no runs are repeated and no (B, D) has four rates: nothing says how losses scatter between runs"


def _on_target(target: LossTarget, convention: Convention) -> Iterator[str]:
    if target.left_out:
        yield "left out: " + ", ".join(f"B = {batch:g} ({why})" for batch, why in target.left_out.items())
    yield from law_remarks(target.law, convention)


def _some(values: np.ndarray) -> str:
    """Up to four numbers, then an ellipsis."""
    shown = ", ".join(f"{each:g}" for each in values[:4])
    return f"{shown}, … {values[-1]:g}" if values.size > 4 else shown
