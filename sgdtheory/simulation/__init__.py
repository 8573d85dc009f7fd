"""Simulation of averaged mini-batch SGD on linear regression, in JAX."""

from sgdtheory.simulation.result import Simulation, Trajectory, Truncation
from sgdtheory.simulation.simulator import simulate

__all__ = ["Simulation", "Trajectory", "Truncation", "simulate"]
