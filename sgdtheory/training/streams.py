"""Streams of training data, in which step t of a seed is the same for every width and split into micro-batches."""

import functools
from collections.abc import Callable
from typing import Protocol

import numpy as np
from jax import Array

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.contents import contents_of_data
from sgdtheory.training.data import Arrays, Data, Digits, StandardLibrary, Teacher, Tokens
from sgdtheory.training.rows import arrays, digits
from sgdtheory.training.teacher import TeacherStream
from sgdtheory.training.text import standard_library, token_file


class Stream(Protocol):
    """The data of a run; `chunk` is computed on the host, `batch` on the devices of the network."""

    def chunk(self, data_seed: int, first: int, number: int) -> np.ndarray:
        """Return the stacked inputs that `batch` needs for `number` steps from step `first` on."""
        ...

    def batch(self, data_seed: Array, piece: Array, /) -> tuple[Array, Array]:
        """Return the inputs and targets of one step from its piece of a chunk."""
        ...

    def holdout(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs and targets of the hold-out."""
        ...


def stream(config: TrainConfig) -> Stream:
    """Return the config's stream of data, from a cache that configs with the same data and unedited files share."""
    contents = tuple(contents_of_data(config.data).items())
    return _stream(config.data, config.samples_per_step, config.holdout_size, contents)


@functools.lru_cache(maxsize=8)
def _stream(data: Data, batch_size: int, holdout_size: int, contents: tuple[tuple[str, str], ...]) -> Stream:
    del contents
    streams: dict[type, Callable[..., Stream]] = {
        Teacher: TeacherStream,
        Digits: digits,
        Arrays: arrays,
        StandardLibrary: standard_library,
        Tokens: token_file,
    }
    return streams[type(data)](data, batch_size, holdout_size)
