"""Least squares in logs of a sum of terms, `log Y = log(Σ_j θ_j φ_j(B))` with θ ≥ 0, of many problems at once.

With residuals r = log Y − log f and shares J_ij = φ_ij/f_i the Hessian of ½Σ w r² is `Σ_i w_i (1 + r_i) J_i J_iᵀ`:
where the law is nowhere above the steps by a factor of e, a convex set of θ, the sum of squares is convex. Its least
value there is the least of all if it is below min w, since elsewhere one residual alone makes as much (THEORY.md T43).
A Newton step is a quadratic programme in three numbers that are not negative: the best of its seven faces, each solved
directly, so that a term that does not help is 0 exactly.
"""

from itertools import product

import numpy as np


def log_least_squares(
    log_steps: np.ndarray,
    terms: np.ndarray,
    weights: np.ndarray,
    starts: np.ndarray,
    along: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The lowest points of `Σ_i w_i (log Y_i − log Σ_j θ_j φ_ij)²` over θ ≥ 0 that are reached from the starts.

    Args:
        log_steps: (R, m), or (m,) for all, log Y.
        terms: (R, m, k), or (m, k) for all, φ ≥ 0.
        weights: (m,) w.
        starts: (R, k) θ, with a positive sum of terms everywhere.
        along: (R, k), or (k,) for all, h ≥ 0: h·θ is kept as the start has it; None: θ is free.

    Returns:
        (θ, sum of squares), (R, k) and (R,).
    """
    terms = np.broadcast_to(terms, (len(starts), *np.shape(terms)[-2:]))
    unit = (terms * np.exp(-log_steps)[..., None]).max(-2)  # θ in units of what is seen of a term where it is largest
    unit = np.where(unit > 0, unit, 1.0)
    terms = terms / unit[:, None]
    theta = starts * unit
    border = None if along is None else along / unit
    squares = _squares(log_steps, terms, weights, theta)
    # Outside of the convex region a whole step may lead uphill. Shorter ones are tried too, and the lowest counts.
    parts = 0.5 ** np.array([0, 1, 2, 3, 5, 8, 12, 20])[:, None]
    for _ in range(60):  # Newton's method takes about eight steps.
        wanted = _newton(log_steps, terms, weights, theta, border)
        tried = theta[:, None] + parts * (wanted - theta)[:, None]
        values = _squares(log_steps[..., None, :], terms[:, None], weights, tried)
        best = values.argmin(1)
        rows = np.arange(len(theta))
        lower = values[rows, best] < squares
        gained = np.where(lower, squares - values[rows, best], 0.0)
        theta = np.where(lower[:, None], tried[rows, best], theta)
        squares = np.where(lower, values[rows, best], squares)
        if (gained <= 1e-15 * squares).all():
            break
    return theta / unit, squares


def _squares(log_steps: np.ndarray, terms: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        rest = log_steps - np.log((terms @ theta[..., None])[..., 0])
    return (weights * rest**2).sum(-1)


def _newton(
    log_steps: np.ndarray, terms: np.ndarray, weights: np.ndarray, theta: np.ndarray, along: np.ndarray | None
) -> np.ndarray:
    """(R, k) the least of the quadratic model about θ over θ' ≥ 0: the best of its faces that is feasible."""
    value = (terms @ theta[..., None])[..., 0]
    rest = log_steps - np.log(value)
    shares = terms / value[..., None]
    # A point far below the law has a negative weight 1 + r, with which the Hessian need not be positive.
    hessian = (shares * (weights * np.maximum(1 + rest, 0.1))[..., None]).swapaxes(-1, -2) @ shares
    slope = ((weights * rest)[..., None] * shares).sum(-2) + (hessian @ theta[..., None])[..., 0]
    found = _on_faces(hessian, slope, theta, along)
    model = (found * (0.5 * (found @ hessian) - slope[:, None])).sum(-1)
    model = np.where((found >= 0).all(-1), model, np.inf)  # nan is not
    return np.take_along_axis(found, model.argmin(1)[:, None, None], 1)[:, 0]


def _on_faces(hessian: np.ndarray, slope: np.ndarray, theta: np.ndarray, along: np.ndarray | None) -> np.ndarray:
    """(R, faces, k) the stationary point with some terms alone, the others at 0; nan where there is none."""
    terms = theta.shape[1]
    faces = np.array([face for face in product((False, True), repeat=terms) if any(face)])
    size = terms if along is None else terms + 1
    matrix = np.broadcast_to(np.eye(size), (len(theta), len(faces), size, size)).copy()
    right = np.zeros((len(theta), len(faces), size))
    both = faces[:, :, None] & faces[:, None, :]
    matrix[..., :terms, :terms] = np.where(both, hessian[:, None], np.eye(terms))
    right[..., :terms] = np.where(faces, slope[:, None], 0.0)
    if along is not None:
        along = np.broadcast_to(along, theta.shape)
        border = np.where(faces, along[:, None], 0.0)
        held = np.any(border > 0, axis=-1)
        matrix[..., :terms, terms] = matrix[..., terms, :terms] = border
        matrix[..., terms, terms] = ~held
        right[..., terms] = np.where(held, (along * theta).sum(-1)[:, None], np.nan)
        right[..., :terms] = np.where(held[..., None], right[..., :terms], np.nan)
    return _solve(matrix, right)[..., :terms]


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions, nan of systems that are singular."""
    try:
        return np.linalg.solve(matrix, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        singular = np.linalg.matrix_rank(matrix) < matrix.shape[-1]
        matrix = np.where(singular[..., None, None], np.eye(matrix.shape[-1]), matrix)
        return np.where(singular[..., None], np.nan, np.linalg.solve(matrix, right[..., None])[..., 0])


def below(log_steps: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """(…, k) θ of a sum that is nowhere above the steps, each term as large as it may be over k: a start."""
    with np.errstate(divide="ignore"):
        log_most = (log_steps[..., None] - np.log(terms)).min(-2)
    return np.exp(log_most) / terms.shape[-1]
