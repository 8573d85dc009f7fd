"""Many constant steps with delayed gradients: coefficients of generating functions that cost the same for every τ.

With `g_i = z^{τ+1} (x²/B) C_0`, C_0 of `systems.delayed`, N = (1 − z^τ)/(1 − z) and A = (C_0 − N)/z^τ, the generating
function of the mean path's square, the risks r_i of directions and R, their sum, have (THEORY.md T41)

    r̂_i = (s_i A + z (x²/B) C_0 [σ²/(1 − z) + N (R_0 + s_i) + z^τ R̂])/(1 − g_i),

which is one equation for R̂. A mean of n iterates has `n² Δ = Σ_i s_i (Σ_{t<n} a_t)²` and the coefficient of z^{n−1} of
`Σ_i (x²/B) W_0 [σ²/(1 − z) + N (R_0 + s_i) + z^τ (R̂ + r̂_i)]`.

These functions have poles anywhere within the unit circle, and are integrated along a circle (`coefficients`). On
`z = e^−p`, p = growth + c/n + iω, the coefficient of z^n is `(e^{n growth + c}/π) Re ∫_0^π f e^{inω} dω`. Panels are
halved until 16 Legendre polynomials follow f, which does not depend on n; `∫ P_k(u) e^{iau} du = 2 i^k j_k(a)` does the
rest, however fast e^{inω} turns. Where what oscillates has died out the parabola of `contour` takes a few points.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from scipy.special import spherical_jn

from sgdtheory.problems import Modes
from sgdtheory.risk.solvers.contour import LARGEST_EXPONENT, QUIET_CONTOUR
from sgdtheory.risk.systems.delayed import Points, Products, products, summed, summed_squares

ORDER = 16  # The integrand on a panel of the line is followed by this many Legendre polynomials.
# This is c: the line lies c/n to the right of all poles, which amplifies rounding by e^c.
RIGHT = 1.5
# Panels are halved until their last polynomials hold less than this share of the largest contribution.
TAIL = 1e-13
# Panels shorter than this times c/n are not halved: poles are no nearer.
SHORTEST = 1e-3
MOST_ROUNDS = 60  # Panels are halved in at most this many rounds.

_NODES, _WEIGHTS = legendre.leggauss(ORDER)
_DEGREES = np.arange(ORDER)
_TRANSFORM = (legendre.legvander(_NODES, ORDER - 1) * _WEIGHTS[:, None]).T * (_DEGREES[:, None] + 0.5)

Transform = Callable[[np.ndarray], np.ndarray]  # (C,) p → (…, C) values


def coefficients(
    transform: Transform, num_steps: float, growth: float, settled: bool, tail: float = TAIL
) -> np.ndarray:
    """Return (…) coefficients of z^n, n ≥ 1, of real functions whose poles have Re p ≤ growth.

    Args:
        transform: the functions, of p.
        num_steps: n.
        growth: of the farthest pole.
        settled: whether those that are not real have died out by n.
        tail: of the largest contribution of a panel: what its last polynomials may hold.
    """
    if num_steps * growth > LARGEST_EXPONENT:
        return np.full(transform(np.array([growth + 1.0])).shape[:-1], np.inf)
    if settled:
        p = growth + QUIET_CONTOUR.points / num_steps
        result = (QUIET_CONTOUR.weights * transform(p)).sum(-1).real / num_steps
    else:
        result = _along_the_line(transform, num_steps, growth, tail)
    return result * np.exp(num_steps * growth)


def _along_the_line(transform: Transform, num_steps: float, growth: float, most: float) -> np.ndarray:
    right = RIGHT / num_steps
    first = min(right, np.pi)
    doublings = int(np.ceil(np.log2(np.pi / first)))
    edges = np.concatenate([[0.0], np.pi * 2.0 ** -np.arange(doublings, -1, -1.0)])
    low, high = edges[:-1], edges[1:]
    total: np.ndarray | float = 0.0
    largest = 0.0
    for _ in range(MOST_ROUNDS):
        middle = (low + high) / 2
        half = (high - low) / 2
        omega = middle[:, None] + half[:, None] * _NODES
        values = transform(growth + right + 1j * omega.ravel())
        values = values.reshape(*values.shape[:-1], *omega.shape)
        series = values @ _TRANSFORM.T  # (…, L, ORDER)
        size = np.abs(series).max(-1) * half
        scale = np.maximum(largest, size.max(-1, keepdims=True))
        largest = scale
        tail = np.abs(series[..., -2:]).max(-1) * half
        open_ = (tail > most * scale).reshape(-1, half.size).any(0) & (half > SHORTEST * right)
        done = np.flatnonzero(~open_)
        turned = 2 * (1j**_DEGREES) * spherical_jn(_DEGREES, num_steps * half[done, None])
        waves = half[done, None] * np.exp(1j * num_steps * middle[done, None]) * turned
        total = total + np.einsum("...lk,lk->...", series[..., done, :], waves)
        if not open_.any():
            break
        low, middle, high = low[open_], middle[open_], high[open_]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return np.asarray(np.exp(RIGHT) / np.pi * np.real(total))


# A temporary has at most this many complex numbers, half a megabyte, which stay in a core's cache.
NUMBERS_AT_ONCE = 30_000


class Setting(NamedTuple):
    """One run.

    Attributes:
        modes: of the problem.
        rate, batch, delay, num_steps: γ, B, τ and n.
        growth: rate a step at which moments grow; below 0, at which they decay without noise.
        settled: whether what oscillates has died out by n.
        tail: of `coefficients`.
    """

    modes: Modes
    rate: float
    batch: float
    delay: int
    num_steps: float
    growth: float
    settled: bool
    tail: float = TAIL

    def coefficients(self, transform: Transform, number: float, growth: float) -> np.ndarray:
        """Return the coefficients of z^number."""
        return coefficients(transform, number, growth, self.settled, self.tail)


class _Sums(NamedTuple):
    """Sums over modes at C points: of what drives R̂, of the mean path and of sums of iterates."""

    load: np.ndarray  # Σ g/(1 − g)
    noise: np.ndarray  # Σ z v C_0/(1 − g)
    signal: np.ndarray  # Σ (s A + z v C_0 N s)/(1 − g)
    kept: np.ndarray | None = None  # Σ v W_0/(1 − g)
    kept_signal: np.ndarray | None = None  # Σ v W_0 (N s + z^τ (s A + z v C_0 N s)/(1 − g))


def last_iterate(run: Setting) -> np.ndarray:
    """Return (2,) bias and variance (σ² = 1) of w_n."""

    def transform(p: np.ndarray) -> np.ndarray:
        return _risk(run, Points.at(p), _sums(run, p, averaged=False))

    if run.growth >= 0:
        return run.coefficients(transform, run.num_steps, run.growth)
    # what is there decays, and keeps its digits while it does; what σ² adds has its own pole at z = 1
    bias = run.coefficients(lambda p: transform(p)[0], run.num_steps, run.growth)
    return np.array([bias, run.coefficients(lambda p: transform(p)[1], run.num_steps, 0.0)])


def average(run: Setting) -> np.ndarray:
    """Return (2,) bias and variance (σ² = 1) of the mean of w_0 … w_{n−1}."""

    def transform(p: np.ndarray) -> np.ndarray:
        points = Points.at(p)
        sums = _sums(run, p, averaged=True)
        risk = _risk(run, points, sums)
        before = _before(run, points)
        drive = np.array([before * run.modes.signal.sum() + 0 * p, 1 / points.one_less_z])
        drive = drive + points.z**run.delay * risk
        return sums.kept * drive + np.array([sums.kept_signal, 0 * p])

    result = run.coefficients(transform, run.num_steps - 1, max(run.growth, 0.0))
    result[0] += run.modes.signal @ mean_sums(run) ** 2
    return result / run.num_steps**2


def mean_sums(run: Setting) -> np.ndarray:
    """Return (K,) `Σ_{t<n} a_t = ψ(n + τ) − τ` of the mean path in each mode."""
    x = run.rate * run.modes.eigenvalue[:, None]

    def transform(p: np.ndarray) -> np.ndarray:
        return summed(x, run.delay, Points.at(p))

    return run.coefficients(transform, run.num_steps + run.delay, max(run.growth, 0.0) / 2) - run.delay


def _before(run: Setting, points: Points) -> np.ndarray:
    """N = Σ_{j<τ} z^j: of the first gradients, all taken at w_0."""
    return (1 - points.z**run.delay) / points.one_less_z


def _sums(run: Setting, p: np.ndarray, *, averaged: bool) -> _Sums:
    """Return the sums over modes, in portions whose temporaries stay in cache."""
    size = max(1, NUMBERS_AT_ONCE // run.modes.eigenvalue.size)
    parts = [_sums_at(run, Points.at(p[low : low + size]), averaged) for low in range(0, p.size, size)]
    joined = [None if each[0] is None else np.concatenate(each) for each in zip(*parts, strict=True)]
    return _Sums(*joined)  # pyright: ignore[reportArgumentType]


def _sums_at(run: Setting, points: Points, averaged: bool) -> _Sums:
    modes = run.modes
    z = points.z
    x = run.rate * modes.eigenvalue[:, None]
    result: Products = products(x, run.delay, points)
    noise = z * (x**2 / run.batch) * result.square
    one_less = 1 - z**run.delay * noise
    before = _before(run, points)
    path = (result.square - before) / z**run.delay + noise * before
    answer = noise / one_less
    started = path / one_less
    sums = _Sums(z**run.delay * (modes.multiplicity @ answer), modes.multiplicity @ answer, modes.signal @ started)
    if not averaged:
        return sums
    kept = x**2 / run.batch * summed_squares(x, run.delay, points, result)
    own = before + z**run.delay * started
    return sums._replace(kept=modes.multiplicity @ (kept / one_less), kept_signal=modes.signal @ (kept * own))


def _risk(run: Setting, points: Points, sums: _Sums) -> np.ndarray:
    """Return (2, C) R̂ of bias and of variance at σ² = 1."""
    before = _before(run, points)
    driven = np.array([sums.signal + before * run.modes.signal.sum() * sums.noise, sums.noise / points.one_less_z])
    return driven / (1 - sums.load)
