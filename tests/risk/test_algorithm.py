"""Algorithms: identities between them, averages by T22, stability edges, paths, bad input."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import number_of_steps
from tests import brute_force

PROBLEM = st.LeastSquares([1.0, 0.3, 0.01], [0.3, 0.5, 0.2], noise_variance=0.6)
LAST = st.LastIterate()


def risk(algorithm, problem=PROBLEM, batch_size=4, learning_rate=0.2, num_samples=4000):
    found = st.excess_risk(
        problem, batch_size=batch_size, learning_rate=learning_rate, num_samples=num_samples, algorithm=algorithm
    )
    return np.array([found.bias, found.variance])


def same(first, second, rtol=1e-10):
    np.testing.assert_allclose(risk(first), risk(second), rtol=rtol)


class TestIdentities:
    """T21's rows, by what they have to have in common."""

    @pytest.mark.parametrize("steps", [1e6, 1e12])
    def test_momentum_0_is_sgd_after_many_steps(self, steps):
        """The dimension is infinite, and few digits are left of 1 − γλ."""
        for average in (LAST, st.TailAverage(0.5)):
            setting = {"problem": st.PowerLaw(2.0, 3.0), "batch_size": 16, "num_samples": 16 * steps}
            both = [risk(st.Algorithm(method, average=average), **setting) for method in (st.SGD(), st.HeavyBall(0))]
            np.testing.assert_allclose(both[1], both[0], rtol=1e-10)

    def test_schedule_free_without_interpolation_is_the_mean_of_what_follows(self):
        """Mean of w_1 … w_n: n w̄' = (n + 1) w̄_{n+1} − w_0, by the dense recursion of one step more."""

        class After(st.LinearMethod):  # (w, Σ_{s ≤ t} w_s / n), summed after each step
            start, output = (1, 0), (0, 1)

            def coefficients(self, rate, step):
                return st.Coefficients(A=[[1, 0], [1e-3, 1]], b=[rate, 1e-3 * rate], c=[1, 0])

        same(st.Algorithm(st.ScheduleFree(0.0), average=LAST), st.Algorithm(After(), average=LAST), rtol=1e-8)

    def test_one_stage_is_constant(self):
        same(st.Algorithm(schedule=st.Stages([0], [1]), average=LAST), st.Algorithm(average=LAST), rtol=1e-14)
        same(st.Algorithm(batch_schedule=st.Stages([0], [1])), st.Algorithm(), rtol=1e-11)

    @pytest.mark.parametrize("method", [st.SGD(), st.Nesterov(0.8), st.ScheduleFree(0.7)], ids=str)
    def test_scaling(self, method):
        """λ → cλ and γ → γ/c leave everything as it is."""
        scaled = st.LeastSquares(7.0 * PROBLEM.eigenvalues, PROBLEM.signal, 0.6)
        algorithm = st.Algorithm(method, st.Cosine(), average=LAST)
        np.testing.assert_allclose(risk(algorithm), risk(algorithm, scaled, learning_rate=0.2 / 7), rtol=1e-9)

    @pytest.mark.parametrize("method", [st.SGD(0.01), st.HeavyBall(0.9), st.ScheduleFree(0.9)], ids=str)
    @pytest.mark.parametrize("average", [LAST, st.UniformAverage()], ids=str)
    def test_a_larger_batch_never_hurts(self, method, average):
        """T23: with n, shapes and method fixed."""
        batch = np.array([1, 2, 5, 64, 1e6])
        algorithm = st.Algorithm(method, st.WSD(0.3), average=average)
        found = [risk(algorithm, batch_size=b, learning_rate=0.05, num_samples=700 * b).sum() for b in batch]
        assert (np.diff(found) < 0).all()


def test_averages_by_the_backward_pass():
    """T22, written out for SGD with a schedule and a batch ramp."""
    steps, batch, rate = 300, 6.0, 0.4
    eigenvalues, signal = PROBLEM.directions()
    schedule, ramp = st.Linear(0.2), st.Stages([0, 0.6], [0.5, 1])
    gamma = rate * schedule.factors(np.arange(steps), steps)
    sizes = np.maximum(1, np.rint(batch * ramp.factors(np.arange(steps), steps)))
    tau = 0.97
    weights = {
        st.UniformAverage(): np.append(np.full(steps, 1 / steps), 0),
        st.TailAverage(0.25): np.append(np.where(np.arange(steps) >= 225, 1 / 75, 0.0), 0),
        st.ExponentialAverage(tau): np.append((1 - tau) * tau ** (steps - 1 - np.arange(steps)), 0)
        + np.append(tau**steps, np.zeros(steps)),
        LAST: np.append(np.zeros(steps), 1.0),
    }
    for average, omega in weights.items():
        G = np.zeros((steps + 1, 3))
        G[steps] = omega[steps]
        for t in range(steps)[::-1]:
            G[t] = omega[t] + (1 - gamma[t] * eigenvalues) * G[t + 1]
        total = []
        for r, noise in ((signal.copy(), 0.0), (0 * signal, 0.6)):
            value = (r * G[0] ** 2).sum()
            for t in range(steps):
                drive = gamma[t] ** 2 / sizes[t] * eigenvalues**2 * (r.sum() + r + noise)
                value += (drive * G[t + 1] ** 2).sum()
                r = (1 - gamma[t] * eigenvalues) ** 2 * r + drive
            total.append(value)
        algorithm = st.Algorithm(schedule=schedule, batch_schedule=ramp, average=average)
        samples = sizes.sum()
        assert number_of_steps(ramp, batch, samples) == steps
        found = risk(algorithm, batch_size=batch, learning_rate=rate, num_samples=samples)
        np.testing.assert_allclose(found, total, rtol=1e-10)


