"""The models of a run, each with the settings that only it has."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from sgdtheory.training.custom_model import Custom
from sgdtheory.training.data import Data, Kind
from sgdtheory.training.fields import check_fields, set_field
from sgdtheory.training.named_model import NamedModel
from sgdtheory.training.network import Network
from sgdtheory.training.parametrization import Parametrization

VECTORS: tuple[Kind, ...] = "vectors", "images"  # Images are flattened to vectors of their pixels.
Activation = Literal["relu", "gelu", "tanh"]


class Architecture:
    """Base class of the built-in models."""

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)

    def check_widths(self, width: int, base_width: int) -> None:
        """Accept any width; a model with restrictions overrides this."""


@dataclass(frozen=True, kw_only=True)
class MLP(Architecture):
    """A multi-layer perceptron without output bias, for vectors, or images that are flattened to vectors.

    >>> from sgdtheory.training import MLP
    >>> MLP(depth=3, activation="tanh").depth
    3

    Raises:
        ValueError: if a field is out of range.
    """

    depth: int = 2
    """Number of hidden layers."""
    activation: Activation = "relu"
    """Activation of the hidden layers."""

    sees: ClassVar[tuple[Kind, ...]] = VECTORS

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """Build the network for these data at a width."""
        del table  # The exponents of the roles are applied elsewhere; only attention needs one of its own.
        from sgdtheory.training.architectures.mlp import network

        return network(self.depth, self.activation, data.samples, width, base_width)


@dataclass(frozen=True, kw_only=True)
class ResidualMLP(Architecture):
    """A residual multi-layer perceptron, `h ← h + L^−½ (W φ(h) + c)` in each of L blocks; for vectors and images.

    >>> from sgdtheory.training import ResidualMLP
    >>> ResidualMLP(depth=4).activation
    'relu'

    Raises:
        ValueError: if a field is out of range.
    """

    depth: int = 2
    """Number of blocks."""
    activation: Activation = "relu"
    """Activation φ of the blocks and of the output layer."""

    sees: ClassVar[tuple[Kind, ...]] = VECTORS

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """Build the network for these data at a width."""
        del table
        from sgdtheory.training.architectures.residual_mlp import network

        return network(self.depth, self.activation, data.samples, width, base_width)


@dataclass(frozen=True, kw_only=True)
class ConvNet(Architecture):
    """A convolutional network with 3 × 3 kernels, for images; its width is the number of channels.

    Every layer except the first halves height and width; the mean over the remaining pixels goes to the output layer.

    >>> from sgdtheory.training import ConvNet
    >>> ConvNet(depth=3).depth
    3

    Raises:
        ValueError: if a field is out of range.
    """

    depth: int = 2
    """Number of layers with kernels."""
    activation: Activation = "relu"
    """Activation of the hidden layers."""

    sees: ClassVar[tuple[Kind, ...]] = ("images",)

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """Build the network for these data at a width."""
        del table
        from sgdtheory.training.architectures.convolutional import network

        return network(self.depth, self.activation, data.samples, width, base_width)


@dataclass(frozen=True, kw_only=True)
class Transformer(Architecture):
    """A decoder-only transformer with GELU, for text; its width has to be an even multiple of its heads.

    >>> from sgdtheory.training import Transformer
    >>> Transformer(depth=4, num_heads=8).num_heads
    8

    Raises:
        ValueError: if a field is out of range.
    """

    depth: int = 2
    """Number of blocks."""
    num_heads: int = 4
    """Attention heads; must divide the width."""
    base_num_heads: int | None = None
    """Attention heads at the base width; None: num_heads (so that the size of a head grows with the width)."""
    attention_kernel: Literal["xla", "cudnn"] = "xla"
    """What computes attention: xla everywhere, or cuDNN's fused kernel, in bfloat16 on an NVIDIA GPU."""

    sees: ClassVar[tuple[Kind, ...]] = ("tokens",)

    def __post_init__(self) -> None:
        """Check every field, and set a base_num_heads that equals its default to None."""
        super().__post_init__()
        if self.base_num_heads == self.num_heads:
            set_field(self, "base_num_heads", None)

    def check_widths(self, width: int, base_width: int) -> None:
        """Check that heads have an even size at both widths, as rotary positions need."""
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
        """Build the network for these data at a width."""
        from sgdtheory.training.architectures.transformer import heads, network

        base_heads = self.base_num_heads or self.num_heads
        shape = heads(width, self.num_heads, base_width, base_heads, table.attention)
        return network(self.depth, shape, data.samples, width, base_width, self.attention_kernel)


@dataclass(frozen=True, kw_only=True)
class GatedRecurrent(Architecture):
    """A transformer for text whose attention is replaced by a gated linear recurrence.

    >>> from sgdtheory.training import GatedRecurrent
    >>> GatedRecurrent(depth=1).depth
    1

    Raises:
        ValueError: if a field is out of range.
    """

    depth: int = 2
    """Number of blocks."""

    sees: ClassVar[tuple[Kind, ...]] = ("tokens",)

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """Build the network for these data at a width."""
        del table
        from sgdtheory.training.architectures.gated_recurrent import network

        return network(self.depth, data.samples, width, base_width)


Model = MLP | ResidualMLP | ConvNet | Transformer | GatedRecurrent | Custom | NamedModel
