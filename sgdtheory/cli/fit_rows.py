"""What `sgdtheory fit` says of each group: a row of the report, and the table of all rows."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.markup import escape
from rich.table import Table

from sgdtheory.cli.output import interval_text
from sgdtheory.fits import AbstractStepsLaw, Convention, Scatter, StepsLaw, StepsMeasurement, UShapedLaw

RANGE = {"smallest_batch_size": "least B", "optimal_batch_size": "B_opt", "critical_batch_size": "B*"}
OF_RANGE = {"a": "a", "b": "b", "c": "c", **RANGE}
OF_POWER = {"a": "a", "b": "b", "alpha": "α", "critical_batch_size": "B*"}


def law_row(
    measurement: StepsMeasurement,
    law: AbstractStepsLaw,
    convention: Convention,
    level: float,
    scatter: Scatter | None = None,
) -> dict[str, Any]:
    """The numbers of a law with their intervals; of a `UShapedLaw` with the test of c = 0, by a scatter or its own."""
    row: dict[str, Any] = {"group": measurement.group, "size": measurement.size}
    row |= {"a": law.a, "b": law.b}
    if isinstance(law, UShapedLaw):
        row |= {"c": law.c, "curvature_test": law.curvature_test(scatter)._asdict()}
        row["smallest_batch_size"] = law.smallest_batch_size(convention=convention)
        row["optimal_batch_size"] = law.optimal_batch_size
    elif isinstance(law, StepsLaw):
        row["alpha"] = law.alpha
    row["residual_std"] = law.residual_std
    if law.standard_errors is not None:
        row |= {"misfit": law.misfit, "lack_of_fit": law.lack_of_fit._asdict()}
    row["critical_batch_size"] = law.critical_batch_size(convention=convention)
    curved = isinstance(law, UShapedLaw)
    interval = partial(law.interval, scatter=scatter) if curved else law.interval
    for name in OF_RANGE if curved else OF_POWER:
        row[f"{name}_interval"] = interval(name, level, convention=convention)
    return row


def laws_table(rows: Sequence[dict[str, Any]], title: str, *, alpha_fitted: bool) -> Table:
    """One row a group: each number above its interval, tests last."""
    curved = "c" in rows[0]
    tested = "lack_of_fit" in rows[0]
    table = Table(title=title)
    columns = OF_RANGE if curved else OF_POWER
    explained = [
        "p: probability of so large a χ² if the law holds; misfit: scatter of steps beyond their errors"
    ] * tested
    explained += ["c = 0: probability of so large an F if no c is needed"] * curved
    table.caption = "\n".join(explained) or None
    tests = [*(["c = 0"] if curved else []), *(["χ², p", "misfit"] if tested else [])]
    for header in ("group", *columns.values(), *tests):
        table.add_column(header, justify="left" if header == "group" else "right")
    for row in rows:
        cells = [escape(row["group"]) or "all"]
        for name in columns:
            fixed = name == "alpha" and not alpha_fitted
            cells.append(f"{row[name]:.5g}\n{'fixed' if fixed else interval_text(row[f'{name}_interval'])}")
        if curved:
            cells.append(f"{row['curvature_test']['p_value']:.2g}")
        if tested:
            cells += [_test_text(row["lack_of_fit"]), f"{row['misfit']:.1%}"]
        table.add_row(*cells)
    return table


def definition_text(convention: Convention, *, curved: bool) -> str:
    """What B* is, for a title: with c overheads count from B_opt of each group, if that is larger."""
    at = f"each group's B_opt or at {convention.reference_text}, the larger" if curved else convention.reference_text
    return f"{convention.overhead:.0%} more data than at {at}"


def _test_text(test: dict[str, Any]) -> str:
    """χ² over degrees of freedom, and p."""
    return f"{test['chi_square']:.3g} / {test['freedom']}\n{test['p_value']:.1g}"
