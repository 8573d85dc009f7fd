"""Stability of SGD with late gradients: responses to noise, growth, and when what oscillates has died out (T41).

With `C_l = Σ_j φ(j) φ(j − l) z^j`, φ the mean's answer to a unit of noise, noise answers noise through
`G = z x² C_0 Σ_j p_j z^j`, and delays that vary add noise of their own, G − H, with
`H = z x² Σ_jk p_j p_k z^{min(j,k)} C_{|j−k|}`.
The coupled map has the eigenvalue 1/z where `Σ_i (G_i/B)/(1 − (1 + 1/B) G_i + H_i) = 1`. For a fixed delay G = H.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq

from sgdtheory.algorithms import LinearMethod
from sgdtheory.problems import Modes
from sgdtheory.risk.contour import NEGLIGIBLE
from sgdtheory.risk.late_responses import Points, largest_stable, products, steady_response

MARGIN = 1.5  # times as long as the mean path's oscillations last: noise may keep them longer
NEARLY = 0.01  # of what a search allows
NEAREST = 1e-14  # to the end of the range: where a rate of growth is looked for
NUMBERS_AT_ONCE = 2_000_000  # in the systems of a random delay


def gains(x: np.ndarray, method: LinearMethod) -> tuple[np.ndarray, np.ndarray]:
    """(T, K) `G/(1 − G + H)` of steady noise, in the place of G in Σ G/(B − G) < 1, and (T,) if the mean is stable."""
    if not method.random:
        steady = np.asarray(x.max(1) < largest_stable(method.longest_delay))
        with np.errstate(all="ignore"):
            return steady_response(x, method.longest_delay), steady
    answer, mixed = _responses(x, method.delays, 1.0)
    steady = np.asarray((_means_stable(x, method.delays) & (1 - answer + mixed > 0)).all(1))
    return answer / (1 - answer + mixed), steady


def _responses(x: np.ndarray, law: Sequence[float], z: float) -> tuple[np.ndarray, np.ndarray]:
    """G and H of (T, K) x at a real z, from the k equations of the lagged products."""
    p = np.array(law)
    k = p.size
    shape = x.shape
    x = x.ravel()
    lags = np.arange(k)
    flat = np.zeros((3, k, k))  # coefficients of 1, x and x² in the equations
    flat[0] = np.eye(k)
    flat[0, lags[1:], lags[:-1]] = -z
    flat[0, 0, 0] -= z
    for j, share in enumerate(law):
        flat[1, 0, j] += 2 * z * share
        for lag in range(1, k):
            flat[1, lag, abs(lag - 1 - j)] += share * z ** (1 + min(j, lag - 1))
    products = np.multiply.outer(p, p) * z ** np.minimum.outer(lags, lags)
    mixed = np.bincount(np.abs(np.subtract.outer(lags, lags)).ravel(), products.ravel(), minlength=k)
    flat[2, 0] = -z * mixed
    found = np.empty((x.size, k))
    right = np.eye(k)[0]
    size = max(1, NUMBERS_AT_ONCE // k**2)
    for low in range(0, x.size, size):
        here = x[low : low + size, None, None]
        system = flat[0] + here * flat[1] + here**2 * flat[2]
        found[low : low + size] = np.linalg.solve(system, np.broadcast_to(right[:, None], (here.size, k, 1)))[..., 0]
    scale = z * x**2
    answer = scale * found[:, 0] * (p @ z**lags)
    return answer.reshape(shape), (scale * (found @ mixed)).reshape(shape)


def _means_stable(x: np.ndarray, law: Sequence[float]) -> np.ndarray:
    """(T, K) whether all roots of `μ^{τ+1} − μ^τ + x Σ p_j μ^{τ−j}` are within the circle (Schur, Cohn)."""
    k = len(law)
    polynomial = np.zeros((k + 1, *x.shape))
    polynomial[0] = 1.0
    polynomial[1] = -1.0
    polynomial[1:] += np.multiply.outer(np.array(law), x)
    stable = np.ones(x.shape, dtype=bool)
    with np.errstate(all="ignore"):
        while len(polynomial) > 1:
            last = polynomial[-1]
            stable &= np.abs(last) < 1
            polynomial = (polynomial[:-1] - last * polynomial[:0:-1]) / (1 - last**2)
    return stable


def growth(modes: Modes, method: LinearMethod, rate: float, batch: float) -> float:
    """Rate a step at which second moments grow with a constant γ; below 0, at which they decay without noise."""
    x = rate * modes.eigenvalue
    floor = max(_fall(float(x.max()), method.delays), _fall(float(x.min()), method.delays))

    def excess(position: float) -> float:
        load = _load(modes, x[None], method, batch, floor + math.exp(position))
        return min(load, 1e6) - 1

    low = math.log(NEAREST)
    if excess(low) <= 0:
        return floor
    high = low + 1.0
    while excess(high) > 0:
        high += 1.0
    return floor + math.exp(brentq(excess, high - 1.0, high, xtol=1e-13))  # pyright: ignore[reportArgumentType]


def _fall(x: float, law: Sequence[float]) -> float:
    """2 log of the largest |μ| of the mean."""
    return 2 * math.log(max(float(np.abs(_roots(x, law)).max()), 1e-300))


def _roots(x: float, law: Sequence[float]) -> Any:
    shares = np.array(law)
    return np.roots(np.concatenate([[1.0, -1.0 + x * shares[0]], x * shares[1:]]))


def _load(modes: Modes, x: np.ndarray, method: LinearMethod, batch: float, p: float) -> float:
    """Σ_i (G/B)/(1 − (1 + 1/B) G + H) at z = e^−p; inf where a direction alone grows faster."""
    z = math.exp(-p)
    if method.random:
        answer, mixed = _responses(x, method.delays, z)
    else:
        points = Points.at(np.array([p]))
        square = products(x.T, method.longest_delay, points).square.real.T
        answer = mixed = z ** (method.longest_delay + 1) * x**2 * square
    left = 1 - (1 + 1 / batch) * answer + mixed
    if not ((left > 0) & (answer >= 0)).all():
        return math.inf
    return float(((answer / batch / left) @ modes.multiplicity)[0])


def settling(x: float, delay: int, averaged: bool, tolerance: float = 0.0) -> float:
    """Steps after which what oscillates has died out, of directions up to x, for a fixed delay; or nearly so."""
    critical = delay**delay / (delay + 1) ** (delay + 1) if delay else math.inf
    law = (*[0.0] * delay, 1.0)
    others = _oscillating(min(x, 0.999 * critical), law)  # beside what is learnt, which hardly decays
    own = _oscillating(x, law) * (1 if averaged else 2) if x > critical else -math.inf
    slowest = max(others, own)
    gone = min(NEGLIGIBLE, -math.log(NEARLY * tolerance)) if tolerance > 0 else NEGLIGIBLE
    return math.inf if slowest >= 0 else MARGIN * gone / -slowest


def _oscillating(x: float, law: Sequence[float]) -> float:
    """log of the largest |μ| of those that are not real and positive."""
    roots = _roots(x, law)
    real = (np.abs(roots.imag) < 1e-9 * np.abs(roots)) & (roots.real > 0)
    return math.log(max(float(np.abs(roots[~real]).max(initial=0.0)), 1e-300))
