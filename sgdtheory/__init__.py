"""Exact theory, bounds and scaling laws of mini-batch SGD, and the critical batch size."""

from sgdtheory.lazy import lazy_names

TYPE_CHECKING = False  # type checkers know better; importing it from typing is most of the time until Ctrl-C is heard
if TYPE_CHECKING:
    __version__: str
    from sgdtheory.bounds import RiskBound, theorem7
    from sgdtheory.comparison import Comparison, Setting, compare
    from sgdtheory.critical import BatchSizeCurve, CriticalBatchSize, critical_batch_size
    from sgdtheory.exact import Risk, excess_risk
    from sgdtheory.exponents import (
        AsymptoticFit,
        fit_asymptotic_exponent,
        local_exponents,
        predicted_exponent,
        predicted_risk_exponent,
    )
    from sgdtheory.learning_rate import OptimalLearningRate, optimal_learning_rate
    from sgdtheory.measurements import StepsMeasurement, example_measurements, read_measurements
    from sgdtheory.noise_scale import GradientNoiseScale, Notions, gradient_noise_scale, notions
    from sgdtheory.problem import LeastSquares, PowerLaw, Problem
    from sgdtheory.scaling import PowerFit, SensitivityRow, StepsLaw, fit_power_law, fit_steps_law, sensitivity
    from sgdtheory.simulation import Simulation, Trajectory, Truncation, simulate
    from sgdtheory.stability import max_stable_learning_rate

__all__ = [
    "AsymptoticFit",
    "BatchSizeCurve",
    "Comparison",
    "CriticalBatchSize",
    "GradientNoiseScale",
    "LeastSquares",
    "Notions",
    "OptimalLearningRate",
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
    "critical_batch_size",
    "example_measurements",
    "excess_risk",
    "fit_asymptotic_exponent",
    "fit_power_law",
    "fit_steps_law",
    "gradient_noise_scale",
    "local_exponents",
    "max_stable_learning_rate",
    "notions",
    "optimal_learning_rate",
    "predicted_exponent",
    "predicted_risk_exponent",
    "read_measurements",
    "sensitivity",
    "simulate",
    "theorem7",
]

_find = lazy_names(
    __name__,
    {
        "AsymptoticFit": "exponents",
        "BatchSizeCurve": "critical",
        "Comparison": "comparison",
        "CriticalBatchSize": "critical",
        "GradientNoiseScale": "noise_scale",
        "LeastSquares": "problem",
        "Notions": "noise_scale",
        "OptimalLearningRate": "learning_rate",
        "PowerFit": "scaling",
        "PowerLaw": "problem",
        "Problem": "problem",
        "Risk": "exact",
        "RiskBound": "bounds",
        "SensitivityRow": "scaling",
        "Setting": "comparison",
        "Simulation": "simulation",
        "StepsLaw": "scaling",
        "StepsMeasurement": "measurements",
        "Trajectory": "simulation",
        "Truncation": "simulation",
        "compare": "comparison",
        "critical_batch_size": "critical",
        "example_measurements": "measurements",
        "excess_risk": "exact",
        "fit_asymptotic_exponent": "exponents",
        "fit_power_law": "scaling",
        "fit_steps_law": "scaling",
        "gradient_noise_scale": "noise_scale",
        "local_exponents": "exponents",
        "max_stable_learning_rate": "stability",
        "notions": "noise_scale",
        "optimal_learning_rate": "learning_rate",
        "predicted_exponent": "exponents",
        "predicted_risk_exponent": "exponents",
        "read_measurements": "measurements",
        "sensitivity": "scaling",
        "simulate": "simulation",
        "theorem7": "bounds",
    },
)


def __getattr__(name: str) -> object:
    """A public name, imported when it is asked for: `import sgdtheory` itself takes no time."""
    if name == "__version__":
        from sgdtheory.version import version

        return version()
    return _find(name)


def __dir__() -> list[str]:
    return __all__
