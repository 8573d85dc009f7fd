"""Local SGD and DiLoCo in the exact theory: critical batch sizes, data to a risk, the best outer step."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.progress import stage

MEAN = (1.0, 0.0)  # η and μ of local SGD: the common weights become the workers' mean
DILOCO = (0.7, 0.9)  # of arXiv 2311.08105
REACH = (1.0, 1.1, 1.2, 1.35, 1.6, 2.0, 2.7, 4.0, 7.0, 15.0, 40.0, 120.0)  # D' over D at which risks are taken


class Row(NamedTuple):
    """One number; see `UNITS` of the experiment."""

    part: str
    capacity: float
    source: float
    num_workers: float
    local_steps: float
    outer_rate: float
    outer_momentum: float
    batch_size: float
    learning_rate: float
    seed: float
    value: float
    predicted: float
    tuned: float = 1.0


class Cell(NamedTuple):
    """Task of one process: a problem, its D and SGD's R_opt(D) and B*, K, H, η and μ, and the quantities to compute."""

    part: str
    pair: tuple[float, float]
    num_samples: float
    risk: float
    critical: float
    workers: int
    local_steps: int
    outer: tuple[float, float]
    overhead: float
    total_batch: int


def tuned_risk(cell: Cell, batch_size: Any, num_samples: Any) -> tuple[np.ndarray, np.ndarray]:
    """Least risk over γ with uniform averages, over SGD's R_opt(D), and that γ."""
    method = st.LocalSGD(cell.workers, cell.local_steps, *cell.outer)
    found = st.optimal_learning_rate(
        st.PowerLaw(*cell.pair), batch_size=batch_size, num_samples=num_samples, algorithm=st.Algorithm(method)
    )
    return np.asarray(found.risk, float) / cell.risk, np.asarray(found.learning_rate, float)


def crossing(excess: Callable[[int], float], start: int, most: int = 1 << 16) -> float:
    """Return where log risk / target crosses 0 from below, in logs between whole B; nan: above 0 at B = 1."""
    known: dict[int, float] = {}

    def at(size: int) -> float:
        if size not in known:
            known[size] = excess(size)
        return known[size]

    low = start
    while at(low) > 0:
        if low == 1:
            return math.nan
        low = max(1, low // 2)
    high = 2 * low
    while at(high) <= 0:
        low, high = high, 2 * high
        if low > most:
            return math.inf
    while high - low > max(1, low // 4):
        middle = round(math.sqrt(low * high))
        low, high = (low, middle) if at(middle) > 0 else (middle, high)
    share = -at(low) / (at(high) - at(low))
    return float(low * (high / low) ** share)


def solved(cell: Cell) -> Row:
    """The cell's number."""
    head = cell.part, *cell.pair, cell.workers, cell.local_steps, *cell.outer
    if cell.part == "critical":
        samples = (1 + cell.overhead) * cell.num_samples
        start = max(1, round(cell.critical / cell.workers))
        found = crossing(lambda size: math.log(float(tuned_risk(cell, size, samples)[0])), start)
        return Row(*head, found, math.nan, 0, cell.workers * found, cell.critical)
    size = cell.total_batch // cell.workers
    if cell.part == "outer":
        risk, rate = tuned_risk(cell, size, (1 + cell.overhead) * cell.num_samples)
        return Row(*head, size, float(rate), 0, float(risk), math.nan)
    reach = np.array(REACH)
    risks, rates = tuned_risk(cell, size, reach * cell.num_samples)
    logs = np.log(np.minimum.accumulate(risks))
    found = math.nan if logs[-1] > 0 else float(np.exp(np.interp(0.0, -logs, np.log(reach))))
    return Row(*head, size, float(rates[2]), 0, found, math.nan)


def theory_rows(config: Any) -> list[Row]:
    """B*, data and risks of all cells of the config."""
    cells: list[Cell] = []
    for pair in config.exponents:
        plain = st.critical_batch_size(st.PowerLaw(*pair), num_samples=config.num_samples, curve=False)
        critical = float(plain.real_batch_size)
        risk = float(plain.optimal_risk)
        first = Cell("", pair, config.num_samples, risk, critical, 1, 1, MEAN, config.overhead, 0)
        total = 2 ** round(math.log2(max(critical, max(config.workers))))

        def cell(
            part: str, workers: int, steps: int, outer: tuple[float, float], first: Any = first, total: int = total
        ) -> Cell:
            return first._replace(part=part, workers=workers, local_steps=steps, outer=outer, total_batch=total)

        cells += [cell("critical", *each, MEAN) for each in product(config.critical_workers, config.local_steps)]
        cells += [cell("critical", *each, DILOCO) for each in product(config.diloco_workers, config.diloco_steps)]
        cells += [cell("data", *each, MEAN) for each in product(config.workers, config.local_steps)]
        if pair == config.exponents[0]:
            outer = list(product(config.outer_rates, config.outer_momenta))
            cells += [cell("outer", config.outer_workers, *each) for each in product(config.outer_steps, outer)]
            cells += [cell("critical", 1, steps, MEAN) for steps in config.local_steps]
    cells.sort(key=lambda each: -each.local_steps * (1 + 4 * (each.outer[1] > 0)))
    with stage("exact theory", 0.0, 0.6):
        return map_on_cores(solved, cells, config.processes)


def same_as_one_batch(config: Any, local_steps: int) -> float:
    """Largest |R/R' − 1| of K workers, batches of B, from SGD with batches of K B, over problems and K."""
    worst = 0.0
    for pair, workers in product(config.exponents, config.critical_workers):
        problem = st.PowerLaw(*pair)
        setting: Any = {"learning_rate": 0.3, "num_samples": config.num_samples}
        apart = st.Algorithm(st.LocalSGD(workers, local_steps))
        found = st.excess_risk(problem, batch_size=2, **setting, algorithm=apart).total
        plain = st.excess_risk(problem, batch_size=2 * workers, **setting).total
        worst = max(worst, abs(float(found) / float(plain) - 1))
    return worst
