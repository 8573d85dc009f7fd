"""Small linear systems, many at once, with the many along the last axis."""

from typing import Any

import numpy as np


def solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions (q, r, …) of matrix (q, q, …) times x = right (q, r, …), by elimination from the last unknown up.

    Without pivoting, as diagonal blocks of methods need none; where it breaks down LAPACK's does it. Not finite where a
    matrix is singular.
    """
    q = matrix.shape[0]
    if q == 1:
        return right / matrix[0]
    with np.errstate(all="ignore"):
        found = _eliminated(matrix, right)
    if np.isfinite(found).all() or not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        return found
    shape = np.broadcast_shapes(matrix.shape[2:], right.shape[2:])
    a = np.moveaxis(np.broadcast_to(matrix, (q, q, *shape)), (0, 1), (-2, -1))
    b = np.moveaxis(np.broadcast_to(right, (*right.shape[:2], *shape)), (0, 1), (-2, -1))
    try:
        return np.moveaxis(np.linalg.solve(a, b), (-2, -1), (0, 1))
    except np.linalg.LinAlgError:
        return found


def _eliminated(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    q = matrix.shape[0]
    rows: list[Any] = [[matrix[i, j] for j in range(q)] for i in range(q)]
    sides: list[Any] = [right[i] for i in range(q)]
    for pivot in range(q - 1, 0, -1):
        inverse = 1 / rows[pivot][pivot]
        for i in range(pivot):
            factor = rows[i][pivot] * inverse
            if not factor.any():
                continue
            for j in range(pivot):
                rows[i][j] = rows[i][j] - factor * rows[pivot][j]
            sides[i] = sides[i] - factor * sides[pivot]
    found: list[Any] = []
    for i in range(q):
        value = sides[i]
        for j in range(i):
            value = value - rows[i][j] * found[j]
        found.append(value / rows[i][i])
    return np.stack(np.broadcast_arrays(*found))


def inverses(matrices: np.ndarray) -> np.ndarray:
    """Inverses of matrices (p, p, K), in place (Gauss–Jordan; the matrices of a collocation need no pivoting)."""
    scratch = np.empty_like(matrices)
    for j in range(matrices.shape[0]):
        pivot = 1 / matrices[j, j]
        row, column = matrices[j] * pivot, matrices[:, j].copy()
        row[j] = pivot
        matrices[:, j] = 0.0
        np.multiply(column[:, None], row, out=scratch)
        np.subtract(matrices, scratch, out=matrices)
        matrices[j] = row
    return matrices
