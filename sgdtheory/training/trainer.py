"""Training of one run, or of many side by side, with evaluations, checkpoints and stopping rules."""

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import jax

from sgdtheory._common.interrupts import Interrupts
from sgdtheory.training.checkpoint import extended, read_named
from sgdtheory.training.config import CHECKPOINT_SECONDS, TrainConfig
from sgdtheory.training.group import Group, Report
from sgdtheory.training.result import TrainResult
from sgdtheory.training.run import Run, group_runs

POLL_SECONDS = 0.5  # A wait lasts this long at most: without timeout it may miss a signal that comes just as it starts.


def train(
    config: TrainConfig,
    directory: str | Path | None = None,
    *,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    devices: Sequence[Any] | None = None,
    progress: Report | None = None,
) -> TrainResult:
    """Train one network to its target_loss or through max_steps.

    >>> from sgdtheory.training import TrainConfig, train
    >>> result = train(TrainConfig(width=4, batch_size=4, max_steps=4, holdout_size=8))  # doctest: +SKIP
    >>> result.outcome, result.steps.tolist()  # doctest: +SKIP
    ('steps', [0, 1, 2, 3, 4])

    Args:
        config: everything that determines the run.
        directory: folder for config, checkpoints, curve and result. A run that it already holds is continued, or not
            repeated if it has ended. With more max_steps a run continues if its learning rate does not depend on
            schedule_steps, or if schedule_steps stays the same. None: no files are written.
        checkpoint_seconds: time between checkpoints.
        devices: JAX devices that share each batch, as many as divide a micro-batch; None: all devices.
        progress: called after each call to the devices with the `Group` that advances, which has `runs`, `step` and
            `steps_per_second`.

    Returns:
        The curve and how the run ended. Divergence and Ctrl-C are outcomes, not errors.

    Raises:
        ValueError: if the directory belongs to another config or schedule, or its checkpoint is damaged.
    """
    directories = None if directory is None else [directory]
    return train_many([config], directories, checkpoint_seconds=checkpoint_seconds, devices=devices, progress=progress)[
        0
    ]


def resume(
    directory: str | Path,
    *,
    max_steps: int | None = None,
    target_loss: float | None = None,
    entry_point: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    devices: Sequence[Any] | None = None,
    progress: Report | None = None,
) -> TrainResult:
    """Continue the run in a directory from its checkpoint, bit for bit as if it had never stopped.

    >>> import tempfile
    >>> from sgdtheory.training import TrainConfig, resume, train
    >>> with tempfile.TemporaryDirectory() as directory:  # doctest: +SKIP
    ...     _ = train(TrainConfig(width=4, batch_size=4, max_steps=4, holdout_size=8), directory)
    ...     resume(directory, max_steps=6).num_steps
    6

    Args:
        directory: folder of the run.
        max_steps, target_loss: more steps or a lower target than before; None: unchanged. Warm-up, decay and
            evaluations stay those of the first duration.
        entry_point: "module:name" of the run's model, if that is a custom one. The directory names it too, but files
            are data: no code is run only because a file names it.
        checkpoint_seconds, devices, progress: as for `train`.

    Raises:
        ValueError: if there is no run, a custom model is not named or lies in the directory, there are fewer steps or
            a higher target than before, or the checkpoint is damaged.
    """
    directory = Path(directory)
    config = extended(read_named(directory, entry_point), max_steps, target_loss)
    return train(config, directory, checkpoint_seconds=checkpoint_seconds, devices=devices, progress=progress)


def train_many(
    configs: Sequence[TrainConfig],
    directories: Sequence[str | Path] | None = None,
    *,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    devices: Sequence[Any] | None = None,
    progress: Report | None = None,
) -> list[TrainResult]:
    """Train many networks; runs that share a compiled program advance side by side.

    >>> from dataclasses import replace
    >>> from sgdtheory.training import TrainConfig, train_many
    >>> config = TrainConfig(width=4, batch_size=4, max_steps=4, holdout_size=8)
    >>> results = train_many([replace(config, learning_rate=rate) for rate in (0.001, 0.01)])  # doctest: +SKIP
    >>> [result.config.learning_rate for result in results]  # doctest: +SKIP
    [0.001, 0.01]

    Runs share a program if their configs differ only in learning_rate, momentum, beta1, beta2, epsilon,
    weight_decay, seed, data_seed, target_loss and the values of averages. Runs with the same data_seed also share the
    making of their data. On a CPU, as many threads as there are cores share the programs or, if these are fewer, the
    runs.

    Args:
        configs: configs of the runs.
        directories: a folder for each run, as for `train`; None: no files are written.
        checkpoint_seconds, devices, progress: as for `train`.

    Returns:
        Results in the order of the configs, equal to those of `train` up to rounding.
    """
    configs = list(configs)
    folders = [None] * len(configs) if directories is None else [Path(each) for each in directories]
    if len(folders) != len(configs):
        raise ValueError(f"directories must be one for each of {len(configs)} configs, got {len(folders)}")
    configs = [config.imported(folder) for config, folder in zip(configs, folders, strict=True)]
    runs = [Run(config, folder) for config, folder in zip(configs, folders, strict=True)]
    used = tuple(jax.devices() if devices is None else devices)
    if not used:
        raise ValueError("devices must be at least one JAX device, or None for all, got none")
    threads = num_threads(used)

    def go(part: list[Run]) -> None:
        if not interrupts.pending:
            Group(part, used).advance(interrupts, checkpoint_seconds, progress)

    with Interrupts() as interrupts, ThreadPoolExecutor(threads) as executor:
        parts = [executor.submit(go, part) for part in group_runs(runs, threads)]
        try:
            while wait(parts, POLL_SECONDS, FIRST_EXCEPTION).not_done and not any(map(_failed, parts)):
                pass
            for part in parts:
                part.result()
        finally:
            interrupts.pending = True  # If one part failed, the others stop.
    return [run.result() for run in runs]


def num_threads(devices: Sequence[Any]) -> int:
    """Return how many groups run at once: one per CPU core, because small networks use one core; else one."""
    if len(devices) > 1 or devices[0].platform != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _failed(part: Future) -> bool:
    return part.done() and part.exception() is not None
