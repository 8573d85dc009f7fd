"""Deterministic equivalents: one step against integrals, runs against the exact engine and against simulation."""

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import run_risks
from sgdtheory.risk.mean_field import registry as fields
from sgdtheory.risk.mean_field.chi import chi_rule
from sgdtheory.risk.mean_field.ensemble import Ensemble, ensemble
from sgdtheory.risk.mean_field.field import ERROR, MEAN, VARIANCE, Known, MemorylessField, Step
from sgdtheory.risk.mean_field.signs import SignField
from sgdtheory.risk.mean_field.solver import MeanField
from sgdtheory.risk.systems.moments import Keeping
from tests.marks import every_other, half, slow

LAST = st.LastIterate()
SIGN = st.SignSGD()
PROBLEM = st.PowerLaw(1.5, 2.0, dim=200)


@pytest.mark.parametrize("batch", [1.0, 2.5, 7.0, 64.0, 1e4, 1e7, 1e12])
def test_means_over_chi(batch):
    """Moments in closed form, and functions that are no polynomials by another quadrature."""
    node, weight = chi_rule(batch, 14)
    scale = np.sqrt(batch)
    for power in (0, 1, 2, 3, 6):
        with mpmath.workdps(40):
            half = mpmath.mpf(batch) / 2
            exact = mpmath.exp(mpmath.loggamma(half + power / 2) - mpmath.loggamma(half)) / half ** (power / 2)
        assert weight @ (node / scale) ** power == pytest.approx(float(exact), rel=1e-8)
    if batch <= 1e4:
        law = stats.chi(batch)
        ends = law.ppf([1e-14, 1 - 1e-14])
        for function in (
            lambda x: special.erf(0.3 * x),
            lambda x: x / np.sqrt(1 + 0.1 * x**2),
            lambda x: np.exp(-x / 9),
        ):
            exact = integrate.quad(lambda x, f=function: f(x) * law.pdf(x), *ends, epsabs=0, epsrel=1e-11, limit=500)[0]
            assert weight @ function(node) == pytest.approx(exact, rel=2e-6)


def alone(eigenvalue, multiplicity=1.0):
    one = np.array([1.0])
    return Ensemble(np.sqrt(eigenvalue) * one, eigenvalue * one, multiplicity * one, one, 0.0, 1.0)


@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.3), (0.8, 0.02), (2.0, 1.5), (0.05, 1e-8)])
def test_a_step_of_sign_is_the_integral_over_the_incomplete_beta_function(batch, mean, variance):
    """E sign = ∫ (2 I_{(1+ρ)/2}(B/2, B/2) − 1) N(u; a, r) du with ρ = u/√(T' + u²), and Cov(u, sign)."""
    others, eigenvalue, rate = 0.7, 0.25, 0.3

    def sign(u):
        return 2 * special.betainc(batch / 2, batch / 2, (1 + u / np.sqrt(others + u**2)) / 2) - 1

    law = stats.norm(mean, np.sqrt(variance))
    ends = mean - 12 * law.std(), mean + 12 * law.std()
    expected, shared = (
        integrate.quad(lambda u, f=f: f(u) * law.pdf(u), *ends, points=[mean], epsabs=1e-13, limit=400)[0]
        for f in (sign, lambda u: (u - mean) * sign(u))
    )
    one = np.array([[1.0]])
    loss = (others + mean**2 + variance) * one
    field = SignField()
    known = Known(0 * one, rate * one, batch * one, field.looked_up(np.zeros(1), np.array([float(batch)])))
    found = field.step(alone(eigenvalue), np.stack([mean * one, variance * one]), loss, known)
    close = {1: 3e-4, 3: 5e-5, 64: 2e-5}[batch]  # nodes of the mean over χ
    assert found.drift[0, 0] == pytest.approx(rate * 0.5 * expected, rel=close, abs=1e-9)
    assert found.response[0, 0] * variance == pytest.approx(rate * 0.5 * shared, rel=close, abs=1e-12)
    assert found.scatter[0, 0] == pytest.approx(rate**2 * eigenvalue * (1 - expected**2), rel=close)


