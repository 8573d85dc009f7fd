"""Tests that run only with `pytest -m slow`, and those that run only with `SGDTHEORY_TESTS=all pytest -m slow`."""

import itertools
import os
from functools import partial

import pytest

slow = partial(pytest.param, marks=pytest.mark.slow)  # a case of a parametrized test

# `pytest -m slow` compares half of the recorded results, a quarter of the combinations of methods, and part of the
# random problems and of the dearest cases: all of them take about a quarter longer. If this environment variable is
# set, it compares all.
EXHAUSTIVE = os.environ.get("SGDTHEORY_TESTS") == "all"


def sampled(cases, number):
    """Return the first cases, which the slow suite tries; all of them if everything is asked for."""
    cases = list(cases)
    return cases if EXHAUSTIVE else cases[:number]


def every_other(*lists):
    """Return every other combination, in which any two entries of three lists still meet; all if all are asked for."""
    chosen = (zip(*combination, strict=True) for combination in itertools.product(*map(enumerate, lists)))
    return [case for place, case in chosen if EXHAUSTIVE or sum(place) % 2 == 0]


def half(*lists):
    """All combinations, every other one of which is slow: any two entries of three lists still meet."""
    found = []
    for chosen in itertools.product(*map(enumerate, lists)):
        place, case = zip(*chosen, strict=True)
        found.append(slow(*case) if sum(place) % 2 else case)
    return found
