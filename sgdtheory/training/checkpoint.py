"""Files in the directory of a run: config.json, checkpoint.npz, and, when it has ended, curve.csv and result.json.

Each file is written to a temporary one and renamed, so that a killed process leaves either the previous or the new
file. A run that restarts from its checkpoint gives the same bits as one that was never stopped.
"""

import contextlib
import csv
import io
import json
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np

from sgdtheory._common.files import check_regular, csv_number, damage, json_data, json_text, write_atomically
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.config_file import config_of_file, read_config
from sgdtheory.training.engine import State, init, initial_program, iterate_of, stacked
from sgdtheory.training.flat import kind_name
from sgdtheory.training.history import NUM_SUMS, History
from sgdtheory.training.network import Params
from sgdtheory.training.result import Outcome, TrainResult
from sgdtheory.training.schedules import ENDING

OUTCOMES = get_args(Outcome)
CONFIG, CHECKPOINT, CURVE, RESULT = "config.json", "checkpoint.npz", "curve.csv", "result.json"
VERSION = 1
EXTENDABLE = "max_steps", "schedule_steps", "target_loss"


def write_config(directory: Path, config: TrainConfig) -> None:
    """Write the config of a run that starts or continues."""
    write_atomically(directory / CONFIG, json_text(config.as_fields()))


def is_of(directory: Path, config: TrainConfig) -> bool:
    """Return whether a directory holds the run of a config.

    Raises:
        ValueError: if it is not the directory of a run.
    """
    path = directory / CONFIG
    with contextlib.suppress(OSError, ValueError):
        check_regular(path)
        if json_data(path.read_bytes()) == config.as_fields():  # This is faster than to construct a config.
            return True
    return read_config(path).as_fields() == config.as_fields()


def write_checkpoint(directory: Path, state: State, history: History) -> None:
    """Write the state of one run (NumPy arrays) and its history atomically."""
    head = {
        "version": VERSION,
        "config": history.config.as_fields(),
        "outcome": history.outcome,
        "seconds": history.seconds,
        "steps_per_second": history.steps_per_second,
    }
    arrays = {f"state{name}": leaf for name, leaf in _named(state)}
    arrays |= {
        "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
        "steps": np.array(history.steps, np.int64),
        "losses": np.array(history.losses).reshape(len(history.steps), -1),
        "sums": np.array(history.sums).reshape(-1, NUM_SUMS),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_atomically(directory / CHECKPOINT, buffer.getvalue())


def remove_checkpoint(directory: Path) -> None:
    """Remove the state of a run that has its result."""
    (directory / CHECKPOINT).unlink(missing_ok=True)


def write_result(directory: Path, result: TrainResult) -> None:
    """Write the curve and, last, the result of a run that has ended."""
    write_atomically(directory / CURVE, result.to_csv())
    write_atomically(directory / RESULT, json_text(result.summary()))


def read_result(directory: Path, config: TrainConfig) -> TrainResult:
    """Read the result of a run of `config` that has ended.

    Raises:
        ValueError: if the directory belongs to another config, or its files are damaged; the message names the file.
    """
    if not is_of(directory, config):
        raise ValueError(f"{directory} is the run of another config")
    try:
        for name in RESULT, CURVE:
            check_regular(directory / name)
        summary = json_data((directory / RESULT).read_bytes())
        if not isinstance(summary, dict) or summary["outcome"] not in OUTCOMES:
            raise ValueError(f"{RESULT} must be an object whose outcome is one of {', '.join(OUTCOMES)}")
        header, *rows = [*csv.reader((directory / CURVE).read_text(encoding="utf-8").splitlines())] or [[]]
        if not rows or any(len(row) != len(header) for row in rows):
            raise ValueError(f"{CURVE} must have a header and rows of as many cells")
        cells = np.array([[csv_number(cell) for cell in row] for row in rows])
        columns = dict(zip(header, cells.T, strict=True))
        if columns["step"][-1] != summary["num_steps"]:
            raise ValueError(f"the curve ends at step {columns['step'][-1]:g}, the run at {summary['num_steps']}")
        if not (np.diff(columns["step"]) > 0).all():
            raise ValueError("the steps of the curve do not increase")
        return TrainResult(
            config,
            summary["outcome"],
            summary["num_steps"],
            columns["step"].astype(np.int64),
            np.stack([columns[f"loss_{name}"] for name in config.average_names], axis=1),
            columns["train_loss"],
            columns["squared_gradient"],
            columns["gradient_variance"],
            summary["num_weights"],
            float(summary["seconds"]),
            float(summary["steps_per_second"]),
        )
    except (OSError, ValueError, LookupError, TypeError, OverflowError, csv.Error) as error:
        raise ValueError(f"result in {directory} is damaged ({damage(error)})") from None


def read_checkpoint(directory: Path, config: TrainConfig) -> tuple[State, History] | None:
    """Read the state (NumPy arrays) and the history of the run in a directory; None if it has no checkpoint yet.

    Raises:
        ValueError: if the checkpoint is damaged, of another version, or of a config that differs in more than its
            duration; the message names the directory and the field.
    """
    path = directory / CHECKPOINT
    if not path.exists():
        return None
    try:
        check_regular(path)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            saved = {name: arrays[name] for name in arrays.files}
        head = json_data(saved["head"].tobytes())
        if not isinstance(head, dict):
            raise ValueError("its head is no object")
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"checkpoint {path} is damaged ({damage(error)}); move it away to start the run anew"
        ) from None
    if head.get("version") != VERSION:
        raise ValueError(
            f"checkpoint {path} has version {head.get('version')}, this is version {VERSION}; move it away to start "
            "the run anew"
        )
    try:
        own = config_of_file(path, head["config"])
        history = History(
            own,
            saved["steps"].tolist(),
            list(saved["losses"]),
            list(saved["sums"]),
            head["outcome"],
            head["seconds"],
            head["steps_per_second"],
        )
    except KeyError as error:
        raise ValueError(
            f"checkpoint {path} is damaged (it has no {error.args[0]}); move it away to start the run anew"
        ) from None
    _check_same(path, own, config)
    return _state(path, saved, config), history


