"""Lion: signs of a mixture of the newest gradient and a memory of older ones."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sgdtheory.algorithms.coordinates import BasisField, checked_basis
from sgdtheory.algorithms.momentum import checked_momentum
from sgdtheory.algorithms.nonlinear_method import NonlinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class Lion(NonlinearMethod):
    """`w ← w − γ sign(β₁m + (1 − β₁) g), m ← β₂m + (1 − β₂) g`, m = 0 at the start (Chen et al. 2023).

    With β₁ = β₂ it is signSGD with that momentum, with β₁ = 0 signSGD without.

    >>> import sgdtheory as st
    >>> st.Lion()
    Lion(beta1=0.9, beta2=0.99, basis='eigenvectors')

    Args:
        beta1: weight of the memory beside the newest gradient, at least 0 and below 1.
        beta2: decay of the memory a step, likewise.
        basis: whose coordinates have the signs: "eigenvectors" of the covariance, a "random" rotation of them, or
            given ones, (d, d) orthogonal: row j is coordinate j among the eigenvectors, that of λ_1 first.

    Raises:
        ValueError: an argument out of range.
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
