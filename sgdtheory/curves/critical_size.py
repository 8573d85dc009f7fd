"""log B* of the theory's numbers and its slopes by them, from the two runs that it rests on."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Shape
from sgdtheory.curves.extremes import Tangent
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.loss_model import LossModel
from sgdtheory.curves.loss_table import (
    FEWEST_STEPS,
    RATES_APART,
    STEPS_APART,
    AbstractLossTable,
    log_risks_of_runs,
    loss_tables,
    most_steps,
)
from sgdtheory.curves.panels import Optimizer

WINDOWS = STEPS_APART, STEPS_APART / 4, STEPS_APART / 16  # places of log B, apart
APART = 0.02  # of log B, for its first derivative
LONGEST = 1.0  # move in log B
DIFFERENCE = 1e-4  # of a coordinate, and of log B, for derivatives of a run's risk, which is smooth
MOVES = 12  # of a window with three places, or of the search for B*
ATTAINED = 1e-5  # off B*, in log B


class Run(NamedTuple):
    """A run at batch size B with learning rate γ: their logs."""

    log_batch: float
    log_rate: float


class Lowest(NamedTuple):
    """The least log risk over a window of places, and where."""

    log_risk: float
    place: float


@dataclass(frozen=True, eq=False)
class CriticalTangent(Tangent):
    """Of log B*, with the run that makes R_opt(D) and the one at B*."""

    best: Run
    critical: Run


@dataclass(frozen=True)
class CriticalSize:
    """log B* as a function of a law's coordinates.

    A table of all runs says where R_opt(D) and B* are. At other coordinates nearby they are looked for in windows about
    where they were, which takes a hundredth of the runs and no interpolation between them.

    Attributes:
        law: whose coordinates they are.
        optimizer: of the curves.
        shape: of the learning rate.
        samples: D.
        batch: that of the curves.
        top: largest learning rate.
        overhead: ω.
    """

    law: TheoryLaw
    optimizer: Optimizer
    shape: Shape
    samples: float
    batch: float
    top: float
    overhead: float

    def table(self, point: np.ndarray) -> AbstractLossTable:
        """Of all runs, at coordinates (P,)."""
        model = self._model(point[None])
        return loss_tables(model, self.optimizer, self.shape, self.samples, self.batch, self.top)[0]

    def tangent(
        self, point: np.ndarray, near: Tangent | None = None, table: AbstractLossTable | None = None
    ) -> Tangent:
        """Its value at coordinates (P,), and its slopes.

            ∂ log B*/∂θ = [∂_θ log R(1) − ∂_θ log R(*)] / (∂ log R(*)/∂ log B at constant n B)

        (1) the run that makes R_opt(D), (*) the one at B*, which has (1 + ω) D samples and as low a risk. Learning
        rates are the best ones, or at the largest that is allowed, and (1) is at the best batch size: by the envelope
        theorem what numbers do to them does not count. Slopes are 0 where B* is the largest that is looked at.

        Args:
            point: coordinates.
            near: what was found at others nearby; None: that is read off a table.
            table: at the point, if it is there; None: it is made where it is needed.
        """
        model = self._model(point[None])
        found = self._found(model, near.best, near.critical) if isinstance(near, CriticalTangent) else None
        if found is None:
            table = table or self.table(point)
            size = table.critical_batch_size(self.samples, self.overhead)[0]
            if not size < table.largest_batch(self.samples) * (1 - 1e-6):
                return Tangent(point, float(np.log(size)), np.zeros_like(point), _anything)
            from_table = self._runs(table)
            found = self._found(model, *from_table) or from_table
        return self._tangent(point, model, *found)

    def _tangent(self, point: np.ndarray, model: LossModel, best: Run, critical: Run) -> Tangent:
        rates: dict[float, float] = {critical.log_batch: critical.log_rate}

        def gap(models: LossModel, log_size: float) -> np.ndarray:
            if log_size not in rates:
                rates[log_size] = self._lowest_rate(model, log_size, critical.log_rate, self.overhead).place
            there = self._log_risks(models, log_size, np.array([rates[log_size]]), self.overhead)
            return (there - self._log_risks(models, best.log_batch, np.array([best.log_rate]), 0.0))[:, 0]

        value = critical.log_batch
        more, less = (gap(model, value + side * DIFFERENCE)[0] for side in (1, -1))
        rise = (more - less) / (2 * DIFFERENCE)
        change = DIFFERENCE * np.eye(point.size)
        up, down = np.split(gap(self._model(np.concatenate([point + change, point - change])), value), 2)

        def about(points: np.ndarray, log_size: float) -> np.ndarray:
            return log_size - gap(self._model(points), log_size) / rise

        slopes = np.nan_to_num((down - up) / (2 * DIFFERENCE * rise))
        return CriticalTangent(point, value, slopes, about, best, critical)

    def _found(self, model: LossModel, best: Run, critical: Run) -> tuple[Run, Run] | None:
        """The two runs, looked for from others on; None where B* is not within what a table looks at."""
        least, best = self._optimal(model, best)
        most = np.log(self.samples / FEWEST_STEPS)
        size, rate = critical
        before: tuple[float, float] | None = None
        for _ in range(MOVES):
            there = self._lowest_rate(model, size, rate, self.overhead)
            rate = there.place
            excess = there.log_risk - least
            if before is None:
                after = self._lowest_rate(model, size + APART, rate, self.overhead).log_risk
                rise = (after - there.log_risk) / APART
            else:
                rise = (excess - before[1]) / (size - before[0])
            if not rise > 0:
                return None
            step = float(np.clip(-excess / rise, -LONGEST, LONGEST))
            if abs(step) < ATTAINED:
                return (best, Run(size, rate)) if size < most else None
            before = size, excess
            size += step
        return None

    def _optimal(self, model: LossModel, begin: Run) -> tuple[float, Run]:
        """log R_opt(D) and its run, from that of other numbers on.

        In windows that grow narrower: where the best learning rate comes to the largest the risk has a kink.
        """
        found, rate = Lowest(np.inf, begin.log_batch), begin.log_rate
        for apart in WINDOWS:
            found, rate = self._window(model, Run(found.place, rate), apart)
        return found.log_risk, Run(found.place, rate)

    def _window(self, model: LossModel, begin: Run, apart: float) -> tuple[Lowest, float]:
        """The least of D samples over log B in a window that moves there, and log γ of the nearest place."""
        low, high = (np.log(self.samples / steps) for steps in (most_steps(self.samples, self.batch), FEWEST_STEPS))
        place, rate = begin
        known: dict[float, Lowest] = {}
        places = values = np.zeros(0)
        for _ in range(MOVES):
            places = np.clip(place, low + apart, high - apart) + apart * np.array([-1, 0, 1])
            for each in places.tolist():
                known[each] = known[each] if each in known else self._lowest_rate(model, each, rate, 0.0)
            values = np.array([known[each].log_risk for each in places.tolist()])
            middle = int(values.argmin())
            place = float(places[middle])
            rate = known[place].place
            if middle == 1 or not low + apart < place < high - apart:
                break
        return parabola(values, places), rate

    def _lowest_rate(self, model: LossModel, log_batch: float, begin: float, more: float) -> Lowest:
        """The least log risk of (1 + `more`) D samples over log γ up to the largest, from one on."""
        last = np.log(self.top)
        place = begin
        places = values = np.zeros(0)
        for _ in range(MOVES):
            places = min(place, last - RATES_APART) + RATES_APART * np.array([-1, 0, 1])
            values = self._log_risks(model, log_batch, places, more)[0]
            middle = int(values.argmin())
            place = float(places[middle])
            if middle == 1 or place >= last - 1e-9:
                break
        return parabola(values, places)

    def _log_risks(self, model: LossModel, log_batch: float, log_rate: np.ndarray, more: float) -> np.ndarray:
        """(Q, G) of runs of (1 + `more`) D samples."""
        batch = float(np.exp(log_batch))
        steps = (1 + more) * self.samples / batch
        return log_risks_of_runs(model, self.optimizer, self.shape, steps, np.exp(log_rate), batch)

    def _runs(self, table: AbstractLossTable) -> tuple[Run, Run]:
        """As a table has them."""
        size, _ = table.critical_batch_size(self.samples, self.overhead)
        steps, rate, batch = table.optimal_run(self.samples)
        best = Run(float(np.log(batch)), float(np.log(rate)))
        rate = table.best_rate((1 + self.overhead) * self.samples / size, size)
        return best, Run(float(np.log(size)), float(np.log(rate)))

    def _model(self, points: np.ndarray) -> LossModel:
        return self.law.model(self.law.values(points))


def _anything(points: np.ndarray, value: float) -> np.ndarray:
    """(Q,) of a function that is flat."""
    return np.full(len(points), value)


def parabola(values: np.ndarray, places: np.ndarray) -> Lowest:
    """The least, between the outer two, of the one through three values evenly apart; of the values if it has none."""
    low, middle, high = values
    bend = low - 2 * middle + high
    if not 0 < bend < np.inf:
        k = int(values.argmin())
        return Lowest(float(values[k]), float(places[k]))
    move = float(np.clip((low - high) / (2 * bend), -1, 1))
    value = middle + move * (high - low) / 2 + move**2 * bend / 2
    return Lowest(float(value), float(places[1] + move * (places[1] - places[0])))
