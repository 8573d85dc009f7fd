import math

import mpmath
import numpy as np
import pytest
from numpy.polynomial import legendre

import sgdtheory as st
from sgdtheory.problems.modes import (
    _STIRLING,
    EXACT,
    TAIL_NODES,
    _block_rule,
    _end_slopes,
    power_law_modes,
    rule_within,
    tail_rule,
)
from sgdtheory.problems.power_sums import MIDPOINT_COEFFICIENTS
from sgdtheory.risk.solvers.contour import CONTOUR
from tests.marks import slow

DIM = 50_000


def test_derivatives_by_the_logarithm():
    """f = x^−p: x^r f^(r)/f = (−1)^r p (p+1) … (p+r−1), and d^k f/d(log x)^k = (−p)^k f."""
    for order, row in _STIRLING.items():
        for power in range(1, 8):
            rising = math.prod(range(power, power + order))
            assert sum(entry * (-power) ** k for k, entry in enumerate(row)) == (-1) ** order * rising


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_slopes_at_the_ends_of_a_block(side):
    nodes, _ = legendre.leggauss(EXACT.nodes)
    for power in range(EXACT.nodes):
        exact = [math.perm(power, k) * side ** max(power - k, 0) if k <= power else 0.0 for k in range(6)]
        np.testing.assert_allclose(
            _end_slopes(side, EXACT.nodes) @ nodes**power, exact, rtol=1e-8, atol=1e-8 * math.perm(15, 5)
        )


@pytest.mark.parametrize("power", [1.5, 3.0])
@pytest.mark.parametrize(("first", "end"), [(6, 60), (10, 700), (64, 128), (64, 10**7)])
def test_a_sum_by_blocks_is_off_by_the_next_term_of_the_series(power, first, end):
    """Σ i^−p over first ≤ i < end: Euler–Maclaurin terms up to the fifth derivative, and nothing else is missing."""
    nodes, weights = _block_rule(end, 2.0, EXACT._replace(leading=first))
    exact = float(mpmath.zeta(power, first) - mpmath.zeta(power, end))
    rising = math.prod(power + j for j in range(7))
    missing = [MIDPOINT_COEFFICIENTS[3] * rising * (place - 0.5) ** -(power + 7) for place in (first, end)]
    error = exact - (weights @ nodes**-power + missing[0] - missing[1])
    assert abs(error) < 0.25 * abs(missing[0] - missing[1]) + 4e-14 * exact
    without = exact - weights @ nodes**-power  # negative control: where the next term is large, it shows
    assert first > 10 or abs(without) > 2 * abs(error)


@pytest.mark.parametrize(("first", "last"), [(128, 130), (128, 10**4), (500, math.inf)])
def test_a_tail_holds_every_power_of_the_eigenvalue(first, last):
    tail = tail_rule(1.3, 2.2, first, last)
    for power in range(8):
        for weights, exponent in ((tail.multiplicity * tail.eigenvalue, 1.3), (tail.signal, 2.2)):
            total = exponent + 1.3 * power
            exact = mpmath.zeta(total, first) - (0 if last == math.inf else mpmath.zeta(total, last + 1))
            assert weights @ tail.eigenvalue**power == pytest.approx(float(exact), rel=1e-9), (power, exponent)
    assert tail.eigenvalue.min() > 0
    assert tail.eigenvalue.max() == pytest.approx(first**-1.3, rel=1e-14)


@pytest.mark.parametrize(("dim", "kept"), [(1, 1), (127, 127), (128, 63), (129, 63), (None, 63)])
def test_leading_directions_are_kept_one_by_one(dim, kept):
    modes = power_law_modes(1.4, 2.3, dim, -9)
    index = np.arange(1.0, kept + 1)
    np.testing.assert_allclose(modes.eigenvalue[:kept], index**-1.4, rtol=1e-15)
    np.testing.assert_array_equal(modes.multiplicity[:kept], 1.0)
    np.testing.assert_allclose(modes.signal[:kept], index**-2.3, rtol=1e-15)
    assert modes.eigenvalue.size == kept or (modes.eigenvalue[kept:] < 64**-1.39).all()


def transforms(eigenvalue, multiplicity, signal, num_steps, rate, batch):
    """The four sums over directions of (E2) and (E3), at every point of the contour."""
    x = rate * eigenvalue
    v, q = x**2 / batch, 1 - x
    sums = []
    for p in CONTOUR.points / num_steps:
        z = np.exp(-p)
        gap = -np.expm1(-p) + x * (2 - x - x / batch) * z  # 1 − αz
        slow = (1 + q * z) / (-np.expm1(-p) + x * z)
        fast = -np.expm1(-p) + x * (2 - x) * z
        sums.append([multiplicity @ (v / gap), signal @ (1 / gap), multiplicity @ (v * slow / gap)])
        sums[-1].append(signal @ (v * slow / gap / fast))
    return np.array(sums)


