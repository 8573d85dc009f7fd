"""Many rounds of local steps in closed form (THEORY.md T40): `closed_form` with a period in place of a step.

With Φ, W, r, K and e of a `period` and ζ the generating variable of rounds,

    (1 − K − ζ Σ_i r_i (1 − ζΦ_i)⁻¹ W_i) ĥ = Σ_i r_i (1 − ζΦ_i)⁻¹ y_i(0) + σ²/(1 − ζ),
    ŷ_i = (1 − ζΦ_i)⁻¹ (y_i(0) + ζ W_i ĥ),    Ŝ² = (S²(0) + ζ (Σ e_i·ŷ_i + e·ĥ))/(1 − ζρ^{2H}),

and m numbers ĥ couple the directions where a single step has one.
"""

import numpy as np
from scipy.optimize import brentq

from sgdtheory.risk.closed_form import Points, in_portions
from sgdtheory.risk.linear import resolvent, solve
from sgdtheory.risk.moments import Moments, pack, unpack
from sgdtheory.risk.period import Period
from sgdtheory.risk.spectrum import AT_ONE

ROUNDED = 1e-14  # of an eigenvalue
ROOT_ACCURACY = 1e-12  # of the logarithm of where an eigenvalue lies


class PeriodStage:
    """A period in S settings, ready for any number of rounds: what `closed_form` asks of a stage."""

    def __init__(self, period: Period, stable: bool = False) -> None:
        self.period = period
        self.stable = stable
        self.modes = period.modes
        self.contour = period.contour
        self.spectrum = period.spectrum
        self.keeping = period.keeping

    def some(self, places: np.ndarray) -> "PeriodStage":
        """Of some of the settings."""
        return PeriodStage(self.period.some(places), self.stable)

    def growths(self, num_rounds: np.ndarray) -> np.ndarray:
        """(S,) rates per round at which moments grow or, below 0, decay, where so many rounds tell them from 0."""
        found = np.zeros(num_rounds.size)
        for place, rounds in enumerate(num_rounds.tolist()):
            one = self.period.some(np.array([place]))
            slowest = 2 * float(one.spectrum.slowest[0])
            may_settle = slowest <= 0 and (self.stable or load(one)[0] < 1)
            if may_settle and slowest > -1 / rounds:
                continue
            found[place] = np.log1p(_largest_excess(one, may_settle))
        return np.where(np.abs(found) * num_rounds > 1, found, 0.0)


def after(stage: PeriodStage, moments: Moments, num_rounds: np.ndarray) -> Moments:
    """Moments of S settings after so many rounds, (S,) ≥ 1, from the beginning of one."""
    return in_portions(_moments_at, stage, moments, num_rounds)


def load(period: Period, excess: float = AT_ONE) -> np.ndarray:
    """(S,) largest eigenvalue of `K + ζ Σ_i r_i (1 − ζΦ_i)⁻¹ W_i` at 1/ζ = 1 + excess: with 1 moments stay as they are.

    inf where a direction alone is beyond its own edge.
    """
    q = period.seen.shape[1]
    decay = period.decay[:q, :q]
    one = np.eye(q)[:, :, None, None]
    answers = solve(decay + excess * one, period.drive[:q])
    coupling = period.inner + np.einsum("mqsk,qnsk->smn", period.seen, answers)
    finite = np.isfinite(coupling).all((1, 2))
    largest = np.full(finite.size, np.inf)
    largest[finite] = np.abs(np.linalg.eigvals(coupling[finite])).max(1, initial=0.0)
    return np.where(own_excess(period) < excess + ROUNDED, largest, np.inf)


def own_excess(period: Period) -> np.ndarray:
    """(S,) largest |eigenvalue| of a Φ_i of moments, less 1."""
    q = period.seen.shape[1]
    slow = np.linalg.eigvals(np.moveaxis(period.decay[:q, :q], (0, 1), (2, 3)))  # (S, K, q)
    near = np.abs(slow) < 0.5
    excess = np.where(near, -slow.real, np.abs(1 - slow) - 1)
    return excess.max((1, 2))