@pytest.mark.parametrize("number", [3, 1200, 20_000])
def test_a_sign_does_not_depend_on_how_many_directions_there_are(number):
    """All nodes of χ are taken at once, some, or one."""
    field = SignField()
    one = np.array([[1.0]])
    known = Known(0 * one, 0.3 * one, one, field.looked_up(np.zeros(1), np.ones(1)))

    def step(number):
        each = np.ones(number)
        same = Ensemble(0.5 * each, 0.25 * each, each, each, 0.0, 1.0)
        return field.step(same, np.stack([0.8 * each[None], 0.3 * each[None]]), 2 * one, known)

    for found, expected in zip(step(number), step(1), strict=True):
        assert found.shape == (1, number)
        np.testing.assert_allclose(found, expected[0, 0], rtol=1e-13)


class SGDField(MemorylessField):
    """Plain SGD as a field (THEORY.md T2): the identity in the place of the sign."""

    def step(self, ensemble, values, loss, known):
        mean, variance = values
        response = known.rate * ensemble.root**2
        scatter = response**2 * (variance + (mean**2 + variance + loss) / known.batch)
        return Step(response * mean, response, scatter)


SHAPES = {
    "constant": (st.Constant(), st.Constant()),
    "linear": (st.Linear(), st.Constant()),
    "1 − √": (st.WSD(0.3, power=0.5), st.Constant()),
    "steep end": (st.PowerDecay(0.2), st.Constant()),
    "warm": (st.Cosine(final=0.1, warmup=0.1), st.Stages([0, 0.4], [1, 3])),
    "staged": (st.Stages([0, 0.3, 0.8], [1, 0.5, 0.1]), st.Linear(final=4.0)),
    "any": (lambda t: 1 / (1 + t / 99), st.Constant()),
}


@pytest.mark.parametrize(
    ("shape", "average"),
    half(SHAPES, [LAST, st.UniformAverage(), st.TailAverage(0.3), st.ExponentialAverage(window=0.1)]),
)
def test_with_the_identity_it_is_the_exact_engine(monkeypatch, shape, average):
    """A run of 3,000 steps on panels against closed forms and panels of second moments; along the way too."""
    monkeypatch.setitem(fields.FIELDS, st.SignSGD, lambda method: SGDField())
    problem = st.PowerLaw(1.5, 2.0, dim=50, noise_variance=0.6)
    setting = {"batch_size": 4, "learning_rate": 0.2, "num_samples": 12000}
    mine, plain = (st.Algorithm(method, *SHAPES[shape], average=average) for method in (SIGN, st.SGD()))
    found, exact = (st.excess_risk(problem, **setting, algorithm=each) for each in (mine, plain))
    assert found.total == pytest.approx(exact.total, rel=3e-5)
    paths = [st.risk_path(problem, **setting, algorithm=each, points=9) for each in (mine, plain)]
    for name in ("iterate", "average"):
        one, other = (getattr(path, name).total for path in paths)
        np.testing.assert_allclose(one, other, rtol=3e-5)


@pytest.mark.parametrize(
    ("beta1", "batch", "schedule", "average"),
    half([0.0, 0.9], [1, 512], [st.Constant(), st.Linear()], [LAST, st.UniformAverage()]),
)
def test_with_a_large_epsilon_it_is_the_linear_method(beta1, batch, schedule, average):
    """γ/ε at a fixed rate: SGD, or heavy ball whose m̂ is a mean of the gradients seen."""
    problem = st.PowerLaw(1.5, 2.0, dim=50, noise_variance=0.6)
    epsilon = 1e9

    def unbiased(step):
        return schedule.factors(step, 3000) / (1 - beta1 ** (step + 1))

    setting = {"batch_size": batch, "num_samples": 3000 * batch}
    adam = st.Algorithm(st.Adam(beta1, 0.99, epsilon=epsilon), schedule, average=average)
    linear = st.Algorithm(st.HeavyBall(beta1), unbiased, average=average)
    found = st.excess_risk(problem, **setting, learning_rate=0.1 * epsilon, algorithm=adam)
    exact = st.excess_risk(problem, **setting, learning_rate=0.1 * (1 - beta1), algorithm=linear)
    assert found.total == pytest.approx(exact.total, rel=1e-4)


class DecayedMomentum(st.LinearMethod):
    """Heavy ball with an unbiased m̂ and weight decay κ: w, m and the fixed vector w*."""

    start, output, step_dependence = (1, 0, -1), (1, 0, 0), "any"

    def coefficients(self, rate, step):
        shrink, newest = 0.2 * rate, 0.5 * rate / (1 - 0.5 ** (step + 1))
        A = [[1 - shrink, -newest * 0.5, -shrink], [0, 0.5, 0], [0, 0, 1]]
        return st.Coefficients(A, [newest, -1, 0], [1, 0, 0])


