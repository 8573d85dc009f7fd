"""The law of the best learning rate in batch size and duration, with a kink at the critical batch size (THEORY.md T47).

    ln γ*(B, D) = A − c ln D + p ln (B^{−k} + B_k^{−k})^{−1/k},    B_k = B_0 D^κ N^ν,

with A for each group, usually each model size N. Without sizes ν = 0. Below the kink B_k the best rate rises like B^p
and falls with the duration like D^{−c}. Beyond it the rate no longer depends on B. The sharpness k of the kink is one
of `SHARPNESS`.

Residuals of ln γ* are assumed to be normal. Their variance is that about the law, which is fitted, and that which the
scatter of losses gives. Where the least loss is at an end of the learning rates, γ* lies beyond the middle, in log γ,
of that learning rate and its neighbour. The probability of that enters the likelihood.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize, special

from sgdtheory.fits.loss_noise import loss_noise
from sgdtheory.fits.tuned_loss import ABOVE, BELOW, CLIFF, TUNED, Cell, TunedLosses

# The fit tries these sharpnesses. With them the residuals of 155 best rates of step-law's runs are 0.180, 0.167, 0.164
# and 0.165. With 1 they are 0.203, and the kink lies at 41 sequences with p = 1.8.
SHARPNESS = 2.0, 4.0, 8.0, 16.0
# The standard deviation of ln γ* is no smaller: rates that follow a law exactly have no likelihood otherwise.
LEAST_DEVIATION = 1e-3
# Parameters are a level for each group, and then this many of all groups: c, p, ln B_k, κ, ν and the log standard
# deviation.
IN_COMMON = 6
# These indices of the common parameters count from the end.
FALL, RISE, KINK, KINK_POWER, SIZE_POWER, LOG_DEVIATION = range(-IN_COMMON, 0)


class BestRates(NamedTuple):
    """The best learning rates of n settings.

    Attributes:
        group: (n,) index of the group.
        log_batch, log_samples: (n,) ln B and ln D.
        log_size: (n,) ln N from the mean over groups on; 0 without sizes.
        log_rate: (n,) ln γ*, or the bound that is known of it.
        side: (n,) 0 where γ* is known, −1 where it is below the bound and 1 where it is above.
        error: (n,) standard deviation of ln γ* that the scatter of losses between runs makes.
    """

    group: np.ndarray
    log_batch: np.ndarray
    log_samples: np.ndarray
    log_size: np.ndarray
    log_rate: np.ndarray
    side: np.ndarray
    error: np.ndarray


def best_rates(groups: Sequence[TunedLosses]) -> BestRates:
    """Return the best learning rates of all settings with several rates.

    Beside a rate that diverged the best one is half-way to it.
    """
    found: list[tuple[float, ...]] = []
    log_sizes = np.log([group.size for group in groups])
    log_sizes = np.nan_to_num(log_sizes - log_sizes.sum() / max(log_sizes.size, 1))
    for index, group in enumerate(groups):
        variances = loss_noise(group).variances
        for cell in group.cells:
            state = group.state[cell.batch, cell.data]
            logs = np.log(group.batch_sizes[cell.batch]), np.log(group.samples[cell.data])
            where = index, *logs, log_sizes[index]
            if state in (TUNED, CLIFF):
                log_rate = np.log(group.learning_rate[cell.batch, cell.data])
                # Beside a cliff γ* is anywhere between the best of the rates and the next one: a half-width over √3.
                half = abs(log_rate - cell.log_rates[cell.log_losses.argmin()])
                error = half / np.sqrt(3) if state == CLIFF else _error(cell, float(variances[cell.batch]))
                found.append((*where, log_rate, 0, error))
            elif state == BELOW:
                found.append((*where, cell.log_rates[:2].mean(), -1, 0.0))
            elif state == ABOVE:
                found.append((*where, cell.log_rates[-2:].mean(), 1, 0.0))
    group, batch, samples, size, rate, side, error = np.array(found).reshape(-1, 7).T
    return BestRates(group.astype(int), batch, samples, size, rate, side.astype(int), error)


def _error(cell: Cell, variance: float) -> float:
    """Return the standard deviation of the lowest point of the parabola, to first order in errors of log losses.

    At most it is the range of the learning rates.
    """
    best = int(cell.log_losses.argmin())
    three = slice(best - 1, best + 2)
    x = cell.log_rates[three]
    y = cell.log_losses[three]
    if variance == 0 or x.size < 3 or not np.isfinite(y).all():
        return 0.0
    by_loss = np.linalg.inv(np.vander(x - x[1], 3))  # of curvature, slope and value
    curvature, slope, _ = by_loss @ y
    by_loss = (slope * by_loss[0] / curvature - by_loss[1]) / (2 * curvature)
    return float(min(np.sqrt(variance / cell.counts[three] @ by_loss**2), np.ptp(cell.log_rates)))


@dataclass(frozen=True, eq=False)
class RateLaw:
    """The law at its parameters.

    Attributes:
        levels: (groups,) A at ln D = `centre`.
        fall, rise: c and p.
        kink, kink_power, size_power: ln B_k at ln D = `centre` and the mean ln N, κ and ν.
        sharpness: k.
        log_deviation: log of the standard deviation of ln γ*.
        centre: the ln D from which durations are counted.
    """

    levels: np.ndarray
    fall: float
    rise: float
    kink: float
    kink_power: float
    size_power: float
    log_deviation: float
    sharpness: float
    centre: float

    def log_kink(self, log_samples: np.ndarray, log_size: np.ndarray | float = 0.0) -> np.ndarray:
        """Return ln B_k at ln D, and at ln N from the mean on."""
        return self.kink + self.kink_power * (log_samples - self.centre) + self.size_power * log_size

    def log_rate(
        self, group: np.ndarray, log_batch: np.ndarray, log_samples: np.ndarray, log_size: np.ndarray | float
    ) -> np.ndarray:
        """Return ln γ*."""
        below = _below(log_batch, self.log_kink(log_samples, log_size), self.sharpness)
        return self.levels[group] - self.fall * (log_samples - self.centre) + self.rise * below


def _below(log_batch: np.ndarray, log_kink: np.ndarray, sharpness: float) -> np.ndarray:
    """Return ln (B^{−k} + B_k^{−k})^{−1/k}, which is ln B below the kink and ln B_k beyond."""
    return -np.logaddexp(-sharpness * log_batch, -sharpness * log_kink) / sharpness


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of the law given best learning rates.

    Parameters are (A of each group, c, p, ln B_k at the centre, κ, ν, log standard deviation).

    Attributes:
        rates: the best learning rates.
        centre: the ln D from which durations are counted.
    """

    rates: BestRates
    centre: float

    @cached_property
    def duration(self) -> np.ndarray:
        """Return ln D from the centre on, (n,)."""
        return self.rates.log_samples - self.centre

    @cached_property
    def in_group(self) -> np.ndarray:
        """Return which rates are of which group, (n, groups), as numbers."""
        return np.eye(self.rates.group.max() + 1)[self.rates.group]

    @cached_property
    def several_durations(self) -> bool:
        """Tell whether D varies: without that neither c nor κ are fitted."""
        return np.ptp(self.duration[self.rates.side == 0]) > 0

    @cached_property
    def several_sizes(self) -> bool:
        """Tell whether ν is fitted: N varies, and D within a size, without which ν and κ are one."""
        known = self.rates.side == 0
        pairs = np.unique(np.stack([self.rates.log_size, self.duration])[:, known], axis=1)
        axes = np.vstack([np.ones(pairs.shape[1]), pairs])
        several = self.several_durations and np.unique(pairs[0]).size > 1
        return bool(several and np.linalg.matrix_rank(axes, tol=1e-6) == 3)

    @cached_property
    def number_fitted(self) -> int:
        """Return the number of fitted parameters of ln γ*: levels, p and ln B_k, with several durations c and κ, ν."""
        return self.in_group.shape[1] + (4 if self.several_durations else 2) + self.several_sizes

    @cached_property
    def clusters(self) -> np.ndarray:
        """Return the index of the pair of group and duration of each known rate."""
        pairs = np.stack([self.rates.group, self.rates.log_samples])[:, self.rates.side == 0]
        return np.unique(pairs, axis=1, return_inverse=True)[1].ravel()

    def law(self, parameters: np.ndarray, sharpness: float) -> RateLaw:
        """Return the law with these parameters."""
        fall, rise, kink, kink_power, size_power, log_deviation = map(float, parameters[FALL:])
        levels = parameters[:FALL]
        return RateLaw(levels, fall, rise, kink, kink_power, size_power, log_deviation, sharpness, self.centre)

    def slopes(self, law: RateLaw) -> np.ndarray:
        """Return the derivatives of the (n,) ln γ* by all parameters but the last, (n, groups + 5)."""
        kink = law.log_kink(self.rates.log_samples, self.rates.log_size)
        below = _below(self.rates.log_batch, kink, law.sharpness)
        by_kink = law.rise * special.expit(law.sharpness * (self.rates.log_batch - kink))
        by_powers = by_kink * self.duration, by_kink * self.rates.log_size
        return np.column_stack([self.in_group, -self.duration, below, by_kink, *by_powers])

    def deviations(self, law: RateLaw) -> np.ndarray:
        """Return the (n,) standard deviations of ln γ*: about the law, and by the scatter of losses."""
        return np.sqrt(np.exp(2 * law.log_deviation) + self.rates.error**2 + LEAST_DEVIATION**2)

    def loss(self, parameters: np.ndarray, sharpness: float) -> tuple[float, np.ndarray]:
        """Return minus the log likelihood, and its slopes."""
        law = self.law(parameters, sharpness)
        deviation = self.deviations(law)
        slopes = self.slopes(law)
        off = (self.rates.log_rate - slopes[:, : KINK + 1] @ parameters[:KINK]) / deviation
        side = self.rates.side
        known = side == 0
        beyond = -side * off  # by how much the law is on the side of the bound on which γ* is
        mills = np.sqrt(2 / np.pi) / special.erfcx(-beyond / np.sqrt(2))  # density over distribution function
        value = np.where(known, off**2 / 2 + np.log(deviation), -special.log_ndtr(beyond)).sum()
        by_law = np.where(known, -off, -side * mills) / deviation
        by_deviation = np.where(known, 1 - off**2, mills * beyond) @ (np.exp(law.log_deviation) / deviation) ** 2
        return float(value), np.append(by_law @ slopes, by_deviation)

    def climbed(self, start: np.ndarray, sharpness: float, kept: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the least loss near a start, and where, with the combinations `kept` (m, parameters) as they are."""
        if not self.several_durations:
            kept = np.vstack([kept, np.eye(start.size)[[FALL, KINK_POWER]]])
        if not self.several_sizes:
            kept = np.vstack([kept, np.eye(start.size)[[SIZE_POWER]]])
        free = linalg.null_space(kept) if len(kept) else np.eye(start.size)

        def loss(moved: np.ndarray) -> tuple[float, np.ndarray]:
            with np.errstate(all="ignore"):  # the first step of a line search may be huge
                value, slope = self.loss(start + free @ moved, sharpness)
            return value, slope @ free

        found = optimize.minimize(loss, np.zeros(free.shape[1]), jac=True, method="BFGS")
        return float(found.fun), start + free @ found.x

    def designs(self, sharpness: float) -> Iterator[tuple[float, float, np.ndarray]]:
        """Yield ln B_k and κ on a grid, and the derivatives of the known ln γ* by the levels, c and p there.

        The likelihood is climbed from the best of them. From any of the best 24 it became no larger in 100 simulated
        tables with a kink, and its logarithm larger by at most 0.008 in 40 power laws and tables with bounds.
        """
        known = self.rates.side == 0
        low = self.rates.log_batch.min()
        high = self.rates.log_batch.max()
        powers = np.linspace(-0.25, 1.5, 15) if self.several_durations else [0.0]
        for kink in low + np.linspace(0.0, 1.0, 13) * (high - low):
            for power in powers:
                below = _below(self.rates.log_batch, kink + power * self.duration, sharpness)
                yield kink, power, np.column_stack([self.in_group, -self.duration, below])[known]

    def start(self, sharpness: float) -> np.ndarray:
        """Return the parameters at the best place of a first search, by least squares of the known rates."""
        log_rate = self.rates.log_rate[self.rates.side == 0]
        found = []
        for kink, power, design in self.designs(sharpness):
            numbers = np.linalg.lstsq(design, log_rate)[0]
            deviation = np.sqrt(np.mean((log_rate - design @ numbers) ** 2))
            found.append((deviation, np.array([*numbers, kink, power, 0.0, np.log(max(deviation, LEAST_DEVIATION))])))
        return min(found, key=lambda each: each[0])[1]

    def best(self) -> tuple[float, np.ndarray, float]:
        """Return the least loss, its parameters and the sharpness."""
        nothing = np.empty((0, self.in_group.shape[1] + IN_COMMON))
        tried = [(*self.climbed(self.start(k), k, nothing), k) for k in SHARPNESS]
        return min(tried, key=lambda each: each[0])

    @cached_property
    def power_law(self) -> tuple[float, np.ndarray]:
        """Return the least loss and the parameters of a power law in B, without a kink."""
        return self._without_kink([KINK, KINK_POWER, SIZE_POWER])

    @cached_property
    def plateau(self) -> tuple[float, np.ndarray]:
        """Return the least loss and the parameters of a law that does not depend on B."""
        return self._without_kink([KINK, KINK_POWER, SIZE_POWER, RISE])

    def _without_kink(self, kept: list[int]) -> tuple[float, np.ndarray]:
        far = self.rates.log_batch.max() + 20.0
        start = np.array([*np.full(self.in_group.shape[1], self.rates.log_rate.mean()), 0.0, 0.0, far, 0.0, 0.0, 0.0])
        return self.climbed(start, SHARPNESS[0], np.eye(start.size)[kept])
