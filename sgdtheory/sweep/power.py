"""Design of sweeps: power of the test that B* does not move with the size, from the scatter of a pilot."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from sgdtheory._common.arguments import positive_array, positive_number, whole_number
from sgdtheory.fits import Convention, Method, StepsMeasurement, log_sensitivity
from sgdtheory.sweep.fit import SweepFit

CELLS = 128  # Probabilities are averaged over this many quantiles of each of the two estimated scatters.
WIDTHS, BATCHES, SEEDS = range(3, 13), range(4, 9), (1, 2, 3, 4, 6, 8)  # A design may have these numbers of each.
ENOUGH = 0.8  # A test conventionally has this power.
# Excess scatter counts as real at this significance level. Without a test, chance alone would produce some in a third
# of all pilots.
SEEN = 0.1


@dataclass(frozen=True)
class Scatter:
    """Standard deviations of log steps and log B*.

    Attributes:
        seeds: standard deviation of one seed's log steps around the laws, without the part that a law of its own would
            absorb.
        rest: standard deviation of log steps around the laws that more seeds do not reduce: grids of the tuned fields,
            lack of fit.
        between: standard deviation of log B* (or log b/a, depending on the method) between sizes, beyond what the
            scatter of log steps causes.
        balance: b/a of the law of steps a + b/B.
        source: origin of the numbers.
    """

    seeds: float
    rest: float
    between: float
    balance: float
    source: str = "assumed"

    def of_steps(self, num_seeds: int) -> float:
        """Return the standard deviation around the laws of mean log steps over this number of seeds."""
        return float(np.hypot(self.seeds / np.sqrt(num_seeds), self.rest))


class Verdicts(NamedTuple):
    """Probabilities of the verdicts of `size_dependence`."""

    holds: float
    fails: float
    inconclusive: float


class Design(NamedTuple):
    """A design of a sweep: widths, batch sizes and seeds, with the probability of "holds" if B* does not move."""

    widths: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    num_seeds: int
    power: float

    @property
    def cells(self) -> int:
        """Number of tuned runs: widths times batch sizes times seeds; the grids of the tuned fields multiply it."""
        return len(self.widths) * len(self.batch_sizes) * self.num_seeds


def scatter_of(fit: SweepFit, method: Method = "law") -> Scatter:
    """Estimate the scatter of a fitted sweep; with two or more seeds their part is separated from the rest.

    s² = seeds²/n + rest² is the variance of means over n seeds around the laws. seeds² is the variance of single seeds
    around these means, without the part that a law a + b/B of the seed would absorb: a seed that is slow at every batch
    size scales a and b alike, and changes neither B* nor the residuals. If s² is below seeds²/n by chance, both
    estimate the same variance, and are pooled with their degrees of freedom. The scatter between sizes is the excess of
    the Birge ratio over 1, and counts only if an F test is significant: by chance the ratio exceeds 1 in a third of all
    pilots.

    Args:
        fit: fit of the sweep.
        method: method for B*, whose scatter between sizes is estimated.

    Raises:
        ValueError: if no group has four tuned batch sizes.
    """
    freedom = sum(law.steps.size - 2 for law in fit.laws)
    if not fit.laws or freedom < 2:
        raise ValueError("a pilot needs four tuned batch sizes of a group for its scatter: extend its store")
    total = sum(float((law.residuals**2).sum()) for law in fit.laws) / freedom
    number, of_seeds, degrees = _of_seeds(fit)
    by_chance = of_seeds > 0 and stats.f.sf(total * number / of_seeds, freedom, degrees) > SEEN
    rest = 0.0 if by_chance else max(0.0, total - of_seeds / number)
    if degrees and not rest:
        of_seeds = (freedom * number * total + degrees * of_seeds) / (freedom + degrees)
    between = 0.0
    if method in fit.dependence and fit.dependence[method].sizes.size > 2:
        line = fit.dependence[method]
        if stats.f.sf(line.birge**2, line.sizes.size - 2, line.freedom) < SEEN:
            between = float(np.sqrt(max(0.0, line.birge**2 - 1)) * np.mean(line.standard_errors))
    balances = [law.b / law.a for law in fit.laws if law.a > 0 and law.b > 0]
    if not balances:
        raise ValueError("a pilot needs a group whose steps fall with the batch size and have a plateau")
    return Scatter(of_seeds**0.5, rest**0.5, between, float(np.exp(np.mean(np.log(balances)))), "of the pilot")


def _of_seeds(fit: SweepFit) -> tuple[int, float, int]:
    """Return the number n of seeds, their variance around laws of their own, and its degrees of freedom (else 1, 0, 0).

    Deviations of seeds from their means are projected onto the complement of changes of log a and log b. The variance
    that is left is n times the contribution of the seeds to the residuals of the means.
    """
    square, degrees, numbers = 0.0, 0, [1]
    for measurement, law in zip(fit.measurements, fit.laws, strict=True):
        points = {
            point.batch_size: point for point in fit.tuned.points if fit.tuned.name(point.group) == measurement.group
        }
        steps = [points[round(batch)].steps for batch in measurement.batch_sizes.tolist()]
        number = steps[0].size
        if number < 2 or any(each.size != number for each in steps):
            continue
        logs = np.log(np.array(steps))
        deviations = logs - logs.mean(axis=1, keepdims=True)
        share = law.a / law.predict(measurement.batch_sizes)  # ∂ log Y/∂ log a, and 1 − share is ∂ log Y/∂ log b.
        tangents = np.stack([share, 1 - share], axis=1)
        left = deviations - tangents @ (np.linalg.pinv(tangents) @ deviations)
        square += float((left**2).sum())
        degrees += (law.steps.size - 2) * (number - 1)
        numbers.append(number)
    return max(numbers), square / degrees if degrees else 0.0, degrees


def verdict_probabilities(
    widths: Sequence[float],
    batch_sizes: Sequence[float],
    scatter: Scatter,
    *,
    num_seeds: int = 1,
    slope: float = 0.0,
    reference: float | None = None,
    overhead: float = 0.2,
    margin: float = 0.2,
    level: float = 0.95,
    method: Method = "law",
) -> Verdicts:
    """Compute the probabilities of `size_dependence`'s verdicts if log B* is a line in log width.

    Log steps scatter by s around a + b/B. Then log B* has the standard error e = s·|∂ log B*/∂ log Y|, and scatters
    between W widths by √(e² + τ²). The estimated slope is normal, while s² and the squared scatter around the line are
    χ² with W(m − 2) and W − 2 degrees of freedom. The three are independent, and the verdict is a function of them
    (THEORY.md, T14). With two widths it is "inconclusive".

    Args:
        widths: two or more different widths.
        batch_sizes: three or more different batch sizes, the same at every width.
        scatter: scatter of a pilot, or an assumed one.
        num_seeds: number of seeds whose log steps are averaged.
        slope: true slope of log B* in log width.
        reference, overhead, margin, level, method: as for `size_dependence`.

    Raises:
        ValueError: if there are too few widths or batch sizes, or no batch size above B*.
    """
    x = np.log(positive_array("widths", widths))
    batches = np.sort(positive_array("batch_sizes", batch_sizes))
    if len(set(x)) < 2 or len(set(batches)) < 3:
        raise ValueError("widths must be at least two and batch_sizes at least three different ones")
    reference = float(batches[0]) if reference is None else positive_number("reference", reference)
    sensitivity = _sensitivity(tuple(batches.tolist()), scatter.balance, reference, overhead, method)
    if not np.isfinite(sensitivity):
        raise ValueError(f"batch_sizes must reach beyond B*, got {batches[-1]:g} as the largest; add larger ones")
    own = scatter.of_steps(whole_number("num_seeds", num_seeds, 1)) * sensitivity
    around = float(np.hypot(own, scatter.between))
    length = float(np.sqrt(((x - x.mean()) ** 2).sum()))
    quantile = (np.arange(CELLS) + 0.5) / CELLS
    freedom = x.size * (batches.size - 2)
    estimated = own * np.sqrt(stats.chi2.ppf(quantile, freedom) / freedom)[:, None]
    if x.size == 2:  # Two widths cannot distinguish scatter between widths from a slope.
        return Verdicts(0.0, 0.0, 1.0)
    rest = around * np.sqrt(stats.chi2.ppf(quantile, x.size - 2) / (x.size - 2))[None, :]

    def half(level: float) -> np.ndarray:
        """Return (CELLS, CELLS) half widths of the slope's interval."""
        by_scatter = stats.t.ppf((1 + level) / 2, x.size - 2) * rest
        return np.maximum(stats.t.ppf((1 + level) / 2, freedom) * estimated, by_scatter) / length

    error = max(around / length, 1e-12)
    inner, outer = margin - half(2 * level - 1), half(level)
    inside = inner > 0
    holds = np.where(inside, _between(-inner, inner, slope, error), 0.0)
    # The verdict is "fails" if the interval excludes 0 and the slope is not within the margin.
    above = stats.norm.sf((np.maximum(outer, np.where(inside, inner, 0.0)) - slope) / error)
    below = stats.norm.cdf((-np.maximum(outer, np.where(inside, inner, 0.0)) - slope) / error)
    decided = float(holds.mean()), float((above + below).mean())
    return Verdicts(*decided, max(0.0, 1 - sum(decided)))


