import os
import time

import pytest

from experiments._lib.processes import WorkerError, map_on_cores
from experiments._lib.progress import listening, tracked


def square(x):
    return x * x


def slow_square(x):
    for _ in tracked(range(5)):
        time.sleep(0.25)
    return x * x


def fail(x):
    if x == 3:
        raise ValueError("three is too many")
    return x


def die(x):
    if x == 3:
        os._exit(1)
    return x


@pytest.mark.parametrize("processes", [1, 3])
def test_results_are_in_order(processes):
    assert map_on_cores(square, range(10), processes) == [x * x for x in range(10)]


def test_nothing_to_do():
    assert map_on_cores(square, [], 2) == []


def test_an_error_of_a_process_is_raised_with_its_traceback():
    with pytest.raises(ValueError, match="three is too many") as caught:
        map_on_cores(fail, range(10), 2)
    assert "in fail" in caught.value.__notes__[0]


def test_a_process_that_dies_is_no_reason_to_wait():
    with pytest.raises(WorkerError, match="died"):
        map_on_cores(die, range(10), 2)


def test_processes_say_how_far_they_are():
    """Between the ends of items too."""
    shares = []
    with listening(lambda stage, share: shares.append(share)):
        map_on_cores(slow_square, range(2), 2)
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1
    assert sum(0 < share < 0.5 for share in shares) > 1
