"""The replicas of methods that are not linear in the gradient on the devices."""

from collections.abc import Sequence

import numpy as np
from jax.sharding import Mesh

from sgdtheory.algorithms import Coordinates, Course, rotation
from sgdtheory.simulation.dynamics import Sampler, Spectrum
from sgdtheory.simulation.method_program import MethodProgram
from sgdtheory.simulation.nonlinear_dynamics import NONLINEAR, Weights


class NonlinearProgram(MethodProgram):
    """Lanes of runs of a `NonlinearMethod`.

    Spectra are simulated in units in which λ_1 = 1 and Σ s_i + σ² = 1, so that of weights is √(Σ s_i + σ²)/√λ_1 and
    that of gradients √λ_1 √(Σ s_i + σ²).

    Args:
        unit: λ_1.
        scale: √(Σ s_i + σ²).
    """

    def __init__(
        self,
        unit: float,
        scale: float,
        sampler: Sampler,
        spectrum: Spectrum,
        courses: Sequence[Course],
        mesh: Mesh,
        lanes: np.ndarray,
        key: np.ndarray,
    ) -> None:
        method = courses[0].algorithm.method
        root = float(np.sqrt(unit))
        self.weight_unit = scale / root
        alike = method.in_units(scale * root)
        dtype = spectrum.start.dtype
        dim = spectrum.eigenvalue.size
        given = isinstance(method.basis, Coordinates)
        rows = padded(method.basis.rows, dim) if given else rotation(method.basis, dim, key.tolist())
        basis = None if rows is None else rows.astype(dtype)
        gradient_unit = np.asarray(1.0 if alike else scale * root).astype(dtype)
        weights = Weights(np.sqrt(spectrum.eigenvalue), basis, gradient_unit)
        given = NONLINEAR, alike or method, weights, unit, sampler, spectrum, courses
        super().__init__(*given, mesh, lanes, key)

    def rates(self, course: Course, step: np.ndarray) -> np.ndarray:
        """Learning rates in units of the weights."""
        return course.rates(step) / self.weight_unit


def padded(rows: np.ndarray, dim: int) -> np.ndarray:
    """(d, d): what is not simulated, a direction without a gradient, is a coordinate of its own."""
    found = np.eye(dim)
    found[: len(rows), : len(rows)] = rows
    return found
