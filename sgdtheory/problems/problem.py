"""Base classes of least-squares problems: the spectrum, signal and noise in the eigenbasis of the data covariance."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sgdtheory._common.arguments import single_number, true_or_false, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.problems.modes import Modes
from sgdtheory.problems.oscillating_modes import Phases

MOST_SAMPLES = 1e20  # A finite sample is at most this large, as for the number of samples of a run.


class AbstractProblem(ABC):
    """Base class of problems with data `x ~ N(0, H)`, `y | x ~ N(xᵀw*, σ²)`; derived classes define H and w*.

    A problem consists of the eigenvalues `λ_1 ≥ λ_2 ≥ …` of H, the signal `s_i = λ_i ⟨v_i, w_0 − w*⟩²` (the initial
    risk of direction i) and σ². With finitely many directions a derived class only needs `directions` and
    `noise_variance`. With infinitely many, or more than can be listed, it overrides every sum by a closed form, and
    `modes` by a quadrature.

    Attributes:
        noise_variance: σ², in units of y².
        approximation_risk: risk of the best predictor on a model's M features; it is included in σ².
    """

    noise_variance: float
    approximation_risk: float = 0.0

    @abstractmethod
    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (d,) eigenvalues in decreasing order, and (d,) signal of each direction.

        Raises:
            ValueError: if there are infinitely many directions.
        """

    @property
    def dim(self) -> int | None:
        """Number of directions; None for infinitely many."""
        return self.directions()[0].size

    @property
    def largest_eigenvalue(self) -> float:
        """Largest eigenvalue λ_1 = ‖H‖."""
        return float(self.directions()[0][0])

    @property
    def trace(self) -> float:
        """Trace of the covariance, tr H = Σ λ_i."""
        return float(self.directions()[0].sum())

    @property
    def initial_risk(self) -> float:
        """Initial excess risk ‖w_0 − w*‖²_H = Σ s_i."""
        return float(self.directions()[1].sum())

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return weighted modes for functions of λ that are smooth below `smallest`; by default the spectrum itself.

        A larger `tolerance`, the relative error of sums, allows fewer modes; 0 means rounding error.
        """
        eigenvalues, signal = self.directions()
        return Modes(eigenvalues, np.ones_like(eigenvalues), signal)

    def decaying_modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return weighted modes for runs without momentum, whose moments do not oscillate; by default as `modes`."""
        return self.modes(smallest, tolerance)

    def oscillating_modes(self, phases: Phases, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return weighted modes for runs whose moments oscillate in λ; by default as `modes`.

        A class that merges directions in `modes` overrides this as well, or it merges directions that differ in phase.
        """
        return self.modes(smallest, tolerance)

    def tail_signal(self, count: ArrayLike) -> Any:
        """Compute Σ_{i>count} s_i; elementwise."""
        return tails(self.directions()[1])[np.asarray(count)]

    def truncated(self, dim: int) -> "AbstractProblem":
        """Return the problem with only the first `dim` directions."""
        return _Truncated(self, dim)

    def preconditioned(self, power: float = 0.5) -> "AbstractProblem":
        """Return the problem whose plain SGD steps are `w ← w − γ P g`, `P = H^−θ` (T35): `λ_i^{1−θ}`, the same signal.

        In the weights `v = P^{−½} w` they are steps on the features `P^{½} x`, whose covariance is H^{1−θ}. The risk of
        a direction does not depend on the parametrization. γ is in units of the new `1/λ_1`.

        Args:
            power: θ, from 0, which changes nothing, to 1, which makes all eigenvalues equal.

        Raises:
            ValueError: if θ is out of range, or the problem has infinitely many directions and does not override this.
        """
        return _Preconditioned(self, checked_power(power))

    def with_samples(
        self, num_samples: int, seed: int | None = None, replacement: bool = True
    ) -> "FiniteSampleProblem":
        """Return the problem of training on N samples of this one, over D/N epochs (THEORY.md T42).

        With a seed it describes one sample of Gaussian rows, without one the mean over all samples. For γ beyond about
        1 − 2.2/√N of the stability threshold, rare samples are beyond their own threshold; the result is then that of
        typical samples.

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
            seed: seed of the sample; None for the mean over samples.
            replacement: whether every batch is drawn from all rows; False: every epoch is a new permutation.

        Returns:
            FiniteSampleProblem, for excess_risk, risk_path, optimal_learning_rate, critical_batch_size,
            max_stable_learning_rate and simulate.

        Raises:
            ValueError: if an argument is outside its range.
        """
        return FiniteSampleProblem(self, num_samples, seed, replacement)


@dataclass(frozen=True, eq=False)
class FiniteSampleProblem(AbstractProblem):
    """A problem of multi-epoch training on N samples (THEORY.md T42), as `problem.with_samples` makes it.

    Its risk is the risk of the population's problem, while its spectrum is that of the sample.

    Attributes:
        problem: problem of the population from which samples are drawn.
        num_samples: N.
        seed: seed of one sample; None for the mean over all samples.
        replacement: whether batches are drawn with replacement.
        rows: a `GivenSample` with a user's rows; None: Gaussian rows.
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
        """Return the problem of the sample that a seed draws."""
        return replace(self, seed=seed)

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Label noise σ² of the population's problem."""
        return self.problem.noise_variance

    @property
    def approximation_risk(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Approximation risk of the population's problem."""
        return self.problem.approximation_risk

    @property
    def dim(self) -> int | None:
        """Number of directions of the population's problem; None for infinitely many."""
        return self.problem.dim

    @property
    def initial_risk(self) -> float:
        """Initial excess risk of the population's problem."""
        return self.problem.initial_risk

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Refuse, because the theory of one epoch, which uses directions, does not hold for several epochs.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"problem must not be a finite sample here, got {self.num_samples} samples: excess_risk, risk_path, "
            "optimal_learning_rate, critical_batch_size, max_stable_learning_rate and simulate take it; for one pass "
            "take problem.problem"
        )

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Refuse for the same reason as `directions`.

        Raises:
            ValueError: always.
        """
        self.directions()
        raise AssertionError("directions have refused")

    def truncated(self, dim: int) -> "FiniteSampleProblem":
        """Return the problem of samples with only the first `dim` directions."""
        return self._of(self.problem.truncated(dim))

    def preconditioned(self, power: float = 0.5) -> "FiniteSampleProblem":
        """Return the problem of samples of the preconditioned problem."""
        return self._of(self.problem.preconditioned(power))

    def _of(self, problem: AbstractProblem) -> "FiniteSampleProblem":
        if self.rows is not None:
            raise ValueError(f"problem must not be made of given rows, got {self.num_samples}; change the rows instead")
        return replace(self, problem=problem)


@dataclass(frozen=True)
class _Truncated(AbstractProblem):
    """A problem with only the first directions of another one."""

    whole: AbstractProblem
    count: int

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Label noise σ² of the whole problem."""
        return self.whole.noise_variance

    @property
    def approximation_risk(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Approximation risk of the whole problem."""
        return self.whole.approximation_risk

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return eigenvalues and signal of the first directions."""
        eigenvalues, signal = self.whole.directions()
        return eigenvalues[: self.count], signal[: self.count]


@dataclass(frozen=True)
class _Preconditioned(AbstractProblem):
    """A problem whose directions have learning rates of their own, in units of λ^−θ."""

    plain: AbstractProblem
    power: float

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Label noise σ² of the plain problem."""
        return self.plain.noise_variance

    @property
    def approximation_risk(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Approximation risk of the plain problem."""
        return self.plain.approximation_risk

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return λ^{1−θ} in the same order, and the unchanged signal."""
        eigenvalues, signal = self.plain.directions()
        return preconditioned_spectrum(eigenvalues, self.power), signal


class SplitSpectrum(AbstractProblem):
    """Base class of problems whose spectrum can be split into head and tail, for bounds by effective dimension."""

    @abstractmethod
    def count_above(self, threshold: ArrayLike) -> Any:
        """Return max{k : λ_k ≥ threshold}, 0 if there is none; elementwise."""

    @abstractmethod
    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Compute Σ_{i≤count} s_i / λ_i^power; elementwise in `count`."""

    @abstractmethod
    def tail_squares(self, count: ArrayLike) -> Any:
        """Compute Σ_{i>count} λ_i²; elementwise."""


def preconditioned_spectrum(eigenvalues: np.ndarray, power: float) -> np.ndarray:
    """Return the eigenvalues `λ^{1−θ}`; 0 stays 0."""
    return np.where(eigenvalues > 0, eigenvalues ** (1 - power), 0.0)


def checked_power(value: object) -> float:
    """Return θ as one float between 0 and 1."""
    number = single_number("power", value)
    if not 0 <= number <= 1:
        raise ValueError(f"power must be between 0 (no preconditioner) and 1 (all eigenvalues equal), got {number:g}")
    return number


def tails(terms: np.ndarray) -> np.ndarray:
    """Return [Σ_{i>k} terms_i for k = 0 … d], summed from the small end to limit rounding."""
    return np.concatenate([np.cumsum(terms[::-1])[::-1], [0.0]])


def checked_noise_variance(value: object) -> float:
    """Return σ² as one finite float that is not negative."""
    number = single_number("noise_variance", value)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError(f"noise_variance must be finite and not negative, got {number}")
    return number
