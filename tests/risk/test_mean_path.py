"""The mean path's risk: that of batches without end, and the closed form beside every step."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.risk.systems import mean_path

EIGENVALUES, SIGNAL = np.array([1.0, 0.5, 0.2, 0.01, 1e-5]), np.array([1.0, 0.4, 0.3, 0.2, 0.1])
CONSTANT = [
    st.Algorithm(),
    st.Algorithm(average=st.LastIterate()),
    st.Algorithm(st.HeavyBall(0.9)),
    st.Algorithm(st.HeavyBall(0.0), average=st.ExponentialAverage(window=0.2)),
    st.Algorithm(st.Nesterov(0.5), average=st.LastIterate()),
    st.Algorithm(st.SGD(weight_decay=0.01), average=st.TailAverage(0.3)),
    st.Algorithm(st.AcceleratedSGD(0.8, 0.2, 3.0), average=st.ExponentialAverage(0.9)),
    st.Algorithm(schedule=st.Stages([0.0], [0.5]), average=st.LastIterate()),
]


class EveryStep(mean_path.MeanPaths):
    """Mean paths whose steps are taken one by one, whatever is alike."""

    def moved(self, held, low, high):
        return self.by_steps(held, low, high)


def by_steps(algorithm, eigenvalue, rate, steps):
    with np.errstate(all="ignore"):
        return EveryStep.of(algorithm, eigenvalue, rate, steps).at([steps]).average[0].T


@pytest.mark.parametrize("algorithm", CONSTANT, ids=str)
def test_the_closed_form_beside_every_step(algorithm):
    """Below the edge and beyond it, as long as what is there is no larger than a thousand."""
    rate = np.geomspace(1e-7, 2.5, 300)
    for steps in (1.0, 2.0, 3.0, 50.0, 333.0):
        closed = mean_path._in_closed_form(algorithm, EIGENVALUES, rate, steps)
        every = by_steps(algorithm, EIGENVALUES, rate, steps)
        kept = np.abs(every) < 1e3
        np.testing.assert_allclose(closed[kept], every[kept], rtol=1e-6, atol=1e-6)
        assert kept.mean() > 0.5
