"""Does the exact risk agree with simulations of SGD and of every other method, within standard errors?"""

import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import sgdtheory as st
from experiments._lib.every_method import MISTAKES, mistaken, scored
from experiments._lib.progress import report, stage, tracked
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import BLACK, BLUE, ORANGE, SKY, VERMILLION, legend, legend_below, log_axes, new_figure
from sgdtheory.risk import risk_by_recursion


@dataclass(frozen=True)
class Config:
    """A grid of problems and settings, and the settings that the picture shows."""

    seed: int = 0
    exponents: tuple[tuple[float, float], ...] = (
        (1.2, 1.5),
        (1.2, 4.0),
        (2.0, 1.5),
        (2.0, 3.0),
        (1.5, 2.0),
        (3.0, 8.0),
    )
    dim: int = 64
    noise_variance: float = 0.5
    batch_sizes: tuple[int, ...] = (1, 8, 64, 512)
    edge_shares: tuple[float, ...] = (0.05, 0.4)  # γ over the largest stable γ
    num_steps: tuple[int, ...] = (16, 64, 256, 1024)
    num_replicas: int = 2048
    false_alarm: float = 1e-5  # of all scores together, were they exactly normal
    shown_exponents: tuple[float, float] = (2.0, 3.0)
    shown_batch_sizes: tuple[int, ...] = (1, 16, 256)
    shown_learning_rate: float = 0.2
    shown_noise_variance: float = 2.0
    shown_steps: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    shown_replicas: int = 512
    method_exponents: tuple[float, float] = (1.5, 2.0)
    method_dim: int = 32
    method_batch_sizes: tuple[int, ...] = (8, 512)
    method_steps: int = 48
    method_replicas: int = 4096


SCALES = {
    "quick": Config(
        num_steps=(8, 32, 128, 512),
        num_replicas=1024,
        shown_steps=(4, 8, 16, 32, 64, 128, 256, 512, 1024),
        method_replicas=512,
    ),
    "full": Config(
        edge_shares=(0.01, 0.05, 0.2, 0.4),
        dim=128,
        num_replicas=4096,
        shown_replicas=1024,
    ),
}
AVERAGED_SGD = "SGD; constant; uniform"
UNITS = {
    "algorithm": "method; learning rate and batch size along the run; average",
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "dim": "directions of the problem; inf: infinitely many",
    "noise_variance": "σ², units of y²",
    "batch_size": "B, samples; the peak where it varies",
    "learning_rate": "γ, units of 1/λ_1; the peak where it varies",
    "num_steps": "n, steps",
    "num_replicas": "R",
    "simulated": "mean simulated excess risk, units of y²",
    "standard_error": "its standard error, units of y²",
    "exact": "exact excess risk, units of y²",
    "bound": "Theorem 7's bound for averaged SGD, constants 1, units of y²",
    "z": "(simulated − exact) / standard error",
    "score": "the same, made normal where risks are skewed",
    "score_wrong": "the same against the risk with the proof's 2 tr(HS)H; nan in infinite dimension, other methods",
}


def run(config: Config) -> Result:
    """Simulate, compare, and show that a wrong theory would have been found out."""
    start = time.perf_counter()
    columns: dict[str, list[np.ndarray]] = {name: [] for name in UNITS}
    keys = jax.random.split(jax.random.key(config.seed), len(config.exponents) + 1)
    steps = np.array(config.num_steps)
    with stage("finite problems", 0.0, 0.7):
        for key, (capacity, source) in tracked(zip(keys[:-1], config.exponents, strict=True)):
            problem = st.PowerLaw(capacity, source, config.dim, config.noise_variance)
            batch = np.array(config.batch_sizes, dtype=float)[:, None, None]
            rate = st.max_stable_learning_rate(problem, batch_size=batch) * np.array(config.edge_shares)[:, None]
            _append(columns, key, problem, batch, rate, steps, config.num_replicas)
    shown = st.PowerLaw(*config.shown_exponents, noise_variance=config.shown_noise_variance)
    batch = np.array(config.shown_batch_sizes, dtype=float)[:, None]
    with stage("the problem shown", 0.7, 0.8):
        shown_steps = np.array(config.shown_steps)
        _append(columns, keys[-1], shown, batch, config.shown_learning_rate, shown_steps, config.shown_replicas)
    points = {name: np.concatenate(parts) for name, parts in columns.items()}
    verdicts = _verdicts(config, points, time.perf_counter() - start)
    with stage("every method", 0.8, 1.0):
        methods, further = _every_method(config)
    figures = {"points_line_bound": _points_line_bound(config, shown, points), "quantiles": _quantiles(config, points)}
    together = {name: np.concatenate([points[name], methods[name]]) for name in UNITS}
    return Result(together, UNITS, figures, verdicts + further)


