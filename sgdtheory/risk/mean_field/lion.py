"""Signs of a mixture of the newest gradient and a memory: Lion, and signSGD with momentum (THEORY.md T37, T54).

    c = β₁m + (1 − β₁) g,    m ← β₂m + (1 − β₂) g,    w ← w − γ sign(c),

so that `c = Σ_k p_k g_k` over the gradients k steps ago, `p_0 = 1 − β₁` and `p_k = β₁ (1 − β₂) β₂^{k−1}`. With β₁ = β₂
it is m after the step: signSGD with momentum. In units of √λ gradients are `G = x² u + x √(T'/B) z`, x = χ_B/√B the
length of the residuals of a batch. Steps are functions of c, whose law given u and m is

    N(β₁m + (1 − β₁) x² u,  (1 − β₁)² x² T'/B)    for the length x of the newest batch.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from sgdtheory.algorithms import Lion, SignSGD
from sgdtheory.risk.mean_field.chi import NODES, chi_rules
from sgdtheory.risk.mean_field.closure import MOST_SATURATION, Closure, shares
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import (
    MEAN,
    VARIANCE,
    Added,
    Field,
    Known,
    MemoryField,
    Move,
    followed_variance,
)
from sgdtheory.risk.mean_field.signs import SignField

FORGOTTEN = 1e-6  # Older gradients that weigh less than this share of the first one in m are left out of the slopes.
MOST_STEPS = 1000  # Later steps take the slope of this one: with as many gradients c is as good as Gaussian.
FREQUENCIES = np.exp(np.arange(-16.0, 9.0, 0.06))  # ω of the characteristic function: its integral is right to 1e-5.
# Signs that correlate less are left out: arcsin ρ − ρ is ρ³/6, and the sum then right to 1e-8.
LEAST_CORRELATION = 1e-4
DENSITY = 12  # Steps of the table per doubling: with half as many it is interpolated to 1e-3 instead of 3e-4.
# Relative errors of the pull over what u is of c over what is not and over s B r/T_i; of the scatter over the fourth
# moment of few samples, over the weight β₂^t of the first steps, and over the square of the mean sign. Larger factors
# state larger errors. They were fitted to signs with momentum, of which they cover all but 1 of 358, and not to Lion.
DOUBTS = 0.1, 0.05, 0.32, 0.1, 0.4
ERROR = 4e-3  # Relative, of every risk: two deterministic steps whose signs are certain are up to 1.5% off.
# B → nodes from there on of each of the two lengths in a correlation of signs: sums of them are right to 5e-3.
PAIR_NODES = {0.0: 12, 4.0: 6, 16.0: 3}


def field_of_signs(method: SignSGD) -> Field:
    """Return the field of signSGD, which with momentum is that of Lion with β₁ = β₂."""
    return LionField(method.momentum, method.momentum) if method.momentum else SignField()


def field_of_lion(method: Lion) -> Field:
    """Return the field of Lion, which without β₁ is signSGD whatever it remembers."""
    return LionField(method.beta1, method.beta2) if method.beta1 else SignField()


class Mixture(NamedTuple):
    """The weights p_0, p_1, … in c of the newest gradient and of those before it."""

    beta1: float
    beta2: float

    @property
    def newest(self) -> float:
        """Return p_0."""
        return 1 - self.beta1

    @property
    def is_memory(self) -> bool:
        """Return whether c is m after the step, in which the newest gradient is one of many."""
        return self.beta1 == self.beta2

    def weights(self, size: int) -> np.ndarray:
        """Return p_0, p_1, …, (size,)."""
        return np.append(self.newest, self.beta1 * (1 - self.beta2) * self.beta2 ** np.arange(size - 1.0))

    def older(self, power: int, number: np.ndarray) -> np.ndarray:
        """Return Σ_{1 ≤ k ≤ t} p_k^power at the steps t."""
        first = self.beta1 * (1 - self.beta2)
        return first**power * (1 - self.beta2 ** (power * number)) / (1 - self.beta2**power)


def sign_gain(mixture: Mixture, number: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return the exact slope of E sign(c) at u = 0 over the closure's, (P,), at steps from 0 on; u the same in all.

    The characteristic function of c is `Π_k (1 + ω²p_k²/B)^{−B/2}` in units of the gradient's noise, and

        ∂E sign(c)/∂u = (2/π) ∫_0^∞ Σ_k p_k (1 + ω² p_k²/B)^{−1} Π_j (1 + ω² p_j²/B)^{−B/2} dω.

    The closure takes older gradients for Gaussian: `√(2/π) E_x (p_0x² + Σ_k p_k)/√(p_0²x² + Σ_k p_k²)`.
    """
    tables = [_gains(mixture, size) for size in batch.tolist()]
    rows = np.minimum(number, tables[0].size - 1)
    return np.array([np.interp(row, np.arange(table.size), table) for row, table in zip(rows, tables, strict=True)])


