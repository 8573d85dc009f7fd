"""Linear stochastic methods: SGD, momentum, schedule-free, …, and a user's own (THEORY.md T20, T21).

A method keeps k vectors. In the direction of eigenvalue λ they are a state u ∈ ℝ^k of errors, the gradient g is taken
at `cᵀu`, and a step is `u ← A u − b g`. A, b and c may depend on the learning rate and on the step, not on λ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np


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
    """Those of T steps: `I − A` (T, k, k), b (T, k), c (T, k), float64.

    Or b and c (T, k, r): r gradients with independent noise of one strength, taken at c_rᵀu of vectors that have
    nothing in common, as of the workers' mean and of a contrast between them (THEORY.md T40).
    """

    decay: np.ndarray
    b: np.ndarray
    c: np.ndarray


def column_products(left: Any, right: Any, decay: Any) -> Any:
    """(…, k, k) Σ_r left_r right_rᵀ of (…, k, r), or left rightᵀ of (…, k), beside I − A (…, k, k)."""
    if left.ndim < decay.ndim:
        return left[..., :, None] * right[..., None, :]
    return (left[..., :, None, :] * right[..., None, :, :]).sum(-1)


@dataclass(frozen=True)
class LinearMethod:
    """A method of k vectors: derive from it, and say what a step does.

    Attributes:
        start: (k,) the state at the start in units of w_0 − w*.
        output: (k,) o; the iterate's error is oᵀu.
        step_dependence: "none" if A, b and c depend on the learning rate alone; "smooth" if they are smooth functions
            of the logarithm of the step number; "period" if on it alone, and every `period`-th step differs from the
            others, which are all alike; "any" if none of these (every step is then taken).
        period: H, after how many steps they repeat.
        cleared: places of vectors that are 0 whenever a period begins.
        workers: K that draw batches at the same time.
        delays: shares p_0 … p_τ of gradients that are taken at the iterate of 0 … τ steps ago. Where some are late,
            steps are `w ← w − γ g`, and A, b and c those of the mean path of (w_t … w_{t−τ}).

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
        """Whether gradients come late."""
        return len(self.delays) > 1

    @property
    def longest_delay(self) -> int:
        """τ."""
        return len(self.delays) - 1

    @property
    def random(self) -> bool:
        """Whether the delay is drawn anew in every step."""
        return sum(share > 0 for share in self.delays) > 1

    @property
    def sequential(self) -> bool:
        """Whether one worker takes all steps, alike but for their coefficients, with gradients in time."""
        return self.workers == 1 and self.period == 1 and not self.late

    @property
    def gain(self) -> float | None:
        """How much farther than SGD the weights go in the end with gradient 1, if it is known; at least 1."""
        return None

    @property
    def vectors(self) -> int:
        """k."""
        return len(self.start)

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
