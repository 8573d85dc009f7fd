"""Throughput of a device in samples a second: one number, or a table against the samples of a step."""

from dataclasses import dataclass

import numpy as np

from sgdtheory._common.arguments import positive_array
from sgdtheory._common.array_like import ArrayLike


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
        object.__setattr__(self, "batch_sizes", sizes[order])
        object.__setattr__(self, "samples_per_second", rates[order])

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
