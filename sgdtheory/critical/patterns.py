"""Where the least risk is no smooth function of the number of steps: what tells n steps from n + 1."""

from dataclasses import dataclass

import numpy as np

from sgdtheory.algorithms import Algorithm, ExponentialAverage, LinearMethod, TailAverage, UniformAverage
from sgdtheory.critical.risk_against_rate import RESONANT

EVERY_FEW_STEPS = 40  # up to this many steps every n is tried: there the least risk is no smooth function of n
TAILS = 4.0  # over φ: so many n in a row have tails of ⌈φn⌉ iterates of both parities, and next to φn or next to φn + 1
MANY_ZEROS = 40  # steps: of more, without momentum, little bias is left between two zeros of the mean path
KEPT_SWINGS = 10.0  # times as many steps where early swings are kept
MOST_SWINGING = 1000.0  # up to so many
RIPPLES = 1e-6  # momentum β swings on for n steps with β^n above this: till then n + 1 steps may do worse than n,
RIPPLES_LEFT = 1e-3  # and as long as β^n is above this of the share that is left of the initial risk
SWINGING_DELAYS = 10.0  # times 2τ + 1 steps: so long directions swing next to the edge that late gradients set
MEMORIES = 20.0  # times the length of an average that is no share of n: R_opt may be attained with so many steps


@dataclass(frozen=True)
class StepPatterns:
    """How the least risk of an algorithm goes with n, whatever the problem.

    Attributes:
        first_steps: the fewest that teach something: 2 of a sum of iterates, which after one step holds w_0 alone.
        resonant: n/B up to which steps of an average may resonate, schedule-free's among them; 0 of other algorithms.
        memory: steps in which the method forgets all but the weights; 0 for one that has nothing else.
        rippling: n up to which the best γ may jump from one n to the next.
        restless: n up to which one step more may leave more.
        swinging: n up to which the risk swings with γ: the mean path of a few steps is a polynomial in γ with as many
            zeros; 0 where it never does, inf where it always may.
        averaged: n up to which the length of an average of its own, 1/(1 − τ) steps, decides; 0 without one.
        fraction: φ of a tail average of ⌈φn⌉ iterates; 0 without one.
        period: steps of a round.
        plain: the plain average of plain steps: the risk falls with n, but for the parity of steps that overshoot.
    """

    first_steps: float = 2.0
    resonant: float = 0.0
    memory: float = 0.0
    rippling: float = 0.0
    restless: float = 0.0
    swinging: float = 0.0
    averaged: float = 0.0
    fraction: float = 0.0
    period: int = 1
    plain: bool = True

    def kind(self, batch: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """(P,) numbers: from one n to another of its kind nearby the best γ stays in its basin; nan where none tells.

        Resonating steps tell odd from even, and so do tails; where steps are few or swings last every n is another;
        where outer steps swing, from round to round, every round.
        """
        odd = 1 + steps % 2 + 2 * (np.ceil(self.fraction * steps) % 2)
        kind = np.where(steps <= self.resonant * batch, odd, 0.0)
        if self.period > 1:
            kind = np.where(steps <= self.rippling, -1 - steps // self.period, kind)
            return np.where(steps <= MANY_ZEROS, np.nan, kind)
        return np.where(steps <= max(self.rippling, MANY_ZEROS), np.nan, kind)


def patterns_of(algorithm: Algorithm, left: float = 1.0) -> StepPatterns:
    """Those of its method, schedule and average, where a share of the initial risk is left."""
    method = algorithm.method
    average = algorithm.average
    for_ever = method.step_dependence not in ("none", "period")
    shares = average.returned(2.0, 2.0)
    memory = _memory(method, min(RIPPLES, RIPPLES_LEFT * left))
    rippling = _rippling(algorithm, memory)
    decay = average.decay if isinstance(average, ExponentialAverage) else None
    plain = algorithm.constant and len(method.start) == 1 and isinstance(average, UniformAverage)
    # what a share of constant steps keeps of swings hardly depends on n
    keeps = algorithm.steady and not for_ever and decay is None
    return StepPatterns(
        first_steps=1.0 if shares.iterate else 2.0,
        resonant=RESONANT if shares.total != 0 or for_ever else 0.0,
        memory=memory,
        rippling=rippling,
        restless=memory if keeps else rippling,
        swinging=0.0 if plain else np.inf if for_ever else max(rippling, MANY_ZEROS),
        averaged=0.0 if decay is None else MEMORIES / (1 - decay),
        fraction=average.fraction if isinstance(average, TailAverage) and average.fraction < 1 else 0.0,
        period=method.period,
        plain=plain,
    )


def _memory(method: LinearMethod, left: float = RIPPLES) -> float:
    """Steps in which a method forgets all but the weights, but for so much of the squares."""
    if method.step_dependence not in ("none", "period"):
        return 0.0
    if method.late:
        return SWINGING_DELAYS * (2 * method.longest_delay + 1)
    each, last = np.eye(len(method.start)) - method.matrices(np.zeros(2), np.array([0.0, method.period - 1])).decay
    step = last @ np.linalg.matrix_power(each, method.period - 1)
    sizes = np.sort(np.abs(np.linalg.eigvals(step)))
    fading = sizes[(sizes > 0) & (sizes < 1)]
    return method.period * float(np.log(left) / np.log(fading[-1])) if fading.size else 0.0


def _rippling(algorithm: Algorithm, memory: float) -> float:
    """Steps up to which the best γ may jump with n.

    Where γ falls or iterates are averaged, swings of early steps are kept. The interpolation of schedule-free SGD is a
    momentum that grows with the steps.
    """
    if algorithm.method.step_dependence not in ("none", "period"):
        return MOST_SWINGING
    if algorithm.method.late and algorithm.constant:
        return memory
    if algorithm.steady and not algorithm.average.returned(2.0, 2.0).total:
        return memory
    return min(KEPT_SWINGS * memory, max(memory, MOST_SWINGING))


def whole_numbers(low: float, high: float) -> np.ndarray:
    """Whole numbers from `low`, a whole number, to `high`; none if it is above."""
    return np.arange(low, np.floor(high) + 1) if low <= high else np.empty(0)
