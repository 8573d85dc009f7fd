"""Tiny networks and short simulations compile for longer than they run."""

import pytest

from tests.conftest import quickly_compiled


@pytest.fixture(scope="package", autouse=True)
def _quick_compilation():
    with quickly_compiled():
        yield
