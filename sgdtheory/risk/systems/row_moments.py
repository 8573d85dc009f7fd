"""Second moments of SGD on the rows of a sample, drawn with replacement (THEORY.md T42): exact for a small one.

Along the J eigenvectors of Ĥ = diag(w), with Δ = w − ŵ, rows x and residuals r of the least-squares fit, Σ x r = 0,

    E Δ ← A E Δ,  A = 1 − γ diag(w),
    M ← 𝒯 M + (γ²/B)(Q − C E Δ),   𝒯 M = M − γ(wM + Mw) + γ²[(1 − 1/B) wMw + (1/B) mean x xᵀ(xᵀMx)],
    Q = mean x xᵀ r²,  C m = 2 mean x xᵀ r (xᵀm),

exactly, for M = E ΔΔᵀ: the fourth moments of the rows are all that is asked of them. 𝒯 is symmetric in the packed
coordinates of symmetric matrices, (M_ii, √2 M_ij): its eigenvectors give M after any number of steps. For an
average `S ← ρS + ω Δ` with X = E ΔSᵀ, as batches are independent,

    X ← A(ρX + ωM),   E SSᵀ ← ρ² E SSᵀ + ρω(X + Xᵀ) + ω² M.

Larger samples are followed by the diagonals of M, X and of what stands beside M alone: (J,) moments with J² fourth
moments. Correlations of different directions, which are left out, have no sign.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import SGD, Course
from sgdtheory.problems import RowSample
from sgdtheory.risk.solvers.contour import QUIET_CONTOUR
from sgdtheory.risk.systems.moments import Keeping
from sgdtheory.risk.thresholds import THRESHOLDS

ROOT = np.sqrt(2.0)


def takes_moments(sample: object, course: Course) -> bool:
    """Return whether a run's second moments are computed from those of the rows."""
    if not isinstance(sample, RowSample) or sample.weight.size > THRESHOLDS.diagonal_sample:
        return False
    algorithm = course.algorithm
    return algorithm.method == SGD() and (algorithm.constant or course.num_steps <= THRESHOLDS.sample_steps)


class State(NamedTuple):
    """M packed, (p,), E Δ (J,), X (J, J), or its diagonal, and tr H E SSᵀ."""

    second: np.ndarray
    mean: np.ndarray
    cross: np.ndarray
    square: float


class RowMoments:
    """Fourth moments of the rows of a sample, which do not depend on γ and B.

    Attributes:
        whole: whether all pairs of directions are there, or only each with itself.
        upper: (p,) first and (p,) second directions of the pairs.
        fourth, noise, skew: (p, p) of `M → mean x xᵀ(xᵀMx)`, (p,) Q and (p, J) C.
        risk: (J, J) VᵀHV, or its diagonal.
    """

    def __init__(self, sample: RowSample) -> None:
        self.weight = sample.weight
        self.start = sample.away
        size = self.weight.size
        self.whole = size <= THRESHOLDS.whole_sample
        self.upper = np.triu_indices(size) if self.whole else (np.arange(size), np.arange(size))
        self.factor = np.where(self.upper[0] == self.upper[1], 1.0, ROOT)
        moments = self.factor.size
        self.fourth = np.zeros((moments, moments))
        self.noise = np.zeros(moments)
        self.skew = np.zeros((moments, size))
        fitted = sample.vectors @ sample.away  # w_0 − ŵ
        for features, noise in sample.rows():
            rows = features @ sample.vectors
            residual = noise - features @ (sample.start - fitted)  # of ŵ
            squares = rows[:, self.upper[0]] * rows[:, self.upper[1]] * self.factor
            self.fourth += squares.T @ squares
            self.noise += residual**2 @ squares
            self.skew += 2 * squares.T @ (residual[:, None] * rows)
        number = sample.num_samples
        self.fourth /= number
        self.noise /= number
        self.skew /= number
        half = sample.scale[:, None] * sample.vectors
        self.risk = half.T @ half if self.whole else sample.test

    def pack(self, matrix: np.ndarray) -> np.ndarray:
        """Return (p,) from a symmetric matrix (J, J), or from its diagonal."""
        return matrix[self.upper] * self.factor if self.whole else matrix

    def unpack(self, packed: np.ndarray) -> np.ndarray:
        """Return the inverse of `pack`; of several, (p, C), with C last."""
        if not self.whole:
            return packed
        scaled = (packed.T / self.factor).T
        result = np.empty((self.weight.size, self.weight.size, *packed.shape[1:]), packed.dtype)
        result[self.upper] = scaled
        result[self.upper[::-1]] = scaled
        return result

    def rowwise(self, values: np.ndarray) -> np.ndarray:
        """Return (J, …) numbers of the directions, to multiply X from the left."""
        return values[:, None] if self.whole else values

    @cached_property
    def shown(self) -> np.ndarray:
        """(p,) tr HM = shown · M."""
        return self.pack(self.risk)

    def squared(self, mean: np.ndarray) -> np.ndarray:
        """Return (…, p) of E Δ E Δᵀ."""
        return mean[..., self.upper[0]] * mean[..., self.upper[1]] * self.factor

    def of_mean(self, response: np.ndarray) -> np.ndarray:
        """Return (…) its risk, of responses (…, J)."""
        return self.squared(response * self.start) @ self.shown

    def begin(self) -> State:
        """Return the state at w_0."""
        return State(self.squared(self.start), self.start, np.zeros_like(self.risk), 0.0)

    def diagonal(self, rate: float, batch: float) -> np.ndarray:
        """Return (p,) of 𝒯 without the fourth moments."""
        first, second = self.weight[self.upper[0]], self.weight[self.upper[1]]
        return 1 - rate * (first + second) + rate**2 * (1 - 1 / batch) * first * second

    def edge(self, batch: float) -> float:
        """Return the largest γ with which no moment grows: `𝒯 = 1 − γL + γ²K` has none above 1 iff `γK ≼ L`."""
        first, second = self.weight[self.upper[0]], self.weight[self.upper[1]]
        root = np.sqrt(first + second)
        steep = self.fourth / batch
        steep[np.diag_indices_from(steep)] += (1 - 1 / batch) * first * second
        return float(1 / np.linalg.eigvalsh(steep / root[:, None] / root)[-1])


