"""What a checkpoint of one run says of another run with the same iterates, of which something else is observed."""

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
    """Begin the run of `config` in `directory` with what the run `of` in `source` has computed.

    Both have one `trajectory`. The run ends at once if its end lies within what was computed; else it has a checkpoint
    from which it goes on. Its curve is that of a run of its own, to rounding.

    Returns:
        Whether it could be: not if the source has no checkpoint, or lacks an average of `config` (which cannot be had
        from the iterate at the end) or a step at which `config` is evaluated.

    Raises:
        ValueError: the checkpoint is damaged.
    """
    if config.trajectory != of.trajectory or not set(config.average_names) <= set(of.average_names):
        return False
    found = read_checkpoint(source, of)
    if found is None:
        return False
    state, history = found
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
    """The history as a run of `config` would have it, up to its end or the last step of the other.

    Args:
        history: of a run with the same iterates.
        config: of the run that is wanted.
        columns: of the history's losses that `config` asks for.
        num_steps: that the other has done.

    Returns:
        The history, None if it was not evaluated where `config` is; and (3,) sums since its last scheduled evaluation
        that are to be added to those of the state, for evaluations that `config` does not make.
    """
    own, rest = History(config), np.zeros(NUM_SUMS)
    expected, before = 0, 0
    for step, losses, means in zip(history.steps, history.losses, history.sums, strict=True):
        if step > expected:
            break
        since = means * (step - before) if step else np.zeros(NUM_SUMS)  # its sums since they began anew
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
    if own.outcome is None and expected <= num_steps:  # it went past a step at which config is evaluated
        return None, rest
    own.seconds = history.seconds * (own.step / history.step if history.step > 0 else 1.0)
    own.steps_per_second = history.steps_per_second
    return own, rest


def _with_averages(state: State, rows: list[int]) -> State:
    """The state with some of its averages, in this order."""
    chosen = jax.tree.map(lambda part: part[np.array(rows, int)], dict(state.averages))
    return state._replace(averages=chosen)
