"""Why there is a critical batch size: bias, variance and sequential run time against B at fixed data."""

import time
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import sgdtheory as st
from experiments.results import Result, Verdict
from sgdtheory.plotting import new_figure, power_of_ten


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


def _sweep(config: Config, problem: st.PowerLaw, batch, rate, tuned: float) -> dict[str, np.ndarray]:
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
    config: Config, critical: st.CriticalBatchSize, tuned: dict, fixed: dict, seconds: float
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


def _figure(config: Config, critical: st.CriticalBatchSize, tuned, fixed) -> Figure:
    figure, axes = new_figure(1, 2, width=4.9, height=3.9)
    axes[0, 1].sharey(axes[0, 0])
    titles = (
        "$\\gamma$ tuned: up to $B^*$ the risk hardly rises,\nand the steps fall",
        rf"$\gamma = {config.fixed_learning_rate:g}$ fixed: $B$ plays the role of $1/\gamma$,"
        "\nbias rises, variance falls",
    )
    for axis, sweep, title in zip(axes[0], (tuned, fixed), titles, strict=True):
        twin = _panel(axis, sweep)
        axis.axvline(critical.batch_size, color="black", ls=":", lw=1)
        axis.text(
            critical.batch_size * 1.15,
            0.97,
            f"$B^* = {critical.batch_size:g}$",
            va="top",
            fontsize=8,
            transform=axis.get_xaxis_transform(),
        )
        axis.axhline(critical.optimal_risk, color="gray", ls="--", lw=1)
        axis.set(xlim=(0.8, config.num_samples / 4), ylim=(critical.optimal_risk / 30, 3.0), title=title)
        if axis is axes[0, -1]:
            twin.set_ylabel("sequential run time $n = D/B$ (steps)", color="tab:green")
        else:
            twin.set_ylabel("")
        twin.set_ylim(1.0, config.num_samples * 2)
    axes[0, 0].text(3e4, critical.optimal_risk * 1.1, r"$R_\mathrm{opt}(D)$", color="gray", fontsize=8)
    axes[0, 0].set_ylabel("excess risk (units of $y^2$)")
    axes[0, 0].legend(frameon=False, fontsize=8, loc=(0.02, 0.36))
    figure.suptitle(
        rf"$\lambda_i = i^{{-{config.capacity:g}}}$, $s_i = i^{{-{config.source:g}}}$, $\sigma^2 = 1$, "
        f"$D = {power_of_ten(config.num_samples)}$"
    )
    return figure


def _panel(axis: Axes, sweep: dict[str, np.ndarray]) -> Axes:
    for name, color, width in (("risk", "black", 2.0), ("bias", "tab:red", 1.2), ("variance", "tab:blue", 1.2)):
        axis.plot(
            sweep["batch_size"], sweep[name], color=color, lw=width, label="excess risk" if name == "risk" else name
        )
    axis.plot([], [], color="tab:green", lw=1.2, ls="-.", label="steps $n = D/B$ (right)")
    axis.set(xscale="log", yscale="log", xlabel="batch size $B$ (samples)")
    twin = axis.twinx()
    twin.plot(sweep["batch_size"], sweep["num_steps"], color="tab:green", lw=1.2, ls="-.")
    twin.set(yscale="log")
    twin.grid(visible=False)
    twin.tick_params(axis="y", colors="tab:green")
    return twin
