"""Contents of the figure of a spectrum: drawn numbers, and words."""

import numpy as np
import pytest

from sgdtheory.data.cross_fit import Spectrum
from sgdtheory.data.exponents import Exponent, bins_within
from sgdtheory.data.figure import spectrum_figure

INDEX = np.arange(1.0, 41)
SIGNAL = 2e-3 * INDEX**-2.0 * np.where(INDEX == 3, -1, 1)  # noise makes one negative
EIGENVALUES = np.append(0.5 * INDEX[:-2] ** -1.5, [1e-9, 3e-10])  # rounding, of the largest


@pytest.fixture(scope="module")
def figure():
    whole = Spectrum(EIGENVALUES, SIGNAL, 1.0, 100.0)
    left_out = tuple(whole._replace(signal=SIGNAL * (1 + side)) for side in (0.05, -0.05) * 8)
    left_out = tuple(each._replace(signal=np.where(INDEX == 2, 2 * each.signal, each.signal)) if k % 2 else each
                     for k, each in enumerate(left_out))  # fmt: skip
    laws = Exponent(1.5, (1.4, 1.62), (2, 30), 0.0, 0.7), Exponent(2.0, (1.8, 2.25), (1, 9), 0.0, 2e-3)
    return spectrum_figure(whole, left_out, *laws, title="rows"), whole, left_out


def test_there_are_two_panels_with_a_title(figure):
    assert len(figure[0].axes) == 2
    assert figure[0].get_suptitle() == "rows"
    assert all(axes.get_xlabel() == "direction $i$, by eigenvalue" for axes in figure[0].axes)
    assert figure[0].axes[0].get_ylabel().startswith("eigenvalue")
    assert figure[0].axes[1].get_ylabel().startswith("signal")


def test_eigenvalues_are_drawn_but_for_rounding(figure):
    x, y = figure[0].axes[0].lines[0].get_data()
    np.testing.assert_array_equal(x, INDEX)
    np.testing.assert_array_equal(y, np.append(EIGENVALUES[:-1], np.nan))


@pytest.mark.parametrize(("panel", "ends", "values"), [
    (0, [2, 30], [0.7 * 2**-1.5, 0.7 * 30**-1.5]), (1, [1, 9], [2e-3, 2e-3 / 81]),
])  # fmt: skip
def test_laws_are_drawn_over_their_range(figure, panel, ends, values):
    law = next(line for line in figure[0].axes[panel].lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(law.get_data(), [ends, values])
    assert figure[0].axes[panel].get_title().endswith(["$a = 1.50$ (1.40 … 1.62)", "$b = 2.00$ (1.80 … 2.25)"][panel])


def test_signal_is_drawn_with_its_standard_error_where_it_is_positive(figure):
    """Down to no less than a twentieth of it, for the logarithmic scale."""
    _, whole, left_out = figure
    bins = bins_within(1, 40)
    signal = bins.mean(whole.signal)
    errors = np.sqrt(15 * np.var([bins.mean(each.signal) for each in left_out], axis=0))
    kept = signal > 0
    assert not kept.all()
    (container,) = figure[0].axes[1].containers
    points, _, (bars,) = container.lines
    np.testing.assert_allclose(points.get_data(), [np.exp(bins.log_index)[kept], signal[kept]])
    low, high = np.array([segment[:, 1] for segment in bars.get_segments()]).T
    np.testing.assert_allclose(high, (signal + errors)[kept])
    np.testing.assert_allclose(low, np.maximum(signal - errors, 0.05 * signal)[kept])
    assert (errors > 0.95 * signal)[kept].any()
    assert (errors < 0.95 * signal)[kept].any()


def test_what_is_not_resolved_is_said(figure):
    unknown = Exponent(np.nan, (-np.inf, np.inf), (1, 1), 0.0)
    axes = spectrum_figure(*figure[1:], unknown, unknown).axes
    assert [each.get_title()[-14:] for each in axes] == [": not resolved"] * 2
    assert all(line.get_linestyle() != "--" for each in axes for line in each.lines)
