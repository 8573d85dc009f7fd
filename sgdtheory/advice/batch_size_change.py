"""`change_batch_size`: what to do to the settings of a run when its batch size, its data or both change."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sgdtheory._common.arguments import checked_name, positive_number, share_between_0_and_1
from sgdtheory._common.sheets import ABSENT, Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.advice.data_needed import extra_data_row, is_sign_without_memory
from sgdtheory.advice.duration import (
    IN_DURATION,
    OF_CURVES,
    critical_row,
    duration_factor,
    duration_reason,
    later,
    times_the_data,
)
from sgdtheory.advice.evidence import Evidence, Fit, evidence
from sgdtheory.advice.learning_rate import FAMILIES, learning_rate_row
from sgdtheory.advice.lengths import (
    decay_row,
    decay_row_of_new_length,
    num_steps_row,
    num_steps_row_of_new_length,
    warmup_row,
)
from sgdtheory.advice.memories import momentum_row, second_moment_row, timescale_row, weight_decay_row
from sgdtheory.advice.own_rate_law import (
    checked_law,
    growth_of,
    kink_reason,
    law_factor,
    law_kink_row,
    law_reason,
    outside,
)
from sgdtheory.advice.row import AdviceRow
from sgdtheory.advice.setup import TrainingSetup
from sgdtheory.curves import CurvesFit
from sgdtheory.fits import LearningRateLaw

LABELS = {
    "learning_rate": "learning rate",
    "beta1": "β₁",
    "beta2": "β₂",
    "weight_decay": "weight decay",
    "timescale": "τ of AdamW, share of the run",
    "warmup_steps": "warm-up, steps",
    "decay_steps": "decay, steps",
    "num_steps": "steps",
    "critical_batch_size": "B*",
    "extra_data": "extra data",
}
NO_SETTINGS = "timescale", "critical_batch_size", "extra_data"  # These rows follow from the settings.


@dataclass(frozen=True)
class BatchSizeChange(Shown):
    """Advice on the settings of training after a change of batch size or data; made by `change_batch_size`.

    Attributes:
        current: the settings before.
        new_batch_size: B'.
        optimizer: name.
        rows: an `AdviceRow` for each setting that is known, and for what follows: "timescale", τ = B/(γλD) of AdamW;
            "critical_batch_size" after a change of D; "extra_data" after one of B.
        unknown: what neither theory nor the fit tells, a sentence each.
        headline: B* and the reference from which it counts; where it is not known, what that leaves open. If D
            changes, the learning rate comes first.
        new_num_samples: D', the data after the change; None: those of the run now, and the extra data.
    """

    current: TrainingSetup
    new_batch_size: float
    optimizer: str
    rows: tuple[AdviceRow, ...]
    unknown: tuple[str, ...]
    headline: str = ""
    new_num_samples: float | None = None

    def __getitem__(self, name: str) -> AdviceRow:
        """The row of a setting, or of what follows from them."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    @property
    def settings(self) -> TrainingSetup:
        """The settings after the change."""
        values: dict[str, Any] = {row.name: row.new for row in self.rows if row.name not in NO_SETTINGS}
        values["num_samples"] = self.new_num_samples
        if self.new_num_samples is not None and self.current.critical_batch_size is not None:
            values["critical_batch_size"] = self["critical_batch_size"].new
        return replace(self.current, batch_size=self.new_batch_size, **values)

    def sheet(self) -> Sheet:
        """Return the settings before and after the change, the reasons, and what is not known."""
        for_programs = [Quantity(name, "", [getattr(row, name) for row in self.rows]) for name in AdviceRow._fields]
        for_readers = [
            Quantity("", "setting", [LABELS[row.name] for row in self.rows]),
            Quantity("", "now", ["" if row.name == "extra_data" else _shown(row, row.old) for row in self.rows]),
            Quantity("", "new", [_shown(row, row.new) for row in self.rows]),
            Quantity("", "range", [_range(row) for row in self.rows]),
        ]
        reasons = [f"{LABELS[row.name]}: {row.reason} [{row.source}]" for row in self.rows]
        legend = "\n".join([*reasons, "T…: THEORY.md; finding: FINDINGS.md"])
        table = Table([*for_programs, *for_readers], "rows", legend=legend, hidden=AdviceRow._fields)
        sizes = {"batch_size": self.current.batch_size, "new_batch_size": self.new_batch_size}
        data = {"num_samples": self.current.samples, "new_num_samples": self.new_num_samples}
        return Sheet(
            f"{self.optimizer}: {self._changed()}",
            [table],
            [f"not known: {each}" for each in self.unknown],
            {"optimizer": self.optimizer, **sizes, **data, "headline": self.headline, "unknown": self.unknown},
            answer=self.headline,
        )

    def _changed(self) -> str:
        """Return the words for what changes."""
        old, new = self.current.batch_size, self.new_batch_size
        longer = self.new_num_samples is not None
        size = f"batch size {number(old)}" if longer and old == new else f"batch size {number(old)} → {number(new)}"
        return f"{size}, data {number(self.current.samples)} → {number(self.new_num_samples)}" if longer else size


