"""The law of what repeated data are worth, of Muennighoff et al. (2023, arXiv:2305.16264), and its fit."""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

LANGUAGE_MODELS = 15.4  # R, as they fit it


def repeated(passes: Any, worth_left: float) -> Any:
    """`E = 1 + R (1 − e^{−(K − 1)/R})`, their (5), with U = N: as many times N fresh rows are worth K passes over N."""
    return 1 + worth_left * -np.expm1(-(passes - 1) / worth_left)


def fitted(passes: np.ndarray, worth: np.ndarray) -> tuple[float, float]:
    """R, and the largest relative error of E, which it makes least."""

    def off(log_r: float) -> float:
        return float(np.abs(np.log(repeated(passes, np.exp(log_r)) / worth)).max())

    grid = np.linspace(np.log(0.05), np.log(300), 60)
    near = grid[np.argmin([off(each) for each in grid])]
    found: Any = minimize_scalar(off, bounds=(near - 0.2, near + 0.2), method="bounded")
    return float(np.exp(found.x)), float(found.fun)
