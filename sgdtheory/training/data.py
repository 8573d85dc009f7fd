"""The data of a run: settings of the teacher, digits, the standard library's text, arrays, and files of tokens."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from sgdtheory.training.fields import check_fields, set_field

BYTES = 256
Kind = Literal["vectors", "images", "tokens"]


class Samples(NamedTuple):
    """The form of one sample: its inputs, the outputs that are wanted, and the loss.

    Attributes:
        kind: "vectors", "images" (height, width, channels), or "tokens", where each predicts the next one.
        shape: shape of the inputs of one sample.
        num_outputs: number of fitted values, or of classes.
        loss: name of a function of `sgdtheory.training.losses`.
        unit: unit of the loss.
    """

    kind: Kind
    shape: tuple[int, ...]
    num_outputs: int
    loss: Literal["squared_error", "cross_entropy"]
    unit: str


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """Power-law regression on a nonlinear teacher; the loss is the squared error (f(x) − y)².

    With `num_samples` the data are the first N samples of the data_seed, with the noise of their labels. The first
    epoch is then the same as training on fresh samples, and every later epoch has a new random order.

    >>> from sgdtheory.training import Teacher
    >>> Teacher(input_dim=32, noise_variance=1.0).capacity
    1.5

    Raises:
        ValueError: if a field is out of range.
    """

    input_dim: int = 64
    """Number of inputs."""
    capacity: float = 1.5
    """Exponent a of the inputs' variances, λ_i ∝ i^−a, scaled to E‖x‖² = input_dim."""
    source: float = 2.0
    """Exponent b of the teacher's dependence on input i, ∝ i^−b in variance."""
    noise_variance: float = 0.1
    """Variance σ² of the label noise, in units of the teacher's variance."""
    task_seed: int = 0
    """Seed of the teacher and of the hold-out."""
    num_samples: int | None = None
    """Number N of different samples; later epochs repeat them, each in a new order. None: always fresh samples."""

    kind: ClassVar[Kind] = "vectors"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)

    @property
    def samples(self) -> Samples:
        """Form of a sample: a vector and one number."""
        return Samples(self.kind, (self.input_dim,), 1, "squared_error", "units of Var f*")


@dataclass(frozen=True)
class Digits:
    """The 1,797 handwritten digits of 8 × 8 pixels from scikit-learn; the loss is the cross-entropy in nats.

    A fifth of them is held out. The others are seen in a new order in each epoch.

    >>> from sgdtheory.training import ConvNet, Digits, TrainConfig
    >>> TrainConfig(model=ConvNet(), data=Digits()).data.samples.num_outputs
    10
    """

    kind: ClassVar[Kind] = "images"
    samples: ClassVar[Samples] = Samples("images", (8, 8, 1), 10, "cross_entropy", "nats")


@dataclass(frozen=True, kw_only=True)
class StandardLibrary:
    """Bytes of Python's standard library; the loss is the cross-entropy in nats a byte.

    >>> from sgdtheory.training import StandardLibrary
    >>> StandardLibrary(context=32).vocabulary
    256

    Raises:
        ValueError: if a field is out of range.
    """

    context: int = 64
    """Length of a sequence in bytes."""

    kind: ClassVar[Kind] = "tokens"
    vocabulary: ClassVar[int] = BYTES

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)

    @property
    def samples(self) -> Samples:
        """Form of a sample: a sequence of bytes."""
        return Samples(self.kind, (self.context,), self.vocabulary, "cross_entropy", "nats a token")


@dataclass(frozen=True)
class Tokens:
    """A file of tokens: raw uint16 (.bin; uint32 if it ends in .u32.bin), or a one-dimensional .npy of either.

    The flat name of `path` is `tokens`.

    >>> from sgdtheory.training import Tokens
    >>> Tokens("c4.bin", vocabulary=50280, context=512).path
    'c4.bin'

    Raises:
        ValueError: if a field is out of range, or the path is not a path.
    """

    path: str
    """Path of the file."""
    vocabulary: int = BYTES
    """Number of different tokens."""
    context: int = 64
    """Length of a sequence in tokens."""

    kind: ClassVar[Kind] = "tokens"

    def __post_init__(self) -> None:
        """Check every field."""
        if self.path is None:
            raise ValueError("tokens must be the path of a token file (.bin or .npy) with data tokens, got None")
        if not isinstance(self.path, str | os.PathLike):
            raise ValueError(f"tokens must be the path of a token file, got {self.path!r}; write it in quotes")
        set_field(self, "path", os.fspath(self.path))
        check_fields(self)

    @property
    def samples(self) -> Samples:
        """Form of a sample: a sequence of tokens."""
        return Samples(self.kind, (self.context,), self.vocabulary, "cross_entropy", "nats a token")


@dataclass(frozen=True)
class Arrays:
    """A user's samples: .npy files of features and of targets, whose rows are seen in a new order in each epoch.

    Whole-number targets are classes 0, 1, …, and the loss is the cross-entropy in nats. Other targets are fitted with
    the mean squared error. A fifth of the rows is held out.

    >>> from sgdtheory.training import Arrays
    >>> Arrays("X.npy", "y.npy").targets
    'y.npy'

    Raises:
        ValueError: if a path is not a path. The files are only read when they are needed.
    """

    features: str
    """File of features (N, d), or of images (N, height, width, channels)."""
    targets: str
    """File of targets (N,) or (N, K), or of classes (N,) as whole numbers."""

    def __post_init__(self) -> None:
        """Check every field."""
        for name in "features", "targets":
            path = getattr(self, name)
            if not isinstance(path, str | os.PathLike):
                raise ValueError(f"{name} must be the path of a .npy file with data arrays, got {path!r}")
            set_field(self, name, os.fspath(path))

    @property
    def kind(self) -> Kind | None:
        """Kind of the features, vectors or images; None while a file does not exist."""
        return (
            self.samples.kind
            if all(Path(path).expanduser().exists() for path in (self.features, self.targets))
            else None
        )

    @property
    def samples(self) -> Samples:
        """Form of a sample, as the files determine it.

        Raises:
            ValueError: if the files cannot be read, or do not have the shapes of features and targets.
        """
        from sgdtheory.training.array_files import array_files, number_of_classes  # NumPy is slow to import

        features, targets = array_files(self.features, self.targets)
        kind: Kind = "vectors" if features.ndim == 2 else "images"
        if classes := number_of_classes(self.targets, targets):
            return Samples(kind, features.shape[1:], classes, "cross_entropy", "nats")
        outputs = targets.shape[1] if targets.ndim == 2 else 1
        return Samples(kind, features.shape[1:], outputs, "squared_error", "mean squared error")


Data = Teacher | Digits | Arrays | StandardLibrary | Tokens
