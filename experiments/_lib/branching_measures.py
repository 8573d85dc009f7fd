"""Three critical batch sizes of one problem: by branching a run, by the gradient noise scale, by definition."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sgdtheory as st
from experiments._lib.network_sweeps import Task, task_configs, tell_sweep
from experiments._lib.progress import report
from sgdtheory.sweep import fit_sweep, sweep
from sgdtheory.training import Branches, TrainConfig, branch

LAST = st.Algorithm(average=st.LastIterate())
MOST_DOUBLINGS = 14
BRANCHED = "branching", "fixed"
ALONG = *BRANCHED, "noise"  # measured along a run


class Row(NamedTuple):
    """One measure at one place.

    Attributes:
        problem: a power law or a task, by its name.
        measure: "branching", "fixed" (branching with one catch-up at every D), "noise", "definition"; "averaged" is B*
            of the uniform average, "balance" b/a.
        tolerance: ε of branching, a share of the loss; the extra data ω of the definition; nan for the noise scale.
        samples: D at the checkpoint; of the definition those that the reference batch size takes to the target.
        learning_rate: γ of the run; nan for the definition, which has the best of each batch size.
        best: 1 if γ leaves the least loss of those tried at this D.
        loss: of the run after the catch-up, or the target.
        batch_size, low, high: measured, and the ends of its interval.
    """

    problem: str
    measure: str
    tolerance: float
    samples: float
    learning_rate: float
    best: int
    loss: float
    batch_size: float
    low: float
    high: float


def curve(
    rows: Sequence[Row], problem: str, measure: str, tolerance: float | None = None, rate: float | None = None
) -> list[Row]:
    """Rows of one measure that are finite, in the order of D: at one γ, or without `rate` at each D's best one.

    B* and b/a whose interval has no upper end are left out: the law does not tell them.

    Args:
        rows: of the table.
        problem, measure: which.
        tolerance: ε of branching; None: of the other measures, which have one.
        rate: γ.
    """
    own = [each for each in rows if (each.problem, each.measure) == (problem, measure) and np.isfinite(each.batch_size)]
    if tolerance is not None:
        own = [each for each in own if np.isclose(each.tolerance, tolerance)]
    if measure in ALONG:
        own = [each for each in own if (each.best if rate is None else np.isclose(each.learning_rate, rate))]
    else:
        own = [each for each in own if np.isfinite(each.high)]
    return sorted(own, key=lambda each: each.samples)


class Slope(NamedTuple):
    """Exponent of D in a measure, its standard error from the scatter about the power, and degrees of freedom."""

    exponent: float
    error: float
    freedom: int


def slope_of(rows: Sequence[Row]) -> Slope | None:
    """Return the slope of rows of one measure, by least squares in logs; None with fewer than three."""
    if len(rows) < 3:
        return None
    fit = st.fit_power_law([each.samples for each in rows], [each.batch_size for each in rows])
    return Slope(fit.exponent, fit.residual_std / fit.squares_log_x**0.5, len(rows) - 2)


# ------------------------------------------------------------------ linear regression, exactly


def theory_rows(
    name: str, problem: st.PowerLaw, samples: Sequence[int], rate: float, tolerances: Sequence[float], catch_up: float
) -> list[Row]:
    """All three of SGD's last iterate at batch size 1 by the exact risk, at one γ and at each D's best one."""
    rows = []
    for number in samples:
        critical = st.critical_batch_size(problem, num_samples=number, algorithm=LAST)
        averaged = st.critical_batch_size(problem, num_samples=number)
        for measure, one in ("definition", critical), ("averaged", averaged):
            exact = (float(one.real_batch_size),) * 3
            rows.append(Row(name, measure, 0.2, number, np.nan, 1, float(one.optimal_risk), *exact))
        best = st.optimal_learning_rate(problem, batch_size=1, num_samples=number, algorithm=LAST)
        for place, own in enumerate((rate, float(best.learning_rate))):
            setting = {"batch_size": 1, "learning_rate": own, "num_samples": number, "algorithm": LAST}
            loss = float(st.excess_risk(problem, **setting).total)
            for tolerance in tolerances:
                found = (exact_branching(problem, own, number, round(catch_up * number), tolerance),) * 3
                rows.append(Row(name, "branching", tolerance, number, own, place, loss, *found))
            noise = (float(st.gradient_noise_scale(problem, **setting).simple),) * 3
            rows.append(Row(name, "noise", np.nan, number, own, place, loss, *noise))
    return rows


def exact_branching(problem: st.PowerLaw, rate: float, samples: int, catch_up: int, tolerance: float) -> float:
    """B* by branching a run at batch size 1, of expected losses: γ and B times k = 2, 4, … from D samples on."""
    first, before = np.nan, 0.0
    for doublings in range(MOST_DOUBLINGS):
        factor = 2**doublings
        number = samples + catch_up // factor
        shape = st.Stages((0, samples / number), (1, factor))
        grown = st.Algorithm(schedule=shape, batch_schedule=shape, average=st.LastIterate())
        setting = {"batch_size": 1, "learning_rate": rate, "num_samples": samples + catch_up // factor * factor}
        risk = float(st.excess_risk(problem, algorithm=grown, **setting).total)
        first = risk if factor == 1 else first
        excess = risk / first - 1
        if not excess <= tolerance:
            share = (tolerance - before) / (excess - before) if np.isfinite(excess) else 0.0
            return 2.0 ** (doublings - 1 + share)
        before = excess
    return np.inf


# ------------------------------------------------------------------ networks


def branching_rows(
    name: str,
    task: Task,
    *,
    log2_rates: Sequence[float],
    checkpoints: Sequence[int],
    catch_up: Sequence[int],
    factors: Sequence[int],
    num_seeds: int,
    tolerances: Sequence[float],
    level: float,
    measure: str = "branching",
) -> list[Row]:
    """Branching and noise scale of runs at the task's smallest batch size, at every γ and checkpoint.

    Args:
        name: of the task.
        task: network and data.
        log2_rates: of γ.
        checkpoints: D at which the runs branch.
        catch_up: samples after each until losses are compared.
        factors: k; those are used that leave a branch one step at least.
        num_seeds: of initial weights and of the order of the data.
        tolerances: ε, shares of the loss.
        level: of the intervals.
        measure: name of what branching finds; without the noise scale, if it is "fixed".
    """
    size, places = task.batch_sizes[0], np.array(checkpoints)
    factors = [factor for factor in factors if factor * size <= min(catch_up)]
    found: list[Branches] = []
    for place, log2_rate in enumerate(log2_rates):
        report(place / len(log2_rates))
        fields = {
            "width": task.widths[0],
            "batch_size": size,
            "micro_batch": size // 2,
            "learning_rate": 2.0**log2_rate,
        }
        first = TrainConfig.from_fields({**task.fields, **fields, "max_steps": int(max(places)) * 2 // size})
        runs = [replace(first, seed=seed, data_seed=seed) for seed in range(num_seeds)]
        found.append(branch(runs, places // size, factors=factors, catch_up=catch_up))
    losses = np.array([np.nan_to_num(each.losses[:, 0].mean(axis=1), nan=np.inf) for each in found])
    best = losses.argmin(axis=0)
    rows = []
    for place, each in enumerate(found):
        measured = [(measure, own, each.critical_batch_size(own, level=level)) for own in tolerances]
        measured += [("noise", np.nan, each.noise_scale(level))] if measure != "fixed" else []
        for word, tolerance, sizes in measured:
            for at, samples in enumerate(sizes.samples):
                ends = (float(part[at]) for part in (sizes.batch_size, sizes.low, sizes.high))
                own = each.config.learning_rate, int(best[at] == place), float(losses[place, at])
                rows.append(Row(name, word, tolerance, int(samples), *own, *ends))
    return rows


def definition_rows(name: str, task: Task, store: Path, overhead: float, level: float) -> list[Row]:
    """B* by its definition, and b/a, at the targets that three tuned batch sizes or more reach."""
    table, rows = sweep(task_configs(task, parametrization="mup"), store, progress=tell_sweep), []
    reference = float(task.batch_sizes[0])
    for target in task.targets:
        for law in fit_sweep(table, target_loss=target, reference=reference, overhead=overhead, level=level).laws:
            samples = reference * float(np.asarray(law.predict(reference)))
            for measure, quantity, value in (
                ("definition", "critical_batch_size", law.critical_batch_size(reference, overhead)),
                ("balance", "b/a", law.b / law.a if law.a else np.inf),
            ):
                ends = law.interval(quantity, level=level, reference=reference, overhead=overhead)
                found = (float(value), *map(float, ends))
                rows.append(Row(name, measure, overhead, samples, np.nan, 1, target, *found))
    return rows
