"""Certificates against recursions of dense second moments in 60 digits, which share no code with them."""

import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.bounds.certificate import _next_order
from tests import oracle

PROBLEM = st.LeastSquares([1.0, 0.37], [0.8, 1.3], noise_variance=0.7)
AVERAGES = {"all": st.UniformAverage(), "tail": st.TailAverage(0.4), "last": st.LastIterate()}


def dense_risk(problem, batch, rate, first, steps, fourth=True):
    """E δδᵀ, E δSᵀ and E SSᵀ as d × d matrices in a turned basis; without `fourth`, data without fourth moments."""
    eigenvalues, signal = problem.directions()
    rate, noise = mpmath.mpf(rate), mpmath.mpf(problem.noise_variance)
    cosine, sine = mpmath.mpf(3) / 5, mpmath.mpf(4) / 5
    turn = mpmath.matrix([[cosine, -sine], [sine, cosine]])
    spectrum = mpmath.diag([mpmath.mpf(float(value)) for value in eigenvalues])
    start = mpmath.diag([mpmath.sqrt(mpmath.mpf(float(s)) / mpmath.mpf(float(x))) for s, x in zip(signal, eigenvalues)])
    H = turn * spectrum * turn.T
    delta = turn * start * mpmath.matrix([1, 1])
    M, cross, square = delta * delta.T, mpmath.zeros(2, 2), mpmath.zeros(2, 2)
    shrink = mpmath.eye(2) - rate * H
    for step in range(steps):
        if step >= first:
            square = square + cross + cross.T + M
            cross = shrink * (cross + M)
        scatter = H * M * H + trace(H * M) * H if fourth else 0 * H
        M = shrink * M * shrink + rate**2 / batch * (scatter + noise * H)
    return trace(H * M) if first == steps else trace(H * square) / (steps - first) ** 2


def trace(matrix):
    return matrix[0, 0] + matrix[1, 1]


def inside(value, enclosure):
    """Return whether 60 digits lie between the ends, up to their own rounding."""
    ends = [mpmath.mpf(end.numerator) / end.denominator for end in (enclosure.lower, enclosure.upper)]
    slack = abs(value) * mpmath.mpf(10) ** -55
    return ends[0] - slack <= value <= ends[1] + slack


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.parametrize("batch", [1, 3])
def test_exact_risk_is_that_of_dense_moments(name, batch):
    steps, rate = 7, 0.2
    algorithm = st.Algorithm(average=AVERAGES[name])
    first = {"all": 0, "tail": 4, "last": 7}[name]
    with mpmath.workdps(60):
        found = st.bounds.certify(lambda *_, **__: 0.5, (PROBLEM, batch, rate, batch * steps), algorithm=algorithm)
        assert found.exact.width < 1e-30
        assert inside(dense_risk(PROBLEM, batch, rate, first, steps), found.exact)
        assert not inside(dense_risk(PROBLEM, batch, rate, first, steps, fourth=False), found.exact)
        assert not inside(dense_risk(PROBLEM, batch + 1, rate, first, steps), found.exact)
        assert inside(2 * dense_risk(PROBLEM, batch, rate, first, steps), found.ratio)


def test_bound_is_the_printed_formula():
    """Bach & Moulines's theorem in 60 digits: R² = tr H + 2λ_1, twice ½(σ√d/(1 − √(γR²)) + R‖δ‖/√(γR²))²/n."""
    with mpmath.workdps(60):
        found = st.bounds.certify(st.bounds.bach_moulines_2013, (PROBLEM, 1, 0.2, 7))
        eigenvalues, signal = ([mpmath.mpf(float(x)) for x in part] for part in PROBLEM.directions())
        rate, noise = mpmath.mpf(0.2), mpmath.mpf(0.7)
        distance = sum(s / x for s, x in zip(signal, eigenvalues))
        root = mpmath.sqrt(rate * (sum(eigenvalues) + 2 * eigenvalues[0]))
        bound = (mpmath.sqrt(2 * noise) / (1 - root) + mpmath.sqrt(distance / rate)) ** 2 / 7
        assert inside(bound, found.bound)
        assert inside(dense_risk(PROBLEM, 1, 0.2, 0, 7) / bound, found.ratio)
        assert found.ratio.digits == 30
        assert "(certain to 30 digits) at d = 2, B = 1, γ = 0.2, n = 7: the bound holds" in found.proves


