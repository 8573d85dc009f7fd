"""Does theory predict B* of a network's output layer? From the spectrum of its features, and by training it.

With frozen features φ(x) the network is linear regression: `y = ⟨w*, φ⟩ + r(x) + σ ε`, with w* the best linear
predictor and r what it misses. SGD on the output layer with the uniform average of its iterates is the theory's
algorithm; the features are not Gaussian, which the theory assumes. Three risks are compared: the theory's (Gaussian
features of the same covariance), that of the features' own moments up to the fourth (exact: T1 without its Gaussian
step), and what the trainer's steps attain.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import sgdtheory as st
from experiments._lib.critical_figure import critical_figure
from experiments._lib.frozen_features import (
    Features,
    LabelNoise,
    control,
    features_of,
    label_noise,
    measured_risk,
    moments_risk,
)
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict, VerdictName
from sgdtheory.training import TrainConfig

FIELDS: dict[str, Any] = {
    "width": 16, "base_width": 1, "depth": 1, "activation": "tanh", "input_dim": 16, "capacity": 0.75, "source": 2.0,
    "noise_variance": 2.0, "holdout_size": 1, "trained": "output", "optimizer": "sgd", "averages": (),
    "uniform_average": True,
}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """A network, data sizes, and the grid that is trained.

    Attributes:
        fields: of every run; the output's initial weights are small at base_width 1.
        num_samples: D.
        batch_sizes: trained; a data size uses those within a factor `near` of the theory's B*.
        near: see there.
        rate_factors: learning rates, in units of the theory's best at the batch size (middle of those of its D), but
            none above `edge` of the theory's stability edge.
        edge: see there.
        num_seeds: of the order of the data; the features are those of one seed.
        reach: runs last until reach · D samples.
        steps_each: steps at which one D's risk is read, evenly between reach_from · D and reach · D samples.
        reach_from: see there.
        num_inputs: of which the features' moments are means.
        overhead: extra data that defines B*.
        margin: factor between measured B* and theory's that counts as agreement: features are not Gaussian.
        level: of the intervals.
        false_alarm: of a verdict "fails".
        num_resamples: of the seeds.
    """

    fields: dict[str, Any] = field(default_factory=lambda: dict(FIELDS))
    num_samples: tuple[int, ...] = (1024, 4096, 16384)
    batch_sizes: tuple[int, ...] = (16, 32, 48, 64, 96, 128)
    near: float = 3.4
    rate_factors: tuple[float, ...] = (0.6, 0.8, 1.0, 1.2, 1.4)
    edge: float = 0.97
    num_seeds: int = 32
    reach_from: float = 0.6
    reach: float = 1.7
    steps_each: int = 16
    num_inputs: int = 1 << 17
    overhead: float = 0.2
    margin: float = 1.5
    level: float = 0.99
    false_alarm: float = 1e-4
    num_resamples: int = 400

    def run(self, **changes: Any) -> TrainConfig:
        """A run of the trainer."""
        return TrainConfig.from_fields({**self.fields, **changes})

    def interval(self, values: np.ndarray) -> tuple[float, float]:
        """Between the quantiles of resampled values that are left out evenly."""
        tail = (1 - self.level) / 2
        low, high = np.quantile(values, [tail, 1 - tail])
        return float(low), float(high)


SCALES = {
    "quick": Config(),
    "full": Config(
        num_samples=(1024, 4096, 16384, 65536), batch_sizes=(8, 16, 32, 48, 64, 96, 128, 192, 256), num_seeds=256
    ),
}
UNITS = {
    "num_samples": "D, samples",
    "batch_size": "B, samples",
    "learning_rate": "γ of the theory's update, in units of 1/λ: 2 γ of the trainer times the output's rate factor",
    "num_steps": "steps n at which the risk is read, the nearest to D/B",
    "measured": "mean over seeds of the excess risk of the average, (w̄ − w*)ᵀ H (w̄ − w*), units of y²",
    "measured_error": "its standard error",
    "controlled": "the same mean with the control variate, units of y²",
    "controlled_error": "its standard error",
    "tuned": "1 if the γ that gets to the target first is inside of the grid, or at the stability edge",
    "gaussian": "exact excess risk of Gaussian features with the same covariance, units of y²",
    "moments": "exact excess risk by the features' own fourth moments, units of y²",
    "target": "R_opt(D) of the theory, units of y²",
    "samples_measured": "samples to the target over D by training, at its best γ; nan: not reached",
    "samples_gaussian": "the same by the theory's risk at the same γ and steps",
    "samples_moments": "the same by the features' own moments",
    "critical_theory": "B* of the theory by its definition (not rounded), samples",
    "critical_gaussian": "B* of the theory by the protocol of the measurement, samples",
    "critical_moments": "B* of the features' own moments by that protocol, samples",
    "critical_measured": "B* measured, samples",
    "critical_low": "lower end of its interval",
    "critical_high": "upper end of its interval",
}
KINDS = "measured", "gaussian", "moments"


class Batch(NamedTuple):
    """Everything at one batch size: (G,) γ of the theory, (E,) steps, (G, S, E) measured risks, (G, E) exact ones.

    `measured` is with the control variate, `plain` without.
    """

    size: int
    rate: np.ndarray
    steps: np.ndarray
    plain: np.ndarray
    measured: np.ndarray
    gaussian: np.ndarray
    moments: np.ndarray


class Found(NamedTuple):
    """One data size: theory's B*, batch sizes used, samples to the target and B* by kind of risk, and resampled B*."""

    samples: int
    theory: st.critical.CriticalBatchSize
    batches: list[Batch]
    data: dict[str, np.ndarray]
    critical: dict[str, float]
    resampled: np.ndarray


