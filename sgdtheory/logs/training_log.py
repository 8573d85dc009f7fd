"""`TrainingLog`: the numbers and settings that a log has of one run, before anything is left out or joined."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.logged_losses import gap, gap_remark

COLUMNS = "loss", "evaluation_loss", "learning_rate", "batch_size", "tokens", "batch_tokens"
LOSSES = "loss", "evaluation_loss"
KINDS = {"train": "loss", "eval": "evaluation_loss"}  # Users call the two losses by these keys.
COMPARED = 3  # Training losses are compared with this many evaluations or more.
MULTIPLE = 0.1  # Their ratio is a whole number to within this share: the two losses are of different data.


@dataclass(frozen=True, eq=False)
class TrainingLog:
    """Log of one training run, a row for each step at which something was logged.

    Numbers that a row does not have are nan: not logged there. A loss that was logged as nan or inf is inf where the
    run has no finite loss at that step or later, since it had diverged; otherwise it counts as not logged.

    Attributes:
        name: of the run.
        format: that it was read by.
        step: (K,) whole numbers, increasing: optimizer steps done.
        loss: (K,) of training, or the loss that was named.
        evaluation_loss: (K,) of validation.
        learning_rate: (K,).
        batch_size: (K,) sequences (or samples) a step, over all devices and accumulated micro batches.
        tokens: (K,) seen so far.
        group: of the runs that are to be fitted together.
        settings: of the run, where the log has them, by these names: `batch_size` (of all steps), `weight_decay`,
            `beta1`, `beta2`, `optimizer`, `warmup` and `warmdown` (steps), `num_steps` (planned), `sequence_length`,
            `micro_batch`, `accumulation`, `world_size`, `num_parameters`, `schedule`.
        columns: attribute → what the log calls it ("train/loss"), for the preview.
        unused: what else the log has, by its own names.
        remarks: what was not understood, or left out; a sentence each.
        batch_tokens: (K,) tokens a step, over all devices and accumulated micro batches.
    """

    name: str
    format: str
    step: np.ndarray
    loss: np.ndarray
    evaluation_loss: np.ndarray
    learning_rate: np.ndarray
    batch_size: np.ndarray
    tokens: np.ndarray
    group: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    batch_tokens: np.ndarray = None  # pyright: ignore[reportAssignmentType]  (none: all nan)

    def __post_init__(self) -> None:
        if self.batch_tokens is None:
            object.__setattr__(self, "batch_tokens", np.full(np.shape(self.step), np.nan))

    @classmethod
    def from_series(
        cls, name: str, format: str, series: Mapping[str, tuple[ArrayLike, ArrayLike]], **other: Any
    ) -> "TrainingLog":
        """Join what was logged of each column by step, in the order in which it was logged.

        Where steps go back, as after a restart from a checkpoint, what was logged later replaces what was logged
        before at this step and all that follow it. Losses that are nan or inf between finite ones were not logged. Both
        are said in a remark.

        Args:
            name, format: as above.
            series: column (`loss`, `evaluation_loss`, `learning_rate`, `batch_size`, `tokens`, `batch_tokens`) → steps,
                values.
            other: `group`, `settings`, `columns`, `unused`, `remarks`.

        Raises:
            ValueError: steps that are not whole numbers of at least 0.
        """
        kept, replaced = {}, {}
        for column, (steps, values) in series.items():
            entries = _in_order(_checked_steps(steps, name), values)
            kept[column], replaced[column] = _latest(*(_without_twins(*entries) if column in LOSSES else entries))
        gaps = _drop_gaps(kept, other.get("columns", {}))
        step = np.unique(np.concatenate([np.empty(0), *(steps for steps, _ in kept.values())]))
        arrays = {column: np.full(step.size, np.nan) for column in COLUMNS}
        for column, (steps, values) in kept.items():
            bad = ~np.isfinite(values)
            arrays[column][np.searchsorted(step, steps)] = np.where(bad, np.inf, values) if column in LOSSES else values
        summed = _summed_remark(arrays["loss"], arrays["evaluation_loss"], step, other.get("settings", {}))
        remarks = (*other.get("remarks", ()), *_replaced_remark(replaced), *gaps, *summed)
        other["remarks"] = tuple(dict.fromkeys(remarks))
        return cls(name, format, step, **arrays, **other)

    def series(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps at which a column was logged, and its values."""
        values = getattr(self, column)
        logged = ~np.isnan(values)
        return self.step[logged], values[logged]

    def has(self, column: str) -> bool:
        """Return whether a column was logged at all."""
        return bool((~np.isnan(getattr(self, column))).any())


