"""Steps of the law with scatter, a fit of them that is fast enough for thousands of simulated sweeps, and rates."""

import math

import numpy as np
from scipy import stats

from sgdtheory.fits.steps_law import StepsLaw
from sgdtheory.fits.steps_measurement import StepsMeasurement

WIDTHS = 2.0 ** np.arange(5, 10)
BATCHES = np.array([16.0, 40.0, 100.0, 250.0, 625.0])
REFERENCE, OVERHEAD, NOISE = 16.0, 0.2, 0.06
FALSE_ALARM = 1e-4


def ratios(exponent, widths=WIDTHS, critical=60.0, factor=1.0):
    """b/a of every width, so that B* = ω b/a + (1 + ω) B_ref is exactly 60 (width/128)^exponent, times a factor."""
    return (critical * factor * (widths / 128) ** exponent - (1 + OVERHEAD) * REFERENCE) / OVERHEAD


def measured(exponent, rng=None, batches=BATCHES, noise=NOISE, widths=WIDTHS, between=0.0):
    """Groups of steps of the law, with scatter where there is a generator; a falls with the width.

    `noise` scatters the steps, `between` the B* of the widths.
    """
    groups = []
    factor = np.exp(between * rng.standard_normal(widths.size)) if between else 1.0
    for width, ratio in zip(widths, ratios(exponent, widths, factor=factor), strict=True):
        scatter = noise * rng.standard_normal(batches.size) if rng is not None else 0.0
        steps = 300 * (width / 128) ** -0.3 * (1 + ratio / batches) * np.exp(scatter)
        groups.append(StepsMeasurement(f"width {width:g}", width, batches, steps))
    return groups


def quick_fit(batch_sizes, steps):
    """Least squares of log Y = log(a + b/B) in plain Python: the best of a grid of b/a, then Newton."""
    batches, log_steps = batch_sizes.tolist(), [math.log(each) for each in steps.tolist()]

    def gap(ratio):
        rest = [y - math.log1p(ratio / batch) for y, batch in zip(log_steps, batches, strict=True)]
        mean = sum(rest) / len(rest)
        return mean, [each - mean for each in rest]

    starts = [batches[0] * 4.0**power for power in range(-2, 7)]
    ratio = min(starts, key=lambda ratio: sum(each * each for each in gap(ratio)[1]))
    for _ in range(50):
        shares = [ratio / (ratio + batch) for batch in batches]
        mean, rest = sum(shares) / len(shares), gap(ratio)[1]
        bend = sum((p - mean) ** 2 - each * p * (1 - p) for p, each in zip(shares, rest, strict=True))
        step = sum(each * p for p, each in zip(shares, rest, strict=True)) / bend
        ratio *= math.exp(max(-1.0, min(1.0, step)))
        if abs(step) < 1e-14:
            break
    a = math.exp(gap(ratio)[0])
    return StepsLaw(a, a * ratio, 1.0, False, batch_sizes, steps)


def sensitivity(law, reference, overhead):
    """Norm of ∂ log B*/∂ log Y at steps that follow the law, by the normal equations of log Y = log a + log(1 + ρ/B).

    With p = ρ/(ρ + B), ∂ log ρ/∂ log Y = (p − mean p)/Σ(p − mean p)²; and ∂ log B*/∂ log ρ = ω ρ/B*.
    """
    ratio = law.b / law.a
    shares = ratio / (ratio + law.batch_sizes)
    of_ratio = overhead * ratio / (overhead * ratio + (1 + overhead) * reference)
    return of_ratio / np.linalg.norm(shares - shares.mean())


def at_least(rate, number):
    """Least number of successes out of `number` that a rate as large as this falls below with FALSE_ALARM."""
    return stats.binom.ppf(FALSE_ALARM, number, rate)


def at_most(rate, number):
    """Most of them, likewise."""
    return stats.binom.isf(FALSE_ALARM, number, rate)
