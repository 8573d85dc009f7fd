"""Short simulations compile for longer than they run."""

import contextlib

import pytest

from tests.conftest import quickly_compiled

LONG = "test_means", "test_sufficient"  # many replicas, or many steps


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation(request):
    long = request.module.__name__.rpartition(".")[2] in LONG
    with contextlib.nullcontext() if long else quickly_compiled():
        yield
