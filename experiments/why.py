"""Why is there a critical batch size? Bias, variance and sequential run time against B at fixed data."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import (
    BLACK,
    BLUE,
    GRAY,
    GREEN,
    PURPLE,
    VERMILLION,
    legend_below,
    log_axes,
    new_figure,
    power_of_ten,
)


@dataclass(frozen=True)
class Config:
    """One problem, one data size, and the learning rate that is kept fixed."""

    capacity: float = 2.0
    source: float = 3.0
    num_samples: float = 1e6
    fixed_learning_rate: float = 1.0
    per_decade: int = 12
    kept: float = 1.2  # within this factor of R_opt the risk counts as kept: 20% more data make up for less


SCALES = {"quick": Config(), "full": Config(per_decade=24)}
UNITS = {
    "learning_rate_tuned": "1 if γ is the best for each B, 0 if it is fixed",
    "batch_size": "B, samples",
    "learning_rate": "γ, units of 1/λ_1",
    "num_steps": "n = ⌊D/B⌋, the sequential run time",
    "bias": "exact bias, units of y²",
    "variance": "exact variance, units of y²",
    "risk": "their sum, units of y²",
}


def run(config: Config) -> Result:
    """Both sweeps over B, tuned and fixed."""
    start = time.perf_counter()
    problem = st.PowerLaw(config.capacity, config.source)
    critical = st.critical_batch_size(problem, num_samples=config.num_samples)
    largest = np.log10(config.num_samples / 4)
    batch = np.unique(np.round(np.logspace(0, largest, int(largest * config.per_decade))))
    tuned = st.optimal_learning_rate(problem, batch_size=batch, num_samples=config.num_samples).learning_rate
    edge = st.max_stable_learning_rate(problem, batch_size=batch)
    stable = edge > config.fixed_learning_rate
    sweeps = [
        _sweep(config, problem, batch, np.asarray(tuned), 1.0),
        _sweep(config, problem, batch[stable], np.full(stable.sum(), config.fixed_learning_rate), 0.0),
    ]
    points = {name: np.concatenate([sweep[name] for sweep in sweeps]) for name in UNITS}
    verdicts = _verdicts(config, critical, sweeps[0], sweeps[1], time.perf_counter() - start)
    return Result(points, UNITS, {"why": _figure(config, critical, sweeps[0], sweeps[1])}, verdicts)


def _sweep(config: Config, problem: st.PowerLaw, batch: Any, rate: Any, tuned: float) -> dict[str, np.ndarray]:
    risk = st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=config.num_samples)
    columns = {
        "learning_rate_tuned": np.full(batch.size, tuned),
        "batch_size": batch,
        "learning_rate": rate,
        "num_steps": np.floor(config.num_samples / batch),
        "bias": risk.bias,
        "variance": risk.variance,
        "risk": risk.total,
    }
    return {name: np.asarray(values) for name, values in columns.items()}


def _verdicts(
    config: Config, critical: st.critical.CriticalBatchSize, tuned: dict, fixed: dict, seconds: float
) -> tuple[Verdict, ...]:
    below = tuned["batch_size"] <= critical.batch_size
    ratio = tuned["risk"] / critical.optimal_risk
    best = int(np.argmin(fixed["risk"]))
    fixed_ratio = float(fixed["risk"][best] / critical.optimal_risk)
    fixed_batch = float(fixed["batch_size"][best])
    return (
        Verdict(
            "batch sizes up to B* cost little and save steps",
            f"best risk with D samples at every B ≤ B* = {critical.batch_size:g}, over the optimal risk; "
            f"the number of steps falls from {config.num_samples:g} to {config.num_samples // critical.batch_size:g}",
            f"below {config.kept:g}",
            float(ratio[below].max()),
            (float(ratio[below].min()), float(ratio[below].max())),
            "holds" if ratio[below].max() < config.kept else "fails",
            seconds,
        ),
        Verdict(
            "γ ≍ 1 and B ≍ B* attain the optimal rate",
            f"least risk over B with γ = {config.fixed_learning_rate:g} fixed, over the optimal risk; attained at "
            f"B = {fixed_batch:g}, {fixed_batch / critical.batch_size:.2f} B*: bias below it, variance above",
            f"below {config.kept:g}",
            fixed_ratio,
            None,
            "holds" if fixed_ratio < config.kept else "fails",
        ),
    )


def _figure(config: Config, critical: st.critical.CriticalBatchSize, tuned: Any, fixed: Any) -> Figure:
    figure, axes = new_figure(1, 2, width=4.9, height=4.2)
    axes[0, 1].sharey(axes[0, 0])
    figure.suptitle(
        rf"$\lambda_i = i^{{-{config.capacity:g}}}$, $s_i = i^{{-{config.source:g}}}$, $\sigma^2 = 1$, "
        f"$D = {power_of_ten(config.num_samples)}$"
    )
    titles = (
        "$\\gamma$ tuned: up to $B^*$ the risk hardly rises,\nand the steps fall",
        rf"$\gamma = {config.fixed_learning_rate:g}$ fixed: $B$ plays the role of $1/\gamma$,"
        "\nbias rises, variance falls",
    )
    for axis, sweep, title in zip(axes[0], (tuned, fixed), titles, strict=True):
        axis.set(xlim=(0.8, config.num_samples / 4), ylim=(critical.optimal_risk / 30, 3.0), title=title)
        label = f"$B^* = {critical.batch_size:g}$"
        axis.axvline(critical.batch_size, color=PURPLE, ls=":", lw=1.6, label=label)
        axis.axhline(critical.optimal_risk, color=GRAY, ls="--", lw=1, label=r"$R_\mathrm{opt}(D)$")
        twin = _panel(axis, sweep)
        twin.set_ylabel("sequential run time $n = D/B$ (steps)", color=GREEN)
        twin.set_ylim(1.0, config.num_samples * 2)
    axes[0, 0].set_ylabel("excess risk (units of $y^2$)")
    legend_below(figure, axes[0, 0], columns=6)
    return figure


def _panel(axis: Axes, sweep: dict[str, np.ndarray]) -> Axes:
    looks = {"risk": (BLACK, 2.0, "-"), "bias": (VERMILLION, 1.2, "--"), "variance": (BLUE, 1.2, "-")}
    for name, (color, width, line) in looks.items():
        label = "excess risk" if name == "risk" else name
        axis.plot(sweep["batch_size"], sweep[name], color=color, lw=width, ls=line, label=label)
    axis.plot([], [], color=GREEN, lw=1.2, ls="-.", label="steps $n = D/B$ (right)")
    axis.set(xlabel="batch size $B$ (samples)")
    log_axes(axis)
    twin = axis.twinx()
    twin.plot(sweep["batch_size"], sweep["num_steps"], color=GREEN, lw=1.2, ls="-.")
    log_axes(twin, "y")
    twin.grid(visible=False)
    twin.tick_params(axis="y", colors=GREEN)
    return twin
