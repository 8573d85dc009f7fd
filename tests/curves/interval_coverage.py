"""How often 95% intervals of `fit_loss_curves` hold what is true: `python -m benchmarks.curve_intervals`.

Curves of the theory, with residuals that are correlated along log t, are fitted again and again. Of each number, and of
B* at `--num-samples`, how many of 100 intervals hold it: by profile likelihood and, beneath, linear in the numbers.
docs/loss-curves.md has a table. B* alone, kept row by row:

    python -m benchmarks.curve_intervals --design "three schedules" --replicas 0 --critical 200 --csv rows.csv

Fits start at the truth: the search for a start is not what is looked at. A number is held where its profile at the true
value is inside; whether ends are given, or left open, is not looked at.
"""

import argparse
import csv
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sgdtheory as st
from sgdtheory._common.files import csv_text, write_atomically
from sgdtheory.curves.correlated_residuals import correlation
from sgdtheory.curves.critical_size import CriticalSize
from sgdtheory.curves.extremes import extremes
from sgdtheory.curves.law_fit import confidence_set
from sgdtheory.curves.laws.theory import GROWTH as GROWTH_NUMBER
from sgdtheory.curves.laws.theory import NUMBERS, TheoryLaw
from sgdtheory.curves.profile import ProfileSet
from sgdtheory.curves.robust_fit import RobustFit, fit, observed

STEPS = 6000
SCHEDULES = {"cosine": st.Cosine(final=0.1), "constant": st.Constant(), "drop": st.Stages((0.0, 0.4), (1.0, 0.3))}
TRUE = {"capacity": 1.6, "source": 1.9, "signal": 1.0, "noise": 0.125, "step_size": 0.2, "floor": 2.0}
GROWTH = 1e-3  # of the weights' squared norm in a step
PEAK = 0.2  # learning rate


@dataclass(frozen=True)
class Design:
    """Curves that are fitted: schedules, scatter and its correlation in log t, σ²/B, B, law, rows of a curve."""

    schedules: tuple[str, ...] = ("cosine", "constant", "drop")
    scatter: float = 5e-4
    length: float = 0.1
    noise: float = 0.125
    batch: float | None = None
    law: TheoryLaw = TheoryLaw()
    rows: int = 40

    @property
    def truth(self) -> np.ndarray:
        """(P,) coordinates."""
        values = TRUE | {"noise": self.noise * (self.batch or 1.0), "growth": GROWTH}
        return self.law.coordinates(values)

    def curves(self) -> list[st.LossCurve]:
        """Without scatter."""
        steps = np.unique(np.append(np.round(np.geomspace(150, STEPS, self.rows)), 0.4 * STEPS))
        flat = [
            st.LossCurve(
                steps,
                PEAK * SCHEDULES[name].factors(np.minimum(steps, STEPS - 1), STEPS),
                np.ones(steps.size),
                self.batch,
                name=name,
            )
            for name in self.schedules
        ]
        losses = self.law.losses(self.law.values(self.truth[None]), self.law.prepared(flat))
        return [with_losses(curve, loss[0]) for curve, loss in zip(flat, losses, strict=True)]


DESIGNS = {
    "three schedules": Design(),
    "one curve": Design(("cosine",), rows=60),
    "batch sizes known": Design(batch=32.0),
    "little noise": Design(noise=0.0125),
    "scatter ten times": Design(scatter=5e-3),
    "correlated long": Design(length=0.4),
    "weight decay": Design(law=TheoryLaw(0.1)),
    "Adam": Design(law=TheoryLaw(optimizer="adam")),
}


def with_losses(curve: st.LossCurve, loss: np.ndarray) -> st.LossCurve:
    """The same curve with other losses."""
    return st.LossCurve(curve.step, curve.learning_rate, loss, curve.batch_size, name=curve.name)


def replica(design: Design, clean: list[st.LossCurve], random: np.random.Generator) -> list[st.LossCurve]:
    """The curves with scatter of their own."""
    scattered = []
    for curve in clean:
        root = np.linalg.cholesky(correlation([np.log(curve.step)], design.length, 0.0))
        scatter = design.scatter * root @ random.standard_normal(curve.step.size)
        scattered.append(with_losses(curve, curve.loss * np.exp(scatter)))
    return scattered


def held(design: Design, found: RobustFit, within: ProfileSet) -> tuple[np.ndarray, np.ndarray]:
    """(P,) which numbers are held, by profiles and by the linear set."""
    normal = np.eye(found.coordinates.size)
    off = np.abs(found.coordinates - design.truth)
    linear = off <= within.linear.quantile * np.sqrt(np.diag(found.covariance))
    return within.depth_at(normal, design.truth) <= 1, linear


