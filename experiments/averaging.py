"""Do averages of a run with constant learning rate match schedules that decay, at the same number of steps?"""

import time
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.progress import tracked
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict, VerdictName
from sgdtheory._common.files import csv_number
from sgdtheory.plotting.style import (
    BLACK,
    BLUE,
    GRAY,
    GREEN,
    MARKERS,
    ORANGE,
    STAR,
    VERMILLION,
    colors,
    legend,
    log_axes,
    new_figure,
    tick_measured,
)
from sgdtheory.training import WSD, Constant, Cosine, ScheduleFree, Teacher, TrainConfig, train_many

SCHEDULES = {"constant": Constant(), "schedule_free": ScheduleFree(), "cosine": Cosine(), "wsd": WSD()}
ANYTIME = "constant", "schedule_free"  # one run serves every duration
DECAYING = "cosine", "wsd"
METHODS = {
    "constant": ("constant, last iterate", GRAY),
    "ewa": ("constant + EWA", BLUE),
    "cosine": ("cosine", VERMILLION),
    "wsd": ("WSD", ORANGE),
    "schedule_free": ("schedule-free", GREEN),
}


@dataclass(frozen=True)
class Config:
    """Durations, learning rates and decay rates τ of the averages; each method has its best of them."""

    width: int = 64
    durations: tuple[int, ...] = (64, 128, 256, 512)  # powers of two: every run is evaluated at them
    log2_rates: tuple[float, ...] = (-10, -9, -8, -7, -6)
    decays: tuple[float, ...] = (0.8, 0.9, 0.95, 0.975, 0.9875, 0.99375, 0.996875)  # 1 − τ halves from 0.2 on
    num_seeds: int = 6
    batch_size: int = 32
    noise_variance: float = 1.0
    holdout_size: int = 512
    matches: float = 1.05  # up to this ratio of losses "matches" a decaying schedule
    num_resamples: int = 1000
    level: float = 0.95
    resampling_seed: int = 0


SCALES = {
    "quick": Config(),
    "full": Config(
        width=256,
        durations=(128, 256, 512, 1024, 2048, 4096),
        log2_rates=(-12, -11, -10.5, -10, -9.5, -9, -8.5, -8, -7.5, -7, -6.5, -6),
        decays=(0.8, 0.9, 0.95, 0.975, 0.9875, 0.99375, 0.996875, 0.9984375, 0.99921875),
        num_seeds=12,
        holdout_size=1024,
    ),
}
UNITS = {
    "method": "schedule; ewa is the average of the constant one's iterates",
    "duration": "n, steps",
    "decay": "τ of the average; nan without one",
    "learning_rate": "γ of Adam",
    "seed": "seed of the initial weights and of the data",
    "loss": "hold-out loss after n steps (no label noise in it), units of the teacher's variance; inf if it diverged",
}