@pytest.mark.parametrize("method", [st.SGD(), st.HeavyBall(0.9), st.LocalSGD(2, 3)], ids=str)
def test_the_threshold_of_one_stage_is_a_constant_times_its_value(method):
    flat = st.Algorithm(method, schedule=st.Stages([0], [0.1]), batch_schedule=st.Stages([0], [2.0]))
    edge = st.max_stable_learning_rate(PROBLEM, batch_size=4, algorithm=flat)
    constant = st.max_stable_learning_rate(PROBLEM, batch_size=8, algorithm=st.Algorithm(method))
    assert edge == pytest.approx(10 * constant, rel=1e-12)


class TestRiskPath:
    @pytest.mark.parametrize("noise", [0.0, 0.003])
    @pytest.mark.parametrize(
        "algorithm",
        [
            st.Algorithm(average=st.TailAverage(0.7)),
            st.Algorithm(schedule=st.Constant(warmup=0.1), average=LAST),
            st.Algorithm(st.HeavyBall(0.5), schedule=st.Linear(0.1, warmup=0.05), average=st.TailAverage()),
            st.Algorithm(st.LocalSGD(2, 4)),
            st.Algorithm(st.DelayedSGD(5), average=LAST),
        ],
        ids=str,
    )
    def test_a_run_that_diverges_is_infinite_to_its_end(self, algorithm, noise):
        problem = st.PowerLaw(2.0, 5.0, noise_variance=noise)
        setting = {"batch_size": 21, "learning_rate": 3.5, "num_samples": 3e6, "algorithm": algorithm}
        path = st.risk_path(problem, **setting, points=5)
        assert np.isfinite(path.iterate.total[0])
        for risk in (path.iterate, path.average):
            assert np.isposinf([risk.total[-1], risk.relative_error[-1]]).all()
        assert not np.isnan(path.iterate.total).any()
        assert np.isposinf(st.excess_risk(problem, **setting).total)

    @pytest.mark.parametrize("algorithm", [st.Algorithm(average=LAST), st.Algorithm(st.HeavyBall(0.9))], ids=str)
    def test_a_learning_rate_whose_square_overflows_diverges(self, algorithm):
        problem = st.PowerLaw(1.5, 2.0, dim=50)
        risk = st.excess_risk(problem, batch_size=4, learning_rate=1e160, num_samples=1600, algorithm=algorithm)
        assert np.isposinf(risk.total)

    def test_its_end_is_the_excess_risk(self):
        algorithm = st.Algorithm(schedule=st.WSD(), batch_schedule=st.Linear(final=3), average=st.TailAverage(0.2))
        setting = {"batch_size": 3, "learning_rate": 0.1, "num_samples": 9000, "algorithm": algorithm}
        path, end = st.risk_path(PROBLEM, **setting), st.excess_risk(PROBLEM, **setting)
        assert path.average.total[-1] == pytest.approx(end.total, rel=1e-9)
        assert np.isnan(path.average.total[1])  # it has not begun
        assert path.num_samples[-1] <= 9000 < path.num_samples[-1] + 9


def test_fewer_samples_than_the_peak_batch_size():
    """A batch schedule whose batches fit need not reach its peak: 8 steps of 10 of a schedule that goes to 100."""
    late = st.Algorithm(batch_schedule=lambda step: np.where(step < 50, 0.1, 1.0), average=LAST)
    setting = {"batch_size": 100, "learning_rate": 0.4}
    exact = brute_force.last_risk(PROBLEM, np.full(8, 0.4), np.full(8, 10))
    assert st.excess_risk(PROBLEM, **setting, num_samples=85, algorithm=late).total == pytest.approx(exact)
    path = st.risk_path(PROBLEM, **setting, num_samples=85, algorithm=late)
    assert path.num_samples[-1] == 80
    assert path.average.total[-1] == pytest.approx(exact)
    runs = st.simulate(jax.random.key(0), PROBLEM, **setting, num_samples=85, algorithm=late, num_replicas=512)
    assert runs.mean == pytest.approx(exact, abs=5 * runs.standard_error)
    assert runs.standard_error < 0.03 * exact
    with pytest.raises(ValueError, match="enough for one step of the batch schedule, got 9"):
        st.excess_risk(PROBLEM, **setting, num_samples=9, algorithm=late)
    with pytest.raises(ValueError, match="num_samples must be at least batch_size"):  # control
        st.excess_risk(PROBLEM, **setting, num_samples=85)


