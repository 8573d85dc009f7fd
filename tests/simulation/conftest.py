"""Short simulations compile for longer than they run."""

import contextlib

import pytest

from tests.conftest import quickly_compiled

SHORT = (
    "test_algorithms",
    "test_devices",
    "test_dynamics",
    "test_engine",
    "test_explicit",
    "test_simulator",
    "test_user_law",
)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation(request):
    short = request.module.__name__.rpartition(".")[2] in SHORT
    with quickly_compiled() if short else contextlib.nullcontext():
        yield
