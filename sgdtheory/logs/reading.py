"""Read files to logs, and join the logs that are parts of one run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.run_files import Paths, logs_of_files
from sgdtheory.logs.training_log import COLUMNS, TrainingLog


def read_logs(
    paths: Paths,
    *,
    step: str | None = None,
    loss: str | None = None,
    learning_rate: str | None = None,
    batch_size: str | None = None,
    tokens: str | None = None,
    run: str | None = None,
    group: str | None = None,
    name: str | None = None,
    formats: Sequence[AbstractLogFormat] = (),
) -> list[TrainingLog]:
    """Read the logs in files, one a run, before anything is left out.

    Files of one run that hold different numbers (losses in one, rates in another) are joined, whatever their names if
    there are but two such logs; so are all files where a name is given: then a later one's steps replace an earlier
    one's, as after a restart.

    Args:
        paths: file or folder, or several; formats are recognized by content, and may be compressed by gzip. A folder
            that is no log itself stands for the logs in it, at any depth.
        step: the column that counts optimizer steps, or a sum of columns such as `Step*200` or `iter+epoch*5000`.
        loss, learning_rate, batch_size, tokens: what the log calls them; None: guessed.
        run: the column that separates the runs of a file.
        group: the column that separates what is to be fitted on its own.
        name: of the one run that all files are parts of.
        formats: your own, which are asked before those that are known.

    Raises:
        ValueError: a file of no known format, or damaged; no file has a column that was named.
    """
    names = ColumnNames(
        step=step,
        loss=loss,
        learning_rate=learning_rate,
        batch_size=batch_size,
        tokens=tokens,
        run=run,
        group=group,
    )
    found = [*logs_of_files(paths, names, formats)]
    if not found:
        raise ValueError("paths must name at least one file, got none")
    _check_named(names, [log for _, log in found])
    if name is not None:
        return [_joined(name, [log for _, log in found])]
    return _completed(_named_apart(found))


def _check_named(names: ColumnNames, logs: Sequence[TrainingLog]) -> None:
    """Refuse a column that was named and is in none of the logs."""
    for attribute, column in names.given.items():
        if attribute not in ("run", "group") and all(log.columns.get(attribute) != column for log in logs):
            there = dict.fromkeys(each for log in logs for each in (*log.columns.values(), *log.unused))
            raise ValueError(f"no log has a column {column!r}; there are: {', '.join(map(repr, there))}")


def _named_apart(found: Iterable[tuple[Path, TrainingLog]]) -> list[TrainingLog]:
    """Join logs of one name if no number is in two of them, and give them different names otherwise."""
    runs: dict[tuple[str, str], list[tuple[Path, TrainingLog]]] = {}
    for path, log in found:
        runs.setdefault((log.group, log.name), []).append((path, log))
    logs = []
    for parts in runs.values():
        held = Counter(column for _, log in parts for column in COLUMNS if log.has(column))
        if len(parts) == 1 or max(held.values(), default=0) <= 1:
            logs.append(_joined(parts[0][1].name, [log for _, log in parts]))
        else:
            logs += [replace(log, name=new) for (_, log), new in zip(parts, _apart(parts), strict=True)]
    return logs


def _completed(logs: list[TrainingLog]) -> list[TrainingLog]:
    """Join one log without losses to one with losses if they share no number: it has what that run did not print."""
    losses = [log for log in logs if log.has("loss") or log.has("evaluation_loss")]
    others = [log for log in logs if log not in losses]
    if len(losses) != 1 or len(others) != 1:
        return logs
    if any(losses[0].has(column) and others[0].has(column) for column in COLUMNS):
        return logs
    return [_joined(losses[0].name, [losses[0], others[0]])]


def _apart(parts: Sequence[tuple[Path, TrainingLog]]) -> list[str]:
    """Return names that differ: with the folder, with the file, or numbered."""
    for way in (
        [f"{path.resolve().parent.name}/{log.name}" for path, log in parts],
        [f"{log.name}/{stem(path)}" for path, log in parts],
    ):
        if len(set(way)) == len(way):
            return way
    return [f"{log.name} {number}" for number, (_, log) in enumerate(parts, 1)]


def _joined(name: str, logs: Sequence[TrainingLog]) -> TrainingLog:
    """Join several logs to one, in the order of the files."""
    if len(logs) == 1:
        return replace(logs[0], name=name)
    series = {}
    for column in COLUMNS:
        parts = [log.series(column) for log in logs if log.has(column)]
        if parts:
            series[column] = tuple(np.concatenate(each) for each in zip(*parts, strict=True))
    settings: dict[str, object] = {}
    columns: dict[str, str] = {}
    for log in logs:
        settings |= log.settings
        columns |= {key: column for key, column in log.columns.items() if key not in columns}
    return TrainingLog.from_series(
        name,
        ", ".join(dict.fromkeys(log.format for log in logs)),
        series,
        group=logs[0].group,
        settings=settings,
        columns=columns,
        unused=tuple(dict.fromkeys(each for log in logs for each in log.unused)),
        remarks=tuple(dict.fromkeys(remark for log in logs for remark in log.remarks)),
    )
