"""The sheet of a grid of losses: B* at targets, the largest batch size at fixed data, and power laws."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.degradation import Degradation
from sgdtheory.fits.grid_laws import GridLaw
from sgdtheory.fits.laws_of_groups import C_IS_0, definition_text
from sgdtheory.fits.loss_targets import LossTarget
from sgdtheory.fits.u_shaped_law import UShapedLaw

POWERS = {"batch_size": "batch size", "samples": "data", "size": "size"}
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
