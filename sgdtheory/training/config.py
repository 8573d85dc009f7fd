"""Everything that determines a training run, in one frozen dataclass; JSON and flags have it flat."""

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sgdtheory._common.arguments import checked_name, single_number
from sgdtheory.algorithms import ExponentialAverage, UniformAverage
from sgdtheory.training.data import Data, Teacher
from sgdtheory.training.fields import check_fields, set_field
from sgdtheory.training.flat import (
    KINDS,
    LATER,
    REPLACED,
    all_names,
    default_values,
    defaults_of,
    flattened,
    from_flat,
    homes_of,
    kind_name,
    overlaid,
)
from sgdtheory.training.models import MLP, Model
from sgdtheory.training.named_model import NamedModel
from sgdtheory.training.network import Network
from sgdtheory.training.optimizers import Adam, Muon, Optimizer
from sgdtheory.training.parametrization import PARAMETRIZATIONS, Parametrization, as_fields, parametrization
from sgdtheory.training.schedules import ENDING, Constant, Schedule, ScheduleFree

MOST_SAMPLES = 2**32
CHECKPOINT_SECONDS = 30.0  # between checkpoints of a run, unless said otherwise
OF_KINDS = default_values()  # defaults of the fields that only some kinds have


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run: model, data, optimization, averaging, evaluation.

    What every run has is a field of its own; what only some have is a field of its model, data, optimizer or schedule.
    Two configs are equal if and only if they are the same run: what says nothing (a base_num_heads, micro_batch or
    schedule_steps that is what None stands for) becomes None.

    >>> from dataclasses import replace
    >>> from sgdtheory.training import SGD, Cosine, TrainConfig
    >>> config = TrainConfig(width=64, optimizer=SGD(momentum=0.9), schedule=Cosine(warmup=0.1))
    >>> replace(config, learning_rate=0.1).learning_rate
    0.1
    >>> flat = {"width": 64, "optimizer": "sgd", "momentum": 0.9, "schedule": "cosine", "warmup": 0.1}
    >>> config == TrainConfig.from_fields(flat)
    True
    >>> config.value("momentum"), config.value("beta2")
    (0.9, None)

    Raises:
        ValueError: at construction, one sentence with the field, its value and the remedy.
    """

    model: Model = MLP()
    """Perceptron, residual or not; convolutional, for images; transformer or gated recurrence, for text; your own."""
    width: int = 128
    """Width n of the hidden layers, d_model of a transformer, channels of a convolutional network."""
    parametrization: str | Parametrization = "mup"
    """standard, mup or ntk (or, in Python, a Parametrization)."""
    base_width: int = 64
    """Width at which all parametrizations coincide."""

    data: Data = Teacher()
    """Power-law regression on a nonlinear teacher, handwritten digits, Python's text, arrays or tokens of your own."""
    holdout_size: int = 1024
    """Samples (sequences, on text) of the hold-out; of digits and arrays no more than there are."""
    data_seed: int = 0
    """Seed of the order of the training data."""

    trained: Literal["all", "output"] = "all"
    """Weights that are trained: all, or the output's alone, on frozen random features."""
    optimizer: Optimizer = Adam()
    """SGD with momentum, Adam without weight decay, signSGD, or Muon with Adam for what is no hidden matrix."""
    learning_rate: float = 0.003
    """Learning rate γ at the base width."""
    batch_size: int = 64
    """Samples (sequences, on text) of a step."""
    micro_batch: int | None = None
    """Samples of one gradient; gradients are accumulated, and measure the noise scale. None: the whole batch."""
    clip_norm: float | None = None
    """Largest norm of the gradient, in the metric of the parametrization's SGD rates; None: no clipping."""
    num_workers: int = 1
    """Workers K that take steps of their own from common weights, each with batches of batch_size."""
    local_steps: int = 1
    """Steps H of a worker in a round, after which an outer step moves the common weights (DiLoCo)."""
    outer_learning_rate: float = 1.0
    """Learning rate η of the outer step; 1 without momentum takes the workers' mean."""
    outer_momentum: float = 0.0
    """Nesterov's momentum μ of the outer step."""
    schedule: Schedule = Constant()
    """After the warm-up constant, a cosine, a line, constant then linear to 0, a power or schedule-free; or stages."""
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
        for place in KINDS:
            kind_name(place, getattr(self, place))
        check_fields(self)
        averages = _as_tuple(self.averages)
        set_field(self, "averages", tuple(sorted({_decay(each) for each in averages if each != UniformAverage()})))
        if UniformAverage() in averages:
            set_field(self, "uniform_average", True)
        if not isinstance(self.uniform_average, bool):
            raise ValueError(f"uniform_average must be true or false (True or False), got {self.uniform_average!r}")
        table = parametrization(self.parametrization)
        set_field(self, "parametrization", table.name if PARAMETRIZATIONS.get(table.name) == table else table)
        self._check_model()
        self._check_schedule()
        for name, said in ("micro_batch", self.batch_size), ("schedule_steps", self.max_steps):
            if getattr(self, name) == said:
                set_field(self, name, None)

    def _check_model(self) -> None:
        if self.model.sees is not None and self.data.kind not in (None, *self.model.sees):
            names = [kind_name(place, getattr(self, place)) for place in ("model", "data")]
            others = [name for name, kind in KINDS["data"].items() if _may_be(kind, self.model.sees)]
            raise ValueError(
                f"model {names[0]} does not go with data {names[1]}: it takes {' and '.join(self.model.sees)}, "
                f"as data {', '.join(others)}"
            )
        self.model.check_widths(self.width, self.base_width)
        if isinstance(self.optimizer, Muon) and self.trained == "output":
            raise ValueError(
                "optimizer muon moves hidden weights, of which trained = output trains none: take adam, which moves "
                "the output in the same way"
            )
        if self.micro_batch is not None and self.batch_size % self.micro_batch:
            raise ValueError(
                f"micro_batch must divide batch_size = {self.batch_size}, got {self.micro_batch}; "
                f"the next one that does is {_next_divisor(self.batch_size, self.micro_batch)}"
            )

    def _check_schedule(self) -> None:
        if isinstance(self.schedule, ENDING) and self.max_steps > self.duration:
            raise ValueError(
                f"max_steps must be at most schedule_steps = {self.duration} with schedule "
                f"{kind_name('schedule', self.schedule)}, which ends there, got {self.max_steps}; take "
                "constant to train on"
            )
        if isinstance(self.schedule, ScheduleFree):
            default = type(self.optimizer)()
            for name in REPLACED[ScheduleFree]:
                if getattr(self.optimizer, name, None) != getattr(default, name, None):
                    raise ValueError(
                        f"{name} = {getattr(self.optimizer, name):g} of the optimizer does not matter with "
                        "ScheduleFree: leave it out, and give ScheduleFree its interpolation"
                    )
            if self.has_rounds:
                raise ValueError(
                    "schedule schedule_free does not go with workers that take steps of their own: take another "
                    "schedule, or num_workers = local_steps = 1 without an outer step"
                )
        if self.max_steps * self.samples_per_step > MOST_SAMPLES:
            of_all = f", of each of {self.num_workers} workers" if self.num_workers > 1 else ""
            raise ValueError(
                f"max_steps times batch_size must be at most 2^32 samples, got {self.max_steps} and "
                f"{self.batch_size}{of_all}"
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
    def has_rounds(self) -> bool:
        """Whether there is an outer step: every step of one worker is plain training."""
        return any(getattr(self, name) != plain for name, plain in ROUNDS.items())

    @property
    def samples_per_step(self) -> int:
        """K B, of all workers."""
        return self.num_workers * self.batch_size

    @property
    def average_names(self) -> tuple[str, ...]:
        """Names of the iterate and its averages: "iterate", each τ, and "uniform"."""
        return ("iterate", *map(str, self.averages), *(("uniform",) if self.uniform_average else ()))

    @functools.cached_property
    def network(self) -> Network:
        """The network that is trained."""
        return self.model.network(self.data, self.width, self.base_width, self.table)

    @property
    def operations(self) -> float:
        """Floating point operations of one training step."""
        found = self.network.operations * self.samples_per_step
        if isinstance(self.optimizer, Muon):
            hidden = self.network.with_role("hidden")
            found += self.num_workers * sum(self.network.tensors[name].orthogonalization for name in hidden)
        return found

    @functools.cached_property
    def _flat(self) -> dict[str, Any]:
        return flattened(self)

    def value(self, name: str) -> Any:
        """A field by its flat name, "depth" or "learning_rate"; None if a run of these kinds has no such field."""
        found = self._flat.get(checked_name("a field of the config", name, FIELDS))
        return getattr(found, "entry_point", None) or found

    def as_fields(self) -> dict[str, Any]:
        """The fields that this run has, flat, as JSON can hold them; `TrainConfig.from_fields` is the way back.

        Raises:
            ValueError: a model of your own without an entry point, which no file can name.
        """
        if self._flat["model"] == "custom" and self.value("entry_point") is self.model:
            raise ValueError(
                "a run with a Custom model is kept in files by the place where the model is found: "
                "Custom(…, entry_point='module:name')"
            )
        fields = {name: self.value(name) for name in self._flat}
        fields = {name: value for name, value in fields.items() if name not in LATER or value != DEFAULTS[name]}
        return fields | {"parametrization": as_fields(self.parametrization), "averages": list(self.averages)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> "TrainConfig":
        """The config of flat fields, as flags, TOML files and JSON have them.

        Args:
            fields: flat.
            base: flat fields that these change, as a preset's; what belongs to a kind that they replace goes with it.

        Raises:
            ValueError: an unknown name, with the nearest known one; a field that does not matter to a run of these
                kinds, with the kinds that it belongs to; or a value that is none.
        """
        return TrainConfig(**from_flat(overlaid(base or {}, fields), TrainConfig.__dataclass_fields__))

    def with_fields(self, **changes: Any) -> "TrainConfig":
        """The config with some flat fields changed; what belonged to a kind that is replaced goes with it.

        >>> from sgdtheory.training import SGD, TrainConfig
        >>> TrainConfig(optimizer=SGD(momentum=0.9)).with_fields(depth=3, optimizer="adam").optimizer
        Adam(beta1=0.9, beta2=0.99, epsilon=1e-08)
        """
        return self.from_fields(changes, self._flat)

    def imported(self, outside: str | Path | None = None) -> "TrainConfig":
        """The config with its model imported, if that is known by its entry point alone: what training begins with.

        Args:
            outside: folder of runs, or of the run, in which no module is imported.

        Raises:
            ValueError: the model cannot be imported, lies in the folder, or is named by the file of a run alone.
        """
        return replace(self, model=self.model.imported(outside)) if isinstance(self.model, NamedModel) else self

    def naming(self, entry_point: str | None) -> "TrainConfig":
        """The config of a file whose model, if it has this entry point, the caller names as well: it may be trained."""
        named = isinstance(self.model, NamedModel) and self.model.entry_point == entry_point
        return replace(self, model=NamedModel(entry_point)) if named and entry_point else self

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the fields that are not the defaults, twelve hexadecimal digits, the same on every machine.

        A later version with one more field gives the same hash to what it had before.
        """
        return hash_of(self.as_fields())

    @functools.cached_property
    def trajectory(self) -> str:
        """Hash of the fields that determine the iterates: those of runs that share it agree at every step, to rounding.

        The runs may differ in what is observed of the iterates, and for how long: in averages, uniform_average,
        eval_every, target_loss and, where the learning rate does not depend on them, in max_steps and schedule_steps.
        """
        fields = self.as_fields() | {name: DEFAULTS[name] for name in OBSERVED}
        endless = isinstance(self.schedule, Constant | ScheduleFree) and not self.schedule.warmup
        duration = DEFAULTS["max_steps"] if endless else self.duration
        return hash_of(fields | {"max_steps": duration, "schedule_steps": None})


# What one worker without an outer step has.
ROUNDS = {"num_workers": 1, "local_steps": 1, "outer_learning_rate": 1.0, "outer_momentum": 0.0}
OBSERVED = "averages", "uniform_average", "eval_every", "target_loss"


def hash_of(fields: Mapping[str, Any]) -> str:
    """Hash of the flat fields that are not the defaults; of all fields of a file of 0.1.0, its fingerprint there."""
    changed = {name: value for name, value in fields.items() if value != DEFAULTS[name]}
    return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:12]


def _may_be(data: type, kinds: tuple[str, ...]) -> bool:
    """Whether data of this class may be of these kinds; those of files of arrays are known when they are read."""
    return isinstance(data.kind, property) or data.kind in kinds  # pyright: ignore[reportAttributeAccessIssue]


def _as_tuple(values: Any) -> tuple:
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)


def _decay(tau: Any) -> float:
    """τ, of a number or of an ExponentialAverage."""
    if isinstance(tau, ExponentialAverage):
        if tau.decay is None:
            raise ValueError(f"averages must have decay rates τ, got {tau}; write ExponentialAverage(decay)")
        tau = tau.decay
    value = single_number("averages", tau)
    if not 0 <= value < 1:
        raise ValueError(f"averages must be decay rates τ of at least 0 and below 1, got {value:g}")
    return value + 0.0


def _next_divisor(number: int, above: int) -> int:
    return next(divisor for divisor in range(above, number + 1) if number % divisor == 0) if above < number else number


# Every flat field, whichever kind it belongs to, and its default, which a fingerprint leaves out.
FIELDS = all_names(TrainConfig.__dataclass_fields__)
DEFAULTS = OF_KINDS | flattened(TrainConfig())
DEFAULTS |= TrainConfig().as_fields()


class FlatField(NamedTuple):
    """A flat field of a run, as a flag shows it.

    Attributes:
        name: flat.
        default: None too where there is none, or another one for each kind.
        choices: names of the kinds, for a field that chooses one; else empty.
        homes: kind's name → class and its field, for the kinds that it belongs to; "" → the config, for every run's.
    """

    name: str
    default: Any
    choices: tuple[str, ...]
    homes: Mapping[str, tuple[type, str]]


def flat_fields() -> tuple[FlatField, ...]:
    """All flat fields of a run, whichever kind they belong to."""
    found = []
    for name in FIELDS:
        homes = homes_of(name)
        default = getattr(TrainConfig, name) if name == "averages" else DEFAULTS[name]
        if len({defaults_of(kind)[name] for kind, _ in homes.values()}) > 1:
            default = None
        found.append(FlatField(name, default, tuple(KINDS.get(name, ())), homes or {"": (TrainConfig, name)}))
    return tuple(found)
