"""Features and targets as rows, in memory or on disk, checked a piece at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory._common.arguments import refuse_complex
from sgdtheory._common.files import check_regular

PIECE = 1 << 22  # This many numbers are read at once.


@dataclass(frozen=True, eq=False)
class Rows:
    """N features of d columns with k targets each.

    Attributes:
        features: (N, d), an array or a memory-mapped file.
        targets: (N, k), likewise.
    """

    features: Any
    targets: Any

    def __len__(self) -> int:
        return len(self.features)

    def pieces(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield slices of rows with their features and targets in float64.

        Raises:
            ValueError: a number is not finite.
        """
        columns = self.features.shape[1] + self.targets.shape[1]
        step = max(1, PIECE // columns)
        for first in range(0, len(self), step):
            rows = slice(first, min(first + step, len(self)))
            yield rows, _finite("features", self.features[rows], first), _finite("targets", self.targets[rows], first)

    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        """(N, d) features and (N, k) targets in float64, in memory.

        Raises:
            ValueError: a number is not finite.
        """
        return _finite("features", self.features, 0), _finite("targets", self.targets, 0)


def _finite(name: str, values: Any, first: int) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, got an array of {np.asarray(values).dtype}; convert them") from None
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        row, column = bad[0]
        raise ValueError(
            f"{name} must be finite, got {array[row, column]} in row {first + row}, column {column} (counted from 0); "
            "drop the row or fill it in"
        )
    return array


def checked_rows(features: Any, targets: Any) -> Rows:
    """Arrays, or paths of `.npy` files, which are read from disk a piece at a time.

    Raises:
        ValueError: not arrays of that shape, or of different lengths.
    """
    x = _array("features", features)
    y = _array("targets", targets)
    refuse_complex("features", x)
    refuse_complex("targets", y)
    y = y[:, None] if y.ndim == 1 else y
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"features must be an array of rows, (N, d), got shape {x.shape}; write reshape(N, -1)")
    if y.ndim != 2 or y.shape[1] == 0:
        raise ValueError(f"targets must have the shape (N,) or (N, k), got {y.shape}")
    if len(x) != len(y):
        raise ValueError(f"targets must have one row for each of the {len(x)} rows of features, got {len(y)}")
    return Rows(x, y)


def singular_directions(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (r,) singular values of N rows and (r, d) right singular vectors, those above rounding error.

    The rows are first reduced by a QR decomposition: XᵀX itself would lose every λ_i = s_i²/N below 1e-16 λ_1.
    """
    singular, vectors = np.linalg.svd(np.linalg.qr(features, mode="r"), full_matrices=False)[1:]
    kept = singular > singular[0] * max(features.shape) * np.finfo(float).eps
    return singular[kept], vectors[kept]


def _array(name: str, value: Any) -> Any:
    if not isinstance(value, str | Path):
        return np.asarray(value)
    path = Path(value)
    if path.suffix != ".npy":
        raise ValueError(f"{name} must be an array or a .npy file, got {path}; numpy.save writes one")
    check_regular(path)
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{name} must be a file that exists, got {path}; check the path") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{name} must be a .npy file of numbers, got {path}: {error}; write it anew") from None
