"""The device that is measured: its name, its memory, and the peaks that utilization refers to."""

import json
import math
import os
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks._gpu.sizes import Sizes
from benchmarks.timing import durations
from sgdtheory._common.files import json_text, write_atomically

FILE = "device.json"


class Peak(NamedTuple):
    """Dense bfloat16 operations a second and bytes a second, by the maker's data sheet."""

    flops: float
    bandwidth: float


PEAKS = {  # pattern of the name that JAX gives → peak; the first that is found in the name counts
    r"H200 NVL": Peak(835e12, 4.8e12),
    r"H200": Peak(989e12, 4.8e12),  # SXM
    r"H100 PCIe": Peak(756e12, 2.0e12),
    r"H100 NVL": Peak(835e12, 3.9e12),
    r"H100": Peak(989e12, 3.35e12),  # SXM
    r"A100 80GB PCIe": Peak(312e12, 1.935e12),
    r"A100.*40GB": Peak(312e12, 1.555e12),
    r"A100": Peak(312e12, 2.039e12),
    r"L40S": Peak(362e12, 0.864e12),
    r"RTX 4090": Peak(165e12, 1.008e12),
}


@dataclass(frozen=True)
class Device:
    """Device that was measured on.

    Attributes:
        name, platform, number: of the devices that JAX sees, the first one's name.
        jax, sizes: version of JAX, and the `Sizes` by name: with these five the same, nothing is measured again.
        memory: bytes that JAX may use of one device.
        python, host, cores: of the machine around it.
        peak_flops, peak_bandwidth: operations and bytes a second of one device that utilization refers to.
        source: where the peaks come from.
        measured_flops, measured_bandwidth: of a large matrix product and of a copy, here.
    """

    name: str
    platform: str
    number: int
    jax: str
    sizes: str
    memory: int
    python: str
    host: str
    cores: int
    peak_flops: float
    peak_bandwidth: float
    source: str
    measured_flops: float
    measured_bandwidth: float

    @property
    def is_cpu(self) -> bool:
        """Return whether this is a rehearsal."""
        return self.platform == "cpu"

    def is_of(self, sizes: Sizes, peak: Peak | None) -> bool:
        """Return whether the measurements are of the device that JAX sees now, as it is used now."""
        first = jax.devices()[0]
        now = first.device_kind, first.platform, jax.device_count(), jax.__version__, sizes.name
        own = self.name, self.platform, self.number, self.jax, self.sizes
        return now == own and peak in (None, Peak(self.peak_flops, self.peak_bandwidth))


def describe(sizes: Sizes, peak: Peak | None = None) -> Device:
    """The device that JAX sees, with its peaks: those given, a known device's, on a CPU those measured; else nan."""
    first = jax.devices()[0]
    dtype = "float32" if first.platform == "cpu" else "bfloat16"
    flops, bandwidth = _product_flops(sizes.peak_size, dtype), _copy_bandwidth(sizes.copy_bytes)
    peak, source = _peaks(first.device_kind, first.platform, peak, Peak(flops, bandwidth))
    return Device(
        name=first.device_kind,
        platform=first.platform,
        number=jax.device_count(),
        jax=jax.__version__,
        sizes=sizes.name,
        memory=_memory(first),
        python=platform.python_version(),
        host=platform.node(),
        cores=os.cpu_count() or 1,
        peak_flops=peak.flops,
        peak_bandwidth=peak.bandwidth,
        source=source,
        measured_flops=flops,
        measured_bandwidth=bandwidth,
    )


def _peaks(name: str, kind: str, given: Peak | None, measured: Peak) -> tuple[Peak, str]:
    if given is not None:
        return given, "given on the command line"
    if kind == "cpu":
        return measured, "measured here: a float32 matrix product and a copy, since no data sheet is known of a CPU"
    for pattern, peak in PEAKS.items():
        if re.search(rf"\b({pattern})", name):
            return peak, f"data sheet, dense bfloat16, found by {pattern!r} in the name"
    unknown = f"unknown: no peak is listed of {name!r}, give --peak-tflops and --peak-bandwidth"
    return Peak(math.nan, math.nan), unknown


def _product_flops(size: int, dtype: str) -> float:
    """Operations a second of a product of square matrices of random numbers."""
    first, second = (jax.random.normal(jax.random.key(seed), (size, size), dtype) for seed in (0, 1))
    product = jax.jit(jnp.matmul)
    return 2 * size**3 / min(durations(lambda: jax.block_until_ready(product(first, second)), 5))


def _copy_bandwidth(size: int) -> float:
    """Bytes read and written a second, of an array of so many bytes that is negated."""
    array, negate = jnp.ones(size // 4), jax.jit(jnp.negative)
    return 2 * size / min(durations(lambda: jax.block_until_ready(negate(array)), 5))


def _memory(device: Any) -> int:
    statistics = device.memory_stats() or {}
    return int(statistics.get("bytes_limit", 0)) or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def read(output: Path) -> Device | None:
    """The device of earlier measurements; None if there are none."""
    try:
        found: dict[str, Any] = json.loads((output / FILE).read_text())
        unknown: dict[str, Any] = {name: math.nan for name, value in found.items() if value is None}
        return Device(**(found | unknown))
    except (OSError, ValueError, TypeError):
        return None


def write(output: Path, device: Device) -> None:
    """Write device.json."""
    write_atomically(output / FILE, json_text(asdict(device)))
