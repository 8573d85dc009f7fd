"""The contracts: what the theory asks of a least-squares problem, in the eigenbasis of the data covariance."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import single_number, true_or_false, whole_number
from sgdtheory.problems.modes import Modes

MOST_SAMPLES = 1e20  # of a finite sample, as of one run


class AbstractProblem(ABC):
    """Data `x ~ N(0, H)`, `y | x ~ N(xᵀw*, σ²)`: derive from it, and say what H and w* are.

    A problem is the eigenvalues `λ_1 ≥ λ_2 ≥ …` of H, the signal `s_i = λ_i ⟨v_i, w_0 − w*⟩²` (the risk that direction
    i holds at the start) and σ². With finitely many directions `directions` and `noise_variance` are all that it needs;
    with infinitely many, or more than can be listed, it has every sum in closed form, and `modes` that stand for all.

    Attributes:
        noise_variance: σ², in units of y².
        approximation_risk: of a model of M features, what the best predictor on them misses: a part of σ².
    """

    noise_variance: float
    approximation_risk: float = 0.0

    @abstractmethod
    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) eigenvalues, from the largest down, and (d,) signal, direction by direction.

        Raises:
            ValueError: there are infinitely many.
        """

    @property
    def dim(self) -> int | None:
        """Number of directions; None for infinitely many."""
        return self.directions()[0].size

    @property
    def largest_eigenvalue(self) -> float:
        """λ_1 = ‖H‖."""
        return float(self.directions()[0][0])

    @property
    def trace(self) -> float:
        """tr H = Σ λ_i."""
        return float(self.directions()[0].sum())

    @property
    def initial_risk(self) -> float:
        """‖w_0 − w*‖²_H = Σ s_i."""
        return float(self.directions()[1].sum())

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Weighted modes for functions of λ that are smooth below `smallest`; by default the spectrum itself.

        A relative error of sums up to `tolerance` may be traded for fewer modes; 0: rounding error.
        """
        eigenvalues, signal = self.directions()
        return Modes(eigenvalues, np.ones_like(eigenvalues), signal)

    def tail_signal(self, count: ArrayLike) -> Any:
        """Σ_{i>count} s_i; elementwise."""
        return tails(self.directions()[1])[np.asarray(count)]

    def truncated(self, dim: int) -> "AbstractProblem":
        """The problem of the first `dim` directions alone."""
        return _Truncated(self, dim)

    def preconditioned(self, power: float = 0.5) -> "AbstractProblem":
        """Return the problem whose plain SGD steps are `w ← w − γ P g`, `P = H^−θ` (T35): `λ_i^{1−θ}`, the same signal.

        In the weights `v = P^{−½} w` they are steps on the features `P^{½} x`, whose covariance is H^{1−θ}; the risk
        that a direction holds does not depend on how it is written. γ is in units of the new `1/λ_1`.

        Args:
            power: θ, from 0, which changes nothing, to 1, which makes all eigenvalues equal.

        Raises:
            ValueError: θ out of range; infinitely many directions, of a problem that does not say what becomes of it.
        """
        return _Preconditioned(self, checked_power(power))

    def with_samples(
        self, num_samples: int, seed: int | None = None, replacement: bool = True
    ) -> "FiniteSampleProblem":
        """Training on N samples of this problem, D of them drawn again and again (THEORY.md T42).

        Passes are D/N. With a seed, of one sample of Gaussian rows; without one, the mean over all samples; for γ
        beyond about 1 − 2.2/√N of the edge, where rare samples are beyond their own, that of typical samples.

        Example:
            >>> import sgdtheory as st
            >>> problem = st.PowerLaw(1.5, 2.0, dim=100)
            >>> setting = dict(batch_size=4, learning_rate=0.1, num_samples=[500, 5000])
            >>> fresh = st.excess_risk(problem, **setting)
            >>> again = st.excess_risk(problem.with_samples(500, seed=0), **setting)  # 1 and 10 passes
            >>> print(fresh.total.round(3), again.total.round(3))
            [0.195 0.036] [0.197 0.067]

        Args:
            num_samples: N ≥ 1.
            seed: of the sample; None for the mean over samples.
            replacement: whether every batch is drawn anew from all rows; False: every pass is a new permutation.

        Returns:
            FiniteSampleProblem, for excess_risk, risk_path, optimal_learning_rate, critical_batch_size,
            max_stable_learning_rate and simulate.

        Raises:
            ValueError: an argument outside its range.
        """
        return FiniteSampleProblem(self, num_samples, seed, replacement)


@dataclass(frozen=True, eq=False)
class FiniteSampleProblem(AbstractProblem):
    """N samples of a problem, on which SGD passes over and over (THEORY.md T42): what `problem.with_samples` makes.

    Its risk is that of the problem the samples are of; its spectrum is that of each sample.

    Attributes:
        problem: what the samples are of.
        num_samples: N.
        seed: of the one sample; None for the mean over all samples.
        replacement: whether batches are drawn with replacement.
        rows: a `GivenSample` of rows that are not drawn.
    """

    problem: AbstractProblem
    num_samples: int
    seed: int | None = None
    replacement: bool = True
    rows: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.problem, FiniteSampleProblem):
            raise ValueError(
                f"with_samples must be asked of the problem that samples are of, got {self.problem!r}; "
                "write problem.problem.with_samples(…)"
            )
        object.__setattr__(self, "num_samples", whole_number("num_samples", self.num_samples, 1))
        if self.num_samples > MOST_SAMPLES:
            raise ValueError(
                f"num_samples must be at most {MOST_SAMPLES:g} of a finite sample, got {self.num_samples:.3g}; "
                "the problem itself is the limit of infinitely many"
            )
        if self.seed is not None:
            object.__setattr__(self, "seed", whole_number("seed", self.seed, 0))
        object.__setattr__(self, "replacement", true_or_false("replacement", self.replacement))

    def drawn(self, seed: int) -> "FiniteSampleProblem":
        """One sample."""
        return replace(self, seed=seed)

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """σ² of the problem."""
        return self.problem.noise_variance

    @property
    def approximation_risk(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of the problem."""
        return self.problem.approximation_risk

    @property
    def dim(self) -> int | None:
        """Of the problem."""
        return self.problem.dim

    @property
    def initial_risk(self) -> float:
        """Of the problem."""
        return self.problem.initial_risk

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """None of its own: the theory of one pass, which asks for them, does not hold.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"problem must not be a finite sample here, got {self.num_samples} samples: excess_risk, risk_path, "
            "optimal_learning_rate, critical_batch_size, max_stable_learning_rate and simulate take it; for one pass "
            "take problem.problem"
        )

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """None, like its directions.

        Raises:
            ValueError: always.
        """
        self.directions()
        raise AssertionError("directions have refused")

    def truncated(self, dim: int) -> "FiniteSampleProblem":
        """Samples of the problem of the first directions alone."""
        return self._of(self.problem.truncated(dim))

    def preconditioned(self, power: float = 0.5) -> "FiniteSampleProblem":
        """Samples of the preconditioned problem."""
        return self._of(self.problem.preconditioned(power))

    def _of(self, problem: AbstractProblem) -> "FiniteSampleProblem":
        if self.rows is not None:
            raise ValueError(f"problem must not be made of given rows, got {self.num_samples}; change the rows instead")
        return replace(self, problem=problem)


@dataclass(frozen=True)
class _Truncated(AbstractProblem):
    """The first directions of a problem."""

    whole: AbstractProblem
    count: int

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """σ² of the whole."""
        return self.whole.noise_variance

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """The first ones."""
        eigenvalues, signal = self.whole.directions()
        return eigenvalues[: self.count], signal[: self.count]


@dataclass(frozen=True)
class _Preconditioned(AbstractProblem):
    """The directions of a problem, each at its own learning rate."""

    plain: AbstractProblem
    power: float

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """σ² of the plain problem."""
        return self.plain.noise_variance

    @property
    def approximation_risk(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of the plain problem."""
        return self.plain.approximation_risk

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """λ^{1−θ}, in the same order, and the signal."""
        eigenvalues, signal = self.plain.directions()
        return preconditioned_spectrum(eigenvalues, self.power), signal


