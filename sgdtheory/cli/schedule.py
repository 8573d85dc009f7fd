"""`sgdtheory schedule`: the best learning rates and batch sizes, and what schedules with a name lose."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.algorithms import SGD, Algorithm, LastIterate, algorithm_text
from sgdtheory.cli.algorithm import MethodCommand
from sgdtheory.cli.output import print_json, print_note, print_tables, require_figure_suffix, write_figure
from sgdtheory.cli.settings import ProblemCommand
from sgdtheory.optimal import NamedSchedule, OptimalSchedule, named_schedules, optimal_schedule

FRACTIONS = 0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99


@dataclass(frozen=True, kw_only=True)
class ScheduleCommand(ProblemCommand, MethodCommand):
    """The schedule that leaves the last iterate of SGD, signs or Adam the least risk on power-law regression.

    Learning rates of SGD are searched up to the stability edge: a few steps with one beyond it may have less risk.
    With --batch-size the learning rates alone are found, with --num-steps the batch sizes of SGD too. Schedules with a
    name, their peaks tuned, are listed by what they lose; averages of the iterates may do better than any last one.
    """

    num_samples: float
    """Number of samples D."""
    batch_size: float | None = None
    """Batch size B of all steps."""
    num_steps: float | None = None
    """Number of steps n, without a batch size: batch sizes B_t that add up to D are found too."""
    plot: Path | None = None
    """Draw the schedules and their losses to this .png, .pdf or .svg."""

    def run(self) -> None:
        """Search, compare and print."""
        require_figure_suffix(self.plot)
        best = optimal_schedule(
            self.problem,
            num_samples=self.num_samples,
            batch_size=self.batch_size,
            num_steps=self.num_steps,
            method=self.described_method,
        )
        named = named_schedules(self.problem, best)
        if self.plot:
            from sgdtheory import plotting  # matplotlib is slow to import

            title = f"{self.problem_in_mathematics}{_words(best)}, $D = {self.num_samples:g}$, $n = {best.num_steps:g}$"
            write_figure(plotting.optimal_schedule(best, named=named, title=title), self.plot)
        if self.json:
            print_json(self._json(best, named))
        else:
            print_tables(self._table(best), self._losses(best, named))
        if best.remark:
            print_note(best.remark)

    def _json(self, best: OptimalSchedule, named: dict[str, NamedSchedule]) -> dict[str, Any]:
        found = {
            name: getattr(best, name)
            for name in (
                *("num_steps", "num_samples", "risk", "lower_bound", "slope", "with_half_the_knots"),
                *("from_starts", "searches", "agreeing"),
            )
        }
        if best.remark:
            found = {"method": algorithm_text(Algorithm(best.algorithm.method))} | found | {"remark": best.remark}
        fractions = np.array(FRACTIONS)
        curves = {
            "fractions": fractions,
            "learning_rates": best.learning_rate(fractions),
            "batch_sizes": best.batch_size(fractions),
        }
        losses = {
            name: {"learning_rate": each.learning_rate, "risk": each.risk, "loss": each.loss}
            for name, each in named.items()
        }
        return self.problem_in_json | found | curves | {"named": losses}

    def _table(self, best: OptimalSchedule) -> Table:
        caption = (
            f"n = {best.num_steps:g} steps, D = {best.num_samples:g}: excess risk {best.risk:.6g}, "
            f"{best.lower_bound_gap:.3g} times a bound below every linear method; slope at the optimum "
            f"{best.slope:.0e}; {best.agreeing} of {best.searches} searches end there"
        )
        below = " up to the stability edge" if best.algorithm.linear else ""
        table = Table(title=f"best schedule{below}: {self.problem_title}{_words(best)}", caption=caption)
        for header in ("t/n", "learning rate γ_t", "batch size B_t"):
            table.add_column(header, justify="right")
        for fraction in FRACTIONS:
            table.add_row(f"{fraction:g}", f"{best.learning_rate(fraction):.4g}", f"{best.batch_size(fraction):.4g}")
        return table

    def _losses(self, best: OptimalSchedule, named: dict[str, NamedSchedule]) -> Table:
        nearest = next(name for name, each in named.items() if each.algorithm.average == LastIterate())
        table = Table(
            title=f"schedules with a name, peak γ tuned, B = {best.num_samples / best.num_steps:g}",
            caption=f"nearest: {nearest}, {named[nearest].loss:.1%} above the least risk of a last iterate",
        )
        for header in ("schedule", "peak γ", "excess risk", "over the least"):
            table.add_column(header, justify="left" if header == "schedule" else "right")
        for name, each in named.items():
            table.add_row(name, f"{each.learning_rate:.4g}", f"{each.risk:.5g}", f"{1 + each.loss:.4f}")
        return table


def _words(best: OptimalSchedule) -> str:
    """What a title says of the method: nothing of SGD."""
    method = best.algorithm.method
    return "" if method == SGD() else f"; {algorithm_text(Algorithm(method))}"
