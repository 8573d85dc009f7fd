"""How much do B* and its exponent depend on the convention, on regression with known B* and on language models?"""

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.processes import map_on_cores
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
    power_of_ten,
)


@dataclass(frozen=True)
class Config:
    """Regression at several data sizes, and the conventions: overhead and reference batch size."""

    capacity: float = 2.0
    source: float = 3.0
    num_samples: tuple[float, ...] = (1e6, 1e7, 1e8, 1e9, 1e10)
    overheads: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5, 1.0)
    references: tuple[float, ...] = (1.0, 16.0, 64.0, 256.0)  # batch sizes on regression
    model_references: tuple[float, ...] = (64.0, 256.0, 1024.0)  # sequences, language models
    fitted_from: tuple[float, ...] = (4.0, 16.0, 64.0)  # steps laws are fitted from B* over these …
    fitted_to: tuple[float, ...] = (3.0, 10.0)  # … to B* times these
    tolerance: float = 0.03  # of the exponent across overheads


SCALES = {"quick": Config(), "full": Config(num_samples=(1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12))}
UNITS = {
    "data": "regression, or language models",
    "reference": "reference batch size; samples, or sequences",
    "overhead": "extra data that defines B*, relative to the reference batch size",
    "size": "D, samples, or millions of parameters",
    "critical_batch_size": "B*; samples, or sequences",
    "exponent": "exponent of B* against size under this convention",
}


class Row(NamedTuple):
    """One convention on one set of data."""

    data: str
    reference: float
    overhead: float
    sizes: tuple[float, ...]
    critical: tuple[float, ...]
    exponent: float


def run(config: Config) -> Result:
    """B* and its exponent under every convention, on both."""
    start = time.perf_counter()
    found = map_on_cores(partial(_solve, config), config.num_samples)
    regression = [_row(config, found, *pair) for pair in _conventions(config, config.references)]
    measurements = st.example_measurements()
    laws = [st.fit_steps_law(m.batch_sizes, m.steps) for m in measurements]
    sizes = tuple(m.size for m in measurements)
    table = st.sensitivity(laws, sizes, references=config.model_references, overheads=config.overheads)
    models = [
        Row("language models", row.reference, row.overhead, sizes, row.critical_batch_sizes, row.exponent)
        for row in table
    ]
    rows = regression + models
    figure = _figure(config, found, regression, models, measurements, laws)
    verdicts = _verdicts(config, found, regression, models, time.perf_counter() - start)
    return Result(_columns(rows), UNITS, {"conventions": figure}, verdicts)


def _solve(config: Config, samples: float) -> st.critical.CriticalBatchSize:
    return st.critical_batch_size(st.PowerLaw(config.capacity, config.source), num_samples=samples)


def _conventions(config: Config, references: Any) -> list[tuple[float, float]]:
    return [(reference, overhead) for reference in references for overhead in config.overheads]


def _needed(curve: st.critical.BatchSizeCurve, batch: float) -> float:
    """Samples to the optimal risk at B, interpolated."""
    return float(np.exp(np.interp(np.log(batch), np.log(curve.batch_size), np.log(curve.samples_needed))))


def _row(config: Config, found: list[st.critical.CriticalBatchSize], reference: float, overhead: float) -> Row:
    """B* with `B f_D(B) = (1 + overhead) B_ref f_D(B_ref)`."""
    critical = []
    for one in found:
        allowed = (1 + overhead) * _needed(one.curve, reference) / one.num_samples - 1
        critical.append(one.curve.batch_size_at(allowed))
    exponent = st.fit_power_law(config.num_samples, critical).exponent
    return Row("regression", reference, overhead, config.num_samples, tuple(critical), exponent)


def _columns(rows: list[Row]) -> dict[str, list]:
    points = [
        (row.data, row.reference, row.overhead, size, critical, row.exponent)
        for row in rows
        for size, critical in zip(row.sizes, row.critical, strict=True)
    ]
    return dict(zip(UNITS, map(list, zip(*points, strict=True)), strict=True))


def _spread(rows: list[Row]) -> tuple[float, float]:
    return min(row.exponent for row in rows), max(row.exponent for row in rows)


def _by_law(one: st.critical.CriticalBatchSize, first: float, last: float) -> tuple[float, float]:
    """B* by the steps law through the exact steps of a range about B*, over the true one; largest error of the law.

    As one would measure it: the reference is the smallest batch size of the range.
    """
    curve = one.curve
    inside = (curve.batch_size >= one.batch_size / first) & (curve.batch_size <= one.batch_size * last)
    batch = curve.batch_size[inside]
    law = st.fit_steps_law(batch, curve.num_steps[inside])
    ratio = law.critical_batch_size(batch[0], one.overhead) / one.batch_size
    return ratio, float(np.abs(law.residuals).max())


