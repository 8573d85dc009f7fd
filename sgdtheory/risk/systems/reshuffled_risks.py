"""Risks of reshuffled epochs over a sample or in the mean over samples, and what they are right to (THEORY.md T42 (c)).

With D_m and D_v what the risk of the mean weights and that of their scatter change by when the fourth moments are taken
to leading order in the number of directions, the error is stated as 2 (D_m² + D_v² + E²)^½. E² is

- of one sample `S² + (V (2 + 2ε + log(R_0/R))/√(N d_eff))²`: the rows' fourth moments between different eigenvectors of
  Ĥ, which theory leaves out, turn the mean weights by a random vector of size Δ in the directions v_j,

      Δ_j = ½ ε √((1/d_eff + 2w_j/tr Ĥ)/N) · γ √w_j Σ_t |1 − γw_j|^{n−1−t} √L(t),
      S² = 4 Σ_j (v_jᵀH(w − w*))² Δ_j² + (Σ_j v_jᵀHv_j Δ_j²)²,

  and change the risk V of the scatter by relative order `1/√(N d_eff)`, and the rate at which it falls by as much where
  little is left of the initial risk R_0; `ε = γ tr Ĥ/B · (N − B)/(N − 1)`, d_eff = (tr Ĥ)²/tr Ĥ², L the training loss;
- of the mean over samples the mean of `R(γ(1 ± √(2/N))) − R(γ)`: an eigenvalue of N rows scatters by √(2/N) about the
  one that theory has, which is as if γ did.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Course, LastIterate
from sgdtheory.problems import Drivers, RowSample
from sgdtheory.risk.systems.reshuffled import Moments, Sample, epoch_steps, reshuffled_passes

MOST_EPOCHS = 2e4  # Epochs are taken one by one: more would take minutes.
# The stated error is this many times the size of what theory leaves out. Errors of a given size scatter: in 600 random
# settings 1.3% of the risks were beyond what is stated with 1.3, 0.9% with 1.5, 0.5% with 2 and with 2.5.
SURE = 2.0
# An error above this share of the risk is stated as inf: theory does not know the size of the risk there.
LARGEST_STATED = 0.5
ROUNDING = 1e-10  # A smaller error is stated as 0, as everywhere in the library: full batches have no other.
GRID = 40  # A sum over steps has this many points in time; losses are smooth in the logarithm: 20 give the same to 5%.


class Seen(NamedTuple):
    """Responses and risks of iterate and average of a run after K numbers of steps.

    Attributes:
        response: (2, K, J) f.
        total: (2, K) Σ h/(n w) m.
        of_mean: (2, K) what of that is the mean path's.
        error: (2, K) relative errors of numerics, and of the theory of reshuffled epochs.
    """

    response: np.ndarray
    total: np.ndarray
    of_mean: np.ndarray
    error: np.ndarray

    def parts(self, drivers: Drivers) -> np.ndarray:
        """Return (2, 2, K) risk of the mean path and of what scatters, of iterate and average."""
        rows = zip(self.response, self.total - self.of_mean, strict=True)
        return np.array([as_parts(drivers.mean_risk(each), scattered) for each, scattered in rows])


def as_parts(mean: np.ndarray, scattered: np.ndarray) -> np.ndarray:
    """Return (2, S); what is beyond the range of a float is inf."""
    parts = np.array([mean, np.maximum(scattered, 0.0)])
    return np.where(np.isfinite(mean + scattered), parts, np.inf)


def reshuffled(drivers: Drivers, course: Course, stops: np.ndarray, estimate: bool = True) -> Seen:
    """Return the risks of epochs in a new order each.

    Args:
        drivers: of the sample, or of the mean over samples.
        course: of plain SGD.
        stops: (K,) numbers of steps.
        estimate: whether errors are stated, which takes two to four times as long; 0 otherwise.

    Raises:
        ValueError: too many steps in an epoch, or epochs.
    """
    length = epoch_steps(drivers.num_samples, course.batch)
    if length and course.num_steps > MOST_EPOCHS * length:
        raise ValueError(
            f"num_samples must be at most {MOST_EPOCHS:g} reshuffled passes, got {course.num_steps / length:.3g}; "
            "replacement=True takes any number"
        )

    def runs(rate: float, own: float | None = None) -> Seen:
        return _runs(drivers, course, stops, rate, own)

    result = runs(course.rate)
    return result._replace(error=_errors(drivers, course, stops, result, runs)) if estimate else result


def _runs(drivers: Drivers, course: Course, stops: np.ndarray, rate: float, own: float | None) -> Seen:
    """Return the risks at a learning rate, with the rows' own fourth moments or given ones."""
    sample = Sample(
        drivers.weight, drivers.count, drivers.excess, drivers.least_loss, drivers.num_samples, drivers.fourth
    )
    averaged = course.algorithm.average != LastIterate()
    later = [int(stop) for stop in stops if stop > 0]
    result = reshuffled_passes(sample, batch=course.batch, rate=rate, steps=later, averaged=averaged, own=own)
    begin = [Moments(np.ones_like(drivers.weight), drivers.excess)] * (stops.size - len(later))
    unknown = [Moments(*(np.nan * values for values in each)) for each in begin] if averaged else begin
    rows = begin + [each.last for each in result], unknown + [each[int(averaged)] for each in result]
    response = np.array([[each.response for each in row] for row in rows])
    total = np.array([[each.loss for each in row] for row in rows]) @ drivers.seen
    return Seen(response, total, response**2 @ (drivers.excess * drivers.seen), np.zeros(total.shape))


