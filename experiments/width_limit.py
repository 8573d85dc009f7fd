"""Does the loss of a network converge as its width grows, under µP and in standard parametrization (Theorem 4)?"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.progress import report
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict, VerdictName
from sgdtheory.plotting.style import (
    GRAY,
    categories,
    colors,
    legend,
    log_axes,
    new_figure,
    range_text,
    tick_measured,
)
from sgdtheory.training import Teacher, TrainConfig, TrainResult, train_many

NAMES = {"mup": "µP", "standard": "standard"}


@dataclass(frozen=True)
class Config:
    """Networks of all widths on the same data in the same order; only the initial weights differ between seeds."""

    widths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    base_width: int = 32
    num_seeds: int = 6
    num_steps: int = 128
    batch_size: int = 32
    learning_rate: float = 2**-7  # of Adam; near the best at the base width
    noise_variance: float = 0.1
    holdout_size: int = 256
    eval_every: int = 32
    settled: float = 0.5  # share of training from which on differences enter the fit
    num_resamples: int = 2000
    level: float = 0.95
    resampling_seed: int = 0


SCALES = {
    "quick": Config(),
    "full": Config(widths=(32, 64, 128, 256, 512, 1024, 2048), num_seeds=16, num_steps=512, holdout_size=1024),
}
UNITS = {
    "mup": "1 under µP, 0 in standard parametrization",
    "width": "w, units of a hidden layer",
    "seed": "seed of the initial weights",
    "step": "t, steps",
    "loss": "R_w(t), squared error on the hold-out, units of the teacher's variance; nan from divergence on",
    "difference": "root mean square of R_w(t) − R_2w(t) over all pairs of seeds; nan at the largest width",
    "spread": "standard deviation of R_w(t) over seeds",
}


def run(config: Config) -> Result:
    """Train every width in both parametrizations and fit the rate at which neighbouring widths approach."""
    start = time.perf_counter()
    results = _train(config)
    return result_of(config, results, time.perf_counter() - start)


def result_of(config: Config, results: Sequence[TrainResult], seconds: float) -> Result:
    """Table, figures and verdicts of the runs of `configs_of`, in its order, which took so many seconds."""
    steps, losses = _losses(config, results)
    settled = np.asarray(steps >= config.settled * config.num_steps)
    fits = {name: _fit(config, curves[..., settled]) for name, curves in losses.items()}
    points = _points(config, steps, losses)
    return Result(points, UNITS, figures(config, points), _verdicts(config, losses, fits, settled, seconds))


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figures, from a recorded table."""
    return figures(config, recorded.columns)


def configs_of(config: Config) -> list[TrainConfig]:
    """The runs: seeds of both parametrizations of every width, the largest first."""
    return [
        TrainConfig(
            width=width,
            base_width=config.base_width,
            parametrization=name,
            learning_rate=config.learning_rate,
            batch_size=config.batch_size,
            max_steps=config.num_steps,
            eval_every=config.eval_every,
            data=Teacher(noise_variance=config.noise_variance),
            holdout_size=config.holdout_size,
            averages=(),
            seed=seed,
        )
        for width in reversed(config.widths)  # what takes longest first
        for name in NAMES
        for seed in range(config.num_seeds)
    ]


def _train(config: Config) -> list[TrainResult]:
    """The runs' results."""
    work = {(name, width): width / len(NAMES) / sum(config.widths) for name in NAMES for width in config.widths}
    done = dict.fromkeys(work, 0.0)

    def tell(group: Any) -> None:
        runs = group.runs[0].config
        done[runs.parametrization, runs.width] = group.step / config.num_steps
        report(sum(work[key] * share for key, share in done.items()))

    return train_many(configs_of(config), progress=tell)


