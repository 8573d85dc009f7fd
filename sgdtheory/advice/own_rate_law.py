"""The best learning rate and its kink after a change of B and D, by a law that was fitted to own runs (T47)."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from sgdtheory._common.sheets import between, number
from sgdtheory.advice.row import AdviceRow, Estimate
from sgdtheory.advice.setup import TrainingSetup
from sgdtheory.fits import LearningRateLaw

Run = tuple[float, float]  # batch size and data
# An infinite kink counts as e^100, which is beyond all batch sizes.
OPEN = 100.0
# An open interval of κ has these ends: in theory B* neither falls with D nor grows faster than D.
GROWTH = 0.0, 1.0


def checked_law(law: object, current: TrainingSetup) -> LearningRateLaw:
    """Return a law of the best learning rate that determines its exponents c and p.

    Raises:
        ValueError: another object, a law from runs of one duration, or whose batch size and duration vary together, or
            settings without D.
    """
    if not isinstance(law, LearningRateLaw):
        raise ValueError(f"rate_law must be the result of fit_rates, got {type(law).__name__}")
    if math.isnan(law.duration_exponent) or math.isnan(law.batch_exponent):
        raise ValueError(
            "rate_law must know how γ* moves with the duration and with the batch size: fit_rates needs runs at "
            "several durations of several batch sizes"
        )
    if current.samples is None:
        raise ValueError("rate_law needs the data of the run now: give num_samples, or num_steps")
    return law


def law_factor(law: LearningRateLaw, old: Run, new: Run) -> Estimate:
    """Return γ*(new)/γ*(old), and its least and largest value over the intervals of c, p, κ and the kink.

    Args:
        law: that `checked_law` returns.
        old, new: batch size and data, in the unit of the law's runs. The model has their mean size.
    """
    logs = (np.log(old), np.log(new))
    before, after = (np.exp(law.law.log_rate(np.array(0), batch, samples, 0.0)) for batch, samples in logs)
    ends = sorted(_factors(law, old, new))
    factor = float(after / before)
    return Estimate(factor, min(factor, ends[0]), max(factor, ends[-1]))


def _factors(law: LearningRateLaw, old: Run, new: Run) -> Iterator[float]:
    """Yield the factor at all combinations of ends of the intervals."""
    log_old, log_new = np.log(old), np.log(new)
    for fall, rise in product(law.duration_interval, law.batch_interval):
        for kinks in _log_kinks(law, log_old[1], log_new[1]):
            below = [
                _smaller(run[0], kink, law.law.sharpness) for run, kink in zip((log_old, log_new), kinks, strict=True)
            ]
            yield float(np.exp(-fall * (log_new[1] - log_old[1]) + rise * (below[1] - below[0])))


def _log_kinks(law: LearningRateLaw, old: float, new: float) -> Iterator[tuple[float, float]]:
    """Yield the log kinks at two log durations, at the ends of the intervals of κ and of the nearest kink."""
    if not law.has_kink:
        yield math.inf, math.inf
        return
    nearest = int(np.abs(np.log(law.samples) - old).argmin())
    at = math.log(law.samples[nearest])
    with np.errstate(divide="ignore"):
        kinks = np.clip(np.log(law.kink_intervals[nearest]), -OPEN, OPEN)
    for kink, growth in product(kinks, _growth_ends(law)):
        yield float(kink + growth * (old - at)), float(kink + growth * (new - at))


def _smaller(log_batch: float, log_kink: float, sharpness: float) -> float:
    """Return ln (B^{−k} + B_k^{−k})^{−1/k}."""
    return -float(np.logaddexp(-sharpness * log_batch, -sharpness * log_kink)) / sharpness


def law_reason(law: LearningRateLaw) -> str:
    """Return the sentence on the learning rate by the law."""
    exponents = (
        f"γ* ∝ D^−c B^p, with c = {_with_ends(law.duration_exponent, law.duration_interval)} and p = "
        f"{_with_ends(law.batch_exponent, law.batch_interval)}"
    )
    kink = f", up to the kink; {kink_reason(law)}" if law.has_kink else "; your runs show no kink"
    return f"your own runs: {exponents}{kink}; the range combines the ends of all intervals"


def growth_of(law: LearningRateLaw | None) -> Estimate | None:
    """Return κ of the kink, with its interval; None where the law does not determine it, or there is no law."""
    if law is None or math.isnan(law.kink_exponent):
        return None
    return Estimate(law.kink_exponent, *_growth_ends(law))


def kink_reason(law: LearningRateLaw) -> str:
    """Return the sentence on how the kink moves with D."""
    if growth_of(law) is None:
        return "your own runs do not determine how the kink moves with D"
    return f"the kink of your own runs moves like D^κ, κ = {_with_ends(law.kink_exponent, law.kink_exponent_interval)}"


def _growth_ends(law: LearningRateLaw) -> tuple[float, float]:
    low, high = np.where(np.isinf(law.kink_exponent_interval), GROWTH, law.kink_exponent_interval)
    return float(low), float(high)


def _with_ends(value: float, interval: tuple[float, float]) -> str:
    return f"{number(value, 3)} ({between(*interval, 3)})"


def law_kink_row(law: LearningRateLaw, old: float, new: float) -> AdviceRow | None:
    """Return the kink before and after a change of D; None where no kink is seen."""
    if not law.has_kink:
        return None
    before, after = (float(law.critical_batch_size(samples)) for samples in (old, new))
    ends = [float(np.exp(kinks[1])) for kinks in _log_kinks(law, math.log(old), math.log(new))]
    reason = f"B* is taken at the kink of γ*(B); {kink_reason(law)}"
    return AdviceRow(
        "critical_batch_size", before, after, min(after, *ends), max(after, *ends), reason, "your runs, fit_rates; T47"
    )


def outside(law: LearningRateLaw, runs: tuple[Run, Run]) -> Iterator[str]:
    """Yield sentences on batch sizes and durations that the law's runs do not have."""
    measured = {"batch size": np.exp(law.rates.log_batch), "data": law.samples}
    for place, (name, values) in enumerate(measured.items()):
        low, high = float(values.min()), float(values.max())
        for value in dict.fromkeys(run[place] for run in runs):
            if not low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
                yield f"whether the law of your runs, {name} {between(low, high)}, still holds at {number(value)}"
