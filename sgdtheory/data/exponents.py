"""Capacity and source exponents: power laws through a spectrum and its signal, with intervals that admit a misfit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from sgdtheory.data.cross_fit import Spectrum
from sgdtheory.fits import misfit_variance

BINS_PER_DOUBLING = 4
STEPS = 60  # A fit stops after this many Gauss–Newton steps.
ROUNDS = 4  # The fit is repeated this often, each time with the noise and scatter that the fit before leads to.
LONGEST_STEP = 0.5  # A step changes log amplitude and exponent by at most this.
LARGEST_EXPONENT = 30.0
FEWEST_DIRECTIONS = 4
BLURRED = 0.3
LEFT_BIAS = 1 / 3  # Intervals allow for this fraction of a bias to remain after its correction.


@dataclass(frozen=True)
class Exponent:
    """An exponent of a power law in the number i of the direction.

    Attributes:
        value: of the exponent; nan where too few directions are resolved.
        interval: that contains it; infinite where it is not resolved.
        range: first and last direction i that were fitted.
        scatter: how far the spectrum lies from the power law beyond sampling, standard deviation of its logarithm.
        amplitude: of the law, its value at i = 1.
    """

    value: float
    interval: tuple[float, float]
    range: tuple[int, int]
    scatter: float
    amplitude: float = float("nan")

    def __float__(self) -> float:
        return self.value


class Bins(NamedTuple):
    """Neighbouring directions, evenly in log i.

    Attributes:
        first, last: (K,) of their numbers i.
        log_index: (K,) mean of log i.
        size: (K,) how many.
    """

    first: np.ndarray
    last: np.ndarray
    log_index: np.ndarray
    size: np.ndarray

    def mean(self, values: np.ndarray) -> np.ndarray:
        """(K,) of values that are in the order of i."""
        total = np.concatenate([[0.0], np.cumsum(values)])
        return (total[self.last] - total[self.first - 1]) / self.size


def bins_within(first: int, last: int) -> Bins:
    """Bins of the directions first … last."""
    count = max(2, round(BINS_PER_DOUBLING * np.log2((last + 1) / first)))
    ends = np.unique(np.round(np.geomspace(first, last + 1, count + 1))).astype(int)
    start, stop = ends[:-1], ends[1:] - 1
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, last + 1)))])
    size = stop - start + 1
    return Bins(start, stop, (logs[stop] - logs[start - 1]) / size, size.astype(float))


def mean_log(bins: Bins, spectrum: Spectrum) -> np.ndarray:
    """(K,) mean of log λ."""
    return bins.mean(np.log(np.maximum(spectrum.eigenvalues, 1e-300)))


def resolved_directions(whole: Spectrum, left_out: Sequence[Spectrum], most: int) -> int:
    """Return the number of leading directions, up to `most`, with a standard error of log λ of at most `BLURRED`.

    The standard error is that of the direction's bin.

    At the end of a spectrum of real data few rows may make up a direction.
    """
    bins = bins_within(1, most)
    errors = np.sqrt((len(left_out) - 1) * np.var([mean_log(bins, each) for each in left_out], axis=0))
    blurred = np.flatnonzero((errors > BLURRED) & (bins.last > FEWEST_DIRECTIONS))
    return int(bins.last[blurred[0]] - bins.size[blurred[0]]) if blurred.size else most


class Line(NamedTuple):
    """A weighted fit: what it found, and how it weighs the bins.

    Attributes:
        exponent: of i, with its sign turned.
        fitted: (K,) values of the law.
        gain: (K,) by how much the exponent moves with each value.
    """

    exponent: float
    fitted: np.ndarray
    gain: np.ndarray


def log_line(bins: Bins, values: np.ndarray, variance: np.ndarray) -> Line:
    """`log λ = c − a log i`, by least squares with weights."""
    weight = 1 / variance
    centred = bins.log_index - weight @ bins.log_index / weight.sum()
    gain = -weight * centred / (weight @ centred**2)
    exponent = float(gain @ values)
    level = weight @ (values + exponent * bins.log_index) / weight.sum()
    return Line(exponent, level - exponent * bins.log_index, gain)


def level_line(bins: Bins, values: np.ndarray, variance: np.ndarray, square: float, guess: float) -> Line:
    """`s = A i^−b` by the values themselves, which noise may make negative, with scatter τ² in their logarithm.

        Σ_k (s_k − f_k)/(V_k + τ² f_k s_k)^½ · f_k/(V_k + τ² f_k²)^½ · (1, log i_k) = 0

    Without noise the first factor is `2 sinh(log(s/f)/2)/τ`, as even about the law as a logarithm; without scatter
    these are weighted least squares.
    """
    level, exponent = float(np.log(max(values[0], 1e-6 * np.abs(values).max(), 1e-300))), guess
    positive, gain = np.maximum(values, 0.0), np.zeros_like(values)
    for _ in range(STEPS):
        fitted = np.exp(level - exponent * bins.log_index)
        slopes = np.stack([np.ones_like(fitted), -bins.log_index], axis=1)
        slopes = slopes * (fitted / np.sqrt(variance + square * fitted**2))[:, None]
        solution = np.linalg.pinv(slopes) / np.sqrt(variance + square * fitted * positive)
        step = np.clip(solution @ (values - fitted), -LONGEST_STEP, LONGEST_STEP)
        level, exponent, gain = level + step[0], exponent + step[1], solution[1]
        exponent = float(np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT))
        if np.abs(step).max() < 1e-9:
            break
    return Line(exponent, np.exp(level - exponent * bins.log_index), gain)


def misfit(residuals: np.ndarray, variance: np.ndarray, scale: np.ndarray) -> float:
    """τ² with `Σ r²/(V + τ² scale²) = K − 2`: scatter beyond sampling (Mandel and Paule 1970), 0 if there is none."""
    squares = (residuals / scale) ** 2
    return misfit_variance(lambda weights: float(weights @ squares), np.sqrt(variance) / scale, residuals.size - 2)


def capacity_exponent(
    whole: Spectrum, left_out: Sequence[Spectrum], bins: Bins, spread: float, level: float
) -> Exponent:
    """a of `λ_i ∝ i^−a`; its bias, of order i/N, is taken off by the jackknife."""
    variance = spread / (whole.rows * bins.size)

    def values(spectrum: Spectrum) -> np.ndarray:
        return mean_log(bins, spectrum)

    first = log_line(bins, values(whole), variance)
    square = misfit(values(whole) - first.fitted, variance, np.ones_like(variance))
    variance = variance + square

    def exponent(spectrum: Spectrum) -> float:
        return log_line(bins, values(spectrum), variance).exponent

    line, weights = log_line(bins, values(whole), variance), 1 / variance
    found = jackknife(exponent, whole, left_out)
    value = found.value - found.bias
    amplitude = float(np.exp(np.average(values(whole) + value * bins.log_index, weights=weights)))
    return _interval(value, found, float(np.sqrt(square) * np.linalg.norm(line.gain)), bins, square, amplitude, level)


def source_exponent(whole: Spectrum, left_out: Sequence[Spectrum], bins: Bins, guess: float, level: float) -> Exponent:
    """b of `s_i ∝ i^−b`, fitted to the values themselves: directions in which noise drowns it weigh nothing."""
    noise, values, square = whole.square / whole.rows, bins.mean(whole.signal), 0.0
    fitted = np.maximum(values, 0.0)
    for _ in range(ROUNDS):
        variance = (2 * fitted * noise + noise**2) / bins.size
        fitted = level_line(bins, values, variance, square, guess).fitted
        resolved = fitted > 2 * np.sqrt(variance)
        if resolved.sum() > 2:
            square = misfit((values - fitted)[resolved], variance[resolved], fitted[resolved])
    if resolved.sum() < 2:
        return Exponent(float("nan"), (-np.inf, np.inf), (int(bins.first[0]), int(bins.first[0])), 0.0)

    def exponent(spectrum: Spectrum) -> float:
        return level_line(bins, bins.mean(spectrum.signal), variance, square, guess).exponent

    line = level_line(bins, values, variance, square, guess)
    found = jackknife(exponent, whole, left_out)
    shown = Bins(*(part[: np.flatnonzero(resolved)[-1] + 1] for part in bins))
    misfit_error = float(np.sqrt(square) * np.linalg.norm(line.gain * line.fitted))
    amplitude = float(line.fitted[0] * np.exp(line.exponent * bins.log_index[0]))
    return _interval(found.value, found, misfit_error, shown, square, amplitude, level)


class Jackknife(NamedTuple):
    """A number, the bias that leaving groups out shows, and its standard error."""

    value: float
    bias: float
    error: float
    groups: int

    def quantile(self, level: float) -> float:
        """Return the quantile of Student's t for an interval of that level."""
        return float(stats.t.ppf((1 + level) / 2, self.groups - 2))


def jackknife(function: Callable[[Spectrum], float], whole: Spectrum, left_out: Sequence[Spectrum]) -> Jackknife:
    """Return the jackknife over G groups: bias (G − 1)(mean − value), variance (G − 1) times that of the values."""
    value, values = function(whole), np.array([function(each) for each in left_out])
    count = len(values)
    return Jackknife(value, (count - 1) * (values.mean() - value), float(np.sqrt((count - 1) * values.var())), count)


def _interval(
    value: float, found: Jackknife, misfit_error: float, bins: Bins, square: float, amplitude: float, level: float
) -> Exponent:
    error = float(np.sqrt(found.error**2 + (LEFT_BIAS * found.bias) ** 2 + misfit_error**2))
    reach, scatter = found.quantile(level) * error, float(np.sqrt(square))
    bounds = int(bins.first[0]), int(bins.last[-1])
    return Exponent(float(value), (float(value - reach), float(value + reach)), bounds, scatter, amplitude)