def enough(
    widths: tuple[float, float],
    batch_sizes: tuple[float, float],
    scatter: Scatter,
    *,
    power: float = ENOUGH,
    **options: Any,
) -> Design | None:
    """Find the cheapest design whose verdict is "holds" with this probability if B* does not move; None if none is.

    >>> from sgdtheory.sweep import Scatter, enough
    >>> design = enough((32, 512), (16, 640), Scatter(seeds=0.05, rest=0.0, between=0.0, balance=100.0))
    >>> design.widths, design.num_seeds
    ((32, 128, 512), 1)

    The designs that are tried have 3 to 12 widths and 4 to 8 batch sizes, evenly spaced in their logarithms, and 1 to 8
    seeds.

    Args:
        widths, batch_sizes: smallest and largest.
        scatter: scatter of a pilot, or an assumed one.
        power: probability of the verdict "holds".
        options: reference, overhead, margin, level, method of `verdict_probabilities`.
    """
    cheapest = None
    for design in _designs(widths, batch_sizes):
        if cheapest is not None and design.cells >= cheapest.cells:
            continue
        holds = verdict_probabilities(
            design.widths,
            design.batch_sizes,
            scatter,
            num_seeds=design.num_seeds,
            **options,
        ).holds
        if holds >= power:
            cheapest = design._replace(power=holds)
    return cheapest


def _designs(widths: tuple[float, float], batch_sizes: tuple[float, float]) -> Iterator[Design]:
    for number, batches, seeds in itertools.product(WIDTHS, BATCHES, SEEDS):
        spaced = tuple(_spaced(*widths, number)), tuple(_spaced(*batch_sizes, batches))
        if len(set(spaced[0])) == number and len(set(spaced[1])) == batches:
            yield Design(*spaced, seeds, 0.0)


def _spaced(low: float, high: float, number: int) -> list[int]:
    return [round(each) for each in np.geomspace(low, high, number).tolist()]


@functools.lru_cache(maxsize=256)
def _sensitivity(
    batch_sizes: tuple[float, ...], balance: float, reference: float, overhead: float, method: Method
) -> float:
    batches = np.array(batch_sizes)
    measurement = StepsMeasurement("", float("nan"), batches, 1 + balance / batches)
    return log_sensitivity(measurement, Convention(reference, overhead), method)


def _between(low: np.ndarray, high: np.ndarray, center: float, error: float) -> np.ndarray:
    return stats.norm.cdf((high - center) / error) - stats.norm.cdf((low - center) / error)
