"""A network of your own: its weights by name, their roles from how shapes grow, and their sizes over the width."""

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
from sgdtheory.training.data import Samples
from sgdtheory.training.losses import LOSSES
from sgdtheory.training.network import Layers, Network, Params, Tensor, Tensors
from sgdtheory.training.parametrization import ALL_ROLES, Role

ENTRIES = 2**14  # of a tensor, whose root mean square is taken: normal ones give it to 0.6%
MOST_ENTRIES = 2**20  # that are drawn at once
SOME = 256  # draws, which give most tensors as many; what is left takes one an entry
OWN = 0  # fan-in of a tensor that is not drawn here
INPUTS_OUTPUTS = {"in_out": (-2, -1), "out_in": (1, 0)}  # axes of a matrix in each layout


class Functions(NamedTuple):
    """What a model of your own is told: see `sgdtheory.training.Custom`."""

    init: Callable[[Array, int], Any]
    apply: Callable[[Any, Array], Any]
    roles: Any
    layout: str
    activations: Callable[[Any, Array], Mapping[str, Array]] | None


class Parts(NamedTuple):
    """A pytree taken apart: names and values of its weights, and how to put others in their place."""

    tree: Any
    names: tuple[str, ...]
    weights: list[Any]
    leaves: list[Any]
    structure: Any

    @classmethod
    def of(cls, tree: Any) -> "Parts":
        """Its arrays of floating point numbers are weights; all else stays."""
        pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
        found = [(_name(path), leaf) for path, leaf in pairs if _is_weight(leaf)]
        names, weights = [name for name, _ in found], [leaf for _, leaf in found]
        leaves = [None if _is_weight(leaf) else leaf for _, leaf in pairs]
        return cls(tree, tuple(names), weights, leaves, structure)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name → shape of the weights."""
        return {name: tuple(weight.shape) for name, weight in zip(self.names, self.weights, strict=True)}

    def rebuilt(self, weights: Params) -> Any:
        """The pytree with these weights."""
        own = iter(self.names)
        leaves = [weights[next(own)] if leaf is None else leaf for leaf in self.leaves]
        return jax.tree.unflatten(self.structure, leaves)


def _is_weight(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _name(path: Sequence[Any]) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


@functools.lru_cache(maxsize=256)
def network(model: Functions, samples: Samples, width: int, base_width: int) -> Network:
    """The network at a width.

    Raises:
        ValueError: weights that change their names with the width, unknown names among the roles, or outputs that do
            not fit the data.
    """
    with jax.ensure_compile_time_eval():  # it may be asked for while a program is compiled
        base, double, own = (_parts(model, size) for size in (base_width, 2 * base_width, width))
        if not own.names == base.names == double.names:
            raise ValueError("init must give weights of the same names at every width: their shapes are compared")
        scales = dict.fromkeys(own.names, 1.0) if width == base_width else _scales(model, width, base_width)
    roles = roles_of(model, base, double)
    small, large = base.shapes(), double.shapes()
    axes = {name: matrix_axes(shape, large[name], model.layout) for name, shape in small.items()}
    tensors = {name: Tensor(shape, roles[name], OWN, axes=axes[name]) for name, shape in own.shapes().items()}
    frame = own._replace(tree=None, weights=[])  # what is kept: not the weights, which may be large

    def initial(key: Array) -> Params:
        parts = Parts.of(model.init(key, width))
        pairs = zip(parts.names, parts.weights, strict=True)
        return {name: jnp.asarray(weight, jnp.float32) * scales[name] for name, weight in pairs}

    operations = _checked_operations(model, frame, tensors, samples)
    whole = model.activations is None
    return Network(tensors, partial(_apply, model, frame, samples), LOSSES[samples.loss], operations, initial, whole)


def _parts(model: Functions, width: int, seed: int = 0) -> Parts:
    return Parts.of(model.init(jax.random.key(seed), width))


def roles_of(model: Functions, small: Parts, large: Parts) -> dict[str, Role]:
    """The role of every tensor: as given, or from its shapes at two widths.

    Raises:
        ValueError: a role for a tensor that is not there.
    """
    found: Any = model.roles(small.tree) if callable(model.roles) else model.roles
    given: dict[str, Role] = dict(found)
    for name, role in given.items():
        checked_name(f"the role of {name}", role, ALL_ROLES)
        if name not in small.names:
            raise ValueError(f"roles has {name!r}, which is no tensor of the model: it has {', '.join(small.names)}")
    pairs = zip(small.names, small.weights, large.weights, strict=True)
    return {name: given.get(name) or _role(name, weight, wider, model.layout) for name, weight, wider in pairs}


def _role(name: str, small: Any, large: Any, layout: str) -> Role:
    """As `inferred_role` of the shapes, but biases and gains that grow are vectors: of heads, (heads, d), of a stack.

    A bias is called so. Gains of a stack, (layers, width), have the shape of an output; what tells is that all are one
    number, the same at both widths. It must not be 0, as outputs may start there.
    """
    role = inferred_role(tuple(small.shape), tuple(large.shape), layout)
    is_bias = role != "fixed" and name.rpartition("/")[2] == "bias"
    return "vector" if is_bias or (role in ("input", "output") and _is_gain(small, large)) else role


def _is_gain(small: Any, large: Any) -> bool:
    values = np.concatenate([np.ravel(small), np.ravel(large)])
    return bool(values.size and values[0] != 0 and (values == values[0]).all())


def inferred_role(small: tuple[int, ...], large: tuple[int, ...], layout: str) -> Role:
    """The role of a tensor whose shape at a larger width is known too.

    Args:
        small, large: its shapes.
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
        return "vector"  # blocks, (g, in, out): more of them, none of which has more inputs
    return "input" if grown[0] == made else "output"


