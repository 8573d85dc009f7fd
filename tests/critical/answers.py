"""Answers for the tests of B*: by brute force, and exact risks for a number of steps."""

import numpy as np

import sgdtheory as st
from tests import brute_force


def brute(problem, samples, overhead=0.2, risk_factor=2.0):
    return brute_force.critical_batch_size(
        *problem.directions(), problem.noise_variance, samples, overhead, risk_factor
    )


def least_risk(problem, batch, steps):
    return st.optimal_learning_rate(problem, batch_size=batch, num_samples=np.multiply(steps, batch)).risk


def risk_at(problem, batch, rate, steps):
    return st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=np.multiply(steps, batch)).total
