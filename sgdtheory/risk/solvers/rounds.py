"""Many rounds of local steps in closed form (THEORY.md T40): `renewal` with a period in place of a step.

A step of a method with more moments than `fractions` takes is solved here too, as a period of one step.

With Φ, W, r, K and e of a `period` and ζ the generating variable of rounds,

    (1 − K − ζ Σ_i r_i (1 − ζΦ_i)⁻¹ W_i) ĥ = Σ_i r_i (1 − ζΦ_i)⁻¹ y_i(0) + σ²/(1 − ζ),
    ŷ_i = (1 − ζΦ_i)⁻¹ (y_i(0) + ζ W_i ĥ),    Ŝ² = (S²(0) + ζ (Σ e_i·ŷ_i + e·ĥ))/(1 − ζρ^{2H}),

and m numbers ĥ couple the directions where a single step has one.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from sgdtheory.risk.solvers.contour import Points
from sgdtheory.risk.solvers.small_systems import resolvent, solve
from sgdtheory.risk.solvers.spectrum import (
    AT_ONE,
    NEARLY_UNSTABLE,
    SMALLEST,
    StepSpectrum,
    growths,
    near_threshold,
    step_spectrum,
)
from sgdtheory.risk.solvers.transforms import coefficient, sizes
from sgdtheory.risk.systems.moments import Moments, MomentsAndSize, at_runs, pack, unpack
from sgdtheory.risk.systems.periodic import Period

# A temporary has at most this many numbers, 1.6 MB, which stay in a core's cache: twice or half as many take longer for
# 100 settings of local SGD (benchmarks.workers).
NUMBERS_AT_ONCE = 100_000
# An eigenvalue may exceed its bound by this much through rounding.
ROUNDED = 1e-14


class PeriodStage:
    """A period in S settings, ready for any number of rounds: what `renewal` asks of a stage."""

    def __init__(self, period: Period, stable: bool = False, loads: np.ndarray | None = None) -> None:
        self.period = period
        self._loads = loads
        self.stable = stable
        self.modes = period.modes
        self.contour = period.contour
        self.keeping = period.keeping

    def select(self, indices: np.ndarray) -> "PeriodStage":
        """Return the stage of some of the settings."""
        loads = None if self._loads is None else self._loads[indices]
        return PeriodStage(self.period.select(indices), self.stable, loads)

    def without_average(self) -> "PeriodStage":
        """Return the stage without its average."""
        return PeriodStage(self.period.without_average(), self.stable, self._loads)

    @cached_property
    def spectrum(self) -> StepSpectrum:
        """The spectrum of A over a period."""
        return step_spectrum(self.period.slow)

    @property
    def loads(self) -> np.ndarray:
        """(S,) `load`, which is looked for once."""
        if self._loads is None:
            self._loads = load(self.period)
        return self._loads

    def near_threshold(self, num_rounds: np.ndarray) -> np.ndarray:
        """Return (S,) whether rounding of γ counts after so many rounds.

        A direction may hardly move in a round though it does in every step, and others do (γλ = 2 and an even H).
        """
        slow = -own_excesses(self.period)
        pace = slow / np.maximum(self.modes.eigenvalue, SMALLEST)
        back = pace < np.where(pace.shape[1] == 1, np.inf, pace.max(1, initial=0.0)[:, None] / 2)
        held = ((slow < NEARLY_UNSTABLE) & back & (self.modes.eigenvalue > 0)).any(1)
        return held | near_threshold(self.loads, self.spectrum, num_rounds)

    def growths(self, num_rounds: np.ndarray) -> np.ndarray:
        """(S,) rates per round at which moments grow or, below 0, decay, where so many rounds tell them from 0."""
        slowest = self.spectrum.slowest
        return growths(self, slowest, np.zeros(slowest.size) if self.stable else self.loads, num_rounds)

    def load_at(self, excess: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Return (T,) loads of some settings at 1/ζ = 1 + excess, beyond the excess of a direction alone."""
        return _coupled(self.period.select(indices), excess)

    def floors(self, indices: np.ndarray) -> np.ndarray:
        """Return (T,) largest eigenvalues, less 1, of the moments of a direction alone in some settings."""
        return own_excess(self.period.select(indices))


