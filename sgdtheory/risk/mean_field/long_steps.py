"""A stabilized Runge–Kutta method: few evaluations for long steps of an equation that only decays fast (RKC).

Second order, with s stages stable for decays up to (2/3)(s² − 1)/h (Sommeijer, Shampine & Verwer 1998, RKC: an explicit
solver for parabolic PDEs).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

# A larger damping makes shorter steps stable more firmly; the paper recommends this value. With 0.05 and 0.3 risks
# change by 5e-6 and 2e-6.
DAMPING = 2 / 13
# A step has at most this many stages, and a longer step is divided. With 20 and 80 no risk of signSGD in random
# coordinates changed.
LARGEST_NUMBER_OF_STAGES = 40
# Stability needs s² − 1 ≥ this number times length times decay. Without damping it would be 3/2, with the damping it is
# 3/2/(1 − 2 DAMPING/15) = 1.531, and the rest is a margin.
STAGES_SQUARED_PER_DECAY = 1.54
Flow = Callable[[float, np.ndarray], np.ndarray]


class Scheme(NamedTuple):
    """Coefficients of the s stages of a long step, (s,) each.

    Attributes:
        time: c, the times of the stages as fractions of the step.
        last: μ, weights of the stage before.
        before: ν, weights of the stage before that.
        slope: μ̃, weights of the slope at the stage before.
        first_slope: γ̃, weights of the slope at the start.
    """

    time: np.ndarray
    last: np.ndarray
    before: np.ndarray
    slope: np.ndarray
    first_slope: np.ndarray


@lru_cache(maxsize=64)
def scheme(stages: int) -> Scheme:
    """Return the coefficients c, μ, ν, μ̃ and γ̃ of the paper, from Chebyshev polynomials T_j and their derivatives."""
    shift = 1 + DAMPING / stages**2
    # Rows of T_j, T_j' and T_j'' at the shifted argument, j = 0 … s.
    value, first, second = np.array(
        [
            [chebyshev.chebval(shift, chebyshev.chebder(np.eye(stages + 1)[j], order)) for j in range(stages + 1)]
            for order in range(3)
        ]
    )
    scale = first[-1] / second[-1]
    weight = np.full(stages + 1, second[2] / first[2] ** 2)
    weight[2:] = second[2:] / first[2:] ** 2
    time = np.zeros(stages + 1)
    time[2:] = scale * second[2:] / first[2:]
    time[1] = time[2] / first[2]
    last = 2 * shift * weight[1:] / weight[:-1]
    before = np.append(0.0, -weight[2:] / weight[:-2])
    slope = 2 * scale * weight[1:] / weight[:-1]
    slope[0] = weight[1] * scale
    first_slope = -(1 - weight * value)[:-1] * slope
    return Scheme(time[1:], last, before, slope, first_slope)


def stages_for(length: float, decay: float) -> int:
    """Return the number of stages with which a step of this length is stable, given the rate of the fastest decay."""
    return max(2, int(np.ceil(np.sqrt(1 + STAGES_SQUARED_PER_DECAY * length * decay))))


def longest(decay: float) -> float:
    """Return the length of the longest stable step, which has `LARGEST_NUMBER_OF_STAGES` stages."""
    return (LARGEST_NUMBER_OF_STAGES**2 - 1) / (STAGES_SQUARED_PER_DECAY * decay)


class Stepped(NamedTuple):
    """The state after a step, its flow there, and the estimated error of the state."""

    state: np.ndarray
    slope: np.ndarray
    error: np.ndarray


def stepped(flow: Flow, now: float, state: np.ndarray, slope: np.ndarray, length: float, stages: int) -> Stepped:
    """Return the state after one step of `dy/dt = flow(t, y)`, whose slope at the start is known."""
    c = scheme(stages)
    # Each stage follows from the two before it by the recursion of Chebyshev polynomials, which keeps rounding small.
    older = state
    newer = state + c.slope[0] * length * slope
    for j in range(1, stages):
        here = flow(now + c.time[j - 1] * length, newer)
        mixed = (1 - c.last[j] - c.before[j]) * state + c.last[j] * newer + c.before[j] * older
        older, newer = newer, mixed + length * (c.slope[j] * here + c.first_slope[j] * slope)
    ended = flow(now + length, newer)
    # The slope at the end is that of the next step's start, so that the estimate of the error costs nothing.
    return Stepped(newer, ended, 0.8 * (state - newer) + 0.4 * length * (slope + ended))
