"""Risks of linear methods against powers of the whole map of second moments in interval arithmetic: a row a regime."""

import itertools
from typing import NamedTuple

import mpmath
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import THRESHOLDS, iterate_moments
from tests import oracle
from tests.marks import half, slow
from tests.random_problems import random_case

LAST, MEAN, TAIL = st.LastIterate(), st.UniformAverage(), st.TailAverage(0.3)
HALF = st.ExponentialAverage(window=0.5)
AVERAGES = LAST, MEAN, TAIL, st.ExponentialAverage(0.999)
THREE = st.LeastSquares([1.0, 0.1, 3e-4], [0.3, 0.5, 0.2], 0.7)
TWO = st.LeastSquares([1.0, 0.01], [0.6, 0.4], 0.7)
ONE = st.LeastSquares([1.0], [1.0], 0.0)
STAGES = st.Stages([0.0, 0.25, 0.9], [1.0, 0.4, 0.05])


class TwoMomenta(st.LinearMethod):
    """Steps along the mean of two momenta, p_j ← β_j p_j + γ g (AggMo, Lucas et al. 2019): six moments a direction."""

    start, output = (1, 0, 0), (1, 0, 0)

    def coefficients(self, rate, step):
        return st.Coefficients(A=[[1, -0.25, -0.45], [0, 0.5, 0], [0, 0, 0.9]], b=[rate, -rate, -rate], c=[1, 0, 0])


class Row(NamedTuple):
    """A run of `steps`; its learning rate is a share of the threshold where `rate` is None."""

    problem: st.LeastSquares
    method: object
    average: object
    batch: int
    steps: int
    share: float = 0.4
    rate: float | None = None
    schedule: object = st.Constant()
    allowed: float = 1e-10

    def learning_rate(self):
        if self.rate is not None:
            return self.rate
        steady = st.Algorithm(self.method)
        return self.share * float(st.max_stable_learning_rate(self.problem, batch_size=self.batch, algorithm=steady))

    def segments(self):
        """(B, γ, number of steps) of the stages of the schedule."""
        stages = self.schedule if isinstance(self.schedule, st.Stages) else st.Stages([0.0], [1.0])
        starts = [int(np.ceil(fraction * self.steps)) for fraction in stages.fractions] + [self.steps]
        rates = [self.learning_rate() * value for value in stages.values]
        return [
            (self.batch, rate, high - low)
            for rate, low, high in zip(rates, starts[:-1], starts[1:], strict=True)
            if high > low
        ]


