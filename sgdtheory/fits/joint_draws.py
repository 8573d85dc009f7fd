"""Uncertainty of a law of the loss: refits to resampled residuals, settings held out, a test of the tie (T48)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from sgdtheory.fits.joint_shapes import LossLaw, LossShape, Settings, fitted_law

# Intervals come from this many refits to resampled residuals. An end of a 95% interval is then known to about a tenth
# of its distance from the estimate. With the free law the refits take 9 s for step-law's 157 settings.
DRAWS = 200
TESTED = 99  # The test of the tie resamples residuals this often, so that p is at least 0.01.
# A fit begins from this many random exponents too. From one start in two step-law's runs are fitted best.
STARTS = 8


@dataclass(frozen=True, eq=False)
class TunedTable:
    """Losses at the best learning rates, with their settings relative to the middle of the table.

    Attributes:
        settings: (n,) in logarithms, relative to the middle of the table.
        loss: (n,).
    """

    settings: Settings
    loss: np.ndarray

    @cached_property
    def pairs(self) -> np.ndarray:
        """Return the (n,) index of the pair of model size and data of each setting."""
        both = np.stack([self.settings.log_size, self.settings.log_samples])
        return np.unique(both, axis=1, return_inverse=True)[1].ravel()

    def fitted(self, shape: LossShape, start: np.ndarray | None = None) -> LossLaw:
        """Return the best law of a shape, from a start, the first values and some random ones."""
        low, first, high = shape.ranges
        starts = [first, *np.random.default_rng(0).uniform(low, high, (STARTS, low.size))]
        starts += [] if start is None else [start]
        return min((fitted_law(shape, self.settings, self.loss, each) for each in starts), key=lambda law: law.squares)

    def held_out(self, law: LossLaw, out: np.ndarray) -> np.ndarray:
        """Return relative errors of the losses `out`, (n,) of truth values, predicted from all others."""
        refit = fitted_law(law.shape, self.settings.where(~out), self.loss[~out], law.exponents)
        return np.log(refit.loss(self.settings.where(out)) / self.loss[out])

    def pairs_held_out(self, law: LossLaw) -> float:
        """Return the rms relative error where each pair of model size and data is left out in turn."""
        errors = [self.held_out(law, self.pairs == pair) for pair in range(self.pairs.max() + 1)]
        return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))

    def largest_held_out(self, law: LossLaw) -> float:
        """Return the rms relative error at the largest model size, predicted from smaller ones; nan of two sizes."""
        sizes = np.unique(self.settings.log_size)
        if sizes.size < 3:
            return float("nan")
        return float(np.sqrt(np.mean(self.held_out(law, self.settings.log_size == sizes[-1]) ** 2)))

    def chance_of_tie(self, tied: LossLaw, free: LossLaw, level: float, seed: int) -> float:
        """Return the p-value of a law with a tie, against the one in which it is free.

        The statistic is by what factor the sum of squares falls. Its distribution under the tie is that for resampled
        residuals.
        """
        tiny = 1e-300  # Losses without errors may follow a law exactly.
        losses, _ = resampled(self, tied, TESTED, level, seed)
        gains = []
        for loss in losses:
            two = [fitted_law(law.shape, self.settings, loss, law.exponents).squares for law in (tied, free)]
            gains.append(two[0] / max(two[1], tiny))
        gain = tied.squares / max(free.squares, tiny)
        return (1 + sum(each >= gain for each in gains)) / (TESTED + 1)


@dataclass(frozen=True, eq=False)
class Draws:
    """The fitted law, and others that the data admit.

    Attributes:
        law: the fitted law.
        laws: laws that are fitted to resampled residuals, as one with rows.
        others: laws of other shapes that predict left-out settings about as well.
        errors: (m,) a relative residual each, of a setting that is drawn at random.
        level: of intervals.
    """

    law: LossLaw
    laws: LossLaw
    others: tuple[LossLaw, ...]
    errors: np.ndarray
    level: float

    def estimated(self, quantity: Callable[[LossLaw], np.ndarray], *, new_run: bool = False) -> np.ndarray:
        """Return the (3, points) value of a quantity and the ends of its interval.

        The interval contains that of resampling, about this law and about each of the others.

        Args:
            quantity: (points,) of a law, or (m, points) of laws in rows; nan of a law that does not have it.
            new_run: whether it is the log loss of a new run, which has an error of its own.
        """
        here = np.ravel(quantity(self.law))
        several = quantity(self.laws).reshape(-1, here.size) + (self.errors[:, None] if new_run else 0.0)
        low, high = np.quantile(several, [(1 - self.level) / 2, (1 + self.level) / 2], axis=0)
        moved = np.array([np.zeros_like(here), *(np.ravel(quantity(each)) - here for each in self.others)])
        return np.stack([here, low + np.nanmin(moved, 0), high + np.nanmax(moved, 0)])


def resampled(table: TunedTable, law: LossLaw, number: int, level: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (number, n) losses of a law with resampled residuals, and (number,) single residuals.

    Residuals get random signs and are multiplied to the fitted losses. All residuals of a pair of model size and data
    get the same sign if there are enough pairs, since every law is an approximation and errs in the same direction
    there. They are enlarged to the variance that they are an estimate of, and by the quantile of t over that of the
    normal distribution: with pairs, the differences between pairs alone determine E, A, α and C.
    """
    random = np.random.default_rng(seed)
    fit = law.loss(table.settings)
    pairs = int(table.pairs.max()) + 1
    clusters = np.arange(fit.size)
    freedom = max(fit.size - law.shape.number_fitted, 1)
    if pairs >= 8:  # Fewer than eight pairs are too few clusters to resample: each residual then counts alone.
        clusters = table.pairs
        freedom = pairs - 4  # Differences between pairs determine E, A, α and C.
    tail = (1 + level) / 2
    enlarged = np.sqrt((clusters.max() + 1) / freedom) * special.stdtrit(freedom, tail) / special.ndtri(tail)
    rest = enlarged * np.log(table.loss / fit)
    signs = random.choice([-1.0, 1.0], (number, clusters.max() + 1))[:, clusters]
    return fit * np.exp(signs * rest), random.choice(np.concatenate([rest, -rest]), number)


def drawn(table: TunedTable, law: LossLaw, others: tuple[LossLaw, ...], level: float, seed: int) -> Draws:
    """Fit the law to resampled residuals.

    Each fit begins twice, at the law and at random exponents, and the second is taken if it fits as well up to what
    noise explains. So exponents that the data do not determine come out anywhere.
    """
    low, _, high = law.shape.ranges
    losses, errors = resampled(table, law, DRAWS, level, seed)
    starts = np.random.default_rng(seed + 1).uniform(low, high, (DRAWS, low.size))
    laws = []
    for loss, start in zip(losses, starts, strict=True):
        found, other = (fitted_law(law.shape, table.settings, loss, begin) for begin in (law.exponents, start))
        laws.append(other if other.squares <= found.squares * (1 + 1 / loss.size) else found)
    exponents = np.array([each.exponents for each in laws]).T[:, :, None]
    factors = np.array([each.factors for each in laws])[:, None]
    return Draws(law, LossLaw(law.shape, exponents, factors, float("nan")), others, errors, level)
