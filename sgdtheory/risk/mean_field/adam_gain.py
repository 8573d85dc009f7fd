"""Effect of the fluctuations of v on Adam's steps: universal functions of β₁, β₂ and B (THEORY.md T38).

v is a mean of squares of the same gradients that m is a mean of. Take gradients `G_k = χ_k² u/B + χ_k √T' z_k/B`,
k = 0, 1, … steps ago, of one direction whose u and T' stay what they are, in units in which E G² = 1. With
m = Σ p_k G_k and v = Σ q_k G_k² and `v^{−½} = π^{−½} ∫ s^{−½} e^{−sv} ds` all means are integrals of products over k:

    gain  E[m v^{−½}]/u = π^{−½} ∫ s^{−½} Π_k φ(q_k s) Σ_k p_k h(q_k s) ds,
    φ(s) = E e^{−sG²},    h(s) = E[G e^{−sG²}]/(u φ(s)).

The gain would be 1 if v did not fluctuate. It depends on the number of steps seen, on 1/B, and on y = Bu²/(T' + Bu²).
`noise` is the scatter of steps in the long run, `Σ_h Cov(m_t v_t^{−½}, m_{t+h} v_{t+h}^{−½})` over that of m, at u = 0.
The scatter differs among the first steps. A share (1 − β₁)/(1 + β₁) of the pairs of steps with a common gradient pairs
a step with itself. It differs by the factor `E[G²/v]`, 1 at the first step; with β₁ = 0 this is all, and exact. The
other pairs differ roughly by the square of the gain 1/(1 − β₁) steps later.

With ε, in the same units, `(1 + ε)/(√v + ε)` stands in the place of v^{−½}, and its own weights in that of (πs)^{−½}:

    1/(√v + ε) = ∫ ω(s) e^{−sv} ds,    ω(s) = (πs)^{−½} − ε e^{ε²s} erfc(ε√s);
    1/(√v + ε)² = ∫ ((1 + 2ε²s) e^{ε²s} erfc(ε√s) − 2ε √(s/π)) e^{−sv} ds.

Gain and noise then depend on `share = 1/(1 + ε)` too, smoothly, and are 1 at 0, where steps are m/ε.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special
from scipy.interpolate import CubicSpline, PchipInterpolator

from sgdtheory.risk.mean_field.chi import NODES_BY_BATCH, ChiRule, chi_rule

# Gains are polynomials of this order in 1/B. Against orders 11 and 15 here and below they are right to 3e-4, and to
# 6e-3 at the first step (tests/risk/test_adam_gain.py).
BATCH_ORDER = 7
# Gains are polynomials of this order in the angle whose sine is √y; the errors are those of `BATCH_ORDER`.
SIGNAL_ORDER = 9
# With ε gains are also polynomials of this order in the share of v beside ε. With 4 risks change by 2e-3, with 9 by
# 3e-4.
SHARE_ORDER = 6
# Means over χ take as many nodes at every B as other means take at B = 1, since s weighs small and large χ differently.
# Half as many change risks by 5e-5, twice as many by 1e-5.
CHI_NODES = max(NODES_BY_BATCH.values())
# Integrals over s are trapezoidal sums over log s in this range, which is also that of the tables. From −25 to 16 they
# change risks by 2e-4, from −36 to 20 by 2e-5.
LOG_S_RANGE = -30.0, 18.0
# Values of log s are this far apart; twice as much changes risks by 1e-6. Integrals over a pair s, s' have twice this
# spacing, since they take time like its square; there too twice as much changes risks by 3e-6.
LOG_S_SPACING = 0.15
# Integrals of a covariance take log s and log s' in this range. From −18 to 10 risks change by 2e-4, from −26 to 14 by
# 3e-5.
LOG_S_RANGE_OF_PAIRS = -22.0, 12.0
# Windows up to this many steps are tabulated one by one, longer ones at four lengths a doubling. Half as many change
# risks by 8e-4, twice as many by 2e-4.
STEPS_ONE_BY_ONE = 8
# Powers of β₁ and β₂ below this are neglected: longer windows of v count as infinite, and longer lags as uncorrelated.
# With 1e-12 risks change by 1e-8, with 1e-4 by 9e-5.
NEGLIGIBLE_WEIGHT = 1e-9
# Covariances are computed at this many lags and interpolated. Half as many change risks by 4e-8.
LAGS = 14


class Window(NamedTuple):
    """Sums over the steps of a window, (S, I, J) at log s, 1/B and y.

    Attributes:
        decay: −Σ log φ(β₂^k s)/s.
        share: Σ β^k h(β₂^k s).
    """

    decay: np.ndarray
    share: np.ndarray


class Gains(NamedTuple):
    """Tables of the gain and the noise of Adam(β₁, β₂).

    Attributes:
        memory: 1/(1 − β₁).
        log_windows: (R,) log of numbers of steps seen.
        shares: (L, L) Chebyshev coefficients of polynomials in 2 share − 1, from their values at L shares.
        gain: (R, L, I, J) at these, coefficients of polynomials in 2/B − 1 and (4/π) arcsin √y − 1.
        noise: (L, I) likewise, after many steps.
        square: (R, L, I) likewise, E[G²/v] at the windows.
    """

    memory: float
    log_windows: np.ndarray
    shares: np.ndarray
    gain: np.ndarray
    noise: np.ndarray
    square: np.ndarray

    def looked_up(self, seen: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return polynomials of the gain, (P, L, J), and of the noise, (P, L), after `seen` steps (P,) at B (P,)."""
        powers = chebyshev.chebvander(2 / np.maximum(batch, 1.0) - 1, BATCH_ORDER - 1)
        always = np.full(1, np.inf)
        gain, gain_later, gain_always = (
            np.einsum("pi,plij->plj", powers, self._at(self.gain, np.log(steps)))
            for steps in (seen, seen + self.memory, always)
        )
        square, square_always = (
            np.einsum("pi,pli->pl", powers, self._at(self.square, np.log(steps))) for steps in (seen, always)
        )
        # Noise is wanted at y = 0, where the angle is at its lower end: Chebyshev polynomials are ±1 there.
        at_rest = (-1.0) ** np.arange(SIGNAL_ORDER)
        same = 1 / (2 * self.memory - 1)  # (1 − β₁)/(1 + β₁), of the pairs of steps that share a gradient
        early = same * square / square_always
        early = early + (1 - same) * ((gain_later @ at_rest) / (gain_always @ at_rest)) ** 2
        noise = early * (powers @ self.noise.T)
        return self.shares @ gain, noise @ self.shares.T

    def _at(self, table: np.ndarray, log_steps: np.ndarray) -> np.ndarray:
        """Return a table (R, …), interpolated linearly in the log of the number of steps, (P, …)."""
        index = np.interp(log_steps, self.log_windows, np.arange(self.log_windows.size))
        low = index.astype(int)
        high = np.minimum(low + 1, self.log_windows.size - 1)
        part = (index - low).reshape(-1, *[1] * (table.ndim - 1))
        return (1 - part) * table[low] + part * table[high]


