"""What is left to `pytest -m slow`."""

from functools import partial

import pytest

slow = partial(pytest.param, marks=pytest.mark.slow)  # a case of a parametrized test
