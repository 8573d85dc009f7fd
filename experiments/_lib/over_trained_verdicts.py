"""Verdicts and figure of the laws of model size and data on over-trained and larger models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.over_trained import (
    CHINCHILLA,
    FREE_BOTH,
    FREE_SHARPNESS,
    FREE_TIE,
    IN_SAMPLE,
    LARGEST_QUARTER,
    LARGEST_SIZE,
    OVER_TRAINED,
    TIED,
    law_of,
    splits,
    tables,
)
from experiments._lib.results import Verdict, VerdictName
from sgdtheory.fits import BLEND, Settings
from sgdtheory.plotting.style import GRAY, categories, legend_below, log_axes, new_figure

TIE_WITHIN = 2.0  # A tie that the data know to this factor only, or less well, is not said to hold.
LEVEL_OF_P = 0.05
DRAWN = TIED, FREE_TIE, CHINCHILLA
SHIFTS = 0.12, 0.0, -0.12  # Lines of the three laws in a row of the figure, so that equal errors do not overlap.
MEASURED: dict[str, Any] = {"color": GRAY, "marker": "o", "ms": 3, "ls": ""}
SHOWN = "RefinedWeb"  # The table with the runs that a panel shows.


def over_training_verdicts(config: Any, rows: Sequence[Any], seconds: float) -> tuple[Verdict, ...]:
    """Return the verdicts: predictions, the tie and k on each table, and the control on each split."""
    whole = [row for row in rows if row.variant == "none"]
    of_tied = [row for row in whole if row.law == TIED.name]
    names = dict.fromkeys(row.table for row in whole)
    fits = {(row.table, row.law): row for row in whole if row.split == IN_SAMPLE}
    parts = (OVER_TRAINED, LARGEST_SIZE, LARGEST_QUARTER)
    return (
        *(_prediction(config, row, seconds) for part in parts for row in of_tied if row.split == part),
        *(_tie(config, fits[name, FREE_TIE.name]) for name in names),
        *(_sharpness(config, fits[name, law.name]) for law in (FREE_SHARPNESS, FREE_BOTH) for name in names),
        *(_control(config, each) for part in (IN_SAMPLE, *parts) if (each := [r for r in of_tied if r.split == part])),
    )


def _prediction(config: Any, row: Any, seconds: float) -> Verdict:
    verdict: VerdictName = "inconclusive"
    if row.ratio_high < 1 or row.ratio_low > 1:
        verdict = "holds" if row.ratio_high < 1 else "fails"
    return Verdict(
        f"the tied law predicts better than Chinchilla's: {row.table}, {row.split}",
        f"Rms error of the tied law over that of Chinchilla's law at {row.runs} runs, predicted from the others, with "
        f"the {config.level:.0%} interval from resampled model sizes. The tied law errs by {row.error:.2%}. Where "
        f"Chinchilla's law makes the losses, a share of {row.made_share:.3f} of the ratios is at most the measured one",
        "below 1",
        row.ratio,
        (row.ratio_low, row.ratio_high),
        verdict,
        seconds,
    )


def _tie(config: Any, row: Any) -> Verdict:
    inside = row.tie_low <= 1 <= row.tie_high
    known = row.tie_low > 1 / TIE_WITHIN and row.tie_high < TIE_WITHIN and row.p_value > LEVEL_OF_P
    return Verdict(
        f"β = α/(1 + α): {row.table}",
        f"β over α/(1 + α) where β is fitted, with the {config.level:.0%} interval from resampled model sizes. The "
        f"test of the tie by resampled residuals, which takes runs of one size for independent, has p = "
        f"{row.p_value:.2f}",
        1.0,
        row.tie,
        (row.tie_low, row.tie_high),
        ("holds" if known else "inconclusive") if inside else "fails",
    )


def _sharpness(config: Any, row: Any) -> Verdict:
    """The sum is k = 1: an interval that contains it decides nothing."""
    inside = row.sharpness_low <= BLEND <= row.sharpness_high
    way = "β free" if row.law == FREE_BOTH.name else "β = α/(1 + α)"
    return Verdict(
        f"k = 5/2, {way}: {row.table}",
        f"Fitted k, with the {config.level:.0%} interval from resampled model sizes; inconclusive if it contains the "
        f"sum, k = 1",
        BLEND,
        row.sharpness,
        (row.sharpness_low, row.sharpness_high),
        ("holds" if row.sharpness_low > 1.01 else "inconclusive") if inside else "fails",
    )


def _control(config: Any, rows: Sequence[Any]) -> Verdict:
    medians = [row.made_ratio for row in rows]
    ends = min(medians), max(medians)
    return Verdict(
        f"control, losses of Chinchilla's law do not favour the tied law: {rows[0].split}",
        f"Median ratio of the errors of the tied law and of Chinchilla's in {config.made} tables of losses that "
        f"Chinchilla's law made, with its residuals and a random sign for each model size; range over the data sets. "
        f"Below 1, fewer parameters alone make the tied law predict better",
        "1 or more",
        f"{ends[0]:.2f} … {ends[1]:.2f}",
        ends,
        "holds" if ends[0] >= 1 else "fails",
    )


# ------------------------------------------------------------------ figure


def over_training_figure(rows: Sequence[Any]) -> Figure:
    """Errors of three laws by table, a panel for each split, and losses beside predictions in a last panel."""
    drawn, axes = new_figure(1, 4, width=2.6, height=3.2)
    names = list(dict.fromkeys(row.table for row in rows))
    flat = axes.ravel()
    for axis, split in zip(flat, (IN_SAMPLE, OVER_TRAINED, LARGEST_SIZE), strict=False):
        _errors_panel(axis, [row for row in rows if row.variant == "none" and row.split == split], names)
        axis.set_title(split.replace("size", "model size"))
    for axis in flat[1:3]:
        axis.set_yticklabels([])
    _losses_panel(flat[3])
    drawn.suptitle("Laws of the loss in model size N and data D, on public runs of language models", fontsize=10)
    flat[0].plot([], [], **MEASURED, label="measured (last panel)")
    legend_below(drawn, flat[0], columns=4)
    return drawn


def _errors_panel(axis: Axes, rows: Sequence[Any], names: Sequence[str]) -> None:
    for shift, law, style in zip(SHIFTS, DRAWN, categories(len(DRAWN)), strict=True):
        mine = [row for row in rows if row.law == law.name]
        label = f"{law.name} ({law.number_fitted} parameters)"
        places = [shift - names.index(row.table) for row in mine]
        points: dict[str, Any] = {**style, "ls": "", "label": label}
        axis.plot([100 * row.error for row in mine], places, **points)
    axis.set(xlabel="rms error of the loss (%)", ylim=(0.5 - len(names), 0.5))
    axis.set_xlim(0, 108 * max(row.error for row in rows))
    axis.set_yticks([-place for place in range(len(names))], [name.replace(", ", ",\n") for name in names])


def _losses_panel(axis: Axes) -> None:
    """Lines of the laws that are fitted to D/N ≤ 100, a size each, through the measured losses."""
    table = tables()[SHOWN]
    out = splits(table)[OVER_TRAINED]
    centre = np.log(table.size).mean(), np.log(table.samples).mean()
    laws = {each: law_of(each, table, out) for each in DRAWN}
    for size in np.unique(table.size):
        mine = table.size == size
        ratio = table.samples[mine] / size
        line = np.geomspace(ratio.min(), max(ratio.max(), 1.01 * ratio.min()), 50)
        at = Settings(np.log(size) - centre[0], np.log(line * size) - centre[1], np.zeros(()))
        for law, style in zip(DRAWN, categories(len(DRAWN)), strict=True):
            axis.plot(line, laws[law].loss(at), color=style["color"], lw=1.0)
        axis.plot(ratio, table.loss[mine], **MEASURED)
    axis.axvline(100, color=GRAY, lw=0.8, ls=":")
    axis.set(xlabel="tokens per parameter D/N", ylabel="loss (nats per token)")
    axis.set_title(f"{SHOWN}: fitted left of the line")
    log_axes(axis)
