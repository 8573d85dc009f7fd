"""Loss curves at one batch size: do they tell the steps, and B*, at other batch sizes, with SGD and with Adam?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import sgdtheory as st
from experiments._lib.answers import inside
from experiments._lib.batch_curves import (
    DECAY,
    FLOOR,
    Losses,
    decaying,
    network,
    network_runs,
    num_steps,
    theory_curve,
    theory_run,
    thinned,
)
from experiments._lib.panels import panels
from experiments._lib.processes import map_on_cores
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict
from sgdtheory._common.files import csv_number
from sgdtheory.plotting.style import (
    BLACK,
    VERMILLION,
    categories,
    colors,
    legend,
    legend_below,
    log_axes,
    tick_measured,
)

NETWORKS = "SGD", "Adam"
AS_SGD = "Adam, as SGD"  # the control: fitted and predicted as if a step did not depend on the batch size
ONE_RATE = ", fitted at one γ"
AHEAD = 4  # a prediction looks so many times as far as the run went
PLAIN = st.Convention(reference=None)


@dataclass(frozen=True)
class Config:
    """Problems and networks, at which batch size they are fitted and at which they are tested."""

    fitted: float = 32.0  # B0
    trials: int = 4  # with scatter, data and initial weights of their own
    problems: tuple[tuple[float, float, float], ...] = ((1.6, 1.9, 4.0), (1.3, 2.0, 1.0))  # a, b, σ²
    theory_batches: tuple[float, ...] = (4, 8, 16, 32, 64, 128, 256, 512)
    theory_rates: tuple[float, ...] = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
    theory_fitted_rate: float = 0.2  # of the theory's curves; one more has the largest of the grid
    theory_targets: tuple[float, ...] = (2.1, 2.05, 2.03)
    scatter: float = 5e-4
    theory_steps: tuple[int, int, int] = (6000, 2000, 60000)  # at B0, fewest, most
    batches: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    sgd_rates: tuple[float, ...] = (0.0125, 0.025, 0.05, 0.1)
    adam_rates: tuple[float, ...] = (0.001, 0.002, 0.004, 0.008, 0.016)
    targets: tuple[float, ...] = (0.1, 0.06, 0.04)
    steps: tuple[int, int, int] = (4000, 1000, 8000)
    holdout_size: int = 2048
    tolerance: float = 1.3  # factor within which a prediction counts as right
    exponent: float = 0.15  # of B, to which what an update does counts as the same


SCALES = {
    "quick": Config(
        trials=2,
        problems=((1.6, 1.9, 4.0),),
        theory_batches=(8, 32, 128, 512),
        theory_rates=(0.05, 0.1, 0.2, 0.4, 0.8),
        theory_targets=(2.1, 2.05),
        batches=(16, 32, 64, 128),
        sgd_rates=(0.05, 0.1),
        adam_rates=(0.002, 0.008),
        targets=(0.1, 0.06),
        steps=(1500, 600, 2500),
        holdout_size=512,
    ),
    "full": Config(),
}
UNITS = {
    "case": "problem of the theory, or optimizer of the network and how its learning rate is taken",
    "trial": "number",
    "target": "loss; of the theory with L0 = 2",
    "batch_size": "samples",
    "learning_rate": "γ",
    "measured": "steps; nan where the target was not reached",
    "predicted": "steps, by the curves at B0; nan where the target is not reached in four times the steps of the run",
}


class Row(NamedTuple):
    """Steps to a target at one setting."""

    case: str
    trial: int
    target: float
    batch_size: float
    learning_rate: float
    measured: float
    predicted: float


def run(config: Config) -> Result:
    """Train the networks, fit each trial at B0, and predict the other batch sizes."""
    start = time.perf_counter()
    jobs: list[Callable[[], list[Row]]] = [
        partial(_theory_rows, config, problem, trial, alone)
        for problem in config.problems
        for trial in range(config.trials)
        for alone in (False, True)
    ]
    for optimizer in NETWORKS:
        trained = _trained(config, optimizer)
        for trial in range(config.trials):
            own = {key[:3]: losses for key, losses in trained.items() if key[3] == trial}
            jobs.append(partial(_network_rows, config, optimizer, trial, own))
    rows = [row for part in map_on_cores(_call, jobs) for row in part]
    columns = {name: [getattr(row, name) for row in rows] for name in UNITS}
    verdicts = _verdicts(config, rows, time.perf_counter() - start)
    return Result(columns, UNITS, {"curves_batch_size": _figure(config, rows)}, verdicts)


def _call(job: Callable[[], list[Row]]) -> list[Row]:
    return job()


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure, from the table."""
    rows = [
        Row(each["case"], int(each["trial"]), *(csv_number(each[name]) for name in list(UNITS)[2:]))
        for each in recorded.rows
    ]
    return {"curves_batch_size": _figure(config, rows)}


