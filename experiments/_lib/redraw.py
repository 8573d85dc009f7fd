"""Draw the recorded figures again from the recorded tables, without training: `python -m experiments.redraw`.

`--output FOLDER` writes all of their figures there, instead of those that `experiments/recorded/` shows.
"""

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from matplotlib.figure import Figure

from experiments import (
    accumulation,
    data_scaling,
    precision,
    theory_meets_network,
    width_invariance,
    width_limit,
)
from experiments._lib import variants
from experiments._lib.network_sweeps import Task
from experiments.theory_meets_network_figure import critical_figure
from sgdtheory.plotting.style import save_figure

RECORDED = Path(__file__).parents[1] / "recorded"
SHOWN = {  # file → name of the figure
    "width_invariance_teacher.png": "width_invariance_teacher_0.1",
    "width_invariance_text.png": "width_invariance_text_2.5",
    "data_scaling_teacher.png": "data_scaling_teacher",
    "theory_meets_network.png": "theory_meets_network",
    "width_limit.png": "width_limit",
}


@dataclass(frozen=True)
class Arguments:
    """Draw the recorded figures again from the recorded tables."""

    output: Path | None = None
    """Write every figure of the tables here; by default those that are recorded, in their place."""


def main() -> None:
    """Draw, write, and say what was written."""
    output = tyro.cli(Arguments, prog="python -m experiments.redraw").output
    drawn = figures()
    if output is None:
        written = [path for file, name in SHOWN.items() for path in save_figure(drawn[name], RECORDED / file)]
    else:
        written = [path for name, figure in drawn.items() for path in save_figure(figure, output / f"{name}.png")]
    print("\n".join(map(str, written)))


def figures(recorded: Path = RECORDED) -> dict[str, Figure]:
    """Every figure that can be drawn from the tables in a folder, by its name in the experiment."""
    drawn = {}
    config, rows = _config(width_invariance, recorded), _rows(recorded / "width_invariance")
    drawn |= width_invariance.figures(config, width_invariance.found_of(config, rows))
    config, rows = _config(data_scaling, recorded), _rows(recorded / "data_scaling")
    drawn |= data_scaling.figures(config, data_scaling.points_of(rows), _slopes(recorded / "data_scaling"))
    for module in accumulation, precision:
        config = _config(module, recorded)
        name = module.__name__.rpartition(".")[2]
        drawn |= variants.figures(config, name, _rows(recorded / name), module.WORDS)
    config, columns = _config(width_limit, recorded), _columns(_rows(recorded / "width_limit"))
    drawn |= width_limit.figures(config, columns)
    config, columns = _config(theory_meets_network, recorded), _columns(_rows(recorded / "theory_meets_network"))
    return drawn | {"theory_meets_network": critical_figure(config, columns)}


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "data.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _columns(rows: list[dict[str, str]]) -> dict[str, np.ndarray]:
    """Columns of a table of numbers."""
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def _config(module: Any, recorded: Path) -> Any:
    """The experiment's config as it was recorded."""
    stored = json.loads((recorded / module.__name__.rpartition(".")[2] / "config.json").read_text())
    if "tasks" in stored:
        stored["tasks"] = {name: Task(**_tuples(task)) for name, task in stored["tasks"].items()}
    return module.Config(**_tuples(stored))


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """Lists as tuples, in the fields of the runs too."""
    inner = {name: _tuples(value) for name, value in fields.items() if name == "fields"}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()} | inner


def _slopes(folder: Path) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Task → group → slope of log B* on log D and the ends of its interval, from the verdicts."""
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    for verdict in json.loads((folder / "verdicts.json").read_text()):
        place = re.search(r"\((\w+), (?:at )?(.+)\)", verdict["claim"])
        assert place, verdict["claim"]
        group = "both" if "grow together" in place[2] else place[2]
        found.setdefault(place[1], {})[group] = (verdict["measured"], *verdict["interval"])
    return found


if __name__ == "__main__":
    main()