METHODS = (
    st.SGD(),
    st.SGD(weight_decay=0.02),
    st.HeavyBall(0.5),
    st.HeavyBall(0.9),
    st.Nesterov(0.7),
    st.AcceleratedSGD(coupling=0.9, forgetting=0.1, long_step=5.0),
    TwoMomenta(),
)
LENGTHS = (1, 1), (4, 33), (4, 1700), (64, 10**9)  # B and n
LATE = (
    st.DelayedSGD(2),
    st.LocalSGD(2, 4),
    st.LocalSGD(1, 6, outer_learning_rate=1.2, outer_momentum=0.3),
    st.LocalSGD(2, 5, outer_learning_rate=0.7, outer_momentum=0.9),
    st.LocalSGD(2, 3, outer_learning_rate=0.8, outer_momentum=0.5, inner_momentum=0.4),
    st.LocalSGD(2, 1, outer_learning_rate=0.7, outer_momentum=0.5, inner_momentum=0.5),
)
# 1 − A of 1e-12 and less, beside large entries: nothing is left of it in A.
SLOW = (
    (st.SGD(weight_decay=1e-6), 1e-6, 10**12),
    (st.SGD(weight_decay=1e-10), 1e-3, 10**10),
    (st.HeavyBall(1 - 1e-6), 1e-7, 10**9),
    (st.Nesterov(1 - 1e-5), 1e-4, 10**11),
    (st.AcceleratedSGD(coupling=4e-5, forgetting=2e-6, long_step=0.96), 2e-7, 10**11),
    (st.AcceleratedSGD(coupling=1 - 2e-5, forgetting=4e-8, long_step=30.0), 0.13, 10**9),
)
EQUAL = st.LeastSquares([1.0, 0.5], [1.0, 1.0], 0.0)
# Risks of last iterates without noise: no difference of large numbers, and nothing that oscillates is left out.
SMALL = (
    (ONE, st.LocalSGD(1, 40), 33, 0.4, 40),
    (EQUAL, st.LocalSGD(2, 20), 100, 1.246, 80),
    (EQUAL, st.LocalSGD(2, 20), 100, 1.246, 33),
    (st.LeastSquares([19.2], [3.04], 0.1), st.LocalSGD(2, 34), 46, 0.0556, 1038),  # a round leaves 1e-80
    (st.LeastSquares([1.0, 0.3], [1.0, 0.5], 0.0), st.LocalSGD(2, 3), 4, 0.05, 600),
    (st.LeastSquares([1.0, 0.95], [1.0, 1.0], 0.0), st.LocalSGD(2, 3), 1, 0.5, 180),  # noise sets the pace
    (st.LeastSquares([18.0], [0.0651], 0.0), st.LocalSGD(2, 2, 1.3, 0.3), 36, 0.018, 51),
    (st.LeastSquares([1.05, 21.7], [0.075, 0.806], 0.0), st.Nesterov(0.99), 144, 0.01067, 3977),
    (ONE, st.HeavyBall(0.9), 30, 0.5, 500),
)
GROWING = st.LeastSquares([1.0, 0.3], [0.4, 0.6], 1.0)
# The weight of the start in an exponential average decays as ρ^{2n}: rounding of 3e-8 where S²(0) is on the contour.
FORGOTTEN = st.LeastSquares(*st.PowerLaw(3.0, 7.9, dim=8).directions(), 0.0)
TRILLIONS = [slow(*case) for case in itertools.product(METHODS[:-1], AVERAGES, [(4, 10**6), (1, 10**12)])]
TRILLIONS += [slow(*case) for case in itertools.product(LATE, AVERAGES, [(2, 1003), (2, 10**6 + 2)])]
ROWS = {
    "ordinary": [
        *half(METHODS, AVERAGES, LENGTHS),
        *half(LATE, AVERAGES, [(2, 7), (2, 103)]),
        (LATE[2], TAIL, (2, 10**6 + 2)),
        *TRILLIONS,
    ],
    "stages": half(METHODS[:4:3], AVERAGES, (900, 10**7)),
    "slow decay": list(itertools.product(SLOW, AVERAGES[:2])),
    "overshooting": list(itertools.product([0.97, 0.9999], AVERAGES)),  # poles on the negative axis
    "beyond the threshold": list(itertools.product(AVERAGES[:2])),
    "grown and come down": list(itertools.product([1.2, 1.5], (LAST, st.ExponentialAverage(0.7)))),  # by up to 1e30
    "small": SMALL,
    "forgetting 6e-12 a step": [(st.LocalSGD(2, 24),), (st.LocalSGD(2, 6, 0.7, 0.3),)],
    "forgotten start": [(st.SGD(),), slow(st.LocalSGD(1, 4))],
}
MAKE = {
    "ordinary": lambda method, average, length: Row(
        TWO if method in LATE else THREE, method, average, length[0], length[1]
    ),
    "stages": lambda method, average, steps: Row(THREE, method, average, 16, steps, 0.5, schedule=STAGES),
    "slow decay": lambda case, average: Row(
        st.LeastSquares([1.0, 1e-9], [1.0, 1.0]), case[0], average, 16, case[2], rate=case[1]
    ),
    "overshooting": lambda share, average: Row(THREE, st.SGD(), average, 4096, 3001, share),
    "beyond the threshold": lambda average: Row(THREE, st.SGD(), average, 2, 2000, 1.02, allowed=1e-8),
    "grown and come down": lambda factor, average: Row(
        GROWING, st.HeavyBall(0.6), average, 1, 1200, 1.0, schedule=st.Stages([0, 0.2], [factor, 0.1])
    ),
    "small": lambda problem, method, batch, rate, steps: Row(problem, method, LAST, batch, steps, rate=rate),
    "forgetting 6e-12 a step": lambda method: Row(
        st.LeastSquares([0.116], [0.416], 0.1), method, HALF, 9, 314436579140, rate=0.3
    ),
    "forgotten start": lambda method: Row(
        FORGOTTEN, method, st.ExponentialAverage(window=0.1), 48, 40_000, rate=0.9, allowed=1e-9
    ),
}


def cases():
    for name, rows in ROWS.items():
        for place, row in enumerate(rows):
            marks = getattr(row, "marks", ())
            values = row.values if marks else row
            yield pytest.param(MAKE[name](*values), id=f"{name}-{place}", marks=marks)


@pytest.mark.parametrize("row", list(cases()))
def test_a_regime(row):
    algorithm = st.Algorithm(row.method, row.schedule, average=row.average)
    samples = float(algorithm.workers) * row.batch * row.steps
    setting = {"batch_size": row.batch, "learning_rate": row.learning_rate(), "num_samples": samples}
    risk = st.excess_risk(row.problem, **setting, algorithm=algorithm)
    exact = oracle.parts(row.problem, algorithm, row.segments())
    found = risk.bias, risk.variance / row.problem.noise_variance if row.problem.noise_variance else None
    for part, value in zip(found, exact, strict=True):
        if part is not None:
            assert oracle.relative_error(part, value) < row.allowed or max(float(value), part) < 1e-15 * risk.total
    assert risk.relative_error == 0 or row.share > 1


