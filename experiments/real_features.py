"""Does B* from second moments of real features agree with SGD on the data, and do their exponents change?

Features and targets, centred, are a least-squares problem: eigenvalues of the covariance, signal and noise (T32). The
theory takes its rows for Gaussian and its noise for independent of them. SGD draws the rows themselves.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib import feature_sets
from experiments._lib.critical_grid import ROOM, critical, gaussian_risk, grid_around, share_inside, tuned
from experiments._lib.feature_sets import Rows
from experiments._lib.processes import map_on_cores
from experiments._lib.real_figures import Row, figures
from experiments._lib.real_verdicts import verdicts_of
from experiments._lib.results import Result
from experiments._lib.rows import columns_of, rows_of

Item = tuple[str, int, int]  # kind, its number or width, seed
SMALLEST = 1e-6  # of λ_1: eigenvalues that are drawn


@dataclass(frozen=True)
class Config:
    """Feature sets, and the grid on which B* is looked for.

    Attributes:
        num_windows: of text, each of which has several rows.
        dim: of random features.
        last_bytes: that random features of text are of.
        digits: whether scikit-learn's digits are taken, if it is there.
        widths: of transformers.
        seeds: of their weights.
        times: steps of training after which their exponents are measured.
        critical_times: those after which B* is measured, at the first seed.
        tangent_width: of the transformer whose tangents are taken; 0: none.
        num_samples: D.
        permuted_samples: the largest D at which noise is made independent of the features.
        sampled: D at which it is told how far B* varies with the sample that the rows are, and beside exponents.
        num_rates: learning rates of a batch size.
        num_replicas: runs of each setting.
        fitted: first and last direction of the exponents that are compared between widths.
        overhead: extra data that defines B*.
        margin: factor between predicted and observed B* that counts as agreement.
        risk_margin: the same of R_opt.
        exponent_margin: change of an exponent, or of log B*, from the least to the largest width that counts as none.
        level: of the intervals.
        num_resamples: of the replicas.
    """

    num_windows: int = 1024
    dim: int = 128
    last_bytes: tuple[int, ...] = (2, 3, 4)
    digits: bool = True
    widths: tuple[int, ...] = (32, 64, 128)
    seeds: tuple[int, ...] = (0, 1)
    times: tuple[int, ...] = (0, 30, 100, 300)
    critical_times: tuple[int, ...] = (0, 300)
    tangent_width: int = 32
    num_samples: tuple[int, ...] = (128, 512, 2048, 8192, 16384)
    permuted_samples: int = 2048
    sampled: int = 2048
    num_rates: int = 8
    num_replicas: int = 16
    fitted: tuple[int, int] = (2, 16)
    overhead: float = 0.2
    margin: float = 1.3
    risk_margin: float = 1.1
    exponent_margin: float = 0.3
    level: float = 0.95
    num_resamples: int = 200

    @property
    def items(self) -> list[Item]:
        """Return the tasks that run in parallel, long ones first."""
        networks = [("transformer", width, seed) for width in sorted(self.widths)[::-1] for seed in self.seeds]
        text = [("bytes", number, 0) for number in self.last_bytes]
        return [*networks, *text, *([("digits", self.dim, 0), ("digits", 0, 0)] if self.digits else [])]


SCALES = {
    "quick": Config(
        num_windows=256, dim=32, last_bytes=(2,), widths=(16, 32), times=(0, 30), critical_times=(30,),
        tangent_width=0, num_samples=(64, 256, 1024), permuted_samples=256, sampled=256,
    ),
    "full": Config(),
}  # fmt: skip
UNITS = {
    "kind": "critical: B* of a feature set; spectrum: its eigenvalues and signal; exponents: of a network's features",
    "features": "name of the feature set",
    "dim": "number of features d, the width of a transformer's",
    "steps": "of training; nan: not trained",
    "seed": "of the network's weights",
    "index": "D, samples (critical, exponents), or i, a direction (spectrum)",
    "predicted": "B* of st.critical_batch_size, for Gaussian rows with the covariance, signal and noise of the rows",
    "gaussian": "the same by the protocol of the measurement",
    "measured": "B* by SGD on the rows",
    "low": "lower end of its interval",
    "high": "upper end of its interval",
    "permuted": "B* by SGD on the rows, with what the features do not explain permuted over them; nan: not measured",
    "crossed": "B* by that protocol of what the rows are a sample of: cross-fitted",
    "crossed_low": "lower end of the interval of that B*, by st.problem_from_data; nan: not asked for",
    "crossed_high": "upper end",
    "spread": "χ of the rows (S2), 1 for Gaussian ones",
    "risk": "R_opt measured over that of Gaussian rows",
    "inside": "share of batch and data sizes at which the best γ is inside of the grid",
    "eigenvalue": "λ_i, cross-fitted, units of x²",
    "signal": "s_i, cross-fitted, neighbours pooled where noise drowns it, units of y²",
    "capacity": "exponent a of the eigenvalues, cross-fitted",
    "capacity_reach": "half of its interval",
    "source": "exponent b of the signal, cross-fitted; nan: not resolved",
    "source_reach": "half of its interval",
    "last": "last direction of the fit of b, up to which the sample resolves the signal",
}


class Study(NamedTuple):
    """A feature set, centred, and what is known of it."""

    name: str
    steps: float
    rows: Rows


def run(config: Config) -> Result:
    """Features, exponents, B* predicted and observed."""
    start = time.perf_counter()
    found = map_on_cores(partial(_item, config), config.items)
    rows = [row for each in found for row in each]
    seconds = (time.perf_counter() - start) / 3
    return Result(columns_of(rows), UNITS, figures(config, rows), verdicts_of(config, rows, seconds))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return figures(config, rows_of(Row, recorded.rows))


# ------------------------------------------------------------------ features


def _item(config: Config, item: Item) -> list[Row]:
    """Everything about the features of one kind, or about one network."""
    kind, number, seed = item
    if kind == "transformer":
        return _network(config, number, seed)
    if kind == "bytes":
        text = feature_sets.text(config.num_windows)
        rows = Rows(feature_sets.byte_features(text.tokens, number, config.dim), text.targets)
        return _measured(config, _centred(f"last {number} bytes", np.nan, rows))
    rows = feature_sets.digits(number or None)
    name = "digits, Fourier" if number else "digits, pixels"
    return _measured(config, _centred(name, np.nan, rows)) if rows is not None else []


def _centred(name: str, steps: float, rows: Rows) -> Study:
    """Return features as a layer with a bias sees them."""
    return Study(name, steps, Rows(*(part - part.mean(0) for part in rows)))


def _network(config: Config, width: int, seed: int) -> list[Row]:
    """Exponents of the last layer's activations along training, and of the first seed B*."""
    text = feature_sets.text(config.num_windows)
    found: list[Row] = []
    for steps, weights in feature_sets.trained(width, config.times, seed).items():
        features = Rows(feature_sets.activations(width, weights, text.tokens), text.targets)
        study = _centred(f"transformer {width}, {steps} steps", steps, features)
        found.append(_exponents(config, study, seed))
        if seed == config.seeds[0] and steps in config.critical_times:
            found += _measured(config, study)
            if width == config.tangent_width and steps == max(config.critical_times):
                slopes = feature_sets.tangents(width, weights, text, config.dim)
                found += _measured(config, _centred(f"tangents {width}, {steps} steps", steps, slopes))
    return found


