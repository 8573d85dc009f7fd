"""Does momentum that grows with the run improve the exponents of SGD? DANA and momentum schedules, as published."""

from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments._lib.processes import map_on_cores
from experiments._lib.published_dana import QUICK, Momentum, momentum_items, of_momentum_item
from experiments._lib.published_dana_verdicts import momentum_figure, momentum_verdicts
from experiments._lib.published_theory import Row
from experiments._lib.results import Result
from experiments._lib.rows import columns_of, rows_of

Config = Momentum
SCALES = {"quick": QUICK, "full": Config()}
UNITS = {
    "question": "dana: risks along n; hard: least risks for b < a; critical: B*",
    "method": "optimizer",
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "case": "d, schedule",
    "number": "dana, hard: n; critical: D",
    "batch_size": "B, samples",
    "learning_rate": "γ; of hard: best peak γ; units of 1/λ_1",
    "risk": "excess risk there, units of y²",
}


def run(config: Config) -> Result:
    """Compute the risks along runs, the least risks, and B*."""
    rows = [row for part in map_on_cores(partial(_solve, config), momentum_items(config)) for row in part]
    return Result(columns_of(rows), UNITS, _figures(config, rows), momentum_verdicts(config, rows))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """Return the figure of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"published_momentum": momentum_figure(config, rows)}


def _solve(config: Config, item: tuple[str, Any]) -> list[Row]:
    return of_momentum_item(config, *item)
