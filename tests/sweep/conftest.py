"""Tiny networks compile for longer than they train."""

import pytest

from tests.conftest import quickly_compiled


@pytest.fixture(scope="package", autouse=True)
def _quick_compilation():
    with quickly_compiled():
        yield
