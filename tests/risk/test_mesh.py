"""Ends of panels."""

import numpy as np
import pytest

from sgdtheory.risk.solvers.contour import FAST, FINE
from sgdtheory.risk.solvers.mesh import Mesh

STEPS = 1e9


def panels_of_power(power, fastest=2.0, resolution=FINE, forgotten=0.0):
    """Return the panels of γ_t = 0.1 (1 − t/n)^power."""

    def size(step):
        return 0.1 * np.maximum((STEPS - step[None]) / STEPS, 1e-300) ** power

    return list(Mesh(resolution, 0.0, STEPS, size, 0.0, lambda step: 0.0, fastest, forgotten).panels(32.0))


@pytest.mark.parametrize("resolution", [FINE, FAST], ids=["fine", "fast"])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_what_hardly_moves_until_the_end_is_one_panel(power, resolution):
    """`fastest·γ·(n − t)` of the last panel is below ½, that of one twice as long is not."""
    found = panels_of_power(power, resolution=resolution)
    assert all(one[1] == other[0] for one, other in zip(found[:-1], found[1:], strict=True))
    assert found[-1][1] == STEPS
    left = STEPS - found[-1][0]
    way = [2.0 * 0.1 * (each / STEPS) ** power * each for each in (left, 2 * left)]
    assert way[0] < 0.5 < way[1]
    assert len(panels_of_power(power, fastest=np.inf, resolution=resolution)) > len(found) + 5, "control: all moves"


def test_panels_go_on_to_shorten_where_the_rate_is_no_polynomial():
    """√(n − t): until what its polynomials miss, times the way, is nothing."""
    rough = panels_of_power(0.5)
    low, high = rough[-1]
    assert high - low < 1e3
    assert panels_of_power(2)[-1][0] < STEPS - 1e5


def test_the_last_panel_is_shorter_than_what_an_average_remembers():
    """e^−½ of its square at the start of the last panel is left at the end."""
    low, high = panels_of_power(2, forgotten=1e-4)[-1]
    assert 0.5e4 / 4 < high - low < 0.5e4
    assert high - panels_of_power(2)[-1][0] > 1e5
