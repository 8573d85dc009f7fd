"""The data by name: streams in which step t of a seed is the same for every width and split into micro-batches."""

import functools
from typing import Any, Protocol

import numpy as np
from jax import Array

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.teacher import Teacher
from sgdtheory.training.text import standard_library, token_file


class Stream(Protocol):
    """Data of a run; `chunk` is computed on the host, `batch` where the network is."""

    def chunk(self, data_seed: int, first: int, number: int) -> np.ndarray:
        """What `batch` needs of `number` steps, stacked."""
        ...

    def batch(self, data_seed: Array, piece: Array) -> tuple[Array, Array]:
        """Inputs and targets of one step, from its piece of a chunk."""
        ...

    def holdout(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of the hold-out."""
        ...


MAKERS: dict[str, Any] = {"teacher": Teacher, "stdlib": standard_library, "tokens": token_file}
# What a stream depends on: runs that agree on these share one.
FIELDS = "data", "tokens", "vocabulary", "context", "input_dim", "capacity", "source", "noise_variance", "task_seed"


def stream(config: TrainConfig) -> Stream:
    """The config's stream of data; made once for all configs whose data agree."""
    return _made(TrainConfig(**_kept(config)))


def _kept(config: TrainConfig) -> dict[str, Any]:
    names = (*FIELDS, "holdout_size", "batch_size", "model")
    return {name: getattr(config, name) for name in names}


@functools.lru_cache(maxsize=8)
def _made(config: TrainConfig) -> Stream:
    return MAKERS[config.data](config)
