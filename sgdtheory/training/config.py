"""The config of a training run: one frozen dataclass, which JSON and flags spell as flat fields."""

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
    later_defaults,
    overlaid,
)
from sgdtheory.training.models import MLP, Model
from sgdtheory.training.named_model import NamedModel
from sgdtheory.training.network import Network
from sgdtheory.training.optimizers import Adam, Muon, Optimizer
from sgdtheory.training.parametrization import PARAMETRIZATIONS, Parametrization, as_fields, parametrization
from sgdtheory.training.schedules import ENDING, Constant, Schedule, ScheduleFree

MOST_SAMPLES = 2**32  # The stream numbers its samples in 32 bits.
CHECKPOINT_SECONDS = 30.0  # Checkpoints are this far apart by default: a killed run loses about this much work.
OF_KINDS = default_values()  # Only some kinds have fields with these defaults.


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run: model, data, optimization, averaging, evaluation.

    Settings that every run has are fields of the config. Settings that only some runs have are fields of its model,
    data, optimizer or schedule. Two configs are equal if and only if they are the same run: a base_num_heads,
    micro_batch or schedule_steps that equals its default becomes None.

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
        ValueError: if a field is invalid; the message is one sentence with the field, its value and the remedy.
    """

    model: Model = MLP()
    """Network: an MLP, residual or not; convolutional, for images; transformer or recurrent, for text; or your own."""
    width: int = 128
    """Width n of the hidden layers, d_model of a transformer, channels of a convolutional network."""
    parametrization: str | Parametrization = "mup"
    """Parametrization: standard, mup or ntk (or, in Python, a Parametrization)."""
    base_width: int = 64
    """Width at which all parametrizations coincide."""

    data: Data = Teacher()
    """Data: regression on a nonlinear teacher, handwritten digits, Python's text, or your own arrays or tokens."""
    holdout_size: int = 1024
    """Samples (sequences, on text) of the hold-out; of digits and arrays no more than there are."""
    data_seed: int = 0
    """Seed of the order of the training data."""

    trained: Literal["all", "output"] = "all"
    """Weights that are trained: all, or only those of the output layer, on frozen random features."""
    optimizer: Optimizer = Adam()
    """Optimizer: SGD with momentum, Adam or AdamW, signSGD, or Muon (Adam for non-hidden weights)."""
    learning_rate: float = 0.003
    """Learning rate γ at the base width."""
    batch_size: int = 64
    """Samples (sequences, on text) per step."""
    micro_batch: int | None = None
    """Samples per gradient; gradients are accumulated and measure the noise scale. None: the whole batch."""
    clip_norm: float | None = None
    """Largest norm of the gradient, in the metric of the parametrization's SGD rates; None: no clipping."""
    num_workers: int = 1
    """Number K of workers that take local steps from common weights, each with batches of batch_size."""
    local_steps: int = 1
    """Local steps H per round, after which an outer step moves the common weights (DiLoCo)."""
    outer_learning_rate: float = 1.0
    """Learning rate η of the outer step; 1 without momentum takes the mean of the workers."""
    outer_momentum: float = 0.0
    """Nesterov momentum μ of the outer step."""
    schedule: Schedule = Constant()
    """Schedule after the warm-up: constant, cosine, linear, constant then linear to 0, power, schedule-free, stages."""
    max_steps: int = 1000
    """Steps after which the run ends."""
    schedule_steps: int | None = None
    """Duration in steps that warm-up, decay and evaluations refer to; None: max_steps."""

    averages: tuple[float, ...] = (0.9, 0.99)
    """Decay rates τ of exponentially weighted averages of the iterates, all tracked in the same run."""
    uniform_average: bool = False
    """Track the uniform average of all iterates as well."""
    target_loss: float | None = None
    """Hold-out loss at which the run ends, once the iterate or one of its averages reaches it."""
    eval_every: int = 100
    """Evaluate at multiples of this step, at powers of two, and every 5% of schedule_steps from 70% on."""
    seed: int = 0
    """Seed of the initial weights."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the layers; weights, sums of gradients and losses are always float32."""

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
        # Equal runs must be equal configs, with one fingerprint: an explicit default is the same run as None.
        for name, default in ("micro_batch", self.batch_size), ("schedule_steps", self.max_steps):
            if getattr(self, name) == default:
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
        """The parametrization's table of exponents."""
        return parametrization(self.parametrization)

    @property
    def width_ratio(self) -> float:
        """The width ratio r = width / base width."""
        return self.width / self.base_width

    @property
    def duration(self) -> int:
        """Duration of the schedule in steps: schedule_steps, or max_steps where that is None."""
        return self.schedule_steps or self.max_steps

    @property
    def accumulated(self) -> int:
        """Number of micro-batches in a step."""
        return self.batch_size // (self.micro_batch or self.batch_size)

    @property
    def has_rounds(self) -> bool:
        """Return whether the run has outer steps; one worker with one local step and none of them trains as usual."""
        return any(getattr(self, name) != plain for name, plain in ROUNDS.items())

    @property
    def samples_per_step(self) -> int:
        """Samples K B that all workers together see in a step."""
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
        operations = self.network.operations * self.samples_per_step
        if isinstance(self.optimizer, Muon):
            hidden = self.network.with_role("hidden")
            operations += self.num_workers * sum(self.network.tensors[name].orthogonalization for name in hidden)
        return operations

    @functools.cached_property
    def _flat(self) -> dict[str, Any]:
        return flattened(self)

    def value(self, name: str) -> Any:
        """Return a field by its flat name, such as "depth"; None if a run of these kinds has no such field."""
        value = self._flat.get(checked_name("a field of the config", name, FIELDS))
        return getattr(value, "entry_point", None) or value

    def as_fields(self) -> dict[str, Any]:
        """Return the flat fields that this run has, ready for JSON; `TrainConfig.from_fields` is the inverse.

        Raises:
            ValueError: if the model is a custom one without an entry point, which no file can name.
        """
        if self._flat["model"] == "custom" and self.value("entry_point") is self.model:
            raise ValueError(
                "a run with a Custom model is kept in files by the place where the model is found: "
                "Custom(…, entry_point='module:name')"
            )
        fields = {name: self.value(name) for name in self._flat}
        defaults = {name: DEFAULTS[name] for name in LATER} | later_defaults(fields)
        fields = {name: value for name, value in fields.items() if name not in defaults or value != defaults[name]}
        return fields | {"parametrization": as_fields(self.parametrization), "averages": list(self.averages)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> "TrainConfig":
        """Make a config from flat fields, as flags, TOML files and JSON spell them.

        Args:
            fields: values by flat name.
            base: flat fields that these change, such as a preset's. Where `fields` replace a kind, the old kind's
                fields are dropped.

        Raises:
            ValueError: if a name is unknown (the message suggests the nearest one), a field does not matter to a run
                of these kinds (the message lists the kinds that it belongs to), or a value is invalid.
        """
        return TrainConfig(**from_flat(overlaid(base or {}, fields), TrainConfig.__dataclass_fields__))

    def with_fields(self, **changes: Any) -> "TrainConfig":
        """Return a copy with some flat fields changed; fields of a kind that is replaced are dropped.

        >>> from sgdtheory.training import SGD, TrainConfig
        >>> TrainConfig(optimizer=SGD(momentum=0.9)).with_fields(depth=3, optimizer="adam").optimizer
        Adam(beta1=0.9, beta2=0.99, epsilon=1e-08, weight_decay=0.0)
        """
        return self.from_fields(changes, self._flat)

    def imported(self, outside: str | Path | None = None) -> "TrainConfig":
        """Return the config with its model imported, if only its entry point is known so far.

        Args:
            outside: folder of runs, or of the run, from which no module is imported.

        Raises:
            ValueError: if the model cannot be imported, lies in the folder, or is named only by the file of a run.
        """
        return replace(self, model=self.model.imported(outside)) if isinstance(self.model, NamedModel) else self

    def naming(self, entry_point: str | None) -> "TrainConfig":
        """Return the config with its model marked as named by the caller, if this is its entry point: it may run."""
        named = isinstance(self.model, NamedModel) and self.model.entry_point == entry_point
        return replace(self, model=NamedModel(entry_point)) if named and entry_point else self

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the fields that differ from the defaults: twelve hexadecimal digits, the same on every machine.

        A later version with more fields gives the same hash to a run that leaves the new fields at their defaults.
        """
        return hash_of(self.as_fields())

    @functools.cached_property
    def trajectory(self) -> str:
        """Hash of the fields that determine the iterates: runs that share it have the same iterates, up to rounding.

        Such runs may differ in averages, uniform_average, eval_every and target_loss and, where the learning rate does
        not depend on them, in max_steps and schedule_steps.
        """
        fields = self.as_fields() | {name: DEFAULTS[name] for name in OBSERVED}
        endless = isinstance(self.schedule, Constant | ScheduleFree) and not self.schedule.warmup
        duration = DEFAULTS["max_steps"] if endless else self.duration
        return hash_of(fields | {"max_steps": duration, "schedule_steps": None})


# One worker without an outer step has these values.
ROUNDS = {"num_workers": 1, "local_steps": 1, "outer_learning_rate": 1.0, "outer_momentum": 0.0}
OBSERVED = "averages", "uniform_average", "eval_every", "target_loss"


def hash_of(fields: Mapping[str, Any]) -> str:
    """Return the hash of the flat fields that differ from the defaults; for a file of 0.1.0, its fingerprint there."""
    defaults = DEFAULTS | later_defaults(fields)
    changed = {name: value for name, value in fields.items() if value != defaults[name]}
    return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:12]


def _may_be(data: type, kinds: tuple[str, ...]) -> bool:
    """Return whether data of this class may be of these kinds; arrays' kind is only known once the files are read."""
    return isinstance(data.kind, property) or data.kind in kinds  # pyright: ignore[reportAttributeAccessIssue]


def _as_tuple(values: Any) -> tuple:
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)


