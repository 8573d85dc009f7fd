"""Steps of given length: signSGD and normalized SGD."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sgdtheory.algorithms.coordinates import BasisField, checked_basis
from sgdtheory.algorithms.momentum import checked_momentum
from sgdtheory.algorithms.nonlinear_method import NonlinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class WithMomentum(NonlinearMethod):
    """What looks at `m ← βm + (1 − β) g`, m = 0 at the start."""

    kept: ClassVar[int] = 1

    momentum: Annotated[float, Parameter("momentum β.", Slider("β, momentum", 0.0, 0.99, 0.01, 0.0))] = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "momentum", checked_momentum("momentum", self.momentum))

    def in_units(self, unit: float) -> "WithMomentum":
        """Itself: d does not tell the size of gradients."""
        return self

    def averaged(self, gradient: Any, kept: tuple[Any, ...]) -> Any:
        """The new m."""
        return self.momentum * kept[0] + (1 - self.momentum) * gradient


@dataclass(frozen=True)
class SignSGD(WithMomentum):
    """`m ← βm + (1 − β) g, w ← w − γ sign(m)`: every coordinate moves by γ (Bernstein et al. 2018; Signum with β > 0).

    >>> import sgdtheory as st
    >>> st.SignSGD()
    SignSGD(momentum=0.0, basis='eigenvectors')

    Args:
        momentum: β, at least 0 and below 1.
        basis: whose coordinates have the signs: "eigenvectors" of the covariance, a "random" rotation of them, or
            given ones, (d, d) orthogonal: row j is coordinate j among the eigenvectors, that of λ_1 first.

    Raises:
        ValueError: an argument out of range.
    """

    basis: BasisField = "eigenvectors"  # pyright: ignore[reportIncompatibleMethodOverride] (a field in a property's place)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "basis", checked_basis(self.basis))

    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """sign(m)."""
        import jax.numpy as jnp

        averaged = self.averaged(gradient, kept)
        return jnp.sign(averaged), (averaged,)


@dataclass(frozen=True)
class NormalizedSGD(WithMomentum):
    """`m ← βm + (1 − β) g, w ← w − γ m/‖m‖`: steps of length γ (Nesterov 1984; with momentum, Cutkosky & Mehta 2020).

    >>> import sgdtheory as st
    >>> st.NormalizedSGD(momentum=0.9)
    NormalizedSGD(momentum=0.9)

    Args:
        momentum: β, at least 0 and below 1.

    Raises:
        ValueError: β out of range.
    """

    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """m/‖m‖; 0 where m is."""
        import jax.numpy as jnp

        averaged = self.averaged(gradient, kept)
        length = jnp.sqrt((averaged**2).sum())
        return averaged / jnp.where(length > 0, length, 1), (averaged,)
