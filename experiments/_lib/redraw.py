"""Draw the recorded figures again from the recorded tables, without training: `python -m experiments --redraw`."""

import csv
import io
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

import matplotlib.image
import numpy as np
from matplotlib.figure import Figure

from experiments._lib.network_sweeps import Task
from experiments._lib.registry import EXPERIMENTS
from sgdtheory._common.files import csv_number, write_atomically
from sgdtheory.plotting.style import save

FOLDER = Path(__file__).parents[1] / "recorded"
DARK = {"why.png": FOLDER.parents[1] / "docs" / "pictures" / "why_dark.png"}  # the README shows both
INVERTED = 0.9  # White becomes a dark grey: contrast stays above 10, and the ground is near that of dark pages.
TABLES = (
    *("ramp_or_decay", "weight_decay", "averages", "schedules", "momentum", "delay", "local_sgd"),
    *("optimal_schedule", "optimal_exponents", "optimal_ramp", "model_size"),
    *("optimizers", "small_batches", "rate_rule", "muon", "epochs", "sign_features", "trained_features"),
    *("published", "published_momentum", "published_phases"),
    *("width_invariance", "width_invariance_gpu", "data_scaling", "accumulation", "precision", "width_limit"),
    *("theory_meets_network", "data_law", "ablations", "epochs_networks"),
    *("optimizers_networks", "learning_rate_transfer", "averaging"),
    *("real_features", "mlperf", "loss_curves", "forecasts", "forecasts_unseen", "curves_batch_size"),
    *("over_training", "branching", "bounds"),
)
ELSEWHERE = {"width_invariance_gpu": "width_invariance"}  # a second record → its experiment
MODEL_SIZE = "map", "gaussian", "notions", "compute", "networks"
SHOWN = {  # file → name of the figure
    "width_invariance_teacher.png": "width_invariance_teacher_0.1",
    "width_invariance_text.png": "width_invariance_text_2.5",
    "width_invariance_gpu.png": "width_invariance_0.08",
    "data_scaling_teacher.png": "data_scaling_teacher",
    "theory_meets_network.png": "theory_meets_network",
    **{f"{name}.png": name for name in ("data_law", "data_law_critical", "ablations")},
    "optimizers_networks.png": "optimizers_networks_teacher",
    "optimizers_networks_text.png": "optimizers_networks_text",
    **{f"{name}.png": name for name in ("learning_rate_transfer", "averaging")},
    "averages_exponents.png": "averages_exponents",
    "schedules_risk.png": "schedules_risk",
    "schedules_critical.png": "schedules_critical",
    "ramp_or_decay.png": "ramp_or_decay",
    "momentum_gain.png": "momentum_gain",
    **{f"local_sgd_{name}.png": f"local_sgd_{name}" for name in ("critical", "time", "outer", "networks")},
    "delay.png": "delay",
    **{f"{name}.png": name for name in ("optimal_schedule_shape", "optimal_schedule_losses")},
    **{f"{name}.png": name for name in ("optimal_exponents_critical", "optimal_exponents_ratios")},
    **{f"{name}.png": name for name in ("optimal_ramp_shape", "optimal_ramp_steps")},
    **{f"{name}.png": name for name in ("real_features_critical", "real_features_spectra", "real_features_exponents")},
    "weight_decay.png": "weight_decay",
    **{f"{name}.png": name for name in ("optimizers", "small_batches", "rate_rule", "muon")},
    **{f"{name}.png": name for name in ("published", "published_momentum", "published_phases")},
    **{f"{name}.png": name for name in ("epochs", "epochs_networks", "sign_features", "trained_features")},
    "model_size.png": "model_size",
    **{f"model_size_{name}.png": f"model_size_{name}" for name in MODEL_SIZE},
    **{f"{name}.png": name for name in ("width_limit", "mlperf", "loss_curves", "curves_batch_size", "branching")},
    "forecasts.png": "forecasts",
    "forecasts_unseen.png": "forecasts_unseen",
    "over_training.png": "over_training",
    **{f"{name}.png": name for name in ("bounds", "bounds_best")},
}


@dataclass(frozen=True)
class Recorded:
    """Files that an experiment wrote to `folder`."""

    folder: Path

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        """Rows of the recorded table."""
        with (self.folder / "data.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Columns of a table of numbers."""
        return {name: np.array([csv_number(row[name]) for row in self.rows]) for name in self.rows[0]}

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """Recorded verdicts."""
        return json.loads((self.folder / "verdicts.json").read_text())

    def config(self, kind: type) -> Any:
        """Return the recorded config as an instance of `kind`."""
        stored = json.loads((self.folder / "config.json").read_text())
        if "tasks" in stored:
            stored["tasks"] = {name: Task(**_tuples(task)) for name, task in stored["tasks"].items()}
        return kind(**_tuples(stored))


class Drawing(Protocol):
    """Protocol of the module of an experiment with a recorded table."""

    Config: type

    def redraw(self, config: Any, recorded: Recorded) -> dict[str, Figure]:
        """Return the figures by name."""
        ...


def redraw(output: Path | None) -> list[Path]:
    """Write every figure of the recorded tables to a folder; without one those that are recorded, in their place."""
    drawn = figures()
    if output is None:
        written = [path for file, name in SHOWN.items() for path in save(drawn[name], FOLDER / file)]
        return written + [write_dark(FOLDER / file, target) for file, target in DARK.items()]
    return [path for name, figure in drawn.items() for path in save(figure, output / f"{name}.png")]


def write_dark(source: Path, target: Path) -> Path:
    """Write a figure for a dark page: lightness inverted, hues kept, as the site's style does with all figures."""
    pixels = matplotlib.image.imread(source)[..., :3]
    inverted = INVERTED + (1 - 2 * INVERTED) * pixels
    # The matrix of `hue-rotate(180deg)` in the CSS filter specification, which keeps luminance.
    luminance = np.array([0.213, 0.715, 0.072])
    turned = np.clip(inverted @ (2 * np.outer(luminance, np.ones(3)) - np.eye(3)), 0.0, 1.0)
    buffer = io.BytesIO()
    matplotlib.image.imsave(buffer, turned, format="png")
    return write_atomically(target, buffer.getvalue())


def figures(folder: Path = FOLDER) -> dict[str, Figure]:
    """Every figure that can be drawn from the tables in a folder, by its name in the experiment."""
    drawn: dict[str, Figure] = {}
    for name in TABLES:
        module = cast(Drawing, EXPERIMENTS[ELSEWHERE.get(name, name)].load())
        recorded = Recorded(folder / name)
        drawn |= module.redraw(recorded.config(module.Config), recorded)
    return drawn


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """Lists as tuples, those in lists and in the fields of the runs too."""
    inner = {name: _tuples(value) for name, value in fields.items() if name == "fields"}
    return {name: _tuple(value) for name, value in fields.items()} | inner


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
