"""Systems with constant coefficients."""

from typing import NamedTuple

import numpy as np

from sgdtheory.problems import Modes
from sgdtheory.risk.solvers.contour import NEGLIGIBLE, QUIET_CONTOUR, Contour
from sgdtheory.risk.solvers.spectrum import StepSpectrum, growths, loads, near_threshold, step_spectrum
from sgdtheory.risk.systems.moments import Generators, Keeping, generators, selected
from sgdtheory.risk.systems.periodic import Period, of_maps
from sgdtheory.risk.systems.runs import Coefficients

# Without noise, oscillations have died out at e^−115 = 1e-50 of the start: ten orders of magnitude below any risk whose
# error is stated.
NOTHING_LEFT = 115.0


class Stage(NamedTuple):
    """Constant coefficients in S settings on some modes, ready for any number of steps.

    `load`, (S,), is that of `spectrum.loads`, or 0 where no moments are known to grow.
    """

    modes: Modes
    output: np.ndarray
    maps: Generators
    alone: Generators
    spectrum: StepSpectrum
    keeping: Keeping | None
    contour: Contour
    load: np.ndarray

    def select(self, indices: np.ndarray) -> "Stage":
        """Return the stage of some of the settings."""
        names = "maps", "alone", "spectrum", "keeping", "load"
        return self._replace(**{name: selected(getattr(self, name), indices) for name in names})

    def without_average(self) -> "Stage":
        """Return the stage without its average."""
        return self._replace(keeping=None)

    @property
    def period(self) -> Period:
        """A step as a period of its own, whose single loss is driven by one noise."""
        return of_maps(
            self.maps, self.maps, self.modes, self.output, 1, cleared=[], keeping=self.keeping, contour=self.contour
        )

    def near_threshold(self, num_steps: np.ndarray) -> np.ndarray:
        """Return (S,) whether rounding of γ counts after so many steps."""
        return near_threshold(self.load, self.spectrum, num_steps)

    def growths(self, num_steps: np.ndarray) -> np.ndarray:
        """Return (S,) rates at which the moments grow or, below 0, decay, where n steps tell them from 0."""
        return growths(self, self.spectrum.slowest, self.load, num_steps)

    def load_at(self, excess: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Return (T,) loads of some settings at 1/z = 1 + excess."""
        return loads(selected(self.alone, indices), self.modes.driving, excess)

    def floors(self, indices: np.ndarray) -> np.ndarray:
        """Return (T,) largest eigenvalues, less 1, of directions of some settings without noise."""
        return np.expm1(2 * self.spectrum.slowest[indices])


def make_stage(
    here: Coefficients,
    modes: Modes,
    output: np.ndarray,
    keeping: Keeping | None,
    contour: Contour = QUIET_CONTOUR,
    stable: bool = False,
) -> Stage:
    """Return a stage with the coefficients of one step in each setting; `stable`: no moments are known to grow."""
    if keeping is not None and np.any(keeping.forgetting > 0) or keeping is None and output.size > 1:
        contour = QUIET_CONTOUR  # what decays needs all digits of the integrand
    alone = generators(here.matrices, here.batch, modes.eigenvalue, itself=False)
    maps = alone._replace(decay=alone.decay - alone.drive[:, :, None] * alone.seen[:, None, :, None])
    load = np.zeros(here.batch.size) if stable else loads(alone, modes.driving)
    return Stage(modes, output, maps, alone, step_spectrum(maps.propagator_decay), keeping, contour, load)


def settling_steps(spectrum: StepSpectrum, keeping: Keeping | None, noiseless: bool = False) -> np.ndarray:
    """Return (S,) steps after which complex poles have died out.

    Beside label noise, e^−45 of the start is nothing. Without noise (`noiseless`) the risk itself may be as small: then
    beside what decays most slowly, or to e^−115 of the start.
    """
    rate = np.asarray(spectrum.complex)
    forgotten = -np.inf
    with np.errstate(all="ignore"):
        if keeping is not None:  # products with the average
            forgotten = np.log1p(-keeping.forgetting)
        result = np.where(rate >= 0, np.inf, -NEGLIGIBLE / (2 * rate if keeping is None else rate))
        if not noiseless:
            return result
        oscillating = rate + np.maximum(rate, forgotten)
        lead = 2 * np.maximum(spectrum.slowest, forgotten) - oscillating
        beside = np.where(lead > 0, NEGLIGIBLE / lead, np.inf)
        return np.maximum(result, np.minimum(beside, -NOTHING_LEFT / oscillating))