def _exponents(config: Config, study: Study, seed: int) -> Row:
    """a and b over the directions that every width has, and B* of the theory."""
    found = st.problem_from_data(*study.rows, fit_range=config.fitted, level=config.level)
    best = st.critical_batch_size(found.problem, num_samples=config.sampled, curve=False)
    row = Row("exponents", study.name, study.rows.features.shape[1], study.steps, seed, config.sampled)
    return row._replace(predicted=float(best.real_batch_size), **_fits(found))


def _fits(found: Any) -> dict[str, float]:
    """Columns of the exponents of a DataProblem."""
    a, b = found.capacity, found.source
    reaches = {f"{name}_reach": float(np.ptp(each.interval) / 2) for name, each in (("capacity", a), ("source", b))}
    return {"capacity": a.value, "source": b.value, "last": b.range[1], **reaches}


# ------------------------------------------------------------------ B*


def _measured(config: Config, study: Study) -> list[Row]:
    """B* predicted and observed at every D, and the spectrum."""
    samples = np.array(config.num_samples, float)
    own, crossed = (st.problem_from_data(*study.rows, cross_fit=each, level=config.level) for each in (False, True))
    predicted = np.asarray(st.critical_batch_size(own.problem, num_samples=samples, curve=False).real_batch_size)
    grid = grid_around(own.problem, samples, predicted, config.num_rates)
    (gaussian, risk), (other, _) = (
        critical(grid, tuned(grid, gaussian_risk(each.problem, grid)), samples, config.overhead)
        for each in (own, crossed)
    )
    ends = crossed.critical_batch_size(config.sampled).interval[0]
    measured = _by_sgd(config, study.rows, grid, samples)
    few = samples[samples <= config.permuted_samples]
    smaller = grid._replace(data=grid.data[grid.data <= ROOM * few.max()])
    permuted = _by_sgd(config, _permuted(study.rows), smaller, few).critical
    row = Row(
        "critical", study.name, study.rows.features.shape[1], study.steps, 0.0, 0.0, spread=own.kurtosis.spread,
        inside=measured.inside,
    )  # fmt: skip
    found = [
        row._replace(
            index=samples[k], predicted=predicted[k], gaussian=gaussian[k], measured=measured.critical[k],
            low=measured.low[k], high=measured.high[k], crossed=other[k], risk=measured.risk[k] / risk[k],
            permuted=permuted[k] if k < few.size else np.nan,
        )
        for k in range(samples.size)
    ]  # fmt: skip
    found = [
        each._replace(crossed_low=ends[0], crossed_high=ends[1]) if each.index == config.sampled else each
        for each in found
    ]
    return [*found, *_spectrum(crossed, row)]


