"""Lion: signs of a mixture of the newest gradient and a moving average of older ones (Chen et al. 2023)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sgdtheory.algorithms.coordinates import BasisField, checked_basis
from sgdtheory.algorithms.momentum import checked_momentum
from sgdtheory.algorithms.nonlinear_method import NonlinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class Lion(NonlinearMethod):
    """Lion: `w ← w − γ sign(β₁m + (1 − β₁) g), m ← β₂m + (1 − β₂) g`, m = 0 at the start (Chen et al. 2023).

    With β₁ = β₂ Lion is signSGD with that momentum; with β₁ = 0 it is signSGD without momentum.

    >>> import sgdtheory as st
    >>> st.Lion()
    Lion(beta1=0.9, beta2=0.99, basis='eigenvectors')

    Args:
        beta1: weight of the moving average m in a step, at least 0 and below 1.
        beta2: decay rate of m, at least 0 and below 1.
        basis: coordinates whose signs are taken: "eigenvectors" of the covariance, a "random" rotation of them, or a
            (d, d) orthogonal matrix, whose row j is coordinate j in the eigenbasis (λ_1 first).

    Raises:
        ValueError: if an argument is out of range.
    """

    kept: ClassVar[int] = 1

    beta1: Annotated[
        float, Parameter("β₁, weight of the memory in a step.", Slider("β₁, of the step", 0.0, 0.99, 0.01, 0.9))
    ] = 0.9
    beta2: Annotated[
        float, Parameter("β₂, decay of the memory.", Slider("β₂, of the memory", 0.0, 0.999, 0.001, 0.99))
    ] = 0.99
    basis: BasisField = "eigenvectors"  # pyright: ignore[reportIncompatibleMethodOverride] (a field in a property's place)

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            object.__setattr__(self, name, checked_momentum(name, getattr(self, name)))
        object.__setattr__(self, "basis", checked_basis(self.basis))

    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return sign(β₁m + (1 − β₁) g) with the memory before the step, and the memory after it."""
        import jax.numpy as jnp

        (memory,) = kept
        mixture = self.beta1 * memory + (1 - self.beta1) * gradient
        return jnp.sign(mixture), (self.beta2 * memory + (1 - self.beta2) * gradient,)

    def in_units(self, unit: float) -> "Lion":
        """Return the method itself: signs do not depend on the size of gradients."""
        return self
