"""`sgdtheory features`: from features and targets in files to spectrum, exponents and critical batch size."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory import data, simulation
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.cli.flags import File
from sgdtheory.cli.function_command import Drawn, Progress
from sgdtheory.cli.output import print_note
from sgdtheory.cli.settings import Overhead
from sgdtheory.problems import write_spectrum
from sgdtheory.risk import excess_risk

FIRST_SIZE = 1000.0  # Without --num-samples, data sizes are powers of ten from here to the number of rows.


def features(
    progress: Progress,
    features: File,
    targets: File,
    in_sample: bool = False,
    fit_range: tuple[int, int] | None = None,
    level: float = 0.95,
    seed: int = 0,
    num_samples: tuple[float, ...] | None = None,
    overhead: Overhead = 0.2,
    simulate: bool = False,
    num_replicas: int = 64,
    write: Path | None = None,
) -> Drawn:
    """Spectrum, capacity and source exponents and critical batch size of linear regression on your own features.

    Features are rows, targets what is predicted from them; nothing is centred. Intervals come from leaving out one of
    16 groups of rows at a time. The theory takes w_0 = 0 and one pass over Gaussian data with this covariance.

    Args:
        features: .npy file of features, (N, d); read from disk a piece at a time.
        targets: .npy file of targets, (N,) or (N, k).
        in_sample: Take the rows themselves for the population, with the noise of their sampling.
        fit_range: First and last direction that exponents are fitted on; None: all that the rows resolve.
        seed: Seed of the split, and of the simulation.
        num_samples: Data sizes D; None: powers of ten from 1000 to the number of rows.
        overhead: Extra data, relative to linear scaling, that defines B*: 0.2 or 20%.
        simulate: Draw mini-batches from the rows themselves, at B* of each D, and compare with the exact risk.
        num_replicas: Replicas of the simulation.
        write: Write the spectrum to this .npz or .csv file, for --spectrum of other commands.
    """
    if write and write.suffix not in (".npz", ".csv"):
        raise ValueError(f"write must end in .npz or .csv, got {write}")
    progress("spectrum of the rows, and of 16 parts of them")
    options = {"fit_range": fit_range, "level": level, "seed": seed}
    found = data.problem_from_data(features, targets, cross_fit=not in_sample, **options)
    last = max(FIRST_SIZE, 10.0 ** np.floor(np.log10(found.num_rows)))
    powers = 10.0 ** np.arange(np.log10(FIRST_SIZE), np.log10(last) + 0.5)
    sizes = np.unique(num_samples) if num_samples else powers
    progress(f"B* of {sizes.size} data size{'s' * (sizes.size > 1)} with intervals")
    critical = found.critical_batch_size(sizes, overhead=overhead)
    spectrum, batches = found.sheet(), critical.sheet()
    tables = [*spectrum.tables, *(replace(table, title=batches.title) for table in batches.tables)]
    if simulate:
        progress("SGD on the rows themselves")
        tables.append(_simulated(features, targets, found, critical, num_replicas, seed))
    if write:
        print_note(f"wrote {write_spectrum(found.problem, write)}")
    settings = {**spectrum.settings, **batches.settings, "simulated": []}
    sheet = Sheet(f"{features.name}: {spectrum.title}", tables, [*spectrum.remarks, *batches.remarks], settings)
    return Drawn(sheet, draw=lambda: found.plot(title=features.name))


def _simulated(
    features: Path,
    targets: Path,
    found: "data.DataProblem",
    critical: "data.DataCriticalBatchSize",
    num_replicas: int,
    seed: int,
) -> Table:
    """Return the table, at B* and its γ of each D, of SGD on the rows, and of the exact risk of rows and population."""
    import jax

    sample = data.problem_from_data(features, targets, cross_fit=False).problem
    setting: dict[str, Any] = {
        "batch_size": np.asarray(critical.batch_size, float),
        "learning_rate": np.atleast_1d(critical.critical.learning_rate).astype(float),
        "num_samples": np.asarray(critical.num_samples, float),
    }
    runs = simulation.simulate_data(jax.random.key(seed), features, targets, **setting, num_replicas=num_replicas)
    mean, error = np.asarray(runs.mean), np.asarray(runs.standard_error)
    exact, population = (excess_risk(each, **setting).total for each in (sample, found.problem))
    quantities = [
        Quantity("num_samples", "D", setting["num_samples"]),
        Quantity("batch_size", "B", setting["batch_size"]),
        Quantity("learning_rate", "γ", setting["learning_rate"]),
        Quantity("simulated", "", mean),
        Quantity("standard_error", "", error),
        Quantity("", "simulated", [f"{each:.4g} ± {by:.2g}" for each, by in zip(mean, error, strict=True)]),
        Quantity("exact", "exact", exact),
        Quantity("ratio", "simulated/exact", mean / exact),
        Quantity("population", "population", population),
    ]
    legend = (
        "Rows are drawn with replacement. Simulated and exact risks are those above the least-squares fit of these "
        "rows, which has fitted noise; the risk of the population is that above the best fit to new rows."
    )
    title = "SGD on the rows themselves, beside the exact risk"
    return Table(quantities, "simulated", title, legend=legend, hidden=["simulated", "standard_error"])
