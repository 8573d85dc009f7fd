"""Does the theory of signSGD in the weights' coordinates predict the risk on frozen features of a network?

With frozen features φ(x) the output layer is linear regression, `y = ⟨w*, φ⟩ + r(x) + σ ε`. signSGD looks at the
weights, which are no eigenvectors of H = E φφᵀ. The theory (THEORY.md T37) has H, w_0 − w* and σ² + E r², and takes φ
for Gaussian; what is observed are features as they are: not Gaussian, and r a function of x.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.frozen_features import Regression, activations, regression_of
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from experiments._lib.sign_verdicts import ARMS, GAUSSIAN, SGD, SIGN, Row, figure, verdicts
from sgdtheory.training import Teacher, TeacherStream, TrainConfig

FIELDS: dict[str, Any] = {
    "width": 64, "base_width": 1, "depth": 1, "input_dim": 16, "capacity": 0.75, "source": 2.0,
    "noise_variance": 1.0, "holdout_size": 1, "trained": "output",
}  # fmt: skip
DRAWN = 1024  # samples of each run that are drawn at once, a multiple of every B
RESAMPLES = 400  # of the runs, for the error of samples to the target


@dataclass(frozen=True)
class Config:
    """Networks, what is trained, and what counts as agreement.

    Attributes:
        fields: of the networks and their task.
        activations: of the networks, one each.
        num_samples: D of every run, at a constant γ; the risk is the last iterate's.
        batch_sizes: B.
        rates: γ of signSGD that are tried at every B, in units of the weights.
        sgd_rates: γ of SGD, in units of 1/λ_1; below 2, where the mean diverges at every B and is that of rare runs.
        near: γ within this factor of the best observed are predicted.
        target: risk to which samples are counted, units of y².
        num_runs: of the data, independent.
        num_inputs: of which the features' moments are means.
        points: steps at which a run's risk is read, about.
        margin: factor between predicted and observed that counts as agreement.
        level: of the intervals, of all cells of a verdict at once.
    """

    fields: dict[str, Any] = field(default_factory=lambda: dict(FIELDS))
    activations: tuple[str, ...] = ("tanh", "relu")
    num_samples: int = 8192
    batch_sizes: tuple[int, ...] = (4, 16, 64, 256)
    rates: tuple[float, ...] = tuple(2.0 ** (power / 2) for power in range(-22, -7))
    sgd_rates: tuple[float, ...] = tuple(2.0 ** (power / 2) for power in range(-17, 2))
    near: float = 2.0
    target: float = 0.1
    num_runs: int = 128
    num_inputs: int = 1 << 17
    points: int = 60
    margin: float = 1.3
    level: float = 0.95


SCALES = {
    "quick": Config(
        fields=FIELDS | {"width": 16},
        activations=("tanh",),
        num_samples=2048,
        batch_sizes=(4, 64),
        rates=tuple(2.0**power for power in range(-9, -3)),
        sgd_rates=tuple(2.0**power for power in range(-7, 1)),
        num_runs=96,
        num_inputs=1 << 15,
    ),
    "full": Config(),
}
UNITS = {
    "activation": "of the network",
    "arm": "method and rows; constant γ, last iterate",
    "batch_size": "B, samples",
    "learning_rate": "γ; signSGD: of the weights, SGD: of w' = w − γ φ(⟨w, φ⟩ − y)",
    "best": "1 at the γ of the least observed risk at its B",
    "observed": "mean over runs of the excess risk after D samples, (w − w*)ᵀ H (w − w*), units of y²",
    "error": "its standard error",
    "predicted": "the same by the theory, signs of the weights; nan: γ is far from the best",
    "stated": "relative error that the theory states",
    "aligned": "the same by the theory, signs in eigenvectors; nan: not asked",
    "samples": "samples to the target, by the mean of the runs; nan: not reached",
    "samples_error": "standard error of its log, of resampled runs",
    "samples_predicted": "the same by the theory, signs of the weights",
    "samples_aligned": "the same by the theory, signs in eigenvectors",
}


def run(config: Config) -> Result:
    """Features, training, theory."""
    start = time.perf_counter()
    rows = [row for activation in config.activations for row in _network(config, activation)]
    return Result(columns_of(rows), UNITS, _figures(config, rows), judged(config, rows, time.perf_counter() - start))


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def judged(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    """Return the verdicts on the rows."""
    return tuple(verdicts(rows, config, seconds))


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"sign_features": figure(rows, config)}


def _network(config: Config, activation: str) -> Iterator[Row]:
    """All arms on the features of one network."""
    own = TrainConfig.from_fields({**config.fields, "activation": activation})
    regression, *_ = regression_of(own, config.num_inputs)
    real = network_rows(config, own, regression)
    gaussian = gaussian_rows(config, regression)
    for arm in ARMS:
        for size in config.batch_sizes:
            yield from _tuned(config, activation, regression, arm, size, gaussian if arm == GAUSSIAN else real)


# ------------------------------------------------------------------ theory


def coordinates(regression: Regression) -> np.ndarray:
    """(n, n) Q: row j is weight j among the eigenvectors, λ_1's first, each turned so that w_0 − w* is along it."""
    _, vectors = np.linalg.eigh(regression.covariance)
    vectors = vectors[:, ::-1]
    along = vectors.T @ (regression.start - regression.best)
    return vectors * np.where(along < 0, -1.0, 1.0)


def predicted(config: Config, regression: Regression, method: Any, size: int, rate: float) -> st.risk.RiskPath:
    """The theory's risk along a run at a constant γ."""
    return st.risk_path(
        regression.problem,
        batch_size=size,
        learning_rate=rate,
        num_samples=config.num_samples,
        algorithm=st.Algorithm(method, average=st.LastIterate()),
        points=config.points,
    )


