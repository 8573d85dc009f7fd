"""Training: one run, or many side by side, with evaluation, checkpoints and an end."""

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

POLL_SECONDS = 0.5  # a thread that waits without an end may never see a signal that came as it began to


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
        directory: where to keep config, checkpoints, curve and result; a run that is there goes on, one that has ended
            is not repeated. With more steps it goes on if its learning rate does not depend on schedule_steps, or if
            these stay. None: nothing is kept.
        checkpoint_seconds: time between checkpoints.
        devices: JAX devices that share each batch; None: all (of as many as divide a micro-batch).
        progress: called now and then with the `Group` that advances: its `runs`, its `step` and its `steps_per_second`.

    Returns:
        The curve and how the run ended. Divergence is an outcome, not an error; so is Ctrl-C.

    Raises:
        ValueError: the directory belongs to another config or schedule, or its checkpoint is damaged.
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
    """Go on with the run in a directory, from its checkpoint, bit for bit as if it had never stopped.

    >>> import tempfile
    >>> from sgdtheory.training import TrainConfig, resume, train
    >>> with tempfile.TemporaryDirectory() as directory:  # doctest: +SKIP
    ...     _ = train(TrainConfig(width=4, batch_size=4, max_steps=4, holdout_size=8), directory)
    ...     resume(directory, max_steps=6).num_steps
    6

    Args:
        directory: of the run.
        max_steps, target_loss: more steps or a lower target than it had; None: as it was. Warm-up, decay and
            evaluations stay those of its first duration.
        entry_point: "module:name" of the run's model, if that is one of your own. The directory names it too, but it is
            data: no code is run because a file in it says so.
        checkpoint_seconds, devices, progress: as of `train`.

    Raises:
        ValueError: no run there, a model of your own that is not named or lies in the directory, fewer steps or a
            higher target, or a damaged checkpoint.
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
    """Train many networks; those that share a compiled program advance side by side in it.

    >>> from dataclasses import replace
    >>> from sgdtheory.training import TrainConfig, train_many
    >>> config = TrainConfig(width=4, batch_size=4, max_steps=4, holdout_size=8)
    >>> results = train_many([replace(config, learning_rate=rate) for rate in (0.001, 0.01)])  # doctest: +SKIP
    >>> [result.config.learning_rate for result in results]  # doctest: +SKIP
    [0.001, 0.01]

    Runs share a program if their configs differ in nothing but learning_rate, momentum, beta1, beta2, epsilon, seed,
    data_seed, the values of averages and target_loss; with one data_seed they share the making of their data as
    well. On a CPU as many threads as there are cores share the programs or, where these are fewer, the
    runs.

    Args:
        configs: of the runs.
        directories: one for each run, as of `train`; None: nothing is kept.
        checkpoint_seconds, devices, progress: as of `train`.

    Returns:
        Results in the order of the configs, the same as of `train` to rounding.
    """
    configs = list(configs)
    places = [None] * len(configs) if directories is None else [Path(each) for each in directories]
    if len(places) != len(configs):
        raise ValueError(f"directories must be one for each of {len(configs)} configs, got {len(places)}")
    configs = [config.imported(place) for config, place in zip(configs, places, strict=True)]
    runs = [Run(config, place) for config, place in zip(configs, places, strict=True)]
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
            interrupts.pending = True  # where one part failed the others stop
    return [run.result() for run in runs]


def num_threads(devices: Sequence[Any]) -> int:
    """Number of groups that run at once: small networks leave the cores of a CPU idle, and fill any other device."""
    if len(devices) > 1 or devices[0].platform != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _failed(part: Future) -> bool:
    return part.done() and part.exception() is not None
