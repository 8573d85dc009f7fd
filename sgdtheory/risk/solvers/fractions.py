"""Polynomials over determinants of small matrices, mode by mode: the integrands of the contour.

With t = n(1/z − 1), each inverse of `renewal` is `1 − zT = (z/n)(t + n(1 − T))`, and by adjugate and determinant

    (t + M)⁻¹ r = adj(t + M) r / det(t + M)

is a polynomial in t over another, with real coefficients. At a point a mode costs its 1/det alone: sums over the modes,
and over the points, are products of real matrices with the real and imaginary parts of 1/det. For up to
three unknowns; more are eliminated at every point (`rounds`).
"""

from typing import Any, NamedTuple

import numpy as np

# Beyond this many steps |det|² may leave the range of a float, and complex numbers are inverted instead.
LARGEST_SQUARED = 1e36


class Fractions(NamedTuple):
    """(t + M)⁻¹ r: numerators (q, …, S, K) from t^{q−1} down, and parts (2, S, K, C) of 1/det."""

    numerators: np.ndarray
    inverse: np.ndarray


def fractions(matrix: np.ndarray, right: np.ndarray, t: np.ndarray, num_steps: np.ndarray) -> Fractions:
    """Return `(t + matrix)⁻¹ right` at points t, (S, C), for matrices (q, q, S, K) and right (q, r, S, K).

    Both in units of the size of the matrix, so that no product leaves the range of a float.
    """
    q = matrix.shape[0]
    unit = 1 / (1 + np.abs(matrix).max((0, 1)))
    scaled = matrix * unit
    cofactors = cofactors_of(scaled)
    numerators = adjugate(scaled, right, cofactors)
    coefficients = determinant(scaled, cofactors)
    for power in range(q):
        factor = unit ** (q - power)
        numerators[power] *= factor
        coefficients[power] *= factor
    return Fractions(numerators, _inverse(coefficients, t, bool(num_steps.max() > LARGEST_SQUARED)))


def _inverse(coefficients: np.ndarray, t: np.ndarray, enormous: bool) -> np.ndarray:
    """Return (2, S, K, C) real and imaginary parts of one over polynomials in t, (q + 1, S, K), highest power first."""
    result = coefficients.transpose(1, 2, 0) @ parts(powers(t, coefficients.shape[0] - 1).transpose(1, 0, 2))
    if enormous:
        return parts(np.reciprocal(result[0] + 1j * result[1]))
    norm = result[0] * result[0]
    norm += result[1] * result[1]
    np.reciprocal(norm, out=norm)
    result *= norm
    np.negative(result[1], out=result[1])
    return result


def powers(t: np.ndarray, degree: int) -> np.ndarray:
    """Return (degree + 1, S, C) of t^degree … 1."""
    result = np.ones((degree + 1, *t.shape), dtype=complex)
    for place in range(degree)[::-1]:
        np.multiply(result[place + 1], t, out=result[place])
    return result


def parts(values: Any) -> np.ndarray:
    """Return (2, …) real and imaginary parts."""
    return np.stack([values.real, values.imag])


def times(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the parts of the products of complex numbers, by their parts, (2, …)."""
    result = left[0] * right
    result[0] -= left[1] * right[1]
    result[1] += left[1] * right[0]
    return result


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the coefficients (L + M − 1, …) of the products of polynomials (L, …) and (M, …) in t."""
    shape = np.broadcast_shapes(left.shape[1:], right.shape[1:])
    result = np.zeros((left.shape[0] + right.shape[0] - 1, *shape))
    for i, j in np.ndindex(left.shape[0], right.shape[0]):
        result[i + j] += left[i] * right[j]
    return result


def summed(numerators: np.ndarray, inverse: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return (r, S, C) sums over modes of polynomials (M, r, S, K) in t, highest power first, times `inverse`."""
    degrees, sides, settings, _ = numerators.shape
    measures = numerators.transpose(2, 0, 1, 3).reshape(settings, degrees * sides, -1)
    real, imaginary = measures @ inverse
    sums = (real + 1j * imaginary).reshape(settings, degrees, sides, -1).transpose(1, 2, 0, 3)
    result = sums[0]
    for each in sums[1:]:
        result = result * t + each
    return result


def at_steps(numerators: np.ndarray, inverse: np.ndarray, weight: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(…, p, S, K) sums over points of `weight`, (p, S, C), times fractions with numerators (M, …, p or 1, S, K)."""
    columns: Any = (powers(t, numerators.shape[0] - 1)[:, None] * weight).transpose(2, 3, 0, 1)  # (S, C, M, p)
    shape = columns.shape
    columns = columns.reshape(*shape[:2], -1)
    sums = inverse[0] @ columns.real - inverse[1] @ columns.imag
    sums = sums.reshape(*sums.shape[:2], *shape[2:]).transpose(2, 3, 0, 1)  # (M, p, S, K)
    result: Any = numerators[0] * sums[0]
    for numerator, each in zip(numerators[1:], sums[1:], strict=True):
        result = result + numerator * each
    return result


def adjugate(matrix: np.ndarray, right: np.ndarray, cofactors: np.ndarray) -> np.ndarray:
    """Coefficients (q, q, r, …) of `adj(t + matrix) right` as a polynomial in t, t^{q−1} first; q ≤ 3."""
    q = matrix.shape[0]
    result = np.empty((q, *np.broadcast_shapes(right.shape, (q, right.shape[1], *matrix.shape[2:]))))
    result[0] = right
    if q > 1:
        result[1] = np.einsum("ij...,jr...->ir...", _others(matrix), right)
    if q == 3:
        result[2] = np.einsum("ji...,jr...->ir...", cofactors, right)
    return result


def determinant(matrix: np.ndarray, cofactors: np.ndarray) -> np.ndarray:
    """Return the coefficients (q + 1, …) of `det(t + matrix)` as a polynomial in t, t^q first; q ≤ 3."""
    q = matrix.shape[0]
    trace: Any = matrix.trace()
    result = [np.ones_like(trace), trace]
    if q == 2:
        result.append(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0])
    if q == 3:
        result += [cofactors.trace(), (matrix[0] * cofactors[0]).sum(0)]
    return np.array(result)


def _others(matrix: np.ndarray) -> np.ndarray:
    """Return trace − matrix, (q, q, …); its diagonal sums the other entries, so that no small entry is lost."""
    result = -matrix
    for i in range(matrix.shape[0]):
        result[i, i] = sum(matrix[j, j] for j in range(matrix.shape[0]) if j != i)
    return result


def cofactors_of(matrix: np.ndarray) -> np.ndarray:
    """Return the cofactors of matrices (q, q, …), which only those with q = 3 need here; zeros for smaller ones."""
    result = np.zeros_like(matrix)
    if len(matrix) == 3:
        for i, j in np.ndindex(3, 3):  # views, which take half the time of gathered rows and columns
            first, second, left, right = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
            np.multiply(matrix[first, left], matrix[second, right], out=result[i, j])
            result[i, j] -= matrix[first, right] * matrix[second, left]
    return result