@lru_cache(maxsize=1024)
def _gains(mixture: Mixture, batch: float) -> np.ndarray:
    """Return `sign_gain` after 1, 2, … steps at B."""
    longest = np.ceil(np.log(FORGOTTEN) / np.log(mixture.beta2)) if mixture.beta2 else 0.0
    weights = mixture.weights(int(np.clip(longest, 2, MOST_STEPS)))[:, None] / mixture.newest
    squares = (FREQUENCIES * weights) ** 2 / batch
    product = np.exp(-batch / 2 * np.cumsum(np.log1p(squares), axis=0))
    slopes = np.cumsum(weights / (1 + squares), axis=0) * FREQUENCIES * product
    exact = 2 / np.pi * np.log(FREQUENCIES[1] / FREQUENCIES[0]) * slopes.sum(axis=1)
    lengths, shares = (each[0] for each in newest_lengths(mixture, np.array([batch])))
    weighed = np.cumsum(weights, axis=0) + lengths**2 - 1
    scattered = np.cumsum(weights**2, axis=0) + lengths**2 - 1
    return exact / (np.sqrt(2 / np.pi) * (weighed / np.sqrt(scattered)) @ shares)


def newest_lengths(
    mixture: Mixture, batch: np.ndarray, nodes: dict[float, int] = NODES
) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights (P, M) of x in the newest gradient: 1 where that is one of many in a memory."""
    if mixture.is_memory:
        return np.ones((batch.size, 1)), np.ones((batch.size, 1))
    rule = chi_rules(batch, nodes)
    return rule.node / np.sqrt(batch)[:, None], rule.weight


def correlated(mixture: Mixture, number: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return how many times more the rest of a sign scatters u at steps from 0 on than by itself, (P,).

    Given the lengths x, h steps before (s = t − h), and x' of the newest gradients, noise of c has the correlation

        ρ_h = (p_0 p_h x² + β₂^h O_s)/√((p_0² x² + O_s)(p_0² x'² + p_h² (x² − 1) + O_t)),

    O_t = Σ_{1 ≤ k ≤ t} p_k², and signs (2/π) arcsin ρ_h. With A_j = E x^j (p_0² x² + O)^{−½} the closure's c explains

        L_h = (2/π) (p_0 p_h A_2(s) + β₂^h O_s A_0(s)) A_0(t),    L_0 = (2/π) (p_0² A_2(t)² + O_t A_0(t)²),

    so that the rest scatters `1 + 2 Σ_{h ≤ t} (E (2/π) arcsin ρ_h − L_h)/(1 − L_0)` times as much: with lengths of 1,
    `1 + 2 Σ_h (arcsin ρ_h − ρ_h)/(π/2 − 1)`.
    """
    tables = [_correlated(mixture, size) for size in batch.tolist()]
    return np.array([np.interp(place, *table) for place, table in zip(number, tables, strict=True)])


