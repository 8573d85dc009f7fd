"""Exact best learning rates, least risks and steps in the settings of published numbers."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

import sgdtheory as st
from experiments._lib.published_numbers import BETA2, COSINE, LINEAR, ROOT, WHOLE, Decays, decays

Pair = tuple[float, float]
SGD, SIGN, SIGNUM, ADAM = "SGD", "signSGD", "signSGD, β = 0.95", "Adam"
FIXED_END = "Adam, fixed end rate"
METHODS: dict[str, Any] = {
    SGD: st.SGD(),
    SIGN: st.SignSGD(),
    SIGNUM: st.SignSGD(momentum=0.95),
    ADAM: st.Adam(beta1=0.9, beta2=0.95),
    FIXED_END: st.Adam(beta1=0.9, beta2=0.95),
}
SHAPES: dict[str, st.algorithms.Shape] = {
    **{name: st.WSD(decay=share) for name, share in LINEAR.items()},
    WHOLE: st.Linear(),
    ROOT: st.WSD(decay=0.2, power=0.5),
    COSINE: st.Cosine(),
}
RATE_TOLERANCE = (
    0.01  # Accuracy of ln γ* in the search with a fixed end rate. Slopes over a factor of 10 move by 0.004.
)
WIDEST = 1.5  # Half-width, in ln γ, of that search about the best learning rate of a decay to 0.


class Row(NamedTuple):
    """One best learning rate, as in `UNITS` of the experiment."""

    question: str
    method: str
    capacity: float
    source: float
    case: str
    number: float
    batch_size: float
    learning_rate: float
    risk: float


class KinkLaw(NamedTuple):
    """Exponents of γ* ∝ D^−c B^p below a kink at B ∝ D^κ: p, c and κ."""

    batch_exponent: float
    duration_exponent: float
    kink_exponent: float


def last(method: Any, shape: Any) -> st.Algorithm:
    """Return the algorithm whose last iterate counts."""
    return st.Algorithm(method, schedule=shape, average=st.LastIterate())


def _best(problem: Any, batch: Any, samples: Any, algorithm: Any) -> tuple[np.ndarray, np.ndarray]:
    found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=samples, algorithm=algorithm)
    return np.asarray(found.learning_rate, float), np.asarray(found.risk, float)


def of(rows: Sequence[Row], question: str, method: str, pair: Pair, case: str | None = None) -> list[Row]:
    """Return the rows of one question, method and problem."""
    return [
        row
        for row in rows
        if (row.question, row.method, row.capacity, row.source) == (question, method, *pair)
        and case in (None, row.case)
    ]


def of_schedules(method: str, pair: Pair, durations: Sequence[float], batch: float) -> list[Row]:
    """Return the best learning rates of all schedules, at all durations in steps."""
    steps = np.array(durations, float)
    rows = []
    for name, shape in SHAPES.items():
        rates, risks = _best(st.PowerLaw(*pair), batch, steps * batch, last(METHODS[method], shape))
        table = zip(durations, rates.tolist(), risks.tolist(), strict=True)
        rows += [Row("schedules", method, *pair, name, number, batch, *found) for number, *found in table]
    return rows


def decays_of(rows: Sequence[Row], method: str, pair: Pair) -> Decays:
    """Return what the best learning rates of `of_schedules` say."""
    table = {(row.case, row.number): row for row in of(rows, "schedules", method, pair)}
    durations = sorted({number for _, number in table})

    def along(name: str) -> float:
        logs = [np.log(table[name, number].learning_rate) for number in durations]
        return float(-np.polyfit(np.log(durations), logs, 1)[0])

    def best(name: str) -> tuple[float, float]:
        row = table[name, durations[-1]]
        return float(np.log(row.learning_rate)), row.risk

    return decays(best, along)


def of_kink(method: str, pair: Pair, samples: Sequence[float], sizes: Sequence[float], steps: float) -> list[Row]:
    """Return the best learning rates of a cosine decay to 0 over B and D, for runs of at least so many steps."""
    rows = []
    for data in samples:
        batch = np.array([size for size in sizes if size * steps <= data])
        rates, risks = _best(st.PowerLaw(*pair), batch, data, last(METHODS[method], st.Cosine()))
        table = zip(batch.tolist(), rates.tolist(), risks.tolist(), strict=True)
        rows += [Row("kink", method, *pair, "cosine", data, *found) for found in table]
    return rows


def with_fixed_end(rows: Sequence[Row], share: float) -> list[Row]:
    """Return the best peak learning rates of cosines that end at one learning rate, whatever the peak.

    Args:
        rows: of cosines to 0.
        share: the end rate, over the smallest best peak of them.
    """
    end = share * min(row.learning_rate for row in rows)
    found = []
    for row in rows:

        def log_risk(log_rate: float, row: Row = row) -> float:
            rate = float(np.exp(log_rate))
            risk = st.excess_risk(
                st.PowerLaw(row.capacity, row.source),
                batch_size=row.batch_size,
                learning_rate=rate,
                num_samples=row.number,
                algorithm=last(METHODS[FIXED_END], st.Cosine(final=end / rate)),
            )
            return float(np.log(risk.total))

        middle = np.log(row.learning_rate)
        bounds = middle - WIDEST, middle + WIDEST
        best: Any = optimize.minimize_scalar(
            log_risk, bounds=bounds, method="bounded", options={"xatol": RATE_TOLERANCE}
        )
        case = f"end rate {share:g}"
        found.append(
            row._replace(method=FIXED_END, case=case, learning_rate=float(np.exp(best.x)), risk=float(np.exp(best.fun)))
        )
    return found


def kink_law(rows: Sequence[Row]) -> KinkLaw:
    """Return the exponents of T47's law, with the sharpness that fits best, by least squares of ln γ*."""
    batch, data, rate = np.log([(row.batch_size, row.number, row.learning_rate) for row in rows]).T
    duration = data - data.mean()

    def residuals(numbers: np.ndarray, sharpness: float) -> np.ndarray:
        level, fall, rise, kink, power = numbers
        below = -np.logaddexp(-sharpness * batch, -sharpness * (kink + power * duration)) / sharpness
        return level - fall * duration + rise * below - rate

    starts = [np.array([rate.mean(), 0.3, 0.7, place, 0.5]) for place in np.linspace(batch.min(), batch.max(), 5)]
    found = [
        optimize.least_squares(residuals, start, args=(sharpness,)) for start in starts for sharpness in (2, 4, 8, 16)
    ]
    _, fall, rise, _, power = min(found, key=lambda each: each.cost).x
    return KinkLaw(float(rise), float(fall), float(power))


