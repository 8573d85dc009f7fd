"""DANA's risk is that of the dense covariance of (w, y), whose update is written here as the paper prints it."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import course_risk
from sgdtheory.risk.solvers.spectrum import displacement
from tests.marks import slow

LAST = st.LastIterate()
CONSTANT, DECAYING = st.DANA(0.02, 6.0), st.DANA(0.2, 5.5, 0.5)
EIGENVALUES, SIGNAL, NOISE = np.array([1.0, 0.2, 0.01]), np.array([0.3, 0.5, 0.2]), 0.1


def dense_risk(method, batch, rate, num_steps):
    """E of the excess risk of w_n, from the 2d × 2d covariance of w − w* and y in a rotated basis."""
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    H = basis * EIGENVALUES @ basis.T
    eye, none = np.eye(3), np.zeros((3, 3))
    C = np.block([[basis * (SIGNAL / EIGENVALUES) @ basis.T, none], [none, none]])
    for t in range(num_steps):
        kept = 1.0 if method.damping == 0 else 1 - method.damping / (method.damping + t)
        kept *= method.momentum
        gamma3 = rate * method.momentum_share * (1 + t) ** -method.momentum_decay
        # Gaussian data: E[g gᵀ] = H S H + (H S H + (tr(H S) + σ²) H)/B, where S = E[(w − w*)(w − w*)ᵀ].
        S = C[:3, :3]
        scatter = (H @ S @ H + (np.trace(H @ S) + NOISE) * H) / batch
        to_w, to_y = -(rate + gamma3) * eye, eye
        step = np.block([[eye + to_w @ H, -gamma3 * kept * eye], [to_y @ H, kept * eye]])
        noise = np.vstack([to_w, to_y])
        C = step @ C @ step.T + noise @ scatter @ noise.T
    return np.trace(H @ C[:3, :3])


@pytest.mark.parametrize("num_steps", [40, 800, slow(60_000)])
@pytest.mark.parametrize("method", [CONSTANT, DECAYING, st.DANA(0.3, 0.0, 0.4, 0.9)], ids=str)
def test_risk_is_that_of_the_dense_covariance(method, num_steps):
    problem = st.LeastSquares(EIGENVALUES, SIGNAL, NOISE)
    setting = {"batch_size": 4, "learning_rate": 0.3, "num_samples": 4 * num_steps}
    found = st.excess_risk(problem, **setting, algorithm=st.Algorithm(method, average=LAST))
    assert abs(found.total / dense_risk(method, 4, 0.3, num_steps) - 1) < found.relative_error + 1e-9
    if num_steps == 40:  # the control: another damping
        other = st.DANA(method.momentum_share, method.damping + 1, method.momentum_decay, method.momentum)
        assert abs(found.total / dense_risk(other, 4, 0.3, num_steps) - 1) > 1e-3


def test_constant_momentum_is_nesterovs():
    algorithms = [st.Algorithm(each, average=LAST) for each in (st.DANA(0.8, 0.0, momentum=0.8), st.Nesterov(0.8))]
    problem = st.PowerLaw(2.0, 3.0)
    setting = {"batch_size": 8, "learning_rate": 0.1, "num_samples": 8e5}
    one, other = (st.excess_risk(problem, **setting, algorithm=each).total for each in algorithms)
    assert one == pytest.approx(other, rel=1e-12)
    edges = [st.max_stable_learning_rate(problem, batch_size=8, algorithm=each) for each in algorithms]
    assert edges[0] == pytest.approx(edges[1], rel=1e-9)


@pytest.mark.parametrize("method", [CONSTANT, DECAYING, st.ScheduleFree(0.9)], ids=str)
@pytest.mark.parametrize("num_steps", [3, 1000, slow(20_000)])
def test_no_run_moves_farther_than_its_displacement(method, num_steps):
    """With gradient 1 in every step. The displacement decides which slow directions are merged."""
    steps = method.matrices(np.full(num_steps, 0.1), np.arange(num_steps, dtype=float))
    state = np.zeros(2)
    for A, b in zip(np.abs(np.eye(2) - steps.decay), np.abs(steps.b), strict=True):
        state = A @ state + b
    least = np.abs(steps.c[-1]) @ state
    assert least <= displacement(method, 0.1, num_steps) * (1 + 1e-12) < 5 * least


class Near(st.DANA):
    """DANA whose slow directions are merged as if its first steps went on."""

    gain = 1.0


@pytest.mark.slow
def test_slow_directions_keep_their_risk_where_momentum_grows():
    """2·10⁶ steps of DANA-constant, 20 times as far as its first steps would go, on a few and on all directions.

    Without noise and after the slowest time scale, merged directions that oscillate differ by 3e-5 from all of them.
    """
    power_law = st.PowerLaw(2.0, 2.5, dim=1500, noise_variance=0.0)
    listed = st.LeastSquares(*power_law.directions(), 0.0)

    def risk(problem, kind):
        algorithm = st.Algorithm(kind(2e-4, 6.0), average=LAST)
        return course_risk(problem, Course(algorithm, 1.0, 0.3, 2e6), estimate=False).parts.sum()

    exact = risk(listed, st.DANA)
    assert risk(power_law, st.DANA) == pytest.approx(exact, rel=1e-4)
    assert risk(power_law, Near) != pytest.approx(exact, rel=5e-3)  # the control


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-0.1, 6.0), "momentum_share must be at least 0 and finite, got -0.1"),
        ((0.1, -1.0), "damping must be at least 0 and finite, got -1"),
        ((0.1, 6.0, float("inf")), "momentum_decay must be at least 0 and finite, got inf"),
        ((0.1, 6.0, 0.0, 1.1), "momentum must be between 0 and 1, got 1.1"),
        ((0.1, 0.0), "momentum must be below 1 where damping is 0, got 1"),
    ],
)
def test_what_is_out_of_range_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        st.DANA(*values)
