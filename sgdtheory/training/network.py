"""A network as a value: its tensors with their roles, what it computes, its loss, and what a sample costs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sgdtheory.training.parametrization import Role

if TYPE_CHECKING:
    from jax import Array

BIAS, GAIN = 0, -1
NEWTON_SCHULZ = 5  # steps of Muon
Params = dict[str, "Array"]
Layers = Mapping[str, "Array | Sequence[Array]"]  # tensor → what it makes; of a stack, one array or several of them


class Tensor(NamedTuple):
    """One tensor of weights.

    Attributes:
        shape: its shape.
        role: "input", "hidden", "output", "vector" or "fixed".
        fan_in: inputs that are summed, at the base width; 0 for a bias (drawn as 0) and −1 for a gain (1).
        stacked: whether the leading axis holds the layers of a stack.
        axes: of its matrices; along the others lie several of them.
    """

    shape: tuple[int, ...]
    role: Role
    fan_in: int
    stacked: bool = False
    axes: tuple[int, int] = (-2, -1)

    @property
    def longer_side(self) -> int:
        """The larger number of rows or columns of its matrices."""
        return max(self.shape[axis] for axis in self.axes)

    @property
    def orthogonalization(self) -> float:
        """Floating point operations of Muon's steps `X ← c₀ X + (c₁ A + c₂ A²) X, A = X Xᵀ` on all its matrices.

        A step of an n × m matrix, n ≤ m, is three products: 2 n² m, 2 n³ and 2 n² m.
        """
        short = min(self.shape[axis] for axis in self.axes)
        number = math.prod(self.shape) // (short * self.longer_side)
        return NEWTON_SCHULZ * number * (4.0 * short**2 * self.longer_side + 2.0 * short**3)


Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Network:
    """What is trained: the same for a multi-layer perceptron, a transformer, or one of your own.

    Attributes:
        tensors: name → shape, role and fan-in.
        apply: (effective weights, inputs (B, …)) → outputs (B, …), and what each tensor makes.
        loss: (outputs, targets) → mean loss of the batch.
        operations: floating point operations of a training step for one sample.
        initial: key → weights, each with entries of the size that it has at the base width; None: normal ones, of
            standard deviation fan_in^−½.
        whole: whether what every tensor makes is the network's outputs, as nothing else is known.
    """

    tensors: Tensors
    apply: "Callable[[Params, Array], tuple[Array, Layers]]"
    loss: "Callable[[Array, Array], Array]"
    operations: float
    initial: "Callable[[Array], Params] | None" = None
    whole: bool = False

    @property
    def num_weights(self) -> int:
        """Number of weights."""
        return count(self.tensors)

    def with_role(self, role: Role) -> tuple[str, ...]:
        """Names of the tensors of a role."""
        return tuple(name for name, tensor in self.tensors.items() if tensor.role == role)

    @property
    def ends(self) -> tuple[str, ...]:
        """Names of the tensors that make the network's outputs."""
        return tuple(self.tensors) if self.whole else self.with_role("output")


def count(tensors: Tensors) -> int:
    """Number of weights."""
    return sum(math.prod(tensor.shape) for tensor in tensors.values())
