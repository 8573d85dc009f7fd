"""Steps at which runs of different batch sizes reach a loss, from their logs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory._common.arguments import positive_number
from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.fits import StepsMeasurement
from sgdtheory.logs.crossing import Crossing, crossing, spikes
from sgdtheory.logs.loss_curves import losses_of
from sgdtheory.logs.several_runs import (
    Given,
    VaryingError,
    grouped,
    of_run,
    one_batch_size,
    peak_rate,
    points_of,
    which_loss,
)
from sgdtheory.logs.training_log import TrainingLog

FEWEST = 3  # A fit needs at least this many batch sizes.
FREEDOM = 3  # The scatter of repeated runs is used if it has at least this many degrees of freedom.
SAME_RATE = 0.02  # Learning rates count as equal if their logarithms differ by no more: logs print three digits.
SETUP = "num_steps", "warmup", "weight_decay", "beta1", "beta2", "optimizer"
DECAYED = 2.0  # A remark is made if learning rates at the target differ by a larger factor between batch sizes.


@dataclass(frozen=True, eq=False)
class RunEnd:
    """Steps of one run to the target.

    Attributes:
        name, group: of the run.
        batch_size: B.
        learning_rate: its largest; nan where it is not logged.
        crossing: of the target.
        share: the learning rate there, of the largest; nan where it is not logged.
        setup: what else tells its configuration: planned steps, warm-up, weight decay and β where the log has them.
        loss: "train" or "eval", whichever was read.
        spikes: rows that were left out, far off the rows around them.
    """

    name: str
    group: str
    batch_size: float
    learning_rate: float
    crossing: Crossing
    share: float
    setup: tuple[Any, ...]
    loss: str
    spikes: int = 0


@dataclass(frozen=True, eq=False)
class StepsToTarget(Shown):
    """Steps to one loss at several batch sizes, from logs; made by `steps_to_target`.

    Attributes:
        measurements: of each group, for `fit_steps_law`.
        runs: what each run says, those that are left out among them.
        target_loss: that is reached.
        remarks: what was left out and what a reader should know, a sentence each.
    """

    measurements: tuple[StepsMeasurement, ...]
    runs: tuple[RunEnd, ...]
    target_loss: float
    remarks: tuple[str, ...]

    def sheet(self) -> Sheet:
        """Return what each run says: the steps at which it reaches the loss."""
        runs = self.runs
        steps = [run.crossing.step for run in runs]
        quantities = [
            Quantity("run", "run", [run.name for run in runs]),
            Quantity("group", "group", [run.group for run in runs]),
            Quantity("batch_size", "B", [run.batch_size for run in runs]),
            Quantity("learning_rate", "learning rate", [run.learning_rate for run in runs]),
            Quantity("steps", "", steps),
            Quantity("", "steps", [_words(each) for each in steps]),
            Quantity("relative_error", "", [run.crossing.error for run in runs]),
            Quantity("loss", "", [run.loss for run in runs]),
        ]
        kind = "evaluations" if {run.loss for run in runs} == {"eval"} else "training losses"
        hidden = ["steps", "relative_error", "loss", *([] if any(run.group for run in runs) else ["group"])]
        title = f"steps to loss {self.target_loss:g}, interpolated between {kind}"
        return Sheet("", [Table(quantities, "runs", title, hidden=hidden)], self.remarks)


def steps_to_target(
    logs: Sequence[TrainingLog],
    *,
    target_loss: float,
    loss: str | None = None,
    batch_size: Given = None,
    learning_rate: Given = None,
    group: Mapping[str, str] | Callable[[TrainingLog], str] | None = None,
    sequence_length: float | None = None,
) -> StepsToTarget:
    """Return the steps at which runs of different batch sizes reach a loss.

    Where a loss crosses the target is read off a line through its rows nearby, since the first row below it comes too
    early (`sgdtheory.logs.crossing`). At each batch size the configuration (learning rate, planned steps, …) that needs
    the fewest steps counts: the geometric mean over its seeds. Where seeds repeat, the scatter of
    their log steps, pooled over all batch sizes, is the error of one run.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> t = np.arange(10.0, 4000, 10)
    >>> logs = []
    >>> for B in (16, 64, 256):  # steps to a loss are ∝ 1 + 100/B
    ...     series = {"evaluation_loss": (t, 2 + 20 * (t / (1 + 100 / B)) ** -0.5), "batch_size": (t[:1], [B])}
    ...     logs.append(st.logs.TrainingLog.from_series(f"B{B}", "mine", series))
    >>> (measured,) = st.logs.steps_to_target(logs, target_loss=3.0).measurements
    >>> print(measured.batch_sizes, measured.steps.round())
    [ 16.  64. 256.] [2900. 1025.  556.]

    Args:
        logs: of `read_logs`; a constant batch size each.
        target_loss: the loss to reach.
        loss: "train" or "eval"; None: evaluations where every run has them.
        batch_size, learning_rate: a number for all runs, or name of the run → number; None: as the log says.
        group: name of the run → group, or a function of the log; None: the log's own.
        sequence_length: tokens of a sequence, for batch sizes from tokens.

    Raises:
        ValueError: a run without a loss or without a batch size, or fewer than three batch sizes that reach it.
    """
    target = positive_number("target_loss", target_loss)
    named = grouped(logs, group)
    which = which_loss(named, loss)
    runs = []
    remarks = []
    for log in named:
        try:
            batch = one_batch_size(log, batch_size, sequence_length)
        except VaryingError as error:
            remarks.append(f"{error}; left out")
            continue
        runs.append(_run_end(log, target, which, batch, of_run(learning_rate, log.name)))
    remarks += _unreached(runs, target)
    spiked = [(run.name, run.spikes) for run in runs if run.spikes]
    if spiked:
        counts = ", ".join(f"{count} of {name}" for name, count in spiked)
        remarks.append(f"rows are spikes, far off the rows around them, and left out: {counts}")
    noise = _scatter_of_seeds(runs)
    measurements = []
    for name in dict.fromkeys(run.group for run in runs):
        best = [_best(each, noise) for each in _by_batch_size([run for run in runs if run.group == name])]
        best = [each for each in best if each is not None]
        if len(best) >= FEWEST:
            measurements.append(_measurement(name, best))
            remarks += _on_decays(name, [run for each in best for run in each.runs])
        else:
            remarks.append(f"{name or 'the runs'}: {len(best)} batch sizes reach loss {target:g}, {FEWEST} are needed")
    if not measurements:
        raise ValueError(_too_few(target, runs, named, which))
    return StepsToTarget(tuple(measurements), tuple(runs), target, tuple(remarks))


def _words(step: float) -> str:
    if np.isnan(step):
        return "below from the start"
    return number(step, 5) if np.isfinite(step) else "not reached"


def _run_end(log: TrainingLog, target: float, which: str, batch: float, rate: float | None) -> RunEnd:
    steps, losses = losses_of(log, which)
    spiked = spikes(losses) & (which != "eval")
    found = crossing(steps[~spiked], losses[~spiked], target, noisy=which != "eval")
    at, rates = log.series("learning_rate")
    share = float(np.interp(found.step, at, rates) / rates.max()) if at.size and np.isfinite(found.step) else np.nan
    setup = tuple(log.settings.get(name) for name in SETUP)
    return RunEnd(log.name, log.group, batch, peak_rate(log, rate), found, share, setup, which, int(spiked.sum()))


def _unreached(runs: Sequence[RunEnd], target: float) -> Iterator[str]:
    """Yield remarks on runs that do not reach the target, and on those that begin below it."""
    reasons = {np.inf: "not reach", np.nan: "begin below"}
    for value, reason in reasons.items():
        names = [run.name for run in runs if np.array_equal(run.crossing.step, value, equal_nan=True)]
        if names:
            left = "left out" if len(names) < len(runs) else "none is left"
            words = "does not reach" if value == np.inf else "begins below"
            plural = f"do {reason}" if value == np.inf else reason
            yield f"{', '.join(names)} {words if len(names) == 1 else plural} loss {target:g}: {left}"


def _by_batch_size(runs: Sequence[RunEnd]) -> list[list[list[RunEnd]]]:
    """Return the configurations of each batch size, in increasing order: runs that differ by their seeds alone."""
    found: dict[float, list[list[RunEnd]]] = {}
    for run in sorted(runs, key=lambda run: run.batch_size):
        configurations = found.setdefault(run.batch_size, [])
        if not np.isfinite(run.crossing.step):
            continue
        same = next((each for each in configurations if _alike(each[0], run)), None)
        if same is None:
            configurations.append([run])
        else:
            same.append(run)
    return [*found.values()]


def _alike(one: RunEnd, other: RunEnd) -> bool:
    rates = one.learning_rate, other.learning_rate
    same_rate = np.isnan(rates).all() or abs(np.log(rates[0] / rates[1])) <= SAME_RATE
    return bool(same_rate) and one.setup == other.setup


@dataclass(frozen=True, eq=False)
class _Best:
    """The configuration that needs the fewest steps at a batch size; error of log steps, nan where it is not known."""

    batch_size: float
    steps: float
    error: float
    runs: Sequence[RunEnd]


def _log_steps(runs: Sequence[RunEnd]) -> np.ndarray:
    return np.log([run.crossing.step for run in runs])


def _best(configurations: Sequence[Sequence[RunEnd]], noise: float) -> _Best | None:
    if not configurations:
        return None
    runs = min(configurations, key=lambda each: _log_steps(each).mean())
    steps = float(np.exp(_log_steps(runs).mean()))
    return _Best(runs[0].batch_size, steps, noise / np.sqrt(len(runs)), runs)


def _scatter_of_seeds(runs: Sequence[RunEnd]) -> float:
    """Return the standard deviation of log steps between runs of one configuration; nan where too few repeat."""
    squares = 0.0
    freedom = 0
    for name in {run.group for run in runs}:
        for configurations in _by_batch_size([run for run in runs if run.group == name]):
            for each in configurations:
                squares += _log_steps(each).var() * len(each)
                freedom += len(each) - 1
    return float(np.sqrt(squares / freedom)) if freedom >= FREEDOM and squares > 0 else np.nan


def _measurement(name: str, best: Sequence[_Best]) -> StepsMeasurement:
    batches, steps, errors = np.array([(each.batch_size, each.steps, each.error) for each in best]).T
    return StepsMeasurement(name, np.nan, batches, steps, None if np.isnan(errors).any() else errors)


def _on_decays(name: str, runs: Sequence[RunEnd]) -> Iterator[str]:
    """Yield the remark on runs of which some reach the target at the end of a decay and some before it."""
    shares = [(run.share, run.name) for run in runs if np.isfinite(run.share) and run.share > 0]
    if not shares:
        return
    low, high = min(shares), max(shares)
    if high[0] > DECAYED * low[0]:
        rates = f"{high[1]} reaches the loss at {high[0]:.0%} of its largest learning rate, {low[1]} at {low[0]:.0%}"
        advice = "give runs that all end at the target, or a grid of losses (loss_grid, fit-grid)"
        yield f"{name or 'the runs'}: {rates}: steps before a decay and at its end do not compare; {advice}"


def _too_few(target: float, runs: Sequence[RunEnd], logs: Sequence[TrainingLog], which: str) -> str:
    """Return why too few batch sizes have steps to the target, and the remedy."""
    early = {run.name: run.batch_size for run in runs if np.isnan(run.crossing.step)}
    if not early:
        return f"target_loss {target:g} is not reached at {FEWEST} batch sizes or more: {_ends_of(logs, which)}"
    starts = [[values[0] for values in losses_of(log, which)] for log in logs if log.name in early]
    kind, instead = ("evaluation", "use --loss train, or ") if which == "eval" else ("row", "")
    latest, lowest = (pick(values) for pick, values in zip((max, min), zip(*starts, strict=True), strict=True))
    whose = f"all {len(runs)} runs are"
    if len(early) < len(runs):
        sizes = ", ".join(f"{size:g}" for size in sorted(set(early.values())))
        plural = "sizes" if len(set(early.values())) > 1 else "size"
        whose = f"{len(early)} of {len(runs)} runs, at batch {plural} {sizes}, {'are' if len(early) > 1 else 'is'}"
    late = any(np.isinf(run.crossing.step) for run in runs)
    others = f"; others do not reach it, {_ends_of(logs, which)}" if late else ""
    return (
        f"target_loss {target:g}: {whose} already below it at {'its' if len(early) == 1 else 'their'} first {kind} "
        f"(step {latest:g} or before){others}; {instead}give a target below {lowest:.4g}"
    )


def _ends_of(logs: Sequence[TrainingLog], which: str) -> str:
    """Return the words for the losses between which runs end."""
    ends = [float(points_of(log, which)[-1][1]) for log in logs]
    ends = [each for each in ends if np.isfinite(each)]
    return f"the runs end at {min(ends):.4g} … {max(ends):.4g}" if ends else "all runs diverged"
