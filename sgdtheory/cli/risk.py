"""`sgdtheory risk`: exact risk, bound and stability edge of a power law."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.bounds import theorem7
from sgdtheory.cli.output import print_json, print_tables, scalar_or_array
from sgdtheory.exact import excess_risk
from sgdtheory.problem import PowerLaw
from sgdtheory.stability import max_stable_learning_rate


@dataclass(frozen=True)
class RiskCommand:
    """Exact excess risk of averaged mini-batch SGD on power-law regression, beside Theorem 7's bound.

    Each of batch size, learning rate and number of samples takes one value or several of equal number.
    """

    capacity: float
    """Exponent a > 1 of the eigenvalues, λ_i = i^−a."""
    source: float
    """Exponent b > 1 of the initial risk, s_i = i^−b."""
    batch_size: tuple[float, ...]
    """Batch size B."""
    learning_rate: tuple[float, ...]
    """Learning rate γ, in units of 1/λ_1."""
    num_samples: tuple[float, ...]
    """Number of samples D; the number of steps is ⌊D/B⌋."""
    dim: float | None = None
    """Number of directions; None: infinitely many."""
    noise_variance: float = 1.0
    """Variance σ² of the label noise."""
    json: bool = False
    """Print JSON; null stands for what is infinite or absent."""

    def run(self) -> None:
        """Compute and print."""
        problem = PowerLaw(self.capacity, self.source, self.dim, self.noise_variance)  # pyright: ignore[reportArgumentType]
        settings: dict[str, Any] = {
            "batch_size": scalar_or_array(self.batch_size),
            "learning_rate": scalar_or_array(self.learning_rate),
            "num_samples": scalar_or_array(self.num_samples),
        }
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
            title=f"λ_i = i^−{self.capacity:g}, s_i = i^−{self.source:g}, σ² = {self.noise_variance:g}",
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