def second_risks(rows: RowMoments, course: Course, stops: np.ndarray) -> np.ndarray:
    """Return (2, K) `E (v − ŵ)ᵀ H (v − ŵ)` in the directions of Ĥ, v the iterate and what the average returns.

    Args:
        rows: of the sample.
        course: of a run of SGD.
        stops: (K,) increasing numbers of steps.
    """
    average = course.algorithm.average
    keeping = Keeping(average.forgetting(course.num_steps), average.weight(course.num_steps))
    first = course.first_averaged
    long = course.algorithm.constant and stops.max(initial=0.0) > THRESHOLDS.few_steps
    begin = np.zeros(1)
    stage = Stage(rows, float(course.rates(begin)[0]), float(course.batches(begin)[0])) if long else None
    state = rows.begin()
    if average.starts_at_iterate():
        state = state._replace(cross=rows.unpack(state.second), square=float(rows.shown @ state.second))
    result = np.empty((2, stops.size))
    now = 0.0
    for place, stop in enumerate(stops.tolist()):
        if now < first:
            end = min(stop, first)
            state = _moved(rows, course, stage, state, (now, end), None)
            now = end
        here = _moved(rows, course, stage, state, (now, stop), keeping)
        if stage is None:  # on from there; closed forms begin where the average does
            state = here
            now = stop
        share = average.returned(stop, course.num_steps)
        parts = (
            (share.iterate**2, rows.shown @ here.second),
            (2 * share.iterate * share.total, (rows.risk * here.cross).sum()),
            (share.total**2, here.square),
        )
        result[:, place] = rows.shown @ here.second, sum(weight * part for weight, part in parts if weight != 0)
    return result


def _moved(
    rows: RowMoments,
    course: Course,
    stage: "Stage | None",
    state: State,
    ends: tuple[float, float],
    keeping: Keeping | None,
) -> State:
    """Return the state after the steps from one number to another."""
    if ends[1] <= ends[0]:
        return state
    if stage is None or ends[1] - ends[0] <= THRESHOLDS.few_steps:
        return _stepped(rows, course, state, *ends, keeping)
    return stage.after(state, ends[1] - ends[0], keeping)