def _every_method(config: Config) -> tuple[dict[str, np.ndarray], tuple[Verdict, ...]]:
    """Rows and verdicts of all methods, schedules and averages."""
    start = time.perf_counter()
    problem = st.PowerLaw(*config.method_exponents, config.method_dim, config.noise_variance)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), len(config.exponents)))
    setting = problem, np.array(config.method_batch_sizes, dtype=float), config.method_steps, config.method_replicas
    rows, wrong = scored(keys[0], *setting), mistaken(keys[1], *setting)
    size = rows["score"].size
    limit = score_limit(config, size)
    worst = float(np.abs(rows["score"]).max())
    same = {
        "capacity": problem.capacity,
        "source": problem.source,
        "dim": problem.dim,
        "noise_variance": problem.noise_variance,
        "num_replicas": config.method_replicas,
        "bound": np.nan,
        "score_wrong": np.nan,
    }
    rows |= {name: np.full(size, value, dtype=float) for name, value in same.items()}
    verdicts = (
        Verdict(
            "simulated mean = exact risk, every method",
            f"largest |score| of {size} settings: {len(np.unique(rows['algorithm']))} methods, schedules and averages, "
            f"{config.method_replicas} replicas each; false alarm {config.false_alarm:g} for normal scores",
            f"|score| ≤ {limit:.2f}",
            worst,
            (0.0, limit),
            "fails" if worst > limit else "holds",
            time.perf_counter() - start,
        ),
        Verdict(
            f"negative controls: {', '.join(MISTAKES)}",
            "the same comparison with a mistaken theory must fail, for each of them",
            f"|score| > {limit:.2f}",
            min(wrong.values()),
            None,
            "holds" if min(wrong.values()) > limit else "fails",
        ),
    )
    return rows, verdicts


def _append(
    columns: dict, key: Any, problem: st.PowerLaw, batch: Any, rate: Any, steps: np.ndarray, replicas: int
) -> None:
    """One row for each setting that the arrays broadcast to."""
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
    simulation = st.simulate(key, problem, **setting, num_replicas=replicas, progress=report)
    exact = st.excess_risk(problem, **setting).total
    batch, rate, steps = np.broadcast_arrays(batch, rate, steps)
    wrong = np.full(batch.shape, np.nan)
    if problem.dim is not None:
        for place in np.ndindex(batch.shape):
            one = {"batch_size": batch[place], "learning_rate": rate[place], "num_steps": steps[place]}
            wrong[place] = sum(  # E[z_i² (zᵀu)²] = 2 ‖u‖² + u_i² is what the proof's bracket amounts to
                risk_by_recursion(*problem.directions(), problem.noise_variance, **one, fourth_moment=(2.0, 1.0))
            )
    row = {
        "algorithm": AVERAGED_SGD,
        "capacity": problem.capacity,
        "source": problem.source,
        "dim": np.inf if problem.dim is None else problem.dim,
        "noise_variance": problem.noise_variance,
        "batch_size": batch,
        "learning_rate": rate,
        "num_steps": steps,
        "num_replicas": replicas,
        "simulated": simulation.mean,
        "standard_error": simulation.standard_error,
        "exact": exact,
        "bound": st.theorem7(problem, **setting).total,
        "z": simulation.z_score(exact),
        "score": simulation.normal_score(exact),
        "score_wrong": simulation.normal_score(wrong),
    }
    for name, values in row.items():
        columns[name].append(np.broadcast_to(np.asarray(values), batch.shape).ravel())


