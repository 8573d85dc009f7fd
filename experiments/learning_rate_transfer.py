"""Does the best learning rate stay the same under µP as the width grows?"""

import time
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.answers import inside
from experiments._lib.progress import stage, tracked
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import (
    GRAY,
    MARKERS,
    STAR,
    categories,
    colors,
    legend,
    log_axes,
    new_figure,
    range_text,
    tick_measured,
)
from sgdtheory.training import Cosine, Teacher, TrainConfig, train_many

NAMES = {"mup": "µP", "standard": "standard"}


@dataclass(frozen=True)
class Config:
    """Learning rates of Adam, decaying as a cosine; a seed has the same data at all widths and rates."""

    widths: tuple[int, ...] = (32, 64, 128, 256)
    base_width: int = 32
    log2_rates: tuple[float, ...] = (-10, -9, -8, -7, -6, -5, -4)
    num_seeds: int = 4
    num_steps: int = 256
    batch_size: int = 32
    noise_variance: float = 0.1
    holdout_size: int = 256
    neighbours: int = 2  # grid points on each side of the lowest that the parabola goes through
    tolerance: float = 0.2  # of the slope: between perfect transfer, 0, and −1 (standard, whose features move like wγ)
    num_resamples: int = 2000
    level: float = 0.95
    resampling_seed: int = 0


SCALES = {
    "quick": Config(),
    "full": Config(
        widths=(32, 64, 128, 256, 512, 1024),
        log2_rates=tuple(-11 + 0.5 * index for index in range(17)),
        num_seeds=8,
        num_steps=512,
        holdout_size=1024,
        neighbours=4,
    ),
}
UNITS = {
    "mup": "1 under µP, 0 in standard parametrization",
    "width": "w, units of a hidden layer",
    "learning_rate": "γ of Adam, at the base width",
    "seed": "seed of the initial weights and of the data",
    "loss": "loss on the hold-out after the last step, units of the teacher's variance; nan if the run diverged",
    "optimum": "best γ of this width, from a parabola in logs; nan if it lies at an end of the grid",
    "optimum_low": "lower end of its interval",
    "optimum_high": "upper end of its interval",
}


@dataclass(frozen=True)
class Optima:
    """log₂ of the best rate of every width (W,), resampled (K, W), and the slope on log₂ w with its interval."""

    best: np.ndarray
    resampled: np.ndarray
    interval: tuple[np.ndarray, np.ndarray]
    slope: float
    slope_interval: tuple[float, float]
    unresolved: int