class SplitSpectrum(AbstractProblem):
    """A problem that tells its head from its tail: what bounds of the effective dimension ask beside the rest."""

    @abstractmethod
    def count_above(self, threshold: ArrayLike) -> Any:
        """max{k : λ_k ≥ threshold}, 0 if there is none; elementwise."""

    @abstractmethod
    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Σ_{i≤count} s_i / λ_i^power; elementwise in `count`."""

    @abstractmethod
    def tail_squares(self, count: ArrayLike) -> Any:
        """Σ_{i>count} λ_i²; elementwise."""


def preconditioned_spectrum(eigenvalues: np.ndarray, power: float) -> np.ndarray:
    """`λ^{1−θ}`; 0 stays 0."""
    return np.where(eigenvalues > 0, eigenvalues ** (1 - power), 0.0)


def checked_power(value: object) -> float:
    """θ as one float from 0 to 1."""
    number = single_number("power", value)
    if not 0 <= number <= 1:
        raise ValueError(f"power must be between 0 (no preconditioner) and 1 (all eigenvalues equal), got {number:g}")
    return number


def tails(terms: np.ndarray) -> np.ndarray:
    """[Σ_{i>k} terms_i for k = 0 … d], summed from the small end."""
    return np.concatenate([np.cumsum(terms[::-1])[::-1], [0.0]])


def checked_noise_variance(value: object) -> float:
    """σ² as one finite float that is not negative."""
    number = single_number("noise_variance", value)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError(f"noise_variance must be finite and not negative, got {number}")
    return number
