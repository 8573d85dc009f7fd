"""Best schedules of signs and Adam: against SGD's by an identity field, brute force, and what noise makes of signs."""

from dataclasses import replace
from itertools import product

import jax
import numpy as np
import pytest
from scipy import special
from scipy.optimize import minimize

import sgdtheory as st
from sgdtheory.optimal import named
from sgdtheory.risk import EquivalentRuns
from sgdtheory.risk.mean_field import registry as fields
from sgdtheory.risk.mean_field.field import MemorylessField, Step
from tests.marks import every_other, slow

SIGN = st.SignSGD()
ADAM = st.Adam(0.9, 0.95)
LAST = st.LastIterate()


class SGDField(MemorylessField):
    """Plain SGD as a field (THEORY.md T2): the identity in the place of the sign."""

    def step(self, ensemble, values, loss, known):
        mean, variance = values
        response = known.rate * ensemble.root**2
        return Step(response * mean, response, response**2 * (variance + (mean**2 + variance + loss) / known.batch))


@pytest.mark.parametrize("steps", [6, 120])
def test_with_the_identity_it_is_the_best_schedule_of_sgd(monkeypatch, steps):
    """By the other engine, whose gradient is that of second moments, where the stability edge holds nothing."""
    problem = st.LeastSquares([1.0, 0.3, 0.1], [0.5, 0.4, 0.3], noise_variance=2.0)
    setting = {"num_samples": 2 * steps, "batch_size": 2}
    exact = st.optimal_schedule(problem, **setting)
    monkeypatch.setitem(fields.FIELDS, st.SignSGD, lambda method: SGDField())
    found = st.optimal_schedule(problem, **setting, method=SIGN)
    assert exact.peak_learning_rate < 0.95 * float(st.max_stable_learning_rate(problem, batch_size=2))
    assert found.risk == pytest.approx(exact.risk, rel=1e-6)
    assert found.lower_bound == exact.lower_bound
    assert found.agreeing > found.searches / 2
    shares = np.arange(steps) / steps
    np.testing.assert_allclose(found.learning_rate(shares), exact.learning_rate(shares), rtol=0.01)


def test_where_noise_dominates_signs_are_preconditioned_sgd():
    """T37: at B = 2, c_B = 1, signs are SGD on the preconditioned problem at B = 1 and the rate γ/σ."""
    problem = st.LeastSquares(1 / np.arange(1, 5.0) ** 2, 1 / np.arange(1, 5.0) ** 2, noise_variance=400.0)
    steps = 100
    sign = st.optimal_schedule(problem, num_samples=2 * steps, batch_size=2, method=SIGN)
    plain = st.optimal_schedule(problem.preconditioned(0.5), num_samples=steps, batch_size=1)
    assert sign.risk == pytest.approx(plain.risk, rel=0.02)
    shares = np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
    np.testing.assert_allclose(sign.learning_rate(shares) / 20, plain.learning_rate(shares), rtol=0.05)


def large_batch_risk(problem, batch, rates):
    """(G,) of signs for (G, n) γ_t with χ = √B: E sign is erf, and T that of all."""
    mean = np.tile(np.sqrt(problem.signal), (len(rates), 1))
    variance = np.zeros_like(mean)
    root = np.sqrt(problem.eigenvalues)
    for rate in rates.T[:, :, None]:
        square = mean**2 + variance
        width = np.sqrt(batch / 2 / (problem.noise_variance + square.sum(1, keepdims=True) - square + batch * variance))
        sign = special.erf(width * mean)
        slope = 2 / np.sqrt(np.pi) * width * np.exp(-((width * mean) ** 2))
        mean = mean - rate * root * sign
        variance = (1 - 2 * rate * root * slope) * variance + (rate * root) ** 2 * (1 - sign**2)
    return (mean**2 + variance).sum(1)


SIX = st.LeastSquares(1 / np.arange(1, 7.0) ** 2, 1 / np.arange(1, 7.0))


