"""Theorem 7: the excess risk of averaged mini-batch SGD up to constant factors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import checked_problem, positive_number, samples_used, settings_arrays
from sgdtheory.algorithms import DEFAULT, Algorithm
from sgdtheory.problems import AbstractProblem, LeastSquares, SplitSpectrum

HORIZONS = 1e-300, 1e300  # nγ is read as lying between these


def covered(algorithm: Algorithm) -> bool:
    """Whether Theorem 7 and its corollary are about this algorithm: averaged SGD with constant γ and B."""
    return algorithm == DEFAULT


@dataclass(frozen=True)
class RiskBound:
    """The terms of Theorem 7, each an array of the broadcast shape, in units of y².

    Attributes:
        bias_head: `(B/(Dγ))² Σ_{i≤k*} s_i/λ_i²`.
        bias_tail: `Σ_{i>k*} s_i`.
        cross: the term that the theorem drops by `‖w_0 − w*‖²_H ≲ σ²` (THEORY.md T9).
        variance_head: `σ² k*/D`.
        variance_tail: `σ² (Dγ/B)² Σ_{i>k*} λ_i² / D`.
        effective_dimension: `k* = max{k : λ_k ≥ B/(Dγ)}`, the number of directions that SGD has learnt.
        small_learning_rate: whether `γ ≤ c min{B/tr H, 1/‖H‖}`, with the constant given to `theorem7`.
        small_signal: whether `‖w_0 − w*‖²_H ≤ c σ²`, likewise.
    """

    bias_head: np.ndarray | float
    bias_tail: np.ndarray | float
    cross: np.ndarray | float
    variance_head: np.ndarray | float
    variance_tail: np.ndarray | float
    effective_dimension: np.ndarray | float
    small_learning_rate: np.ndarray | bool
    small_signal: np.ndarray | bool

    @property
    def applies(self) -> np.ndarray | bool:
        """Whether the theorem's two conditions hold.

        After a single step the lower bound fails all the same: w̄ = w_0 has no variance.
        """
        return np.logical_and(self.small_learning_rate, self.small_signal)

    @property
    def bias(self) -> np.ndarray | float:
        """bias_head + bias_tail."""
        return self.bias_head + self.bias_tail

    @property
    def variance(self) -> np.ndarray | float:
        """variance_head + variance_tail."""
        return self.variance_head + self.variance_tail

    @property
    def total(self) -> np.ndarray | float:
        """The bound as stated: bias + variance (THEORY.md T8). The full form adds `cross`."""
        return self.bias + self.variance


def theorem7(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    learning_rate_constant: float = 0.5,
    signal_constant: float = 1.0,
) -> RiskBound:
    """Theorem 7 of arXiv 2410.21676 (Theorem 5 in its main text), with every constant factor set to 1.

        Δ ≍ (B/(Dγ))² Σ_{i≤k*} s_i/λ_i² + Σ_{i>k*} s_i + σ² [k* + (Dγ/B)² Σ_{i>k*} λ_i²]/D

    and, before `‖w_0 − w*‖²_H ≲ σ²` is used, with n = D/B,

        cross = (1/B) (Σ_{i≤k*} s_i/λ_i + nγ Σ_{i>k*} s_i)/(nγ) · [k* + (nγ)² Σ_{i>k*} λ_i²]/n.

    The theorem speaks of n whole steps. Where B does not divide D, SGD takes ⌊D/B⌋ of them and the last, incomplete
    batch is dropped, here as in `excess_risk`: D stands for the B⌊D/B⌋ samples that are used.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.PowerLaw(2.0, 3.0, noise_variance=2.0)
        >>> bound = st.theorem7(problem, batch_size=32, learning_rate=0.5, num_samples=1e6)
        >>> print(f"{bound.total:.2e}, k* = {bound.effective_dimension:.0f}, applies: {bound.applies}")
        3.96e-04, k* = 125, applies: True

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: B, whole numbers ≥ 1; scalar or array.
        learning_rate: γ > 0, in units of 1/λ; scalar or array.
        num_samples: D ≥ B; scalar or array. The three broadcast like NumPy arrays.
        learning_rate_constant: c in the condition `γ ≤ c min{B/tr H, 1/‖H‖}`. Below 2/3 the condition implies
            mean-square stability for every spectrum and batch size; at 1 it does not (B = 1, one direction).
        signal_constant: c in the condition `‖w_0 − w*‖²_H ≤ c σ²`.

    Returns:
        RiskBound.

    Raises:
        ValueError: an argument outside its range.
    """
    checked_problem(problem)
    learning_rate_constant = positive_number("learning_rate_constant", learning_rate_constant)
    signal_constant = positive_number("signal_constant", signal_constant)
    batch, rate, samples = settings_arrays(batch_size, learning_rate, num_samples)
    samples = samples_used(batch, samples)
    split = _split(problem)
    with np.errstate(over="ignore", under="ignore"):
        horizon = np.clip(samples / batch * rate, *HORIZONS)  # nγ, the time that gradient flow would have run
        count = split.count_above(np.clip(batch / (samples * rate), 1 / HORIZONS[1], 1 / HORIZONS[0]))
        tail_signal = split.tail_signal(count)
        tail_squares = split.tail_squares(count)
        tail_dimension = (horizon * np.sqrt(tail_squares)) ** 2
        head_bias = (np.sqrt(split.head_signal(count, 2)) / horizon) ** 2
        signal = split.head_signal(count, 1) / horizon + tail_signal
    limit = np.minimum(batch / max(problem.trace, 1e-300), 1 / max(problem.largest_eigenvalue, 1e-300))
    small_signal = problem.initial_risk <= signal_constant * problem.noise_variance
    return RiskBound(
        bias_head=head_bias,
        bias_tail=tail_signal,
        cross=signal * (count + tail_dimension) / samples,
        variance_head=problem.noise_variance * count / samples,
        variance_tail=problem.noise_variance * tail_dimension / samples,
        effective_dimension=count,
        small_learning_rate=(rate <= learning_rate_constant * limit)[()],
        small_signal=np.full(rate.shape, small_signal)[()],
    )


def _split(problem: AbstractProblem) -> SplitSpectrum:
    """The problem itself, or what its directions make of it."""
    if isinstance(problem, SplitSpectrum):
        return problem
    return LeastSquares(*problem.directions(), problem.noise_variance)
