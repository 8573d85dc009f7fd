"""Theorem 7: the excess risk of averaged mini-batch SGD up to constant factors."""

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, overload

import numpy as np

from sgdtheory._common.arguments import Values, positive_number, samples_used, settings_arrays
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import DEFAULT, Algorithm
from sgdtheory.bounds.published import Asked, PublishedBound, Statement, split
from sgdtheory.problems import AbstractProblem

HORIZONS = 1e-300, 1e300  # nγ is clipped to these ends, so that it and 1/(nγ) are positive and finite.
TINY = 1e-300


def covered(algorithm: Algorithm) -> bool:
    """Return whether Theorem 7 and its corollary are about this algorithm: averaged SGD with constant γ and B."""
    return algorithm == DEFAULT


@dataclass(frozen=True)
class RiskBound(Shown, Generic[Values]):
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

    bias_head: Values
    bias_tail: Values
    cross: Values
    variance_head: Values
    variance_tail: Values
    effective_dimension: Values
    small_learning_rate: Any
    small_signal: Any

    @property
    def applies(self) -> Any:
        """Return whether the theorem's two conditions hold.

        After a single step the lower bound fails all the same: w̄ = w_0 has no variance.
        """
        return np.logical_and(self.small_learning_rate, self.small_signal)

    @property
    def bias(self) -> Values:
        """bias_head + bias_tail."""
        return self.bias_head + self.bias_tail

    @property
    def variance(self) -> Values:
        """variance_head + variance_tail."""
        return self.variance_head + self.variance_tail

    @property
    def total(self) -> Values:
        """The bound as stated: bias + variance (THEORY.md T8). The full form adds `cross`."""
        return self.bias + self.variance

    def sheet(self) -> Sheet:
        """Return the terms of the bound."""
        quantities = [
            Quantity("effective_dimension", "k*", self.effective_dimension),
            Quantity("bias_head", "bias, head", self.bias_head),
            Quantity("bias_tail", "bias, tail", self.bias_tail),
            Quantity("variance_head", "variance, head", self.variance_head),
            Quantity("variance_tail", "variance, tail", self.variance_tail),
            Quantity("bound", "bound", self.total),
            Quantity("applies", "applies", self.applies),
        ]
        return Sheet("Theorem 7, units of y²", [Table(quantities)])


@overload
def theorem7(
    problem: AbstractProblem,
    *,
    batch_size: float,
    learning_rate: float,
    num_samples: float,
    learning_rate_constant: float = 0.5,
    signal_constant: float = 1.0,
) -> RiskBound[float]: ...
@overload
def theorem7(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    learning_rate_constant: float = 0.5,
    signal_constant: float = 1.0,
) -> RiskBound[np.ndarray]: ...
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
    learning_rate_constant = positive_number("learning_rate_constant", learning_rate_constant)
    signal_constant = positive_number("signal_constant", signal_constant)
    batch, rate, samples = settings_arrays(batch_size, learning_rate, num_samples)
    samples = samples_used(batch, samples)
    asked = Asked(split(problem), batch, rate, samples / batch)
    with np.errstate(over="ignore", under="ignore"):
        terms = _terms(asked)
    small_signal = problem.initial_risk <= signal_constant * problem.noise_variance
    return RiskBound(
        *terms,
        small_learning_rate=(rate <= learning_rate_constant * _largest_rate(asked))[()],
        small_signal=np.full(rate.shape, small_signal)[()],
    )


# It is a function, as its result has parts; what a PublishedBound says of itself (`description`) it says as well.
vars(theorem7).update(side="both", standing="order", algorithm=DEFAULT)


class _Terms(NamedTuple):
    """The terms of the bound, named as in `RiskBound`."""

    bias_head: Any
    bias_tail: Any
    cross: Any
    variance_head: Any
    variance_tail: Any
    effective_dimension: Any


def _terms(asked: Asked) -> _Terms:
    spectrum = asked.spectrum
    samples = asked.batch * asked.steps
    horizon = np.clip(asked.steps * asked.rate, *HORIZONS)  # nγ, the time that gradient flow would have run
    count = spectrum.count_above(np.clip(asked.batch / (samples * asked.rate), 1 / HORIZONS[1], 1 / HORIZONS[0]))
    tail_signal = spectrum.tail_signal(count)
    tail_dimension = (horizon * np.sqrt(spectrum.tail_squares(count))) ** 2
    signal = spectrum.head_signal(count, 1) / horizon + tail_signal
    return _Terms(
        bias_head=(np.sqrt(spectrum.head_signal(count, 2)) / horizon) ** 2,
        bias_tail=tail_signal,
        cross=signal * (count + tail_dimension) / samples,
        variance_head=asked.noise * count / samples,
        variance_tail=asked.noise * tail_dimension / samples,
        effective_dimension=count,
    )


def _largest_rate(asked: Asked) -> Any:
    """min{B/tr H, 1/‖H‖}."""
    return np.minimum(asked.batch / np.maximum(asked.trace, TINY), 1 / np.maximum(asked.largest, TINY))


def _statement(asked: Asked) -> Statement:
    """Return the terms of the theorem with factors of 1, under its conditions with the constants ½ and 1."""
    terms = _terms(asked)
    return Statement(
        (terms.bias_head + terms.bias_tail) + (terms.variance_head + terms.variance_tail),
        {
            "γ ≤ ½ min{B/tr H, 1/‖H‖}": asked.rate <= 0.5 * _largest_rate(asked),
            "‖w_0 − w*‖²_H ≤ σ²": asked.spectrum.initial_risk <= asked.noise,
            "more than one step": asked.steps > 1,
        },
    )


zhang_2024 = PublishedBound(
    name="zhang_2024",
    side="both",
    source="Zhang et al. 2024 (arXiv 2410.21676), Theorem 7 (5 in its main text)",
    read="in full",
    about="‖w̄ − w*‖²_H, w̄ the mean of w_0 … w_{n−1}, up to constant factors",
    batches="as published",
    statement=_statement,
    standing="order",
)
