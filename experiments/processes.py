"""Independent pieces of work on all cores."""

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def map_on_cores(function: Callable[[Any], Any], items: Iterable[Any], processes: int | None = None) -> list[Any]:
    """`[function(item) for item in items]`, in as many fresh processes as there are cores; with 1, in this one."""
    items = list(items)
    number = min(processes or _cores(), len(items))
    if number < 2:
        return [function(item) for item in items]
    context = multiprocessing.get_context("spawn")  # threads of other libraries do not survive a fork
    with ProcessPoolExecutor(number, mp_context=context) as executor:
        return list(executor.map(function, items))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