def gain_at(polynomials: np.ndarray, signal: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """Return gains (P, K) from the polynomials that `Gains.looked_up` returns, at y and shares (P, K)."""
    xp = signal.__array_namespace__()
    angle = 4 / np.pi * xp.arcsin(xp.sqrt(signal)) - 1
    at_shares = polynomials[:, :1] if share is None else _powers(polynomials, share) @ polynomials
    later = last = 0.0
    for order in range(at_shares.shape[-1] - 1, 0, -1):  # Clenshaw's recursion
        later, last = at_shares[..., order] + 2 * angle * later - last, later
    return at_shares[..., 0] + angle * later - last


def noise_at(polynomials: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """Return the noise (P, K) from the polynomials that `Gains.looked_up` returns, at shares (P, K)."""
    if share is None:
        return polynomials
    return (_powers(polynomials, share) @ polynomials[..., None])[..., 0]


def _powers(polynomials: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return Chebyshev polynomials (P, K, L) at shares (P, K)."""
    x = 2 * share - 1
    powers = [share.__array_namespace__().ones_like(x), x]
    while len(powers) < polynomials.shape[1]:
        powers.append(2 * x * powers[-1] - powers[-2])
    return share.__array_namespace__().stack(powers[: polynomials.shape[1]], axis=-1)


def _lobatto(order: int) -> np.ndarray:
    """Return Chebyshev–Lobatto points of [0, 1], ends included."""
    return (1 - np.cos(np.pi * np.arange(order) / (order - 1))) / 2


def _coefficients_from(points: np.ndarray) -> np.ndarray:
    """Return the matrix that turns values at points of [0, 1] into Chebyshev coefficients."""
    return np.linalg.inv(chebyshev.chebvander(2 * points - 1, points.size - 1))


@lru_cache(maxsize=32)
def adam_gains(beta1: float, beta2: float, softened: bool = False) -> Gains:
    """Return the tables by quadrature, for β₁² < β₂ < 1; without ε, or `softened` by any ε."""
    log_s = np.arange(*LOG_S_RANGE, LOG_S_SPACING)
    single = _single(log_s)
    nodes = _lobatto(SHARE_ORDER)[1:] if softened else np.ones(1)
    seen, windows = zip(*_windows(single, log_s, beta1, beta2), strict=True)
    gain = [_gain(window, log_s, beta1, beta2, number, nodes) for number, window in zip(seen, windows, strict=True)]
    square = [
        _square(window, single, log_s, beta2, number, nodes) for number, window in zip(seen, windows, strict=True)
    ]
    *_, (_, pairs) = _windows(single, log_s, beta1**2, beta2)
    noise = np.array([_noise(pairs, log_s, beta1, beta2, index, nodes) for index in range(BATCH_ORDER)])
    if softened:
        # Steps are m/ε where the share of v is 0: gain and noise are 1 there without an integral.
        nodes = np.append(nodes, 0.0)
        gain = [np.concatenate([values, np.ones_like(values[:1])]) for values in gain]
        noise = np.append(noise, np.ones((BATCH_ORDER, 1)), axis=1)
        square = [np.concatenate([values, np.ones_like(values[:1])]) for values in square]
    by_batch = _coefficients_from(_lobatto(BATCH_ORDER))
    by_signal = _coefficients_from(_lobatto(SIGNAL_ORDER))
    gains = np.einsum("ia,rlab,jb->rlij", by_batch, np.array(gain), by_signal)
    squares = np.array(square) @ by_batch.T
    return Gains(1 / (1 - beta1), np.log(seen), _coefficients_from(nodes), gains, (by_batch @ noise).T, squares)


def _weights_of_step(s: np.ndarray, share: float) -> np.ndarray:
    """Return s ω(s), times 1 + ε: the integral of (1 + ε)/(√v + ε) over log s."""
    epsilon = 1 / share - 1
    return (np.sqrt(s / np.pi) - epsilon * s * special.erfcx(epsilon * np.sqrt(s))) / share


def _weights_of_square(s: np.ndarray, share: float) -> np.ndarray:
    """Return the weights in the integral of ((1 + ε)/(√v + ε))² over log s."""
    scaled = (1 / share - 1) * np.sqrt(s)
    return s * ((1 + 2 * scaled**2) * special.erfcx(scaled) - 2 / np.sqrt(np.pi) * scaled) / share**2


def _single(log_s: np.ndarray) -> Window:
    """Return the window of one gradient, whose law given χ is Gaussian."""
    signal = np.sin(np.pi / 2 * _lobatto(SIGNAL_ORDER))[:, None] ** 2
    s = np.exp(log_s)[:, None, None]
    windows = []
    for inverse in _lobatto(BATCH_ORDER).tolist():
        # At B → ∞ χ²/B is 1.
        rule = chi_rule(1 / inverse, CHI_NODES) if inverse else ChiRule(np.ones(1), np.ones(1))
        squares = rule.node**2 * (inverse or 1.0)  # χ²/B
        own = signal / ((1 + 2 * inverse) * signal + 1 - signal)  # u², where E G² = 1
        width = 1 + 2 * s * squares * (1 - (1 + 2 * inverse) * own)
        exponent = -s * squares**2 * own / width
        # All exponentials underflow at large s: the largest is taken out before the logarithm.
        shift = exponent.max(axis=-1, keepdims=True)
        weights = rule.weight * np.exp(exponent - shift) / np.sqrt(width)
        total = weights.sum(axis=-1)
        decay = -(np.log(total) + shift[..., 0]) / s[..., 0]
        windows.append((decay, (weights * squares / width).sum(axis=-1) / total))
    return Window(*np.array(windows).transpose(1, 2, 0, 3))


def _windows(single: Window, log_s: np.ndarray, share: float, beta2: float) -> Iterator[tuple[int, Window]]:
    """Yield numbers of steps and their windows, up to where v has forgotten what was before.

    The first windows have 1, 2, … steps; from there on there are four for each doubling.
    """
    longest = np.log(NEGLIGIBLE_WEIGHT) / np.log(beta2) if beta2 else 1.0
    windows = [(1, single)]
    yield windows[0]
    while windows[-1][0] < longest:
        if windows[-1][0] < STEPS_ONE_BY_ONE:
            steps, window = windows[-1]
            windows.append((1 + steps, _joined(single, 1, window, log_s, share, beta2)))
        else:
            steps, window = windows[-4]
            windows.append((2 * steps, _joined(window, steps, window, log_s, share, beta2)))
        yield windows[-1]


def _joined(newer: Window, steps: int, older: Window, log_s: np.ndarray, share: float, beta2: float) -> Window:
    """Return the window of the newer steps, this many, and the older window's steps before them."""
    decay, gain = _at_log_s(older, log_s, log_s + steps * np.log(beta2))
    return Window(newer.decay + beta2**steps * decay, newer.share + share**steps * gain)


def _at_log_s(window: tuple[np.ndarray, ...], log_s: np.ndarray, points: np.ndarray) -> list[np.ndarray]:
    """Return a window's sums at other log s; below the table they are constant, as at s = 0."""
    return [CubicSpline(log_s, values)(np.maximum(points, log_s[0])) for values in window]


def _gain(window: Window, log_s: np.ndarray, beta1: float, beta2: float, seen: int, shares: np.ndarray) -> np.ndarray:
    """Return the gain (L, I, J), with m and v as means over the steps seen, as Adam has them."""
    unit = _weight_sum(beta2, seen)
    decay, share = _at_log_s(window, log_s, log_s - np.log(unit))
    s = np.exp(log_s)
    weights = LOG_S_SPACING * np.array([_weights_of_step(s, node) for node in shares])
    integral = np.tensordot(weights, np.exp(-s[:, None, None] / unit * decay) * share, axes=1)
    return integral * (1 - beta1) / (1 - beta1**seen)


def _square(
    window: Window, single: Window, log_s: np.ndarray, beta2: float, seen: int, shares: np.ndarray
) -> np.ndarray:
    """Return E[G²/v] of the newest gradient at u = 0, (L, I), with v as the mean over the steps seen.

    Beside ε the square of (1 + ε)/(√v + ε) stands in the place of 1/v.
    """
    unit = _weight_sum(beta2, seen)
    at_rest = window.decay[..., 0], single.share[..., 0]
    decay, newest = _at_log_s(at_rest, log_s, log_s - np.log(unit))
    s = np.exp(log_s)
    weights = LOG_S_SPACING * np.array([_weights_of_square(s, node) for node in shares])
    return weights @ (np.exp(-s[:, None] / unit * decay) * newest)


def _weight_sum(beta2: float, seen: int) -> float:
    """Return the sum of the weights of v over the steps seen, in which the newest weight is 1."""
    return -np.expm1(seen * np.log(beta2)) / (1 - beta2) if beta2 else 1.0


def _noise(
    window: Window, log_s: np.ndarray, beta1: float, beta2: float, batch_index: int, shares: np.ndarray
) -> np.ndarray:
    """Return the noise (L,) at one B, from all steps before: `Σ_h Cov_h` over that of m alone, which is 1.

    v_t and v_{t+h} share the steps before t, whose φ is at `s + β₂^h s'`.
    """
    decay, share = (CubicSpline(log_s, values[:, batch_index, 0]) for values in window)

    def log_phi(points: np.ndarray) -> np.ndarray:
        return -np.exp(points) * decay(np.maximum(points, log_s[0]))

    def gradient(points: np.ndarray) -> np.ndarray:
        return share(np.maximum(points, log_s[0]))

    spacing = 2 * LOG_S_SPACING
    points = np.arange(*LOG_S_RANGE_OF_PAIRS, spacing)
    s = np.exp(points)
    by_step = spacing * np.array([_weights_of_step(s, node) for node in shares])
    by_square = spacing * np.array([_weights_of_square(s, node) for node in shares])
    now = points + np.log(1 - beta2)  # the weights of v sum to 1
    own = by_square @ (np.exp(log_phi(now)) * gradient(now))
    longest = np.ceil(np.log(NEGLIGIBLE_WEIGHT) / np.log(beta1)) if beta1 else 1.0
    lags = np.unique(np.round(np.geomspace(1, longest, LAGS)))
    covariances = []
    for lag in lags:
        later = now + lag * np.log(beta2)
        both = np.logaddexp(now[:, None], later)
        newer = log_phi(now) - log_phi(later)
        common = np.exp(newer + log_phi(both)) * gradient(both)
        covariances.append(np.einsum("ls,st,lt->l", by_step, common, by_step, optimize=True))
    every = np.arange(1, longest + 1)
    interpolated = (
        PchipInterpolator(np.log(lags), covariances)(np.log(every)) if lags.size > 1 else np.array(covariances)
    )
    return (1 - beta1) ** 2 * (own + 2 * beta1**every @ interpolated)
