"""Loss curves of the theory, by the exact engine, with the correlated scatter of real ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.curves.profile import LinearSet

STEPS = 6000
ROWS = np.unique(np.append(np.round(np.geomspace(150, STEPS, 70)), 2400))  # where the rate drops
SHAPES = {"cosine": st.Cosine(final=0.1), "constant": st.Constant(), "drop": st.Stages((0.0, 0.4), (1.0, 0.3))}


def path_losses(problem, shape, *, rate, batch, floor=2.0, signal=1.0, rows=ROWS, steps=STEPS):
    """Loss and learning rate at `rows`, by `risk_path`, between whose points the logarithm is interpolated."""
    algorithm = st.Algorithm(schedule=shape, average=st.LastIterate())
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
    path = st.risk_path(problem, **setting, algorithm=algorithm, points=400)
    risk = np.exp(np.interp(rows, path.num_steps, np.log(path.iterate.total)))
    factors = rate * shape.factors(np.minimum(rows, steps - 1), steps)
    return floor + signal * risk, factors


def curve(name, random=None, *, scatter=0.0, problem=None, rate=0.2, batch=32, known=False, **options):
    """A LossCurve of the theory; log loss scatters by an Ornstein–Uhlenbeck process in log t."""
    problem = st.PowerLaw(1.6, 1.9, noise_variance=4.0) if problem is None else problem
    losses, rates = path_losses(problem, SHAPES[name], rate=rate, batch=batch, **options)
    if random is not None:
        kept = np.exp(-np.diff(np.log(ROWS), prepend=0) / 0.1)
        noise = np.zeros(ROWS.size)
        for k in range(ROWS.size):
            noise[k] = kept[k] * noise[k - 1] + np.sqrt(1 - kept[k] ** 2) * random.standard_normal()
        losses = losses * np.exp(scatter * noise)
    return st.LossCurve(ROWS, rates, losses, batch if known else None, name=name)


def coarse_tables(monkeypatch):
    """B* from tables of few steps, rates and panels, an eighth of the work: where doors are tested, not numbers."""
    for name, value in (("PANELS", 20), ("STEPS_APART", 0.5), ("RATES_APART", 0.5)):
        monkeypatch.setattr(f"sgdtheory.curves.loss_table.{name}", value)


@contextmanager
def linear_intervals() -> Iterator[None]:
    """Fits whose intervals nobody looks at: profiles take longer than the fit, and no prediction depends on them."""

    def linear(found, _, level):
        return LinearSet(found.coordinates, found.covariance, found.quantile(level))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sgdtheory.curves.law_fit.confidence_set", linear)
        yield
