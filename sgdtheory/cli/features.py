"""`sgdtheory features`: from features and targets in files to spectrum, exponents and critical batch size."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import tyro
from rich.table import Table

from sgdtheory.cli.output import print_json, print_note, print_tables, require_figure_suffix, write_figure
from sgdtheory.cli.settings import Overhead

if TYPE_CHECKING:
    from sgdtheory.data import DataCriticalBatchSize, DataProblem

BATCHES = 1, 16, 256  # of the stable learning rate
FIRST_SIZE = 1000.0  # of the data sizes, and a power of ten at a time up to the number of rows


@dataclass(frozen=True, kw_only=True)
class FeaturesCommand:
    """Spectrum, capacity and source exponents and critical batch size of linear regression on your own features.

    Features are rows, targets what is predicted from them; nothing is centred. Intervals come from leaving out one of
    16 groups of rows at a time. The theory takes w_0 = 0 and one pass over Gaussian data with this covariance.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("features", "targets"),
        "estimate": ("in_sample", "fit_range", "level", "seed"),
        "critical batch size": ("num_samples", "overhead"),
        "simulation on the data": ("simulate", "num_replicas"),
        "output": ("write", "plot", "json"),
    }

    features: Annotated[Path, tyro.conf.Positional]
    """.npy file of features, (N, d); read from disk a piece at a time."""
    targets: Annotated[Path, tyro.conf.Positional]
    """.npy file of targets, (N,) or (N, k)."""
    in_sample: bool = False
    """Take the rows themselves for the population, with the noise of their sampling."""
    fit_range: tuple[int, int] | None = None
    """First and last direction that exponents are fitted on; None: all that the rows resolve."""
    level: float = 0.95
    """Level of the intervals."""
    seed: int = 0
    """Seed of the split, and of the simulation."""
    num_samples: tuple[float, ...] | None = None
    """Data sizes D; None: powers of ten from 1000 to the number of rows."""
    overhead: Overhead = 0.2
    """Extra data, relative to linear scaling, that defines B*: 0.2 or 20%."""
    simulate: bool = False
    """Draw mini-batches from the rows themselves, at B* of each D, and compare with the exact risk."""
    num_replicas: int = 64
    """Replicas of the simulation."""
    write: Path | None = None
    """Write the spectrum to this .npz or .csv file, for --spectrum of other commands."""
    plot: Path | None = None
    """Draw spectrum and signal with their power laws to this .png, .pdf or .svg."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Estimate, compute and print."""
        require_figure_suffix(self.plot)
        from sgdtheory.data import problem_from_data

        options = {name: getattr(self, name) for name in ("fit_range", "level", "seed")}
        found = problem_from_data(self.features, self.targets, cross_fit=not self.in_sample, **options)
        if self.write:
            from sgdtheory.problems import write_spectrum

            print_note(f"wrote {write_spectrum(found.problem, self.write)}")
        if self.plot:
            write_figure(found.plot(title=self.features.name), self.plot)
        critical = found.critical_batch_size(self._sizes(found), overhead=self.overhead)
        simulated = self._simulated(found, critical) if self.simulate else []
        if self.json:
            print_json(self._json(found, critical, simulated))
        else:
            tables = [self._summary(found), self._critical(critical), *([_simulation(simulated)] if simulated else [])]
            print_tables(*tables)
        for note in (found.remark, critical.critical.remark):
            if note:
                print_note(note)

    def _sizes(self, found: "DataProblem") -> np.ndarray:
        if self.num_samples:
            return np.unique(self.num_samples)
        last = max(FIRST_SIZE, 10.0 ** np.floor(np.log10(found.num_rows)))
        return 10.0 ** np.arange(np.log10(FIRST_SIZE), np.log10(last) + 0.5)

    def _simulated(self, found: "DataProblem", critical: "DataCriticalBatchSize") -> list[dict[str, float]]:
        """At each D, B* and its γ: SGD on the rows, the exact risk of the rows, and that of their population."""
        import jax

        from sgdtheory.data import problem_from_data
        from sgdtheory.risk import excess_risk
        from sgdtheory.simulation import simulate_data

        x, y = np.load(self.features), np.load(self.targets)
        sample, rows = problem_from_data(x, y, cross_fit=False).problem, []
        for samples, batch, rate in zip(
            critical.num_samples, critical.batch_size, np.atleast_1d(critical.critical.learning_rate), strict=True
        ):
            setting: dict[str, Any] = {
                "batch_size": float(batch),
                "learning_rate": float(rate),
                "num_samples": float(samples),
            }
            simulation = simulate_data(jax.random.key(self.seed), x, y, **setting, num_replicas=self.num_replicas)
            mean, error = float(simulation.mean), float(simulation.standard_error)
            exact, population = (float(excess_risk(each, **setting).total) for each in (sample, found.problem))
            risks = {"simulated": mean, "standard_error": error, "exact": exact, "ratio": mean / exact}
            rows.append(setting | risks | {"population": population})
        return rows

    def _json(self, found: "DataProblem", critical: "DataCriticalBatchSize", simulated: list) -> dict[str, Any]:
        def exponent(value: Any) -> dict[str, Any]:
            return {name: getattr(value, name) for name in ("value", "interval", "range", "scatter")}

        return {
            "num_rows": found.num_rows,
            "num_features": found.problem.dim,
            "num_targets": found.num_targets,
            "trace": found.problem.trace,
            "initial_risk": found.problem.initial_risk,
            "noise_variance": found.noise_variance,
            "capacity": exponent(found.capacity),
            "source": exponent(found.source),
            "predicted_exponent": vars(found.predicted_exponent),
            "noise_probability": found.noise_probability,
            "kurtosis": found.kurtosis._asdict(),
            "max_stable_learning_rate": dict(zip(map(str, BATCHES), self._stable(found), strict=True)),
            "num_samples": critical.num_samples,
            "critical_batch_size": critical.batch_size,
            "real_critical_batch_size": critical.real_batch_size,
            "interval": critical.interval,
            "learning_rate": np.atleast_1d(critical.critical.learning_rate),
            "optimal_risk": np.atleast_1d(critical.critical.optimal_risk),
            "simulated": simulated,
            "notes": [note for note in (found.remark, critical.critical.remark) if note],
        }

    def _stable(self, found: "DataProblem") -> list[float]:
        return [float(found.max_stable_learning_rate(batch)) for batch in BATCHES]

    def _summary(self, found: "DataProblem") -> Table:
        targets = "1 target" if found.num_targets == 1 else f"{found.num_targets} targets"
        title = f"{self.features.name}: {found.num_rows} rows of {found.problem.dim} features, {targets}"
        table = Table(title=title, show_header=False)
        for name, value in (
            ("capacity exponent a, λ_i ∝ i^−a", _exponent(found.capacity)),
            ("source exponent b, s_i ∝ i^−b", _exponent(found.source)),
            ("predicted exponent c, B* ∝ D^c", _with_interval(found.predicted_exponent)),
            ("tr H", f"{found.problem.trace:.5g}"),
            ("signal Σ s_i", f"{found.problem.initial_risk:.5g}"),
            ("noise variance σ²", f"{found.noise_variance:.5g}"),
            ("kurtosis: spread χ, own δ (Gaussian: 1, 2)", f"{found.kurtosis.spread:.3g}, {found.kurtosis.own:.3g}"),
            *(
                (f"largest stable γ at B = {batch}", f"{rate:.4g}")
                for batch, rate in zip(BATCHES, self._stable(found), strict=True)
            ),
        ):
            table.add_row(name, value)
        return table

    def _critical(self, critical: "DataCriticalBatchSize") -> Table:
        table = Table(title=f"critical batch size at {100 * self.overhead:.3g}% overhead")
        for header in ("D", "B*", f"{self.level:.0%} interval", "steps", "γ at B*", "R_opt"):
            table.add_column(header, justify="right")
        found = critical.critical
        columns = (np.atleast_1d(part) for part in (found.num_steps, found.learning_rate, found.optimal_risk))
        for samples, batch, ends, steps, rate, risk in zip(
            critical.num_samples, critical.real_batch_size, critical.interval, *columns, strict=True
        ):
            table.add_row(
                f"{samples:g}",
                f"{batch:.4g}",
                f"{ends[0]:.4g} … {ends[1]:.4g}",
                f"{steps:g}",
                f"{rate:.4g}",
                f"{risk:.4g}",
            )
        return table


def _with_interval(value: Any) -> str:
    if np.isnan(value.value):
        return "not resolved"
    return f"{value.value:.3f}   ({value.interval[0]:.3f} … {value.interval[1]:.3f})"


def _exponent(value: Any) -> str:
    return f"{_with_interval(value)}   on i = {value.range[0]} … {value.range[1]}"


def _simulation(rows: list[dict[str, float]]) -> Table:
    table = Table(
        title="SGD on the rows themselves, beside the exact risk",
        caption="rows drawn with replacement; simulated and exact: risk above their own least-squares fit, which has "
        "fitted noise; population: above the best fit to new rows",
    )
    for header in ("D", "B", "γ", "simulated", "exact", "simulated/exact", "population"):
        table.add_column(header, justify="right")
    for row in rows:
        table.add_row(
            f"{row['num_samples']:g}",
            f"{row['batch_size']:g}",
            f"{row['learning_rate']:.4g}",
            f"{row['simulated']:.4g} ± {row['standard_error']:.2g}",
            f"{row['exact']:.4g}",
            f"{row['ratio']:.3f}",
            f"{row['population']:.4g}",
        )
    return table
