"""The result of a simulation: risks of replicas, their mean and standard error, and what was truncated."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown

# A simulated risk, and the exact risk that it is compared with, have this relative error. Simulations without noise
# differ from exact risks by 2e-6 in float32 at most (tests/simulation/test_simulator.py), those in float64 by 1e-12.
ROUNDING = {"float32": 1e-6, "float64": 1e-11}


@dataclass(frozen=True)
class Truncation:
    """The directions that are not simulated, and what that does to the risks.

    These directions are frozen at their start. Their signal counts as risk and acts as label noise on the others. Only
    what they would learn, and the noise that they would gather, is lost.

    The risk of the average decides how many directions are simulated. The last iterate is more sensitive to the others,
    in extreme cases by standard errors. Ask for more directions where that matters.

    Attributes:
        dim: number of directions simulated.
        tail_risk: `Σ_{i>dim} s_i`, contained in every risk.
        shift: by how much freezing shifts the expected risk of the average; exact, one for each setting.
    """

    dim: int
    tail_risk: float
    shift: np.ndarray


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Risks at K steps, log-spaced between 1 and n.

    Attributes:
        num_steps: (…, K) step counts.
        excess_risk: (…, K, R) excess risk of the average of as many iterates; nan where it has not begun.
        last_iterate_risk: (…, K, R) excess risk of the iterate after as many steps.
    """

    num_steps: np.ndarray
    excess_risk: np.ndarray
    last_iterate_risk: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Shown):
    """Excess risks of R replicas at every setting; `…` is the shape that B, γ and D broadcast to.

    Attributes:
        excess_risk: (…, R) `‖w̄ − w*‖²_H` of each replica, w̄ the algorithm's average, in units of y²; `inf` where a
            replica diverged, `nan` where the simulation was interrupted before the replica had finished.
        last_iterate_risk: (…, R) the same of the iterate w_n; see `Truncation` on infinite problems.
        num_steps: (…) n = ⌊D/B⌋; with a batch schedule the largest n with Σ B_t ≤ D.
        truncation: what was done with directions that are not simulated; None if there are none.
        trajectory: risks at steps in between, if asked for.
        dtype: "float32" or "float64".
        interrupted: whether Ctrl-C ended the simulation early.
    """

    excess_risk: np.ndarray
    last_iterate_risk: np.ndarray
    num_steps: np.ndarray
    dtype: str
    truncation: Truncation | None = None
    trajectory: Trajectory | None = None
    interrupted: bool = False

    def __repr__(self) -> str:
        shape, replicas = self.excess_risk.shape[:-1], self.excess_risk.shape[-1]
        ends = ", interrupted" if self.interrupted else ""
        return f"Simulation(mean={self.mean}, num_replicas={replicas}, shape={shape}, dtype={self.dtype!r}{ends})"

    @property
    def num_finished(self) -> Any:
        """Number of replicas that have finished, (…)."""
        return (~np.isnan(self.excess_risk)).sum(-1)

    @property
    def diverged(self) -> np.ndarray:
        """Mask of the replicas that left the range of floating-point numbers, (…, R)."""
        return np.isinf(self.excess_risk)

    @property
    def mean(self) -> Any:
        """Mean excess risk of the finished replicas, (…); `inf` if one diverged, `nan` if none has finished."""
        return (self._unit * self._moments[0])[()]

    @property
    def standard_error(self) -> Any:
        """Standard error of the mean, (…); `inf` if a replica diverged, `nan` with fewer than two finished replicas.

        Raises:
            ValueError: the simulation was asked for one replica.
        """
        return (self._unit * self._relative_error)[()]

    def z_score(self, expected: ArrayLike) -> Any:
        """Return (mean − expected) / standard error, (…), rounding error included; `nan` where a replica diverged.

        Close to the stability threshold the risk has tails so heavy that the standard error says little.
        """
        mean, expected = self._moments[0], np.asarray(expected, dtype=float) / self._unit
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.hypot(self._relative_error, ROUNDING[self.dtype] * mean)
            score = np.where(mean == expected, 0.0, (mean - expected) / error)
        return np.where(np.isfinite(mean), score, np.nan)[()]

    def normal_score(self, expected: ArrayLike) -> Any:
        """Return the z-score, (…), corrected for the skewness of risks; compare this one with limits for false alarms.

        Hall's monotone transformation of Student's t (J. R. Statist. Soc. B 54, 1992), with `κ = skewness/√R` of the
        replicas: `z + κ z²/3 + κ² z³/27 + κ/6`. Up to κ = 1/8 it holds the probability of |z| > 4 to a factor of 2;
        the z-score itself is off by 7.
        """
        _, second, third = self._moments
        z = np.asarray(self.z_score(expected))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            lopsided = np.where(second > 0, third / second**1.5 / np.sqrt(self.num_finished), 0.0)
            return (z + lopsided * z**2 / 3 + lopsided**2 * z**3 / 27 + lopsided / 6)[()]

    @property
    def _unit(self) -> np.ndarray:
        """Largest finite risk, (…): in this unit no square leaves the range of a float."""
        finite = np.where(np.isfinite(self.excess_risk), self.excess_risk, 0.0)
        largest = finite.max(-1)
        return np.where(largest > 0, largest, 1.0)

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, and second and third central moments, of the finished replicas, (…), in powers of `_unit`."""
        count = np.asarray(self.num_finished)
        count = np.where(count > 0, count, np.nan)
        risk = self.excess_risk / self._unit[..., None]
        mean = np.nansum(risk, -1) / count
        with np.errstate(invalid="ignore"):
            deviation = risk - mean[..., None]
            return mean, np.nansum(deviation**2, -1) / count, np.nansum(deviation**3, -1) / count

    @property
    def _relative_error(self) -> np.ndarray:
        if self.excess_risk.shape[-1] < 2:
            raise ValueError("num_replicas must be at least 2 for a standard error, got 1")
        count = np.asarray(self.num_finished)
        with np.errstate(invalid="ignore"):
            error = np.sqrt(self._moments[1] / np.where(count > 1, count - 1, np.nan))
        return np.where(self.diverged.any(-1), np.inf, error)

    def sheet(self) -> Sheet:
        """Return a table of mean risks with their standard errors."""
        quantities = [
            Quantity("num_steps", "steps", self.num_steps),
            Quantity("mean", "mean excess risk, y²", self.mean),
        ]
        replicas = self.excess_risk.shape[-1]
        if replicas > 1:
            quantities.append(Quantity("standard_error", "standard error", self.standard_error))
        table = Table(quantities, legend=f"{replicas} replicas in {self.dtype}")
        return Sheet("simulated", [table], self._remarks())

    def _remarks(self) -> list[str]:
        """Return what the directions that are not simulated, replicas that diverged and Ctrl-C do to the means."""
        remarks = []
        if kept := self.truncation:
            remark = f"{kept.dim} directions simulated, the others frozen with risk {kept.tail_risk:.3g}"
            errors = self.standard_error if self.excess_risk.shape[-1] > 1 else np.nan
            shift, error = np.broadcast_arrays(np.ravel(kept.shift), np.ravel(errors))
            known = np.isfinite(shift) & np.isfinite(error) & (error > 0)
            if known.any():
                finished = " of what has finished" if self.interrupted else ""
                largest = np.abs(shift[known] / error[known]).max()
                remark += f"; this shifts means{finished} by {largest:.2g} standard errors at most"
            elif not np.isfinite(kept.shift).any():
                remark += "; twice as many show whether that matters"
            remarks.append(remark)
        if self.interrupted:
            some = "interrupted: the means are over the replicas that had finished"
            remarks.append(some if np.any(self.num_finished) else "interrupted before any replica had finished")
        if count := int(self.diverged.sum()):
            remarks.append(f"{count} replicas diverged (beyond the range of {self.dtype})")
        return remarks
