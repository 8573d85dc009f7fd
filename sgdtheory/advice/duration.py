"""The best learning rate and B* after a change of the duration D of a run, at the same batch size (THEORY.md T47).

Below the kink of γ*(B) the best learning rate is proportional to B^p D^−c. Beyond it γ* does not depend on B, and since
the kink moves like D^κ, continuity makes it proportional to D^{pκ − c}. For SGD p = 1 and κ = c, so that it is constant
beyond the kink. A run rarely tells its own exponents, so the range comes from all exponents that theory allows, and
from public runs.
"""

import math
from typing import NamedTuple

from sgdtheory._common.sheets import number
from sgdtheory.advice.evidence import OVERHEAD, Evidence
from sgdtheory.advice.row import AdviceRow, Estimate


class RateExponents(NamedTuple):
    """Exponents of γ* ∝ D^−c B^p up to a kink ∝ D^κ, and independent of B beyond.

    Attributes:
        fall, rise, growth: c, p and κ.
    """

    fall: float
    rise: float
    growth: float

    def log_change(self, log_batch: float, log_ratio: float, log_kink: float) -> float:
        """Return the log of the factor of γ* when D grows by a factor at the batch size B.

        Args:
            log_batch, log_ratio: ln B, and the log of the factor of D.
            log_kink: log of the kink before the change.
        """
        # A kink farther from B than it moves gives the same factor, and an infinite log would give nan.
        farthest = 1 + abs(self.growth * log_ratio)
        kink = min(max(log_kink, log_batch - farthest), log_batch + farthest)
        below = min(log_batch, kink + self.growth * log_ratio) - min(log_batch, kink)
        return -self.fall * log_ratio + self.rise * below


class FamilyInDuration(NamedTuple):
    """Knowledge about the duration for a family of optimizers whose own exponents are not known.

    Attributes:
        advised: exponents of the number that is advised.
        extremes: exponents whose factors are the ends of its range.
        kinks: the kink over B*, for the number and at the ends of the range.
        growth: κ of B* ∝ D^κ.
        reason, growth_reason: sentences on γ* and on B*.
    """

    advised: RateExponents
    extremes: tuple[RateExponents, ...]
    kinks: tuple[float, float, float]
    growth: Estimate
    reason: str
    growth_reason: str


# Ranges are wider by this power of D, because exponents of finite durations differ from the limits. From D = 10⁴ to
# 10⁶ the exact best γ of seven power laws moved by powers of D from −0.045 to 0.024 where the limit is 0. Measured
# slopes of step-law's plateau reach 0.24, not 0.20.
FINITE = 0.05
SGD = FamilyInDuration(
    # c = 1 − a/m of T47 is 1/3 for a = 2 and b = 3. Beyond the kink γ* falls like D^−0.05: there runs with a linear
    # decay that are 100 times as long diverge if γ is kept (in five of five power laws at 4 B*), and in none with it.
    RateExponents(1 / 3, 1.0, 1 / 3 - FINITE),
    # 0 < c < 1 for all exponents a and b (T47).
    (RateExponents(0.0, 1.0, 0.0), RateExponents(1.0, 1.0, 1.0)),
    # T47: the kink is 0.56 to 0.69 times B*.
    (0.6, 0.56, 0.69),
    Estimate(1 / 3, 0.0, 1.0),
    "γ* ∝ D^−c below the kink of γ*(B), with c = 1/3 for a = 2, b = 3 and between 0 and 1 for all power laws; beyond "
    "the kink γ* hardly depends on D, but longer runs diverge sooner, so that γ falls like D^−0.05",
    "in theory B* ∝ D^κ, with κ = 1/3 for a = 2, b = 3 and between 0 and 1 for all power laws",
)
# These exponents were fitted to the 1,911 AdamW runs of step-law (docs/duration.md).
LANGUAGE_MODELS = RateExponents(0.35, 0.92, 0.60)
ADAPTIVE = FamilyInDuration(
    # γ is kept beyond the kink, where public runs have D^0.20 and theory has a fall: κ = c/p makes the plateau flat.
    LANGUAGE_MODELS._replace(growth=LANGUAGE_MODELS.fall / LANGUAGE_MODELS.rise),
    # Theory has 0 < c < 1 and no kink. Far beyond B* the steps have to lead as far, and γ* ∝ B/D: the exact exponent
    # of D reaches −0.99 at 16 times B* (a = 1.5, b = 4).
    (RateExponents(0.0, 0.0, 0.0), RateExponents(1.0, 0.0, 0.0), LANGUAGE_MODELS),
    # The kink of step-law's runs is 0.14 to 0.25 times their B*; the upper end is that of SGD.
    (0.2, 0.14, 0.69),
    Estimate(0.60, 0.0, 1.0),
    "γ* ∝ D^−0.35 (0.25 … 0.47) below the kink of γ*(B) on public language-model runs, and D^0.20 beyond it; in theory "
    "γ* ∝ D^−c on both sides, with c between 0 and 1, so that the number keeps γ beyond the kink",
    "B* ∝ D^κ: κ is 0.60 (0.45 … 0.77) on public language-model runs, 0.46 in arXiv 2505.13738, and between 0 and 1 in "
    "theory",
)
IN_DURATION = {"sgd": SGD, "sign": ADAPTIVE, "adam": ADAPTIVE}
OF_CURVES = "the loss curves have B* at any D"


