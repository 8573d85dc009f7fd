"""Runs of one program side by side on the devices: start, advance, evaluate; without files and stopping rules."""

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
    initial_program,
    iterate_of,
    program,
    side_by_side,
    stacked,
)
from sgdtheory.training.streams import stream

CHUNK_BYTES = 1 << 25  # The data of one call have at most this size; they are padded to a fixed length.
LONGEST_CHUNK = 1024  # One call takes at most this many steps.


class Pieces(NamedTuple):
    """Data of the next steps on the devices, padded to the length of a call, and the number of these steps."""

    arrays: Any
    number: int


class Lanes:
    """Runs of one program that advance side by side, from the first step or from saved states.

    The runs may differ in learning rate, the optimizer's numbers (momentum, β₁, β₂, ε, update_rms), seeds, the values
    of averages, target_loss and, if workers take local steps, in H and the outer step. The rounding of a run depends on
    how many runs are beside it.

    >>> import numpy as np
    >>> from sgdtheory.training import Lanes, TrainConfig
    >>> configs = [TrainConfig(width=4, holdout_size=8, averages=(), seed=seed) for seed in (0, 1)]
    >>> lanes = Lanes(configs)  # doctest: +SKIP
    >>> lanes.advance(3)  # doctest: +SKIP
    >>> lanes.step, lanes.evaluate().shape, lanes.weights()["output"].shape  # doctest: +SKIP
    (3, (2, 1), (2, 4, 1))

    Attributes:
        configs: configs of the R runs.
        step: steps that all runs have done; the devices may still be computing the last ones.
        shared: whether all runs have the same data_seed, so that their data are made once.

    Raises:
        ValueError: if there are no configs, or they need different programs; the message names a field that differs.
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
            configs: one or more configs of one program.
            devices: JAX devices that share each micro-batch, as many as divide it; None: the first one.
            states: a state for each run, from which it continues; None: start before the first step.
            longest: largest number of steps of one call to the devices; None: eval_every, fewer for large data.
        """
        self.configs = tuple(configs)
        _check(self.configs)
        first = self.configs[0]
        devices = jax.devices()[:1] if devices is None else devices
        self._stream, self._device, self._mesh = stream(first), devices[0], _mesh(first, devices)
        contents = tuple(contents_of_data(first.data).items())
        self._advance = advance.of(config=program(first), mesh=self._mesh, contents=contents)
        self._evaluate = evaluate.of(config=evaluation_program(first), mesh=self._mesh)
        stack = stacked(self.configs)
        self.shared = stack.data_seed.ndim == 0
        if states is None:
            self._state, self.step = self._put(init(stack, config=initial_program(first))), 0
        else:
            self._state = self._put(jax.tree.map(lambda *parts: np.stack(parts), *states))
            self.step = int(states[0].step)
        self._stack, self._holdout = self._put(stack), self._put(self._stream.holdout())
        size = self._stream.chunk(0, 0, 1).nbytes * (1 if self.shared else len(self.configs))
        self.longest = max(1, min(LONGEST_CHUNK, first.eval_every if longest is None else longest, CHUNK_BYTES // size))

    def pieces(self, number: int) -> Pieces:
        """Make the data of the next steps, at most `longest`; this can be done while the devices work."""
        number = min(number, self.longest)
        if number <= 0:
            return Pieces(None, 0)
        seeds = [config.data_seed for config in self.configs][: 1 if self.shared else None]
        chunks = np.stack([self._stream.chunk(seed, self.step, number) for seed in seeds])
        padded = np.pad(chunks, [(0, 0), (0, self.longest - number)] + [(0, 0)] * (chunks.ndim - 2))
        return Pieces(self._put(padded[0] if self.shared else padded), number)

    def run(self, pieces: Pieces) -> None:
        """Start the steps of these data; `wait` returns when they are done."""
        self._state = self._advance(self._state, self._stack, pieces.arrays, np.int32(pieces.number))
        self.step += pieces.number

    def wait(self) -> None:
        """Wait until the devices have done all steps."""
        jax.block_until_ready(self._state.step)

    def advance(self, number: int) -> None:
        """Do this number of steps."""
        end = self.step + number
        while self.step < end:
            self.run(self.pieces(end - self.step))

    def evaluate(self) -> np.ndarray:
        """Return (R, 1 + K) losses on the hold-out, of the iterate and each average in the order of `average_names`."""
        return np.asarray(self._evaluate(self._state, *self._holdout))

    def weights(self, average: str = "iterate") -> dict[str, np.ndarray]:
        """Return weights {tensor: (R, …)} of the iterates, or of an average by its name in the first run."""
        state, first = jax.device_get(self._state), self.configs[0]
        weights = jax.vmap(lambda run: iterate_of(first, run, average))(state)
        return {name: np.asarray(part) for name, part in weights.items()}

    def states(self) -> list[State]:
        """Return the state of each run (NumPy arrays)."""
        state = jax.device_get(self._state)
        return [jax.tree.map(lambda part, row=row: part[row], state) for row in range(len(self.configs))]

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, 3) sums of training loss, ‖g‖² and tr Σ since `clear_sums`, and (R,) first failed steps or −1."""
        return np.asarray(self._state.sums), np.asarray(self._state.failed)

    def clear_sums(self) -> None:
        """Reset the sums to 0."""
        self._state = self._state._replace(sums=self._put(np.zeros_like(np.asarray(self._state.sums))))

    def _put(self, tree: Any) -> Any:
        """Put arrays on the device, or copy them to all devices of the mesh."""
        if self._mesh is None:
            return jax.device_put(tree, self._device)
        everywhere = NamedSharding(self._mesh, PartitionSpec())

        def copy(array: Any) -> Any:
            array = np.asarray(array)
            return jax.make_array_from_callback(array.shape, everywhere, lambda index: array[index])

        return jax.tree.map(copy, tree)


def _check(configs: Sequence[TrainConfig]) -> None:
    """Check that the configs are of one program."""
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
    """Return a mesh of as many devices as divide each micro-batch; None if that is one."""
    size = config.batch_size // config.accumulated
    number = gcd(len(devices), size)
    if jax.process_count() > 1 and number < len(devices):
        raise ValueError(
            f"{'micro_batch' if config.micro_batch else 'batch_size'} must be a multiple of the number of devices, "
            f"{len(devices)}, with several processes, got {size}"
        )
    return Mesh(np.array(devices[:number]), ("data",)) if number > 1 else None
