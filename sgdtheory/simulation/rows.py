"""Finite samples of data: the rows of each replica, and the order in which a run reads them (THEORY.md T42)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sgdtheory.algorithms import Course
from sgdtheory.simulation.dynamics import Rows
from sgdtheory.simulation.explicit import RowBatches
from sgdtheory.simulation.runs import largest_batch

Sample = tuple[np.ndarray, np.ndarray]  # (N, d) whitened features, and (N,) or (N, m) label noise


@dataclass(frozen=True, eq=False)
class RowSource:
    """N rows of all replicas or of each, and seeds of the orders in which these read them.

    Attributes:
        num_rows: N.
        sample: the rows of a replica, the same for all replicas if `shared`.
        shared: whether all replicas read the same rows.
        replacement: whether a row may come again before all others have come. If not, every epoch has a new random
            order, and rows that do not fill a batch are left out.
        seed: words that the seed of a replica's order begins with; its number follows.
        last: the rows that were asked for last.
    """

    num_rows: int
    sample: Callable[[int], Sample]
    shared: bool
    replacement: bool
    seed: tuple[int, ...]
    last: dict[tuple[int, ...], Rows] = field(default_factory=dict)

    def sampler(self, course: Course) -> RowBatches:
        """Return the sampler of a run. Its width is a power of two, so that few programs are compiled."""
        return RowBatches(1 << (int(min(largest_batch(course), self.largest_batch)) - 1).bit_length())

    @property
    def largest_batch(self) -> float:
        """The size beyond which a batch has no more rows."""
        return np.inf if self.replacement else self.num_rows

    def rows(self, replicas: Sequence[int], dtype: np.dtype, scale: float) -> Rows:
        """Return the rows of these replicas one after the other, or those of all, and a row of zeros.

        Noise is in multiples of `scale`, the unit of the call's task.
        """
        wanted = (0,) if self.shared else tuple(replicas)
        if wanted not in self.last:  # the blocks of a call often have the same replicas
            self.last.clear()
            samples = zip(*map(self.sample, wanted), strict=True)
            features, noise = (np.concatenate([*each, np.zeros_like(each[0][:1])]) for each in samples)
            self.last[wanted] = Rows(features.astype(dtype), (noise / scale).astype(dtype))
        return self.last[wanted]


class RowReader:
    """The rows that the steps of one run of one replica read, in the order of the steps.

    Steps are asked for in their order, and each once: what has been drawn is not kept.

    Args:
        source: of the rows.
        course: of the run.
        replica: whose order of the rows is followed.
        place: index of the replica among those whose rows are attached.
    """

    def __init__(self, source: RowSource, course: Course, replica: int, place: int) -> None:
        self.source = source
        self.random = np.random.default_rng([*source.seed, replica])
        self.offset = 0 if source.shared else place * source.num_rows  # number of the replica's first row
        self.epoch = source.num_rows
        self.left = np.zeros(0, dtype=int)
        if course.constant_batch:  # a varying batch size reads epochs to their ends, over which batches may extend
            batch = int(course.batches(np.zeros(1))[0])
            if batch <= self.epoch:
                self.epoch -= self.epoch % batch

    def table(self, batch: np.ndarray, width: int, filler: int) -> np.ndarray:
        """Return (T, width) numbers of the rows of the next T steps of these batch sizes (T,), filled up."""
        # Rows are asked for all at once, in the order of the steps: the stream does not depend on the tables' lengths.
        there = np.arange(width) < batch[:, None]
        index = np.full(there.shape, filler, dtype=np.int32)
        index[there] = self.offset + self._next(int(there.sum()))
        return index

    def _next(self, count: int) -> np.ndarray:
        size = self.source.num_rows
        if self.source.replacement:
            return self.random.integers(size, size=count)
        epochs = -(-(count - self.left.size) // self.epoch)
        orders = [self.random.permutation(size)[: self.epoch] for _ in range(epochs)]
        drawn = np.concatenate([self.left, *orders])
        self.left = drawn[count:]
        return drawn[:count]
