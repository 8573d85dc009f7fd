"""A network as a value: its tensors with their roles, what it computes, its loss, and what a sample costs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sgdtheory.training.parametrization import Role

if TYPE_CHECKING:
    from jax import Array

BIAS, GAIN = 0, -1
Params = dict[str, "Array"]


class Tensor(NamedTuple):
    """One tensor of weights; a leading axis may hold the layers of a stack.

    Attributes:
        shape: its shape.
        role: "input", "hidden", "output" or "vector".
        fan_in: inputs that are summed, at the base width; 0 for a bias (drawn as 0) and −1 for a gain (1).
    """

    shape: tuple[int, ...]
    role: Role
    fan_in: int

    @property
    def stacked(self) -> bool:
        """Whether the leading axis holds layers."""
        return len(self.shape) == 3 or (len(self.shape) == 2 and self.role == "vector")


Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Network:
    """What is trained: the same for a multi-layer perceptron, a transformer, or one of your own.

    Attributes:
        tensors: name → shape, role and fan-in.
        apply: (effective weights, inputs (B, …)) → outputs (B, …), and {tensor: what it makes}, stacked as they are.
        loss: (outputs, targets) → mean loss of the batch.
        operations: floating point operations of a training step for one sample.
    """

    tensors: Tensors
    apply: "Callable[[Params, Array], tuple[Array, dict[str, Array]]]"
    loss: "Callable[[Array, Array], Array]"
    operations: float

    @property
    def num_weights(self) -> int:
        """Number of weights."""
        return count(self.tensors)


def count(tensors: Tensors) -> int:
    """Number of weights."""
    return sum(math.prod(tensor.shape) for tensor in tensors.values())