def _decay(tau: Any) -> float:
    """Return τ as a checked number, from a number or an ExponentialAverage."""
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


FIELDS = all_names(TrainConfig.__dataclass_fields__)  # These are all flat fields, whichever kind they belong to.
DEFAULTS = OF_KINDS | flattened(TrainConfig())  # The fingerprint omits these defaults.
DEFAULTS |= TrainConfig().as_fields()


class FlatField(NamedTuple):
    """A flat field of a run, as a flag shows it.

    Attributes:
        name: flat name.
        default: default value; None also where there is none, or where it differs between kinds.
        choices: names of the kinds, for a field that chooses one; else empty.
        homes: class and field by the names of the kinds that it belongs to; a field of every run has the key "".
    """

    name: str
    default: Any
    choices: tuple[str, ...]
    homes: Mapping[str, tuple[type, str]]


def flat_fields() -> tuple[FlatField, ...]:
    """Return all flat fields of a run, whichever kind they belong to."""
    fields = []
    for name in FIELDS:
        homes = homes_of(name)
        default = getattr(TrainConfig, name) if name == "averages" else DEFAULTS[name]
        if len({defaults_of(kind)[name] for kind, _ in homes.values()}) > 1:
            default = None
        fields.append(FlatField(name, default, tuple(KINDS.get(name, ())), homes or {"": (TrainConfig, name)}))
    return tuple(fields)
