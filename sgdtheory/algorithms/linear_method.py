"""Linear stochastic methods: SGD, momentum, schedule-free, …, and a user's own (THEORY.md T20, T21).

A method keeps k vectors. In a direction of eigenvalue λ their errors form a state u ∈ ℝ^k, the gradient g is taken at
`cᵀu`, and a step is `u ← A u − b g`. A, b and c may depend on the learning rate and on the step, but not on λ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np


class Coefficients(NamedTuple):
    """The coefficients A, b and c of one step, and `decay`, I − A without the rounding of A.

    An entry of A that differs from 1 by 1e-12 keeps only four digits of the difference in float64, and after 1e12 steps
    the result depends on them. `decay` is computed from the small numbers themselves; None stands for I − A.
    """

    A: Sequence[Sequence[Any]]
    b: Sequence[Any]
    c: Sequence[Any]
    decay: Sequence[Sequence[Any]] | None = None


class StepMatrices(NamedTuple):
    """The coefficients of T steps: `I − A` (T, k, k), b (T, k), c (T, k), float64.

    b and c may also be (T, k, r), for r gradients with independent noise of equal variance, taken at c_rᵀu for disjoint
    sets of vectors, such as the workers' mean and a contrast between workers (THEORY.md T40).
    """

    decay: np.ndarray
    b: np.ndarray
    c: np.ndarray


def column_products(left: Any, right: Any, decay: Any) -> Any:
    """Compute Σ_r left_r right_rᵀ (…, k, k) of arrays (…, k, r), or left rightᵀ of arrays (…, k).

    The number of axes of `decay`, I − A (…, k, k), distinguishes the two cases.
    """
    if left.ndim < decay.ndim:
        return left[..., :, None] * right[..., None, :]
    return (left[..., :, None, :] * right[..., None, :, :]).sum(-1)


@dataclass(frozen=True)
class LinearMethod:
    """Base class of linear methods with k vectors; a derived class gives the `coefficients` of a step.

    Attributes:
        start: (k,) initial state in units of w_0 − w*.
        output: (k,) o; the iterate's error is oᵀu.
        step_dependence: "none" if A, b and c depend only on the learning rate; "smooth" if they are also smooth
            functions of the logarithm of the step number; "period" if every `period`-th step differs from the others,
            which are all alike; "any" otherwise, in which case every step is computed.
        period: number of steps H after which the coefficients repeat.
        cleared: indices of vectors that are 0 whenever a period begins.
        workers: number K of workers that draw batches at the same time.
        delays: probabilities p_0 … p_τ that a gradient is taken at the iterate of 0 … τ steps ago. With delays, steps
            are `w ← w − γ g`, and A, b and c are those of the mean path of (w_t … w_{t−τ}).

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
    step_dependence: ClassVar[Literal["none", "smooth", "period", "any"]] = "none"
    period: ClassVar[int] = 1
    cleared: ClassVar[Sequence[int]] = ()
    workers: ClassVar[int] = 1
    delays: ClassVar[Sequence[float]] = (1.0,)

    @property
    def late(self) -> bool:
        """Return whether gradients are delayed."""
        return len(self.delays) > 1

    @property
    def longest_delay(self) -> int:
        """Longest delay τ in steps."""
        return len(self.delays) - 1

    @property
    def random(self) -> bool:
        """Return whether the delay is random."""
        return sum(share > 0 for share in self.delays) > 1

    @property
    def sequential(self) -> bool:
        """Return whether there is one worker, no rounds and no delay."""
        return self.workers == 1 and self.period == 1 and not self.late

    @property
    def gain(self) -> float | None:
        """Final displacement of the weights by one unit gradient relative to SGD's, at least 1; None if unknown."""
        return None

    @property
    def vectors(self) -> int:
        """Number k of vectors in the state."""
        return len(self.start)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """Return A, b, c of steps with learning rates γ_t and numbers t, which are numbers or arrays of one shape."""
        raise NotImplementedError

    def matrices(self, rate: np.ndarray, step: np.ndarray) -> StepMatrices:
        """Return the coefficients of T steps as arrays.

        Raises:
            ValueError: if A, b and c have incompatible shapes or are not finite.
        """
        k = len(self.start)
        given = self.coefficients(rate, step)
        A, b, c = (_stacked(entries, rate.shape) for entries in given[:3])
        decay = None if given.decay is None else _stacked(given.decay, rate.shape)
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


def _stacked(entries: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Stack nested sequences of numbers and (T,) arrays to float64 (T, k) or (T, k, k).

    Raises:
        ValueError: if rows have different lengths, or entries are not numbers.
    """
    try:
        rows = [entry if isinstance(entry, list | tuple) else [entry] for entry in entries]
        stacked = np.empty((*shape, len(rows), len(rows[0])))
        for i, row in enumerate(rows):
            if len(row) != len(rows[0]):
                raise ValueError(f"rows of {len(rows[0])} and {len(row)}")
            for j, entry in enumerate(row):
                stacked[..., i, j] = entry
        return stacked if any(isinstance(entry, list | tuple) for entry in entries) else stacked[..., 0]
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"method must have coefficients A, b and c of numbers in full rows, got {error}") from None
