"""Do learnt features of a network predict the differences of B* between optimizers with all weights trained?

The last hidden layer's activations φ(x) of a trained network make a linear regression, `y = ⟨w*, φ⟩ + r(x) + σ ε`. Of
it the theory has every optimizer's steps to the network's target, in the coordinates of the weights (THEORY.md T37,
T38). Beside them: the steps of `optimizers_networks`, recorded, in which all weights move and features are learnt.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import sgdtheory as st
from experiments import optimizers_networks as networks
from experiments._lib.frozen_features import activations
from experiments._lib.last_layer import NEGLIGIBLE
from experiments._lib.progress import tracked
from experiments._lib.redraw import FOLDER, Recorded
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import columns_of, rows_of
from experiments._lib.variants import common_ratio
from experiments.sign_features import samples_to
from sgdtheory.fits import Convention, PairedRatio, StepsMeasurement
from sgdtheory.plotting.style import BLACK, GRAY, categories, legend, log_axes, new_figure, tick_measured
from sgdtheory.training import Lanes, TeacherStream, TrainConfig, tensor_factors

OBSERVED = "optimizers_networks"
ALIGNED = "aligned"
WORDS = {
    "sgd": "SGD",
    "momentum": "SGD, momentum 0.9",
    "adam": "Adam",
    "sign": "signSGD, momentum 0.9",
    ALIGNED: "Adam, in eigenvectors",
}
PAIRS = ("adam", "sgd"), ("sgd", "momentum"), ("adam", "sign")  # B* of the second over that of the first
WINDOWS = 0.02, 0.5  # 1/(1 − τ) of averages that are tried, of a run
PATH_POINTS = 80


@dataclass(frozen=True)
class Config:
    """Networks whose features are taken, and what is asked of them.

    Attributes:
        fields: of the networks; those of the runs that are recorded.
        batch_size, learning_rate, num_steps: of their training, by Adam: four times the steps to the target.
        num_networks: seeds.
        num_inputs: of which the features' moments are means.
        arms: methods.
        batch_sizes: B, those of the recorded runs but for the smallest, which takes as long as all others.
        reference: B to which B* is referred, that of the recorded runs.
        averages: τ, besides the iterate.
        target: excess risk, units of y², of which features miss a part for good.
        num_steps_more, num_samples: a run of the theory has num_steps_more + num_samples/B steps.
        rounds: how often γ is doubled or halved until the best one is inside.
        margin: factor between predicted and observed that counts as agreement.
        overhead, level: of B* and intervals.
    """

    fields: dict[str, Any] = field(default_factory=lambda: {**networks.TASK.fields, "width": 64})
    batch_size: int = 30
    learning_rate: float = 2.0**-8
    num_steps: int = 1092
    num_networks: int = 1
    num_inputs: int = 1 << 16
    arms: tuple[str, ...] = tuple(WORDS)
    batch_sizes: tuple[int, ...] = networks.TASK.batch_sizes[1:]
    reference: float = float(networks.TASK.batch_sizes[0])
    averages: tuple[float, ...] = networks.TASK.fields["averages"]
    target: float = 0.07
    num_steps_more: int = 40
    num_samples: int = 1800
    rounds: int = 12
    margin: float = 1.3
    overhead: float = 0.2
    level: float = 0.95


SCALES = {
    "quick": Config(
        num_inputs=1 << 14,
        arms=("sgd", "momentum", ALIGNED),
        batch_sizes=(12, 30, 75, 190),
        averages=(0.8, 0.95),
    ),
    "full": Config(),
}
UNITS = {
    "network": "seed",
    "arm": "method; coordinates are the weights, but for what is in eigenvectors",
    "batch_size": "B, samples",
    "learning_rate": "best γ, of the weights; of SGD in units of 1/λ",
    "average": "best τ of the average; 0: the iterate",
    "steps": "steps to the target by theory, on the features; nan: not reached",
    "missed": "E r², what the features miss of the target function, units of y²",
}


class Row(NamedTuple):
    """One method on one network's features at one batch size, as in `UNITS`."""

    network: float
    arm: str
    batch_size: float
    learning_rate: float
    average: float
    steps: float
    missed: float


