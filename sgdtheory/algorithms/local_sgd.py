"""Workers that take steps of their own and talk seldom: local SGD, DiLoCo (THEORY.md T40)."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from sgdtheory._common.arguments import single_number, whole_number
from sgdtheory.algorithms.linear_method import LinearMethod, StepMatrices
from sgdtheory.algorithms.momentum import checked_momentum
from sgdtheory.algorithms.parameter import Parameter, Slider

# The vectors of a direction: the common weights m, what the workers' mean has moved from them Δ = m − v̄, the outer
# buffer p, the mean u of the inner buffers; and of what K − 1 contrasts of the workers have, over √K, weights d and
# buffer e: `d = Σ_k a_k v_k/√K`, Σ a = 0, Σ a² = 1, as v̄ is it with a = 1/√K. Where the outer step takes the workers'
# mean (η = 1, μ = 0) the first vector is v̄ itself and there is no Δ: a round may shrink v̄ by any factor, and m − Δ
# would leave the rounding of m.
M, DELTA, P, U, D, E = range(6)

MOST = 1e15  # workers or local steps: whole numbers of floats


@dataclass(frozen=True)
class LocalSGD(LinearMethod):
    """K workers take H steps each from common weights m; then follows an outer step of Nesterov's on their mean.

        v_k ← v_k − γ g_k,  H times from v_k = m;    Δ = m − (1/K) Σ_k v_k,
        p ← μp + Δ,    m ← m − η (Δ + μp),    v_k ← m

    Local SGD (Stich 2019) with η = 1, μ = 0, where m becomes the workers' mean; DiLoCo (arXiv 2311.08105) with plain
    inner steps. The outer step is PyTorch's `SGD(lr=η, momentum=μ, nesterov=True)`. Workers may have momentum
    β, `b_k ← βb_k + g_k, v_k ← v_k − γ b_k`, and keep their buffers b_k when they talk, as DiLoCo's do.

    `batch_size` is one worker's, in B* as well, and `num_samples` what all workers see, K B a step. The iterate is the
    mean of the workers' weights v̄, the common weights after each round; averages are of v̄ before every step. A run
    that ends within a round returns v̄ there: its last round is cut short and has no outer step. Schedules are the
    inner learning rate's. One worker with K = H = 1 is SGD; K workers with H = 1 are SGD with batches of K B.

    >>> import sgdtheory as st
    >>> diloco = st.Algorithm(st.LocalSGD(8, 30, outer_learning_rate=0.7, outer_momentum=0.6), average=st.LastIterate())
    >>> setting = dict(batch_size=4, learning_rate=0.1, num_samples=960_000)  # 1000 rounds
    >>> print(f"{st.excess_risk(st.PowerLaw(2.0, 3.0), **setting, algorithm=diloco).total:.4f}")
    0.0039

    Args:
        num_workers: K ≥ 1, a whole number.
        local_steps: H ≥ 1 steps between two communications, a whole number.
        outer_learning_rate: η > 0.
        outer_momentum: μ, at least 0 and below 1.
        inner_momentum: β of each worker, at least 0 and below 1.

    Raises:
        ValueError: an argument out of range.
    """

    num_workers: Annotated[int, Parameter("number of workers K.", Slider("K, workers", 1, 64, 1, 4))]
    local_steps: Annotated[int, Parameter("steps H of a worker in a round.", Slider("H, local steps", 1, 100, 1, 10))]
    outer_learning_rate: Annotated[
        float, Parameter("learning rate η of the outer step.", Slider("η, outer rate", 0.1, 2.0, 0.05, 1.0))
    ] = 1.0
    outer_momentum: Annotated[
        float, Parameter("Nesterov's momentum μ of the outer step.", Slider("μ, outer momentum", 0.0, 0.95, 0.05, 0.0))
    ] = 0.0
    inner_momentum: Annotated[
        float, Parameter("momentum β of each worker.", Slider("β, inner momentum", 0.0, 0.95, 0.05, 0.0))
    ] = 0.0

    def __post_init__(self) -> None:
        for name in ("num_workers", "local_steps"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))
            if getattr(self, name) > MOST:
                raise ValueError(f"{name} must be at most {MOST:g}, got {getattr(self, name):.3g}")
        eta = single_number("outer_learning_rate", self.outer_learning_rate)
        if not 0 < eta < math.inf:
            raise ValueError(f"outer_learning_rate must be positive and finite, got {eta:g}; 1 takes the workers' mean")
        object.__setattr__(self, "outer_learning_rate", eta)
        for name in ("outer_momentum", "inner_momentum"):
            object.__setattr__(self, name, checked_momentum(name, getattr(self, name)))

    @property
    def workers(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """K."""
        return self.num_workers

    @property
    def period(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """H."""
        return self.local_steps

    @property
    def step_dependence(self) -> Literal["none", "period"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Every H-th step is followed by an outer one, which leaves a single worker alone where η = 1 and μ = 0."""
        alike = self.local_steps == 1 or self.takes_mean and self.num_workers == 1
        return "none" if alike else "period"

    @property
    def takes_mean(self) -> bool:
        """Whether the outer step takes the workers' mean, η = 1 and μ = 0."""
        return self.outer_learning_rate == 1 and self.outer_momentum == 0

    @property
    def vectors(self) -> int:
        """Of each worker weights and buffer, and the common weights and the outer buffer: what a simulation keeps."""
        return 2 * self.num_workers + 2

    @property
    def gain(self) -> float:
        """η/((1 − μ)(1 − β)): how much farther than SGD the weights go in the end with gradient 1, at least 1."""
        return max(self.outer_learning_rate / (1 - self.outer_momentum), 1.0) / (1 - self.inner_momentum)

    @property
    def kept(self) -> tuple[int, ...]:
        """Which of the six vectors are not always 0 when a step begins."""
        apart = self.local_steps > 1
        wanted = {
            M: True,
            DELTA: apart and not self.takes_mean,
            P: self.outer_momentum > 0,
            U: self.inner_momentum > 0,
            D: apart and self.num_workers > 1,
            E: apart and self.num_workers > 1 and self.inner_momentum > 0,
        }
        return tuple(vector for vector, counts in wanted.items() if counts)

    @property
    def cleared(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Places of Δ and d, which are 0 when a round begins."""
        return tuple(place for place, vector in enumerate(self.kept) if vector in (DELTA, D))

    @property
    def start(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All weights at w_0."""
        return tuple(float(vector == M) for vector in self.kept)

    @property
    def output(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """v̄: m − Δ, or the first vector itself."""
        return tuple({M: 1.0, DELTA: -1.0}.get(vector, 0.0) for vector in self.kept)

    def matrices(self, rate: np.ndarray, step: np.ndarray) -> StepMatrices:
        """Of T steps: I − A (T, k, k), and b and c (T, k, r), r = 3 where workers differ.

        Gradients of independent workers, noise of variance s² in each, have s²/K in their mean and in every contrast
        over √K, all uncorrelated, and a worker's risk is that of `E v_k² = E v̄² + (K − 1) E d²`. So the mean and one
        contrast are two noises, and the third moves nothing: it sees the K − 2 other contrasts.
        """
        beta = self.inner_momentum
        moved, sign = (M, 1.0) if self.takes_mean else (DELTA, -1.0)
        decay = np.zeros((rate.size, 6, 6))
        decay[:, moved, U] = sign * rate * beta
        decay[:, D, E] = rate * beta
        decay[:, U, U] = decay[:, E, E] = 1 - beta
        b = np.zeros((rate.size, 6, 3))
        b[:, moved, 0] = sign * rate
        b[:, D, 1] = rate
        b[:, U, 0] = b[:, E, 1] = -1.0
        c = np.zeros((rate.size, 6, 3))
        c[:, [M, DELTA], 0] = 1.0, -1.0
        c[:, D, 1:] = 1.0, math.sqrt(max(self.num_workers - 2, 0))
        talks = (step + 1) % self.local_steps == 0
        outer = np.where(talks[:, None, None], self._outer(), 0.0)  # I less the outer step
        decay = outer + decay - outer @ decay
        b = b - outer @ b
        kept = list(self.kept)
        decay = decay[:, kept][:, :, kept]
        if D not in kept:
            return StepMatrices(decay, b[:, kept, 0], c[:, kept, 0])
        return StepMatrices(decay, b[:, kept], c[:, kept])

    def _outer(self) -> np.ndarray:
        """(6, 6) I less the outer step and the new start of the workers from m."""
        eta = self.outer_learning_rate
        mu = self.outer_momentum
        found = np.zeros((6, 6))
        if self.takes_mean:
            found[D, D] = 1.0
            return found
        found[M, [DELTA, P]] = eta * (1 + mu), eta * mu**2
        found[P, [P, DELTA]] = 1 - mu, -1.0
        found[DELTA, DELTA] = found[D, D] = 1.0
        return found
