"""Custom networks: a user's own functions as the model of a run."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from sgdtheory._common.arguments import checked_name
from sgdtheory.training.data import Data, Kind
from sgdtheory.training.entry_point import import_entry_point, module_file
from sgdtheory.training.fields import set_field
from sgdtheory.training.network import Network
from sgdtheory.training.parametrization import ALL_ROLES, Parametrization, Role

RolesOf = Callable[[Any], Mapping[str, Role]]
Layout = Literal["in_out", "out_in"]


@dataclass(frozen=True, kw_only=True)
class Custom:
    """A user's own network: how its weights are drawn, what it computes, and which role each tensor has.

    >>> import jax
    >>> from sgdtheory.training import Custom, TrainConfig
    >>> def init(key, width):
    ...     first, last = jax.random.split(key)
    ...     weights = {"in": jax.random.normal(first, (64, width)), "out": jax.random.normal(last, (width, 1))}
    ...     return {"in": weights["in"] / 8, "out": weights["out"] / width**0.5}
    >>> def apply(params, x):
    ...     return jax.nn.silu(x @ params["in"]) @ params["out"]
    >>> config = TrainConfig(model=Custom(init=init, apply=apply), width=256)
    >>> {name: tensor.role for name, tensor in config.network.tensors.items()}
    {'in': 'input', 'out': 'output'}

    The weights are drawn by `init` at the run's width. Each tensor is then multiplied by a number, so that its root
    mean square is that of draws at the base width times the parametrization's power of width / base width: any usual
    initialization will do. Multipliers and learning rates of the parametrization are applied as for built-in models.
    `apply` itself must not depend on the width, except for attention logits, which µP divides by the size of a head
    instead of its square root.

    Attributes:
        init: (key, width) → a pytree. Its floating point arrays are the weights, in float32; all other leaves
            (modules, functions, whole numbers) are passed to `apply` unchanged.
        apply: (pytree, inputs (B, …)) → outputs: (B,) or (B, K), logits (B, T, V) for tokens.
        roles: {name of a tensor: "input", "hidden", "output", "vector" or "fixed"}, or a function that makes this
            mapping from the pytree; names are paths, such as "layers/0/weight".
            Roles that are left out are inferred from the axes of the tensor that grow with the width. Two or more:
            hidden. The only axis of a vector: vector. None: fixed. One axis of several: input if it is the layer's
            output axis, output if it is its input axis, but vector if the tensor is called bias or `init` fills it
            with one nonzero number. The coordinate check shows whether the roles are right.
        layout: layout of matrices: (…, in, out) as in Flax, or (out, in, …) as in Equinox and PyTorch.
        activations: (pytree, inputs) → {name of a tensor: its activations}, for the coordinate check; None: the check
            measures the effect of each tensor on the outputs.
        entry_point: "module:name" of this object. Runs in files and sweeps identify their model by it. A run in a
            store that was made from another source of this module is set aside; the modules that it imports are not
            checked.

    Raises:
        ValueError: if `init` or `apply` is not a function, or a role or the layout is unknown.
    """

    init: Callable[[Any, int], Any]
    apply: Callable[[Any, Any], Any]
    roles: Mapping[str, Role] | tuple[tuple[str, Role], ...] | RolesOf = ()
    layout: Layout = "in_out"
    activations: Callable[[Any, Any], Mapping[str, Any]] | None = None
    entry_point: str | None = None

    sees: ClassVar[tuple[Kind, ...] | None] = None

    def __post_init__(self) -> None:
        """Check every field."""
        for name in "init", "apply":
            if not callable(getattr(self, name)):
                raise ValueError(f"{name} must be a function, got {getattr(self, name)!r}")
        if not callable(self.roles):
            for name, role in dict(self.roles).items():
                checked_name(f"the role of {name}", role, ALL_ROLES)
            set_field(self, "roles", tuple(sorted(dict(self.roles).items())))
        checked_name("layout", self.layout, ("in_out", "out_in"))
        # The hash is taken when the module is imported, because its file may be edited while the run goes on.
        set_field(self, "_source", self.source_of(self.entry_point))

    @property
    def source(self) -> str | None:
        """Hash of the entry point's module, as its file was when the model was made; None if unknown."""
        return getattr(self, "_source", None)

    def check_widths(self, width: int, base_width: int) -> None:
        """Accept any width: `init` itself may refuse one."""

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """Build the network for these data at a width."""
        del table
        from sgdtheory.training.architectures.custom import Functions, network

        functions = Functions(self.init, self.apply, self.roles, self.layout, self.activations)
        return network(functions, data.samples, width, base_width)

    @property
    def place(self) -> "Custom":
        """The model itself, as flat fields hold it."""
        return self

    @classmethod
    def from_place(cls, text: Any, outside: str | Path | None = None) -> "Custom":
        """Import the model at "module:name", which runs the module; a model is returned unchanged.

        Args:
            text: "module:name", or a model.
            outside: folder of runs, in which no module may lie; None: the module may lie anywhere.

        Raises:
            ValueError: if there is no such model, or its module lies in the folder.
        """
        if isinstance(text, cls):
            return text
        model = import_entry_point(text, outside)
        if not isinstance(model, cls):
            raise ValueError(f"entry_point {text} must be a Custom model, got {type(model).__name__}")
        if model.entry_point != text:
            raise ValueError(f"the model at {text} must say so: Custom(…, entry_point={text!r})")
        return model

    @staticmethod
    def file_of(entry_point: str) -> Path | None:
        """Return the file of an entry point's module, without importing it; None if there is none."""
        return module_file(entry_point)

    @staticmethod
    def source_of(entry_point: str | None) -> str | None:
        """Return the hash of the file of an entry point's module, without importing it; None if there is none."""
        try:
            file = None if entry_point is None else module_file(entry_point)
            return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        except (ValueError, OSError):
            return None
