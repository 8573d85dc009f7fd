"""Exact risks of DANA (arXiv 2505.16098) and of momentum schedules (arXiv 2602.04774) on power laws.

The papers' α and β are a = 2α and b = 2α + 2β here. In the first paper B = 1, there is no label noise, and the problem
has d directions. Numbers of the methods are those of the authors' code (github.com/LosVolterrosHermanos/Experimental):
γ = 0.5/trace, r = 0.2 for DANA-decaying and 0.2/d for DANA-constant, and δ = 4 + b/a. The verdicts are in
`published_dana_verdicts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import sgdtheory as st
from experiments._lib.published_theory import SGD, Pair, Row, last

MOMENTUM, FREE, DECAYING, CONSTANT = "SGD with momentum", "schedule-free SGD", "DANA-decaying", "DANA-constant"
SHARE = 0.2
POINTS_A_DECADE = 5  # of a path
MOST_STEPS = 2e13  # The exponents change by 0.002 in the last factor of 10, and longer runs take a minute.


@dataclass(frozen=True)
class Momentum:
    """Problems and settings of DANA and momentum schedules.

    Attributes:
        paths: problems (a, b) on which exponents along n are compared.
        directions, steps: d and n of them.
        sizes: d of DANA-constant, for the steps after which it accelerates. The last one is for its exponent.
        wide: the problems among `paths` that have enough steps between d and the slowest time scale, d^((a + 1)/2).
        hard: problems with b < a and label noise.
        hard_steps: n of them.
        critical, critical_samples: problems and D of B*.
    """

    paths: tuple[Pair, ...] = ((2.0, 2.6), (2.0, 3.4), (2.0, 5.0), (1.5, 2.3), (2.6, 3.6))
    directions: float = 1e8
    steps: float = 1e9
    sizes: tuple[float, ...] = (1e6, 1e7, 1e9)
    wide: tuple[Pair, ...] = ((2.0, 2.6), (2.0, 3.4), (2.0, 5.0), (2.6, 3.6))
    hard: tuple[Pair, ...] = ((2.0, 1.5), (2.5, 1.5), (3.0, 1.3))
    hard_steps: tuple[float, ...] = (1e4, 1e5, 1e6)
    critical: tuple[Pair, ...] = ((2.0, 3.0), (2.0, 1.5))
    critical_samples: float = 1e3


QUICK = Momentum(
    paths=((2.0, 2.6),),
    sizes=(1e6, 1e9),
    wide=((2.0, 2.6),),
    hard=(),
    critical=(),
)


def damping(pair: Pair) -> float:
    """Return δ = 4 + b/a."""
    return 4 + pair[1] / pair[0]


def methods(pair: Pair, directions: float) -> dict[str, Any]:
    """Return the methods that are compared, by name."""
    return {
        SGD: st.SGD(),
        MOMENTUM: st.DANA(0.1, 0.0, momentum=0.9),
        FREE: st.ScheduleFree(0.9),
        DECAYING: st.DANA(SHARE, damping(pair), 1 / pair[0]),
        CONSTANT: st.DANA(SHARE / directions, damping(pair)),
    }


def exponent(pair: Pair) -> float:
    """Return the exponent of SGD's risk in n without label noise: that of the bias, or of the noise if it is less."""
    a, b = pair
    return min((b - 1) / a, 2 - 1 / a)


def acceleration(pair: Pair) -> float:
    """Return 2 − 1/a, by which DANA-decaying multiplies the exponent: its effective time is n^(2 − 1/a)."""
    return 2 - 1 / pair[0]


def last_steps(pair: Pair, directions: float) -> float:
    """Return n at which γ_3 n² λ_d is about 0.01 for DANA-constant, or the largest n that is computed.

    Up to this n the slowest direction has hardly moved, so that d directions are as good as infinitely many.
    """
    return min(0.4 * directions ** ((pair[0] + 1) / 2), MOST_STEPS)


def of_path(question: str, pair: Pair, method: str, directions: float, steps: float) -> list[Row]:
    """Return the risks of one method along a run."""
    problem = st.PowerLaw(*pair, dim=int(directions), noise_variance=0.0)
    rate = 0.5 / problem.trace
    found = st.risk_path(
        problem,
        batch_size=1,
        learning_rate=rate,
        num_samples=steps,
        algorithm=st.Algorithm(methods(pair, directions)[method], average=st.LastIterate()),
        points=int(POINTS_A_DECADE * np.log10(steps)) + 2,
    )
    table = zip(np.asarray(found.num_steps).tolist(), np.asarray(found.iterate.total).tolist(), strict=True)
    case = f"d = {directions:g}"
    return [Row(question, method, *pair, case, n, 1, rate, risk) for n, risk in table if n >= 1]


