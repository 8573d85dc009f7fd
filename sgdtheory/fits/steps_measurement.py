"""Steps to one target at several batch sizes, as they were measured, and their files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from sgdtheory._common.arguments import checked_name
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.csv_rows import csv_rows, positive_cell
from sgdtheory._common.files import csv_number, csv_text
from sgdtheory.fits.conventions import Convention

MIN_POINTS = 3  # A fit of a and b needs this many batch sizes: with two there is no residual.
# A file of steps with B* has these columns.
CRITICAL_COLUMNS = "critical_batch_size", "critical_low", "critical_high", "reference", "overhead", "level", "u_shaped"


def points_needed(three_numbers: bool) -> int:
    """Return the batch sizes that a law needs: one more than its numbers, so that a residual is left."""
    return MIN_POINTS + three_numbers


class FittedCriticalBatchSize(NamedTuple):
    """B* with the interval of the fit that it is from.

    >>> import sgdtheory as st
    >>> found = st.fits.FittedCriticalBatchSize(277.0, 140.0, 548.0, st.Convention(None, 0.2), 0.95)
    >>> found.answers(st.Convention(16, 0.2), [16, 64, 256])
    True

    Attributes:
        batch_size: B*.
        low, high: ends of its interval; 0 and inf where the fit does not tell them.
        convention: of B*; without a reference it is the smallest batch size of the steps.
        level: of the interval.
        u_shaped: whether the law that was fitted has a term c/B² too: an optimal batch size.
    """

    batch_size: float
    low: float
    high: float
    convention: Convention
    level: float
    u_shaped: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    def answers(self, convention: Convention, batch_sizes: ArrayLike) -> bool:
        """Tell whether this is B* of that convention; `batch_sizes` are those of the steps."""
        references = (each.reference_among(batch_sizes) for each in (self.convention, convention))
        return self.convention.overhead == convention.overhead and len(set(references)) == 1

    def require(self, level: float) -> None:
        """Refuse intervals at another level than the fit's: no one but the fit can say them.

        Raises:
            ValueError: it is another one.
        """
        if level != self.level:
            raise ValueError(
                f"level must be {self.level:g}, at which these steps were fitted, got {level:g}: fit them at that level"
            )

    @property
    def cells(self) -> tuple[float | str | None, ...]:
        """Cells of the CRITICAL_COLUMNS of a file; no reference stands for the smallest batch size of the steps."""
        return (
            *self[:3],
            self.convention.reference,
            self.convention.overhead,
            self.level,
            "yes" if self.u_shaped else "no",
        )


def fitted_in(row: Mapping[str, str], where: str) -> FittedCriticalBatchSize | None:
    """B* in the cells of a row of a file; None where it has none.

    Raises:
        ValueError: a cell of CRITICAL_COLUMNS is not there or holds no number; the message has `where`.
    """
    if not row.get("critical_batch_size", "").strip():
        return None
    missing = [column for column in CRITICAL_COLUMNS if column not in row]
    if missing:
        raise ValueError(f"{where}: critical_batch_size needs {', '.join(missing)} too: leave it out, or give these")
    overhead, level = (positive_cell(row[name], name, where) for name in CRITICAL_COLUMNS[4:6])
    value, low, high = (_end(row[name], name, where) for name in CRITICAL_COLUMNS[:3])
    # nan fails all of these comparisons, and is refused with the others.
    if not (value > 0 and 0 <= low <= value <= high and level < 1):
        raise ValueError(
            f"{where}: critical_batch_size must lie from critical_low to critical_high, and level below 1, got "
            f"{value:g}, {low:g}, {high:g} and {level:g}"
        )
    reference = positive_cell(row["reference"], "reference", where) if row["reference"].strip() else None
    u_shaped = row["u_shaped"].strip() == "yes"
    return FittedCriticalBatchSize(value, low, high, Convention(reference, overhead), level, u_shaped)


def _end(text: str, column: str, where: str) -> float:
    """A number that may be 0 or infinite: B* is inf where no plateau was measured."""
    try:
        return csv_number(text)
    except ValueError:
        raise ValueError(f"{where}: {column} must be a number, got {text!r}") from None


@dataclass(frozen=True, eq=False)
class StepsMeasurement:
    """Steps to one target at several batch sizes.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> measured = st.fits.StepsMeasurement("width 64", 64, np.array([16, 64, 256]), np.array([4130, 1180, 443]))

    Attributes:
        group: name of the group of rows, "" where the file has no groups.
        size: its model or data size, nan where the file has none.
        batch_sizes, steps: (m,) in increasing order of batch size.
        standard_errors: (m,) of the steps, relative to them, as `fit_steps_law` takes them; None: not known.
        computed: whether a theory computed the steps: then they do not scatter, and no law is fitted to them (`plan`
            takes a `StepsTable`).
        critical: B* with its interval, where a fit has found it that knows more than these steps; None: it follows from
            them.
        remarks: on the rows of the file: those that were left out or averaged.
    """

    group: str
    size: float
    batch_sizes: np.ndarray
    steps: np.ndarray
    standard_errors: np.ndarray | None = None
    computed: bool = False
    critical: FittedCriticalBatchSize | None = None
    remarks: tuple[str, ...] = ()


# ------------------------------------------------------------------ files


COMPUTED = "computed"  # This column of a file has "yes" where steps are a theory's.
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
