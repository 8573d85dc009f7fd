"""Least squares along curved valleys, for many problems at once, each with one linear combination that is held."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

DIFFERENCE = 1e-5  # One-sided differences for slopes move each coordinate by this much.
ALONG = 0.1  # The second derivative along a step is measured at this fraction of the step.
BENT = 0.75  # The second-order correction is dropped if twice its length exceeds this fraction of the step's.
# The damping of the scaled JᵀJ starts here: along a valley slopes are 10⁻³, and their squares 10⁻⁶, of those across.
FIRST_DAMPING = 1e-5
LEAST_DAMPING, MOST_DAMPING = 1e-12, 1e6
LESS = 6.0  # The damping is divided by this after a step that was taken with its second-order correction.
MORE = 4.0  # The damping is multiplied by this after a step that was not taken.
LONGEST = 1.0  # A step is shortened to change no coordinate by more than this, before its correction.
MOST_STEPS = 60  # A fit stops after this many steps: a jump along a valley takes 30 to 50.
GAIN = 1e-2, 1e-4  # Profiles and fits converge when a step gains less than these fractions of a row's variance.
OUT = 9.0  # A residual of log loss that is not finite is replaced by this value, −inf by its negative.
HELD = 1e-9  # A held combination has its value if it is off by at most this.
# A step is solved up to this many times, each time without the coordinates that it pushes out of the box.
PASSES = 3


class Rows(NamedTuple):
    """A least-squares problem: (Q, P) → (Q, N) predictions, (N,) targets, the box, and the least gain of a step."""

    predicted: Callable[[np.ndarray], np.ndarray]
    target: np.ndarray
    low: np.ndarray
    high: np.ndarray
    gain: float


class Held(NamedTuple):
    """A combination `normal · θ = value` held in each problem; normals of 0 hold nothing. (Q, P) and (Q,)."""

    normal: np.ndarray
    value: np.ndarray

    def missing(self, points: np.ndarray) -> np.ndarray:
        """(Q,) by how much the points fall short of the values."""
        return self.value - (self.normal * points).sum(-1)


class Valley(NamedTuple):
    """State of Q problems: (Q, P) points, (Q, N) residuals, (Q, N, P) slopes, (Q,) damping, whether converged."""

    points: np.ndarray
    residuals: np.ndarray
    slopes: np.ndarray
    damping: np.ndarray
    done: np.ndarray

    @property
    def squares(self) -> np.ndarray:
        """(Q,)."""
        return (self.residuals**2).sum(-1)


def least(rows: Rows, start: np.ndarray, held: Held) -> Valley:
    """The least squares of each problem, by Levenberg–Marquardt with geodesic acceleration.

        (JᵀJ + μD²) δ = Jᵀr + λ n,   n·(θ + δ) = v,   θ ← θ + δ − ½ (JᵀJ + μD²)⁻¹ Jᵀ f''(δ, δ)

    Where numbers are sloppy least squares lie at the end of a narrow valley that bends. Steps of first order leave it
    after a short way; the second derivative along a step, one more evaluation, follows its bend.

    Args:
        rows: what is fitted.
        start: (Q, P).
        held: of each problem.

    Reference:
        Transtrum & Sethna 2012 (arXiv 1201.5885).
    """
    begin = standing(rows, np.clip(start, rows.low, rows.high))
    return repeated(lambda part, active: _step(rows, part, Held(*(each[active] for each in held))), begin, MOST_STEPS)


def repeated(step: Callable[[Any, np.ndarray], Any], state: Any, most: int) -> Any:
    """Steps of a state of arrays over problems, each until it is done: `step` takes the part that is not, and which."""
    for _ in range(most):
        active = np.flatnonzero(~state.done)
        if not active.size:
            break
        new = step(type(state)(*(each[active] for each in state)), active)
        for whole, moved in zip(state, new, strict=True):
            whole[active] = moved
    return state


def standing(rows: Rows, points: np.ndarray) -> Valley:
    """Return the state of problems that begin at points (Q, P)."""
    count = len(points)
    residuals, slopes = _linear(rows, points)
    return Valley(points, residuals, slopes, np.full(count, FIRST_DAMPING), np.zeros(count, dtype=bool))


def _step(rows: Rows, state: Valley, held: Held) -> Valley:
    """One, taken where it gains, or where it brings a point to the value that is held."""
    missing = held.missing(state.points)
    free = np.ones_like(state.points, dtype=bool)
    for _ in range(PASSES):
        solve = _solver(state, held, free)
        step = solve(state.residuals, missing)
        out = ((state.points <= rows.low) & (step < 0)) | ((state.points >= rows.high) & (step > 0))
        if not (free & out).any():
            break
        free &= ~out
    step /= np.maximum(1.0, np.abs(step).max(-1, keepdims=True) / LONGEST)
    bend = 2 / ALONG * ((state.residuals - _residuals(rows, state.points + ALONG * step)) / ALONG
                        - np.einsum("qnp,qp->qn", state.slopes, step))  # fmt: skip
    correction = solve(-bend, np.zeros_like(missing))
    size = np.linalg.norm(state.slopes, axis=1)
    straight = 2 * np.linalg.norm(size * correction, axis=-1) <= BENT * np.linalg.norm(size * step, axis=-1)
    points = np.clip(state.points + step + np.where(straight[:, None], correction / 2, 0.0), rows.low, rows.high)
    residuals, slopes = _linear(rows, points)
    gain = state.squares - (residuals**2).sum(-1)
    away = np.abs(missing) > HELD
    taken = (gain >= 0) | (away & (np.abs(held.missing(points)) < 0.99 * np.abs(missing)))
    damping = np.where(taken, np.where(straight, state.damping / LESS, state.damping), state.damping * MORE)
    settled = taken & ~away & (gain < rows.gain)
    return Valley(
        np.where(taken[:, None], points, state.points),
        np.where(taken[:, None], residuals, state.residuals),
        np.where(taken[:, None, None], slopes, state.slopes),
        np.maximum(damping, LEAST_DAMPING),
        settled | (damping > MOST_DAMPING),
    )


def _solver(state: Valley, held: Held, free: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Steps (Q, P) from residuals (Q, N) and what is missing (Q,), of the coordinates that are free, (Q, P)."""
    size = np.where(free, np.linalg.norm(state.slopes, axis=1), 0.0)
    unit = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
    slopes = state.slopes * unit[:, None, :]
    damped = np.einsum("qnp,qnr->qpr", slopes, slopes) + state.damping[:, None, None] * np.eye(unit.shape[-1])
    inverse = np.linalg.inv(damped)
    normal = held.normal * unit
    lever = np.einsum("qpr,qr->qp", inverse, normal)
    hold = (normal * lever).sum(-1)

    def solve(residuals: np.ndarray, missing: np.ndarray) -> np.ndarray:
        free = np.einsum("qpr,qnr,qn->qp", inverse, slopes, residuals)
        push = np.where(hold > 0, (missing - (normal * free).sum(-1)) / np.where(hold > 0, hold, 1.0), 0.0)
        return unit * (free + push[:, None] * lever)

    return solve


def _residuals(rows: Rows, points: np.ndarray) -> np.ndarray:
    found = rows.target - rows.predicted(points.reshape(-1, points.shape[-1]))
    found = np.nan_to_num(found, nan=OUT, posinf=OUT, neginf=-OUT)
    return found.reshape(*points.shape[:-1], -1)


def _linear(rows: Rows, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Q, N) residuals and (Q, N, P) slopes of what is predicted, by differences away from the nearer end."""
    side = np.where(points + DIFFERENCE > rows.high, -DIFFERENCE, DIFFERENCE)
    around = points[:, None, :] + np.concatenate([np.zeros((1, len(rows.low))), np.eye(len(rows.low))]) * side[:, None]
    found = _residuals(rows, around)
    return found[:, 0], ((found[:, :1] - found[:, 1:]) / side[:, :, None]).transpose(0, 2, 1)
