"""`sgdtheory risk`: exact risk, bound and stability edge of a power law."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.bounds import covered, theorem7
from sgdtheory.cli.algorithm import EQUIVALENT, AlgorithmCommand
from sgdtheory.cli.output import print_json, print_note, print_tables
from sgdtheory.cli.settings import SettingsCommand
from sgdtheory.risk import Risk, excess_risk, max_stable_learning_rate

REASONS = {  # why Theorem 7 does not apply, the most important first: in a cell, and below the table
    "unstable": ("γ unstable", "it is not below the largest stable one, and the risk grows without bound"),
    "large_learning_rate": ("γ too large", "γ > ½ min{B/tr H, 1/‖H‖}"),
    "large_signal": ("signal above noise", "Σ s_i > σ²"),
}


@dataclass(frozen=True, kw_only=True)
class RiskCommand(SettingsCommand, AlgorithmCommand):
    """Exact excess risk of averaged mini-batch SGD on power-law regression, beside Theorem 7's bound.

    Each of batch size, learning rate and number of samples takes one value or several of equal number. The theorem
    is about averaged SGD with a constant step, and is left out with another algorithm.
    """

    def run(self) -> None:
        """Compute and print."""
        settings = self.settings
        risk = excess_risk(self.problem, **settings, algorithm=self.algorithm_with_risk)
        columns = settings | {"risk": risk.total, "bias": risk.bias, "variance": risk.variance}
        broken = {}
        if covered(self.algorithm) and self.samples is None:
            compared, broken = self._comparison(risk)
            columns |= compared
        else:
            columns["relative_error"] = risk.relative_error
            if self.algorithm.linear and self.algorithm.steady:
                columns["max_stable_learning_rate"] = self._edge()
        if self.json:
            print_json(self.algorithm_in_json | columns | ({"broken": broken} if broken else {}))
        else:
            self._print(columns, broken)
        if not self.algorithm.linear:
            print_note(EQUIVALENT)

    def _comparison(self, risk: Risk) -> tuple[dict[str, Any], dict[str, Any]]:
        """Columns of the bound and the stability edge, and which conditions of the theorem are broken."""
        problem, settings = self.problem, self.settings
        bound = theorem7(problem, **settings)
        edge = self._edge()
        with np.errstate(all="ignore"):
            ratio = risk.total / bound.total
        columns = {
            "bound": bound.total,
            "ratio": ratio,
            "effective_dimension": bound.effective_dimension,
            "max_stable_learning_rate": edge,
            "applies": bound.applies,
        }
        return columns, {
            "unstable": settings["learning_rate"] >= edge,
            "large_learning_rate": np.logical_not(bound.small_learning_rate),
            "large_signal": np.logical_not(bound.small_signal),
        }

    def _edge(self) -> Any:
        batch_size = self.settings["batch_size"]
        return max_stable_learning_rate(self.problem, batch_size=batch_size, algorithm=self.algorithm)

    def _print(self, columns: dict[str, Any], broken: dict[str, Any]) -> None:
        table = Table(title=self.problem_title + self.algorithm_title, show_header=False)
        names = {
            "batch_size": "batch size B",
            "learning_rate": "learning rate γ",
            "num_samples": "samples D",
            "risk": "excess risk",
            "relative_error": "relative error, estimated",
            "bound": "Theorem 7's bound",
            "ratio": "risk / bound",
            "effective_dimension": "effective dimension k*",
            "max_stable_learning_rate": "largest stable γ",
            "applies": "theorem applies",
        }
        arrays = [np.atleast_1d(values) for values in np.broadcast_arrays(*columns.values(), *broken.values())]
        for name, values in zip(columns, arrays, strict=False):
            cells = [f"{value:.6g}" for value in values]
            if name == "applies":
                cells = _answers(dict(zip(broken, arrays[len(columns) :], strict=True)))
            table.add_row(names.get(name, name), *cells)
        reasons = [": ".join(REASONS[name]) for name in broken if np.any(broken[name])]
        if reasons:
            table.caption = f"Where the theorem does not apply — {'; '.join(reasons)}."
        print_tables(table)


def _answers(broken: dict[str, np.ndarray]) -> list[str]:
    """Of each setting: whether the theorem applies or, in words, all reasons why not."""
    words = [REASONS[name][0] for name in broken]
    reasons = [[word for word, each in zip(words, setting) if each] for setting in zip(*broken.values())]
    return [f"no: {', '.join(each)}" if each else "yes" for each in reasons]
