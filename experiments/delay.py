"""How much does a delay of τ steps reduce the stability threshold, the critical batch size and the best γ?"""

import time
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.panels import panels
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import BLACK, SMALL, colors, log_axes

EDGE, CRITICAL, RATE = "edge", "critical batch size", "best learning rate"
LARGE_BATCH = 1e9  # no noise is left
HALF = 0.5  # of the best γ of gradients that are in time: where a smaller one is said to pay
CLOSE = 0.1  # what the powers may miss


@dataclass(frozen=True)
class Config:
    """One power law of a number of directions, delays, and data sizes and batch sizes; the mean of all iterates.

    Attributes:
        capacity, source, dim: a, b and d.
        delays: τ of the critical batch sizes and edges.
        num_samples: D of the critical batch sizes.
        rate_delays: τ of the best γ.
        rate_samples: their D.
        batch_sizes: their B.
    """

    capacity: float = 2.0
    source: float = 3.0
    dim: int = 64
    delays: tuple[int, ...] = (0, 1, 2, 4, 8)
    num_samples: tuple[float, ...] = (1e3, 1e4, 1e5)
    rate_delays: tuple[int, ...] = (0, 1, 2, 4, 8, 16)
    rate_samples: float = 1e4
    batch_sizes: tuple[float, ...] = (1, 2, 4, 8, 16, 32, 64, 128)

    @property
    def problem(self) -> st.PowerLaw:
        """Return the problem that is learnt."""
        return st.PowerLaw(self.capacity, self.source, dim=self.dim)


SCALES = {
    "quick": Config(delays=(0, 1, 4), num_samples=(1e3,), rate_delays=(0, 1, 4), batch_sizes=(1, 4, 16, 64)),
    "full": Config(),
}
UNITS = {
    "quantity": "stability edge, critical batch size or best learning rate",
    "delay": "τ, steps",
    "num_samples": "D, samples; nan of edges",
    "batch_size": "B, or B* without its rounding, samples",
    "learning_rate": "γ, units of 1/λ",
    "risk": "least risk, units of y²; nan of edges",
}


class Row(NamedTuple):
    """One number, as in `UNITS`."""

    quantity: str
    delay: int
    num_samples: float
    batch_size: float
    learning_rate: float
    risk: float


