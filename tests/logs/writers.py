"""Logs as programs write them: by TensorBoard's, pyarrow's and transformers' own writers, and by hand where the program
is a web page.

A run is step → {number: value}; a number that a step lacks was not logged there.
"""

import csv
import gzip
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary import Writer
from tensorboard.summary.writer.event_file_writer import EventFileWriter

TAGS = {"loss": "train/loss", "evaluation_loss": "eval/loss", "learning_rate": "train/learning_rate"}
HUGGING_FACE = {"loss": "loss", "evaluation_loss": "eval_loss", "learning_rate": "learning_rate"}


def rows_of(run, tags=TAGS, step="step"):
    """Rows of a table: with None where nothing was logged."""
    return [{step: t, **{tag: numbers.get(key) for key, tag in tags.items()}} for t, numbers in run.items()]


def write_csv(path, run, step="step"):
    rows = rows_of(run, step=step)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [step, *TAGS.values()])
        table.writeheader()
        table.writerows(rows)
    return path


def write_wandb_history(path, run):
    """`run.history().to_csv(path)`: an index without a name, W&B's own counter, which is no optimizer step."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["", "_step", "train/global_step", *TAGS.values(), "_runtime", "_timestamp"])
        for number, (t, numbers) in enumerate(run.items()):
            table.writerow([number, number, t, *(numbers.get(key, "") for key in TAGS), number / 2, 1.7e9 + number])
    return path


def write_wandb_charts(folder, runs):
    """A file a metric, three columns a run, every cell in quotation marks: as the page's "Export as CSV"."""
    paths = []
    for key, tag in TAGS.items():
        own = {name: run for name, run in runs.items() if any(key in numbers for numbers in run.values())}
        paths.append(folder / f"wandb_export_{key}.csv")
        with paths[-1].open("w", newline="") as file:
            table = csv.writer(file, quoting=csv.QUOTE_ALL)
            table.writerow(["Step", *(f"{name} - {tag}{end}" for name in own for end in ("", "__MIN", "__MAX"))])
            for t in sorted({t for run in own.values() for t, numbers in run.items() if key in numbers}):
                table.writerow([t, *(run.get(t, {}).get(key, "") for run in own.values() for _ in range(3))])
    return paths


def write_json_lines(path, run):
    lines = [{"_step": t, **{TAGS[key]: value for key, value in numbers.items()}} for t, numbers in run.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_json_array(path, run):
    path.write_text(json.dumps(rows_of(run)))
    return path


def write_parquet(path, run):
    columns = {name: [row[name] for row in rows_of(run)] for name in ("step", *TAGS.values())}
    kinds = {"step": pa.int64()}
    table = pa.table({name: pa.array(cells, kinds.get(name, pa.float64())) for name, cells in columns.items()})
    pyarrow.parquet.write_table(table, path)
    return path


def write_tensorboard(folder, run):
    """Write with the parts of torch's SummaryWriter: the same file writer and simple values."""
    writer = EventFileWriter(str(folder))
    for t, numbers in run.items():
        for key, value in numbers.items():
            summary = Summary(value=[Summary.Value(tag=TAGS[key], simple_value=value)])
            writer.add_event(Event(wall_time=1.7e9 + t, step=t, summary=summary))
    writer.close()
    return folder


def write_tensors(folder, run):
    """Write scalars like TensorFlow and JAX: tensors without a dimension."""
    writer = Writer(str(folder))
    for t, numbers in run.items():
        for key, value in numbers.items():
            writer.add_scalar(TAGS[key], value, t)
    writer.close()
    return folder


def write_tensorboard_csvs(folder, run, name="a"):
    """The page's downloads: a file a tag."""
    paths = []
    for key, tag in TAGS.items():
        points = [(t, numbers[key]) for t, numbers in run.items() if key in numbers]
        if points:
            paths.append(folder / f"run-{name}-tag-{tag.replace('/', '_')}.csv")
            lines = [f"{1.7e9 + t},{t},{value}" for t, value in points]
            paths[-1].write_text("\n".join(["Wall time,Step,Value", *lines, ""]))
    return paths


def write_trainer_state(path, run, **state):
    """By the fields that transformers' TrainerState documents; training and evaluation have their rows."""
    history = []
    for t, numbers in run.items():
        for keys in (("loss", "learning_rate"), ("evaluation_loss",)):
            row = {HUGGING_FACE[key]: numbers[key] for key in keys if key in numbers}
            if row:
                history.append({"epoch": t / 1000, **row, "step": t})
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"best_metric": None, "epoch": 1.0, "global_step": max(run), "log_history": history, "max_steps": 1000}
    path.write_text(json.dumps(whole | {"train_batch_size": 8} | state, indent=2, sort_keys=True) + "\n")
    return path


def compressed(path):
    """The same, by gzip; a folder's files one by one."""
    for file in [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]:
        with file.open("rb") as source, gzip.open(f"{file}.gz", "wb") as target:
            shutil.copyfileobj(source, target)
        file.unlink()
    return Path(f"{path}.gz") if not path.is_dir() else path


FILES = {  # format → (name of its file, writer of one run)
    "CSV": ("a.csv", write_csv),
    "W&B history": ("a.csv", write_wandb_history),
    "JSON rows": ("a.jsonl", write_json_lines),
    "JSON array": ("a.json", write_json_array),
    "Parquet": ("a.parquet", write_parquet),
    "TensorBoard": ("a", write_tensorboard),
    "TensorBoard of tensors": ("a", write_tensors),
    "Hugging Face trainer state": ("a.json", write_trainer_state),
}