def _losses(config: Config, results: Sequence[TrainResult]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Evaluated steps (E,) and by parametrization losses (W, S, E), nan where a run had diverged."""
    steps = max((result.steps for result in results), key=len)
    losses = np.full((len(results), len(steps)), np.nan)
    for row, result in zip(losses, results, strict=True):
        row[: len(result.steps)] = np.where(np.isfinite(result.curve()), result.curve(), np.nan)
    by_width = losses.reshape(len(config.widths), len(NAMES), config.num_seeds, -1)[::-1]
    return steps, {name: by_width[:, place] for place, name in enumerate(NAMES)}


def _differences(losses: np.ndarray) -> np.ndarray:
    """(W − 1, E) root mean square of R_w(t) − R_2w(t) over all pairs of seeds, of losses (W, S, E)."""
    gaps = losses[:-1, :, None] - losses[1:, None]
    return np.sqrt(np.mean(gaps**2, axis=(1, 2)))


@dataclass(frozen=True)
class Fit:
    """|R_w − R_2w| over the second part of training, w^rate fitted to it, and the rate's interval."""

    differences: np.ndarray
    rate: float
    interval: tuple[float, float]
    constant: float


def _fit(config: Config, losses: np.ndarray) -> Fit:
    """Slope of log |R_w − R_2w| on log w; its interval from resampled seeds, those of each width by themselves."""
    log_width = np.log(config.widths[:-1])

    def fitted(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        differences = np.sqrt(np.mean(_differences(curves) ** 2, axis=1))
        found = np.isfinite(differences)
        return differences, np.polyfit(log_width[found], np.log(differences[found]), 1) if found.sum() > 1 else nothing

    nothing = np.full(2, np.nan)
    rng = np.random.default_rng(config.resampling_seed)
    widths, seeds, _ = losses.shape
    draws = rng.integers(seeds, size=(config.num_resamples, widths, seeds))
    rates = [fitted(np.take_along_axis(losses, draw[..., None], axis=1))[1][0] for draw in draws]
    tail = (1 - config.level) / 2
    low, high = np.quantile(rates, [tail, 1 - tail])
    differences, (rate, constant) = fitted(losses)
    return Fit(differences, float(rate), (float(low), float(high)), float(constant))


def _points(config: Config, steps: np.ndarray, losses: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    rows = []
    for name, curves in losses.items():
        differences = np.vstack([_differences(curves), np.full(steps.size, np.nan)])
        spread = curves.std(axis=1, ddof=1)
        for index, width in enumerate(config.widths):
            for seed in range(config.num_seeds):
                row = {"mup": float(name == "mup"), "width": width, "seed": seed, "step": steps}
                row |= {"loss": curves[index, seed], "difference": differences[index], "spread": spread[index]}
                rows.append({key: np.broadcast_to(np.asarray(v, float), steps.shape) for key, v in row.items()})
    return {key: np.concatenate([row[key] for row in rows]) for key in UNITS}


def _verdicts(
    config: Config, losses: dict, fits: dict[str, Fit], settled: np.ndarray, seconds: float
) -> tuple[Verdict, ...]:
    mup, standard = fits["mup"], fits["standard"]
    diverged = int(np.isnan(losses["standard"]).any(axis=-1).sum())
    pair = f"|R_w − R_2w| (root mean square over pairs of seeds, t ≥ {config.settled:g} of training)"
    spread = np.sqrt(np.mean(losses["mup"][..., settled].var(axis=1, ddof=1), axis=-1))
    fluctuation = np.polyfit(np.log(config.widths), np.log(spread), 1)[0]
    gap = np.sqrt(np.mean(np.diff(losses["mup"][..., settled].mean(axis=1), axis=0) ** 2, axis=-1))
    widths = f"w = {config.widths[0]} … {config.widths[-2]}"
    share = mup.differences[-1] / losses["mup"][-1][:, settled].mean()
    last = f"|R_{config.widths[-2]} − R_{config.widths[-1]}|"
    apart = standard.interval[0] - mup.interval[1], standard.interval[1] - mup.interval[0]
    return (
        Verdict(
            "Theorem 4: under µP the loss converges in the width",
            f"exponent of w in {pair}, {widths}; the spread over seeds falls with exponent {fluctuation:.2f} "
            f"(−1/2 is expected of fluctuations), the means differ by {gap[0]:.2g} at first and {gap[-1]:.2g} at last; "
            f"{last} is {share:.1%} of the loss",
            "below 0",
            mup.rate,
            mup.interval,
            _sign(mup.interval, below=True),
            seconds,
        ),
        Verdict(
            "in standard parametrization it does not",
            f"exponent of w in the same {pair}; {diverged} of {losses['standard'].shape[0] * config.num_seeds} runs "
            f"diverged; {last} is {standard.differences[-1] / mup.differences[-1]:.1f} times that under µP",
            "above 0",
            standard.rate,
            standard.interval,
            "holds" if diverged else _sign(standard.interval, below=False),
        ),
        Verdict(
            "widths approach each other faster under µP than in standard parametrization",
            f"the second exponent less the first, ends from the ends of their {config.level:.0%} intervals",
            "above 0",
            standard.rate - mup.rate,
            apart,
            "holds" if diverged else _sign(apart, below=False),
        ),
    )


def _sign(interval: tuple[float, float], below: bool) -> VerdictName:
    """Judge whether an interval lies below 0 (or above): it does, it lies on the other side, or it contains 0."""
    low, high = interval if below else (-interval[1], -interval[0])
    return "holds" if high < 0 else "fails" if low > 0 else "inconclusive"


def figures(config: Config, columns: dict[str, np.ndarray]) -> dict[str, Figure]:
    """The figure, from the columns of the table that `run` wrote."""
    steps, losses, settled = _curves_of(config, columns)
    fits = {name: _fit(config, curves[..., settled]) for name, curves in losses.items()}
    return {"width_limit": _figure(config, steps, losses, fits, settled)}


def judged(config: Config, recorded: Recorded) -> tuple[Verdict, ...]:
    """The verdicts on a recorded table."""
    _, losses, settled = _curves_of(config, recorded.columns)
    fits = {name: _fit(config, curves[..., settled]) for name, curves in losses.items()}
    return _verdicts(config, losses, fits, settled, 0.0)


def _curves_of(config: Config, columns: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Steps (E,), losses by parametrization (W, S, E), and which steps enter the fit, from the columns of the table."""
    shape = (2, len(config.widths), config.num_seeds, -1)
    steps = np.asarray(columns["step"], float).reshape(shape)[0, 0, 0]
    losses = dict(zip(NAMES, np.asarray(columns["loss"], float).reshape(shape), strict=True))
    return steps, losses, steps >= config.settled * config.num_steps


def _figure(config: Config, steps: np.ndarray, losses: dict, fits: dict[str, Fit], settled: np.ndarray) -> Figure:
    figure, axes = new_figure(1, 3, width=3.9, height=3.9)
    axes[0, 1].sharey(axes[0, 0])
    rate = f"$\\gamma = 2^{{{np.log2(config.learning_rate):g}}}$ at $w = {config.base_width}$"
    figure.suptitle(
        f"Does the loss converge in the width? Same data, same order, Adam, {rate}; {config.num_seeds} seeds"
    )
    for axis, (name, curves) in zip(axes[0], losses.items(), strict=False):
        axis.set_title(f"{NAMES[name]}: $|R_w - R_{{2w}}| \\propto w^{{{fits[name].rate:.2f}}}$")
        axis.axvspan(steps[settled][0], steps[-1], color=GRAY, alpha=0.15, lw=0, label="times in the right panel")
        _curves(config, axis, steps, curves)
    axes[0, 0].set_ylabel("hold-out loss $R_w(t)$ (teacher's variance)")
    axes[0, 2].set_title(f"Difference of neighbouring widths, {config.level:.0%} intervals")
    _rates(config, axes[0, 2], fits)
    legend(axes[0, 0], title="width $w$ (bands: ±1 s.d. of log loss)", ncols=2)
    return figure


def _curves(config: Config, axis: Axes, steps: np.ndarray, curves: np.ndarray) -> None:
    shown = steps > 0
    for color, width, own in zip(colors(len(config.widths)), config.widths, curves, strict=True):
        logs = np.log(own[:, shown])
        mean, spread = logs.mean(axis=0), logs.std(axis=0, ddof=1)
        axis.plot(steps[shown], np.exp(mean), color=color, label=f"{width}")
        axis.fill_between(steps[shown], np.exp(mean - spread), np.exp(mean + spread), color=color, alpha=0.15, lw=0)
    axis.set(xlabel="step $t$")
    log_axes(axis)


def _rates(config: Config, axis: Axes, fits: dict[str, Fit]) -> None:
    width = np.array(config.widths[:-1], float)
    for (name, fit), look in zip(fits.items(), categories(2), strict=True):
        label = f"{NAMES[name]}: slope {range_text(fit.interval, fit.rate)}"
        axis.plot(width, fit.differences, look["marker"], color=look["color"], ms=5, label=label)
        axis.plot(width, np.exp(fit.constant) * width**fit.rate, color=look["color"])
    anchor = fits["mup"].differences[0]
    axis.plot(width, anchor * (width / width[0]) ** -0.5, "--", color=GRAY, lw=1, label="$w^{-1/2}$: fluctuations")
    axis.plot(width, anchor * width[0] / width, ":", color=GRAY, lw=1, label="$w^{-1}$: means")
    axis.set(xlabel="width $w$", ylabel="$|R_w - R_{2w}|$, r.m.s. (teacher's variance)")
    log_axes(axis)
    tick_measured(axis, width)
    legend(axis, corners=("lower left", "upper left", "upper right"))
