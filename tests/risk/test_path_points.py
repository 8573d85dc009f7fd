"""Points of paths: kinks of schedules, stated errors, and what a method shows at the start."""

import numpy as np
import pytest

import sgdtheory as st


def test_kinks_are_resolved():
    """A decay in 5% of the steps has points of its own, log-spaced from where it begins; a smooth shape has none."""
    last, setting = st.LastIterate(), {"batch_size": 4, "learning_rate": 0.1, "num_samples": 40_000}
    smooth, kinked = (
        st.risk_path(
            st.PowerLaw(2.0, 3.0, 20), **setting, algorithm=st.Algorithm(schedule=each, average=last), points=40
        )
        for each in (st.Cosine(), st.WSD(0.05))
    )
    assert set(smooth.num_steps) < set(kinked.num_steps)
    added = np.setdiff1d(kinked.num_steps, smooth.num_steps)
    assert added[:3].tolist() == [9500, 9501, 9502]
    assert (added.size, smooth.num_steps.size) == (19, 37)
    assert (np.diff(kinked.iterate.total) < 0).sum() > 40
    ramp = st.Algorithm(batch_schedule=st.Stages([0, 0.5], [1, 2]), average=st.TailAverage(0.25))
    path = st.risk_path(st.PowerLaw(2.0, 3.0, 20), **setting, algorithm=ramp, points=40)
    n = path.num_steps[-1]
    assert {np.ceil(n / 2), np.ceil(n / 2) + 1, n - np.ceil(n / 4), n - np.ceil(n / 4) + 1} <= set(path.num_steps)
    array = st.Algorithm(schedule=np.linspace(1, 0.5, 100))  # more stages than points: none of its own
    assert st.risk_path(st.PowerLaw(2.0, 3.0, 20), **setting, algorithm=array, points=40).num_steps.size == 37


def test_a_path_on_panels_estimates_its_error():
    """Against the same schedule step by step; none where nothing is approximated."""
    shape, steps = st.Cosine(), 5000
    setting = {"batch_size": 8, "learning_rate": 0.3, "num_samples": 8 * steps, "points": 12}
    problem = st.PowerLaw(2.0, 3.0)
    panels = st.risk_path(problem, **setting, algorithm=st.Algorithm(schedule=shape, average=st.LastIterate()))
    single = st.risk_path(
        problem,
        **setting,
        algorithm=st.Algorithm(schedule=lambda step: shape.factors(step, steps), average=st.LastIterate()),
    )
    error = np.abs(panels.iterate.total / single.iterate.total - 1)
    assert (error <= 10 * np.asarray(panels.iterate.relative_error) + 1e-11).all()
    assert np.max(panels.iterate.relative_error) > 0
    assert (np.asarray(single.iterate.relative_error) == 0).all()


class Halved(st.LinearMethod):
    """SGD that shows half of its error."""

    output = (0.5,)

    def coefficients(self, rate, step):
        return st.Coefficients([[1]], [rate], [1])


@pytest.mark.parametrize("average", [st.LastIterate(), st.ExponentialAverage(0.9), st.UniformAverage()], ids=str)
def test_a_path_begins_with_what_the_method_shows(average):
    """A quarter of SGD's risk, from the first point to the last."""
    problem = st.LeastSquares([1.0, 0.1], [0.5, 0.3], 0.2)
    setting = {"batch_size": 4, "learning_rate": 0.2, "num_samples": 800, "points": 20}
    half, whole = (
        st.risk_path(problem, **setting, algorithm=st.Algorithm(method, average=average))
        for method in (Halved(), st.SGD())
    )
    assert half.iterate.total[0] == pytest.approx(0.2)
    np.testing.assert_allclose(half.iterate.total, whole.iterate.total / 4, rtol=1e-9)
    np.testing.assert_allclose(half.average.total, whole.average.total / 4, rtol=1e-9)
