"""How much are further epochs over a teacher's N samples worth to a network, beside the linear theory?"""

import time
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

import sgdtheory as st
from experiments._lib.critical_grid import Grid, critical, tuned
from experiments._lib.last_layer import LastLayer, regression
from experiments._lib.network_risks import holdout_risk, network_risks, trained_weights
from experiments._lib.passes_verdicts import (
    AFTER,
    BEFORE,
    EXPONENTS,
    FIXED,
    FRESH,
    FROZEN,
    MEASURED,
    NETWORK,
    Row,
    figure,
    verdicts,
)
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from experiments._lib.tangent_features import output_risk, tangents, teacher_inputs
from sgdtheory.training import Lanes, TrainConfig

FIELDS: dict[str, Any] = {
    "width": 32, "base_width": 32, "depth": 2, "input_dim": 16, "capacity": 1.5, "source": 2.0, "holdout_size": 2048,
    "optimizer": "sgd", "averages": (), "uniform_average": True,
}  # fmt: skip
THEORY_RATES = 13  # learning rates of the theory, GRID_STEP apart, below one pass's edge
GRID_STEP = 1.4
READS = 2**0.25  # from one data size to the next that B* is read off at
ROOM = 1.6  # the most of them, over the data: what B* may need, and more


@dataclass(frozen=True)
class Config:
    """A perceptron under µP, SGD at a constant γ, uniform average; N samples or fresh ones.

    Attributes:
        fields: of every run.
        arms: what is trained: all weights, or the output's alone, which is linear regression.
        noises: σ².
        num_rows: N.
        passes: K; 1 first.
        fresh: data sizes of fresh samples, in N, evenly in logs.
        batch_size: B.
        rates: learning rates of the trainer where all is trained.
        frozen_rates: where the output's weights are: of the theory's edge.
        num_seeds: of samples, their order and, where all is trained, initial weights.
        num_inputs: of which the features' moments are means.
        critical_batches: B on which B* is read off, at the largest σ²; none: it is not asked.
        critical_passes: K of it, 1 first.
        overhead, margin, level: of B*, of what counts as agreement, of intervals.
        num_resamples: of the seeds.
    """

    fields: dict[str, Any] = field(default_factory=lambda: dict(FIELDS))
    arms: tuple[str, ...] = (NETWORK, FROZEN)
    noises: tuple[float, ...] = (1.0, 0.1)
    num_rows: int = 512
    passes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    fresh: tuple[float, ...] = tuple(2.0 ** (k / 2) for k in range(-1, 11))
    batch_size: int = 8
    rates: tuple[float, ...] = tuple(2.0 ** (-3 - 0.75 * k) for k in range(8))[::-1]
    frozen_rates: tuple[float, ...] = tuple(0.9 * 2.0 ** (-0.6 * k) for k in range(8))[::-1]
    num_seeds: int = 24
    num_inputs: int = 8192
    critical_batches: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    critical_passes: tuple[int, ...] = (1, 4)
    overhead: float = 0.2
    margin: float = 1.25
    level: float = 0.95
    num_resamples: int = 400

    def run(self, arm: str, noise: float, num_samples: int | None) -> TrainConfig:
        """A run of the trainer."""
        trained = "all" if arm == NETWORK else "output"
        changes = {"trained": trained, "noise_variance": noise, "num_samples": num_samples, "max_steps": 1}
        return TrainConfig.from_fields({**self.fields, **changes})


SCALES = {
    "quick": Config(
        fields=FIELDS | {"width": 16, "base_width": 16},
        noises=(1.0,),
        num_rows=256,
        passes=(1, 2, 4, 8),
        num_seeds=6,
        num_inputs=2048,
        critical_batches=(),
    ),
    "full": Config(),
}
UNITS = {
    "kind": "worth: least risks at one batch size; critical: B*",
    "arm": "what is trained",
    "noise_variance": "σ², units of Var f*",
    "source": "measured, or predicted by the theory for features before or after training, or by the teacher's a and b",
    "order": "N samples with a new order each pass, or as many fresh ones",
    "passes": "K: K N samples are read",
    "batch_size": "B; of kind critical B*",
    "learning_rate": "γ of the grid with the least risk, of the theory's update; nan: of kind critical",
    "risk": "least over γ of the excess risk of the uniform average, on the hold-out or of the weights; R_opt",
    "worth": "E: as many times N fresh samples have that risk; inf: more than were tried",
    "low": "lower end of the interval of E or B*",
    "high": "upper end",
}