def run(config: Config) -> Result:
    """Sweep the learning rate at every width, find the optima, and fit how they move."""
    start = time.perf_counter()
    losses = {}
    for place, name in enumerate(NAMES):
        with stage(f"training, {NAMES[name]}", place / len(NAMES), (place + 1) / len(NAMES)):
            widths = tracked(config.widths, config.widths)
            losses[name] = np.stack([_train(config, name, width) for width in widths])
    optima = {name: _optima(config, values) for name, values in losses.items()}
    verdicts = _verdicts(config, losses, optima, time.perf_counter() - start)
    figure = _figure(config, losses, optima)
    return Result(_points(config, losses, optima), UNITS, {"learning_rate_transfer": figure}, verdicts)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure, from a recorded table."""
    losses = _recorded_losses(config, recorded)
    optima = {name: _optima(config, values) for name, values in losses.items()}
    return {"learning_rate_transfer": _figure(config, losses, optima)}


def judged(config: Config, recorded: Recorded) -> tuple[Verdict, ...]:
    """The verdicts on a recorded table."""
    losses = _recorded_losses(config, recorded)
    return _verdicts(config, losses, {name: _optima(config, values) for name, values in losses.items()}, 0.0)


def _recorded_losses(config: Config, recorded: Recorded) -> dict[str, np.ndarray]:
    """(W, L, S) losses of both parametrizations, from the table that `run` wrote."""
    shape = len(NAMES), len(config.widths), len(config.log2_rates), config.num_seeds
    return dict(zip(NAMES, recorded.columns["loss"].reshape(shape), strict=True))


def _train(config: Config, name: str, width: int) -> np.ndarray:
    """(L, S) last losses of one width at all learning rates and seeds, nan where a run diverged."""
    configs = [
        TrainConfig(
            width=width,
            base_width=config.base_width,
            parametrization=name,
            learning_rate=2.0**exponent,
            batch_size=config.batch_size,
            schedule=Cosine(),
            max_steps=config.num_steps,
            eval_every=config.num_steps,
            data=Teacher(noise_variance=config.noise_variance),
            holdout_size=config.holdout_size,
            averages=(),
            seed=seed,
            data_seed=seed,
        )
        for exponent in config.log2_rates
        for seed in range(config.num_seeds)
    ]
    last = [np.nan if result.diverged else result.curve()[-1] for result in train_many(configs)]
    return np.reshape(last, (len(config.log2_rates), config.num_seeds))


def _best(config: Config, log_loss: np.ndarray) -> float:
    """log₂ of the best rate: vertex of a parabola through the lowest of (L,) log losses and its neighbours."""
    known = np.where(np.isfinite(log_loss), log_loss, np.inf)
    lowest = int(known.argmin())
    if lowest in (0, len(known) - 1):
        return np.nan
    near = slice(max(0, lowest - config.neighbours), lowest + config.neighbours + 1)
    rate, value = np.asarray(config.log2_rates)[near], known[near]
    rate, value = rate[np.isfinite(value)], value[np.isfinite(value)]
    if rate.size < 3:
        return np.nan
    curvature, linear, _ = np.polyfit(rate, value, 2)
    vertex = -linear / (2 * curvature)
    return float(vertex) if curvature > 0 and rate[0] <= vertex <= rate[-1] else np.nan


def _optima(config: Config, losses: np.ndarray) -> Optima:
    """Optima of losses (W, L, S), with intervals from resampled seeds, those of each width by themselves."""
    log_loss, log2_width = np.log(losses), np.log2(config.widths)
    rng = np.random.default_rng(config.resampling_seed)
    draws = rng.integers(config.num_seeds, size=(config.num_resamples, len(config.widths), config.num_seeds))

    def found(seeds: np.ndarray) -> list[float]:
        return [_best(config, own[:, draw].mean(axis=1)) for own, draw in zip(log_loss, seeds, strict=True)]

    def slope(optima: np.ndarray) -> float:
        known = np.isfinite(optima)
        return float(np.polyfit(log2_width[known], optima[known], 1)[0]) if known.sum() > 2 else np.nan

    best = np.array(found(np.tile(np.arange(config.num_seeds), (len(config.widths), 1))))
    resampled = np.array([found(draw) for draw in draws])
    tails = (1 - config.level) / 2, (1 + config.level) / 2
    low, high = np.nanquantile(resampled, tails, axis=0)
    slope_low, slope_high = np.nanquantile([slope(row) for row in resampled], tails)
    interval = float(slope_low), float(slope_high)
    return Optima(best, resampled, (low, high), slope(best), interval, int(np.isnan(best).sum()))


def _points(config: Config, losses: dict[str, np.ndarray], optima: dict[str, Optima]) -> dict[str, np.ndarray]:
    shape = len(NAMES), len(config.widths), len(config.log2_rates), config.num_seeds

    def spread(values: list, axis: int) -> np.ndarray:
        return np.broadcast_to(np.expand_dims(np.array(values, float), [a for a in range(4) if a != axis]), shape)

    def of_width(values: list[np.ndarray]) -> np.ndarray:
        return np.broadcast_to(np.stack(values)[..., None, None], shape)

    columns = {
        "mup": spread([name == "mup" for name in NAMES], 0),
        "width": spread(list(config.widths), 1),
        "learning_rate": 2.0 ** spread(list(config.log2_rates), 2),
        "seed": spread(list(range(config.num_seeds)), 3),
        "loss": np.stack([losses[name] for name in NAMES]),
        "optimum": 2.0 ** of_width([optima[name].best for name in NAMES]),
        "optimum_low": 2.0 ** of_width([optima[name].interval[0] for name in NAMES]),
        "optimum_high": 2.0 ** of_width([optima[name].interval[1] for name in NAMES]),
    }
    return {name: values.ravel() for name, values in columns.items()}


def _verdicts(
    config: Config, losses: dict[str, np.ndarray], optima: dict[str, Optima], seconds: float
) -> tuple[Verdict, ...]:
    mup, standard, tolerance = optima["mup"], optima["standard"], config.tolerance
    widths = f"w = {config.widths[0]} … {config.widths[-1]}"
    what = f"Exponent of w in the best learning rate (parabola in logarithms, {config.num_seeds} seeds) for {widths}"
    shifts = {name: 2.0 ** (found.best[-1] - found.best[0]) for name, found in optima.items()}
    cost = {name: _cost(losses[name]) for name in NAMES}
    ends = "{} of " + f"{len(config.widths)} optima lie at an end of the grid"
    return (
        Verdict(
            "learning rate transfers under µP",
            f"{what}. From the narrowest to the widest network the best learning rate changes by a factor of "
            f"{shifts['mup']:.2f}. With that of the narrowest network the loss of the widest is {cost['mup']:.1%} "
            f"higher. {ends.format(mup.unresolved)}",
            f"0 within ±{tolerance:g}",
            mup.slope,
            mup.slope_interval,
            inside(mup.slope_interval, -tolerance, tolerance),
            seconds,
        ),
        Verdict(
            "in standard parametrization it falls",
            f"{what}. From the narrowest to the widest network the best learning rate changes by a factor of "
            f"{shifts['standard']:.2f}. With that of the narrowest network the loss of the widest is "
            f"{cost['standard']:.1%} higher. With the exponent −1 Adam changes the features by the same amount at "
            f"every width. {ends.format(standard.unresolved)}",
            f"below −{tolerance:g}",
            standard.slope,
            standard.slope_interval,
            inside(standard.slope_interval, -np.inf, -tolerance),
        ),
    )


def _cost(losses: np.ndarray) -> float:
    """Return the relative cost, to the widest network, of the narrowest one's best grid point."""
    mean = np.where(np.isfinite(losses), losses, np.inf).mean(axis=-1)
    return float(mean[-1][mean[0].argmin()] / mean[-1].min() - 1)


