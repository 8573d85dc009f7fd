"""The learning rate after a change of batch size, at the same number of samples.

While noise dominates, the best γ of SGD is proportional to B (T5; Goyal et al. 2017), that of signs, Adam and Muon to
√B (T37 … T39; Malladi et al. 2022). SGD's stops at the stability edge, near B*; in theory that of signs and Adam goes
on growing, up to like B, as fewer steps have to lead as far. On language models it stops at the best batch size.
"""

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
# Exponents on language models, Adam, below and beyond the best batch size, 1,911 public runs of step-law:
# docs/findings/rate_rule_steplaw.md.
ON_LANGUAGE_MODELS = -0.07, 0.73
FARTHEST = (
    1e9  # B* of an interval without an upper end counts as this factor of B: noise dominates at both batch sizes.
)


def learning_rate_row(current: TrainingSetup, new: float, family: str, known: Evidence) -> AdviceRow:
    """γ, its range and where that is from."""
    ratio = new / current.batch_size
    if known.exponent is not None:
        factor = Estimate(*sorted_powers(ratio, known.exponent))
        reason = (
            f"measured: γ* ∝ B^{known.exponent.value:.2f} ({known.exponent.low:.2f} … {known.exponent.high:.2f}) at a "
            "fixed number of samples"
        )
        source = known.source
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
