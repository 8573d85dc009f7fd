"""Adam where coordinates are eigenvectors: heavy ball with a learning rate for each direction (THEORY.md T38, T55)."""

from dataclasses import dataclass

import numpy as np

from sgdtheory.algorithms import Adam
from sgdtheory.risk.mean_field.adam_gain import adam_gains, gain_at, noise_at
from sgdtheory.risk.mean_field.chi import chi_rules
from sgdtheory.risk.mean_field.closure import Closure, shares
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Added, Field, Known, MemoryField, Move
from sgdtheory.risk.mean_field.signs import SignField, gradient_signs, noise_of_others

# Up to this β₂ the step g/√v of Adam without β₁ and ε is a sign: with g' the gradient before, Cauchy-distributed in
# units of g, E g²/v = E 1/(1 + β₂ g'²/g²) = 1/(1 + √β₂), and so a step's square is smaller by 0.1% there.
LARGEST_BETA2_OF_SIGNS = 1e-6


@dataclass(frozen=True)
class AdamErrorFactors:
    """Factors of the stated error of Adam. Larger factors state larger errors.

    They are fitted to 663 simulated settings, of which the stated errors cover all but 9; `interpolation` is measured
    against integrals (THEORY.md T38).

    Attributes:
        fluctuation: error of the pull over q.
        saturation: error of the pull over s² B r/T_i.
        signal: error of the pull over w y.
        motion: error of the pull over w k/(1 − β₁).
        shared: error of the pull over the gradients that u and v share.
        interpolation: error of the pull at a first step with ε, whose gain is interpolated in its size.
        softened: error of the pull at a first step with ε, over y/B.
        beginning: error of the scatter over β₁^t k/(1 − β₁).
        scatter: error of the scatter over w k/(1 − β₁).
    """

    fluctuation: float = 0.2
    saturation: float = 0.13
    signal: float = 0.015
    motion: float = 0.12
    shared: float = 0.5
    interpolation: float = 4e-3
    softened: float = 0.3
    beginning: float = 3.2
    scatter: float = 0.3


def field_of_adam(method: Adam) -> Field | None:
    """Return the field of Adam: signs without memory and ε, and None where steps m/√v are not bounded.

    Signs with weight decay have none either.
    """
    if method.beta1 == method.epsilon == 0 and method.beta2 <= LARGEST_BETA2_OF_SIGNS:
        return None if method.weight_decay else SignField()
    bounded = method.beta1**2 < method.beta2
    return AdamField(method.beta1, method.beta2, method.epsilon, method.weight_decay) if bounded else None


