"""Problems under capacity and source conditions, with finitely or infinitely many directions."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sgdtheory._common.arguments import single_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.problems.least_squares import LeastSquares, sketched
from sgdtheory.problems.model_size import Kind, checked_model
from sgdtheory.problems.modes import Modes, Rule, power_law_modes, rule_within
from sgdtheory.problems.oscillating_modes import Phases, oscillating_power_law_modes
from sgdtheory.problems.power_sums import power_sum
from sgdtheory.problems.problem import SplitSpectrum, checked_noise_variance, checked_power
from sgdtheory.problems.sketch import Sketch, Tail, equivalent_sketch, sampled_sketch

SINGLE_COLUMNS = 8  # A sampled sketch draws this many directions per feature one by one; it treats the rest as a sum.
CUTS_PER_DECADE = 30  # An equivalent sketch's spectrum has this many cuts per decade of i where λ_i are not resolved.


@dataclass(frozen=True)
class PowerLaw(SplitSpectrum):
    """A power-law problem with `λ_i = i^−a` and `s_i = i^−b`, i = 1 … dim (capacity and source conditions).

    With `dim=None` there are infinitely many directions. Sums over them have a relative error of about 1e-12, at a cost
    that depends neither on dim nor on the exponents. This was measured for exponents down to 1 + 1e-6; below, the sums
    themselves (tr H = ζ(a) ≈ 1/(a − 1)) are so large that rounding matters.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.PowerLaw(capacity=2.0, source=3.0, noise_variance=2.0)
        >>> print(f"{problem.trace:.4f} {problem.initial_risk:.4f}")  # ζ(2), ζ(3)
        1.6449 1.2021

    Args:
        capacity: exponent a > 1 of the eigenvalues; with finitely many directions a > 0.
        source: exponent b > 1 of the initial risk.
        dim: number of directions, or None.
        noise_variance: σ² ≥ 0 of the label noise, in units of y².
        approximation_risk: risk of the best predictor on a model's M features; it is included in σ².

    Raises:
        ValueError: if an argument is outside its range.
    """

    capacity: float
    source: float
    dim: int | None = None  # pyright: ignore[reportIncompatibleMethodOverride] (a field in a property's place)
    noise_variance: float = 1.0
    approximation_risk: float = field(default=0.0, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        least_capacity = 1 if self.dim is None else 0
        for name, least, reason in (
            ("capacity", least_capacity, "trace-class covariance" if least_capacity else "decaying eigenvalues"),
            ("source", 1, "finite initial risk"),
        ):
            value = single_number(name, getattr(self, name))
            if not (value > least and math.isfinite(value)):
                raise ValueError(f"{name} must be finite and greater than {least} ({reason}), got {value}")
            object.__setattr__(self, name, value)
        if self.dim is not None:
            dim = single_number("dim", self.dim)
            if not (math.isfinite(dim) and dim >= 1 and dim == math.floor(dim)):
                raise ValueError(f"dim must be a whole number of at least 1, or None for infinity, got {self.dim}")
            object.__setattr__(self, "dim", int(dim))
        object.__setattr__(self, "noise_variance", checked_noise_variance(self.noise_variance))

    @property
    def largest_eigenvalue(self) -> float:
        """Largest eigenvalue λ_1 = 1."""
        return 1.0

    @property
    def trace(self) -> float:
        """Trace of the covariance, tr H = Σ i^−a."""
        return float(power_sum(self.capacity, 1, self._last))

    @property
    def initial_risk(self) -> float:
        """Initial excess risk ‖w_0 − w*‖²_H = Σ i^−b."""
        return float(power_sum(self.source, 1, self._last))

    def truncated(self, dim: int) -> "PowerLaw":
        """Return the problem with only the first `dim` directions."""
        return replace(self, dim=dim if self.dim is None else min(dim, self.dim))

    def preconditioned(self, power: float = 0.5) -> "PowerLaw | LeastSquares":
        """Return the power law whose plain SGD steps are `w ← w − γ H^−θ g` (THEORY.md T35): `i^−a(1 − θ)`, the same b.

        Example:
            >>> import sgdtheory as st
            >>> for problem in (st.PowerLaw(3, 2), st.PowerLaw(3, 2).preconditioned(0.5)):
            ...     print(st.critical_batch_size(problem, num_samples=1e6, curve=False).batch_size)
            1.0
            74.0

        Args:
            power: θ, from 0, which changes nothing, to 1, which makes all eigenvalues equal. With infinitely many
                directions it must be below 1 − 1/a, so that the trace is finite.

        Returns:
            PowerLaw; for θ = 1 LeastSquares.

        Raises:
            ValueError: if θ is out of range.
        """
        theta = checked_power(power)
        capacity = self.capacity * (1 - theta)
        if self.dim is None and capacity <= 1:
            raise ValueError(
                f"power must be below 1 − 1/a = {1 - 1 / self.capacity:.6g} for infinitely many directions, or their "
                f"trace is infinite, got {theta:g}; take a smaller one, or a problem with a dim"
            )
        if capacity == 0:
            return self._listed().preconditioned(theta)
        return replace(self, capacity=capacity)

    def _listed(self) -> LeastSquares:
        return LeastSquares(*self.directions(), self.noise_variance, approximation_risk=self.approximation_risk)

    def with_features(
        self, num_features: int, kind: Kind = "first", seed: int | None = None
    ) -> "PowerLaw | LeastSquares":
        """Return the problem of training on M features instead of all directions (THEORY.md T31).

        The features are either the first M directions ("first"), with label noise `σ² + Σ_{i>M} s_i`; or M random
        combinations of all directions ("gaussian"), `z = Sx` with independent entries N(0, 1/M) of S. Gaussian features
        have one random S, or without a seed their limit spectrum for large M.

        Args:
            num_features: M ≥ 1, at most dim. For Gaussian features it is at most 8,192 with a seed, and 100,000 without
                one, which takes a minute.
            kind: kind of features, "first" or "gaussian".
            seed: seed of S; the first M directions need none.

        Returns:
            PowerLaw, or LeastSquares for Gaussian features: a problem of M directions, whose label noise includes its
                `approximation_risk`.

        Raises:
            ValueError: if an argument is outside its range.

        Example:
            >>> import sgdtheory as st
            >>> model = st.PowerLaw(2, 3).with_features(10)
            >>> print(f"{model.approximation_risk:.5f} {model.noise_variance:.5f}")  # Σ_{i>10} i^−3
            0.00452 1.00452
            >>> st.critical_batch_size(model, num_samples=1e6, curve=False).batch_size
            391.0
        """
        size = checked_model(num_features, kind, seed, self.dim)
        if kind == "first":
            missed = float(self.tail_signal(size))
            noise, missing = self.noise_variance + missed, self.approximation_risk + missed
            return replace(self, dim=size, noise_variance=noise, approximation_risk=missing)
        sketch = self._equivalent(size) if seed is None else self._sampled(size, seed)
        return sketched(sketch, self)

    def _sampled(self, size: int, seed: int) -> Sketch:
        head = min(self._last, SINGLE_COLUMNS * size + 1000)
        first = head + 1
        tail = Tail(
            *(
                first**-exponent * float(power_sum(exponent, first, self._last, unit=first)) if head < self._last else 0
                for exponent in (self.capacity, 2 * self.capacity, self.capacity + self.source, self.source)
            )
        )
        return sampled_sketch(*self.truncated(int(head)).directions(), size, seed, tail)

    def _equivalent(self, size: int) -> Sketch:
        a, last = self.capacity, self._last
        oscillating = int(1.5 * a * math.sqrt(size)) + 32  # Beyond this index the density shows no single directions.
        end = min(last - 1, 8.0 * size)
        index = np.arange(1.0, min(oscillating, end) + 1)
        if end > oscillating:
            count = int(CUTS_PER_DECADE * math.log10(end / oscillating)) + 2
            index = np.unique(np.append(index, np.round(np.geomspace(oscillating, end, count))))
        reach = math.floor(-a * math.log2(8.0 * size)) - 4
        # The curve approaches the poles at the leading λ_i: these must be single modes.
        rule = Rule(max(256, int(0.06 * a**2 * size)), 64)
        modes = power_law_modes(a, self.source, self.dim, reach, rule)
        return equivalent_sketch(modes, last, size, index**-a, (index + 1) ** -a)

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (d,) eigenvalues and (d,) signal of all directions.

        Raises:
            ValueError: if there are infinitely many directions.
        """
        if self.dim is None:
            raise ValueError("a problem with dim=None has no list of directions: take problem.truncated(1000), say")
        index = np.arange(1.0, self.dim + 1)
        return index**-self.capacity, index**-self.source

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return weighted modes for functions of λ that are smooth below `smallest`."""
        exponent, rule = math.floor(math.log2(smallest)), rule_within(tolerance)
        return power_law_modes(self.capacity, self.source, self.dim, exponent, rule)

    def oscillating_modes(self, phases: Phases, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return weighted modes that resolve these oscillations."""
        exponent, rule = math.floor(math.log2(smallest)), rule_within(tolerance)
        law = self.capacity, self.source, self.dim
        return oscillating_power_law_modes(*law, exponent, rule, tolerance, phases)

    def count_above(self, threshold: ArrayLike) -> Any:
        """Return max{k : k^−a ≥ threshold}, 0 if there is none; elementwise."""
        threshold = np.asarray(threshold, dtype=float)
        guess = np.floor(threshold ** (-1.0 / self.capacity))
        count = guess + 1  # Rounding may make the guess one too small or too large.
        for _ in range(2):
            count = np.where((count >= 1) & (np.maximum(count, 1.0) ** -self.capacity < threshold), count - 1, count)
        return np.minimum(count, self._last)[()]

    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Compute Σ_{i≤count} i^(power·a − b); elementwise in `count`."""
        return power_sum(self.source - power * self.capacity, 1, count)

    def tail_signal(self, count: ArrayLike) -> Any:
        """Compute Σ_{i>count} i^−b; elementwise."""
        return self._tail(self.source, count)

    def tail_squares(self, count: ArrayLike) -> Any:
        """Compute Σ_{i>count} i^−2a; elementwise."""
        return self._tail(2 * self.capacity, count)

    def _tail(self, exponent: float, count: ArrayLike) -> Any:
        first = np.asarray(count, dtype=float) + 1  # In units of its first term the sum cannot overflow or underflow.
        return first**-exponent * power_sum(exponent, first, self._last, unit=first)

    @property
    def _last(self) -> float:
        return math.inf if self.dim is None else self.dim
