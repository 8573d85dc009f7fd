"""Adapters that make Flax and Equinox modules models of a run."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax

from sgdtheory.training.custom_model import Custom
from sgdtheory.training.parametrization import Role

NO_ROLES: Mapping[str, Role] = MappingProxyType({})


def from_flax(make: Callable[[int], Any], example: Any, **options: Any) -> Custom:
    """Make a Flax (linen) module the model of a run.

    >>> import flax.linen as nn  # doctest: +SKIP
    >>> import numpy as np
    >>> from sgdtheory.training import from_flax
    >>> def make(width):
    ...     return nn.Sequential([nn.Dense(width), nn.relu, nn.Dense(1)])
    >>> model = from_flax(make, np.zeros((1, 64)))

    Args:
        make: width → module.
        example: inputs (1, …) from which the module infers the shapes of its weights.
        options: `roles` and `entry_point` of `Custom`.
    """

    def init(key: Any, width: int) -> Any:
        module = make(width)
        variables = module.init(key, example)
        if set(variables) != {"params"}:
            kept = ", ".join(sorted(set(variables) - {"params"}))
            raise ValueError(f"make must give a module without state, but it keeps {kept}: take layers that have none")
        return {"module": module, "params": variables["params"]}

    def apply(tree: Any, inputs: Any) -> Any:
        return tree["module"].apply({"params": tree["params"]}, inputs)

    return Custom(init=init, apply=apply, layout="in_out", **options)


def from_equinox(make: Callable[[Any, int], Any], *, roles: Mapping[str, Role] = NO_ROLES, **options: Any) -> Custom:
    """Make an Equinox module, which takes one sample, the model of a run.

    >>> import equinox as eqx  # doctest: +SKIP
    >>> from sgdtheory.training import from_equinox
    >>> def make(key, width):
    ...     return eqx.nn.MLP(64, "scalar", width, depth=2, key=key)
    >>> model = from_equinox(make)

    Args:
        make: (key, width) → module.
        roles: as of `Custom`. Roles that are left out are inferred; embeddings get the role "input".
        options: `entry_point` and `activations` of `Custom`.
    """

    def apply(module: Any, inputs: Any) -> Any:
        return jax.vmap(module)(inputs)

    def all_roles(module: Any) -> dict[str, Role]:
        return _embeddings(module) | dict(roles)

    return Custom(init=make, apply=apply, layout="out_in", roles=all_roles, **options)


def _embeddings(module: Any) -> dict[str, Role]:
    """Return the role "input" for the weights of Equinox's embeddings, which are (in, out), unlike its layers'."""
    import equinox as eqx

    nodes = jax.tree_util.tree_leaves_with_path(module, is_leaf=lambda node: isinstance(node, eqx.nn.Embedding))
    paths = [(*path, jax.tree_util.GetAttrKey("weight")) for path, node in nodes if isinstance(node, eqx.nn.Embedding)]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): "input" for path in paths}
