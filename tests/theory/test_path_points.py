"""Every point of a path is the risk of a run that ends there."""

import numpy as np
import pytest

import sgdtheory as st

ALGORITHMS = {
    "sgd": st.Algorithm(),
    "last": st.Algorithm(average=st.LastIterate()),
    "heavy ball": st.Algorithm(st.HeavyBall(0.9), average=st.LastIterate()),
    "heavy ball, averaged": st.Algorithm(st.HeavyBall(0.9)),
    "schedule-free": st.Algorithm(st.ScheduleFree(), average=st.LastIterate()),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_path_passes_through_shorter_runs(name):
    """Whose coefficients do not depend on n; below 32 steps, and before momentum has settled, too."""
    problem, algorithm = st.PowerLaw(2.0, 3.0), ALGORITHMS[name]
    setting = {"batch_size": 32, "learning_rate": 0.05}
    path = st.risk_path(problem, **setting, num_samples=32 * 3000, algorithm=algorithm, points=25)
    ends = st.excess_risk(problem, **setting, num_samples=path.num_samples[1:], algorithm=algorithm)
    np.testing.assert_allclose(path.average.total[1:], ends.total, rtol=1e-8)
