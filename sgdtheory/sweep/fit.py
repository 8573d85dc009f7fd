"""Fits of the critical batch size to a sweep's table, for each group and target, and its dependence on fields."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sgdtheory._common.files import csv_text
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.fits import (
    METHODS,
    Convention,
    Method,
    SizeDependence,
    StepsLaw,
    StepsMeasurement,
    fit_steps_law,
    interpolated_critical_batch_size,
    one_convention,
    size_dependence,
)
from sgdtheory.sweep.table import SweepTable
from sgdtheory.sweep.tuning import TunedSteps, best_steps

FEW = {  # An exponent from this many sizes gets this note.
    2: "two sizes cannot distinguish scatter of B* between sizes from a slope: the slope's interval is unlimited and "
    "the verdict inconclusive; measure three or more",
    3: "three sizes leave one degree of freedom for the scatter of B* around a line (t = 12.7 at 95%): the width of "
    "the slope's interval is largely chance; measure five sizes or more",
}
ONE_SEED = (
    "one seed: the steps are those of the best runs, which are too few by about their scatter, and B* is too low if "
    "the scatter falls with the batch size; sweep two seeds or more: each is then measured with the choice that is "
    "best for the others"
)


@dataclass(frozen=True, eq=False)
class SweepFit(Shown):
    """Critical batch sizes of a sweep's groups at one target.

    Attributes:
        tuned: tuned steps to the target of every group and batch size.
        measurements, laws: measured steps and fitted laws Y = a + b/B of every group with at least three tuned batch
            sizes.
        convention: convention of B*, with a number as its reference.
        dependence: method → dependence of B* on the first field in `by`; a method is missing if there are too few
            sizes or batch sizes for it.
        notes: remarks on what is not tuned, not reached, or not fitted.
    """

    tuned: TunedSteps
    measurements: tuple[StepsMeasurement, ...]
    laws: tuple[StepsLaw, ...]
    convention: Convention
    dependence: dict[str, SizeDependence]
    notes: tuple[str, ...]

    @property
    def reference(self) -> float:
        """Reference batch size B_ref of the convention."""
        return self.convention.reference_among(self.tuned.smallest_batch_size)

    @property
    def overhead(self) -> float:
        """Data overhead ω of the convention."""
        return self.convention.overhead

    def critical_intervals(self, level: float = 0.95) -> list[tuple[float, float]]:
        """Return a confidence interval of B* by the law for each of `laws`.

        The intervals use the scatter of all groups together, as the dependence on the size does (at the level of
        `fit_sweep`). Without a dependence they use each group's own scatter, by profile likelihood.
        """
        if "law" in self.dependence:
            return list(zip(*(ends.tolist() for ends in self.dependence["law"].critical_intervals), strict=True))
        return [law.interval(level=level, convention=self.convention) for law in self.laws]

    def sheet(self) -> Sheet:
        """Return B* of every group, and its dependence on the first field."""
        return SweepFits((self,)).sheet()


@dataclass(frozen=True, eq=False)
class SweepFits(Shown):
    """Fits at several targets, and how B* of each group depends on the data that the targets take.

    Attributes:
        fits: one a target, with the same groups and convention.
        margin, level: as of `size_dependence`.
    """

    figure: ClassVar[str] = "sweep_fits"

    fits: tuple[SweepFit, ...]
    margin: float = 0.2
    level: float = 0.95

    @cached_property
    def by_data(self) -> dict[str, SizeDependence]:
        """Group → how its B* depends on the data; without groups at fewer than two targets or with an infinite B*."""
        found = {}
        for group in dict.fromkeys(each.group for fit in self.fits for each in fit.measurements):
            with suppress(ValueError):  # The notes of the fits say where a B* is not finite.
                found[group] = data_dependence(self.fits, group, margin=self.margin, level=self.level)
        return found

    def sheet(self) -> Sheet:
        """Return B* of every target and group, and the exponents with their verdicts."""
        convention = {"reference": [fit.reference for fit in self.fits], "overhead": self.fits[0].overhead}
        exponents = self._exponents()
        settings: dict[str, Any] = {"exponents": [record for _, _, record in exponents]}
        settings["convention"] = convention | {"margin": self.margin, "level": self.level}
        tables = [self._laws(), *([self._slopes(exponents)] if exponents else [])]
        return Sheet("", tables, [note for fit in self.fits for note in fit.notes], settings)

    @property
    def unfitted(self) -> str:
        """Return why no group has a law at any target; empty if one has."""
        if any(fit.laws for fit in self.fits):
            return ""
        points = [point for fit in self.fits for point in fit.tuned.points]
        tuned = sum(point.tuned for point in points)
        unreached = sum(not point.steps.size for point in points)
        need = "a group needs three tuned batch sizes"
        if not any(fit.tuned.notes() for fit in self.fits):
            return f"{need}, it has {tuned}; add batch sizes to the sweep"
        return (
            f"{need}; of {len(points)} batch sizes {tuned} are tuned, {len(points) - tuned - unreached} have their "
            f"best choice at the grid's end, {unreached} did not reach the target"
        )

    def steps_text(self) -> str:
        """Return the tuned steps as CSV, a row for each target, group and batch size, as `read_measurements` reads."""
        points = [(fit.tuned.target_loss, point) for fit in self.fits for point in fit.tuned.points]
        names = list(dict.fromkeys(name for _, point in points for name in point.choice))
        header = ["target_loss", *self.fits[0].tuned.by, "batch_size", "steps", "num_seeds", "tuned", *names]
        rows = []
        for target, point in points:
            choice = [point.choice.get(name) for name in names]
            steps = [point.batch_size, point.mean, point.steps.size, int(point.tuned)]
            rows.append([target, *point.group, *steps, *choice])
        return csv_text(header, rows)

    def _laws(self) -> Table:
        rows = [(fit, *each) for fit in self.fits for each in zip(fit.measurements, fit.laws, strict=True)]
        critical = [law.critical_batch_size(convention=fit.convention) for fit, _, law in rows]
        intervals = [ends for fit in self.fits for ends in fit.critical_intervals(self.level)]
        interpolated = [
            interpolated_critical_batch_size(each.batch_sizes, each.steps, fit.convention) for fit, each, _ in rows
        ]
        quantities = [
            Quantity("target_loss", "target loss", [fit.tuned.target_loss for fit, *_ in rows], digits=6),
            Quantity("group", "group", [each.group for _, each, _ in rows]),
            Quantity("a", "a", [law.a for *_, law in rows]),
            Quantity("b", "b", [law.b for *_, law in rows]),
            Quantity("batch_sizes", "", [each.batch_sizes for _, each, _ in rows]),
            Quantity("steps", "", [each.steps for _, each, _ in rows]),
            Quantity("critical_batch_size", "B*", critical, intervals),
            Quantity("interpolated", "B*, interpolated", interpolated),
        ]
        references = ", ".join(f"{value:g}" for value in dict.fromkeys(fit.reference for fit in self.fits))
        title = f"steps = a + b/B;  B*: {self.fits[0].overhead:.0%} more data than at B = {references}"
        return Table(quantities, "groups", title, f"{self.level:.0%}", hidden=["batch_sizes", "steps"])

    def _exponents(self) -> list[tuple[str, SizeDependence, dict[str, Any]]]:
        """Return for each target or group its name, how B* depends on the size, and the record for programs."""
        size = self.fits[0].tuned.by[0]
        found = []
        for fit in self.fits:
            target = fit.tuned.target_loss
            for each in fit.dependence.values():
                found.append((f"loss {target:g}", each, {"target_loss": target, "size": size} | _record(each)))
        for group, each in self.by_data.items():
            found.append((group, each, {"group": group, "size": "data"} | _record(each)))
        return found

    def _slopes(self, exponents: list[tuple[str, SizeDependence, dict[str, Any]]]) -> Table:
        slopes = [round(each.slope, 4) + 0.0 for _, each, _ in exponents]  # A slope of 1e-10 is 0, without a sign.
        quantities = [
            Quantity("", "of", [record["size"] for *_, record in exponents]),
            Quantity("", "at", [where for where, *_ in exponents]),
            Quantity("", "by", [record["method"] for *_, record in exponents]),
            Quantity("", "slope", slopes, [each.interval for _, each, _ in exponents], digits=3),
            Quantity("", "verdict", [each.verdict for _, each, _ in exponents]),
        ]
        title = f"B* ∝ size^slope; holds: |slope| < {self.margin:g} by two one-sided tests; fails: else, if slope ≠ 0"
        return Table(quantities, "", title, f"{self.level:.0%}")


def _record(dependence: SizeDependence) -> dict[str, Any]:
    names = "slope", "interval", "equivalence_interval", "verdict", "sizes", "scatter"
    found = {name: getattr(dependence, name) for name in names}
    return found | {"method": METHODS[dependence.method], "critical_batch_sizes": dependence.critical}


def fit_sweep(
    table: SweepTable,
    *,
    target_loss: float,
    by: Sequence[str] = ("width",),
    reference: float | None = None,
    overhead: float = 0.2,
    convention: Convention | None = None,
    margin: float = 0.2,
    level: float = 0.95,
    edges: bool = False,
) -> SweepFit:
    """Fit steps laws and B* of every group at a target, and the dependence of B* on the first field in `by`.

    >>> import tempfile
    >>> from sgdtheory.sweep import fit_sweep, sweep
    >>> from sgdtheory.training import TrainConfig
    >>> shared = {"width": 8, "holdout_size": 32, "averages": (), "max_steps": 200}
    >>> pairs = [(batch, rate) for batch in (4, 8, 16) for rate in (0.01, 0.03, 0.1)]
    >>> configs = [TrainConfig(batch_size=batch, learning_rate=rate, **shared) for batch, rate in pairs]
    >>> with tempfile.TemporaryDirectory() as store:  # doctest: +SKIP
    ...     table = sweep(configs, store)
    >>> fit = fit_sweep(table, target_loss=0.8, edges=True)  # doctest: +SKIP
    >>> fit.reference, len(fit.laws)  # of one width  # doctest: +SKIP
    (4.0, 1)

    Args:
        table: table of a sweep.
        target_loss: loss on the hold-out.
        by: fields that distinguish groups; the first is the size.
        reference: B_ref; None: the smallest batch size that all groups were swept at, tuned or not, so that it is the
            same at every target.
        overhead: data overhead ω.
        convention: reference and overhead together, instead of the two numbers.
        margin: |slope| of log B* on log size above which B* depends on the size; "holds" excludes it.
        level: as for `size_dependence`.
        edges: use batch sizes whose best choice is at an end of the grid too.

    Raises:
        ValueError: as for `best_steps`, and if no batch size was swept in all groups.
    """
    tuned = best_steps(table, target_loss=target_loss, by=by)
    convention = one_convention(convention, reference, overhead)
    return fit_tuned(tuned, convention=convention, margin=margin, level=level, edges=edges)


def fit_tuned(
    tuned: TunedSteps,
    *,
    reference: float | None = None,
    overhead: float = 0.2,
    convention: Convention | None = None,
    margin: float = 0.2,
    level: float = 0.95,
    edges: bool = False,
) -> SweepFit:
    """Fit as `fit_sweep` does, to steps that are already tuned, for example from a table that an experiment wrote.

    Args:
        tuned: steps to one target of every group and batch size.
        reference, overhead, convention, margin, level, edges: as for `fit_sweep`.
    """
    target_loss = tuned.target_loss
    measured = tuned.measurements(edges=edges)
    notes, dependence = tuned.notes(), {}
    fitted = {each.group for each in measured}
    missing = len(tuned.groups) - len(fitted)
    if missing:
        few = f"{missing} of {len(tuned.groups)} groups have fewer than three tuned batch sizes"
        notes.append(f"loss {target_loss:g}: no fit of {few}")
    if any(point.tuned and point.steps.size == 1 < point.runs for point in tuned.points):
        notes.append(ONE_SEED)
    if len(measured) in FEW:
        notes.append(FEW[len(measured)])
    convention = one_convention(convention, reference, overhead)
    if convention.reference is None:
        convention = Convention(tuned.smallest_batch_size, convention.overhead)
    for method in METHODS if measured else ():
        try:
            options = {"margin": margin, "level": level}
            dependence[method] = size_dependence(measured, convention=convention, method=method, **options)
        except ValueError as error:
            notes.append(f"loss {target_loss:g}: no exponent of {METHODS[method]}: {error}")
    laws = tuple(fit_steps_law(each.batch_sizes, each.steps) for each in measured)
    return SweepFit(tuned, tuple(measured), laws, convention, dependence, tuple(notes))


def data_dependence(
    fits: Sequence[SweepFit], group: str, *, margin: float = 0.2, level: float = 0.95, method: Method = "law"
) -> SizeDependence:
    """Fit the dependence of one group's B* on the number of samples that different targets need.

    The size of a target is D = B_ref Y(B_ref), the samples to the target at the reference batch size by the law.
    Targets that are read off the same runs share errors, which the interval does not include.

    Args:
        fits: one fit per target, all with the same reference.
        group: name of the group in the measurements, such as "width 64".
        margin, level, method: as for `size_dependence`.

    Raises:
        ValueError: if the group is measured at fewer than two targets, or B* is not finite.
    """
    sized = []
    for fit in fits:
        for measurement, law in zip(fit.measurements, fit.laws, strict=True):
            if measurement.group == group:
                data = fit.reference * float(np.asarray(law.predict(fit.reference)))
                sized.append(replace(measurement, size=data, group=f"{group}, loss {fit.tuned.target_loss:g}"))
    if len(sized) < 2:
        raise ValueError(f"group {group} must be measured at two targets or more, got {len(sized)}")
    return size_dependence(sized, convention=fits[0].convention, margin=margin, level=level, method=method)
