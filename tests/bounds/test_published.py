"""Published bounds: special cases written out, conditions, whether they hold, and wrong ones that do not."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import DEFAULT

bounds = st.bounds
NAMES = [bound.name for bound in bounds.catalogue()]
SIDED = [bound for bound in bounds.catalogue() if bound.side != "both"]
h, s, rate, n = 0.8, 0.3, 0.1, 1000.0  # one direction
ONE = st.LeastSquares([h], [s], noise_variance=0.0)
NOISE = st.LeastSquares([h], [0.0], noise_variance=0.7)
EDGE = 3 * h * rate  # γR²


def at(bound, problem, batch=1, steps=n, gamma=rate):
    return bound(problem, batch_size=batch, learning_rate=gamma, num_samples=steps * batch).total


# In one direction, B = 1: what a theorem says of bias and of noise, by its text, twice where f is half of the risk.
SPECIAL = {
    "bach_moulines_2013": (s / h / (rate * n), 0.7 / n / (1 - EDGE**0.5) ** 2),
    "bach_2024": (s / h / (rate * n), rate * 0.7 * h),
    "defossez_bach_2015": (
        s / h**2 / (rate * n) ** 2 * (2 - rate * h) / (2 - EDGE),
        0.7 / n * (2 - rate * h) / (2 - EDGE),
    ),
    "dieuleveut_2017": (2 * s / h**2 / rate**2 * (3 / (n - 1) ** 2 + 3 / n**2), 12 * 0.7 / n),
    "jain_2017": (np.exp(-rate * h * n / 2) * 3 * h * s / h, (1 + EDGE / (1 - EDGE)) * 0.7 / (n / 2)),
    "jain_2018": (2 * (1 - rate * h) ** (n / 2) * s / (rate * h * n / 2) ** 2, 4 * 0.7 / (n / 2)),
    "zou_2021": (4 * s / h**2 / (rate * n) ** 2 * (1 + 6 * rate * h / (1 - EDGE)), 4 * 0.7 / n / (1 - EDGE)),
    "zou_2021_lower": (2 * (s / h**2 / (rate * n) ** 2 / 100 + s / h / (rate * n) / 1000 / n), 0.7 / n / 25),
    "zou_2021_tail": (
        4 * (s * (1 - rate * h) ** n / (rate * h * n / 2) ** 2 + 12 * s / h / (rate * n / 2) / (1 - EDGE) / (n / 2)),
        4 * 0.7 / (1 - EDGE) / (n / 2),
    ),
    "varre_2021": (s / h / rate * n ** (EDGE - 1), 0.0),
    "wu_2022": (
        s * (1 - rate * h) ** (2 * 550) / (rate * h * 50) + 3 * np.log(550) * s / h / (550 * rate) / 50,
        0.7 / 50,
    ),
    "zhang_2024": (s / h**2 / (rate * n) ** 2, 0.7 / n),
}


@pytest.mark.parametrize("name", NAMES)
def test_one_direction_as_written_in_the_source(name):
    bound = getattr(bounds, name)
    bias, variance = SPECIAL[name]
    assert at(bound, ONE) == pytest.approx(bias, rel=1e-12)
    assert at(bound, NOISE) == pytest.approx(variance, rel=1e-12)


# Eigenvalues and signal in the head of all sums, between the two effective dimensions, and in the tail.
SIZES = [0.9, 0.5, 0.2, 0.004, 0.003, 2e-4, 1e-5]
SIGNALS = [0.3, 0.05, 0.4, 0.02, 0.3, 0.01, 0.2]
PAIRS = list(zip(SIZES, SIGNALS))
SIGMA2, GAMMA = 0.7, 0.07


def sums_of_zou(steps, batch):
    """EffBias, what the start adds to the noise, and K, summed direction by direction."""
    time = steps * GAMMA
    bias = sum(s * min(1, 1 / (time * h)) ** 2 if h * time >= 1 else s for h, s in PAIRS)
    seen = sum(s / (h * time) if h * time >= 1 else s for h, s in PAIRS)
    learnt = sum(1 / steps if h * time >= 1 else steps * (GAMMA * h) ** 2 for h in SIZES)
    alpha = 3 if batch == 1 else 2 / batch
    return bias, seen, learnt, alpha, 1 - GAMMA * alpha * sum(SIZES)


def in_seven_directions(name, batch, steps):
    """The text of each theorem once more, in sums of Python over the directions; twice where f is half of the risk."""
    trace, noise = sum(SIZES), SIGMA2 / batch
    fourth = SIZES[0] + (trace + SIZES[0]) / batch  # R²
    distance = sum(s / h for h, s in PAIRS)
    bias, seen, learnt, alpha, rest = sums_of_zou(steps, batch)
    half, smallest = steps // 2, SIZES[-1]
    match name:
        case "bach_moulines_2013":
            root = (GAMMA * fourth) ** 0.5
            return ((7 * noise) ** 0.5 / (1 - root) + (distance / GAMMA) ** 0.5) ** 2 / steps
        case "bach_2024":
            return distance / GAMMA / steps + GAMMA * noise * trace
        case "defossez_bach_2015":  # T as a matrix
            drift = [2 * h - (1 + 1 / batch) * GAMMA * h * h for h in SIZES]
            operator = np.diag(drift) - GAMMA / batch * np.outer(SIZES, SIZES)
            source = [s / h / (GAMMA * steps) ** 2 + noise / steps * h for h, s in PAIRS]
            return (2 - GAMMA * np.array(SIZES)) @ np.linalg.solve(operator, source)
        case "dieuleveut_2017":
            far = sum(s / h**2 for h, s in PAIRS) / GAMMA**2
            return 2 * (3 * far / (steps - 1) ** 2 + 6 * SIGMA2 * 7 / steps + 3 * 7 * far / steps**2)
        case "jain_2017":
            start = np.exp(-GAMMA * smallest * half) * fourth * distance
            return (start**0.5 + (7 * noise / half / (1 - GAMMA * fourth)) ** 0.5) ** 2
        case "jain_2018":
            start = 2 * (1 - GAMMA * smallest) ** half * sum(SIGNALS) / (GAMMA * smallest * half) ** 2
            return start + 4 * 7 * noise / half
        case "zou_2021":
            return 4 * (bias + (2 * alpha * seen + noise) / rest * learnt)
        case "zou_2021_lower":
            return 2 * (bias / 100 + (seen / batch / 1000 + noise / 50) * learnt)
        case "zou_2021_tail":
            left = [s * (1 - GAMMA * h) ** (2 * half) for h, s in PAIRS]
            bias = sum(x / (GAMMA * half * h) ** 2 if h >= 1 / (GAMMA * half) else x for h, x in zip(SIZES, left))
            seen = sum(s / h if h >= 1 / (GAMMA * steps) else steps * GAMMA * s for h, s in PAIRS) / half / GAMMA
            learnt = 0.0
            for h in SIZES:
                tail = half if h >= 1 / (GAMMA * steps) else steps
                learnt += 1 / half if h >= 1 / (GAMMA * half) else tail * (GAMMA * h) ** 2
            return 4 * (bias + (4 * alpha * seen + noise) / rest * learnt)
        case "varre_2021":
            return distance / GAMMA / steps ** (1 - GAMMA * fourth)
        case "wu_2022":
            stage = steps / 20
            whole = steps / 2 + stage
            bias = seen = learnt = 0.0
            for h, s in PAIRS:
                bias += (1 - GAMMA * h) ** (2 * whole) * s * (1 / (GAMMA * stage * h) if h >= 1 / GAMMA / stage else 1)
                seen += s / h / whole / GAMMA if h >= 1 / GAMMA / whole else s
                tail = GAMMA * h if h >= 1 / GAMMA / whole else GAMMA**2 * whole * h**2
                learnt += 1 / stage if h >= 1 / GAMMA / stage else tail
            return bias + (3 * np.log(whole) * seen + SIGMA2) * learnt
    time = GAMMA * steps
    head = [(h, s) for h, s in PAIRS if h * time >= 1]
    tail = PAIRS[len(head) :]
    variance = len(head) + time**2 * sum(h * h for h, _ in tail)
    return sum(s / h**2 for h, s in head) / time**2 + sum(s for _, s in tail) + noise * variance / steps


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("batch", "steps"), [(1, 5000.0), (4, 9000.0)])
def test_several_directions_as_written_in_the_source(name, batch, steps):
    """The heads have three to five directions, by the theorem and the number of steps."""
    problem = st.LeastSquares(SIZES, SIGNALS, SIGMA2)
    found = at(getattr(bounds, name), problem, batch, steps, GAMMA)
    assert found == pytest.approx(in_seven_directions(name, batch, steps), rel=1e-11)


def test_the_catalogue_is_what_the_door_has():
    assert set(NAMES) == set(SPECIAL)
    assert sorted(NAMES) == NAMES
    for bound in bounds.catalogue():
        assert getattr(bounds, bound.name) is bound
        assert all((bound.source, bound.read, bound.about, bound.batches))


def settings_of(bound):
    """Inside its conditions: no noise where it asks for that, one sample a batch, a smaller edge."""
    edge = {"dieuleveut_2017": 0.5, "wu_2022": 0.015}.get(bound.name, 1.0)
    batch = 1 if bound.name in ("dieuleveut_2017", "wu_2022") else 1000
    problem = st.testing.problems(
        noise=bound.name != "varre_2021", power_laws=bound.algorithm == DEFAULT and bound.name != "dieuleveut_2017"
    )
    least = {"zou_2021_lower": 500, "wu_2022": 1025}.get(bound.name, 2)
    most = 2048 if bound.name == "wu_2022" else 1e6
    return st.testing.settings(problem, edge=edge, largest_batch=batch, least_steps=least, most_steps=most)


@pytest.mark.parametrize("bound", SIDED, ids=lambda bound: bound.name)
def test_it_holds(bound):
    orders = {"wu_2022": {"upper": 1.1, "max_examples": 30}, "varre_2021": {"upper": 0.3, "max_examples": 60}}
    limits = orders.get(bound.name, {"max_examples": 60})
    st.testing.assert_bound(bound, settings=settings_of(bound), **limits)


# What of each constant is proved necessary: with so small a factor before the bound a counterexample is found.
TIGHT = {
    "bach_2024": 0.6,
    "bach_moulines_2013": 0.6,
    "dieuleveut_2017": 0.1,
    "jain_2017": 0.9,
    "jain_2018": 0.8,
    "zou_2021": 0.249,
    "zou_2021_tail": 0.249,
}


@pytest.mark.parametrize(("name", "factor"), TIGHT.items())
def test_a_wrong_transcription_fails(name, factor):
    """Negative control: a constant that is too small by this factor is caught."""
    bound = getattr(bounds, name)
    found = st.compare(bound, tight_settings())
    assert found.highest > factor


def tight_settings():
    """Settings with tight bounds: one direction, no noise and few steps; noise, small γ and many steps; large B."""
    for problem in (ONE, NOISE, st.LeastSquares([1.0, 1.0], [1.0, 1.0], noise_variance=0.0)):
        for batch in (1, 10**4):
            limit = problem.largest_eigenvalue + (problem.trace + problem.largest_eigenvalue) / batch
            steps = np.array([1, 2, 10, 100, 1e3, 1e5, 1e7])
            share = np.array([[0.001], [0.3], [0.49999], [0.99999]])
            yield st.Setting(problem, batch, share / limit, steps * batch)


def test_the_lower_bound_is_not_larger_than_it_should_be():
    """Negative control of the one lower bound: 25 times as large it fails."""
    found = st.compare(bounds.zou_2021_lower, tight_settings())
    assert 1 < found.lowest < 25


def test_a_constant_is_tight():
    """jain_2017: noise alone, a small γ, many steps: σ²d/(T − t), and nothing smaller, is true."""
    ratios = []
    for steps in (1e6, 1e9):
        setting = st.Setting(NOISE, 1, 10 * steps**-0.5, steps)
        ratios.append(st.compare(bounds.jain_2017, [setting]).highest)
    assert 0.98 < ratios[0] < ratios[1] < 1
    assert ratios[1] > 0.999


def test_the_limit_of_defossez_and_bach_is_reached():
    problem = st.LeastSquares([1.0, 0.3], [0.2, 1.0], noise_variance=0.5)
    found = st.compare(bounds.defossez_bach_2015, [st.Setting(problem, [[1], [7]], 0.2, [7e4, 7e8])])
    np.testing.assert_allclose(found.ratio[[1, 3]], 1, atol=1e-6)
    assert np.abs(found.ratio[[0, 2]] - 1).max() > 1e-6


@pytest.mark.parametrize(
    ("name", "setting", "reason"),
    [
        ("bach_moulines_2013", (ONE, 1, 0.5, 10), "γ < 1/R²"),
        ("bach_2024", (ONE, 1, 0.5, 10), "γ ≤ 1/R²"),
        ("defossez_bach_2015", (st.PowerLaw(2, 3), 1, 0.1, 10), "finitely many directions"),
        ("defossez_bach_2015", (ONE, 1, 2.0, 10), "γ < γ_max, the edge of stability"),
        ("dieuleveut_2017", (ONE, 4, 0.1, 40), "B = 1"),
        ("dieuleveut_2017", (ONE, 1, 0.3, 40), "γ ≤ 1/(2R²)"),
        ("jain_2017", (ONE, 1, 0.5, 10), "γ < 1/R²"),
        ("jain_2018", (st.PowerLaw(2, 3), 1, 0.1, 10), "μ > 0"),
        ("zou_2021", (ONE, 1, 0.5, 10), "γ < 1/(α tr H)"),
        ("zou_2021_lower", (ONE, 1, 0.1, 10), "500 steps or more"),
        ("varre_2021", (NOISE, 1, 0.1, 10), "σ² = 0"),
        ("wu_2022", (ONE, 1, 0.1, 1000), "γ < 1/(3α tr H log(s + K))"),
        ("wu_2022", (ONE, 1, 0.01, 1024), "⌈log₂(N − s)⌉ halvings, ten"),
        ("wu_2022", (ONE, 1, 0.01, 2049), "⌈log₂(N − s)⌉ halvings, ten"),
        ("zhang_2024", (ONE, 1, 0.1, 10), "‖w_0 − w*‖²_H ≤ σ²"),
        ("zhang_2024", (NOISE, 1, 0.1, 1), "more than one step"),
    ],
)
def test_conditions_are_told(name, setting, reason):
    problem, batch, gamma, samples = setting
    found = getattr(bounds, name)(problem, batch_size=batch, learning_rate=gamma, num_samples=samples)
    assert not found.applies
    assert reason in found.reasons


def test_infinite_sums_are_infinite():
    """b ≤ a + 1: ‖w_0 − w*‖² is infinite, and so is what rests on it."""
    found = bounds.bach_moulines_2013(
        st.PowerLaw(2, 3, noise_variance=0.0), batch_size=1, learning_rate=0.1, num_samples=10
    )
    assert found.total == np.inf
    far = st.PowerLaw(1.5, 6.0, noise_variance=0.0)
    listed = st.LeastSquares(*far.truncated(5000).directions(), noise_variance=0.0)
    assert at(bounds.bach_moulines_2013, far) == pytest.approx(at(bounds.bach_moulines_2013, listed), rel=1e-9)
    assert at(bounds.bach_moulines_2013, st.LeastSquares([1.0, 0.0], [1.0, 1.0], 0.0)) == np.inf


def test_best_is_the_tightest_that_applies():
    problem = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)
    setting = {"batch_size": 1, "learning_rate": [0.01, 0.2, 5.0], "num_samples": 1e4}
    found = bounds.best(problem, **setting, unverified=True)
    risk = st.excess_risk(problem, **setting).total
    assert (found.lower[:2] < risk[:2]).all()
    assert (risk[:2] < found.upper[:2]).all()
    uppers = [bound for bound in SIDED if bound.side == "upper" and bound.algorithm == DEFAULT]
    values = [bound(problem, **setting) for bound in uppers]
    expected = [min(value.total[k] for value in values if value.applies[k]) for k in range(2)]
    np.testing.assert_allclose(found.upper[:2], expected)
    assert found.upper_name[0] in NAMES
    assert (found.upper[2], found.upper_name[2], found.lower[2], found.lower_name[2]) == (np.inf, "", 0.0, "")
    assert bounds.best(problem, **setting).lower[0] == 0


def test_best_is_about_its_algorithm():
    tail = st.Algorithm(average=st.TailAverage(0.5))
    found = bounds.best(NOISE, batch_size=1, learning_rate=0.1, num_samples=1e4, algorithm=tail)
    assert found.upper_name in ("jain_2017", "jain_2018")


def test_failed_conditions_are_said_where_the_value_is_no_number():
    found = st.bounds.certify(st.bounds.defossez_bach_2015, (st.PowerLaw(2.0, 3.0), 1, 0.1, 7))
    assert found.bound is None
    assert found.doubts == ("finitely many directions does not hold",)
