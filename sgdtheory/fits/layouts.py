"""Layouts of a batch, B = devices × micro batch × accumulation, and the time of a step.

    T(n, m, k) = k m/r(m) + u(n)

m samples at once take a device m/r(m) seconds, a step has k such micro batches, and u(n) seconds go to what it does
once: communication between n devices and the optimizer.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from sgdtheory._common.arguments import positive_array
from sgdtheory._common.array_like import ArrayLike


class HasThroughput(Protocol):
    """Protocol of a device's throughput: `ConstantThroughput`, `Throughput` or `MeasuredThroughput`."""

    def at(self, batch_size: ArrayLike) -> np.ndarray:
        """r(m), samples a second of a device that takes m samples at once."""
        ...

    def update_seconds(self, devices: ArrayLike) -> np.ndarray:
        """u(n), what a step takes beside its micro batches."""
        ...

    def outside(self, batch_size: ArrayLike) -> np.ndarray:
        """Tell whether m lies beyond what was measured."""
        ...


class Layout(NamedTuple):
    """Layouts of k batch sizes, (k,) each; `seconds` of a step are inf where the devices cannot share the batch."""

    devices: np.ndarray
    micro_batch: np.ndarray
    accumulation: np.ndarray
    seconds: np.ndarray


@dataclass(frozen=True, eq=False)
class Machine:
    """Devices, what they compute, and what they can take at once.

    Attributes:
        throughput: of a device.
        counts: numbers of devices of which one may be taken; None: as many as the batch feeds, B over `unit`.
        unit: fewest samples that a device takes at once; a micro batch is a multiple of it.
        most: samples that a device takes at once at most; None: all of its share, without accumulation.
    """

    throughput: HasThroughput
    counts: tuple[int, ...] | None
    unit: int
    most: int | None

    def layouts(self, batch_sizes: np.ndarray) -> list[Layout]:
        """List for the batch sizes (k,) one Layout for each number of devices."""
        return [self._layout(batch_sizes, count) for count in self._counts]

    def _layout(self, batch: np.ndarray, count: int | None) -> Layout:
        """A batch that does not feed all devices goes to as many as it feeds."""
        fed = batch // self.unit
        devices = np.maximum(fed if count is None else np.minimum(fed, count), 1)
        share = batch / devices
        micro = share if self.most is None else self._fastest_that_divide(share)
        accumulation = share / micro
        seconds = accumulation * micro / self.throughput.at(micro) + self.throughput.update_seconds(devices)
        return Layout(devices, micro, accumulation, np.where(share % self.unit == 0, seconds, np.inf))

    def _fastest_that_divide(self, share: np.ndarray) -> np.ndarray:
        """(k,) micro batches of most samples a second among those that divide the share; of equals the largest."""
        best = np.full(share.shape, float(self.unit))
        fastest = np.zeros(share.shape)
        for micro, rate in zip(self._micro_batches, self._rates, strict=True):
            better = (share % micro == 0) & (rate >= fastest)
            best = np.where(better, micro, best)
            fastest = np.where(better, rate, fastest)
        return best

    @cached_property
    def _counts(self) -> tuple[int | None, ...]:
        return self.counts or (None,)

    @cached_property
    def _micro_batches(self) -> np.ndarray:
        return np.arange(self.unit, (self.most or self.unit) + 1, self.unit, dtype=float)

    @cached_property
    def _rates(self) -> np.ndarray:
        return self.throughput.at(self._micro_batches)

    # ------------------------------------------------------------------ which batch sizes

    def nearest(self, batch_size: ArrayLike) -> np.ndarray:
        """(number of counts, …) the nearest batch size that each number of devices can share.

        One that they can share stays as it is. Others become multiples of devices × the fastest micro batch, or if
        smaller of devices × unit, or of the unit.
        """
        batch = positive_array("batch_size", batch_size)
        return np.stack([self._nearest(batch, count) for count in self._counts])

    def _nearest(self, batch: np.ndarray, count: int | None) -> np.ndarray:
        fastest = float(self._micro_batches[np.argmax(self._rates)])
        all_devices = self.unit * (count or 1)
        full = all_devices if count is None else fastest * count
        step = np.where(batch >= full, full, np.where(batch >= all_devices, all_devices, self.unit))
        return np.where(batch % all_devices == 0, batch, np.maximum(step, step * np.round(batch / step)))

    def candidates(self, low: float, high: float) -> np.ndarray:
        """Batch sizes from low to high: all that devices can share, or where these are too many some all over it."""
        most = 20_000  # for each number of devices: neighbours of a geometric grid are then 0.1% apart at most
        found = [self.nearest(np.geomspace(low, high, most)).ravel()]
        for count in self._counts:
            step = self.unit * (count or 1)
            if (high - low) / step < most:
                found.append(step * np.arange(max(np.ceil(low / step), 1), np.floor(high / step) + 1))
        batch = np.unique(np.concatenate(found))
        return batch[(batch >= low) & (batch <= high)]
