"""A small simulation whose settings tests change one by one."""

import jax
import numpy as np

import sgdtheory as st

PROBLEM = st.LeastSquares([1.0, 0.5, 0.1], [1.0, 0.5, 2.0], 0.5)
KEY = jax.random.key(0)


def simulated(problem=PROBLEM, key=KEY, **options):
    settings = {"batch_size": 4, "learning_rate": 0.5, "num_samples": 400, "num_replicas": 10} | options
    return st.simulate(key, problem, **settings)


def columns(found):
    return np.column_stack([found.excess_risk, found.last_iterate_risk])