# ------------------------------------------------------------------ measurements


def problem_name(problem: tuple[float, float, float], alone: bool = False) -> str:
    """Of a problem of the theory, fitted with the largest γ of the grid among the curves or with one γ alone."""
    capacity, source, noise = problem
    return f"theory, a = {capacity:g}, b = {source:g}, σ² = {noise:g}" + ONE_RATE * alone


def _predicted(fit: st.curves.CurvesFit, rate: float, length: int, batch: float) -> Losses:
    with np.errstate(all="ignore"):  # beyond the stability edge
        found = fit.predict(rate, num_steps=AHEAD * length, batch_size=batch)
    return Losses(found.step, np.nan_to_num(found.loss, nan=np.inf))


def _theory_rows(config: Config, problem: tuple[float, float, float], trial: int, alone: bool) -> list[Row]:
    capacity, source, noise = problem
    law = st.PowerLaw(capacity, source, noise_variance=noise)
    random = np.random.default_rng([trial, config.problems.index(problem)])
    settings = [(shape, config.theory_fitted_rate) for shape in ("constant", "cosine", "drop")]
    settings += [] if alone else [("constant", max(config.theory_rates))]
    how = config.fitted, config.theory_steps[0], config.scatter, random
    fit = st.fit_loss_curves([theory_curve(law, *setting, *how) for setting in settings])
    rows = []
    for batch in config.theory_batches:
        length = num_steps(batch, config.fitted, *config.theory_steps)
        for rate in config.theory_rates:
            exact = theory_run(law, "constant", rate, batch, length)
            guess = _predicted(fit, rate, length, batch)
            rows += [
                Row(
                    problem_name(problem, alone),
                    trial,
                    target,
                    batch,
                    rate,
                    exact.steps_to(target),
                    guess.steps_to(target),
                )
                for target in config.theory_targets
            ]
    return rows


