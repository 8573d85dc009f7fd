"""Runs of one program side by side on the devices: start, advance, evaluate, state; without files, without an end."""

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sgdtheory.training.config import FIELDS, TrainConfig
from sgdtheory.training.contents import contents_of_data
from sgdtheory.training.engine import (
    State,
    advance,
    evaluate,
    evaluation_program,
    init,
    iterate_of,
    program,
    side_by_side,
    stacked,
)
from sgdtheory.training.streams import stream

CHUNK_BYTES = 1 << 25  # of data for one call
LONGEST_CHUNK = 1024  # steps of one call


class Pieces(NamedTuple):
    """Data of the next steps, on the devices, padded to the length of a call; and how many steps they are."""

    arrays: Any
    number: int


class Lanes:
    """Runs of one program that advance side by side, from the first step or from states that were kept.

    They may differ in learning rate, the optimizer's numbers (momentum, β₁, β₂, ε, update_rms), seeds, the values
    of averages and target_loss and, where workers take steps of their own, in H and the outer step. A run's bits depend
    on how many run beside it, to rounding.

    >>> import numpy as np
    >>> from sgdtheory.training import Lanes, TrainConfig
    >>> configs = [TrainConfig(width=4, holdout_size=8, averages=(), seed=seed) for seed in (0, 1)]
    >>> lanes = Lanes(configs)  # doctest: +SKIP
    >>> lanes.advance(3)  # doctest: +SKIP
    >>> lanes.step, lanes.evaluate().shape, lanes.weights()["output"].shape  # doctest: +SKIP
    (3, (2, 1), (2, 4, 1))

    Attributes:
        configs: of the R runs.
        step: steps that all have done, of which the last may still be computed.
        shared: whether all have one data_seed, and share the making of their data.

    Raises:
        ValueError: no configs, or configs of different programs; the message names a field that differs.
    """

    def __init__(
        self,
        configs: Sequence[TrainConfig],
        *,
        devices: Sequence[Any] | None = None,
        states: Sequence[State] | None = None,
        longest: int | None = None,
    ):
        """Put the runs on the devices.

        Args:
            configs: one or more, of one program.
            devices: JAX devices that share each micro-batch, as many as divide it; None: the first one.
            states: of each run, from which it goes on; None: before the first step.
            longest: steps of one call to the devices; None: eval_every, fewer for large data.
        """
        self.configs = tuple(configs)
        _check(self.configs)
        first = self.configs[0]
        devices = jax.devices()[:1] if devices is None else devices
        self._stream, self._device, self._mesh = stream(first), devices[0], _mesh(first, devices)
        start = evaluation_program(first)
        contents = tuple(contents_of_data(first.data).items())
        self._advance = advance.of(config=program(first), mesh=self._mesh, contents=contents)
        self._evaluate = evaluate.of(config=start, mesh=self._mesh)
        stack = stacked(self.configs)
        self.shared = stack.data_seed.ndim == 0
        if states is None:
            self._state, self.step = self._put(init(stack, config=start)), 0
        else:
            self._state = self._put(jax.tree.map(lambda *parts: np.stack(parts), *states))
            self.step = int(states[0].step)
        self._stack, self._holdout = self._put(stack), self._put(self._stream.holdout())
        size = self._stream.chunk(0, 0, 1).nbytes * (1 if self.shared else len(self.configs))
        self.longest = max(1, min(LONGEST_CHUNK, first.eval_every if longest is None else longest, CHUNK_BYTES // size))

    def pieces(self, number: int) -> Pieces:
        """Data of the next steps, at most `longest`; they can be made while the devices work."""
        number = min(number, self.longest)
        if number <= 0:
            return Pieces(None, 0)
        seeds = [config.data_seed for config in self.configs][: 1 if self.shared else None]
        chunks = np.stack([self._stream.chunk(seed, self.step, number) for seed in seeds])
        padded = np.pad(chunks, [(0, 0), (0, self.longest - number)] + [(0, 0)] * (chunks.ndim - 2))
        return Pieces(self._put(padded[0] if self.shared else padded), number)

    def run(self, pieces: Pieces) -> None:
        """Begin the steps of some pieces; `wait` until they are done."""
        self._state = self._advance(self._state, self._stack, pieces.arrays, np.int32(pieces.number))
        self.step += pieces.number

    def wait(self) -> None:
        """Until the devices have done all steps."""
        jax.block_until_ready(self._state.step)

    def advance(self, number: int) -> None:
        """Do so many steps."""
        end = self.step + number
        while self.step < end:
            self.run(self.pieces(end - self.step))

    def evaluate(self) -> np.ndarray:
        """(R, 1 + K) losses on the hold-out, of the iterate and of every average in the order of `average_names`."""
        return np.asarray(self._evaluate(self._state, *self._holdout))

    def weights(self, average: str = "iterate") -> dict[str, np.ndarray]:
        """{tensor: (R, …)} weights of the iterates, or of an average by its name (of the first run)."""
        state, first = jax.device_get(self._state), self.configs[0]
        found = jax.vmap(lambda each: iterate_of(first, each, average))(state)
        return {name: np.asarray(part) for name, part in found.items()}

    def states(self) -> list[State]:
        """The state of each run (NumPy arrays)."""
        state = jax.device_get(self._state)
        return [jax.tree.map(lambda part, row=row: part[row], state) for row in range(len(self.configs))]

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """(R, 3) sums of the training loss, ‖g‖² and tr Σ since `clear_sums`; (R,) first steps that failed, or −1."""
        return np.asarray(self._state.sums), np.asarray(self._state.failed)

    def clear_sums(self) -> None:
        """Begin the sums anew."""
        self._state = self._state._replace(sums=self._put(np.zeros_like(np.asarray(self._state.sums))))

    def _put(self, tree: Any) -> Any:
        """Arrays on the device, or copied to all devices of the mesh."""
        if self._mesh is None:
            return jax.device_put(tree, self._device)
        everywhere = NamedSharding(self._mesh, PartitionSpec())

        def copy(array: Any) -> Any:
            array = np.asarray(array)
            return jax.make_array_from_callback(array.shape, everywhere, lambda index: array[index])

        return jax.tree.map(copy, tree)


def _check(configs: Sequence[TrainConfig]) -> None:
    """That the configs are of one program."""
    if not configs:
        raise ValueError("configs must be at least one, got none")
    first = configs[0]
    for other in configs[1:]:
        if side_by_side(other) != side_by_side(first):
            one, another = program(first), program(other)
            different = [name for name in FIELDS if one.value(name) != another.value(name)]
            names = ", ".join(sorted(different)) or "eval_every, max_steps or the number of averages"
            raise ValueError(f"configs must be of one program to advance side by side, got different {names}")


def _mesh(config: TrainConfig, devices: Sequence[Any]) -> Mesh | None:
    """Devices that share each micro-batch: as many as divide it."""
    size = config.batch_size // config.accumulated
    number = gcd(len(devices), size)
    if jax.process_count() > 1 and number < len(devices):
        raise ValueError(
            f"{'micro_batch' if config.micro_batch else 'batch_size'} must be a multiple of the number of devices, "
            f"{len(devices)}, with several processes, got {size}"
        )
    return Mesh(np.array(devices[:number]), ("data",)) if number > 1 else None
