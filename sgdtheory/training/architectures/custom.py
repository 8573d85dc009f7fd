"""Custom networks: names of their weights, roles inferred from how shapes grow, and initial sizes at any width."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.arguments import checked_name
from sgdtheory.training.architectures.convolutions import with_products
from sgdtheory.training.data import Samples
from sgdtheory.training.losses import LOSSES
from sgdtheory.training.network import Layers, Network, Params, Tensor, Tensors
from sgdtheory.training.parametrization import ALL_ROLES, Role
from sgdtheory.training.programs import quickly_compiled

# A tensor's root mean square is estimated from this many entries: for normal entries it is then known to 0.6%.
ENTRIES = 2**14
MOST_ENTRIES = 2**20  # At most this many entries are drawn at the same time, which bounds the memory.
SOME = 256  # This many draws give most tensors `ENTRIES` entries; smaller tensors take `ENTRIES` draws.
OWN = 0  # This stands for the fan-in of a tensor that the model's own `init` draws.
INPUTS_OUTPUTS = {"in_out": (-2, -1), "out_in": (1, 0)}  # A matrix has these axes (in, out) in each layout.


class Functions(NamedTuple):
    """The functions and settings of a `sgdtheory.training.Custom` model, in a hashable form."""

    init: Callable[[Array, int], Any]
    apply: Callable[[Any, Array], Any]
    roles: Any
    layout: str
    activations: Callable[[Any, Array], Mapping[str, Array]] | None


class Parts(NamedTuple):
    """A pytree taken apart: names and values of its weights, and the structure into which others can be put."""

    tree: Any
    names: tuple[str, ...]
    weights: list[Any]
    leaves: list[Any]
    structure: Any

    @classmethod
    def of(cls, tree: Any) -> "Parts":
        """Take a pytree apart: its floating point arrays are weights, all other leaves are kept as they are."""
        pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
        named = [(_name(path), leaf) for path, leaf in pairs if _is_weight(leaf)]
        names, weights = [name for name, _ in named], [leaf for _, leaf in named]
        leaves = [None if _is_weight(leaf) else leaf for _, leaf in pairs]
        return cls(tree, tuple(names), weights, leaves, structure)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight by its name."""
        return {name: tuple(weight.shape) for name, weight in zip(self.names, self.weights, strict=True)}

    def rebuilt(self, weights: Params) -> Any:
        """Return the pytree with these weights in the place of its own."""
        own = iter(self.names)
        leaves = [weights[next(own)] if leaf is None else leaf for leaf in self.leaves]
        return jax.tree.unflatten(self.structure, leaves)


