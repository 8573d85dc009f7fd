import numpy as np
import pytest

import sgdtheory as st


def test_between_the_measurements_a_power_law():
    table = st.fits.Throughput([16, 1, 4], [400, 100, 300])
    np.testing.assert_allclose(table.at([1, 4, 16]), [100, 300, 400], rtol=1e-12)
    assert float(table.at(2)) == pytest.approx(np.sqrt(100 * 300))
    assert not table.outside([1, 2, 16]).any()


def test_nothing_better_is_promised_beyond_them():
    """Above, no sample is faster than at the largest batch size; below, no step faster than at the smallest."""
    table = st.fits.Throughput([1, 4], [100, 300])
    assert float(table.at(400)) == pytest.approx(300)
    assert 0.25 / float(table.at(0.25)) == pytest.approx(1 / 100)
    assert table.outside([0.5, 5]).all()
    np.testing.assert_allclose([1, 2] / st.fits.Throughput([4, 8], [100, 120]).at([1, 2]), 4 / 100)


def test_a_file(tmp_path):
    path = tmp_path / "throughput.csv"
    path.write_text("size,rate\n8,30\n2,10\n")
    table = st.fits.read_throughput(path, batch_size="size", samples_per_second="rate")
    assert table.batch_sizes.tolist() == [2, 8]
    assert table.samples_per_second.tolist() == [10, 30]
    path.write_text("batch_size,samples_per_second\n8,0\n")
    with pytest.raises(ValueError, match="line 2: samples_per_second must be positive and finite, got 0"):
        st.fits.read_throughput(path)
    path.write_text("batch_size,samples_per_second\n")
    with pytest.raises(ValueError, match="has no rows below its header"):
        st.fits.read_throughput(path)


@pytest.mark.parametrize(
    ("sizes", "rates", "message"),
    [
        ([1, 2], [3], r"one-dimensional and of one length, got shapes \(2,\) and \(1,\)"),
        ([1, 1], [3, 4], r"batch_sizes must differ, got \[1.0, 1.0\]: keep one throughput of each"),
        ([1, 2, 1], [3, 4, 5], "batch_sizes must differ"),
        ([1, 0], [3, 4], "batch_sizes must be positive and finite, got 0.0"),
        ([1, 2], [3, -4], "samples_per_second must be positive and finite, got -4.0"),
    ],
)
def test_bad_tables(sizes, rates, message):
    with pytest.raises(ValueError, match=message):
        st.fits.Throughput(sizes, rates)