def score_limit(config: Config, number: int) -> float:
    """Bonferroni's limit for the largest of `number` |scores|."""
    return float(stats.norm.isf(config.false_alarm / 2 / number))


def _independent(config: Config, points: dict) -> np.ndarray:
    """Select the rows that are independent runs: the longest of each (problem, B, γ) of the grid."""
    return np.isfinite(points["dim"]) & (points["num_steps"] == max(config.num_steps))


def _verdicts(config: Config, points: dict, seconds: float) -> tuple[Verdict, ...]:
    limit = score_limit(config, points["score"].size)
    worst, wrong = float(np.abs(points["score"]).max()), float(np.nanmax(np.abs(points["score_wrong"])))
    own = points["score"][_independent(config, points)]
    probability = _probability(own)
    return (
        Verdict(
            "simulated mean = exact risk",
            f"largest |score| of {points['score'].size} settings, {config.num_replicas} replicas each in finite "
            f"dimension, {config.shown_replicas} in infinite; false alarm {config.false_alarm:g} for normal "
            "scores, ten times less than is allowed, for what the correction of skewness leaves over",
            f"|score| ≤ {limit:.2f}",
            worst,
            (0.0, limit),
            "fails" if worst > limit else "holds",
            seconds,
        ),
        Verdict(
            "scores are standard normal",
            f"Kolmogorov–Smirnov test of the scores of {own.size} independent runs; fails below 1e-4",
            "p > 1e-4",
            probability,
            None,
            "holds" if probability > 1e-4 else "fails",
        ),
        Verdict(
            "negative control: the proof's 2 tr(HS)H",
            "the same comparison with the proof's fourth moment in place of the exact one must fail",
            f"|score| > {limit:.2f}",
            wrong,
            None,
            "holds" if wrong > limit else "fails",
        ),
    )


def _points_line_bound(config: Config, problem: st.PowerLaw, points: dict) -> Figure:
    """Risks on top, and beneath them the same relative to the exact risk, where error bars can be seen."""
    figure, axes = new_figure(2, len(config.shown_batch_sizes), width=3.2, height=2.5)
    axes[0, 0].get_gridspec().set_height_ratios([1.6, 1])
    for column, batch in zip(axes.T, config.shown_batch_sizes, strict=True):
        for axis, first in zip(column, axes[:, 0], strict=True):
            if axis is not first:
                axis.sharey(first)
        _panel(config, column[0], problem, batch, points)
        _deviations(column[1], batch, points)
        column[1].sharex(column[0])
    axes[0, 0].set_ylabel(r"excess risk $\Delta$ (units of $y^2$)")
    axes[1, 0].set_ylabel("simulated − exact (%)")
    worst = np.abs(points["score"]).max()
    a, b = config.shown_exponents
    figure.suptitle(
        f"Simulated SGD agrees with the exact risk and lies in Theorem 7's band (largest difference of "
        f"{points['score'].size} settings: {worst:.1f} standard errors)\n"
        rf"$\lambda_i = i^{{-{a:g}}}$, $s_i = i^{{-{b:g}}}$, infinitely many directions, "
        rf"$\gamma = {config.shown_learning_rate:g}$, $\sigma^2 = {config.shown_noise_variance:g}$. "
        "The bound has a kink wherever its $k^*$ goes up by one",
        fontsize=9,
    )
    legend_below(figure, axes[0, 0])
    return figure