def _figure(config: Config, losses: dict[str, np.ndarray], optima: dict[str, Optima]) -> Figure:
    figure, axes = new_figure(1, 3, width=3.9, height=3.9)
    axes[0, 1].sharey(axes[0, 0])
    figure.suptitle(
        f"Does the best learning rate change with the width? Adam, cosine, {config.num_steps} steps of "
        f"{config.batch_size} samples, {config.num_seeds} seeds"
    )
    for axis, name in zip(axes[0], NAMES, strict=False):
        axis.set_title(f"{NAMES[name]}: best $\\gamma \\propto w^{{{optima[name].slope:.2f}}}$")
        _sweeps(config, axis, losses[name], optima[name])
    axes[0, 0].set_ylabel("last hold-out loss (teacher's variance)")
    axes[0, 2].set_title("Best learning rates against the width")
    _moves(config, axes[0, 2], optima)
    legend(axes[0, 0], title="width $w$", ncols=2)
    return figure


def _sweeps(config: Config, axis: Axes, losses: np.ndarray, optima: Optima) -> None:
    rate = 2.0 ** np.asarray(config.log2_rates)
    low, high = (2.0**end for end in optima.interval)
    for index, color in enumerate(colors(len(config.widths))):
        mean = np.exp(np.log(losses[index]).mean(axis=-1))
        marker = MARKERS[index % len(MARKERS)]
        axis.plot(rate, mean, marker=marker, ms=3.5, color=color, label=f"{config.widths[index]}")
        best = 2.0 ** optima.best[index]
        level = np.interp(np.log(best), np.log(rate), mean)
        axis.plot([low[index], high[index]], [level, level], color=color, lw=3, alpha=0.5)
        axis.plot(best, level, color=color, **STAR)
    axis.plot([], [], color="white", label=f"best $\\gamma$\n(bar: {config.level:.0%})", **STAR)
    axis.set(xlabel=r"learning rate $\gamma$ (at the base width)")
    log_axes(axis, "y")
    axis.set_xscale("log", base=2)


def _moves(config: Config, axis: Axes, optima: dict[str, Optima]) -> None:
    width = np.array(config.widths, float)
    for (name, found), look in zip(optima.items(), categories(2), strict=True):
        best, low, high = 2.0**found.best, 2.0 ** found.interval[0], 2.0 ** found.interval[1]
        bars = np.maximum([best - low, high - best], 0)
        label = f"{NAMES[name]}: slope {range_text(found.slope_interval, found.slope)}"
        axis.errorbar(width, best, yerr=bars, color=look["color"], fmt=look["marker"], ms=4, capsize=2, label=label)
        center = np.exp(np.nanmean(np.log(best)) - found.slope * np.mean(np.log(width[np.isfinite(best)])))
        axis.plot(width, center * width**found.slope, color=look["color"])
    anchor = 2.0 ** optima["mup"].best[0]
    axis.plot(width, anchor * width[0] / width, ":", color=GRAY, lw=1, label="$w^{-1}$")
    axis.set(xlabel="width $w$", ylabel=r"best learning rate $\gamma$ (at the base width)")
    log_axes(axis, "x")
    axis.set_yscale("log", base=2)
    tick_measured(axis, width)
    legend(axis, corners=("lower left", "upper right"))
