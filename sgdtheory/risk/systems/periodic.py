"""Periods of methods that repeat every H steps, each as one step that is driven by m noises (T40).

Where a round begins, direction i holds y_i: what there is of M_i and x_i, as Δ and d are 0. With `h_s = P_s + σ²` of
step s of the round,

    y_i ← Φ_i y_i + Σ_s W_is h_s,    P_s = Σ_i r_is·y_i + Σ_{s'<s} K_{s−1−s'} h_{s'},
    S² ← ρ^{2H} S² + Σ_i e_i·y_i + e·h.

All steps but the last are alike, so that one impulse, the response to the noise of a step, says all of W, K and e. In
long rounds P_s is smooth in log s: its values at m steps, all of the first and some of the later ones, are enough.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import toeplitz

from sgdtheory.algorithms import LinearMethod
from sgdtheory.problems import Modes
from sgdtheory.risk.solvers.contour import QUIET_CONTOUR, Contour
from sgdtheory.risk.solvers.spectrum import step_spectrum
from sgdtheory.risk.systems.moments import Generators, Keeping, generators, pairs, selected, shown_rows, shown_weights
from sgdtheory.risk.systems.runs import Segment

EVERY_STEP = 24  # The losses of the first steps of a round, this many, are unknowns of their own.
# From each step to twice as far this many of the later steps are unknowns, and the others are interpolated: the error
# was at most 5e-15 on six problems, and 2e-11 with 12.
STEPS_A_DOUBLING = 16
# Oscillations that have decayed by e^−30 do not keep the loss from being smooth in log s.
FORGOTTEN = 30.0


class Period(NamedTuple):
    """Maps of a period in S settings on K modes, Q numbers of each, q of them moments of the iterate.

    Attributes:
        modes: the K modes.
        own, cross: indices of the packed moments and of the x that are not 0 where a period begins.
        decay: (Q, Q, S, K) 1 − Φ, which has the digits of directions that hardly move in a round.
        kept: (Q, Q, S, K) Φ, which has the digits of directions of which a round leaves next to nothing.
        drive: (Q, m, S, K) W, multiplicities included.
        seen: (m, q, S, K) r.
        inner: (S, m, m) K.
        gained: (Q, S, K) e_i, and `gained_inner`, (S, m), e.
        forgotten: (S,) 1 − ρ^{2H}, and `remembered`, (S,), ρ^{2H}.
        shown: (2, Q) oᵀM o and oᵀx of these numbers.
        slow: (S, k', k', K) 1 − A over a period, of the k' vectors that it begins with.
        keeping: 1 − ρ^H, and ω.
        contour: on which coefficients are integrated.
    """

    modes: Modes
    own: list[int]
    cross: list[int]
    decay: np.ndarray
    kept: np.ndarray
    drive: np.ndarray
    seen: np.ndarray
    inner: np.ndarray
    gained: np.ndarray
    gained_inner: np.ndarray
    forgotten: np.ndarray
    remembered: np.ndarray
    shown: np.ndarray
    slow: np.ndarray
    keeping: Keeping | None
    contour: Contour

    def select(self, indices: np.ndarray) -> "Period":
        """Return the period of some of the settings."""
        return self._replace(
            decay=self.decay[:, :, indices],
            kept=self.kept[:, :, indices],
            drive=self.drive[:, :, indices],
            seen=self.seen[:, :, indices],
            inner=self.inner[indices],
            gained=self.gained[:, indices],
            gained_inner=self.gained_inner[indices],
            forgotten=self.forgotten[indices],
            remembered=self.remembered[indices],
            slow=self.slow[indices],
            keeping=selected(self.keeping, indices),
        )

    def without_average(self) -> "Period":
        """Return the period of the moments of the iterate alone."""
        q = self.seen.shape[1]
        iterate = self._replace(cross=[], keeping=None)
        few = {"decay": self.decay[:q, :q], "kept": self.kept[:q, :q], "gained": self.gained[:q]}
        few["shown"] = self.shown[:, :q]
        return iterate._replace(drive=self.drive[:q], **few)


class _Step(NamedTuple):
    """A step in S settings, of the r numbers that are counted: 1 − map (r, r, S, K), and the noise of q of them."""

    decay: np.ndarray
    drive: np.ndarray

    def after(self, first: Any, gone: np.ndarray) -> np.ndarray:
        """Return the change of (r, …, S, K) numbers after the step, which were `first` where the period began."""
        return gone - np.einsum("ijsk,jcsk->icsk", self.decay, first + gone)


def make_period(segment: Segment) -> Period:
    """Return the period of S runs in a segment with constant learning rate and batch size."""
    batch = segment.runs.coefficients(segment.low).batch
    rate = segment.runs.rates_at(segment.low)
    contour = segment.setup.resolution.contour
    method = segment.runs.algorithm.method
    return period_of(method, batch, rate, segment.setup.modes, segment.keeping, contour)


def period_of(
    method: LinearMethod,
    batch: np.ndarray,
    rate: np.ndarray,
    modes: Modes,
    keeping: Keeping | None = None,
    contour: Contour = QUIET_CONTOUR,
) -> Period:
    """Return the period of a method that repeats, with batch sizes of all workers and learning rates, (S,) each."""
    numbers = 0, method.period - 1
    plain, last = (
        generators(method.matrices(rate, np.full(rate.size, float(number))), batch, modes.eigenvalue)
        for number in numbers
    )
    output = np.asarray(method.output, dtype=float)
    return of_maps(plain, last, modes, output, method.period, list(method.cleared), keeping, contour)


class _Numbers(NamedTuple):
    """Places of the numbers of a direction that are ever other than 0.

    Attributes:
        own, cross: places of the packed moments, and of the x; no x without an average.
        begin: places among all of these of the numbers that are not 0 where a period begins.
        packed: how many packed moments there are, 0 or not.
    """

    own: list[int]
    cross: list[int]
    begin: list[int]
    packed: int

    @property
    def counted(self) -> list[int]:
        """Places among the packed moments and, after them, the x."""
        return self.own + [self.packed + place for place in self.cross]


def of_maps(
    plain: Generators,
    last: Generators,
    modes: Modes,
    output: np.ndarray,
    period: int,
    cleared: list[int],
    keeping: Keeping | None,
    contour: Contour,
) -> Period:
    """Return the period from the maps of all steps but the last and of the last, a direction's own part included."""
    numbers = _in_use(plain, last, output, cleared, averaged=keeping is not None)
    own, cross, begin, _ = numbers
    q = len(own)
    ordinary = _step(plain, output, keeping, numbers.counted)
    ending = _step(last, output, keeping, numbers.counted)
    # The loss of a training problem, which drives the noise, sees other shares of the modes than the risk.
    trained = np.ones(1) if modes.trained is None else modes.trained
    seen = np.moveaxis(plain.seen, 0, -1)[own][..., None] * trained
    gains = _gains(output, keeping, plain.drive.shape[0])[numbers.counted]
    forgetting = keeping.forgetting if keeping else np.zeros(plain.seen.shape[0])
    nodes, weights = told_apart(period, _singles(plain, period))
    free = _undriven(ordinary, ending, seen, gains, 1 - forgetting, begin, nodes, period)
    drive, inner, gained_inner = _driven(ordinary, ending, seen, gains, 1 - forgetting, modes, nodes, weights)
    shown = np.zeros((2, q + len(cross)))
    shown[0, :q] = shown_weights(output)[own]
    shown[1, q:] = output[cross]
    with np.errstate(divide="ignore"):  # an average of one iterate alone
        log_kept = period * np.log1p(-forgetting)  # the log of 1 − forgetting has lost what long averages forget
    return Period(
        modes=modes,
        own=[own[place] for place in begin if place < q],
        cross=[cross[place - q] for place in begin if place >= q],
        decay=free.decay[begin],
        kept=free.kept[begin],
        drive=drive[begin],
        seen=free.seen[:, : sum(place < q for place in begin)],
        inner=inner,
        gained=free.gained,
        gained_inner=gained_inner,
        forgotten=-np.expm1(2 * log_kept),
        remembered=np.exp(2 * log_kept),
        shown=shown[:, begin],
        slow=_slow(plain, last, period, cleared),
        keeping=keeping and Keeping(-np.expm1(log_kept), keeping.weight),
        contour=QUIET_CONTOUR if keeping is None or np.any(keeping.forgetting > 0) else contour,
    )


