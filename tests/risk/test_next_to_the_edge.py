"""The stated error bounds the true one next to the stability edge and beyond it, where panels are hardest put."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import course_risk
from tests import together
from tests.marks import EXHAUSTIVE, slow

ROUNDING = 1e-10  # of closed forms and steps, which state no error


def of(rng, *choices):
    return choices[rng.integers(len(choices))]


def method_of(rng):
    share, other = rng.uniform(0, 0.95, 2)
    return of(
        rng,
        st.SGD(),
        st.SGD(),
        st.SGD(10 ** rng.uniform(-6, -1)),
        st.HeavyBall(share),
        st.Nesterov(share),
        st.ScheduleFree(share),
        st.AcceleratedSGD(share, other, 10 ** rng.uniform(-1, 1)),
    )


def schedule_of(rng):
    warmup = of(rng, 0.0, 0.0, 10 ** rng.uniform(-2, -0.05))
    final = of(rng, 0.0, 10 ** rng.uniform(-2, 0))
    return of(
        rng,
        st.Constant(warmup),
        st.Cosine(final, warmup),
        st.Linear(final, warmup),
        st.WSD(rng.uniform(0.02, 1 - warmup), warmup),
        st.PowerDecay(rng.uniform(0.2, 4), warmup),
        st.Stages([0, 0.3, 0.31, 0.7], rng.random(4)),
    )


def average_of(rng):
    return of(
        rng,
        st.LastIterate(),
        st.LastIterate(),
        st.UniformAverage(),
        st.TailAverage(rng.uniform(0.01, 1)),
        st.ExponentialAverage(1 - 10 ** rng.uniform(-4, -0.5)),
        st.ExponentialAverage(window=10 ** rng.uniform(-3, 0)),
    )


def random_run(rng, most):
    """(problem, algorithm, peak batch, peak γ, n): γ from 0.9 to 0.9999 of the edge, or up to 1.3 times it."""
    dim = int(rng.integers(1, 5))
    problem = st.LeastSquares(np.append(1.0, 10 ** -rng.uniform(0, 4, dim - 1)), rng.random(dim), rng.random())
    ramp = of(rng, *[st.Constant()] * 5, st.Linear(4.0), st.Cosine(0.2), st.Stages([0, 0.5], [0.5, 1]))
    algorithm = st.Algorithm(method_of(rng), schedule_of(rng), ramp, average_of(rng))
    batch, steps = float(of(rng, 1, 2, 4, 16, 64, 1024)), int(10 ** rng.uniform(2.35, np.log10(most)))
    method = algorithm.method if algorithm.method.step_dependence == "none" else st.SGD()
    edge = float(st.max_stable_learning_rate(problem, batch_size=batch, algorithm=st.Algorithm(method)))
    edge = edge if edge < 1e6 else 2.0  # some methods have none
    share = 1 - 10 ** rng.uniform(-4, -1) if rng.random() < 0.7 else 1 + rng.uniform(0, 0.3)
    return problem, algorithm, batch, share * edge / algorithm.schedule.factors(np.arange(steps), steps).max(), steps


def far_below(problem, algorithm, batch, rate, steps):
    """Return whether no step at the smallest batch size is within 0.2% of the threshold, where γ's rounding counts."""
    method, step = algorithm.method, np.arange(steps)
    least = max(1, np.floor(batch * min(1.0, algorithm.batch_schedule.factors(step, steps).min())))
    given = st.Algorithm(method if method.step_dependence == "none" else st.SGD())
    edge = float(st.max_stable_learning_rate(problem, batch_size=least, algorithm=given))
    return rate * algorithm.schedule.factors(step, steps).max() < 0.998 * edge


def errors(runs):
    """(R,) relative errors of the risk, stated ones, whether panels were used, and the risk over what there was.

    And whether all steps are `far_below` the edge. Runs beyond 1e200 are left out.
    """
    with np.errstate(all="ignore"):
        truth = together.risks(runs).sum(0)
    found = []
    for exact, (problem, algorithm, batch, rate, steps) in zip(truth, runs, strict=True):
        if exact < 1e200:
            risk = course_risk(problem, Course(algorithm, batch, rate, float(steps)))
            grown = exact / (problem.signal.sum() + problem.noise_variance)
            total = risk.parts.sum()
            bound = risk.error == 1  # of a risk that has lost all digits, from above
            error = abs(1 - exact / total) if bound else abs(total / exact - 1)
            found.append(
                (error, risk.error, risk.approximated, grown, far_below(problem, algorithm, batch, rate, steps))
            )
    return np.array(found).T


@pytest.mark.parametrize(("runs", "most"), [(30, 900), slow(500 if EXHAUSTIVE else 250, 4000)])
def test_the_stated_error_bounds_the_true_one(runs, most):
    """All methods, schedules, batch ramps and averages, against every step; 250 or 500 of them in the slow suite."""
    rng = np.random.default_rng(20261123)
    drawn = sorted((random_run(rng, most) for _ in range(runs)), key=lambda run: run[-1])
    found = np.concatenate([errors(drawn[first : first + 100]) for first in range(0, runs, 100)], axis=1)
    error, stated, panels, grown, below = found
    assert (error <= stated + ROUNDING).all()
    lost = np.isinf(error) | (stated == 1)
    assert error[~lost].max() < 1e-5
    assert (grown[lost] > 1e30).all()  # given as inf, which is what it comes to, or as a bound
    assert lost.mean() < 0.005
    assert panels.sum() > 5  # the others are stepped through, or in closed form
    assert (stated[(panels == 0) & (below == 1)] == 0).all()


@pytest.mark.parametrize(
    ("schedule", "average", "steps", "batch"),
    [
        (st.Linear(0.2, 0.3), st.LastIterate(), 3000, 16.0),
        (st.Linear(0.2, 0.3), st.UniformAverage(), 3000, 16.0),
        (st.Cosine(), st.UniformAverage(), 500, 4.0),
        (st.Cosine(), st.LastIterate(), 500, 4.0),
    ],
    ids=str,
)
def test_a_bend_within_a_panel_is_followed(schedule, average, steps, batch):
    """One direction at 0.999 of its edge: its moments follow γ until they cannot, within √n steps of the peak."""
    problem, algorithm = st.LeastSquares([1.0], [1.0], 1.0), st.Algorithm(schedule=schedule, average=average)
    rate = 0.999 * float(st.max_stable_learning_rate(problem, batch_size=batch))
    (error,), (stated,), *_ = errors([(problem, algorithm, batch, rate, steps)])
    assert error <= stated + ROUNDING
    assert error < 1e-8
    assert stated < 1e-6
