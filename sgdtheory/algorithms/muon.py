"""Muon: steps whose singular values are all equal (Jordan et al. 2024)."""

from dataclasses import dataclass
from typing import Annotated, Any

from sgdtheory._common.arguments import whole_number
from sgdtheory.algorithms.normalized import WithMomentum
from sgdtheory.algorithms.parameter import Choice, Parameter, Slider

# These coefficients (kellerjordan.github.io/posts/muon) make the iteration as steep at 0 as possible while it ends near
# 1.
QUINTIC = 3.4445, -4.7750, 2.0315


@dataclass(frozen=True)
class Muon(WithMomentum):
    """Muon: `M ← βM + (1 − β) G, W ← W − γ polar(M)`, polar(UΣVᵀ) = UVᵀ (Jordan et al. 2024).

    G and M are the m × d matrices of `simulate(…, outputs=m)`. With one output polar(M) is M/‖M‖, as in
    `NormalizedSGD`. The method is equivariant to rotations of coordinates and outputs, so that it has no `basis`.
    Packages multiply γ by powers of m and d, such as √max(1, m/d), which is left to the caller.

    With `nesterov` the step takes the polar factor of `βM/(1 − β^{t+2}) + (1 − β) G/(1 − β^{t+1})`, with the new M, in
    step t = 0, 1, …. These are the bias corrections of `optax.contrib.muon`, which `training.Muon` uses (THEORY.md
    T39). Jordan's own code and `torch.optim.Muon` have no corrections; there the weight of G is smaller, for β = 0.95
    by 32% in the second step and by 3% in the twentieth. Without `nesterov` a correction does not change the polar
    factor.

    >>> import sgdtheory as st
    >>> st.Muon(nesterov=True, newton_schulz=5)  # as published, with optax's bias corrections
    Muon(momentum=0.95, nesterov=True, newton_schulz=5)

    Args:
        momentum: β, at least 0 and below 1.
        nesterov: whether to take the polar factor of the mean above instead of M's.
        newton_schulz: number of steps of the published iteration, after which singular values that were not tiny are
            between about 0.7 and 1.2; 0: the polar factor itself, whose singular values are 1, or 0 where those of M
            are rounding errors.

    Raises:
        ValueError: if an argument is out of range.
    """

    momentum: Annotated[float, Parameter("momentum β.", Slider("β, momentum", 0.0, 0.99, 0.01, 0.95))] = 0.95
    nesterov: Annotated[
        bool,
        Parameter(
            "whether to use the momentum of the next step (Nesterov).",
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
        mean = self._looked_ahead(gradient, averaged, number) if self.nesterov else averaged
        matrix = mean.reshape(-1, mean.shape[-1])  # A single output is one row.
        factor = newton_schulz(matrix, self.newton_schulz) if self.newton_schulz else polar(matrix)
        return factor.reshape(mean.shape), (averaged,)

    def _looked_ahead(self, gradient: Any, averaged: Any, number: Any) -> Any:
        """Return `βM + (1 − β) w G`, `w = (1 − β^{t+2})/(1 − β^{t+1})`: the mean to a factor, which polar removes."""
        import jax.numpy as jnp

        steps = jnp.asarray(number + 1, gradient.dtype)
        weight = (1 - self.momentum ** (steps + 1)) / (1 - self.momentum**steps)
        return self.averaged(weight * gradient, (averaged,))


def polar(matrix: Any) -> Any:
    """Compute UVᵀ of UΣVᵀ, without the directions whose singular value is 0 to rounding."""
    import jax.numpy as jnp
    from jax.lax import Precision

    left, size, right = jnp.linalg.svd(matrix, full_matrices=False)
    rounding = size[0] * max(matrix.shape) * jnp.finfo(matrix.dtype).eps  # The tolerance of numpy.linalg.matrix_rank.
    return jnp.matmul(jnp.where(size > rounding, left, 0), right, precision=Precision.HIGHEST)


def newton_schulz(matrix: Any, steps: int) -> Any:
    """Iterate `X ← aX + (bXXᵀ + c(XXᵀ)²) X` from X = M/‖M‖, an odd polynomial of each singular value."""
    import jax.numpy as jnp
    from jax.lax import Precision

    if matrix.shape[0] > matrix.shape[1]:
        return newton_schulz(matrix.T, steps).T
    a, b, c = QUINTIC
    length = jnp.sqrt((matrix**2).sum())
    x = matrix / jnp.where(length > 0, length, 1)
    for _ in range(steps):
        square = jnp.matmul(x, x.T, precision=Precision.HIGHEST)
        factor = b * square + c * jnp.matmul(square, square, precision=Precision.HIGHEST)
        x = a * x + jnp.matmul(factor, x, precision=Precision.HIGHEST)
    return x
