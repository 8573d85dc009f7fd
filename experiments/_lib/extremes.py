"""Extremes over a domain mapped from the unit cube: random points, faces included, and hill climbs from them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments._lib.progress import tracked

FACE_SHARE = 0.25  # points drawn this far outside the domain land on its faces, where extremes tend to lie
SNAP_SHARE = 0.1  # of the coordinates of a step of a climb are moved to the nearer face
HOLD_SHARE = 0.5  # of a climb's rounds leave what its trials share where it is
WIDTHS = 0.3, 1e-3  # of the first and the last steps, in units of the cube's side
REFINED = 0.1, 1e-6  # likewise, of steps along one coordinate


def unit_points(seed: int, shape: tuple[int, int, int], shared: int) -> np.ndarray:
    """Random points of the unit cube, (P, S, coordinates); those of a row have the first `shared` in common."""
    rng = np.random.default_rng(seed)
    unit = np.clip(rng.uniform(-FACE_SHARE, 1 + FACE_SHARE, shape), 0.0, 1.0)
    unit[..., :shared] = unit[:, :1, :shared]
    return unit


def climb(
    value: Callable[[np.ndarray], np.ndarray],
    place: np.ndarray,
    height: np.ndarray,
    *,
    seed: int,
    trials: int,
    rounds: int,
    shared: int = 0,
) -> tuple[np.ndarray, float]:
    """The highest place that hill climbs with shrinking steps reach, and its height.

    Args:
        value: (trials, S, coordinates) in the unit cube → (trials, S) heights, −inf where there is none.
        place: (S, coordinates), where the climbs begin.
        height: (S,), of these.
        seed: of the steps.
        trials: steps that each climb tries in a round.
        rounds: of every climb.
        shared: so many first coordinates are the same in the trials of one climb and round: one problem, say, which is
            dear to set up, at many settings.
    """
    rng = np.random.default_rng(seed)
    for width in tracked(np.geomspace(*WIDTHS, rounds)):
        trial = np.clip(place + width * rng.standard_normal((trials, *place.shape)), 0.0, 1.0)
        snapped = rng.random(trial.shape) < SNAP_SHARE
        trial = np.where(snapped, np.round(trial), trial)
        if shared:
            held = rng.random(len(place)) < HOLD_SHARE
            trial[..., :shared] = np.where(held[:, None], place[:, :shared], trial[0, :, :shared])
        found = value(trial)
        best = found.argmax(0), np.arange(len(place))
        better = found[best] > height
        place = np.where(better[:, None], trial[best], place)
        height = np.where(better, found[best], height)
    return place[height.argmax()], float(height.max())


def refine(
    value: Callable[[np.ndarray], np.ndarray], place: np.ndarray, height: float, *, rounds: int, shared: int
) -> tuple[np.ndarray, float]:
    """The highest place that steps along one coordinate at a time reach from a place, steps shrinking, and its height.

    Args:
        value: as of `climb`.
        place: (coordinates,), where it begins.
        height: of the place.
        rounds: of steps up and down along every coordinate.
        shared: as of `climb`.
    """
    for width in tracked(np.geomspace(*REFINED, rounds)):
        for first, last in [*((k, k + 1) for k in range(shared)), (shared, len(place))]:
            steps = width * np.repeat(np.eye(len(place))[first:last], 2, axis=0)
            steps[1::2] *= -1
            # Coordinates of a problem are tried one by one, for trials of one call share it.
            for trial in [steps] if first == shared else steps[:, None]:
                trials = np.clip(place + trial, 0.0, 1.0)
                found = value(trials[:, None])[:, 0]
                if found.max() > height:
                    place, height = trials[found.argmax()], float(found.max())
    return place, height


def log_range(ends: tuple[float, float], unit: Any) -> Any:
    """Map the unit interval to a range, log-uniformly."""
    return ends[0] * (ends[1] / ends[0]) ** np.asarray(unit)
