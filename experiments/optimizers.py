"""How do B* and the best risk grow with the data for preconditioned SGD, signSGD and Adam, beside SGD?"""

import time
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.answers import worst
from experiments._lib.exponents import LastSlope, errors, last_slope
from experiments._lib.optimizers import (
    FAST,
    METHODS,
    NAMES,
    PRECONDITIONED,
    SGD,
    SIGN,
    Pair,
    looks,
    problem_of,
    seen_capacity,
)
from experiments._lib.panels import LEAST_WIDTH, name_problem
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import against_data, columns_of, rows_of
from sgdtheory.plotting.style import BLACK, GRAY, legend_below, log_axes, new_figure

ONE_STEP = "one step with all of them is not the best"  # of the error that says that no batch size is critical
NORMS = {"real_batch_size": "B*", "optimal_risk": "R_opt"}


@dataclass(frozen=True)
class Config:
    """Problems with b below, at and above a, and data sizes at equal ratios.

    Attributes:
        exponents: a and b of each problem; a > 2, or SGD with θ = ½ has an infinite trace.
        num_samples: D.
        methods: names.
        tolerance: of an exponent. B* of an equivalent is a whole number of steps, some 30 and more of them.
    """

    exponents: tuple[Pair, ...] = ((3.0, 2.0), (3.0, 3.0), (2.5, 3.25))
    num_samples: tuple[float, ...] = (1e4, 1e5, 1e6, 1e7)
    methods: tuple[str, ...] = NAMES
    tolerance: float = 0.05


SCALES = {
    "quick": Config(
        exponents=((3.0, 2.0),),
        num_samples=(1e4, 1e5, 1e6),
        methods=(SGD, PRECONDITIONED, SIGN, FAST),
    ),
    "full": Config(),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "method": "optimizer; linear decay, last iterate",
    "num_samples": "D, samples",
    "smallest_batch_size": "the least B that 1.2 D samples allow, samples",
    "optimal_batch_size": "B of the least risk, samples",
    "real_batch_size": "B* without its rounding, samples",
    "num_steps": "n with which B* reaches R_opt(D)",
    "optimal_risk": "R_opt(D) of that method, units of y²",
    "error": "relative error stated of the risk at B*; sign and Adam are deterministic equivalents",
}


class Row(NamedTuple):
    """One critical batch size, as in `UNITS`."""

    capacity: float
    source: float
    method: str
    num_samples: float
    smallest_batch_size: float
    optimal_batch_size: float
    real_batch_size: float
    num_steps: float
    optimal_risk: float
    error: float


def run(config: Config) -> Result:
    """Solve for B* of every method, and compare slopes."""
    start = time.perf_counter()
    items = product(config.exponents, config.methods, config.num_samples)
    solved = map_on_cores(_solve, sorted(items, key=lambda item: NAMES.index(item[1]), reverse=True))
    rows = [row for row in solved if row is not None]
    seconds = (time.perf_counter() - start) / len(config.methods)
    return Result(columns_of(rows), UNITS, _figures(config, rows), tuple(_verdicts(config, rows, seconds)))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _solve(item: tuple[Pair, str, float]) -> Row | None:
    """None where one step with all samples is best, as of signs at b = a: all weights begin at distance 1 there."""
    pair, name, samples = item
    problem = problem_of(pair, name)
    algorithm = METHODS[name]
    try:
        found = st.critical_batch_size(problem, num_samples=samples, curve=False, algorithm=algorithm)
    except ValueError as error:
        if ONE_STEP not in str(error):
            raise
        return None
    risk = st.excess_risk(
        problem,
        batch_size=found.batch_size,
        learning_rate=found.learning_rate,
        num_samples=found.batch_size * found.num_steps,
        algorithm=algorithm,
    )
    sizes = found.smallest_batch_size, found.optimal_batch_size, found.real_batch_size
    return Row(*pair, name, samples, *sizes, found.num_steps, found.optimal_risk, float(np.max(risk.relative_error)))


def _values(rows: list[Row], pair: Pair, name: str, column: str) -> tuple[np.ndarray, np.ndarray]:
    capacity, source = pair
    return against_data(rows, column, capacity=capacity, source=source, method=name)


# ------------------------------------------------------------------ verdicts


def _verdicts(config: Config, rows: list[Row], seconds: float) -> list[Verdict]:
    exponents = [_exponent(config, rows, name, column, seconds) for column in NORMS for name in _present(config, rows)]
    return [*exponents, _control(config, rows), _larger(config, rows), _least(config, rows)]


def _present(config: Config, rows: list[Row]) -> list[str]:
    solved = {row.method for row in rows}
    return [name for name in config.methods if name in solved]


