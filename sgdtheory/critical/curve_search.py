"""The curve of batch sizes is computed: risks with D samples, and the fewest steps that attain the best risk."""

import numpy as np

from sgdtheory.critical.batch_search import SAME_RISK
from sgdtheory.critical.batch_size_curve import BatchSizeCurve
from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.step_search import fewest_enough

# The curve has this many points per decade of B: interpolation between them is right to about 3%.
POINTS_PER_DECADE = 4
# The curve goes on to this many times the critical batch size.
REACH = 10.0


def batch_size_curve(least_risk: LeastRisk, samples: float, risk: float, included: tuple[float, ...]) -> BatchSizeCurve:
    """Return what batch sizes attain with D samples, and what they need to attain a risk.

    Fewer than ⌊D/B⌋ steps cannot: what n steps attain at B, they attain at ⌊D/n⌋ ≥ B. More may never do where an
    average keeps a share of w_0 (`ExponentialAverage`), which few large steps of another B cancel.
    """
    sizes = _curve_sizes(samples, included)
    needed = np.floor(samples / sizes)
    best = least_risk(sizes, needed)
    rate = best.rate.copy()
    more = np.flatnonzero(best.risk > risk * (1 + SAME_RISK))
    ends = needed[more], np.full(more.size, np.inf)
    needed[more], rate[more] = fewest_enough(least_risk, lambda _, question: sizes[more][question], risk, *ends)
    return BatchSizeCurve(sizes, best.rate, best.risk, needed, rate, sizes * needed, sizes * needed / samples - 1)


def _curve_sizes(samples: float, included: tuple[float, ...]) -> np.ndarray:
    """Whole batch sizes from 1 to `REACH` times the largest included one, that waste as few samples as can be."""
    end = max(min(samples / 2, REACH * max(included)), 1.0)
    grid = np.floor(np.geomspace(1.0, end, int(POINTS_PER_DECADE * np.log10(end)) + 2))
    return np.unique([*np.floor(samples / np.floor(samples / grid)), *included])
