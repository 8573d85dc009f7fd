"""Deterministic equivalents against simulated means, and wrong laws that must be found out.

An equivalent may be off by 2%, or by what it states where `most` bounds that, and by 4.5 standard errors: false alarm
7e-6 a case. Of the cases without wrong laws `pytest -m slow` runs those with even numbers, unless it is asked for all.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms.coordinates import random_rotation
from sgdtheory.risk.mean_field import registry as fields
from sgdtheory.risk.mean_field.adam import AdamField
from sgdtheory.risk.mean_field.normalized import NormalizedField
from sgdtheory.risk.mean_field.signs import SignField
from tests.marks import EXHAUSTIVE

LAST, MEAN, HALF = st.LastIterate(), st.UniformAverage(), st.TailAverage(0.5)
FLAT, LINEAR, COSINE = st.Constant(), st.Linear(), st.Cosine()
SIGN, NORMALIZED = st.SignSGD(), st.NormalizedSGD()


class Doubled(SignField):
    """Twice the noise."""

    def step(self, ensemble, values, loss, known):
        right = super().step(ensemble, values, loss, known)
        return right._replace(scatter=2 * right.scatter)


class Steady(AdamField):
    """A v that does not fluctuate: Adam without the universal functions."""

    def looked_up(self, number, batch):
        polynomials, noise = super().looked_up(number, batch)
        return np.eye(1, polynomials.shape[-1]) + 0 * polynomials, 0 * noise + 1


class OneSided(NormalizedField):
    """A Gaussian, whatever u does."""

    def _new_sides(self, ensemble, given, known, mean_square, square):
        return -mean_square


def steady(method):
    return Steady(method.beta1, method.beta2, method.epsilon)


def without_epsilon(method):
    return AdamField(method.beta1, method.beta2)


def without_decay(method):
    return AdamField(method.beta1, method.beta2, method.epsilon)


def sign(method):
    return SignField()


def aligned(method):
    """Return the method in the eigenvectors, in place of a law."""
    return replace(method, basis="eigenvectors")


def correlated():
    """Features with correlations 0.9^|i−j|, and the coordinates in which they have these."""
    places = np.arange(60)
    eigenvalue, vectors = np.linalg.eigh(0.9 ** np.abs(np.subtract.outer(places, places)))
    return st.LeastSquares(eigenvalue[::-1], np.arange(1, 61) ** -1.5, 1.0), vectors[:, ::-1]


class Case(NamedTuple):
    """A run, the laws that are found out in the place of its own, what it states at most, and if it is not slow."""

    method: object
    problem: object
    batch: int
    rate: float
    steps: int
    schedule: object = LINEAR
    average: object = LAST
    wrong: tuple = ()
    most: float | None = None
    quick: bool = False


def law(a, b, noise, dim=100):
    return st.PowerLaw(a, b, dim, noise)


def turned(method, seed, dim=60):
    return replace(method, basis=random_rotation(dim, (seed,)))


TOEPLITZ, COORDINATES = correlated()
CASES = [
    Case(SIGN, law(1.5, 2.0, 1.0), 1, 0.004, 1000),
    Case(SIGN, law(1.2, 3.0, 0.2), 16, 0.01, 300, FLAT, MEAN, (lambda method: Doubled(),), quick=True),
    Case(SIGN, law(2.0, 1.5, 2.0), 256, 0.01, 500, COSINE),
    Case(SIGN, law(1.3, 1.6, 1.0), 4, 0.004, 800, FLAT, HALF),
    Case(SIGN, law(1.5, 2.0, 1.0), 4096, 0.01, 1500),
    Case(SIGN, law(1.1, 2.5, 5.0), 2, 0.003, 1500, st.WSD(0.3)),
    Case(st.SignSGD(0.9), law(1.4, 2.0, 1.0), 4, 0.01, 400, FLAT, wrong=(sign,)),
    Case(st.Adam(0.9, 0.95), law(1.5, 2.0, 3.0), 1, 0.012, 500, wrong=(sign,)),
    Case(st.Adam(0.9, 0.999), law(1.2, 3.0, 0.2), 16, 0.02, 300, FLAT, HALF),
    Case(st.Adam(0.0, 0.8), law(1.6, 2.5, 1.0), 2, 0.004, 300, FLAT, wrong=(steady, sign)),
    Case(st.Adam(0.95, 0.99), law(1.3, 1.8, 1.0), 1024, 0.01, 600, COSINE, st.ExponentialAverage(window=0.1)),
    Case(st.Adam(0.0, 0.8, 0.5), law(1.5, 2.0, 1.0), 2, 0.03, 300, wrong=(steady, without_epsilon)),
    Case(st.Adam(0.9, 0.99, weight_decay=0.3), law(1.5, 2.0, 1.0), 4, 0.01, 400, wrong=(without_decay,)),
    Case(NORMALIZED, law(1.5, 2.0, 1.0, 300), 1, 0.1, 1000),
    Case(NORMALIZED, law(1.2, 3.0, 0.2), 16, 0.1, 300, FLAT, HALF),
    Case(NORMALIZED, law(0.7, 2.0, 1.0, 300), 4, 0.3, 400, COSINE),
    Case(NORMALIZED, law(2.2, 2.5, 0.5), 64, 0.05, 500, FLAT, MEAN),
    Case(NORMALIZED, law(1.2, 1.23, 0.4, 200), 256, 1.4, 32, wrong=(lambda method: OneSided(),), quick=True),
    Case(NORMALIZED, law(1.5, 2.0, 1.0), 2, 0.2, 800, st.WSD(0.3), st.ExponentialAverage(window=0.1)),
    Case(turned(SIGN, 1), law(1.8, 2.0, 1.0, 60), 1, 0.006, 300, wrong=(aligned,)),
    Case(turned(SIGN, 2), law(1.3, 1.6, 0.3, 60), 64, 0.01, 200, FLAT, MEAN, (aligned,)),
    Case(turned(SIGN, 3), law(1.2, 2.5, 3.0, 60), 1024, 0.004, 250, st.WSD(0.3), wrong=(aligned,)),
    Case(replace(SIGN, basis=COORDINATES), TOEPLITZ, 16, 0.005, 200, FLAT, HALF, (aligned,)),
    Case(turned(st.Adam(0.9, 0.95), 0), law(1.8, 2.0, 1.0, 60), 1, 0.006, 300, LINEAR, LAST, (aligned,), 0.03),
    Case(turned(st.Adam(weight_decay=1.0), 2), law(1.5, 2.0, 1.0, 60), 4, 0.006, 300, most=0.03),
    Case(turned(st.Adam(), 1), law(1.3, 1.6, 0.3, 60), 64, 0.01, 200, FLAT, MEAN, (aligned,), 0.03),
    Case(turned(st.SignSGD(0.95), 2), law(1.6, 2.2, 1.0, 60), 64, 0.004, 250, st.WSD(0.3), LAST, (aligned,), 0.11),
    Case(st.Lion(), law(1.5, 2.0, 1.0, 20), 2, 0.004, 400, most=0.2),
    Case(turned(st.Lion(), 2, 20), law(1.5, 2.0, 1.0, 20), 2, 0.004, 400, most=0.2, quick=True),
]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{place}-{type(case.method).__name__}", marks=() if case.quick else pytest.mark.slow)
        for place, case in enumerate(CASES)
        if EXHAUSTIVE or case.quick or case.wrong or case.most or place % 2 == 0
    ],
)
def test_the_simulated_mean_is_that(monkeypatch, case):
    setting = {"batch_size": case.batch, "learning_rate": case.rate, "num_samples": case.batch * case.steps}
    algorithm = partial(st.Algorithm, schedule=case.schedule, average=case.average)
    right = algorithm(case.method)
    found = st.simulate(jax.random.key(4), case.problem, **setting, algorithm=right, num_replicas=512)
    expected = st.excess_risk(case.problem, **setting, algorithm=right)
    assert case.most is None or expected.relative_error < case.most
    share = 0.02 if case.most is None else expected.relative_error
    room = share * found.mean + 4.5 * found.standard_error
    assert abs(expected.total - found.mean) < room
    for wrong in case.wrong:
        if wrong is aligned:
            other = algorithm(aligned(case.method))
            assert abs(st.excess_risk(case.problem, **setting, algorithm=other).total - found.mean) > 2 * room
            continue
        monkeypatch.setitem(fields.FIELDS, type(case.method), wrong)
        assert abs(st.excess_risk(case.problem, **setting, algorithm=right).total - found.mean) > room
