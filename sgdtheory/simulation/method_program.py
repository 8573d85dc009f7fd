"""The replicas of an algorithm on the devices, with the table of their next steps."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh

from sgdtheory.algorithms import Course
from sgdtheory.simulation.dynamics import STEPS, Sampler, Spectrum
from sgdtheory.simulation.linear_dynamics import Replica
from sgdtheory.simulation.placing import fetch, lane_keys, place


class MethodProgram(ABC):
    """Lanes of runs of one algorithm: a state that moves on, and its risks.

    Args:
        sampler: draws their steps.
        spectrum: of the problem.
        courses: of G runs.
        mesh: the devices.
        lanes: (L, 3) place of the run among the courses, number of the run and replica of each lane.
        key: (2,) uint32.
        numbers: about how many a step of a run takes in the table.
        begin: the iterate at the start, in units of u(0).
    """

    TABLE_NUMBERS: ClassVar[int] = 2**21  # of a table, about: 8 MB in float32
    MOST_BLOCKS: ClassVar[int] = 64

    def __init__(
        self,
        sampler: Sampler,
        spectrum: Spectrum,
        courses: Sequence[Course],
        mesh: Mesh,
        lanes: np.ndarray,
        key: np.ndarray,
        *,
        numbers: int,
        begin: float,
    ) -> None:
        self.sampler = sampler
        self.spectrum = spectrum
        self.mesh = mesh
        self.dtype = spectrum.start.dtype
        self.run = lanes[:, 0]
        self.ways = [(course.algorithm.average, course.num_steps) for course in courses]
        padding = (1 << (len(courses) - 1).bit_length()) - len(courses)  # so that few shapes are compiled
        self.courses = [*courses, *[courses[-1]] * padding]
        blocks = int(np.clip(self.TABLE_NUMBERS // (STEPS * len(self.courses) * numbers), 1, self.MOST_BLOCKS))
        self.length = 1 if courses[0].algorithm.constant else STEPS * blocks
        self.table: Any = None
        self.origin = 0
        kept = np.array([_keeping(course, begin) for course in courses]).T
        first, others = kept[0].astype(np.uint32), kept[1:].astype(self.dtype)
        words = lane_keys(key, lanes[:, 1], lanes[:, 2])
        replicas = Replica(words, self.run.astype(np.uint32), *(each[self.run] for each in (first, *others)))
        self.replicas = place(replicas, mesh)
        self.state = self.started()

    @abstractmethod
    def started(self) -> Any:
        """The state at the start."""

    @abstractmethod
    def tabulated(self, first: int, count: int) -> Any:
        """What the steps first … first + count − 1 of the runs do, in float64."""

    @abstractmethod
    def moved(self, origin: np.uint32, first: np.uint32, count: np.int32) -> Any:
        """The state after `count` steps from `first` on, with the table that begins at `origin`."""

    @abstractmethod
    def looked(self, iterate: np.ndarray, norm: np.ndarray) -> tuple[Any, Any]:
        """Risks of `a w + S/norm` and of w."""

    def most(self, now: int) -> int:
        """Steps that a call from `now` on may take."""
        return 2**31 if self.length == 1 else self.length - now % STEPS

    def advance(self, now: int, count: int) -> Any:
        """Take `count` steps."""
        covered = self.length == 1 or now + count <= self.origin + self.length
        if self.table is None or not covered:
            self.origin = now // STEPS * STEPS
            with np.errstate(over="ignore"):  # a rate beyond the range of the dtype diverges, as it should
                found = self.tabulated(self.origin, self.length)
                self.table = jax.tree.map(lambda each: each.astype(self.dtype), found)
        self.state = self.moved(np.uint32(self.origin), np.uint32(now), np.int32(count))
        return self.state

    def risks(self, now: int) -> tuple[np.ndarray, np.ndarray]:
        """(L,) risks of what is returned, nan where there is nothing yet, and of the iterate."""
        shares = np.array([average.returned(now, num_steps) for average, num_steps in self.ways])
        with np.errstate(divide="ignore"):
            iterate, norm = shares[self.run, 0], 1 / shares[self.run, 1]
        returned, last = map(fetch, self.looked(iterate.astype(self.dtype), norm.astype(self.dtype)))
        return np.where(np.isnan(norm), np.nan, returned), last


def _keeping(course: Course, begin: float) -> tuple[float, float, float, float]:
    """First step averaged, 1 − ρ, ω, and S at the start in units of u(0)."""
    average, n = course.algorithm.average, course.num_steps
    return course.first_averaged, average.forgetting(n), average.weight(n), begin * average.starts_at_iterate()
