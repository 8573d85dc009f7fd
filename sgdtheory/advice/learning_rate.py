"""The learning rate after a change of batch size, at the same number of samples.

While noise dominates, the best γ of SGD is proportional to B (T5; Goyal et al. 2017), that of signs, Adam and Muon to
√B (T37 … T39; Malladi et al. 2022). SGD's stops at the stability edge, near B*; in theory that of signs and Adam goes
on growing, up to like B, as fewer steps have to lead as far. On language models it stops at the best batch size.

Signum, Lion and Muon take steps of fixed size along an average of gradients with weights p_k. The noise of this average
has the variance ν/B, ν = Σ_k p_k², so a step moves along a weak gradient by γ √(B/ν), and the same progress per sample
needs `γ ∝ √(B ν)` (T54). With β kept this is √B. With half-lives kept in samples ν grows like B while they are longer
than a batch, and γ ∝ B. Optimal learning rates of Lion and Signum in theory follow it within 10%. For Muon it is the
same argument, without such a check.
"""

import math

from sgdtheory.advice.best_rates import SLOPES, factor_at, factor_range
from sgdtheory.advice.evidence import Evidence
from sgdtheory.advice.row import AdviceRow, Estimate
from sgdtheory.advice.setup import TrainingSetup

FAMILIES = {
    "sgd": "sgd",
    "momentum": "sgd",
    "sign": "sign",
    "signum": "sign",
    "lion": "sign",
    "muon": "sign",
    "adam": "adam",
    "adamw": "adam",
}
LAWS = {"sgd": "B (T5; arXiv 1706.02677)", "sign": "√B (T37, T39)", "adam": "√B (T38; arXiv 2205.10287)"}
# On language models Adam's γ* has these exponents of B below and beyond the best batch size, in 1,911 public runs of
# step-law (docs/findings/rate_rule_steplaw.md).
ON_LANGUAGE_MODELS = -0.07, 0.73
AVERAGED = "signum", "lion", "muon"  # Their steps have a fixed size and the direction of an average of gradients.
FARTHEST = 1e9  # B* counts as at most this multiple of both batch sizes, at which noise dominates at both.


def learning_rate_row(current: TrainingSetup, new: float, optimizer: str, known: Evidence) -> AdviceRow:
    """γ, its range and where that is from."""
    ratio = new / current.batch_size
    family = FAMILIES[optimizer]
    averaged = optimizer in AVERAGED or (optimizer == "sign" and bool(current.beta1))
    if known.exponent is not None:
        factor = Estimate(*sorted_powers(ratio, known.exponent))
        reason = (
            f"measured: γ* ∝ B^{known.exponent.value:.2f} ({known.exponent.low:.2f} … {known.exponent.high:.2f}) at a "
            "fixed number of samples"
        )
        source = known.source
    elif averaged:
        factor = _of_averages(current, ratio, optimizer)
        how = (
            "B^½, with β kept"
            if current.beta1 is None
            else f"{factor.value:.3g} times, with half-lives kept; β kept: √B"
        )
        reason = (
            f"γ* ∝ √(B ν) while noise dominates, with ν = Σ p² of the weights with which {optimizer} averages "
            f"gradients ({how}); what happens near B* is not known for {optimizer}"
        )
        source = "T37, T54; for Muon by analogy" if optimizer == "muon" else "T37, T54"
    elif known.critical is not None:
        factor = _around(family, current.batch_size, new, known.critical)
        reason = (
            f"the optimal learning rates of six theoretical problems at {_share(current.batch_size, known)} B* and "
            f"{_share(new, known)} B*, where B* counts from vanishing batches"
        )
        source = f"{known.source}; best rates of theory, {LAWS[family]}"
    else:
        value = ratio ** SLOPES[family]
        low, high = factor_range(family, current.batch_size, new)
        factor = Estimate(value, min(value, low), max(value, high))
        reason = f"γ* ∝ {LAWS[family].split(' ')[0]} while noise dominates; the range holds for any B* in theory"
        source = LAWS[family].split(" ", 1)[1].strip("()")
    if family == "sgd" and ratio > 1 and (known.critical is None or new > known.critical.least):
        reason += "; beyond B* this γ may diverge"
    if known.exponent is None and family != "sgd":
        factor = _with_language_models(factor, ratio)
        reason += (
            "; the range includes the exponents of public language-model runs, B^0.73 below their best batch size and "
            "B^−0.07 beyond it"
        )
        source += "; finding: step-law's grid"
    return AdviceRow("learning_rate", current.learning_rate, *factor.times(current.learning_rate), reason, source)


def _of_averages(current: TrainingSetup, ratio: float, optimizer: str) -> Estimate:
    """Return the factor of γ for steps along an average of gradients; the range has β kept, and γ ∝ B."""
    value = ratio**0.5
    if current.beta1 is not None:
        scaled = current.beta1**ratio, None if current.beta2 is None else current.beta2**ratio
        before = weights_variance(optimizer, current.beta1, current.beta2)
        value *= math.sqrt(weights_variance(optimizer, *scaled) / before)
    return Estimate(value, min(value, ratio**0.5, ratio), max(value, ratio**0.5, ratio))


def weights_variance(optimizer: str, beta1: float, beta2: float | None) -> float:
    """Return ν = Σ_k p_k² of the weights with which steps average gradients.

    >>> round(weights_variance("signum", 0.9, None), 4), round(weights_variance("lion", 0.9, 0.99), 4)
    (0.0526, 0.0141)
    """
    if optimizer == "lion" and beta2 is not None:
        return (1 - beta1) ** 2 + beta1**2 * (1 - beta2) / (1 + beta2)
    return (1 - beta1) / (1 + beta1)


def sorted_powers(ratio: float, exponent: Estimate) -> tuple[float, float, float]:
    """ratio to a power, and the ends in order."""
    ends = sorted((ratio**exponent.low, ratio**exponent.high))
    return ratio**exponent.value, ends[0], ends[1]


def _around(family: str, old: float, new: float, critical: Estimate) -> Estimate:
    """Over the problems, and over the interval of B*."""
    size = min(critical.value, FARTHEST * max(old, new))
    low, high = factor_range(family, old, new, critical.least, critical.most)
    value = factor_at(family, old / size, new / size).value
    return Estimate(value, min(value, low), max(value, high))


def _with_language_models(factor: Estimate, ratio: float) -> Estimate:
    ends = [ratio**exponent for exponent in ON_LANGUAGE_MODELS]
    return Estimate(factor.value, min(factor.low, *ends), max(factor.high, *ends))


def _share(batch: float, known: Evidence) -> str:
    assert known.critical is not None
    return f"{batch / known.critical.value:.2g}"
