"""Passes over N rows in a new random order each: mean and second moments of SGD, node by node (THEORY.md T42).

A row that has not been read yet in this epoch pulls as hard as a fresh one; after its turn, at s, what it pulls with is
less by `κ(t − 1 − s)` of that. So the loss that a step meets is not the training loss, and what an epoch does to a node
has a memory. With M = N/B and generating functions in the number of steps,

    k(z) = (z/M) Σ κ(r) z^r,    G_i = 1/(1 − z + zγw_i/(1 − k)),    F_i = G_i/(1 − k)

    k = (1/N) Σ_i w_i/(w_i + (1 − z)(1 − k)/(γz))

G_i(t) is the mean of the training residual in node i over that before the epoch, F_i that of rows not yet read. Which
row is read when is noise of covariance `(M δ_st − 1) C(s, t)`, alike in all nodes, C the moments of rows not yet read:

    C = (Φ + M T D)/(1 + T),    Φ(x, y) = Σ_i F_i(x) F_i(y) ℓ_i

    1/(1 + T) = 1 − xy Σ_ab (k_{a+b+1} − k_{a+b+2}) x^a y^b

with D = C(t, t) from a renewal equation, ℓ_i the training loss that node i holds before the epoch. Then

    ℓ_i ← G_i(n)² ℓ_i + (γ²w_i²/N) [F_i(x) F_i(y) (M D(xy) − C(x, y))]_{n−1, n−1}

is exact for rows that are orthogonal and of one length, and at B = N, and otherwise to leading order in the number of
directions. The next order has the fourth moments of the rows: with `m_ij` the mean over rows of `z_i² z_j²`, z the
whitened row, node j has `m_ij − δ_ij` times as much part in the noise of node i and in its memory, `γw_j G_j/M` for a
row of its own. Orthogonal rows have m = 1 + δ. Gaussian rows have 1 + (2 − 2/N) δ in the mean: `own = 1 − 2/N` of a
node's own noise on top (T2's `+ r_i`), which matters for the largest w.
Without memory, k = 0, and with D in the place of `D − C/M`, it is sampling with replacement.
"""

from typing import NamedTuple

import numpy as np
from numpy.fft import irfft, rfft
from scipy.linalg import hankel

MOST_STEPS = 1024  # An epoch has at most this many steps: the cost grows like their square.
DIMENSIONS = 48  # This many dimensions are used; to rounding, the series of all nodes span a space of about 25.
# Smaller eigenvalues of the epoch's memory, relative to the largest, are left out.
NEGLIGIBLE = 1e-10


class Sample(NamedTuple):
    """Spectrum of N rows on which the order of the steps acts, at J nodes of the spectrum of Ĥ = XᵀX/N.

    Attributes:
        weight: (J,) w > 0.
        count: (J,) eigenvalues that a node stands for; they add up to the rank.
        excess: (J,) training loss of w_0 above the least that a node holds, `w ((w_0 − ŵ)_i)²`.
        least_loss: the least training loss.
        num_samples: N.
        fourth: (J + 1, J + 1) `m_ij − 1 − δ_ij` of these rows, the last node the residual of their fit; None for the
            mean of Gaussian rows.
    """

    weight: np.ndarray
    count: np.ndarray
    excess: np.ndarray
    least_loss: float
    num_samples: float
    fourth: np.ndarray | None = None


class Moments(NamedTuple):
    """After n steps, of the last iterate or of the average of the iterates before it.

    Attributes:
        response: (J,) f(w): mean over the orders is `ŵ + f(Ĥ)(w_0 − ŵ)`.
        loss: (J,) training loss above the least that a node holds, mean and scatter; `loss − excess f²` is scatter's.
    """

    response: np.ndarray
    loss: np.ndarray


class Passes(NamedTuple):
    """Moments of both at one number of steps."""

    last: Moments
    average: Moments