def read_weights(directory: str | Path, average: str = "iterate", *, entry_point: str | None = None) -> Params:
    """Read the weights of a run from its last checkpoint: the iterate's, or an average's by its name.

    A custom model also needs its `entry_point`, which is imported to know the shapes of the weights.

    >>> import tempfile
    >>> from sgdtheory.training import TrainConfig, read_weights, train
    >>> with tempfile.TemporaryDirectory() as directory:  # doctest: +SKIP
    ...     result = train(TrainConfig(width=4, batch_size=4, max_steps=4, holdout_size=8), directory)
    ...     weights = read_weights(directory)
    >>> weights["output"].shape  # doctest: +SKIP
    (4, 1)

    Raises:
        ValueError: if there is no run, no checkpoint, or no such average.
    """
    directory = Path(directory)
    config = read_named(directory, entry_point).imported(directory)
    checkpoint = read_checkpoint(directory, config)
    if checkpoint is None:
        raise ValueError(f"{directory} has no checkpoint yet: run it first")
    return iterate_of(config, checkpoint[0], average)


def read_named(directory: Path, entry_point: str | None) -> TrainConfig:
    """Read the config of the run in a directory; its custom model may be imported if the caller names it too.

    Raises:
        ValueError: if there is no run, or the caller names another model.
    """
    config = read_config(directory / CONFIG)
    own = config.value("entry_point")
    if entry_point not in (None, own):
        raise ValueError(f"entry_point must be that of the run in {directory}, {own}, got {entry_point}")
    return config.naming(entry_point)


def extended(config: TrainConfig, max_steps: int | None, target_loss: float | None) -> TrainConfig:
    """Return the config of a run that continues: schedule and evaluations stay those of the first duration.

    Raises:
        ValueError: if there are fewer steps or a higher target than before; both follow from the curve.
    """
    if max_steps is not None and max_steps < config.max_steps:
        raise ValueError(
            f"max_steps must be at least the run's own, {config.max_steps}, to continue it, got {max_steps}"
        )
    if None not in (target_loss, config.target_loss) and target_loss > config.target_loss:  # pyright: ignore
        raise ValueError(
            f"target_loss must be at most the run's own, {config.target_loss:g}, to continue it, got {target_loss:g}; "
            "steps to a higher one follow from its curve"
        )
    if max_steps is None and target_loss is None:
        return config
    changes = {"target_loss": config.target_loss if target_loss is None else target_loss}
    return replace(config, max_steps=max_steps or config.max_steps, schedule_steps=config.duration, **changes)


def _check_same(path: Path, before: TrainConfig, config: TrainConfig) -> None:
    own, fields = config.as_fields(), before.as_fields()
    for name in sorted(own.keys() | fields.keys()):
        if name not in EXTENDABLE and own.get(name) != fields.get(name):
            raise ValueError(
                f"checkpoint {path} is of another config: {name} was {fields.get(name)}, now it is {own.get(name)}; "
                "take another directory"
            )
    if before.trajectory != config.trajectory:  # Warm-up and decay are fractions of the duration.
        raise ValueError(
            f"checkpoint {path} is of another schedule: {kind_name('schedule', config.schedule)} over "
            f"schedule_steps = {before.duration}, now over {config.duration}, which is another learning rate at every "
            f"step; {_remedy(before, config)}"
        )


def _remedy(before: TrainConfig, config: TrainConfig) -> str:
    """Return the advice for a run that would change its schedule half-way."""
    anew = f"take another directory for a run of {config.max_steps} steps"
    if isinstance(config.schedule, ENDING) and config.max_steps > before.duration:
        return anew
    return f"{anew}, or go on with schedule_steps = {before.duration}, as `resume` does"


def _state(path: Path, arrays: dict[str, np.ndarray], config: TrainConfig) -> State:
    """Assemble the state from a checkpoint's arrays, after checking that they fit the config."""
    lanes = stacked([config])
    template = init.shapes(lanes, config=initial_program(config))
    leaves = []
    for name, leaf in _named(template):
        array = arrays.get(f"state{name}")
        if array is None or array.shape != leaf.shape[1:] or array.dtype != leaf.dtype:
            raise ValueError(f"checkpoint {path} does not fit its config at {name}; move it away to start the run anew")
        leaves.append(array)
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _named(state: State) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state)]
