"""Does a batch ramp replace a decay of the learning rate? Serial steps saved at equal data, and the cost in risk."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar

import sgdtheory as st
from experiments._lib.exponents import last_slope
from experiments._lib.panels import name_problem, panels
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.algorithms import number_of_steps
from sgdtheory.plotting.style import BLACK, STAR, colors, legend_below, log_axes, power_of_ten

SHAPES = {  # of the share of the data that has been seen
    "quarter cosine": lambda share: np.cos(np.pi / 2 * share),
    "half cosine": lambda share: np.cos(np.pi / 2 * share) ** 2,
    "linear": lambda share: 1 - share,
}
LEAST_SHARE = 1e-9  # of the edge: no best γ is smaller
SERIAL = {"quarter cosine": 2 / np.pi, "half cosine": 0.5, "linear": 0.5}  # mean of the shape


@dataclass(frozen=True)
class Config:
    """Problems, data sizes at equal ratios, the first batch size, and peak learning rates over the stability edge."""

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 1.5), (1.5, 2.5))
    shapes: tuple[str, ...] = ("quarter cosine", "half cosine")
    num_samples: tuple[float, ...] = (1e4, 1e6, 1e8, 1e10)
    batch_size: float = 8.0
    edge_shares: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9)
    stages: int = 24
    tolerance: float = 0.02  # of the exponent of a factor that should not grow with D


SCALES = {
    "quick": Config(exponents=Config.exponents[:2]),
    "full": Config(
        exponents=(*Config.exponents, (2.0, 6.0)),
        shapes=tuple(SHAPES),
        num_samples=(1e5, 1e7, 1e9, 1e11),
        edge_shares=tuple(np.geomspace(1e-3, 0.95, 10).tolist()),
        stages=48,
    ),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "shape": "f of the share of the data: γ f, or B/f",
    "num_samples": "D, samples",
    "tuned": "1 if each has its own best peak γ",
    "edge": "stability edge at the first batch size, units of 1/λ_1",
    "decay_share": "peak γ over the edge, learning rate decayed",
    "ramp_share": "the same, batch size ramped",
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
    tuned: float
    edge: float
    decay_share: float
    ramp_share: float
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
        *(_tuned_verdict(config, rows, pair) for pair in config.exponents),
    )
    return Result(columns_of(rows), UNITS, {"ramp_or_decay": _figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return {"ramp_or_decay": _figure(config, rows_of(Row, recorded.rows))}


def _compare(config: Config, item: tuple[tuple[float, float], str, float]) -> list[Row]:
    (capacity, source), name, samples = item
    problem = st.PowerLaw(capacity, source)
    batch = config.batch_size
    factors = SHAPES[name]((np.arange(config.stages) + 0.5) / config.stages)
    fractions = np.arange(config.stages) / config.stages
    serial = np.cumsum(factors) / factors.sum()
    last = st.LastIterate()
    decay = st.Algorithm(schedule=st.Stages(fractions, factors), average=last)
    ramp = st.Algorithm(batch_schedule=st.Stages([0, *serial[:-1]], 1 / factors), average=last)
    edge = float(st.max_stable_learning_rate(problem, batch_size=batch))
    setting: Any = {"batch_size": batch, "num_samples": samples}

    def risk(algorithm: st.Algorithm, share: float) -> float:
        return float(st.excess_risk(problem, **setting, learning_rate=share * edge, algorithm=algorithm).total)

    fixed = np.array([[risk(each, share) for share in config.edge_shares] for each in (decay, ramp)])
    best = [_least(partial(risk, each), config.edge_shares, risks) for each, risks in zip((decay, ramp), fixed)]
    steps = [float(number_of_steps(each.batch_schedule, batch, samples)) for each in (decay, ramp)]
    tried = [
        *((0.0, edge, share, share, *steps, *risks) for share, risks in zip(config.edge_shares, fixed.T.tolist())),
        (1.0, edge, best[0][0], best[1][0], *steps, best[0][1], best[1][1]),
    ]
    return [Row(capacity, source, name, samples, *values) for values in tried]


def _least(risk: Callable[[float], float], shares: tuple[float, ...], risks: np.ndarray) -> tuple[float, float]:
    """The best share of the edge, up to the largest that is given, and its risk."""
    bounds = np.log(LEAST_SHARE), np.log(max(shares))
    found: Any = minimize_scalar(
        lambda log: risk(np.exp(log)), bounds=bounds, method="bounded", options={"xatol": 0.02}
    )
    return min(
        (float(np.exp(found.x)), float(found.fun)), (shares[risks.argmin()], float(risks.min())), key=itemgetter(1)
    )


def _steps_verdict(config: Config, rows: list[Row], name: str) -> Verdict:
    """Serial steps saved are those of the shape's mean, where steps are many."""
    saved = {row.num_samples: 1 - row.ramp_steps / row.decay_steps for row in rows if row.shape == name}
    expected = 1 - SERIAL[name]
    measured = saved[max(saved)]
    return Verdict(
        f"serial steps saved by a ramp in place of a {name}",
        "A batch size B/f, with f as a function of the fraction of samples used, in place of a learning rate γ f. In "
        "theory it saves the fraction 1 − mean f of the steps. This is 1 − 2/π = 36% for the quarter cosine (Seesaw), "
        "and one half for the half cosine, which is in common use. Measured is the saved fraction at the largest D. "
        "Holds within 2 percentage points. At D = "
        + ", ".join(f"{samples:.0e}: {share:.1%}" for samples, share in saved.items()),
        f"{expected:.1%}",
        f"{measured:.1%}",
        (min(saved.values()), max(saved.values())),
        "holds" if abs(measured - expected) < 0.02 else "fails",
    )


