"""The learning rate's course over a run: warm-up, and what comes after it."""

from dataclasses import dataclass

from sgdtheory.training.fields import check_fields


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What every schedule has.

    Raises:
        ValueError: a fraction that is out of range.
    """

    warmup: float = 0.0
    """Fraction of schedule_steps in which the learning rate grows linearly from 0."""

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """Constant after the warm-up.

    >>> from sgdtheory.training import Constant
    >>> Constant(warmup=0.1).warmup
    0.1
    """


@dataclass(frozen=True, kw_only=True)
class Cosine(Schedule):
    """Half a cosine from the end of the warm-up to 0 at schedule_steps.

    >>> from sgdtheory.training import Cosine
    >>> Cosine(warmup=0.25).warmup
    0.25
    """


@dataclass(frozen=True, kw_only=True)
class WSD(Schedule):
    """Warm-up, stable, decay: constant, and in the last part linearly to 0 at schedule_steps.

    >>> from sgdtheory.training import WSD
    >>> WSD(decay=0.1).decay
    0.1
    """

    decay: float = 0.2
    """Last fraction of schedule_steps, in which the learning rate decays."""

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        if self.warmup + self.decay > 1:
            raise ValueError(
                f"warmup and decay must add up to at most 1, got {self.warmup:g} and {self.decay:g}: lower one of them"
            )


@dataclass(frozen=True, kw_only=True)
class ScheduleFree(Schedule):
    """Schedule-free (Defazio et al. 2024): gradients at an interpolation between the iterate and a running average.

    It takes the place of Adam's β₁ and of SGD's momentum; its flat name is `beta1`.

    >>> from sgdtheory.training import ScheduleFree
    >>> ScheduleFree(interpolation=0.95).interpolation
    0.95
    """

    interpolation: float = 0.9
    """Weight β of the running average where gradients are taken."""


ENDING = Cosine, WSD  # whose learning rate is 0 at schedule_steps
