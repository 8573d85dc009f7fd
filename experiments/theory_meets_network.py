"""Theory and network in one picture: B* of a network's output layer, from its features' spectrum and by training it.

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

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from scipy.interpolate import PchipInterpolator

import sgdtheory as st
from experiments.results import Result, Verdict, VerdictName
from sgdtheory.plotting import colors, new_figure
from sgdtheory.training import TrainConfig
from sgdtheory.training.engine import advance, init, program, stacked
from sgdtheory.training.model import model
from sgdtheory.training.streams import stream
from sgdtheory.training.teacher import Teacher
from sgdtheory.training.tensors import tensor_factors

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
    "samples_measured": "B f_D(B)/D by training: data to the target in units of D; nan: not reached",
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
PIECE = 1 << 21  # numbers of a temporary array
DRAWN = 2048  # samples of each seed that are drawn at once


class Features(NamedTuple):
    """The regression that a network with frozen features is; moments are means over inputs, in float64.

    Attributes:
        inner: (d, n) weights of the frozen layer.
        covariance: (n, n) H = E φφᵀ.
        fourth: (n², n²) E[φφᵀ ⊗ φφᵀ], which takes vec S to vec E[φφᵀ S φφᵀ].
        best: (n,) w*.
        start: (n,) w_0.
        residual: (n², n) E[φφᵀ r φᵀ]: what the residual does to the second moment by way of the mean.
        noise: (n, n) E[(r² + σ²) φφᵀ].
        problem: the same as the theory has it, with noise variance σ² + E r².
        unit: γ of the theory for γ = 1 of the trainer.
    """

    inner: np.ndarray
    covariance: np.ndarray
    fourth: np.ndarray
    best: np.ndarray
    start: np.ndarray
    residual: np.ndarray
    noise: np.ndarray
    problem: st.LeastSquares
    unit: float


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
    """One data size: theory's B*, batch sizes used, B f_D(B)/D and B* by kind of risk, and B* of resampled seeds."""

    samples: int
    theory: st.CriticalBatchSize
    batches: list[Batch]
    data: dict[str, np.ndarray]
    critical: dict[str, float]
    resampled: np.ndarray


def run(config: Config) -> Result:
    """Spectrum, theory, training, B*."""
    start = time.perf_counter()
    features = features_of(config)
    theory = [st.critical_batch_size(features.problem, num_samples=samples) for samples in config.num_samples]
    noise = label_noise(config, features)
    with ThreadPoolExecutor(2) as executor:
        batches = list(executor.map(lambda size: _batch(config, features, theory, noise, size), config.batch_sizes))
    found = [_found(config, batches, one) for one in theory]
    seconds = time.perf_counter() - start
    verdicts = _sizes_verdict(config, found, seconds), _exponent_verdict(config, found), _moments_verdict(config, found)
    return Result(_columns(config, found), UNITS, {"theory_meets_network": _figure(config, features, found)}, verdicts)


def train_config(config: Config, **changes: Any) -> TrainConfig:
    """A run's config."""
    return TrainConfig(**{**config.fields, **changes})


def features_of(config: Config) -> Features:
    """Moments of φ(x), w* = H⁻¹ E φ f*, and the theory's problem, s_i = λ_i ⟨v_i, w_0 − w*⟩²."""
    own = train_config(config)
    teacher, factor = Teacher(own), tensor_factors_of_output(own)
    params = init(stacked([own]), config=program(own)).params
    rng = np.random.default_rng((own.task_seed, own.seed, config.num_inputs))
    inputs = rng.standard_normal((config.num_inputs, own.input_dim)) * np.sqrt(teacher.spectrum)
    inner = np.asarray(params["input"][0], float)  # biases are drawn as 0
    phi = activations(own, inputs @ inner)
    outputs = np.asarray(teacher(inputs.astype(np.float32)), float)
    covariance = phi.T @ phi / len(phi)
    best = np.linalg.solve(covariance, phi.T @ outputs / len(phi))
    start = factor.multiplier * np.asarray(params["output"][0, :, 0], float)
    missed = outputs - phi @ best
    fourth, residual, noise = _moments(phi, missed)
    noise = noise + own.noise_variance * covariance
    eigenvalues, vectors = np.linalg.eigh(covariance)
    signal = eigenvalues * (vectors.T @ (start - best)) ** 2
    problem = st.LeastSquares(eigenvalues, signal, own.noise_variance + float(np.mean(missed**2)))
    unit = 2 * factor.rate * factor.multiplier**2  # the loss (f − y)² has the gradient 2 (f − y) φ
    return Features(inner, covariance, fourth, best, start, residual, noise, problem, unit)


