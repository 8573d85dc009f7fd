"""Methods whose step is no linear function of the gradient: sign, normalized and adaptive ones, and a user's own."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from sgdtheory.algorithms.coordinates import Basis


class NonlinearMethod(ABC):
    """A method `w ← w − γ_t d(g, k)` that keeps k from step to step: derive from it, and say what d is.

    `w`, g and every array of k are of one shape: (d,), or (m, d) with m outputs. The start is w_0 − w* = √(s_i/λ_i) in
    each direction, divided among outputs, and γ is in units of the weights over d's.

    Attributes:
        kept: how many arrays k has; they begin at 0.
        basis: whether the coordinates of w are the eigenvectors of the covariance, a random rotation of them or given
            ones. It matters where d looks at each coordinate by itself.

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
    step_dependence: ClassVar[Literal["none"]] = "none"  # d sees the number of the step; its formula is one

    @property
    def basis(self) -> Basis:
        """The coordinates of w."""
        return "eigenvectors"

    @property
    def vectors(self) -> int:
        """Arrays of the shape of w: itself and what is kept."""
        return 1 + self.kept

    @abstractmethod
    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """d and the new k of step `number` = 0, 1, …, from the mini-batch gradient: JAX arrays of one shape."""

    def in_units(self, unit: float) -> "NonlinearMethod | None":
        """The method that has the same d where gradients are given in multiples of `unit`, if there is one.

        It is itself where d does not tell the size of gradients, so that none are too small or too large for a float.
        None: it is given gradients as they are.
        """
        return None
