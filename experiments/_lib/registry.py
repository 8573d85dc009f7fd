"""The experiments, in the order in which they run, each with its question, its duration and its code."""

import ast
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from experiments._lib.results import Result

Scale = Literal["quick", "full"]
FOLDER = Path(__file__).parents[1]


class Module(Protocol):
    """Contents that the module of an experiment must have."""

    SCALES: Mapping[str, Any]  # scale → config

    def run(self, config: Any) -> Result:
        """Columns, figures and verdicts at a config."""
        ...


@dataclass(frozen=True)
class Experiment:
    """One module of `experiments/`.

    Attributes:
        name: of the module.
        quick, full: seconds on two cores at either scale.
        by_name_only: at quick scale it runs if it is asked for.
    """

    name: str
    quick: float
    full: float
    by_name_only: bool = False

    @cached_property
    def question(self) -> str:
        """Question of the experiment: the first line of its module, which is not imported for it."""
        module = ast.parse((FOLDER / f"{self.name}.py").read_text(encoding="utf-8"))
        return (ast.get_docstring(module) or self.name).splitlines()[0]

    def seconds(self, scale: Scale) -> float:
        """On two cores."""
        return self.full if scale == "full" else self.quick

    def load(self) -> Module:
        """Its module, imported."""
        return cast(Module, importlib.import_module(f"experiments.{self.name}"))


# What answers within seconds comes first, so that a verdict is soon on the screen.
EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        Experiment("scaling_laws", 4, 5),
        Experiment("why", 4, 8),
        Experiment("overhead_convention", 8, 30),
        Experiment("mlperf", 35, 90, by_name_only=True),
        Experiment("loss_curves", 30, 120, by_name_only=True),
        Experiment("forecasts", 40, 400, by_name_only=True),
        Experiment("forecasts_unseen", 40, 1500, by_name_only=True),
        Experiment("over_training", 10, 230, by_name_only=True),
        Experiment("ratio_law", 8, 60),
        Experiment("model_size", 25, 600),
        Experiment("theorem7", 18, 1500),
        Experiment("bounds", 12, 75),
        Experiment("simulation_vs_theory", 27, 430),
        Experiment("heavy_tails", 40, 200, by_name_only=True),
        Experiment("corollary8", 18, 700),
        Experiment("corollary8_simulated", 22, 1500),
        Experiment("ramp_or_decay", 10, 300),
        Experiment("schedules", 12, 700),
        Experiment("optimizers", 25, 220),
        Experiment("small_batches", 15, 125),
        Experiment("rate_rule", 6, 40),
        Experiment("muon", 8, 120),
        Experiment("published", 40, 430, by_name_only=True),
        Experiment("published_momentum", 15, 180, by_name_only=True),
        Experiment("published_phases", 8, 410, by_name_only=True),
        Experiment("epochs", 40, 900, by_name_only=True),
        Experiment("sign_features", 5, 100),
        Experiment("optimal_ramp", 40, 900, by_name_only=True),
        Experiment("weight_decay", 20, 300, by_name_only=True),
        Experiment("averages", 30, 700, by_name_only=True),
        Experiment("momentum", 60, 400, by_name_only=True),
        Experiment("delay", 60, 500, by_name_only=True),
        Experiment("local_sgd", 60, 900, by_name_only=True),
        Experiment("optimal_schedule", 60, 700, by_name_only=True),
        Experiment("optimal_exponents", 60, 270, by_name_only=True),
        Experiment("curves_batch_size", 120, 480, by_name_only=True),
        Experiment("width_limit", 30, 1200),
        Experiment("width_invariance", 80, 3000),
        Experiment("learning_rate_transfer", 60, 1200, by_name_only=True),
        Experiment("averaging", 90, 3600, by_name_only=True),
        Experiment("data_scaling", 60, 20, by_name_only=True),
        Experiment("branching", 90, 1000, by_name_only=True),
        Experiment("theory_meets_network", 60, 550, by_name_only=True),
        Experiment("data_law", 90, 1800, by_name_only=True),
        Experiment("real_features", 120, 980, by_name_only=True),
        Experiment("precision", 60, 350, by_name_only=True),
        Experiment("accumulation", 60, 600, by_name_only=True),
        Experiment("ablations", 60, 1800, by_name_only=True),
        Experiment("epochs_networks", 25, 150, by_name_only=True),
        Experiment("optimizers_networks", 100, 3600, by_name_only=True),
        Experiment("trained_features", 15, 300, by_name_only=True),
    )
}


def names(scale: Scale) -> tuple[str, ...]:
    """Return the names of the experiments that run at a scale unless one is chosen."""
    return tuple(name for name, each in EXPERIMENTS.items() if scale == "full" or not each.by_name_only)


def seconds(scale: Scale) -> float:
    """On two cores, of those that run at a scale."""
    return sum(EXPERIMENTS[name].seconds(scale) for name in names(scale))
