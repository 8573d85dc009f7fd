"""Does Corollary 8 hold in practice, with γ and B* found from simulated risks alone? With error bars."""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import sgdtheory as st
from experiments._lib.progress import report, tracked
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import (
    BLACK,
    BLUE,
    GRAY,
    MARKERS,
    VERMILLION,
    colors,
    legend,
    log_axes,
    new_figure,
    power_of_ten,
)


@dataclass(frozen=True)
class Config:
    """A problem, data sizes, and the protocol of the measurement."""

    seed: int = 0
    capacity: float = 1.2
    source: float = 3.0
    dim: int = 256
    num_samples: tuple[float, ...] = (1e3, 1e4, 1e5, 1e6)
    overhead: float = 0.2
    reference_steps: int = 1024  # the reference batch size is the least that takes no more steps than this
    num_replicas: int = 256
    pilot_replicas: int = 32
    num_resamples: int = 400
    level: float = 0.99
    false_alarm: float = 1e-4  # of the verdict on the exponent


SCALES = {
    "quick": Config(num_replicas=128, pilot_replicas=16),
    "full": Config(num_samples=(1e3, 1e4, 1e5, 1e6, 1e7), dim=1024, reference_steps=4096, num_replicas=1024),
}
PILOT = np.arange(-7.0, 4.5, 1.0)  # log(γ/(2 − γ)), γ in units of 1/λ_1: from tiny steps to the edge
OFFSETS = np.array([[-1.0], [-0.5], [0.0], [0.5], [1.0]])  # about the best of the pilot
BEYOND = 0.1  # how far above the target the risk, as a logarithm, has to be for the search to end
UNITS = {
    "num_samples": "D, samples",
    "batch_size": "B, samples",
    "num_steps": "n: D/B at the reference batch size, (1 + overhead) D/B at the others",
    "simulated": "least simulated risk over γ, units of y²",
    "exact": "least exact risk over γ, units of y²",
    "target": "simulated risk of the reference batch size with D samples, units of y²",
    "critical_batch_size": "B* from simulations, samples",
    "critical_low": "lower end of its interval",
    "critical_high": "upper end of its interval",
    "critical_exact": "B* from the exact risk, by its definition",
    "critical_protocol": "B* by the protocol of the simulation from exact risks: its own bias",
}


class Sweep(NamedTuple):
    """Simulated risks at one batch size: (5,) places of γ, means and standard errors, or exact risks."""

    batch: float
    steps: float
    place: np.ndarray
    mean: np.ndarray
    error: np.ndarray


class Measurement(NamedTuple):
    """Everything at one data size."""

    samples: float
    sweeps: list[Sweep]  # the reference batch size first
    critical: float
    resampled: np.ndarray
    exact: st.critical.CriticalBatchSize
    protocol: float


def run(config: Config) -> Result:
    """Measure at every data size, fit the exponent, compare with the exact risk."""
    start = time.perf_counter()
    problem = st.PowerLaw(config.capacity, config.source, config.dim)
    keys = jax.random.split(jax.random.key(config.seed), len(config.num_samples))
    sizes = tracked(zip(keys, config.num_samples, strict=True))
    found = [_measure(config, problem, key, samples) for key, samples in sizes]
    verdict = _exponent_verdict(config, found, time.perf_counter() - start)
    columns = _columns(config, problem, found)
    return Result(columns, UNITS, {"simulated": _figure(config, found)}, (verdict, _sizes_verdict(config, found)))


def _measure(config: Config, problem: st.PowerLaw, key: Any, samples: float) -> Measurement:
    reference = max(1.0, np.floor(samples / config.reference_steps))
    sweeps = [_simulate(config, problem, jax.random.fold_in(key, 0), reference, np.floor(samples / reference))]
    batch = reference
    while len(sweeps) < 3 or _least(sweeps[-1].place, sweeps[-1].mean) < _least(*sweeps[0][2:4]) + BEYOND:
        batch *= 2
        steps = np.floor((1 + config.overhead) * samples / batch)
        sweeps.append(_simulate(config, problem, jax.random.fold_in(key, len(sweeps)), batch, steps))
        report(1 - 0.8 ** len(sweeps))  # nobody knows how many it takes
    for batch in _bracket(sweeps):
        steps = np.floor((1 + config.overhead) * samples / batch)
        sweeps.append(_simulate(config, problem, jax.random.fold_in(key, len(sweeps)), batch, steps))
    sweeps[1:] = sorted(sweeps[1:], key=lambda sweep: sweep.batch)
    rng = np.random.default_rng(config.seed)
    noise = rng.standard_normal((config.num_resamples, len(sweeps), OFFSETS.size))
    resampled = [
        _crossing([s._replace(mean=s.mean + s.error * z) for s, z in zip(sweeps, row, strict=True)]) for row in noise
    ]
    exact = st.critical_batch_size(problem, num_samples=samples, overhead=config.overhead, curve=False)
    protocol = _crossing([sweep._replace(mean=_exact(problem, sweep)) for sweep in sweeps])
    return Measurement(samples, sweeps, _crossing(sweeps), np.array(resampled), exact, protocol)


