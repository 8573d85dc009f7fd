"""One network on one teacher: B* measured at several D, and predicted from its features before and after training."""

import hashlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sgdtheory as st
from experiments._lib.batch_law import critical_by_law
from experiments._lib.critical_grid import Grid, share_inside, tuned
from experiments._lib.data_law_config import Config
from experiments._lib.network_risks import holdout_risk, network_grid, network_risks, trained_weights
from experiments._lib.tangent_features import FeatureProblem, feature_problem, output_risk, tangents, teacher_inputs
from sgdtheory._common.files import write_atomically
from sgdtheory.training import Lanes, TrainConfig

BEFORE, AFTER, LAST = "before", "after", "last"
KINDS = BEFORE, AFTER, LAST
JACKKNIFE_REACH = 2.14  # 95% intervals of exponents in standard errors: Student's t with 14 degrees of freedom
RATIO = 2**0.5  # of data sizes that are read, one to the next
START, ROOM = 2.0, 3.0  # data are read from the least D over this to the most D times this
SMALL = 64  # the least D over this is a batch size, so that three can tell of that D
NARROW, WIDE = 6.0, 128  # batch sizes reach from the least B* expected over this to the largest times it, and to this


class Prediction(NamedTuple):
    """Prediction from one set of features.

    Attributes:
        critical: (M,) B* of the theory's exact risk, γ tuned, by the law of the measurement.
        slope, slope_error: of log B* on log D, and its standard error from independent inputs.
        capacity, capacity_error, source, source_error: exponents a_φ and b_φ of the features.
        exponent, exponent_error: Corollary 8's by these.
    """

    critical: np.ndarray
    slope: float
    slope_error: float
    capacity: float
    capacity_error: float
    source: float
    source_error: float
    exponent: float
    exponent_error: float


class Cell(NamedTuple):
    """Results of one network.

    Attributes:
        capacity, source, trained: (a, b) of the teacher's inputs, and what is trained.
        critical: (M,) B* measured; nan where the batch sizes do not hold it.
        resampled: (R, M) the same with seeds resampled.
        risk: (M,) least risk measured at every D.
        inside: share of batch and data sizes whose best learning rate is inside of the grid.
        predictions: by kind of features.
    """

    capacity: float
    source: float
    trained: str
    critical: np.ndarray
    resampled: np.ndarray
    risk: np.ndarray
    inside: float
    predictions: dict[str, Prediction]


def measure(config: Config, place: tuple[float, float, str]) -> Cell:
    """Features before training, all runs of the grid, features after training."""
    own = config.run(*place)
    weights = {name: part[0] for name, part in Lanes([own]).weights().items()}
    found = {BEFORE: [_features(config, own, weights, BEFORE, draw) for draw in range(config.num_draws)]}
    grid = _grid(config, found[BEFORE][0].problem)
    risks = _kept(config, own, grid, weights)
    if own.trained == "all":
        weights = trained_weights(own, grid, risks)
        for kind in (AFTER, LAST):
            found[kind] = [_features(config, own, weights, kind, draw) for draw in range(config.num_draws)]
    predictions = {kind: _prediction(config, own, features) for kind, features in found.items()}
    measured, resampled = critical_sizes(config, grid, risks)
    best = tuned(grid, risks.mean(2)).min(0)
    reads = np.abs(np.log(grid.data[:, None] / np.array(config.num_samples))).argmin(0)
    return Cell(*place, measured, resampled, best[reads], share_inside(grid, risks.mean(2)), predictions)


def critical_sizes(config: Config, grid: Grid, risks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """B*, (M,), of the mean over seeds of risks (K, G, S, J), and (R, M) of means over resampled seeds."""
    samples, seeds = np.array(config.num_samples, float), risks.shape[2]
    counts = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), config.num_resamples) / seeds
    failed = ~np.isfinite(risks).all(2)  # one run that diverged excludes its setting, whether it is drawn or not
    means = np.einsum("rs,kgsj->rkgj", counts, np.where(np.isfinite(risks), risks, 0.0))
    every = tuned(grid, np.concatenate([risks.mean(2)[None], np.where(failed, np.inf, means)]))
    found = np.array([critical_by_law(grid.batch, grid.samples, each, samples, config.overhead) for each in every])
    return found[0], found[1:]


def slope_of(num_samples: Any, critical_sizes: np.ndarray) -> float:
    """Slope of log B* on log D where B* is known; nan at fewer than three D."""
    known = np.isfinite(critical_sizes)
    if known.sum() < 3:
        return np.nan
    return st.fit_power_law(np.asarray(num_samples, float)[known], critical_sizes[known]).exponent


def corollary8_exponent(capacity: Any, source: Any) -> np.ndarray:
    """Corollary 8's `max{0, 1 − a/min{b, 2a + 1}}`, for a and b of at most 1 too, where it is a continuation."""
    capacity, source = np.maximum(capacity, 0.0), np.maximum(source, 1e-9)
    return np.maximum(0.0, 1 - capacity / np.minimum(source, 2 * capacity + 1))


