import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import plotting as plot
from tests.fits.test_loss_grid import RATES, joined, table
from tests.plotting.panels import legend_of, points_of


@pytest.fixture(scope="module")
def grid():
    return st.fit_loss_grid(table(rates=RATES[RATES <= 2]), convention=st.Convention(16), targets=[2.05, 2.1])


def test_the_map_has_the_degradation_and_the_critical_batch_sizes(grid, axes):
    plot.loss_map(grid, axes=axes)
    (mesh,) = (each for each in axes.collections if hasattr(each, "get_coordinates"))
    shown = np.ma.filled(mesh.get_array(), np.nan)
    for place, each in enumerate(grid.degradations):
        np.testing.assert_allclose(shown[: each.ratios.size, place], 100 * (each.ratios - 1))
    corners = mesh.get_coordinates()
    assert (axes.get_xlim(), axes.get_ylim()) == tuple((each.min(), each.max()) for each in corners.T)
    stars = np.concatenate(points_of(axes, "*"))
    np.testing.assert_allclose(stars[:, 1], [each.critical_batch_size for each in grid.targets])
    assert np.concatenate(points_of(axes, "x")).shape[1] == 2
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("data $D$ (samples)", "batch size $B$")


def test_the_curves_are_the_ratios(grid, axes):
    plot.degradation(grid, axes=axes)
    lines = points_of(axes, "o")
    assert len(lines) == len(grid.degradations)
    np.testing.assert_allclose(lines[0][:, 1], 100 * (grid.degradations[0].ratios - 1))
    assert "1% worse" in legend_of(axes)


def test_groups_are_drawn_one_at_a_time():
    each = [table(rates=RATES[RATES <= 2]) for _ in "ab"]
    rows = [part | {"group": np.full(len(part["loss"]), name)} for part, name in zip(each, "ab", strict=True)]
    grid = st.fit_loss_grid(joined(*rows))
    assert plot.loss_grid(grid, group="b").get_suptitle() == "b"
    with pytest.raises(ValueError, match="group must be one of 'a', 'b', got 'c'"):
        plot.loss_grid(grid, group="c")
    with pytest.raises(ValueError, match="grid must have a data size that three batch sizes have in common"):
        plot.loss_map(st.fit_loss_grid([(B, 1000 * B, 1.0, 2.0) for B in (1, 2, 4)]))