def propagate_round_by_round(period: Period, moments: Moments, num_rounds: np.ndarray) -> Moments:
    """Take round after round, before oscillations have died out: (S,) numbers of rounds, some of them 0."""
    order = np.argsort(-num_rounds, kind="stable")
    period = period.select(order)
    here = at_runs(moments, order)
    q = period.seen.shape[1]
    start = np.concatenate([pack(here.own)[:, :, period.own], here.cross[:, :, period.cross]], axis=2)
    state = np.ascontiguousarray(np.moveaxis(start, 2, 1))  # (2, Q, S, K), the longest runs first
    square = here.square.copy()
    answer = np.linalg.inv(np.eye(period.inner.shape[1]) - period.inner)
    noise = np.array([0.0, 1.0])[:, None, None]
    for number in range(int(num_rounds.max(initial=0.0))):
        some = slice(0, int((num_rounds > number).sum()))
        now = state[:, :, some]
        felt = np.einsum("mqsk,pqsk->psm", period.seen[:, :, some], now[:, :q]) + noise
        driven = np.einsum("smn,psn->psm", answer[some], felt)
        gained = np.einsum("isk,pisk->ps", period.gained[:, some], now) if period.keeping else 0.0
        gained = gained + np.einsum("sm,psm->ps", period.gained_inner[some], driven)
        square[:, some] = gained + period.remembered[some] * square[:, some]
        ended = np.einsum("imsk,psm->pisk", period.drive[:, :, some], driven)
        ended += np.einsum("ijsk,pjsk->pisk", period.kept[:, :, some], now)
        state[:, :, some] = ended
    own, cross = _placed(period, np.moveaxis(state, 1, 2), here)
    return at_runs(Moments(own, cross, square if period.keeping else here.square), np.argsort(order))


def load(period: Period, excess: float = AT_ONE) -> np.ndarray:
    """(S,) largest eigenvalue of `K + ζ Σ_i r_i (1 − ζΦ_i)⁻¹ W_i` at 1/ζ = 1 + excess: with 1 moments stay as they are.

    inf where a direction alone is beyond its own edge.
    """
    return np.where(own_excess(period) < excess + ROUNDED, _coupled(period, excess), np.inf)


def _coupled(period: Period, excess: Any) -> np.ndarray:
    """Return the same where no direction alone is beyond its own edge."""
    q = period.seen.shape[1]
    decay = period.decay[:q, :q]
    one = np.eye(q)[:, :, None, None]
    answers = solve(decay + np.reshape(excess, (-1, 1)) * one, period.drive[:q])
    coupling = period.inner + np.einsum("mqsk,qnsk->smn", period.seen, answers)
    finite: Any = np.isfinite(coupling).all((1, 2))
    largest = np.full(finite.size, np.inf)
    largest[finite] = np.abs(np.linalg.eigvals(coupling[finite])).max(1, initial=0.0)
    return largest


def own_excess(period: Period) -> np.ndarray:
    """Return (S,) largest |eigenvalue| of a Φ_i of moments, less 1."""
    return own_excesses(period).max(1)


def own_excesses(period: Period) -> np.ndarray:
    """Return (S, K) the same of each direction."""
    q = period.seen.shape[1]
    decay = np.moveaxis(period.decay[:q, :q], (0, 1), (2, 3))
    finite: Any = np.isfinite(decay).all((2, 3))
    slow = np.linalg.eigvals(np.where(finite[..., None, None], decay, 0.0))  # (S, K, q)
    near = np.abs(slow) < 0.5
    excess = np.where(near, -slow.real, np.abs(1 - slow) - 1)
    return np.where(finite, excess.max(2), np.inf)


def moments_at(stage: Any, moments: Moments, noise: np.ndarray, points: Points) -> MomentsAndSize:
    """Return the moments after so many rounds of some parts, (p,) of them with so much σ² each.

    With t = n(1/ζ − 1) every inverse is `1 − ζΦ = (ζ/n)(t + n(1 − Φ))`. The losses ζĥ are solved for first, from what
    the moments of the iterate answer; then (ζ/n) ŷ with these losses.
    """
    period: Period = stage.period
    n = points.num_steps
    t = points.t
    q = period.seen.shape[1]
    start = np.concatenate([pack(moments.own)[:, :, period.own], moments.cross[:, :, period.cross]], axis=2)
    sides = np.concatenate([np.moveaxis(start, 2, 0), period.drive], axis=1)  # (Q, p + m, S, K)
    decay = n[:, None] * period.decay
    portions = _portions(sides[:q], t.size)
    # To keep the answers to all sides would take more memory than to solve once more, and no less time.
    answers = (resolvent(decay[:q, :q, ..., part], t, sides[:q, ..., part, None]) for part in portions)
    driven = _losses(period, answers, noise, points, portions)
    ended = []
    shown: Any = 0.0
    gained: Any = 0.0
    for part in portions:
        right = sides[:, : noise.size, ..., part, None] + _times(period.drive[..., part], driven)
        result = resolvent(decay[..., part], t, right)  # (Q, p, S, K', C)
        gained = gained + n[:, None] * np.einsum("isk,ipskc->ipsc", period.gained[..., part], result)
        shown = shown + np.einsum("vi,ipsc->vpsc", period.shown, result.sum(-2))
        ended.append(np.einsum("ipskc,sc->psik", result, points.scale[:, None] * points.kernel).real)
    inner = np.einsum("sm,mpsc->psc", period.gained_inner, driven)
    gained = np.concatenate([inner[None], np.broadcast_to(gained, (len(period.gained), *inner.shape))])
    return _unpacked(period, moments, np.concatenate(ended, axis=-1), gained, shown, points)


