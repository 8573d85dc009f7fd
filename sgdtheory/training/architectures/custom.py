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

KEYS = 4  # initial weights whose root mean squares are compared
NEAR = 0.1  # an exponent of the width that is as near to a half or whole one is that
OWN = 0  # fan-in of a tensor that is not drawn here


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
        growth = _growth(model, base_width)
    roles = roles_of(model, base, double)
    tensors = {name: Tensor(shape, roles[name], OWN) for name, shape in own.shapes().items()}
    frame = own._replace(tree=None, weights=[])  # what is kept: not the weights, which may be large
    ratio = width / base_width

    def initial(key: Array) -> Params:
        parts = Parts.of(model.init(key, width))
        pairs = zip(parts.names, parts.weights, strict=True)
        return {name: jnp.asarray(weight, jnp.float32) * ratio ** -growth[name] for name, weight in pairs}

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
    pairs = zip(small.shapes().items(), large.shapes().values(), strict=True)
    return {name: given.get(name) or inferred_role(shape, grown, model.layout) for (name, shape), grown in pairs}


def inferred_role(small: tuple[int, ...], large: tuple[int, ...], layout: str) -> Role:
    """The role of a tensor whose shape at a larger width is known too.

    Args:
        small, large: its shapes.
        layout: "in_out" (…, in, out), or "out_in" (out, in, …).
    """
    grown = [axis for axis in range(len(small)) if small[axis] != large[axis]]
    if not grown:
        return "fixed"
    if len(grown) > 1:
        return "hidden"
    if len(small) == 1:
        return "vector"
    made = len(small) - 1 if layout == "in_out" else 0
    return "input" if grown[0] == made else "output"


@functools.lru_cache(maxsize=64)
def _growth(model: Functions, base_width: int) -> dict[str, float]:
    """Exponent p of each tensor's root mean square as `init` draws it, ∝ width^p, from the base width and twice it.

    What is near to a half or whole one is that, as entries are random. It is 0 for what is drawn as 0.
    """
    squares = []
    for width in (base_width, 2 * base_width):
        draws = [_parts(model, width, seed) for seed in range(KEYS)]
        squares.append(
            {
                name: float(np.mean([np.mean(np.square(np.asarray(each.weights[k], float))) for each in draws]))
                for k, name in enumerate(draws[0].names)
            }
        )
    found = {}
    for name, small in squares[0].items():
        large = squares[1][name]
        slope = 0.5 * math.log2(large / small) if small > 0 and large > 0 else 0.0
        found[name] = round(2 * slope) / 2 if abs(slope - round(2 * slope) / 2) < NEAR else slope
    return found


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
