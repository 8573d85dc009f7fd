"""signSGD: what is known exactly of a sign's mean over u and χ (THEORY.md T37).

Signs of a momentum: the exact slope of E sign(m) at 0, and the correlation of signs (THEORY.md T37).

m = Σ p_k G_k with `G_k = χ_k² u/B + χ_k z_k/√B`, in units of the gradient's noise. Its characteristic function is the
product of `(1 + ω² p_k²/B)^{−B/2}`, and

    ∂E sign(m)/∂u = (2/π) ∫_0^∞ Σ_k p_k (1 + ω² p_k²/B)^{−1} Π_j (1 + ω² p_j²/B)^{−B/2} dω    at u = 0.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from sgdtheory.risk.mean_field.chi import chi_rules
from sgdtheory.risk.mean_field.closure import MOST_SATURATION, Closure, grain, shares
from sgdtheory.risk.mean_field.ensemble import Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Averaged, Known, MemorylessField, MomentumField, Move, Step

FORGOTTEN = 1e-6  # of the newest weight: older gradients are left out
MOST = 1000  # steps that are told apart
WIDEST = -16.0, 9.0  # log ω
APART = 0.06
LEAST_CORRELATION = (
    1e-4  # Signs that correlate less are left out: arcsin ρ − ρ is ρ³/6, and the sum then right to 1e-8.
)
DENSITY = 12  # Steps of the table per doubling: with half as many it is interpolated to 1e-3 instead of 3e-4.


def sign_gain(momentum: float, number: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """(P,) slope at 0 over that of a Gaussian m of the same variance, `√(2/π) Σ p_k/√(Σ p_k²)`, at steps from 0 on."""
    tables = [_table(momentum, size) for size in batch.tolist()]
    places = np.minimum(number, tables[0].size - 1)
    return np.array(
        [np.interp(place, np.arange(table.size), table) for place, table in zip(places, tables, strict=True)]
    )


@lru_cache(maxsize=1024)
def _table(momentum: float, batch: float) -> np.ndarray:
    """After 1, 2, … steps."""
    size = int(min(np.ceil(np.log(FORGOTTEN) / np.log(momentum)), MOST))
    weights = momentum ** np.arange(size)
    frequency = np.exp(np.arange(*WIDEST, APART))
    squares = (frequency * weights[:, None]) ** 2 / batch
    product = np.exp(-batch / 2 * np.cumsum(np.log1p(squares), axis=0))
    shares = np.cumsum(weights[:, None] / (1 + squares), axis=0)
    slopes = 2 / np.pi * APART * (frequency * shares * product).sum(axis=1)
    return slopes / (np.sqrt(2 / np.pi) * np.cumsum(weights) / np.sqrt(np.cumsum(weights**2)))


def correlated(momentum: float, number: np.ndarray) -> np.ndarray:
    """Return how many times more the rest of a sign scatters u at steps from 0 on than by itself, (P,).

    Signs of Gaussians with correlation ρ have (2/π) arcsin ρ, of which (2/π) ρ follows m. Noise that has been summed
    for t + 1 steps has the correlation `β^h √((1 − β^{2(t − h + 1)})/(1 − β^{2(t + 1)}))` with that h steps before:

        1 + 2 Σ_{h ≤ t} (arcsin ρ_h − ρ_h)/(π/2 − 1).
    """
    steps, table = _correlated(momentum)
    return np.interp(number, steps, table)


@lru_cache(maxsize=64)
def _correlated(momentum: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps of a table, some a doubling, and its values."""
    last = np.ceil(np.log(LEAST_CORRELATION) / np.log(momentum))
    steps = np.unique(np.append(0, np.round(np.geomspace(1, last, int(DENSITY * np.log2(last)) + 2))))
    found = np.ones(steps.size)
    for place, step in enumerate(steps):
        lag = np.arange(1, step + 1)
        seen = np.expm1(2 * (step - lag + 1) * np.log(momentum)) / np.expm1(2 * (step + 1) * np.log(momentum))
        along = momentum**lag * np.sqrt(seen)
        found[place] += 2 * (np.arcsin(along) - along).sum() / (np.pi / 2 - 1)
    return steps, found


