"""`sgdtheory risk`: exact risk, bound and stability edge of a power law."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.bounds import covered, theorem7
from sgdtheory.cli.algorithm import EQUIVALENT, AlgorithmCommand
from sgdtheory.cli.output import print_sheet
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
        risk = excess_risk(self.problem, **self.settings, algorithm=self.algorithm_with_risk)
        sheet = risk.sheet()
        (table,) = sheet.tables
        quantities = [*self.settings_shown, *table.quantities]
        legends = [table.legend]
        settings: dict[str, Any] = dict(self.algorithm_in_json)
        edge = self._edge() if self.algorithm.linear and self.algorithm.steady else None
        if covered(self.algorithm) and self.samples is None:
            compared, broken = self._comparison(risk, edge)
            quantities += compared
            settings["broken"] = broken
            reasons = [": ".join(REASONS[name]) for name, each in broken.items() if np.any(each)]
            legends += [f"Where the theorem does not apply — {'; '.join(reasons)}."] if reasons else []
        elif edge is not None:
            quantities.append(_stable(edge))
        remarks = [*sheet.remarks, "" if self.algorithm.linear else EQUIVALENT]
        table = Table(quantities, legend="\n".join(filter(None, legends)), hidden=[*table.hidden, "applies"])
        print_sheet(Sheet(self.problem_title + self.algorithm_title, [table], remarks, settings), self.json)

    def _comparison(self, risk: Risk, edge: Any) -> tuple[list[Quantity], dict[str, Any]]:
        """Return Theorem 7's bound beside the risk, and which of its conditions are broken."""
        bound = theorem7(self.problem, **self.settings)
        broken = {
            "unstable": self.settings["learning_rate"] >= edge,
            "large_learning_rate": np.logical_not(bound.small_learning_rate),
            "large_signal": np.logical_not(bound.small_signal),
        }
        with np.errstate(all="ignore"):
            ratio = risk.total / bound.total
        quantities = [
            Quantity("bound", "Theorem 7's bound", bound.total, digits=6),
            Quantity("ratio", "risk / bound", ratio, digits=6),
            Quantity("effective_dimension", "effective dimension k*", bound.effective_dimension),
            _stable(edge),
            Quantity("applies", "applies", bound.applies),
            Quantity("reasons", "theorem applies", _answers(broken)),
        ]
        return quantities, broken

    def _edge(self) -> Any:
        batch_size = self.settings["batch_size"]
        return max_stable_learning_rate(self.problem, batch_size=batch_size, algorithm=self.algorithm)


def _stable(edge: Any) -> Quantity:
    return Quantity("max_stable_learning_rate", "largest stable γ", edge, digits=6)


def _answers(broken: dict[str, np.ndarray]) -> Any:
    """Return for each setting whether the theorem applies or, in words, all reasons why not."""
    words = [REASONS[name][0] for name in broken]
    shape = np.broadcast_shapes(*map(np.shape, broken.values()))
    settings = zip(*(np.broadcast_to(each, shape).ravel() for each in broken.values()), strict=True)
    reasons = [[word for word, each in zip(words, setting, strict=True) if each] for setting in settings]
    found = [f"no: {', '.join(each)}" if each else "yes" for each in reasons]
    return found if shape else found[0]