def run(config: Config) -> Result:
    """Training, features, theory."""
    start = time.perf_counter()
    rows: list[Row] = []
    for arm, noise in product(config.arms, config.noises):
        rows += _worth(config, arm, noise)
    if config.critical_batches:
        rows += _critical(config, max(config.noises))
    found = verdicts_of(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, _figures(config, rows), found)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def verdicts_of(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    """Return the verdicts on the rows."""
    return tuple(verdicts(config, rows, seconds))


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"epochs_networks": figure(config, rows)}


def worth_of(risk: np.ndarray, multiples: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Multiples of N at which fresh samples have a risk, a line between them in logs; inf beyond them.

    Args:
        risk: any shape.
        multiples: (J,) increasing; what is worth less than the first counts as that.
        fresh: (J,) risks there; those that rise, by noise, are pooled (isotonic regression).
    """
    falling = np.asarray(isotonic_regression(np.log(fresh), increasing=False).x)[::-1]
    log_risk = np.log(risk)
    found = np.exp(np.interp(log_risk, falling, np.log(multiples)[::-1]))
    return np.where(log_risk >= falling[0], found, np.inf)


def _counts(config: Config) -> np.ndarray:
    """(1 + R, S) shares of the seeds: all alike, then as they are drawn again."""
    seeds = config.num_seeds
    drawn = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), config.num_resamples)
    return np.concatenate([np.ones((1, seeds)), drawn]) / seeds


def resampled(config: Config, risks: np.ndarray) -> np.ndarray:
    """(1 + R, K, G, J) means over seeds of (K, G, S, J); a γ at which one diverged is left out, drawn or not."""
    failed = ~np.isfinite(risks).all(2)
    means = np.einsum("rs,kgsj->rkgj", _counts(config), np.where(np.isfinite(risks), risks, 0.0))
    return np.where(failed, np.inf, means)


def _interval(config: Config, drawn: np.ndarray) -> tuple[float, float]:
    """Between the quantiles of resampled values; nan where some are not known."""
    tail = (1 - config.level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], method="nearest")
    return float(low), float(high)


# ------------------------------------------------------------------ worth of passes


def _worth(config: Config, arm: str, noise: float) -> list[Row]:
    """Measured and predicted, of one arm."""
    own = config.run(arm, noise, config.num_rows)
    weights = {name: part[0] for name, part in Lanes([own]).weights().items()}
    before = features_of(config, own, weights)
    edge = float(st.max_stable_learning_rate(before.problem, batch_size=config.batch_size))
    rates = 2 * np.array(config.rates) if arm == NETWORK else edge * np.array(config.frozen_rates)
    size = np.array([float(config.batch_size)])
    grids = {
        order: Grid(size, rates[None], config.num_rows * np.array(each, float))
        for order, each in ((FIXED, config.passes), (FRESH, config.fresh))
    }
    risk = holdout_risk if arm == NETWORK else output_risk(own, weights, 4 * config.num_inputs)
    runs = {FIXED: own, FRESH: config.run(arm, noise, None)}
    found = {
        order: network_risks(runs[order], grid, config.num_seeds, risk, draw_weights=arm == NETWORK)
        for order, grid in grids.items()
    }
    rows = _measured(config, (arm, noise), grids, found)
    rows += _predicted(config, (arm, noise, BEFORE), before.problem, before.approximation_risk * (arm == NETWORK))
    if arm == NETWORK:
        last = trained_weights(own, grids[FIXED], found[FIXED])
        after = features_of(config, own, last, whole=True)
        rows += _predicted(config, (arm, noise, AFTER), after.problem, after.approximation_risk)
        data: Any = own.data
        plain = st.PowerLaw(data.capacity, data.source, data.input_dim, noise_variance=noise)
        rows += _predicted(config, (arm, noise, EXPONENTS), plain, 0.0)
    return rows


def features_of(config: Config, own: TrainConfig, weights: dict[str, Any], *, whole: bool = False) -> LastLayer:
    """The regression that the network is near some weights: of what is left of f*, or of the whole of it."""
    inputs, targets = teacher_inputs(own, config.num_inputs, 0)
    outputs, features = tangents(own, weights, inputs)
    return regression(features, targets if whole else targets - outputs, own.value("noise_variance"))


def _measured(config: Config, place: tuple[str, float], grids: dict[str, Grid], found: dict[str, Any]) -> list[Row]:
    """Least risks, and what passes are worth by them, seeds resampled."""
    means = {order: resampled(config, found[order]) for order in grids}
    least = {order: tuned(grids[order], means[order])[:, 0] for order in grids}  # (1 + R, J)
    multiples = grids[FRESH].samples[0] / config.num_rows
    pairs = zip(least[FIXED], least[FRESH], strict=True)
    worth = np.array([worth_of(fixed, multiples, fresh) for fixed, fresh in pairs])
    rows = []
    for order, numbers in ((FIXED, config.passes), (FRESH, multiples.tolist())):
        best = grids[order].rate[0][means[order][0, 0].argmin(0)]
        for j, passes in enumerate(numbers):
            own = (worth[0, j], *_interval(config, worth[1:, j])) if order == FIXED else (passes, np.nan, np.nan)
            cells = (passes, config.batch_size, best[j], least[order][0, j], *own)
            rows.append(Row("worth", *place, MEASURED, order, *map(float, cells)))
    return rows


def _least(config: Config, problem: Any, rates: np.ndarray, samples: np.ndarray, batch: float) -> tuple[Any, Any]:
    """γ and risk of the theory, (J,)."""
    setting: Any = {"batch_size": batch, "learning_rate": rates[:, None], "num_samples": samples}
    risks = np.asarray(st.excess_risk(problem, **setting).total)
    grid = Grid(np.array([batch]), rates[None], samples)
    return rates[risks.argmin(0)], tuned(grid, risks[None])[0]


def _predicted(config: Config, place: tuple[str, float, str], problem: Any, missed: float) -> list[Row]:
    """The same by the theory of the mean over N Gaussian rows; `missed` is what no weights of these features reach."""
    batch = float(config.batch_size)
    rates = float(st.max_stable_learning_rate(problem, batch_size=batch)) * GRID_STEP ** np.arange(
        1.0 - THEORY_RATES, 1
    )
    size = config.num_rows
    multiples = np.floor(np.array(config.fresh) * size / batch) * batch / size
    _, fresh = _least(config, problem, rates, multiples * size, batch)
    passes = np.array(config.passes, float)
    best, fixed = _least(config, problem.with_samples(size, replacement=False), rates, passes * size, batch)
    worth = worth_of(fixed + missed, multiples, fresh + missed)
    return [
        Row("worth", *place, FIXED, *map(float, (*cells, np.nan, np.nan)))
        for cells in zip(passes, np.full(len(passes), batch), best, fixed + missed, worth, strict=True)
    ]


# ------------------------------------------------------------------ B*


def _critical(config: Config, noise: float) -> list[Row]:
    """B* of N samples and of fresh ones after K N of them, all weights trained."""
    batch = np.array(config.critical_batches, float)
    samples = config.num_rows * np.array(config.critical_passes, float)
    number = int(np.ceil(np.log(ROOM * samples[-1] / samples[0]) / np.log(READS)))
    data = samples[0] * READS ** np.arange(number + 1)
    rates = np.tile(2 * np.array(config.rates), (len(batch), 1)) * (batch[:, None] / config.batch_size) ** 0.5
    grid = Grid(batch, rates, data)
    rows = []
    for order, rows_there in ((FIXED, config.num_rows), (FRESH, None)):
        own = config.run(NETWORK, noise, rows_there)
        risks = network_risks(own, grid, config.num_seeds, draw_weights=True)
        found, optimal = critical(grid, tuned(grid, resampled(config, risks)), samples, config.overhead)
        for k, passes in enumerate(config.critical_passes):
            own_interval = _interval(config, found[1:, k])
            cells = (passes, found[0, k], np.nan, optimal[0, k], np.nan, *own_interval)
            rows.append(Row("critical", NETWORK, noise, MEASURED, order, *map(float, cells)))
    return rows