def _constant_verdict(config: Config, rows: list[Row], pair: tuple[float, float], seconds: float) -> Verdict:
    """Equal peak γ: the ratio of the risks is bounded, and does not grow with D."""
    capacity, source = pair
    mine = [row for row in rows if (row.capacity, row.source) == pair and not row.tuned]
    factors = [
        max(max(row.ratio, 1 / row.ratio) for row in mine if row.num_samples == samples)
        for samples in config.num_samples
    ]
    ratios = [row.ratio for row in mine]
    growth = last_slope(config.num_samples, factors)
    return Verdict(
        f"decay and ramp have the same risk up to a constant (Seesaw): a = {capacity:g}, b = {source:g}",
        f"Risk of the ramp divided by that of the decay, at equal peak γ and data, for γ up to "
        f"{max(config.edge_shares):g} of the stability threshold. The largest ratio at each D is "
        f"{', '.join(f'{each:.2f}' for each in factors)}. Between the last two D it grows like D^({growth.text}), ± "
        f"the change since the pair before, and {growth.leads}. Holds if this extrapolation, with its interval, lies "
        f"within ±{config.tolerance:g} of 0",
        "bounded in D",
        f"{min(ratios):.3f} … {max(ratios):.3f}; largest factor ∝ D^({growth.text})",
        (float(min(ratios)), float(max(ratios))),
        growth.verdict(0.0, config.tolerance),
        seconds,
    )


def _tuned_verdict(config: Config, rows: list[Row], pair: tuple[float, float]) -> Verdict:
    """Each at its own best γ: nothing lost where that is far below the edge, as it is for b > a."""
    capacity, source = pair
    mine = [row for row in rows if (row.capacity, row.source) == pair and row.tuned]
    last = [row for row in mine if row.num_samples == max(config.num_samples)]
    ratios = [row.ratio for row in mine]
    at_end = [row.ratio for row in last]
    free = source > capacity
    return Verdict(
        f"risk of a ramp relative to a decay, γ tuned for each: a = {capacity:g}, b = {source:g}",
        f"Least risk of the ramp divided by the least risk of the decay, each with its best peak γ up to "
        f"{max(config.edge_shares):g} of the stability threshold. Ratios at the largest D: "
        f"{', '.join(f'{row.shape}: {row.ratio:.3f}' for row in last)}. The best γ of the ramp there is "
        f"{', '.join(f'{row.ramp_share:.2g}' for row in last)} of the threshold"
        + (". Holds within 1% at the largest D" if free else ", so close to it that nothing is predicted"),
        "1 for D → ∞" if free else "not known",
        f"{min(ratios):.3f} … {max(ratios):.3f}",
        (float(min(ratios)), float(max(ratios))),
        ("holds" if max(abs(ratio - 1) for ratio in at_end) < 0.01 else "fails") if free else "inconclusive",
    )


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Ratio of risks against γ over the edge, for the first of the shapes, a panel a problem."""
    name = config.shapes[0]
    shown = [row for row in rows if row.shape == name]
    least = min(config.edge_shares)
    figure, axes = panels(len(config.exponents))
    for axis, pair in zip(axes, config.exponents, strict=True):
        axis.axhline(1.0, color=BLACK, lw=0.8)
        for color, samples in zip(colors(len(config.num_samples)), config.num_samples, strict=True):
            mine = [row for row in shown if (row.capacity, row.source, row.num_samples) == (*pair, samples)]
            fixed, best = ([row for row in mine if row.tuned == tuned] for tuned in (0, 1))
            shares = [row.decay_share for row in fixed]
            ratios = [row.ratio for row in fixed]
            axis.plot(shares, ratios, "o-", ms=3, color=color, label=f"$D = {power_of_ten(samples)}$")
            stars = [(row.ramp_share, row.ratio) for row in best if row.ramp_share >= least]
            axis.plot(*np.reshape(stars, (-1, 2)).T, **{**STAR, "color": color})
        axis.plot(
            [],
            [],
            **{**STAR, "color": "none"},
            label=f"each at best $\\gamma$, if above {least:g} of the threshold",
        )
        log_axes(axis, "x")
        name_problem(axis, pair)
        axis.set(xlabel="peak $\\gamma$ / stability threshold", ylabel="risk of ramp / risk of decay")
    ratios = [row.ratio for row in shown if not row.tuned]
    figure.suptitle(
        f"Same data: $B/f$ in place of $\\gamma f$ (f: {name}) takes {1 - SERIAL[name]:.0%} fewer serial steps\n"
        f"and has {min(ratios):.2f} … {max(ratios):.2f} times the risk of the last iterate",
        fontsize=9,
    )
    legend_below(figure, axes[0])
    return figure