def _errors(drivers: Drivers, course: Course, stops: np.ndarray, result: Seen, runs: Callable[..., Seen]) -> np.ndarray:
    """Return (2, K) stated relative errors."""
    parts = result.parts(drivers)
    total = parts.sum(1)
    leading = runs(course.rate, 0.0).parts(drivers)
    square = ((parts - leading) ** 2).sum(1)
    if isinstance(drivers, RowSample):
        square += _of_one_sample(drivers, course, stops, result.response, parts)
    else:
        apart = np.sqrt(2 / drivers.num_samples)
        around = [runs(course.rate * (1 + side * apart)).parts(drivers).sum(1) for side in (1, -1)]
        square += (np.mean(around, axis=0) - total) ** 2
    share = SURE * np.sqrt(square) / total
    known = share < LARGEST_STATED
    # A share e of the risk that theory gives is at most e/(1 − e) of the true one.
    stated = np.where(known, share / np.where(known, 1 - share, 1.0), np.inf)
    return np.where((share < ROUNDING) | (stops == 0), 0.0, stated)


def _of_one_sample(
    drivers: RowSample, course: Course, stops: np.ndarray, response: np.ndarray, parts: np.ndarray
) -> np.ndarray:
    """Return (2, K) E²: what correlations of different eigenvectors, which theory leaves out, change."""
    number = drivers.num_samples
    batch = min(course.batch, number)
    trace = float(drivers.weight.sum())
    directions = trace**2 / float(drivers.weight @ drivers.weight)
    strength = course.rate * trace / batch * (number - batch) / max(number - 1, 1)
    moved = np.array([_moved(drivers, course, stop) for stop in stops]).swapaxes(0, 1)
    size = 0.5 * strength * np.sqrt((1 / directions + 2 * drivers.weight / trace) / number)
    square = (size * moved) ** 2
    mean = 4 * (drivers.risk_slope(response) ** 2 * square).sum(-1) + (square @ drivers.test) ** 2
    initial = float(drivers.mean_risk(np.ones_like(drivers.weight)))
    fallen = np.maximum(np.log(initial / parts.sum(1)), 0.0)
    return mean + (parts[:, 1] * (2 + 2 * strength + fallen)) ** 2 / (number * directions)


def _moved(drivers: RowSample, course: Course, steps: float) -> np.ndarray:
    """(2, J) `γ √w Σ_t |1 − γw|^{n−1−t} √L(t)` of the iterate, and the mean of that over the run of the average."""
    if steps < 1:
        return np.zeros((2, drivers.weight.size))
    ends = np.unique(np.append(0.0, np.geomspace(1.0, steps, GRID)))
    middle = np.sqrt(ends[1:] * np.maximum(ends[:-1], 0.5))
    rate = course.rate * drivers.weight
    decay = np.log(np.maximum(np.abs(1 - rate), np.finfo(float).tiny))
    begun = np.maximum(middle - 0.5, 0.0)  # the loss of a step is that at its beginning
    loss = drivers.least_loss + np.exp(2 * np.multiply.outer(begun, decay)) @ drivers.excess
    left = np.exp(np.multiply.outer(steps - middle, decay))
    # Σ |1 − γw|^{n−1−t} over the steps between two points is exact: the last few of them may hold all of the sum.
    width, lost = np.diff(ends)[:, None], -np.expm1(decay)
    flat = lost < ROUNDING
    ended = np.diff(np.exp(np.multiply.outer(steps - ends, decay)), axis=0) / np.where(flat, 1.0, lost)
    ended = np.where(flat, width * left, ended)
    shared = np.minimum((1 - left) / np.maximum(rate * steps, np.finfo(float).tiny), (1 - middle / steps)[:, None])
    average = ended if course.algorithm.average == LastIterate() else width * np.abs(shared)
    return course.rate * np.sqrt(drivers.weight) * (np.sqrt(loss) @ np.array([ended, average]))
