"""`sgdtheory risk`: exact risk, bound and stability edge of a power law."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.bounds import theorem7
from sgdtheory.cli.output import print_json, print_tables
from sgdtheory.cli.settings import SettingsCommand
from sgdtheory.exact import excess_risk
from sgdtheory.problem import PowerLaw
from sgdtheory.stability import max_stable_learning_rate


@dataclass(frozen=True, kw_only=True)
class RiskCommand(SettingsCommand):
    """Exact excess risk of averaged mini-batch SGD on power-law regression, beside Theorem 7's bound.

    Each of batch size, learning rate and number of samples takes one value or several of equal number.
    """

    def run(self) -> None:
        """Compute and print."""
        problem, settings = self.problem, self.settings
        risk, bound = excess_risk(problem, **settings), theorem7(problem, **settings)
        edge = max_stable_learning_rate(problem, batch_size=settings["batch_size"])
        with np.errstate(all="ignore"):
            ratio = risk.total / bound.total
        columns = {
            **settings,
            "risk": risk.total,
            "bias": risk.bias,
            "variance": risk.variance,
            "bound": bound.total,
            "ratio": ratio,
            "effective_dimension": bound.effective_dimension,
            "max_stable_learning_rate": edge,
            "applies": bound.applies,
        }
        if self.json:
            print_json(columns)
        else:
            self._print(problem, columns)

    def _print(self, problem: PowerLaw, columns: dict[str, Any]) -> None:
        why = "Σ s_i > σ²" if problem.initial_risk > problem.noise_variance else "γ > ½ min{B/tr H, 1/‖H‖}"
        table = Table(
            title=self.problem_title,
            show_header=False,
        )
        names = {
            "batch_size": "batch size B",
            "learning_rate": "learning rate γ",
            "num_samples": "samples D",
            "risk": "excess risk",
            "bound": "Theorem 7's bound",
            "ratio": "risk / bound",
            "effective_dimension": "effective dimension k*",
            "max_stable_learning_rate": "largest stable γ",
            "applies": "theorem applies",
        }
        arrays = np.broadcast_arrays(*columns.values())
        for name, values in zip(columns, arrays, strict=True):
            cells = [("yes" if v else f"no: {why}") if name == "applies" else f"{v:.6g}" for v in np.atleast_1d(values)]
            table.add_row(names.get(name, name), *cells)
        print_tables(table)
