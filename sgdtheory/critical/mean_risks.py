"""What the mean path of a method that depends on the step leaves, between learning rates at which it is tabulated."""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline

from sgdtheory.algorithms import Algorithm
from sgdtheory.risk import mean_risk, mean_risks_along

TABULATED = 1024  # learning rates up to γλ = 2
MOST_TURNS = 4.0  # times as many, where γ may be larger: up to γλ = 32


class MeanRisks:
    """`Σ_i s_i (oᵀE u_i)²` of some directions as a function of γ and n, to 1e-5 of it.

    At values of √γ up to the edge, evenly, as oscillators turn by √(γλ) a step. One run says it for every n; where γ or
    an average depends on n, each n takes one.

    Args:
        algorithm: what is run.
        eigenvalue, signal: (L,) of the directions.
        largest_rate: the end of the range of γ for n steps; between powers of two it is no more than at one of them.
        largest: a risk; all beyond it, and what is beyond that end, is the same.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        eigenvalue: np.ndarray,
        signal: np.ndarray,
        largest_rate: Callable[[float], float],
        largest: float,
    ) -> None:
        self.algorithm = algorithm
        self.directions = eigenvalue, signal
        self.largest_rate = largest_rate
        self.largest = largest
        self.one_run = algorithm.schedule.flat and not algorithm.average.returned(2.0, 2.0).total
        self.runs: dict[int, np.ndarray] = {}
        self.splines: dict[float, CubicSpline] = {}

    def __call__(self, rate: np.ndarray, steps: float) -> np.ndarray:
        """(G,) of learning rates after n steps."""
        if steps not in self.splines:
            roots, risks = self._tabulated(steps)
            finite = np.minimum(np.nan_to_num(risks, nan=self.largest), self.largest)
            self.splines[steps] = CubicSpline(roots, finite)
        spline = self.splines[steps]
        within = rate <= spline.x[-1] ** 2
        return np.where(within, np.maximum(spline(np.sqrt(np.where(within, rate, 0.0))), 0.0), self.largest)

    def _tabulated(self, steps: float) -> tuple[np.ndarray, np.ndarray]:
        """√γ and risks after n steps: one run for all n up to the next power of two, for all γ of any of these n."""
        doublings = int(np.ceil(np.log2(steps))) if self.one_run else 0
        fewest = 2.0 ** (doublings - 1) if self.one_run else steps
        numbers = {max(fewest, 1.0), 2.0**doublings if self.one_run else steps}
        largest = max(self.largest_rate(each) for each in numbers)
        turns = np.sqrt(largest * self.directions[0].max() / 2)  # over those up to γλ = 2
        roots = np.linspace(0.0, np.sqrt(largest), int(TABULATED * np.clip(turns, 1.0, MOST_TURNS)))
        if not self.one_run:
            return roots, mean_risk(self.algorithm, *self.directions, roots**2, steps)
        if doublings not in self.runs:
            self.runs[doublings] = mean_risks_along(self.algorithm, *self.directions, roots**2, 2.0**doublings)
        return roots, self.runs[doublings][int(steps)]
