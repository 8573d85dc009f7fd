import matplotlib
import pytest

from sgdtheory.plotting.style import new_figure


@pytest.fixture(autouse=True)
def _untouched():
    """No test of figures may leave a trace in Matplotlib's global state."""
    before = dict(dict.items(matplotlib.rcParams))
    yield
    assert dict(dict.items(matplotlib.rcParams)) == before


@pytest.fixture
def axes():
    return new_figure()[1][0, 0]
