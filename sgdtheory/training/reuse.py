"""Reuse of a run's checkpoint for another run with the same iterates, of which other quantities are observed."""

from pathlib import Path

import jax
import numpy as np

from sgdtheory.training.checkpoint import read_checkpoint, write_checkpoint, write_config, write_result
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.contents import write_contents
from sgdtheory.training.engine import NEVER, State
from sgdtheory.training.evaluation import is_scheduled, next_evaluation
from sgdtheory.training.history import NUM_SUMS, History


def adopt(directory: Path, config: TrainConfig, source: Path, of: TrainConfig) -> bool:
    """Start the run of `config` in `directory` from the computed steps of the run `of` in `source`.

    Both runs must have the same `trajectory`. If the steps that were computed reach the end of the new run, it has
    ended; otherwise it gets a checkpoint from which it can continue. Its curve is the one that it would have had by
    itself, up to rounding.

    Returns:
        True if that was possible; False if the source has no checkpoint, or lacks an average of `config` (which the
        last iterate does not determine) or a step at which `config` is evaluated.

    Raises:
        ValueError: if the checkpoint is damaged.
    """
    if config.trajectory != of.trajectory or not set(config.average_names) <= set(of.average_names):
        return False
    checkpoint = read_checkpoint(source, of)
    if checkpoint is None:
        return False
    state, history = checkpoint
    columns = [of.average_names.index(name) for name in config.average_names]
    step = int(state.step)
    own, rest = observed(history, config, columns, step)
    if own is None:
        return False
    write_contents(directory, config)
    write_config(directory, config)
    if own.outcome is None or own.step == step:
        state = _with_averages(state, [column - 1 for column in columns[1:]])
        state = state._replace(sums=state.sums + rest.astype(state.sums.dtype))
        write_checkpoint(directory, state, own)
    if own.outcome is not None:
        write_result(directory, own.result(own.step, config.network.num_weights))
    return True


def observed(
    history: History, config: TrainConfig, columns: list[int], num_steps: int
) -> tuple[History | None, np.ndarray]:
    """Return the history that a run of `config` would have, up to its end or to the last step of the other run.

    Args:
        history: history of a run with the same iterates.
        config: config of the run that is wanted.
        columns: columns of the history's losses that `config` asks for.
        num_steps: number of steps of the other run.

    Returns:
        The history, or None if an evaluation of `config` is missing; and (3,) sums that must be added to those of the
        state, because the other run reset its sums at evaluations that `config` does not make.
    """
    own, rest = History(config), np.zeros(NUM_SUMS)
    expected, before = 0, 0
    for step, losses, means in zip(history.steps, history.losses, history.sums, strict=True):
        if step > expected:
            break
        since = means * (step - before) if step else np.zeros(NUM_SUMS)  # The other run's sums since their last reset.
        if step == expected:
            failed = step if history.outcome == "diverged" and step == history.step else NEVER
            own.add(step, losses[columns], rest + since, failed)
            if own.outcome is not None:
                break
            expected = next_evaluation(config, step)
        mine, others = is_scheduled(config, step), is_scheduled(history.config, step)
        if others:
            rest, before = np.zeros(NUM_SUMS) if mine else rest + since, step
        elif mine:
            rest = -since
    if own.outcome is None and expected <= num_steps:  # The other run passed an evaluation of `config` without one.
        return None, rest
    own.seconds = history.seconds * (own.step / history.step if history.step > 0 else 1.0)
    own.steps_per_second = history.steps_per_second
    return own, rest


def _with_averages(state: State, rows: list[int]) -> State:
    """Return the state with only these averages, in this order."""
    chosen = jax.tree.map(lambda part: part[np.array(rows, int)], dict(state.averages))
    return state._replace(averages=chosen)
