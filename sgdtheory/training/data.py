"""The data of a run: what only a teacher, the standard library's text, or a file of tokens can be told."""

import os
from dataclasses import dataclass
from typing import ClassVar

from sgdtheory.training.fields import check_fields, set_field

BYTES = 256


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """Power-law regression on a nonlinear teacher; the loss is the squared error (f(x) − y)².

    >>> from sgdtheory.training import Teacher
    >>> Teacher(input_dim=32, noise_variance=1.0).capacity
    1.5

    Raises:
        ValueError: a field that is out of range.
    """

    input_dim: int = 64
    """Number of inputs."""
    capacity: float = 1.5
    """Exponent a of the inputs' variances, λ_i ∝ i^−a, scaled to E‖x‖² = input_dim."""
    source: float = 2.0
    """Exponent b of the teacher's dependence on them, ∝ i^−b in variance."""
    noise_variance: float = 0.1
    """Variance σ² of the label noise, in units of the teacher's variance."""
    task_seed: int = 0
    """Seed of the teacher and of the hold-out."""

    gives: ClassVar[str] = "vectors"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class StandardLibrary:
    """Bytes of Python's standard library; the loss is the cross-entropy in nats a byte.

    >>> from sgdtheory.training import StandardLibrary
    >>> StandardLibrary(context=32).vocabulary
    256

    Raises:
        ValueError: a field that is out of range.
    """

    context: int = 64
    """Bytes that the transformer sees."""

    gives: ClassVar[str] = "tokens"
    vocabulary: ClassVar[int] = BYTES

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True)
class Tokens:
    """A file of tokens: raw uint16 (.bin; uint32 if it ends in .u32.bin), or a one-dimensional .npy of either.

    The flat name of `path` is `tokens`.

    >>> from sgdtheory.training import Tokens
    >>> Tokens("c4.bin", vocabulary=50280, context=512).path
    'c4.bin'

    Raises:
        ValueError: a field that is out of range, or a path that is none.
    """

    path: str
    """The file."""
    vocabulary: int = BYTES
    """Number of different tokens."""
    context: int = 64
    """Tokens that the transformer sees."""

    gives: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        """Check every field."""
        if self.path is None:
            raise ValueError("tokens must be the path of a token file (.bin or .npy) with data tokens, got None")
        if not isinstance(self.path, str | os.PathLike):
            raise ValueError(f"tokens must be the path of a token file, got {self.path!r}; write it in quotes")
        set_field(self, "path", os.fspath(self.path))
        check_fields(self)


Data = Teacher | StandardLibrary | Tokens
