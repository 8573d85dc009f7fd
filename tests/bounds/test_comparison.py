import numpy as np
import pytest

import sgdtheory as st

PROBLEM = st.PowerLaw(2.0, 3.0, noise_variance=2.0)


def test_ratio_extremes_and_where():
    samples = np.array([1e2, 1e4, 1e6])
    comparison = st.compare(st.theorem7, [(PROBLEM, 1, 0.1, samples), (PROBLEM, 16, [[0.1], [0.2]], samples)])
    assert comparison.ratio.shape == (9,)
    exact = st.excess_risk(PROBLEM, batch_size=16, learning_rate=0.2, num_samples=1e4).total
    bound = st.theorem7(PROBLEM, batch_size=16, learning_rate=0.2, num_samples=1e4).total
    assert comparison.ratio[7] == pytest.approx(exact / bound, rel=1e-11)
    assert comparison.settings[7] == st.Setting(PROBLEM, 16.0, 0.2, 1e4)
    assert comparison.lowest == comparison.ratio.min()
    assert comparison.highest == comparison.ratio.max()
    assert comparison.settings[comparison.ratio.argmin()] == comparison.lowest_at
    assert comparison.settings[comparison.ratio.argmax()] == comparison.highest_at


def test_a_users_own_bound_and_every_form_of_setting():
    def my_bound(problem, *, batch_size, learning_rate, num_samples):
        return problem.initial_risk + 0.0 * num_samples

    setting = {"problem": PROBLEM, "batch_size": 1, "learning_rate": 0.1, "num_samples": 100.0}
    ratios = [st.compare(my_bound, [form]).ratio for form in (setting, tuple(setting.values()), st.Setting(**setting))]
    np.testing.assert_array_equal(ratios[0], ratios[1])
    np.testing.assert_array_equal(ratios[0], ratios[2])


def test_bound_and_risk_speak_of_the_same_run():
    """B does not divide D: both sides are taken at the B⌊D/B⌋ samples used, and the points say so."""
    asked = []

    def steps_bound(problem, *, batch_size, learning_rate, num_samples):
        asked.append(num_samples)
        return batch_size / num_samples

    ragged, whole = [10, 19, 20, 29.5, 1999], [10, 10, 20, 20, 1990]
    for bound in (steps_bound, st.theorem7):
        found, expected = (st.compare(bound, [(PROBLEM, 10, 0.2, samples)]) for samples in (ragged, whole))
        np.testing.assert_array_equal(found.ratio, expected.ratio)
        assert [setting.num_samples for setting in found.settings] == whole
    np.testing.assert_array_equal(asked[0], whole)


def test_bound_and_risk_of_many_workers_speak_of_the_same_run():
    """A step of K workers takes K·B samples: three of four workers are 12 with B = 1, and 13 to 15 are no more."""
    local = st.Algorithm(st.LocalSGD(4, 2))
    found = st.compare(lambda problem, **run: run["num_samples"], [(PROBLEM, 1, 0.1, [12, 15])], algorithm=local)
    np.testing.assert_array_equal(found.bound, [12, 12])
    assert found.exact[0] == found.exact[1]


def test_a_bound_may_be_zero():
    """It is exceeded without limit; where the risk is 0 as well there is nothing to compare."""
    found = st.compare(lambda *_, **__: 0.0, [(PROBLEM, 1, 0.1, [1, 100])])
    assert (found.highest, found.lowest) == (np.inf, np.inf)
    none = st.compare(lambda *_, **__: [0.0, 1.0], [(PROBLEM, 1, 0.1, [1, 2])], quantity="variance")
    assert np.isnan(none.ratio[0])
    assert none.lowest == none.highest == none.ratio[1] > 0


def test_quantities_add_up():
    settings = [st.Setting(PROBLEM, 4, 0.3, [40, 4e5])]
    bias, variance, total = (
        st.compare(lambda *_, **__: 1.0, settings, quantity=q) for q in ("bias", "variance", "total")
    )
    np.testing.assert_allclose(bias.ratio + variance.ratio, total.ratio, rtol=1e-15)