def run(config: Config) -> Result:
    """Spectrum, theory, training, B*."""
    start = time.perf_counter()
    own = config.run()
    features = features_of(own, config.num_inputs)
    theory = [st.critical_batch_size(features.problem, num_samples=samples) for samples in config.num_samples]
    longest = math.ceil(config.reach * max(config.num_samples)) + max(config.batch_sizes)
    apart = math.gcd(*config.batch_sizes)
    noise = label_noise(own, features, num_seeds=config.num_seeds, num_samples=longest, apart=apart)
    with ThreadPoolExecutor(2) as executor:
        batches = list(executor.map(lambda size: _batch(config, features, theory, noise, size), config.batch_sizes))
    found = [_found(config, batches, one) for one in theory]
    seconds = time.perf_counter() - start
    verdicts = _sizes_verdict(config, found, seconds), _exponent_verdict(config, found), _moments_verdict(config, found)
    columns = _columns(config, found)
    return Result(columns, UNITS, {"theory_meets_network": critical_figure(config, columns)}, verdicts)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure, from a recorded table."""
    return {"theory_meets_network": critical_figure(config, recorded.columns)}


def _batch(
    config: Config, features: Features, theory: list[st.critical.CriticalBatchSize], noise: LabelNoise, size: int
) -> Batch:
    """Train all learning rates and seeds at one batch size, and compute what the theories say of them."""
    near = [one for one in theory if _is_near(config, one, size)] or theory[:1]
    steps = np.unique([np.round(_span(config) * float(one.num_samples) / size) for one in near]).astype(int)
    steps = steps[steps > 0]
    best = [np.interp(np.log(size), np.log(one.curve.batch_size), one.curve.learning_rate_needed) for one in near]
    edge = config.edge * float(st.max_stable_learning_rate(features.problem, batch_size=float(size)))
    rate = np.unique(np.minimum(np.sqrt(min(best) * max(best)) * np.array(config.rate_factors), edge))
    plain = measured_risk(config.run(), features, size, rate, steps, num_seeds=config.num_seeds)
    measured = plain - control(features, noise, size, rate, steps)
    moments = moments_risk(features, batch_size=size, learning_rate=rate, steps=steps)
    setting = {"learning_rate": rate[:, None], "num_samples": steps * float(size)}
    gaussian = np.asarray(st.excess_risk(features.problem, batch_size=float(size), **setting).total)
    return Batch(size, rate, steps, plain, measured, gaussian, moments)


def _span(config: Config) -> np.ndarray:
    return np.linspace(config.reach_from, config.reach, config.steps_each)


def _is_near(config: Config, one: st.critical.CriticalBatchSize, size: int) -> bool:
    return abs(np.log(size / float(one.real_batch_size))) <= np.log(config.near)


def data_to_target(config: Config, batch: Batch, risks: np.ndarray, samples: float, target: float) -> np.ndarray:
    """Samples to the target over D, (…): B times the first step whose risk is at most the target, at the best γ.

    Steps are interpolated in logs.

    Args:
        config: where the reach is, which stands for targets that are not reached.
        batch: B, γ and steps.
        risks: (…, G, E) risks at the steps.
        samples: D.
        target: R_opt(D).
    """
    above = ~(risks > target) & np.isfinite(risks)
    last = above.argmax(-1)
    before = np.maximum(last - 1, 0)
    here, there = (np.take_along_axis(risks, place[..., None], -1)[..., 0] for place in (last, before))
    with np.errstate(all="ignore"):
        share = np.log(there / target) / np.log(there / here)
    share = np.where((before < last) & np.isfinite(share), share, 1.0)
    log_steps = np.log(batch.steps)
    first = np.where(above.any(-1), log_steps[before] + share * (log_steps[last] - log_steps[before]), np.inf)
    data = batch.size * np.exp(first.min(-1)) / samples
    return np.where(data <= config.reach, data, np.nan)


def critical(config: Config, batch_sizes: np.ndarray, data: np.ndarray) -> np.ndarray:
    """B*, (…): the largest B whose data, (…, K), are at most (1 + overhead) D, between batch sizes in logs."""
    log_data = np.log(np.where(np.isfinite(data), data, config.reach) / (1 + config.overhead))
    log_batch = np.log(batch_sizes)
    below = log_data <= 0
    last = log_data.shape[-1] - 1 - below[..., ::-1].argmax(-1)
    after = np.minimum(last + 1, log_data.shape[-1] - 1)
    here, there = (np.take_along_axis(log_data, place[..., None], -1)[..., 0] for place in (last, after))
    share = np.where(after > last, -here / np.where(there > here, there - here, 1.0), 0.0)
    found = log_batch[last] + share * (log_batch[after] - log_batch[last])
    return np.exp(np.where(below.any(-1), found, log_batch[0]))


def _found(config: Config, batches: list[Batch], one: st.critical.CriticalBatchSize) -> Found:
    """Samples to the target and B* at one data size, by every kind of risk, and with the seeds resampled."""
    used = [batch for batch in batches if _is_near(config, one, batch.size)]
    sizes, samples, target = np.array([batch.size for batch in used]), float(one.num_samples), float(one.optimal_risk)
    rng = np.random.default_rng(0)
    weights = rng.multinomial(config.num_seeds, np.full(config.num_seeds, 1 / config.num_seeds), config.num_resamples)
    risks: dict[str, list[np.ndarray]] = {
        "measured": [batch.measured.mean(1) for batch in used],
        "gaussian": [batch.gaussian for batch in used],
        "moments": [batch.moments for batch in used],
        "resampled": [np.einsum("rs,gse->rge", weights / config.num_seeds, batch.measured) for batch in used],
    }
    data = {}
    for kind, rows in risks.items():
        each = [data_to_target(config, *pair, samples, target) for pair in zip(used, rows, strict=True)]
        data[kind] = np.stack(each, axis=-1)
    found = {kind: critical(config, sizes, values) for kind, values in data.items()}
    return Found(int(samples), one, used, data, {kind: float(found[kind]) for kind in KINDS}, found["resampled"])


def _sizes_verdict(config: Config, found: list[Found], seconds: float) -> Verdict:
    """B* measured over the theory's by the same protocol: within the margin or not."""
    ratios = np.array([one.critical["measured"] / one.critical["gaussian"] for one in found])
    own = np.array([one.critical["moments"] / one.critical["gaussian"] for one in found])
    intervals = [config.interval(one.resampled / one.critical["gaussian"]) for one in found]
    errors = np.array([np.std(np.log(one.resampled)) for one in found])
    limit = float(stats.norm.isf(config.false_alarm / 2 / len(found)))
    inside = all(1 / config.margin <= low and high <= config.margin for low, high in intervals)
    outside = np.abs(np.log(ratios)) > np.log(config.margin) + limit * errors
    shown = _listed([f"{low:.2f} … {high:.2f}" for low, high in intervals])
    statement = (
        f"B* of the trained output layer divided by B* of the theory for Gaussian features of the same covariance, "
        f"both from the same grid, at D = {_listed([one.samples for one in found], ',')}: {_listed(ratios, '.2f')}. "
        f"The {config.level:.0%} intervals are {shown}. Holds if they lie within a factor of {config.margin:g} of 1, "
        f"fails if a ratio is more than {limit:.1f} standard errors outside (false alarm {config.false_alarm:g}). The "
        f"factor allows for features that are not Gaussian: with their own fourth moments the theory gives "
        f"{_listed(own, '.2f')}"
    )
    answer: VerdictName = "fails" if outside.any() else "holds" if inside else "inconclusive"
    span = min(low for low, _ in intervals), max(high for _, high in intervals)
    predicted = f"1 within a factor {config.margin:g}"
    return Verdict(
        "B* of a network, from its features' spectrum",
        statement,
        predicted,
        _listed(ratios, ".2f"),
        span,
        answer,
        seconds,
    )


