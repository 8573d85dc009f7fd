"""A grid of losses (batch size, samples, learning rate, loss) from logs of several runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sgdtheory._common.arguments import positive_number
from sgdtheory.logs.loss_curves import Given, ask_for_batch_size, batches_at, losses_of, of_run
from sgdtheory.logs.training_log import TrainingLog

LAST = 0.05  # The loss at a run's end is its mean over this last share of the steps, if no loss was evaluated.
CONSTANT = 0.99  # A learning rate that ends at this share of its peak or above counts as constant.
POINTS = 8  # A run at a constant learning rate gives this many points: each is the end of a shorter run.
# Logs may name these settings, which `TrainingSetup` has too (`warmup` as `warmup_steps`).
SETTINGS = "batch_size", "learning_rate", "beta1", "beta2", "weight_decay", "warmup", "num_steps"


def loss_grid(
    logs: Sequence[TrainingLog],
    *,
    loss: str | None = None,
    batch_size: Given = None,
    learning_rate: Given = None,
    group: Mapping[str, str] | Callable[[TrainingLog], str] | None = None,
    sequence_length: float | None = None,
) -> dict[str, list[Any]]:
    """Return columns for `fit_loss_grid`: the end of every run, and points on the way of those whose rate is constant.

    The loss is the last evaluation, or the mean of the rows of the last 5% of the steps; nan of a run that diverged.
    A run at a constant learning rate is at each of its steps what a shorter one would be at its end: eight points, even
    in log steps, come from it. A run whose rate decays is one row.

    Args:
        logs, loss, batch_size, learning_rate, group, sequence_length: as for `steps_to_target`; the rate is the largest
            of the run.

    Returns:
        batch_size, samples (in sequences), learning_rate, loss, group, seed (the run's name).

    Raises:
        ValueError: a run without a loss, a batch size or a learning rate.
    """
    named = grouped(logs, group)
    which = which_loss(named, loss)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("batch_size", "samples", "learning_rate", "loss", "group", "seed")
    }
    for log in named:
        batch = one_batch_size(log, batch_size, sequence_length)
        rate = known_rate(log, learning_rate)
        for step, value in points_of(log, which):
            row = (batch, batch * step, rate, value, log.group, log.name)
            for column, cell in zip(columns.values(), row, strict=True):
                column.append(cell)
    return columns


def run_settings(
    log: TrainingLog, *, batch_size: Given = None, learning_rate: Given = None, sequence_length: float | None = None
) -> dict[str, float]:
    """Return the settings of a run that its log has, by the names of `TrainingSetup`.

    >>> import sgdtheory as st
    >>> series = {"learning_rate": ([1, 9], [1e-3, 1e-4]), "batch_size": ([1, 5], [32, 64])}
    >>> log = st.logs.TrainingLog.from_series("run 7", "mine", series, settings={"warmup": 5})
    >>> st.logs.run_settings(log)
    {'warmup_steps': 5.0, 'batch_size': 64.0, 'learning_rate': 0.001}

    Args:
        log, batch_size, learning_rate, sequence_length: as for `steps_to_target`; the batch size is the last one of the
            run, and the learning rate its largest.

    Raises:
        ValueError: a batch size or a learning rate that was given is not positive.
    """
    logged = {name: float(value) for name, value in log.settings.items() if name in SETTINGS and value is not None}
    found = {"warmup_steps" if name == "warmup" else name: value for name, value in logged.items()}
    sizes = batches_at(log, log.step, of_run(batch_size, log.name), sequence_length)
    if sizes is not None:
        found["batch_size"] = float(sizes[-1])
    rate = peak_rate(log, of_run(learning_rate, log.name))
    return found if np.isnan(rate) else found | {"learning_rate": rate}


class VaryingError(ValueError):
    """A run whose batch size changes on the way."""


def grouped(logs: Sequence[TrainingLog], group: Any) -> list[TrainingLog]:
    """Return the logs with their groups."""
    if not logs:
        raise ValueError("logs must hold at least one run, got none")
    if group is None:
        return list(logs)
    if isinstance(group, Mapping):
        missing = [log.name for log in logs if log.name not in group]
        if missing:
            raise ValueError(f"group must name every run, got none for {', '.join(missing)}")
        return [replace(log, group=str(group[log.name])) for log in logs]
    return [replace(log, group=str(group(log))) for log in logs]


def one_batch_size(log: TrainingLog, given: Given, length: float | None) -> float:
    """Return the batch size of a run.

    Raises:
        ValueError: the log does not say.
        VaryingError: it changes.
    """
    sizes = batches_at(log, log.step, of_run(given, log.name), length)
    if sizes is None:
        raise ValueError(f"{log.name}: {ask_for_batch_size(log)}, or name of the run → B, {log.name}=B,…")
    usual = float(np.median(sizes))
    if (np.abs(sizes - usual) > 0.01 * usual + 1).any():
        raise VaryingError(f"{log.name}: its batch size changes from {sizes.min():g} to {sizes.max():g}")
    return usual


def which_loss(logs: Sequence[TrainingLog], loss: str | None) -> str:
    """Return which loss is read: evaluations where every run has them, unless one is asked for."""
    return loss or ("eval" if all(log.has("evaluation_loss") for log in logs) else "train")


def peak_rate(log: TrainingLog, given: float | None) -> float:
    """Return the largest learning rate of a run; nan where it is not known."""
    if given is not None:
        return positive_number("learning_rate", given)
    if log.has("learning_rate"):
        return float(np.nanmax(log.learning_rate))
    return float(log.settings.get("learning_rate", np.nan))


def known_rate(log: TrainingLog, given: Given) -> float:
    """Return the largest learning rate of a run, given or logged.

    Raises:
        ValueError: it is not known.
    """
    rate = peak_rate(log, of_run(given, log.name))
    if np.isnan(rate):
        raise ValueError(
            f"{log.name}: no learning rate is logged; give one, or name of the run → rate, learning_rate= "
            "(--learning-rate)"
        )
    return rate


def points_of(log: TrainingLog, which: str) -> list[tuple[float, float]]:
    """Return (step, loss) at the end, and on the way where the learning rate is constant; nan if a run diverged."""
    steps, losses = losses_of(log, which)
    planned = float(log.settings.get("num_steps", steps[-1]))
    if not np.isfinite(losses[-1]):
        return [(max(planned, steps[-1]), np.nan)]
    at, rates = log.series("learning_rate")
    constant = at.size > 1 and rates[-1] >= CONSTANT * rates.max()
    ends = np.geomspace(steps[-1] / 2**POINTS, steps[-1], POINTS) if constant else steps[-1:]
    peak = at[np.argmax(rates)] if constant else 0.0
    chosen = [end for end in ends if end > peak and (steps <= end).any()]
    if which == "eval":
        places = np.unique(np.searchsorted(steps, chosen, side="right") - 1)
        return [(float(steps[place]), float(losses[place])) for place in places]
    return [_mean_at_end(steps, losses, end) for end in chosen]


def _mean_at_end(steps: np.ndarray, losses: np.ndarray, end: float) -> tuple[float, float]:
    """Return the means of step and of loss over the last rows up to a step."""
    rows = (steps <= end) & (steps > (1 - LAST) * end)
    rows = rows if rows.any() else steps == steps[steps <= end][-1]
    return float(steps[rows].mean()), float(losses[rows].mean())
