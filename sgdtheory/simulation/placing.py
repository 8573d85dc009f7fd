"""Replicas on devices: their first axis divided among them, and what comes back."""

from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sgdtheory._common.counter_random import threefry

EVERYWHERE, DIVIDED = PartitionSpec(), PartitionSpec("lanes")
T = TypeVar("T")


def lane_keys(key: np.ndarray, number: np.ndarray, replica: np.ndarray) -> np.ndarray:
    """(L, 2) uint32: the key of each replica of each run."""
    words = threefry((key[:1], key[1:]), number.astype(np.uint32), replica.astype(np.uint32))
    return np.stack(words, axis=1)


def place(arrays: T, mesh: Mesh) -> T:
    """The arrays on the devices, their first axis divided; every process knows all of them and places its part."""
    sharding = NamedSharding(mesh, DIVIDED)
    return jax.tree.map(lambda a: jax.make_array_from_callback(a.shape, sharding, lambda index, a=a: a[index]), arrays)


def fetch(risks: Any) -> np.ndarray:
    """All lanes' risks, on every process; `inf` where one left the range of a float."""
    if not risks.is_fully_addressable:
        risks = multihost_utils.process_allgather(risks, tiled=True)
    risks = np.asarray(risks, dtype=float)
    return np.where(np.isfinite(risks), risks, np.inf)