def _is_weight(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _name(path: Sequence[Any]) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


@functools.lru_cache(maxsize=256)
def network(model: Functions, samples: Samples, width: int, base_width: int) -> Network:
    """Build a custom model's network at a width.

    Raises:
        ValueError: if weights change their names with the width, roles name unknown tensors, or the outputs do not
            fit the data.
    """
    with jax.ensure_compile_time_eval():  # The network may be built for the first time while a program is traced.
        base, double, own = (_parts(model, size) for size in (base_width, 2 * base_width, width))
        if not own.names == base.names == double.names:
            raise ValueError("init must give weights of the same names at every width: their shapes are compared")
        scales = dict.fromkeys(own.names, 1.0) if width == base_width else _scales(model, width, base_width)
    roles = roles_of(model, base, double)
    small, large = base.shapes(), double.shapes()
    axes = {name: matrix_axes(shape, large[name], model.layout) for name, shape in small.items()}
    tensors = {name: Tensor(shape, roles[name], OWN, axes=axes[name]) for name, shape in own.shapes().items()}
    frame = own._replace(tree=None, weights=[])  # The cache keeps this, so it must not hold the weights' memory.

    def initial(key: Array) -> Params:
        parts = Parts.of(model.init(key, width))
        pairs = zip(parts.names, parts.weights, strict=True)
        return {name: jnp.asarray(weight, jnp.float32) * scales[name] for name, weight in pairs}

    operations = _checked_operations(model, frame, tensors, samples)
    whole = model.activations is None
    return Network(tensors, partial(_apply, model, frame, samples), LOSSES[samples.loss], operations, initial, whole)


def _parts(model: Functions, width: int) -> Parts:
    """Take apart what `init` draws at a width."""
    program, others = _drawing(model, width)
    arrays = iter(program(jax.random.key(0)))
    leaves, structure = others[0]
    return Parts.of(jax.tree.unflatten(structure, [next(arrays) if leaf is None else leaf for leaf in leaves]))


@functools.lru_cache(maxsize=4)  # A network is built from three widths, and its sizes from two of these.
def _drawing(model: Functions, width: int) -> tuple[Callable[[Array], list[Array]], list[Any]]:
    """Return `init` at a width as a program that returns arrays, and a list for the other leaves and the structure.

    Compiled one by one, the operations of `init` take several times as long. The list is filled when the program runs.
    """
    others = []

    def arrays(key: Array) -> list[Array]:
        leaves, structure = jax.tree.flatten(model.init(key, width))
        others[:] = [([None if isinstance(leaf, Array) else leaf for leaf in leaves], structure)]
        return [leaf for leaf in leaves if isinstance(leaf, Array)]

    return quickly_compiled(arrays), others


def roles_of(model: Functions, small: Parts, large: Parts) -> dict[str, Role]:
    """Return the role of every tensor: the given one, or the one inferred from its shapes at two widths.

    Raises:
        ValueError: if a role is given for a tensor that the model does not have.
    """
    stated: Any = model.roles(small.tree) if callable(model.roles) else model.roles
    given: dict[str, Role] = dict(stated)
    for name, role in given.items():
        checked_name(f"the role of {name}", role, ALL_ROLES)
        if name not in small.names:
            raise ValueError(f"roles has {name!r}, which is no tensor of the model: it has {', '.join(small.names)}")
    pairs = zip(small.names, small.weights, large.weights, strict=True)
    return {name: given.get(name) or _role(name, weight, wider, model.layout) for name, weight, wider in pairs}


def _role(name: str, small: Any, large: Any, layout: str) -> Role:
    """Return the role that the shapes imply, except that biases and gains that grow are always vectors.

    Biases of heads (heads, d) and gains of a stack (layers, width) have the shape of an input or output matrix. A bias
    is recognised by its name. Gains are recognised by their values: all entries are one number, the same at both
    widths, and not 0, because output weights may start at 0.
    """
    role = inferred_role(tuple(small.shape), tuple(large.shape), layout)
    is_bias = role != "fixed" and name.rpartition("/")[2] == "bias"
    return "vector" if is_bias or (role in ("input", "output") and _is_gain(small, large)) else role


def _is_gain(small: Any, large: Any) -> bool:
    values = np.concatenate([np.ravel(small), np.ravel(large)])
    return bool(values.size and values[0] != 0 and (values == values[0]).all())


def inferred_role(small: tuple[int, ...], large: tuple[int, ...], layout: str) -> Role:
    """Infer the role of a tensor from its shapes at two widths.

    Args:
        small, large: shapes at the smaller and at the larger width.
        layout: "in_out" (…, in, out), or "out_in" (out, in, …).
    """
    grown = _grown(small, large)
    if not grown:
        return "fixed"
    if len(grown) > 1:
        return "hidden"
    if len(small) == 1:
        return "vector"
    taken, made = (axis % len(small) for axis in INPUTS_OUTPUTS[layout])
    if grown[0] not in (made, taken):
        return "vector"  # Blocks (g, in, out): their number grows, while the inputs of each stay the same.
    return "input" if grown[0] == made else "output"


def matrix_axes(small: tuple[int, ...], large: tuple[int, ...], layout: str) -> tuple[int, int]:
    """Return the axes of a tensor's matrices: the two that grow with the width, else the two that the layout states.

    The other axes are layers of a stack, heads, or positions of a kernel.

    Args:
        small, large, layout: as for `inferred_role`.
    """
    grown = _grown(small, large)
    return (grown[0], grown[1]) if len(grown) == 2 else INPUTS_OUTPUTS[layout]


def _grown(small: tuple[int, ...], large: tuple[int, ...]) -> list[int]:
    """Return the axes that are longer at the larger width."""
    return [axis for axis in range(len(small)) if small[axis] != large[axis]]


def _scales(model: Functions, width: int, base_width: int) -> dict[str, float]:
    """Return the factor that gives each tensor, as `init` draws it at a width, its root mean square at the base width.

    Both root mean squares are measured, because `init` need not be a power of the width: Glorot's √(2/(in + out)) is
    not. The factor is 1 for a tensor that is drawn as 0.
    """
    own = _sizes(model, width)
    return {name: size / own[name] if size and own[name] else 1.0 for name, size in _sizes(model, base_width).items()}


@functools.lru_cache(maxsize=256)
def _sizes(model: Functions, width: int) -> dict[str, float]:
    """Estimate the root mean square of each tensor that `init` draws at a width from at least `ENTRIES` entries.

    One draw is enough for a tensor with as many entries, or whose entries are all one number.
    """
    parts = _parts(model, width)
    sizes = {}
    groups: dict[int, list[int]] = {}
    for index, (name, weight) in enumerate(zip(parts.names, parts.weights, strict=True)):
        values = np.asarray(weight, np.float32)
        sizes[name] = float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0
        constant = not values.any() or (values.size > 1 and values.min() == values.max())
        if values.size < ENTRIES and not constant:
            groups.setdefault(SOME if SOME * values.size >= ENTRIES else ENTRIES, []).append(index)
    for draws, indices in groups.items():
        at_once = max(1, MOST_ENTRIES // sum(parts.weights[index].size for index in indices))
        for index, square in zip(indices, _mean_squares(model, width, indices, draws, at_once), strict=True):
            sizes[parts.names[index]] = math.sqrt(square)
    return sizes


def _mean_squares(model: Functions, width: int, indices: Sequence[int], draws: int, at_once: int) -> list[float]:
    """Return the mean squares of the tensors of these indices over draws of `init`; the others are not computed."""

    def one(key: Array) -> list[Array]:
        weights = Parts.of(model.init(key, width)).weights
        return [jnp.mean(jnp.square(jnp.asarray(weights[index], jnp.float32))) for index in indices]

    keys = jax.random.split(jax.random.key(0), draws)
    squares = quickly_compiled(lambda keys: jax.lax.map(one, keys, batch_size=at_once))(keys)
    return [float(np.mean(np.asarray(each, float))) for each in squares]


def _apply(model: Functions, parts: Parts, samples: Samples, weights: Params, inputs: Array) -> tuple[Array, Layers]:
    """Return what `_forward` returns, with convolutions in the form that is fast on the device."""
    return with_products(partial(_forward, model, parts, samples), weights, inputs)


def _forward(model: Functions, parts: Parts, samples: Samples, weights: Params, inputs: Array) -> tuple[Array, Layers]:
    """Return float32 outputs, (B,) if there is one per sample, and each tensor's activations (else the outputs)."""
    tree = parts.rebuilt(weights)
    outputs = jnp.asarray(model.apply(tree, inputs)).astype(jnp.float32)
    if samples.num_outputs == 1 and outputs.ndim == 2 and outputs.shape[1] == 1:
        outputs = outputs[:, 0]
    if model.activations is None:
        return outputs, dict.fromkeys(parts.names, outputs)
    return outputs, dict(model.activations(tree, inputs))


def _checked_operations(model: Functions, parts: Parts, tensors: Tensors, samples: Samples) -> float:
    """Count the floating point operations of a training step for one sample, and check the shape of the outputs.

    A training step is counted as three times the forward pass.

    Raises:
        ValueError: if the outputs do not have the shape that the data require.
    """
    kind = jnp.int32 if samples.kind == "tokens" else jnp.float32
    inputs = jax.ShapeDtypeStruct((2, *samples.shape), kind)
    weights = {name: jax.ShapeDtypeStruct(tensor.shape, jnp.float32) for name, tensor in tensors.items()}
    apply = partial(_forward, model, parts, samples)
    outputs, layers = jax.eval_shape(apply, weights, inputs)
    positions = samples.shape if samples.kind == "tokens" else ()
    classes = (samples.num_outputs,) if samples.num_outputs > 1 or samples.loss == "cross_entropy" else ()
    expected = (2, *positions, *classes)
    if outputs.shape != expected:
        shown, wanted = (", ".join(("B", *map(str, shape[1:]))) for shape in (outputs.shape, expected))
        raise ValueError(f"apply must return outputs of shape ({wanted}) for these data, got ({shown})")
    if missing := [name for name in parts.names if name not in layers]:
        raise ValueError(f"activations must have what every tensor makes, but lacks {', '.join(missing)}")
    counted: Any = jax.jit(lambda *given: apply(*given)[0]).lower(weights, inputs).cost_analysis()
    return 3.0 * float((counted or {}).get("flops", 0.0)) / 2
