"""Throughput in samples a second: one number, a table against the samples of a step, or points with accumulation."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import optimize

from sgdtheory._common.arguments import positive_array, positive_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.csv_rows import csv_header, csv_rows, positive_cell


@dataclass(frozen=True, eq=False)
class Throughput:
    """Samples a second of one device against the samples that it takes a step; between them interpolated in logs.

    Beyond the table it promises nothing that was not measured: above, the throughput of the largest batch size; below,
    a step as long as that of the smallest one.

    >>> import sgdtheory as st
    >>> table = st.fits.Throughput([1, 4, 16], [100, 300, 400])
    >>> table.at([0.5, 2, 16, 64]).round().tolist(), table.outside([0.5, 2, 64]).tolist()
    ([50.0, 173.0, 400.0, 400.0], [True, False, True])

    Attributes:
        batch_sizes: (k,) samples that a device takes a step, in increasing order.
        samples_per_second: (k,) of one device.

    Raises:
        ValueError: wrong shapes, numbers that are not positive, or a batch size twice.
    """

    batch_sizes: np.ndarray
    samples_per_second: np.ndarray

    def __init__(self, batch_sizes: ArrayLike, samples_per_second: ArrayLike) -> None:
        sizes, rates = (
            np.atleast_1d(positive_array(name, value))
            for name, value in (("batch_sizes", batch_sizes), ("samples_per_second", samples_per_second))
        )
        if sizes.ndim != 1 or sizes.shape != rates.shape:
            raise ValueError(
                "batch_sizes and samples_per_second must be one-dimensional and of one length, got shapes "
                f"{sizes.shape} and {rates.shape}"
            )
        order = np.argsort(sizes)
        if (np.diff(sizes[order]) == 0).any():
            raise ValueError(f"batch_sizes must differ, got {sizes.tolist()}: keep one throughput of each")
        # The dataclass is frozen.
        vars(self).update(batch_sizes=sizes[order], samples_per_second=rates[order])

    def at(self, batch_size: ArrayLike) -> np.ndarray:
        """Samples a second of a device that takes `batch_size` samples a step."""
        batch = positive_array("batch_size", batch_size)
        inner = np.exp(np.interp(np.log(batch), np.log(self.batch_sizes), np.log(self.samples_per_second)))
        return inner * np.minimum(1.0, batch / self.batch_sizes[0])

    def update_seconds(self, devices: ArrayLike) -> np.ndarray:
        """0: what a step takes is in the table."""
        return np.zeros(np.shape(devices))

    def outside(self, batch_size: ArrayLike) -> np.ndarray:
        """Tell whether `batch_size` lies beyond the table."""
        batch = np.asarray(batch_size, float)
        return (batch < self.batch_sizes[0]) | (batch > self.batch_sizes[-1])


@dataclass(frozen=True)
class ConstantThroughput:
    """The same samples a second whatever a device takes a step."""

    samples_per_second: float

    def at(self, batch_size: ArrayLike) -> np.ndarray:
        """Return that number, in the shape of `batch_size`."""
        return np.full(np.shape(batch_size), self.samples_per_second)

    def update_seconds(self, devices: ArrayLike) -> np.ndarray:
        """0: it is in that number."""
        return np.zeros(np.shape(devices))

    def outside(self, batch_size: ArrayLike) -> np.ndarray:
        """Never."""
        return np.zeros(np.shape(batch_size), bool)


COLUMNS = "devices", "micro_batch", "accumulation", "samples_per_second", "memory_gb"


@dataclass(frozen=True, eq=False)
class MeasuredThroughput:
    """Times of steps with gradient accumulation, fitted to measured points.

        n m k / rate = T(n, m, k) = k t(m) + u(n)

    n devices take m samples each at once, k times a step. t(m) is free at each m that was measured, u(n) at each n,
    both 0 or more, by least squares of T relative to it. Points that differ in k alone tell them apart; where they do
    not for every n, u is one number for all, and where they do not at all it is 0, and accumulation looks too slow if
    anything. Between the m of the points m/t(m) is interpolated as in `Throughput`, between the n u(n) is, in log n;
    beyond them it stays.

    Memory is `c_0 + c_1 m` a device, least squares of the points that have it, moved up until no point lies above: a
    run that needs more than there is does not run.

    >>> import sgdtheory as st
    >>> rates = [44.44, 86.49, 145.45, 164.10]  # of 8 devices: T = k (0.05 + 0.03 m) + 0.2 seconds
    >>> points = st.fits.MeasuredThroughput([8] * 4, [1, 4, 4, 8], [2, 1, 4, 2], rates, [14, 20, 20, 28])
    >>> points.at([1, 4, 8]).round(1).tolist(), points.update_seconds(8).round(2).item()
    ([12.5, 23.5, 27.6], 0.2)
    >>> points.memory, points.largest_micro_batch(80)
    ((12.0, 2.0), 34)

    Args:
        micro_batch, accumulation: (p,) m, samples of one device at once, and k of each point; its n comes first.
        samples_per_second: (p,) of all devices.
        memory_gb: (p,) GB that one device needs; None: not measured.

    Attributes:
        micro_batches: samples a second of one device by what it takes at once, m/t(m).
        devices, seconds: (p,) numbers of devices n, increasing, and u(n).
        memory: (c_0, c_1) in GB; None: not measured.
        largest_error: of the fit, max |T fitted / T measured − 1|.

    Raises:
        ValueError: wrong shapes, numbers that are not positive, or counts that are not whole.
    """

    micro_batches: Throughput
    devices: np.ndarray
    seconds: np.ndarray
    memory: tuple[float, float] | None
    largest_error: float

    def __init__(
        self,
        devices: ArrayLike,
        micro_batch: ArrayLike,
        accumulation: ArrayLike,
        samples_per_second: ArrayLike,
        memory_gb: ArrayLike | None = None,
    ) -> None:
        given = devices, micro_batch, accumulation, samples_per_second
        n, m, k, rate = (_points(name, value) for name, value in zip(COLUMNS, given, strict=False))
        if not n.shape == m.shape == k.shape == rate.shape:
            raise ValueError(
                f"{', '.join(COLUMNS[:4])} must be of one length, got {n.size}, {m.size}, {k.size}, {rate.size}"
            )
        counts, times, seconds, error = _fit(n, m, k, n * m * k / rate)
        sizes = np.unique(m)
        memory = None if memory_gb is None else _memory(m, memory_gb)
        # The dataclass is frozen: its attributes follow from the arguments once and for all.
        micro_batches = Throughput(sizes, sizes / times)
        vars(self).update(
            micro_batches=micro_batches, devices=counts, seconds=seconds, memory=memory, largest_error=error
        )

    def at(self, batch_size: ArrayLike) -> np.ndarray:
        """Samples a second of a device that takes `batch_size` samples at once, beside what a step takes once."""
        return self.micro_batches.at(batch_size)

    def update_seconds(self, devices: ArrayLike) -> np.ndarray:
        """u(n), seconds that a step takes beside its micro batches."""
        return np.interp(np.log(positive_array("devices", devices)), np.log(self.devices), self.seconds)

    def outside(self, batch_size: ArrayLike) -> np.ndarray:
        """Tell whether so many samples at once lie beyond those that were measured."""
        return self.micro_batches.outside(batch_size)

    def largest_micro_batch(self, memory: float) -> int:
        """The most samples at once that fit into `memory` GB a device, by the line.

        Raises:
            ValueError: memory was not measured at two different micro batches, or holds not one sample.
        """
        if self.memory is None:
            raise ValueError("memory needs a table of throughput with memory_gb, at two micro batches or more")
        base, slope = self.memory
        most = int(np.floor((positive_number("memory", memory) - base) / slope + 1e-9))
        if most < 1:
            raise ValueError(
                f"memory of {memory:g} GB holds no sample: {base:.3g} GB + {slope:.3g} GB a sample are needed"
            )
        return most


def _points(name: str, value: ArrayLike) -> np.ndarray:
    """(N,) numbers of a column, whole but for the rate."""
    column = np.atleast_1d(positive_array(name, value))
    if column.ndim != 1 or (name != "samples_per_second" and (column % 1).any()):
        raise ValueError(f"{name} must be a list of whole numbers, got {column.tolist()}")
    return column


def _fit(
    n: np.ndarray, m: np.ndarray, k: np.ndarray, time: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """n, t(m) and u(n) at those that differ, and the largest relative error."""
    counts = np.unique(n)
    micro = k[:, None] * (m[:, None] == np.unique(m))
    each = (n[:, None] == counts).astype(float)
    one = np.ones((n.size, 1))
    for update in (each, one, one[:, :0]):  # the first that the points tell from the micro batches
        design = np.hstack([micro, update]) / time[:, None]
        if np.linalg.matrix_rank(design * time.mean()) == design.shape[1]:
            break
    found, _ = optimize.nnls(design, np.ones(n.size))
    times, rest = np.split(found, [micro.shape[1]])
    if not times.all():
        size = np.unique(m)[times == 0][0]
        raise ValueError(
            f"samples_per_second must be higher at less accumulation, got steps of micro batch {size:g} that "
            "take no longer with more: look at its rows"
        )
    seconds = np.broadcast_to(rest if rest.size else 0.0, counts.shape)
    return counts, times, seconds, float(np.abs(design @ found - 1).max())


def _memory(m: np.ndarray, memory_gb: ArrayLike) -> tuple[float, float]:
    """(c_0, c_1) of the line over all points; nan is what was not measured."""
    memory = np.atleast_1d(np.asarray(memory_gb, float))
    if memory.shape != m.shape:
        raise ValueError(f"memory_gb must be as many as micro_batch, got {memory.size} for {m.size}")
    known = ~np.isnan(memory)
    size = m[known]
    if np.unique(size).size < 2:
        raise ValueError("memory_gb must be given at two different micro batches or more: a line goes through them")
    used = positive_array("memory_gb", memory[known])
    away = size - size.mean()
    slope = float(away @ used / (away @ away))
    if slope <= 0:
        raise ValueError("memory_gb must grow with micro_batch, got less at larger ones: look at these rows")
    return float((used - slope * size).max()), slope


def read_throughput(
    path: str | Path, *, batch_size: str = "batch_size", samples_per_second: str = "samples_per_second"
) -> Throughput | MeasuredThroughput:
    """Read a table of throughput from a CSV file with a header.

    >>> import pathlib, tempfile
    >>> import sgdtheory as st
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "throughput.csv"
    >>> _ = path.write_text("batch_size,samples_per_second\\n1,100\\n4,300\\n16,400\\n")
    >>> st.fits.read_throughput(path).samples_per_second.tolist()
    [100.0, 300.0, 400.0]

    Args:
        path: the file. With a column `micro_batch` a row is a point as it is logged, `samples_per_second` of all
            devices, with `devices` and `accumulation`, 1 where there is no such column, and `memory_gb` a device where
            it was measured. Without, a row is a batch size of one device.
        batch_size, samples_per_second: names of the columns.

    Raises:
        ValueError: no such file or column, no rows, or an entry that is not a positive number.
    """
    measured = "micro_batch" in csv_header(Path(path))
    columns = [samples_per_second] if measured else [batch_size, samples_per_second]
    rows = list(csv_rows(Path(path), columns))
    if not rows:
        raise ValueError(f"{path} has no rows below its header")
    if not measured:
        table = [[positive_cell(row[name], name, f"{path}, line {line}") for name in columns] for line, row in rows]
        return Throughput(*np.array(table).T)
    names = "devices", "micro_batch", "accumulation", samples_per_second, "memory_gb"
    found = np.array([list(_cells(row, names, f"{path}, line {line}")) for line, row in rows]).T
    memory = None if np.isnan(found[4]).all() else found[4]
    return MeasuredThroughput(found[0], found[1], found[2], found[3], memory)


def _cells(row: dict[str, str], names: tuple[str, ...], where: str) -> Iterator[float]:
    """Numbers of a point; 1 where there is no column, nan for memory that is not there."""
    for name in names:
        if name == "memory_gb" and not row.get(name, "").strip():
            yield float("nan")
        else:
            yield positive_cell(row[name], name, where) if name in row else 1.0
