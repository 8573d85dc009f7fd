"""The models of a run: what only a multi-layer perceptron, or only a transformer, can be told."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from sgdtheory.training.data import Data, StandardLibrary, Teacher, Tokens
from sgdtheory.training.fields import check_fields, set_field
from sgdtheory.training.network import Network
from sgdtheory.training.parametrization import Parametrization


@dataclass(frozen=True, kw_only=True)
class MLP:
    """A multi-layer perceptron with one output and no output bias, for teacher data.

    >>> from sgdtheory.training import MLP
    >>> MLP(depth=3, activation="tanh").depth
    3

    Raises:
        ValueError: a field that is out of range.
    """

    depth: int = 2
    """Number of hidden layers."""
    activation: Literal["relu", "gelu", "tanh"] = "relu"
    """Activation of the hidden layers."""

    sees: ClassVar[str] = "vectors"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)

    def check_widths(self, width: int, base_width: int) -> None:
        """Any width goes."""

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """The network for some data at a width."""
        del table  # its roles' exponents are applied to every network alike
        from sgdtheory.training.mlp import network

        assert isinstance(data, Teacher)
        return network(self.depth, self.activation, data.input_dim, width, base_width)


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A decoder-only transformer with GELU, for text; its width has to be an even multiple of its heads.

    >>> from sgdtheory.training import Transformer
    >>> Transformer(depth=4, num_heads=8).num_heads
    8

    Raises:
        ValueError: a field that is out of range.
    """

    depth: int = 2
    """Number of blocks."""
    num_heads: int = 4
    """Attention heads; must divide the width."""
    base_num_heads: int | None = None
    """Attention heads at the base width; None: num_heads (so that the size of a head grows with the width)."""

    sees: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        """Check every field; a base_num_heads that says nothing is left out."""
        check_fields(self)
        if self.base_num_heads == self.num_heads:
            set_field(self, "base_num_heads", None)

    def check_widths(self, width: int, base_width: int) -> None:
        """Heads of an even size at both widths, for rotary positions."""
        base_heads = self.base_num_heads or self.num_heads
        for name, size, heads, number in (
            ("width", width, "num_heads", self.num_heads),
            ("base_width", base_width, "base_num_heads", base_heads),
        ):
            if size % (2 * number):
                raise ValueError(
                    f"{name} must be {heads} = {number} times an even head size (rotary positions), got {size}"
                )

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """The network for some data at a width."""
        from sgdtheory.training.transformer import heads, network

        assert isinstance(data, StandardLibrary | Tokens)
        base_heads = self.base_num_heads or self.num_heads
        shape = heads(width, self.num_heads, base_width, base_heads, table.attention)
        return network(self.depth, shape, data.vocabulary, data.context, width, base_width)


Model = MLP | Transformer
