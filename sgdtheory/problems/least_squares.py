"""A least-squares problem with any finite spectrum."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import first_where, real_array
from sgdtheory.problems.model_size import Kind, checked_model
from sgdtheory.problems.problem import (
    AbstractProblem,
    SplitSpectrum,
    checked_noise_variance,
    checked_power,
    preconditioned_spectrum,
    tails,
)
from sgdtheory.problems.sketch import Sketch, equivalent_sketch, sampled_sketch

SINGLE_CUTS = 300  # distinct eigenvalues, from the largest, each of which has a part of a sketch's spectrum to itself


@dataclass(frozen=True, eq=False)
class LeastSquares(SplitSpectrum):
    """A problem with any finite spectrum.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.LeastSquares(eigenvalues=[1.0, 0.5, 0.1], signal=[1.0, 2.0, 0.3], noise_variance=0.5)
        >>> print(f"{problem.trace:.1f} {problem.initial_risk:.1f}")
        1.6 3.3

    Args:
        eigenvalues: (d,) eigenvalues λ_i ≥ 0 of the data covariance, in any order.
        signal: (d,) initial risk `s_i = λ_i ⟨v_i, w_0 − w*⟩² ≥ 0` of each direction. Where λ_i = 0 it is read as
            a limit λ_i → 0: a direction that holds its risk for ever.
        noise_variance: σ² ≥ 0 of the label noise, in units of y².
        approximation_risk: of a model of M features, what the best predictor on them misses: a part of σ².

    Raises:
        ValueError: an argument outside its range, or arrays of different lengths.
    """

    eigenvalues: Any  # any sequence; kept as a read-only float64 array
    signal: Any
    noise_variance: float = 1.0
    approximation_risk: float = field(default=0.0, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        eigenvalues, signal = _spectrum("eigenvalues", self.eigenvalues), _spectrum("signal", self.signal)
        if eigenvalues.shape != signal.shape:
            raise ValueError(
                f"signal must have one entry for each eigenvalue, got {signal.size} for {eigenvalues.size} eigenvalues"
            )
        order = np.argsort(-eigenvalues, kind="stable")
        for name, array in (("eigenvalues", eigenvalues[order]), ("signal", signal[order])):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "noise_variance", checked_noise_variance(self.noise_variance))

    def truncated(self, dim: int) -> "LeastSquares":
        """The problem of the `dim` directions with the largest eigenvalues alone."""
        return LeastSquares(self.eigenvalues[:dim], self.signal[:dim], self.noise_variance)

    def preconditioned(self, power: float = 0.5) -> "LeastSquares":
        """Steps `w ← w − γ H^−θ g` as plain ones on another spectrum (THEORY.md T35): `λ_i^{1−θ}`, the same signal.

        A direction without an eigenvalue stays without one.

        Example:
            >>> import sgdtheory as st
            >>> print(st.LeastSquares([1.0, 0.25, 0.01], [1.0, 2.0, 0.3]).preconditioned(0.5).eigenvalues)
            [1.  0.5 0.1]

        Args:
            power: θ, from 0, which changes nothing, to 1, which makes all eigenvalues equal.

        Raises:
            ValueError: θ out of range.
        """
        return replace(self, eigenvalues=preconditioned_spectrum(self.eigenvalues, checked_power(power)))

    def with_features(self, num_features: int, kind: Kind = "first", seed: int | None = None) -> "LeastSquares":
        """Return the problem of training on M features instead of all directions (THEORY.md T31).

        "first": the M directions with the largest eigenvalues; label noise grows by the signal of the others.
        "gaussian": M random combinations of all directions, `z = Sx`, with independent entries N(0, 1/M) of S: one S,
        or without a seed the spectrum that they tend to as M grows.

        Args:
            num_features: M ≥ 1, at most dim; of Gaussian features with a seed at most 8,192.
            kind: of features.
            seed: of S; the first M directions need none.

        Returns:
            LeastSquares: of M directions, with its `approximation_risk`, which its label noise has in it.

        Raises:
            ValueError: an argument outside its range.

        Example:
            >>> import sgdtheory as st
            >>> problem = st.LeastSquares(eigenvalues=[1.0, 0.5, 0.1], signal=[1.0, 2.0, 0.3], noise_variance=0.5)
            >>> model = problem.with_features(2)
            >>> print(f"{model.approximation_risk:.1f} {model.noise_variance:.1f}")
            0.3 0.8
        """
        size = checked_model(num_features, kind, seed, self.dim)
        if kind == "first":
            found = Sketch(self.eigenvalues[:size], self.signal[:size], float(self.tail_signal(size)))
        elif self.largest_eigenvalue == 0:
            found = Sketch(np.zeros(size), np.zeros(size), self.initial_risk)
        elif seed is not None:
            found = sampled_sketch(self.eigenvalues, self.signal, size, seed)
        else:
            found = self._equivalent(size)
        return sketched(found, self)

    def _equivalent(self, size: int) -> Sketch:
        positive = self.eigenvalues[self.eigenvalues > 0]
        step = np.flatnonzero(np.diff(positive))  # the last of equal eigenvalues
        if step.size > SINGLE_CUTS:
            chosen = np.unique(np.round(np.geomspace(SINGLE_CUTS, step.size, SINGLE_CUTS))).astype(int) - 1
            step = step[np.concatenate([np.arange(SINGLE_CUTS - 1), chosen])]
        return equivalent_sketch(self.modes(0.0), positive.size, size, positive[step], positive[step + 1])

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) eigenvalues, from the largest down, and (d,) signal."""
        return self.eigenvalues, self.signal

    def count_above(self, threshold: ArrayLike) -> Any:
        """max{k : λ_k ≥ threshold}, 0 if there is none; elementwise."""
        return np.searchsorted(-self.eigenvalues, -np.asarray(threshold, dtype=float), side="right")[()]

    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Σ_{i≤count} s_i / λ_i^power; elementwise in `count`."""
        terms = np.where(self.eigenvalues > 0, self.signal, 0.0)  # no positive threshold puts the others into the head
        for _ in range(power):
            terms = terms / np.where(self.eigenvalues > 0, self.eigenvalues, 1.0)
        return np.concatenate([[0.0], np.cumsum(terms)])[np.asarray(count)]

    def tail_squares(self, count: ArrayLike) -> Any:
        """Σ_{i>count} λ_i²; elementwise."""
        return tails(self.eigenvalues**2)[np.asarray(count)]


def sketched(sketch: Sketch, problem: AbstractProblem) -> LeastSquares:
    """The problem of M features of a problem."""
    noise = problem.noise_variance + sketch.missed
    missed = problem.approximation_risk + sketch.missed
    return LeastSquares(sketch.eigenvalues, sketch.signal, noise, approximation_risk=missed)


def _spectrum(name: str, value: object) -> np.ndarray:
    array = np.array(real_array(name, value))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a one-dimensional array with at least one entry, got shape {array.shape}")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        raise ValueError(f"{name} must be finite and not negative, got {first_where(array, bad)}")
    return array
