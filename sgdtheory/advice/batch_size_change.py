"""`change_batch_size`: what to do to the settings of a run when its batch size changes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sgdtheory._common.arguments import checked_name, positive_number, share_between_0_and_1
from sgdtheory._common.sheets import ABSENT, Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.advice.data_needed import extra_data_row, is_sign_without_memory
from sgdtheory.advice.evidence import Evidence, Fit, evidence
from sgdtheory.advice.learning_rate import FAMILIES, learning_rate_row
from sgdtheory.advice.lengths import decay_row, num_steps_row, warmup_row
from sgdtheory.advice.memories import momentum_row, second_moment_row, weight_decay_row
from sgdtheory.advice.row import AdviceRow
from sgdtheory.advice.setup import TrainingSetup

LABELS = {
    "learning_rate": "learning rate",
    "beta1": "β₁",
    "beta2": "β₂",
    "weight_decay": "weight decay",
    "warmup_steps": "warm-up, steps",
    "decay_steps": "decay, steps",
    "num_steps": "steps",
    "extra_data": "extra data",
}


@dataclass(frozen=True)
class BatchSizeChange(Shown):
    """Advice on the settings of training after a change of the batch size; made by `change_batch_size`.

    Attributes:
        current: the settings before.
        new_batch_size: B'.
        optimizer: name.
        rows: an `AdviceRow` for each setting that is known, and the extra data.
        unknown: what neither theory nor the fit tells, a sentence each.
        headline: B* and the reference from which it counts; where it is not known, what that leaves open.
    """

    current: TrainingSetup
    new_batch_size: float
    optimizer: str
    rows: tuple[AdviceRow, ...]
    unknown: tuple[str, ...]
    headline: str = ""

    def __getitem__(self, name: str) -> AdviceRow:
        """The row of a setting, or of "extra_data"."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    @property
    def settings(self) -> TrainingSetup:
        """The settings after the change."""
        values = {row.name: row.new for row in self.rows if row.name != "extra_data"}
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
        return Sheet(
            f"{self.optimizer}: batch size {number(self.current.batch_size)} → {number(self.new_batch_size)}",
            [table],
            [f"not known: {each}" for each in self.unknown],
            {"optimizer": self.optimizer, **sizes, "headline": self.headline, "unknown": self.unknown},
            answer=self.headline,
        )


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
    new_batch_size: float,
    optimizer: str | None = None,
    fit: Fit | None = None,
    level: float = 0.95,
) -> BatchSizeChange:
    """Advise on γ, β₁, β₂, weight decay, warm-up, decay and steps when the batch size changes, up or down.

    Samples are what is kept: the half-lives of β₁ and β₂, the time-scale of weight decay, warm-up and decay. γ follows
    γ*(B) at a fixed number of samples: ∝ B for SGD, ∝ √B for signs and Adam while noise dominates, with a range
    computed over problems of theory (`sgdtheory.advice.best_rates`), or the exponent of a grid of losses. For Signum,
    Lion and Muon it follows the noise of their averages (`sgdtheory.advice.learning_rate`), and the range is wide.

    >>> import sgdtheory as st
    >>> current = {"batch_size": 64, "learning_rate": 3e-4, "beta2": 0.95, "weight_decay": 0.1, "warmup_steps": 2000}
    >>> change = st.change_batch_size(current, new_batch_size=256, optimizer="adam")
    >>> {row.name: round(row.new, 5) for row in change.rows}
    {'learning_rate': 0.0006, 'beta2': 0.81451, 'weight_decay': 0.2, 'warmup_steps': 500.0, 'extra_data': 0.0}

    Args:
        current: the settings as they are, `st.advice.TrainingSetup` or a mapping with its names.
        new_batch_size: B' > 0, in the unit of the current one.
        optimizer: "sgd", "momentum", "adam", "adamw", "sign", "signum", "lion" or "muon"; None: "adam" where the
            settings have β₂ or a weight decay.
        fit: what was measured. LossGrid: its exponent of γ* and B*; StepsLaw, StepsTable (`JointLaw.steps_table`) or
            CurvesFit: B* (curves need num_steps).
        level: of the intervals that a fit gives.

    Returns:
        BatchSizeChange.

    Raises:
        ValueError: an argument outside its range, an unknown name, no optimizer and no mark of Adam, a fit that does
            not determine B*, or a new batch size beyond all samples of the run.
    """
    setup = TrainingSetup.of(current)
    new = positive_number("new_batch_size", new_batch_size)
    if optimizer is None:
        if setup.beta2 is None and not setup.weight_decay:
            raise ValueError(
                'optimizer must be given, for example optimizer="adam": the settings do not say which it is'
            )
        optimizer = "adam"
    family = FAMILIES[checked_name("optimizer", optimizer, FAMILIES)]
    known = evidence(setup, fit, share_between_0_and_1("level", level))
    rate = learning_rate_row(setup, new, optimizer, known)
    momentum = momentum_row(setup, new, family)
    data = extra_data_row(setup, new, optimizer, known)
    rows = (
        rate,
        momentum,
        second_moment_row(setup, new, optimizer),
        weight_decay_row(setup, new, rate),
        warmup_row(setup, new, momentum),
        decay_row(setup, new, data),
        num_steps_row(setup, new, data),
        data,
    )
    unknown = tuple(_unknown(setup, new, optimizer, known))
    found = tuple(row for row in rows if row is not None)
    return BatchSizeChange(setup, new, optimizer, found, unknown, _headline(setup, new, known))


def _headline(current: TrainingSetup, new: float, known: Evidence) -> str:
    """Return the sentence that precedes all numbers: B* with its reference, or that it is not known."""
    if known.stated is not None:
        if current.critical_batch_size is None or current.reference is not None:
            return known.stated.text
        return f"{known.stated.text}; if `fit` printed this B*, give its reference too (--reference)"
    if new > current.batch_size:
        limit = f"beyond it the extra data grow up to {new / current.batch_size - 1:+.0%}"
    else:
        limit = f"beyond it up to {1 - new / current.batch_size:.0%} of the data are saved"
    return (
        f"B* is not known: {limit}. Measure it with `sgdtheory fit`, and give it (--critical-batch-size, --reference)"
    )


def _unknown(current: TrainingSetup, new: float, optimizer: str, known: Evidence) -> list[str]:
    """Return sentences on what the advice assumes without evidence."""
    family = FAMILIES[optimizer]
    found = [
        "whether the current learning rate is the best one for its batch size: the advice scales it, with its error"
    ]
    if known.remark:
        found.append(known.remark)
    if family == "sgd" and current.beta2 is not None:
        found.append("the role of β₂: SGD has none")
    if known.critical is None:
        found.append(
            "B*: measure it (fit, fit-grid or fit-curves) and give it, critical_batch_size= (--critical-batch-size); "
            "or name logs at three batch sizes and --target-loss; beyond it γ is another"
        )
    elif max(new, current.batch_size) > known.critical.least:
        found.append(_beyond(current, new, family))
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
    if family != "sgd" and known.exponent is None:
        found.append("whether your task follows theory's √B: try three learning rates at the new batch size")
    return found


def _beyond(current: TrainingSetup, new: float, family: str) -> str:
    """Return the sentence on what is not known where a batch size exceeds B*."""
    begin = "how far γ may grow beyond B*"
    if family == "sgd":
        return f"{begin}: to the edge of stability, which momentum moves; try half and twice the advice"
    ends = sorted((current.learning_rate, current.learning_rate * new / current.batch_size))
    return f"{begin}: in theory up to like B, on language models not at all; try {ends[0]:.3g} … {ends[1]:.3g}"
