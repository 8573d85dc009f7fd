"""Workers that take local steps and communicate once per round: local SGD, DiLoCo (THEORY.md T40)."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from sgdtheory._common.arguments import single_number, whole_number
from sgdtheory.algorithms.linear_method import LinearMethod, StepMatrices
from sgdtheory.algorithms.momentum import checked_momentum
from sgdtheory.algorithms.parameter import Parameter, Slider

# The vectors of a direction are the common weights m, the displacement Δ = m − v̄ of the workers' mean, the outer buffer
# p, and the mean u of the inner buffers. Each of the K − 1 contrasts between workers has weights d and a buffer e:
# `d = Σ_k a_k v_k/√K` with Σ a = 0 and Σ a² = 1, while a = 1/√K gives v̄. If the outer step takes the workers' mean
# (η = 1, μ = 0), the first vector is v̄ itself and there is no Δ: a round may shrink v̄ by any factor, and m − Δ would
# then consist of the rounding errors of m.
M, DELTA, P, U, D, E = range(6)

MOST = 1e15  # There are at most this many workers or local steps: whole numbers are exact in float64 up to 9e15.


@dataclass(frozen=True)
class LocalSGD(LinearMethod):
    """K workers take H local steps each from common weights m, followed by an outer Nesterov step on their mean.

        v_k ← v_k − γ g_k,  H times from v_k = m;    Δ = m − (1/K) Σ_k v_k,
        p ← μp + Δ,    m ← m − η (Δ + μp),    v_k ← m

    With η = 1 and μ = 0, m becomes the workers' mean: this is local SGD (Stich 2019). With other values it is DiLoCo
    (arXiv 2311.08105) with plain inner steps. The outer step is PyTorch's `SGD(lr=η, momentum=μ, nesterov=True)`.
    Workers may have momentum β, `b_k ← βb_k + g_k, v_k ← v_k − γ b_k`, and keep their buffers b_k when they
    communicate, as in DiLoCo.

    `batch_size`, also as B*, is that of one worker, and `num_samples` counts the samples of all workers, K B per step.
    The iterate is the mean v̄ of the workers' weights, which equals the common weights after each round; averages are
    of v̄ before every step. A run that ends within a round returns v̄ without an outer step. Schedules apply to the
    inner learning rate. K = H = 1 with the default outer step is SGD; K workers with H = 1 are SGD with batches of K B.

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
        ValueError: if an argument is out of range.
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
        """Number K of workers."""
        return self.num_workers

    @property
    def period(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number H of local steps in a round."""
        return self.local_steps

    @property
    def step_dependence(self) -> Literal["none", "period"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return "period" if every H-th step is followed by an outer step that changes the weights, else "none"."""
        alike = self.local_steps == 1 or self.takes_mean and self.num_workers == 1
        return "none" if alike else "period"

    @property
    def takes_mean(self) -> bool:
        """Return whether the outer step takes the workers' mean, η = 1 and μ = 0."""
        return self.outer_learning_rate == 1 and self.outer_momentum == 0

    @property
    def vectors(self) -> int:
        """Number of vectors of a simulation: each worker's weights and buffer, the common weights, the outer buffer."""
        return 2 * self.num_workers + 2

    @property
    def gain(self) -> float:
        """Final displacement by one unit gradient relative to SGD's, max(η/(1 − μ), 1)/(1 − β)."""
        return max(self.outer_learning_rate / (1 - self.outer_momentum), 1.0) / (1 - self.inner_momentum)

    @property
    def kept(self) -> tuple[int, ...]:
        """Indices of the vectors that are not always 0 when a step begins."""
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
        """Indices of Δ and d in the state, which are 0 when a round begins."""
        return tuple(index for index, vector in enumerate(self.kept) if vector in (DELTA, D))

    @property
    def start(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Initial state, in which all weights are w_0."""
        return tuple(float(vector == M) for vector in self.kept)

    @property
    def output(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Weights of the iterate v̄ in the state: m − Δ, or the first vector itself."""
        return tuple({M: 1.0, DELTA: -1.0}.get(vector, 0.0) for vector in self.kept)

    def matrices(self, rate: np.ndarray, step: np.ndarray) -> StepMatrices:
        """Return I − A (T, k, k), and b and c (T, k, r), of T steps; r = 3 where workers differ, else r is absent.

        If every worker's gradient has noise of variance s², their mean and every contrast over √K have noise of
        variance s²/K, and all are uncorrelated. A worker's risk follows from `E v_k² = E v̄² + (K − 1) E d²`. Two of
        the gradients are therefore those of the mean and of one contrast. The third moves no weights, and only adds the
        risk of the K − 2 other contrasts to the noise.
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
        synchronises = (step + 1) % self.local_steps == 0
        outer = np.where(synchronises[:, None, None], self._outer(), 0.0)
        decay = outer + decay - outer @ decay
        b = b - outer @ b
        kept = list(self.kept)
        decay = decay[:, kept][:, :, kept]
        if D not in kept:
            return StepMatrices(decay, b[:, kept, 0], c[:, kept, 0])
        return StepMatrices(decay, b[:, kept], c[:, kept])

    def _outer(self) -> np.ndarray:
        """Return I minus the (6, 6) matrix of the outer step, after which all workers start from m."""
        eta = self.outer_learning_rate
        mu = self.outer_momentum
        change = np.zeros((6, 6))
        if self.takes_mean:
            change[D, D] = 1.0
            return change
        change[M, [DELTA, P]] = eta * (1 + mu), eta * mu**2
        change[P, [P, DELTA]] = 1 - mu, -1.0
        change[DELTA, DELTA] = change[D, D] = 1.0
        return change
