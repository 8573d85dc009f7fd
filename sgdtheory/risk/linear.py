"""Small linear systems, many at once, with the many along the last axis."""

import contextlib
from typing import Any

import numpy as np


def solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions (q, r, …) of matrix (q, q, …) times x = right (q, r, …), by elimination from the last unknown up.

    Without pivoting, as diagonal blocks of methods need none; where it breaks down LAPACK's does it. Not finite where a
    matrix is singular.
    """
    q = matrix.shape[0]
    if q == 1:
        return right * np.reciprocal(matrix[0])
    with np.errstate(all="ignore"):
        found = _eliminated(matrix, right)
    broken = ~np.isfinite(found).all((0, 1)) & np.isfinite(matrix).all((0, 1)) & np.isfinite(right).all((0, 1))
    if broken.any():  # these alone: of next to singular matrices elimination is the more accurate
        a = np.broadcast_to(matrix, (q, q, *broken.shape))[..., broken]
        b = np.broadcast_to(right, (*right.shape[:2], *broken.shape))[..., broken]
        with contextlib.suppress(np.linalg.LinAlgError):
            solved = np.linalg.solve(np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0))
            found[..., broken] = np.moveaxis(solved, 0, -1)
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


def resolvent(matrix: np.ndarray, y: np.ndarray, z: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions (q, r, K, C) of (y + z·matrix) x = right at C points, for matrices (q, q, K) and right (q, r, K).

    For q ≤ 3 by adjugate and determinant: polynomials in y and z whose coefficients are the same at all points, so that
    a product of matrices does the work of an elimination at every point.
    """
    q = matrix.shape[0]
    if q > 3:
        return solve(matrix[..., None] * z + np.eye(q)[:, :, None, None] * y, right[..., None] + 0 * z)
    trace: Any = matrix.trace()
    numerator, determinant = [right], [np.ones_like(trace), trace]
    if q > 1:
        numerator.append(np.einsum("ijk,jrk->irk", _others(matrix), right))
    if q == 2:
        determinant.append(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0])
    if q == 3:
        cofactors = _cofactors(matrix)
        numerator.append(np.einsum("jik,jrk->irk", cofactors, right))
        determinant += [cofactors.trace(), (matrix[0] * cofactors[0]).sum(0)]
    found = _homogeneous(np.array(numerator), y, z)
    found *= np.reciprocal(_homogeneous(np.array(determinant), y, z))
    return found


def _others(matrix: np.ndarray) -> np.ndarray:
    """trace − matrix, (q, q, K); its diagonal is the sum of the other entries, so that no small entry is lost."""
    found = -matrix
    for i in range(matrix.shape[0]):
        found[i, i] = sum(matrix[j, j] for j in range(matrix.shape[0]) if j != i)
    return found


def _cofactors(matrix: np.ndarray) -> np.ndarray:
    """Of matrices (3, 3, K)."""
    first, second = [1, 2, 0], [2, 0, 1]
    straight = matrix[first][:, first] * matrix[second][:, second]
    return straight - matrix[first][:, second] * matrix[second][:, first]


def _homogeneous(coefficients: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Polynomials Σ_m c_m y^{M−m} z^m at (C,) points, (…, C), for coefficients (M + 1, …)."""
    degree = coefficients.shape[0] - 1
    powers = np.array([y ** (degree - m) * z**m for m in range(degree + 1)], dtype=complex)
    values = np.moveaxis(coefficients, 0, -1) @ powers.view(float)  # real times complex, as real numbers
    return values.view(complex)


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
