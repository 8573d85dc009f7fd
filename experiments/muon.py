"""Does Muon keep its efficiency at large batches, and in which coordinates? B* of Muon, signs and Adam over SGD's."""

import time
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.interpolate import PchipInterpolator

import sgdtheory as st
from experiments._lib.optimizers import Pair
from experiments._lib.panels import LEAST_WIDTH, name_problem
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import columns_of, rows_of
from experiments._lib.several_outputs import (
    ADAM,
    METHODS,
    MUON,
    PUBLISHED,
    ROTATED_ADAM,
    ROTATED_SIGN,
    SGD,
    SIGN,
    Least,
    exact_least,
    least,
    runs_about_the_best,
)
from sgdtheory.plotting.style import GRAY, SMALL, categories, legend_below, log_axes, new_figure

DRAWS = 2000  # of all risks within their errors
BETWEEN = 300  # batch sizes from the least to the largest, 4% apart or less
QUANTILES = 1 / 240, 239 / 240  # six problems and data sizes are looked at: all intervals hold at once in 95%


@dataclass(frozen=True)
class Config:
    """Problems with b below, at and above a, of several outputs.

    Attributes:
        exponents: a and b of each problem.
        num_samples: D, powers of 2.
        methods: names.
        steps: n = D/B, powers of 2, down to those of the largest batches; SGD, whose risk takes no time, has all B.
        outputs, dim: m and d.
        replicas: of the three grids of γ, from the widest to the narrowest.
        overhead: ω.
    """

    exponents: tuple[Pair, ...] = ((3.0, 2.0), (3.0, 3.0), (2.5, 3.25))
    num_samples: tuple[float, ...] = (512, 2048)
    methods: tuple[str, ...] = (SGD, SIGN, ROTATED_SIGN, ADAM, ROTATED_ADAM, MUON, PUBLISHED)
    steps: tuple[int, ...] = (1024, 256, 64, 32, 16, 8, 4, 2)
    outputs: int = 24
    dim: int = 48
    replicas: tuple[int, int, int] = (2, 2, 8)
    overhead: float = 0.2


SCALES = {
    "quick": Config(
        exponents=((3.0, 3.0),),
        num_samples=(1024,),
        methods=(SGD, ROTATED_SIGN, MUON),
        steps=(64, 32, 16, 8, 4),
        replicas=(6, 6, 6),  # of one number, as each is compiled
    ),
    "full": Config(),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "method": "optimizer; linear decay, last iterate",
    "num_samples": "D, samples",
    "given": "samples that the run was given: D, or with the overhead",
    "batch_size": "B, samples",
    "learning_rate": "the best γ; SGD's in units of 1/λ_1, others in units of the weights",
    "risk": "least risk over γ, summed over outputs, units of y²; SGD's is exact",
    "error": "its relative standard error, of replicas",
}


class Row(NamedTuple):
    """One least risk, as in `UNITS`."""

    capacity: float
    source: float
    method: str
    num_samples: float
    given: float
    batch_size: float
    learning_rate: float
    risk: float
    error: float


def run(config: Config) -> Result:
    """Tune γ at every B with D samples, and from the best B on with the overhead, too."""
    start = time.perf_counter()
    cases = product(config.exponents, config.methods, config.num_samples)
    items = [(config, *case) for case in sorted(cases, key=lambda case: -case[2])]  # the longest first
    rows = [row for rows in map_on_cores(_rows, items) for row in rows]
    return Result(columns_of(rows), UNITS, _figures(config, rows), _verdicts(config, rows, time.perf_counter() - start))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _rows(item: tuple[Config, Pair, str, float]) -> list[Row]:
    """One method on one problem with D samples."""
    config, pair, name, samples = item
    sizes = _sizes(config, name, int(samples))
    rows = [Row(*pair, name, samples, samples, size, *_least(config, pair, name, size, samples)) for size in sizes]
    best = min(rows, key=lambda row: row.risk).batch_size
    more = (1 + config.overhead) * samples
    later = [size for size in sizes if size >= best]  # B* is among them
    return rows + [Row(*pair, name, samples, more, size, *_least(config, pair, name, size, more)) for size in later]