@dataclass(frozen=True)
class AdamField(MemoryField):
    """Step of Adam, `u ← u − γ√λ m̂/(√v̂ + ε/√λ) − γκ (u − u_0)`, in coordinates that are the eigenvectors.

    v is replaced by its mean. The functions of `adam_gain` correct the pull and the noise for the fluctuations of v.

    Attributes:
        momentum: β₁.
        beta2: β₂ > β₁².
        epsilon: ε, in the units of gradients; m and v are in those of g/√λ.
        weight_decay: κ.
    """

    momentum: float
    beta2: float
    epsilon: float = 0.0
    weight_decay: float = 0.0
    others = 1
    coupled_error = 0.02, 0.15
    factors = AdamErrorFactors()

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Return the errors of the closure, which is wrong where v fluctuates and u moves within the memory of m.

        `w = (1 − β₂)/(1 + β₂) · (1 + β₂^t)/(1 − β₂^t)` is the sum of v's squared weights, 1 at the first step, and k is
        the decay of the mean. v and u² contain the same gradients: a replica that large ones have moved far has a
        larger v, and is pulled back less. With shares p = (1 − β₂)/(1 − β₂^t) of the newest one in v and
        p' = max(2k, 1/t) in r, the two overlap by `p p'/(p + p' − p p')`, and squares of gradients have the relative
        variance 2 + 6/B.
        """
        share = shares(ensemble, values, loss, known.batch)
        count = known.number + 1
        forgotten = self.beta2**count
        weights = (1 - self.beta2) / (1 + self.beta2) * (1 + forgotten) / (1 - forgotten)
        first = count == 1
        exact = first & (self.epsilon == 0)  # a first step without ε is a sign
        early = np.where(exact, 0.0, self.momentum**count) if self.momentum else 0.0
        moved = np.minimum(decay / (1 - self.momentum), 1.0)
        square = values[MEAN] ** 2
        variance = np.maximum(values[VARIANCE], 0.0)
        own = np.maximum(square + variance, TINY)
        in_square = (1 - self.beta2) / (1 - forgotten)
        in_variance = np.clip(np.maximum(2 * decay, 1 / count), 0.0, 1.0)
        overlap = in_square * in_variance / (in_square + in_variance - in_square * in_variance)
        overlap = overlap * (1 + 3 / known.batch) * variance / own
        factors = self.factors
        pull = factors.fluctuation * share.fluctuation + factors.saturation * share.saturated + factors.shared * overlap
        pull = pull + weights * (factors.signal * share.signal + factors.motion * moved)
        pull = pull + (first & ~exact) * (factors.interpolation + factors.softened * share.signal / known.batch)
        scatter = moved * (factors.beginning * early + factors.scatter * weights)
        half = share.signal / (2 * own)
        return Closure(pull, scatter, half * square, half * variance)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return polynomials of the gain, (P, L, J), and of the noise, (P, L)."""
        return adam_gains(self.momentum, self.beta2, self.epsilon > 0).looked_up(number + 1, batch)

    def added(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Added:
        """Return the change of m and v, with `E G² = (1 + 1/B) E u² + T/B` and `Var(G | u) = (E u² + T)/B`."""
        xp = values.__array_namespace__()
        batch = known.batch
        learns = ensemble.root > 0
        own = xp.where(learns, values[MEAN] ** 2 + values[VARIANCE], 0.0)
        signal = batch * own / xp.maximum(loss + (batch - 1) * own, TINY)
        signal = xp.clip(signal, 0.0, 1.0)
        scatter = (own + loss) / batch
        square = own + scatter
        kept = values[5] + (1 - self.beta2) * (square - values[5])
        gains, noises = known.table
        share = None
        if self.epsilon:
            size = self._size(ensemble, kept, known)
            share = size / (size + self.epsilon)
        gain = gain_at(gains, signal, share)
        # A compiled loop begins after the first step.
        if xp is np and (first := known.number[:, 0] == 0).any():
            # Interpolated gains are off by up to 3e-4. A certain sign would then get a variance below 0.
            mean = values[MEAN, first]
            others = noise_of_others(values[:, first], loss[first])
            sign, slope = gradient_signs(mean, values[VARIANCE, first], others, chi_rules(batch[first, 0]))
            exact = np.divide(sign, mean, out=slope, where=mean != 0) * np.sqrt(square[first])
            if share is None:
                gain[first] = exact
            else:  # beside ε a step is a sign by its share
                plain = gain_at(gains[first], signal[first], np.ones_like(share[first]))
                gain[first] *= 1 + share[first] * (exact / plain - 1)
        noise = 1 + (noise_at(noises, share) - 1) * scatter / square
        return Added(
            gain=(1 - self.momentum) * gain * learns,
            noise=(1 - self.momentum) ** 2 * noise * scatter,
            kept=kept[None],
        )

    def move(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, added: Added, known: Known) -> Move:
        """Return the change of u, by `γ√λ m̂/(√v̂ + ε/√λ) = γλ m̂/(√(λv̂) + ε)`."""
        mean, variance, _ = self.new_memory(values, added)
        xp = values.__array_namespace__()
        size = self._size(ensemble, added.kept[0], known) + self.epsilon
        # The product is bounded, not `size` alone. Libraries built with -ffast-math make the processor flush numbers
        # below the normal range to 0: TINY (1 − β₁) would be 0 then, and the step of a direction without noise nan.
        slope = known.rate * ensemble.spread / xp.maximum(size * self._weight_sum(self.momentum, known), TINY)
        scatter = xp.zeros_like(slope)
        if xp is np and (first := (known.number == 0)[:, 0]).any():
            # A first step is a sign, or beside ε nearly one: its square does not depend on its mean.
            square = mean**2 + variance
            share = (size - self.epsilon) / np.maximum(size, TINY)
            exact = known.rate**2 * ensemble.spread * share**2 - slope**2 * square
            certain = mean**2 / np.maximum(square, TINY)
            scatter[first] = (exact * certain ** (1 - share))[first]
        return Move(slope * mean, self.momentum * slope, slope, scatter)

    def _size(self, ensemble: Ensemble, kept: np.ndarray, known: Known) -> np.ndarray:
        """Return √(λv̂), (P, K), in the units of ε."""
        return kept.__array_namespace__().sqrt(ensemble.spread * kept / self._weight_sum(self.beta2, known))

    @staticmethod
    def _weight_sum(beta: float, known: Known) -> np.ndarray:
        """Return 1 − β^{t+1}, the sum of the weights in a memory, by which its bias is corrected."""
        xp = known.number.__array_namespace__()
        return -xp.expm1((known.number + 1) * np.log(beta)) if beta else xp.ones_like(known.number)
