import numpy as np

import sgdtheory as st
from sgdtheory import plotting as plot
from tests.fits.test_fit_rates import exact_table
from tests.plotting.panels import points_of


def test_best_rates_have_points_bounds_and_kinks(axes):
    whole = exact_table(2.0, 3.0, samples=[1e4, 1e5])
    some = whole["learning_rate"] >= 2**-4  # so that the best one is the lowest at small batch sizes
    found = st.fit_rates({name: column[some] for name, column in whole.items()}, compare=False)
    plot.best_rates(found, axes=axes)
    stars = np.concatenate(points_of(axes, "*"))
    np.testing.assert_allclose(stars[np.isfinite(stars).all(1), 0], found.critical_batch_size([1e4, 1e5]))
    known, bounds = (np.concatenate(points_of(axes, marker)) for marker in "ov")
    assert len(known) == np.count_nonzero(found.rates.side == 0)
    assert len(bounds) == np.count_nonzero(found.rates.side == -1) > 0
    assert axes.get_xlabel() == "batch size $B$"