@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize(("noise", "batch"), [(0.05, 1e7), (3e4, 1e6)])
def test_it_is_the_best_of_a_fine_grid(steps, noise, batch):
    """And of a search from there, by a recursion of its own: where signs are certain, and where noise decides."""
    problem = replace(SIX, noise_variance=noise)
    found = st.optimal_schedule(problem, num_samples=batch * steps, batch_size=batch, method=SIGN)
    own = found.learning_rate(np.arange(steps) / steps)
    assert large_batch_risk(problem, batch, own[None])[0] == pytest.approx(found.risk, rel=2e-4)
    each = np.log(np.geomspace(3e-3, 8.0, 200 if steps == 2 else 40))
    grid = np.array(list(product(each, repeat=steps)))
    begin = grid[large_batch_risk(problem, batch, np.exp(grid)).argmin()]
    least = minimize(
        lambda point: large_batch_risk(problem, batch, np.exp(point)[None])[0], begin, method="Nelder-Mead"
    )
    assert found.risk < least.fun * (1 + 5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "setting"), every_other([ADAM, st.SignSGD(0.9)], [(8, 1.0), (100_000, 0.1)]), ids=str
)
def test_no_three_steps_with_momentum_are_better(method, setting):
    batch, noise = setting
    problem = replace(SIX, noise_variance=noise)
    found = st.optimal_schedule(problem, num_samples=3 * batch, batch_size=batch, method=method)
    runs = EquivalentRuns(problem, method, batch, 3, 100.0)
    each = np.log(np.append(1e-9, np.geomspace(3e-3, 12.0, 15)))
    grid = np.array(list(product(each, repeat=3)))
    begins = grid[np.argsort(runs.risks(grid).risk)[:4]]  # several basins
    least = min(minimize(lambda at: runs.risks(at[None]).risk[0], each, method="Nelder-Mead").fun for each in begins)
    assert found.risk < least * (1 + 5e-4)
    own = np.log(np.maximum(found.learning_rate(np.arange(3) / 3), 1e-9))
    assert runs.risks(own[None]).risk[0] == pytest.approx(found.risk, rel=1e-6)


@pytest.fixture(scope="module")
def adam():
    """Return the best schedule of Adam: 100 steps at B = 16."""
    return st.optimal_schedule(st.PowerLaw(1.5, 2.0), num_samples=1600, batch_size=16, method=ADAM)


def test_it_is_an_optimum(adam):
    """The slope is 0, starts agree, what is told is what it attains; any other γ next to it is worse."""
    assert adam.slope < 1e-5
    assert adam.searches == 4
    assert max(adam.from_starts.values()) == pytest.approx(min(adam.from_starts.values()), rel=1e-5)
    assert adam.with_half_the_knots == pytest.approx(adam.risk, rel=1e-4)
    problem = st.PowerLaw(1.5, 2.0)
    setting = {"batch_size": 16, "num_samples": 1600}
    here = st.excess_risk(problem, **setting, learning_rate=adam.peak_learning_rate, algorithm=adam.algorithm)
    assert here.total == pytest.approx(adam.risk, rel=1e-9)
    table = adam.learning_rate(np.arange(100) / 100)
    rng = np.random.default_rng(0)
    for _ in range(4):
        wave = np.exp(0.1 * np.interp(np.arange(100), np.linspace(0, 100, 9), rng.normal(size=9)))
        other = st.Algorithm(ADAM, table * wave, average=LAST)
        assert st.excess_risk(problem, **setting, learning_rate=1.0, algorithm=other).total > adam.risk


def test_adam_undoes_the_correction_of_its_bias(adam):
    """First rates grow like 1 − β₁^{t+1}, and the last one is 1/(1 − β₁) times the one before; others just decay.

    The first step is a sign. Beside noise its drift is √(2/π) of that of the gradient over its root mean square, and
    the scatter is the same: the best first rate is lower by about this factor.
    """
    rates = adam.learning_rate(np.arange(100) / 100)
    early = rates[:20] / (1 - 0.9 ** np.arange(1, 21))
    assert rates[:20].max() > 8 * rates[0]
    assert early[1:].max() < 1.4 * early[1:].min()
    assert early[0] / early[1] == pytest.approx(np.sqrt(2 / np.pi), rel=0.2)
    assert rates[-1] / rates[-2] == pytest.approx(10, rel=0.1)
    assert (np.diff(rates[50:-1]) < 0).all()