@pytest.mark.parametrize("steps", [1, 2, 37, 10**12])
@pytest.mark.parametrize("name", AVERAGES)
def test_long_runs(steps, name):
    """Binary powers, up to 10¹² steps, by bias and variance that add up."""
    problem = st.LeastSquares([1.0, 0.37, 0.01], [0.8, 1.3, 0.2], noise_variance=0.7)
    algorithm = st.Algorithm(average=AVERAGES[name])
    setting = (problem, 2, 0.3, 2 * steps)
    parts = {
        quantity: st.bounds.certify(lambda *_, **__: 1.0, setting, quantity=quantity, algorithm=algorithm).exact
        for quantity in ("total", "bias", "variance")
    }
    exact = st.excess_risk(problem, batch_size=2, learning_rate=0.3, num_samples=2 * steps, algorithm=algorithm)
    for quantity, found in parts.items():
        assert float(found) == pytest.approx(getattr(exact, quantity), rel=1e-11, abs=1e-300)
        assert found.width < 1e-30 or found.upper < Fraction(1, 2**8000)
    assert parts["bias"].lower + parts["variance"].lower <= parts["total"].upper
    assert parts["bias"].upper + parts["variance"].upper >= parts["total"].lower


def test_long_runs_equal_powers_of_the_map_of_moments():
    problem = st.LeastSquares([1.0, 0.37, 0.01], [0.8, 1.3, 0.2], noise_variance=1.0)
    found = st.bounds.certify(lambda *_, **__: 1.0, (problem, 2, 0.3, 2e6)).exact
    bias, variance = oracle.parts(problem, st.Algorithm(), [(2, 0.3, 10**6)])
    with mpmath.workdps(120):
        assert inside(mpmath.mpf((bias + variance).mid().str(110, radius=False)), found)


@pytest.mark.parametrize(("capacity", "source", "batch", "rate"), [(2.0, 3.0, 4, 0.4), (1.2, 2.5, 1, 0.1)])
def test_infinitely_many_directions(capacity, source, batch, rate):
    """Against polynomials in λ and the zeta function, with a control: other exponents fall outside."""
    steps = 6
    problem = st.PowerLaw(capacity, source, noise_variance=1.0)
    found = st.bounds.certify(lambda *_, **__: 1.0, (problem, batch, rate, batch * steps), width=1e-12).exact
    assert found.width < 1e-12
    with mpmath.workdps(60):
        assert inside(sum(oracle.infinite_power_law_risk(capacity, source, batch, rate, steps)), found)
        assert not inside(sum(oracle.infinite_power_law_risk(capacity, source + 1e-6, batch, rate, steps)), found)


@pytest.mark.parametrize(
    ("width", "wanted", "num_nodes", "expected"),
    [
        (1.0, 0.9, 4, 3),  # one more at least
        (1.0, 1 / 400, 4, 5),  # 8³ = 512
        (1 / 8.1, 1 / 400, 4, 4),
        (1.0, 1e-28, 40, 9),  # 20 nodes for each order, and 200 take longer than 10 s
        (1.0, 1e-6, 4000, 2),
    ],
)
def test_the_next_order_is_as_high_as_needed_and_affordable(width, wanted, num_nodes, expected):
    """One order more narrows eightfold; seconds of binary powers are 2 log₂(n) N³ 2·10⁻⁸."""
    assert _next_order(2, width, wanted, num_nodes, 10**10) == expected


def test_equal_eigenvalues_are_one_node():
    """Against the same spectrum with eigenvalues that differ by 1e-12: the risk moves by no more than that."""
    setting = (1, 0.2, 40)
    equal = st.LeastSquares([1.0, 0.4, 0.4, 0.4], [0.8, 0.5, 1.1, 0.2], noise_variance=0.7)
    apart = st.LeastSquares([1.0, 0.4 + 1e-12, 0.4, 0.4 - 1e-12], [0.8, 0.5, 1.1, 0.2], noise_variance=0.7)
    found, other = (st.bounds.certify(lambda *_, **__: 1.0, (problem, *setting)).exact for problem in (equal, apart))
    assert float(found) == pytest.approx(float(other), rel=1e-11)
    exact = st.excess_risk(equal, batch_size=1, learning_rate=0.2, num_samples=40).total
    assert float(found) == pytest.approx(exact, rel=1e-12)


def test_long_lists_after_many_steps_are_grouped():
    """600 directions and 10⁶ steps: neither one by one nor by powers; against the exact risk in floats."""
    eigenvalues = np.geomspace(1.0, 1e-5, 600)
    problem = st.LeastSquares(eigenvalues, eigenvalues**0.7, noise_variance=2.0)
    found = st.bounds.certify(lambda *_, **__: 1.0, (problem, 64, 0.2, 64e6), width=1e-2).exact
    exact = st.excess_risk(problem, batch_size=64, learning_rate=0.2, num_samples=64e6).total
    assert found.lower < exact < found.upper
    assert 1e-12 < found.width < 1e-2


