"""`sgdtheory features`: from features and targets in files to spectrum, exponents and critical batch size."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import tyro

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.cli.output import print_note, print_sheet, require_figure_suffix, write_figure
from sgdtheory.cli.progress import phases
from sgdtheory.cli.settings import Overhead

if TYPE_CHECKING:
    from sgdtheory.data import DataCriticalBatchSize, DataProblem

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
        if self.write and self.write.suffix not in (".npz", ".csv"):
            raise ValueError(f"path must end in .npz or .csv, got {self.write}")
        from sgdtheory.data import problem_from_data

        options = {name: getattr(self, name) for name in ("fit_range", "level", "seed")}
        with phases("spectrum of the rows, and of 16 parts of them") as show:
            found = problem_from_data(self.features, self.targets, cross_fit=not self.in_sample, **options)
            sizes = self._sizes(found)
            show(f"B* of {sizes.size} data size{'s' * (sizes.size > 1)} with intervals")
            critical = found.critical_batch_size(sizes, overhead=self.overhead)
            show("SGD on the rows themselves")
            simulated = self._simulated(found, critical) if self.simulate else []
        if self.write:
            from sgdtheory.problems import write_spectrum

            print_note(f"wrote {write_spectrum(found.problem, self.write)}")
        if self.plot:
            write_figure(found.plot(title=self.features.name), self.plot)
        data, batches = found.sheet(), critical.sheet()
        tables = [*data.tables, *(replace(table, title=batches.title) for table in batches.tables)]
        settings = {**data.settings, **batches.settings, "simulated": []}
        title = f"{self.features.name}: {data.title}"
        remarks = [*data.remarks, *batches.remarks]
        print_sheet(Sheet(title, [*tables, *map(_table, simulated)], remarks, settings), self.json)

    def _sizes(self, found: "DataProblem") -> np.ndarray:
        if self.num_samples:
            return np.unique(self.num_samples)
        last = max(FIRST_SIZE, 10.0 ** np.floor(np.log10(found.num_rows)))
        return 10.0 ** np.arange(np.log10(FIRST_SIZE), np.log10(last) + 0.5)

    def _simulated(self, found: "DataProblem", critical: "DataCriticalBatchSize") -> list[dict[str, Any]]:
        """Columns at each D, for B* and its γ: SGD on the rows, the exact risk of the rows and of their population."""
        import jax

        from sgdtheory.data import problem_from_data
        from sgdtheory.risk import excess_risk
        from sgdtheory.simulation import simulate_data

        x, y = np.load(self.features), np.load(self.targets)
        sample = problem_from_data(x, y, cross_fit=False).problem
        columns = critical.batch_size, np.atleast_1d(critical.critical.learning_rate), critical.num_samples
        setting: dict[str, Any] = dict(
            zip(("batch_size", "learning_rate", "num_samples"), np.asarray(columns, float), strict=True)
        )
        runs = []
        for values in zip(*setting.values(), strict=True):
            each: dict[str, Any] = {name: float(value) for name, value in zip(setting, values, strict=True)}
            runs.append(simulate_data(jax.random.key(self.seed), x, y, **each, num_replicas=self.num_replicas))
        mean, error = (np.array([float(getattr(run, name)) for run in runs]) for name in ("mean", "standard_error"))
        exact, population = (excess_risk(each, **setting).total for each in (sample, found.problem))
        risks = {"simulated": mean, "standard_error": error, "exact": exact, "ratio": mean / exact}
        return [setting | risks | {"population": population}]


def _table(found: dict[str, Any]) -> Table:
    labels = {"num_samples": "D", "batch_size": "B", "learning_rate": "γ", "simulated": "", "standard_error": ""}
    quantities = [Quantity(name, label, found[name]) for name, label in labels.items()]
    pairs = zip(found["simulated"], found["standard_error"], strict=True)
    quantities += [Quantity("", "simulated", [f"{mean:.4g} ± {error:.2g}" for mean, error in pairs])]
    labels = {"exact": "exact", "ratio": "simulated/exact", "population": "population"}
    quantities += [Quantity(name, label, found[name]) for name, label in labels.items()]
    legend = (
        "Rows are drawn with replacement. Simulated and exact risks are those above the least-squares fit of these "
        "rows, which has fitted noise; the risk of the population is that above the best fit to new rows."
    )
    title = "SGD on the rows themselves, beside the exact risk"
    return Table(quantities, "simulated", title, legend=legend, hidden=["simulated", "standard_error"])
