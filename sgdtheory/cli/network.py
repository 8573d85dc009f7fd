"""What the commands on networks have in common: the fields of a training run as flags, and presets of them."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.presets import PRESETS, preset

NETWORK_COMMANDS = "train", "coordcheck"


@dataclass(frozen=True, kw_only=True)
class NetworkCommand(TrainConfig):
    """A training run by its fields."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "run": ("preset", "directory", "resume", "checkpoint_seconds", "widths", "steps", "seeds"),
        "check": ("tolerance", "zero_output", "table"),
        "model": (
            *("model", "width", "depth", "num_heads", "activation", "precision"),
            *("parametrization", "base_width", "base_num_heads", "seed"),
        ),
        "data": (
            *("data", "tokens", "vocabulary", "context", "input_dim", "capacity", "source", "noise_variance"),
            *("task_seed", "holdout_size", "data_seed"),
        ),
        "optimizer": (
            *("optimizer", "learning_rate", "batch_size", "micro_batch", "momentum", "beta1", "beta2"),
            *("epsilon", "clip_norm", "trained"),
        ),
        "duration and schedule": ("max_steps", "target_loss", "schedule", "warmup", "decay", "schedule_steps"),
        "averages and evaluation": ("averages", "uniform_average", "eval_every"),
        "several processes": ("distributed", "coordinator", "num_processes", "process_id"),
        "output": ("plot", "json"),
    }

    parametrization: Literal["mup", "standard", "ntk"] = "mup"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Maximal update, standard or neural tangent parametrization."""
    preset: str | None = None
    """Size by name, whose fields the other flags change; an unknown name lists them."""
    plot: Path | None = None
    """Draw a figure to this .png, .pdf or .svg."""
    json: bool = False
    """Print JSON; null stands for what is infinite or absent."""

    @property
    def config(self) -> TrainConfig:
        """The run that the flags describe."""
        return TrainConfig(**{field.name: getattr(self, field.name) for field in dataclasses.fields(TrainConfig)})


def preset_of(arguments: Sequence[str]) -> dict[str, Any]:
    """Fields of the preset that the arguments of a network command name, with its name; empty if they name none."""
    if not arguments or arguments[0] not in NETWORK_COMMANDS:
        return {}
    for place, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag == "--preset" and (equals or place + 1 < len(arguments)):
            name = value if equals else arguments[place + 1]
            tokens = {"tokens": "(give --tokens FILE)"} if PRESETS.get(name, {}).get("data") == "tokens" else {}
            fields = dataclasses.asdict(preset(name, **tokens))
            return fields | {"preset": name}
    return {}
