"""Adam (Kingma & Ba 2015)."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.coordinates import BasisField, checked_basis
from sgdtheory.algorithms.momentum import checked_momentum
from sgdtheory.algorithms.nonlinear_method import NonlinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class Adam(NonlinearMethod):
    """Adam: `m ← β₁m + (1 − β₁) g, v ← β₂v + (1 − β₂) g², w ← (1 − γκ) w − γ m̂/(√v̂ + ε)` (Kingma & Ba 2015).

    `m̂ = m/(1 − β₁^{t+1})` and `v̂ = v/(1 − β₂^{t+1})` are means of the gradients so far. With β₁ = β₂ = ε = 0 Adam is
    signSGD. With a weight decay κ > 0 the method is AdamW (Loshchilov & Hutter 2019), and runs start at w_0 = 0, so
    that the signal is that of w* itself.

    >>> import sgdtheory as st
    >>> st.Adam(beta2=0.95, weight_decay=0.1)
    Adam(beta1=0.9, beta2=0.95, epsilon=0.0, basis='eigenvectors', weight_decay=0.1)

    Args:
        beta1: decay rate of the mean, at least 0 and below 1.
        beta2: decay rate of the mean square, at least 0 and below 1.
        epsilon: ε ≥ 0, in the units of gradients.
        basis: coordinates with learning rates of their own: "eigenvectors" of the covariance, a "random" rotation of
            them, or a (d, d) orthogonal matrix, whose row j is coordinate j in the eigenbasis (λ_1 first).
        weight_decay: decoupled weight decay κ ≥ 0, in units of 1/γ, that is of 1/w.

    Raises:
        ValueError: if an argument is out of range.
    """

    kept: ClassVar[int] = 2

    beta1: Annotated[
        float, Parameter("β₁ of the mean of gradients.", Slider("β₁, of the mean", 0.0, 0.99, 0.01, 0.9))
    ] = 0.9
    beta2: Annotated[
        float, Parameter("β₂ of the mean of their squares.", Slider("β₂, of the squares", 0.0, 0.999, 0.001, 0.999))
    ] = 0.999
    epsilon: Annotated[
        float,
        Parameter("ε beside the root of that, in units of gradients.", Slider("ε, units of g", 0.0, 1.0, 0.01, 0.0)),
    ] = 0.0
    basis: BasisField = "eigenvectors"  # pyright: ignore[reportIncompatibleMethodOverride] (a field in a property's place)
    weight_decay: Annotated[
        float,
        Parameter("decoupled weight decay κ, in units of 1/γ.", Slider("κ, weight decay", 0.0, 1.0, 0.01, 0.0)),
    ] = 0.0

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            object.__setattr__(self, name, checked_momentum(name, getattr(self, name)))
        for name in ("epsilon", "weight_decay"):
            value = single_number(name, getattr(self, name))
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {value:g}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "basis", checked_basis(self.basis))

    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return m̂/(√v̂ + ε), with 0 where all gradients were 0, and the new means."""
        import jax.numpy as jnp

        mean = self.beta1 * kept[0] + (1 - self.beta1) * gradient
        square = self.beta2 * kept[1] + (1 - self.beta2) * gradient**2
        seen = jnp.asarray(number + 1, gradient.dtype)
        size = jnp.sqrt(square / -jnp.expm1(_log_power(self.beta2, seen))) + self.epsilon
        unbiased = mean / -jnp.expm1(_log_power(self.beta1, seen))
        return unbiased / jnp.where(size > 0, size, 1), (mean, square)

    def in_units(self, unit: float) -> "Adam":
        """Return Adam with ε in multiples of `unit`."""
        return replace(self, epsilon=self.epsilon / unit)


def _log_power(beta: float, seen: Any) -> Any:
    """Return log β^seen; for β = 0 a number so far below 0 that its exponential is 0."""
    return seen * (math.log(beta) if beta else -1e3)