# ------------------------------------------------------------------ training

Draw = Callable[[int], tuple[np.ndarray, np.ndarray]]  # number of a piece → (S, DRAWN, n) features, (S, DRAWN) labels


def network_rows(config: Config, own: TrainConfig, regression: Regression) -> Draw:
    """Fresh samples of the teacher through the frozen layer, and its labels."""
    assert isinstance(own.data, Teacher)
    batch = jax.jit(jax.vmap(TeacherStream(own.data, DRAWN, own.holdout_size).batch, (0, None)))
    seeds = jnp.arange(config.num_runs, dtype=jnp.uint32)

    def draw(piece: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = (np.asarray(part, float) for part in batch(seeds, jnp.uint32(piece)))
        return activations(own, inputs @ regression.inner), labels

    return draw


def gaussian_rows(config: Config, regression: Regression) -> Draw:
    """N(0, H) in the features' place, and independent noise in that of r(x) + σ ε: what the theory is of."""
    root = np.linalg.cholesky(regression.covariance).T
    shape = config.num_runs, DRAWN

    def draw(piece: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng([piece, config.num_runs])
        phi = random.standard_normal((*shape, len(root))) @ root
        noise = regression.problem.noise_variance**0.5 * random.standard_normal(shape)
        return phi, phi @ regression.best + noise

    return draw


def observed(
    regression: Regression, draw: Draw, size: int, rates: np.ndarray, steps: np.ndarray, *, signs: bool
) -> np.ndarray:
    """(G, S, E) excess risk of every γ and run after so many steps; all γ see the same samples.

    Args:
        regression: w_0, w* and H.
        draw: the samples, a piece at a time.
        size: B, a divisor of DRAWN.
        rates: (G,) γ.
        steps: (E,) increasing whole numbers.
        signs: whether steps are γ sign(g), or γ g.
    """
    per_piece = DRAWN // size
    phi, labels = draw(0)
    weights = np.repeat(np.repeat(regression.start[None, :, None], len(phi), 0), len(rates), 2)  # (S, n, G)
    risks = []
    done = 0
    for stop in steps:
        for step in range(done, int(stop)):
            place = step % per_piece
            if step and place == 0:
                phi, labels = draw(step // per_piece)
            here = slice(place * size, (place + 1) * size)
            misfit = phi[:, here] @ weights - labels[:, here, None]
            gradient = phi[:, here].swapaxes(1, 2) @ misfit / size
            weights = weights - rates * (np.sign(gradient) if signs else gradient)
        error = weights - regression.best[:, None]
        risks.append((error * (regression.covariance @ error)).sum(1).T)
        done = int(stop)
    return np.stack(risks, axis=-1)


def samples_to(target: float, samples: np.ndarray, risk: np.ndarray) -> np.ndarray:
    """(…) first samples at which a risk (…, E) is down to the target; log risk is a line between points; nan: never."""
    there = risk <= target
    after = np.maximum(there.argmax(-1), 1)
    high, low = (np.take_along_axis(risk, place[..., None], -1)[..., 0] for place in (after - 1, after))
    with np.errstate(all="ignore"):
        share = np.log(high / target) / np.log(high / low)
        found = samples[after - 1] + share * (samples[after] - samples[after - 1])
    return np.where(there.any(-1), found, np.nan)


# ------------------------------------------------------------------ rows


def _tuned(config: Config, activation: str, regression: Regression, arm: str, size: int, draw: Draw) -> Iterator[Row]:
    """Every γ of one arm at one batch size; the theory of those near the best."""
    rates = np.array(config.rates)
    methods: list[Any] = [st.SignSGD(basis=coordinates(regression))]
    if arm == SIGN:
        methods.append(st.SignSGD())
    if arm == SGD:
        rates = np.array(config.sgd_rates) / regression.problem.eigenvalues[0]
        methods = [st.SGD()]
    steps = predicted(config, regression, st.SGD(), size, 1e-3).num_steps  # those of every method at a constant γ
    with np.errstate(all="ignore"):  # beyond the stability edge
        risks = observed(regression, draw, size, rates, steps, signs=arm != SGD)
    means = risks[..., -1].mean(1)
    best = int(np.argmin(np.where(np.isfinite(means), means, np.inf)))
    for place, rate in enumerate(rates.tolist()):
        near = abs(np.log(rate / rates[best])) <= np.log(config.near) + 1e-9
        paths = [predicted(config, regression, method, size, rate) for method in methods if near]
        yield Row(activation, arm, size, rate, float(place == best), *_cells(config, steps * size, risks[place], paths))


def _cells(config: Config, samples: np.ndarray, risks: np.ndarray, paths: list[st.risk.RiskPath]) -> list[float]:
    """Return the cells of one γ: (S, E) observed at these samples (E,), up to two predictions; `Row`'s last nine."""
    number = len(risks)
    share = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), RESAMPLES) / number
    with np.errstate(all="ignore"):
        error = risks[:, -1].std(ddof=1) / number**0.5
        resampled = np.log(samples_to(config.target, samples, share @ risks))
    totals = [np.asarray(path.iterate.total) for path in paths]
    totals += [np.full(len(samples), np.nan)] * (2 - len(totals))
    stated = np.asarray(paths[0].iterate.relative_error)[-1] if paths else np.nan
    reached = [samples_to(config.target, samples, each) for each in (risks.mean(0), *totals)]
    cells = [risks[:, -1].mean(), error, totals[0][-1], stated, totals[1][-1], reached[0], np.std(resampled)]
    return [float(cell) for cell in (*cells, *reached[1:])]
