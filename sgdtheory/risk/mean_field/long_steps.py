"""A stabilized Runge–Kutta method: few evaluations for long steps of an equation that only decays fast (RKC).

Second order, with s stages stable for decays up to (2/3)(s² − 1)/h (Sommeijer, Shampine & Verwer 1998, RKC: an explicit
solver for parabolic PDEs).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

DAMPING = 2 / 13  # The value that the paper recommends: a larger one makes shorter steps more stable.
MOST_STAGES = 40  # A step has at most so many stages, so that a longer one is divided.
BY_DECAY = 1.54  # s² − 1 over length times decay: stability needs 3/2, and the damping takes a little more.
Flow = Callable[[float, np.ndarray], np.ndarray]


class Scheme(NamedTuple):
    """The s stages of a long step, (s,) each: where they are, and how each follows from those before it."""

    place: np.ndarray
    last: np.ndarray
    before: np.ndarray
    slope: np.ndarray
    first_slope: np.ndarray


@lru_cache(maxsize=64)
def scheme(stages: int) -> Scheme:
    """The coefficients c, μ, ν, μ̃ and γ̃ of the paper."""
    shift = 1 + DAMPING / stages**2
    value, first, second = np.array(
        [
            [chebyshev.chebval(shift, chebyshev.chebder(np.eye(stages + 1)[j], order)) for j in range(stages + 1)]
            for order in range(3)
        ]
    )
    wide = first[-1] / second[-1]
    weight = np.full(stages + 1, second[2] / first[2] ** 2)
    weight[2:] = second[2:] / first[2:] ** 2
    place = np.zeros(stages + 1)
    place[2:] = wide * second[2:] / first[2:]
    place[1] = place[2] / first[2]
    last = 2 * shift * weight[1:] / weight[:-1]
    before = np.append(0.0, -weight[2:] / weight[:-2])
    slope = 2 * wide * weight[1:] / weight[:-1]
    slope[0] = weight[1] * wide
    first_slope = -(1 - weight * value)[:-1] * slope
    return Scheme(place[1:], last, before, slope, first_slope)


def stages_for(length: float, decay: float) -> int:
    """Return the number of stages with which a step of this length is stable, given the rate of the fastest decay."""
    return max(2, int(np.ceil(np.sqrt(1 + BY_DECAY * length * decay))))


def longest(decay: float) -> float:
    """Return the length of the longest stable step, which has `MOST_STAGES` stages."""
    return (MOST_STAGES**2 - 1) / (BY_DECAY * decay)


class Stepped(NamedTuple):
    """The state after a step, its flow there, and the estimated error of the state."""

    state: np.ndarray
    slope: np.ndarray
    error: np.ndarray


def stepped(flow: Flow, now: float, state: np.ndarray, slope: np.ndarray, length: float, stages: int) -> Stepped:
    """One step of `dy/dt = flow(t, y)`, whose slope at the start is known."""
    c = scheme(stages)
    older = state
    newer = state + c.slope[0] * length * slope
    for j in range(1, stages):
        here = flow(now + c.place[j - 1] * length, newer)
        mixed = (1 - c.last[j] - c.before[j]) * state + c.last[j] * newer + c.before[j] * older
        older, newer = newer, mixed + length * (c.slope[j] * here + c.first_slope[j] * slope)
    ended = flow(now + length, newer)
    return Stepped(newer, ended, 0.8 * (state - newer) + 0.4 * length * (slope + ended))