def _panel(config: Config, axis: Axes, problem: st.PowerLaw, batch: int, points: dict) -> None:
    """Risk against D at one batch size: bound with the constants that it has here, exact line, simulated points."""
    samples = batch * np.unique(np.round(np.geomspace(min(config.shown_steps), max(config.shown_steps), 200)))
    setting = st.Setting(problem, batch, config.shown_learning_rate, samples)
    comparison = st.compare(st.theorem7, [setting])
    low, high = comparison.lowest, comparison.highest
    band = low * comparison.bound, high * comparison.bound
    axis.fill_between(samples, *band, color=ORANGE, alpha=0.35, lw=0, label="bound × its constants here")
    axis.plot(samples, comparison.bound, color=ORANGE, ls="--", lw=1, label="Theorem 7's bound, constant 1")
    axis.plot(samples, comparison.exact, color=BLACK, lw=1, label="exact risk")
    mine = np.isinf(points["dim"]) & (points["batch_size"] == batch)
    place = points["num_steps"][mine] * batch, points["simulated"][mine]
    axis.plot(*place, "o", ms=4, color=BLUE, label="simulated (beneath: ±2 s.e.)")
    log_axes(axis)
    axis.set_title(f"$B = {batch}$: band = bound × {low:.2f} … {high:.2f}", fontsize=9)


def _deviations(axis: Axes, batch: int, points: dict) -> None:
    """Simulated over exact risk at one batch size, less 1, in percent, with ±2 standard errors."""
    mine = np.isinf(points["dim"]) & (points["batch_size"] == batch)
    samples, exact = points["num_steps"][mine] * batch, points["exact"][mine]
    deviation, error = points["simulated"][mine] / exact - 1, 2 * points["standard_error"][mine] / exact
    axis.axhline(0.0, color=BLACK, lw=1)
    axis.errorbar(samples, 100 * deviation, yerr=100 * error, fmt="o", ms=3, color=BLUE, capsize=2)
    log_axes(axis, "x")
    axis.set(xlabel="samples $D$")


def _quantiles(config: Config, points: dict) -> Figure:
    """Ordered scores against normal quantiles, for the theory and for the wrong one."""
    figure, axes = new_figure(1, 1, width=4.9, height=4.2)
    axis = axes[0, 0]
    limit = score_limit(config, points["score"].size)
    rows = _independent(config, points)
    order = stats.norm.ppf((np.arange(rows.sum()) + 0.5) / rows.sum())
    label = f"no alarm: |score| < {limit:.1f}"
    axis.axhspan(-limit, limit, color=SKY, alpha=0.2, lw=0, label=label)
    wrong = np.sort(points["score_wrong"][rows])
    axis.plot(order, wrong, "x", ms=4, color=VERMILLION, label="proof's $2\\,tr(HS)H$ instead")
    axis.plot(order, np.sort(points["score"][rows]), "o", ms=4, color=BLUE, label="exact risk")
    axis.axline((0, 0), slope=1, color=BLACK, lw=1, label="standard normal")
    axis.set_yscale("symlog", linthresh=6)
    axis.set_yticks([-100, -30, -10, -5, -2, 0, 2, 5], ["−100", "−30", "−10", "−5", "−2", "0", "2", "5"])
    axis.set_ylim(1.3 * min(wrong.min(), -limit), 1.3 * limit)
    axis.set(xlabel="standard normal quantile", ylabel="(simulated − theory) / standard error")
    right, wrong = (_probability(points[name][rows]) for name in ("score", "score_wrong"))
    axis.set_title(
        f"Standardised differences of {rows.sum()} independent runs: normal?\n"
        f"exact risk: p = {right:.2g}; the proof's fourth moment: p = {wrong:.0e}",
        fontsize=9,
    )
    legend(axis, corners=("lower right",))
    return figure


def _probability(scores: np.ndarray) -> float:
    """Return the probability of scores that depart at least as far from a standard normal law (Kolmogorov–Smirnov)."""
    return float(stats.kstest(scores, stats.norm.cdf).pvalue)