@lru_cache(maxsize=1024)
def _correlated(mixture: Mixture, batch: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps of a table, some a doubling, and its values."""
    beta2 = mixture.beta2
    last = max(np.ceil(np.log(LEAST_CORRELATION) / np.log(beta2)), 2.0) if beta2 else 2.0
    steps = np.unique(np.append(0, np.round(np.geomspace(1, last, int(DENSITY * np.log2(last)) + 2))))
    lengths, shares = (each[0] for each in newest_lengths(mixture, np.array([batch]), PAIR_NODES))
    squares = lengths**2
    every = np.arange(last + 1)
    older = mixture.older(2, every)
    spread = mixture.newest**2 * squares + older[:, None]  # (steps, lengths)
    once, twice = ((squares**power / np.sqrt(spread)) @ shares for power in (0, 1))
    table = np.ones(steps.size)
    for row, step in enumerate(steps.astype(int)):
        weights = mixture.weights(step + 1)[1:]
        before = step - np.arange(1, step + 1)
        at_lag = mixture.newest * weights
        kept = beta2 ** np.arange(1.0, step + 1) * older[before]
        both = at_lag[:, None] * squares + kept[:, None]
        again = (weights**2)[:, None] * (squares - 1)  # in c the earlier gradient has the length that it had
        rho = (both / np.sqrt(spread[before]))[..., None] / np.sqrt(spread[step] + again[..., None])
        signs = np.einsum("hxy,x,y->", np.arcsin(np.minimum(rho, 1.0)), shares, shares)
        followed = ((at_lag * twice[before] + kept * once[before]) * once[step]).sum()
        own = mixture.newest**2 * twice[step] ** 2 + older[step] * once[step] ** 2
        table[row] += 2 * (signs - followed) / (np.pi / 2 - own)
    return steps, table


def fourth_moment(mixture: Mixture, number: np.ndarray) -> np.ndarray:
    """Return Σ p_k⁴/(Σ p_k²)² at the steps t, without p_0 in the first sum where its length is not averaged over."""
    first = mixture.newest**4 if mixture.is_memory else 0.0
    return (first + mixture.older(4, number)) / (mixture.newest**2 + mixture.older(2, number)) ** 2


@dataclass(frozen=True)
class LionField(MemoryField):
    """`w ← w − γ sign(β₁m + (1 − β₁) g)`, coordinates = eigenvectors; m is Gaussian but for its slope at 0.

    That takes a sum over many samples: with a short memory and small batches it is not close.

    Attributes:
        beta1: β₁, the weight of m.
        momentum: β₂, the decay of m.
    """

    beta1: float
    momentum: float
    coupled_error = 0.1, 0.15

    @property
    def mixture(self) -> Mixture:
        """Return the weights of c."""
        return Mixture(self.beta1, self.momentum)

    def error(self, steps: float, batch: float) -> float:
        """The slope at 0 is exact, not the law of m: even one direction is off by some 0.5% then."""
        return ERROR

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return `sign_gain` and `correlated`, (P, 1) each, and the lengths of the newest gradient."""
        mixture = self.mixture
        gain, scatter = sign_gain(mixture, number, batch), correlated(mixture, number, batch)
        return gain[:, None], scatter[:, None], *newest_lengths(mixture, batch)

    def added(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Added:
        """`Var(G | u) = (T' + 2 E (u − ū)²)/B`, T' = T − E u² and ū the mean of u over the memory of m.

        The length x of a batch's residuals multiplies u in G, which for u = ū changes no sign. With `s = 1 − β₂^t`, the
        sum of m's weights, `E ū = E m/s`, and of a replica's u the share Cov(u, m)/(s Var u) follows ū.
        """
        learns = ensemble.root > 0
        remembered = np.maximum(1 - self.momentum**known.number, TINY)
        late = values[MEAN] - values[2] / remembered
        follows = np.clip(values[3] / np.maximum(remembered * values[VARIANCE], TINY), 0.0, 1.0)
        own = np.where(learns, values[MEAN] ** 2 + values[VARIANCE], 0.0)
        apart = np.minimum(late**2, own) + (1 - follows) * values[VARIANCE]
        apart = np.where(known.number > 0, apart, 0.0)
        noise = (1 - self.momentum) ** 2 * np.maximum(loss - own + 2 * apart, TINY) / known.batch
        return Added((1 - self.momentum) * learns, noise, kept=values[5:])

    def move(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, added: Added, known: Known) -> Move:
        """`E sign(c) = E_x E_y erf(y E[c | x]/√(2 Var[c | x]))`; signs of later steps correlate by the arcsine law.

        y is the length of what m has seen, E y² = 1. Its mean is the exact slope at 0 over that of a Gaussian m; two
        values, one on either side of it, have that mean. By Stein, given x, sign(c) follows m by the slope of its mean,
        and G by x² times that.
        """
        gain, together, lengths, shares = known.table
        apart = np.sqrt(np.maximum(1 - gain**2, 0.0))
        parts = self._parts(ensemble, values, loss, added, known)
        sign = np.zeros(values.shape[1:])
        by_memory, by_gradient = np.zeros_like(sign), np.zeros_like(sign)
        for length, share in zip(lengths.T[..., None], shares.T[..., None], strict=True):
            square = length**2
            mean, variance = parts.given(square)
            width = 1 / np.sqrt(2 * np.maximum(variance, TINY))
            slope = np.zeros_like(sign)
            for node in (gain - apart, gain + apart):
                scaled = node * width
                place = scaled * mean
                sign += share / 2 * special.erf(place)
                slope += share / np.sqrt(np.pi) * scaled * np.exp(-(place**2))
            by_memory += slope
            by_gradient += square * slope
        moved = known.rate * np.sqrt(ensemble.spread)
        older, newest = self.beta1 * by_memory, self._newest * by_gradient
        rest = np.maximum(1 - sign**2 - followed_variance(values, added, older, newest), 0.0)
        return Move(moved * sign, moved * older, moved * newest, moved**2 * together * rest)

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Wrong where m is far from Gaussian, and where u moves much within its memory.

        m is not Gaussian where it sums few samples, by the excess of its fourth moment Σ p⁴/(B (Σ p²)²), and where
        fluctuations of u are much of it. The arcsine law is about signs whose mean is 0: where the mean of c crosses 0,
        each replica's sign changes once, at a time of its own.
        """
        seen = shares(ensemble, values, loss, known.batch)
        parts = self._parts(ensemble, values, loss, self.added(ensemble, values, loss, known), known)
        mean, kept = parts.given(1.0)
        kept = np.maximum(kept, TINY)
        variance = np.maximum(values[VARIANCE], 0.0)
        spread = np.where(ensemble.root > 0, variance / (variance + kept), 0.0)
        over = spread * np.minimum(variance / kept, MOST_SATURATION)
        early = self.momentum ** (known.number + 1) * (known.number > 0)  # the first step is exact
        peaked = fourth_moment(self.mixture, known.number) / known.batch
        past, saturated, few, first, crossing = DOUBTS
        pull = past * over + saturated * seen.spread * seen.over
        scatter = few * peaked + first * early + crossing * special.erf(mean / np.sqrt(2 * kept)) ** 2
        own = np.where(ensemble.root > 0, np.minimum(variance / kept, 1.0), 0.0)
        return Closure(pull, scatter, np.zeros_like(pull), own / 2)

    @property
    def _newest(self) -> float:
        """Return the weight in c of what the gradient adds to m."""
        return (1 - self.beta1) / (1 - self.momentum)

    def _parts(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, added: Added, known: Known) -> "_Parts":
        """Return what c is made of.

        Where its length is averaged over, all that the newest gradient has besides is the noise of others, T'/B.
        """
        _, variance, mean, shared, own = values[:5]
        noise = added.noise
        if not self.mixture.is_memory:
            held = np.where(ensemble.root > 0, values[MEAN] ** 2 + variance, 0.0)
            noise = (1 - self.momentum) ** 2 * np.maximum(loss - held, TINY) / known.batch
        gain = self._newest * added.gain
        return _Parts(
            self.beta1 * mean,
            gain * values[MEAN],
            self.beta1**2 * own,
            2 * self.beta1 * gain * shared + self._newest**2 * noise,
            gain**2 * variance,
        )


class _Parts(NamedTuple):
    """Mean and variance of c as polynomials in x², the squared length of the newest gradient: (P, K) coefficients."""

    mean: np.ndarray
    mean_by_square: np.ndarray
    variance: np.ndarray
    variance_by_square: np.ndarray
    variance_by_fourth: np.ndarray

    def given(self, square: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance at x²."""
        mean = self.mean + square * self.mean_by_square
        return mean, self.variance + square * (self.variance_by_square + square * self.variance_by_fourth)
