"""Grids of losses from the exact engine: what coarse grids of learning rates do to B*, against tuning to the end."""

from dataclasses import dataclass
from functools import cache

import numpy as np

import sgdtheory as st
from sgdtheory.fits.data_to_loss import LossCurves

BATCHES, SAMPLES = 2.0 ** np.arange(2, 10), 2.0 * 4.0 ** np.arange(6, 10)
CONVENTION = st.Convention(8, 0.2)
PLACES = 8  # of the rates between two of their powers
LEAST, MOST = 0.005, 6.0  # rates; 2 is the edge for large batches


@dataclass(frozen=True)
class ExactGrid:
    """L = constant + exact excess risk of averaged SGD on a power law.

    Attributes:
        capacity, source: of the power law.
        constant: added to the risk, an irreducible loss.
        spacing: ratio of neighbouring learning rates.
    """

    capacity: float
    source: float
    constant: float
    spacing: float

    @property
    def problem(self):
        return st.PowerLaw(self.capacity, self.source, dim=300)

    def losses(self, place):
        """Rates, and (m, k, g) losses at rates spacing^(… + place/PLACES)."""
        return _losses(self, place)

    def table(self, place, runs=1, noise=0.0, random=None):
        """Columns for `fit_loss_grid`, with noise in log loss."""
        rates, losses = self.losses(place)
        batch, samples, rate = np.broadcast_arrays(BATCHES[:, None, None], SAMPLES[:, None], rates)
        columns = {"batch_size": batch, "samples": samples, "learning_rate": rate, "loss": losses}
        columns = {name: np.repeat(column.ravel(), runs) for name, column in columns.items()}
        if noise:
            columns["loss"] = columns["loss"] * np.exp(noise * random.standard_normal(columns["loss"].size))
        return columns

    @property
    def target(self):
        """A loss that batch size 128 reaches a little beyond the middle of the data, in logs."""
        tuned = _tuned(self.capacity, self.source)[5] + self.constant
        middle = np.log(SAMPLES[0]) + 0.55 * np.log(SAMPLES[-1] / SAMPLES[0])
        return float(np.exp(np.interp(middle, np.log(SAMPLES), np.log(tuned))))

    def truth(self, batch_sizes):
        """B* of the law through the steps with the best learning rates, at these batch sizes."""
        here = np.isin(BATCHES, batch_sizes)
        curves = LossCurves(SAMPLES, np.log(_tuned(self.capacity, self.source)[here] + self.constant))
        steps = curves.samples_to(np.log(self.target)) / BATCHES[here]
        return st.fit_steps_law(BATCHES[here], steps).critical_batch_size(convention=CONVENTION)

    def fit(self, table, **options):
        (found,) = st.fit_loss_grid(table, targets=self.target, convention=CONVENTION, **options).targets
        return found


@cache
def _losses(grid, place):
    first, last = (np.log(end) / np.log(grid.spacing) for end in (LEAST, MOST))
    rates = grid.spacing ** (np.arange(np.ceil(first), last + 1) + place / PLACES)
    settings = {"batch_size": BATCHES[:, None, None], "learning_rate": rates, "num_samples": SAMPLES[:, None]}
    return rates, np.asarray(st.excess_risk(grid.problem, **settings).total) + grid.constant


@cache
def _tuned(capacity, source):
    """(m, k) excess risk at the best learning rate."""
    problem = st.PowerLaw(capacity, source, dim=300)
    return np.asarray(st.optimal_learning_rate(problem, batch_size=BATCHES[:, None], num_samples=SAMPLES).risk)


def biases(grid):
    """(PLACES,) B* over the truth, without noise."""
    found = (grid.fit(grid.table(place)) for place in range(PLACES))
    return np.array([each.critical_batch_size / grid.truth(each.batch_sizes) for each in found])
