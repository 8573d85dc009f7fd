"""Methods with more moments than adjugates are taken of, six here, against 80-digit powers of the whole map."""

import pytest

import sgdtheory as st
from tests import oracle

PROBLEM = st.LeastSquares([1.0, 0.1, 3e-4], [0.3, 0.5, 0.2], noise_variance=0.4)
BETAS = 0.5, 0.9


class TwoMomenta(st.LinearMethod):
    """Steps along the mean of two momenta, p_j ← β_j p_j + γ g: AggMo (Lucas et al. 2019)."""

    start, output = (1, 0, 0), (1, 0, 0)

    def coefficients(self, rate, step):
        first, second = BETAS
        A = [[1, -first / 2, -second / 2], [0, first, 0], [0, 0, second]]
        return st.Coefficients(A=A, b=[rate, -rate, -rate], c=[1, 0, 0])


@pytest.mark.parametrize("steps", [1500, 10**9])
@pytest.mark.parametrize(
    ("average", "kind", "keep"),
    [
        (st.LastIterate(), None, (1.0, 0.0)),
        (st.UniformAverage(), "empty", (1.0, 1.0)),
        (st.ExponentialAverage(0.999), "iterate", (0.999, 0.001)),
    ],
    ids=["last", "uniform", "exponential"],
)
def test_two_momenta_to_ten_digits(average, kind, keep, steps):
    batch, rate = 4, 0.05
    algorithm = st.Algorithm(TwoMomenta(), average=average)
    risk = st.excess_risk(PROBLEM, batch_size=batch, learning_rate=rate, num_samples=batch * steps, algorithm=algorithm)
    found = TwoMomenta().coefficients(rate, 0)
    rows = [(found.A, found.b, found.c, steps, *keep)]
    method = TwoMomenta.start, TwoMomenta.output
    bias, variance = oracle.algorithm_risk(PROBLEM.eigenvalues, PROBLEM.signal, batch, rows, *method, kind, digits=60)
    norm = steps**2 if kind == "empty" else 1
    assert oracle.relative_error(risk.variance, 0.4 * variance / norm) < 1e-10
    if bias / norm > 1e-25:
        assert oracle.relative_error(risk.bias, bias / norm) < 1e-10
    else:
        assert risk.bias < 1e-25