def _shown(row: AdviceRow, value: float | None) -> str:
    """Return a value of a row as readers see it: a share of the data in percent, and steps without decimals."""
    if value is None or math.isnan(value):
        return ABSENT
    if row.name == "extra_data":
        return f"{value:+.1%}"
    return f"{value:,.0f}" if row.name.endswith("steps") else number(value)


def _range(row: AdviceRow) -> str:
    return ABSENT if math.isnan(row.low) else f"{_shown(row, row.low)} … {_shown(row, row.high)}"


def change_batch_size(
    current: TrainingSetup | Mapping[str, Any],
    *,
    new_batch_size: float | None = None,
    new_num_samples: float | None = None,
    optimizer: str | None = None,
    fit: Fit | None = None,
    rate_law: LearningRateLaw | None = None,
    level: float = 0.95,
) -> BatchSizeChange:
    """Advise on γ, β₁, β₂, weight decay, warm-up, decay and steps when the batch size, the data or both change.

    Samples are what is kept: the half-lives of β₁ and β₂, the time-scale of weight decay, warm-up and decay. γ follows
    γ*(B) at a fixed number of samples: ∝ B for SGD, ∝ √B for signs and Adam while noise dominates, with a range
    computed over problems of theory (`sgdtheory.advice.best_rates`), or the exponent of a grid of losses. For Signum,
    Lion and Muon it follows the noise of their averages (`sgdtheory.advice.learning_rate`), and the range is wide.

    In a longer or shorter run γ follows D^−c below the kink of γ*(B) (`sgdtheory.advice.duration`), or your own law of
    the best learning rate. The decay keeps its share of the run, the warm-up its samples.

    >>> import sgdtheory as st
    >>> current = {"batch_size": 64, "learning_rate": 3e-4, "beta2": 0.95, "weight_decay": 0.1, "warmup_steps": 2000}
    >>> change = st.change_batch_size(current, new_batch_size=256, optimizer="adam")
    >>> {row.name: round(row.new, 5) for row in change.rows}
    {'learning_rate': 0.0006, 'beta2': 0.81451, 'weight_decay': 0.2, 'warmup_steps': 500.0, 'extra_data': 0.0}
    >>> longer = st.change_batch_size(current | {"num_samples": 3.2e6}, new_num_samples=3.2e7, optimizer="adam")
    >>> {row.name: round(row.new, 5) for row in longer.rows[:3]}
    {'learning_rate': 0.00013, 'beta2': 0.95, 'weight_decay': 0.07534}

    Args:
        current: the settings as they are, `st.advice.TrainingSetup` or a mapping with its names.
        new_batch_size: B' > 0, in the unit of the current one; None: as it is.
        new_num_samples: D' > 0, the data of the new run, in the unit of the batch size; None: as they are.
        optimizer: "sgd", "momentum", "adam", "adamw", "sign", "signum", "lion" or "muon"; None: "adam" where the
            settings have β₂ or a weight decay.
        fit: what was measured. LossGrid: its exponent of γ* and B*; StepsLaw, StepsTable (`JointLaw.steps_table`) or
            CurvesFit: B* (curves need num_steps).
        rate_law: what `fit_rates` returns of your own runs: γ follows it, in place of theory and public runs.
        level: of the intervals that a fit gives; those of `rate_law` keep theirs.

    Returns:
        BatchSizeChange.

    Raises:
        ValueError: an argument outside its range, nothing that changes, an unknown name, no optimizer and no mark of
            Adam, a fit that does not determine B*, a law without exponents, new data without those of the run now, or
            fewer data than a batch or than the warm-up has.
    """
    setup = TrainingSetup.of(current)
    if new_batch_size is None and new_num_samples is None:
        raise ValueError("nothing changes: give new_batch_size, new_num_samples, or both")
    new = setup.batch_size if new_batch_size is None else positive_number("new_batch_size", new_batch_size)
    if optimizer is None:
        if setup.beta2 is None and not setup.weight_decay:
            raise ValueError(
                'optimizer must be given, for example optimizer="adam": the settings do not say which it is'
            )
        optimizer = "adam"
    family = FAMILIES[checked_name("optimizer", optimizer, FAMILIES)]
    level = share_between_0_and_1("level", level)
    law = None if rate_law is None else checked_law(rate_law, setup)
    known = after = evidence(setup, fit, level)
    ratio = 1.0
    if new_num_samples is not None:
        ratio = _ratio(setup, positive_number("new_num_samples", new_num_samples))
        if isinstance(fit, CurvesFit):
            after = evidence(replace(setup, num_steps=None, num_samples=new_num_samples), fit, level)
        else:
            after = later(known, growth_of(law) or IN_DURATION[family].growth, ratio)
    rate = _learning_rate(setup, (new, ratio), optimizer, (known, after), law)
    momentum = momentum_row(setup, new, family)
    data = extra_data_row(setup, new, optimizer, after)
    lengths: list[AdviceRow | None]
    if new_num_samples is None:
        lengths = [decay_row(setup, new, data), num_steps_row(setup, new, data), data]
    else:
        steps = num_steps_row_of_new_length(setup, new, new_num_samples)
        moves = IN_DURATION[family].growth_reason if law is None or growth_of(law) is None else kink_reason(law)
        size = critical_row(known, after, OF_CURVES if isinstance(fit, CurvesFit) else moves)
        if size is None and law is not None and setup.samples is not None:
            size = law_kink_row(law, setup.samples, new_num_samples)
        lengths = [decay_row_of_new_length(setup, new, ratio), steps, size, data if new != setup.batch_size else None]
    rows = (
        rate,
        momentum,
        second_moment_row(setup, new, optimizer),
        weight_decay_row(setup, new, rate, ratio),
        timescale_row(setup, optimizer, ratio, data),
        warmup_row(setup, new, momentum, ratio),
        *lengths,
    )
    unknown = tuple(_unknown(setup, (new, ratio), optimizer, after, law))
    found = tuple(row for row in rows if row is not None)
    headline = _headline(setup, new, known)
    if new_num_samples is not None:
        headline = _headline_of_new_length(rate, (new / setup.batch_size, ratio), known, law)
    return BatchSizeChange(setup, new, optimizer, found, unknown, headline, new_num_samples)