def test_a_quantity_is_compared_with_its_own_part_of_the_bound():
    settings = [st.Setting(PROBLEM, 4, 0.3, np.array([40.0, 4e5]))]
    risk = st.excess_risk(PROBLEM, batch_size=4, learning_rate=0.3, num_samples=[40, 4e5])
    bound = st.theorem7(PROBLEM, batch_size=4, learning_rate=0.3, num_samples=[40, 4e5])
    for quantity in ("bias", "variance", "total"):
        expected = getattr(risk, quantity) / getattr(bound, quantity)
        np.testing.assert_allclose(st.compare(st.theorem7, settings, quantity=quantity).ratio, expected, rtol=1e-11)


@pytest.mark.parametrize("quantity", ["total", "bias", "variance"])
def test_a_bound_without_the_quantity_hears_its_name(quantity):
    with pytest.raises(ValueError, match=rf"shape \(2,\) or an object with such a \.{quantity}, got <object"):
        st.compare(lambda *_, **__: object(), [(PROBLEM, 1, 0.1, [10, 20])], quantity=quantity)


def test_a_wrong_bound_is_caught():
    """Negative control: a bound with the variance left out is off without limit."""
    settings = [st.Setting(PROBLEM, 1, 0.25, np.geomspace(10, 1e9, 9))]
    right = st.compare(st.theorem7, settings)
    wrong = st.compare(lambda problem, **setting: st.theorem7(problem, **setting).bias, settings)
    assert right.highest < 2
    assert wrong.highest > 1e3


def misspelt(problem, **setting):
    return 1.0


misspelt.side = "uper"


def shortened(problem, B, lr, D):
    return 1.0


def of_a_list(problem, **setting):
    return problem.eigenvalues.sum()


def test_one_setting_alone():
    setting = st.Setting(PROBLEM, 1, 0.1, 10)
    for alone in (setting, setting._asdict()):
        assert st.compare(st.theorem7, alone).lowest == st.compare(st.theorem7, [setting]).lowest


def test_a_bound_that_needs_a_list_of_directions_is_told_so():
    with pytest.raises(AttributeError) as caught:
        st.compare(of_a_list, [(st.PowerLaw(2.0, 3.0), 1, 0.1, 10)])
    assert "power_laws=False" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("bound", "settings", "options", "message"),
    [
        (st.theorem7, [], {}, "settings must hold at least one setting"),
        (st.theorem7, [(PROBLEM, 1)], {}, "each of settings must be"),
        (st.theorem7, [3], {}, "each of settings must be"),
        (st.theorem7, [{"problem": PROBLEM, "batch": 1}], {}, "each of settings must be"),
        (st.theorem7, [(PROBLEM, 1, 0.1, 10)], {"quantity": "mean"}, "quantity must be 'total', 'bias' or 'variance'"),
        (lambda *_, **__: np.ones(5), [(PROBLEM, 1, 0.1, [1, 2])], {}, r"bound must return .* shape \(2,\)"),
        (lambda *_, **__: "big", [(PROBLEM, 1, 0.1, [1, 2])], {}, "bound must return"),
        (lambda *_, **__: [np.nan, 1], [(PROBLEM, 1, 0.1, [1, 2])], {}, "bound must return .* not negative, got nan"),
        (lambda *_, **__: -1.0, [(PROBLEM, 1, 0.1, [1, 2])], {}, "bound must return .* not negative, got -1.0"),
        (lambda *_, **__: None, [(PROBLEM, 1, 0.1, [1, 2])], {}, "bound must return"),
        (shortened, [(PROBLEM, 1, 0.1, 10)], {}, r"bound\(problem, batch_size=B.* got shortened\(problem, B, lr, D\)"),
        (3, [(PROBLEM, 1, 0.1, 10)], {}, "compare takes a bound, which is a function"),
        (st.theorem7, 5, {}, "compare takes a bound"),
        (
            misspelt,
            [(PROBLEM, 1, 0.1, 10)],
            {},
            "side must be one of upper, lower, both, got uper",
        ),
        (
            st.theorem7,
            [("x", 1, 0.1, 10)],
            {},
            "problem must be a PowerLaw, a LeastSquares or your own AbstractProblem, got 'x'",
        ),
        (st.theorem7, [(PROBLEM, 0, 0.1, 10)], {}, "batch_size must be a whole number"),
    ],
)
def test_bad_input(bound, settings, options, message):
    with pytest.raises(ValueError, match=message):
        st.compare(bound, settings, **options)
