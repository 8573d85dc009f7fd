"""Goals for the measurements, as verdicts, and the figure of the speeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks._gpu import agreement, simulator, trainer
from benchmarks._gpu.device import Device
from benchmarks._gpu.measurement import Table
from benchmarks._gpu.sizes import Sizes
from experiments._lib.results import Verdict, VerdictName
from sgdtheory.plotting.style import BLACK, GRAY, categories, legend, log_axes, new_figure, tick_measured

STEP_RATIO, GENERATOR_SHARE, UTILIZATION = 1.3, 0.7, 0.4
Tables = Mapping[str, Table]


def verdicts(tables: Tables, sizes: Sizes, device: Device) -> list[Verdict]:
    """Agreement with the CPU, and the goals of speed; inconclusive where it was not measured, or at toy sizes."""
    ratios = simulator.ratios(tables["simulator"], sizes)
    small, large, widest = sizes.step_batches[0], sizes.step_batches[-1], sizes.widths[-1]
    used = trainer.utilization(tables["trainer"], widest)
    worst = agreement.worst(tables["agreement"].rows)
    on, toy = f"{device.name}, JAX {device.jax}", sizes.name == "toy"
    return [
        Verdict(
            "the device computes what the CPU computes",
            f"largest difference in units of what rounding may make, {len(tables['agreement'].rows)} comparisons; {on}",
            "at most 1",
            worst,
            None,
            _verdict(worst <= 1, worst, device.is_cpu),
        ),
        Verdict(
            "a step costs the same at every batch size",
            f"time of a step at B = {large} over that at B = {small}; {on}",
            f"at most {STEP_RATIO:g}",
            ratios["large over small"],
            None,
            _verdict(ratios["large over small"] <= STEP_RATIO, ratios["large over small"], toy),
        ),
        Verdict(
            "the simulator draws normals about as fast as jax.random.normal",
            f"normals a second of a step at B = {large} over those of jax.random.normal alone; {on}",
            f"at least {GENERATOR_SHARE:g}",
            ratios["over generator"],
            None,
            _verdict(ratios["over generator"] >= GENERATOR_SHARE, ratios["over generator"], toy),
        ),
        Verdict(
            f"a transformer of d_model {widest} uses the device",
            f"operations a second over the peak, {device.peak_flops / 1e12:.4g} TFLOP/s ({device.source}); {on}",
            f"at least {UTILIZATION:g}",
            used,
            None,
            _verdict(used >= UTILIZATION, used, toy),
        ),
    ]


def _verdict(good: bool, measured: float, says_nothing: bool) -> VerdictName:
    return "inconclusive" if says_nothing or math.isnan(measured) else "holds" if good else "fails"


def figure(tables: Tables, sizes: Sizes, device: Device) -> Figure:
    """Steps of the simulator, utilization by transformers, and perceptrons side by side."""
    drawn, axes = new_figure(1, 3, width=4.1, height=3.8)
    drawn.suptitle(f"Speed on {device.name}, JAX {device.jax}" + (", toy sizes" if sizes.name == "toy" else ""))
    _steps(axes[0, 0], tables["simulator"], sizes, device)
    _utilization(axes[0, 1], tables["trainer"], sizes)
    _lanes(axes[0, 2], tables["trainer"], sizes)
    return drawn


def _steps(axis: Axes, table: Table, sizes: Sizes, device: Device) -> None:
    blue = categories(1)[0]
    times = [1e6 * table.value(simulator.step_name(batch), "seconds") for batch in sizes.step_batches]
    axis.plot(sizes.step_batches, times, blue["marker"], color=blue["color"], label="a step, measured")
    for seconds, line, label in (
        (table.value(simulator.GENERATOR, "seconds"), "--", "its normals, by jax.random.normal"),
        (_traffic_seconds(sizes, device), ":", "its memory traffic at the peak"),
    ):
        if math.isfinite(seconds):
            axis.axhline(1e6 * seconds, color=GRAY, ls=line, lw=1, label=label)
    ratio = simulator.ratios(table, sizes)["large over small"]
    axis.set_title(
        f"Simulator: $B$ = {sizes.step_batches[-1]} takes {ratio:.2f} times as long as $B$ = {sizes.step_batches[0]}"
    )
    axis.set(xlabel="batch size $B$ (samples)", ylabel="time of a step (µs)")
    log_axes(axis)
    _ticks(axis, sizes.step_batches, times)
    legend(axis)


def _traffic_seconds(sizes: Sizes, device: Device) -> float:
    return simulator.ARRAYS * 4 * sizes.block_numbers / (device.peak_bandwidth * device.number)


def _utilization(axis: Axes, table: Table, sizes: Sizes) -> None:
    blue = categories(1)[0]
    used = [100 * trainer.utilization(table, width) for width in sizes.widths]
    axis.plot(sizes.widths, used, blue["marker"], color=blue["color"], ls="-", label="measured")
    axis.axhline(100 * UTILIZATION, color=BLACK, ls=":", lw=1, label=f"goal at {sizes.widths[-1]}: {UTILIZATION:.0%}")
    axis.set_title(f"Transformer, bfloat16: {_number(used[-1])}% at $d_\\mathrm{{model}}$ = {sizes.widths[-1]}")
    axis.set(xlabel=r"$d_\mathrm{model}$", ylabel="model FLOP utilization (%)")
    log_axes(axis, "x")
    _ticks(axis, sizes.widths, used)
    axis.set_ylim(bottom=0)
    legend(axis)


def _lanes(axis: Axes, table: Table, sizes: Sizes) -> None:
    gains = []
    for lanes, look in zip((1, sizes.lanes), categories(2), strict=True):
        speeds = [table.value(trainer.lanes_name(width, lanes), "samples_per_second") for width in sizes.lane_widths]
        gains.append(np.array(speeds))
        words = f"{lanes} side by side" if lanes > 1 else "one by one"
        axis.plot(sizes.lane_widths, speeds, look["marker"], color=look["color"], ls="-", label=words)
    gain = gains[1][0] / gains[0][0]
    axis.set_title(
        f"Perceptrons: side by side {_number(gain)} times\nas many samples a second at width {sizes.lane_widths[0]}"
    )
    axis.set(xlabel="width $w$", ylabel=f"samples a second, batches of {sizes.lane_batch}")
    log_axes(axis)
    _ticks(axis, sizes.lane_widths, gains[0])
    legend(axis)


def _ticks(axis: Axes, sizes: Sequence[int], values: Sequence[float] | np.ndarray) -> None:
    """Ticks at what was measured so far."""
    tick_measured(axis, [size for size, value in zip(sizes, values, strict=True) if math.isfinite(value)])


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "?"


def lines(found: Sequence[Verdict]) -> list[str]:
    """The verdicts in words."""
    return [f"{each.verdict}: {each.claim}: {_words(each.measured)} ({each.predicted})" for each in found]


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "not measured" if math.isnan(value) else f"{value:.3g}"
