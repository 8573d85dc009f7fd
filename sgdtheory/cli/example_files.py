"""Files that the guides' commands read: made logs, a made grid of losses, features, and parts of real loss curves.

The made losses are 1.8 + 35 (S + 400)^−0.3 plus noise of one percent, where S is the number of samples divided by
1 + B/300. Their critical batch size at 20% more data than vanishing batches need is therefore 60.
"""

import io
import json
from collections.abc import Iterator

import numpy as np

from sgdtheory._common.files import csv_columns
from sgdtheory.curves import example_loss_curves

WARMUP, NOISE = 200, 0.01
MEGATRON = (
    " [2026-01-05 10:00:01] iteration {step:8d}/{num_steps:8d} | consumed samples: {samples:12d} | elapsed time per "
    "iteration (ms): 512.3 | learning rate: {rate:.6E} | global batch size: {batch_size:5d} | lm loss: {loss:.6E} | "
    "loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


def example_files() -> dict[str, tuple[str | bytes, str]]:
    """Return file name → (content, what it is)."""
    rng = np.random.default_rng(0)
    files: dict[str, tuple[str | bytes, str]] = {}
    for batch_size, num_steps in ((64, 8000), (256, 4000), (1024, 2000)):
        lines = "".join(json.dumps(row) + "\n" for row in _rows(rng, batch_size, num_steps, num_steps))
        files[f"runs/bs{batch_size}.jsonl"] = lines, f"made log of a finished run with B = {batch_size}"
    lines = []
    for row in _rows(rng, 256, 20000, 12000, every=50):
        rate = 3e-4 * min(row["step"] / WARMUP, 1.0)  # WSD, not yet in its decay
        lines.append(MEGATRON.format(**row, rate=rate, num_steps=20000, samples=row["step"] * 256))
    files["run.log"] = "".join(lines), "made Megatron log of the first 12,000 of 20,000 steps"
    files |= _trainer_output(rng)
    rows = list(_rows(rng, 256, 24000, 14400, every=100))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    files["run7.csv"] = csv_columns(columns), "made log of the first 14,400 of 24,000 steps"
    files["log.csv"] = _gradient_norms(rng), "made squared gradient norms, whose noise scale is 40"
    files["grid.csv"] = _grid(rng), "made losses of two models over batch size, data and learning rate"
    for name, run in (("run1.csv", "cosine_24000"), ("run2.csv", "wsdld_20000_24000")):
        curve = example_loss_curves()[run]
        size = np.broadcast_to(512, curve.step.shape)
        columns = {"step": curve.step, "loss": curve.loss, "lr": curve.learning_rate, "batch_size": size}
        content = csv_columns({key: [float(value) for value in values[::4]] for key, values in columns.items()})
        files[name] = content, f"every fourth row of the run {run} of a 100M model, which comes with the package"
    for name, array, about in _features():
        file = io.BytesIO()
        np.save(file, array.astype(np.float32))  # in single precision
        files[name] = file.getvalue(), about
    return files


def _loss(batch_size: float, samples: np.ndarray | float, factor: float = 1.0) -> np.ndarray:
    """Return the made loss; `factor` is the share of the samples that a learning rate makes good use of."""
    return 1.8 + 35.0 * (factor * np.asarray(samples) / (1 + batch_size / 300) + 400) ** -0.3


def _rows(
    rng: np.random.Generator, batch_size: int, num_steps: int, last: int, every: int = 20
) -> Iterator[dict[str, float]]:
    """Yield the rows of a log, under a warm-up and a cosine that ends at a tenth of its peak."""
    for step in range(every, last + 1, every):
        decayed = 0.1 + 0.45 * (1 + np.cos(np.pi * step / num_steps))
        loss = _loss(batch_size, step * batch_size) * np.exp(NOISE * rng.standard_normal())
        rate = 3e-4 * min(step / WARMUP, 1.0) * decayed
        yield {"step": step, "loss": round(float(loss), 5), "lr": float(f"{rate:.5g}"), "batch_size": batch_size}


def _trainer_output(rng: np.random.Generator) -> dict[str, tuple[str, str]]:
    """Return the output folder of Hugging Face's Trainer after 12,000 of 20,000 steps of a cosine."""
    history = [
        {"step": row["step"], "loss": row["loss"], "learning_rate": row["lr"]}
        for row in _rows(rng, 256, 20000, 12000, every=50)
    ]
    state = {"global_step": 12000, "max_steps": 20000, "train_batch_size": 8, "log_history": history}
    arguments = {"gradient_accumulation_steps": 4, "world_size": 8, "warmup_steps": WARMUP, "optim": "adamw_torch"}
    return {
        "output/trainer_state.json": (json.dumps(state), "made log of Hugging Face's Trainer, 12,000 of 20,000 steps"),
        "output/training_args.json": (json.dumps(arguments), "settings of this run"),
    }


def _gradient_norms(rng: np.random.Generator) -> str:
    """Return squared norms of gradients of 32 and of 256 samples, with |G|² = 1 and tr Σ = 40."""
    columns: dict[str, list[float]] = {"step": [], "small_norm": [], "large_norm": []}
    for step in range(1, 401):
        columns["step"].append(step)
        for name, samples in (("small_norm", 32), ("large_norm", 256)):
            gradient = rng.standard_normal(1000) * (40 / 1000 / samples) ** 0.5
            gradient[0] += 1.0
            columns[name].append(round(float(gradient @ gradient), 5))
    return csv_columns(columns)


def _grid(rng: np.random.Generator) -> str:
    """Return final losses; the best learning rate is 1e-3 (B/64)^½. Columns stand under both names that guides use."""
    rows = []
    for model, params in (("small", 2.5e7), ("large", 1e8)):
        for batch_size in (16, 32, 64, 128, 256, 512):
            for samples in np.geomspace(5e4, 1.6e6, 6).round():
                for rate in 1e-3 * (batch_size / 64) ** 0.5 * np.geomspace(0.25, 4, 5):
                    distance = np.log(rate / 1e-3) - 0.5 * np.log(batch_size / 64)
                    loss = _loss(batch_size, samples, np.exp(-(distance**2) / 4)) + (0.1 if model == "small" else 0.0)
                    loss *= np.exp(0.2 * NOISE * rng.standard_normal())
                    rows.append((model, params, batch_size, samples, f"{rate:.4g}", round(float(loss), 5)))
    model, params, batch_sizes, samples, rates, losses = (list(column) for column in zip(*rows, strict=True))
    columns = {"model": model, "params": params, "bs": batch_sizes, "tokens": samples, "lr": rates, "loss": losses}
    return csv_columns(columns | {"batch_size": batch_sizes, "samples": samples, "learning_rate": rates})


def _features() -> Iterator[tuple[str, np.ndarray, str]]:
    """Yield the arrays of the guide on your own data, each after its file name and before what it is."""
    random = np.random.default_rng(0)
    inputs = random.standard_normal((8_000, 30)) * np.arange(1.0, 31) ** -0.7
    features = np.tanh(inputs @ random.standard_normal((30, 100)))
    targets = np.sin(inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + 0.5 * random.standard_normal(8_000)
    yield "X.npy", features, "made features, 8,000 samples of 100"
    yield "y.npy", targets, "made targets of these samples"