def _verdicts(
    config: Config, found: Any, regression: list[Row], models: list[Row], seconds: float
) -> tuple[Verdict, ...]:
    smallest = [row for row in regression if row.reference == min(config.references)]
    low, high = _spread(smallest)
    true = st.predicted_exponent(config.capacity, config.source)
    largest = [row for row in regression if row.reference == max(config.references)]
    model_low, model_high = _spread(models)
    ranges = list(product(config.fitted_from, config.fitted_to))
    ratios, errors = zip(*(_by_law(one, first, last) for one in found for first, last in ranges), strict=True)
    return (
        Verdict(
            "the overhead changes B* but hardly its exponent",
            f"regression, a = {config.capacity:g}, b = {config.source:g}, reference B = {min(config.references):g}: B* "
            f"moves {smallest[-1].critical[-1] / smallest[0].critical[-1]:.1f}-fold from {config.overheads[0]:.0%} to "
            f"{config.overheads[-1]:.0%} overhead; exponents over D = {config.num_samples[0]:.0e} … "
            f"{config.num_samples[-1]:.0e} (D → ∞: {true:.4f})",
            f"within {config.tolerance:g} of each other",
            f"{low:.3f} … {high:.3f}",
            (low, high),
            "holds" if high - low < config.tolerance else "fails",
            seconds,
        ),
        Verdict(
            "on regression a fixed reference batch size lowers the exponent",
            "the same with a reference batch size that does not grow with B*: exponents with B_ref = "
            f"{max(config.references):g}; on the language models, B_ref = {min(config.model_references):g} … "
            f"{max(config.model_references):g}: {model_low:.2f} … {model_high:.2f}",
            f"below {low:.3f}",
            "{:.3f} … {:.3f}".format(*_spread(largest)),
            _spread(largest),
            "holds" if _spread(largest)[1] < low else "fails" if _spread(largest)[0] >= low else "inconclusive",
        ),
        Verdict(
            "on regression steps = a + b/B puts B* too low",
            f"B* by the law through exact steps, over the true one: fitted from B*/{config.fitted_from[-1]:g} … "
            f"B*/{config.fitted_from[0]:g} to {config.fitted_to[0]:g} … {config.fitted_to[-1]:g} B*, all D, reference "
            f"the smallest of the range; the true steps bend more sharply than the law (error of log steps up to "
            f"{max(errors):.2f})",
            "below 1",
            f"{min(ratios):.2f} … {max(ratios):.2f}",
            (min(ratios), max(ratios)),
            "holds" if max(ratios) < 0.9 else "fails" if min(ratios) > 0.9 else "inconclusive",
        ),
    )


def _figure(config: Config, found: Any, regression: Any, models: Any, measurements: Any, laws: Any) -> Figure:
    figure, axes = new_figure(2, 2, width=4.7, height=3.6)
    a, b = config.capacity, config.source
    figure.suptitle(
        "How the critical batch size $B^*$ and its exponent depend on its definition\n"
        rf"left: regression, exact, $a = {a:g}$, $b = {b:g}$ ($\lambda_i = i^{{-{a:g}}}$, $s_i = i^{{-{b:g}}}$, "
        r"$\sigma^2 = 1$); right: five language models of the paper"
    )
    for color, one in zip(colors(len(found)), found, strict=True):
        needed = one.curve.samples_needed / one.num_samples
        label = f"$D = {power_of_ten(float(one.num_samples))}$"
        axes[0, 0].plot(one.curve.batch_size / one.batch_size, needed, color=color, label=label)
    axes[0, 0].set(title="regression: one curve for all data sizes")
    axes[0, 0].set_ylabel("samples to the target /\nsamples at small $B$")
    for color, measurement, law in zip(colors(len(laws)), measurements, laws, strict=True):
        batch, unit = measurement.batch_sizes, law.predict(256) * 256
        points = {"ms": 3, "lw": 0.8, "color": color, "label": measurement.group}
        axes[0, 1].plot(
            batch / law.critical_batch_size(convention=st.fits.PAPER), measurement.steps * batch / unit, "o-", **points
        )
    axes[0, 1].set(title="language models: the same shape, more scatter")
    for axis in axes[0]:
        axis.axhline(1.2, color=BLACK, ls=":", lw=1, label="20% overhead")
        log_axes(axis)
        axis.set(xlabel="batch size / critical, $B/B^*$", ylim=(0.7, 15), xlim=(0.02, 12))
    _exponents(axes[1, 0], regression, config.references, "samples")
    true = float(st.predicted_exponent(a, b))
    axes[1, 0].axhline(true, color=BLACK, ls="--", lw=1, label=f"Corollary 8: {true:.3g}")
    axes[1, 0].set(ylabel="exponent of $B^*$ against $D$", title="regression: the reference matters more")
    _exponents(axes[1, 1], models, config.model_references, "sequences")
    axes[1, 1].plot(0.2, 0.47, **STAR, color=VERMILLION, label="the paper: 0.47")
    axes[1, 1].set(ylabel="exponent of $B^*$ against size", title="language models: both matter")
    for axis in axes.flat:
        legend(axis, corners=("upper left", "upper right", "center right", "lower right"))
    return figure


def _exponents(axis: Axes, rows: list[Row], references: Any, unit: str) -> None:
    for color, marker, reference in zip(colors(len(references)), MARKERS, references, strict=False):
        mine = [row for row in rows if row.reference == reference]
        label = f"$B_\\mathrm{{ref}} = {reference:g}$ {unit if reference != 1 else unit[:-1]}"
        points = {"ms": 4, "color": color, "marker": marker, "label": label}
        axis.plot([row.overhead for row in mine], [row.exponent for row in mine], **points)
    axis.set(xscale="log", xlabel="overhead in the definition of $B^*$")
    axis.set_xticks([row.overhead for row in mine], [f"{row.overhead:.0%}" for row in mine])
    axis.minorticks_off()