def _sizes(config: Config, name: str, samples: int) -> list[int]:
    """B, increasing."""
    sizes = [samples // steps for steps in config.steps if steps <= samples]
    if not isinstance(METHODS[name], st.LinearMethod):
        return sizes
    return [1 << power for power in range(int(np.log2(sizes[-1])) + 1)]


def _least(config: Config, pair: Pair, name: str, batch: float, samples: float) -> Least:
    problem = st.PowerLaw(*pair, dim=config.dim)
    method = METHODS[name]
    if isinstance(method, st.LinearMethod):
        return exact_least(problem, method, batch, samples)
    setting = {"batch_size": batch, "num_samples": samples, "outputs": config.outputs, "replicas": config.replicas}
    return least(runs_about_the_best(problem, method, **setting))


# ------------------------------------------------------------------ batch sizes of a grid


class Useful(NamedTuple):
    """Largest useful batches of one method, and others within the errors of the risks.

    Attributes:
        own: the largest B at which 1.2 D samples reach the method's own least risk with D: B*.
        common: at which they reach SGD's; 0 where none does.
        draws, common_draws: the same, (DRAWS,).
        tried: the largest B tried: where that is useful, B* is at least that.
    """

    own: float
    common: float
    draws: np.ndarray
    common_draws: np.ndarray
    tried: float


def _table(rows: list[Row], pair: Pair, name: str, samples: float, more: bool) -> np.ndarray:
    """B, risk and its error (3, K) at increasing B, with D samples or more."""
    mine = sorted(
        (row.batch_size, row.risk, row.error)
        for row in rows
        if (row.capacity, row.source, row.method, row.num_samples) == (*pair, name, samples)
        and (row.given > samples) == more
    )
    return np.array(mine).reshape(-1, 3).T


def useful(rows: list[Row], pair: Pair, name: str, samples: float) -> Useful:
    """Return the useful range from the table; draws keep the B of the least risk, or its noise would count twice."""
    plain = _table(rows, pair, name, samples, more=False)
    later = _table(rows, pair, name, samples, more=True)
    sgd = _table(rows, pair, SGD, samples, more=False)
    random = np.random.default_rng([int(samples), list(METHODS).index(name)])  # no two methods share their draws
    best = int(np.argmin(plain[1]))
    target = np.log(plain[1, best]) + plain[2, best] * _noise(random, 1)
    risk = np.log(later[1]) + later[2] * _noise(random, later.shape[1])
    own = largest(later[0], risk - target)
    common = largest(later[0], risk - np.log(sgd[1].min()))
    return Useful(own[0], common[0], own[1:], common[1:], later[0, -1])


def _noise(random: np.random.Generator, number: int) -> np.ndarray:
    """(1 + DRAWS, number) normals, of which the first are 0: the estimate itself."""
    return np.vstack([np.zeros((1, number)), random.standard_normal((DRAWS, number))])


def largest(batch: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """The largest B (N,) at which log R over a target (N, K), between the B (K,) of the grid, is not above 0; 0: none.

    In between it is a monotone cubic in log B: on chords of B four times apart B* would be up to a quarter too low.
    """
    if batch.size > 1:
        place = np.linspace(np.log(batch[0]), np.log(batch[-1]), BETWEEN)
        excess = PchipInterpolator(np.log(batch), excess, axis=1)(place)
        batch = np.exp(place)
    there = excess <= 0
    last = batch.size - 1 - np.argmax(there[:, ::-1], axis=1)
    after = np.minimum(last + 1, batch.size - 1)
    rows = np.arange(len(excess))
    rise = excess[rows, after] - excess[rows, last]
    share = np.where(after > last, -excess[rows, last] / np.where(rise > 0, rise, 1), 0)
    return np.where(there.any(1), batch[last] * (batch[after] / batch[last]) ** share, 0.0)


# ------------------------------------------------------------------ verdicts


class Ratio(NamedTuple):
    """One method's largest useful batch over another's."""

    pair: Pair
    samples: float
    value: float
    low: float
    high: float
    beyond: bool  # whether it is at least that


Table = dict[tuple[Pair, str, float], Useful]  # of a problem, a method and D


def all_useful(config: Config, rows: list[Row]) -> Table:
    """Return the useful ranges of every method on every problem, at every D."""
    cases = product(config.exponents, config.methods, config.num_samples)
    return {case: useful(rows, *case) for case in cases}


def ratios(table: Table, name: str, over: str, common: bool = False) -> list[Ratio]:
    """On every problem, at every D; of `common` where the other reaches SGD's risk."""
    found = []
    for pair, samples in [(pair, samples) for pair, each, samples in table if each == name]:
        mine, other = (table[pair, each, samples] for each in (name, over))
        above, below = (
            (np.append(each.common, each.common_draws) if common else np.append(each.own, each.draws))
            for each in (mine, other)
        )
        ratio = above / np.where(below > 0, below, np.nan)
        low, high = np.nanquantile(ratio[1:], QUANTILES)
        beyond = bool(above[0] > 0.99 * mine.tried)
        found.append(Ratio(pair, samples, float(ratio[0]), float(low), float(high), beyond))
    return found


CLAIMS = (
    ("Muon has a larger B* than SGD", MUON, SGD, False),
    ("Muon has a larger B* than signSGD in rotated coordinates", MUON, ROTATED_SIGN, False),
    ("Muon has a larger B* than Adam in rotated coordinates", MUON, ROTATED_ADAM, False),
    ("Muon has a larger B* than Adam in eigenvector coordinates", MUON, ADAM, False),
    ("Muon as published has a larger B* than SGD", PUBLISHED, SGD, False),
    ("Muon reaches SGD's least risk with larger batches than SGD", MUON, SGD, True),
    ("control: signSGD has a larger B* in eigenvector coordinates than in rotated ones", SIGN, ROTATED_SIGN, False),
)


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    judged = [claim for claim in CLAIMS if {claim[1], claim[2]} <= set(config.methods)]
    table = all_useful(config, rows)
    return tuple(_verdict(config, table, *claim, seconds / len(judged)) for claim in judged)


def _verdict(config: Config, table: Table, claim: str, name: str, over: str, common: bool, seconds: float) -> Verdict:
    found = ratios(table, name, over, common)
    values = [each.value for each in found]
    low = min(each.low for each in found)
    high = max(each.high for each in found)
    verdict: VerdictName = "holds" if low > 1 else "fails" if any(each.high < 1 for each in found) else "inconclusive"
    text = "; ".join(
        f"a = {each.pair[0]:g}, b = {each.pair[1]:g}, D = {each.samples:g}: {'≥ ' * each.beyond}{each.value:.2f} "
        f"({each.low:.2f} … {each.high:.2f})"
        for each in found
    )
    target = "SGD's least risk" if common else "a method's own least risk"
    return Verdict(
        claim,
        f"Largest B at which {1 + config.overhead:g} D samples reach {target} with D samples: B of {name} divided by "
        f"B of {over}. There are {config.outputs} outputs in {config.dim} directions. The intervals come from the "
        f"errors of the replicas, with 95% for all of them at once. Holds if all intervals are above 1, fails if one "
        f"is below 1: {text}",
        "above 1",
        f"{min(values):.3g} … {max(values):.3g}",
        (low, high),
        verdict,
        seconds,
    )


# ------------------------------------------------------------------ figures


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"muon": _figure(config, rows)}


def _looks(config: Config) -> list[tuple[str, dict[str, Any]]]:
    """Names, each with a look that is its own at every scale."""
    every = dict(zip(METHODS, categories(len(METHODS)), strict=True))
    return [(name, every[name]) for name in config.methods]


def _title(config: Config, table: Table) -> str:
    """Return the figure's title: Muon at the largest D, problem by problem."""
    most = max(config.num_samples)
    words = []
    for name in (MUON, PUBLISHED):
        if name in config.methods:
            values = [f"{each.value:.2g}" for each in ratios(table, name, SGD) if each.samples == most]
            words.append(f"{name} {', '.join(values)}")
    return f"$B^*$ / $B^*$ of SGD at $D = {most:g}$, problem by problem: {'; '.join(words)}"


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Risk against B at the largest D, and B* over SGD's against D, a column a problem."""
    pairs = config.exponents
    figure, axes = new_figure(2, len(pairs), width=max(2.9, LEAST_WIDTH / len(pairs)), height=2.7)
    most = max(config.num_samples)
    table = all_useful(config, rows)
    for (above, below), pair in zip(axes.T, pairs, strict=True):
        below.axhline(1.0, color=GRAY, lw=0.8)
        for name, look in _looks(config):
            batch, risk, error = _table(rows, pair, name, most, more=False)
            above.errorbar(batch, risk, risk * error, label=name, ms=4.0, elinewidth=0.8, **look)
            if name != SGD:
                found = [each for each in ratios(table, name, SGD) if each.pair == pair]
                value, low, high = (
                    np.array([getattr(each, end) for each in found]) for end in ("value", "low", "high")
                )
                below.errorbar(config.num_samples, value, (value - low, high - value), ms=4.0, elinewidth=0.8, **look)
        log_axes(above)
        log_axes(below)
        name_problem(above, pair)
        above.text(0.05, 0.95, f"$D = {most:g}$", transform=above.transAxes, va="top", fontsize=SMALL)
        above.set(xlabel="batch size $B$ (samples)")
        below.set(xlabel="samples $D$")
    axes[0, 0].set(ylabel="least risk (units of $y^2$)")
    axes[1, 0].set(ylabel="$B^*$ / $B^*$ of SGD")
    figure.suptitle(_title(config, table), fontsize=9)
    legend_below(figure, axes[0, 0], columns=4)
    return figure
