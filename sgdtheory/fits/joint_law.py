"""Law of the loss in model size, data and batch size: predictions, critical batch sizes, and what is shown (T48)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from sgdtheory._common.arguments import positive_array, positive_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table, between
from sgdtheory._common.shown import Shown
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.joint_draws import Draws
from sgdtheory.fits.joint_predictions import prediction, table_of_best_runs
from sgdtheory.fits.joint_shapes import (
    FARTHEST,
    NEAREST,
    OVERHEAD,
    LossLaw,
    Settings,
    best_batch,
    growth,
    log_critical,
)
from sgdtheory.fits.searches import bisected
from sgdtheory.fits.steps_measurement import FittedCriticalBatchSize
from sgdtheory.fits.steps_table import StepsTable


class ComparedLaw(NamedTuple):
    """A law of the loss beside others.

    Attributes:
        name, formula: of the law.
        number_fitted: its fitted parameters.
        deviation: rms of relative residuals.
        largest: rms relative error at the largest model size, fitted to the others; nan of two sizes.
        pairs: rms relative error of pairs of model size and data, each fitted to all others.
        irreducible: its E.
    """

    name: str
    formula: str
    number_fitted: int
    deviation: float
    largest: float
    pairs: float
    irreducible: float


class Estimated(NamedTuple):
    """A number with the ends of its interval."""

    value: float
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float]:
        """Return both ends."""
        return self.low, self.high


class BestRun(NamedTuple):
    """The run with the least loss for a budget of compute.

    Attributes:
        size, samples, batch_size: N, D and B of the least loss; B is 0 where small batches cost nothing.
        loss: that a new run with these has.
    """

    size: Estimated
    samples: Estimated
    batch_size: Estimated
    loss: Estimated


@dataclass(frozen=True, eq=False)
class JointLaw(Shown):
    """The law of the loss in N, D and B; made by `fit_joint_law`, drawn by `st.plot.joint_law` (THEORY.md T48).

        L(N, D, B) = E + [(A N^−α)^k + (C D_e^−β)^k]^{1/k} + G/√B,    β = α/(1 + α),    k = 5/2
        D = D_e [1 + (B/(B_0 D_e^κ))^h]^{1/h}

    Intervals contain the estimates of other laws that predict left-out settings about as well.

    Attributes:
        sizes, samples, batch_sizes, losses: (n,) the settings and their losses at the best learning rate.
        draws: the fitted law, and others that the data admit.
        compared: this law first, then other laws of the same data. This is the joint law, or a law that drops one of
            its assumptions if that predicts much better.
        tied: p-value of the tie β = α/(1 + α), against the law with β free.
        centre: middle of the table, log N, log D and log B, from which the settings of `draws.law` count.
        left_out: number of settings without a known best learning rate.
        level: the level of all intervals.
    """

    figure: ClassVar[str] = "joint_law"

    sizes: np.ndarray
    samples: np.ndarray
    batch_sizes: np.ndarray
    losses: np.ndarray
    draws: Draws
    compared: tuple[ComparedLaw, ...]
    tied: float
    centre: tuple[float, float, float]
    left_out: int
    level: float

    @cached_property
    def size_exponent(self) -> Estimated:
        """Return α, with which the loss of a trained model falls with its size."""
        return self._estimated(lambda law: law.exponent("α"))

    @cached_property
    def growth_exponent(self) -> Estimated:
        """Return κ, with which the batch size B_0 D_e^κ grows at which large batches begin to cost data."""
        return self._estimated(lambda law: law.exponent("κ"))

    @cached_property
    def irreducible(self) -> Estimated:
        """Return E. It is not identified where the interval begins at 0."""
        value, low, high = self._estimated(lambda law: law.factors[..., 0])
        return Estimated(value, max(low, 0.0), high)

    @cached_property
    def growth_with_data(self) -> Estimated:
        """Return d ln B*/d ln D at fixed N, in the middle of the table."""
        return self._estimated(lambda law: growth(law, 0.0, 1.0))

    @cached_property
    def growth_with_size(self) -> Estimated:
        """Return d ln B*/d ln N at fixed D, in the middle of the table."""
        return self._estimated(lambda law: growth(law, 1.0, 0.0))

    def _estimated(self, quantity: Callable[[LossLaw], np.ndarray], *, new_run: bool = False) -> Estimated:
        return Estimated(*self.draws.estimated(quantity, new_run=new_run)[:, 0].tolist())

    # ------------------------------------------------------------------ predictions

    def loss(self, size: ArrayLike, samples: ArrayLike, batch_size: ArrayLike) -> np.ndarray:
        """Return the loss at the best learning rate; N, D and B > 0 broadcast, in the units of the table.

        Raises:
            ValueError: a number that is not positive.
        """
        return self.draws.law.loss(self._settings(size, samples, batch_size))

    def loss_interval(self, size: ArrayLike, samples: ArrayLike, batch_size: ArrayLike) -> np.ndarray:
        """Return the (…, 2) interval of the loss of a new run, which is off the law as single settings are.

        Raises:
            ValueError: a number that is not positive.
        """
        at = self._settings(size, samples, batch_size)
        every = np.broadcast_arrays(at.log_size, at.log_samples, at.log_batch)
        flat = Settings(*(each.ravel() for each in every))
        ends = self.draws.estimated(lambda law: np.log(law.loss(flat)), new_run=True)[1:]
        return np.exp(ends).T.reshape(*every[0].shape, 2)

    def best_batch_size(self, size: float, samples: float) -> float:
        """Return the B of the least loss at N and D; 0 where small batches cost nothing."""
        at = self._settings(size, samples, 1.0)
        best = float(best_batch(self.draws.law, at.log_size, at.log_samples)[0])
        return float(np.exp(best + self.centre[2])) if best > NEAREST + 1 else 0.0

    def critical_batch_size(self, size: float, samples: float) -> FittedCriticalBatchSize:
        """Return B*(N, D) with its interval: there 1.2 D samples give the loss that D give at the best batch size.

        Args:
            size, samples: N and D > 0, in the units of the table.

        Returns:
            B* with its interval; inf where the losses show no cost of large batches. The interval is open above where
            B* is larger than twice the largest batch size measured.

        Raises:
            ValueError: a number that is not positive.
        """
        at = self._settings(size, samples, 1.0)
        logs = self.draws.estimated(lambda law: log_critical(law, at.log_size, at.log_samples))[:, 0]
        # The form of the law adds 0.2 to the errors of ln B*. On exact risks of models with 1,024 features ln B* is off
        # by at most 0.17 for a = 2, b = 3, for 1.2 and 1.8, and for 1.5 and 2; but by up to 0.48 for 1.1 and 1.5 (T48).
        logs += [0.0, -0.2, 0.2]
        value, low, high = np.where(logs < FARTHEST - 1, np.exp(logs + self.centre[2]), np.inf).tolist()
        if value > 2 * self.batch_sizes.max():
            high = np.inf  # No run shows where data begin to be lost.
        reference = self.best_batch_size(size, samples)
        return FittedCriticalBatchSize(value, low, high, Convention(reference or None, OVERHEAD), self.level)

    def steps_table(self, size: float, samples: float) -> StepsTable:
        """Return the steps to the loss of D samples at the best batch size, of a model of N parameters, for `plan`.

        Args:
            size, samples: N and D > 0; D has to be in the unit of the batch size, since steps are D/B.

        Raises:
            ValueError: a number that is not positive, or losses that show no cost of large batches.
        """
        found = self.critical_batch_size(size, samples)
        if not np.isfinite(found.batch_size):
            raise ValueError("the losses show no cost of large batches, so that steps have no plateau: run larger ones")
        at = self._settings(size, samples, 1.0)
        law = self.draws.law
        # Batch sizes from B*/64 to 64 B*, four to an octave.
        rest = np.log(found.batch_size * np.geomspace(1 / 64, 64, 49)) - self.centre[2]
        # Below the best batch size small batches add to the loss, and more data do not take that away.
        first = max(float(best_batch(law, at.log_size, at.log_samples)[0]), rest[0])
        log_batch = np.append(first, rest[rest > first + 1e-6])
        target = law.loss(Settings(at.log_size, at.log_samples, np.array(first)))

        def above(log_data: np.ndarray) -> np.ndarray:
            return law.loss(Settings(at.log_size, log_data, log_batch)) > target

        needed = bisected(above, np.full(log_batch.shape, NEAREST), np.full(log_batch.shape, FARTHEST))
        # Rows that no data bring to the target are left out.
        reached = needed < FARTHEST - 1
        sizes = np.exp(log_batch[reached] + self.centre[2])
        steps = np.exp(needed[reached] + self.centre[1]) / sizes
        return StepsTable(sizes, steps, critical=found._replace(convention=Convention(float(sizes[0]), OVERHEAD)))

    def best_run(self, compute: float, *, flops: float = 6.0) -> BestRun:
        """Return the model size, data and batch size of the least loss for a budget of compute.

        Args:
            compute: C = flops · N · D.
            flops: operations per parameter and unit of D, 6 for tokens.

        Returns:
            BestRun. The model size is searched from a thousandth to a thousand times the middle of the table.

        Raises:
            ValueError: a number that is not positive.
        """
        budget = np.log(positive_number("compute", compute) / positive_number("flops", flops))
        # A parabola through three of these model sizes is exact to 1e-3.
        sizes = np.linspace(-np.log(1000.0), np.log(1000.0), 201)
        data = budget - self.centre[0] - self.centre[1] - sizes

        def best(law: LossLaw) -> np.ndarray:
            """Return log N, log B and log L, along the last axis, by a parabola through three candidates."""
            log_batch, loss = best_batch(law, sizes, data)
            at = np.clip(loss.argmin(-1), 1, sizes.size - 2)[..., None]
            low, middle, high = (np.take_along_axis(np.log(loss), at + side, -1)[..., 0] for side in (-1, 0, 1))
            moved = np.clip((low - high) / (2 * (low - 2 * middle + high)), -1.0, 1.0)
            slope = np.gradient(log_batch, axis=-1)
            size = sizes[at[..., 0]] + moved * (sizes[1] - sizes[0])
            batch = np.take_along_axis(log_batch + moved[..., None] * slope, at, -1)[..., 0]
            return np.stack([size, batch, middle + moved * (high - low) / 4], -1)

        at = self.draws.estimated(best)
        log_size = at[:, 0] + self.centre[0]
        log_batch = at[:, 1] + self.centre[2]
        log_loss = self.draws.estimated(best, new_run=True)[:, 2]
        log_data = budget - log_size[[0, 2, 1]]
        nearest = NEAREST + 1 + self.centre[2]  # small batches cost nothing there
        log_batch = np.where(log_batch > nearest, log_batch, -np.inf)
        return BestRun(*(Estimated(*np.exp(each).tolist()) for each in (log_size, log_data, log_batch, log_loss)))

    def _settings(self, size: ArrayLike, samples: ArrayLike, batch_size: ArrayLike) -> Settings:
        given = {"size": size, "samples": samples, "batch_size": batch_size}
        logs = (np.log(positive_array(name, value)) for name, value in given.items())
        return Settings(*(each - middle for each, middle in zip(logs, self.centre, strict=True)))

    # ------------------------------------------------------------------ what is shown

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what a reader should know, a sentence each."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        others = [each.irreducible for each in self.compared]
        yield f"E is not identified, because it depends on the law: the laws have {between(min(others), max(others))}"
        if self.tied <= 0.05:
            yield f"the tie β = α/(1 + α) is refuted (p = {self.tied:.2g}): see the law with β free"
        # Intervals contain the estimates of laws that are about as good. A better law is named as well.
        better = min(self.compared, key=lambda each: each.pairs)
        if better is not self.compared[0]:
            yield (
                f"'{better.name}' predicts pairs of model size and data that are left out to {better.pairs:.2%}, "
                f"this law to {self.compared[0].pairs:.2%}"
            )
        if self.left_out:
            yield (
                f"{self.left_out} settings are left out: their best learning rate is the lowest, the highest or the "
                "only one; run further learning rates"
            )

    def sheet(self, *, at: tuple[float, float] | None = None, compute: Sequence[float] = ()) -> Sheet:
        """Return the exponents, B* at some model sizes and data, and the laws that were compared.

        Args:
            at: a model size and data, whose best and critical batch size are the answer of the sheet.
            compute: budgets C = 6 N D, of whose best runs the sheet has a table.
        """
        this = self.compared[0]
        settings = {
            "deviation": this.deviation,
            "tied": self.tied,
            "settings": self.losses.size,
            "left_out": self.left_out,
            "level": self.level,
        }
        title = (
            f"loss known to {this.deviation:.2%} ({this.pairs:.2%} at model sizes and data left out); "
            f"B* ∝ D^{self.growth_with_data.value:.2f} at fixed N, and N^{self.growth_with_size.value:.2f} at fixed D"
        )
        # The table of the law's numbers stays first, and what was asked for comes before its details.
        best = [table_of_best_runs(self, compute)] if compute else []
        tables = [self._exponents(), *best, self._critical(), self._laws()]
        if at is None:
            return Sheet(title, tables, self.remarks, settings)
        answer, predicted = prediction(self, *at)
        return Sheet(title, tables, self.remarks, settings | predicted, answer=answer)

    def _exponents(self) -> Table:
        # β = α/(1 + α) rises with α, so that its ends are those of α.
        by_size = self.size_exponent
        rows = {
            "fall with model size N: α": by_size,
            "fall with data D, of a large model: β": Estimated(*(each / (1 + each) for each in by_size)),
            "growth of the batch size that costs data: κ": self.growth_exponent,
            "growth of B* with D, at fixed N": self.growth_with_data,
            "growth of B* with N, at fixed D": self.growth_with_size,
            "irreducible loss E": self.irreducible,
        }
        values = [each.value for each in rows.values()]
        intervals = [each.interval for each in rows.values()]
        return Table(
            [Quantity("of", "number", list(rows)), Quantity("value", "value", values, intervals, digits=3)],
            "exponents",
            "L = E + [(A N^−α)^k + (C D_e^−β)^k]^{1/k} + G/√B, D = D_e [1 + (B/(B_0 D_e^κ))^h]^{1/h}",
            f"{self.level:.0%}",
        )

    def _critical(self) -> Table:
        # Pairs of the table: elsewhere B* is extrapolated.
        pairs = self._shown_pairs()
        found = [self.critical_batch_size(*each) for each in pairs]
        sizes = [each.batch_size for each in found]
        return Table(
            [
                Quantity("size", "model size N", [each[0] for each in pairs]),
                Quantity("samples", "data D", [each[1] for each in pairs]),
                Quantity("best_batch_size", "best B", [self.best_batch_size(*each) for each in pairs]),
                Quantity("critical_batch_size", "B*", sizes, [each.interval for each in found]),
            ],
            "critical",
            f"critical batch size: {OVERHEAD:.0%} more data than at the best batch size",
            f"{self.level:.0%}",
        )

    def _laws(self) -> Table:
        # The errors are fractions, and percentages in the table.
        columns = {"deviation": "fit, %", "largest": "largest N, %", "pairs": "pairs, %"}
        return Table(
            [
                Quantity("law", "law", [each.name for each in self.compared]),
                Quantity("formula", "", [each.formula for each in self.compared]),
                Quantity("parameters", "parameters", [each.number_fitted for each in self.compared]),
                *(
                    Quantity(name, label, [getattr(each, name) * 100 for each in self.compared], digits=3)
                    for name, label in columns.items()
                ),
                Quantity("irreducible", "E", [each.irreducible for each in self.compared], digits=3),
            ],
            "laws",
            "rms errors of the loss: of the fit, at the largest model from smaller ones, and at left-out pairs (N, D)",
            hidden=("formula",),
        )

    def _shown_pairs(self) -> list[tuple[float, float]]:
        every = np.unique(np.stack([self.sizes, self.samples]), axis=1).T
        chosen = np.unique(np.linspace(0, len(every) - 1, 6).round().astype(int))  # A screen holds six rows.
        return [(float(size), float(data)) for size, data in every[chosen]]
