"""Streams of windows of tokens: the bytes of Python's standard library, or a user's file."""

import functools
import sysconfig
import zlib
from pathlib import Path

import numpy as np
from jax import Array

from sgdtheory.training.data import StandardLibrary, Tokens

SKIPPED = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
HOLDOUT = 20  # One in twenty files, or the last twentieth of a file of tokens, is held out.
SEPARATOR = b"\0"
CHECKED = 1 << 24  # This many tokens are compared with the vocabulary together, which bounds the memory.


class Windows:
    """A stream of windows of `context` + 1 tokens of a text, with a new permutation and a new offset in each epoch.

    Window s of the stream is a function of (data_seed, s) alone: the same for every width, batch size and split
    into micro-batches. No token is predicted twice within an epoch.
    """

    def __init__(
        self, context: int, batch_size: int, holdout_size: int, texts: tuple[np.ndarray, np.ndarray], name: str
    ):
        text, holdout = texts
        self.context, self._batch_size, self._text = context, batch_size, text
        self._windows = (len(text) - 1) // context - 1  # The random offset costs up to one window.
        for part, length in ("training part", len(text) - context), ("hold-out", len(holdout)):
            if length < context + 1:
                raise ValueError(
                    f"{name} is too short for context = {context}: its {part} has {max(length, 0)} tokens; "
                    "lower context or take a longer text"
                )
        starts = np.linspace(0, len(holdout) - context - 1, holdout_size).astype(np.int64)
        self._holdout = holdout[starts[:, None] + np.arange(context + 1)]

    def chunk(self, data_seed: int, first: int, number: int) -> np.ndarray:
        """Return the tokens (number, B, context + 1) of steps first … first + number − 1."""
        size = self._batch_size
        samples = np.arange(first * size, (first + number) * size)
        starts = np.empty(len(samples), np.int64)
        epochs = samples // self._windows
        for epoch in np.unique(epochs):
            offset, order = _epoch(data_seed, int(epoch), self._windows, self.context)
            inside = epochs == epoch
            starts[inside] = offset + order[samples[inside] % self._windows].astype(np.int64) * self.context
        tokens = self._text[starts[:, None] + np.arange(self.context + 1)]
        return tokens.reshape(number, size, -1)

    def batch(self, data_seed: Array, tokens: Array) -> tuple[Array, Array]:
        """Return the tokens (B, T) of a step and the token after each."""
        del data_seed
        return tokens[:, :-1], tokens[:, 1:]

    def holdout(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of evenly spaced windows of the hold-out and the token after each."""
        return self._holdout[:, :-1], self._holdout[:, 1:]


@functools.lru_cache(maxsize=4)
def _epoch(seed: int, epoch: int, windows: int, context: int) -> tuple[int, np.ndarray]:
    """Return the offset and the order of the windows of one epoch."""
    rng = np.random.default_rng((seed, epoch))
    return int(rng.integers(context)), rng.permutation(windows).astype(np.uint32)


def standard_library(data: StandardLibrary, batch_size: int, holdout_size: int) -> Windows:
    """Make the stream of Python's standard library; one in twenty files, by a hash of its name, is held out."""
    return Windows(data.context, batch_size, holdout_size, _sources(), "the standard library's text")


@functools.cache
def _sources() -> tuple[np.ndarray, np.ndarray]:
    root = Path(sysconfig.get_path("stdlib"))
    names = (path.relative_to(root) for path in root.rglob("*.py"))
    parts: tuple[list[bytes], list[bytes]] = [], []
    for name in sorted(name.as_posix() for name in names if not SKIPPED & set(name.parts)):
        try:
            parts[zlib.crc32(name.encode()) % HOLDOUT == 0].append((root / name).read_bytes())
        except OSError:  # A broken link, or a file without permission to read.
            continue
    train, holdout = (np.frombuffer(SEPARATOR.join(part), np.uint8) for part in parts)
    return train, holdout


def token_file(data: Tokens, batch_size: int, holdout_size: int) -> Windows:
    """Make the stream of a memory-mapped file of tokens, whose last twentieth is held out."""
    path = Path(data.path).expanduser()
    tokens = _mapped(path)
    _check_vocabulary(tokens, data.vocabulary, path)
    split = len(tokens) - len(tokens) // HOLDOUT
    return Windows(data.context, batch_size, holdout_size, (tokens[:split], tokens[split:]), f"tokens file {path}")


def _mapped(path: Path) -> np.ndarray:
    try:
        if not path.is_file():
            raise ValueError(f"tokens must be the path of a file, got {path}, which is not there")
        if path.stat().st_size == 0:
            raise ValueError(f"tokens file {path} is empty: write token ids into it")
        if path.suffix == ".npy":
            tokens = _array_file(path)
            if tokens.ndim != 1 or tokens.dtype not in (np.uint16, np.uint32):
                raise ValueError(
                    f"tokens file {path} must hold one dimension of uint16 or uint32, got {tokens.ndim} of "
                    f"{tokens.dtype}"
                )
            return tokens
        if path.suffix != ".bin":
            raise ValueError(f"tokens file must end in .bin or .npy, got {path}")
        kind = np.dtype("<u4" if path.name.endswith(".u32.bin") else "<u2")
        if path.stat().st_size % kind.itemsize:
            raise ValueError(f"tokens file {path} is no whole number of {kind.name} tokens: write it anew")
        return np.memmap(path, kind, "r")
    except OSError as error:
        raise ValueError(f"tokens file {path} cannot be read: {error.strerror or error}") from None


def _array_file(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):
        raise ValueError(f"tokens file {path} is no NumPy array: write it with numpy.save") from None


def _check_vocabulary(tokens: np.ndarray, vocabulary: int, path: Path) -> None:
    for start in range(0, len(tokens), CHECKED):
        part = tokens[start : start + CHECKED]
        if part.max() >= vocabulary:
            index = start + int(np.argmax(part >= vocabulary))
            raise ValueError(
                f"tokens file {path} has token {int(tokens[index])} at index {index}, outside of vocabulary = "
                f"{vocabulary}; give the tokenizer's vocabulary"
            )