def _stepped(rows: RowMoments, course: Course, state: State, low: float, high: float, keeping: Keeping | None) -> State:
    """Take every step."""
    second, mean, cross, square = state
    numbers = np.arange(low, high)
    for rate, batch in zip(course.rates(numbers), course.batches(numbers), strict=True):
        decay = 1 - rate * rows.weight
        if keeping is not None:
            rho, omega = 1 - keeping.forgetting, keeping.weight
            square = rho**2 * square + 2 * rho * omega * (rows.risk * cross).sum() + omega**2 * (rows.shown @ second)
            cross = rows.rowwise(decay) * (rho * cross + omega * rows.unpack(second))
        noise = rows.fourth @ second + rows.noise - rows.skew @ mean
        second = rows.diagonal(rate, batch) * second + rate**2 / batch * noise
        mean = decay * mean
    return State(second, mean, cross, float(square))


class Stage:
    """Constant steps, along the eigenvectors of 𝒯."""

    def __init__(self, rows: RowMoments, rate: float, batch: float) -> None:
        self.rows = rows
        self.force = rate**2 / batch
        self.decay = 1 - rate * rows.weight
        matrix = self.force * rows.fourth
        matrix[np.diag_indices_from(matrix)] += rows.diagonal(rate, batch)
        self.values, self.vectors = np.linalg.eigh(matrix)
        self.skew = self.vectors.T @ rows.skew
        self.noise = self.vectors.T @ rows.noise

    def after(self, state: State, steps: float, keeping: Keeping | None) -> State:
        """Return the state after n steps."""
        begin = self.vectors.T @ state.second
        driven = self.skew * state.mean
        second = self.values**steps * begin
        second += self.force * self.noise * divided(self.values, np.ones(1), steps)
        second -= self.force * (driven * divided(self.values[:, None], self.decay, steps)).sum(1)
        ended = state._replace(second=self.vectors @ second, mean=self.decay**steps * state.mean)
        return ended if keeping is None else self._averaged(state, ended, steps, keeping)

    def _averaged(self, state: State, ended: State, steps: float, keeping: Keeping) -> State:
        """Return the state with an average, from coefficients of generating functions, whose poles are real."""
        rows = self.rows
        rho, omega = 1 - keeping.forgetting, keeping.weight
        growth = max(float(np.log(np.abs(self.values).max())), 0.0)
        z = np.exp(-growth - QUIET_CONTOUR.points / steps)
        weight = QUIET_CONTOUR.weights / steps
        if min(self.values.min(), self.decay.min()) < 0:  # poles about z = −1
            z = np.concatenate([z, -z])
            weight = np.concatenate([weight, -weight if steps % 2 else weight])
        begin = self.vectors.T @ state.second
        driven = self.skew * state.mean
        pushed = self.noise[:, None] / (1 - z) - driven @ (1 / (1 - z * self.decay[:, None]))
        along = (begin[:, None] + self.force * z * pushed) / (1 - z * self.values[:, None])
        second = (self.vectors @ along.view(float)).view(complex)  # real numbers, twice as fast
        decay = self.decay[:, None]
        moved = state.cross[..., None] + omega * rows.rowwise(decay * z) * rows.unpack(second)
        moved = moved / rows.rowwise(1 - rho * decay * z)
        gained = 2 * rho * omega * np.tensordot(rows.risk, moved, rows.risk.ndim) + omega**2 * (rows.shown @ second)
        square = (state.square + z * gained) / (1 - z * rho**2)
        scale = np.exp(growth * steps)
        return ended._replace(cross=scale * (moved @ weight).real, square=float(scale * (square @ weight).real))


def divided(one: np.ndarray, other: np.ndarray, steps: float) -> np.ndarray:
    """Return `Σ_s a^{n−1−s} b^s = (a^n − b^n)/(a − b)` of real a and b, to all digits that they have."""
    one, other = np.broadcast_arrays(one, other)
    larger = np.where(np.abs(one) >= np.abs(other), one, other)
    smaller = np.where(np.abs(one) >= np.abs(other), other, one)
    with np.errstate(all="ignore"):
        ratio = np.where(larger == 0, 0.0, smaller / larger)
        apart = np.where(larger == 0, 1.0, (larger - smaller) / larger)
        power = np.where(ratio > 0, -np.expm1(steps * np.log1p(-apart)), 1 - ratio**steps)
        series = np.where(apart == 0, steps, power / np.where(apart == 0, 1.0, apart))
        return larger ** (steps - 1) * series
