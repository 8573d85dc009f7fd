"""Coverage of 95% intervals of B* on laws other than the theory's: `python -m benchmarks.curve_critical`.

Every data set is drawn anew (`tests/curves/foreign_laws.py`): three to six times between batch sizes, scatter from 0.2%
to 3%, independent or correlated over 10 or 40 rows, five schedules, runs of equal or growing length. The truth is the
law's own B* at the overhead, the reference (vanishing batch sizes) and the largest learning rate of the command.
Rows go to `--csv` one by one, so that a run goes on where it was stopped. `--control` leaves out the model error.
"""

import argparse
import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sgdtheory._common.files import csv_text, write_atomically
from sgdtheory.curves.equal_loss import Allowances, compare_at_equal_loss
from tests.curves.foreign_laws import CHOSEN, OVERHEAD, TESTED, example

LEVEL = 0.95
NO_MODEL_ERROR = Allowances(*[1e-3] * 5, 1e-4, 1e-4, 1.0)
SAVED_EVERY = 20  # rows


class Row(NamedTuple):
    """One data set: its law, batch sizes, whether learning rates were tried, seed, the law's B* and that found."""

    law: str
    sizes: int
    rates: str
    seed: int
    truth: float
    found: float
    low: float
    high: float

    @property
    def closed(self) -> bool:
        """Return whether both ends are known."""
        return self.low > 0 and np.isfinite(self.high)

    @property
    def held(self) -> bool:
        """Return whether the interval contains the truth."""
        return self.low <= self.truth <= self.high


def measured(law: str, sizes: int, rates: str, seed: int, allowances: Allowances = Allowances()) -> Row:  # noqa: B008
    """Return the row of one data set."""
    curves, samples, truth = example(law, sizes, rates == "swept", seed)
    found = compare_at_equal_loss(curves, samples, OVERHEAD, LEVEL, allowances=allowances)
    if found is None:
        return Row(law, sizes, rates, seed, truth, np.nan, 0.0, np.inf)
    return Row(law, sizes, rates, seed, truth, found.batch_size, *found.interval)


class Summary(NamedTuple):
    """Number of data sets; share of open intervals; share of closed ones that hold the truth; their median ratio."""

    count: int
    is_open: float
    coverage: float
    ratio: float


def summary(rows: Iterable[Row]) -> Summary:
    """Return the shares of some rows; nan where none is closed."""
    rows = list(rows)
    closed = [row for row in rows if row.closed]
    if not closed:
        return Summary(len(rows), 1.0, np.nan, np.nan)
    ratio = float(np.median([row.high / row.low for row in closed]))
    return Summary(len(rows), 1 - len(closed) / len(rows), float(np.mean([row.held for row in closed])), ratio)


def kept(path: Path | None, tasks: list[tuple[str, int, str, int]], allowances: Allowances) -> list[Row]:
    """Return the rows of tasks; those in the CSV file are not computed again, and new ones are added to it."""
    known = {row[:4]: row for row in (read_rows(path) if path is not None and path.exists() else [])}
    for number, task in enumerate(tasks, 1):
        if task not in known:
            known[task] = measured(*task, allowances)
        if path is not None and (number % SAVED_EVERY == 0 or number == len(tasks)):
            write_atomically(path, csv_text(Row._fields, list(known.values())))
    return [known[task] for task in tasks]


def read_rows(path: Path) -> list[Row]:
    """Return rows as they were written."""
    kinds = Row.__annotations__
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(**{name: kinds[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]


def main() -> None:
    """Print a line for each law, and totals by the number of batch sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--law", nargs="+", choices=[*CHOSEN, *TESTED], default=[*TESTED])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 2, 3, 5])
    parser.add_argument("--replicas", type=int, default=10, help="data sets of each law, number of sizes and rates")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="rows, kept: what is there is not computed again")
    parser.add_argument("--control", action="store_true", help="intervals without model error, which must fail")
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.replicas)
    cases = [(law, count, rates) for law in given.law for count in given.sizes for rates in ("fixed", "swept")]
    rows = kept(
        given.csv,
        [(*case, seed) for seed in seeds for case in cases],
        NO_MODEL_ERROR if given.control else Allowances(),
    )
    print(f"{'law':16}{'sizes':>6}{'rates':>7}{'sets':>6}{'open':>7}{'closed hold':>13}{'high/low':>10}")

    def line(law: str, count: object, rates: str, some: list[Row]) -> None:
        found = summary(some)
        print(
            f"{law:16}{count!s:>6}{rates:>7}{found.count:>6}{found.is_open:>7.0%}{found.coverage:>13.0%}{found.ratio:>10.2f}"
        )

    for law, count, rates in cases:
        line(law, count, rates, [row for row in rows if row[:3] == (law, count, rates)])
    for count in given.sizes:
        line("all", count, "both", [row for row in rows if row.sizes == count])
    line("all", "all", "both", rows)