def of_hard(config: Momentum, pair: Pair) -> list[Row]:
    """Return the least risks of SGD and DANA-decaying with a linear decay to 0, B = 1 and label noise."""
    rows = []
    for method in (SGD, DECAYING):
        algorithm = last(methods(pair, np.inf)[method], st.Linear())
        found = st.optimal_learning_rate(
            st.PowerLaw(*pair), batch_size=1, num_samples=np.array(config.hard_steps), algorithm=algorithm
        )
        table = zip(config.hard_steps, np.asarray(found.learning_rate), np.asarray(found.risk), strict=True)
        rows += [Row("hard", method, *pair, "linear", n, 1, float(rate), float(risk)) for n, rate, risk in table]
    return rows


def of_critical(config: Momentum, pair: Pair) -> list[Row]:
    """Return B* of SGD and DANA-decaying with a linear decay to 0."""
    rows = []
    for method in (SGD, DECAYING):
        algorithm = last(methods(pair, np.inf)[method], st.Linear())
        found: Any = st.critical_batch_size(
            st.PowerLaw(*pair), num_samples=config.critical_samples, algorithm=algorithm
        )
        values = found.batch_size, found.learning_rate, found.optimal_risk
        rows.append(Row("critical", method, *pair, "linear", config.critical_samples, *map(float, values)))
    return rows


def momentum_items(config: Momentum) -> list[tuple[str, Any]]:
    """Return what has to be computed, the longest first."""
    return [
        *(("hard", pair) for pair in config.hard[::-1]),
        *(("critical", pair) for pair in config.critical),
        *(("dana", pair) for pair in config.paths),
    ]


def of_momentum_item(config: Momentum, question: str, pair: Pair) -> list[Row]:
    """Return the rows of one item."""
    if question == "hard":
        return of_hard(config, pair)
    if question == "critical":
        return of_critical(config, pair)
    rows = []
    for method in (SGD, MOMENTUM, FREE, DECAYING):
        rows += of_path("dana", pair, method, config.directions, config.steps)
    for size in config.sizes if pair in config.wide else ():
        rows += of_path("dana", pair, CONSTANT, size, last_steps(pair, size))
    return rows


# ------------------------------------------------------------------ of the rows


def path_of(rows: Sequence[Row], method: str, pair: Pair, directions: float) -> tuple[np.ndarray, np.ndarray]:
    """Return n and risks of a path."""
    case = f"d = {directions:g}"
    key = ("dana", method, *pair, case)
    mine = sorted((row.number, row.risk) for row in rows if (*row[:4], row.case) == key)
    n, risk = np.array(mine).T
    return n, risk


def final_exponent(rows: Sequence[Row], method: str, pair: Pair, directions: float) -> float:
    """Return the exponent of n in the risk over the last factor of 10 in n."""
    n, risk = path_of(rows, method, pair, directions)
    late = n >= n[-1] / 10
    return -float(np.polyfit(np.log(n[late]), np.log(risk[late]), 1)[0])


def steps_to_half(rows: Sequence[Row], pair: Pair, directions: float, largest: float) -> float:
    """Return n at which DANA-constant has half the risk that SGD has on `largest` directions."""
    n, risk = path_of(rows, CONSTANT, pair, directions)
    plain, plain_risk = path_of(rows, SGD, pair, largest)
    slope = np.log(plain_risk[-1] / plain_risk[-2]) / np.log(plain[-1] / plain[-2])
    beyond = np.log(plain_risk[-1]) + slope * (np.log(n) - np.log(plain[-1]))  # a power law goes on
    log_plain = np.where(n <= plain[-1], np.interp(np.log(n), np.log(plain), np.log(plain_risk)), beyond)
    gap = log_plain - np.log(risk)
    first = int(np.argmax(gap > np.log(2)))
    return float(np.exp(np.interp(np.log(2), gap[first - 1 : first + 1], np.log(n[first - 1 : first + 1]))))
