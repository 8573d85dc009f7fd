"""A network of your own as the model of a run."""

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
    """A network of your own: how its weights are drawn, what it computes, and which role each tensor has.

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

    The weights are drawn by `init` at the run's width, and each tensor is multiplied by a number such that its root
    mean square is that of draws at the base width times the parametrization's power of width / base width: initialize
    as you are used to. Multipliers and learning rates of the parametrization are applied to them. What `apply` itself
    does must not depend on the width, but for attention logits, which under µP are divided by the size of a head, not
    by its root.

    Attributes:
        init: (key, width) → a pytree. Its arrays of floating point numbers are the weights, in float32; what else it
            holds (modules, functions, whole numbers) is handed on to `apply` as it is.
        apply: (pytree, inputs (B, …)) → outputs: (B,) or (B, K), logits (B, T, V) for tokens.
        roles: {name of a tensor: "input", "hidden", "output", "vector" or "fixed"}, or a function that makes it of the
            pytree; names are paths, "layers/0/weight".
            Roles that are left out follow from how the shape grows with the width: two axes or more: hidden; a vector:
            vector; nothing: fixed; one axis of several: input if it is what comes out of the layer, output if what goes
            in, vector if it is called bias or `init` fills it with one number, not 0. The coordinate check tells
            whether that was right.
        layout: of matrices: (…, in, out), as Flax has them, or (out, in, …), as Equinox and PyTorch have them.
        activations: (pytree, inputs) → {name of a tensor: what it makes}, for the coordinate check; None: it looks at
            what each tensor does to the outputs.
        entry_point: "module:name", where this object is found; by it a run that is kept in files or swept knows its
            model. A run in a store that was made by another source of this module is set aside, not taken for it; what
            the module imports is not looked at.

    Raises:
        ValueError: something that is no function, an unknown role or layout.
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
        set_field(
            self, "_source", self.source_of(self.entry_point)
        )  # now, as the module is run: it may be edited later

    @property
    def source(self) -> str | None:
        """Hash of the source of the module of its entry point, as it was when the model was made; None: unknown."""
        return getattr(self, "_source", None)

    def check_widths(self, width: int, base_width: int) -> None:
        """`init` says which widths go."""

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """The network for some data at a width."""
        del table
        from sgdtheory.training.architectures.custom import Functions, network

        functions = Functions(self.init, self.apply, self.roles, self.layout, self.activations)
        return network(functions, data.samples, width, base_width)

    @property
    def place(self) -> "Custom":
        """Itself: what flat fields hold of it."""
        return self

    @classmethod
    def from_place(cls, text: Any, outside: str | Path | None = None) -> "Custom":
        """Import the model that a module has, "module:name", which runs the module; a model is itself.

        Args:
            text: "module:name", or a model.
            outside: folder of runs, in which no module may lie; None: any place goes.

        Raises:
            ValueError: there is none, or its module lies in the folder.
        """
        if isinstance(text, cls):
            return text
        found = import_entry_point(text, outside)
        if not isinstance(found, cls):
            raise ValueError(f"entry_point {text} must be a Custom model, got {type(found).__name__}")
        if found.entry_point != text:
            raise ValueError(f"the model at {text} must say so: Custom(…, entry_point={text!r})")
        return found

    @staticmethod
    def file_of(entry_point: str) -> Path | None:
        """Return the file that holds the module of an entry point, which is not imported; None if there is none."""
        return module_file(entry_point)

    @staticmethod
    def source_of(entry_point: str | None) -> str | None:
        """Hash of the file of the module of an entry point, which is not imported; None if there is none."""
        try:
            file = None if entry_point is None else module_file(entry_point)
            return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        except (ValueError, OSError):
            return None