@pytest.mark.parametrize("capacity", [1.05, slow(1.5), slow(2.0), slow(4.0)])
@pytest.mark.parametrize("source", [1.05, slow(3.0), 8.0])
def test_modes_equal_the_sum_over_all_directions(capacity, source):
    """Errors at each point of the contour count by that point's weight in the integral."""
    index = np.arange(1.0, DIM + 1)
    everything = index**-capacity, np.ones(DIM), index**-source
    weight = np.abs(CONTOUR.weights)[:, None]
    for num_steps, rate, batch in [(40, 1.0, 16), (1e4, 0.5, 64), (1e6, 0.1, 1e4), (1e9, 1.0, 1e6), (1e12, 1.0, 1.5e3)]:
        modes = power_law_modes(capacity, source, DIM, int(np.floor(np.log2(0.5 / (num_steps * rate)))))
        exact = transforms(*everything, num_steps, rate, batch)
        found = transforms(modes.eigenvalue, modes.multiplicity, modes.signal, num_steps, rate, batch)
        error = weight * np.abs(found - exact) / (weight[0] * np.abs(exact[0]))
        assert error.max() < 5e-12, (num_steps, rate, batch, error.max(0))
        assert modes.eigenvalue.size < 400


@pytest.mark.parametrize("tolerance", [1e-6, 1e-3])
def test_fewer_modes_within_a_tolerance(tolerance):
    """The light rule keeps its word, with half as many modes, and is worse than the exact one (control)."""
    num_steps, rate, batch = 1e9, 1.0, 1e6
    modes, exact = (st.PowerLaw(1.5, 3.0, DIM).modes(0.5 / num_steps, allowed) for allowed in (tolerance, 0.0))
    found, truth = (transforms(m.eigenvalue, m.multiplicity, m.signal, num_steps, rate, batch) for m in (modes, exact))
    weight = np.abs(CONTOUR.weights)[:, None]
    error = (weight * np.abs(found - truth) / (weight[0] * np.abs(truth[0]))).max()
    assert 1e-12 < error < tolerance
    assert modes.eigenvalue.size < 0.6 * exact.eigenvalue.size


@pytest.mark.parametrize(("capacity", "source"), [(1.1, 1.5), (2.0, 5.0), (4.078, 6.507), (4.573, 8.364), (6.0, 12.0)])
@pytest.mark.parametrize("horizon", [1e3, 1e6, 1.345e8, 1.07845e9, 1e12])
def test_risk_of_the_mean(capacity, source, horizon):
    """Σ s_i [(1 − e^−X_i)/X_i]², X_i = nγλ_i: the function that decays fastest in log λ, so the hardest one."""
    index = np.arange(1.0, DIM + 1)
    modes = power_law_modes(capacity, source, DIM, int(np.floor(np.log2(0.5 / horizon))))

    def shrink(eigenvalue):
        x = np.maximum(horizon * eigenvalue, 1e-300)
        return (np.expm1(-x) / x) ** 2

    exact = np.sort(index**-source * shrink(index**-capacity)).sum()
    assert modes.signal @ shrink(modes.eigenvalue) == pytest.approx(exact, rel=2e-12)


def test_few_directions_are_kept_one_by_one():
    modes = power_law_modes(2.0, 3.0, 10, -20)
    np.testing.assert_array_equal(modes.eigenvalue, np.arange(1.0, 11) ** -2.0)
    np.testing.assert_array_equal(modes.multiplicity, np.ones(10))


@pytest.mark.parametrize("dim", [127, 128, 129, 200, 1000, 12345, 10**9, None])
def test_sums_of_powers(dim):
    """Trace, squares and signal through modes of any dimension, against a slow sum or the zeta function."""
    modes = power_law_modes(1.3, 2.2, dim, -10)
    last = 10**7 if dim is None or dim > 10**7 else dim
    index = np.arange(1.0, last + 1)
    beyond = {1.3: 0.0, 2.2: 0.0}
    if last != dim:
        end = np.inf if dim is None else dim + 0.5
        beyond = {e: ((last + 0.5) ** (1 - e) - end ** (1 - e)) / (e - 1) for e in beyond}
    assert modes.multiplicity @ modes.eigenvalue == pytest.approx((index**-1.3).sum() + beyond[1.3], rel=1e-12)
    assert modes.multiplicity @ modes.eigenvalue**2 == pytest.approx((index**-2.6).sum(), rel=1e-11)
    assert modes.signal.sum() == pytest.approx((index**-2.2).sum() + beyond[2.2], rel=1e-12)


@pytest.mark.parametrize("tolerance", [0.0, 1e-8, 1e-6, 1e-4])
def test_lists_of_less_than_two_leading_parts_stay_and_tails_begin_with_the_second(tolerance):
    """The rules for less accuracy have fewer directions that are modes of their own."""
    leading = {0.0: 64, 1e-8: 24, 1e-6: 20, 1e-4: 12}[tolerance]
    for dim in (2 * leading - 1, 2 * leading):
        modes = st.PowerLaw(1.4, 2.3, dim).modes(1.0, tolerance)
        listed = np.arange(1.0, dim + 1) ** -1.4
        alike = modes.eigenvalue.size == dim and np.allclose(modes.eigenvalue, listed, rtol=1e-12)
        assert alike == (dim < 2 * leading)
    endless = st.PowerLaw(1.4, 2.3).modes(1.0, tolerance).eigenvalue
    assert endless[-TAIL_NODES:].max() == pytest.approx((2.0 * leading) ** -1.4, rel=1e-12)
    np.testing.assert_allclose(endless[: leading - 1], np.arange(1.0, leading) ** -1.4, rtol=1e-12)
    assert rule_within(10 * tolerance) == rule_within(tolerance)
    assert rule_within(1e-9) == rule_within(0.0) == EXACT