def _exponent_verdict(config: Config, found: list[Found]) -> Verdict:
    """Slope of log B* on log D against the theory's by the same protocol."""
    samples = [one.samples for one in found]
    slopes = {kind: st.fit_power_law(samples, [one.critical[kind] for one in found]).exponent for kind in KINDS}
    exact = st.fit_power_law(samples, [float(one.theory.real_batch_size) for one in found]).exponent
    rows = np.stack([one.resampled for one in found], axis=1)
    resampled = np.array([st.fit_power_law(samples, row).exponent for row in rows])
    low, high = config.interval(resampled)
    deviation = abs(slopes["measured"] - slopes["gaussian"]) / float(np.std(resampled))
    limit = float(stats.norm.isf(config.false_alarm / 2))
    statement = (
        f"Slope of log B* on log D for D = {samples[0]:,} … {samples[-1]:,} and {config.num_seeds} seeds: "
        f"{slopes['measured']:.3f} by training, with the {config.level:.0%} interval {low:.3f} … {high:.3f}. By the "
        f"theory it is {slopes['gaussian']:.3f} through the same protocol, {exact:.3f} by the definition of B*, and "
        f"{slopes['moments']:.3f} with the features' own moments. The difference is {deviation:.1f} standard errors. "
        f"Holds if the interval contains the theory's value, fails beyond {limit:.1f} standard errors (false alarm "
        f"{config.false_alarm:g})"
    )
    covered = low <= slopes["gaussian"] <= high
    answer: VerdictName = "holds" if covered else "fails" if deviation > limit else "inconclusive"
    claim = "growth of a network's B* with D, from its features' spectrum"
    return Verdict(claim, statement, slopes["gaussian"], slopes["measured"], (low, high), answer)