def _spectrum(crossed: Any, row: Row) -> Iterator[Row]:
    """λ and s of directions at equal ratios, with their exponents."""
    eigenvalue, signal = crossed.problem.directions()
    last = int((eigenvalue > SMALLEST * eigenvalue[0]).sum())
    for index in np.unique(np.round(np.geomspace(1, last, 24)).astype(int)):
        values = {"eigenvalue": eigenvalue[index - 1], "signal": signal[index - 1]}
        yield row._replace(kind="spectrum", index=index, **values, **_fits(crossed))


class Measured(NamedTuple):
    """(M,) B* with its interval and R_opt, at every D; share of settings whose best γ is inside of the grid."""

    critical: np.ndarray
    low: np.ndarray
    high: np.ndarray
    risk: np.ndarray
    inside: float


def _by_sgd(config: Config, rows: Rows, grid: Any, samples: np.ndarray) -> Measured:
    """B* of SGD on the rows; the interval is by resampling replicas, which are the same at all settings."""
    simulation = st.simulate_data(jax.random.key(0), *rows, **grid.setting, num_replicas=config.num_replicas)
    number, rng = config.num_replicas, np.random.default_rng(0)
    weights = rng.multinomial(number, np.full(number, 1 / number), config.num_resamples) / number
    risk = np.asarray(simulation.mean)
    finite = np.where(np.isfinite(simulation.excess_risk), simulation.excess_risk, 1e300)
    resampled = np.einsum("kgjr,sr->skgj", finite, weights)
    best, optimal = critical(grid, tuned(grid, risk), samples, config.overhead)
    spread = critical(grid, tuned(grid, resampled), samples, config.overhead)[0]
    tail = (1 - config.level) / 2
    low, high = np.full((2, samples.size), np.nan)
    known = np.isfinite(spread).any(0)  # B* is inside of the grid
    low[known], high[known] = np.nanquantile(spread[:, known], [tail, 1 - tail], axis=0)
    return Measured(best, low, high, optimal, share_inside(grid, risk))


def _permuted(rows: Rows) -> Rows:
    """The same least-squares fit and noise, which no longer depends on the features."""
    x, y = rows
    fit = x @ np.linalg.lstsq(x, y, rcond=None)[0]
    noise = (y - fit)[np.random.default_rng(0).permutation(len(x))]
    free = noise - x @ np.linalg.lstsq(x, noise, rcond=None)[0]
    return Rows(x, fit + free * np.sqrt(((y - fit) ** 2).mean(0) / (free**2).mean(0)))
