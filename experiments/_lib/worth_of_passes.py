"""Passes over N rows in the exact theory: least risks, as many fresh samples as have them, and B*."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

import sgdtheory as st

DRAWN = "with replacement"
RESHUFFLED = "reshuffled"
FRESH = "fresh rows"
HALF_STEPS = 14  # of √2 in the data that fresh rows are looked up at: up to 64 times N
OVERHEAD = 0.2
GRID = 18  # learning rates below one pass's edge, 1.4 apart
GRID_STEP = 1.4
FINER = 9  # from a neighbour of the least to the other


class Cell(NamedTuple):
    """a and b, σ², N, and the order in which the rows are read."""

    pair: tuple[float, float]
    noise_variance: float
    num_rows: int
    order: str

    @property
    def problem(self) -> Any:
        """Return the problem of N rows, in the mean over them, or the population that they come from."""
        whole = st.PowerLaw(*self.pair, noise_variance=self.noise_variance)
        return whole if self.order == FRESH else whole.with_samples(self.num_rows, replacement=self.order == DRAWN)

    def row(self, kind: str, passes: int, *found: float) -> "Row":
        """Return the table's row for K epochs."""
        return Row(kind, *self.pair, self.noise_variance, self.num_rows, passes, self.order, *found)


class Row(NamedTuple):
    """One number of passes over one cell, as in the `UNITS` of the experiment."""

    kind: str
    capacity: float
    source: float
    noise_variance: float
    num_rows: float
    passes: float
    order: str
    batch_size: float
    learning_rate: float
    risk: float
    worth: float
    fixed_rate_risk: float


def of(rows: Sequence[Row], kind: str, order: str, pair: tuple[float, float], noise: float, size: float) -> list[Row]:
    """Return the rows of one cell, by epochs."""
    asked = kind, order, pair, noise, size
    mine = [r for r in rows if (r.kind, r.order, (r.capacity, r.source), r.noise_variance, r.num_rows) == asked]
    return sorted(mine, key=lambda row: row.passes)


def worth(cell: Cell, passes: Sequence[int], batch: int) -> list[Row]:
    """Least risks after K passes, and how many fresh rows have them."""
    problem, size = cell.problem, cell.num_rows
    multiples = np.sqrt(2.0) ** np.arange(-2, HALF_STEPS - 1)
    data = batch * np.round(size * multiples / batch)
    fresh = _best(cell._replace(order=FRESH).problem, batch, data)[1]
    needed = PchipInterpolator(np.log(fresh[::-1]), np.log(data[::-1] / size), extrapolate=False)
    read = np.array(passes) * size
    rates, risks = (_best_of_grid if cell.order == RESHUFFLED else _best)(problem, batch, read)
    kept = st.excess_risk(problem, batch_size=batch, learning_rate=float(rates[0]), num_samples=read).total
    return [
        cell.row("worth", number, batch, rate, risk, float(np.exp(needed(np.log(risk)))), fixed)
        for number, rate, risk, fixed in zip(
            passes, rates.tolist(), risks.tolist(), np.asarray(kept).tolist(), strict=True
        )
    ]


def critical(cell: Cell, passes: Sequence[int]) -> list[Row]:
    """B* after K passes."""
    problem = cell.problem
    rows = []
    for number in passes:
        samples = number * cell.num_rows
        found = st.critical_batch_size(problem, num_samples=samples, overhead=OVERHEAD, curve=False)
        best = found.real_batch_size, found.learning_rate, found.optimal_risk
        rows.append(cell.row("critical", number, *best, np.nan, np.nan))
    return rows


def _best(problem: Any, batch: float, samples: Any) -> tuple[np.ndarray, np.ndarray]:
    """γ and risk."""
    found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=samples)
    return np.asarray(found.learning_rate, float), np.asarray(found.risk, float)


def _best_of_grid(problem: Any, batch: float, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of reshuffled epochs, whose epochs are computed once a γ: a grid, then a finer one, to 0.3%."""
    top = float(st.max_stable_learning_rate(problem.problem, batch_size=batch))

    def risks_at(rates: np.ndarray) -> np.ndarray:
        setting: Any = {"batch_size": batch, "learning_rate": rates[:, None], "num_samples": samples}
        return np.asarray(st.excess_risk(problem, **setting).total)

    rates = top * GRID_STEP ** np.arange(-GRID, 1.0)
    near = np.clip(risks_at(rates).argmin(0), 1, GRID - 1)
    finer = np.unique(np.concatenate([np.geomspace(rates[k - 1], rates[k + 1], FINER) for k in np.unique(near)]))
    risks = risks_at(finer)
    least = risks.argmin(0)
    return finer[least], np.take_along_axis(risks, least[np.newaxis], 0)[0]