def _moments_verdict(config: Config, found: list[Found]) -> Verdict:
    """One number, so that one test: the mean over (D, B) of measured over exact risk after D samples."""
    ratios = {kind: np.zeros(config.num_seeds) for kind in KINDS[1:]}
    cells = [(one, batch) for one in found for batch in one.batches]
    for one, batch in cells:
        rate, step = _cell(one, batch)
        for kind in ratios:
            ratios[kind] += batch.measured[rate, :, step] / getattr(batch, kind)[rate, step] / len(cells)
    mean = {kind: float(values.mean()) for kind, values in ratios.items()}
    error = {kind: float(values.std(ddof=1)) / config.num_seeds**0.5 for kind, values in ratios.items()}
    limit, usual = (
        float(stats.t.isf(tail / 2, config.num_seeds - 1)) for tail in (config.false_alarm, 1 - config.level)
    )
    away = {kind: (mean[kind] - 1) / error[kind] for kind in ratios}
    statement = (
        f"Excess risk of the trained output layer after D samples divided by the computed one, as the mean over "
        f"{len(cells)} pairs (D, B), each at the theory's best γ. With the features' own moments it is "
        f"{mean['moments']:.3f} ± {error['moments']:.3f}, {away['moments']:+.1f} standard errors from 1 (fails beyond "
        f"{limit:.1f}, false alarm {config.false_alarm:g}). With the theory for Gaussian features it is "
        f"{mean['gaussian']:.3f} ± {error['gaussian']:.3f}, {away['gaussian']:+.1f} standard errors from 1. The two "
        f"differ by the shape of the features' distribution"
    )
    covered = abs(away["moments"]) < usual
    answer: VerdictName = "fails" if abs(away["moments"]) > limit else "holds" if covered else "inconclusive"
    low, high = mean["moments"] - usual * error["moments"], mean["moments"] + usual * error["moments"]
    return Verdict("risk of a network's output layer, exact", statement, 1.0, mean["moments"], (low, high), answer)


