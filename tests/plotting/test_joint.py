import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import plotting as plot
from sgdtheory.fits import joint_draws
from tests.fits.test_fit_joint_law import made_table
from tests.plotting.panels import points_of


def test_the_joint_law_has_points_lines_and_critical_batch_sizes(axes, monkeypatch):
    for name, number in (("DRAWS", 5), ("TESTED", 1), ("STARTS", 0)):
        monkeypatch.setattr(joint_draws, name, number)
    table = made_table()
    some = (table["size"] < 4e8) & (table["samples"] > 9e9)
    found = st.fit_joint_law({name: column[some] for name, column in table.items()})
    plot.joint_law(found, axes=axes)
    measured = np.concatenate(points_of(axes, "o"))
    np.testing.assert_allclose(np.sort(measured[:, 1]), np.sort(found.losses))
    lines = [each for each in axes.get_lines() if each.get_label().startswith("$N$")]
    assert len(lines) == 6
    for batch, loss in np.concatenate(points_of(axes, "*")):
        if np.isfinite(batch):
            every = [
                found.critical_batch_size(size, data).batch_size
                for size in (1e8, 10**8.4)
                for data in (1e10, 10**10.5, 1e11)
            ]
            assert min(abs(batch - each) for each in every) == pytest.approx(0)
            assert loss > 0
