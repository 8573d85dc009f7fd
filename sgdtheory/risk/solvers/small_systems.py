"""Small linear systems, many at once, with the many along the last axis."""

import contextlib
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.risk.thresholds import THRESHOLDS


def solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions (q, r, …) of matrix (q, q, …) times x = right (q, r, …), by elimination from the last unknown up.

    Without pivoting, as diagonal blocks of methods need none; where it breaks down LAPACK's does it. Not finite where a
    matrix is singular.
    """
    q = matrix.shape[0]
    if q == 1:
        return right * np.reciprocal(matrix[0])
    with np.errstate(all="ignore"):
        result = _eliminated(matrix, right)
    broken = ~np.isfinite(result).all((0, 1)) & np.isfinite(matrix).all((0, 1)) & np.isfinite(right).all((0, 1))
    if broken.any():  # these alone: of next to singular matrices elimination is the more accurate
        a = np.broadcast_to(matrix, (q, q, *broken.shape))[..., broken]
        b = np.broadcast_to(right, (*right.shape[:2], *broken.shape))[..., broken]
        with contextlib.suppress(np.linalg.LinAlgError):
            solved = np.linalg.solve(np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0))
            result[..., broken] = np.moveaxis(solved, 0, -1)
    return result


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
    result: list[Any] = []
    for i in range(q):
        value = sides[i]
        for j in range(i):
            value = value - rows[i][j] * result[j]
        result.append(value / rows[i][i])
    return np.stack(np.broadcast_arrays(*result))


def resolvent(matrix: np.ndarray, y: np.ndarray, z: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve (y + z·matrix) x = right, (q, r, S, K, C), for matrices (q, q, S, K) and right (q, r, S, K).

    At C points y, z, (S, C) each. For q ≤ 3 by adjugate and determinant: polynomials in y and z whose coefficients are
    the same at all points, so that a product of matrices does the work of an elimination at every point.
    """
    q = matrix.shape[0]
    y, z = (each[:, None] for each in (y, z))
    if q > THRESHOLDS.adjugate_unknowns:
        return solve(matrix[..., None] * z + np.eye(q)[:, :, None, None, None] * y, right[..., None] + 0 * z)
    result = homogeneous(adjugate(matrix, right), y[:, 0], z[:, 0])
    result *= np.reciprocal(homogeneous(determinant(matrix), y[:, 0], z[:, 0]))
    return result


def adjugate(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Coefficients (q, q, r, …) of `adj(y + z·matrix) right` as a polynomial in y and z, y^{q−1} first; q ≤ 3."""
    q = matrix.shape[0]
    result = np.empty((q, *np.broadcast_shapes(right.shape, (q, right.shape[1], *matrix.shape[2:]))))
    result[0] = right
    if q > 1:
        result[1] = np.einsum("ij...,jr...->ir...", _others(matrix), right)
    if q == 3:
        result[2] = np.einsum("ji...,jr...->ir...", _cofactors(matrix), right)
    return result


def determinant(matrix: np.ndarray) -> np.ndarray:
    """Return the coefficients (q + 1, …) of `det(y + z·matrix)` as a polynomial in y and z, y^q first; q ≤ 3."""
    q = matrix.shape[0]
    trace: Any = matrix.trace()
    result = [np.ones_like(trace), trace]
    if q == 2:
        result.append(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0])
    if q == 3:
        cofactors = _cofactors(matrix)
        result += [cofactors.trace(), (matrix[0] * cofactors[0]).sum(0)]
    return np.array(result)


def _others(matrix: np.ndarray) -> np.ndarray:
    """Return trace − matrix, (q, q, …); its diagonal sums the other entries, so that no small entry is lost."""
    result = -matrix
    for i in range(matrix.shape[0]):
        result[i, i] = sum(matrix[j, j] for j in range(matrix.shape[0]) if j != i)
    return result


def _cofactors(matrix: np.ndarray) -> np.ndarray:
    """Return the cofactors of matrices (3, 3, …)."""
    first = [1, 2, 0]
    second = [2, 0, 1]
    straight = matrix[first][:, first] * matrix[second][:, second]
    return straight - matrix[first][:, second] * matrix[second][:, first]


def homogeneous(coefficients: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the polynomials Σ_m c_m y^{M−m} z^m at (S, C) points, (…, S, K, C), for coefficients (M + 1, …, S, K)."""
    values = np.moveaxis(coefficients, 0, -1) @ as_real(powers(coefficients.shape[0] - 1, y, z))
    return values.view(complex)  # real times complex, as real numbers


def powers(degree: int, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return (S, M + 1, C) of y^{M−m} z^m, m = 0 … M, at (S, C) points."""
    return np.stack([y ** (degree - m) * z**m for m in range(degree + 1)], axis=1)


def as_real(values: np.ndarray) -> np.ndarray:
    """Return the complex numbers (…, C) as real ones (…, 2C), which real matrices multiply sooner."""
    return np.ascontiguousarray(values, dtype=complex).view(float)


class Inverses(NamedTuple):
    """Inverses of matrices (p, p, K), and their determinants (K,)."""

    inverse: np.ndarray
    determinant: np.ndarray


def inverses(matrices: np.ndarray) -> Inverses:
    """Invert matrices (p, p, K) in place, by Gauss–Jordan; the matrices of a collocation need no pivoting."""
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
    return Inverses(matrices, determinants)