def _ratio(current: TrainingSetup, new_samples: float) -> float:
    """Return the new data over those of the run now."""
    if current.samples is None:
        raise ValueError("new_num_samples needs the data of the run now: give num_samples, or num_steps")
    return new_samples / current.samples


def _learning_rate(
    current: TrainingSetup,
    change: tuple[float, float],
    optimizer: str,
    known: tuple[Evidence, Evidence],
    law: LearningRateLaw | None,
) -> AdviceRow:
    """Return γ after the change of D at the batch size now, and then of the batch size with the new D.

    Args:
        current: settings.
        change: the new batch size, and the factor of D.
        optimizer: name.
        known: B* before and after the change of D.
        law: of the user's own runs, which replaces all other evidence.
    """
    new, ratio = change
    old = current.learning_rate
    if law is not None:
        assert current.samples is not None
        runs = (current.batch_size, current.samples), (new, current.samples * ratio)
        return AdviceRow(
            "learning_rate", old, *law_factor(law, *runs).times(old), law_reason(law), "your runs, fit_rates; T47"
        )
    row = learning_rate_row(current, new, optimizer, known[1])
    if ratio == 1:
        return row
    before = known[0]
    factor = duration_factor(FAMILIES[optimizer], current.batch_size, ratio, before.critical)
    reason = duration_reason(FAMILIES[optimizer], ratio, before)
    source = "T47" if FAMILIES[optimizer] == "sgd" else "T47; fit to step-law's runs"
    if new != current.batch_size:
        reason, source = f"{reason}. Batch size: {row.reason}", f"{source}; {row.source}"
    values = row.new * factor.value, row.low * factor.low, row.high * factor.high
    return AdviceRow("learning_rate", old, *values, reason, source)