def run(config: Config) -> Result:
    """Train with every schedule, and tune learning rate and τ for each duration."""
    start = time.perf_counter()
    longest = [max(config.durations)] * len(ANYTIME) + [sum(config.durations)] * len(DECAYING)
    methods = tracked((*ANYTIME, *DECAYING), longest)
    losses = {name: _anytime(config, name) if name in ANYTIME else _decaying(config, name) for name in methods}
    losses["ewa"], losses["constant"] = losses["constant"][:, 1:], losses["constant"][:, :1]
    losses = {name: losses[name] for name in METHODS}
    resampled = _resampled(config, losses)
    verdicts = _verdicts(config, losses, resampled, time.perf_counter() - start)
    return Result(_points(config, losses), UNITS, {"averaging": _figure(config, losses, resampled)}, verdicts)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure, from a recorded table."""
    losses = _recorded_losses(config, recorded)
    return {"averaging": _figure(config, losses, _resampled(config, losses))}


def judged(config: Config, recorded: Recorded) -> tuple[Verdict, ...]:
    """The verdicts on a recorded table."""
    losses = _recorded_losses(config, recorded)
    return _verdicts(config, losses, _resampled(config, losses), 0.0)


def _recorded_losses(config: Config, recorded: Recorded) -> dict[str, np.ndarray]:
    """(N, K, L, S) losses by method, K averages of ewa and else one, from the table that `run` wrote."""
    losses = {}
    for method in METHODS:
        own = [csv_number(row["loss"]) for row in recorded.rows if row["method"] == method]
        losses[method] = np.reshape(own, (len(config.durations), -1, len(config.log2_rates), config.num_seeds))
    return losses


def _configs(config: Config, schedule: str, steps: int) -> list[TrainConfig]:
    return [
        TrainConfig(
            width=config.width,
            base_width=config.width,
            schedule=SCHEDULES[schedule],
            learning_rate=2.0**exponent,
            batch_size=config.batch_size,
            max_steps=steps,
            eval_every=steps,
            data=Teacher(noise_variance=config.noise_variance),
            holdout_size=config.holdout_size,
            averages=config.decays if schedule == "constant" else (),
            seed=seed,
            data_seed=seed,
        )
        for exponent in config.log2_rates
        for seed in range(config.num_seeds)
    ]


def _anytime(config: Config, schedule: str) -> np.ndarray:
    """(N, 1 + K, L, S) losses at every duration of runs that know of none: of the iterate and its averages."""
    results = train_many(_configs(config, schedule, max(config.durations)))
    losses = np.full((len(config.durations), len(results[0].names), len(results)), np.inf)
    for run, result in enumerate(results):
        for row, steps in enumerate(config.durations):
            at = np.flatnonzero(result.steps == steps)
            if at.size and (steps < result.steps[-1] or not result.diverged):
                losses[row, :, run] = result.losses[at[0]]
    return _by_rate_and_seed(config, losses)


def _decaying(config: Config, schedule: str) -> np.ndarray:
    """(N, 1, L, S) losses at the end of runs of every duration."""
    durations = tracked(config.durations, config.durations)
    rows = [train_many(_configs(config, schedule, steps)) for steps in durations]
    losses = [[[np.inf if result.diverged else result.losses[-1, 0] for result in row]] for row in rows]
    return _by_rate_and_seed(config, np.array(losses))


def _by_rate_and_seed(config: Config, losses: np.ndarray) -> np.ndarray:
    found = np.where(np.isfinite(losses), losses, np.inf)
    return found.reshape(*losses.shape[:2], len(config.log2_rates), config.num_seeds)


@dataclass(frozen=True)
class Tuned:
    """Best seed-mean losses by method (N,), and EWA's best 1 − τ (N,), for one set of seeds."""

    losses: dict[str, np.ndarray]
    forgetting: np.ndarray

    @property
    def ratio(self) -> np.ndarray:
        """EWA over the better of the decaying schedules."""
        return self.losses["ewa"] / np.min([self.losses[name] for name in DECAYING], axis=0)

    @property
    def gain(self) -> np.ndarray:
        """EWA over the last iterate."""
        return self.losses["ewa"] / self.losses["constant"]


def _tuned(config: Config, losses: dict[str, np.ndarray], seeds: np.ndarray) -> Tuned:
    means = {name: values[..., seeds].mean(axis=-1) for name, values in losses.items()}
    best = {name: values.min(axis=(1, 2)) for name, values in means.items()}
    decay = np.array(config.decays)[means["ewa"].min(axis=2).argmin(axis=1)]
    return Tuned(best, 1 - decay)


def _resampled(config: Config, losses: dict[str, np.ndarray]) -> list[Tuned]:
    """Tuning repeated on resampled seeds; the first has all of them, once."""
    rng = np.random.default_rng(config.resampling_seed)
    draws = rng.integers(config.num_seeds, size=(config.num_resamples, config.num_seeds))
    return [_tuned(config, losses, seeds) for seeds in (np.arange(config.num_seeds), *draws)]


