"""`sgdtheory path`: the exact risk along a run, of several algorithms side by side."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.table import Table

from sgdtheory.algorithms import Algorithm, algorithm_settings, algorithm_text, make_algorithm
from sgdtheory.cli.algorithm import EQUIVALENT, with_risk
from sgdtheory.cli.output import print_json, print_note, print_tables, require_figure_suffix, write_figure
from sgdtheory.cli.settings import ProblemCommand
from sgdtheory.risk import RiskPath, risk_path

ROWS = 12  # of a table that are printed
OWN = "batch_size", "learning_rate"  # which an algorithm may have its own of


@dataclass(frozen=True, kw_only=True)
class PathCommand(ProblemCommand):
    """Exact excess risk along a run on power-law regression, of one algorithm or of several side by side.

    An algorithm is a short text: a method, a schedule and an average by their names, and what belongs to them as the
    flags of sgdtheory risk have it: "heavy-ball momentum=0.9 wsd decay=0.1 last". It may have its own learning-rate=
    and batch-size=, and the schedule of its batch size is batch-schedule=linear batch-final=8.
    """

    batch_size: float
    """Batch size B."""
    learning_rate: float
    """Learning rate γ, in 1/λ_1; of {nonlinear} in units of the weights,
    w_0 − w* = √(s_i/λ_i)."""
    num_samples: float
    """Number of samples D."""
    algorithm: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """What is run, in a text; one --algorithm for each; sgd unless given."""
    points: int = 200
    """Numbers of steps, log-spaced, in JSON and in the figure; a table shows a dozen that all have."""
    plot: Path | None = None
    """Draw the loss curves to this .png, .pdf or .svg."""

    def run(self) -> None:
        """Compute and print."""
        require_figure_suffix(self.plot)
        runs = self._runs()
        settings = self._settings()
        paths = {
            name: risk_path(self.problem, **settings | own, algorithm=algorithm, points=self.points)
            for name, (algorithm, own) in runs.items()
        }
        if self.plot:
            self._draw(self.plot, paths)
        if self.json:
            entries = [
                {"name": name, "algorithm": algorithm_text(runs[name][0])} | settings | runs[name][1] | _columns(path)
                for name, path in paths.items()
            ]
            print_json(self.problem_in_json | {"paths": entries})
        else:
            groups: dict[Any, dict[str, RiskPath]] = {}  # that have the same steps, and samples after each
            for name, (algorithm, own) in runs.items():
                batch_size = own.get("batch_size", self.batch_size)
                groups.setdefault((algorithm.batch_schedule, batch_size), {})[name] = paths[name]
            print_tables(*(self._table(group) for group in groups.values()))
        if not all(algorithm.linear for algorithm, _ in runs.values()):
            print_note(EQUIVALENT)

    def _settings(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in (*OWN, "num_samples")}

    def _runs(self) -> dict[str, tuple[Algorithm, dict[str, float]]]:
        """Text → its algorithm, and the batch size and learning rate that it has of its own."""
        found = {}
        for text in self.algorithm or ("sgd",):
            name = " ".join(text.split())
            if name in found:
                raise ValueError(f"algorithm must be given once each, got {name!r} twice")
            try:
                settings = algorithm_settings(text, OWN)
                own = {each: settings.pop(each) for each in OWN if each in settings}
                found[name] = with_risk(make_algorithm(settings)), own
            except ValueError as error:
                raise ValueError(f"algorithm {name!r}: {error}") from None
        return found

    def _table(self, paths: dict[str, RiskPath]) -> Table:
        """Return the table of algorithms whose runs have the same numbers of steps."""
        setting = f"B = {self.batch_size:g}, γ = {self.learning_rate:g}, D = {self.num_samples:g}"
        table = Table(title=f"{self.problem_title}; {setting}", caption="excess risk of what the run returns")
        for header in ("steps", "samples", *paths):
            table.add_column(header, justify="right")
        common = functools.reduce(np.intersect1d, [path.num_steps for path in paths.values()])
        for step in np.unique(common[np.linspace(0, common.size - 1, ROWS).round().astype(int)]):
            places = [np.searchsorted(path.num_steps, step) for path in paths.values()]
            risks = [np.asarray(path.average.total)[place] for path, place in zip(paths.values(), places, strict=True)]
            samples = next(iter(paths.values())).num_samples[places[0]]
            table.add_row(f"{step:.10g}", f"{samples:.10g}", *map(_cell, risks))
        return table

    def _draw(self, path: Path, paths: dict[str, RiskPath]) -> None:
        from sgdtheory import plotting  # matplotlib is slow to import

        write_figure(
            plotting.risk_paths(paths, title=f"{self.problem_in_mathematics}, $B = {self.batch_size:g}$"), path
        )


def _columns(path: RiskPath) -> dict[str, Any]:
    risks = {"risk": path.average, "iterate_risk": path.iterate}
    columns = {"num_steps": path.num_steps, "num_samples": path.num_samples}
    for name, risk in risks.items():
        columns |= {name: risk.total, f"{name}_bias": risk.bias, f"{name}_variance": risk.variance}
    return columns | {"learning_rates": path.learning_rate, "batch_sizes": path.batch_size}


def _cell(risk: Any) -> str:
    return "—" if np.isnan(risk) else f"{risk:.5g}"
