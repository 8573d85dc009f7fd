"""SGD with late gradients (THEORY.md T41), against full matrices of second moments, and wrong laws that must fail."""

import numpy as np
import pytest

import sgdtheory as st

EIGENVALUES = np.array([1.0, 0.45, 0.1])
SIGNAL = np.array([0.5, 0.3, 0.4])
NOISE = 0.2
PROBLEM = st.LeastSquares(EIGENVALUES, SIGNAL, noise_variance=NOISE)
LAWS = {"0": 0, "2": 2, "5": 5, "drawn": (0.5, 0.0, 0.2, 0.0, 0.3)}
AVERAGES = {
    "mean": (st.UniformAverage(), lambda n: (0, (1.0, 1.0), lambda e: e[2] / n**2)),
    "tail": (st.TailAverage(0.25), lambda n: (n - n // 4, (1.0, 1.0), lambda e: e[2] / (n // 4) ** 2)),
    "last": (st.LastIterate(), lambda n: (n, (1.0, 1.0), lambda e: e[0])),
}


def risks(covariance, start, noise, law, rates, batches, keep=(1.0, 1.0), first=0, noise_at=None):
    """λ-weighted E w², E wS and E S² after all steps, (3,), S ← ρS + ωw from step `first` on, in any basis.

    The state is (w_t, …, w_{t−τ}, S) − w*, blocks of d numbers, and E[ĤMĤ] = HMH + (HMH + tr(HM)H)/B (THEORY.md T1).

    `noise_at`: the delay at which the noise takes the risk, if it is a wrong one.
    """
    d = len(start)
    k = len(law)
    rho, omega = keep
    M = np.kron(np.pad(np.ones((k, k)), [(0, 1), (0, 1)]), np.outer(start, start))
    blocks = [slice(j * d, (j + 1) * d) for j in range(k + 1)]
    for number, (rate, batch) in enumerate(zip(rates, batches, strict=True)):
        after = np.zeros_like(M)
        for delay, share in enumerate(law):
            A = np.zeros_like(M)
            A[blocks[0], blocks[0]] = np.eye(d)
            A[blocks[0], blocks[delay]] -= rate * covariance
            for j in range(1, k):
                A[blocks[j], blocks[j - 1]] = np.eye(d)
            averaged = number >= first
            A[blocks[k], blocks[k]] = np.eye(d) * (rho if averaged else 1.0)
            A[blocks[k], blocks[0]] = np.eye(d) * (omega if averaged else 0.0)
            after += share * A @ M @ A.T
            seen = M[blocks[delay], blocks[delay]]
            risk = seen if noise_at is None else M[blocks[noise_at], blocks[noise_at]]
            kick = covariance @ risk @ covariance + (np.trace(covariance @ risk) + noise) * covariance
            after[blocks[0], blocks[0]] += share * rate**2 / batch * kick
        M = after
    pairs = (0, 0), (0, k), (k, k)
    return np.array([np.trace(covariance @ M[blocks[i], blocks[j]]) for i, j in pairs])


def _dense(delay, average, rates, batches, **wrong):
    """The risk by full matrices, in a rotated basis."""
    n = len(rates)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    covariance = rotation @ np.diag(EIGENVALUES) @ rotation.T
    first, keep, shown = AVERAGES[average][1](n)
    law = st.DelayedSGD(delay).law
    start = rotation @ np.sqrt(SIGNAL / EIGENVALUES)
    return shown(risks(covariance, start, NOISE, law, rates, batches, keep, first, **wrong))


def _risk(delay, average, rate, batch, n, **shapes):
    algorithm = st.Algorithm(st.DelayedSGD(delay), average=AVERAGES[average][0], **shapes)
    return st.excess_risk(PROBLEM, batch_size=batch, learning_rate=rate, num_samples=batch * n, algorithm=algorithm)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", LAWS)
def test_every_law_and_average_agree_with_full_matrices(name, average):
    n = 48
    expected = _dense(LAWS[name], average, np.full(n, 0.17), np.full(n, 3.0))
    found = _risk(LAWS[name], average, 0.17, 3, n)
    np.testing.assert_allclose(found.total, expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["2", "5", "drawn"])
def test_schedules_and_ramps_agree_with_full_matrices(name):
    n = 48
    fractions = np.arange(n) / n
    rates = 0.2 * (1 + np.cos(np.pi * fractions)) / 2
    batches = np.where(fractions < 0.5, 2.0, 4.0)
    shapes = {"schedule": st.Cosine(), "batch_schedule": st.Stages([0, 0.5], [0.5, 1])}
    algorithm = st.Algorithm(st.DelayedSGD(LAWS[name]), average=st.LastIterate(), **shapes)
    setting = {"batch_size": 4, "learning_rate": 0.2, "num_samples": batches.sum()}
    found = st.excess_risk(PROBLEM, **setting, algorithm=algorithm)
    np.testing.assert_allclose(found.total, _dense(LAWS[name], "last", rates, batches), rtol=1e-10)
    path = st.risk_path(PROBLEM, **setting, algorithm=algorithm, points=4)
    np.testing.assert_allclose(path.iterate.total[-1], found.total, rtol=1e-12)


def test_wrong_laws_are_found_out():
    """A delay off by one, noise of the risk of now, a drawn delay by its mean: all far outside the tolerance."""
    n = 48
    steps = np.full(n, 0.17), np.full(n, 3.0)
    late = _risk(3, "last", 0.17, 3, n).total
    assert late == pytest.approx(_dense(3, "last", *steps), rel=1e-10)
    for wrong in (2, 4):
        assert abs(_dense(wrong, "last", *steps) / late - 1) > 1e-2
    assert abs(_dense(3, "last", *steps, noise_at=0) / late - 1) > 1e-3
    steps = np.full(n, 0.27), np.full(n, 3.0)
    drawn = _risk((0.5, 0.0, 0.0, 0.0, 0.5), "last", 0.27, 3, n).total
    assert drawn == pytest.approx(_dense((0.5, 0.0, 0.0, 0.0, 0.5), "last", *steps), rel=1e-10)
    assert abs(_dense(2, "last", *steps) / drawn - 1) > 1e-2


def test_the_edge_without_noise_is_that_of_the_characteristic_polynomial():
    """The first x with a root of z^{τ+1} − z^τ + x on the unit circle."""
    for delay in (1, 3, 16, 64):
        x = st.max_stable_learning_rate(
            st.LeastSquares([1.0], [1.0]), batch_size=10**12, algorithm=st.Algorithm(st.DelayedSGD(delay))
        )
        polynomial = np.concatenate([[1.0, -1.0], np.zeros(delay - 1), [x]])
        assert np.abs(np.roots(polynomial)).max() == pytest.approx(1, abs=1e-9)
        assert x == pytest.approx(2 * np.sin(np.pi / (2 * (2 * delay + 1))), rel=1e-10)


@pytest.mark.parametrize("delay", [1, 4, (0.6, 0.0, 0.4)])
def test_the_edge_with_noise_is_where_full_matrices_begin_to_grow(delay):
    edge = st.max_stable_learning_rate(PROBLEM, batch_size=2, algorithm=st.Algorithm(st.DelayedSGD(delay)))
    growths = []
    for share in (0.98, 1.02):
        early, late = (_dense(delay, "last", np.full(n, share * edge), np.full(n, 2.0)) for n in (300, 400))
        growths.append(late / early)
    assert growths[0] < 1.1 < growths[1]


def test_a_drawn_delay_that_is_not_drawn_is_a_delay():
    """The equations of random delays, at a law with one delay, are the closed forms'."""
    fixed, drawn = (st.Algorithm(st.DelayedSGD(delay)) for delay in (4, (0, 0, 0, 0, 1)))
    assert drawn.method.random
    edges = [st.max_stable_learning_rate(PROBLEM, batch_size=[1, 9], algorithm=each) for each in (fixed, drawn)]
    np.testing.assert_allclose(*edges, rtol=1e-12)
    setting = {"batch_size": 4, "learning_rate": 0.1, "num_samples": 4 * 600}
    totals = [st.excess_risk(PROBLEM, **setting, algorithm=each).total for each in (fixed, drawn)]
    np.testing.assert_allclose(*totals, rtol=1e-11)


def test_a_million_steps_at_a_delay_of_64_keep_the_laws_of_a_mean():
    """Late gradients hardly matter to the mean of very many iterates; the path's last point is the risk."""
    problem = st.PowerLaw(2.0, 3.0)
    setting = {"batch_size": 16, "learning_rate": 0.01, "num_samples": 16e6}
    late = st.Algorithm(st.DelayedSGD(64))
    found = st.excess_risk(problem, **setting, algorithm=late)
    assert found.total == pytest.approx(st.excess_risk(problem, **setting).total, rel=1e-3)
    path = st.risk_path(problem, **setting, algorithm=late, points=3)
    assert path.average.total[-1] == pytest.approx(found.total, rel=1e-11)


@pytest.mark.parametrize(
    ("delay", "words"),
    [
        (-1, "delay must be a whole number of at least 0, got -1"),
        (1.5, "delay must be a whole number"),
        (300, "delay must be at most 256 steps, got 300"),
        ((0.5, 0.4), "delay must be a whole number or shares ≥ 0 that add up to 1"),
        ((1.5, -0.5), "delay must be a whole number or shares"),
        ((), "delay must be a whole number or shares"),
    ],
)
def test_bad_delays_are_refused(delay, words):
    with pytest.raises(ValueError, match=words):
        st.DelayedSGD(delay)


def test_a_method_of_ones_own_may_be_late():
    class Late(st.LinearMethod):
        delays = (0.0, 0.0, 0.0, 0.0, 1.0)
        start, output = (1.0,) * 5, (1.0, 0.0, 0.0, 0.0, 0.0)

        def coefficients(self, rate, step):
            A = np.eye(5, k=-1)
            A[0, 0] = 1.0
            return st.Coefficients(A.tolist(), [rate, 0, 0, 0, 0], list(self.delays))

    own, given = (st.Algorithm(method) for method in (Late(), st.DelayedSGD(4)))
    setting = {"batch_size": 4, "learning_rate": 0.1, "num_samples": 2000}
    for measure in (st.excess_risk, st.gradient_noise_scale):
        one, other = (measure(PROBLEM, **setting, algorithm=each) for each in (own, given))
        assert one == other
    edges = [st.max_stable_learning_rate(PROBLEM, batch_size=4, algorithm=each) for each in (own, given)]
    assert edges[0] == edges[1]
    for delay in (3, (0.5, 0.0, 0.2, 0.3)):  # of a drawn one the mean path alone would not do
        algorithm = st.Algorithm(st.DelayedSGD(delay), average=st.LastIterate())
        risk = st.excess_risk(PROBLEM, **setting, algorithm=algorithm).total
        scale = st.gradient_noise_scale(PROBLEM, **setting, algorithm=algorithm)
        np.testing.assert_allclose(scale.excess_risk, risk, rtol=1e-9)
