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


# Exponents of finite durations differ from the limits. From D = 10⁴ to 10⁶ the exact best γ of seven power laws moved
# by powers of D from −0.045 to 0.024 where the limit is 0. Measured slopes of step-law's plateau reach 0.24, not 0.20.
FINITE = 0.05
# Own fit to the 1,911 runs of step-law, AdamW: docs/duration.md. The kink was 0.18 to 0.23 times B*.
LANGUAGE_MODELS = RateExponents(0.35, 0.92, 0.60)
# The numbers that are advised. For SGD c = 1 − a/m of T47 is 1/3 for a = 2 and b = 3, and γ* falls like D^−0.05 beyond
# the kink: runs with a linear decay that are 100 times as long diverge at four times B* if γ is kept (in five of five
# power laws), and with D^−0.05 in none. For signs and Adam γ is kept beyond the kink, where public runs have D^0.20
# and theory has a fall.
VALUES = {
    "sgd": RateExponents(1 / 3, 1.0, 1 / 3 - FINITE),
    "sign": LANGUAGE_MODELS._replace(growth=LANGUAGE_MODELS.fall / LANGUAGE_MODELS.rise),
    "adam": LANGUAGE_MODELS._replace(growth=LANGUAGE_MODELS.fall / LANGUAGE_MODELS.rise),
}
# The extreme exponents of theory: 0 < c < 1 for all exponents a and b. Signs and Adam have no plateau there: far beyond
# B* the steps have to lead as far, γ* ∝ B/D (exact exponents of D between −0.73 and −0.99 at 4 and 16 times B*).
NO_KINK = RateExponents(0.0, 0.0, 0.0), RateExponents(1.0, 0.0, 0.0)
RANGES = {
    "sgd": (RateExponents(0.0, 1.0, 0.0), RateExponents(1.0, 1.0, 1.0)),
    "sign": (*NO_KINK, LANGUAGE_MODELS),
    "adam": (*NO_KINK, LANGUAGE_MODELS),
}
# The kink over B*: the value, and the ends of its range. T47 has 0.56 to 0.69 for SGD, step-law's runs 0.18 to 0.23.
KINKS = {"sgd": (0.6, 0.56, 0.69), "sign": (0.2, 0.18, 0.69), "adam": (0.2, 0.18, 0.69)}
# κ of B* ∝ D^κ; that of theory is c, between 0 and 1.
GROWTHS = {"sgd": Estimate(1 / 3, 0.0, 1.0), "sign": Estimate(0.60, 0.0, 1.0), "adam": Estimate(0.60, 0.0, 1.0)}
REASONS = {
    "sgd": (
        "γ* ∝ D^−c below the kink of γ*(B), with c = 1/3 for a = 2, b = 3 and between 0 and 1 for all power laws; "
        "beyond the kink γ* hardly depends on D, but longer runs diverge sooner, so that γ falls like D^−0.05"
    ),
    "adam": (
        "γ* ∝ D^−0.35 (0.25 … 0.47) below the kink of γ*(B) on public language-model runs, and D^0.20 beyond it; in "
        "theory γ* ∝ D^−c on both sides, with c between 0 and 1, so that the number keeps γ beyond the kink"
    ),
}
GROWTH_REASONS = {
    "sgd": "in theory B* ∝ D^κ, with κ = 1/3 for a = 2, b = 3 and between 0 and 1 for all power laws",
    "adam": (
        "B* ∝ D^κ: κ is 0.60 (0.45 … 0.77) on public language-model runs, 0.46 in arXiv 2505.13738, and between 0 and "
        "1 in theory"
    ),
}


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
    if critical is None:
        log_kinks = math.inf, -math.inf, math.inf
    else:
        sizes = critical.value, critical.least, critical.most
        log_kinks = tuple(
            math.log(share * size) if size > 0 else -math.inf for share, size in zip(KINKS[family], sizes, strict=True)
        )
    value = VALUES[family].log_change(log_batch, log_ratio, log_kinks[0])
    laws = RANGES[family]
    ends = [value, *(law.log_change(log_batch, log_ratio, kink) for law in laws for kink in log_kinks[1:])]
    finite = FINITE * abs(log_ratio)
    return Estimate(math.exp(value), math.exp(min(ends) - finite), math.exp(max(ends) + finite))


def duration_reason(family: str, ratio: float, known: Evidence) -> str:
    """Return the sentence on the learning rate after a change of D."""
    which = (
        "B* is not known: the number is that below the kink, and the range holds on both sides"
        if known.critical is None
        else f"the kink is taken at {KINKS[family][0]:g} B*, where B* counts from vanishing batches"
    )
    return f"{times_the_data(ratio)}: {REASONS.get(family, REASONS['adam'])}; {which}"


def later(known: Evidence, family: str, ratio: float) -> Evidence:
    """Return what is known of B* after a change of D: it moves like D^κ, with the range of κ."""
    if known.critical is None or known.stated is None:
        return known
    growth = GROWTHS[family]
    ends = sorted(ratio**power for power in (growth.low, growth.high))
    before = known.critical
    critical = Estimate(before.value * ratio**growth.value, before.least * ends[0], before.most * ends[1])
    # The part of B* that comes from its reference, (1 + ω) B_ref, does not move.
    part = (1 + known.stated.overhead) * (known.stated.reference or 0.0)
    size = Estimate(*(each + part for each in critical.times(known.stated.overhead / OVERHEAD)))
    return known._replace(critical=critical, stated=known.stated._replace(size=size), extra_data=None)


def critical_row(family: str, ratio: float, before: Evidence, after: Evidence, of_curves: bool) -> AdviceRow | None:
    """Return B* before and after a change of D, by the exponents of `later` or by loss curves."""
    if before.stated is None or after.stated is None:
        return None
    old, size = before.stated.size.value, after.stated.size
    if of_curves:
        reason, source = "the loss curves have B* at any D", before.source
    else:
        reason, source = GROWTH_REASONS.get(family, GROWTH_REASONS["adam"]), f"{before.source}; T47"
    return AdviceRow("critical_batch_size", old, *size, f"{times_the_data(ratio)}: {reason}", source)
