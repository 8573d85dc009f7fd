"""Decay the learning rate or ramp the batch size: serial steps saved at equal data, and what they cost in risk."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.exponents import last_slope
from experiments._lib.panels import name_problem, panels
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import BLACK, colors, legend_below, log_axes, power_of_ten
from sgdtheory.theory import number_of_steps

SHAPES = {  # of the share of the data that has been seen
    "quarter cosine": lambda share: np.cos(np.pi / 2 * share),
    "half cosine": lambda share: np.cos(np.pi / 2 * share) ** 2,
    "linear": lambda share: 1 - share,
}
SERIAL = {"quarter cosine": 2 / np.pi, "half cosine": 0.5, "linear": 0.5}  # mean of the shape


@dataclass(frozen=True)
class Config:
    """Problems, data sizes, first batch sizes and peak learning rates."""

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 1.5), (1.5, 2.5))
    shapes: tuple[str, ...] = ("quarter cosine", "half cosine")
    num_samples: tuple[float, ...] = (1e6, 1e8, 1e10)
    batch_size: float = 8.0
    edge_shares: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9)
    stages: int = 24
    tolerance: float = 0.02  # of the exponent of a factor that should not grow with D


SCALES = {
    "quick": Config(),
    "full": Config(
        exponents=(*Config.exponents, (1.2, 2.0), (3.0, 4.0), (2.0, 6.0)),
        shapes=tuple(SHAPES),
        num_samples=(1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11),
        edge_shares=tuple(np.geomspace(1e-3, 0.95, 16).tolist()),
        stages=96,
    ),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "shape": "f of the share of the data: γ f, or B/f",
    "num_samples": "D, samples",
    "learning_rate": "peak γ, units of 1/λ_1",
    "edge_share": "peak γ over the stability edge at the first batch size",
    "decay_steps": "serial steps with the learning rate decayed",
    "ramp_steps": "serial steps with the batch size ramped",
    "decay_risk": "excess risk of the last iterate, learning rate decayed, units of y²",
    "ramp_risk": "the same with the batch size ramped",
}


class Row(NamedTuple):
    """One setting, as in `UNITS`."""

    capacity: float
    source: float
    shape: str
    num_samples: float
    learning_rate: float
    edge_share: float
    decay_steps: float
    ramp_steps: float
    decay_risk: float
    ramp_risk: float

    @property
    def ratio(self) -> float:
        """Ramp over decay."""
        return self.ramp_risk / self.decay_risk


def run(config: Config) -> Result:
    """The exact risks of both at every setting."""
    start = time.perf_counter()
    items = list(product(config.exponents, config.shapes, config.num_samples))
    rows = [row for found in map_on_cores(partial(_compare, config), items) for row in found]
    seconds = time.perf_counter() - start
    verdicts = (
        *(_steps_verdict(config, rows, name) for name in config.shapes),
        *(_constant_verdict(config, rows, pair, seconds / len(config.exponents)) for pair in config.exponents),
        _tuned_verdict(config, rows),
    )
    return Result(columns_of(rows), UNITS, {"ramp_or_decay": _figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return {"ramp_or_decay": _figure(config, rows_of(Row, recorded.rows))}


def _compare(config: Config, item: tuple[tuple[float, float], str, float]) -> list[Row]:
    (capacity, source), name, samples = item
    problem, batch = st.PowerLaw(capacity, source), config.batch_size
    factors = SHAPES[name]((np.arange(config.stages) + 0.5) / config.stages)
    fractions = np.arange(config.stages) / config.stages
    serial = np.cumsum(factors) / factors.sum()
    last = st.LastIterate()
    decay = st.Algorithm(schedule=st.Stages(fractions, factors), average=last)
    ramp = st.Algorithm(batch_schedule=st.Stages([0, *serial[:-1]], 1 / factors), average=last)
    edge = float(st.max_stable_learning_rate(problem, batch_size=batch))
    rows = []
    for share in config.edge_shares:
        setting: Any = {"batch_size": batch, "learning_rate": share * edge, "num_samples": samples}
        decayed, ramped = (st.excess_risk(problem, **setting, algorithm=each).total for each in (decay, ramp))
        steps = (number_of_steps(each.batch_schedule, batch, samples) for each in (decay, ramp))
        rows.append(Row(capacity, source, name, samples, share * edge, share, *map(float, (*steps, decayed, ramped))))
    return rows


def _steps_verdict(config: Config, rows: list[Row], name: str) -> Verdict:
    """Serial steps saved are those of the shape's mean."""
    saved = [1 - row.ramp_steps / row.decay_steps for row in rows if row.shape == name]
    expected = 1 - SERIAL[name]
    close = max(abs(each - expected) for each in saved) < 0.02
    return Verdict(
        f"serial steps saved by a ramp in the place of a {name}",
        "B/f(share of data) in the place of γ f: the steps fall by 1 minus the mean of f (Seesaw's 1 − 2/π = 36% is "
        "that of the quarter cosine; of the half cosine in common use it is one half)",
        f"{expected:.1%}",
        f"{np.mean(saved):.1%}",
        (float(min(saved)), float(max(saved))),
        "holds" if close else "fails",
    )


