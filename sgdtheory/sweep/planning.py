"""The plan of a sweep: its time on this machine, and the probability that its verdict is conclusive."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from sgdtheory._common.arguments import positive_number
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.sweep import power
from sgdtheory.sweep.fit import fit_sweep
from sgdtheory.sweep.pace import Countdown, Pace, Taken, Unit, kind
from sgdtheory.sweep.power import Design, Scatter, Verdicts, enough, scatter_of, verdict_probabilities
from sgdtheory.sweep.runner import units
from sgdtheory.sweep.store import Store
from sgdtheory.sweep.table import SweepTable
from sgdtheory.sweep.tuning import ASIDE, SEEDS, TUNED
from sgdtheory.training import FIELDS, Run, TrainConfig, advance_runs, num_threads

VARIED = {"width", "base_width", "num_heads", "base_num_heads", "batch_size", "depth", *TUNED, *SEEDS, *ASIDE}
# A plan times at most PILOT_KINDS kinds of runs, each for PILOT_SECONDS of training.
PILOT_SECONDS, PILOT_KINDS = 2.0, 5


@dataclass(frozen=True)
class Plan(Shown):
    """The time that a sweep will take, and the verdicts that it is likely to give.

    Attributes:
        runs: number of runs of the sweep.
        finished: number of runs whose result the store already has.
        steps: upper bound on the steps of all runs that are left.
        seconds: upper bound on the time on this machine, from runs that were timed.
        scatter: scatter that the verdicts are predicted with; None if neither a pilot nor a number was given.
        verdicts: probabilities of the sweep's verdicts if B* does not move; None without a scatter, two widths and
            three batch sizes.
        enough: the cheapest design whose verdict is "holds" with probability 0.8; None if there is none, or without a
            scatter.
        margin: largest |slope| of log B* on log width with which B* counts as constant.
        store: folder of the sweep, if there is one.
    """

    runs: int
    finished: int
    steps: int
    seconds: float
    scatter: Scatter | None
    verdicts: Verdicts | None
    enough: Design | None
    margin: float = 0.2
    store: str | Path | None = None

    def sheet(self) -> Sheet:
        """Return what the sweep takes, the probability of each verdict, and the cheapest design that decides."""
        quantities = [
            Quantity("runs", "runs", self.runs),
            Quantity("finished", "finished" if self.store is None else f"finished in {self.store}", self.finished),
            Quantity("steps", "steps left, at most", self.steps),
            Quantity("seconds", "seconds on this machine, if no run reaches its target early", self.seconds, digits=3),
        ]
        settings = {
            "scatter": vars(self.scatter) if self.scatter else None,
            "verdicts": self.verdicts._asdict() if self.verdicts else None,
            "enough": self.enough._asdict() if self.enough else None,
        }
        tables = [Table(quantities), *self._verdicts()]
        return Sheet("what the sweep takes", tables, [self._remark()], settings)

    def _verdicts(self) -> Iterator[Table]:
        if self.scatter is None or self.verdicts is None:
            return
        quantities = [
            Quantity("", "scatter of one seed's log steps", self.scatter.seeds, digits=3),
            Quantity("", "scatter that more seeds do not average away", self.scatter.rest, digits=3),
            Quantity("", "scatter of log B* between widths", self.scatter.between, digits=3),
            Quantity("", "b/a of the law a + b/B", self.scatter.balance, digits=3),
            *(Quantity("", f"verdict {name}", f"{value:.0%}") for name, value in self.verdicts._asdict().items()),
        ]
        title = f"if B* does not move: probability of each verdict (|slope| < {self.margin:g}, by the law)"
        yield Table(quantities, title=title, legend=f"scatter {self.scatter.source}")

    def _remark(self) -> str:
        """Return the cheapest design that decides, or why there is none."""
        if self.scatter is None:
            return ""
        if self.verdicts is None:
            return "a verdict needs three widths and three batch sizes, or more"
        if self.enough is None:
            return (
                f"no sweep of up to {max(power.WIDTHS)} widths, {max(power.BATCHES)} batch sizes and "
                f"{max(power.SEEDS)} seeds in these ranges decides four times out of five: take a wider range of widths"
            )
        widths, batches = (", ".join(map(str, each)) for each in (self.enough.widths, self.enough.batch_sizes))
        seeds = f"{self.enough.num_seeds} seed{'s' * (self.enough.num_seeds > 1)}"
        return f"enough for {self.enough.power:.0%}: widths {widths}; batch sizes {batches}; {seeds}"


def plan(
    configs: Sequence[TrainConfig],
    store: str | Path | None = None,
    *,
    scatter: Scatter | float | None = None,
    reference: float | None = None,
    overhead: float = 0.2,
    margin: float = 0.2,
    level: float = 0.95,
    pilot_seconds: float = PILOT_SECONDS,
) -> Plan:
    """Time a few of the runs, and predict the verdict that B* does not move with the width.

    >>> from sgdtheory.sweep import plan
    >>> from sgdtheory.training import TrainConfig
    >>> configs = [TrainConfig(width=8, batch_size=batch, max_steps=50) for batch in (4, 8)]
    >>> ahead = plan(configs, pilot_seconds=0.1)  # doctest: +SKIP
    >>> ahead.runs, ahead.steps, ahead.seconds > 0  # doctest: +SKIP
    (2, 100, True)

    Args:
        configs: configs of the sweep.
        store: store of the sweep, which may already have some of its runs.
        scatter: scatter from `pilot_scatter`, or an assumed one; a number is that of the log steps of one seed.
        reference, overhead, margin, level: as for `fit_sweep`.
        pilot_seconds: seconds for which each of a few kinds of runs is trained; nothing of that is kept.

    Raises:
        ValueError: if there are no configs, or the scatter is not positive.
    """
    configs = [config.imported(store) for config in {config.fingerprint: config for config in configs}.values()]
    if not configs:
        raise ValueError("configs must be at least one, got none")
    widths, batches = ({getattr(config, name) for config in configs} for name in ("width", "batch_size"))
    if scatter is not None and not isinstance(scatter, Scatter):
        middle = (min(batches) * max(batches)) ** 0.5
        scatter = Scatter(positive_number("scatter", scatter), rest=0.0, between=0.0, balance=middle)
    done = {config for config in configs if store is not None and Store(store).result(config) is not None}
    left = [unit for unit in units(configs) if not done.issuperset(unit)]
    threads = num_threads(jax.devices())
    countdown = Countdown(left, threads, measure(left, pilot_seconds, threads))
    verdicts = design = None
    if scatter is not None and len(widths) > 1 and len(batches) > 2:
        options: dict[str, Any] = {"overhead": overhead, "margin": margin, "level": level}
        options |= {} if reference is None else {"reference": reference}
        seeds = len({(config.seed, config.data_seed) for config in configs})
        verdicts = verdict_probabilities(sorted(widths), sorted(batches), scatter, num_seeds=seeds, **options)
        design = enough((min(widths), max(widths)), (min(batches), max(batches)), scatter, **options)
    steps = sum(config.max_steps for config in configs if config not in done)
    return Plan(len(configs), len(done), steps, countdown.seconds_left, scatter, verdicts, design, margin, store)


def pilot_scatter(
    store: str | Path,
    target_loss: float | None = None,
    *,
    overhead: float = 0.2,
    like: Sequence[TrainConfig] = (),
) -> Scatter:
    """Measure the scatter of the runs in a store, tuned at a target; its `source` names these runs.

    Args:
        store: folder of the pilot's runs.
        target_loss: loss on the hold-out; None: the highest target_loss of the runs.
        overhead: as for `fit_sweep`.
        like: runs of the planned sweep. The pilot may differ from them in widths, batch sizes, tuned fields, seeds and
            durations, but not in the task. Empty: any runs will do.

    Raises:
        ValueError: if there is no such store, no target, too few tuned batch sizes, or only runs of another task.
    """
    table = SweepTable.from_store(store)
    _check_task([result.config for result in table.finished], like, store)
    if target_loss is None and not table.target_losses:
        raise ValueError("target_loss must be given: the runs of the pilot have none of their own")
    target = table.target_losses[0] if target_loss is None else target_loss
    scatter = scatter_of(fit_sweep(table, target_loss=target, overhead=overhead))
    return replace(scatter, source=_of_pilot(table, store, target, {config.target_loss for config in like}))


def _check_task(pilot: Sequence[TrainConfig], like: Sequence[TrainConfig], store: str | Path) -> None:
    """Check that the pilot's runs have the sweep's task: every field that defines it has a value in common."""
    for name in FIELDS if pilot and like else ():
        if name in VARIED:
            continue
        theirs = {config.value(name) for config in pilot}
        own = {config.value(name) for config in like}
        if not theirs & own:
            values = [" or ".join(sorted(map(str, values))) for values in (theirs, own)]
            raise ValueError(
                f"the runs in {store} are no pilot of this sweep: their {name} is {values[0]}, not {values[1]}"
            )


def _of_pilot(table: SweepTable, store: str | Path, target: float, wanted: set[float | None]) -> str:
    """Name the runs on which a scatter was measured, and how they differ from the sweep."""
    seeds = len({(result.config.seed, result.config.data_seed) for result in table.finished})
    words = f"of the pilot in {store} ({len(table.finished)} runs, {seeds} seed{'s' * (seeds > 1)}, at loss {target:g}"
    others = sorted(loss for loss in wanted if loss not in (None, target))
    if others:
        words += f" where this sweep's is {' or '.join(f'{loss:g}' for loss in others)}"
    if seeds == 1:
        words += "; with one seed it is unknown what more seeds average out, and the sweep may do better"
    return words + ")"


def measure(left: Sequence[Unit], seconds: float, threads: int) -> Pace:
    """Train a few units for `seconds` each, as many at once as a sweep would, and keep only the times."""
    kinds = {kind(unit): unit for unit in reversed(left)}
    ordered = sorted(kinds.values(), key=lambda unit: sum(config.operations for config in unit))
    number = min(PILOT_KINDS, len(ordered))
    chosen = [ordered[round(index * (len(ordered) - 1) / max(1, number - 1))] for index in range(number)]
    pace = Pace()
    with ThreadPoolExecutor(threads) as executor:
        for unit, taken in zip(chosen, executor.map(lambda unit: _timed(unit, seconds), chosen), strict=True):
            pace.learn(unit, taken, whole=False)
    return pace


class _Timer:
    """Signal to stop a number of seconds after the first steps."""

    def __init__(self, seconds: float):
        self._seconds, self._begin = seconds, float("inf")

    def look(self, group: object) -> None:
        """Start the clock when steps have been done for the first time."""
        del group
        self._begin = min(self._begin, time.perf_counter())

    @property
    def pending(self) -> bool:
        """Return whether the time is up."""
        return time.perf_counter() - self._begin > self._seconds


def _timed(unit: Unit, seconds: float) -> Taken:
    begin, timer, runs = time.perf_counter(), _Timer(seconds), [Run(config, None) for config in unit]
    setup = advance_runs(runs, timer, report=timer.look)
    return Taken(max(run.num_steps for run in runs), setup, time.perf_counter() - begin - setup)
