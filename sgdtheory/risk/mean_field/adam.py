"""Adam where coordinates are eigenvectors: heavy ball with a learning rate for each direction (THEORY.md T38)."""

from dataclasses import dataclass

import numpy as np

from sgdtheory.algorithms import Adam
from sgdtheory.risk.mean_field.adam_gain import adam_gains, gain_at, noise_at
from sgdtheory.risk.mean_field.chi import chi_rules
from sgdtheory.risk.mean_field.closure import Closure, shares
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Added, Field, Known, MemoryField, Move
from sgdtheory.risk.mean_field.signs import SignField, mean_signs

# Relative errors of the pull over q, s² B r/T_i, wy, w k/(1 − β₁), what u and v share, and a first step with ε; of
# the scatter over k/(1 − β₁) times β₁^t and times w. Larger factors state larger errors; these cover all but 9 of 663
# simulated settings.
DOUBTS = 0.2, 0.13, 0.015, 0.12, 0.5, 0.3, 3.2, 0.3
INTERPOLATED = 4e-3  # Error of the gain at a first step with ε, which is interpolated in its size (THEORY.md T38).
# β₂ up to which g/√v of Adam without β₁ and ε is a sign: with g' the gradient before, Cauchy-distributed in units of g,
# E g²/v = E 1/(1 + β₂ g'²/g²) = 1/(1 + √β₂), and so a step's square is less by 0.1% there.
LEAST_MEMORY = 1e-6


def field_of_adam(method: Adam) -> Field | None:
    """Return the field of Adam, None where steps m/√v are not bounded; without memory and ε they are signs."""
    if method.beta1 == method.epsilon == 0 and method.beta2 <= LEAST_MEMORY:
        return SignField()
    bounded = method.beta1**2 < method.beta2
    return AdamField(method.beta1, method.beta2, method.epsilon) if bounded else None


@dataclass(frozen=True)
class AdamField(MemoryField):
    """`u ← u − γ√λ m̂/(√v̂ + ε/√λ)` with v its own mean, and what its fluctuations do by the functions of `adam_gain`.

    Attributes:
        momentum: β₁.
        beta2: β₂ > β₁².
        epsilon: ε, in the units of gradients; m and v are in those of g/√λ.
    """

    momentum: float
    beta2: float
    epsilon: float = 0.0
    others = 1
    coupled_error = 0.02, 0.15

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Wrong where v scatters with steps that gradients see, and u moves much within the memory of m.

        `w = (1 − β₂)/(1 + β₂) · (1 + β₂^t)/(1 − β₂^t)` is the sum of v's squared weights, 1 at the first step. v and u²
        hold the same gradients: a replica that large ones have moved far has a larger v, and is pulled back less. With
        shares p = (1 − β₂)/(1 − β₂^t) of the newest one in v and p' = max(2k, 1/t) in r, the two overlap by
        `p p'/(p + p' − p p')`, and squares of gradients have the relative variance 2 + 6/B.
        """
        seen = shares(ensemble, values, loss, known.batch)
        count = known.number + 1
        far = self.beta2**count
        weights = (1 - self.beta2) / (1 + self.beta2) * (1 + far) / (1 - far)
        first = count == 1
        exact = first & (self.epsilon == 0)  # a sign
        early = np.where(exact, 0.0, self.momentum**count) if self.momentum else 0.0
        moved = np.minimum(decay / (1 - self.momentum), 1.0)
        square, variance = values[MEAN] ** 2, np.maximum(values[VARIANCE], 0.0)
        own = np.maximum(square + variance, TINY)
        newest = (1 - self.beta2) / (1 - far)
        in_spread = np.clip(np.maximum(2 * decay, 1 / count), 0.0, 1.0)
        both = newest * in_spread / (newest + in_spread - newest * in_spread)
        both = both * (1 + 3 / known.batch) * variance / own
        fluctuation, saturated, signal, way, shared, softened, beginning, scatter = DOUBTS
        pull = fluctuation * seen.fluctuation + saturated * seen.saturated + shared * both
        pull = pull + weights * (signal * seen.signal + way * moved)
        pull = pull + (first & ~exact) * (INTERPOLATED + softened * seen.signal / known.batch)
        half = seen.signal / (2 * own)
        return Closure(pull, moved * (beginning * early + scatter * weights), half * square, half * variance)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Polynomials of the gain, (P, L, J), and of the noise, (P, L)."""
        return adam_gains(self.momentum, self.beta2, self.epsilon > 0).looked_up(number + 1, batch)

    def added(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Added:
        """Return the change of m and v, with `E G² = (1 + 1/B) E u² + T/B` and `Var(G | u) = (E u² + T)/B`."""
        batch = known.batch
        learns = ensemble.root > 0
        own = np.where(learns, values[MEAN] ** 2 + values[VARIANCE], 0.0)
        signal = batch * own / np.maximum(loss + (batch - 1) * own, TINY)
        scatter = (own + loss) / batch
        square = own + scatter
        kept = values[5] + (1 - self.beta2) * (square - values[5])
        gains, noises = known.table
        share = None
        if self.epsilon:
            size = self._size(ensemble, kept, known)
            share = size / (size + self.epsilon)
        signal = np.clip(signal, 0.0, 1.0)
        gain = gain_at(gains, signal, share)
        if (first := known.number[:, 0] == 0).any():
            # Interpolated gains are off by up to 3e-4: beyond what a certain sign does, with a variance below 0.
            sign, slope = mean_signs(values[:, first], loss[first], chi_rules(batch[first, 0]))
            mean = values[MEAN, first]
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
        """`γ√λ m̂/(√v̂ + ε/√λ) = γλ m̂/(√(λv̂) + ε)`."""
        mean, variance, _ = self.new_memory(values, added)
        size = self._size(ensemble, added.kept[0], known) + self.epsilon
        # The product is bounded, not `size` alone. Libraries built with -ffast-math make the processor flush numbers
        # below the normal range to 0: TINY (1 − β₁) would be 0 then, and the step of a direction without noise nan.
        slope = known.rate * ensemble.spread / np.maximum(size * self._seen(self.momentum, known), TINY)
        scatter = np.zeros_like(slope)
        first = (known.number == 0)[:, 0]
        if first.any():  # a sign, or beside ε nearly so: its square does not depend on its mean
            square = mean**2 + variance
            share = size - self.epsilon
            share = share / np.maximum(size, TINY)
            exact = known.rate**2 * ensemble.spread * share**2 - slope**2 * square
            seen = mean**2 / np.maximum(square, TINY)
            scatter[first] = (exact * seen ** (1 - share))[first]
        return Move(slope * mean, self.momentum * slope, slope, scatter)

    def _size(self, ensemble: Ensemble, kept: np.ndarray, known: Known) -> np.ndarray:
        """(P, K) √(λv̂), in the units of ε."""
        return np.sqrt(ensemble.spread * kept / self._seen(self.beta2, known))

    @staticmethod
    def _seen(beta: float, known: Known) -> np.ndarray:
        """1 − β^{t+1}."""
        return -np.expm1((known.number + 1) * np.log(beta)) if beta else np.ones_like(known.number)
