"""Remarks on what stated errors of equivalents mean for the best γ and for B* (THEORY.md T37)."""

import numpy as np

from sgdtheory.critical.step_lines import Interpolant, Line
from sgdtheory.critical.tuned_equivalent import TunedEquivalent
from sgdtheory.critical.useful_batches import Useful

REMARKED = 0.05  # A larger relative error of a risk gives a remark; 20% more data are worth some 10%.
LOOKS = 512  # A line is evaluated at this many numbers of steps, evenly in logs.


def remark_on_rates(tuned: TunedEquivalent, batch: np.ndarray, steps: np.ndarray, error: np.ndarray) -> str:
    """Return what the largest of the stated errors of the risks at (P,) best γ means; empty where all are small."""
    worst = int(np.argmax(error))
    if error[worst] < REMARKED:
        return ""
    if not np.isfinite(error[worst]):
        return f"the stated error of the risk at γ* is infinite{_where(batch, steps, worst)}; simulate it"
    where = _where(batch, steps, worst)
    return f"the stated error of the risk at γ* is {_percent(error[worst])}{where}: {_why(tuned, batch, steps, error)}"


def remark_on_errors(tuned: TunedEquivalent, found: Useful, samples: float) -> str:
    """Return what the stated errors of the risks at B* and at the optimum mean for B*; empty where they are small.

    With both risks right to a share e, log R_opt is to where n steps and (1 + ω) D samples leave it ± log(1 + e).
    """
    both = found.best, found.largest
    batch = np.array([each.batch for each in both])
    steps = np.array([each.steps for each in both])
    rate = np.array([each.tuned.rate for each in both])
    _, error = tuned.exact(batch, rate, steps)
    largest = float(error.max())
    if largest < REMARKED:
        return ""
    if not np.isfinite(largest):
        places = " and at ".join(np.array(["the optimum", "B*"])[~np.isfinite(error)])
        return f"the stated error of the risk at {places} is infinite, so B* is unknown; simulate it"
    level = float(np.log(found.best.tuned.risk))
    ends = [_largest_within(found.line, found.best.steps, level + sign * np.log1p(largest)) for sign in (-1, 1)]
    low = max(np.floor(ends[0]), 1.0)
    high = max(min(np.floor(ends[1]), samples), found.largest.batch)
    return (
        f"the stated error of the risk at B* is {_percent(error[1])}, that of the optimal risk "
        f"{_percent(error[0])}: {_why(tuned, batch, steps, error)}; B* lies between {low:g} and {high:g}"
    )


def _where(batch: np.ndarray, steps: np.ndarray, k: int) -> str:
    return "" if batch.size == 1 else f", at batch_size {batch[k]:g} and {steps[k]:g} steps"


def _percent(error: float) -> str:
    return f"{100 * error:.2g}%" if error < 0.95 else f"a factor of {1 + error:.2g}"


def _why(tuned: TunedEquivalent, batch: np.ndarray, steps: np.ndarray, error: np.ndarray) -> str:
    k = int(np.argmax(error))
    shaken = tuned.field is not None and error[k] > tuned.field.error(float(steps[k]), float(batch[k]))
    why = (
        "single steps overshoot the optimum and return" if shaken else "the deterministic equivalent is inaccurate here"
    )
    return f"{why}; simulate it"


def _largest_within(line: Line, steps: float, level: float) -> float:
    """Samples over the fewest steps from 2 on, at most as many as given, at which a line is at most at a level; or 0.

    Between the numbers of steps at which it is known it is interpolated.
    """
    place = float(np.log(steps))
    line(place)
    places = np.linspace(np.log(2.0), max(place, np.log(2.0)), LOOKS)
    within = np.flatnonzero(Interpolant(line)(places) <= level)
    return line.samples / float(np.exp(places[within[0]])) if within.size else 0.0