@pytest.mark.parametrize("basis", ["eigenvectors", "random"])
@pytest.mark.parametrize("average", [LAST, st.UniformAverage()])
def test_with_a_large_epsilon_weight_decay_is_that_of_the_linear_method(average, basis):
    """γκ is the same if γ is multiplied by ε and κ divided by it."""
    problem = st.PowerLaw(1.5, 2.0, dim=10, noise_variance=0.6)
    setting = {"batch_size": 4, "num_samples": 4 * 300}
    adam = st.Adam(0.5, 0.9, 1e9, basis, weight_decay=0.2e-9)
    found = st.excess_risk(problem, **setting, learning_rate=1e8, algorithm=st.Algorithm(adam, average=average))
    exact = st.excess_risk(
        problem, **setting, learning_rate=0.1, algorithm=st.Algorithm(DecayedMomentum(), average=average)
    )
    assert found.total == pytest.approx(exact.total, rel=1e-4)


def test_with_infinitely_many_directions_too():
    setting = {"batch_size": 4, "num_samples": 12000}
    problem = st.PowerLaw(1.2, 2.0)
    adam = st.Algorithm(st.Adam(0.0, 0.99, epsilon=1e9), st.Linear(), average=LAST)
    found = st.excess_risk(problem, **setting, learning_rate=2e8, algorithm=adam)
    exact = st.excess_risk(
        problem, **setting, learning_rate=0.2, algorithm=st.Algorithm(schedule=st.Linear(), average=LAST)
    )
    assert found.total == pytest.approx(exact.total, rel=1e-5)


def test_a_small_epsilon_is_none():
    setting = {"batch_size": 4, "learning_rate": 0.01, "num_samples": 4000}
    found, none = (
        st.excess_risk(PROBLEM, **setting, algorithm=st.Algorithm(st.Adam(epsilon=epsilon))).total
        for epsilon in (1e-12, 0.0)
    )
    assert found == pytest.approx(none, rel=1e-9)


def test_what_is_left_out_has_both_traces():
    """It has the trace of λ, for the scatter of steps of one size, and that of λ², for the scatter of linear steps."""
    law = st.PowerLaw(1.3, 1.8)
    found = ensemble(law, 1e3, 1.0)
    assert found.multiplicity @ found.spread == pytest.approx(law.trace, rel=1e-4)
    last = found.multiplicity[-1] * found.spread[-1] ** 2
    kept = np.ceil((1e3 / 1e-3) ** (2 / 1.3))
    assert last == pytest.approx(law.tail_squares(kept), rel=1e-6)


@pytest.mark.parametrize(
    ("method", "average"), half([SIGN, st.Adam(0.9, 0.95), st.NormalizedSGD()], [LAST, st.TailAverage(0.5)])
)
def test_side_by_side_runs_are_what_they_are_alone(method, average):
    """On the panels and modes that one of them needs."""
    algorithm = st.Algorithm(method, st.Linear(), average=average)
    rates = np.array([0.002, 0.003, 0.005])
    setting = 16.0 + 0 * rates, rates, 5000.0 + 0 * rates
    alone, beside = (
        run_risks(PROBLEM, algorithm, *setting, tolerance=tolerance, estimate=False).parts.sum(0)
        for tolerance in (0.0, 1e-5)
    )
    np.testing.assert_allclose(beside, alone, rtol=1e-5)


DECAY = st.Adam(weight_decay=0.1)
METHODS = SIGN, st.SignSGD(0.9), st.Adam(), st.Adam(0.0, 0.95), st.Adam(epsilon=0.1), DECAY, st.NormalizedSGD()
SETTINGS = (1, st.Constant()), (4096, st.Linear()), (1, st.Linear()), (4096, st.Constant())


