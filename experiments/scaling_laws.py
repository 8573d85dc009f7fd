"""How does B* of language models grow with their size, and how much of the exponent is convention?"""

import time
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import (
    BLACK,
    MARKERS,
    STAR,
    VERMILLION,
    colors,
    legend,
    log_axes,
    new_figure,
    tick_measured,
)


@dataclass(frozen=True)
class Config:
    """The paper's convention of B*, and the conventions to compare it with."""

    reference: float = 256.0
    overhead: float = 0.2
    level: float = 0.95
    forecast_sizes: tuple[float, ...] = (1500.0, 3000.0, 6000.0)  # millions of parameters
    references: tuple[float, ...] = (64.0, 128.0, 256.0, 512.0, 1024.0)
    overheads: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0)


SCALES = {"quick": Config(), "full": Config()}
PAPER_EXPONENT = 0.47
PAPER_FORECAST = 5478.06  # its Table 7, 6B parameters
UNITS = {
    "model": "name",
    "size": "millions of parameters",
    "batch_size": "sequences of 512 tokens",
    "steps": "optimisation steps to the target loss (the series of the paper's fit)",
    "law": "steps by the fitted law",
    "critical_batch_size": "B* of the model, sequences of 512 tokens",
    "critical_batch_size_low": "lower end of its confidence interval",
    "critical_batch_size_high": "upper end of its confidence interval",
}


def run(config: Config) -> Result:
    """Fit, forecast, and vary the convention."""
    start = time.perf_counter()
    measurements = st.example_measurements()
    sizes = [m.size for m in measurements]
    laws = [st.fit_steps_law(m.batch_sizes, m.steps) for m in measurements]
    convention = st.Convention(config.reference, config.overhead)
    critical = [law.critical_batch_size(convention=convention) for law in laws]
    intervals = [law.interval(level=config.level, convention=convention) for law in laws]
    fit = st.fit_power_law(sizes, critical)
    columns = {name: [] for name in UNITS}
    for measurement, law, value, (low, high) in zip(measurements, laws, critical, intervals, strict=True):
        for batch, steps in zip(measurement.batch_sizes, measurement.steps, strict=True):
            row = (measurement.group, measurement.size, batch, steps, float(law.predict(batch)), value, low, high)
            for name, entry in zip(UNITS, row, strict=True):
                columns[name].append(entry)
    fitted = time.perf_counter()
    table = st.sensitivity(laws, sizes, references=config.references, overheads=config.overheads, level=config.level)
    varied = time.perf_counter()
    figures = {
        "steps_laws": _laws_figure(config, measurements, laws, fit),
        "convention": _convention_figure(config, table, laws, sizes),
    }
    verdicts = (
        _exponent_verdict(config, fit, fitted - start),
        _forecast_verdict(config, fit),
        _convention_verdict(table, laws, sizes, varied - fitted),
    )
    return Result(columns, UNITS, figures, verdicts)


def _exponent_verdict(config: Config, fit: st.fits.PowerFit, seconds: float) -> Verdict:
    low, high = fit.interval(config.level)
    return Verdict(
        "B* against model size",
        f"B* = {fit.coefficient:.2f} N^{fit.exponent:.4f} (N in millions), {config.level:.0%} interval of the exponent",
        PAPER_EXPONENT,
        fit.exponent,
        (low, high),
        "holds" if low <= PAPER_EXPONENT <= high else "fails",
        seconds,
    )


def _forecast_verdict(config: Config, fit: st.fits.PowerFit) -> Verdict:
    size = config.forecast_sizes[-1]
    low, high = fit.prediction_interval(size, config.level)
    return Verdict(
        "Forecast",
        f"B* of a model of {size / 1000:g}B parameters; the paper gives no interval",
        PAPER_FORECAST,
        float(fit.predict(size)),
        (float(low), float(high)),
        "holds" if low <= PAPER_FORECAST <= high else "fails",
    )


def _convention_verdict(
    table: list[st.fits.SensitivityRow], laws: list[st.fits.StepsLaw], sizes: list[float], seconds: float
) -> Verdict:
    exponents = [row.exponent for row in table]
    limit = st.fit_power_law(sizes, [law.b / law.a for law in laws])
    low, high = limit.interval()
    return Verdict(
        "The exponent depends on the convention of B*",
        "the exponent of B* against size, over reference batches and overheads other than the paper's, which it "
        "states: B* = ω b/a + (1 + ω) B_ref holds a constant; b/a alone grows like "
        f"N^{limit.exponent:.2f} (95%: {low:.2f} … {high:.2f})",
        "a spread above 0.1",
        f"{min(exponents):.2f} … {max(exponents):.2f}",
        (min(exponents), max(exponents)),
        "holds" if max(exponents) - min(exponents) > 0.1 else "fails",
        seconds,
    )


def _laws_figure(
    config: Config, measurements: list[st.fits.StepsMeasurement], laws: list[st.fits.StepsLaw], fit: st.fits.PowerFit
) -> Figure:
    figure, axes = new_figure(1, 2, width=4.8, height=3.8)
    convention = st.Convention(config.reference, config.overhead)
    st.plot.critical_batch_sizes(
        [m.size for m in measurements],
        laws,
        fit=fit,
        convention=convention,
        level=config.level,
        forecasts=config.forecast_sizes,
        size_label="model size $N$ (millions of parameters)",
        title="$B^*$ grows with model size (and data with it)",
        axes=axes[0, 1],
    )
    axes[0, 1].set_ylabel("critical batch size $B^*$ (sequences)")
    st.plot.steps_laws(measurements, laws, convention=convention, axes=axes[0, 0])
    axes[0, 0].set_xlabel("batch size $B$ (sequences of 512 tokens)")
    return figure


def _convention_figure(
    config: Config, table: list[st.fits.SensitivityRow], laws: list[st.fits.StepsLaw], sizes: list[float]
) -> Figure:
    figure, axes = new_figure(1, 1, width=4.8, height=3.6)
    axis = axes[0, 0]
    shifts = 1.03 ** np.arange(len(config.overheads))  # side by side: the bars would cover each other
    looks = zip(colors(len(config.overheads)), MARKERS, shifts, config.overheads, strict=False)
    for color, marker, shift, overhead in looks:
        rows = [row for row in table if row.overhead == overhead]
        exponents = np.array([row.exponent for row in rows])
        error = np.abs(np.array([row.interval for row in rows]).T - exponents)
        x = shift * np.array([row.reference for row in rows])
        axis.errorbar(
            x, exponents, yerr=error, fmt=f"{marker}-", color=color, capsize=3, ms=4, label=f"overhead {overhead:.0%}"
        )
    limit = st.fit_power_law(sizes, [law.b / law.a for law in laws])
    axis.axhline(limit.exponent, color=BLACK, ls="--", lw=1, label=f"$b/a$ alone: {limit.exponent:.2f}")
    axis.plot(256, PAPER_EXPONENT, color=VERMILLION, label="the paper: 0.47", **(STAR | {"zorder": 4}))
    axis.set(
        xlabel="reference batch size $B_\\mathrm{ref}$ (sequences)",
        ylabel="exponent $p$ of $B^* \\propto N^p$, 95%",
    )
    log_axes(axis, "x")
    tick_measured(axis, config.references)
    axis.set_title("The exponent of $B^*$ depends on its definition")
    legend(axis, corners=("lower left", "upper right"))
    return figure
