"""Many constant steps with late gradients: coefficients of generating functions that cost the same for every τ.

With `g_i = z^{τ+1} (x²/B) C_0`, C_0 of `late_responses`, N = (1 − z^τ)/(1 − z) and A = (C_0 − N)/z^τ, the generating
function of the mean path's square, the risks r_i of directions and R, their sum, have (THEORY.md T41)

    r̂_i = (s_i A + z (x²/B) C_0 [σ²/(1 − z) + N (R_0 + s_i) + z^τ R̂])/(1 − g_i),

which is one equation for R̂. A mean of n iterates has `n² Δ = Σ_i s_i (Σ_{t<n} a_t)²` and the coefficient of z^{n−1} of
`Σ_i (x²/B) W_0 [σ²/(1 − z) + N (R_0 + s_i) + z^τ (R̂ + r̂_i)]`.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.problems import Modes
from sgdtheory.risk.late_responses import Points, Products, products, summed, summed_squares
from sgdtheory.risk.line import TAIL, Transform, coefficients

NUMBERS_AT_ONCE = 30_000  # modes times points: complex, half a megabyte


class Setting(NamedTuple):
    """One run.

    Attributes:
        modes: of the problem.
        rate, batch, delay, num_steps: γ, B, τ and n.
        growth: rate a step at which moments grow; below 0, at which they decay without noise.
        settled: whether what oscillates has died out by n.
        tail: of `line.coefficients`.
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
        """Of z^number."""
        return coefficients(transform, number, growth, self.settled, self.tail)


class _Sums(NamedTuple):
    """Sums over modes at C points: of what drives R̂, of the mean path and of sums of iterates."""

    load: np.ndarray  # Σ g/(1 − g)
    noise: np.ndarray  # Σ z v C_0/(1 − g)
    signal: np.ndarray  # Σ (s A + z v C_0 N s)/(1 − g)
    kept: np.ndarray | None = None  # Σ v W_0/(1 − g)
    kept_signal: np.ndarray | None = None  # Σ v W_0 (N s + z^τ (s A + z v C_0 N s)/(1 − g))


def last_iterate(run: Setting) -> np.ndarray:
    """(2,) bias and variance (σ² = 1) of w_n."""

    def transform(p: np.ndarray) -> np.ndarray:
        return _risk(run, Points.at(p), _sums(run, p, averaged=False))

    if run.growth >= 0:
        return run.coefficients(transform, run.num_steps, run.growth)
    # what is there decays, and keeps its digits while it does; what σ² adds has its own pole at z = 1
    bias = run.coefficients(lambda p: transform(p)[0], run.num_steps, run.growth)
    return np.array([bias, run.coefficients(lambda p: transform(p)[1], run.num_steps, 0.0)])


def average(run: Setting) -> np.ndarray:
    """(2,) bias and variance (σ² = 1) of the mean of w_0 … w_{n−1}."""

    def transform(p: np.ndarray) -> np.ndarray:
        points = Points.at(p)
        sums = _sums(run, p, averaged=True)
        risk = _risk(run, points, sums)
        before = _before(run, points)
        drive = np.array([before * run.modes.signal.sum() + 0 * p, 1 / points.one_less_z])
        drive = drive + points.z**run.delay * risk
        return sums.kept * drive + np.array([sums.kept_signal, 0 * p])

    found = run.coefficients(transform, run.num_steps - 1, max(run.growth, 0.0))
    found[0] += run.modes.signal @ mean_sums(run) ** 2
    return found / run.num_steps**2


def mean_sums(run: Setting) -> np.ndarray:
    """(K,) `Σ_{t<n} a_t = ψ(n + τ) − τ` of the mean path in each mode."""
    x = run.rate * run.modes.eigenvalue[:, None]

    def transform(p: np.ndarray) -> np.ndarray:
        return summed(x, run.delay, Points.at(p))

    return run.coefficients(transform, run.num_steps + run.delay, max(run.growth, 0.0) / 2) - run.delay


def _before(run: Setting, points: Points) -> np.ndarray:
    """N = Σ_{j<τ} z^j: of the first gradients, all taken at w_0."""
    return (1 - points.z**run.delay) / points.one_less_z


def _sums(run: Setting, p: np.ndarray, *, averaged: bool) -> _Sums:
    """In portions whose temporaries stay in cache."""
    size = max(1, NUMBERS_AT_ONCE // run.modes.eigenvalue.size)
    parts = [_sums_at(run, Points.at(p[low : low + size]), averaged) for low in range(0, p.size, size)]
    joined = [None if each[0] is None else np.concatenate(each) for each in zip(*parts, strict=True)]
    return _Sums(*joined)  # pyright: ignore[reportArgumentType]


def _sums_at(run: Setting, points: Points, averaged: bool) -> _Sums:
    modes = run.modes
    z = points.z
    x = run.rate * modes.eigenvalue[:, None]
    found: Products = products(x, run.delay, points)
    noise = z * (x**2 / run.batch) * found.square
    one_less = 1 - z**run.delay * noise
    before = _before(run, points)
    path = (found.square - before) / z**run.delay + noise * before
    answer = noise / one_less
    started = path / one_less
    sums = _Sums(z**run.delay * (modes.multiplicity @ answer), modes.multiplicity @ answer, modes.signal @ started)
    if not averaged:
        return sums
    kept = x**2 / run.batch * summed_squares(x, run.delay, points, found)
    own = before + z**run.delay * started
    return sums._replace(kept=modes.multiplicity @ (kept / one_less), kept_signal=modes.signal @ (kept * own))


def _risk(run: Setting, points: Points, sums: _Sums) -> np.ndarray:
    """(2, C) R̂ of bias and of variance at σ² = 1."""
    before = _before(run, points)
    driven = np.array([sums.signal + before * run.modes.signal.sum() * sums.noise, sums.noise / points.one_less_z])
    return driven / (1 - sums.load)
