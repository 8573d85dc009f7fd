"""TensorBoard's event files: a folder of them, or one."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import first_bytes, open_sought
from sgdtheory.logs.formats.event_records import EventRecords
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.library import needed
from sgdtheory.logs.table import calls_remark
from sgdtheory.logs.training_log import COLUMNS, LOSSES, TrainingLog

MARK = "tfevents"
TEXT = 7  # TensorBoard has this number for tensors of text.
BY_EPOCH = "epoch_"  # Keras begins tags with it that are written once an epoch, at step 0, 1, 2, …
COUNTED = "evaluation_loss_vs_iterations"  # Keras gives the same evaluations at optimizer steps this tag.
PARTS = {
    "train": "loss",
    **dict.fromkeys(("validation", "val", "valid", "eval"), "evaluation_loss"),
}  # folders of one run
VERSION = b"brain.Event:"  # Every event file begins with an event that contains these bytes.


Points = dict[str, tuple[list[float], list[float]]]


class TensorBoard(AbstractLogFormat):
    """Read by tensorboard, without TensorFlow. A folder with event files is a run, folders in it are others."""

    name = "TensorBoard"
    programs = ("TensorBoard: PyTorch, Lightning, Hugging Face, Keras, JAX",)

    def recognizes(self, path: Path, head: str) -> bool:
        """Look for event files in a folder, at any depth, or for the beginning of one."""
        if path.is_dir():
            return any(_event_files(path))
        return VERSION in first_bytes(path)[:64]

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Return a log for each run that has losses at two steps or more, or for each if none has.

        Folders with a single point, as of hyper-parameters, are no runs.
        """
        runs: dict[Path, list[Path]] = {}
        for file in sorted(_event_files(path)) if path.is_dir() else [path]:
            runs.setdefault(file.parent, []).append(file)
        points = {folder: self._points(files) for folder, files in runs.items()}
        found = {folder: self._run(folder, path, *points[folder], names, _epoch_of(points)) for folder in points}
        logs = _joined_parts(found, path)
        return [log for log in logs if max(log.series(loss)[0].size for loss in LOSSES) > 1] or logs

    def _points(self, files: list[Path]) -> tuple[Points, list[str]]:
        """Return tag → steps, values, and the remarks on the files."""
        points: Points = {}
        remarks: list[str] = []
        for file in files:  # in the order of their names, which begin with the time: a restart writes another file
            scalars = _Scalars(file)
            for tag, step, value in scalars:
                steps, values = points.setdefault(tag, ([], []))
                steps.append(step)
                values.append(value)
            remarks += scalars.remarks
        return points, remarks

    def _run(
        self, folder: Path, root: Path, points: Points, remarks: list[str], names: ColumnNames, epoch: float
    ) -> TrainingLog:
        understood = {attribute: tag for attribute, tag in names.understand([*points]).items() if attribute in COLUMNS}
        terms = names.terms(names.step, ["step"]) if names.step else []
        by_epoch = [tag for tag in understood.values() if tag.startswith(BY_EPOCH)]
        name = _run_name(folder, root)
        said = list(remarks)
        if by_epoch and not terms and epoch:
            terms = [("step", epoch), ("", epoch)]
            said.append(f"{by_epoch[0]!r} goes by epochs, of {epoch:g} steps according to {COUNTED!r}")
        if by_epoch and not terms:
            steps = points[by_epoch[0]][0]
            raise ValueError(
                f"{name}: {by_epoch[0]!r} goes by epochs, {steps[0]:g} … {steps[-1]:g}; if an epoch has N steps, give "
                "step='step*N+N' (--step) with the number for N"
            )
        series = {}
        for attribute, tag in understood.items():
            steps, values = points[tag]
            if terms and (tag in by_epoch or not by_epoch):
                steps = sum(factor * np.array(steps if column else 1.0) for column, factor in terms)
            series[attribute] = steps, values
        used = set(understood.values())
        counter = names.step if names.step and terms else "step"
        steps = np.array(next((series[loss][0] for loss in LOSSES if loss in series), []))
        return TrainingLog.from_series(
            name,
            self.name,
            series,
            columns={"step": counter, **understood},
            unused=tuple(tag for tag in points if tag not in used),
            remarks=(*said, *filter(None, [calls_remark(counter, steps, ["step"])] if 0.0 in steps else [])),
        )