def _trained(config: Config, optimizer: str) -> dict[tuple[str, float, float, int], Losses]:
    """(shape, B, γ, trial) → losses."""
    rates, found = _rates(config, optimizer), {}
    for batch in config.batches:
        length = num_steps(batch, config.fitted, *config.steps)
        base = network(optimizer, batch_size=batch, max_steps=length, holdout_size=config.holdout_size)
        runs = network_runs(base, rates, config.trials)
        found |= {("constant", float(batch), *key): losses for key, losses in runs.items()}
    fitted = network(
        optimizer,
        batch_size=int(config.fitted),
        max_steps=config.steps[0],
        holdout_size=config.holdout_size,
        schedule=DECAY,
    )
    runs = network_runs(fitted, [rates[len(rates) // 2]], config.trials)
    return found | {("cosine", config.fitted, *key): losses for key, losses in runs.items()}


def _rates(config: Config, optimizer: str) -> tuple[float, ...]:
    return config.sgd_rates if optimizer == "SGD" else config.adam_rates


def _network_rows(
    config: Config, optimizer: str, trial: int, runs: dict[tuple[str, float, float], Losses]
) -> list[Row]:
    """Of one trial: fitted to its runs at B0, tested on its own runs."""
    curves = []
    for (shape, batch, rate), losses in runs.items():
        if batch == config.fitted:
            constant = np.full(losses.step.size, rate)
            rates = constant if shape == "constant" else decaying(rate, losses.step, config.steps[0])
            curves.append(thinned(losses, rates, batch))
    ways = {optimizer: optimizer.lower()} | ({AS_SGD: "sgd"} if optimizer == "Adam" else {})
    fits = {case: st.fit_loss_curves(curves, optimizer=way) for case, way in ways.items()}
    rows = []
    for (shape, batch, rate), losses in runs.items():
        if shape != "constant":
            continue
        length = num_steps(batch, config.fitted, *config.steps)
        measured = losses.smooth()
        for case, fit in fits.items():
            guess = _predicted(fit, rate, length, batch)
            rows += [
                Row(case, trial, target, batch, rate, measured.steps_to(target), guess.steps_to(target))
                for target in config.targets
            ]
    return rows


# ------------------------------------------------------------------ what follows


class Tuned(NamedTuple):
    """Steps at the best learning rate of the grid, (m,) each, of one trial and target."""

    batch_size: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray


def tuned(rows: list[Row], case: str, trial: int, target: float) -> Tuned:
    """Of batch sizes at which both reach the target; each at its own best learning rate."""
    own = [row for row in rows if (row.case, row.trial, row.target) == (case, trial, target)]
    found = []
    for batch in sorted({row.batch_size for row in own}):
        pair = np.array([(row.measured, row.predicted) for row in own if row.batch_size == batch])
        best = np.nan_to_num(pair, nan=np.inf).min(0)
        if np.isfinite(best).all():
            found.append((batch, *best))
    return Tuned(*np.array(found).reshape(-1, 3).T)


def critical_ratio(found: Tuned) -> float:
    """log of B* by predicted over B* by measured steps, against the smallest batch size; nan with fewer than four."""
    if found.batch_size.size < 4:
        return float("nan")
    sizes = [
        st.fit_steps_law(found.batch_size, steps).critical_batch_size(convention=PLAIN)
        for steps in (found.predicted, found.measured)
    ]
    return float(np.log(sizes[0] / sizes[1])) if np.isfinite(sizes).all() else float("nan")


def slope(rows: list[Row], case: str, trial: int, target: float, rate: float) -> float:
    """Of log(predicted/measured steps) in log B at one learning rate; nan with fewer than three batch sizes."""
    own = [
        (row.batch_size, row.predicted / row.measured)
        for row in rows
        if (row.case, row.trial, row.target, row.learning_rate) == (case, trial, target, rate)
        and np.isfinite(row.predicted / row.measured)
    ]
    if len(own) < 3:
        return float("nan")
    batch, ratio = np.log(own).T
    return float(np.polyfit(batch, ratio, 1)[0])


def over_trials(values: list[float]) -> tuple[float, tuple[float, float]]:
    """Mean and its 95% interval by Student's t; nan are left out."""
    known = np.array([value for value in values if np.isfinite(value)])
    if known.size < 2:
        return float("nan"), (float("nan"), float("nan"))
    half = stats.t.ppf(0.975, known.size - 1) * known.std(ddof=1) / np.sqrt(known.size)
    return float(known.mean()), (float(known.mean() - half), float(known.mean() + half))


def _cases(config: Config) -> tuple[str, ...]:
    theory = [problem_name(problem, alone) for alone in (False, True) for problem in config.problems]
    return (*theory, *NETWORKS, AS_SGD)


def _targets(config: Config, case: str) -> tuple[float, ...]:
    return config.theory_targets if case.startswith("theory") else config.targets


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    return (
        *(_steps_verdict(config, rows, case, seconds) for case in _cases(config)),
        *(_critical_verdict(config, rows, case) for case in _cases(config)),
        *(_slope_verdict(config, rows, case) for case in (*NETWORKS, AS_SGD)),
    )


def _steps_verdict(config: Config, rows: list[Row], case: str, seconds: float) -> Verdict:
    ratios = []
    for trial in range(config.trials):
        found = [tuned(rows, case, trial, target) for target in _targets(config, case)]
        beside = [(each.predicted / each.measured)[each.batch_size != config.fitted] for each in found]
        ratios.append(np.concatenate(beside))
    ratio = np.concatenate(ratios)
    low, middle, high = (float(value) for value in np.quantile(ratio, (0.025, 0.5, 0.975)))
    shares = [float((np.abs(np.log(each)) <= np.log(config.tolerance)).mean()) for each in ratios]
    right = float((np.abs(np.log(ratio)) <= np.log(config.tolerance)).mean())
    return Verdict(
        f"steps at other batch sizes: {case}",
        f"steps to a target predicted by curves at B0 = {config.fitted:g} over those measured, each at its own best γ "
        f"of the grid, {config.trials} trials, targets {', '.join(f'{each:g}' for each in _targets(config, case))}: "
        f"median and the middle 95%; {right:.0%} of {ratio.size} within a factor of {config.tolerance:g}, by trial "
        f"{', '.join(f'{share:.0%}' for share in shares)} (holds if 95% are, fails if they are in no trial)",
        1.0,
        middle,
        (low, high),
        "holds" if right >= 0.95 else "fails" if max(shares) < 0.95 else "inconclusive",
        seconds,
    )


def _critical_verdict(config: Config, rows: list[Row], case: str) -> Verdict:
    logs = {
        target: [critical_ratio(tuned(rows, case, trial, target)) for trial in range(config.trials)]
        for target in _targets(config, case)
    }
    text, mean, ends = _summary(logs, lambda value: f"{np.exp(value):.2f}")
    low, high = (float(np.exp(end)) for end in ends)
    return Verdict(
        f"B* from one batch size: {case}",
        f"B* by a + b/B through predicted steps over that through measured ones, by target {text}; their mean, "
        f"95% by the scatter of {config.trials} trials; holds if the interval lies within a factor of "
        f"{config.tolerance:g}",
        1.0,
        float(np.exp(mean)),
        (low, high),
        inside((low, high), 1 / config.tolerance, config.tolerance),
    )


def _summary(values: dict[float, list[float]], write: Callable[[float], str]) -> tuple[str, float, tuple[float, float]]:
    """By target in words, and all targets' mean with its interval; targets without a value in every trial are out."""
    known = {target: each for target, each in values.items() if np.isfinite(each).all()}
    text = ", ".join(f"{target:g}: {write(over_trials(each)[0])}" for target, each in known.items())
    if not known:
        return "none", float("nan"), (float("nan"), float("nan"))
    return text, *over_trials([float(np.mean(column)) for column in zip(*known.values(), strict=True)])


def _slope_verdict(config: Config, rows: list[Row], case: str) -> Verdict:
    """At one learning rate, so that tuning makes up for nothing: the smallest, with which noise matters least."""
    rate = min(_rates(config, "SGD" if case == "SGD" else "Adam"))
    each = {
        target: [slope(rows, case, trial, target, rate) for trial in range(config.trials)] for target in config.targets
    }
    text, middle, ends = _summary(each, lambda value: f"{value:+.2f}")
    return Verdict(
        f"an update at another batch size: {case}",
        f"p of predicted/measured steps ∝ B^p at γ = {rate:g}, the smallest of the grid, by target {text}; 95% by the "
        f"scatter of trials; holds if it is 0 within ±{config.exponent:g}. Adam divides by the root of a mean square, "
        "tr Σ/B where noise dominates: what γ does then grows like √B, p = 1/2 where it is taken for SGD",
        0.0,
        middle,
        ends,
        inside(ends, -config.exponent, config.exponent),
    )


# ------------------------------------------------------------------ figure


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Steps at the best learning rate against B: measured points, the prediction from B0 as a line."""
    cases = [case for case in _cases(config) if not case.endswith(ONE_RATE)]
    figure, axes = panels(len(cases) + 1, height=2.9)
    _draw_one_rate(axes[-1], config, rows)
    for axis, case in zip(axes[:-1], cases, strict=True):
        targets = _targets(config, case)
        for color, target in zip(colors(len(targets)), targets, strict=True):
            _draw(axis, config, [tuned(rows, case, trial, target) for trial in range(config.trials)], color)
        axis.axvline(config.fitted, color=VERMILLION, lw=1.0, ls=":", label="batch size of the fitted curves")
        log_axes(axis)
        tick_measured(axis, sorted({row.batch_size for row in rows if row.case == case}))
        name = case.replace("σ²", r"$\sigma^2$")
        known = " − L0" if case.startswith("theory") else ""
        shown = ", ".join(f"{target - (FLOOR if known else 0):g}" for target in targets)
        axis.set_title(f"{name}\nto loss{known.replace('L0', '$L_0$')} of {shown}", fontsize=8.5)
        axis.set(xlabel="batch size $B$", ylabel=r"steps at the best $\gamma$")
    figure.suptitle(
        f"Loss curves at $B_0 = {config.fitted:g}$ alone foretell the steps to a target at other batch sizes",
        fontsize=10,
    )
    legend_below(figure, axes[0], columns=3)
    return figure


def _draw(axis: Axes, config: Config, trials: list[Tuned], color: Any) -> None:
    """Geometric means over the trials that have a batch size, with their range."""
    logs = {
        batch: np.log(
            [(one.measured[k], one.predicted[k]) for one in trials for k in np.flatnonzero(one.batch_size == batch)]
        )
        for batch in sorted({float(batch) for one in trials for batch in one.batch_size})
    }
    batches = list(logs)
    middle, low, high = (np.exp([pick(each, axis=0) for each in logs.values()]).T for pick in (np.mean, np.min, np.max))
    first = not axis.lines
    axis.fill_between(batches, low[1], high[1], color=color, alpha=0.2, lw=0)
    axis.plot(batches, middle[1], color=color, label="predicted, all trials" if first else "_")
    reach = [middle[0] - low[0], high[0] - middle[0]]
    axis.errorbar(
        batches,
        middle[0],
        reach,
        color=color,
        fmt="o",
        ms=4,
        mec=BLACK,
        mew=0.4,
        lw=1,
        label="measured" if first else "_",
    )


def _draw_one_rate(axis: Axes, config: Config, rows: list[Row]) -> None:
    """Predicted over measured steps at the smallest γ, means over trials and targets."""
    axis.axhline(1.0, color=BLACK, lw=0.8)
    for case, look in zip((*NETWORKS, AS_SGD), categories(3), strict=True):
        rate = min(_rates(config, "SGD" if case == "SGD" else "Adam"))
        points = [
            (batch, np.exp(np.nanmean(ratios)))
            for batch in config.batches
            for ratios in [
                [
                    np.log(row.predicted / row.measured)
                    for row in rows
                    if (row.case, row.batch_size, row.learning_rate) == (case, batch, rate)
                ]
            ]
            if np.isfinite(ratios).any()
        ]
        axis.plot(*zip(*points, strict=True), label=case, ms=4, **look)
    log_axes(axis)
    tick_measured(axis, config.batches)
    axis.set_title(r"At one $\gamma$, the smallest of the grid", fontsize=8.5)
    axis.set(xlabel="batch size $B$", ylabel="predicted / measured steps", ylim=(0.35, 4))
    legend(axis)