@pytest.mark.parametrize(
    ("method", "setting"),
    [
        *half(METHODS, SETTINGS[:2]),
        *(slow(*case) for case in every_other(METHODS, SETTINGS[2:])),
        (SIGN, (1, st.PowerDecay(0.2))),  # its slope is infinite at the end,
        (st.Adam(0.9, 0.95), (16, st.WSD(1.0, power=0.5))),  # and that of 1 − √ at the start
    ],
)
def test_panels_are_steps(method, setting):
    batch, schedule = setting
    course = Course(st.Algorithm(method, schedule, average=st.UniformAverage()), float(batch), 0.01, 2000.0)
    run = MeanField(ensemble(PROBLEM, 20.0, np.sqrt(batch)), fields.field_of(method), course)
    keeping = Keeping(0.0, 1.0)
    every = run.stepped(run.start(), keeping, 0.0, 2000.0)
    found = run.propagated(run.start(), keeping, 0.0, 2000.0, (0.0, 2000.0))
    weights = run.ensemble.multiplicity
    for name, power in {"sum_mean": 2, "covariance": 1, "sum_variance": 1}.items():
        one, other = (np.atleast_2d(getattr(each, name))[0] ** power @ weights for each in (every, found))
        assert other == pytest.approx(one, rel=1e-5, abs=1e-9 * PROBLEM.initial_risk), name
    for row, power in {MEAN: 2, VARIANCE: 1}.items():
        one, other = (each.values[row] ** power @ weights for each in (every, found))
        assert other == pytest.approx(one, rel=1e-5, abs=1e-9 * PROBLEM.initial_risk), row


@pytest.mark.parametrize("batch", [1, 4096])
@pytest.mark.parametrize("method", [SIGN, st.NormalizedSGD()])
def test_directions_that_are_left_out(monkeypatch, method, batch):
    """Fewer or many more of infinitely many change nothing: those that move ten times less, or a hundred times less."""
    problem = st.PowerLaw(1.3, 1.8)
    setting = {"batch_size": batch, "learning_rate": 0.003, "num_samples": 3e4 * batch}
    setting |= {"algorithm": st.Algorithm(method, st.Linear(), average=LAST)}
    found = st.excess_risk(problem, **setting).total
    for unmoved in (1e-2, 1e-5):
        monkeypatch.setattr("sgdtheory.risk.mean_field.ensemble.UNMOVED", unmoved)
        assert st.excess_risk(problem, **setting).total == pytest.approx(found, rel=1e-3)


def test_where_steps_lead_to_and_fro_a_larger_error_is_stated():
    """γ√λ_1 far above what gradients' noise moves: the first weight jumps from side to side of its optimum."""
    setting = {"batch_size": 1024, "num_samples": 1024 * 60, "algorithm": st.Algorithm(SIGN, average=LAST)}
    large, small = (st.excess_risk(PROBLEM, **setting, learning_rate=rate).relative_error for rate in (0.18, 0.02))
    assert large > 0.3
    assert ERROR <= small < 0.02


@pytest.mark.parametrize("learning_rate", [1e200, 1e300])  # With 1e300 the number of moving directions overflows.
@pytest.mark.parametrize("method", [SIGN, st.Adam(0.9, 0.99), st.NormalizedSGD(), st.Lion()], ids=str)
def test_a_run_that_diverges_is_data(method, learning_rate):
    algorithm = st.Algorithm(method, average=LAST)
    found = st.excess_risk(PROBLEM, batch_size=2, learning_rate=learning_rate, num_samples=200, algorithm=algorithm)
    assert not found.total < 1e300


@pytest.mark.parametrize(
    ("algorithm", "sentence"),
    [
        (st.Algorithm(st.Adam(0.9, 0.5)), "algorithm must be linear in the gradient where risks are exact, got Adam"),
        (st.Algorithm(st.Adam(0.0, 0.0, epsilon=1e-8)), "where risks are exact, got Adam"),
        (st.Algorithm(SIGN, clip_norm=1.0), r"got SignSGD\(.*\) with clip_norm=1"),
        (st.Algorithm(SIGN, lambda t: 1 / (1 + t)), "algorithm must be smooth or staged: 5e[+]06 steps"),
    ],
)
@pytest.mark.parametrize("ask", [st.excess_risk, st.risk_path])
def test_what_is_refused(ask, algorithm, sentence):
    with pytest.raises(ValueError, match=sentence):
        ask(PROBLEM, batch_size=1, learning_rate=0.1, num_samples=5e6, algorithm=algorithm)


def test_a_problem_that_cannot_be_listed():
    class Mine(st.AbstractProblem):
        noise_variance = 1.0
        dim = None

        def directions(self):
            raise ValueError("infinitely many")

    with pytest.raises(ValueError, match="problem must have finitely many directions, or be a PowerLaw"):
        ensemble(Mine(), 1.0, 1.0)
