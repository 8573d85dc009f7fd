"""Least-squares problems in the eigenbasis of the data covariance."""

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import first_where, real_array, single_number
from sgdtheory.theory.modes import Modes, power_law_modes, rule_within
from sgdtheory.theory.power_sums import power_sum


class Spectral(Protocol):
    """What the exact risk asks of a problem: its spectrum as modes, and its label noise."""

    @property
    def noise_variance(self) -> float:
        """σ², in units of y²."""
        ...

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Weighted modes for functions of λ that are smooth below `smallest`.

        A relative error of sums up to `tolerance` may be traded for fewer modes; 0: rounding error.
        """
        ...


class Problem(Spectral, Protocol):
    """What the bounds, the searches and the simulator ask of a problem.

    Data `x ~ N(0, H)`, `y | x ~ N(xᵀw*, σ²)`. A problem is the eigenvalues `λ_1 ≥ λ_2 ≥ …` of H, the signal
    `s_i = λ_i ⟨v_i, w_0 − w*⟩²` (the risk that direction i holds at the start) and σ².
    """

    @property
    def initial_risk(self) -> float:
        """‖w_0 − w*‖²_H = Σ s_i."""
        ...

    @property
    def largest_eigenvalue(self) -> float:
        """λ_1 = ‖H‖."""
        ...

    @property
    def trace(self) -> float:
        """tr H = Σ λ_i."""
        ...

    @property
    def dim(self) -> int | None:
        """Number of directions; None for infinitely many."""
        ...

    def truncated(self, dim: int) -> "Problem":
        """The problem of the first `dim` directions alone."""
        ...

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) eigenvalues and (d,) signal, direction by direction, of a problem with finitely many."""
        ...

    def count_above(self, threshold: ArrayLike) -> Any:
        """max{k : λ_k ≥ threshold}, 0 if there is none; elementwise."""
        ...

    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Σ_{i≤count} s_i / λ_i^power; elementwise in `count`."""
        ...

    def tail_signal(self, count: ArrayLike) -> Any:
        """Σ_{i>count} s_i; elementwise."""
        ...

    def tail_squares(self, count: ArrayLike) -> Any:
        """Σ_{i>count} λ_i²; elementwise."""
        ...


@dataclass(frozen=True)
class PowerLaw:
    """Capacity and source conditions: `λ_i = i^−a`, `s_i = i^−b`, i = 1 … dim.

    With `dim=None` there are infinitely many directions; sums over them are exact to about 1e-12 relative, at a
    cost that depends neither on dim nor on the exponents. Measured limit: exponents down to 1 + 1e-6, below
    which the sums themselves (tr H = ζ(a) ≈ 1/(a − 1)) leave the range where rounding is harmless.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.PowerLaw(capacity=2.0, source=3.0, noise_variance=2.0)
        >>> print(f"{problem.trace:.4f} {problem.initial_risk:.4f}")  # ζ(2), ζ(3)
        1.6449 1.2021

    Args:
        capacity: exponent a > 1 of the eigenvalues.
        source: exponent b > 1 of the initial risk.
        dim: number of directions, or None.
        noise_variance: σ² ≥ 0 of the label noise, in units of y².

    Raises:
        ValueError: an argument outside its range.
    """

    capacity: float
    source: float
    dim: int | None = None
    noise_variance: float = 1.0

    def __post_init__(self) -> None:
        for name, reason in (("capacity", "trace-class covariance"), ("source", "finite initial risk")):
            value = single_number(name, getattr(self, name))
            if not (value > 1 and math.isfinite(value)):
                raise ValueError(f"{name} must be finite and greater than 1 ({reason}), got {value}")
            object.__setattr__(self, name, value)
        if self.dim is not None:
            dim = single_number("dim", self.dim)
            if not (math.isfinite(dim) and dim >= 1 and dim == math.floor(dim)):
                raise ValueError(f"dim must be a whole number of at least 1, or None for infinity, got {self.dim}")
            object.__setattr__(self, "dim", int(dim))
        object.__setattr__(self, "noise_variance", _noise_variance(self.noise_variance))

    @property
    def largest_eigenvalue(self) -> float:
        """λ_1 = 1."""
        return 1.0

    @property
    def trace(self) -> float:
        """tr H = Σ i^−a."""
        return float(power_sum(self.capacity, 1, self._last))

    @property
    def initial_risk(self) -> float:
        """‖w_0 − w*‖²_H = Σ i^−b."""
        return float(power_sum(self.source, 1, self._last))

    def truncated(self, dim: int) -> "PowerLaw":
        """The problem of the first `dim` directions alone."""
        return replace(self, dim=dim if self.dim is None else min(dim, self.dim))

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) eigenvalues and (d,) signal, direction by direction.

        Raises:
            ValueError: there are infinitely many.
        """
        if self.dim is None:
            raise ValueError("a problem with dim=None has no list of directions; truncate it first")
        index = np.arange(1.0, self.dim + 1)
        return index**-self.capacity, index**-self.source

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Weighted modes for functions of λ that are smooth below `smallest`."""
        exponent, rule = math.floor(math.log2(smallest)), rule_within(tolerance)
        return power_law_modes(self.capacity, self.source, self.dim, exponent, rule)

    def count_above(self, threshold: ArrayLike) -> Any:
        """max{k : k^−a ≥ threshold}, 0 if there is none; elementwise."""
        threshold = np.asarray(threshold, dtype=float)
        guess = np.floor(threshold ** (-1.0 / self.capacity))
        count = guess + 1  # rounding may put the guess off by one
        for _ in range(2):
            count = np.where((count >= 1) & (np.maximum(count, 1.0) ** -self.capacity < threshold), count - 1, count)
        return np.minimum(count, self._last)[()]

    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Σ_{i≤count} i^(power·a − b); elementwise in `count`."""
        return power_sum(self.source - power * self.capacity, 1, count)

    def tail_signal(self, count: ArrayLike) -> Any:
        """Σ_{i>count} i^−b; elementwise."""
        return self._tail(self.source, count)

    def tail_squares(self, count: ArrayLike) -> Any:
        """Σ_{i>count} i^−2a; elementwise."""
        return self._tail(2 * self.capacity, count)

    def _tail(self, exponent: float, count: ArrayLike) -> Any:
        first = np.asarray(count, dtype=float) + 1  # the sum in units of its first term: no overflow, no underflow
        return first**-exponent * power_sum(exponent, first, self._last, unit=first)

    @property
    def _last(self) -> float:
        return math.inf if self.dim is None else self.dim


