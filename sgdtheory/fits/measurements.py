"""Steps-to-target measurements from CSV files, and the example data sets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from sgdtheory._common.arguments import checked_name
from sgdtheory._common.csv_rows import csv_rows, positive_cell
from sgdtheory._common.files import csv_text
from sgdtheory.fits.steps_law import MIN_POINTS
from sgdtheory.fits.steps_measurement import COLUMNS as CRITICAL_COLUMNS
from sgdtheory.fits.steps_measurement import FittedCriticalBatchSize, StepsMeasurement, fitted_in

COMPUTED = "computed"  # a column, with "yes" where steps are a theory's
FOLDER = Path(str(resources.files("sgdtheory.fits") / "data"))
ExampleName = Literal["c4", "mlperf"]


def example_measurements(name: ExampleName = "c4", *, fitted: bool = True) -> list[StepsMeasurement]:
    """Measurements that come with the package (provenance: sgdtheory/fits/data/README.md).

    >>> import sgdtheory as st
    >>> [(model.group, model.size) for model in st.example_measurements()]
    [('85M', 85.0), ('151M', 151.0), ('302M', 302.0), ('604M', 604.0), ('1.2B', 1200.0)]
    >>> [benchmark.group for benchmark in st.example_measurements("mlperf")][:4]
    ['bert', 'cosmoflow', 'deepcam', 'dlrm_dcnv2']

    Args:
        name: "c4": five language models, 85M to 1.2B parameters, on C4, batch size in sequences of 512 tokens;
            "mlperf": twelve benchmarks of MLPerf training and HPC at five batch sizes or more, with standard errors.
        fitted: of "c4" the series behind the paper's Table 6a; False: the one read from the logs (six entries differ).

    Returns:
        One StepsMeasurement a model, with its size in millions of parameters; or one a benchmark. Steps of `cosmoflow`,
        `deepcam`, `rgat` and `rnnt` are known up to a factor: b/a and B* are right, a and b are not in steps.

    Raises:
        ValueError: no such name.
    """
    if checked_name("name", name, get_args(ExampleName)) == "mlperf":
        return read_measurements(FOLDER / "mlperf_steps.csv", group="benchmark", standard_error="standard_error")
    steps = "steps_fitted" if fitted else "steps_measured"
    return read_measurements(FOLDER / "steps_to_target.csv", steps=steps, group="model", size="parameters_millions")


def read_measurements(
    path: str | Path,
    *,
    batch_size: str = "batch_size",
    steps: str = "steps",
    group: str | None = None,
    size: str | None = None,
    standard_error: str | None = None,
) -> list[StepsMeasurement]:
    """Read a CSV file with a header: a row for each group and batch size, or several that differ by their seeds.

    If rows of a batch size differ in nothing but steps, their errors and seeds, the geometric mean of the steps counts,
    as for seeds of logs. A row without steps is of a run that did not reach the target, and is left out. The
    measurement's `remarks` say both.

    >>> import pathlib, tempfile
    >>> import sgdtheory as st
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "steps.csv"
    >>> _ = path.write_text("bs,steps\\n64,50000\\n256,14000\\n1024,5000\\n")
    >>> (measured,) = st.read_measurements(path, batch_size="bs", steps="steps")
    >>> measured.batch_sizes, measured.steps
    (array([  64.,  256., 1024.]), array([50000., 14000.,  5000.]))

    Args:
        path: the file.
        batch_size, steps: names of the columns with B and the steps to the target.
        group: name of the column that tells targets apart (a model's name); None: one group.
        size: name of the column with the model or data size, constant within a group; None: no sizes.
        standard_error: name of the column with the standard error of the steps, in steps; None: not known.

    A column `computed` with `yes` marks steps of a theory, and `critical_batch_size`, `critical_low`, `critical_high`,
    `reference`, `overhead`, `level` and `u_shaped` are B* as it was fitted: `sgdtheory fit-curves --steps-csv` and
    `fit-grid` write them.

    Returns:
        One StepsMeasurement a group, in the order of the file.

    Raises:
        ValueError: no such file or column, an entry that is not a positive number, rows of a group and batch size that
            differ in another column, or fewer than three batch sizes in a group; the message has the line.
    """
    columns = [batch_size, steps, *filter(None, (group, size, standard_error))]
    groups: dict[str, _Group] = {}
    for line, row in csv_rows(Path(path), columns):
        where = f"{path}, line {line}"
        name = row[group].strip() if group else ""
        if group and not name:
            raise ValueError(f"{where}: {group} must not be empty")
        batch = positive_cell(row[batch_size], batch_size, where)
        found = groups.setdefault(name, _Group(name))
        if not row[steps].strip():
            found.unreached.append(batch)
            continue
        count = positive_cell(row[steps], steps, where)
        error = _error(row[standard_error], standard_error, where) / count if standard_error else float("nan")
        found.measured.setdefault(batch, []).append((count, error))
        # Rows of a batch size that differ in their seeds alone are runs of one kind. Other differences, such as a
        # learning rate, would make their mean meaningless.
        others = {key: cell for key, cell in row.items() if key not in columns and "seed" not in str(key).lower()}
        known = found.others.setdefault(batch, others)
        differs = next((column for column, cell in others.items() if cell != known.get(column)), "")
        if differs:
            raise ValueError(
                f"{where}: {batch_size} {batch:g} occurs twice{f' for {name}' if name else ''}, with different "
                f"{differs}; keep its best run, or name the column that separates the groups"
            )
        found.computed |= row.get(COMPUTED, "").strip() == "yes"
        found.critical = found.critical or fitted_in(row, where)  # All rows of a group have the same.
        value = positive_cell(row[size], size, where) if size else float("nan")
        if np.isnan(found.size):
            found.size = value
        elif found.size != value:
            raise ValueError(
                f"{where}: {size} must be the same in all rows of {name or 'the file'}, got {value:g} and "
                f"{found.size:g}"
            )
    if not groups:
        raise ValueError(f"{path} has no rows below its header")
    return [found.measurement(path) for found in groups.values()]


@dataclass
class _Group:
    """The rows of one group.

    Attributes:
        name: of the group.
        measured: B → (steps, their relative error) of each row.
        others: B → cells in columns that are not asked for, of its first row.
        unreached: B of each row without steps.
        size, computed, critical: as of a `StepsMeasurement`.
    """

    name: str
    measured: dict[float, list[tuple[float, float]]] = field(default_factory=dict)
    others: dict[float, dict[str, str]] = field(default_factory=dict)
    unreached: list[float] = field(default_factory=list)
    size: float = float("nan")
    computed: bool = False
    critical: FittedCriticalBatchSize | None = None

    def measurement(self, path: str | Path) -> StepsMeasurement:
        """Return the steps at each batch size, the geometric mean of several rows."""
        if len(self.measured) < MIN_POINTS:
            raise ValueError(
                f"{path}: {self.name or 'the file'} has {len(self.measured)} batch sizes; a fit needs at least "
                f"{MIN_POINTS}"
            )
        batch_sizes = np.array(sorted(self.measured))
        rows = [np.array(self.measured[batch]) for batch in batch_sizes]
        steps = np.array([np.exp(np.log(each[:, 0]).mean()) if len(each) > 1 else each[0, 0] for each in rows])
        errors = np.array([np.sqrt((each[:, 1] ** 2).sum()) / len(each) for each in rows])  # of the mean of logs
        known = None if np.isnan(errors).any() else errors
        remarks = tuple(self.remarks())
        return StepsMeasurement(self.name, self.size, batch_sizes, steps, known, self.computed, self.critical, remarks)

    def remarks(self) -> Iterator[str]:
        """Yield sentences on the rows that were averaged, and on those that were left out."""
        prefix = f"{self.name}: " if self.name else ""
        repeated = ", ".join(f"{batch:g}" for batch, rows in sorted(self.measured.items()) if len(rows) > 1)
        blank = ", ".join(f"{batch:g}" for batch in sorted(set(self.unreached)))
        if repeated:
            yield (
                f"{prefix}batch size {repeated} has several rows, taken as seeds: the geometric mean of their steps "
                "counts; of several learning rates keep the best run alone"
            )
        if blank:
            rows = "1 row" if len(self.unreached) == 1 else f"{len(self.unreached)} rows"
            yield f"{prefix}{rows} of batch size {blank} without steps left out: runs that did not reach the target"


def _error(text: str, column: str, where: str) -> float:
    """A standard error, which 0 is not: runs that all stop at one evaluation are known to within its interval."""
    if text.strip() in ("0", "0.0"):
        raise ValueError(
            f"{where}: {column} must be positive, got 0; where all runs stopped at one evaluation, give the steps "
            "between two evaluations over √12"
        )
    return positive_cell(text, column, where)


def steps_text(measurements: Iterable[StepsMeasurement], *, remarks: Mapping[str, Sequence[Any]] | None = None) -> str:
    """CSV of measurements, as `read_measurements(…, group="group")` reads them.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> measured = st.fits.StepsMeasurement("loss 2.8", np.nan, np.array([16, 64, 256]), np.array([4130, 1180, 443]))
    >>> st.fits.steps_text([measured]).splitlines()[1]
    'loss 2.8,16,4130,no,,,,,,,'

    Args:
        measurements: with names of their groups; standard errors are written if all of them have some.
        remarks: columns for the reader alone, name → of each measurement its value.
    """
    measurements = list(measurements)
    remarks = {} if remarks is None else remarks
    with_errors = bool(measurements) and all(each.standard_errors is not None for each in measurements)
    rows = []
    for place, each in enumerate(measurements):
        fitted = [None] * len(CRITICAL_COLUMNS) if each.critical is None else each.critical.cells
        rest = ["yes" if each.computed else "no", *(column[place] for column in remarks.values()), *fitted]
        errors = np.full(each.steps.size, np.nan) if each.standard_errors is None else each.standard_errors * each.steps
        for batch, steps, error in zip(each.batch_sizes, each.steps, errors, strict=True):
            rows.append([each.group, batch, steps, *([error] if with_errors else []), *rest])
    columns = "group", "batch_size", "steps", *(["standard_error"] if with_errors else [])
    return csv_text((*columns, COMPUTED, *remarks, *CRITICAL_COLUMNS), rows)
