"""signSGD: what is known exactly of a sign's mean over u and χ (THEORY.md T37)."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from sgdtheory.risk.chi import chi_rules
from sgdtheory.risk.closure import MOST_SATURATION, Closure, shares
from sgdtheory.risk.ensemble import Ensemble
from sgdtheory.risk.field import MEAN, VARIANCE, Averaged, Known, MemorylessField, MomentumField, Move, Step
from sgdtheory.risk.sign_gain import correlated, fourth_moment, sign_gain

IN_CACHE = 10_000  # numbers of an array: with many more, arrays of all nodes are slower than node by node
MOST_JUMP = 2.0  # relative error of the scatter where few signs are wrong: two signs do not differ by more
# Relative errors of the pull over q, s² and s² B r/T_i: fitted with a margin of a third, but for the second, which one
# setting of four directions that lead to and fro asks for.
SIGN_DOUBTS = 0.3, 1.05, 0.15
# Relative errors over early steps, the fourth moment, what u is of m over what is not, q and s B r/T_i; of the scatter
# over early steps times that share; of the pull over the share of u in m: fitted likewise.
MOMENTUM_DOUBTS = 0.4, 0.3, 0.09, 1.0, 0.3, 1.7, 0.35
MOMENTUM_ERROR = 6e-3  # relative, beside what directions carry: 0.9% was met in one direction alone
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
        fluctuation, spread, saturated = SIGN_DOUBTS
        pull = fluctuation * seen.fluctuation + spread * seen.spread**2 + saturated * seen.saturated
        others = np.maximum(loss - values[MEAN] ** 2 - values[VARIANCE], TINY)
        jump = np.minimum(known.batch * known.rate**2 * ensemble.spread / others, MOST_JUMP)
        sign = self.step(ensemble, values, loss, known).drift / np.maximum(known.rate * ensemble.root, TINY)
        return Closure(pull, sign**2 * jump)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rules of χ, (P, M) nodes and weights."""
        return chi_rules(batch)

    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """With T' = T − E u_i², the others' part of the loss, and z ~ N(0, 1), g_i has the sign of `χ u_i + √T' z`.

        E sign(g_i) = E_χ erf(χ a_i/√(2 (T' + χ² r_i))),    E sign(g_i)² = 1.
        """
        mean = values[MEAN]
        variance = values[VARIANCE]
        others = np.maximum(loss - (mean**2 + variance), TINY)
        sign = np.zeros_like(mean)
        slope = np.zeros_like(mean)
        nodes = known.table[0].shape[1]
        together = max(1, IN_CACHE // mean.size)  # for one node of few directions calls cost more than their numbers
        for first in range(0, nodes, together):
            node, weight = (each.T[first : first + together, :, None] for each in known.table)
            width = node / np.sqrt(2 * (others + node**2 * variance))
            place = width * mean
            sign += (weight * special.erf(place)).sum(axis=0)
            slope += (weight * width * np.exp(-(place**2))).sum(axis=0)
        slope *= 2 / np.sqrt(np.pi)
        moved = known.rate * ensemble.root
        return Step(moved * sign, moved * slope, known.rate**2 * ensemble.spread * (1 - sign**2))


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

        That is where it sums few samples, by the excess of its fourth moment Σ p⁴/(B (Σ p²)²); where fluctuations of u
        are much of it; and among the first steps, whose signs are not yet correlated as in the long run.
        """
        seen = shares(ensemble, values, loss, known.batch)
        variance = np.maximum(values[VARIANCE], 0.0)
        kept = np.maximum(values[4], TINY)
        spread = np.where(ensemble.root > 0, variance / (variance + kept), 0.0)
        over = spread * np.minimum(variance / kept, MOST_SATURATION)
        early = self.momentum ** (known.number + 1)
        peaked = fourth_moment(self.momentum, known.number + 1) / known.batch
        first, few, past, fluctuation, saturated, scatter, share = MOMENTUM_DOUBTS
        pull = first * early + few * peaked + past * over + share * spread
        pull = pull + fluctuation * seen.fluctuation + saturated * seen.spread * seen.over
        return Closure(pull, scatter * early * spread)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """(P, 1): the slope of E sign at 0 over that of a Gaussian m."""
        return (sign_gain(self.momentum, number, batch)[:, None],)

    def averaged(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Averaged:
        """`Var(G | u) = (E u² + T)/B`."""
        learns = ensemble.root > 0
        own = np.where(learns, values[MEAN] ** 2 + values[VARIANCE], 0.0)
        noise = (1 - self.momentum) ** 2 * (own + loss) / known.batch
        return Averaged((1 - self.momentum) * learns, noise, kept=values[5:])

    def move(self, ensemble: Ensemble, mean: np.ndarray, variance: np.ndarray, kept: np.ndarray, known: Known) -> Move:
        """`E sign(m) = erf(E m/√(2 Var m))`; signs of later steps are correlated by the arcsine law."""
        width = known.table[0] / np.sqrt(2 * np.maximum(variance, TINY))
        place = width * mean
        sign = special.erf(place)
        slope = 2 / np.sqrt(np.pi) * width * np.exp(-(place**2))
        moved = known.rate * np.sqrt(ensemble.spread)
        rest = np.maximum(1 - sign**2 - slope**2 * variance, 0.0)
        return Move(moved * sign, moved * slope, moved**2 * correlated(self.momentum) * rest)