def _cases(config: Config, rows: list[Row], name: str, column: str) -> list[tuple[Pair, LastSlope]]:
    """The slope in D on each problem that the method can solve."""
    tables = [(pair, _values(rows, pair, name, column)) for pair in config.exponents]
    return [(pair, last_slope(*table)) for pair, table in tables if table[0].size]


def _predicted(pair: Pair, name: str, column: str) -> float:
    rule = st.predicted_exponent if column == "real_batch_size" else st.critical.predicted_risk_exponent
    return float(rule(seen_capacity(pair, name), pair[1]))


def _exponent(config: Config, rows: list[Row], name: str, column: str, seconds: float) -> Verdict:
    """One method's slopes of B* or R_opt against T35's."""
    judged = [(slope, _predicted(pair, name, column), pair) for pair, slope in _cases(config, rows, name, column)]
    verdicts: list[VerdictName] = [slope.verdict(predicted, config.tolerance) for slope, predicted, _ in judged]
    text = "; ".join(
        f"a = {pair[0]:g}, b = {pair[1]:g}: {slope.text}, {slope.leads} ({predicted:.3f}, {verdict})"
        for (slope, predicted, pair), verdict in zip(judged, verdicts, strict=True)
    )
    error = errors([each[:2] for each in judged])
    rule = "1 − a'/min{b, 2a'+1}" if column == "real_batch_size" else "−(m − 1)/max{m, a'}, m = min{b, 2a'+1}"
    theta = "a' = a" if name == SGD else "a' = a/2"
    first, last = (f"{end:.0e}" for end in sorted(config.num_samples)[-2:])
    return Verdict(
        f"{NORMS[column]} of {name} ∝ D^({rule}), {theta}",
        f"Slope of log {NORMS[column]} between D = {first} and {last} ± its change since the pair of D before. It "
        f"holds if its extrapolation to D → ∞, with its interval, lies within ±{config.tolerance:g} of the prediction "
        f"in brackets: {text}",
        "error 0",
        f"largest error {error.largest:+.3f}; {verdicts.count('holds')} of {len(verdicts)} slopes hold",
        error.interval,
        worst(verdicts),
        seconds,
    )


def _control(config: Config, rows: list[Row]) -> Verdict:
    """SGD's exponents must not fit the others."""
    found: list[tuple[str, VerdictName]] = []
    for name, pair in product([each for each in _present(config, rows) if each != SGD], config.exponents):
        plain = _predicted(pair, SGD, "real_batch_size")
        if abs(plain - _predicted(pair, name, "real_batch_size")) > 2 * config.tolerance:
            slopes = dict(_cases(config, rows, name, "real_batch_size"))
            if pair in slopes:
                text = f"{name}, a = {pair[0]:g}, b = {pair[1]:g}: {slopes[pair].value:.3f} (SGD: {plain:.3f})"
                found.append((text, slopes[pair].verdict(plain, config.tolerance)))
    verdicts = [verdict for _, verdict in found]
    refused = verdicts.count("fails")
    return Verdict(
        "control: SGD's exponent of B* is not that of the others",
        f"Slopes of log B* compared with SGD's exponent 1 − a/min{{b, 2a+1}}, for the cases in which the predicted "
        f"exponent differs from SGD's by more than {2 * config.tolerance:g}. The control holds if SGD's exponent "
        f"fails in every case: " + "; ".join(f"{text} {verdict}" for text, verdict in found),
        f"{len(found)} fail",
        f"{refused} fail",
        None,
        "fails" if "holds" in verdicts else "holds" if refused == len(found) else "inconclusive",
    )


def _ratios(config: Config, rows: list[Row], name: str, column: str) -> dict[Pair, np.ndarray]:
    """A column over SGD's, at every D."""
    found = {pair: _values(rows, pair, name, column)[1] for pair in config.exponents}
    return {pair: values / _values(rows, pair, SGD, column)[1] for pair, values in found.items() if values.size}


def _against_sgd(config: Config, rows: list[Row], column: str) -> tuple[str, np.ndarray]:
    """Ratios to SGD's, in words at the ends of D, and all of them."""
    texts: list[str] = []
    every: list[np.ndarray] = []
    for name in _present(config, rows):
        if name != SGD:
            ratios = _ratios(config, rows, name, column)
            every += ratios.values()
            parts = [
                f"{ratio[0]:.3g} … {ratio[-1]:.3g} (b = {pair[1]:g}, a = {pair[0]:g})" for pair, ratio in ratios.items()
            ]
            texts.append(f"{name} {', '.join(parts)}")
    return "; ".join(texts), np.concatenate(every)


def _larger(config: Config, rows: list[Row]) -> Verdict:
    """T35: it always makes larger batches useful."""
    text, ratios = _against_sgd(config, rows, "real_batch_size")
    return Verdict(
        "preconditioned SGD, signSGD and Adam have a larger B* than SGD",
        f"B* divided by SGD's, at the smallest and at the largest D. Holds if the ratio is above 1 at every D: {text}",
        "above 1",
        f"{ratios.min():.3g} … {ratios.max():.3g}",
        (float(ratios.min()), float(ratios.max())),
        "holds" if ratios.min() > 1 else "fails",
    )


def _least(config: Config, rows: list[Row]) -> Verdict:
    """Return the verdict on whether signs and Adam reach a smaller risk where b ≤ a."""
    much = [pair for pair in config.exponents if pair[1] <= pair[0]]
    text, _ = _against_sgd(config, rows, "optimal_risk")
    names = [name for name in _present(config, rows) if name != SGD]
    ratios = [_ratios(config, rows, name, "optimal_risk") for name in names]
    last = np.array([each[pair][-1] for each in ratios for pair in much if pair in each])
    return Verdict(
        "where b ≤ a preconditioned SGD, signSGD and Adam reach a smaller risk than SGD",
        f"R_opt divided by SGD's, at the smallest and at the largest D. Holds if the ratio is below 1 at the largest "
        f"D for every problem with b ≤ a: {text}",
        "below 1",
        f"{last.min():.3g} … {last.max():.3g}",
        (float(last.min()), float(last.max())),
        "holds" if last.max() < 1 else "fails",
    )


# ------------------------------------------------------------------ figures


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"optimizers": _figure(config, rows)}


def _title(config: Config, rows: list[Row]) -> str:
    """Return the title: optimal risks of signs and Adam over that of preconditioned SGD at the largest D."""
    words = []
    for name in (SIGN, FAST):
        found = []
        for pair in config.exponents:
            risk = dict(zip(*_values(rows, pair, name, "optimal_risk"), strict=True))
            plain = dict(zip(*_values(rows, pair, PRECONDITIONED, "optimal_risk"), strict=True))
            both = sorted(risk.keys() & plain.keys())
            found += [risk[both[-1]] / plain[both[-1]]] if both else []
        if found:
            ends = dict.fromkeys(f"{end:.2f}" for end in (min(found), max(found)))
            words.append(f"{' … '.join(ends)} ({name})")
    if not words:  # a small run has neither
        return "Optimal risk / optimal risk of SGD, and $B^*$ with its theory"
    return f"Optimal risk / that of preconditioned SGD: {', '.join(words)}; $B^*$ beside its theory"


def _figure(config: Config, rows: list[Row]) -> Figure:
    """B* against D and R_opt over SGD's, a column a problem, T35's powers beside B*."""
    pairs = config.exponents
    figure, axes = new_figure(2, len(pairs), width=max(2.9, LEAST_WIDTH / len(pairs)), height=2.7)
    for (above, below), pair in zip(axes.T, pairs, strict=True):
        below.axhline(1.0, color=GRAY, lw=0.8)
        for name, look in looks(_present(config, rows)):
            samples, batch = _values(rows, pair, name, "real_batch_size")
            above.plot(samples, batch, label=name, ms=4.0, **look)
            if name != SGD and samples.size:
                below.plot(samples, _ratios(config, rows, name, "optimal_risk")[pair], ms=4.0, **look)
        _powers(above, rows, pair, _present(config, rows))
        log_axes(above)
        log_axes(below)
        name_problem(above, pair)
        above.set(ylabel="critical batch size $B^*$ (samples)" if pair == pairs[0] else "")
        below.set(xlabel="samples $D$", ylabel="$R_{opt}$ / $R_{opt}$ of SGD" if pair == pairs[0] else "")
    figure.suptitle(_title(config, rows), fontsize=9)
    legend_below(figure, axes[0, 0], columns=4)
    return figure


def _powers(axis: Any, rows: list[Row], pair: Pair, names: list[str]) -> None:
    """T35's powers of D: beneath SGD's B*, and above the largest."""
    samples, plain = _values(rows, pair, SGD, "real_batch_size")
    since = samples / samples[-1]
    top = max(
        _values(rows, pair, name, "real_batch_size")[1][-1]
        for name in names
        if _values(rows, pair, name, "real_batch_size")[0].size
    )
    fast, slow = (_predicted(pair, name, "real_batch_size") for name in (SIGN, SGD))
    axis.plot(samples, 2.5 * top * since**fast, color=BLACK, lw=0.9, ls="--", label="theory, $a' = a/2$")
    axis.plot(samples, 0.5 * (plain / since**slow).min() * since**slow, color=BLACK, lw=0.9, label="theory, $a' = a$")
