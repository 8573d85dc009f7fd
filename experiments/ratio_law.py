"""Does the risk at fixed data depend on B and γ through γ/B alone, as a remark on Theorem 7 says?"""

import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import sgdtheory as st
from experiments._lib.progress import report
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import BLACK, SMALL, VERMILLION, categories, log_axes, new_figure


@dataclass(frozen=True)
class Config:
    """Data sizes, ratios γ/B and, for each, batch sizes up to the stability edge."""

    seed: int = 0
    capacity: float = 2.0
    source: float = 3.0
    num_samples: tuple[int, ...] = (2**6, 2**10, 2**14)
    ratios: tuple[float, ...] = (7 / 2**5, 7 / 2**7, 7 / 2**9, 7 / 2**11)  # γ/B: γ comes close to 2 but not to it
    least_horizon: float = 0.5  # nγ from which on SGD has learnt something
    edge_share: float = 0.95  # largest γ over the largest stable γ
    simulated_steps: tuple[int, int] = (2, 512)  # fewest and most that are simulated
    num_replicas: int = 2048
    false_alarm: float = 1e-5
    domain: float = 0.5  # Theorem 7's γ ≤ c min{B/tr H, 1/‖H‖}
    tolerance: float = 0.06  # of the risk, what "depends only on" may mean
    settled_steps: int = 16  # steps from which on it is to hold


SCALES = {"quick": Config(num_replicas=1024), "full": Config(simulated_steps=(2, 2048), num_replicas=4096)}
UNITS = {
    "num_samples": "D, samples",
    "ratio": "γ/B, units of 1/λ_1",
    "batch_size": "B, samples",
    "learning_rate": "γ, units of 1/λ_1",
    "num_steps": "n, steps",
    "in_domain": "1 if γ ≤ ½ min{B/tr H, 1/‖H‖}",
    "exact": "exact excess risk, units of y²",
    "bias": "its bias",
    "variance": "its variance",
    "relative": "exact risk over that at B = 1 with the same γ/B and D",
    "simulated": "mean simulated excess risk, units of y²; nan where none was simulated",
    "standard_error": "its standard error",
    "score": "(simulated − exact) / standard error, made normal where risks are skewed",
}


def run(config: Config) -> Result:
    """Exact risks along lines of constant γ/B, and simulated ones beside them."""
    start = time.perf_counter()
    signal = st.PowerLaw(config.capacity, config.source).initial_risk
    problem = st.PowerLaw(config.capacity, config.source, noise_variance=signal)
    points = _points(config, problem)
    points |= _simulated(config, problem, points)
    verdicts = _verdicts(config, points, time.perf_counter() - start)
    return Result(points, UNITS, {"ratio_law": _figure(config, points)}, verdicts)


def _points(config: Config, problem: st.PowerLaw) -> dict[str, np.ndarray]:
    rows = []
    for samples in config.num_samples:
        for ratio in config.ratios:
            batch = 2.0 ** np.arange(0, np.log2(samples))  # divide D: no samples are left over
            rate = ratio * batch
            stable = rate <= config.edge_share * st.max_stable_learning_rate(problem, batch_size=batch)
            batch, rate = batch[stable], rate[stable]
            if samples * ratio < config.least_horizon:
                continue
            risk = st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=samples)
            limit = config.domain * np.minimum(batch / problem.trace, 1 / problem.largest_eigenvalue)
            exact = np.asarray(risk.total)
            fields = {
                "num_samples": samples,
                "ratio": ratio,
                "batch_size": batch,
                "learning_rate": rate,
                "num_steps": samples // batch,
                "in_domain": rate <= limit,
                "exact": exact,
                "bias": risk.bias,
                "variance": risk.variance,
                "relative": exact / exact[0],
            }
            rows.append({name: np.broadcast_to(np.asarray(v, float), batch.shape) for name, v in fields.items()})
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def _simulated(config: Config, problem: st.PowerLaw, points: dict) -> dict[str, np.ndarray]:
    """Some batch sizes with a number of steps that does not take long."""
    low, high = config.simulated_steps
    shown = (np.log2(points["batch_size"]) % 2 == 0) | (points["in_domain"] == 0)
    chosen = shown & (points["num_steps"] >= low) & (points["num_steps"] <= high)
    found = {name: np.full(chosen.shape, np.nan) for name in ("simulated", "standard_error", "score")}
    order = np.flatnonzero(chosen)[np.argsort(points["num_samples"][chosen], kind="stable")]
    setting = {name: points[name][order] for name in ("batch_size", "learning_rate", "num_samples")}
    simulation = st.simulate(
        jax.random.key(config.seed), problem, **setting, num_replicas=config.num_replicas, progress=report
    )
    found["simulated"][order] = simulation.mean
    found["standard_error"][order] = simulation.standard_error
    found["score"][order] = simulation.normal_score(points["exact"][order])
    return found


