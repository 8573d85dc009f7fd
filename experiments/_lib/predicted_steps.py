"""Steps to a target at other batch sizes, predicted from loss curves at one and measured, and what they say of B*."""

from typing import NamedTuple

import numpy as np
from scipy import stats

import sgdtheory as st

NETWORKS = "SGD", "Adam"
AS_SGD = "Adam, as SGD"  # the control: fitted and predicted as if a step did not depend on the batch size
ONE_RATE = ", fitted at one γ"
PLAIN = st.Convention(reference=None)


class Row(NamedTuple):
    """Steps to a target at one setting."""

    case: str
    trial: int
    target: float
    batch_size: float
    learning_rate: float
    measured: float
    predicted: float


def problem_name(problem: tuple[float, float, float], alone: bool = False) -> str:
    """Return the name of a problem of the theory, fitted with the grid's largest γ among the curves or with one γ."""
    capacity, source, noise = problem
    return f"theory, a = {capacity:g}, b = {source:g}, σ² = {noise:g}" + ONE_RATE * alone


class Tuned(NamedTuple):
    """Steps at the best learning rate of the grid, (m,) each, of one trial and target."""

    batch_size: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray


def tuned(rows: list[Row], case: str, trial: int, target: float) -> Tuned:
    """Return the rows of batch sizes at which both reach the target, each at its own best learning rate."""
    own = [row for row in rows if (row.case, row.trial, row.target) == (case, trial, target)]
    found = []
    for batch in sorted({row.batch_size for row in own}):
        pair = np.array([(row.measured, row.predicted) for row in own if row.batch_size == batch])
        best = np.nan_to_num(pair, nan=np.inf).min(0)
        if np.isfinite(best).all():
            found.append((batch, *best))
    return Tuned(*np.array(found).reshape(-1, 3).T)


def critical_ratio(found: Tuned) -> float:
    """log of B* by predicted over B* by measured steps, against the smallest batch size; nan with fewer than four."""
    if found.batch_size.size < 4:
        return float("nan")
    sizes = [
        st.fit_steps_law(found.batch_size, steps).critical_batch_size(convention=PLAIN)
        for steps in (found.predicted, found.measured)
    ]
    return float(np.log(sizes[0] / sizes[1])) if np.isfinite(sizes).all() else float("nan")


def slope(rows: list[Row], case: str, trial: int, target: float, rate: float) -> float:
    """Return the slope of log(predicted/measured steps) in log B at one γ; nan with fewer than three batch sizes."""
    own = [
        (row.batch_size, row.predicted / row.measured)
        for row in rows
        if (row.case, row.trial, row.target, row.learning_rate) == (case, trial, target, rate)
        and np.isfinite(row.predicted / row.measured)
    ]
    if len(own) < 3:
        return float("nan")
    batch, ratio = np.log(own).T
    return float(np.polyfit(batch, ratio, 1)[0])


def over_trials(values: list[float]) -> tuple[float, tuple[float, float]]:
    """Mean and its 95% interval by Student's t; nan are left out."""
    known = np.array([value for value in values if np.isfinite(value)])
    if known.size < 2:
        return float("nan"), (float("nan"), float("nan"))
    half = stats.t.ppf(0.975, known.size - 1) * known.std(ddof=1) / np.sqrt(known.size)
    return float(known.mean()), (float(known.mean() - half), float(known.mean() + half))
