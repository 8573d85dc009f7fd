"""Conventions of the critical batch size: a reference batch size and an overhead, and their effect on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sgdtheory._common.arguments import positive_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.fits.power_law import fit_power_law


@dataclass(frozen=True)
class Convention:
    """The two numbers in the definition of B*: it needs (1 + ω) times the data that the reference batch size needs.

    >>> import sgdtheory as st
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> [round(law.critical_batch_size(convention=st.Convention(256, overhead))) for overhead in (0.1, 0.2, 0.5)]
    [431, 607, 1133]

    Attributes:
        reference: B_ref, a batch size in the regime of linear scaling; None: the smallest batch size that is measured,
            of several groups the smallest that all of them have.
        overhead: ω > 0, the fraction of extra data.

    Raises:
        ValueError: numbers that are not positive.
    """

    reference: float | None = None
    overhead: float = 0.2

    def __post_init__(self) -> None:
        if self.reference is not None:
            object.__setattr__(self, "reference", positive_number("reference", self.reference))
        object.__setattr__(self, "overhead", positive_number("overhead", self.overhead))

    def reference_among(self, batch_sizes: ArrayLike) -> float:
        """B_ref: the convention's own or, where it has none, the smallest of `batch_sizes`."""
        return float(np.min(batch_sizes)) if self.reference is None else self.reference

    @property
    def reference_text(self) -> str:
        """The reference, for a title."""
        return "each group's smallest B" if self.reference is None else f"B = {self.reference:g}"


SMALLEST = Convention()  # By default B* needs 20% more data than the smallest batch size measured.
PAPER = Convention(reference=256.0)  # For its own measurements arXiv 2410.21676 has B* at 20% more data than B = 256.


def common_convention(
    batch_sizes: Sequence[ArrayLike], reference: float | None = None, overhead: float = 0.2
) -> Convention:
    """The convention of several groups, with one reference for all: how every command reads its flags.

    >>> from sgdtheory.fits import common_convention
    >>> common_convention([[16, 64, 256], [64, 256, 1024]])
    Convention(reference=64.0, overhead=0.2)
    >>> common_convention([[16, 64, 256], [64, 256, 1024]], reference=128).reference
    128.0

    Args:
        batch_sizes: of each group.
        reference: B_ref, if it is given; None: the smallest batch size that all groups have measured. Where they have
            none in common, it stays None: the smallest of each.
        overhead: ω.
    """
    if reference is None and len(batch_sizes):
        common = set.intersection(*(set(np.ravel(each).tolist()) for each in batch_sizes))
        reference = float(min(common)) if common else None
    return Convention(reference, overhead)


def one_convention(convention: Convention | None, reference: float | None, overhead: float) -> Convention:
    """The convention that a caller gives as such, or as its two numbers.

    >>> import sgdtheory as st
    >>> from sgdtheory.fits import one_convention
    >>> one_convention(None, 64, 0.5) == one_convention(st.Convention(64, 0.5), None, 0.2)
    True

    Raises:
        ValueError: both are given, and say different things.
    """
    numbers = Convention(reference, overhead)
    if convention is not None and numbers not in (SMALLEST, convention):
        raise ValueError("convention has the reference and the overhead already: leave these two out")
    return numbers if convention is None else convention


class HasCriticalBatchSize(Protocol):
    """A law of one group of measurements: a `StepsLaw`, or your own."""

    def critical_batch_size(self, *, convention: Convention) -> float:
        """B* under a convention."""
        ...


@dataclass(frozen=True)
class SensitivityRow:
    """B* of every law, and its exponent against size, under one convention."""

    reference: float
    overhead: float
    critical_batch_sizes: tuple[float, ...]
    exponent: float
    interval: tuple[float, float]


def sensitivity(
    laws: Sequence[HasCriticalBatchSize],
    sizes: ArrayLike,
    *,
    references: ArrayLike = (64, 128, 256, 512, 1024),
    overheads: ArrayLike = (0.1, 0.2, 0.5, 1.0),
    level: float = 0.95,
) -> list[SensitivityRow]:
    """Tabulate how B* and its exponent depend on the two conventions in its definition.

    >>> import sgdtheory as st
    >>> models = st.example_measurements()
    >>> laws = [st.fit_steps_law(model.batch_sizes, model.steps) for model in models]
    >>> rows = st.sensitivity(laws, [model.size for model in models], references=256, overheads=(0.1, 0.2))
    >>> [(row.overhead, round(row.exponent, 2)) for row in rows]
    [(0.1, 0.39), (0.2, 0.47)]

    Args:
        laws: StepsLaws, one a size.
        sizes: (m,) model or data sizes; their unit only moves the coefficient.
        references: reference batch sizes B_ref.
        overheads: overheads ω.
        level: of the exponent's interval.

    Returns:
        A list of SensitivityRow, overheads varying slowest.
    """
    rows = []
    for overhead in np.atleast_1d(overheads).tolist():
        for reference in np.atleast_1d(references).tolist():
            convention = Convention(reference, overhead)
            critical = tuple(law.critical_batch_size(convention=convention) for law in laws)
            fit = fit_power_law(sizes, critical)
            rows.append(SensitivityRow(reference, overhead, critical, fit.exponent, fit.interval(level)))
    return rows