def activations(own: TrainConfig, hidden: np.ndarray) -> np.ndarray:
    """The activation of an array of pre-activations."""
    return np.tanh(hidden) if own.activation == "tanh" else np.maximum(hidden, 0.0)


def _moments(phi: np.ndarray, missed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n², n²) E[φφᵀ ⊗ φφᵀ], (n², n) E[φφᵀ r φᵀ] and (n, n) E[r² φφᵀ], a piece of the inputs at a time."""
    dim, size = phi.shape[1], max(1, PIECE // phi.shape[1] ** 2)
    sums = [np.zeros((dim**2, dim**2)), np.zeros((dim**2, dim)), np.zeros(dim**2)]
    for first in range(0, len(phi), size):
        part, r = phi[first : first + size], missed[first : first + size]
        pairs = (part[:, :, None] * part[:, None, :]).reshape(len(part), -1)
        for total, other in zip(sums, (pairs, part * r[:, None], r**2), strict=True):
            total += pairs.T @ other
    fourth, residual, noise = (total / len(phi) for total in sums)
    return fourth, residual, noise.reshape(dim, dim)


def tensor_factors_of_output(own: TrainConfig) -> Any:
    """Multiplier and rate of the output's weights at the config's width."""
    return tensor_factors(model(own).tensors(own), own)["output"]


def moments_risk(features: Features, *, batch_size: float, learning_rate: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Exact excess risk of the average, (G, E), for features of any law, by O(n⁴) a step.

        S' = S − γ(HS + SH) + γ² [(1 − 1/B) HSH + (1/B)(E[φφᵀSφφᵀ] − 2 E[φφᵀ r φᵀ]μ + E[(r² + σ²)φφᵀ])]
        μ' = (I − γH) μ,  C' = (C + S)(I − γH),  n² Cov = Σ_t (S_t + C_t + C_tᵀ)

    with S = E ηηᵀ, μ = E η, C_t = E[Σ_{s<t} η_s η_tᵀ], η = w − w*, and Δ = tr(H Cov).

    Args:
        features: their moments.
        batch_size: B.
        learning_rate: (G,) γ of the theory's update.
        steps: (E,) increasing whole numbers n.
    """
    covariance, dim, rate = features.covariance, len(features.best), np.asarray(learning_rate)[:, None, None]
    keep = np.eye(dim) - rate * covariance
    mean = np.broadcast_to(features.start - features.best, (len(rate), dim))
    second = mean[:, :, None] * mean[:, None, :]
    cross, total, risks = np.zeros_like(second), np.zeros_like(second), []
    for step in range(1, int(steps[-1]) + 1):
        total = total + second + cross + cross.swapaxes(1, 2)
        if step in steps:
            risks.append(np.einsum("ij,gji->g", covariance, total) / step**2)
        cross = (cross + second) @ keep
        drift = keep @ second @ keep
        fresh = second.reshape(-1, dim * dim) @ features.fourth - 2 * mean @ features.residual.T
        fresh = fresh.reshape(second.shape) + features.noise - covariance @ second @ covariance
        second = drift + rate**2 / batch_size * fresh
        mean = np.einsum("gij,gj->gi", keep, mean)
    return np.stack(risks, axis=1)


def _batch(
    config: Config, features: Features, theory: list[st.CriticalBatchSize], noise: np.ndarray, size: int
) -> Batch:
    """Train all learning rates and seeds at one batch size, and compute what the theories say of them."""
    near = [one for one in theory if _is_near(config, one, size)] or theory[:1]
    steps = np.unique([np.round(_span(config) * float(one.num_samples) / size) for one in near]).astype(int)
    steps = steps[steps > 0]
    best = [np.interp(np.log(size), np.log(one.curve.batch_size), one.curve.learning_rate_needed) for one in near]
    edge = config.edge * float(st.max_stable_learning_rate(features.problem, batch_size=float(size)))
    rate = np.unique(np.minimum(np.sqrt(min(best) * max(best)) * np.array(config.rate_factors), edge))
    plain = measured_risk(config, features, size, rate, steps)
    measured = plain - control(config, features, noise, size, rate, steps)
    moments = moments_risk(features, batch_size=size, learning_rate=rate, steps=steps)
    setting = {"learning_rate": rate[:, None], "num_samples": steps * float(size)}
    gaussian = np.asarray(st.excess_risk(features.problem, batch_size=float(size), **setting).total)
    return Batch(size, rate, steps, plain, measured, gaussian, moments)