class _Undriven(NamedTuple):
    """A period without noise, from a unit of each number that it begins with: 1 − Φ, Φ, r and e_i of `Period`."""

    decay: np.ndarray
    kept: np.ndarray
    seen: np.ndarray
    gained: np.ndarray


def _undriven(
    ordinary: _Step,
    ending: _Step,
    seen: np.ndarray,
    gains: np.ndarray,
    kept: np.ndarray,
    begin: list[int],
    nodes: np.ndarray,
    period: int,
) -> _Undriven:
    """Follow a unit of each number that a period begins with to its end; `decay` and `kept` of all numbers."""
    first = np.zeros((len(gains), len(begin), 1, 1))
    first[begin, np.arange(len(begin))] = 1.0
    # The change and what is left are followed apart: 1 minus the one has lost the digits that the other has.
    gone = np.zeros((*first.shape[:2], *ordinary.drive.shape[1:]))
    left = first + gone
    rows = []
    gained: Any = 0.0
    for number in range(period):
        if number in nodes:
            rows.append(np.einsum("qsk,qcsk->csk", seen, left[: len(seen)]))
        gained = (kept**2)[:, None] * gained + np.einsum("rs,rcsk->csk", gains, left)
        one = ordinary if number < period - 1 else ending
        gone = one.after(first, gone)
        left = one.after(0.0, left)
    return _Undriven(-gone, left, np.array(rows), gained)


