"""TensorBoard's event files: a folder of them, or one."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import first_bytes, is_compressed, open_bytes
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
        for file in files:  # in the order of their names, which begin with the time: a restart writes another file
            for tag, step, value in _scalars(file):
                steps, values = points.setdefault(tag, ([], []))
                steps.append(step)
                values.append(value)
        understood = names.understand([*points])
        understood = {attribute: tag for attribute, tag in understood.items() if attribute in COLUMNS}
        used = set(understood.values())
        return TrainingLog.from_series(
            _run_name(folder, root),
            self.name,
            {attribute: points[tag] for attribute, tag in understood.items()},
            columns={"step": "step", **understood},
            unused=tuple(tag for tag in points if tag not in used),
        )


def _event_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names if MARK in name)


def _run_name(folder: Path, root: Path) -> str:
    """As TensorBoard has it: the path below the folder that was given, whose own name stands for itself."""
    inside = folder.relative_to(root if root.is_dir() else root.parent)
    return inside.as_posix() if inside.parts else folder.resolve().name


def _scalars(file: Path) -> Iterator[tuple[str, float, float]]:
    """(tag, step, value) of every scalar of an event file, in order."""
    loader = needed("tensorboard.backend.event_processing.event_file_loader", "TensorBoard's event files")
    tensors = needed("tensorboard.util.tensor_util", "TensorBoard's event files")
    with _uncompressed(file) as name:
        for event in loader.LegacyEventFileLoader(name).Load():
            for value in event.summary.value:
                number = _number(value, tensors)
                if number is not None:
                    yield value.tag, float(event.step), number


def _number(value: Any, tensors: Any) -> float | None:
    """Of a summary: PyTorch writes simple values, TensorFlow and JAX tensors without a dimension."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return value.simple_value
    if kind == "tensor" and not value.tensor.tensor_shape.dim and value.tensor.dtype != TEXT:
        return float(tensors.make_ndarray(value.tensor))
    return None


@contextmanager
def _uncompressed(file: Path) -> Iterator[str]:
    """The path of a file that is not compressed: of this one, or of a copy, which is gone afterwards."""
    if not is_compressed(file):
        yield str(file)
        return
    with tempfile.TemporaryDirectory() as folder, open_bytes(file) as source:
        copy = Path(folder) / "events"
        with copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        yield str(copy)