def label_noise(config: Config, features: Features) -> np.ndarray:
    """(S, P, n) sums of φ ρ over the first k·p samples of every seed, p = 0 … P − 1, with ρ = r + σ ε.

    k is the greatest common divisor of the batch sizes.
    """
    own, apart = train_config(config, batch_size=DRAWN), math.gcd(*config.batch_sizes, DRAWN)
    draw = jax.jit(jax.vmap(stream(own).batch, (0, None)))
    seeds = jnp.arange(config.num_seeds, dtype=jnp.uint32)
    longest = config.reach * max(config.num_samples) + max(config.batch_sizes)
    sums = [np.zeros((config.num_seeds, 1, len(features.best)))]
    for step in range(math.ceil(longest / DRAWN)):
        inputs, labels = (np.asarray(part, float) for part in draw(seeds, jnp.uint32(step)))
        phi = activations(own, inputs @ features.inner)
        products = phi * (labels - phi @ features.best)[:, :, None]
        sums.append(products.reshape(config.num_seeds, DRAWN // apart, apart, -1).sum(2))
    return np.cumsum(np.concatenate(sums, axis=1), axis=1)


def control(
    config: Config, features: Features, noise: np.ndarray, size: int, rate: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """(G, S, E) control variate Z − E Z: what gradient descent on H makes of the label noise that a seed has drawn.

        Z = Σ_i λ_i [p_i ⟨v_i, η_0⟩ + (1 − p_i) ⟨v_i, ξ⟩/λ_i]²,  p_i = (1 − (1 − γλ_i)^n)/(nγλ_i)

    with ξ the mean of φ ρ over the seed's first nB samples, so that E Z = Σ_i λ_i [p_i² ⟨v_i, η_0⟩² + (1 − p_i)²
    E[ρ²⟨v_i, φ⟩²]/(λ_i² nB)] whatever SGD does: taking it off leaves the mean as it is and the scatter small.
    """
    apart = math.gcd(*config.batch_sizes, DRAWN)
    values, vectors = np.linalg.eigh(features.covariance)
    samples = steps * size
    xi = noise[:, samples // apart] @ vectors / samples[:, None]
    variance = np.diag(vectors.T @ features.noise @ vectors) / samples[:, None]
    x, n = rate[:, None, None] * values, steps[:, None]
    kept = (1 - (1 - x) ** n) / (n * x)
    bias, gain = kept * (vectors.T @ (features.start - features.best)), (1 - kept) / values
    found = ((bias[:, None] + gain[:, None] * xi) ** 2) @ values
    return found - ((bias**2 + gain**2 * variance) @ values)[:, None]


def _span(config: Config) -> np.ndarray:
    return np.linspace(config.reach_from, config.reach, config.steps_each)


def _is_near(config: Config, one: st.CriticalBatchSize, size: int) -> bool:
    return abs(np.log(size / float(one.real_batch_size))) <= np.log(config.near)


def measured_risk(config: Config, features: Features, size: int, rate: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(G, S, E) excess risk (w̄ − w*)ᵀ H (w̄ − w*) of the uniform average of the trainer's own steps.

    Runs of one batch size advance side by side. The risk is that of the weights: a hold-out of m samples would add the
    error 2 (w̄ − w*)ᵀ (mean of φ r), of the order of √(Δ E r²/m), the same for all seeds in its systematic part.
    """
    settings = {"batch_size": size, "max_steps": int(steps[-1])}
    configs = [
        train_config(config, learning_rate=value / features.unit, data_seed=seed, **settings)
        for value in rate
        for seed in range(config.num_seeds)
    ]
    own, lanes = program(configs[0]), stacked(configs)
    state, data, done, risks = init(lanes, config=own), stream(own), 0, []
    longest = int(np.diff(steps, prepend=0).max())
    multiplier = tensor_factors_of_output(own).multiplier
    for step in steps:
        numbers = np.resize(data.chunk(0, done, step - done), longest)
        pieces = np.broadcast_to(numbers, (len(configs), longest))
        state = advance(state, lanes, pieces, np.int32(step - done), config=own, mesh=None)
        error = multiplier * np.asarray(state.averages["output"], float)[:, 0, :, 0] - features.best
        risks.append(np.einsum("ri,ij,rj->r", error, features.covariance, error))
        done = int(step)
    return np.stack(risks, axis=1).reshape(len(rate), config.num_seeds, len(steps))


def data_to_target(config: Config, batch: Batch, risks: np.ndarray, samples: float, target: float) -> np.ndarray:
    """B f_D(B)/D, (…): the least over γ of the first step whose risk is at most the target, between steps in logs.

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


def _found(config: Config, batches: list[Batch], one: st.CriticalBatchSize) -> Found:
    """B f_D(B)/D and B* at one data size, by every kind of risk, and with the seeds resampled."""
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


def _interval(config: Config, values: np.ndarray) -> tuple[float, float]:
    tail = (1 - config.level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _sizes_verdict(config: Config, found: list[Found], seconds: float) -> Verdict:
    """B* measured over the theory's by the same protocol: within the margin or not."""
    ratios = np.array([one.critical["measured"] / one.critical["gaussian"] for one in found])
    own = np.array([one.critical["moments"] / one.critical["gaussian"] for one in found])
    intervals = [_interval(config, one.resampled / one.critical["gaussian"]) for one in found]
    errors = np.array([np.std(np.log(one.resampled)) for one in found])
    limit = float(stats.norm.isf(config.false_alarm / 2 / len(found)))
    inside = all(1 / config.margin <= low and high <= config.margin for low, high in intervals)
    outside = np.abs(np.log(ratios)) > np.log(config.margin) + limit * errors
    shown = _listed([f"{low:.2f} … {high:.2f}" for low, high in intervals])
    statement = (
        f"B* of the trained output layer over B* of the theory (Gaussian features of the same covariance), both from "
        f"the same grid, D = {_listed([one.samples for one in found], ',')}: {_listed(ratios, '.2f')}, "
        f"{config.level:.0%} intervals {shown}; agreement is a factor of {config.margin:g}, since the features are not "
        f"Gaussian: their own fourth moments make it {_listed(own, '.2f')}; fails more than {limit:.1f} standard "
        f"errors outside (false alarm {config.false_alarm:g})"
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
    low, high = _interval(config, resampled)
    deviation = abs(slopes["measured"] - slopes["gaussian"]) / float(np.std(resampled))
    limit = float(stats.norm.isf(config.false_alarm / 2))
    statement = (
        f"slope of log B* on log D = {samples[0]:,} … {samples[-1]:,}, {config.num_seeds} seeds: "
        f"{slopes['measured']:.3f} by training, {slopes['gaussian']:.3f} by the theory through the same protocol "
        f"({exact:.3f} by its definition, {slopes['moments']:.3f} by the features' own moments); {config.level:.0%} "
        f"interval {low:.3f} … {high:.3f}; {deviation:.1f} standard errors off, fails beyond {limit:.1f} (false alarm "
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
        f"excess risk of the trained output layer after D samples over what is computed, mean over {len(cells)} pairs "
        f"(D, B) at their best γ of the theory: by the features' own moments {mean['moments']:.3f} ± "
        f"{error['moments']:.3f} ({away['moments']:+.1f} standard errors; fails beyond {limit:.1f}, false alarm "
        f"{config.false_alarm:g}), by the theory, for Gaussian features, {mean['gaussian']:.3f} ± "
        f"{error['gaussian']:.3f} ({away['gaussian']:+.1f} standard errors): the difference of the two is the shape of "
        f"the features"
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
    """Whether the best γ is inside of the grid; one at the stability edge has nothing beyond it."""
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
        low, high = _interval(config, one.resampled)
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


def _figure(config: Config, features: Features, found: list[Found]) -> Figure:
    figure, axes = new_figure(1, 2, width=4.9, height=4.1)
    for color, one in zip(colors(len(found)), found, strict=True):
        _data_panel(axes[0, 0], one, color)
    _finish_data_panel(axes[0, 0], config)
    _growth_panel(axes[0, 1], config, found)
    own, problem = train_config(config), features.problem
    figure.suptitle(
        "Critical batch size of a network with frozen features: from their spectrum (lines), by training it (points)\n"
        f"output layer of {own.width} frozen {own.activation} features by SGD with averaging, "
        rf"$\lambda_1/\lambda_n = {problem.largest_eigenvalue / problem.eigenvalues[-1]:.0f}$, "
        rf"noise $\sigma^2 + E\,r^2 = {problem.noise_variance:.2f}$, {config.num_seeds} seeds",
        fontsize=10,
    )
    return figure


def _data_panel(axis: Axes, one: Found, color: Any) -> None:
    """Data to the target at every batch size: the theory's line, measured points."""
    sizes, values = np.array([batch.size for batch in one.batches]), one.data["measured"]
    tail = np.array([0.16, 0.84])
    reached = np.where(np.isfinite(one.data["resampled"]), one.data["resampled"], np.inf)
    spread = np.quantile(reached, tail, axis=0, method="nearest")
    curve = one.theory.curve
    fine = np.geomspace(sizes[0] / 1.4, sizes[-1] * 1.4, 200)
    line = PchipInterpolator(np.log(curve.batch_size), curve.samples_needed / one.samples)(np.log(fine))
    axis.plot(fine, line, color=color, lw=1.4)
    bars = np.nan_to_num(np.maximum([values - spread[0], spread[1] - values], 0.0), posinf=9.0)
    label = f"$D = {one.samples:,}$".replace(",", "\\,")
    axis.errorbar(sizes, values, yerr=bars, fmt="o", ms=5, capsize=2, color=color, label=label)


def _finish_data_panel(axis: Axes, config: Config) -> None:
    """Axes, the overhead that defines B*, and what lines and points are."""
    sizes = config.batch_sizes
    axis.axhline(1 + config.overhead, color="gray", lw=1, ls="--")
    axis.text(
        sizes[0] / 1.3, 1.005 + config.overhead, f"{config.overhead:.0%} more data: $B^*$", color="gray", fontsize=8
    )
    axis.plot([], [], color="black", lw=1.4, label="theory (Gaussian)")
    axis.errorbar([], [], yerr=[], fmt="o", ms=5, capsize=2, color="black", label="trained network, ± 1 s.e.")
    axis.set(xscale="log", xlim=(sizes[0] / 1.4, sizes[-1] * 1.4), ylim=(0.95, config.reach))
    axis.set(xlabel="batch size $B$ (samples)", ylabel="data to the best risk, $B\\,f_D(B)/D$")
    axis.set_xticks(sizes, [f"{size}" for size in sizes])
    axis.minorticks_off()
    axis.set_title("Data needed to reach $R_{opt}(D)$", fontsize=9.5)
    axis.legend(frameon=False, fontsize=8, loc="upper left")


def _growth_panel(axis: Axes, config: Config, found: list[Found]) -> None:
    """B* against D, by definition, and measured with intervals."""
    samples = np.array([one.samples for one in found])
    theory = np.array([float(one.theory.real_batch_size) for one in found])
    measured = np.array([one.critical["measured"] for one in found])
    low, high = np.array([_interval(config, one.resampled) for one in found]).T
    slopes = [st.fit_power_law(samples, values).exponent for values in (theory, measured)]
    label = f"theory, from the spectrum: $\\propto D^{{{slopes[0]:.2f}}}$"
    axis.plot(samples, theory, "-", color="black", lw=1.4, label=label)
    for one, color in zip(found, colors(len(found)), strict=True):
        axis.plot(one.samples, one.critical["measured"], "o", ms=7, color=color, zorder=3)
    bars = np.maximum([measured - low, high - measured], 0.0)
    label = f"trained network: $\\propto D^{{{slopes[1]:.2f}}}$ ({config.level:.0%} intervals)"
    axis.errorbar(samples, measured, yerr=bars, fmt="o", ms=7, capsize=3, color="gray", label=label)
    axis.set(xscale="log", yscale="log", xlabel="data size $D$ (samples)", ylabel="critical batch size $B^*$ (samples)")
    axis.set_xticks(samples, [f"{value:,}" for value in samples])
    ticks = [size for size in config.batch_sizes if low.min() / 2 <= size <= 2 * high.max()]
    axis.set_yticks(ticks, [f"{size}" for size in ticks])
    axis.minorticks_off()
    axis.set_ylim(low.min() / 1.3, high.max() * 1.6)
    axis.set_title("Critical batch size against data", fontsize=9.5)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
