"""Sweeps of training runs: grids, a store that survives crashes, steps to a target, the critical batch size."""

import importlib
from typing import TYPE_CHECKING, Any

from sgdtheory.sweep.grid import read_grid

if TYPE_CHECKING:
    from sgdtheory.sweep.cluster import cluster_executor
    from sgdtheory.sweep.runner import sweep
    from sgdtheory.sweep.store import Store
    from sgdtheory.sweep.table import SweepTable
    from sgdtheory.sweep.tuning import BestSteps, TunedSteps, best_steps

_LATER = {  # what needs JAX is imported when it is asked for
    "BestSteps": "tuning",
    "Store": "store",
    "SweepTable": "table",
    "TunedSteps": "tuning",
    "best_steps": "tuning",
    "cluster_executor": "cluster",
    "sweep": "runner",
}

__all__ = [
    "BestSteps",
    "Store",
    "SweepTable",
    "TunedSteps",
    "best_steps",
    "cluster_executor",
    "read_grid",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """The public names that need JAX."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