def _simulate(config: Config, problem: st.PowerLaw, key: Any, batch: float, steps: float) -> Sweep:
    """A pilot over all learning rates with few replicas, then five around its best."""
    setting: dict[str, Any] = {"batch_size": batch, "num_samples": batch * steps}
    pilot_key, key = jax.random.split(key)
    pilot = st.simulate(
        pilot_key, problem, learning_rate=_rate(PILOT[:, None])[:, 0], num_replicas=config.pilot_replicas, **setting
    )
    mean = np.where(np.isfinite(pilot.mean), pilot.mean, np.inf)
    place = PILOT[int(np.argmin(mean))] + OFFSETS[:, 0]
    final = st.simulate(key, problem, learning_rate=_rate(place), num_replicas=config.num_replicas, **setting)
    return Sweep(batch, steps, place, np.asarray(final.mean), np.asarray(final.standard_error))


def _rate(place: np.ndarray) -> np.ndarray:
    return 2 / (1 + np.exp(-place))


def _exact(problem: st.PowerLaw, sweep: Sweep) -> np.ndarray:
    setting: Any = {"batch_size": sweep.batch, "num_samples": sweep.batch * sweep.steps}
    return np.asarray(st.excess_risk(problem, learning_rate=_rate(sweep.place), **setting).total)


def _least(place: np.ndarray, mean: np.ndarray) -> float:
    """Least log risk, of a parabola through the learning rates that are not far above the best one."""
    log_risk = np.log(np.where(np.isfinite(mean) & (mean > 0), mean, np.inf))
    near = log_risk < log_risk.min() + 1.0
    if near.sum() < 3:
        return float(log_risk.min())
    x = place[near] - place[near].mean()
    curve = np.polynomial.Polynomial.fit(x, log_risk[near], 2 if near.sum() < 5 else 3)
    return float(min(curve(np.linspace(x[0], x[-1], 101))))


def _bracket(sweeps: list[Sweep]) -> np.ndarray:
    """Two more batch sizes between those where the risk first exceeds the target."""
    low = max((s.batch for s in sweeps[1:] if s.batch <= _crossing(sweeps)), default=sweeps[1].batch)
    return np.round(low * 2 ** np.array([1 / 3, 2 / 3]))


def _crossing(sweeps: list[Sweep]) -> float:
    """B at which (1 + overhead) D samples just reach the reference's risk, interpolated in logarithms."""
    excess = np.array([_least(s.place, s.mean) for s in sweeps])
    excess = excess[1:] - excess[0]
    batch = np.log([s.batch for s in sweeps[1:]])
    below = np.flatnonzero(excess <= 0)
    if not below.size or below[-1] == excess.size - 1:
        return float(np.exp(batch[0 if not below.size else -1]))
    k = below[-1]
    return float(np.exp(batch[k] + (batch[k + 1] - batch[k]) * excess[k] / (excess[k] - excess[k + 1])))