class WithoutFit(st.LinearMethod):
    """A method of two vectors and a b of one."""

    start, output = (1, 0), (1, 0)

    def coefficients(self, rate, step):
        return st.Coefficients(A=[[1, 0], [0, 1]], b=[rate], c=[1, 0])


def threshold(algorithm):
    return st.max_stable_learning_rate(PROBLEM, batch_size=1, algorithm=algorithm)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: st.Cosine(final=-0.1), "final must be at least 0 and finite, got -0.1"),
        (lambda: st.Constant(warmup=1.5), "warmup must be between 0 and 1, got 1.5"),
        (lambda: st.WSD(decay=0.7, warmup=0.4), "warmup and decay must add up to at most 1"),
        (lambda: st.WSD(power=0), "power must be positive and finite, got 0"),
        (lambda: st.PowerDecay(np.nan), "exponent must be at least 0 and finite"),
        (lambda: st.PowerDecay(2, decay=1.5), "decay must be between 0 and 1, got 1.5"),
        (lambda: st.Stages([0, 0.5, 0.4], [1, 1, 1]), "fractions must begin with 0, increase and stay below 1"),
        (lambda: st.Stages([0.1], [1]), "fractions must begin with 0"),
        (lambda: st.Stages([0, 0.5], [1]), "values must have one entry for each fraction, got 1 for 2"),
        (lambda: st.Stages([0], [-1]), "values must be finite and not negative, got -1"),
        (lambda: st.HeavyBall(1.0), "momentum must be at least 0 and below 1, got 1"),
        (lambda: st.ScheduleFree(1.1), "interpolation must be between 0 and 1"),
        (lambda: st.SGD(weight_decay=-1), "weight_decay must be at least 0 and finite"),
        (lambda: st.AcceleratedSGD(2, 0.1, 1), "coupling must be between 0 and 1"),
        (lambda: st.TailAverage(0), "fraction of a tail average must be above 0 and at most 1"),
        (lambda: st.ExponentialAverage(1.0), "decay of an average must be at least 0 and below 1"),
        (lambda: st.ExponentialAverage(), "decay or window must be given, and not both"),
        (lambda: st.ExponentialAverage(window=-1), "window of an average must be positive and finite"),
        (lambda: st.Algorithm(schedule="cosine"), "schedule must be a shape"),
        (lambda: st.Algorithm(schedule=st.Cosine), "schedule must be an object such as Cosine.., got the class"),
        (lambda: st.Algorithm(schedule=[1.0, -1.0]), "schedule must be finite and not negative, got -1"),
        (lambda: st.Algorithm(method=0.9), "method must be an object such as SGD.."),
        (lambda: st.Algorithm(average=0.9), "average must be an object such as UniformAverage.."),
        (lambda: risk(st.SGD()), "algorithm must be an Algorithm, got a method; write Algorithm"),
        (lambda: risk("sgd"), "algorithm must be an Algorithm, such as"),
        (lambda: risk(st.Algorithm(batch_schedule=st.Stages([0], [3000]))), "num_samples must be enough for one step"),
        (lambda: risk(st.Algorithm(schedule=lambda t: -1.0)), "schedule must be finite and not negative"),
        (lambda: st.Algorithm(WithoutFit()), "method must have A of 2×2 and b, c, start and output of 2 entries"),
        (lambda: threshold(st.Algorithm(schedule=st.Cosine())), "algorithm must have constant learning rate"),
        (
            lambda: risk(st.Algorithm(schedule=lambda t: 1 / (1 + t)), num_samples=1e12),
            "steps would have to be taken one by one",
        ),
        (
            lambda: st.risk_path(PROBLEM, batch_size=[1, 2], learning_rate=0.1, num_samples=100),
            "risk_path takes a single setting",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("average", [st.TailAverage(0.5), st.TailAverage(0.1), st.UniformAverage(), st.LastIterate()])
@pytest.mark.parametrize(("rate", "steps"), [(0.8, 8000), (3.0, 500)])
def test_what_has_left_the_range_of_a_float_is_infinite(average, rate, steps):
    """Before a tail begins, too: an empty sum of what is infinite was 0."""
    problem = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)
    for schedule in (st.Constant(), st.Stages([0, 0.7], [1.0, 0.9])):
        algorithm = st.Algorithm(schedule=schedule, average=average)
        risk = st.excess_risk(problem, batch_size=1, learning_rate=rate, num_samples=steps, algorithm=algorithm)
        assert (risk.bias, risk.variance) == (np.inf, np.inf)