class Memory(NamedTuple):
    """Effects of a row's own step over an epoch of T steps; a last node, w = 0, stands for what no step can fit.

    Attributes:
        number, batch, rate: N, B and γ.
        weight, count: (J + 1,).
        own: of a node's own noise.
        fourth: (J + 1, J + 1) what single rows have in its place, or None.
        mean: (J + 1, T + 1) G.
        unread: (J + 1, T) F.
        waves: (W, T) orthonormal u_r with `1/(1 + T) = 1 − xy Σ_r strength_r u_r(x) u_r(y)`.
        strength: (W,).
        echo: (J + 1, T) each node's share in the loss of rows not yet read, by the time since.
    """

    number: float
    batch: float
    rate: float
    weight: np.ndarray
    count: np.ndarray
    own: float
    fourth: np.ndarray | None
    mean: np.ndarray
    unread: np.ndarray
    waves: np.ndarray
    strength: np.ndarray
    echo: np.ndarray


class Epoch(NamedTuple):
    """Maps of n steps of an epoch; S is the sum of its iterates without w_n.

    Attributes:
        mean, mean_sum: (J + 1,) of the error at the end, and of S, over that at the start.
        moment, crossed, square: (J + 1, J + 1) second moments of the end, of end and S, of S, from those at the start.
    """

    mean: np.ndarray
    mean_sum: np.ndarray
    moment: np.ndarray
    propagated: np.ndarray
    square: np.ndarray


