"""Reading and writing spectra: eigenvalues, signal and, in `.npz` files, the label noise."""

import csv
import io
import zipfile
import zlib
from pathlib import Path

import numpy as np

from sgdtheory._common.files import check_regular, csv_columns, csv_number, write_atomically
from sgdtheory.problems.least_squares import LeastSquares

COLUMNS = "eigenvalues", "signal"


def read_spectrum(path: str | Path, *, noise_variance: float | None = None) -> LeastSquares:
    """Read a problem from a file with the columns, or arrays, `eigenvalues` and `signal`.

    Example:
        >>> import sgdtheory as st, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = st.problems.write_spectrum(st.LeastSquares([1.0, 0.5], [1.0, 2.0], 0.3), f"{folder}/two.npz")
        ...     problem = st.read_spectrum(path)
        >>> print(problem.eigenvalues, problem.signal, problem.noise_variance)
        [1.  0.5] [1. 2.] 0.3

    Args:
        path: path of a CSV file with a header, or of an `.npz` file, which may also contain `noise_variance`.
        noise_variance: σ²; None: the value in the file, or 1.

    Raises:
        ValueError: if the file is missing, or does not have this form.
    """
    path = Path(path)
    check_regular(path)
    try:
        arrays = _from_npz(path) if path.suffix == ".npz" else _from_csv(path)
    except FileNotFoundError:
        raise ValueError(f"spectrum must be a file that exists, got {path}; check the path") from None
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError, MemoryError, csv.Error, zlib.error) as error:
        raise ValueError(f"spectrum must be a CSV or .npz file, got {path}: {error}") from None
    missing = [name for name in COLUMNS if name not in arrays]
    if missing:
        raise ValueError(
            f"spectrum must hold eigenvalues and signal, got {', '.join(map(str, arrays)) or 'nothing'} in {path}; "
            "give them these names"
        )
    noise = arrays.get("noise_variance", 1.0) if noise_variance is None else noise_variance
    return LeastSquares(arrays["eigenvalues"], arrays["signal"], noise)


def write_spectrum(problem: LeastSquares, path: str | Path) -> Path:
    """Write a problem for `read_spectrum`: `.npz` with its noise, or CSV without.

    Example:
        >>> import sgdtheory as st, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = st.problems.write_spectrum(st.LeastSquares([1.0, 0.5], [1.0, 2.0]), f"{folder}/two.csv")
        ...     print(path.read_text().splitlines())
        ['eigenvalues,signal', '1.0,1.0', '0.5,2.0']

    Args:
        problem: problem with finitely many directions.
        path: path that ends in `.npz` or `.csv`.

    Raises:
        ValueError: if the path has another ending.
    """
    path = Path(path)
    eigenvalues, signal = problem.directions()
    if path.suffix == ".csv":
        return write_atomically(path, csv_columns(dict(zip(COLUMNS, (eigenvalues, signal), strict=True))))
    if path.suffix != ".npz":
        raise ValueError(f"path must end in .npz or .csv, got {path}")
    buffer = io.BytesIO()
    np.savez(buffer, eigenvalues=eigenvalues, signal=signal, noise_variance=problem.noise_variance)
    return write_atomically(path, buffer.getvalue())


def _from_npz(path: Path) -> dict:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except ValueError as error:  # The file contains Python objects, or is not an archive.
        raise OSError(str(error)) from None


def _from_csv(path: Path) -> dict:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name.strip(): name for name in (rows[0] if rows else ()) if name}
    arrays = {}
    for name in set(columns) & set(COLUMNS):
        try:
            arrays[name] = np.array([csv_number(row[columns[name]] or "") for row in rows])
        except ValueError as error:
            raise ValueError(f"{name} must be numbers, got another word in {path}: {error}") from None
    return arrays | {name: None for name in columns if name not in arrays}
