"""A problem of three directions, its simulation with data of any law, and its risk by the recursion."""

import jax
import numpy as np

import sgdtheory as st
from sgdtheory.risk.reference import risk_by_recursion

EIGENVALUES = np.array([1.0, 0.5, 0.3])
PROBLEM = st.LeastSquares(EIGENVALUES, [1.0, 0.5, 2.0], 0.5)


def simulated(law, problem=PROBLEM, num_replicas=20_000, batch=3, steps=12, rate=0.3, **options):
    return st.simulate(
        jax.random.key(0),
        problem,
        batch_size=batch,
        learning_rate=rate,
        num_samples=steps * batch,
        num_replicas=num_replicas,
        sampler="explicit",
        law=law,
        **options,
    )


def expected(fourth_moment, problem=PROBLEM, batch=3, steps=12, rate=0.3):
    return sum(
        risk_by_recursion(
            problem.eigenvalues,
            problem.signal,
            problem.noise_variance,
            batch_size=batch,
            learning_rate=rate,
            num_steps=steps,
            fourth_moment=fourth_moment,
        )
    )


def uniform(key, batch_size):
    """Independent uniform coordinates: kurtosis 9/5."""
    return jax.random.uniform(key, (batch_size, 3), minval=-np.sqrt(3), maxval=np.sqrt(3)) * np.sqrt(EIGENVALUES)
