"""Methods with steps of a given length: signSGD and normalized SGD."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sgdtheory.algorithms.coordinates import BasisField, checked_basis
from sgdtheory.algorithms.momentum import checked_momentum
from sgdtheory.algorithms.nonlinear_method import NonlinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class WithMomentum(NonlinearMethod):
    """Base class of methods that use `m ← βm + (1 − β) g`, m = 0 at the start, and not the size of m."""

    kept: ClassVar[int] = 1

    momentum: Annotated[float, Parameter("momentum β.", Slider("β, momentum", 0.0, 0.99, 0.01, 0.0))] = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "momentum", checked_momentum("momentum", self.momentum))

    def in_units(self, unit: float) -> "WithMomentum":
        """Return the method itself, as d does not depend on the size of gradients."""
        return self

    def averaged(self, gradient: Any, kept: tuple[Any, ...]) -> Any:
        """Return the new m."""
        return self.momentum * kept[0] + (1 - self.momentum) * gradient


@dataclass(frozen=True)
class SignSGD(WithMomentum):
    """signSGD, with β > 0 Signum: `m ← βm + (1 − β) g, w ← w − γ sign(m)` (Bernstein et al. 2018).

    >>> import sgdtheory as st
    >>> st.SignSGD()
    SignSGD(momentum=0.0, basis='eigenvectors')

    Args:
        momentum: β, at least 0 and below 1.
        basis: coordinates whose signs are taken: "eigenvectors" of the covariance, a "random" rotation of them, or a
            (d, d) orthogonal matrix, whose row j is coordinate j in the eigenbasis (λ_1 first).

    Raises:
        ValueError: if an argument is out of range.
    """

    basis: BasisField = "eigenvectors"  # pyright: ignore[reportIncompatibleMethodOverride] (a field in a property's place)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "basis", checked_basis(self.basis))

    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return sign(m) and the new m."""
        import jax.numpy as jnp

        averaged = self.averaged(gradient, kept)
        return jnp.sign(averaged), (averaged,)


@dataclass(frozen=True)
class NormalizedSGD(WithMomentum):
    """Normalized SGD: `m ← βm + (1 − β) g, w ← w − γ m/‖m‖` (Nesterov 1984; with momentum Cutkosky & Mehta 2020).

    >>> import sgdtheory as st
    >>> st.NormalizedSGD(momentum=0.9)
    NormalizedSGD(momentum=0.9)

    Args:
        momentum: β, at least 0 and below 1.

    Raises:
        ValueError: if β is out of range.
    """

    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return m/‖m‖, or 0 if m = 0, and the new m."""
        import jax.numpy as jnp

        averaged = self.averaged(gradient, kept)
        length = jnp.sqrt((averaged**2).sum())
        return averaged / jnp.where(length > 0, length, 1), (averaged,)