def test_power_law_settings_reach_the_width_that_is_asked_for():
    problem = st.PowerLaw(2.0, 3.0, noise_variance=2.0)
    setting = (problem, 16, 0.5, 16 * 300)
    exact = st.excess_risk(problem, batch_size=16, learning_rate=0.5, num_samples=4800).total
    for width in (1e-2, 1e-7):
        found = st.bounds.certify(st.theorem7, setting, width=width)
        assert found.exact.width <= width
        assert found.exact.lower <= exact * (1 + 1e-12)
        assert found.exact.upper >= exact * (1 - 1e-12)
        assert float(found.bound) == pytest.approx(
            st.theorem7(problem, batch_size=16, learning_rate=0.5, num_samples=4800).total, rel=1e-12
        )
        assert found.source == "zhang_2024"


@pytest.mark.parametrize("bound", st.bounds.catalogue(), ids=lambda bound: bound.name)
def test_every_published_bound_is_enclosed(bound):
    """The formula of its floats: value, and which conditions hold."""
    problems = st.LeastSquares([1.0, 0.5], [0.3, 0.2]), st.LeastSquares([1.0, 0.5, 0.0], [1.0, 0.5, 0.0], 0.0)
    if bound.name == "wu_2022":
        with pytest.raises(ValueError, match="certificates are for SGD with constant learning rate"):
            st.bounds.certify(bound, (problems[0], 1, 0.01, 501))
        return
    for problem in problems:
        for batch, rate, steps in ((1, 0.02, 501), (8, 0.15, 20)):
            value = bound(problem, batch_size=batch, learning_rate=rate, num_samples=batch * steps)
            found = st.bounds.certify(bound, (problem, batch, rate, batch * steps))
            assert (not found.doubts) == value.applies, found.doubts
            if value.applies:
                assert float(found.bound) == pytest.approx(value.total, rel=1e-12)
                assert found.bound.width < 1e-30


def test_a_violation_is_a_proof():
    wrong = st.bounds.certify(lambda *_, **__: 0.25, (PROBLEM, 1, 0.2, 7))
    assert wrong.violates
    assert wrong.proves.endswith("n = 7: the bound is violated")
    assert wrong.bound == st.bounds.Enclosure(Fraction(1, 4), Fraction(1, 4))
    assert "0.25  (the number returned)" in str(wrong)
    assert repr(wrong) == str(wrong)
    assert repr(wrong.bound) == "Enclosure(0.25)"


def mine(statement, side="upper", standing="verified", **conditions):
    """A published bound of one's own."""
    return st.bounds.PublishedBound(
        "mine",
        side,
        "",
        "",
        "",
        "",
        lambda asked: st.bounds.Statement(statement(asked), conditions),
        standing=standing,
    )


@pytest.mark.parametrize(
    ("side", "factor", "violates", "verdict"),
    [
        ("upper", 1.0, False, ": the bound holds"),
        ("upper", 0.5, True, ": the bound is violated"),
        ("lower", 2.0, True, ": the bound is violated"),
        ("lower", 1.0, False, ": the bound holds"),
        ("both", 0.5, False, "n = 1"),
        ("both", 2.0, False, "n = 1"),
    ],
)
def test_verdicts_after_one_step(side, factor, violates, verdict):
    """The risk is Σ s_i = 2, exactly."""
    setting = (st.LeastSquares([1.0, 0.5], [0.5, 1.5]), 1, 0.1, 1)
    found = st.bounds.certify(mine(lambda asked: factor * asked.spectrum.initial_risk, side), setting)
    assert found.exact == st.bounds.Enclosure(Fraction(2), Fraction(2))
    assert found.violates == violates
    assert found.proves.endswith(verdict)
    failing = st.bounds.certify(mine(lambda asked: factor * asked.spectrum.initial_risk, side, never=False), setting)
    assert not failing.violates
    assert failing.doubts == ("never does not hold",)
    order = st.bounds.certify(mine(lambda asked: factor * asked.spectrum.initial_risk, side, "order"), setting)
    assert not order.violates
    assert order.proves == order.attained
    assert order.proves.endswith("n = 1")


@pytest.mark.parametrize("bound", [st.bounds.jain_2017, st.bounds.zou_2021, st.theorem7])
def test_a_bound_on_another_algorithm_has_no_verdict(bound):
    """Whatever it comes to for the last iterate, of which it says nothing."""
    setting = (st.LeastSquares([1.0, 0.5], [0.5, 0.5], noise_variance=1.0), 1, 0.1, 1000)
    found = st.bounds.certify(bound, setting, algorithm=st.Algorithm(average=st.LastIterate()))
    assert not found.violates
    own = "TailAverage(fraction=0.5)" if bound is st.bounds.jain_2017 else "UniformAverage()"
    assert found.doubts[0] == f"the bound is about average={own}, not about average=LastIterate()"
    assert found.proves.startswith("nothing is proven")