def _largest_excess(period: Period, settles: bool) -> float:
    """Largest eigenvalue of a round, of one setting, less 1."""
    floor = float(own_excess(period)[0])
    low = floor if settles else max(floor, 0.0)
    high = 0.0 if settles else max(2 * floor, 1e-6)
    while not settles and load(period, high)[0] >= 1:
        high *= 4
    span = high - low

    def above(position: float) -> float:
        return min(float(load(period, low + span * np.exp(position))[0]), 1e6) - 1

    begin = np.log(1e-15)
    if not (span > 0 and above(begin) > 0):
        return low
    return low + span * float(np.exp(brentq(above, begin, 0.0, xtol=ROOT_ACCURACY)))  # pyright: ignore


def _moments_at(stage: PeriodStage, moments: Moments, noise: np.ndarray, points: Points) -> Moments:
    """Moments after so many rounds of some parts, (p,) of them with so much σ² each."""
    parts = [
        _of_one(
            stage.period.some(np.array([place])),
            Moments(*(each[:, place] for each in moments)),
            noise,
            Points(*(each[place] for each in points)),
        )
        for place in range(points.num_steps.size)
    ]
    return Moments(*(np.stack(each, axis=1) for each in zip(*parts, strict=True)))


def _of_one(period: Period, moments: Moments, noise: np.ndarray, points: Points) -> Moments:
    """Of one setting: moments (p, k, k, K), (p, k, K) and (p,); points (C,) each."""
    z, y, weight, scale, n = points
    vectors = period.vectors
    q = period.seen.shape[1]
    start = pack(moments.own[:, vectors][:, :, vectors])
    if period.keeping is not None:
        start = np.concatenate([start, moments.cross[:, vectors]], axis=1)
    size = start.shape[1]
    decay = n * period.decay[:size, :size]
    identity = np.broadcast_to(np.eye(size)[:, :, None, None], decay.shape)
    inverse = resolvent(decay, y[None], z[None], identity)[:, :, 0]  # (Q, Q, K, C), over n
    free = np.einsum("ijkc,pjk->pikc", inverse, start)
    forced = np.einsum("ijkc,jmk->ikcm", inverse, period.drive[:size, :, 0])
    seen = period.seen[:, :, 0]
    nodes = seen.shape[0]
    coupled = (seen.reshape(nodes, -1) @ forced[:q].reshape(q * forced.shape[1], -1).view(float)).view(complex)
    coupled = np.moveaxis(coupled.reshape(nodes, z.size, nodes), 1, 0)  # (C, m, m)
    matrix = np.eye(nodes) - period.inner[0] - (n * z)[:, None, None] * coupled
    right = n * np.einsum("mqk,pqkc->cmp", seen, free[:, :q]) + (n * noise / y[:, None])[:, None]
    driven = np.linalg.solve(matrix, right)  # ĥ, (C, m, p)
    found = free + np.einsum("ikcm,cmp->pikc", forced, z[:, None, None] * driven)
    ended = scale * np.einsum("pikc,c->pik", found, weight).real
    own = np.zeros_like(moments.own)
    own[np.ix_(np.arange(len(own)), vectors, vectors)] = unpack(ended[:, :q], len(vectors))
    if period.keeping is None:
        return moments._replace(own=own)
    cross = np.zeros_like(moments.cross)
    cross[:, vectors] = ended[:, q:]
    gained = n * np.einsum("ik,pikc->pc", period.gained[:, 0], found)
    gained = gained + np.einsum("m,cmp->pc", period.gained_inner[0], driven)
    square = (moments.square[:, None] + z * gained) / (y + z * n * period.forgotten[0])
    return Moments(own, cross, scale * (square @ weight).real)