@pytest.mark.parametrize("average", [LAST, MEAN], ids=str)
@pytest.mark.parametrize("method", [st.SGD(), st.HeavyBall(0.8)], ids=str)
@pytest.mark.parametrize(
    ("shape", "factor"),
    [
        (
            st.WSD(0.2, power=0.5),
            lambda t, n: 1 if t <= 0.8 * n else 1 - mpmath.sqrt((t - mpmath.mpf(4) / 5 * n) / (n / 5)),
        ),
        (st.PowerDecay(0.4), lambda t, n: (1 - mpmath.mpf(t) / n) ** mpmath.mpf("0.4")),
    ],
    ids=["1 − √", "steep end"],
)
def test_decays_of_infinite_slope(shape, factor, method, average):
    """1,200 steps, on panels in the decay, against every step in ball arithmetic, with factors of 30 digits."""
    algorithm = st.Algorithm(method, shape, average=average)
    found = st.excess_risk(THREE, batch_size=4, learning_rate=0.02, num_samples=4800, algorithm=algorithm)
    with mpmath.workdps(30):
        segments = [(4, 0.02 * float(factor(t, mpmath.mpf(1200))), 1) for t in range(1200)]
    error = oracle.relative_error(found.total, oracle.risk(THREE, algorithm, segments))
    assert error < 1e-10 + found.relative_error
    assert found.relative_error < 1e-7


def test_a_wrong_momentum_is_seen():
    """The control: the oracle of β = 0.9 does not pass for β = 0.899."""
    right, wrong = (st.Algorithm(st.HeavyBall(beta), average=LAST) for beta in (0.9, 0.899))
    found = st.excess_risk(THREE, batch_size=4, learning_rate=0.01, num_samples=4000, algorithm=wrong)
    assert oracle.relative_error(found.variance / 0.7, oracle.parts(THREE, right, [(4, 0.01, 1000)])[1]) > 1e-4


FEW = THRESHOLDS.few_steps
KINDS = {  # numbers of steps of every seed, whether it is stable, and the relative error that is allowed
    "any": (lambda case: [case.num_steps], False, 1e-10, (12, 60)),
    "few": (lambda case: [1, 2, 3, FEW, FEW + 1, FEW + 2], False, 1e-12, (8, 25)),
    "unstable": (lambda case: [33, 400, min(case.num_steps, 10**5)], True, 1e-9, (12, 40)),
}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        (kind, seed) if seed < quick else slow(kind, seed)
        for kind, (*_, (quick, all_)) in KINDS.items()
        for seed in range(all_)
    ],
)
def test_random_problems(kind, seed):
    """Averages and moments of the last iterate: few steps on both sides of the switch between two evaluations."""
    steps_of, unstable, allowed, _ = KINDS[kind]
    case = random_case(np.random.default_rng(seed), unstable=unstable)
    problem, batch, rate = case.problem, case.batch_size, case.learning_rate
    for steps in steps_of(case):
        mean = st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=float(steps) * batch)
        found = [(mean.bias, mean.variance)]
        exact = [oracle.parts(problem, st.Algorithm(), [(batch, rate, steps)])]
        last = st.Algorithm(average=LAST)
        found += [(each,) for each in iterate_moments(problem, [Course(last, batch, rate, float(steps))])[:, 0]]
        exact += [(sum(oracle.parts(problem, last, [(batch, rate, steps)], power)),) for power in range(3)]
        for value, reference in zip(itertools.chain(*found), itertools.chain(*exact), strict=True):
            if np.isfinite(value):
                assert oracle.relative_error(value, reference) < allowed
            else:
                assert unstable
                assert reference > 1e300


@pytest.mark.parametrize("eigenvalues", [[1.0], [1.0, 0.3], [1.0, 0.5, 0.01]])
def test_without_noise_what_has_decayed_keeps_its_digits(eigenvalues):
    """Moments of the last iterate down to 1e-300."""
    problem, last = st.LeastSquares(eigenvalues, np.ones(len(eigenvalues)), 0.0), st.Algorithm(average=LAST)
    for steps in (20, 33, 60, 75, 90, 150, 1000, 2209, 2385, 10**5, 10**8):
        found = iterate_moments(problem, [Course(last, 4.0, 0.5, float(steps))])[:, 0]
        for power, value in enumerate(found):
            exact = oracle.parts(problem, last, [(4, 0.5, steps)], power)[0]
            assert oracle.relative_error(value, exact) < 1e-8 or exact < 1e-300
