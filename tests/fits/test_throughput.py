"""Throughput from tables, and from points against the times that they are made of."""

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


# ------------------------------------------------------------------ points with accumulation

MICRO = {1: 0.08, 4: 0.17, 8: 0.29}  # seconds of a micro batch
UPDATE = {8: 0.2, 32: 0.5}


def points(pairs, noise=0.0, **more):
    """Return points as (devices, micro batch, accumulation)."""
    n, m, k = np.array(pairs, float).T
    time = k * np.array([MICRO[each] for each in m]) + np.array([UPDATE[each] for each in n])
    time = time * np.exp(noise * np.random.default_rng(0).standard_normal(n.size))
    return st.fits.MeasuredThroughput(n, m, k, n * m * k / time, **more)


def times(found):
    return np.array([1, 4, 8]) / found.at([1, 4, 8])


def test_times_come_back_where_accumulation_differs():
    """No two points of 32 devices differ only in k; t(m) is known from 8 devices."""
    found = points([(8, 1, 2), (8, 4, 1), (8, 4, 4), (8, 8, 2), (32, 4, 1)])
    np.testing.assert_allclose(times(found), list(MICRO.values()), rtol=1e-9)
    np.testing.assert_allclose(found.update_seconds([8, 32]), [0.2, 0.5], rtol=1e-9)
    assert found.update_seconds(16) == pytest.approx(0.35)  # halfway in log n
    np.testing.assert_allclose(found.update_seconds([1, 64]), [0.2, 0.5])
    assert found.largest_error < 1e-9


def test_a_fit_is_off_by_its_largest_error():
    pairs = [(n, m, k) for n in UPDATE for m in MICRO for k in (1, 2, 4)]
    found = points(pairs, noise=0.05)
    n, m, k = np.array(pairs, float).T
    exact = points(pairs)
    fitted = k * m / found.at(m) + found.update_seconds(n)
    noisy = (k * m / exact.at(m) + exact.update_seconds(n)) * np.exp(
        0.05 * np.random.default_rng(0).standard_normal(18)
    )
    assert found.largest_error == pytest.approx(np.abs(fitted / noisy - 1).max(), rel=1e-6)
    np.testing.assert_allclose(times(found), list(MICRO.values()), rtol=0.15)


def test_without_points_that_differ_in_accumulation_alone_a_step_is_all_micro_batches():
    found = points([(8, 1, 2), (8, 4, 4)])
    assert found.update_seconds(8) == 0
    assert 1 / found.at(1) == pytest.approx(0.08 + 0.2 / 2)  # 2 of them take what the step took


def test_where_each_number_of_devices_has_its_own_micro_batch_the_update_is_one():
    """t(4), t(8), u(8) and u(32) from three points: too many."""
    found = points([(8, 4, 1), (8, 4, 2), (32, 8, 1)])
    np.testing.assert_allclose(found.update_seconds([8, 32]), [0.2, 0.2], rtol=1e-9)


def test_memory_is_a_line_that_no_point_exceeds():
    found = points([(8, 1, 1), (8, 4, 1), (8, 4, 2), (8, 8, 1)], memory_gb=[14.5, 20, np.nan, 28])
    base, slope = found.memory
    assert slope == pytest.approx(np.polyfit([1, 4, 8], [14.5, 20, 28], 1)[0])
    left = base + slope * np.array([1, 4, 8]) - [14.5, 20, 28]
    assert left.min() == pytest.approx(0, abs=1e-12)
    most = found.largest_micro_batch(80)
    assert base + slope * most <= 80 < base + slope * (most + 1)
    even = points([(8, 1, 1), (8, 4, 1)], memory_gb=[14, 20])
    assert (even.largest_micro_batch(20), even.largest_micro_batch(19.9)) == (4, 3)
    with pytest.raises(ValueError, match=r"memory of 13 GB holds no sample: 12 GB \+ 2 GB a sample are needed"):
        even.largest_micro_batch(13)
    with pytest.raises(ValueError, match="memory needs a table of throughput with memory_gb"):
        points([(8, 1, 1), (8, 4, 1)]).largest_micro_batch(80)


def test_a_file_of_points(tmp_path):
    path = tmp_path / "throughput.csv"
    path.write_text(
        "devices,micro_batch,accumulation,samples_per_second,memory_gb\n8,1,2,40,14\n8,4,1,80,20\n8,4,4,128,\n"
    )
    found = st.fits.read_throughput(path)
    assert found.memory == pytest.approx((12, 2))
    assert found.update_seconds(8) == pytest.approx(0.4 - 0.2)  # T = 0.4 and 1.0 at m = 4, k = 1 and 4
    path.write_text("micro_batch,tokens\n2,30\n8,60\n")
    alone = st.fits.read_throughput(path, samples_per_second="tokens")
    np.testing.assert_allclose(alone.at([2, 8]), [30, 60])
    assert (alone.devices.tolist(), alone.memory) == ([1], None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"devices": [8, 8.5]}, r"devices must be a list of whole numbers, got \[8.0, 8.5\]"),
        ({"accumulation": [1, 0]}, "accumulation must be positive and finite, got 0.0"),
        ({"micro_batch": [1, 2, 4]}, "must be of one length, got 2, 3, 2, 2"),
        ({"memory_gb": [14]}, "memory_gb must be as many as micro_batch, got 1 for 2"),
        ({"memory_gb": [14, np.nan]}, "memory_gb must be given at two different micro batches or more"),
        ({"memory_gb": [14, 12]}, "memory_gb must grow with micro_batch, got less at larger ones"),
        ({"memory_gb": [14, -1]}, "memory_gb must be positive and finite, got -1.0"),
        (
            {"micro_batch": [4, 4], "accumulation": [1, 2], "samples_per_second": [10, 20]},
            "samples_per_second must be higher at less accumulation, got steps of micro batch 4 that take no longer",
        ),
    ],
)
def test_bad_points(change, message):
    good = {"devices": [8, 8], "micro_batch": [1, 4], "accumulation": [1, 1], "samples_per_second": [40, 80]}
    with pytest.raises(ValueError, match=message):
        st.fits.MeasuredThroughput(**(good | change))