def matrix_axes(small: tuple[int, ...], large: tuple[int, ...], layout: str) -> tuple[int, int]:
    """Axes of a tensor's matrices: the two that grow, beside layers, heads and places; else those of the layout.

    Args:
        small, large, layout: as of `inferred_role`.
    """
    grown = _grown(small, large)
    return (grown[0], grown[1]) if len(grown) == 2 else INPUTS_OUTPUTS[layout]


def _grown(small: tuple[int, ...], large: tuple[int, ...]) -> list[int]:
    """Axes that are longer at the larger width."""
    return [axis for axis in range(len(small)) if small[axis] != large[axis]]


def _scales(model: Functions, width: int, base_width: int) -> dict[str, float]:
    """What gives each tensor, as `init` draws it at a width, the root mean square that it has at the base width.

    It is measured at both widths, as `init` may be no power of the width: Glorot's √(2/(in + out)) is none. 1 for what
    is drawn as 0.
    """
    own = _sizes(model, width)
    return {name: size / own[name] if size and own[name] else 1.0 for name, size in _sizes(model, base_width).items()}


@functools.lru_cache(maxsize=256)
def _sizes(model: Functions, width: int) -> dict[str, float]:
    """Root mean square of each tensor as `init` draws it at a width, over so many draws that it has `ENTRIES` entries.

    One draw is enough for a tensor that has as many, or whose entries are all one number.
    """
    parts = _parts(model, width)
    found = {}
    groups: dict[int, list[int]] = {}
    for place, (name, weight) in enumerate(zip(parts.names, parts.weights, strict=True)):
        values = np.asarray(weight, np.float32)
        found[name] = float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0
        constant = not values.any() or (values.size > 1 and values.min() == values.max())
        if values.size < ENTRIES and not constant:
            groups.setdefault(SOME if SOME * values.size >= ENTRIES else ENTRIES, []).append(place)
    for draws, places in groups.items():
        at_once = max(1, MOST_ENTRIES // sum(parts.weights[place].size for place in places))
        for place, square in zip(places, _mean_squares(model, width, places, draws, at_once), strict=True):
            found[parts.names[place]] = math.sqrt(square)
    return found


def _mean_squares(model: Functions, width: int, places: Sequence[int], draws: int, at_once: int) -> list[float]:
    """Mean squares of some of the tensors over draws; what the other tensors are is not computed."""

    def one(key: Array) -> list[Array]:
        weights = Parts.of(model.init(key, width)).weights
        return [jnp.mean(jnp.square(jnp.asarray(weights[place], jnp.float32))) for place in places]

    keys = jax.random.split(jax.random.key(0), draws)
    squares = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=at_once))(keys)
    return [float(np.mean(np.asarray(each, float))) for each in squares]


def _apply(model: Functions, parts: Parts, samples: Samples, weights: Params, inputs: Array) -> tuple[Array, Layers]:
    """Outputs in float32, (B,) where there is one a sample, and what each tensor makes: the outputs, if not known."""
    tree = parts.rebuilt(weights)
    outputs = jnp.asarray(model.apply(tree, inputs)).astype(jnp.float32)
    if samples.num_outputs == 1 and outputs.ndim == 2 and outputs.shape[1] == 1:
        outputs = outputs[:, 0]
    if model.activations is None:
        return outputs, dict.fromkeys(parts.names, outputs)
    return outputs, dict(model.activations(tree, inputs))


def _checked_operations(model: Functions, parts: Parts, tensors: Tensors, samples: Samples) -> float:
    """Floating point operations of a training step for one sample, three times those of `apply`; checks its outputs.

    Raises:
        ValueError: outputs of another shape than the data's.
    """
    kind = jnp.int32 if samples.kind == "tokens" else jnp.float32
    inputs = jax.ShapeDtypeStruct((2, *samples.shape), kind)
    weights = {name: jax.ShapeDtypeStruct(tensor.shape, jnp.float32) for name, tensor in tensors.items()}
    apply = partial(_apply, model, parts, samples)
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
