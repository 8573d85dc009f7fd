"""Tests that run only with `pytest -m slow`."""

import itertools
from functools import partial

import pytest

slow = partial(pytest.param, marks=pytest.mark.slow)  # a case of a parametrized test


def half(*lists):
    """All combinations, every other one of which is slow: any two entries of three lists still meet."""
    found = []
    for chosen in itertools.product(*map(enumerate, lists)):
        place, case = zip(*chosen, strict=True)
        found.append(slow(*case) if sum(place) % 2 else case)
    return found
