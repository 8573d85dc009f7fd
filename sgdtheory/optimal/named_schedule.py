"""A schedule by its name, and the table of several of them beside the best one."""

from collections.abc import Mapping
from dataclasses import dataclass

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import Algorithm, LastIterate, algorithm_text


@dataclass(frozen=True)
class NamedSchedule(Shown):
    """A schedule by its name, its peak tuned.

    Attributes:
        algorithm: what is run, with a constant batch size.
        learning_rate: best peak γ, in the units of the best schedule's.
        risk: excess risk there, as exact as the best one's, units of y².
        loss: risk over that of the best last iterate, minus 1.
    """

    algorithm: Algorithm
    learning_rate: float
    risk: float
    loss: float

    def sheet(self) -> Sheet:
        """Its peak, its risk, and what it loses."""
        quantities = [
            Quantity("learning_rate", "peak γ", self.learning_rate),
            Quantity("risk", "excess risk, y²", self.risk),
            Quantity("loss", "relative excess over the least", self.loss),
        ]
        return Sheet(algorithm_text(self.algorithm), [Table(quantities)])


def table_of_schedules(named: Mapping[str, NamedSchedule], batch_size: float) -> Table:
    """Return what each schedule loses, at the batch size of all of them; the legend names the best last iterate."""
    nearest, best = next(item for item in named.items() if item[1].algorithm.average == LastIterate())
    quantities = [
        Quantity("", "schedule", list(named)),
        Quantity("", "peak γ", [each.learning_rate for each in named.values()]),
        Quantity("", "excess risk", [each.risk for each in named.values()], digits=5),
        Quantity("", "over the least", [1 + each.loss for each in named.values()], digits=5),
    ]
    legend = f"nearest: {nearest}, {best.loss:.1%} above the least risk of a last iterate"
    return Table(quantities, title=f"schedules with a name, peak γ tuned, B = {batch_size:g}", legend=legend)