def _losses(
    period: Period, answers: Iterable[np.ndarray], noise: np.ndarray, points: Points, portions: list[slice]
) -> np.ndarray:
    """Return ζĥ, (m, p, S, C), from the resolvents of y(0) and of W, (q, p + m, S, K', C) in each portion."""
    t = points.t
    felt: Any = 0.0
    for part, each in zip(portions, answers, strict=True):
        rows = np.moveaxis(period.seen[..., part], 2, 0)
        columns = np.ascontiguousarray(each.transpose(2, 0, 3, 1, 4))
        columns = columns.reshape(len(rows), rows.shape[2] * rows.shape[3], -1)
        felt = felt + (rows.reshape(*rows.shape[:2], -1) @ columns.view(float)).view(complex)
    felt = felt.reshape(*felt.shape[:2], -1, t.shape[1]).transpose(0, 3, 1, 2)  # (S, C, m, p + m)
    n = points.num_steps[:, None, None, None]
    free, coupled = felt[..., : noise.size], felt[..., noise.size :]
    matrix = np.eye(period.inner.shape[1]) - period.inner[:, None] - n * coupled
    driven = np.linalg.solve(matrix, n * (free + noise / t[..., None, None]))
    return driven.transpose(2, 3, 0, 1)


def _times(drive: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Return the drive (Q, m, S, K) times losses (m, p, S, C), (Q, p, S, K, C), by real matrices."""
    rows = drive.transpose(2, 0, 3, 1)  # (S, Q, K, m)
    columns = np.ascontiguousarray(losses.transpose(2, 0, 1, 3))  # (S, m, p, C)
    flat = columns.reshape(*columns.shape[:2], -1).view(float)
    result = (rows.reshape(len(rows), -1, rows.shape[-1]) @ flat).view(complex)
    return result.reshape(*rows.shape[:3], *columns.shape[2:]).transpose(1, 3, 0, 2, 4)


def _portions(sides: np.ndarray, num_points: int) -> list[slice]:
    """Return the slices of the modes whose temporaries stay small; `num_points` of all settings."""
    numbers, columns, _, size = sides.shape
    length = max(NUMBERS_AT_ONCE // (num_points * numbers * columns), 8)
    return [slice(begin, begin + length) for begin in range(0, size, length)]


def _unpacked(
    period: Period, moments: Moments, ended: np.ndarray, gained: np.ndarray, shown: np.ndarray, points: Points
) -> MomentsAndSize:
    """Moments, of the ŷ that a period begins with, (p, S, Q, K), and what S² gains by noise and each, (1 + Q, p, S, C).

    And the size of their sums, of which `shown` (2, p, S, C) are oᵀM̂o and oᵀx̂.
    """
    own, cross = _placed(period, ended, moments)
    if period.keeping is None:
        return MomentsAndSize(own, moments.cross, moments.square, sizes(points, *shown, None))
    kept = 1 / (points.t + (points.num_steps * period.forgotten)[:, None])
    size = sizes(points, *shown, kept * np.abs(gained).sum(0))
    square = coefficient(kept * gained.sum(0), points) + period.keeping.remembered(moments.square, points.num_steps)
    return MomentsAndSize(own, cross, square, size)


def _placed(period: Period, numbers: np.ndarray, moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Own and cross moments of the numbers that a period begins with, (…, Q, K); without an average nothing crosses."""
    q = period.seen.shape[1]
    k = moments.own.shape[-2]
    packed = np.zeros((*numbers.shape[:-2], k * (k + 1) // 2, numbers.shape[-1]))
    packed[..., period.own, :] = numbers[..., :q, :]
    cross = moments.cross
    if period.keeping is not None:
        cross = np.zeros_like(cross)
        cross[..., period.cross, :] = numbers[..., q:, :]
    return unpack(packed, k), cross
