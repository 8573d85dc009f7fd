"""Independent pieces of work on all cores."""

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def map_on_cores(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """`[function(item) for item in items]`, in fresh processes where there is more than one core."""
    items, cores = (
        list(items),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )
    if min(cores, len(items)) < 2:
        return [function(item) for item in items]
    context = multiprocessing.get_context("spawn")  # threads of other libraries do not survive a fork
    with ProcessPoolExecutor(min(cores, len(items)), mp_context=context) as executor:
        return list(executor.map(function, items))
