"""Signs of a mixture of the newest gradient and a memory: Lion, and signSGD with momentum (THEORY.md T37, T54).

    c = β₁m + (1 − β₁) g,    m ← β₂m + (1 − β₂) g,    w ← w − γ sign(c),

so that `c = Σ_k p_k g_k` over the gradients k steps ago, `p_0 = 1 − β₁` and `p_k = β₁ (1 − β₂) β₂^{k−1}`. With β₁ = β₂
it is m after the step: signSGD with momentum. In units of √λ gradients are `G = x² u + x √(T'/B) z`, x = χ_B/√B the
length of the residuals of a batch. Steps are functions of c, whose law given u and m is

    N(β₁m + (1 − β₁) x² u,  (1 − β₁)² x² T'/B)    for the length x of the newest batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from sgdtheory.algorithms import Lion, SignSGD
from sgdtheory.risk.mean_field.chi import chi_rules
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
from sgdtheory.risk.mean_field.signs import GaussianAtNodes, SignField, mean_signs

# Gradients that weigh less than this share of the newest one in m are left out of the slopes at u = 0. With 1e-4 risks
# change by 5e-6, with 1e-8 by 5e-8.
FORGOTTEN = 1e-6
# The slopes of later steps are those of this step, when this many gradients make c Gaussian. Half as many steps change
# risks by 7e-6, twice as many by 4e-9.
LATEST_SLOPE = 1000
# The integral over frequencies ω of the characteristic function is a trapezoidal sum over log ω on this grid. Twice the
# spacing changes risks by 4e-8. A grid from −12 to 7 changes them by 2e-5.
FREQUENCIES = np.exp(np.arange(-16.0, 9.0, 0.06))
# Lags h with β₂^h below this are left out of the scatter. Since arcsin ρ − ρ is about ρ³/6, the sum is right to 1e-8. A
# tenth or ten times as much changes risks by 4e-6, since the tabulated steps move.
LEAST_CORRELATION = 1e-4
# The scatter is tabulated at this many steps a doubling and interpolated to 3e-4. Half as many change risks by 1e-4,
# twice as many by 3e-5.
STEPS_PER_DOUBLING = 12
# In longer runs than this times the memory 1/(1 − β₂), minima over γ lie next to the γ of arrival; in shorter ones they
# may be anywhere. With 400 steps for every memory tuned risks were up to 1.7 times too high (β₂ = 0.8, 214 steps).
LONG_RUNS = 4.0
# Every risk has this relative error. Two deterministic steps whose signs are certain are up to 1.5% off, and a single
# direction with a short memory is off by about 0.5%.
ERROR = 4e-3


@dataclass(frozen=True)
class MixtureErrorFactors:
    """Factors of the stated error of signs with a memory. Larger factors state larger errors.

    They are fitted to simulations of signSGD with momentum, of which the stated errors cover all but 1 of 358. Lion
    takes the same factors.

    Attributes:
        memory: error of the pull over the share of u in the variance of c times its ratio to the rest.
        saturation: error of the pull over s B r/T_i.
        peakedness: error of the scatter over the excess kurtosis of a memory of few samples.
        beginning: error of the scatter over the weight β₂^t of the start.
        crossing: error of the scatter over the square of the mean sign.
    """

    memory: float = 0.1
    saturation: float = 0.05
    peakedness: float = 0.32
    beginning: float = 0.1
    crossing: float = 0.4


def field_of_signs(method: SignSGD) -> Field:
    """Return the field of signSGD, which with momentum is that of Lion with β₁ = β₂."""
    return LionField(method.momentum, method.momentum) if method.momentum else SignField()


def field_of_lion(method: Lion) -> Field:
    """Return the field of Lion, which without β₁ is signSGD whatever it remembers."""
    return LionField(method.beta1, method.beta2) if method.beta1 else SignField()


class Mixture(NamedTuple):
    """Weights p_0, p_1, … in c of the newest gradient and of the gradients before it.

    Attributes:
        beta1: β₁.
        beta2: β₂.
    """

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


def newest_lengths(mixture: Mixture, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights (P, M) of the length x of the newest gradient.

    If c is a memory, the newest gradient is one of many, and its length counts as 1.
    """
    if mixture.is_memory:
        return np.ones((batch.size, 1)), np.ones((batch.size, 1))
    rule = chi_rules(batch)
    return rule.node / np.sqrt(batch)[:, None], rule.weight


