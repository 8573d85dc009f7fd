"""Linear stochastic methods: SGD, momentum, schedule-free, …, and a user's own (THEORY.md T20, T21).

A method keeps k vectors. In the direction of eigenvalue λ they are a state u ∈ ℝ^k of errors, the gradient g is taken
at `cᵀu`, and a step is `u ← A u − b g`. A, b and c may depend on the learning rate and on the step, not on λ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from sgdtheory._common.arguments import single_number


class Coefficients(NamedTuple):
    """A, b and c of one step, and I − A where A alone has lost digits of it.

    What decays by 1e-12 a step has an A that differs from 1 by 1e-12, of which float64 keeps four digits: after 1e12
    steps they are all that is left. `decay`, I − A from the small numbers themselves, keeps them; None is I − A.
    """

    A: Sequence[Sequence[Any]]
    b: Sequence[Any]
    c: Sequence[Any]
    decay: Sequence[Sequence[Any]] | None = None


class StepMatrices(NamedTuple):
    """Those of T steps: `I − A` (T, k, k), b (T, k), c (T, k), float64."""

    decay: np.ndarray
    b: np.ndarray
    c: np.ndarray


@dataclass(frozen=True)
class LinearMethod:
    """A method of k vectors: derive from it, and say what a step does.

    Attributes:
        start: (k,) the state at the start in units of w_0 − w*.
        output: (k,) o; the iterate's error is oᵀu.
        step_dependence: "none" if A, b and c depend on the learning rate alone; "smooth" if they are smooth functions
            of the logarithm of the step number; "any" if neither (every step is then taken).

    Example:
        Averaging with a fixed look-ahead: gradients are taken at the iterate plus a share of the last step.

        >>> import sgdtheory as st
        >>> class LookAhead(st.LinearMethod):
        ...     start, output = (1, 0), (1, 0)
        ...     def coefficients(self, rate, step):
        ...         return st.Coefficients(A=[[1, 0], [0, 0]], b=[rate, rate], c=[1, -0.5])
        >>> algorithm = st.Algorithm(LookAhead(), average=st.LastIterate())
        >>> problem = st.PowerLaw(2.0, 3.0)
        >>> risk = st.excess_risk(problem, batch_size=8, learning_rate=0.2, num_samples=8000, algorithm=algorithm)
        >>> print(f"{risk.total:.4f}")
        0.0250
    """

    start: ClassVar[Sequence[float]] = (1.0,)
    output: ClassVar[Sequence[float]] = (1.0,)
    step_dependence: ClassVar[Literal["none", "smooth", "any"]] = "none"

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """A, b, c of the steps with these learning rates γ_t and numbers t: arrays of one shape, or numbers."""
        raise NotImplementedError

    def matrices(self, rate: np.ndarray, step: np.ndarray) -> StepMatrices:
        """The coefficients of T steps as arrays.

        Raises:
            ValueError: A, b and c do not fit together or are not finite.
        """
        k = len(self.start)
        found = self.coefficients(rate, step)
        A, b, c = (_stacked(entries, rate.shape) for entries in found[:3])
        decay = None if found.decay is None else _stacked(found.decay, rate.shape)
        square = A.shape[1:] == (k, k) and (decay is None or decay.shape == A.shape)
        if not square or b.shape[1:] != (k,) or c.shape[1:] != (k,) or len(self.output) != k:
            raise ValueError(
                f"method must have A of {k}×{k} and b, c, start and output of {k} entries (as start has), got "
                f"{A.shape[1:]}, {b.shape[1:]}, {c.shape[1:]}, {k} and {len(self.output)}"
            )
        decay = np.eye(k) - A if decay is None else decay
        if not all(np.isfinite(each).all() for each in (decay, b, c)):
            raise ValueError(f"method must have finite coefficients A, b and c, got {type(self).__name__}'s")
        return StepMatrices(decay, b, c)


@dataclass(frozen=True)
class SGD(LinearMethod):
    """`w ← (1 − γκ) w − γ g`: mini-batch SGD, with decoupled weight decay κ.

    With κ > 0 runs begin at w_0 = 0, so that the signal is that of w* itself.

    >>> import sgdtheory as st
    >>> st.SGD(weight_decay=0.01)
    SGD(weight_decay=0.01)

    Args:
        weight_decay: κ ≥ 0, in units of λ.

    Raises:
        ValueError: κ out of range.
    """

    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        value = single_number("weight_decay", self.weight_decay)
        if not 0 <= value < math.inf:
            raise ValueError(f"weight_decay must be at least 0 and finite, got {value:g}")
        object.__setattr__(self, "weight_decay", value)

    @property
    def start(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(w_0 − w*), and with weight decay w* beside it."""
        return (1.0, -1.0) if self.weight_decay else (1.0,)

    @property
    def output(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """w."""
        return (1.0, 0.0) if self.weight_decay else (1.0,)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """A, b, c."""
        if not self.weight_decay:
            return Coefficients([[1]], [rate], [1])
        shrink = rate * self.weight_decay
        A = [[1 - shrink, -shrink], [0, 1]]
        return Coefficients(A, [rate, 0], [1, 0], decay=[[shrink, shrink], [0, 0]])


@dataclass(frozen=True)
class _Momentum(LinearMethod):
    """What both methods with momentum have."""

    start: ClassVar[Sequence[float]] = (1.0, 0.0)
    output: ClassVar[Sequence[float]] = (1.0, 0.0)

    momentum: float

    def __post_init__(self) -> None:
        value = single_number("momentum", self.momentum)
        if not 0 <= value < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {value:g}")
        object.__setattr__(self, "momentum", value)


@dataclass(frozen=True)
class HeavyBall(_Momentum):
    """`m ← βm + g, w ← w − γm`, m = 0 at the start (Polyak 1964).

    >>> import sgdtheory as st
    >>> st.HeavyBall(0.9)
    HeavyBall(momentum=0.9)

    Args:
        momentum: β, at least 0 and below 1.

    Raises:
        ValueError: β out of range.
    """

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """A, b, c."""
        return Coefficients([[1, -rate * self.momentum], [0, self.momentum]], [rate, -1], [1, 0])


@dataclass(frozen=True)
class Nesterov(_Momentum):
    """`m ← βm + g, w ← w − γ(g + βm)`, m = 0 at the start (Nesterov 1983, as in Sutskever et al. 2013).

    >>> import sgdtheory as st
    >>> st.Nesterov(0.9)
    Nesterov(momentum=0.9)

    Args:
        momentum: β, at least 0 and below 1.

    Raises:
        ValueError: β out of range.
    """

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """A, b, c."""
        beta = self.momentum
        return Coefficients([[1, -rate * beta**2], [0, beta]], [rate * (1 + beta), -1], [1, 0])


@dataclass(frozen=True)
class ScheduleFree(LinearMethod):
    """`y = (1 − β)z + βx, z ← z − γ g(y), x ← (1 − c_t)x + c_t z`, c_t = 1/(t + 1) (Defazio et al. 2024).

    The iterate is x. With β = 0 it is the mean of SGD's w_1 … w_n.

    >>> import sgdtheory as st
    >>> st.ScheduleFree().interpolation
    0.9

    Args:
        interpolation: β between 0 and 1.

    Raises:
        ValueError: β out of range.
    """

    start: ClassVar[Sequence[float]] = (1.0, 1.0)
    output: ClassVar[Sequence[float]] = (0.0, 1.0)
    step_dependence: ClassVar[Literal["none", "smooth", "any"]] = "smooth"

    interpolation: float = 0.9

    def __post_init__(self) -> None:
        value = single_number("interpolation", self.interpolation)
        if not 0 <= value <= 1:
            raise ValueError(f"interpolation must be between 0 and 1, got {value:g}")
        object.__setattr__(self, "interpolation", value)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """A, b, c."""
        share, beta = 1 / (step + 1), self.interpolation
        A = [[1, 0], [share, 1 - share]]
        return Coefficients(A, [rate, share * rate], [1 - beta, beta], decay=[[0, 0], [-share, share]])


@dataclass(frozen=True)
class AcceleratedSGD(LinearMethod):
    """`y = αx + (1 − α)v, x ← y − δ g(y), v ← βy + (1 − β)v − γ g(y)` (Jain et al. 2018; the iterate is x).

    >>> import sgdtheory as st
    >>> st.AcceleratedSGD(coupling=0.9, forgetting=0.1, long_step=5.0)
    AcceleratedSGD(coupling=0.9, forgetting=0.1, long_step=5.0)

    Args:
        coupling: α between 0 and 1.
        forgetting: β between 0 and 1.
        long_step: γ/δ ≥ 0; the learning rate is the short step δ.

    Raises:
        ValueError: an argument out of range.
    """

    start: ClassVar[Sequence[float]] = (1.0, 0.0)

    coupling: float
    forgetting: float
    long_step: float

    def __post_init__(self) -> None:
        for name in ("coupling", "forgetting", "long_step"):
            value, most = single_number(name, getattr(self, name)), math.inf if name == "long_step" else 1
            if not (0 <= value <= most and math.isfinite(value)):
                words = "at least 0 and finite" if name == "long_step" else "between 0 and 1"
                raise ValueError(f"{name} must be {words}, got {value:g}")
            object.__setattr__(self, name, value)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """A, b, c of (y, v − x): the difference decays by α(1 − β), and only gradients move what does not decay.

        Of (x, v) slow directions would be the small difference, and lose their digits.
        """
        rest, falls = 1 - self.coupling, self.coupling * (1 - self.forgetting)
        b = [rate * (self.coupling + rest * self.long_step), rate * (self.long_step - 1)]
        decay = [[0, -rest * falls], [0, rest + self.coupling * self.forgetting]]
        return Coefficients([[1, rest * falls], [0, falls]], b, [1, 0], decay)

    @property
    def output(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """x = y − (1 − α)(v − x)."""
        return 1.0, self.coupling - 1


def _stacked(entries: Any, shape: tuple[int, ...]) -> np.ndarray:
    """(T, k) or (T, k, k) float64 from nested sequences of numbers and (T,) arrays.

    Raises:
        ValueError: rows of different lengths, or entries that are not numbers.
    """
    try:
        rows = [entry if isinstance(entry, list | tuple) else [entry] for entry in entries]
        found = np.empty((*shape, len(rows), len(rows[0])))
        for i, row in enumerate(rows):
            if len(row) != len(rows[0]):
                raise ValueError(f"rows of {len(rows[0])} and {len(row)}")
            for j, entry in enumerate(row):
                found[..., i, j] = entry
        return found if any(isinstance(entry, list | tuple) for entry in entries) else found[..., 0]
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"method must have coefficients A, b and c of numbers in full rows, got {error}") from None