def _interval(config: Config, values: np.ndarray) -> tuple[float, float]:
    tail = (1 - config.level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _exponent_verdict(config: Config, found: list[Measurement], seconds: float) -> Verdict:
    samples = [one.samples for one in found]
    measured = st.fit_power_law(samples, [one.critical for one in found]).exponent
    exact = st.fit_power_law(samples, [float(one.exact.real_batch_size) for one in found]).exponent
    protocol = st.fit_power_law(samples, [one.protocol for one in found]).exponent
    resampled = [st.fit_power_law(samples, row).exponent for row in np.stack([one.resampled for one in found], axis=1)]
    low, high = _interval(config, np.array(resampled))
    deviation = abs(measured - exact) / float(np.std(resampled))
    limit = float(stats.norm.isf(config.false_alarm / 2))
    covered = low <= exact <= high
    return Verdict(
        "exponent of B*, from simulations alone",
        f"slope of log B* over D = {samples[0]:g} … {samples[-1]:g}, a = {config.capacity:g}, b = {config.source:g}, "
        f"{config.num_replicas} replicas; exact risk: {exact:.4f} (the same protocol on exact risks: {protocol:.4f}; "
        f"Corollary 8, D → ∞: {st.predicted_exponent(config.capacity, config.source):.4f}); {config.level:.0%} "
        f"interval; {deviation:.1f} standard errors off, fails beyond {limit:.1f} (false alarm {config.false_alarm:g})",
        exact,
        measured,
        (low, high),
        "holds" if covered else "fails" if deviation > limit else "inconclusive",
        seconds,
    )


def _sizes_verdict(config: Config, found: list[Measurement]) -> Verdict:
    """B* itself: in standard errors of its logarithm."""
    errors = [float(np.log(one.critical / one.exact.real_batch_size) / np.std(np.log(one.resampled))) for one in found]
    limit = float(stats.norm.isf(config.false_alarm / 2 / len(found)))
    ratios = [float(one.critical / one.exact.real_batch_size) for one in found]
    return Verdict(
        "B*, from simulations alone",
        "largest |score|, log B* less that of the exact one in standard errors; simulated over exact B* at every data "
        "size: "
        + ", ".join(f"{ratio:.3f}" for ratio in ratios)
        + "; the same protocol on exact risks, which the simulated one is judged by: "
        + ", ".join(f"{one.protocol / one.exact.real_batch_size:.3f}" for one in found),
        f"a score of at most {limit:.2f}",
        max(map(abs, errors)),
        (0.0, limit),
        "holds" if max(map(abs, errors)) < limit else "fails",
    )


def _columns(config: Config, problem: st.PowerLaw, found: list[Measurement]) -> dict[str, np.ndarray]:
    rows = []
    for one in found:
        low, high = _interval(config, one.resampled)
        target = np.exp(_least(one.sweeps[0].place, one.sweeps[0].mean))
        for sweep in one.sweeps:
            setting: Any = {"batch_size": sweep.batch, "num_samples": sweep.batch * sweep.steps}
            simulated = np.exp(_least(sweep.place, sweep.mean))
            exact = st.optimal_learning_rate(problem, **setting).risk
            critical = one.critical, low, high, one.exact.batch_size, one.protocol
            rows.append((one.samples, sweep.batch, sweep.steps, simulated, exact, target, *critical))
    return dict(zip(UNITS, np.array(rows, dtype=float).T, strict=True))


def _figure(config: Config, found: list[Measurement]) -> Figure:
    figure, axes = new_figure(1, 2, width=4.8, height=4.0)
    figure.suptitle(
        rf"$\lambda_i = i^{{-{config.capacity:g}}}$, $s_i = i^{{-{config.source:g}}}$, $d = {config.dim}$, "
        rf"$\sigma^2 = 1$, {config.num_replicas} replicas (points: simulated, ±2 standard errors; lines: exact)"
    )
    left = axes[0, 0]
    left.set(xlabel="batch size $B$ (samples)", ylim=(0.8, 1.5))
    left.set_ylabel(f"tuned risk with {1 + config.overhead:g} $D$ samples /\nrisk of the reference with $D$")
    left.set_title("Beyond $B^*$ more data no longer compensate\nfor the larger batch")
    for place, (color, one) in enumerate(zip(colors(len(found)), found, strict=True)):
        _panel(left, one, color, MARKERS[place % len(MARKERS)], config)
    left.axhline(1.0, color=GRAY, lw=1, ls="--")
    log_axes(left)
    left.set_yticks([0.8, 0.9, 1.0, 1.1, 1.2, 1.4], ["0.8", "0.9", "1", "1.1", "1.2", "1.4"])
    left.set_yticks([], minor=True)
    _growth(axes[0, 1], config, found)
    legend(left, corners=("upper left", "lower right"))
    return figure


def _panel(axis: Axes, one: Measurement, color: Any, marker: str, config: Config) -> None:
    """Simulated risks over the target, and the exact ones beneath."""
    batch = np.array([sweep.batch for sweep in one.sweeps[1:]])
    simulated = np.array([_least(sweep.place, sweep.mean) for sweep in one.sweeps])
    error = np.array([sweep.error.min() / sweep.mean.min() for sweep in one.sweeps])
    ratio, bar = np.exp(simulated[1:] - simulated[0]), 2 * np.hypot(error[1:], error[0])
    axis.errorbar(
        batch,
        ratio,
        yerr=ratio * bar,
        fmt=marker,
        ms=3.5,
        capsize=2,
        color=color,
        label=f"$D = {power_of_ten(one.samples)}$",
    )
    problem = st.PowerLaw(config.capacity, config.source, config.dim)
    grid = np.unique(np.round(np.geomspace(batch[0], batch[-1], 40)))
    exact = st.optimal_learning_rate(problem, batch_size=grid, num_samples=(1 + config.overhead) * one.samples).risk
    axis.plot(grid, exact / one.exact.optimal_risk, color=color, lw=1)


def _growth(axis: Axes, config: Config, found: list[Measurement]) -> None:
    samples = np.array([one.samples for one in found])
    critical = np.array([one.critical for one in found])
    intervals = np.array([_interval(config, one.resampled) for one in found]).T
    error = np.abs(intervals - critical)
    axis.plot(samples, [one.exact.real_batch_size for one in found], color=BLACK, lw=1.2, label="exact risk")
    axis.errorbar(
        samples,
        critical,
        yerr=error,
        fmt="*",
        ms=10,
        mec=BLACK,
        mew=0.6,
        capsize=3,
        color=BLUE,
        label=f"simulated, {config.level:.0%}",
    )
    exponent = float(st.predicted_exponent(config.capacity, config.source))
    line = found[-1].exact.real_batch_size * (samples / samples[-1]) ** exponent
    axis.plot(samples, line, color=VERMILLION, ls="--", lw=1, label=f"Corollary 8: $D^{{{exponent:.3g}}}$")
    fit = st.fit_power_law(samples, critical)
    axis.set(xlabel="data $D$ (samples)", ylabel="critical batch size $B^*$ (samples)")
    axis.set_title(f"slope of the simulated $B^*$: {fit.exponent:.3f}")
    log_axes(axis)
    legend(axis, corners=("upper left", "lower right"))
