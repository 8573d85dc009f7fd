"""Small linear systems, many at once, with the many along the last axis."""

import contextlib
from typing import Any

import numpy as np


def solve(matrix: Any, right: np.ndarray) -> np.ndarray:
    """Solutions (q, r, …) of matrix (q, q, …) times x = right (q, r, …), by elimination from the last unknown up.

    Without pivoting, as diagonal blocks of methods need none; where it breaks down LAPACK's does it. Not finite where a
    matrix is singular. Rows of arrays of different shapes, which broadcast, may stand for the matrix.
    """
    q = len(matrix)
    if q == 1:
        return right * np.reciprocal(matrix[0][0])
    with np.errstate(all="ignore"):
        result = _eliminated([list(row) for row in matrix], list(right))
    broken: Any = ~np.isfinite(result).all((0, 1))
    if broken.any():  # these alone: of next to singular matrices elimination is the more accurate
        a = np.array([[np.broadcast_to(each, broken.shape)[broken] for each in row] for row in matrix])
        b = np.broadcast_to(right, result.shape)[..., broken]
        finite = np.isfinite(a).all((0, 1)) & np.isfinite(b).all((0, 1))
        with contextlib.suppress(np.linalg.LinAlgError):
            solved = np.linalg.solve(np.moveaxis(a[..., finite], -1, 0), np.moveaxis(b[..., finite], -1, 0))
            broken[broken] = finite
            result[..., broken] = np.moveaxis(solved, 0, -1)
    return result


def _eliminated(rows: list[list[Any]], sides: list[Any]) -> np.ndarray:
    """Eliminate in place; entries keep their own shapes as long as nothing of a larger shape is added to them."""
    q = len(rows)
    for pivot in range(q - 1, 0, -1):
        inverse = np.reciprocal(rows[pivot][pivot])
        for i in range(pivot):
            if not rows[i][pivot].any():  # Block-triangular systems, of moments and averages, cost what blocks cost.
                continue
            factor = rows[i][pivot] * inverse
            for j in range(pivot):
                if rows[pivot][j].any():
                    rows[i][j] = rows[i][j] - factor * rows[pivot][j]
            sides[i] = sides[i] - factor * sides[pivot]
    shape = np.broadcast_shapes(*(each.shape for each in sides), *(row[place].shape for place, row in enumerate(rows)))
    result = np.empty((q, *shape), dtype=np.result_type(*sides, *rows[0], *rows[-1]))
    for i in range(q):
        value = sides[i]
        for j in range(i):
            if rows[i][j].any():
                value = value - rows[i][j] * result[j]
        np.multiply(value, np.reciprocal(rows[i][i]), out=result[i])
    return result


def resolvent(matrix: np.ndarray, t: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve (t + matrix) x = right, (q, r, S, K, C), for matrices (q, q, S, K), points t (S, C), and right (…, C or 1).

    What is the same at all points is not repeated for each of them, as long as elimination leaves it so.
    """
    rows = [[entry[..., None] for entry in row] for row in matrix]
    for i, row in enumerate(rows):
        row[i] = row[i] + t[:, None]
    return solve(rows, right)


def inverses(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the inverses of matrices (p, p, K), in their place, and their determinants (K,).

    By Gauss–Jordan; the matrices of a collocation need no pivoting.
    """
    scratch = np.empty_like(matrices)
    determinants = np.ones(matrices.shape[2:])
    for j in range(matrices.shape[0]):
        determinants *= matrices[j, j]
        pivot = 1 / matrices[j, j]
        row = matrices[j] * pivot
        column = matrices[:, j].copy()
        row[j] = pivot
        matrices[:, j] = 0.0
        np.multiply(column[:, None], row, out=scratch)
        np.subtract(matrices, scratch, out=matrices)
        matrices[j] = row
    return matrices, determinants