def fourth_moment(momentum: float, seen: np.ndarray) -> np.ndarray:
    """Return Σ p⁴/(Σ p²)² of the weights p of m over the steps seen: 1 at the first, (1 − β²)/(1 + β²) in the end."""
    fourth = (1 - momentum ** (4 * seen)) / (1 - momentum**4)
    return fourth / ((1 - momentum ** (2 * seen)) / (1 - momentum**2)) ** 2


IN_CACHE = 10_000  # numbers of an array: with many more, arrays of all nodes are slower than node by node
MOST_JUMP = 2.0  # relative error of the scatter where few signs are wrong: two signs do not differ by more
# Relative errors of the pull over q, s times grain and s² B r/T_i, and of the scatter over that of rare jumps. Larger
# factors state larger errors. These cover all but 6 of 891 simulated settings; derived are at most 3/8 and 1/3 for the
# first two.
SIGN_DOUBTS = 0.25, 0.42, 0.13, 0.7
# Relative errors of the pull over what u is of m over what is not and over s B r/T_i; of the scatter over the fourth
# moment of few samples, over the weight β^t of the first steps, and over the square of the mean sign. Larger factors
# state larger errors; these cover all but 1 of 358 simulated settings.
MOMENTUM_DOUBTS = 0.1, 0.05, 0.32, 0.1, 0.4
# Relative, beside what directions carry. Two deterministic steps whose signs are certain are up to 1.5% off.
MOMENTUM_ERROR = 4e-3
TINY = np.finfo(float).tiny


class SignField(MemorylessField):
    """`w ← w − γ sign(g)`, coordinates = eigenvectors."""

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Signs scatter by 1 − e², whatever the law of u; but few wrong signs among certain ones make no Gaussian.

        Where e² is near 1 a direction's variance is that of rare jumps of 2γ√λ, and what they do next is not what
        happens to a Gaussian of that variance if the sign is certain there too: if B γ²λ/T_i is not small.
        """
        seen = shares(ensemble, values, loss, known.batch)
        fluctuation, grained, saturated, jumping = SIGN_DOUBTS
        pull = fluctuation * seen.fluctuation + saturated * seen.saturated
        pull = pull + grained * seen.spread * grain(ensemble, values, known.rate)
        others = np.maximum(loss - values[MEAN] ** 2 - values[VARIANCE], TINY)
        jump = np.minimum(known.batch * known.rate**2 * ensemble.spread / others, MOST_JUMP)
        sign = self.step(ensemble, values, loss, known).drift / np.maximum(known.rate * ensemble.root, TINY)
        return Closure(pull, jumping * sign**2 * jump, np.zeros_like(pull), seen.spread / 2)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rules of χ, (P, M) nodes and weights."""
        return chi_rules(batch)

    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """Return the step of signs: g_i has the sign of `χ u_i + √T' z`, T' = T − E u_i², z ~ N(0, 1).

        E sign(g_i) = E_χ erf(χ a_i/√(2 (T' + χ² r_i))),    E sign(g_i)² = 1.
        """
        sign, slope = mean_signs(values, loss, known.table)
        moved = known.rate * ensemble.root
        return Step(moved * sign, moved * slope, known.rate**2 * ensemble.spread * (1 - sign**2))