class Learnt(NamedTuple):
    """The regression on a network's features.

    Attributes:
        problem: its spectrum and signal, learnt from w_0 = 0; σ² and E r² are its noise.
        coordinates: (n, n) row j is weight j among the eigenvectors, λ_1's first.
        missed: E r².
    """

    problem: st.LeastSquares
    coordinates: np.ndarray
    missed: float


def run(config: Config) -> Result:
    """Train networks, take their features, and ask the theory."""
    start = time.perf_counter()
    rows = [row for network, learnt in enumerate(features(config)) for row in predicted(config, network, learnt)]
    return Result(columns_of(rows), UNITS, _figures(config, rows), judged(config, rows, time.perf_counter() - start))


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


# ------------------------------------------------------------------ features


def features(config: Config) -> list[Learnt]:
    """Return the features of the networks after training."""
    run_of = {"batch_size": config.batch_size, "learning_rate": config.learning_rate, "max_steps": config.num_steps}
    configs = [
        TrainConfig.from_fields({**config.fields, **run_of, "seed": seed, "data_seed": seed})
        for seed in range(config.num_networks)
    ]
    lanes = Lanes(configs)
    lanes.advance(config.num_steps)
    weights = lanes.weights()
    each = [{name: part[lane] for name, part in weights.items()} for lane in range(len(configs))]
    return [
        regression(*last_activations(own, mine, config.num_inputs)) for own, mine in zip(configs, each, strict=True)
    ]


