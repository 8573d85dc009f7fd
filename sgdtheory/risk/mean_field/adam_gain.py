"""By how much v's fluctuations change what Adam's steps do: universal functions of β₁, β₂ and B (THEORY.md T38).

v is a mean of squares of the same gradients that m is a mean of. Take gradients `G_k = χ_k² u/B + χ_k √T' z_k/B`,
k = 0, 1, … steps ago, of one direction whose u and T' stay what they are, in units in which E G² = 1. With
m = Σ p_k G_k and v = Σ q_k G_k² and `v^{−½} = π^{−½} ∫ s^{−½} e^{−sv} ds` all means are integrals of products over k:

    gain  E[m v^{−½}]/u = π^{−½} ∫ s^{−½} Π_k φ(q_k s) Σ_k p_k h(q_k s) ds,
    φ(s) = E e^{−sG²},    h(s) = E[G e^{−sG²}]/(u φ(s)).

It would be 1 if v did not fluctuate. It depends on the number of steps seen, on 1/B, and on y = Bu²/(T' + Bu²). What
steps scatter in the long run, `Σ_h Cov(m_t v_t^{−½}, m_{t+h} v_{t+h}^{−½})`, over that of m is `noise`, at u = 0. Among
the first steps it differs. Where both of the steps that share a gradient are the same one, a share (1 − β₁)/(1 + β₁)
of all pairs, that is by `E[G²/v]`, which is 1 at the first step; with β₁ = 0 this is all, exactly. Between other steps
it is roughly by the square of the gain 1/(1 − β₁) steps later.

With ε, in the same units, `(1 + ε)/(√v + ε)` stands in the place of v^{−½}, and its own weights in that of (πs)^{−½}:

    1/(√v + ε) = ∫ ω(s) e^{−sv} ds,    ω(s) = (πs)^{−½} − ε e^{ε²s} erfc(ε√s);
    1/(√v + ε)² = ∫ ((1 + 2ε²s) e^{ε²s} erfc(ε√s) − 2ε √(s/π)) e^{−sv} ds.

Both then depend on `share = 1/(1 + ε)` too, smoothly, and are 1 at 0, where steps are m/ε.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special
from scipy.interpolate import CubicSpline, PchipInterpolator

from sgdtheory.risk.mean_field.chi import chi_rule

BATCH_ORDER = 7  # of polynomials in 1/B
SIGNAL_ORDER = 9  # and in the angle whose sine is √y; with both, gains are right to 3e-4 (to 6e-3 at the first step)
ORDERS = BATCH_ORDER, SIGNAL_ORDER
SHARE_ORDER = 6  # in the share of v beside ε
NODES = 14  # of the mean over χ
DEEPEST = -30.0, 18.0  # log s of the integrals, and of what is tabled
APART = 0.15
DIRECT = 8  # windows up to that many steps are made step by step, longer ones by doubling
FORGOTTEN = 1e-9  # of the weights of v: longer windows are as good as infinite
PAIRS = -22.0, 12.0  # log s of both integrals of a covariance,
PAIRS_APART = 0.3
LAGS = 14  # at which covariances are computed
CORRELATED = 1e-8  # of β₁^h: longer lags do not count
ENDLESS = 1e9  # B that stands for B → ∞


class Window(NamedTuple):
    """Sums over the steps seen, (S, I, J) at log s, 1/B and y: −Σ log φ(β₂^k s)/s and Σ β^k h(β₂^k s)."""

    decay: np.ndarray
    share: np.ndarray


class Gains(NamedTuple):
    """Of Adam(β₁, β₂).

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
        """Polynomials of the gain, (P, L, J), and of the noise, (P, L), after `seen` steps (P,) at B (P,)."""
        powers = chebyshev.chebvander(2 / np.maximum(batch, 1.0) - 1, BATCH_ORDER - 1)
        gain, after, always = (
            np.einsum("pi,plij->plj", powers, self._at(self.gain, np.log(place)))
            for place in (seen, seen + self.memory, np.full(1, ENDLESS))
        )
        own, own_always = (
            np.einsum("pi,pli->pl", powers, self._at(self.square, np.log(place)))
            for place in (seen, np.full(1, ENDLESS))
        )
        at_rest = (-1.0) ** np.arange(SIGNAL_ORDER)  # y = 0
        same = 1 / (2 * self.memory - 1)  # (1 − β₁)/(1 + β₁), of the pairs of steps that share a gradient
        early = same * own / own_always + (1 - same) * ((after @ at_rest) / (always @ at_rest)) ** 2
        noise = early * (powers @ self.noise.T)
        return self.shares @ gain, noise @ self.shares.T

    def _at(self, table: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return a table (R, …) between the windows, (P, …)."""
        where = np.interp(place, self.log_windows, np.arange(self.log_windows.size))
        low = where.astype(int)
        high = np.minimum(low + 1, self.log_windows.size - 1)
        part = (where - low).reshape(-1, *[1] * (table.ndim - 1))
        return (1 - part) * table[low] + part * table[high]


def gain_at(polynomials: np.ndarray, signal: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """(P, K) gains, from what was looked up, y and shares (P, K)."""
    angle = 4 / np.pi * np.arcsin(np.sqrt(signal)) - 1
    at_shares = polynomials[:, :1] if share is None else _powers(polynomials, share) @ polynomials
    return chebyshev.chebval(angle, np.moveaxis(at_shares, -1, 0), tensor=False)


def noise_at(polynomials: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """(P, K) noise, likewise."""
    if share is None:
        return polynomials
    return (_powers(polynomials, share) @ polynomials[..., None])[..., 0]


def _powers(polynomials: np.ndarray, share: np.ndarray) -> np.ndarray:
    """(P, K, L) of shares."""
    return chebyshev.chebvander(2 * share - 1, polynomials.shape[1] - 1)


def _lobatto(order: int) -> np.ndarray:
    """Points of [0, 1], ends included."""
    return (1 - np.cos(np.pi * np.arange(order) / (order - 1))) / 2


@lru_cache(maxsize=32)
def adam_gains(beta1: float, beta2: float, softened: bool = False) -> Gains:
    """By quadrature, for β₁² < β₂ < 1; without ε, or `softened` by any."""
    log_s = np.arange(*DEEPEST, APART)
    single = _single(log_s)
    nodes = _lobatto(SHARE_ORDER)[1:] if softened else np.ones(1)
    seen, windows = zip(*_windows(single, log_s, beta1, beta2), strict=True)
    gain = [_gain(window, log_s, beta1, beta2, number, nodes) for number, window in zip(seen, windows, strict=True)]
    square = [
        _square(window, single, log_s, beta2, number, nodes) for number, window in zip(seen, windows, strict=True)
    ]
    _, pairs = list(_windows(single, log_s, beta1**2, beta2))[-1]
    noise = np.array([_noise(pairs, log_s, beta1, beta2, place, nodes) for place in range(BATCH_ORDER)])
    batches, signals = (np.linalg.inv(chebyshev.chebvander(2 * _lobatto(n) - 1, n - 1)) for n in ORDERS)
    if softened:  # and both are 1 where the share is 0
        nodes = np.append(nodes, 0.0)
        gain = [np.concatenate([each, np.ones_like(each[:1])]) for each in gain]
        noise = np.append(noise, np.ones((BATCH_ORDER, 1)), axis=1)
        square = [np.concatenate([each, np.ones_like(each[:1])]) for each in square]
    shares = np.linalg.inv(chebyshev.chebvander(2 * nodes - 1, nodes.size - 1))
    gains = np.einsum("ia,rlab,jb->rlij", batches, np.array(gain), signals)
    squares = np.array(square) @ batches.T
    return Gains(1 / (1 - beta1), np.log(seen), shares, gains, (batches @ noise).T, squares)


def _once(s: np.ndarray, share: float) -> np.ndarray:
    """s times the weights of (1 + ε)/(√v + ε)."""
    epsilon = 1 / share - 1
    return (np.sqrt(s / np.pi) - epsilon * s * special.erfcx(epsilon * np.sqrt(s))) / share


def _twice(s: np.ndarray, share: float) -> np.ndarray:
    """s times those of its square."""
    place = (1 / share - 1) * np.sqrt(s)
    return s * ((1 + 2 * place**2) * special.erfcx(place) - 2 / np.sqrt(np.pi) * place) / share**2


def _single(log_s: np.ndarray) -> Window:
    """One gradient: its law given χ is Gaussian."""
    signal = np.sin(np.pi / 2 * _lobatto(SIGNAL_ORDER))[:, None] ** 2
    found = []
    for inverse in _lobatto(BATCH_ORDER).tolist():
        rule = chi_rule(1 / inverse if inverse else ENDLESS, NODES)
        squares = rule.node**2 * (inverse or 1 / ENDLESS)  # χ²/B
        own = signal / ((1 + 2 * inverse) * signal + 1 - signal)  # u², where E G² = 1
        s = np.exp(log_s)[:, None, None]
        width = 1 + 2 * s * squares * (1 - (1 + 2 * inverse) * own)
        exponent = -s * squares**2 * own / width
        shift = exponent.max(axis=-1, keepdims=True)
        weights = rule.weight * np.exp(exponent - shift) / np.sqrt(width)
        total = weights.sum(axis=-1)
        decay = -(np.log(total) + shift[..., 0]) / s[..., 0]
        found.append((decay, (weights * squares / width).sum(axis=-1) / total))
    return Window(*np.array(found).transpose(1, 2, 0, 3))


def _windows(single: Window, log_s: np.ndarray, share: float, beta2: float) -> Iterator[tuple[int, Window]]:
    """Of 1 … 8 steps, and from there on four for each doubling, up to where v has forgotten what was before."""
    longest = np.log(FORGOTTEN) / np.log(beta2) if beta2 else 1.0
    last = [(1, single)]
    yield last[0]
    while last[-1][0] < longest:
        if last[-1][0] < DIRECT:
            seen, window = last[-1]
            last.append((1 + seen, _joined(single, 1, window, log_s, share, beta2)))
        else:
            seen, window = last[-4]
            last.append((2 * seen, _joined(window, seen, window, log_s, share, beta2)))
        yield last[-1]


def _joined(newer: Window, steps: int, older: Window, log_s: np.ndarray, share: float, beta2: float) -> Window:
    """Of the newer steps, and before them those of the older window."""
    places = np.maximum(log_s + steps * np.log(beta2), log_s[0])
    decay, gain = (CubicSpline(log_s, each)(places) for each in older)
    return Window(newer.decay + beta2**steps * decay, newer.share + share**steps * gain)


def _gain(window: Window, log_s: np.ndarray, beta1: float, beta2: float, seen: int, shares: np.ndarray) -> np.ndarray:
    """(L, I, J): with m and v means over the steps seen, as Adam has them."""
    unit = _weights(beta2, seen)
    places = np.maximum(log_s - np.log(unit), log_s[0])
    decay, share = (CubicSpline(log_s, each)(places) for each in window)
    s = np.exp(log_s)
    weights = APART * np.array([_once(s, each) for each in shares])
    integral = np.tensordot(weights, np.exp(-s[:, None, None] / unit * decay) * share, axes=1)
    return integral * (1 - beta1) / (1 - beta1**seen)


def _square(
    window: Window, single: Window, log_s: np.ndarray, beta2: float, seen: int, shares: np.ndarray
) -> np.ndarray:
    """(L, I): E[G²/v] of the newest gradient, or its like beside ε, at u = 0; v the mean over the steps seen."""
    unit = _weights(beta2, seen)
    places = np.maximum(log_s - np.log(unit), log_s[0])
    decay = CubicSpline(log_s, window.decay[..., 0])(places)
    newest = CubicSpline(log_s, single.share[..., 0])(places)
    s = np.exp(log_s)
    weights = APART * np.array([_twice(s, each) for each in shares])
    return weights @ (np.exp(-s[:, None] / unit * decay) * newest)


def _weights(beta2: float, seen: int) -> float:
    """Σ of the weights of v over the steps seen, the newest 1."""
    return -np.expm1(seen * np.log(beta2)) / (1 - beta2) if beta2 else 1.0


def _noise(window: Window, log_s: np.ndarray, beta1: float, beta2: float, place: int, shares: np.ndarray) -> np.ndarray:
    """(L,) at one B, from all steps before: `Σ_h Cov_h` over that of m alone, which is 1.

    v_t and v_{t+h} share the steps before t, whose φ is at `s + β₂^h s'`.
    """
    decay, share = (CubicSpline(log_s, each[:, place, 0]) for each in window)
    single = np.arange(*PAIRS, PAIRS_APART)

    def log_all(places: np.ndarray) -> np.ndarray:
        return -np.exp(places) * decay(np.maximum(places, log_s[0]))

    def inside(places: np.ndarray) -> np.ndarray:
        return share(np.maximum(places, log_s[0]))

    places = single + np.log(1 - beta2)
    most = np.ceil(np.log(CORRELATED) / np.log(beta1)) if beta1 else 1.0
    lags = np.unique(np.round(np.geomspace(1, max(most, 1), LAGS)))
    once, twice = (PAIRS_APART * np.array([of(np.exp(single), each) for each in shares]) for of in (_once, _twice))
    own = twice @ (np.exp(log_all(places)) * inside(places))
    found = []
    for lag in lags:
        later = places + lag * np.log(beta2)
        both = np.logaddexp(places[:, None], later)
        newer = log_all(places) - log_all(later)
        found.append(np.einsum("ls,st,lt->l", once, np.exp(newer + log_all(both)) * inside(both), once, optimize=True))
    every = np.arange(1, most + 1)
    between = PchipInterpolator(np.log(lags), found)(np.log(every)) if lags.size > 1 else np.array(found)
    return (1 - beta1) ** 2 * (own + 2 * beta1**every @ between)
