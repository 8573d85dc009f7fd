"""The best learning rate in batch size and duration from a grid of losses, and the critical batch size at its kink."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sgdtheory._common.arguments import positive_array, share_between_0_and_1, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.loss_grid import LossGrid, fit_loss_grid
from sgdtheory.fits.loss_noise import tuned_groups
from sgdtheory.fits.rate_intervals import RateIntervals, chance_without_kink, hull
from sgdtheory.fits.rate_law import (
    FALL,
    KINK,
    KINK_POWER,
    RISE,
    SIZE_POWER,
    BestRates,
    Likelihood,
    RateLaw,
    best_rates,
)
from sgdtheory.fits.tuned_loss import CLIFF, TUNED, TunedLosses

# A power law without a kink is refuted if its p-value is at most this, whatever the level of the intervals.
REFUTED = 0.05
Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class LossComparison:
    """B* from losses at a target, and the kink of the best learning rate at the data that the target takes.

    Attributes:
        group, target: name of the group, and the loss.
        samples: D to the target at the batch size from which overheads are counted.
        counted_from: that batch size: the smallest measured one, or the best one.
        critical_batch_size, interval: B* of the steps to the target.
        kink: B_k(D).
    """

    group: str
    target: float
    samples: float
    counted_from: float
    critical_batch_size: float
    interval: Interval
    kink: float


@dataclass(frozen=True, eq=False)
class LearningRateLaw(Shown):
    """The law of the best learning rate; made by `fit_rates`, drawn by `st.plot.best_rates` (THEORY.md T47).

        γ*(B, D) = A D^{−c} (B^{−k} + B_k^{−k})^{−p/k},    B_k = B_0 D^κ N^ν

    Attributes:
        groups: L*(B, D) and the best γ of every group.
        rates: the best γ of all settings in logs, those that are bounds too.
        law: the law at its best parameters.
        duration_exponent, duration_interval: c, by which γ* falls with D at fixed B below the kink.
        batch_exponent, batch_interval: p, by which it rises with B there. Where no kink is seen, c and p are those of
            the power law, and their intervals contain those of the law with a kink.
        kink_exponent, kink_exponent_interval: κ, of the growth of the kink with D at the same model size; nan of a
            single duration, as c is, and where no kink is seen.
        size_exponent, size_interval: ν, of the growth of the kink with N at the same D; nan where model sizes do not
            determine it: then κ is with ν = 0.
        samples: (d,) durations D, at most six of those in the table, increasing.
        kinks, kink_intervals: (d,) B_k(D) and (d, 2); inf where no kink is seen.
        no_kink: p-value of a power law without a kink.
        deviation: standard deviation of ln γ* about the law.
        comparisons: B* from losses beside the kink, where both are seen.
        left_out: names of groups without a known best learning rate.
        level: the level of all intervals.
    """

    figure: ClassVar[str] = "best_rates"

    groups: tuple[TunedLosses, ...]
    rates: BestRates
    law: RateLaw
    duration_exponent: float
    duration_interval: Interval
    batch_exponent: float
    batch_interval: Interval
    kink_exponent: float
    kink_exponent_interval: Interval
    size_exponent: float
    size_interval: Interval
    samples: np.ndarray
    kinks: np.ndarray
    kink_intervals: np.ndarray
    no_kink: float
    deviation: float
    comparisons: tuple[LossComparison, ...]
    left_out: tuple[str, ...]
    level: float

    @property
    def has_kink(self) -> bool:
        """Tell whether the rates refute a power law without a kink."""
        return self.no_kink <= REFUTED

    def critical_batch_size(self, samples: ArrayLike, group: str | None = None) -> np.ndarray:
        """Return B_k(D), the kink; inf where none is seen.

        Args:
            samples: D > 0, in the unit of the table.
            group: the model's name, whose size counts; None: the geometric mean of the sizes.

        Raises:
            ValueError: a number that is not positive, or no such group.
        """
        data = positive_array("samples", samples)
        size = 0.0 if group is None else self._log_size(self._place(group))
        return np.exp(self.law.log_kink(np.log(data), size)) if self.has_kink else np.full(data.shape, np.inf)

    def learning_rate(self, batch_size: ArrayLike, samples: ArrayLike, group: str | None = None) -> np.ndarray:
        """Return γ*(B, D) of a group; B and D broadcast. Without a kink it is the power law.

        Args:
            batch_size, samples: B and D > 0, in the unit of the table.
            group: its name; None: the only one.

        Raises:
            ValueError: numbers that are not positive, no such group, or several groups and none is named.
        """
        place = self._place(group)
        batch, data = positive_array("batch_size", batch_size), positive_array("samples", samples)
        return np.exp(self.law.log_rate(np.array(place), np.log(batch), np.log(data), self._log_size(place)))

    def _place(self, group: str | None) -> int:
        names = [each.group for each in self.groups]
        if (group is None and len(names) > 1) or (group is not None and group not in names):
            known = f"one of {', '.join(names)}" if any(names) else "None, as the table has no groups"
            raise ValueError(f"group must be {known}, got {group}")
        return 0 if group is None else names.index(group)

    def _log_size(self, place: int) -> float:
        """Return ln N of a group from the mean on."""
        return float(self.rates.log_size[self.rates.group == place][0])

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what a reader should know, a sentence each."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        for group in self.left_out:
            yield (
                f"{group or 'a group'} is left out: no batch size and duration has its best learning rate between "
                "others; run more learning rates"
            )
        known = self.rates.side == 0
        axes = np.array([np.ones(known.size), self.rates.log_batch, self.rates.log_samples])
        # Along a line in (ln B, ln D) any c goes with some p.
        if np.isnan(self.batch_exponent) and self.samples.size > 1 and np.linalg.matrix_rank(axes[:, known]) < 3:
            yield "batch size and duration vary together, so c and p are unknown: run more batch sizes at a duration"
        if self.has_kink and not self._is_open and np.isinf(self.kink_intervals[:, 1]).any():
            yield "the kink is seen, but its interval is open above: run larger batch sizes"
        if self.samples.size == 1:
            yield "all runs have one duration: how the best learning rate and the kink move with D is not known"
        if self.rates.side.any():
            yield (
                f"in {np.count_nonzero(self.rates.side)} of {self.rates.side.size} settings the best learning rate is "
                "the lowest or the highest one: they count as bounds; run further rates there"
            )

    def sheet(self) -> Sheet:
        """Return the exponents, the kink at each duration, and B* from losses."""
        below = ", below the kink" if self.has_kink else ""
        exponents = [
            (f"fall with duration D{below}: c", self.duration_exponent, self.duration_interval),
            (f"rise with batch size B{below}: p", self.batch_exponent, self.batch_interval),
            ("growth of the kink with D: κ", self.kink_exponent, self.kink_exponent_interval),
        ]
        if not np.isnan(self.size_exponent):
            exponents.append(("growth of the kink with model size N: ν", self.size_exponent, self.size_interval))
        # The first line says what the rates determine, the legend which law the exponents are of.
        answer, law = self._in_words
        level = f"{self.level:.0%}"
        labels, values, intervals = zip(*exponents, strict=True)
        first = Table(
            [
                Quantity("of", "exponent of", list(labels)),
                Quantity("value", "value", list(values), list(intervals), digits=3),
            ],
            "exponents",
            law,
            level,
        )
        second = Table(
            [
                Quantity("samples", "data D", self.samples),
                Quantity("critical_batch_size", "B* (kink)", self.kinks, self.kink_intervals),
            ],
            "kinks",
            f"critical batch size from the kink{self._at_mean}: no target loss enters it",
            level,
        )
        settings = {
            "no_kink": self.no_kink,
            "deviation": self.deviation,
            "sharpness": self.law.sharpness,
            "settings": self.rates.side.size,
            "bounds": np.count_nonzero(self.rates.side),
            "level": self.level,
        }
        tables = [first, second, *([self._compared(level)] if self.comparisons else [])]
        return Sheet(answer, tables, self.remarks, settings)

    @property
    def _is_open(self) -> bool:
        """Return whether no interval of the kink has an end, as where all batch sizes may lie beyond it."""
        return bool((self.kink_intervals == (0, np.inf)).all())

    @property
    def _in_words(self) -> tuple[str, str]:
        """Return the first line, whether a kink is seen and what that says of B*, and the law of the exponents."""
        law = "γ* ∝ D^−c B^p; the intervals allow for a kink that is not seen"
        answer = f"no kink seen: a power of B does as well (p = {self.no_kink:.2g}), so that B* has no upper bound"
        if self.has_kink:
            law = "γ* ∝ D^−c B^p up to the kink B_k ∝ D^κ, and independent of B beyond"
            answer = f"kink seen: a power of B alone is refuted (p = {self.no_kink:.2g})"
        elif self._is_open:
            law = "γ* ∝ D^−c B^p over these runs; if they lie beyond a kink, c and p below it may be anything"
        if self._is_open:
            answer = "B* is not determined: the best learning rate need not depend on B, as if all B were beyond a kink"
        return answer, law

    @property
    def _at_mean(self) -> str:
        """Return the model size of the kinks, for a title, where they depend on it."""
        if np.isnan(self.size_exponent):
            return ""
        return f" at N = {number(float(np.exp(np.mean(np.log([each.size for each in self.groups])))))}"

    def _compared(self, level: str) -> Table:
        found = self.comparisons
        return Table(
            [
                Quantity("group", "group", [each.group or "all" for each in found]),
                Quantity("target_loss", "target loss", [each.target for each in found]),
                Quantity("samples", "data D", [each.samples for each in found]),
                Quantity("counted_from", "counted from B", [each.counted_from for each in found]),
                Quantity(
                    "critical_batch_size",
                    "B* (losses)",
                    [each.critical_batch_size for each in found],
                    [each.interval for each in found],
                ),
                Quantity("kink", "kink", [each.kink for each in found]),
                Quantity("ratio", "kink/B*", [each.kink / each.critical_batch_size for each in found], digits=3),
            ],
            "from_losses",
            "critical batch size from losses: 20% more data than at the batch size counted from",
            level,
        )


def fit_rates(
    table: Mapping[str, Any] | Sequence[Any], *, level: float = 0.95, compare: bool = True, seed: int = 0
) -> LearningRateLaw:
    """Fit the law of the best learning rate in batch size and duration to a grid of losses (THEORY.md T47).

        γ*(B, D) = A D^{−c} (B^{−k} + B_k^{−k})^{−p/k},    B_k = B_0 D^κ N^ν

    The best γ of each setting (group, B, D) is the lowest point of a parabola in log γ. Every group has an A of its
    own; c, p, B_0, κ, ν and the sharpness k (2, 4, 8 or 16) are common. Without model sizes ν = 0. Where the best
    rate is the lowest or highest one that was run, it counts as a bound. The kink B_k measures the critical batch
    size without a target loss.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> B, D, rate = np.meshgrid(2.0 ** np.arange(3, 12), 4.0 ** np.arange(10, 14), 2.0 ** np.arange(-12, 2))
    >>> best = 0.05 * (D / 4**10) ** -0.3 * np.minimum(B, 64 * (D / 4**10) ** 0.6) ** 0.5
    >>> loss = (2 + D**-0.3) * (1 + 0.02 * np.log(rate / best) ** 2)
    >>> columns = {"batch_size": B, "samples": D, "learning_rate": rate, "loss": loss}
    >>> found = st.fit_rates({name: column.ravel() for name, column in columns.items()}, compare=False)
    >>> round(found.duration_exponent, 2), round(found.batch_exponent, 2), round(found.kink_exponent, 2)
    (0.3, 0.5, 0.6)
    >>> round(float(found.critical_batch_size(4**10)))
    64

    Args:
        table: columns by name (a dict, a pandas DataFrame, what `read_loss_grid` returns) or rows: batch_size,
            samples (D, in the unit of B), learning_rate, loss (positive; nan or inf of a run that diverged), perhaps
            group (its name, of a model size as a rule), size, seed.
        level: of all intervals.
        compare: whether to compute B* from losses too (`fit_loss_grid`), counted from the smallest batch size and from
            the best one.
        seed: of the test against a power law without a kink.

    Returns:
        LearningRateLaw. Intervals of κ and of kinks are open where no kink is seen.

    Raises:
        ValueError: the table is malformed, or its best learning rates lie between others at fewer than 4 batch sizes or
            in fewer than 6 settings plus one per group.
    """
    level, seed = share_between_0_and_1("level", level), whole_number("seed", seed, 0)
    every = [group for group, _ in tuned_groups(table)]
    # A group without a known γ* has no level: its bounds alone would push it to any value.
    groups = tuple(each for each in every if np.isin(each.state, (TUNED, CLIFF)).any())
    rates = best_rates(groups)
    _check(rates, every)
    known = rates.side == 0
    if np.ptp(rates.log_samples[known]) == 0:  # bounds at other durations mean nothing without c and κ
        rates = BestRates(*(each[rates.log_samples == rates.log_samples[known][0]] for each in rates))
    likelihood = Likelihood(rates, float(rates.log_samples[rates.side == 0].mean()))
    least, parameters, sharpness = likelihood.best()
    law = likelihood.law(parameters, sharpness)
    no_kink = chance_without_kink(likelihood, law, seed)
    seen = no_kink <= REFUTED
    of_kink = RateIntervals(likelihood, least, parameters, sharpness, level, seen)
    of_exponents = [of_kink]
    if not seen:
        # The rates may have a kink that they do not show. Then c and p of the power law are averages over both sides of
        # the kink, and too small: in 3 of 14 simulated tables with a kink it was not seen, and the intervals of the
        # power law missed c and p in all three. The intervals therefore contain those with a kink as well.
        law = likelihood.law(likelihood.power_law[1], sharpness)
        of_exponents.append(RateIntervals(likelihood, *likelihood.power_law, sharpness, level, seen))
    unit = np.eye(parameters.size)
    durations = np.unique(rates.log_samples)
    # The kink has an interval at six durations at most, since each takes as long as the fit.
    durations = durations[np.unique(np.linspace(0, durations.size - 1, 6).round().astype(int))]
    of_kinks = [of_kink.of(unit[KINK] + (each - likelihood.centre) * unit[KINK_POWER]) for each in durations]
    unknown = np.nan, (-np.inf, np.inf)
    several = likelihood.several_durations
    fall = _known(law.fall, hull(of_exponents, unit[FALL])) if several else unknown
    power = _known(law.kink_power, of_kink.of(unit[KINK_POWER])) if several and seen else unknown
    of_size = _known(law.size_power, of_kink.of(unit[SIZE_POWER])) if likelihood.several_sizes and seen else unknown
    kinks = np.exp(law.log_kink(durations)) if seen else np.full(durations.size, np.inf)
    comparisons = tuple(_comparisons(table, level, seed, law, groups)) if compare and seen else ()
    return LearningRateLaw(
        groups,
        rates,
        law,
        *fall,
        *_known(law.rise, hull(of_exponents, unit[RISE])),
        *power,
        *of_size,
        _as_given(np.exp(durations), groups),
        kinks,
        np.exp(of_kinks),
        no_kink,
        float(np.exp(law.log_deviation)),
        comparisons,
        tuple(each.group for each in every if each not in groups),
        level,
    )


def _as_given(samples: np.ndarray, groups: Sequence[TunedLosses]) -> np.ndarray:
    """Return the durations of the table next to those that rounding may have changed."""
    every = np.unique(np.concatenate([each.samples for each in groups]))
    return every[np.abs(every[:, None] - samples).argmin(0)]


def _known(value: float, interval: Interval) -> tuple[float, Interval]:
    """Return a value and its interval; nan for a value that may be anything."""
    return (np.nan if np.isinf(interval).all() else value), interval


def _check(rates: BestRates, groups: Sequence[TunedLosses]) -> None:
    known = rates.side == 0
    batches = np.unique(rates.log_batch[known]).size
    needed = 6  # c, p, B_0, κ and the standard deviation, and one degree of freedom to spare
    if batches < 4 or known.sum() < needed + np.unique(rates.group).size:
        settings = sum(len(each.cells) for each in groups)
        raise ValueError(
            f"table must have best learning rates between others at 4 batch sizes and in {needed} settings more than "
            f"groups, got {known.sum()} of {settings} settings, at {batches} batch sizes; run more learning rates"
        )


def _comparisons(
    table: Mapping[str, Any] | Sequence[Any], level: float, seed: int, law: RateLaw, groups: Sequence[TunedLosses]
) -> Iterator[LossComparison]:
    """Yield B* from losses at every target that they determine, counted from the smallest and from the best B."""
    mean = np.mean([np.log(each.size) for each in groups])
    sizes = {each.group: float(np.nan_to_num(np.log(each.size) - mean)) for each in groups}
    for from_best in (False, True):
        try:
            grid: LossGrid = fit_loss_grid(
                table, convention=Convention(), level=level, seed=seed, optimal_batch_size=from_best
            )
        except ValueError:  # too few batch sizes reach a loss: the rates do not need any
            continue
        for each in grid.targets:
            kink = float(np.exp(law.log_kink(np.log(np.array(each.samples)), sizes.get(each.group, 0.0))))
            where = each.group, each.target, each.samples, each.reference
            yield LossComparison(*where, each.critical_batch_size, each.interval, kink)