def _verdicts(config: Config, points: dict, seconds: float) -> tuple[Verdict, ...]:
    inside = points["in_domain"] == 1
    settled = inside & (points["num_steps"] >= config.settled_steps)
    deviation = np.abs(points["relative"] - 1)
    small, few, beyond = deviation[settled].max(), deviation[inside & ~settled].max(), deviation[~inside].max()
    scores = points["score"][np.isfinite(points["score"])]
    limit = float(stats.norm.isf(config.false_alarm / 2 / scores.size))
    domain = f"γ ≤ {config.domain:g} min{{B/tr H, 1/‖H‖}}"
    falls, rises = _monotone(points, inside, "bias", -1), _monotone(points, inside, "variance", +1)
    return (
        Verdict(
            "risk depends on γ/B alone",
            f"exact risk at the same D and γ/B for B from 1 up, {domain} and n ≥ {config.settled_steps}; with fewer "
            f"steps it moves by up to {few:.0%}, and outside the domain, up to {config.edge_share:g} of the stability "
            f"edge, by up to {beyond:.0%}",
            f"changes by less than {config.tolerance:.0%}",
            f"{small:.1%}",
            (0.0, float(small)),
            "holds" if small < config.tolerance else "fails",
            seconds,
        ),
        Verdict(
            "a larger γ/B: less bias, more variance",
            f"exact bias and variance at the same D and B, {domain}, from each γ/B to the next",
            "bias falls, variance rises",
            f"{falls[0]} of {falls[1]} fall, {rises[0]} of {rises[1]} rise",
            None,
            "holds" if falls[0] == falls[1] and rises[0] == rises[1] else "fails",
        ),
        Verdict(
            "simulated mean = exact risk, along the lines",
            f"largest |score| of {scores.size} independent runs of {config.num_replicas} replicas",
            f"|score| ≤ {limit:.2f}",
            float(np.abs(scores).max()),
            (0.0, limit),
            "holds" if np.abs(scores).max() <= limit else "fails",
        ),
    )


def _monotone(points: dict, inside: np.ndarray, part: str, sign: int) -> tuple[int, int]:
    """Count the neighbours in γ/B at the same (D, B) that have the sign, and all of them."""
    good = total = 0
    for samples, batch in {*zip(points["num_samples"][inside], points["batch_size"][inside], strict=True)}:
        mine = inside & (points["num_samples"] == samples) & (points["batch_size"] == batch)
        values = points[part][mine][np.argsort(points["ratio"][mine])]
        good, total = good + int((sign * np.diff(values) > 0).sum()), total + values.size - 1
    return good, total


def _figure(config: Config, points: dict) -> Figure:
    figure, axes = new_figure(1, len(config.num_samples), width=3.3, height=3.3)
    shown = points["relative"][np.isfinite(points["relative"])]
    limits = min(0.9, 0.95 * shown.min()), max(1.1, 1.08 * shown.max())
    for axis, samples in zip(axes[0], config.num_samples, strict=True):
        if axis is not axes[0, 0]:
            axis.sharey(axes[0, 0])
        _panel(config, axis, samples, points)
        log_axes(axis)
    axes[0, 0].set(ylabel=r"risk / risk at $B = 1$, same $\gamma/B$ and $D$", ylim=limits)
    figure.suptitle(
        r"At fixed data the risk depends on $\gamma/B$ alone, unless $\gamma$ leaves the domain or steps are few"
        "\n"
        rf"$\lambda_i = i^{{-{config.capacity:g}}}$, $s_i = i^{{-{config.source:g}}}$; "
        "lines: exact, a tick for each $B$; points: simulated, ±2 s.e.",
        fontsize=9,
    )
    listed: dict[str, Any] = {}
    for axis in axes[0]:
        listed |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    settings = {"frameon": False, "fontsize": SMALL, "ncols": len(listed)}
    figure.legend(listed.values(), listed.keys(), loc="outside lower center", **settings)
    return figure


def _panel(config: Config, axis: Axes, samples: int, points: dict) -> None:
    axis.axhline(1.0, color=BLACK, lw=1)
    shaded = r"$\gamma > 1/(2\|H\|)$: outside of the domain"
    axis.axvspan(config.domain, 1e3, color=VERMILLION, alpha=0.1, lw=0, label=shaded)
    for ratio, look in zip(config.ratios, categories(len(config.ratios)), strict=True):
        mine = (points["num_samples"] == samples) & (points["ratio"] == ratio)
        if not mine.any():
            continue
        rate, base, color = points["learning_rate"][mine], points["exact"][mine][0], look["color"]
        axis.plot(rate, points["relative"][mine], color=color, marker="|")
        run = mine & np.isfinite(points["simulated"])
        simulated, error = points["simulated"][run] / base, 2 * points["standard_error"][run] / base
        dots = {"fmt": look["marker"], "ms": 3.5, "color": color, "capsize": 2}
        axis.errorbar(points["learning_rate"][run], simulated, yerr=error, **dots)
        axis.plot([], [], color=color, marker=look["marker"], ms=3.5, label=rf"$\gamma/B = {ratio:.2g}$")
    axis.set(xlabel=r"learning rate $\gamma$ (units of $1/\lambda_1$)", title=f"$D = {samples:,}$ samples")
    rates = points["learning_rate"][points["num_samples"] == samples]
    axis.set_xlim(rates.min() / 1.5, max(2.0, rates.max()) * 1.5)