def run(config: Config) -> Result:
    """Edges, critical batch sizes and best learning rates."""
    start = time.perf_counter()
    longest = sorted(config.delays, reverse=True)
    items = [
        *((config, CRITICAL, delay, samples, np.nan) for samples, delay in product(config.num_samples[::-1], longest)),
        *((config, RATE, *each) for each in product(config.rate_delays, [config.rate_samples], config.batch_sizes)),
        *((config, EDGE, delay, np.nan, batch) for delay, batch in product(config.delays, [1.0, LARGE_BATCH])),
    ]
    rows = map_on_cores(_solve, items)
    verdicts = verdicts_of(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, {"delay": _figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return {"delay": _figure(config, rows_of(Row, recorded.rows))}


def _solve(item: tuple[Config, str, int, float, float]) -> Row:
    config, quantity, delay, samples, batch = item
    algorithm = st.Algorithm(st.DelayedSGD(delay))
    if quantity == EDGE:
        edge = st.max_stable_learning_rate(config.problem, batch_size=batch, algorithm=algorithm)
        return Row(quantity, delay, samples, batch, edge, np.nan)
    if quantity == RATE:
        best = st.optimal_learning_rate(config.problem, batch_size=batch, num_samples=samples, algorithm=algorithm)
        return Row(quantity, delay, samples, batch, float(best.learning_rate), float(best.risk))
    found = st.critical_batch_size(config.problem, num_samples=samples, curve=False, algorithm=algorithm)
    return Row(quantity, delay, samples, found.real_batch_size, found.learning_rate, found.optimal_risk)


def _of(rows: list[Row], quantity: str) -> list[Row]:
    return [row for row in rows if row.quantity == quantity]


def verdicts_of(config: Config, rows: list[Row], seconds: float = 0.0) -> tuple[Verdict, ...]:
    """Return the verdicts on the rows."""
    return (
        _edge(rows),
        _critical(config, rows, seconds),
        _one_more_step(rows, max(config.num_samples)),
        _risk(config, rows),
        _half(rows),
        _unlate(rows),
    )


def _limit(delay: float) -> float:
    """γλ at the edge without noise."""
    return 2 * float(np.sin(np.pi / (2 * (2 * delay + 1))))


def _edge(rows: list[Row]) -> Verdict:
    """The edge without noise."""
    ratios = [row.learning_rate / _limit(row.delay) for row in _of(rows, EDGE) if row.batch_size == LARGE_BATCH]
    return Verdict(
        "the stability threshold falls to 2 sin(π/(2(2τ + 1)))",
        "Largest stable γλ_1 at B = 10⁹, where hardly any noise is left, divided by 2 sin(π/(2(2τ + 1))), for all τ. "
        "Holds within 10⁻⁶",
        1.0,
        f"{min(ratios):.8f} … {max(ratios):.8f}",
        (min(ratios), max(ratios)),
        "holds" if max(abs(ratio - 1) for ratio in ratios) < 1e-6 else "fails",
    )


def _losses(rows: list[Row], samples: float) -> tuple[np.ndarray, np.ndarray]:
    """τ > 0, and B* over that of τ = 0."""
    found = {row.delay: row.batch_size for row in _of(rows, CRITICAL) if row.num_samples == samples}
    delays = np.array(sorted(delay for delay in found if delay))
    return delays, np.array([found[delay] / found[0] for delay in delays])


def _critical(config: Config, rows: list[Row], seconds: float) -> Verdict:
    """B* against the edge."""
    samples = max(config.num_samples)
    fits = {each: _power(rows, each) for each in config.num_samples}
    delays, losses = _losses(rows, samples)
    listed = ", ".join(f"τ = {delay:g}: {loss:.3f}" for delay, loss in zip(delays, losses, strict=True))
    others = ", ".join(f"{fit.exponent:.3f} at D = {each:.0e}" for each, fit in fits.items() if each < samples)
    fit = fits[samples]
    return Verdict(
        "B* falls in proportion to the stability threshold",
        f"B* divided by B* without delay at D = {samples:.0e}: {listed}. Measured is its power of sin(π/(2(2τ + 1))), "
        f"which is the stability threshold divided by that without delay, by a line through the logarithms. The 95% "
        f"interval comes from the scatter about this line. At smaller D the power is {others or 'not known'}. Holds "
        f"within {CLOSE} at the largest D",
        1.0,
        fit.exponent,
        fit.interval(),
        "holds" if abs(fit.exponent - 1) < CLOSE else "fails",
        seconds,
    )


def _power(rows: list[Row], samples: float) -> Any:
    """The power law of B* in the edge, both over those of τ = 0."""
    delays, losses = _losses(rows, samples)
    return st.fit_power_law([1.0, *(_limit(delay) / 2 for delay in delays)], [1.0, *losses])


def _one_more_step(rows: list[Row], samples: float) -> Verdict:
    """A control: were a delay of τ as good as B* over 1 + τ."""
    delays, losses = _losses(rows, samples)
    products = losses * (1 + delays)
    return Verdict(
        "control: B* is not that of τ = 0 over 1 + τ",
        f"(1 + τ) B* divided by B* without delay at D = {samples:.0e}. At the largest τ the stability threshold "
        f"predicts sin(π/(2(2τ + 1))) (1 + τ) = {_limit(float(delays[-1])) / 2 * (1 + delays[-1]):.3f}. Holds if the "
        f"ratio differs from 1 by more than {CLOSE}",
        "not 1",
        float(products[-1]),
        (float(products.min()), float(products.max())),
        "holds" if abs(products[-1] - 1) > CLOSE else "fails",
    )


def _risk(config: Config, rows: list[Row]) -> Verdict:
    """Judge how much the delay increases the least risk."""
    samples = max(config.num_samples)
    found = {row.delay: row.risk for row in _of(rows, CRITICAL) if row.num_samples == samples}
    ratios = {delay: risk / found[0] for delay, risk in sorted(found.items()) if delay}
    return Verdict(
        "a delay hardly changes the least risk",
        f"R_opt, which small batches attain, divided by R_opt without delay at D = {samples:.0e}. Holds within "
        f"{CLOSE:.0%}: {', '.join(f'τ = {delay:g}: {ratio:.4f}' for delay, ratio in ratios.items())}",
        1.0,
        max(ratios.values()),
        (min(ratios.values()), max(ratios.values())),
        "holds" if max(abs(ratio - 1) for ratio in ratios.values()) < CLOSE else "fails",
    )


def _halves(rows: list[Row]) -> dict[int, float]:
    """τ → B from which on the best γ is less than half of that of τ = 0, by lines between logs; of τ that have one."""
    rates = _of(rows, RATE)
    plain = {row.batch_size: row.learning_rate for row in rates if not row.delay}
    batches = np.array(sorted(plain))
    found = {}
    for delay in sorted({row.delay for row in rates if row.delay}):
        mine = {row.batch_size: row.learning_rate / plain[row.batch_size] for row in rates if row.delay == delay}
        logs = np.log([mine[batch] for batch in batches])
        below = np.flatnonzero(logs < np.log(HALF))
        if below.size and below[0] > 0:
            last = below[0]
            share = (logs[last - 1] - np.log(HALF)) / (logs[last - 1] - logs[last])
            found[delay] = float(batches[last - 1] * (batches[last] / batches[last - 1]) ** share)
    return found


def _half(rows: list[Row]) -> Verdict:
    """Judge from which batch size on a smaller γ pays."""
    halves = _halves(rows)
    claim = "a smaller γ is best from a fixed number of delayed samples on"
    if len(halves) < 3:
        return Verdict(claim, f"γ* halves within the grid at {len(halves)} τ only", -1.0, "", None, "inconclusive")
    fit = st.fit_power_law([2 * delay + 1.0 for delay in halves], list(halves.values()))
    low, high = fit.interval()
    listed = ", ".join(f"τ = {delay:g}: B = {batch:.1f}" for delay, batch in halves.items())
    return Verdict(
        claim,
        f"Batch size from which on γ* is less than half of γ* without delay: {listed}. Measured is its power of 2τ + "
        f"1, by a line through the logarithms, with the 95% interval from the scatter about this line. The power −1 "
        f"means a fixed number of delayed samples",
        -1.0,
        fit.exponent,
        (low, high),
        "holds" if low <= -1 <= high else "fails",
    )


def _unlate(rows: list[Row]) -> Verdict:
    """A control: the best γ of gradients in time, used with late ones, is beyond their edge."""
    edges = {row.delay: row.learning_rate for row in _of(rows, EDGE) if row.batch_size == LARGE_BATCH}
    plain = max((row for row in _of(rows, RATE) if not row.delay), key=lambda row: row.batch_size)
    beyond = [delay for delay, edge in edges.items() if delay and plain.learning_rate > edge]
    return Verdict(
        "control: γ* of undelayed gradients diverges with a delay",
        f"γ* without delay at B = {plain.batch_size:g} is {plain.learning_rate:.3f}. It exceeds the stability "
        f"threshold at τ = {', '.join(f'{delay:g}' for delay in beyond)}",
        "all τ > 0",
        f"{len(beyond)} of {len(edges) - 1}",
        None,
        "holds" if len(beyond) == len(edges) - 1 else "fails",
    )


def _figure(config: Config, rows: list[Row]) -> Figure:
    """B* against τ, and the best γ against τ-late samples."""
    figure, (left, right) = panels(2, width=4.6, height=3.6)
    smooth = np.arange(0, max(config.delays) + 1)
    left.plot(
        2 * smooth + 1, [_limit(float(delay)) / 2 for delay in smooth], color=BLACK, lw=0.9, label="threshold, no noise"
    )
    left.plot(2 * smooth + 1, 1 / (1 + smooth), color=BLACK, lw=0.9, ls=":", label=r"$1/(1 + \tau)$")
    tones: Any = colors(len(config.num_samples))
    for samples, color in zip(config.num_samples, tones, strict=True):
        delays, losses = _losses(rows, samples)
        label = f"$B^*$ at $D = 10^{{{np.log10(samples):.0f}}}$"
        left.plot([1, *(2 * delays + 1)], [1, *losses], "o", color=color, ms=5, label=label)
    left.set_xlabel(r"$2\tau + 1$")
    left.set_ylabel(r"$B^*$ / $B^*$ at $\tau = 0$")
    rates = _of(rows, RATE)
    plain = {row.batch_size: row.learning_rate for row in rates if not row.delay}
    late = [delay for delay in config.rate_delays if delay]
    tones = colors(len(late))
    for delay, color in zip(late, tones, strict=True):
        mine = sorted((row.batch_size, row.learning_rate) for row in rates if row.delay == delay)
        places = [(2 * delay + 1) * batch for batch, _ in mine]
        ratios = [rate / plain[batch] for batch, rate in mine]
        right.plot(places, ratios, "o-", color=color, ms=4, lw=1.1, label=rf"$\tau = {delay}$")
    right.set_xlabel(r"$(2\tau + 1) B$ (samples)")
    right.set_ylabel(r"best $\gamma$ / best $\gamma$ at $\tau = 0$")
    for axis in (left, right):
        log_axes(axis)
        axis.legend(frameon=False, fontsize=SMALL, loc="lower left")
    return figure
