"""`sgdtheory cbs`: the critical batch size of a power law, beside Corollary 8 and the other notions."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.cli.output import print_json, print_tables, require_figure_suffix
from sgdtheory.cli.settings import ProblemCommand
from sgdtheory.critical import CriticalBatchSize, critical_batch_size
from sgdtheory.exponents import predicted_exponent, predicted_risk_exponent
from sgdtheory.noise_scale import notions_at

COLUMNS = {
    "num_samples": "D",
    "critical_batch_size": "B*",
    "num_steps": "steps",
    "learning_rate": "γ*",
    "optimal_risk": "R_opt",
    "rate_batch_size": "rate B",
    "simple_noise_scale": "noise scale",
    "hessian_noise_scale": "Hessian-weighted",
    "interpolation_batch_size": "m*",
}


@dataclass(frozen=True, kw_only=True)
class CbsCommand(ProblemCommand):
    """Critical batch size of power-law regression with the learning rate tuned, at one or several data sizes."""

    num_samples: tuple[float, ...]
    """Number of samples D, one or more."""
    overhead: float = 0.2
    """Extra data, relative to linear scaling from the optimal batch size, that defines B*."""
    risk_factor: float = 2.0
    """The rate batch size is the largest whose best risk with D samples is within this factor of the optimal risk."""
    plot: Path | None = None
    """Write a figure here (.png, .pdf or .svg)."""

    def run(self) -> None:
        """Compute and print."""
        require_figure_suffix(self.plot)
        if not self.num_samples:
            raise ValueError("num-samples needs at least one value")
        problem, samples = self.problem, np.unique(self.num_samples)
        critical = critical_batch_size(
            problem,
            num_samples=samples,
            overhead=self.overhead,
            risk_factor=self.risk_factor,
            curve=self.plot is not None,
        )
        report = {
            "predicted_exponent": predicted_exponent(self.capacity, self.source),
            "predicted_risk_exponent": predicted_risk_exponent(self.capacity, self.source),
            "rows": self._rows(critical),
        }
        if self.plot:
            self._draw(self.plot, critical)
        if self.json:
            print_json(report | {"overhead": self.overhead, "risk_factor": self.risk_factor, "remark": critical.remark})
        else:
            self._print(report)
        for note in filter(None, (critical.remark, self._dimension_note())):
            print(f"sgdtheory: note: {note}", file=sys.stderr)

    def _rows(self, critical: CriticalBatchSize) -> list[dict[str, Any]]:
        found = vars(critical) | vars(notions_at(self.problem, critical))
        columns = {name: np.broadcast_to(found[name], np.shape(critical.num_samples)) for name in COLUMNS}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _dimension_note(self) -> str:
        return "" if self.dim is None else "Corollary 8 is a statement about infinitely many directions"

    def _print(self, report: dict[str, Any]) -> None:
        table = Table(
            title=f"{self.problem_title}: B* at {self.overhead:.0%} overhead, "
            f"rate B within a factor {self.risk_factor:g} of R_opt"
        )
        for header in COLUMNS.values():
            table.add_column(header, justify="right")
        for row in report["rows"]:
            table.add_row(*(_cell(name, value) for name, value in row.items()))
        exponents = Table(title="exponents in D", show_header=True)
        for header in ("", "Corollary 8", *_intervals(report["rows"])):
            exponents.add_column(header, justify="right")
        for name, prediction in (
            ("critical_batch_size", "predicted_exponent"),
            ("optimal_risk", "predicted_risk_exponent"),
        ):
            slopes = _slopes(report["rows"], name)
            exponents.add_row(COLUMNS[name], f"{report[prediction]:.4f}", *(f"{slope:.4f}" for slope in slopes))
        print_tables(table, exponents)

    def _draw(self, path: Path, critical: CriticalBatchSize) -> None:
        from sgdtheory import plotting  # matplotlib is slow to import

        several = np.unique(critical.num_samples).size > 1
        figure, axes = plotting.new_figure(1, 2 if several else 1)
        plotting.plot_overhead(axes[0, 0], critical)
        if several:
            exponent = float(predicted_exponent(self.capacity, self.source))
            plotting.plot_critical_growth(axes[0, 1], critical.num_samples, critical.batch_size, exponent)
        figure.suptitle(
            rf"$\lambda_i = i^{{-{self.capacity:g}}}$, $s_i = i^{{-{self.source:g}}}$, "
            rf"$\sigma^2 = {self.noise_variance:g}$"
        )
        plotting.save_figure(figure, path, formats=[path.suffix[1:]])


def _cell(name: str, value: float) -> str:
    whole = name in ("critical_batch_size", "num_steps", "rate_batch_size")
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
