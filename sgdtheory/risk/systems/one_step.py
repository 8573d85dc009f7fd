"""One exact step of the moments, as T20 has it (`moments`): NumPy and compiled loops share it.

M is packed: of q = k(k + 1)/2 numbers a step makes `M_a ← Σ_b T_ab M_b + w_a (P + σ²)`, a mode's own part of the
gradients' noise inside T. What is 0 in all settings is left out, None stands for it.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import column_products
from sgdtheory.problems import Modes
from sgdtheory.risk.systems.moments import Moments, Steps, pairs, unpack


class StepMaps(NamedTuple):
    """Maps of K modes for a step in each of S settings; tables of T steps have T in front.

    Attributes:
        transfer: [a][b], (S, K) T; None where A M Aᵀ is sooner done: in a loop that makes its maps at every step.
        noise: [a], (S, K) w = b_i b_j λ²/B.
        seen: [a], (S, 1) ℓ: c_i c_j, twice that where i ≠ j.
        propagator: [i][j], (S, K) A_i.
        keep, weight: (S, 1) ρ and ω of the average.
    """

    transfer: Any
    noise: Any
    seen: Any
    propagator: Any
    keep: Any
    weight: Any

    def each(self) -> Iterator["StepMaps"]:
        """Yield the maps of T steps one after the other."""
        return map(StepMaps, *(_each(values) for values in self))


def _each(values: Any) -> Iterable[Any]:
    if isinstance(values, list):
        return zip(*map(_each, values), strict=False)
    return repeat(None) if values is None else values


def step_maps(steps: Steps, eigenvalue: Any, compiled: bool = False) -> StepMaps:
    """Return the maps of steps; what is 0 in all of them is left out where they are known, not `compiled`."""
    decay, b, c, batch, forgetting, weight = steps
    k = decay.shape[-1]
    one = np.eye(k)
    pull = column_products(b, c, decay)
    spread = column_products(b, b, decay)
    view = column_products(c, c, decay)

    def nothing(values: Any) -> bool:
        return not compiled and not values.any()

    def propagator(i: int, j: int) -> Any:
        still = one[i, j] - decay[..., i, j, None]
        if nothing(pull[..., i, j]):
            return None if nothing(still) else still + 0 * eigenvalue
        return still - pull[..., i, j, None] * eigenvalue

    def noise(i: int, j: int) -> Any:
        force = spread[..., i, j] / batch
        return None if nothing(force) else force[..., None] * eigenvalue**2

    def seen(i: int, j: int) -> Any:
        both = view[..., i, j] * (1 if i == j else 2)
        return None if nothing(both) else both[..., None]

    packed = pairs(k)
    A = [[propagator(i, j) for j in range(k)] for i in range(k)]
    forces = [noise(*pair) for pair in packed]
    views = [seen(*pair) for pair in packed]

    def transfer(row: int, column: int) -> Any:
        i, j = packed[row]
        r, s = packed[column]
        across = [_times(A[i][r], A[j][s])] + ([] if r == s else [_times(A[i][s], A[j][r])])
        return _total([*across, _times(views[column], forces[row])])

    every = range(len(packed))
    transfers = None if compiled else [[transfer(row, column) for column in every] for row in every]
    return StepMaps(transfers, forces, views, A, 1 - forgetting[..., None], weight[..., None])


# Two copies of the moments, bias and variance, are driven by these noises; the variance is in units of σ².
APART = np.array([[0.0], [1.0]])


def step(
    moments: Moments,
    maps: StepMaps,
    modes: Modes,
    output: tuple[float, ...],
    averaged: bool,
    xp: Any = np,
    noise: Any = APART,
) -> Moments:
    """Take one step of S settings at once.

    Args:
        moments: own[a] and cross[i], (2, S, K) each, in tuples; square (2, S). Or 1 instead of 2, see `noise`.
        maps: of the step.
        modes: their multiplicity, (K,), and what of their moments the gradients' noise sees.
        output: o.
        averaged: whether an average is kept.
        xp: numpy or jax.numpy.
        noise: (2, 1) or (1, 1) variances of the labels' noise in each copy of the moments.
    """
    own, cross, square = moments
    seen = _total(map(_times, maps.seen, own))
    if seen is None:
        seen = xp.zeros_like(own[0])
    felt = (seen if modes.trained is None else modes.trained * seen).sum(-1)
    drive = modes.multiplicity * (felt + xp.asarray(noise))[..., None]
    if maps.transfer is None:
        moved = _congruent(own, maps.propagator)
        drive = drive + seen
    else:
        moved = [_total(map(_times, row, own)) for row in maps.transfer]
    reached = (_total([each, _times(force, drive)]) for each, force in zip(moved, maps.noise, strict=True))
    ended = tuple(xp.zeros_like(own[0]) if each is None else each for each in reached)
    if not averaged:
        return Moments(ended, cross, square)
    return Moments(ended, *_averaged(moments, maps, output, xp))


def _congruent(own: Any, A: Any) -> list[Any]:
    """Return a M Aᵀ, packed."""
    k = len(A)
    M = _square(own, k)
    AM = [[_total(_times(A[i][r], M[r][j]) for r in range(k)) for j in range(k)] for i in range(k)]
    return [_total(_times(A[j][r], AM[i][r]) for r in range(k)) for i, j in pairs(k)]


def _square(packed: Any, k: int) -> list[list[Any]]:
    """Return the entries [i][j] of a packed matrix."""
    place = {pair: number for number, pair in enumerate(pairs(k))}
    return [[packed[place[min(i, j), max(i, j)]] for j in range(k)] for i in range(k)]


def _averaged(moments: Moments, maps: StepMaps, output: tuple[float, ...], xp: Any) -> tuple[Any, Any]:
    """Return x and Σ S² after a step."""
    own, cross, square = moments
    k = len(output)
    rho = maps.keep
    omega = maps.weight
    shown = [_total(row[j] * output[j] for j in range(k) if output[j]) for row in _square(own, k)]  # M o
    gained = _total(output[i] * (2 * rho * omega * cross[i] + omega**2 * shown[i]) for i in range(k) if output[i])
    moved = [rho * cross[i] + omega * shown[i] for i in range(k)]
    reached = [_total(map(_times, row, moved)) for row in maps.propagator]
    after = tuple(xp.zeros_like(own[0]) if each is None else each for each in reached)
    return after, rho[..., 0] ** 2 * square + gained.sum(-1)


def _times(factor: Any, values: Any) -> Any:
    return None if factor is None or values is None else factor * values


def _total(terms: Iterable[Any]) -> Any:
    """Return the sum of the terms that are not None; None if all are."""
    counted = [term for term in terms if term is not None]
    return reduce(lambda left, right: left + right, counted) if counted else None


def nested(moments: Moments) -> Moments:
    """Return the moments of S settings, (2, S, …) each, as `step` takes them."""
    k = moments.cross.shape[2]
    own = tuple(moments.own[:, :, i, j] for i, j in pairs(k))
    return Moments(own, tuple(moments.cross[:, :, i] for i in range(k)), moments.square)


def stacked(moments: Moments) -> Moments:
    """Return the inverse of `nested`."""
    own = unpack(np.stack(list(map(np.asarray, moments.own)), 2), len(moments.cross))
    return Moments(own, np.stack(list(map(np.asarray, moments.cross)), 2), np.asarray(moments.square))
