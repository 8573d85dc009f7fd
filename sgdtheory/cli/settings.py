"""What the commands on power-law regression have in common: the problem, and B, γ and D."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from tyro.constructors import PrimitiveConstructorSpec

from sgdtheory.theory import PowerLaw


def _share(words: list[str]) -> float:
    word = words[0]
    value = float(word[:-1]) / 100 if word.endswith("%") else float(word)
    if value > 1 and not word.endswith("%"):
        raise ValueError(f"overhead is a fraction, 0.2 is 20%; got {word}: write {word}% or {100 * value:g}%")
    return value


Overhead = Annotated[
    float,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="SHARE",
        instance_from_str=_share,
        is_instance=lambda value: isinstance(value, float),
        str_from_instance=lambda value: [f"{value:g}"],
    ),
]  # 0.2 or 20%; a bare number above 1 is refused, since both 20 and 0.2 are written for 20%


@dataclass(frozen=True, kw_only=True)
class ProblemCommand:
    """A power law."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "problem": ("capacity", "source", "dim", "noise_variance"),
        "settings": ("batch_size", "num_steps", "learning_rate", "num_samples"),
        "algorithms": ("algorithm", "points"),
        "options": (),
        "method": (
            *("method", "weight_decay", "momentum", "interpolation"),
            *("coupling", "forgetting", "long_step"),
        ),
        "schedule": ("schedule", "warmup", "final", "decay", "exponent", "stages"),
        "schedule of the batch size": (
            *("batch_schedule", "batch_warmup", "batch_final", "batch_decay", "batch_exponent", "batch_stages"),
        ),
        "average": ("average", "tail_fraction", "average_decay", "average_window"),
        "several processes": ("distributed", "coordinator", "num_processes", "process_id"),
        "output": ("plot", "json"),
    }

    capacity: float
    """Exponent a > 1 of the eigenvalues, λ_i = i^−a."""
    source: float
    """Exponent b > 1 of the initial risk, s_i = i^−b."""
    dim: float | None = None
    """Number of directions of the problem; None: infinitely many."""
    noise_variance: float = 1.0
    """Variance σ² of the label noise."""
    json: bool = False
    """Print JSON; null stands for what is infinite or absent."""

    @property
    def problem(self) -> PowerLaw:
        """The problem that the flags describe."""
        return PowerLaw(self.capacity, self.source, self.dim, self.noise_variance)  # pyright: ignore[reportArgumentType]

    @property
    def problem_title(self) -> str:
        """The problem in symbols."""
        size = "" if self.dim is None else f", d = {self.dim:g}"
        return f"λ_i = i^−{self.capacity:g}, s_i = i^−{self.source:g}, σ² = {self.noise_variance:g}{size}"

    @property
    def problem_in_mathematics(self) -> str:
        """The same for the title of a figure."""
        size = "" if self.dim is None else f", $d = {self.dim:g}$"
        exponents = rf"$\lambda_i = i^{{-{self.capacity:g}}}$, $s_i = i^{{-{self.source:g}}}$"
        return rf"{exponents}, $\sigma^2 = {self.noise_variance:g}$" + size


@dataclass(frozen=True, kw_only=True)
class SettingsCommand(ProblemCommand):
    """A power law, and settings: one batch size, learning rate and number of samples, or several of equal number."""

    batch_size: tuple[float, ...]
    """Batch size B."""
    learning_rate: tuple[float, ...]
    """Learning rate γ, in units of 1/λ_1."""
    num_samples: tuple[float, ...]
    """Number of samples D; there are as many steps as they allow."""

    @property
    def settings(self) -> dict[str, Any]:
        """batch_size, learning_rate and num_samples, scalars or arrays."""
        names = "batch_size", "learning_rate", "num_samples"
        return {name: _scalar_or_array(getattr(self, name)) for name in names}


def _scalar_or_array(values: tuple[float, ...]):
    if not values:
        raise ValueError("batch-size, learning-rate and num-samples need at least one value each")
    return values[0] if len(values) == 1 else np.array(values)