def by_batch_size(
    function: Callable[[float, np.ndarray], np.ndarray], number: np.ndarray, batch: np.ndarray
) -> np.ndarray:
    """Return a function of B and of the numbers of the steps at B, (P,): one call for each batch size."""
    found = np.empty(number.size)
    for size in np.unique(batch):
        found[batch == size] = function(float(size), number[batch == size])
    return found


def sign_gain(mixture: Mixture, number: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return the exact slope of E sign(c) at u = 0 over the closure's slope, (P,), at steps from 0 on.

    u is the same in all steps. The characteristic function of c is `Π_k (1 + ω²p_k²/B)^{−B/2}` in units of the
    gradient's noise, and

        ∂E sign(c)/∂u = (2/π) ∫_0^∞ Σ_k p_k (1 + ω² p_k²/B)^{−1} Π_j (1 + ω² p_j²/B)^{−B/2} dω.

    The closure takes older gradients for Gaussian: `√(2/π) E_x (p_0x² + Σ_k p_k)/√(p_0²x² + Σ_k p_k²)`.
    """

    def at(size: float, steps: np.ndarray) -> np.ndarray:
        table = _gain_table(mixture, size)
        return np.interp(steps, np.arange(table.size), table)

    return by_batch_size(at, number, batch)


@lru_cache(maxsize=1024)
def _gain_table(mixture: Mixture, batch: float) -> np.ndarray:
    """Return `sign_gain` after 1, 2, … steps at B."""
    longest = np.ceil(np.log(FORGOTTEN) / np.log(mixture.beta2)) if mixture.beta2 else 0.0
    weights = mixture.weights(int(np.clip(longest, 2, LATEST_SLOPE)))[:, None] / mixture.newest
    # The sums and products over gradients are cumulative: row t has the gradients of t + 1 steps.
    squares = (FREQUENCIES * weights) ** 2 / batch
    product = np.exp(-batch / 2 * np.cumsum(np.log1p(squares), axis=0))
    slopes = np.cumsum(weights / (1 + squares), axis=0) * FREQUENCIES * product
    exact = 2 / np.pi * np.log(FREQUENCIES[1] / FREQUENCIES[0]) * slopes.sum(axis=1)
    lengths, length_weights = (rule[0] for rule in newest_lengths(mixture, np.array([batch])))
    mean = np.cumsum(weights, axis=0) + lengths**2 - 1
    variance = np.cumsum(weights**2, axis=0) + lengths**2 - 1
    return exact / (np.sqrt(2 / np.pi) * (mean / np.sqrt(variance)) @ length_weights)


def correlated(mixture: Mixture, number: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return by what factor correlations in time increase the scatter of a sign's rest, (P,), at steps from 0 on.

    The rest is the part of a sign that does not follow c linearly. Given the lengths x, h steps before (s = t − h), and
    x' of the newest gradients, noise of c has the correlation

        ρ_h = (p_0 p_h x² + β₂^h O_s)/√((p_0² x² + O_s)(p_0² x'² + p_h² (x² − 1) + O_t)),

    O_t = Σ_{1 ≤ k ≤ t} p_k², and signs (2/π) arcsin ρ_h. With A_j = E x^j (p_0² x² + O)^{−½} the closure's c explains

        L_h = (2/π) (p_0 p_h A_2(s) + β₂^h O_s A_0(s)) A_0(t),    L_0 = (2/π) (p_0² A_2(t)² + O_t A_0(t)²),

    so that the rest scatters `1 + 2 Σ_{h ≤ t} (E (2/π) arcsin ρ_h − L_h)/(1 − L_0)` times as much: with lengths of 1,
    `1 + 2 Σ_h (arcsin ρ_h − ρ_h)/(π/2 − 1)`.
    """
    return by_batch_size(lambda size, steps: np.interp(steps, *_correlated_table(mixture, size)), number, batch)


@lru_cache(maxsize=1024)
def _correlated_table(mixture: Mixture, batch: float) -> tuple[np.ndarray, np.ndarray]:
    """Return `correlated` at B as a table: steps, and the values there."""
    beta2 = mixture.beta2
    last = max(np.ceil(np.log(LEAST_CORRELATION) / np.log(beta2)), 2.0) if beta2 else 2.0
    steps = np.unique(np.append(0, np.round(np.geomspace(1, last, int(STEPS_PER_DOUBLING * np.log2(last)) + 2))))
    lengths, length_weights = (rule[0] for rule in newest_lengths(mixture, np.array([batch])))
    squares = lengths**2
    older = mixture.older(2, np.arange(last + 1))
    variance = mixture.newest**2 * squares + older[:, None]  # (steps, lengths)
    by_zeroth, by_second = ((squares**power / np.sqrt(variance)) @ length_weights for power in (0, 1))  # A_0 and A_2
    table = np.ones(steps.size)
    for row, step in enumerate(steps.astype(int)):
        weights = mixture.weights(step + 1)[1:]
        before = step - np.arange(1, step + 1)
        by_newest = mixture.newest * weights
        by_older = beta2 ** np.arange(1.0, step + 1) * older[before]
        covariance = by_newest[:, None] * squares + by_older[:, None]
        # In the later c the earlier gradient still has its own length x, which the variance O_t averages over.
        excess = (weights**2)[:, None] * (squares - 1)
        rho = (covariance / np.sqrt(variance[before]))[..., None] / np.sqrt(variance[step] + excess[..., None])
        arcsines = np.einsum("hxy,x,y->", np.arcsin(np.minimum(rho, 1.0)), length_weights, length_weights)
        explained = ((by_newest * by_second[before] + by_older * by_zeroth[before]) * by_zeroth[step]).sum()
        own = mixture.newest**2 * by_second[step] ** 2 + older[step] * by_zeroth[step] ** 2
        table[row] += 2 * (arcsines - explained) / (np.pi / 2 - own)
    return steps, table


def fourth_moment(mixture: Mixture, number: np.ndarray) -> np.ndarray:
    """Return Σ p_k⁴/(Σ p_k²)² at the steps t.

    The first sum leaves out p_0 if the length of the newest gradient is averaged over.
    """
    first = mixture.newest**4 if mixture.is_memory else 0.0
    return (first + mixture.older(4, number)) / (mixture.newest**2 + mixture.older(2, number)) ** 2


@dataclass(frozen=True)
class LionField(MemoryField):
    """Step of Lion, `w ← w − γ sign(β₁m + (1 − β₁) g)`, in coordinates that are the eigenvectors.

    m is taken for Gaussian, except for the slope of the mean sign at 0. That is right for sums over many samples, and
    wrong for short memories with small batches.

    Attributes:
        beta1: β₁, the weight of m.
        momentum: β₂, the decay of m.
    """

    beta1: float
    momentum: float
    coupled_error = 0.1, 0.15
    factors = MixtureErrorFactors()
    # With 1e-2 risks were off by up to 2e-3 (a = 2.5, b = 3.25, D = 1e6), which searches took for minima: B* took 1.4
    # times as long.
    rough_tail = 1e-3

    @property
    def few(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (a property in a field's place)
        """Return `LONG_RUNS` memories, and at least as many steps as without a memory."""
        return max(Field.few, LONG_RUNS * self.minima_memory)

    @property
    def minima_memory(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (a property in a field's place)
        """Return 1/(1 − β₂): without it tuned risks of a constant γ were up to 6.6 times too high."""
        return 1 / (1 - self.momentum)

    @property
    def mixture(self) -> Mixture:
        """Return the weights of c."""
        return Mixture(self.beta1, self.momentum)

    def error(self, steps: float, batch: float) -> float:
        """Return the relative error of every risk, which comes from the law of m away from u = 0."""
        return ERROR

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return `sign_gain` and `correlated`, (P, 1) each, and the lengths of the newest gradient."""
        mixture = self.mixture
        gain = sign_gain(mixture, number, batch)
        scatter = correlated(mixture, number, batch)
        return gain[:, None], scatter[:, None], *newest_lengths(mixture, batch)

    def added(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Added:
        """Return the gradient as it enters m, `Var(G | u) = (T' + 2 E (u − ū)²)/B`.

        T' = T − E u², and ū is the mean of u over the memory of m. The length x of a batch's residuals multiplies u in
        G, which for u = ū changes no sign. With `s = 1 − β₂^t`, the sum of m's weights, `E ū = E m/s`, and of a
        replica's u the share Cov(u, m)/(s Var u) follows ū.
        """
        xp = values.__array_namespace__()
        learns = ensemble.root > 0
        remembered = xp.maximum(1 - self.momentum**known.number, TINY)
        mean, variance, memory, shared = values[:4]
        lag = mean - memory / remembered
        follows = xp.clip(shared / xp.maximum(remembered * variance, TINY), 0.0, 1.0)
        own = self._own(ensemble, values)
        distance = xp.minimum(lag**2, own) + (1 - follows) * variance
        distance = xp.where(known.number > 0, distance, 0.0)  # the first step has no memory to differ from
        noise = (1 - self.momentum) ** 2 * xp.maximum(loss - own + 2 * distance, TINY) / known.batch
        return Added((1 - self.momentum) * learns, noise, kept=values[5:])

    def move(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, added: Added, known: Known) -> Move:
        """Return the change of u, `E sign(c) = E_x E_y erf(y E[c | x]/√(2 Var[c | x]))`.

        y is the length of what m has seen, E y² = 1. Its mean is the exact slope at 0 over that of a Gaussian m; two
        values, one on either side of it, have that mean. By Stein, given x, sign(c) follows m by the slope of its mean,
        and G by x² times that. Signs of later steps correlate by the arcsine law.
        """
        xp = values.__array_namespace__()
        gain, correlation, lengths, length_weights = known.table
        # Two equally likely lengths whose mean is `gain` and whose mean square is 1.
        half_distance = xp.sqrt(xp.maximum(1 - gain**2, 0.0))
        law = self._mixture_law(ensemble, values, loss, added, known, lengths**2)
        stretch = xp.concatenate([gain - half_distance, gain + half_distance], axis=1)
        sign, slope = mean_signs(law, length_weights, stretch)
        older = self.beta1 * slope[0]
        newest = self._newest * slope[1]
        rest = xp.maximum(1 - sign**2 - followed_variance(values, added, older, newest), 0.0)
        length = known.rate * xp.sqrt(ensemble.spread)
        return Move(length * sign, length * older, length * newest, length**2 * correlation * rest)

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Return the errors of the closure, which is wrong where m is not Gaussian or u moves within its memory.

        m is not Gaussian where it sums few samples, by the excess of its fourth moment Σ p⁴/(B (Σ p²)²), and where
        fluctuations of u are much of it. The arcsine law is about signs whose mean is 0: where the mean of c crosses 0,
        each replica's sign changes once, at a time of its own.
        """
        share = shares(ensemble, values, loss, known.batch)
        added = self.added(ensemble, values, loss, known)
        law = self._mixture_law(ensemble, values, loss, added, known, np.ones_like(known.batch))
        mean = law.mean.sum(axis=0)
        noise = np.maximum(law.variance.sum(axis=0), TINY)
        variance = np.maximum(values[VARIANCE], 0.0)
        learns = ensemble.root > 0
        spread = np.where(learns, variance / (variance + noise), 0.0)
        saturated = spread * np.minimum(variance / noise, MOST_SATURATION)
        early = self.momentum ** (known.number + 1) * (known.number > 0)  # the first step is exact
        peaked = fourth_moment(self.mixture, known.number) / known.batch
        certain = special.erf(mean / np.sqrt(2 * noise)) ** 2
        factors = self.factors
        pull = factors.memory * saturated + factors.saturation * share.spread * share.over
        scatter = factors.peakedness * peaked + factors.beginning * early + factors.crossing * certain
        own = np.where(learns, np.minimum(variance / noise, 1.0), 0.0)
        return Closure(pull, scatter, np.zeros_like(pull), own / 2)

    @property
    def _newest(self) -> float:
        """Return the weight in c of what the gradient adds to m."""
        return (1 - self.beta1) / (1 - self.momentum)

    @staticmethod
    def _own(ensemble: Ensemble, values: np.ndarray) -> np.ndarray:
        """Return E u² (P, K), 0 in directions that learn nothing."""
        return values.__array_namespace__().where(ensemble.root > 0, values[MEAN] ** 2 + values[VARIANCE], 0.0)

    def _mixture_law(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, added: Added, known: Known, square: np.ndarray
    ) -> GaussianAtNodes:
        """Return the law of c given the squared length x² of the newest gradient, (P, M), at its nodes.

        Mean and variance of c are polynomials in x² of degrees 1 and 2. The coefficients of the mean are β₁ E m and the
        mean of what the gradient adds.
        """
        xp = values.__array_namespace__()
        mean, variance, memory, shared, own = values[:5]
        noise = added.noise
        if not self.mixture.is_memory:
            # The length is averaged over: all that the newest gradient has besides is the noise of others, T'/B.
            noise = (1 - self.momentum) ** 2 * xp.maximum(loss - self._own(ensemble, values), TINY) / known.batch
        gain = self._newest * added.gain
        by_square = 2 * self.beta1 * gain * shared + self._newest**2 * noise
        return GaussianAtNodes(
            square[..., None] ** np.arange(2),
            xp.stack([self.beta1 * memory, gain * mean]),
            square[..., None] ** np.arange(3),
            xp.stack([self.beta1**2 * own, by_square, gain**2 * variance]),
        )
