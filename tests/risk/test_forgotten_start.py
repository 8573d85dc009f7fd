"""The weight of the start in an exponential average decays as ρ^{2n}, and keeps its digits while it does."""

import numpy as np
import pytest

import sgdtheory as st

ALLOWED = 1e-9  # where S²(0) is left on the contour its rounding is 3e-8 … 1e-7 here


@pytest.mark.parametrize(
    ("dim", "source", "batch_size", "learning_rate"), [(60, 7.4, 390, 1.0), (200, 7.6, 109, 0.9), (400, 7.9, 48, 0.9)]
)
def test_a_start_forgotten_to_e_minus_20(dim: int, source: float, batch_size: int, learning_rate: float) -> None:
    """Every step in long double, T19 direction by direction."""
    problem = st.PowerLaw(3.0, source, dim=dim, noise_variance=0.0)
    num_steps, forgetting = 40_000, 10 / 40_000
    algorithm = st.Algorithm(average=st.ExponentialAverage(window=0.1))
    found = st.excess_risk(
        problem,
        batch_size=batch_size,
        learning_rate=learning_rate,
        num_samples=num_steps * batch_size,
        algorithm=algorithm,
    )
    expected = every_step(dim, source, batch_size, learning_rate, num_steps, forgetting)
    assert abs(found.bias / expected - 1) < ALLOWED


def test_rounds_that_forget_their_start() -> None:
    """One worker in rounds of four steps is SGD, in closed form over the rounds (T40)."""
    problem = st.PowerLaw(3.0, 7.9, dim=400, noise_variance=0.0)
    average = st.ExponentialAverage(window=0.1)
    setting = {"batch_size": 48, "learning_rate": 0.9, "num_samples": 40_000 * 48}
    found = st.excess_risk(problem, **setting, algorithm=st.Algorithm(st.LocalSGD(1, 4), average=average))
    expected = every_step(400, 7.9, 48, 0.9, 40_000, 10 / 40_000)
    assert abs(found.bias / expected - 1) < ALLOWED


def every_step(
    dim: int, source: float, batch_size: int, learning_rate: float, num_steps: int, forgetting: float
) -> float:
    """Σ λ_i S_i² of `ξ' = τξ + (1 − τ)w`, without noise, λ_i = i^−3 and λ_i w_i² = i^−b."""
    index = np.arange(1, dim + 1, dtype=np.longdouble)
    eigenvalue = index**-3
    own = index ** (3 - np.longdouble(source))
    cross, square = own.copy(), own.copy()
    rate = np.longdouble(learning_rate)
    weight = np.longdouble(forgetting)
    kept = 1 - weight
    shrink = 1 - rate * eigenvalue
    for _ in range(num_steps):
        square = kept**2 * square + 2 * kept * weight * cross + weight**2 * own
        cross = shrink * (kept * cross + weight * own)
        noise = eigenvalue * own + np.sum(eigenvalue * own)
        own = shrink**2 * own + rate**2 / batch_size * eigenvalue * noise
    return float(np.sum(eigenvalue * square))
