"""A least-squares problem with any finite spectrum."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sgdtheory._common.arguments import first_where, real_array
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.problems.model_size import Kind, checked_model
from sgdtheory.problems.modes import Modes, merged_modes
from sgdtheory.problems.problem import (
    AbstractProblem,
    SplitSpectrum,
    checked_noise_variance,
    checked_power,
    preconditioned_spectrum,
    tails,
)
from sgdtheory.problems.sketch import Sketch, equivalent_sketch, sampled_sketch

# This many distinct eigenvalues, from the largest, each get a separate part of a sketch's spectrum.
SINGLE_CUTS = 300
# `repr` writes lists of up to this many different numbers in full, as NumPy does; it abbreviates longer ones.
MOST_WRITTEN = 1000


@dataclass(frozen=True, eq=False)
class LeastSquares(SplitSpectrum):
    """A least-squares problem with any finite spectrum.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.LeastSquares(eigenvalues=[1.0, 0.5, 0.1], signal=[1.0, 2.0, 0.3], noise_variance=0.5)
        >>> print(f"{problem.trace:.1f} {problem.initial_risk:.1f}")
        1.6 3.3

    Args:
        eigenvalues: (d,) eigenvalues λ_i ≥ 0 of the data covariance, in any order.
        signal: (d,) initial risk `s_i = λ_i ⟨v_i, w_0 − w*⟩² ≥ 0` of each direction. For λ_i = 0 it is the limit
            λ_i → 0: a direction whose risk never decreases.
        noise_variance: σ² ≥ 0 of the label noise, in units of y².
        approximation_risk: risk of the best predictor on a model's M features; it is included in σ².

    Raises:
        ValueError: if an argument is outside its range, or the arrays have different lengths.
    """

    eigenvalues: Any  # Any sequence is accepted, and stored as a read-only float64 array.
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

    def __repr__(self) -> str:
        """Return Python code with all digits, which `repr` of an array would round to eight."""
        lists = f"eigenvalues={_written(self.eigenvalues)}, signal={_written(self.signal)}"
        return f"LeastSquares({lists}, noise_variance={self.noise_variance!r})"

    def truncated(self, dim: int) -> "LeastSquares":
        """Return the problem with only the `dim` directions of the largest eigenvalues."""
        return replace(self, eigenvalues=self.eigenvalues[:dim], signal=self.signal[:dim])

    def preconditioned(self, power: float = 0.5) -> "LeastSquares":
        """Return the problem whose SGD steps are `w ← w − γ H^−θ g` (THEORY.md T35): `λ_i^{1−θ}`, the same signal.

        Eigenvalues of 0 stay 0.

        Example:
            >>> import sgdtheory as st
            >>> print(st.LeastSquares([1.0, 0.25, 0.01], [1.0, 2.0, 0.3]).preconditioned(0.5).eigenvalues)
            [1.  0.5 0.1]

        Args:
            power: θ, from 0, which changes nothing, to 1, which makes all eigenvalues equal.

        Raises:
            ValueError: if θ is out of range.
        """
        return replace(self, eigenvalues=preconditioned_spectrum(self.eigenvalues, checked_power(power)))

    def with_features(self, num_features: int, kind: Kind = "first", seed: int | None = None) -> "LeastSquares":
        """Return the problem of training on M features instead of all directions (THEORY.md T31).

        The features are either the M directions with the largest eigenvalues ("first"), so that the signal of the
        others adds to the label noise; or M random combinations of all directions ("gaussian"), `z = Sx` with
        independent entries N(0, 1/M) of S. Gaussian features have one random S, or without a seed their limit spectrum
        for large M.

        Args:
            num_features: M ≥ 1, at most dim; for Gaussian features with a seed at most 8,192.
            kind: kind of features, "first" or "gaussian".
            seed: seed of S; the first M directions need none.

        Returns:
            LeastSquares: a problem of M directions, whose label noise includes its `approximation_risk`.

        Raises:
            ValueError: if an argument is outside its range.

        Example:
            >>> import sgdtheory as st
            >>> problem = st.LeastSquares(eigenvalues=[1.0, 0.5, 0.1], signal=[1.0, 2.0, 0.3], noise_variance=0.5)
            >>> model = problem.with_features(2)
            >>> print(f"{model.approximation_risk:.1f} {model.noise_variance:.1f}")
            0.3 0.8
        """
        size = checked_model(num_features, kind, seed, self.dim)
        if kind == "first":
            sketch = Sketch(self.eigenvalues[:size], self.signal[:size], float(self.tail_signal(size)))
        elif self.largest_eigenvalue == 0:
            sketch = Sketch(np.zeros(size), np.zeros(size), self.initial_risk)
        elif seed is not None:
            sketch = sampled_sketch(self.eigenvalues, self.signal, size, seed)
        else:
            sketch = self._equivalent(size)
        return sketched(sketch, self)

    def _equivalent(self, size: int) -> Sketch:
        positive = self.eigenvalues[self.eigenvalues > 0]
        step = np.flatnonzero(np.diff(positive))  # Index of the last of each group of equal eigenvalues.
        if step.size > SINGLE_CUTS:
            chosen = np.unique(np.round(np.geomspace(SINGLE_CUTS, step.size, SINGLE_CUTS))).astype(int) - 1
            step = step[np.concatenate([np.arange(SINGLE_CUTS - 1), chosen])]
        return equivalent_sketch(self.modes(0.0), positive.size, size, positive[step], positive[step + 1])

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (d,) eigenvalues in decreasing order, and (d,) signal."""
        return self.eigenvalues, self.signal

    def decaying_modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return the modes of runs without momentum: in a long list small eigenvalues are merged."""
        return self._merged

    @cached_property
    def _merged(self) -> Modes:
        return merged_modes(self.eigenvalues, self.signal)

    def count_above(self, threshold: ArrayLike) -> Any:
        """Return max{k : λ_k ≥ threshold}, 0 if there is none; elementwise."""
        return np.searchsorted(-self.eigenvalues, -np.asarray(threshold, dtype=float), side="right")[()]

    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Compute Σ_{i≤count} s_i / λ_i^power; elementwise in `count`."""
        # Directions with λ_i = 0 are below every positive threshold, and never belong to the head.
        terms = np.where(self.eigenvalues > 0, self.signal, 0.0)
        for _ in range(power):
            terms = terms / np.where(self.eigenvalues > 0, self.eigenvalues, 1.0)
        return np.concatenate([[0.0], np.cumsum(terms)])[np.asarray(count)]

    def tail_squares(self, count: ArrayLike) -> Any:
        """Compute Σ_{i>count} λ_i²; elementwise."""
        return tails(self.eigenvalues**2)[np.asarray(count)]


def sketched(sketch: Sketch, problem: AbstractProblem) -> LeastSquares:
    """Return the problem of training on the features of a sketch."""
    noise = problem.noise_variance + sketch.missed
    missed = problem.approximation_risk + sketch.missed
    return LeastSquares(sketch.eigenvalues, sketch.signal, noise, approximation_risk=missed)


def _written(numbers: np.ndarray) -> str:
    values = [float(number) for number in numbers]
    if len(values) > 1 and len(set(values)) == 1:
        return f"{values[:1]} * {len(values)}"
    if len(values) <= MOST_WRITTEN:
        return repr(values)
    return ", ".join([*map(repr, values[:3]), "...", *map(repr, values[-3:])]).join("[]")


def _spectrum(name: str, value: object) -> np.ndarray:
    array = np.array(real_array(name, value))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a one-dimensional array with at least one entry, got shape {array.shape}")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        raise ValueError(f"{name} must be finite and not negative, got {first_where(array, bad)}")
    return array