def times_the_data(ratio: float) -> str:
    """Return the words for a change of D by a factor."""
    return f"{number(ratio, 3)} times the data"


def duration_factor(family: str, batch_size: float, ratio: float, critical: Estimate | None) -> Estimate:
    """Return γ*(B, ratio × D)/γ*(B, D) with its range.

    >>> [round(number, 3) for number in duration_factor("adam", 64, 10, None)]
    [0.447, 0.089, 1.786]

    Args:
        family: "sgd", "sign" or "adam".
        batch_size: B.
        ratio: of the data.
        critical: B* before the change; None: not known. The value is then that below the kink, and the range is for
            every kink.
    """
    log_batch, log_ratio = math.log(batch_size), math.log(ratio)
    known = IN_DURATION[family]
    if critical is None:
        log_kinks = math.inf, -math.inf, math.inf
    else:
        sizes = critical.value, critical.least, critical.most
        log_kinks = tuple(
            math.log(share * size) if size > 0 else -math.inf for share, size in zip(known.kinks, sizes, strict=True)
        )
    value = known.advised.log_change(log_batch, log_ratio, log_kinks[0])
    ends = [law.log_change(log_batch, log_ratio, kink) for law in known.extremes for kink in log_kinks[1:]]
    finite = FINITE * abs(log_ratio)
    return Estimate(math.exp(value), math.exp(min(value, *ends) - finite), math.exp(max(value, *ends) + finite))


def duration_reason(family: str, ratio: float, known: Evidence) -> str:
    """Return the sentence on the learning rate after a change of D."""
    which = (
        "B* is not known: the number is that below the kink, and the range holds on both sides"
        if known.critical is None
        else f"the kink is taken at {IN_DURATION[family].kinks[0]:g} B*, where B* counts from vanishing batches"
    )
    return f"{times_the_data(ratio)}: {IN_DURATION[family].reason}; {which}"


def later(known: Evidence, growth: Estimate, ratio: float) -> Evidence:
    """Return what is known of B* after a change of D: it moves like D^κ, with the range of κ."""
    if known.critical is None or known.stated is None:
        return known
    ends = sorted(ratio**power for power in (growth.low, growth.high))
    before = known.critical
    critical = Estimate(before.value * ratio**growth.value, before.least * ends[0], before.most * ends[1])
    # The part of B* that comes from its reference, (1 + ω) B_ref, does not move.
    part = (1 + known.stated.overhead) * (known.stated.reference or 0.0)
    size = Estimate(*(each + part for each in critical.times(known.stated.overhead / OVERHEAD)))
    return known._replace(critical=critical, stated=known.stated._replace(size=size), extra_data=None)


def critical_row(before: Evidence, after: Evidence, reason: str) -> AdviceRow | None:
    """Return B* before and after a change of D; None where it is not known."""
    if before.stated is None or after.stated is None:
        return None
    old, size = before.stated.size.value, after.stated.size
    return AdviceRow("critical_batch_size", old, *size, reason, f"{before.source}; T47")
