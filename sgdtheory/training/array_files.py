"""Files of features and targets: two memory-mapped arrays with one row per sample."""

import functools
from pathlib import Path

import numpy as np

from sgdtheory._common.files import check_regular

FEWEST_ROWS = 10  # A fifth of the rows is held out: fewer rows leave a hold-out of one sample.
MOST_CLASSES = 1 << 20  # The network has one output per class: larger targets are refused before memory runs out.


def array_files(features: str, targets: str) -> tuple[np.ndarray, np.ndarray]:
    """Map both files into memory, again whenever one of them has been edited.

    Raises:
        ValueError: if a file cannot be read, or the two do not have the shapes of features and targets.
    """
    return _both(features, targets, _changed(features), _changed(targets))


def _changed(path: str) -> tuple[int, int] | None:
    """Return the modification time and the size of a file; None if it does not exist."""
    try:
        stat = Path(path).expanduser().stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


@functools.lru_cache(maxsize=4)
def _both(features: str, targets: str, *times: tuple[int, int] | None) -> tuple[np.ndarray, np.ndarray]:
    del times
    both = _mapped(features), _mapped(targets)
    x, y = both
    if x.ndim not in (2, 4):
        raise ValueError(f"{features} must be (N, d), or (N, height, width, channels) for images, got shape {x.shape}")
    if y.ndim not in (1, 2) or (y.ndim == 2 and np.issubdtype(y.dtype, np.integer)):
        raise ValueError(f"{targets} must be (N,) or (N, K) numbers, or (N,) whole-number classes, got shape {y.shape}")
    if len(x) != len(y):
        raise ValueError(f"{features} and {targets} must have one row a sample, got {len(x)} and {len(y)} rows")
    if len(x) < FEWEST_ROWS:
        raise ValueError(f"{features} must have at least {FEWEST_ROWS} rows, got {len(x)}")
    return both


def number_of_classes(targets: str, classes: np.ndarray) -> int | None:
    """Return the number of classes of whole-number targets; None if the targets are not whole numbers.

    Raises:
        ValueError: if a class is negative or at least `MOST_CLASSES`.
    """
    if not np.issubdtype(classes.dtype, np.integer):
        return None
    low, high = int(classes.min()), int(classes.max())
    if low < 0 or high >= MOST_CLASSES:
        raise ValueError(f"{targets} must hold classes 0, 1, … below {MOST_CLASSES}, but has {low} … {high}")
    return high + 1


def _mapped(path: str) -> np.ndarray:
    check_regular(Path(path).expanduser())
    try:
        array = np.load(Path(path).expanduser(), mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{path} is not there: give the path of a .npy file") from None
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is no NumPy array that can be read ({error}): write it with numpy.save") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise ValueError(f"{path} must be one array of numbers in a .npy file: write it with numpy.save")
    return array