def epoch_steps(num_samples: float, batch: float) -> int:
    """Return ⌊N/B⌋, at least 1: rows that do not fill a batch are left out of that epoch."""
    return max(int(num_samples // batch), 1)


@np.errstate(all="ignore")  # overflow is a result
def reshuffled_passes(
    sample: Sample,
    *,
    batch: float,
    rate: float,
    steps: list[int],
    averaged: bool = True,
    own: float | None = None,
) -> list[Passes]:
    """Moments of SGD at a constant learning rate after n steps, for each n, every ⌊N/B⌋ of them in a new random order.

    Args:
        sample: N rows.
        batch: B; from N on the gradient is that of all rows.
        rate: γ, in units of 1/w.
        steps: n ≥ 1 each.
        averaged: whether averages are asked for; their loss is nan otherwise.
        own: weight of a node's own noise, whatever the rows: 0 is leading order. If None that of the sample's rows.

    Raises:
        ValueError: more than 1024 steps in an epoch.
    """
    number = sample.num_samples
    batch = min(batch, number)
    length = epoch_steps(number, batch)
    if length > MOST_STEPS:
        raise ValueError(
            f"batch_size must be at least N/{MOST_STEPS} for reshuffled passes, N = {number:g}, got {batch:g}; "
            "replacement=True takes any"
        )
    if own is not None:
        sample = sample._replace(fourth=None)
    longest = min(length, max(steps))
    memory = epoch_memory(sample, batch, rate, longest, 1 - 2 / number if own is None else own)
    parts = {longest, *(n % length for n in steps)} - {0}
    ends = {part: epoch(memory, part, averaged=averaged) for part in parts}
    held = np.append(sample.excess, sample.least_loss)
    state = _State(np.ones(held.size), np.zeros(held.size), held, np.zeros(held.size), np.zeros(held.size))
    result = {}
    done = 0
    for n in sorted(set(steps)):
        while done < n // length:
            state = _after(state, ends[length])
            done += 1
        result[n] = _read(_after(state, ends[n % length]) if n % length else state, n)
    return [result[n] for n in steps]


class _State(NamedTuple):
    """(J + 1,) each: mean errors e and their sum S over the steps so far, E e², E eS, E S²."""

    mean: np.ndarray
    mean_sum: np.ndarray
    moment: np.ndarray
    propagated: np.ndarray
    square: np.ndarray


def _after(state: _State, part: Epoch) -> _State:
    """Return the order of an epoch is independent of those before it."""
    return _State(
        part.mean * state.mean,
        state.mean_sum + part.mean_sum * state.mean,
        part.moment @ state.moment,
        part.mean * state.propagated + part.propagated @ state.moment,
        state.square + 2 * part.mean_sum * state.propagated + part.square @ state.moment,
    )


def _read(state: _State, n: int) -> Passes:
    last = Moments(state.mean[:-1], state.moment[:-1])
    return Passes(last, Moments(state.mean_sum[:-1] / n, state.square[:-1] / n**2))


def epoch_memory(sample: Sample, batch: float, rate: float, length: int, own: float) -> Memory:
    """Return the memory of `length` steps, at most N/B."""
    number = sample.num_samples
    share = batch / number
    weight = np.append(sample.weight, 0.0)
    count = np.append(sample.count, number - sample.count.sum())
    kernel = share * left_of_a_step(sample.weight, sample.count, batch, rate, number, 2 * length + 1)
    own_share = share * rate / batch * (own if sample.fourth is None else sample.fourth)
    mean, unread = _responses(weight, rate, kernel[:length], own_share)
    falls = kernel[:-1] - kernel[1:]
    echoes = hankel(falls[:length], falls[length - 1 : 2 * length - 1])
    # Far beyond the stability threshold an epoch overflows. Not a number is kept then, so that the risk is infinite.
    finite = np.isfinite(echoes).all()
    strength, waves = np.linalg.eigh(echoes) if finite else (np.full(length, np.nan), np.eye(length))
    memory = np.append(0.0, kernel)[:length]
    drive = memory - rate * weight[:, None] * _later(unread)
    pulls = _times(drive, _inverse(memory))
    kept = ~(np.abs(strength) < NEGLIGIBLE * np.abs(strength).max())
    waves = waves.T[kept]
    strength = strength[kept]
    result = Memory(number, batch, rate, weight, count, own, sample.fourth, mean, unread, waves, strength, pulls)
    heard = _leg(result, pulls)
    return result._replace(echo=_at_equal_times(result, heard, heard) / batch)


def left_of_a_step(
    weight: np.ndarray, count: np.ndarray, batch: float, rate: float, number: float, length: int
) -> np.ndarray:
    """Return (length,) κ(r): the share of its own residual that a row has taken away, r steps after its own.

    `κ = (γ/B) tr ĤG + (1/M) κ * κ`: a row's own step is no part of what acts on it later. In the mean over samples it
    is `(γ/B) tr H(1 − γH)^r`, as for fresh rows.
    """
    share = batch / number
    mean = np.ones(weight.size)
    unread = np.empty((length, weight.size))
    kernel = np.empty(length)
    for t in range(length):
        back = kernel[:t][::-1]
        kernel[t] = rate / batch * (count * weight) @ mean + share * kernel[:t] @ back
        unread[t] = mean + share * back @ unread[:t]
        mean = mean - rate * weight * unread[t]
    return kernel


def _responses(
    weight: np.ndarray, rate: float, kernel: np.ndarray, own: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(J, T + 1) G and (J, T) F: `F = G + (k + own w G) * F`, `G(t + 1) = G(t) − γ w F(t)`; own may be a matrix."""
    length = kernel.size
    mean = np.ones((length + 1, weight.size))
    unread = np.empty((length, weight.size))
    memory = np.empty((length, weight.size))
    for t in range(length):
        pulled = weight * mean[t]
        memory[t] = kernel[t] + (own @ pulled if isinstance(own, np.ndarray) else own * pulled)
        unread[t] = mean[t] + np.einsum("sj,sj->j", memory[:t][::-1], unread[:t])
        mean[t + 1] = mean[t] - rate * weight * unread[t]
    return mean.T, unread.T


def epoch(memory: Memory, steps: int, *, averaged: bool = True) -> Epoch:
    """Return the first n steps of an epoch; without sums of iterates it takes a third of the time."""
    cut = memory._replace(unread=memory.unread[:, :steps], waves=memory.waves[:, :steps], echo=memory.echo[:, :steps])
    end = _leg(cut, cut.unread)
    total = Leg(_summed(end.plain), _summed(end.waved))
    itself = _inverse(memory.own * cut.echo)
    again = _times(itself, cut.echo)
    alone = _times(itself, _at_equal_times(cut, end, end))
    losses = _times(alone, _inverse(memory.count @ again))
    mean = memory.mean[:, steps]
    mean_sum = memory.mean[:, :steps].sum(1)
    scale = (memory.rate * memory.weight) ** 2 / memory.number
    length = memory.number / memory.batch

    def moments(one: Leg, other: Leg, bias: np.ndarray) -> np.ndarray:
        shown = _at_equal_times(cut, one, other)
        pairs = _pairs(cut, one, other)
        heard = shown + memory.own * _times(shown, again)
        driven = length * heard[:, ::-1] @ losses.T - pairs
        alike = length * np.einsum("jt,jt->j", shown[:, ::-1], alone) - np.diag(pairs)
        if memory.fourth is None:
            further = memory.own * np.diag(alike)
        else:
            further = memory.fourth * (driven + np.diag(alike - np.diag(driven)))
        return scale[:, None] * (memory.count[:, None] * driven + further) + np.diag(bias)

    if not averaged:
        unknown = np.broadcast_to(np.nan, (mean.size, mean.size))
        return Epoch(mean, mean_sum, moments(end, end, mean**2), unknown, unknown)
    return Epoch(
        mean,
        mean_sum,
        moments(end, end, mean**2),
        moments(end, total, mean * mean_sum),
        moments(total, total, mean_sum**2),
    )


class Leg(NamedTuple):
    """Later effects of a shock on the quantity that is asked for: (J + 1, T), and (W, J + 1, T) times z u_r."""

    plain: np.ndarray
    waved: np.ndarray


def _leg(memory: Memory, plain: np.ndarray) -> Leg:
    """Return a leg, whose products with waves are taken in a basis of the series of all nodes."""
    nodes, basis = _basis(plain)
    return Leg(plain, np.stack([nodes @ _later(_times(basis, wave)) for wave in memory.waves]))


def _basis(series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(J, R) and (R, T) whose product they are, to rounding: from R mixtures of the nodes, which differ by w alone."""
    mixtures = np.random.default_rng(0).standard_normal((DIMENSIONS, len(series))) @ series
    basis = np.linalg.qr(mixtures.T)[0].T
    return series @ basis.T, basis


def _summed(series: np.ndarray) -> np.ndarray:
    """Return the sum over the iterates after the shock, without the last."""
    return _later(np.cumsum(series, axis=-1))


def _at_equal_times(memory: Memory, one: Leg, other: Leg) -> np.ndarray:
    """Return (J + 1, T) coefficients of x^t y^t of `f(x) g(y)/(1 + T)`."""
    return one.plain * other.plain - np.einsum("r,rjt,rjt->jt", memory.strength, one.waved, other.waved)


def _pairs(memory: Memory, one: Leg, other: Leg) -> np.ndarray:
    """Return (J + 1, J + 1) coefficients of (xy)^{n−1} of `f_i(x) g_i(y) F_l(x) F_l(y)/(1 + T)`."""
    # Nodes of equal weight are alike: the mean over samples has each node twice, and so a quarter of the products.
    first, everywhere = np.unique(memory.weight, return_index=True, return_inverse=True)[1:]
    nodes, basis = _basis(memory.unread[first])
    back = basis[:, ::-1].T
    result = (one.plain[first] @ back @ nodes.T) * (other.plain[first] @ back @ nodes.T)
    for strength, here, there in zip(memory.strength, one.waved[:, first], other.waved[:, first], strict=True):
        result -= strength * (here @ back @ nodes.T) * (there @ back @ nodes.T)
    return result[np.ix_(everywhere, everywhere)]


def _later(series: np.ndarray) -> np.ndarray:
    """Return the series times z."""
    return np.concatenate([np.zeros_like(series[..., :1]), series[..., :-1]], axis=-1)


def _times(series: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the product of two series to as many coefficients."""
    length = series.shape[-1]
    size = 1 << (2 * length - 1).bit_length()
    return irfft(rfft(series, size) * rfft(other, size), size)[..., :length]


def _inverse(series: np.ndarray) -> np.ndarray:
    """Return `1/(1 − p)` of series p that begin at z."""
    result = np.zeros_like(series)
    result[..., 0] = 1.0
    for t in range(1, series.shape[-1]):
        result[..., t] = np.einsum("...s,...s->...", result[..., :t], series[..., t:0:-1])
    return result