def _constant_verdict(config: Config, rows: list[Row], pair: tuple[float, float], seconds: float) -> Verdict:
    """Equal peak γ: the ratio of the risks is bounded, and does not grow with D."""
    capacity, source = pair
    mine = [row for row in rows if (row.capacity, row.source) == pair]
    factors = [
        max(max(row.ratio, 1 / row.ratio) for row in mine if row.num_samples == samples)
        for samples in config.num_samples
    ]
    ratios = [row.ratio for row in mine]
    growth = last_slope(config.num_samples, factors)
    return Verdict(
        f"decay and ramp have the same risk up to a constant (Seesaw): a = {capacity:g}, b = {source:g}",
        f"risk of the ramp over that of the decay at equal peak γ and data, γ up to {max(config.edge_shares):g} of the "
        f"edge; the largest factor at each D: {', '.join(f'{each:.2f}' for each in factors)}; holds if it grows by no "
        f"more than D^{config.tolerance:g} between the last two D, ± the change of that since the pair before",
        "bounded in D",
        f"{min(ratios):.3f} … {max(ratios):.3f}; largest factor ∝ D^({growth.value:+.3f} ± {abs(growth.change):.3f})",
        (float(min(ratios)), float(max(ratios))),
        growth.verdict(0.0, config.tolerance),
        seconds,
    )


def _tuned_verdict(config: Config, rows: list[Row]) -> Verdict:
    """Each at its own best γ of the grid."""
    ratios = []
    for pair, name, samples in product(config.exponents, config.shapes, config.num_samples):
        mine = [r for r in rows if (r.capacity, r.source, r.shape, r.num_samples) == (*pair, name, samples)]
        ratios.append(min(row.ramp_risk for row in mine) / min(row.decay_risk for row in mine))
    return Verdict(
        "a ramp costs nothing where γ is tuned",
        f"least risk of the ramp over least risk of the decay, over the {len(config.edge_shares)} peak γ of the grid",
        "1",
        f"{min(ratios):.3f} … {max(ratios):.3f}",
        (float(min(ratios)), float(max(ratios))),
        "holds" if max(ratios) < 1.05 else "inconclusive",
    )


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Ratio of risks against γ over the edge, for the first of the shapes, a panel a problem."""
    name = config.shapes[0]
    shown = [row for row in rows if row.shape == name]
    figure, axes = panels(len(config.exponents))
    for axis, pair in zip(axes, config.exponents, strict=True):
        axis.axhline(1.0, color=BLACK, lw=0.8)
        for color, samples in zip(colors(len(config.num_samples)), config.num_samples, strict=True):
            mine = [row for row in shown if (row.capacity, row.source, row.num_samples) == (*pair, samples)]
            shares, ratios = [row.edge_share for row in mine], [row.ratio for row in mine]
            axis.plot(shares, ratios, "o-", ms=3, color=color, label=f"$D = {power_of_ten(samples)}$")
        log_axes(axis, "x")
        name_problem(axis, pair)
        axis.set(xlabel="peak $\\gamma$ / stability edge", ylabel="risk of ramp / risk of decay")
    ratios = [row.ratio for row in shown]
    figure.suptitle(
        f"Same data: $B/f$ in the place of $\\gamma f$ (f: {name}) takes {1 - SERIAL[name]:.0%} fewer serial steps\n"
        f"and has {min(ratios):.2f} … {max(ratios):.2f} times the risk of the last iterate",
        fontsize=9,
    )
    legend_below(figure, axes[0])
    return figure
