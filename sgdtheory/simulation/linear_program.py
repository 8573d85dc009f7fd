"""The replicas of any linear method on the devices."""

from collections.abc import Sequence

import numpy as np
from jax.sharding import Mesh

from sgdtheory.algorithms import Course
from sgdtheory.simulation.dynamics import Sampler, Spectrum
from sgdtheory.simulation.linear_dynamics import LINEAR, Table
from sgdtheory.simulation.method_program import MethodProgram
from sgdtheory.simulation.tables import make_table, with_start


class LinearProgram(MethodProgram):
    """Lanes of runs whose steps are linear in the gradient; `unit` is λ_1."""

    def __init__(
        self,
        unit: float,
        sampler: Sampler,
        spectrum: Spectrum,
        courses: Sequence[Course],
        mesh: Mesh,
        lanes: np.ndarray,
        key: np.ndarray,
    ) -> None:
        method = courses[0].algorithm.method
        vectors = len(method.start)
        output = with_start(method)
        given = LINEAR, vectors, output.astype(spectrum.start.dtype), unit, sampler, spectrum, courses
        super().__init__(*given, mesh, lanes, key, numbers=(vectors + 1) ** 2, begin=output[0])

    def tabulated(self, first: int, count: int) -> Table:
        """Coefficients."""
        return make_table(self.courses, self.unit, first, count)
