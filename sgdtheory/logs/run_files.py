"""Find the logs among files and in folders, and the format of each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sgdtheory._common.files import TooLargeError
from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import cut_remark, first_bytes, head_of, is_pointer
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.lines import AbstractTextFormat
from sgdtheory.logs.formats.registry import FORMATS
from sgdtheory.logs.training_log import COLUMNS, TrainingLog

Paths = str | Path | Sequence[str | Path]


def format_of(path: Path, own: Sequence[AbstractLogFormat] = ()) -> AbstractLogFormat:
    """Return the first format that recognizes a file or folder, the user's own before those of the registry.

    Raises:
        ValueError: none does, or it is empty, or cannot be read.
    """
    head = head_of(path)
    marked = [each for each in FORMATS if isinstance(each, AbstractTextFormat) and head and each.begins(head)]
    for each in (*own, *marked, *FORMATS):
        if each.recognizes(path, head):
            return each
    if not path.is_dir() and not first_bytes(path).strip():
        raise ValueError(f"{path} is empty; give a file with rows, at least one a logged step")
    kind = "folder" if path.is_dir() else "file"
    raise ValueError(
        f"{path} is a {kind} of no known format; write a CSV file with the columns 'step', 'learning_rate' and 'loss'. "
        f"Known formats: {', '.join(each.name for each in FORMATS)}"
    )


def run_files(paths: Paths, own: Sequence[AbstractLogFormat] = ()) -> list[Path]:
    """Return the logs among files and in folders, at any depth; a folder may be a log itself.

    Args:
        paths: file or folder, or several. A file that is named is a log; of those in a folder the ones that some format
            reads, and finds a number in, are.
        own: formats of the user's.

    Raises:
        ValueError: a folder that holds none.
    """
    return [path for path, _ in _files(paths, ColumnNames(), own)]


def logs_of_files(
    paths: Paths, names: ColumnNames, own: Sequence[AbstractLogFormat] = ()
) -> Iterator[tuple[Path, TrainingLog]]:
    """Read the files of `run_files`, each once; in a folder, files with the columns named are logs too.

    Raises:
        ValueError: a file of no known format, or damaged, or a folder that holds none.
    """
    for path, logs in _files(paths, names, own):
        for log in _read(path, names, own) if logs is None else logs:
            yield path, log


Files = Iterator[tuple[Path, Sequence[TrainingLog] | None]]  # with the logs of those that were read to be found


def _files(paths: Paths, names: ColumnNames, own: Sequence[AbstractLogFormat]) -> Files:
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        inside = [*_files_in(path, names, own)] if path.is_dir() else [(path, None)]
        if not inside:
            pointer = next((each for each in sorted(path.rglob("*")) if each.is_file() and is_pointer(each)), None)
            fetch = (
                f"; {pointer.relative_to(path)} is a Git LFS pointer: git lfs pull fetches the file" if pointer else ""
            )
            raise ValueError(f"{path} holds no log of a known format{fetch}")
        yield from inside


def _files_in(folder: Path, names: ColumnNames, own: Sequence[AbstractLogFormat]) -> Files:
    if _is_log(folder, own):
        yield folder, None
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files_in(path, names, own)
        elif logs := _logs_in(path, names, own):
            yield path, logs
        elif names.given and _logs_in(path, ColumnNames(), own):
            yield path, None  # a log without what was named: reading it says so


def _read(path: Path, names: ColumnNames, own: Sequence[AbstractLogFormat]) -> Sequence[TrainingLog]:
    """Read a file or folder, and say of a compressed file that it was cut off.

    Raises:
        ValueError: no format reads it, or it is damaged.
    """
    try:
        form = format_of(path, own)
        remark = cut_remark(path)  # refuses what is too large before rows are read
        logs = form.read(path, names)
    except (OSError, EOFError, MemoryError, OverflowError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        raise ValueError(f"cannot read {path}: {reason}") from None
    return [replace(log, remarks=(*log.remarks, remark)) for log in logs] if remark else logs


def _is_log(folder: Path, own: Sequence[AbstractLogFormat]) -> bool:
    try:
        format_of(folder, own)
    except ValueError:
        return False
    return True


def _logs_in(path: Path, names: ColumnNames, own: Sequence[AbstractLogFormat]) -> Sequence[TrainingLog]:
    """Return the logs in a file; none where no format finds a number in it: a table of anything is no log.

    Raises:
        TooLargeError: a file of a known format is larger than what is read, so that a log would be left out.
    """
    try:
        logs = _read(path, names, own)
    except TooLargeError as error:
        raise TooLargeError(f"{error}; or name the logs of {path.parent}, without this file") from None
    except ValueError:
        return ()
    return logs if any(log.has(each) for log in logs for each in COLUMNS) else ()