@pytest.mark.parametrize("quantity", ["total", "bias", "variance"])
def test_theorem_7_has_no_verdict(quantity):
    """It has no constants: exact/bound is above 1 and below."""
    ratios = []
    for steps in (2, 30):
        found = st.bounds.certify(st.theorem7, (st.LeastSquares([1.0], [0.9]), 1, 0.49, steps), quantity=quantity)
        ratios.append(float(found.ratio))
        assert (found.side, found.standing) == ("both", "order")
        assert not found.violates
        assert found.proves == found.attained
    assert ratios[0] < 1 < ratios[1]


def test_a_setting_may_be_written_as_in_compare():
    plain = st.bounds.certify(st.bounds.jain_2017, (PROBLEM, 2, 0.1, 15))
    assert plain.setting == st.Setting(PROBLEM, 2, 0.1, 14)
    names = {"problem": PROBLEM, "batch_size": 2, "learning_rate": 0.1, "num_samples": 15}
    for other in (names, st.Setting(**names), [PROBLEM, 2, 0.1, np.array(15)]):
        assert st.bounds.certify(st.bounds.jain_2017, other) == plain


@pytest.mark.parametrize(
    ("bound", "options", "message"),
    [
        (3, {}, "bound must be a PublishedBound, theorem7 or a function, got 3"),
        (st.bounds.zou_2021_lower, {"quantity": "bias"}, "quantity must be total: zou_2021_lower is a bound on the"),
        (mine(lambda asked: asked.trace, "uper"), {}, r"side must be one of .* \(did you mean upper\?\)"),
        (mine(lambda asked: asked.trace, standing="ordre"), {}, r"standing must be one of .* \(did you mean order\?\)"),
        (st.theorem7, {"algorithm": st.LastIterate()}, "algorithm must be an Algorithm"),
    ],
)
def test_bounds_that_cannot_be_certified(bound, options, message):
    with pytest.raises(ValueError, match=message):
        st.bounds.certify(bound, (PROBLEM, 1, 0.1, 7), **options)


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_equality_that_no_precision_shows(side):
    setting = (st.LeastSquares([1.0, 0.5], [0.5, 1.5]), 1, 0.1, 1)
    found = st.bounds.certify(mine(lambda asked: np.sqrt(asked.spectrum.initial_risk) ** 2, side), setting)
    assert found.proves.endswith(": whether the bound holds here is not decided")
    assert not found.violates


def test_precision_is_raised_until_digits_are_certain_or_given_up():
    """e^−300 beside 1 takes 433 bits; e^−5000 more than are tried."""
    setting = (PROBLEM, 1, 0.1, 7)
    for exponent, width in ((10, 1e-30), (300, 1e-30), (5000, np.inf)):
        found = st.bounds.certify(mine(lambda asked, k=exponent: np.exp(-k * asked.batch) + 1 - 1), setting)
        assert found.bound.lower <= Fraction(str(mpmath.exp(-exponent))) * Fraction(1000001, 1000000)
        assert found.bound.upper >= Fraction(str(mpmath.exp(-exponent))) * Fraction(999999, 1000000)
        assert found.bound.width < width or found.bound.lower < 0
        assert (found.ratio is None) == (exponent == 5000)
    assert found.proves == "nothing is proven at d = 2, B = 1, γ = 0.1, n = 7: the bound may be 0"
    zero = st.bounds.certify(mine(lambda asked: 0 * asked.batch), setting)
    assert zero.ratio is None
    assert "exact/bound  not known" in str(zero)


def test_conditions_that_fail_prove_nothing():
    found = st.bounds.certify(st.bounds.bach_moulines_2013, (PROBLEM, 1, 0.4, 7))
    assert found.doubts == ("γ < 1/R² does not hold",)
    assert not found.violates
    assert found.proves == "nothing is proven at d = 2, B = 1, γ = 0.4, n = 7: γ < 1/R² does not hold"
    infinite = st.bounds.certify(st.bounds.bach_moulines_2013, (st.PowerLaw(2.0, 1.5), 1, 0.1, 7))
    assert infinite.bound is None
    assert infinite.ratio is None
    assert "infinite" in infinite.proves