def _checked_steps(steps: ArrayLike, name: str) -> np.ndarray:
    steps = np.asarray(steps, float)
    bad = ~(np.isfinite(steps) & (steps >= 0) & (steps == np.floor(steps)))
    if bad.any():
        raise ValueError(
            f"{name}: steps must be whole numbers of at least 0, got {steps[np.argmax(bad)]:g}; name the column that "
            "counts optimizer steps, step= (--step)"
        )
    return steps


def _in_order(steps: np.ndarray, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return entries as logged; a file that has the last step first is turned over, since no run counts backwards."""
    values = np.asarray(values, float)
    if steps.size > 1 and (np.diff(steps) <= 0).all() and steps[0] > steps[-1]:
        return steps[::-1], values[::-1]
    return steps, values


def _without_twins(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out a loss that is not finite beside a finite one of the same step, which it does not replace."""
    bad = ~np.isfinite(values)
    if not bad.any() or steps.size < 2:
        return steps, values
    twins = np.diff(steps) == 0
    beside = np.zeros(steps.size, bool)
    beside[1:] |= twins & ~bad[:-1]
    beside[:-1] |= twins & ~bad[1:]
    return steps[~(bad & beside)], values[~(bad & beside)]


def _drop_gaps(kept: dict[str, tuple[np.ndarray, np.ndarray]], columns: Mapping[str, str]) -> list[str]:
    """Drop losses that are nan or inf before the last finite loss, in place, and return a remark on each column."""
    finite = {column: kept[column][0][np.isfinite(kept[column][1])] for column in LOSSES if column in kept}
    last = max((steps[-1] for steps in finite.values() if steps.size), default=-1)
    remarks = []
    for column in finite:
        steps, values = kept[column]
        missing = gap(steps, values, last)
        if missing.any():
            kept[column] = steps[~missing], values[~missing]
            remarks.append(gap_remark(steps[missing], columns.get(column, column)))
    return remarks


def _latest(steps: np.ndarray, values: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], tuple[float, int]]:
    """Return the entries that no later one replaces, and (first step replaced, how many).

    An entry stays if all that were logged after it have larger steps.
    """
    after = np.minimum.accumulate(steps[::-1])[::-1]
    stays = np.append(steps[:-1] < after[1:], True)[: steps.size]
    first = float(steps[~stays].min()) if not stays.all() else np.inf
    return (steps[stays], values[stays]), (first, int((~stays).sum()))


def _replaced_remark(replaced: Mapping[str, tuple[float, int]]) -> list[str]:
    """Return the remark on steps that went back or stand twice, for the column that lost most."""
    if not any(count for _, count in replaced.values()):
        return []
    column = max(replaced, key=lambda each: replaced[each][1])
    first, count = replaced[column]
    rows = "1 row was" if count == 1 else f"{count} rows were"
    return [f"steps go back to {first:g} or repeat: {rows} replaced by what was logged later"]


def _summed_remark(
    loss: np.ndarray, evaluation: np.ndarray, step: np.ndarray, settings: Mapping[str, Any]
) -> list[str]:
    """Return the remark on training losses that are a whole multiple of the evaluation losses.

    If a trainer logs the sum over accumulated batches, losses of runs with different batch sizes cannot be compared.
    If the number of accumulated batches is not known, a ratio of two gives no remark, because the data of training and
    of evaluations may differ as much.
    """
    logged = np.isfinite(loss)
    compared = np.isfinite(evaluation) & (evaluation > 0)
    if logged.any():
        compared &= (step >= step[logged][0]) & (step <= step[logged][-1])
    if not logged.any() or compared.sum() < COMPARED:
        return []
    ratio = float(np.median(np.interp(step[compared], step[logged], loss[logged]) / evaluation[compared]))
    number = round(ratio)
    accumulation = settings.get("accumulation")
    possible = number >= 3 if accumulation is None else number == accumulation >= 2
    if not possible or abs(ratio - number) > MULTIPLE * number:
        return []
    return [
        f"training losses are about {number} times the evaluation losses: some trainers log the sum over accumulated "
        "batches, which depends on the batch size; take the evaluation losses, loss='eval' (--loss eval)"
    ]
