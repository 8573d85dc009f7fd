"""Exact excess risk of averaged mini-batch SGD, in closed form in the number of steps.

Write `x_i = γλ_i`, `q_i = 1 − x_i`, `v_i = x_i²/B`, `α_i = q_i² + v_i`, and split the averaged error into its
mean and the fluctuation around it. The mean is a geometric series. The fluctuation is driven by noise that is
uncorrelated in time, of variance `v_i (R(τ) + r_i(τ) + σ²)` in direction i, where `r_i` is the risk of the
iterate in direction i and `R = Σ r_i` (THEORY.md T1, T2), and it is a sum of nonnegative terms:

    n² Δ = Σ_i s_i [(1 − q_i^n)/x_i]² + (1/B) Σ_{τ<n−1} Σ_i (1 − q_i^{n−1−τ})² [R(τ) + r_i(τ) + σ²]       (E1)

For few steps (E1) is summed as it stands. For many, the fluctuation is the n-th coefficient of a rational
function of z: with `S = Σ s_i/(1 − α_i z)`, `K = Σ v_i/(1 − α_i z)`, `Q = Σ v_i (1 + q_i z)/((1 − q_i z)(1 − α_i z))`,

    variance: σ² z² Q / ((1 − z)² (1 − zK))                                                              (E2)
    bias:     z²/(1 − z) [Q S/(1 − zK) + Σ_i s_i v_i (1 + q_i z)/((1 − q_i z)(1 − q_i² z)(1 − α_i z))]   (E3)

whose poles are real: `z = e^−p` with p ≤ max(0, rate of growth), and `z = 1/q_i < 0`. A parabola in p, scaled
by 1/n, encloses the former (Weideman & Trefethen 2007, "Parabolic and hyperbolic contours for computing the
Bromwich integral"); the latter, a few, are residues in closed form. The cost is that of evaluating the sums at
some twenty complex points, whatever n is. All differences from 1 are formed from small quantities, but for 1 − zK,
which carries the sensitivity of the problem itself near the stability edge.
"""

from itertools import product
from typing import Any

import numpy as np

from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.solvers.contour import NEGLIGIBLE, PIECE, Contour, contour_modes, contour_within
from sgdtheory.risk.stability import growth_rate
from sgdtheory.risk.systems.mean_path import one_minus_power
from sgdtheory.risk.thresholds import THRESHOLDS

# Above this value of nγλ products of six such numbers leave the range of a float and are scaled.
LARGEST_PLAIN = 1e40


def risk_parts(
    problem: AbstractProblem,
    batch: np.ndarray,
    rate: np.ndarray,
    steps: np.ndarray,
    *,
    tolerance: float = 0.0,
    stable: bool = False,
) -> np.ndarray:
    """Return bias and variance (2, …) for checked arguments of one shape; B need not be whole.

    Searches allow a relative error of 1e-8 or 1e-5, `tolerance`, for contours of half or a quarter as many points.
    `stable` says that no second moment grows by more than e in n steps, and spares the search for the rate of growth.
    """
    shape = batch.shape
    batch = batch.ravel()
    rate = rate.ravel()
    steps = steps.ravel()
    parts = np.empty((2, steps.size))
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        modes = contour_modes(problem, rate, steps, tolerance)
        contour = contour_within(tolerance)
        order = np.argsort(steps * rate)  # so that each portion has no more modes than it needs
        few = steps[order] <= THRESHOLDS.few_steps
        for some in _portions(order[few], modes.eigenvalue.size):
            modes = contour_modes(problem, rate[some], steps[some], tolerance)
            parts[:, some] = _few_steps(modes, rate[some, None], batch[some, None], steps[some, None])
        for some in _portions(order[~few], modes.eigenvalue.size * contour.points.size):
            modes = contour_modes(problem, rate[some], steps[some], tolerance)
            parts[:, some] = _many_steps(modes, rate[some, None], batch[some, None], steps[some, None], contour, stable)
        parts[np.isnan(parts)] = np.inf  # 0·inf and inf − inf: beyond the range of a float
        for part, scale in zip(parts, (float(modes.signal.any()), problem.noise_variance), strict=True):
            part[:] = scale * part if scale > 0 else 0.0
    return parts.reshape(2, *shape)


