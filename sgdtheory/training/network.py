"""A network as a value: its tensors with their roles, its forward pass, its loss, and the cost of a sample."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sgdtheory.training.parametrization import Role

if TYPE_CHECKING:
    from jax import Array

BIAS, GAIN = 0, -1  # These stand for the fan-in of a tensor that is drawn as 0, or as 1.
NEWTON_SCHULZ = 5  # Muon takes this many Newton–Schulz steps (Jordan et al. 2024, and optax's default).
Params = dict[str, "Array"]
Layers = Mapping[str, "Array | Sequence[Array]"]  # Tensor → its activations; of a stack, one array or a sequence.


class Tensor(NamedTuple):
    """One tensor of weights.

    Attributes:
        shape: shape of the tensor.
        role: "input", "hidden", "output", "vector" or "fixed".
        fan_in: number of summed inputs at the base width; 0 for a bias (drawn as 0) and −1 for a gain (drawn as 1).
        stacked: whether the leading axis holds the layers of a stack.
        axes: axes of the tensor's matrices; the other axes enumerate matrices.
    """

    shape: tuple[int, ...]
    role: Role
    fan_in: int
    stacked: bool = False
    axes: tuple[int, int] = (-2, -1)

    @property
    def longer_side(self) -> int:
        """The larger of the numbers of rows and columns of the tensor's matrices."""
        return max(self.shape[axis] for axis in self.axes)

    @property
    def orthogonalization(self) -> float:
        """Floating point operations of Muon's steps `X ← c₀ X + (c₁ A + c₂ A²) X, A = X Xᵀ` on all matrices.

        A step of an n × m matrix, n ≤ m, is three products: 2 n² m, 2 n³ and 2 n² m.
        """
        short = min(self.shape[axis] for axis in self.axes)
        number = math.prod(self.shape) // (short * self.longer_side)
        return NEWTON_SCHULZ * number * (4.0 * short**2 * self.longer_side + 2.0 * short**3)


Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Network:
    """A network in the form that training needs, the same for built-in and custom models.

    Attributes:
        tensors: name → shape, role and fan-in.
        apply: (effective weights, inputs (B, …)) → outputs (B, …), and the activations of each tensor.
        loss: (outputs, targets) → mean loss of the batch.
        operations: floating point operations of a training step for one sample.
        initial: key → weights, whose entries have the size that they have at the base width; None: normal entries of
            standard deviation fan_in^−½.
        whole: whether the network's outputs stand for the activations of every tensor, as no others are known.
    """

    tensors: Tensors
    apply: "Callable[[Params, Array], tuple[Array, Layers]]"
    loss: "Callable[[Array, Array], Array]"
    operations: float
    initial: "Callable[[Array], Params] | None" = None
    whole: bool = False

    @property
    def num_weights(self) -> int:
        """Number of weights of the network."""
        return count(self.tensors)

    def with_role(self, role: Role) -> tuple[str, ...]:
        """Return the names of the tensors with a role."""
        return tuple(name for name, tensor in self.tensors.items() if tensor.role == role)

    @property
    def ends(self) -> tuple[str, ...]:
        """Names of the tensors that make the network's outputs."""
        return tuple(self.tensors) if self.whole else self.with_role("output")


def count(tensors: Tensors) -> int:
    """Count the weights of some tensors."""
    return sum(math.prod(tensor.shape) for tensor in tensors.values())
