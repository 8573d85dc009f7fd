"""`sgdtheory risk`: exact risk, bound and stability edge of a power law."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.cli.output import print_json, print_tables
from sgdtheory.cli.settings import SettingsCommand
from sgdtheory.theory import excess_risk, max_stable_learning_rate, theorem7

REASONS = {  # why Theorem 7 does not apply, the most important first
    "unstable": "γ is not below the largest stable one, and the risk grows without bound",
    "large_learning_rate": "γ > ½ min{B/tr H, 1/‖H‖}",
    "large_signal": "Σ s_i > σ²",
}


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
        broken = {
            "unstable": settings["learning_rate"] >= edge,
            "large_learning_rate": np.logical_not(bound.small_learning_rate),
            "large_signal": np.logical_not(bound.small_signal),
        }
        if self.json:
            print_json(columns | {"broken": broken})
        else:
            self._print(columns, broken)

    def _print(self, columns: dict[str, Any], broken: dict[str, Any]) -> None:
        table = Table(title=self.problem_title, show_header=False)
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
        arrays = [np.atleast_1d(values) for values in np.broadcast_arrays(*columns.values(), *broken.values())]
        for name, values in zip(columns, arrays, strict=False):
            cells = _answers(arrays[len(columns) :]) if name == "applies" else [f"{value:.6g}" for value in values]
            table.add_row(names.get(name, name), *cells)
        reasons = [f"({number}) {REASONS[name]}" for number, name in enumerate(broken, 1) if np.any(broken[name])]
        if reasons:
            table.caption = f"The theorem does not apply: {'; '.join(reasons)}."
        print_tables(table)


def _answers(broken: list[np.ndarray]) -> list[str]:
    """Of each setting: whether the theorem applies or, by their numbers, all reasons why not."""
    reasons = [[f"({number})" for number, each in enumerate(setting, 1) if each] for setting in zip(*broken)]
    return [f"no {' '.join(numbers)}" if numbers else "yes" for numbers in reasons]