def _portions(settings: np.ndarray, numbers: int) -> list[np.ndarray]:
    """Return settings, each of so many numbers, in portions that keep temporaries small."""
    width = max(1, PIECE // numbers)
    return [settings[start : start + width] for start in range(0, settings.size, width)]


def _few_steps(modes: Modes, rate: np.ndarray, batch: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (E1) term by term for P settings, (P, 1) each. Returns bias and variance at σ² = 1, (P,) each."""
    x = rate * modes.eigenvalue
    count = modes.multiplicity
    q = 1 - x
    v = x**2 / batch
    decay = q**2 + v
    scale = 1 / np.sqrt(batch) / steps
    from_signal = np.broadcast_to(modes.signal, x.shape)
    from_noise = np.zeros_like(x)
    bias = np.zeros(x.shape[0])
    variance = np.zeros(x.shape[0])
    for t in range(int(steps.max()) - 1):
        remaining = np.maximum(steps - 1 - t, 0)
        weight = (scale * one_minus_power(x, remaining)) ** 2
        risk_signal = from_signal.sum(1, keepdims=True)
        risk_noise = from_noise.sum(1, keepdims=True) + 1.0
        bias += (weight * (count * risk_signal + from_signal)).sum(1)
        variance += (weight * (count * risk_noise + from_noise)).sum(1)
        needed = remaining > 1  # a setting that has ended must not overflow
        from_signal = np.where(needed, decay * from_signal + count * v * risk_signal, 0.0)
        from_noise = np.where(needed, decay * from_noise + count * v * risk_noise, 0.0)
    return _mean_risk(modes, x, steps[:, 0]) + bias, variance


def _many_steps(
    modes: Modes, rate: np.ndarray, batch: np.ndarray, steps: np.ndarray, contour: Contour, stable: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return (E2) and (E3) by contour integration. Arguments and returns as in `_few_steps`."""
    x = rate * modes.eigenvalue
    n = steps[:, 0]
    growth = np.zeros(n.size) if stable else growth_rate(modes, x, batch)
    transforms = _transforms(modes, x, batch, steps, growth[:, None] + contour.points / steps)
    integrals = (transforms * contour.weights).sum(-1).real
    bias, variance = np.exp(n * growth + np.log(np.maximum(integrals, 0.0)))
    negative_bias, negative_variance = _negative_poles(modes, x, batch, n, growth)
    return _mean_risk(modes, x, n) + bias + negative_bias, variance + negative_variance


def _transforms(modes: Modes, x: np.ndarray, batch: np.ndarray, n: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return (E3) and (E2) at σ² = 1, divided by n³, at the points z = e^−p. x: (P, K), p: (P, C), others (P, 1).

    With `t = n(1/z − 1)`, X = nx, `V = nx²/B`, `A = X(2 − x(B+1)/B)` and `U = X(2 − x)`, so that nothing cancels,

        n(1 − qz) = z(t + X),   n(1 − αz) = z(t + A),   n(1 − q²z) = z(t + U),   1 + qz = z(2 − x + t/n).

    Returns:
        (2, P, C).
    """
    t = n * np.expm1(p)
    step = max(1, PIECE // p.size)
    portions = (slice(start, start + step) for start in range(0, modes.eigenvalue.size, step))
    signal, load, response, excess = np.sum(
        [_mode_sums(modes, x, batch, n, t, portion) for portion in portions], axis=0
    )
    total = response / (1 - load)
    factor = np.exp(p) / t
    return np.array([factor * (total * signal + excess), factor / t * total])


def _mode_sums(modes: Modes, x: np.ndarray, batch: np.ndarray, n: np.ndarray, t: Any, portion: slice) -> np.ndarray:
    """Return the sums over a portion of the modes, with multiplicities m and signal s, in the symbols of `_transforms`.

        Σ s/(t + A),   Σ mV/(t + A),   Σ mV (2 − x + t/n)/((t + A)(t + X)),
        Σ sV (2 − x + t/n)/((t + A)(t + X)(t + U)).

    In real numbers, several times as fast as complex ones: `1/(t + w) = (t̄ + w)/|t + w|²` for real w, so each is a
    polynomial in t and t̄ whose coefficients are sums of products of `1/|t + w|²` (times D = 1 + X where X is enormous).

    Returns:
        (4, P, C).
    """
    x = x[:, portion]
    m = modes.multiplicity[portion]
    s = modes.signal[portion]
    X = n * x
    A = X * (2 - x * ((batch + 1) / batch))
    U = X * (2 - x)
    D = 1 + X if X.size and X.max() > LARGEST_PLAIN else np.ones((1, 1))
    square = (D * D)[:, None]
    real = t.real[:, :, None]
    imaginary = (t.imag**2)[:, :, None]

    def inverse_square(w: np.ndarray) -> np.ndarray:
        """D²/|t + w|², (P, C, K)."""
        norm = w[:, None] + real
        norm *= norm
        norm += imaginary
        return np.divide(square, norm, out=norm)

    one = inverse_square(A)
    two = inverse_square(X)
    two *= one
    three = inverse_square(U)
    three *= two
    unit = 1 / D
    V = X * x / batch
    A = A * unit
    X = X * unit
    U = U * unit
    m = V * m * unit
    s = s * unit
    first = unit, A
    second = _times(first, unit, X)
    third = _times(second, unit, U)
    slow = 2 - x
    signal, load = _polynomials(one, first, (s, m), t)
    m = m * unit
    s = V * s * unit * unit
    fast, slow_fast = _polynomials(two, second, (m, m * slow), t)
    itself, slow_itself = _polynomials(three, third, (s, s * slow), t)
    return np.array([signal, load, slow_fast + t / n * fast, slow_itself + t / n * itself])


def _times(polynomial: tuple[np.ndarray, ...], slope: np.ndarray, constant: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the coefficients, highest first, of a polynomial times `slope · t̄ + constant`."""
    raised = [slope * c for c in polynomial]
    kept = [constant * c for c in polynomial]
    return raised[0], *(a + b for a, b in zip(raised[1:], kept[:-1], strict=True)), kept[-1]


def _polynomials(
    values: np.ndarray, coefficients: tuple[np.ndarray, ...], measures: tuple[np.ndarray, ...], t: np.ndarray
) -> list[np.ndarray]:
    """For each measure (P, K) the sum over modes of measure · values · polynomial in t̄, (P, C) each."""
    terms = np.empty((t.shape[0], len(measures) * len(coefficients), values.shape[2]))
    for k, (measure, c) in enumerate(product(measures, coefficients)):
        np.multiply(measure, c, out=terms[:, k])
    sums = (terms @ values.swapaxes(1, 2)).reshape(t.shape[0], len(measures), len(coefficients), t.shape[1])
    conjugate = t.conj()
    result = []
    for k in range(len(measures)):
        total = sums[:, k, 0]
        for j in range(1, len(coefficients)):
            total = total * conjugate + sums[:, k, j]
        result.append(total)
    return result


def _negative_poles(
    modes: Modes, x: np.ndarray, batch: np.ndarray, n: np.ndarray, growth: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the residues of (E3) and (E2), divided by n², at z = 1/q_i < 0: directions that overshoot (x_i > 1)."""
    bias = np.zeros_like(n)
    variance = np.zeros_like(n)
    overshooting = x > 1
    if not overshooting.any():
        return bias, variance
    log_q = np.log(np.where(overshooting, x - 1, 1.0))
    points, directions = np.nonzero(overshooting & (n[:, None] * (log_q - growth[:, None]) > -NEGLIGIBLE))
    step = max(1, PIECE // modes.eigenvalue.size)
    for start in range(0, points.size, step):
        point = points[start : start + step]
        i = directions[start : start + step]
        steps = n[point]
        xi = x[point, i]
        size = batch[point, 0]
        pole = 1 / (1 - xi)
        v = x[point] ** 2 / batch[point]
        response = 1 / (1 - ((1 - x[point]) ** 2 + v) * pole[:, None])
        renewal = modes.multiplicity[i] / (1 - pole * _sum(v * response, modes.multiplicity))
        residue = response[np.arange(i.size), i] * np.exp(steps * log_q[point, i] - 2 * np.log(steps))
        noise = 2 / size * np.where(steps % 2, -residue, residue)
        np.add.at(variance, point, noise * renewal)
        through = renewal * _sum(response, modes.signal) + modes.signal[i] / xi
        np.subtract.at(bias, point, noise * xi * pole * through)
    return bias, variance


def _sum(terms: np.ndarray, measure: np.ndarray) -> np.ndarray:
    """Return the sum over modes. Not `@`: on arrays of this size BLAS spends its time waking up threads."""
    return np.einsum("rk,k->r", terms, measure)


def _mean_risk(modes: Modes, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the risk of the mean of w̄, Σ_i s_i [(1 − q_i^n)/(n x_i)]², (P,), for x (P, K) and steps (P,)."""
    scaled = steps[:, None] * x
    shrink = np.where(scaled > 0, one_minus_power(x, steps[:, None]) / np.where(scaled > 0, scaled, 1.0), 1.0)
    root, sign = np.sqrt(np.abs(modes.signal)), np.sign(modes.signal)  # squared last: less overflow
    return np.where(sign != 0, sign * (root * shrink) ** 2, 0.0).sum(1)
