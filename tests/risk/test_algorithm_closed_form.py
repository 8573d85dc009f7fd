"""Constant coefficients and stages against 80-digit powers of the whole map, and the default's own closed form."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.risk.solvers import renewal, transforms
from tests import oracle, together
from tests.marks import half, slow

PROBLEM = st.LeastSquares([1.0, 0.1, 3e-4], [0.3, 0.5, 0.2])
METHODS = (
    st.SGD(),
    st.SGD(weight_decay=0.02),
    st.HeavyBall(0.5),
    st.HeavyBall(0.9),
    st.Nesterov(0.7),
    st.AcceleratedSGD(coupling=0.9, forgetting=0.1, long_step=5.0),
)
AVERAGES = (st.LastIterate(), st.UniformAverage(), st.TailAverage(0.3), st.ExponentialAverage(0.999))


def exact(algorithm, batch, rate, steps, stages=((0.0, 1.0),), problem=PROBLEM):
    """(bias, variance) by the oracle; stages are (fraction, factor)."""
    average, method = algorithm.average, algorithm.method
    starts = [int(np.ceil(fraction * steps)) for fraction, _ in stages] + [steps]
    pieces = [(low, high, rate * f) for low, high, (_, f) in zip(starts[:-1], starts[1:], stages, strict=True)]
    first = steps
    if isinstance(average, st.UniformAverage | st.TailAverage):
        first = int(average.first(steps))
        pieces = [
            part
            for low, high, r in pieces
            for part in ((low, min(high, first), r), (max(low, first), high, r))
            if part[1] > part[0]
        ]
    rows, kind = [], None
    for low, high, size in pieces:
        *found, start, output = oracle.method_step(method, size)
        keep = (1.0, 0.0)
        if isinstance(average, st.ExponentialAverage):
            keep, kind = (average.decay, 1 - average.decay), "iterate"
        elif low >= first:
            keep, kind = (1.0, 1.0), "empty"
        rows.append((*found, high - low, *keep))
    values = oracle.algorithm_risk(problem.eigenvalues, problem.signal, batch, rows, start, output, kind)
    norm = steps - first if kind == "empty" else 1
    return [value / norm**2 for value in values]


def relative_errors(algorithm, batch, rate, steps, problem=PROBLEM, **stages):
    risk = st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=batch * steps, algorithm=algorithm)
    values = exact(algorithm, batch, rate, steps, problem=problem, **stages)
    return [
        abs(float(part) / float(value) - 1) if value > 1e-300 else float(part)
        for part, value in zip((risk.bias, risk.variance), values, strict=True)
    ]


LENGTHS = (1, 1), (4, 33), (4, 1700), (64, 10**9)  # B and n
MORE = [slow(*case) for case in itertools.product(METHODS, AVERAGES, [(4, 10**6), (1, 10**12)])]


@pytest.mark.parametrize(("method", "average", "length"), [*half(METHODS, AVERAGES, LENGTHS), *MORE], ids=str)
def test_constant_coefficients_to_ten_digits(method, average, length):
    batch, steps = length
    rate = 0.4 * float(st.max_stable_learning_rate(PROBLEM, batch_size=batch, algorithm=st.Algorithm(method)))
    assert max(relative_errors(st.Algorithm(method, average=average), batch, rate, steps)) < 1e-10


@pytest.mark.parametrize(("average", "method", "steps"), half(AVERAGES, METHODS[:4:3], (900, 10**7)), ids=str)
def test_stages_to_ten_digits(method, average, steps):
    stages = ((0.0, 1.0), (0.25, 0.4), (0.9, 0.05))
    schedule = st.Stages(*zip(*stages, strict=True))
    rate = 0.5 * float(st.max_stable_learning_rate(PROBLEM, batch_size=16, algorithm=st.Algorithm(method)))
    assert max(relative_errors(st.Algorithm(method, schedule, average=average), 16, rate, steps, stages=stages)) < 1e-10


SLOW = st.LeastSquares([1.0, 1e-9], [1.0, 1.0])


@pytest.mark.parametrize("average", AVERAGES[:2], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    ("method", "rate", "steps"),
    [
        (st.SGD(weight_decay=1e-6), 1e-6, 10**12),
        (st.SGD(weight_decay=1e-10), 1e-3, 10**10),
        (st.HeavyBall(1 - 1e-6), 1e-7, 10**9),
        (st.Nesterov(1 - 1e-5), 1e-4, 10**11),
        (st.AcceleratedSGD(coupling=4e-5, forgetting=2e-6, long_step=0.96), 2e-7, 10**11),
        (st.AcceleratedSGD(coupling=1 - 2e-5, forgetting=4e-8, long_step=30.0), 0.13, 10**9),
    ],
    ids=str,
)
def test_what_decays_by_little_a_step_keeps_its_digits(method, rate, steps, average):
    """1 − A of 1e-12 and less, beside large entries: nothing is left of it in A."""
    assert max(relative_errors(st.Algorithm(method, average=average), 16, rate, steps, problem=SLOW)) < 1e-10


@pytest.mark.parametrize("factor", [1.2, 1.5])
@pytest.mark.parametrize(
    "average", [st.LastIterate(), st.ExponentialAverage(0.7)], ids=lambda each: type(each).__name__
)
def test_what_has_grown_keeps_its_digits_as_it_decays(average, factor):
    """A fifth of the steps beyond the edge, the others far below: moments grow by up to 1e30 and come down again."""
    problem, method, steps = st.LeastSquares([1.0, 0.3], [0.4, 0.6]), st.HeavyBall(0.6), 1200
    algorithm = st.Algorithm(method, st.Stages([0, 0.2], [factor, 0.1]), average=average)
    rate = float(st.max_stable_learning_rate(problem, batch_size=1, algorithm=st.Algorithm(method)))
    found = st.excess_risk(problem, batch_size=1, learning_rate=rate, num_samples=steps, algorithm=algorithm)
    truth = together.risks([(problem, algorithm, 1, rate, steps)])[:, 0]
    np.testing.assert_allclose([found.bias, found.variance], truth, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("share", [0.97, 0.9999])
@pytest.mark.parametrize("average", AVERAGES, ids=lambda each: type(each).__name__)
def test_large_steps_that_overshoot(average, share):
    """γλ_1 next to 2: poles on the negative axis."""
    rate = share * float(st.max_stable_learning_rate(PROBLEM, batch_size=4096))
    assert rate > 1.9
    assert max(relative_errors(st.Algorithm(average=average), 4096, rate, 3001)) < 1e-10


@pytest.mark.parametrize("average", AVERAGES[:2], ids=lambda each: type(each).__name__)
def test_beyond_the_edge_it_grows(average):
    rate = 1.02 * float(st.max_stable_learning_rate(PROBLEM, batch_size=2))
    assert max(relative_errors(st.Algorithm(average=average), 2, rate, 2000)) < 1e-8


@pytest.mark.parametrize("average", AVERAGES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("method", [METHODS[0], METHODS[2]], ids=str)
def test_settings_in_small_portions_are_each_alone(method, average, monkeypatch):
    """Growing and decaying ones in one call."""
    algorithm = st.Algorithm(method, average=average)
    edge = float(st.max_stable_learning_rate(PROBLEM, batch_size=4, algorithm=st.Algorithm(method)))
    rates = edge * np.array([0.1, 1.01, 0.5, 0.9, 1.02])
    setting = {"batch_size": 4, "num_samples": 3600, "algorithm": algorithm}
    alone = [st.excess_risk(PROBLEM, learning_rate=rate, **setting) for rate in rates]
    for solver in (renewal, transforms):
        monkeypatch.setattr(solver, "NUMBERS_AT_ONCE", 8)
    found = st.excess_risk(PROBLEM, learning_rate=rates, **setting)
    np.testing.assert_allclose(found.bias, [each.bias for each in alone], rtol=1e-10)
    np.testing.assert_allclose(found.variance, [each.variance for each in alone], rtol=1e-10)


def test_an_average_of_all_is_the_default_in_closed_form():
    problem = st.PowerLaw(1.5, 2.5, noise_variance=0.3)
    setting = {"batch_size": [1, 64], "learning_rate": [[0.1], [0.3]], "num_samples": 1e7}
    default = st.excess_risk(problem, **setting)
    other = st.excess_risk(problem, **setting, algorithm=st.Algorithm(average=st.TailAverage(1.0)))
    np.testing.assert_allclose(other.bias, default.bias, rtol=1e-11)
    np.testing.assert_allclose(other.variance, default.variance, rtol=1e-11)


def test_the_default_keeps_its_numbers():
    problem = st.PowerLaw(2.0, 3.0)
    setting = {"batch_size": 32, "learning_rate": 0.5, "num_samples": 1e8}
    default = st.excess_risk(problem, **setting)
    assert st.excess_risk(problem, **setting, algorithm=st.Algorithm()) == default
    assert default.relative_error == 0.0


def test_a_wrong_momentum_is_seen():
    """The control: the oracle of β = 0.9 does not pass for β = 0.899."""
    wrong = replace(METHODS[3], momentum=0.899)
    risk = st.excess_risk(
        PROBLEM, batch_size=4, learning_rate=0.01, num_samples=4000, algorithm=st.Algorithm(wrong, average=AVERAGES[0])
    )
    values = exact(st.Algorithm(METHODS[3], average=AVERAGES[0]), 4, 0.01, 1000)
    assert abs(float(risk.variance) / float(values[1]) - 1) > 1e-4