def mean_signs(values: np.ndarray, loss: np.ndarray, rules: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return E sign(g) and its derivative by the mean of u, (P, K), with the `chi_rules` of P steps."""
    mean = values[MEAN]
    variance = values[VARIANCE]
    others = np.maximum(loss - (mean**2 + variance), TINY)
    sign = np.zeros_like(mean)
    slope = np.zeros_like(mean)
    nodes = rules[0].shape[1]
    together = max(1, IN_CACHE // mean.size)  # for one node of few directions calls cost more than their numbers
    for first in range(0, nodes, together):
        node, weight = (each.T[first : first + together, :, None] for each in rules)
        width = node / np.sqrt(2 * (others + node**2 * variance))
        place = width * mean
        sign += (weight * special.erf(place)).sum(axis=0)
        slope += (weight * width * np.exp(-(place**2))).sum(axis=0)
    slope *= 2 / np.sqrt(np.pi)
    return sign, slope


@dataclass(frozen=True)
class SignMomentumField(MomentumField):
    """`m ← βm + (1 − β) g, w ← w − γ sign(m)`, coordinates = eigenvectors; m is Gaussian but for its slope at 0.

    That takes a sum over many samples: with a short memory or small batches it is not close.
    """

    momentum: float

    def error(self, steps: float, batch: float) -> float:
        """The slope at 0 is exact, not the law of m: even one direction is off by some 0.5% then."""
        return MOMENTUM_ERROR

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Wrong where m is far from Gaussian, and where u moves much within its memory.

        m is not Gaussian where it sums few samples, by the excess of its fourth moment Σ p⁴/(B (Σ p²)²), and where
        fluctuations of u are much of it. The arcsine law is about signs whose mean is 0: where the mean of m crosses 0,
        each replica's sign changes once, at a time of its own.
        """
        seen = shares(ensemble, values, loss, known.batch)
        variance = np.maximum(values[VARIANCE], 0.0)
        kept = np.maximum(values[4], TINY)
        spread = np.where(ensemble.root > 0, variance / (variance + kept), 0.0)
        over = spread * np.minimum(variance / kept, MOST_SATURATION)
        early = self.momentum ** (known.number + 1) * (known.number > 0)  # the first step is exact
        peaked = fourth_moment(self.momentum, known.number + 1) / known.batch
        sign = special.erf(values[2] / np.sqrt(2 * kept))
        past, saturated, few, first, crossing = MOMENTUM_DOUBTS
        pull = past * over + saturated * seen.spread * seen.over
        scatter = few * peaked + first * early + crossing * sign**2
        own = np.where(ensemble.root > 0, np.minimum(variance / kept, 1.0), 0.0)
        return Closure(pull, scatter, np.zeros_like(pull), own / 2)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the slope of E sign at 0 over that of a Gaussian m, and `correlated`, (P, 1) each."""
        return sign_gain(self.momentum, number, batch)[:, None], correlated(self.momentum, number)[:, None]

    def averaged(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Averaged:
        """`Var(G | u) = (T' + 2 E (u − ū)²)/B`, T' = T − E u² and ū the mean of u over the memory of m.

        The length χ of a batch's residuals multiplies u in G, which for u = ū changes no sign. With `s = 1 − β^t`, the
        sum of m's weights, `E ū = E m/s`, and of a replica's u the share Cov(u, m)/(s Var u) follows ū.
        """
        learns = ensemble.root > 0
        own = np.where(learns, values[MEAN] ** 2 + values[VARIANCE], 0.0)
        seen = np.maximum(-np.expm1(known.number * np.log(self.momentum)), TINY)
        late = values[MEAN] - values[2] / seen
        follows = np.clip(values[3] / np.maximum(seen * values[VARIANCE], TINY), 0.0, 1.0)
        apart = np.minimum(late**2, own) + (1 - follows) * values[VARIANCE]
        apart = np.where(known.number > 0, apart, 0.0)
        noise = (1 - self.momentum) ** 2 * np.maximum(loss - own + 2 * apart, TINY) / known.batch
        return Averaged((1 - self.momentum) * learns, noise, kept=values[5:])

    def move(self, ensemble: Ensemble, mean: np.ndarray, variance: np.ndarray, kept: np.ndarray, known: Known) -> Move:
        """`E sign(m) = E_x erf(x E m/√(2 Var m))`, E x² = 1; signs of later steps are correlated by the arcsine law.

        x is the length of the residuals that m has seen, `χ_B/√B` at the first step. Its mean is the exact slope at 0
        over that of a Gaussian m; two values, one on either side of it, have that mean and E x² = 1.
        """
        gain, together = known.table
        width = 1 / np.sqrt(2 * np.maximum(variance, TINY))
        apart = np.sqrt(np.maximum(1 - gain**2, 0.0))
        sign = 0.0
        slope = 0.0
        for node in (gain - apart, gain + apart):
            place = node * width * mean
            sign = sign + special.erf(place) / 2
            slope = slope + node * width * np.exp(-(place**2)) / np.sqrt(np.pi)
        moved = known.rate * np.sqrt(ensemble.spread)
        rest = np.maximum(1 - sign**2 - slope**2 * variance, 0.0)
        return Move(moved * sign, moved * slope, moved**2 * together * rest)
