"""Power laws of the best learning rate, B*, and B at fixed data that a grid of losses shows; and the grid's sheet."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.degradation import Degradation
from sgdtheory.fits.laws_of_groups import C_IS_0, definition_text
from sgdtheory.fits.loss_targets import LossTarget
from sgdtheory.fits.power_law import PowerProduct, fit_power_product
from sgdtheory.fits.tuned_loss import TUNED, TunedLosses
from sgdtheory.fits.u_shaped_law import UShapedLaw

BATCH_SIZE, SAMPLES, SIZE = "batch_size", "samples", "size"
Point = tuple[str, dict[str, float], float]  # group, what it is a power of, value


@dataclass(frozen=True, eq=False)
class GridLaw:
    """A quantity as a product of powers, of one group or of all of them.

    Attributes:
        quantity: "learning rate": the best γ; "best batch size": that of the least loss; "batch size within x%": the
            largest with that degradation; "critical batch size": B* at the targets.
        group: name of the group; "all" where the size of the groups is among the powers.
        fit: with an exponent for each of "batch_size", "samples" (D; of B* the data to the target at B_ref) and "size".
    """

    quantity: str
    group: str
    fit: PowerProduct


def grid_laws(
    groups: Sequence[TunedLosses], targets: Sequence[LossTarget], degradations: Sequence[Degradation]
) -> tuple[GridLaw, ...]:
    """All laws that there are enough points for: two more than numbers in the law."""
    sizes = {group.group: group.size for group in groups}
    quantities: dict[str, Iterable[Point]] = {
        "learning rate": (point for group in groups for point in _rates(group)),
        "best batch size": ((each.group, {SAMPLES: each.samples}, each.best_batch_size) for each in degradations),
        "critical batch size": ((each.group, {SAMPLES: each.samples}, each.critical_batch_size) for each in targets),
    }
    if degradations:
        within = ((each.group, {SAMPLES: each.samples}, each.batch_size) for each in degradations)
        quantities[f"batch size within {degradations[0].share:.3g}"] = within
    found = []
    for quantity, points in quantities.items():
        finite = [point for point in points if np.isfinite(point[2])]
        found += [GridLaw(quantity, name, fit) for name, fit in _fits(finite, sizes)]
    return tuple(found)


def _rates(group: TunedLosses) -> Iterator[Point]:
    """The best γ where it lies between rates."""
    for b, d in zip(*np.nonzero(group.state == TUNED), strict=True):
        where = {BATCH_SIZE: float(group.batch_sizes[b]), SAMPLES: float(group.samples[d])}
        yield group.group, where, float(group.learning_rate[b, d])


def _fits(points: list[Point], sizes: dict[str, float]) -> Iterator[tuple[str, PowerProduct]]:
    """(group, law) of each group and, where they have different sizes, of all with the size."""
    for name in sizes:
        fit = _fit([point for point in points if point[0] == name])
        if fit:
            yield name, fit
    if len(set(sizes.values())) > 1:
        fit = _fit([(name, {**where, SIZE: sizes[name]}, value) for name, where, value in points])
        if fit:
            yield "all", fit


def _fit(points: list[Point]) -> PowerProduct | None:
    """The law; None with too few points, such that do not tell the powers apart, or a size that is not known."""
    names = list(points[0][1]) if points else []
    if len(points) < len(names) + 3:
        return None
    x = {name: [where[name] for _, where, _ in points] for name in names}
    varying = {name: column for name, column in x.items() if len(set(column)) > 1}
    try:
        return fit_power_product(varying, [value for *_, value in points]) if varying else None
    except ValueError:
        return None


# ------------------------------------------------------------------ the sheet of a grid


POWERS = {BATCH_SIZE: "batch size", SAMPLES: "data", SIZE: "size"}
OF_GROUPS = "group", "size", "batch_sizes", "samples", "loss", "learning_rate", "state"


def grid_sheet(grid: Any) -> Sheet:
    """Return the tables of a `LossGrid` that have rows; JSON has the best losses of every group too."""
    level = f"{grid.level:.0%}"
    settings: dict[str, Any] = {
        "groups": [{name: getattr(each, name) for name in OF_GROUPS} for each in grid.groups],
        "convention": vars(grid.convention),
        "level": grid.level,
    }
    settings |= {"targets": [], "degradation": [], "laws": []}
    tables = [_targets(grid.targets, grid.convention, level)] if grid.targets else []
    tables += [_degradations(grid.degradations, level)] if grid.degradations else []
    tables += [_laws(grid.laws, grid.level)] if grid.laws else []
    return Sheet("", tables, grid.remarks, settings)


def _column(found: Sequence[Any], name: str, label: str = "", *, ends: str = "", **options: Any) -> Quantity:
    """An attribute of all of them, with an interval if it is named."""
    intervals = [getattr(each, ends) for each in found] if ends else None
    return Quantity(name, label, [getattr(each, name) for each in found], intervals, **options)


def _group(found: Sequence[Any]) -> list[Quantity]:
    return [_column(found, "group"), Quantity("", "group", [each.group or "all" for each in found])]


def _targets(targets: Sequence[LossTarget], convention: Convention, level: str) -> Table:
    # All laws of a grid are of one kind, the one that was asked for.
    curved = isinstance(targets[0].law, UShapedLaw)
    laws = [each.law for each in targets]
    quantities = [
        *_group(targets),
        _column(targets, "size"),
        Quantity("target_loss", "target loss", [each.target for each in targets], digits=6),
        _column(targets, "reference"),
        _column(targets, "batch_sizes"),
        Quantity("", "batch sizes", [each.batch_sizes.size for each in targets]),
        _column(targets, "steps"),
        _column(laws, "a", "a"),
        _column(laws, "b", "b"),
    ]
    if curved:
        tests = [law.curvature_test() for law in laws if isinstance(law, UShapedLaw)]
        quantities += [
            _column(laws, "c"),
            Quantity("curvature_test", "", [test._asdict() for test in tests]),
            _column(targets, "smallest_batch_size", "least B", ends="smallest_interval"),
            _column(targets, "optimal_batch_size", "B_opt", ends="optimal_interval"),
            Quantity("", "c = 0", [test.p_value for test in tests], digits=2),
        ]
    quantities += [
        _column(targets, "critical_batch_size", "B*", ends="interval"),
        _column(targets, "interpolated", "B*, interpolated"),
        _column(targets, "samples"),
    ]
    formula = "a + b/B + c/B²" if curved else "a + b/B"
    title = f"steps = {formula};  B*: {definition_text(convention, curved=curved)}"
    hidden = "group", "size", "reference", "batch_sizes", "steps", "c", "curvature_test", "samples"
    return Table(quantities, "targets", title, level, C_IS_0 if curved else "", hidden)


def _degradations(found: Sequence[Degradation], level: str) -> Table:
    # JSON has inf and nan as numbers. Readers see which end of the batch sizes they stand for.
    largest = [
        number(each.batch_size) if np.isfinite(each.batch_size) else f"> {each.batch_sizes[-1]:g}" for each in found
    ]
    best = [number(each.best_batch_size) if np.isfinite(each.best_batch_size) else "at an end" for each in found]
    quantities = [
        *_group(found),
        _column(found, "samples", "data"),
        *(_column(found, name) for name in ("batch_sizes", "ratios", "intervals", "batch_size")),
        Quantity("batch_size_interval", "", [each.interval for each in found]),
        Quantity("", "B", largest, [each.interval for each in found]),
        _column(found, "best_batch_size"),
        Quantity("", "best B", best),
    ]
    share = f"{100 * found[0].share:.3g}%"
    title = f"at fixed data: the largest batch size whose loss is within {share} of the best one's"
    hidden = "group", "batch_sizes", "ratios", "intervals", "batch_size", "batch_size_interval", "best_batch_size"
    return Table(quantities, "degradation", title, level, hidden=hidden)


def _laws(laws: Sequence[GridLaw], level: float) -> Table:
    fits = [each.fit for each in laws]
    # A law has those exponents that its points determine, so that cells of the others are empty.
    intervals: Iterable[Any] = [{name: fit.interval(name, level) for name in fit.exponents} for fit in fits]
    quantities = [
        _column(laws, "quantity", "of"),
        *_group(laws),
        _column(fits, "coefficient", "coefficient"),
        _column(fits, "exponents"),
        Quantity("intervals", "", intervals),
        *(
            Quantity(
                "",
                label,
                [fit.exponents.get(name) for fit in fits],
                [each.get(name, (None, None)) for each in intervals],
                digits=3,
            )
            for name, label in POWERS.items()
        ),
    ]
    hidden = "group", "exponents", "intervals"
    return Table(quantities, "laws", "exponents of power laws", f"{level:.0%}", hidden=hidden)
