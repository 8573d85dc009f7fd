"""What n steps leave, whatever B and γ: below every risk, and not far below."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.out_of_reach import CELLS_A_STEP, EACH_ASKED
from sgdtheory.critical.tuned_risk import LARGEST_BATCH, TunedRisk
from sgdtheory.risk import mean_risk
from tests.critical.known_risk import KnownBound

PROBLEM = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], noise_variance=0.5)
LAST = st.LastIterate()
ALGORITHMS = {
    "last": st.Algorithm(average=LAST),
    "tail": st.Algorithm(average=st.TailAverage(0.4)),
    "exponential": st.Algorithm(average=st.ExponentialAverage(0.9)),
    "cosine": st.Algorithm(schedule=st.Cosine(), average=LAST),
    "stages": st.Algorithm(schedule=st.Stages([0.0, 0.5], [1.0, 0.2]), average=LAST),
    "heavy ball": st.Algorithm(st.HeavyBall(0.9)),
    "heavy ball, last": st.Algorithm(st.HeavyBall(0.8), average=LAST),
    "nesterov": st.Algorithm(st.Nesterov(0.7), schedule=st.Linear(), average=LAST),
    "weight decay": st.Algorithm(st.SGD(weight_decay=0.05), average=LAST),
    "schedule-free": st.Algorithm(st.ScheduleFree(0.9), average=LAST),
}


def random_problem(random):
    size = int(random.integers(1, 5))
    eigenvalues = 10 ** random.uniform(-2, 0, size)
    return st.LeastSquares(np.sort(eigenvalues)[::-1], 10 ** random.uniform(-2, 0, size), 0.1)


def bound(reach, steps):
    return max(reach.of_the_mean_path(steps, cells) for cells in CELLS_A_STEP)


@pytest.mark.parametrize(
    ("problems", "most"), [(2, 9.0), pytest.param(12, 25.0, marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_learning_rate_gets_below(name, problems, most):
    """The mean path alone, at 2,000 learning rates up to the edge: those of small problems, each n up to 24."""
    random = np.random.default_rng(7)
    for problem in [random_problem(random) for _ in range(problems)]:
        tuned = TunedRisk(problem, ALGORITHMS[name])
        for steps in np.arange(1.0, most):
            largest = float(tuned.edge(np.array([LARGEST_BATCH]), np.array([steps]))[0])
            rates = largest * np.append(np.linspace(1e-3, 1, 1000), np.geomspace(1e-6, 1, 1000))
            least = mean_risk(ALGORITHMS[name], problem.eigenvalues, problem.signal, rates, steps).min()
            assert bound(tuned.out_of_reach, steps) <= least * (1 + 1e-6) + 1e-12


def test_a_bound_that_forgets_where_paths_change_their_signs_is_above_the_risk():
    """The negative control: the nearer ends of the cells alone."""
    problem = st.LeastSquares([1.0], [1.0], 0.1)
    algorithm = ALGORITHMS["heavy ball, last"]
    reach = TunedRisk(problem, algorithm).out_of_reach
    ends = np.linspace(0, np.pi, 13)
    rates = reach.largest_rate(12.0) * np.sin(ends / 2) ** 2
    assert mean_risk(algorithm, problem.eigenvalues, problem.signal, rates, 12.0).min() > 1e-4
    assert bound(reach, 12.0) == 0


def by_cells(problem, path, largest, steps, cells):
    """The bound, cell by cell and direction by direction, of the mean path in closed form."""
    top = max(problem.eigenvalues)
    shares = [np.sin(np.pi * j / cells / 2) ** 2 for j in range(cells + 1)]
    least = np.inf
    for j in range(cells):
        left = 0.0
        for eigenvalue, signal in zip(problem.eigenvalues, problem.signal, strict=True):
            values = [path(largest * share * eigenvalue) for share in shares]
            bends = [abs(values[i - 1] - 2 * values[i] + values[i + 1]) for i in range(1, cells)]
            bend = max(bends[max(j - 1, 0)], bends[min(j, cells - 2)])
            first, second = (2 * np.arcsin(np.sqrt(shares[i] * eigenvalue / top)) for i in (j, j + 1))
            size = min(abs(values[j]), abs(values[j + 1])) - bend
            if values[j] * values[j + 1] > 0 and steps * (second - first) <= 1 and size > 0:
                left += signal * size**2
        least = min(least, left)
    return least


@pytest.mark.parametrize(("steps", "cells_a_step"), [(3.0, 4.0), (5.0, 4.0), (20.0, 1.0), (40.0, 4.0)])
@pytest.mark.parametrize("scale", [0.2, 7.0])
def test_the_bound_of_the_mean_path_by_its_definition(steps, cells_a_step, scale):
    """`(1 − x)^n` of last iterates, averages of heavy ball step by step; eigenvalues in any units."""
    problem = st.LeastSquares(scale * np.array([1.0, 0.4, 0.02, 0.003]), [0.3, 0.2, 0.5, 0.4], 0.1)
    reach = TunedRisk(problem, ALGORITHMS["last"]).out_of_reach
    cells = int(max(cells_a_step * steps, 16))
    expected = by_cells(problem, lambda x: (1 - x) ** steps, 2 / scale, steps, cells)
    assert reach.of_the_mean_path(steps, cells_a_step) == pytest.approx(expected, rel=1e-6)
    whole = TunedRisk(problem, ALGORITHMS["heavy ball"]).out_of_reach
    largest = whole.largest_rate(steps)
    cells = int(max(cells_a_step * steps * np.sqrt(largest * scale / 2), 16))  # as many more as γλ_1 may exceed 2
    expected = by_cells(problem, lambda x: average_of_heavy_ball(steps, 0.9, x), largest, steps, cells)
    assert whole.of_the_mean_path(steps, cells_a_step) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def average_of_heavy_ball(steps, momentum, x):
    """The average of the errors before n steps, x = γλ."""
    error = total = 1.0
    before = 1.0
    for _ in range(int(steps) - 1):
        error, before = error - x * error + momentum * (error - before), error
        total += error
    return total / steps


def test_spectra_are_resolved_where_steps_tell_directions_apart():
    """nγλ down to 1e-3: a coarser spectrum would merge what n steps tell apart."""

    class Asked(st.PowerLaw):
        def modes(self, smallest, tolerance=0.0):
            asked.append(smallest)
            return super().modes(smallest, tolerance)

    asked = []
    tuned = TunedRisk(Asked(2.0, 3.0), ALGORITHMS["last"])
    asked.clear()
    tuned.out_of_reach.of_the_mean_path(10.0, 4.0)
    assert asked[-1] == pytest.approx(1e-3 / 20, rel=1e-6)
    asked.clear()
    tuned.out_of_reach.of_any_rate(8.0)
    assert asked[-1] == pytest.approx(1e-3 / 32, rel=1e-6)
    plain = TunedRisk(Asked(2.0, 3.0)).out_of_reach
    asked.clear()
    plain.of_any_rate(10.0)
    assert asked[-1] == pytest.approx(1e-4, rel=1e-6)

    class AskedOfLarge(st.LeastSquares):
        def modes(self, smallest, tolerance=0.0):
            asked.append(smallest)
            return super().modes(smallest, tolerance)

    TunedRisk(AskedOfLarge([7.0, 1.0], [0.5, 0.5])).out_of_reach.of_any_rate(10.0)
    assert asked[-1] == pytest.approx(7e-4, rel=1e-6)


def test_the_largest_rate_of_all_is_that_of_two_steps():
    """Peaks of schedules pass the edge by the more, the fewer steps there are to grow."""
    problem = st.LeastSquares([1.0, 1e-3], [0.5, 0.4], 0.1)
    reach = TunedRisk(problem, ALGORITHMS["cosine"]).out_of_reach
    assert reach.largest_rate(2.0) > 1.01 * reach.largest_rate(4.0)
    left = 1 - 2 * 8 * reach.largest_rate(2.0) * 1e-3
    assert reach.of_any_rate(8.0) == pytest.approx(0.4 * left**2, rel=1e-6)


@pytest.mark.parametrize("name", ["last", "tail", "cosine", "heavy ball", "schedule-free"])
def test_it_is_close_where_many_directions_are_left_to_learn(name):
    """Of a power law, within 20% of what the largest batches attain."""
    tuned = TunedRisk(st.PowerLaw(2.0, 3.0, noise_variance=0.0), ALGORITHMS[name])
    for steps in (12.0, 40.0):
        attained = tuned.least(np.array([LARGEST_BATCH]), np.array([steps])).risk[0]
        assert 0.8 * attained < bound(tuned.out_of_reach, steps) < attained


@pytest.mark.parametrize("algorithm", [st.Algorithm(), *list(ALGORITHMS.values())[:2]], ids=str)
def test_the_bound_that_is_sooner_known_falls_with_the_steps(algorithm):
    tuned = TunedRisk(st.PowerLaw(1.5, 1.8, 40, noise_variance=0.0), algorithm)
    bounds = [tuned.out_of_reach.of_any_rate(steps) for steps in (1.0, 2.0, 8.0, 30.0, 300.0)]
    assert bounds == sorted(bounds, reverse=True)
    best = tuned.least(np.full(2, 1e9), np.array([2.0, 8.0])).risk
    assert (np.array(bounds[1:3]) < best).all()
    assert bounds[0] > 0


def test_that_bound_by_its_formula():
    """Of directions with 2λ ≤ λ_1 at x = 2λ/λ_1; of others `(1 − Tλ)²`, T twice their displacement."""
    n = 8.0
    x = 2 * np.array([0.3, 0.05])
    mean = (1 - (1 - x) ** n) / (n * x)

    def found(problem, algorithm=st.Algorithm()):  # noqa: B008 (frozen)
        return TunedRisk(problem, algorithm).out_of_reach.of_any_rate(n)

    assert found(PROBLEM) == pytest.approx(np.array([0.4, 0.3]) @ mean**2)
    scaled = st.LeastSquares(50 * PROBLEM.eigenvalues, PROBLEM.signal, 0.5)
    assert found(scaled) == pytest.approx(np.array([0.4, 0.3]) @ mean**2)
    assert found(st.LeastSquares([1.0, 0.0], [0.5, 0.4])) == pytest.approx(0.4)
    assert found(st.LeastSquares([1.0, 0.5], [0.5, 0.4])) == pytest.approx(0.4 / n**2)
    slow = st.LeastSquares([1.0, 1e-3], [0.5, 0.4])
    assert found(slow, ALGORITHMS["last"]) == pytest.approx(0.4 * (1 - 1e-3 * 4 * n) ** 2, rel=1e-6)  # γ ≤ 2/λ_1
    many = st.PowerLaw(2.0, 1.5, 500)
    eigenvalues, signal = many.directions()
    left = np.maximum(1 - 4 * n * eigenvalues, 0)
    assert found(many, ALGORITHMS["last"]) == pytest.approx(signal @ left**2, rel=1e-3)


@pytest.mark.parametrize("within", [1, 2, 3, 4, 10, 57, 300, 12_346, 10**9])
@pytest.mark.parametrize("most", [1.0, 2.0, 3.0, 100.0, 20_000.0, 1e12])
def test_the_fewest_steps_are_next_to_the_first_number_within_reach(within, most):
    """A whole number up to which, itself left out, nothing is in reach; lower by at most 1% and one step."""
    low = KnownBound(lambda n: 0.5 if n >= within else 0.6).fewest(0.5, most)
    assert low == np.floor(low)
    assert low <= within
    assert low <= most
    assert min(within, most) <= 1.01 * low + 1


def test_each_of_a_few_numbers_of_steps_is_asked_about():
    """A lucky number between two that leave more is possible, and the first one that is."""

    class Lucky(KnownBound):
        def of_the_mean_path(self, steps, cells_a_step):
            return 0.1 if steps in (5, 30) and cells_a_step == max(CELLS_A_STEP) else 0.9 - 0.5 * (steps == 7)

    reach = Lucky(lambda n: 0.2)
    reach.plain = False
    assert reach.fewest(0.3, 1e6) == EACH_ASKED  # some cells say 0.4 at least everywhere
    reach.of_the_mean_path = lambda steps, cells: 0.1 if steps in (5, 30) else 0.9
    assert reach.fewest(0.3, 1e6) == 5
    assert reach.fewest(0.3, 4.0) == 4
    steps = np.array([4.0, 5.0, 6.0, 30.0, EACH_ASKED + 1])
    assert reach.possible(steps, 0.3).tolist() == [False, True, False, True, True]