def critical_size(design: Design, samples: float) -> CriticalSize:
    """log B* as a function of the design's numbers."""
    optimizer = design.law.prepared(design.curves()).optimizer
    return CriticalSize(design.law, optimizer, st.Linear(), samples, design.batch or 1.0, PEAK, 0.2)


class CriticalRow(NamedTuple):
    """Of one replica: its design, D and seed, log B* of the true numbers, of the fitted ones, the ends of its interval,
    where a linear one ends, and processor seconds.
    """

    design: str
    samples: float
    seed: int
    truth: float
    fitted: float
    low: float
    high: float
    reach: float
    seconds: float

    @property
    def held(self) -> tuple[bool, bool]:
        """Whether the intervals hold it, by profiles and linear."""
        return self.low <= self.truth <= self.high, abs(self.fitted - self.truth) <= self.reach


def fits(design: Design, seeds: Iterable[int]) -> Iterator[tuple[int, RobustFit, ProfileSet]]:
    """Of each replica, from the truth on."""
    clean = design.curves()
    start = {name: float(value[0]) for name, value in design.law.values(design.truth[None]).items()}
    for seed in seeds:
        data = observed(replica(design, clean, np.random.default_rng(seed)), design.law)
        found = fit(data, [start], lambda text: None)
        within = confidence_set(found, data, 0.95)
        assert isinstance(within, ProfileSet)
        yield seed, found, within


def critical_rows(name: str, samples: float, seeds: Iterable[int]) -> Iterator[CriticalRow]:
    """Of B*, one a replica."""
    design = DESIGNS[name]
    size = critical_size(design, samples)
    truth = size.tangent(design.truth).value
    begun = time.process_time()
    for seed, _, within in fits(design, seeds):
        there = size.tangent(within.best)
        low, high = extremes(within, size.tangent)
        seconds = time.process_time() - begun
        yield CriticalRow(name, samples, seed, truth, there.value, low, high, within.reach(there.slopes), seconds)
        begun = time.process_time()


def kept_rows(path: Path | None, name: str, samples: float, seeds: Sequence[int]) -> list[CriticalRow]:
    """The same, those in a CSV file as they are there; each new one is added to it when it is found."""
    known = [] if path is None or not path.exists() else read_rows(path)
    asked = {row.seed: row for row in known if (row.design, row.samples) == (name, samples)}
    for row in critical_rows(name, samples, [seed for seed in seeds if seed not in asked]):
        asked[row.seed] = row
        known.append(row)
        if path is not None:
            write_atomically(path, csv_text(CriticalRow._fields, known))
    return [asked[seed] for seed in seeds]


def read_rows(path: Path) -> list[CriticalRow]:
    """As they were written."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = CriticalRow.__annotations__
    return [CriticalRow(**{name: kinds[name](value) for name, value in row.items()}) for row in rows]


def coverage(design: Design, seeds: Iterable[int]) -> np.ndarray:
    """Replicas × (profile, linear) × numbers."""
    return np.array([held(design, found, within) for _, found, within in fits(design, seeds)])


def main() -> None:
    """Print a table, two lines a design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--design", nargs="+", choices=DESIGNS, default=[*DESIGNS])
    parser.add_argument("--replicas", type=int, default=200, help="for the numbers")
    parser.add_argument("--critical", type=int, default=60, help="for B*")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--num-samples", type=float, default=STEPS, help="in batches of the curves")
    parser.add_argument("--csv", type=Path, help="rows of B*, kept one by one: what is there is not computed again")
    given = parser.parse_args()
    columns = [number.name for number in (*NUMBERS, GROWTH_NUMBER)]
    print(f"{'':28}" + "".join(f"{name:>10}" for name in [*columns, "B*"]))
    first = given.first_seed
    for name in given.design:
        design = DESIGNS[name]
        samples = given.num_samples * (design.batch or 1.0)
        rows = kept_rows(given.csv, name, samples, range(first, first + given.critical))
        sizes = np.array([row.held for row in rows]).reshape(-1, 2)
        count = len(design.law.numbers)
        numbers = coverage(design, range(first, first + given.replicas)).reshape(-1, 2, count)
        for k, kind in enumerate(("profile", "linear")):
            shares = [each[:, k].mean(0) if len(each) else np.nan for each in (numbers, sizes)]
            shares = [*(shares[0] + np.zeros(count)), *[np.nan] * (len(columns) - count), shares[1]]
            print(
                f"{name if k == 0 else '':20}{kind:8}" + "".join(f"{100 * each:10.1f}" for each in shares), flush=True
            )
    error = 100 * np.sqrt(0.95 * 0.05 / np.maximum([given.replicas, given.critical], 1))
    print(f"of 100; standard errors at 95: {error[0]:.1f}, of B* {error[1]:.1f}")
