"""Timers of the benchmarks."""

import time
from collections.abc import Callable


def durations(function: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of `repeats` calls after one that is not counted: it compiles, or fills caches."""
    function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds
