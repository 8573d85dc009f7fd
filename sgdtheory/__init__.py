"""Exact theory, bounds and scaling laws of mini-batch SGD, and the critical batch size."""

from sgdtheory.bounds import RiskBound, theorem7
from sgdtheory.comparison import Comparison, Setting, compare
from sgdtheory.exact import Risk, excess_risk
from sgdtheory.measurements import StepsMeasurement, example_measurements, read_measurements
from sgdtheory.problem import LeastSquares, PowerLaw, Problem
from sgdtheory.scaling import PowerFit, SensitivityRow, StepsLaw, fit_power_law, fit_steps_law, sensitivity
from sgdtheory.simulation import Simulation, Trajectory, Truncation, simulate
from sgdtheory.stability import max_stable_learning_rate

__all__ = [
    "Comparison",
    "LeastSquares",
    "PowerFit",
    "PowerLaw",
    "Problem",
    "Risk",
    "RiskBound",
    "SensitivityRow",
    "Setting",
    "Simulation",
    "StepsLaw",
    "StepsMeasurement",
    "Trajectory",
    "Truncation",
    "compare",
    "example_measurements",
    "excess_risk",
    "fit_power_law",
    "fit_steps_law",
    "max_stable_learning_rate",
    "read_measurements",
    "sensitivity",
    "simulate",
    "theorem7",
]