def _epoch_of(points: Mapping[Path, tuple[Points, list[str]]]) -> float:
    """Return the steps of an epoch, where Keras wrote one evaluation by epochs and by steps; 0 where it did not."""
    for tags, _ in points.values():
        if COUNTED in tags and BY_EPOCH + "loss" in tags:
            return max(tags[COUNTED][0]) / (max(tags[BY_EPOCH + "loss"][0]) + 1)
    return 0.0


def _joined_parts(found: dict[Path, TrainingLog], root: Path) -> list[TrainingLog]:
    """Join folders `train` and `validation` beside each other, whose tags have the same names, to one run."""
    logs = []
    for folder, log in found.items():
        role = PARTS.get(folder.name.lower())
        beside = {PARTS.get(other.name.lower()): other for other in found if other.parent == folder.parent}
        if role is None or beside.keys() < {"loss", "evaluation_loss"}:
            logs.append(log)
        elif role == "loss":
            other = found[beside["evaluation_loss"]]
            column = "evaluation_loss" if other.has("evaluation_loss") else "loss"
            series = {each: log.series(each) for each in COLUMNS if log.has(each)}
            columns = {
                **log.columns,
                "evaluation_loss": f"{beside['evaluation_loss'].name}/{other.columns.get(column, '')}",
            }
            series["evaluation_loss"] = other.series(column)
            whole = TrainingLog.from_series(_run_name(folder.parent, root), log.format, series, columns=columns)
            remarks = tuple(dict.fromkeys((*log.remarks, *other.remarks)))
            logs.append(replace(whole, unused=log.unused, remarks=(*remarks, *whole.remarks)))
    return logs


def _event_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names if MARK in name)


def _run_name(folder: Path, root: Path) -> str:
    """Return a run's name as TensorBoard has it: the path below the folder given, which itself goes by its name."""
    inside = folder.relative_to(root if root.is_dir() else root.parent)
    return inside.as_posix() if inside.parts else folder.resolve().name


class _Scalars:
    """The scalars of an event file.

    Attributes:
        remarks: on what could not be read, once all are.
    """

    def __init__(self, file: Path):
        self._file, self.remarks = file, ()

    def __iter__(self) -> Iterator[tuple[str, float, float]]:
        """Yield (tag, step, value) of each scalar, in order."""
        events = needed("tensorboard.compat.proto.event_pb2", "TensorBoard's event files")
        checks = needed("tensorboard.compat.tensorflow_stub.pywrap_tensorflow", "TensorBoard's event files")
        tensors = needed("tensorboard.util.tensor_util", "TensorBoard's event files")
        errors = needed("google.protobuf.message", "TensorBoard's event files")
        with open_sought(self._file) as source:
            records = EventRecords(source, checks.masked_crc32c)
            for record in records:
                try:
                    event = events.Event.FromString(record)
                    found = [(each.tag, _number(each, tensors)) for each in event.summary.value]
                except (errors.DecodeError, ValueError, TypeError, LookupError):  # its checksum is right, it is not
                    records.damaged += 1
                    continue
                yield from ((tag, float(event.step), value) for tag, value in found if value is not None)
        self.remarks = tuple(f"{self._file.name}: {remark}" for remark in records.remarks)


def _number(value: Any, tensors: Any) -> float | None:
    """Return the number of a summary: PyTorch writes simple values, TensorFlow and JAX tensors without a dimension."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return value.simple_value
    if kind == "tensor" and not value.tensor.tensor_shape.dim and value.tensor.dtype != TEXT:
        return float(tensors.make_ndarray(value.tensor))
    return None