def test_schedules_with_a_name_are_of_the_same_method(monkeypatch, adam):
    monkeypatch.setattr(named, "NAMED", {name: named.NAMED[name] for name in ("constant", "linear")})
    problem = st.PowerLaw(1.5, 2.0)
    found = st.optimal.named_schedules(problem, adam)
    assert min(each.loss for each in found.values()) > 0.03
    linear = found["linear"]
    assert linear.algorithm == st.Algorithm(ADAM, st.Linear(), average=LAST)
    setting = {"batch_size": 16, "num_samples": 1600, "algorithm": linear.algorithm}
    risks = [
        st.excess_risk(problem, **setting, learning_rate=each * linear.learning_rate).total for each in (0.9, 1, 1.1)
    ]
    assert risks[1] == pytest.approx(linear.risk, rel=2e-5)
    assert risks[1] == min(risks)


@pytest.mark.slow
def test_simulated_means_are_those_of_the_schedules():
    """Best schedule and tuned linear decay, against the mean of 2048 replicas: 2% and 4.5 standard errors (7e-6)."""
    problem = st.PowerLaw(1.5, 2.0, 300)
    best = st.optimal_schedule(problem, num_samples=2400, batch_size=16, method=ADAM)
    linear = st.optimal.named_schedules(problem, best)["linear"]
    means = []
    for run in (best, linear):
        rate = getattr(run, "learning_rate" if run is linear else "peak_learning_rate")
        setting = {"batch_size": 16, "learning_rate": rate, "num_samples": 2400, "algorithm": run.algorithm}
        found = st.simulate(jax.random.key(3), problem, **setting, num_replicas=2048)
        assert abs(float(found.mean) - run.risk) < 0.02 * run.risk + 4.5 * float(found.standard_error)
        means.append(float(found.mean))
    assert means[0] < 0.95 * means[1]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"method": SIGN, "num_steps": 10}, "num_steps must be left out with SignSGD"),
        ({"method": SIGN, "constant_learning_rate": True}, "constant_learning_rate must be left out with SignSGD"),
        ({"method": ADAM, "average": st.UniformAverage()}, "average must be LastIterate.* with Adam"),
        ({"method": st.HeavyBall(0.9)}, "method must be SGD.*got HeavyBall"),
        ({"method": st.Adam(0.9, 0.8)}, "where risks are exact, got Adam"),
        ({"method": st.NormalizedSGD()}, "method must be SGD.*got NormalizedSGD"),
        ({"method": st.SignSGD(basis="random")}, "method must be SGD.*got SignSGD"),
        ({"method": SIGN, "num_samples": 30_000}, "num_samples must be at most 20000 steps'"),
    ],
)
def test_what_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        st.optimal_schedule(st.PowerLaw(1.5, 2.0), **{"num_samples": 100} | setting)


def test_the_remark_says_what_is_not_known(adam):
    assert "stated relative error of 0.014; the searches found no better schedule" in adam.remark
    assert "not proven" in adam.remark
    rough = st.optimal_schedule(SIX, num_samples=300, batch_size=100, method=st.SignSGD(0.5))
    assert "; simulate it; the searches found no better schedule" in rough.remark
    assert st.optimal_schedule(SIX, num_samples=20, batch_size=4).remark == ""


@pytest.mark.parametrize("steps", [slow(60)])
def test_a_search_at_every_step_is_no_worse_than_on_knots(steps):
    problem = st.PowerLaw(2.0, 3.0, 60, 0.2)
    found = st.optimal_schedule(problem, num_samples=32 * steps, batch_size=32, method=SIGN)
    assert found.risk < found.with_half_the_knots * (1 + 1e-6)
    assert found.agreeing > found.searches / 2
