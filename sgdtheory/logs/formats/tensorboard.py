"""TensorBoard's event files: a folder of them, or one."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import first_bytes, open_sought
from sgdtheory.logs.formats.event_records import EventRecords
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.library import needed
from sgdtheory.logs.training_log import COLUMNS, LOSSES, TrainingLog

MARK = "tfevents"
TEXT = 7  # of tensorboard's types of tensors
VERSION = b"brain.Event:"  # every event file begins with an event that says so


class TensorBoard(AbstractLogFormat):
    """Read by tensorboard, without TensorFlow. A folder with event files is a run, folders in it are others."""

    name = "TensorBoard"
    programs = ("TensorBoard: PyTorch, Lightning, Hugging Face, Keras, JAX",)

    def recognizes(self, path: Path, head: str) -> bool:
        """A folder that holds event files at any depth, or a file that begins as they do."""
        if path.is_dir():
            return any(_event_files(path))
        return VERSION in first_bytes(path)[:64]

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """A log for each run that has losses at two steps or more, or for each if none has.

        Folders with a single point, as of hyper-parameters, are no runs.
        """
        runs: dict[Path, list[Path]] = {}
        for file in sorted(_event_files(path)) if path.is_dir() else [path]:
            runs.setdefault(file.parent, []).append(file)
        found = [self._run(folder, path, files, names) for folder, files in runs.items()]
        return [log for log in found if max(log.series(loss)[0].size for loss in LOSSES) > 1] or found

    def _run(self, folder: Path, root: Path, files: list[Path], names: ColumnNames) -> TrainingLog:
        points: dict[str, tuple[list[float], list[float]]] = {}
        remarks: list[str] = []
        for file in files:  # in the order of their names, which begin with the time: a restart writes another file
            scalars = _Scalars(file)
            for tag, step, value in scalars:
                steps, values = points.setdefault(tag, ([], []))
                steps.append(step)
                values.append(value)
            remarks += scalars.remarks
        understood = names.understand([*points])
        understood = {attribute: tag for attribute, tag in understood.items() if attribute in COLUMNS}
        used = set(understood.values())
        return TrainingLog.from_series(
            _run_name(folder, root),
            self.name,
            {attribute: points[tag] for attribute, tag in understood.items()},
            columns={"step": "step", **understood},
            unused=tuple(tag for tag in points if tag not in used),
            remarks=tuple(remarks),
        )


def _event_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names if MARK in name)


def _run_name(folder: Path, root: Path) -> str:
    """As TensorBoard has it: the path below the folder that was given, whose own name stands for itself."""
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
        """(tag, step, value) of each, in order."""
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
    """Of a summary: PyTorch writes simple values, TensorFlow and JAX tensors without a dimension."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return value.simple_value
    if kind == "tensor" and not value.tensor.tensor_shape.dim and value.tensor.dtype != TEXT:
        return float(tensors.make_ndarray(value.tensor))
    return None