def _cell(one: Found, batch: Batch) -> tuple[int, int]:
    """Place of the steps nearest to D/B, and of the theory's best γ there."""
    step = int(np.abs(np.log(batch.steps * batch.size / one.samples)).argmin())
    return int(batch.gaussian[:, step].argmin()), step


def _is_tuned(config: Config, one: Found, batch: Batch) -> bool:
    """Return whether the best γ is inside the grid; one at the stability threshold has nothing beyond it."""
    target = one.samples, float(one.theory.optimal_risk)
    each = [data_to_target(config, batch, risk[None], *target) for risk in batch.measured.mean(1)]
    best = int(np.argmin(np.where(np.isfinite(each), each, np.inf)))
    capped = batch.rate[-1] < 0.999 * batch.rate[0] * config.rate_factors[-1] / config.rate_factors[0]
    return bool(np.isfinite(each[best]) and best > 0 and (best < len(batch.rate) - 1 or capped))


def _listed(values: Any, style: str = "") -> str:
    return ", ".join(format(value, style) for value in values)


def _columns(config: Config, found: list[Found]) -> dict[str, list]:
    """One row a data size and batch size."""
    rows = []
    for one in found:
        low, high = config.interval(one.resampled)
        for place, batch in enumerate(one.batches):
            rate, step = _cell(one, batch)
            risks = batch.plain[rate, :, step]
            error = risks.std(ddof=1) / len(risks) ** 0.5
            row = [one.samples, batch.size, batch.rate[rate], batch.steps[step], risks.mean(), error]
            controlled = batch.measured[rate, :, step]
            row += [
                controlled.mean(),
                controlled.std(ddof=1) / len(controlled) ** 0.5,
                int(_is_tuned(config, one, batch)),
            ]
            row += [batch.gaussian[rate, step], batch.moments[rate, step], one.theory.optimal_risk]
            row += [one.data[kind][place] for kind in KINDS]
            critical_sizes = [one.critical[kind] for kind in ("gaussian", "moments", "measured")]
            rows.append([*row, one.theory.real_batch_size, *critical_sizes, low, high])
    return {name: list(column) for name, column in zip(UNITS, zip(*rows, strict=True), strict=True)}