def last_activations(
    own: TrainConfig, weights: dict[str, np.ndarray], num_inputs: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """(N, n) of the last hidden layer, (N,) outputs of the teacher without noise, and the variance of that."""
    data: Any = own.data
    factors = tensor_factors(own.network.tensors, own)
    teacher = TeacherStream(data, own.batch_size, own.holdout_size)
    random = np.random.default_rng((data.task_seed, own.seed, num_inputs))
    inputs = (random.standard_normal((num_inputs, data.input_dim)) * np.sqrt(teacher.spectrum)).astype(np.float32)
    effective = {name: factors[name].multiplier * part for name, part in weights.items()}
    _, layers = own.network.apply(effective, inputs)  # pyright: ignore[reportArgumentType]
    phi = activations(own, np.asarray(layers["hidden"][-1]))
    return phi, np.asarray(teacher(inputs), float), data.noise_variance


def regression(phi: np.ndarray, targets: np.ndarray, noise_variance: float) -> Learnt:
    """Least squares from w_0 = 0. Directions of no eigenvalue, of units that are dead, hold no signal.

    Each eigenvector is turned so that w_0 − w* is along it.
    """
    eigenvalues, vectors = np.linalg.eigh(phi.T @ phi / len(phi))
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    along = vectors.T @ (phi.T @ targets) / len(targets)
    kept = eigenvalues > NEGLIGIBLE * eigenvalues[0]
    signal = np.where(kept, along**2 / np.where(kept, eigenvalues, 1.0), 0.0)
    missed = float(np.mean(targets**2) - signal.sum())
    problem = st.LeastSquares(np.maximum(eigenvalues, 0.0), signal, noise_variance + missed)
    return Learnt(problem, vectors * np.where(along > 0, -1.0, 1.0), missed)


# ------------------------------------------------------------------ theory


def predicted(config: Config, network: int, learnt: Learnt) -> Iterator[Row]:
    """Steps to the target of all methods at all batch sizes, γ and τ tuned."""
    methods: dict[str, Any] = {
        "sgd": st.SGD(),
        "momentum": st.HeavyBall(0.9),
        "adam": st.Adam(basis=learnt.coordinates),
        "sign": st.SignSGD(0.9, basis=learnt.coordinates),
        ALIGNED: st.Adam(),
    }
    for arm in tracked(config.arms):
        for size in config.batch_sizes:
            choice = fewest_steps(config, learnt, methods[arm], size)
            yield Row(network, arm, size, *choice, learnt.missed)


def fewest_steps(config: Config, learnt: Learnt, method: Any, size: int) -> tuple[float, float, float]:
    """γ, τ and the steps: γ on powers of 2 until the best one is inside."""
    scale = 1.0 if isinstance(method, (st.Adam, st.SignSGD)) else 1.0 / float(learnt.problem.eigenvalues[0])
    known: dict[int, tuple[float, float]] = {}

    def at(power: int) -> tuple[float, float]:
        if power not in known:
            known[power] = _steps(config, learnt, method, size, scale * 2.0**power)
        return known[power]

    best = min((-9, -7, -5, -3), key=at)
    for _ in range(config.rounds):
        before = best
        best = min((best - 1, best, best + 1), key=at)
        if best == before:
            break
    steps, average = at(best)
    return scale * 2.0**best, average, steps if np.isfinite(steps) else np.nan


def _steps(config: Config, learnt: Learnt, method: Any, size: int, rate: float) -> tuple[float, float]:
    """Fewest steps over averages, inf where none is at the target, and τ."""
    number = config.num_steps_more + config.num_samples // size
    found = []
    for average in config.averages:
        if not WINDOWS[0] <= 1 / (1 - average) / number <= WINDOWS[1]:
            continue
        path = st.risk_path(
            learnt.problem,
            batch_size=size,
            learning_rate=rate,
            num_samples=size * number,
            algorithm=st.Algorithm(method, average=st.ExponentialAverage(decay=average)),
            points=PATH_POINTS,
        )
        for each, decay in ((path.iterate, 0.0), (path.average, average)):
            risk = np.nan_to_num(np.asarray(each.total), nan=np.inf, posinf=1e300)
            steps = float(samples_to(config.target - learnt.missed, np.asarray(path.num_steps, float), risk))
            found.append((steps if np.isfinite(steps) else np.inf, decay))
    return min(found)


# ------------------------------------------------------------------ verdicts


def observed_ratio(config: Config, pair: tuple[str, str]) -> PairedRatio | None:
    """B* of the second over that of the first, of the recorded networks."""
    recorded = Recorded(FOLDER / OBSERVED)
    theirs = recorded.config(networks.Config)
    return networks.critical_ratio(theirs, rows_of(networks.Row, recorded.rows), "teacher", pair)


def predicted_ratio(config: Config, rows: Sequence[Row], pair: tuple[str, str]) -> float:
    """The same of the theory, from geometric means over networks, by the same law of steps; nan: not reached."""
    means = []
    for arm in pair:
        sizes, steps = mean_steps(rows, arm)
        means.append(StepsMeasurement(arm, np.nan, sizes, steps))
    if any(each.batch_sizes.size < 4 for each in means):
        return np.nan
    found = common_ratio(means, Convention(config.reference, config.overhead))
    return np.nan if found is None else float(np.exp(found.log_ratio))


def mean_steps(rows: Sequence[Row], arm: str) -> tuple[np.ndarray, np.ndarray]:
    """Batch sizes at which all networks' features reach the target, and the geometric mean of their steps."""
    sizes = sorted({row.batch_size for row in rows if row.arm == arm})
    logs = [np.mean([np.log(row.steps) for row in rows if (row.arm, row.batch_size) == (arm, size)]) for size in sizes]
    kept = np.isfinite(logs)
    return np.array(sizes)[kept], np.exp(np.array(logs)[kept])


def judged(config: Config, rows: Sequence[Row], seconds: float) -> tuple[Verdict, ...]:
    """Judge every pair of methods, and Adam in eigenvector coordinates beside Adam."""
    found = [_verdict(config, rows, pair, pair, seconds) for pair in PAIRS if set(pair) <= set(config.arms)]
    if {ALIGNED, "sgd"} <= set(config.arms):
        found.append(_verdict(config, rows, (ALIGNED, "sgd"), ("adam", "sgd"), seconds))
    return tuple(found)


def _verdict(
    config: Config, rows: Sequence[Row], ours: tuple[str, str], theirs: tuple[str, str], seconds: float
) -> Verdict:
    first, second = (WORDS[arm] for arm in ours)
    claim = f"B* of {second} over that of {first}, from trained features, equals the networks'"
    predicted_text = f"1 within a factor of {config.margin:g}"
    mine = predicted_ratio(config, rows, ours)
    other = observed_ratio(config, theirs)
    if not np.isfinite(mine) or other is None:
        text = "fewer than four batch sizes with both"
        return Verdict(claim, text, predicted_text, "—", None, "inconclusive", seconds)
    observed = float(np.exp(other.log_ratio))
    each = [predicted_ratio(config, [row for row in rows if row.network == one], ours) for one in _networks(rows)]
    spread = f" ({min(each):.3g} … {max(each):.3g} of {len(each)} networks)" if len(each) > 1 else ""
    text = (
        f"Ratio of B*: predicted {mine:.3g}{spread}, observed {observed:.3g}; holds if the {2 * config.level - 1:.0%} "
        f"interval of predicted over observed is within the margin, fails if the interval at {_counted(config):.2%}, "
        f"which corrects for {len(PAIRS)} pairs, is outside"
    )
    inner = _over(mine, other.interval(2 * config.level - 1))
    outer = _over(mine, other.interval(_counted(config)))
    interval = _over(mine, other.interval(config.level))
    return Verdict(claim, text, predicted_text, mine / observed, interval, answer(inner, outer, config.margin), seconds)


def answer(inner: tuple[float, float], outer: tuple[float, float], margin: float) -> VerdictName:
    """Two one-sided tests for agreement; the wider interval for its opposite."""
    if 1 / margin <= inner[0] and inner[1] <= margin:
        return "holds"
    return "fails" if outer[0] > margin or outer[1] < 1 / margin else "inconclusive"


def _over(value: float, interval: tuple[float, float]) -> tuple[float, float]:
    return value / interval[1], value / interval[0]


def _counted(config: Config) -> float:
    """Level at which all pairs together miss with a probability of 1 − level (Bonferroni)."""
    return 1 - (1 - config.level) / len(PAIRS)


def _networks(rows: Sequence[Row]) -> list[float]:
    return sorted({row.network for row in rows})


# ------------------------------------------------------------------ figure


def _figures(config: Config, rows: Sequence[Row]) -> dict[str, Figure]:
    figure, axes = new_figure(1, 3, width=4.4, height=4.0)
    figure.suptitle(f"teacher, excess risk {config.target:g}: theory on learnt features and networks")
    recorded = rows_of(networks.Row, Recorded(FOLDER / OBSERVED).rows)
    theirs = {}
    for arm in config.arms:
        sizes, steps = networks.measured(recorded, "teacher", arm)
        theirs[arm] = sizes, np.exp(np.log(steps).mean(axis=0)) if sizes.size else sizes
    ours = {arm: mean_steps(rows, arm) for arm in config.arms}
    _lines(axes[0, 0], ours, "Theory, on the features they learnt")
    _lines(axes[0, 1], theirs, "Networks, all weights trained")
    _ratios(config, axes[0, 2], rows)
    legend(axes[0, 0])
    return {"trained_features": figure}


def _lines(axis: Axes, found: dict[str, tuple[np.ndarray, np.ndarray]], title: str) -> None:
    for (arm, (sizes, steps)), style in zip(found.items(), categories(len(found)), strict=True):
        if sizes.size:
            axis.plot(sizes, steps, label=WORDS[arm], **style)
    axis.set(xlabel="batch size $B$ (samples)", ylabel="steps to the target", title=title)
    log_axes(axis)
    tick_measured(axis, [size for sizes, _ in found.values() for size in sizes.tolist()])


def _ratios(config: Config, axis: Axes, rows: Sequence[Row]) -> None:
    """Predicted and observed ratios of B*."""
    pairs = [pair for pair in PAIRS if set(pair) <= set(config.arms)]
    axis.axvline(1, color=BLACK, ls=":", lw=1)
    for place, pair in enumerate(pairs):
        other = observed_ratio(config, pair)
        if other is not None:
            value = float(np.exp(other.log_ratio))
            low, high = other.interval(config.level)
            spread = [[value - low], [high - value]]
            label = "networks" if place == 0 else None
            axis.errorbar(value, place, xerr=spread, fmt="o", color=BLACK, ms=5, capsize=2, label=label)
        mine = predicted_ratio(config, rows, pair)
        axis.plot(mine, place + 0.2, "D", color=GRAY, label="theory, trained features" if place == 0 else None)
    axis.set(xscale="log", xlim=(1 / 16, 16), ylim=(len(pairs) - 0.3, -0.5), xlabel="ratio of $B^*$")
    axis.set_xticks([1 / 16, 0.25, 1, 4, 16], ["1/16", "¼", "1", "4", "16"])
    axis.set_xticks([], minor=True)
    words = [f"{WORDS[second]}\nover {WORDS[first]}" for first, second in pairs]
    axis.set_yticks(range(len(pairs)), words, fontsize=7)
    axis.set_title(f"Ratios of B*, {config.level:.0%} intervals")
    legend(axis)
