"""Methods whose step is not linear in the gradient: sign, normalized and adaptive methods, and a user's own."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from sgdtheory.algorithms.coordinates import Basis


class NonlinearMethod(ABC):
    """Base class of nonlinear methods `w ← w − γ_t d(g, k)` with a state k; a derived class gives `direction`, d.

    `w`, g and every array of k have the same shape: (d,), or (m, d) with m outputs. The start is w_0 − w* = √(s_i/λ_i)
    in each direction, divided among outputs, and γ is in units of w over units of d.

    Attributes:
        kept: number of arrays in k, which are 0 at the start.
        basis: coordinates of w: eigenvectors of the covariance, a random rotation of them, or given ones. The choice
            matters if d treats each coordinate separately.
        weight_decay: κ ≥ 0 of a decoupled weight decay, `w ← (1 − γ_t κ) w − γ_t d(g, k)`, in units of 1/γ. With κ > 0
            runs start at w_0 = 0.

    Example:
        >>> import jax
        >>> import sgdtheory as st
        >>> class Clipped(st.NonlinearMethod):
        ...     def direction(self, gradient, kept, number):
        ...         return gradient.clip(-0.1, 0.1), kept
        >>> algorithm = st.Algorithm(Clipped(), average=st.LastIterate())
        >>> setting = dict(batch_size=16, learning_rate=0.5, num_samples=16 * 200)
        >>> problem = st.PowerLaw(2.0, 3.0, dim=20)
        >>> found = st.simulate(jax.random.key(0), problem, **setting, algorithm=algorithm, num_replicas=256)
        >>> print(f"{found.mean:.2f}")
        0.02
    """

    kept: ClassVar[int] = 0
    step_dependence: ClassVar[Literal["none"]] = "none"  # The formula of d is one, even if it uses the step number.
    weight_decay: float = 0.0

    @property
    def basis(self) -> Basis:
        """Coordinates of w."""
        return "eigenvectors"

    @property
    def vectors(self) -> int:
        """Number of arrays of the shape of w: w itself and the state."""
        return 1 + self.kept

    @abstractmethod
    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return d and the new k of step `number` = 0, 1, … for a batch gradient; all are JAX arrays of one shape."""

    def in_units(self, unit: float) -> "NonlinearMethod | None":
        """Return the method with the same d for gradients in multiples of `unit`; None if there is none.

        Simulations use it so that gradients are neither too small nor too large for a float. If d does not depend on
        the size of gradients, it is the method itself. With None, gradients are passed unscaled.
        """
        return None
