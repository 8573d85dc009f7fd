"""Memory that is freed and soon taken again."""

from functools import cache

import numpy as np

LARGEST = 8 << 20  # Freed blocks of up to this many bytes are kept; temporaries of the exact risk are smaller.


@cache
def keep_freed_memory() -> None:
    """Once a process: let glibc keep what is freed, up to a few MB, rather than hand it back to the system.

    Taken back, every page of it costs a fault: half the time of many settings. What is kept at most follows the largest
    block that has been freed (mallopt, M_MMAP_THRESHOLD, "dynamic"), so one is, untouched. Elsewhere nothing happens.
    """
    np.empty(LARGEST, np.uint8)