def of_beta2(pair: Pair, samples: float, sizes: Sequence[float]) -> list[Row]:
    """Return the least risks of Adam over β₂ and B, with a linear decay."""
    batch = np.array(sizes, float)
    rows = []
    for beta2 in BETA2:
        rates, risks = _best(st.PowerLaw(*pair), batch, samples, last(st.Adam(beta1=0.9, beta2=beta2), st.Linear()))
        table = zip(sizes, rates.tolist(), risks.tolist(), strict=True)
        rows += [Row("beta2", ADAM, *pair, f"{beta2:g}", samples, *found) for found in table]
    return rows


def of_peak(pair: Pair, durations: Sequence[float]) -> list[Row]:
    """Return the best peaks of the power decay 2a − 1 at B = 1."""
    steps = np.array(durations, float)
    rates, risks = _best(st.PowerLaw(*pair), 1, steps, last(st.SGD(), st.PowerDecay(2 * pair[0] - 1)))
    table = zip(durations, rates.tolist(), risks.tolist(), strict=True)
    return [Row("peak", SGD, *pair, "power 2a − 1", number, 1, *found) for number, *found in table]


def of_epochs(pair: Pair, sizes: Sequence[int], most: float) -> list[Row]:
    """Return least risks over N fresh samples, and over any number of epochs over N samples, at B = 1.

    Args:
        pair: a and b, b < a.
        sizes: N.
        most: the largest number of epochs over N^(a/b − 1), where further epochs no longer help in theory.
    """
    a, b = pair
    rows = []
    for size in sizes:
        fresh = _best(st.PowerLaw(*pair), 1, size, st.Algorithm())
        rows.append(Row("epochs", SGD, a, b, "fresh", size, 1, float(fresh[0]), float(fresh[1])))
        last_doubling = max(int(np.log2(most * size ** (a / b - 1))), 1)
        read = size * 2.0 ** np.arange(last_doubling + 1)
        rates, risks = _best(st.PowerLaw(*pair).with_samples(size, replacement=True), 1, read, st.Algorithm())
        best = int(risks.argmin())
        rows.append(Row("epochs", SGD, a, b, "epochs", size, 1, float(rates[best]), float(risks[best])))
    return rows


def of_momentum(pair: Pair, steps: Sequence[float], sizes: Sequence[float]) -> list[Row]:
    """Return least risks of signSGD with and without momentum over steps and B, with a linear decay."""
    rows = []
    for method in (SIGN, SIGNUM):
        for batch in sizes:
            count = np.array(steps, float)
            rates, risks = _best(st.PowerLaw(*pair), batch, count * batch, last(METHODS[method], st.Linear()))
            table = zip(steps, rates.tolist(), risks.tolist(), strict=True)
            rows += [Row("momentum", method, *pair, "linear", number, batch, *found) for number, *found in table]
    return rows


def steps_ratio(rows: Sequence[Row], pair: Pair, batch: float) -> float:
    """Return the steps without momentum over those with it, to the risk in the middle of the steps with it."""

    def line(method: str) -> np.ndarray:
        found = [row for row in of(rows, "momentum", method, pair) if row.batch_size == batch]
        return np.log([(row.number, row.risk) for row in sorted(found, key=lambda row: row.number)]).T

    (steps, risks), (_, target) = line(SIGN), line(SIGNUM)
    middle = steps.size // 2
    return float(np.exp(np.interp(-target[middle], -risks, steps) - steps[middle]))


def slope(rows: Sequence[Row], of_row: Callable[[Row], float]) -> float:
    """Return the slope of the log of a quantity in the log of D, n or N, between the two largest."""
    (x0, y0), (x1, y1) = sorted((np.log(row.number), np.log(of_row(row))) for row in rows)[-2:]
    return float((y1 - y0) / (x1 - x0))
