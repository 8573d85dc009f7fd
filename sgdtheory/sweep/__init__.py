"""Sweeps of training runs: grids, a store that survives crashes, steps to a target, the critical batch size."""

from typing import TYPE_CHECKING

from sgdtheory.lazy import lazy_names
from sgdtheory.sweep.grid import read_grid

if TYPE_CHECKING:
    from sgdtheory.sweep.cluster import cluster_executor
    from sgdtheory.sweep.extension import missing_runs
    from sgdtheory.sweep.runner import sweep
    from sgdtheory.sweep.store import Store
    from sgdtheory.sweep.table import SweepTable
    from sgdtheory.sweep.tuning import BestSteps, TunedSteps, best_steps

__all__ = [
    "BestSteps",
    "Store",
    "SweepTable",
    "TunedSteps",
    "best_steps",
    "cluster_executor",
    "missing_runs",
    "read_grid",
    "sweep",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BestSteps": "tuning",
        "Store": "store",
        "SweepTable": "table",
        "TunedSteps": "tuning",
        "best_steps": "tuning",
        "cluster_executor": "cluster",
        "missing_runs": "extension",
        "sweep": "runner",
    },
)
