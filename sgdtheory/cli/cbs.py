"""`sgdtheory cbs`: the critical batch size of a power law, beside Corollary 8 and other measures of a batch size."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.bounds import covered
from sgdtheory.cli.algorithm import EQUIVALENT, AlgorithmCommand
from sgdtheory.cli.output import print_json, print_note, print_tables, require_figure_suffix, write_figure
from sgdtheory.cli.settings import Overhead, ProblemCommand
from sgdtheory.critical import (
    CriticalBatchSize,
    critical_batch_size,
    notions_at,
    predicted_exponent,
    predicted_risk_exponent,
)

COLUMNS = {
    "num_samples": "D",
    "critical_batch_size": "B*",
    "num_steps": "steps",
    "learning_rate": "γ at B*",
    "optimal_risk": "R_opt",
    "rate_batch_size": "rate B",
    "simple_noise_scale": "noise scale",
    "hessian_noise_scale": "Hessian-weighted",
    "interpolation_batch_size": "m*",
}
MORE = "real_batch_size", "optimal_batch_size", "optimal_learning_rate"  # in JSON alone
SMALLEST = "smallest_batch_size"  # shown where it is above 1
NOISE = "simple_noise_scale", "hessian_noise_scale"  # of linear methods alone
STEPS = "steps, γ: with which B* reaches the optimal risk R_opt; rate B: the largest with at most {factor:g} R_opt"
NOISE_SCALES = "noise scale: tr Σ/‖g‖² of the gradient after D samples at B*, and tr HΣ/gᵀHg; m* = tr H/λ_1"


@dataclass(frozen=True, kw_only=True)
class CbsCommand(ProblemCommand, AlgorithmCommand):
    """Critical batch size of power-law regression with the learning rate tuned, at one or several data sizes."""

    num_samples: tuple[float, ...]
    """Number of samples D, one or more."""
    overhead: Overhead = 0.2
    """Extra data, relative to linear scaling from the optimal batch size, that defines B*: 0.2 or 20%."""
    risk_factor: float = 2.0
    """The rate batch size is the largest whose best risk with D samples is within this factor of the optimal risk."""
    plot: Path | None = None
    """Write a figure here (.png, .pdf or .svg)."""

    def run(self) -> None:
        """Compute and print."""
        require_figure_suffix(self.plot)
        if not self.num_samples:
            raise ValueError("num_samples must hold at least one value, got none")
        problem, samples = self.problem, np.unique(self.num_samples)
        critical = critical_batch_size(
            problem,
            num_samples=samples,
            overhead=self.overhead,
            risk_factor=self.risk_factor,
            curve=self.plot is not None,
            algorithm=self.algorithm_with_risk,
        )
        rows, predicted = self._rows(critical), self._predicted()
        slopes = {name: _slopes(rows, name) for name in predicted}
        equivalent = "" if self.algorithm.linear else EQUIVALENT
        notes = [note for note in (equivalent, critical.remark, self._domain_note()) if note]
        if self.plot:
            self._draw(self.plot, critical)
        if self.json:
            conventions = {"overhead": self.overhead, "risk_factor": self.risk_factor}
            settings = self.problem_in_json | conventions | self.algorithm_in_json
            print_json(settings | {"rows": rows, "predicted_exponents": predicted, "slopes": slopes, "notes": notes})
        else:
            self._print(rows, predicted, slopes)
        for note in notes:
            print_note(note)

    def _predicted(self) -> dict[str, float | None]:
        """Corollary 8's exponents, where it speaks of the problem."""
        if self._domain_note() or self.capacity is None or self.source is None:
            return {"real_batch_size": None, "optimal_risk": None}
        capacity = self.capacity * (1 - self.precondition)  # THEORY.md T35
        return {
            "real_batch_size": float(predicted_exponent(capacity, self.source)),
            "optimal_risk": float(predicted_risk_exponent(capacity, self.source)),
        }

    def _rows(self, critical: CriticalBatchSize) -> list[dict[str, Any]]:
        found = vars(critical) | self._notions(critical)
        names = (*COLUMNS, *MORE, SMALLEST)
        columns = {name: np.broadcast_to(found[name], np.shape(critical.num_samples)) for name in names}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _notions(self, critical: CriticalBatchSize) -> dict[str, Any]:
        """Other measures of a batch size; those of the gradient's noise are known of linear methods alone."""
        if self._known_noise:
            return vars(notions_at(self.problem, critical, self.algorithm))
        interpolation = self._endless_problem.trace / self._endless_problem.largest_eigenvalue
        known = {"critical_batch_size": critical.batch_size, "interpolation_batch_size": interpolation}
        return known | dict.fromkeys(NOISE, np.nan)

    @property
    def _known_noise(self) -> bool:
        """Of linear methods and samples that are all new."""
        return self.algorithm.linear and self.samples is None

    def _domain_note(self) -> str:
        if self.samples is not None:
            return "Corollary 8 is about samples that are all new; no exponents are predicted here"
        if not covered(self.algorithm):
            return "Corollary 8 is about averaged SGD with a constant step; no exponents are predicted here"
        if self.spectrum is not None:
            return "Corollary 8 is about power laws; sgdtheory features fits their exponents to data"
        if self.dim is None and self.problem.noise_variance > 0:
            return ""
        return "Corollary 8 is about infinitely many directions and label noise; no exponents are predicted here"

    def _print(self, rows: list[dict[str, Any]], predicted: dict[str, Any], slopes: dict[str, np.ndarray]) -> None:
        table = Table(
            title=f"{self.problem_title}{self.algorithm_title}: B* at {100 * self.overhead:.3g}% overhead",
            caption=self._legend(),
        )
        shown = {name: header for name, header in COLUMNS.items() if self._known_noise or name not in NOISE}
        if any(row[SMALLEST] > 1 for row in rows):
            shown[SMALLEST] = "least B"
        for header in shown.values():
            table.add_column(header, justify="right")
        for row in rows:
            table.add_row(*(_cell(name, row[name]) for name in shown))
        exponents = Table(title="exponents in D: Corollary 8's for D → ∞, and from each D to the next")
        for header in ("", "Corollary 8", *_intervals(rows)):
            exponents.add_column(header, justify="right")
        for name, label in (("real_batch_size", "B*, not rounded"), ("optimal_risk", "R_opt")):
            prediction = "—" if predicted[name] is None else f"{predicted[name]:.4f}"
            exponents.add_row(label, prediction, *(f"{slope:.4f}" for slope in slopes[name]))
        print_tables(table, exponents)

    def _legend(self) -> str:
        lines = [STEPS.format(factor=self.risk_factor)]
        if self.algorithm.linear:
            lines.append(NOISE_SCALES)
        else:
            lines.append("least B: a smaller one needs more data than B*; m* = tr H/λ_1")
        return ";\n".join(lines)

    def _draw(self, path: Path, critical: CriticalBatchSize) -> None:
        from sgdtheory import plotting  # matplotlib is slow to import

        title = self.problem_in_mathematics + self.algorithm_title
        exponent = self._predicted()["real_batch_size"]
        figure = plotting.critical_batch_size(critical, exponent=exponent, title=title)
        write_figure(figure, path)


def _cell(name: str, value: float) -> str:
    whole = name in ("critical_batch_size", "num_steps", "rate_batch_size", SMALLEST)
    return f"{value:.10g}" if whole else f"{value:.5g}"


def _intervals(rows: list[dict[str, Any]]) -> list[str]:
    """Headers: from each D to the next."""
    samples = [row["num_samples"] for row in rows]
    return [f"{low:g} … {high:g}" for low, high in zip(samples, samples[1:], strict=False)]


def _slopes(rows: list[dict[str, Any]], name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        logs = np.log([[row["num_samples"], row[name]] for row in rows])
        steps = np.diff(logs, axis=0)
        return steps[:, 1] / steps[:, 0]
