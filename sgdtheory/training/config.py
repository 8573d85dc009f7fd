"""Everything that determines a training run, in one frozen dataclass that JSON can hold."""

import functools
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sgdtheory._common.arguments import checked_name, single_number, whole_number
from sgdtheory.training.parametrization import (
    FAMILIES,
    PARAMETRIZATIONS,
    Parametrization,
    as_fields,
    parametrization,
)

MODELS = "mlp", "transformer"
ACTIVATIONS = "relu", "gelu", "tanh"
DATA = "teacher", "stdlib", "tokens"
SCHEDULES = "constant", "cosine", "wsd", "schedule_free"
PRECISIONS = "float32", "bfloat16"
TRAINED = "all", "output"
BYTES = 256
MOST_SAMPLES = 2**32
CHECKPOINT_SECONDS = 30.0  # between checkpoints of a run, unless said otherwise


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run: model, data, optimization, averaging, evaluation.

    The network is a multi-layer perceptron or a decoder-only transformer; the loss is the squared error (f(x) − y)² on
    `teacher` and the cross-entropy in nats a token on text.

    Raises:
        ValueError: at construction, one sentence with the field, its value and the remedy.
    """

    model: Literal["mlp", "transformer"] = "mlp"
    """Multi-layer perceptron (for teacher data) or decoder-only transformer (for text)."""
    width: int = 128
    """Width n of the hidden layers, d_model of a transformer."""
    depth: int = 2
    """Number of hidden layers, or of transformer blocks."""
    num_heads: int = 4
    """Attention heads of the transformer; must divide the width."""
    activation: Literal["relu", "gelu", "tanh"] = "relu"
    """Activation of the MLP (the transformer's is GELU)."""
    parametrization: str | Parametrization = "mup"
    """standard, mup or ntk (or, in Python, a Parametrization)."""
    base_width: int = 64
    """Width at which all parametrizations coincide."""
    base_num_heads: int | None = None
    """Attention heads at the base width; None: num_heads (so that the size of a head grows with the width)."""

    data: Literal["teacher", "stdlib", "tokens"] = "teacher"
    """Power-law regression on a nonlinear teacher, bytes of Python's standard library, or a file of tokens."""
    tokens: str | None = None
    """File of tokens: raw uint16 (.bin; uint32 if it ends in .u32.bin), or a one-dimensional .npy of either."""
    vocabulary: int = BYTES
    """Number of different tokens."""
    context: int = 64
    """Tokens that the transformer sees."""
    input_dim: int = 64
    """Teacher data: number of inputs."""
    capacity: float = 1.5
    """Teacher data: exponent a of the inputs' variances, λ_i ∝ i^−a, scaled to E‖x‖² = input_dim."""
    source: float = 2.0
    """Teacher data: exponent b of the teacher's dependence on them, ∝ i^−b in variance."""
    noise_variance: float = 0.1
    """Teacher data: variance σ² of the label noise, in units of the teacher's variance."""
    task_seed: int = 0
    """Teacher data: seed of the teacher and of the hold-out."""
    holdout_size: int = 1024
    """Samples (sequences, on text) of the hold-out."""
    data_seed: int = 0
    """Seed of the order of the training data."""

    trained: Literal["all", "output"] = "all"
    """Weights that are trained: all, or the output's alone, on frozen random features."""
    optimizer: Literal["sgd", "adam"] = "adam"
    """SGD with momentum, or Adam without weight decay."""
    learning_rate: float = 0.003
    """Learning rate γ at the base width."""
    batch_size: int = 64
    """Samples (sequences, on text) of a step."""
    micro_batch: int | None = None
    """Samples of one gradient; gradients are accumulated, and measure the noise scale. None: the whole batch."""
    momentum: float = 0.0
    """SGD: decay rate of the sum of past gradients."""
    beta1: float = 0.9
    """Adam: decay rate β₁ of the gradient's mean. Under schedule_free the interpolation, for SGD too."""
    beta2: float = 0.99
    """Adam: decay rate β₂ of the gradient's second moment."""
    epsilon: float = 1e-8
    """Adam: ε at the base width."""
    clip_norm: float | None = None
    """Largest norm of the gradient, in the metric of the parametrization's SGD rates; None: no clipping."""
    schedule: Literal["constant", "cosine", "wsd", "schedule_free"] = "constant"
    """After the warm-up: constant, half a cosine to 0, constant and then linearly to 0, or schedule-free."""
    warmup: float = 0.0
    """Fraction of schedule_steps in which the learning rate grows linearly from 0."""
    decay: float = 0.2
    """wsd: last fraction of schedule_steps, in which the learning rate decays."""
    max_steps: int = 1000
    """Steps after which the run ends."""
    schedule_steps: int | None = None
    """Duration that warm-up, decay and the evaluations refer to; None: max_steps."""

    averages: tuple[float, ...] = (0.9, 0.99)
    """Decay rates τ of exponentially weighted averages of the iterates, all tracked in the one run."""
    uniform_average: bool = False
    """Track the uniform average of all iterates too."""
    target_loss: float | None = None
    """The run ends when the iterate or an average of it has this loss on the hold-out."""
    eval_every: int = 100
    """Evaluate at multiples of this, at powers of two, and every 5% of schedule_steps from 70% on."""
    seed: int = 0
    """Seed of the initial weights."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the layers; weights, gradients' sums and losses are float32."""

    def __post_init__(self) -> None:
        """Check every field."""
        for name, known in CHOICES.items():
            checked_name(name, getattr(self, name), known)
        for name, least in WHOLE.items():
            self._set(name, whole_number(name, getattr(self, name), least))
        for name, least in WHOLE_OR_NONE.items():
            if getattr(self, name) is not None:
                self._set(name, whole_number(name, getattr(self, name), least))
        for name in SEEDS:
            if getattr(self, name) >= 2**32:
                raise ValueError(f"{name} must be below 2^32, got {getattr(self, name)}")
        for name, (low, high, words) in INTERVALS.items():
            if getattr(self, name) is not None:
                value = single_number(name, getattr(self, name))
                if not low <= value < high or (low == 0 and value == 0 and name in NONZERO):
                    raise ValueError(f"{name} must be {words}, got {value:g}")
                self._set(name, value)
        self._set("averages", tuple(sorted({_decay(tau) for tau in _as_tuple(self.averages)})))
        if not isinstance(self.uniform_average, bool):
            raise ValueError(f"uniform_average must be true or false (True or False), got {self.uniform_average!r}")
        if self.tokens is not None:
            if not isinstance(self.tokens, str | os.PathLike):
                raise ValueError(f"tokens must be the path of a token file, got {self.tokens!r}; write it in quotes")
            self._set("tokens", os.fspath(self.tokens))
        self._set("parametrization", self._named_parametrization())
        self._check_model()
        self._check_schedule()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _named_parametrization(self) -> str | Parametrization:
        table = parametrization(self.parametrization)
        return table.name if PARAMETRIZATIONS.get(table.name) == table else table

    def _check_model(self) -> None:
        if (self.model == "mlp") != (self.data == "teacher"):
            raise ValueError(
                f"model {self.model} does not go with data {self.data}: take mlp with teacher, transformer with text"
            )
        if self.model == "transformer":
            for width, heads in ("width", "num_heads"), ("base_width", "base_num_heads"):
                number = getattr(self, heads) or self.num_heads
                size = getattr(self, width)
                if size % (2 * number):
                    raise ValueError(
                        f"{width} must be {heads} = {number} times an even head size (rotary positions), got {size}"
                    )
        if self.data == "stdlib" and self.vocabulary != BYTES:
            raise ValueError(f"vocabulary must be {BYTES} for the bytes of stdlib, got {self.vocabulary}")
        if self.data == "tokens" and self.tokens is None:
            raise ValueError("tokens must be the path of a token file (.bin or .npy) with data tokens, got None")
        if self.micro_batch is not None and self.batch_size % self.micro_batch:
            raise ValueError(
                f"micro_batch must divide batch_size = {self.batch_size}, got {self.micro_batch}; "
                f"the next one that does is {_next_divisor(self.batch_size, self.micro_batch)}"
            )

    def _check_schedule(self) -> None:
        if self.schedule in ("cosine", "wsd") and self.max_steps > self.duration:
            raise ValueError(
                f"max_steps must be at most schedule_steps = {self.duration} with schedule {self.schedule}, whose "
                f"learning rate is 0 from there on, got {self.max_steps}; take constant to train on"
            )
        if self.schedule == "schedule_free" and not self.beta1:
            raise ValueError("beta1 must be positive with schedule schedule_free, whose interpolation it is, got 0")
        if self.schedule == "wsd" and self.warmup + self.decay > 1:
            raise ValueError(
                f"warmup and decay must add up to at most 1, got {self.warmup:g} and {self.decay:g}: lower one of them"
            )
        if self.max_steps * self.batch_size > MOST_SAMPLES:
            raise ValueError(
                f"max_steps times batch_size must be at most 2^32 samples, got {self.max_steps} and {self.batch_size}"
            )

    @property
    def table(self) -> Parametrization:
        """The exponents in use."""
        return parametrization(self.parametrization)

    @property
    def width_ratio(self) -> float:
        """r = width / base width."""
        return self.width / self.base_width

    @property
    def duration(self) -> int:
        """schedule_steps as a number."""
        return self.schedule_steps or self.max_steps

    @property
    def accumulated(self) -> int:
        """Number of micro-batches of a step."""
        return self.batch_size // (self.micro_batch or self.batch_size)

    @property
    def average_names(self) -> tuple[str, ...]:
        """Names of the iterate and its averages: "iterate", each τ, and "uniform"."""
        return ("iterate", *map(str, self.averages), *(("uniform",) if self.uniform_average else ()))

    def as_fields(self) -> dict[str, Any]:
        """Fields that JSON can hold; `TrainConfig.from_fields` is the way back."""
        fields = {name: getattr(self, name) for name in TrainConfig.__dataclass_fields__}
        return fields | {"parametrization": as_fields(self.parametrization), "averages": list(self.averages)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "TrainConfig":
        """The config of these fields; an unknown name is refused with the nearest known one."""
        for name in fields:
            checked_name("a field of the config", name, TrainConfig.__dataclass_fields__)
        return TrainConfig(**fields)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the fields that are not the defaults, twelve hexadecimal digits, the same on every machine.

        A later version with one more field gives the same hash to what it had before.
        """
        return _hash(self.as_fields())

    @functools.cached_property
    def trajectory(self) -> str:
        """Hash of the fields that determine the iterates: those of runs that share it agree at every step, to rounding.

        The runs may differ in what is observed of the iterates, and for how long: in averages, uniform_average,
        eval_every, target_loss and, where the learning rate does not depend on them, in max_steps and schedule_steps.
        """
        fields = self.as_fields() | {name: DEFAULTS[name] for name in OBSERVED}
        endless = self.schedule in ("constant", "schedule_free") and not self.warmup
        duration = DEFAULTS["max_steps"] if endless else self.duration
        return _hash(fields | {"max_steps": duration, "schedule_steps": None})


CHOICES = {
    "model": MODELS,
    "activation": ACTIVATIONS,
    "data": DATA,
    "trained": TRAINED,
    "optimizer": FAMILIES,
    "schedule": SCHEDULES,
    "precision": PRECISIONS,
}
SEEDS = "task_seed", "data_seed", "seed"
WHOLE = {
    **dict.fromkeys(("width", "depth", "num_heads", "base_width", "context", "input_dim", "holdout_size"), 1),
    **dict.fromkeys(("batch_size", "max_steps", "eval_every"), 1),
    **dict.fromkeys(SEEDS, 0),
    "vocabulary": 2,
}
WHOLE_OR_NONE = {"base_num_heads": 1, "micro_batch": 1, "schedule_steps": 1}
_POSITIVE = (0.0, math.inf, "positive and finite")
_RATE = (0.0, 1.0, "at least 0 and below 1")
INTERVALS = {
    **dict.fromkeys(("capacity", "source", "learning_rate", "clip_norm"), _POSITIVE),
    **dict.fromkeys(("noise_variance", "epsilon"), (0.0, math.inf, "at least 0 and finite")),
    **dict.fromkeys(("momentum", "beta1", "beta2"), _RATE),
    **dict.fromkeys(("warmup", "decay"), (0.0, math.nextafter(1, 2), "between 0 and 1")),
    "target_loss": (-math.inf, math.inf, "finite"),
}
NONZERO = "capacity", "source", "learning_rate", "clip_norm"


OBSERVED = "averages", "uniform_average", "eval_every", "target_loss"


def _hash(fields: Mapping[str, Any]) -> str:
    changed = {name: value for name, value in fields.items() if value != DEFAULTS[name]}
    return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:12]


def _as_tuple(values: Any) -> tuple:
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)


def _decay(tau: Any) -> float:
    value = single_number("averages", tau)
    if not 0 <= value < 1:
        raise ValueError(f"averages must be decay rates τ of at least 0 and below 1, got {value:g}")
    return value


def _next_divisor(number: int, above: int) -> int:
    return next(divisor for divisor in range(above, number + 1) if number % divisor == 0) if above < number else number


def read_config(path: Path) -> TrainConfig:
    """The config that a run wrote to its directory."""
    try:
        return TrainConfig.from_fields(json.loads(path.read_text()))
    except FileNotFoundError:
        raise ValueError(f"{path.parent} is not the directory of a run: it has no {path.name}") from None
    except (json.JSONDecodeError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not the config of a run: {error}") from None


DEFAULTS = TrainConfig().as_fields()
