"""The flags of an algorithm, for every command that runs one."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from sgdtheory.algorithms import Algorithm, algorithm_text, make_algorithm

Shape = Literal["constant", "cosine", "linear", "wsd", "power", "stages"]


@dataclass(frozen=True, kw_only=True)
class AlgorithmCommand:
    """A command on an algorithm, which its flags describe."""

    method: Literal["sgd", "heavy-ball", "nesterov", "schedule-free", "accelerated"] = "sgd"
    """What a step does."""
    weight_decay: float | None = None
    """sgd: decoupled weight decay κ, in units of λ; 0 unless given."""
    momentum: float | None = None
    """heavy-ball, nesterov: momentum β."""
    interpolation: float | None = None
    """schedule-free: weight β of the average where gradients are taken; 0.9 unless given."""
    coupling: float | None = None
    """accelerated: weight α of the short steps' iterate where gradients are taken."""
    forgetting: float | None = None
    """accelerated: share β of that point in the long steps' iterate."""
    long_step: float | None = None
    """accelerated: long step over short step; the learning rate is the short one."""
    schedule: Shape = "constant"
    """What the learning rate does along the run; γ is its peak."""
    warmup: float | None = None
    """All but stages: fraction of the steps in which the learning rate grows linearly from 0."""
    final: float | None = None
    """cosine, linear: learning rate at the end, over γ; 0 unless given."""
    decay: float | None = None
    """wsd: last fraction of the steps, in which the learning rate falls linearly to 0; 0.2 unless given."""
    exponent: float | None = None
    """power: p of (1 − t/n)^p."""
    stages: str | None = None
    """stages: FRACTION:VALUE pairs; 0:1,0.5:0.3 is γ up to half of the steps, and 0.3 γ from there on."""
    batch_schedule: Shape = "constant"
    """What the batch size does along the run; B is what it is a multiple of."""
    batch_warmup: float | None = None
    """As --warmup, of the batch size; no batch is smaller than 1."""
    batch_final: float | None = None
    """As --final; linear with 8 is a ramp from B to 8B."""
    batch_decay: float | None = None
    """As --decay."""
    batch_exponent: float | None = None
    """As --exponent."""
    batch_stages: str | None = None
    """As --stages; 0:1,0.5:4 is B up to half of the steps, and 4B from there on."""
    average: Literal["uniform", "tail", "exponential", "last"] = "uniform"
    """What the run returns: an average of the iterates, or the last of them."""
    tail_fraction: float | None = None
    """tail: last fraction of the steps, whose iterates are averaged; 0.5 unless given."""
    average_decay: float | None = None
    """exponential: decay rate τ of the average; or"""
    average_window: float | None = None
    """exponential: 1/(1 − τ), as a fraction of the steps."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that the flags describe."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(AlgorithmCommand)}
        return make_algorithm({name: value for name, value in values.items() if value is not None})

    @property
    def algorithm_argument(self) -> dict[str, Any]:
        """`algorithm`, for functions that take one; nothing for the default."""
        return {} if self.algorithm.is_default else {"algorithm": self.algorithm}

    @property
    def algorithm_title(self) -> str:
        """What a title says of the algorithm: nothing of the default."""
        return "" if self.algorithm.is_default else f"; {algorithm_text(self.algorithm)}"

    @property
    def algorithm_in_json(self) -> dict[str, str]:
        """What JSON says of the algorithm: nothing of the default."""
        return {} if self.algorithm.is_default else {"algorithm": algorithm_text(self.algorithm)}
