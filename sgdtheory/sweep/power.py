"""Which sweep decides: the power of the test that B* does not move with the size, from the scatter of a pilot."""

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

CELLS = 128  # of each of the two scatters' quantiles in the mean over what a sweep may find
WIDTHS, BATCHES, SEEDS = range(3, 13), range(4, 9), (1, 2, 3, 4, 6, 8)  # what is looked at
ENOUGH = 0.8
# Probability below which scatter is no chance. What is above by chance alone would be counted in a third of all pilots.
SEEN = 0.1


@dataclass(frozen=True)
class Scatter:
    """What log steps and log B* scatter by; standard deviations.

    Attributes:
        seeds: of the log steps of one seed around the laws, without what its own law would take up.
        rest: of log steps around the laws that more seeds do not average away: grids of the tuned fields, lack of fit.
        between: of log B* (or log b/a, by a method) between sizes beyond what the log steps' scatter makes.
        balance: b/a of the law of steps a + b/B.
        source: where the numbers come from.
    """

    seeds: float
    rest: float
    between: float
    balance: float
    source: str = "assumed"

    def of_steps(self, num_seeds: int) -> float:
        """Of the mean log steps of so many seeds around the laws."""
        return float(np.hypot(self.seeds / np.sqrt(num_seeds), self.rest))


class Verdicts(NamedTuple):
    """Probabilities of the verdicts of `size_dependence`."""

    holds: float
    fails: float
    inconclusive: float


class Design(NamedTuple):
    """Widths, batch sizes and seeds, and the probability of the verdict "holds" if B* does not move."""

    widths: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    num_seeds: int
    power: float

    @property
    def cells(self) -> int:
        """Tuned runs: widths times batch sizes times seeds; the grids of the tuned fields multiply them."""
        return len(self.widths) * len(self.batch_sizes) * self.num_seeds


def scatter_of(fit: SweepFit, method: Method = "law") -> Scatter:
    """The scatter of a sweep that has been fitted, with what seeds add told apart where there are two or more.

    s² = seeds²/n + rest² is the scatter of means over n seeds around the laws. seeds² is that of single seeds about the
    means, of which only what no law a + b/B takes up counts, as in s²: a seed that is slow at every batch size moves a
    and b alike, and neither B* nor the residuals. Where s² is below seeds²/n by chance, both estimate the same, and
    are pooled with their degrees of freedom. The part between sizes is what the Birge ratio has above 1, where it is so
    far above that an F test sees it too: by chance alone it is above 1 in a third of all pilots.

    Args:
        fit: of the sweep.
        method: by which B* is found whose scatter between sizes is asked for.

    Raises:
        ValueError: no group with four tuned batch sizes.
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
        found = fit.dependence[method]
        if stats.f.sf(found.birge**2, found.sizes.size - 2, found.freedom) < SEEN:
            between = float(np.sqrt(max(0.0, found.birge**2 - 1)) * np.mean(found.standard_errors))
    balances = [law.b / law.a for law in fit.laws if law.a > 0 and law.b > 0]
    if not balances:
        raise ValueError("a pilot needs a group whose steps fall with the batch size and have a plateau")
    return Scatter(of_seeds**0.5, rest**0.5, between, float(np.exp(np.mean(np.log(balances)))), "of the pilot")


def _of_seeds(fit: SweepFit) -> tuple[int, float, int]:
    """Number n of seeds, their variance around laws of their own, and its degrees of freedom; 1, 0, 0 of single seeds.

    Deviations of seeds from their means are projected on what is no change of log a and log b: the share of their
    variance that residuals of the means have, divided by n.
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
        share = law.a / law.predict(measurement.batch_sizes)  # ∂ log Y/∂ log a; the rest is ∂ log Y/∂ log b
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
    """How often `size_dependence` says what if log B* is a line in log width.

    Log steps scatter by s around a + b/B; log B* has the standard error e = s·|∂ log B*/∂ log Y| and scatters between W
    widths by √(e² + τ²). The slope is normal, s² and the squared scatter around the line are χ² with W(m − 2) and
    W − 2 degrees of freedom, all independent; the verdict is a function of the three (THEORY.md, T14). Of two widths it
    is "inconclusive".

    Args:
        widths: two or more different ones.
        batch_sizes: three or more at every width, four or more where there are two widths only.
        scatter: of the pilot, or assumed.
        num_seeds: runs that log steps are the mean of.
        slope: in truth.
        reference, overhead, margin, level, method: as of `size_dependence`.

    Raises:
        ValueError: too few widths or batch sizes, or none beyond B*, which is to be read off.
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
    place = (np.arange(CELLS) + 0.5) / CELLS
    freedom = x.size * (batches.size - 2)
    estimated = own * np.sqrt(stats.chi2.ppf(place, freedom) / freedom)[:, None]
    if x.size == 2:  # scatter between widths cannot be told from a slope
        return Verdicts(0.0, 0.0, 1.0)
    rest = around * np.sqrt(stats.chi2.ppf(place, x.size - 2) / (x.size - 2))[None, :]

    def half(level: float) -> np.ndarray:
        """(CELLS, CELLS) half width of the slope's interval."""
        wide = stats.t.ppf((1 + level) / 2, x.size - 2) * rest
        return np.maximum(stats.t.ppf((1 + level) / 2, freedom) * estimated, wide) / length

    error = max(around / length, 1e-12)
    inner, outer = margin - half(2 * level - 1), half(level)
    inside = inner > 0
    holds = np.where(inside, _between(-inner, inner, slope, error), 0.0)
    # "fails": 0 is outside of the interval, and the slope is not inside of what holds
    above = stats.norm.sf((np.maximum(outer, np.where(inside, inner, 0.0)) - slope) / error)
    below = stats.norm.cdf((-np.maximum(outer, np.where(inside, inner, 0.0)) - slope) / error)
    found = float(holds.mean()), float((above + below).mean())
    return Verdicts(*found, max(0.0, 1 - sum(found)))


def enough(
    widths: tuple[float, float],
    batch_sizes: tuple[float, float],
    scatter: Scatter,
    *,
    power: float = ENOUGH,
    **options: Any,
) -> Design | None:
    """The cheapest design that says "holds" with this probability if B* does not move; None if none is.

    >>> from sgdtheory.sweep import Scatter, enough
    >>> design = enough((32, 512), (16, 640), Scatter(seeds=0.05, rest=0.0, between=0.0, balance=100.0))
    >>> design.widths, design.num_seeds
    ((32, 128, 512), 1)

    3 to 12 widths and 4 to 8 batch sizes, spaced evenly in logs between the least and the greatest, and 1 to 8 seeds.

    Args:
        widths, batch_sizes: the least and the greatest.
        scatter: of the pilot, or assumed.
        power: probability.
        options: reference, overhead, margin, level, method of `verdict_probabilities`.
    """
    found = None
    for design in _designs(widths, batch_sizes):
        if found is not None and design.cells >= found.cells:
            continue
        holds = verdict_probabilities(
            design.widths,
            design.batch_sizes,
            scatter,
            num_seeds=design.num_seeds,
            **options,
        ).holds
        if holds >= power:
            found = design._replace(power=holds)
    return found


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