def _growth(config: Config, tuned: Tuned) -> float:
    """Exponent of n in the best 1/(1 − τ)."""
    return -float(np.polyfit(np.log(config.durations), np.log(tuned.forgetting), 1)[0])


def _interval(config: Config, values: list) -> tuple[np.ndarray, np.ndarray]:
    """Ends over the resampled (without the first, which is the measurement itself)."""
    low, high = np.quantile(values[1:], [(1 - config.level) / 2, (1 + config.level) / 2], axis=0)
    return low, high


def _points(config: Config, losses: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    rows = {name: [] for name in UNITS}
    for method, values in losses.items():
        decays = config.decays if method == "ewa" else (np.nan,)
        axes = np.array(config.durations), np.array(decays), 2.0 ** np.array(config.log2_rates)
        grids = np.meshgrid(*axes, np.arange(config.num_seeds), indexing="ij")
        columns = (np.full(values.size, method), *grids, values)
        for name, column in zip(UNITS, columns, strict=True):
            rows[name].append(np.ravel(column))
    return {name: np.concatenate(parts) for name, parts in rows.items()}


def _verdicts(config: Config, losses: dict, resampled: list[Tuned], seconds: float) -> tuple[Verdict, ...]:
    def geometric(ratios: list[np.ndarray]) -> tuple[float, tuple[float, float]]:
        means = [float(np.exp(np.log(ratio).mean())) for ratio in ratios]
        low, high = _interval(config, means)
        return means[0], (float(low), float(high))

    ratio, ratio_interval = geometric([tuned.ratio for tuned in resampled])
    gain, gain_interval = geometric([tuned.gain for tuned in resampled])
    growths = [_growth(config, tuned) for tuned in resampled]
    low, high = (float(end) for end in _interval(config, growths))
    durations = f"n = {config.durations[0]} … {config.durations[-1]}"
    free = float(np.exp(np.log(resampled[0].losses["ewa"] / resampled[0].losses["schedule_free"]).mean()))
    each = ", ".join(f"{value:.2f}" for value in resampled[0].ratio)
    decays = ", ".join(f"{value:.3g}" for value in resampled[0].forgetting)
    tuning = f"γ and τ are tuned for each n, with {config.num_seeds} seeds"
    return (
        Verdict(
            "constant learning rate + EWA matches decaying schedules",
            f"Excess risk of EWA divided by that of the better of cosine and WSD: geometric mean over {durations} "
            f"({each}). Divided by that of schedule-free it is {free:.2f}. {tuning}; {_rate_edges(losses)}",
            f"at most {config.matches:g}",
            ratio,
            ratio_interval,
            _below(ratio_interval, config.matches),
            seconds,
        ),
        Verdict(
            "EWA beats the last iterate of a constant schedule, each at its best γ",
            f"Excess risk of EWA divided by that of the constant schedule's last iterate at its own best γ: geometric "
            f"mean over {durations}",
            "below 1",
            gain,
            gain_interval,
            _below(gain_interval, 1.0),
        ),
        Verdict(
            "the best τ grows with the duration",
            f"Exponent of n in the best 1/(1 − τ) for {durations}. The best 1 − τ are {decays}; "
            f"{_edges(config, resampled[0])}",
            "above 0",
            growths[0],
            (low, high),
            _below((-high, -low), 0.0),
        ),
    )


def _below(interval: tuple[float, float], limit: float) -> VerdictName:
    """Judge whether an interval lies below a limit: it does, it lies above, or it contains the limit."""
    return "holds" if interval[1] < limit else "fails" if interval[0] > limit else "inconclusive"


def _rate_edges(losses: dict[str, np.ndarray]) -> str:
    """Say how many of the best learning rates, over methods and durations, have no neighbour on one side."""
    best = np.array([values.mean(axis=-1).min(axis=1).argmin(axis=-1) for values in losses.values()])
    ends = (best == 0) | (best == losses["ewa"].shape[2] - 1)
    return f"{ends.sum()} of {ends.size} best γ at an end of the grid"


def _edges(config: Config, tuned: Tuned) -> str:
    ends = np.isclose(1 - tuned.forgetting, config.decays[0]) | np.isclose(1 - tuned.forgetting, config.decays[-1])
    return f"{ends.sum()} of {ends.size} at an end of the grid"


def _figure(config: Config, losses: dict, resampled: list[Tuned]) -> Figure:
    figure, axes = new_figure(1, 3, width=3.9, height=3.9)
    figure.suptitle(
        f"MLP of width {config.width} on a noisy teacher ($\\sigma^2 = {config.noise_variance:g}$), Adam, "
        f"$B = {config.batch_size}$; every method with its best learning rate, {config.num_seeds} seeds"
    )
    ratio = np.exp(np.log(resampled[0].ratio).mean())
    axes[0, 0].set_title(f"EWA has {ratio:.2f} times the risk of the best decaying schedule")
    axes[0, 1].set_title("Risk against the decay of EWA")
    axes[0, 2].set_title(f"Best $1 - \\tau \\propto n^{{{-_growth(config, resampled[0]):.2f}}}$")
    _budgets(config, axes[0, 0], resampled)
    _decay_curves(config, axes[0, 1], losses)
    _best_decay(config, axes[0, 2], resampled)
    return figure


def _budgets(config: Config, axis: Axes, resampled: list[Tuned]) -> None:
    steps = np.array(config.durations)
    for marker, (method, (label, color)) in zip(MARKERS, METHODS.items(), strict=False):
        values = [tuned.losses[method] for tuned in resampled]
        axis.plot(steps, values[0], marker=marker, ms=4, color=color, label=label)
        axis.fill_between(steps, *_interval(config, values), color=color, alpha=0.15, lw=0)
    axis.set(xlabel="duration $n$ (steps)", ylabel="excess risk (teacher's variance)")
    log_axes(axis)
    tick_measured(axis, steps)
    legend(axis, corners=("lower left", "upper right"), title=f"bands: {config.level:.0%}")


def _decay_curves(config: Config, axis: Axes, losses: dict) -> None:
    forgetting = 1 - np.array(config.decays)
    looks = zip(config.durations, colors(len(config.durations)), MARKERS * len(config.durations), strict=False)
    for row, (steps, color, marker) in enumerate(looks):
        means = losses["ewa"][row].mean(axis=-1).min(axis=-1)
        axis.plot(forgetting, means, marker=marker, ms=4, color=color, label=f"$n = {steps}$")
        axis.plot(forgetting[means.argmin()], means.min(), color=color, **STAR)
    axis.plot([], [], color="white", label="the best $\\tau$ of each $n$", **STAR)
    axis.set(xlabel=r"decay $1 - \tau$", ylabel="excess risk of EWA, best $\\gamma$ (teacher's variance)")
    log_axes(axis)
    legend(axis)


def _best_decay(config: Config, axis: Axes, resampled: list[Tuned]) -> None:
    steps, best = np.array(config.durations, float), resampled[0].forgetting
    low, high = _interval(config, [tuned.forgetting for tuned in resampled])
    bars = np.maximum([best - low, high - best], 0)
    growth = _growth(config, resampled[0])
    center = np.exp(np.log(best).mean() + growth * np.log(steps).mean())
    label = f"the best $\\tau$, {config.level:.0%}"
    axis.errorbar(steps, best, yerr=bars, fmt="*", ms=11, color=BLUE, mec=BLACK, mew=0.6, capsize=3, label=label)
    axis.plot(steps, center * steps**-growth, color=BLUE, label="fitted power")
    axis.plot(steps, best[0] * steps[0] / steps, "--", color=BLACK, lw=1, label="$n^{-1}$: a fixed fraction of the run")
    axis.set(xlabel="duration $n$ (steps)", ylabel=r"best $1 - \tau$")
    log_axes(axis)
    tick_measured(axis, steps)
    legend(axis)
