"""Muon: steps whose singular values are all the same."""

from dataclasses import dataclass
from typing import Annotated, Any

from sgdtheory._common.arguments import whole_number
from sgdtheory.algorithms.normalized import WithMomentum
from sgdtheory.algorithms.parameter import Choice, Parameter, Slider

QUINTIC = 3.4445, -4.7750, 2.0315  # kellerjordan.github.io/posts/muon: as steep at 0 as still ends near 1


@dataclass(frozen=True)
class Muon(WithMomentum):
    """`M ← βM + (1 − β) G, W ← W − γ polar(M)`, polar(UΣVᵀ) = UVᵀ (Jordan et al. 2024).

    G and M are the m × d matrices of `simulate(…, outputs=m)`. With one output polar(M) is M/‖M‖: `NormalizedSGD`.
    Turning coordinates or outputs turns its steps with them, so that it has no `basis`. Packages multiply γ by powers
    of m and d, such as √max(1, m/d), which is left to the caller.

    With `nesterov` the polar factor is that of `βM/(1 − β^{t+2}) + (1 − β) G/(1 − β^{t+1})`, M the new one, in step
    t = 0, 1, …: the bias corrections of `optax.contrib.muon`, which `training.Muon` runs (THEORY.md T39). Jordan's own
    code and `torch.optim.Muon` have no corrections: G then weighs less, for β = 0.95 by 32% in the second step and by
    3% in the twentieth. Without `nesterov` a correction changes no polar factor.

    >>> import sgdtheory as st
    >>> st.Muon(nesterov=True, newton_schulz=5)  # as published, with optax's bias corrections
    Muon(momentum=0.95, nesterov=True, newton_schulz=5)

    Args:
        momentum: β, at least 0 and below 1.
        nesterov: whether to take the polar factor of the mean above instead of M's.
        newton_schulz: number of steps of the published iteration, which ends with singular values between about 0.7
            and 1.2 where they were not tiny; 0: the polar factor itself, whose singular values are 1, and 0 where M's
            are rounding errors.

    Raises:
        ValueError: an argument out of range.
    """

    momentum: Annotated[float, Parameter("momentum β.", Slider("β, momentum", 0.0, 0.99, 0.01, 0.95))] = 0.95
    nesterov: Annotated[
        bool,
        Parameter(
            "whether it looks at the momentum of the next step.",
            choice=Choice("Nesterov's momentum", ("no", "yes"), (False, True)),
        ),
    ] = False
    newton_schulz: Annotated[
        int,
        Parameter(
            "steps of the published iteration for the polar factor; 0: the factor itself.",
            Slider("Newton-Schulz steps (0: exact)", 0, 10, 1, 0),
        ),
    ] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.nesterov, bool):
            raise ValueError(f"nesterov must be True or False, got {self.nesterov!r}")
        object.__setattr__(self, "newton_schulz", whole_number("newton_schulz", self.newton_schulz, 0))

    def direction(self, gradient: Any, kept: tuple[Any, ...], number: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return polar(M), or with Nesterov's momentum the polar factor of the mean ahead."""
        averaged = self.averaged(gradient, kept)
        seen = self._looked_ahead(gradient, averaged, number) if self.nesterov else averaged
        matrix = seen.reshape(-1, seen.shape[-1])  # one output is a row
        found = newton_schulz(matrix, self.newton_schulz) if self.newton_schulz else polar(matrix)
        return found.reshape(seen.shape), (averaged,)

    def _looked_ahead(self, gradient: Any, averaged: Any, number: Any) -> Any:
        """Return `βM + (1 − β) w G`, `w = (1 − β^{t+2})/(1 − β^{t+1})`: the mean to a factor, which polar removes."""
        import jax.numpy as jnp

        steps = jnp.asarray(number + 1, gradient.dtype)
        weight = (1 - self.momentum ** (steps + 1)) / (1 - self.momentum**steps)
        return self.averaged(weight * gradient, (averaged,))


def polar(matrix: Any) -> Any:
    """UVᵀ of UΣVᵀ, without the directions whose singular value is 0 to rounding."""
    import jax.numpy as jnp
    from jax.lax import Precision

    left, size, right = jnp.linalg.svd(matrix, full_matrices=False)
    nothing = size[0] * max(matrix.shape) * jnp.finfo(matrix.dtype).eps  # as numpy.linalg.matrix_rank has it
    return jnp.matmul(jnp.where(size > nothing, left, 0), right, precision=Precision.HIGHEST)


def newton_schulz(matrix: Any, steps: int) -> Any:
    """`X ← aX + (bXXᵀ + c(XXᵀ)²) X` from X = M/‖M‖: an odd polynomial of each singular value."""
    import jax.numpy as jnp
    from jax.lax import Precision

    if matrix.shape[0] > matrix.shape[1]:
        return newton_schulz(matrix.T, steps).T
    a, b, c = QUINTIC
    length = jnp.sqrt((matrix**2).sum())
    found = matrix / jnp.where(length > 0, length, 1)
    for _ in range(steps):
        square = jnp.matmul(found, found.T, precision=Precision.HIGHEST)
        factor = b * square + c * jnp.matmul(square, square, precision=Precision.HIGHEST)
        found = a * found + jnp.matmul(factor, found, precision=Precision.HIGHEST)
    return found
