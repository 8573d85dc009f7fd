"""Hugging Face's `trainer_state.json`, and what lies beside it in a checkpoint."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sgdtheory._common.files import check_size, json_data
from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import is_pointer, stem, whole_text
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.pickled_numbers import pickled_numbers
from sgdtheory.logs.table import numbers
from sgdtheory.logs.training_log import COLUMNS, TrainingLog

FILE = "trainer_state.json"
CHECKPOINTS = "checkpoint-*"
SUMMARY = "train_runtime"  # The last row alone has this key; its train_loss is the mean over the whole run.
LARGEST = 1e18  # Settings from this size on are ignored: no run has as many steps, samples or processes.
ARGUMENTS = {  # Each setting of TrainingArguments has this name in a log.
    "per_device_train_batch_size": "micro_batch",
    "gradient_accumulation_steps": "accumulation",
    "world_size": "world_size",
    "weight_decay": "weight_decay",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "optim": "optimizer",
    "warmup_steps": "warmup",
    "warmup_ratio": "warmup_ratio",
}


class TrainerState(AbstractLogFormat):
    """A `trainer_state.json`, or a folder that holds one itself or in its checkpoints, of which the last counts.

    A step's batch is `train_batch_size` of the state (of one process) × accumulated batches × processes. The last two
    stand in `training_args.json` or `.bin`, and in how many `rng_state_*.pth` the checkpoint has.
    """

    name = "Hugging Face trainer state"
    programs = ("Hugging Face Trainer, TRL, Axolotl, LLaMA-Factory",)

    def recognizes(self, path: Path, head: str) -> bool:
        """Look for an object with a history of logs, or a folder with such a file."""
        if path.is_dir():
            return _file_in(path) is not None
        return head.lstrip().startswith("{") and '"log_history"' in head

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Return the one run: rows of training and of evaluation, without the summary at the end."""
        file = _file_in(path) or path
        state = _state(file)
        rows = [row for row in state["log_history"] if "step" in row and SUMMARY not in row]
        present = [*dict.fromkeys(key for row in rows for key in row)]
        understood = names.understand(present)
        unused = [key for key in present if key not in understood.values()]
        series = {
            attribute: _logged(rows, key, str(file)) for attribute, key in understood.items() if attribute in COLUMNS
        }
        return [
            TrainingLog.from_series(
                _run_name(file),
                self.name,
                series,
                settings=_settings(file.parent, state),
                columns={attribute: key for attribute, key in understood.items() if attribute in ("step", *COLUMNS)},
                unused=tuple(unused),
                remarks=tuple(
                    f"{each.name} is a Git LFS pointer, not the file itself: git lfs pull fetches the settings in it"
                    for each in _argument_files(file.parent)
                    if is_pointer(each)
                ),
            )
        ]


def _file_in(folder: Path) -> Path | None:
    """Return the state in a folder; of several checkpoints that of the last step."""
    if not folder.is_dir():
        return None
    if (folder / FILE).is_file():
        return folder / FILE
    checkpoints = [place for place in folder.glob(CHECKPOINTS) if (place / FILE).is_file()]
    steps = [int(number) if (number := place.name.rpartition("-")[2]).isdigit() else -1 for place in checkpoints]
    return max(zip(steps, checkpoints, strict=True))[1] / FILE if checkpoints else None


def _state(file: Path) -> dict[str, Any]:
    try:
        text = whole_text(file)
        check_size(file, rows=text.count("{"))  # before they are parsed: a short row takes 17 times its text in memory
        state = json_data(text)
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(
            f"cannot read {file}: {error}; it was cut off, take the one of the checkpoint before"
        ) from None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list | None) or not all(isinstance(row, dict) for row in history or ()):
        raise ValueError(f"{file} must have a list of objects, a logged step each, as its log_history")
    if not history:
        raise ValueError(
            f"{file} has an empty log_history: nothing was logged up to step {state.get('global_step', 0)}"
        )
    return state


def _logged(rows: Iterable[Mapping[str, Any]], key: str, place: str) -> tuple[Any, Any]:
    """Return steps and values of the rows that have a key."""
    own = [row for row in rows if row.get(key) is not None]
    return [row["step"] for row in own], numbers([str(row[key]) for row in own], key, place)


def _run_name(file: Path) -> str:
    """Return the name of the output folder; a file by itself goes by its own name."""
    folder = file.resolve().parent
    if folder.match(CHECKPOINTS):
        return folder.parent.name
    return folder.name if file.name == FILE else stem(file)


def _settings(folder: Path, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run from its state, its arguments and its checkpoint."""
    said = _arguments(folder)
    found = {setting: said[key] for key, setting in ARGUMENTS.items() if _is_setting(key, said.get(key))}
    for key, setting in ("train_batch_size", "micro_batch"), ("max_steps", "num_steps"):
        if state.get(key) and _is_setting(key, state[key]):
            found[setting] = state[key]
    processes = len([*folder.glob("rng_state_*.pth")]) or len([*folder.glob("rng_state.pth")])
    if processes:
        found["world_size"] = processes
    ratio = found.pop("warmup_ratio", 0)
    if 0 < found.get("warmup", 0) < 1:  # newer versions take a share there
        ratio = found.pop("warmup")
    if ratio and not found.get("warmup") and "num_steps" in found:
        found["warmup"] = -(-ratio * found["num_steps"] // 1)  # rounded up, as the Trainer does
    return found


def _argument_files(folder: Path) -> list[Path]:
    """Return the file with the training arguments of a state, as a list of one or none."""
    places = [folder, folder.parent] if folder.match(CHECKPOINTS) else [folder]
    files = [place / name for place in places for name in ("training_args.json", "training_args.bin")]
    return [file for file in files if file.is_file()][:1]


def _arguments(folder: Path) -> dict[str, Any]:
    """Return the settings of `training_args.json`, or else the numbers in `training_args.bin`."""
    for file in _argument_files(folder):
        return _settings_in(file) if file.suffix == ".json" else pickled_numbers(file, ARGUMENTS)
    return {}


def _settings_in(file: Path) -> dict[str, Any]:
    """Return the settings of a JSON file; none of a file that is something else."""
    try:
        said = json_data(whole_text(file))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_setting(key: str, value: Any) -> bool:
    """Return whether a value is a number as a training run has them; the optimizer is a word."""
    if ARGUMENTS.get(key) == "optimizer":
        return isinstance(value, str)
    return isinstance(value, int | float) and abs(value) < LARGEST and math.isfinite(value)