def _headline(current: TrainingSetup, new: float, known: Evidence) -> str:
    """Return the sentence that precedes all numbers: B* with its reference, or that it is not known."""
    if known.stated is not None:
        if current.critical_batch_size is None or current.reference is not None:
            return known.stated.answer
        return f"{known.stated.answer}; if `fit` printed this B*, give its reference too (--reference)"
    if new > current.batch_size:
        limit = f"beyond it the extra data grow up to {new / current.batch_size - 1:+.0%}"
    else:
        limit = f"beyond it up to {1 - new / current.batch_size:.0%} of the data are saved"
    return (
        f"B* is not known: {limit}. Measure it with `sgdtheory fit`, and give it (--critical-batch-size, --reference)"
    )


def _headline_of_new_length(
    rate: AdviceRow, change: tuple[float, float], known: Evidence, law: LearningRateLaw | None
) -> str:
    """Return the learning rate with its range, and what the range rests on; `change` has the factors of B and D."""
    of_batch = "" if change[0] == 1 else f" and {number(change[0], 3)} times the batch size"
    answer = (
        f"{times_the_data(change[1])}{of_batch}: learning rate {number(rate.old)} → {number(rate.new)} ({_range(rate)})"
    )
    if law is not None:
        return f"{answer}, by the law of your own runs"
    if known.stated is not None:
        return f"{answer}. Now {known.stated.answer}"
    return f"{answer}. B* is not known: fit a law to your own runs (fit-rates), which gives a shorter range"


def _unknown(
    current: TrainingSetup, change: tuple[float, float], optimizer: str, known: Evidence, law: LearningRateLaw | None
) -> list[str]:
    """Return sentences on what the advice assumes without evidence.

    Args:
        current: settings.
        change: the new batch size, and the factor of D.
        optimizer: name.
        known: after the change.
        law: of the user's own runs.
    """
    new, ratio = change
    family = FAMILIES[optimizer]
    found = [
        "whether the current learning rate is the best one for its batch size: the advice scales it, with its error"
    ]
    if known.remark and law is None:
        found.append(known.remark)
    if family == "sgd" and current.beta2 is not None:
        found.append("the role of β₂: SGD has none")
    if law is not None:
        assert current.samples is not None
        found += outside(law, ((current.batch_size, current.samples), (new, current.samples * ratio)))
    elif known.critical is None:
        found.append(
            "B*: measure it (fit, fit-grid or fit-curves) and give it, critical_batch_size= (--critical-batch-size); "
            "or name logs at three batch sizes and --target-loss; beyond it γ is another"
        )
    elif max(new, current.batch_size) > known.critical.least and ratio == 1:
        found.append(_beyond(current, new, family))
    if ratio != 1 and law is None:
        found.append(
            "how γ* moves with D on your task: runs at several batch sizes, durations and learning rates show it "
            "(fit-rates; rate_law=, or a grid's CSV file)"
        )
    if new == current.batch_size and ratio != 1:
        return found
    if family == "sign" and not is_sign_without_memory(current, optimizer):
        found.append(
            f"what small batches cost {optimizer}: theory has signs of single gradients alone (sign with beta1 = 0), "
            "which need 57% more data at B = 1 and 13% at 4"
        )
    if family == "adam":
        found.append(
            f"ε: arXiv 2205.10287 scales it like B^−½, here by {(new / current.batch_size) ** -0.5:.3g}, as the noise "
            "in √v falls; it matters where √v is not far above ε"
        )
    if family != "sgd" and known.exponent is None and law is None:
        found.append("whether your task follows theory's √B: try three learning rates at the new batch size")
    return found


def _beyond(current: TrainingSetup, new: float, family: str) -> str:
    """Return the sentence on what is not known where a batch size exceeds B*."""
    begin = "how far γ may grow beyond B*"
    if family == "sgd":
        return f"{begin}: to the edge of stability, which momentum moves; try half and twice the advice"
    ends = sorted((current.learning_rate, current.learning_rate * new / current.batch_size))
    return f"{begin}: in theory up to like B, on language models not at all; try {ends[0]:.3g} … {ends[1]:.3g}"