def _batch_sizes(config: Config, problem: st.LeastSquares) -> np.ndarray:
    """(K,) about the theory's B* at the least and the most data."""
    ends = np.array(config.num_samples, float)[[0, -1]]
    expected = st.critical_batch_size(problem, num_samples=ends, curve=False).real_batch_size
    least = min(expected.min() / NARROW, config.num_samples[0] / SMALL)
    low = np.floor(np.log(max(least, 1.0)) / np.log(config.batch_ratio))
    most = min(max(expected.max() * NARROW, WIDE), config.largest_batch)
    high = np.ceil(np.log(most) / np.log(config.batch_ratio))
    return np.unique(np.round(config.batch_ratio ** np.arange(low, high + 1)))


def _data(config: Config) -> np.ndarray:
    """(J,) data sizes that are read, from less than the least D to what large batches take for the most."""
    low, high = config.num_samples[0] / START, config.num_samples[-1] * ROOM
    return low * RATIO ** np.arange(1 + np.ceil(np.log(high / low) / np.log(RATIO)))


def _grid(config: Config, problem: st.LeastSquares) -> Grid:
    return network_grid(problem, _batch_sizes(config, problem), _data(config), config.num_rates)


def _kept(config: Config, own: TrainConfig, grid: Grid, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The risks of a grid, from the store if they are there."""
    alone = own.trained == "output"
    seeds = config.output_seeds if alone else config.num_seeds
    risk = output_risk(own, weights, config.population) if alone else holdout_risk
    if config.store is None:
        return network_risks(own, grid, seeds, risk)
    name = hashlib.sha256(own.fingerprint.encode() + b"".join(part.tobytes() for part in grid)).hexdigest()[:12]
    path = Path(config.store) / "data_law" / f"{name}-{seeds}.npy"
    if not path.exists():
        buffer = io.BytesIO()
        np.save(buffer, network_risks(own, grid, seeds, risk))
        write_atomically(path, buffer.getvalue())
    return np.load(path)


def _features(config: Config, own: TrainConfig, weights: dict, kind: str, draw: int) -> FeatureProblem:
    """The regression on features at some weights: of what is left to learn before training, of all of f* after."""
    inputs, targets = teacher_inputs(own, config.num_inputs, draw)
    outputs, features = tangents(replace(own, trained="output") if kind == LAST else own, weights, inputs)
    left = targets - outputs if kind == BEFORE else targets
    return feature_problem(features, left, own.value("noise_variance"))


def theory_risk(features: FeatureProblem, grid: Grid, excess: bool) -> np.ndarray:
    """(K, J) exact risk of Gaussian features, γ tuned; with what no feature explains unless `excess`."""
    setting: dict[str, Any] = {"batch_size": grid.batch[:, None], "num_samples": grid.samples}
    found = np.asarray(st.optimal_learning_rate(features.problem, **setting).risk)
    return found if excess else found + features.missed


def _prediction(config: Config, own: TrainConfig, found: list[FeatureProblem]) -> Prediction:
    """B* and exponents, means over independent inputs; errors from their differences and from the fits of exponents."""
    samples, batch = np.array(config.num_samples, float), _batch_sizes(config, found[0].problem)
    grid = Grid(batch, np.empty((len(batch), 0)), _data(config))
    risks = [theory_risk(each, grid, own.trained == "output") for each in found]
    sizes = [critical_by_law(grid.batch, grid.samples, risk, samples, config.overhead) for risk in risks]
    slopes = np.array([slope_of(config.num_samples, each) for each in sizes])
    error = float(slopes.std(ddof=1) / len(slopes) ** 0.5) if len(slopes) > 1 else 0.0
    law = _exponents(found[0].data)
    return Prediction(np.exp(np.mean(np.log(sizes), axis=0)), float(slopes.mean()), error, **law)


def _exponents(data: st.data.DataProblem) -> dict[str, float]:
    """a_φ, b_φ and Corollary 8's exponent by them, with standard errors; nan where one is not resolved."""
    capacity, source = data.capacity, data.source
    errors = [(each.interval[1] - each.interval[0]) / 2 / JACKKNIFE_REACH for each in (capacity, source)]
    found = {"capacity": capacity.value, "capacity_error": errors[0], "source": source.value, "source_error": errors[1]}
    if not np.isfinite([*found.values()]).all():
        return found | {"exponent": np.nan, "exponent_error": np.nan}
    normal = np.random.default_rng(0).standard_normal((2, 4000))
    drawn = corollary8_exponent(capacity.value + errors[0] * normal[0], source.value + errors[1] * normal[1])
    exponent = float(corollary8_exponent(capacity.value, source.value))
    return found | {"exponent": exponent, "exponent_error": float(drawn.std())}