def _in_use(plain: Generators, last: Generators, output: np.ndarray, cleared: list[int], *, averaged: bool) -> _Numbers:
    """Return the numbers that are ever other than 0: means are not correlated with contrasts.

    A vector has something to do with another if the same noise moves both, or if a step mixes them.
    """
    k = output.size
    mixed = np.eye(k, dtype=bool)
    for maps in (plain, last):
        moved = (maps.propagator != 0).any((0, 3))
        mixed |= moved | moved.T
        for place, (i, j) in enumerate(pairs(k)):
            mixed[i, j] |= (maps.drive[:, place] != 0).any()
            mixed[j, i] = mixed[i, j]
    together = np.linalg.matrix_power(mixed.astype(int), k) > 0
    shown = together @ (output != 0)
    own = [place for place, (i, j) in enumerate(pairs(k)) if together[i, j]]
    cross = np.flatnonzero(shown).tolist() if averaged else []
    numbers = _Numbers(own, cross, [], len(pairs(k)))
    begin = [place for place, number in enumerate(numbers.counted) if not _cleared(number, k, cleared)]
    return numbers._replace(begin=begin)


def _cleared(number: int, k: int, cleared: list[int]) -> bool:
    """Return whether this packed moment or, after these, this x is 0 where a period begins."""
    every = [*pairs(k), *((place,) for place in range(k))]
    return not set(every[number]).isdisjoint(cleared)


def _step(maps: Generators, output: np.ndarray, keeping: Keeping | None, counted: list[int]) -> _Step:
    """Return the step of the numbers that are counted, among all q + k."""
    decay = np.moveaxis(maps.decay, 0, 2)
    q = decay.shape[0]
    drive = np.moveaxis(maps.drive, 0, 1)[[place for place in counted if place < q]]
    if keeping is None:
        return _Step(decay[np.ix_(counted, counted)], drive)
    k = output.size
    slow = np.moveaxis(maps.propagator_decay, 0, 2)
    full = np.zeros((q + k, q + k, *decay.shape[2:]))
    forgetting = keeping.forgetting[:, None]
    full[:q, :q] = decay
    full[q:, q:] = forgetting * np.eye(k)[:, :, None, None] + (1 - forgetting) * slow
    propagator = np.moveaxis(maps.propagator, 0, 2)
    full[q:, :q] = -keeping.weight[:, None] * np.einsum("ijsk,jq->iqsk", propagator, shown_rows(output))
    return _Step(full[np.ix_(counted, counted)], drive)


def _gains(output: np.ndarray, keeping: Keeping | None, settings: int) -> np.ndarray:
    """Return (r, S) what S² gains of M and x in a step."""
    q = output.size * (output.size + 1) // 2
    if keeping is None:
        return np.zeros((q, settings))
    forgetting, omega = keeping
    return np.concatenate(
        [
            omega**2 * shown_weights(output)[:, None],
            2 * (1 - forgetting) * omega * output[:, None],
        ]
    )


