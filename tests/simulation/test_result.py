from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sgdtheory.simulation.result import ROUNDING, Simulation, Truncation


def simulation(excess_risk, dtype="float32", **options):
    risk = np.asarray(excess_risk, dtype=float)
    return Simulation(risk, risk, np.ones(risk.shape[:-1], dtype=int), dtype, **options)


def test_mean_and_standard_error_of_known_numbers():
    found = simulation([[1.0, 2.0, 3.0, 6.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(found.mean, [3.0, 0.0])
    np.testing.assert_allclose(found.standard_error, [np.sqrt(14 / 3 / 4), 0.0])
    np.testing.assert_allclose(found.z_score([1.0, 0.0])[0], 2 / np.sqrt(14 / 12), rtol=1e-6)
    np.testing.assert_array_equal(found.num_finished, [4, 4])
    assert not found.diverged.any()
    one = simulation([1.0, 3.0])
    assert {np.ndim(each) for each in (one.mean, one.standard_error, one.z_score(2.0), one.num_finished)} == {0}


def test_a_normal_score_is_hall_s_transformation_of_the_z_score():
    risk = np.array([1.0, 2.0, 3.0, 10.0, 4.0])
    found = simulation(risk, "float64")
    skewed = stats.skew(risk) / np.sqrt(risk.size)
    for expected in (1.0, 3.5, 7.0):
        z = stats.ttest_1samp(risk, expected).statistic
        transformed = z + skewed * z**2 / 3 + skewed**2 * z**3 / 27 + skewed / 6
        assert found.normal_score(expected) == pytest.approx(transformed, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_score_of_equal_replicas_is_in_units_of_rounding(dtype):
    found = simulation([2.0, 2.0, 2.0], dtype)
    assert found.z_score(2.0) == 0
    assert found.z_score(2.0 * (1 - 3 * ROUNDING[dtype])) == pytest.approx(3, rel=1e-3)


def test_a_diverged_replica_makes_the_mean_infinite_and_only_of_its_setting():
    found = simulation([[1.0, np.inf, 2.0], [1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(found.diverged, [[False, True, False], [False] * 3])
    np.testing.assert_array_equal(found.mean, [np.inf, 2.0])
    np.testing.assert_allclose(found.standard_error, [np.inf, 1 / np.sqrt(3)])
    np.testing.assert_array_equal(np.isnan(found.z_score([1.0, 1.0])), [True, False])


def test_unfinished_replicas_do_not_count():
    found = simulation([[1.0, 3.0, np.nan], [1.0, np.nan, np.nan], [np.nan] * 3], interrupted=True)
    np.testing.assert_array_equal(found.num_finished, [2, 1, 0])
    np.testing.assert_array_equal(found.mean, [2.0, 1.0, np.nan])
    np.testing.assert_array_equal(found.standard_error, [1.0, np.nan, np.nan])
    np.testing.assert_array_equal(np.isnan(found.z_score(1.5)), [False, True, True])


def test_one_replica_has_a_mean_but_no_standard_error():
    found = simulation([[5.0]])
    np.testing.assert_array_equal(found.mean, [5.0])
    for wanted in (lambda: found.standard_error, lambda: found.z_score(1.0)):
        with pytest.raises(ValueError, match="num_replicas must be at least 2 for a standard error, got 1"):
            wanted()


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e170, 1e300])
def test_numbers_whose_squares_leave_the_range_of_a_float(size):
    """Runs in float64 beyond the stability threshold have such numbers."""
    found = simulation(size * np.array([1.0, 2.0, 3.0, 6.0]), "float64")
    assert found.mean == pytest.approx(3 * size, rel=1e-12, abs=0)
    assert found.standard_error == pytest.approx(size * np.sqrt(14 / 12), rel=1e-12, abs=0)


def test_a_normal_score_of_symmetric_replicas_is_the_z_score():
    found = simulation([[1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 0.0, 1.0, 2.0, 2.0]])
    np.testing.assert_allclose(found.normal_score([2.0, 1.5]), found.z_score([2.0, 1.5]), rtol=1e-12)


@pytest.mark.slow
def test_a_normal_score_of_skewed_replicas_is_normal():
    """256 exponentials, κ = 1/8: of 50 000 scores 134 ± 12 exceed 3; false-alarm rate 1e-4 within 4 of these."""
    rng = np.random.default_rng(0)
    beyond = np.zeros(2)
    for _ in range(5):
        found = simulation(rng.exponential(size=(10_000, 256)))
        beyond += [(np.abs(score(1.0)) > 3).sum() for score in (found.normal_score, found.z_score)]
    assert abs(beyond[0] - 135) < 4 * 12 + 20  # and the expansion's own error
    assert beyond[1] > 135 + 6 * 12  # negative control: the z-score


def test_a_normal_score_of_equal_diverged_or_unfinished_replicas():
    found = simulation([[2.0] * 3, [1.0, np.inf, 2.0], [1.0, 2.0, np.nan], [np.nan] * 3], interrupted=True)
    np.testing.assert_array_equal(np.isnan(found.normal_score(2.0)), [False, True, False, True])
    assert found.normal_score(2.0)[0] == 0


def test_what_is_shown_of_one_setting():
    """The number of replicas, whatever the shape of the settings."""
    assert "num_replicas=2, shape=()" in repr(simulation([1.0, 3.0]))
    assert "num_replicas=3, shape=(1, 2)" in repr(simulation(np.ones((1, 2, 3))))


def test_the_table_has_a_standard_error_of_several_replicas_alone():
    assert simulation([1.0, 3.0]).sheet().json()["standard_error"] == 1.0
    assert "standard_error" not in simulation([1.0]).sheet().json()


def remarks(risk, **options):
    return list(simulation(risk, **options).sheet().remarks)


def test_remarks_say_what_freezing_divergence_and_ctrl_c_do_to_the_means():
    """Of two settings with standard errors 1 and 0.5 the shifts are a twentieth and a tenth of them."""
    risk = [[1.0, 3.0], [1.0, 2.0]]
    kept = Truncation(64, 0.125, np.array([0.05, -0.05]))
    words = "64 directions simulated, the others frozen with risk 0.125"
    assert remarks(risk, truncation=kept) == [f"{words}; this shifts means by 0.1 standard errors at most"]
    unknown = replace(kept, shift=np.full(2, np.nan))
    assert remarks(risk, truncation=unknown) == [f"{words}; twice as many show whether that matters"]
    assert remarks(np.transpose(risk)[:1].T, truncation=kept) == [words]
    some, none = [[1.0, 3.0], [1.0, np.nan]], [[np.nan] * 2] * 2
    ended = "interrupted: the means are over the replicas that had finished"
    shifts = "this shifts means of what has finished by 0.05 standard errors at most"
    assert remarks(some, truncation=kept, interrupted=True) == [f"{words}; {shifts}", ended]
    assert remarks(none, interrupted=True) == ["interrupted before any replica had finished"]
    assert remarks([[1.0, np.inf], [np.inf, 2.0]]) == ["2 replicas diverged (beyond the range of float32)"]
    assert remarks(risk) == []


def test_rounding_and_unfinished_replicas_are_part_of_a_score():
    """1e-6 in float32 and 1e-11 in float64; where there are zeros alone the unit is 1."""
    for dtype, size in (("float32", 1e-6), ("float64", 1e-11)):
        found = simulation([4.0, 4.0, np.nan], dtype, interrupted=True)
        assert found.z_score(4.0 * (1 - 2 * size)) == pytest.approx(2, rel=1e-3)
        spread = simulation([1.0 - size, 1.0 + size], dtype)
        assert spread.z_score(1 + 3 * size) == pytest.approx(-3 / np.sqrt(2), rel=1e-3)
    assert simulation([0.0, 0.0]).z_score(1.0) == -np.inf
    three = simulation([1.0, 2.0, 6.0, np.nan, np.nan], "float64", interrupted=True)
    assert three.normal_score(2.0) == pytest.approx(float(simulation([1.0, 2.0, 6.0], "float64").normal_score(2.0)))