def test_a_function_that_does_not_apply_proves_nothing():
    """Theorem 7's bias, whose conditions ask for a small signal."""
    setting = (st.LeastSquares([1.0], [2.0], noise_variance=1.0), 1, 0.1, 10)
    found = st.bounds.certify(st.theorem7, setting, quantity="bias")
    assert found.doubts == ("the function says that it does not apply",)
    assert not st.bounds.certify(st.theorem7, (st.LeastSquares([1.0], [0.5]), 1, 0.1, 10), quantity="bias").doubts


def test_an_effective_dimension_at_a_tie_is_not_decided():
    """λ_3 = 1/9 = 1/(nγ): no precision tells whether it is in the head; of λ_4 = 1/16, exact in binary, any does."""
    found = st.bounds.certify(st.bounds.zou_2021, (st.PowerLaw(2.0, 3.0), 1, 0.125, 128))
    assert found.bound is not None
    found = st.bounds.certify(st.bounds.zou_2021, (st.PowerLaw(2.0, 3.0), 1, 0.125, 72))
    assert "cannot be decided how many eigenvalues" in found.proves


def test_comparison_hands_over():
    settings = [st.Setting(PROBLEM, 1, [[0.05], [0.1], [0.2]], [7, 20])]
    result = st.compare(st.bounds.bach_moulines_2013, settings, certified=True)
    lowest, highest = result.certificates
    assert (float(lowest.ratio), float(highest.ratio)) == pytest.approx((result.lowest, result.highest), rel=1e-12)
    assert tuple(lowest.setting) == tuple(result.lowest_at)
    assert str(result.certificates).count("the bound holds") == 2
    assert st.compare(st.bounds.bach_moulines_2013, settings).certificates is None


def test_a_published_constant_is_tight():
    """With noise alone, small γ and many steps Jain et al.'s 1 is the constant: certified to within 6e-6."""
    problem = st.LeastSquares([1.0, 0.5], [0.0, 0.0])
    found = st.bounds.certify(st.bounds.jain_2017, (problem, 1, 1e-6, 1e12))
    assert 1 - Fraction(6, 10**6) < found.ratio.lower <= found.ratio.upper < 1


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((PROBLEM, 1, 0.1, 7), {"quantity": "mean"}, "quantity must be one of"),
        ((PROBLEM, 1, 0.1, 7), {"width": 0}, "width must be positive"),
        ((PROBLEM, 1, 0.1, 7), {"algorithm": st.Algorithm(schedule=st.Cosine())}, "certificates are for SGD with"),
        ((PROBLEM, 1, 0.1, 7), {"algorithm": st.Algorithm(method=st.Adam())}, "certificates are for SGD with"),
        ((PROBLEM, 2, 0.1, 1), {}, "num_samples must be at least batch_size"),
        ((PROBLEM, 1, [0.1, 0.2], 7), {}, "setting must be a single number"),
        ((3, 1, 0.1, 9), {}, "problem must be a PowerLaw, a LeastSquares or your own AbstractProblem, got 3"),
        ((PROBLEM, 1, 0.1), {}, r"setting must be \(problem, batch_size, learning_rate, num_samples\) or a mapping"),
        (3, {}, "setting must be .* got 3"),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        st.bounds.certify(lambda *_, **__: 1.0, arguments, **options)


def test_runs_that_diverge():
    found = st.bounds.certify(lambda *_, **__: 1.0, (PROBLEM, 1, 3.0, 100)).exact
    exact = st.excess_risk(PROBLEM, batch_size=1, learning_rate=3.0, num_samples=100).total
    assert float(found) == pytest.approx(exact, rel=1e-10)
    with pytest.raises(ValueError, match=r"the exact risk has no enclosure: the value is beyond 2\^8192"):
        st.bounds.certify(lambda *_, **__: 1.0, (PROBLEM, 1, 3.0, 1e6))


def test_a_formula_that_asks_for_floats_loses_no_proof():
    def statement(asked):
        return st.bounds.Statement(float(asked.trace), {})

    bound = st.bounds.PublishedBound("mine", "upper", "", "", "", "", statement)
    with pytest.raises(ValueError, match="mine uses a function that has no enclosure"):
        st.bounds.certify(bound, (PROBLEM, 1, 0.1, 7))


def test_bounds_that_are_no_number_are_refused():
    for value in (np.inf, np.nan, -1.0):
        with pytest.raises(ValueError, match="bound must return a finite number"):
            st.bounds.certify(lambda *_, value=value, **__: value, (PROBLEM, 1, 0.1, 7))


def test_without_flint_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(ImportError, match="pip install 'python-flint>=0.7'"):
        st.bounds.certify(st.theorem7, (PROBLEM, 1, 0.1, 7))