def _driven(
    ordinary: _Step,
    ending: _Step,
    seen: np.ndarray,
    gains: np.ndarray,
    kept: np.ndarray,
    modes: Modes,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return W of all r numbers (r, m, S, K), K (S, m, m) and e (S, m)."""
    period = len(weights)
    r = ordinary.decay.shape[0]
    q = ordinary.drive.shape[0]
    impulse = np.zeros((r, 1, *ordinary.drive.shape[1:]))
    impulse[:q, 0] = ordinary.drive * modes.multiplicity
    responses = np.empty((period, *impulse[:, 0].shape))  # after 0, 1 … further steps; of the last step its own
    for number in range(period - 1):
        responses[number] = impulse[:, 0]
        impulse = ordinary.after(0.0, impulse)
    felt = np.einsum("qsk,tqsk->st", seen, responses[:-1, :q])
    added = np.einsum("rs,trsk->st", gains, responses[:-1])
    inner = np.array([_before(row)[nodes] @ weights for row in felt])
    left = (kept**2)[:, None] ** np.arange(period - 1, -1, -1)  # ρ^{2(H−1−s)}
    gained = np.array([(some @ _before(row)) @ weights for some, row in zip(left, added, strict=True)])
    till_last = np.tensordot(responses[-2::-1], weights[:-1], (0, 0))  # (r, S, K, m)
    drive = ending.after(0.0, np.moveaxis(till_last, -1, 1))
    drive[:q] += (ending.drive * modes.multiplicity)[:, None] * weights[-1][:, None, None]
    return drive, inner, gained


def _before(responses: np.ndarray) -> np.ndarray:
    """(H, H) of what step s feels of the noise of step s' < s, from the responses after 0 … H − 2 further steps."""
    return toeplitz(np.append(0.0, responses), np.zeros(responses.size + 1))


def _slow(plain: Generators, last: Generators, period: int, cleared: list[int]) -> np.ndarray:
    """Return (S, k', k', K) 1 − A of a whole period, by squaring: `1 − AB = (1 − A) + (1 − B) − (1 − A)(1 − B)`."""

    def composed(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return one + other - np.einsum("sijk,sjlk->silk", one, other)

    power = plain.propagator_decay
    result = np.zeros_like(power)
    left = period - 1
    while left:
        if left & 1:
            result = composed(result, power)
        power = composed(power, power)
        left >>= 1
    vectors = [place for place in range(power.shape[1]) if place not in cleared]
    return composed(last.propagator_decay, result)[:, vectors][:, :, vectors]


def _singles(plain: Generators, period: int) -> int:
    """Return the steps from the start of a round after which what oscillates is forgotten."""
    if period <= EVERY_STEP:  # every step is an unknown, whatever oscillates
        return EVERY_STEP
    spectrum = step_spectrum(plain.propagator_decay)
    log_size = float(np.maximum(spectrum.complex, spectrum.negative).max())
    if log_size >= 0:
        return 2**62
    return max(EVERY_STEP, math.ceil(-FORGOTTEN / (2 * log_size)))


def told_apart(period: int, singles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (m,) steps at which P is asked for, and (H, m) weights of these in P at every step.

    All of the first `singles`; then, from each step to twice as far, those next to Chebyshev's points.
    """
    nodes = list(range(min(singles, period)))
    blocks = [np.eye(len(nodes))]
    low = len(nodes)
    while low < period:
        high = min(2 * low, period)
        if high - low <= STEPS_A_DOUBLING:
            some = np.arange(low, high)
        else:
            angles = np.pi * np.arange(STEPS_A_DOUBLING) / (STEPS_A_DOUBLING - 1)
            some = np.unique(np.rint((low + high - 1) / 2 - (high - 1 - low) / 2 * np.cos(angles)))
        blocks.append(_interpolation(np.arange(low, high), some))
        nodes += some.astype(int).tolist()
        low = high
    result = np.zeros((period, len(nodes)))
    row = column = 0
    for block in blocks:
        result[row : row + len(block), column : column + block.shape[1]] = block
        row += len(block)
        column += block.shape[1]
    return np.array(nodes), result


def _interpolation(steps: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return (T, m) weights of values at m nodes in the polynomial through them at T steps (barycentric)."""
    gaps = (nodes[:, None] - nodes) / np.ptp(steps) * 4 + np.eye(nodes.size)
    factor = 1 / gaps.prod(1)
    away = steps[:, None] - nodes
    share = factor / np.where(away == 0, 1.0, away)
    share = np.where((away == 0).any(1, keepdims=True), away == 0, share)
    return share / share.sum(1, keepdims=True)