@dataclass(frozen=True, eq=False)
class LeastSquares:
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

    Raises:
        ValueError: an argument outside its range, or arrays of different lengths.
    """

    eigenvalues: Any  # any sequence; kept as a read-only float64 array
    signal: Any
    noise_variance: float = 1.0

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
        object.__setattr__(self, "noise_variance", _noise_variance(self.noise_variance))

    @property
    def largest_eigenvalue(self) -> float:
        """λ_1 = ‖H‖."""
        return float(self.eigenvalues[0])

    @property
    def trace(self) -> float:
        """tr H = Σ λ_i."""
        return float(self.eigenvalues.sum())

    @property
    def initial_risk(self) -> float:
        """‖w_0 − w*‖²_H = Σ s_i."""
        return float(self.signal.sum())

    @property
    def dim(self) -> int:
        """Number of directions."""
        return self.eigenvalues.size

    def truncated(self, dim: int) -> "LeastSquares":
        """The problem of the `dim` directions with the largest eigenvalues alone."""
        return LeastSquares(self.eigenvalues[:dim], self.signal[:dim], self.noise_variance)

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) eigenvalues, from the largest down, and (d,) signal."""
        return self.eigenvalues, self.signal

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """The spectrum itself, one mode a direction, whatever the arguments."""
        return Modes(self.eigenvalues, np.ones_like(self.eigenvalues), self.signal)

    def count_above(self, threshold: ArrayLike) -> Any:
        """max{k : λ_k ≥ threshold}, 0 if there is none; elementwise."""
        return np.searchsorted(-self.eigenvalues, -np.asarray(threshold, dtype=float), side="right")[()]

    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Σ_{i≤count} s_i / λ_i^power; elementwise in `count`."""
        terms = np.where(self.eigenvalues > 0, self.signal, 0.0)  # no positive threshold puts the others into the head
        for _ in range(power):
            terms = terms / np.where(self.eigenvalues > 0, self.eigenvalues, 1.0)
        return np.concatenate([[0.0], np.cumsum(terms)])[np.asarray(count)]

    def tail_signal(self, count: ArrayLike) -> Any:
        """Σ_{i>count} s_i; elementwise."""
        return _tails(self.signal)[np.asarray(count)]

    def tail_squares(self, count: ArrayLike) -> Any:
        """Σ_{i>count} λ_i²; elementwise."""
        return _tails(self.eigenvalues**2)[np.asarray(count)]


def _tails(terms: np.ndarray) -> np.ndarray:
    """[Σ_{i>k} terms_i for k = 0 … d], summed from the small end."""
    return np.concatenate([np.cumsum(terms[::-1])[::-1], [0.0]])


def _noise_variance(value: object) -> float:
    number = single_number("noise_variance", value)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError(f"noise_variance must be finite and not negative, got {number}")
    return number


def _spectrum(name: str, value: object) -> np.ndarray:
    array = np.array(real_array(name, value))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a one-dimensional array with at least one entry, got shape {array.shape}")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        raise ValueError(f"{name} must be finite and not negative, got {first_where(array, bad)}")
    return array
