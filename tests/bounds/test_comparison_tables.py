"""Extremes of a comparison where a bound applies in places, and what the results of this wing print."""

import numpy as np
import pytest

import sgdtheory as st

PROBLEM = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)


class Partly:
    """A bound of 1, 4, 2, … that does not apply at the first setting."""

    def __init__(self, values, applies):
        self.total, self.applies = np.array(values), np.array(applies)


def compared(applies, values=(1.0, 4.0, 2.0)):
    bound = lambda *_, **__: Partly(values, applies)  # noqa: E731
    return st.compare(bound, [st.Setting(PROBLEM, 2, 0.1, [20, 40, 80])])


def test_extremes_are_those_where_a_bound_applies():
    found = compared([False, True, True])
    assert found.lowest == min(found.ratio[1:])
    assert found.highest == max(found.ratio[1:])
    assert {found.lowest_at.num_samples, found.highest_at.num_samples} == {40, 80}
    columns = {each.name: each.value for each in found.sheet().tables[0].quantities}
    assert columns["extreme"] == ["lowest", "highest"]
    assert columns["ratio"] == [found.lowest, found.highest]
    assert columns["num_samples"] == [found.lowest_at.num_samples, found.highest_at.num_samples]
    assert (columns["batch_size"], columns["learning_rate"]) == ([2, 2], [0.1, 0.1])
    assert columns["problem"][0] == "eigenvalues [1.0, 0.5], signal [1.0, 1.0], noise variance 1.0"
    assert found.sheet().title == "2 of 3 settings meet the bound's conditions"
    nowhere = compared([False] * 3, (np.nan, -1.0, 2.0))
    assert np.isnan([nowhere.lowest, nowhere.highest]).all()
    assert nowhere.sheet().title.startswith("0 of 3")
    with pytest.raises(ValueError, match="applies at none of the settings"):
        _ = nowhere.lowest_at
    with pytest.raises(ValueError, match="not negative, got -1.0"):
        compared([False, True, True], (np.nan, -1.0, 2.0))


def test_problems_in_words():
    many = st.LeastSquares(np.arange(5.0, 0, -1), np.ones(5), noise_variance=0.5)
    four = st.LeastSquares(np.arange(4.0, 0, -1), np.ones(4), noise_variance=0.5)
    for problem, words in (
        (st.PowerLaw(2.0, 3.0), repr(st.PowerLaw(2.0, 3.0))),
        (many, "5 directions, noise variance 0.5"),
        (four, "eigenvalues [4.0, 3.0, 2.0, 1.0], signal [1.0, 1.0, 1.0, 1.0], noise variance 0.5"),
    ):
        found = st.bounds.certify(lambda *_, **__: 1.0, (problem, 1, 0.01, 2), width=0.5)
        assert str(found).splitlines()[0] == f"problem      {words}"
        dim = "∞" if problem.dim is None else problem.dim
        assert f"at d = {dim}, B = 1, γ = 0.01, n = 2" in found.attained


def test_tables_of_bounds():
    setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": [100.0, 1e4]}
    bound = st.theorem7(PROBLEM, **setting)
    columns = {each.name: each.value for each in bound.sheet().tables[0].quantities}
    for name in ("effective_dimension", "bias_head", "bias_tail", "variance_head", "variance_tail", "applies"):
        np.testing.assert_array_equal(columns[name], getattr(bound, name))
    np.testing.assert_array_equal(columns["bound"], bound.total)
    best = st.bounds.best(PROBLEM, **setting)
    columns = {each.name: each.value for each in best.sheet().tables[0].quantities}
    for name in ("lower", "lower_name", "upper", "upper_name"):
        np.testing.assert_array_equal(columns[name], getattr(best, name))
    catalogue = st.bounds.catalogue()
    columns = {each.name: each.value for each in catalogue.sheet().tables[0].quantities}
    for name in ("name", "side", "iterate", "standing", "source"):
        assert columns[name] == [getattr(each, name) for each in catalogue]
