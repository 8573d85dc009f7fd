"""Tables of a log: cells to numbers, which column counts optimizer steps, and which rows belong to which run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.arguments import is_number
from sgdtheory.logs.column_names import EVALUATION, ColumnNames, RunLabels
from sgdtheory.logs.training_log import COLUMNS, LOSSES, TrainingLog

BLANK = frozenset(("", "None", "null", "NA", "N/A", "<NA>"))  # Programs write these texts where there is no number.
SETTINGS = {"current_steps": {"total_steps": "num_steps"}}  # Each counter has columns that hold settings.
# A counter that begins again with each epoch is counted on if its rows are at most this share of an epoch apart: an
# epoch may be longer than its last row by that much, and the steps are off by as much.
COARSE = 0.05
REPEATED = 0.25  # A restart repeats fewer of the rows. Beyond this share, rows of one step belong to several runs.
# Losses at 0, 1, 2, … may be those of calls of a logger if there are this many: fewer say nothing, and a run that is
# logged at each step soon has more.
CALLS = range(5, 1000)

Columns = Mapping[str, np.ndarray]


class Table(NamedTuple):
    """One row a logged step.

    Attributes:
        name: of the run, where no column separates runs.
        format: that reads it.
        present: names of its columns.
        read: function of (columns of numbers, columns of text); returns column → (R,) cells, as `numbers` has them.
        remarks: on all runs; a list, which reading may extend.
        calls: columns that count calls of a logger, which need not be optimizer steps.
    """

    name: str
    format: str
    present: Sequence[str]
    read: Callable[[Sequence[str], Sequence[str]], Columns]
    remarks: Sequence[str] = ()
    calls: tuple[str, ...] = ("_step",)


def numbers(cells: Iterable[Any], column: str, place: str, first: int = 1) -> np.ndarray:
    """Return cells of a column as numbers: nan where one is blank, inf where nan or ±inf was logged.

    Raises:
        ValueError: a cell is neither; the sentence names the row, counted from `first`.
    """
    cells = cells if isinstance(cells, Sequence) else list(cells)
    try:
        # Without a blank cell this takes two thirds of the time of the cells one by one.
        values = np.array([*map(float, cells)], float)
        values[~np.isfinite(values)] = np.inf
        return values
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return np.array([_number(cell) for cell in cells], float)
    except (TypeError, ValueError):
        bad = (row for row, cell in enumerate(cells) if str(cell).strip() not in BLANK and not is_number(str(cell)))
        row = next(bad, 0)
        raise ValueError(f"{place}, row {first + row}: {column} must be a number, got {cells[row]!r}") from None


def _number(cell: Any) -> float:
    if cell is None or (isinstance(cell, str) and (cell in BLANK or cell.isspace())):
        return np.nan
    value = float(cell)
    return value if value - value == 0.0 else np.inf


def texts(cells: Iterable[Any], known: dict[str, str]) -> np.ndarray:
    """Return cells as texts; equal ones share their memory through `known`."""
    words = ("" if cell is None else str(cell) for cell in cells)
    return np.array([known.setdefault(word, word) for word in words], object)


def logs_of_table(table: Table, names: ColumnNames) -> list[TrainingLog]:
    """Return the runs of a table, in the order in which they begin.

    Raises:
        ValueError: no column counts steps, or one does that begins again with each epoch and cannot be counted on.
    """
    understood = names.understand(table.present)
    counters = names.counters(table.present)
    if not counters:
        raise ValueError(_no_counter(table, names, understood))
    labels, modes = names.run_labels(table.present), names.modes(table.present)
    epoch = names.epoch(table.present)
    more = [each for column in SETTINGS for each in SETTINGS[column] if column in counters and each in table.present]
    counting = [column for counter in counters for column, _ in names.terms(counter, table.present) if column]
    measured = {attribute: column for attribute, column in understood.items() if attribute in COLUMNS}
    wanted = dict.fromkeys([*measured.values(), *counting, *epoch, *more])
    words = dict.fromkeys([*labels.columns, *modes, *filter(None, [understood.get("group")])])
    cells = table.read([*wanted], [*words])
    values = {attribute: cells[column] for attribute, column in measured.items()}
    validating = _split_evaluations(values, cells[modes[0]]) if modes else None
    counts = {each: _sum_of_terms(cells, names.terms(each, table.present), epoch) for each in counters}
    rows = _Rows(counts[counters[0]].size, values, validating, cells[epoch[0]] if epoch else None)
    columns, remark = _separating(labels, cells, counts[counters[0]], rows)
    code = _codes([cells[column] for column in columns] + _group(understood, cells), rows.size)
    counter, steps, counted = _running(table.name, counts, code, rows, epoch)
    remarks = [
        *table.remarks,
        *filter(
            None, [remark, counted, calls_remark(counter, steps[(code == 0) & ~np.isnan(rows.losses)], table.calls)]
        ),
    ]
    used = understood | {"step": counter}
    unused = tuple(column for column in table.present if column and column not in used.values())
    found = []
    for own in _rows_of_runs(code):
        words = (*columns, *filter(None, [used.get("group")]))
        texts_of_run = {column: str(cells[column][own[0]]) for column in words} if own.size else {}
        found.append(
            TrainingLog.from_series(
                labels.name(columns if own.size else (), texts_of_run, table.name),
                table.format,
                {column: _logged(steps[own], values[column][own], column) for column in values},
                group=texts_of_run.get(used.get("group", ""), ""),
                settings={
                    SETTINGS[counter][each]: float(np.nanmax(cells[each])) for each in more if counter in SETTINGS
                },
                columns={attribute: column for attribute, column in used.items() if attribute in ("step", *COLUMNS)},
                unused=unused,
                remarks=tuple(remarks),
            )
        )
    return found


class _Rows(NamedTuple):
    """Rows of a table: how many, (R,) numbers of each attribute, whether they are of validation, and their epochs."""

    size: int
    values: Mapping[str, np.ndarray]
    validating: np.ndarray | None
    epochs: np.ndarray | None

    @property
    def losses(self) -> np.ndarray:
        """(R,) losses of training, or of evaluations where there are no others; nan where none was logged."""
        blank = np.full(self.size, np.nan)
        losses = self.values.get("loss", blank)
        return losses if not np.isnan(losses).all() else self.values.get("evaluation_loss", blank)


def _no_counter(table: Table, names: ColumnNames, understood: Mapping[str, str]) -> str:
    others = (each for each in table.present if each and each not in understood.values())
    there = ", ".join(map(repr, [*understood.values(), *others])) or "none"
    ask = f"{table.name}: no column counts optimizer steps; name it, step= (--step); its columns are: {there}"
    epochs = names.epoch(table.present)
    return f"{ask}; if an epoch has N steps, give step='{epochs[0]}*N' with the number for N" if epochs else ask


def _sum_of_terms(cells: Columns, terms: Sequence[tuple[str, float]], epoch: Sequence[str]) -> np.ndarray:
    """Return a sum of columns; beside a counter within an epoch, epochs are counted from the first, 0 or 1, on."""
    columns = [column for column, _ in terms if column]
    first = {column: np.nanmin(cells[column]) for column in columns if column in epoch and len(columns) > 1}
    total = np.zeros(cells[columns[0]].size)
    for column, factor in terms:
        total = total + factor * (cells[column] - first.get(column, 0.0) if column else 1.0)
    return total


def _split_evaluations(values: dict[str, np.ndarray], modes: np.ndarray) -> np.ndarray:
    """Move losses of rows that a column calls validation to the evaluations, and return these rows."""
    words = [word.strip().lower() for word in modes.tolist()]
    first = next((word for word in words if word in EVALUATION), None)
    validating = np.array([word in EVALUATION for word in words], bool)
    if "loss" in values and validating.any() and not validating.all():
        evaluated = np.where([word == first for word in words], values["loss"], np.nan)
        other = values.get("evaluation_loss", np.full(evaluated.size, np.nan))
        values["evaluation_loss"] = np.where(np.isnan(other), evaluated, other)
        values["loss"] = np.where(validating, np.nan, values["loss"])
    for column in {"learning_rate", "batch_size"} & values.keys():
        values[column] = np.where(validating, np.nan, values[column])
    return validating


def _separating(labels: RunLabels, cells: Columns, steps: np.ndarray, rows: _Rows) -> tuple[tuple[str, ...], str]:
    """Return the columns whose values separate the runs, and a remark where these are not the usual ones.

    The usual column is passed over if many of the rows of one value have the same step, which a run has once, and
    another column, or a seed beside it, has no such rows.
    """
    usual, *others = labels.candidates
    there = np.flatnonzero(~np.isnan(rows.losses) & np.isfinite(steps))
    exact = [steps[there], *([] if rows.epochs is None else [rows.epochs[there]])]

    def repeats(columns: tuple[str, ...]) -> int:
        code = _codes([*exact, *(cells[column][there] for column in columns)], there.size)
        return there.size - len(set(code.tolist()))

    if repeats(usual) <= REPEATED * there.size:
        return usual, ""
    few_steps = np.unique(steps[there]).size <= there.size / 3
    for columns in others:
        runs = len(set(_codes([cells[column][there] for column in columns], there.size).tolist()))
        if repeats(columns) == 0 and (runs < there.size or few_steps):
            before = f"rows of one {usual[0]!r}" if usual else "rows"
            return columns, f"runs are separated by {' and '.join(map(repr, columns))}: {before} have the same step"
    return usual, ""


def _codes(labels: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Return the number of each row's run, counted from 0 in the order in which the runs begin."""
    joint = np.zeros(size, int)
    for label in labels:
        _, inverse = np.unique(label, return_inverse=True)
        _, joint = np.unique(joint * (inverse.max(initial=0) + 1) + inverse, return_inverse=True)
    _, first, joint = np.unique(joint, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[joint]


def _rows_of_runs(code: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each run, in their order."""
    order = np.argsort(code, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(code[order])) + 1)


def _group(understood: Mapping[str, str], cells: Columns) -> list[np.ndarray]:
    return [cells[understood["group"]]] if "group" in understood else []


def _running(
    name: str, counts: Mapping[str, np.ndarray], code: np.ndarray, rows: _Rows, epoch: Sequence[str]
) -> tuple[str, np.ndarray, str]:
    """Return the first counter that runs on through all epochs, its steps, and a remark where one was counted on."""
    for counter, steps in counts.items():
        if not _begins_again(steps, code, rows).any():
            return counter, steps, ""
    counter, steps = next(iter(counts.items()))
    again = _begins_again(steps, code, rows)
    trained = ~np.isnan(rows.losses) & np.isfinite(steps)
    if rows.validating is not None:
        trained &= ~rows.validating
    apart = np.diff(steps[trained])
    apart = np.median(apart[apart > 0]) if (apart > 0).any() else np.inf
    length = steps[trained].max() + (apart if steps[trained].min() == 0 else 0)
    factor = f"{counter}+{epoch[0]}*N" if epoch else ""
    if apart > COARSE * length:
        place = f"with epoch {rows.epochs[np.argmax(again)]:g}" if rows.epochs is not None else f"{again.sum()} times"
        compute = f", or with N steps an epoch step='{factor}'" if factor else ""
        raise ValueError(f"{name}: {counter} begins again {place}; name a count that runs on, step= (--step){compute}")
    number = np.zeros(steps.size)
    for own in _rows_of_runs(code):
        if rows.epochs is None:
            number[own] = np.cumsum(again[own])
        else:
            whole = np.floor(rows.epochs[own])
            number[own] = whole - np.nanmin(whole)
    running = steps + length * number
    if rows.validating is not None:  # they count batches of their own, at the end of the epoch
        running = np.where(rows.validating, length * (number + 1), running)
    remark = (
        f"{counter!r} begins again with each epoch: it is counted on, with {length:g} steps an epoch, its largest value"
    )
    return counter, running, remark + (f"; if an epoch has more, give step='{factor}' (--step)" if factor else "")


def _begins_again(steps: np.ndarray, code: np.ndarray, rows: _Rows) -> np.ndarray:
    """(R,) which rows of training begin a new epoch with a counter that went back, in each run by itself.

    Without a column of epochs the counter must go back to its first value at least twice, each time from the same one,
    with a loss that is nearer to the loss before than to the first: a restart goes back to some other step, and another
    run that was appended begins with another loss.
    """
    again = np.zeros(steps.size, bool)
    trained = ~np.isnan(rows.losses) & np.isfinite(steps)
    if rows.validating is not None:
        trained &= ~rows.validating
    for own in _rows_of_runs(code):
        own = own[trained[own]]
        down = np.diff(steps[own])
        if rows.epochs is not None:
            again[own[1:]] = (down <= 0) & (np.diff(rows.epochs[own]) > 0)
            continue
        after = np.flatnonzero(down < 0) + 1
        losses = rows.losses[own]
        near = np.abs(losses[after] - losses[after - 1]) < np.abs(losses[after] - losses[0]) if own.size else False
        same = (
            np.ptp(steps[own[after - 1]]) == 0 and (steps[own[after]] == steps[own[0]]).all()
            if after.size > 1
            else False
        )
        again[own[after]] = same and np.all(near)
    return again


def calls_remark(counter: str, steps: np.ndarray, calls: Sequence[str]) -> str:
    """Return the remark on a counter 0, 1, 2, … that may count calls of a logger rather than optimizer steps."""
    steps = np.unique(steps[np.isfinite(steps)])
    if counter not in calls or steps.size not in CALLS or steps[0] > 1 or (np.diff(steps) != 1).any():
        return ""
    return (
        f"{counter!r} is 0, 1, 2, …: it may count calls of log or epochs, not optimizer steps; if there is one every N "
        f"steps, give step='{counter}*N' (--step) with the number for N"
    )


def _logged(steps: np.ndarray, cells: np.ndarray, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and values where both are there; a learning rate that is not finite was not logged."""
    there = np.isfinite(steps) & (~np.isnan(cells) if column in LOSSES else np.isfinite(cells))
    return steps[there], cells[there]
