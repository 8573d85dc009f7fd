"""One table of what must agree: every method, schedule and average of the registries, on a pair of problems.

A new method, schedule or average joins the table through its line in the registry. Each entry of `PAIRS` compares two
ways to the same number that have as little code in common as possible, with the domain on which they must agree and
the relative difference that is allowed beside the stated error. One in 32 combinations is tried by default, which has
every method, schedule and average; the others are slow. `pytest -m slow` tries every other combination of a method, a
schedule and an average, in which any two of them meet, on one of the two problems. The command
`SGDTHEORY_TESTS=all pytest -m "slow or not slow" tests/test_agreement.py` tries every combination on both.
"""

import itertools
from typing import NamedTuple

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms.registry import AVERAGES, METHODS, SCHEDULES
from sgdtheory.risk import mean_risk, propagate, run_risks
from sgdtheory.risk.solvers import renewal, transforms
from tests import dense_recursion
from tests.forced import FORCED, forced
from tests.marks import EXHAUSTIVE, every_other, slow
from tests.registered import instance

FEW = st.PowerLaw(2.0, 3.0, noise_variance=0.5, dim=5)
FLAT = st.LeastSquares([1.0, 0.9, 0.2], [0.3, 1.0, 0.5], 0.1)
PROBLEMS = {"power law": FEW, "three directions": FLAT}
NUM_STEPS = 420
BATCH = 4
STANDARD_ERRORS = 5.0  # Gaussian means are farther in 6e-7 of the tests.


def combinations():
    """All of a method, a schedule, an average and a problem; those whose indices do not add up are slow."""
    for chosen in itertools.product(*map(enumerate, (METHODS, SCHEDULES, AVERAGES, PROBLEMS))):
        (m, s, a, p), case = zip(*chosen, strict=True)
        own = (m + s) % len(PROBLEMS) == p  # The problem of this method with this schedule.
        tried = (m + s + a) % 8 == 0 and (m // 2 + s) % 2 == 0 and own
        if EXHAUSTIVE or (own and (m + s + a) % 2 == 0):
            yield case if tried else slow(*case)


def algorithm_of(method, schedule, average):
    return st.Algorithm(instance(METHODS[method]), instance(SCHEDULES[schedule]), average=instance(AVERAGES[average]))


def has_theory(algorithm):
    try:
        st.excess_risk(FLAT, batch_size=4, learning_rate=0.01, num_samples=40, algorithm=algorithm)
    except ValueError:
        return False
    return True


def rate_of(problem, algorithm):
    """A third of the threshold of a constant learning rate; a fixed rate of weights for methods that have none."""
    if not algorithm.linear:
        return 0.02
    steady = st.Algorithm(algorithm.method)
    try:
        return float(st.max_stable_learning_rate(problem, batch_size=BATCH, algorithm=steady)) / 3
    except ValueError:  # coefficients that change with the step
        return 0.1


def path_end(problem, setting, algorithm):
    """The last point of a path; each point is the risk of a shorter run where steps do not depend on n."""
    path = st.risk_path(problem, **setting, algorithm=algorithm, points=4)
    returned = path.iterate if isinstance(algorithm.average, st.LastIterate) else path.average
    if algorithm.linear and algorithm.steady and algorithm.average.any_length:
        ends = st.excess_risk(problem, **setting | {"num_samples": path.num_samples[1:]}, algorithm=algorithm)
        np.testing.assert_allclose(returned.total[1:], ends.total, rtol=1e-8)
    return returned.total[-1]


def by(solver):
    """Return the way by one solver of segments, wherever it can be used."""

    def way(problem, setting, algorithm):
        with forced(solver):
            return st.excess_risk(problem, **setting, algorithm=algorithm).total

    return way


def side_by_side(order=(1, 0, 2, 3), **how):
    """Return the way beside a shorter run, a longer one and one that diverges, in one call."""

    def way(problem, setting, algorithm):
        batches = np.array([BATCH, 8.0, BATCH, 1.0])[[*order]]
        rates = setting["learning_rate"] * np.array([1.0, 0.3, 0.2, 1e4])[[*order]]
        steps = np.round(np.array([1.0, 0.2, 1.1, 0.4]) * NUM_STEPS)[[*order]]
        return run_risks(problem, algorithm, batches, rates, steps, **how).parts.sum(0)[order.index(0)]

    return way


def in_small_portions(problem, setting, algorithm):
    """The same, a few modes of a run at a time; the first run is the one that counts."""
    with pytest.MonkeyPatch.context() as patch:
        for solver in (renewal, transforms):
            patch.setattr(solver, "NUMBERS_AT_ONCE", 8)
        return side_by_side(order=(0, 1, 2, 3))(problem, setting, algorithm)


def dense(problem, setting, algorithm):
    average = {
        st.LastIterate: "last",
        st.UniformAverage: ("uniform", None),
        st.TailAverage: ("tail", getattr(algorithm.average, "fraction", None)),
        st.ExponentialAverage: ("exponential", 1 - algorithm.average.forgetting(NUM_STEPS)),
    }[type(algorithm.average)]
    parts = dense_recursion.risk(
        problem,
        algorithm,
        batch=setting["batch_size"],
        rate=setting["learning_rate"],
        num_steps=NUM_STEPS,
        average=average,
    )
    return parts.sum()


def single(algorithm):
    """Linear methods of one vector of noise, whose coefficients are public."""
    return algorithm.linear and algorithm.method.sequential and not isinstance(algorithm.method, st.DelayedSGD)


def remembered(algorithm):
    """Linear methods with an average of which compiled steps keep most: a compilation takes a second."""
    return algorithm.linear and isinstance(algorithm.average, st.ExponentialAverage)


def in_pieces(algorithm):
    """Linear methods whose coefficients are constant for many steps, which closed forms take."""
    return algorithm.linear and isinstance(algorithm.schedule, st.Constant | st.Stages)


class Pair(NamedTuple):
    """A second way to the risk, the algorithms that it takes, and the relative difference that is allowed."""

    way: object
    domain: object
    allowed: float


PAIRS = {
    "the end of the path": Pair(path_end, lambda algorithm: True, 1e-9),
    **{f"by {solver}": Pair(by(solver), lambda algorithm: algorithm.linear, 1e-9) for solver in FORCED},
    "side by side": Pair(side_by_side(), lambda algorithm: algorithm.linear, 1e-9),
    "compiled steps": Pair(side_by_side((1, 0), compiled_from=1.0), remembered, 1e-9),
    "the sum of both parts": Pair(side_by_side(summed=True, estimate=False), lambda algorithm: algorithm.linear, 1e-9),
    "as searches do": Pair(side_by_side(tolerance=1e-8, estimate=False), lambda algorithm: algorithm.linear, 1e-6),
    "small portions": Pair(in_small_portions, in_pieces, 1e-9),
    "dense moments": Pair(dense, single, 1e-9),
}


def setting_of(problem, algorithm):
    # Risks of methods that are not linear take longest: their runs have a third of the steps.
    samples = BATCH * (NUM_STEPS * algorithm.workers if algorithm.linear else NUM_STEPS // 3)
    return {"batch_size": BATCH, "learning_rate": rate_of(problem, algorithm), "num_samples": samples}


@pytest.mark.parametrize(("method", "schedule", "average", "name"), list(combinations()))
def test_every_way_leads_to_the_same_risk(method, schedule, average, name):
    algorithm = algorithm_of(method, schedule, average)
    if not has_theory(algorithm):
        pytest.skip("is simulated only")
    problem = PROBLEMS[name]
    setting = setting_of(problem, algorithm)
    risk = st.excess_risk(problem, **setting, algorithm=algorithm)
    assert np.isfinite(risk.total)
    for words, pair in PAIRS.items():
        if pair.domain(algorithm):
            other = pair.way(problem, setting, algorithm)
            allowed = pair.allowed + (risk.relative_error if algorithm.linear else 1e-9)
            assert other == pytest.approx(risk.total, rel=allowed), words


@pytest.mark.parametrize(("method", "schedule", "average", "name"), list(combinations()))
def test_the_mean_path_has_the_bias_of_batches_without_end(method, schedule, average, name):
    algorithm = algorithm_of(method, schedule, average)
    if not algorithm.linear:
        pytest.skip("has a mean path of its own")
    problem, rates = PROBLEMS[name], np.array([1e-6, 0.01, 0.3, 0.9])
    for steps in (1.0, 2.0, 37.0, 200.0):
        setting = {"batch_size": 1e15, "learning_rate": rates, "num_samples": algorithm.workers * 1e15 * steps}
        expected = st.excess_risk(problem, **setting, algorithm=algorithm).bias
        found = mean_risk(algorithm, *problem.directions(), rates, steps)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("solver", [name for name in propagate.PROPAGATORS if name != "gone"])
def test_every_solver_has_its_pair(solver, monkeypatch):
    """The pair of a solver is computed by that solver for one of these algorithms, once oscillations have died out."""
    used = []
    original = propagate.PROPAGATORS[solver]
    monkeypatch.setitem(propagate.PROPAGATORS, solver, lambda *given: used.append(solver) or original(*given))
    for method, schedule in (("heavy-ball", "stages"), ("heavy-ball", "cosine"), ("local", "constant")):
        algorithm = algorithm_of(method, schedule, "last")
        setting = setting_of(FLAT, algorithm)
        PAIRS[f"by {solver}"].way(FLAT, {**setting, "num_samples": 10 * setting["num_samples"]}, algorithm)
    assert used


def test_a_wrong_schedule_is_seen():
    """The negative control: the same ways with another learning rate do not agree."""
    algorithm = algorithm_of("heavy-ball", "cosine", "last")
    setting = setting_of(FEW, algorithm)
    risk = st.excess_risk(FEW, **setting, algorithm=algorithm)
    wrong = {**setting, "learning_rate": setting["learning_rate"] * (1 + 1e-6)}
    for words, pair in PAIRS.items():
        assert pair.way(FEW, wrong, algorithm) != pytest.approx(risk.total, rel=1e-9), words


@pytest.mark.slow
@pytest.mark.parametrize(("method", "kind"), every_other(METHODS, [("cosine", "last"), ("constant", "tail")]))
def test_simulated_runs_have_that_risk(method, kind):
    """Within five standard errors and the stated error: a false alarm in 6e-7 of the tests."""
    algorithm = algorithm_of(method, *kind)
    if not has_theory(algorithm):
        pytest.skip("is simulated only")
    setting = setting_of(FEW, algorithm)
    risk = st.excess_risk(FEW, **setting, algorithm=algorithm)
    found = st.simulate(jax.random.key(0), FEW, **setting, algorithm=algorithm, num_replicas=2048)
    scatter = STANDARD_ERRORS * float(found.standard_error)
    assert abs(float(found.mean) - risk.total) <= scatter + risk.relative_error * risk.total
    if algorithm.linear:  # the negative control: twice the noise is seen
        noisier = st.PowerLaw(2.0, 3.0, noise_variance=1.0, dim=5)
        wrong = st.excess_risk(noisier, **setting, algorithm=algorithm)
        assert abs(float(found.mean) - wrong.total) > scatter


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_downhill(method):
    """At a small learning rate the risk falls by more than a tenth; a step of the wrong sign would raise it.

    Linear methods have one set of coefficients for theory and simulation. Nonlinear ones are simulated, because their
    theory does not use the sign of a step.
    """
    algorithm = algorithm_of(method, "constant", "last")
    rates = np.array([1e-9, 0.01])
    setting = {"batch_size": 16, "num_samples": 16 * 64, "learning_rate": rates, "algorithm": algorithm}
    if algorithm.linear:
        start, end = st.excess_risk(FLAT, **setting | {"num_samples": 16 * 64 * algorithm.workers}).total
    else:
        start, end = st.simulate(jax.random.key(0), FLAT, **setting, num_replicas=8).mean
    assert 0 < end < 0.9 * start


@pytest.mark.parametrize("method", METHODS)
def test_moments_grow_beyond_the_threshold_alone(method):
    algorithm = algorithm_of(method, "constant", "last")
    if not (algorithm.linear and algorithm.steady):
        pytest.skip("has no threshold")
    edge = float(st.max_stable_learning_rate(FEW, batch_size=BATCH, algorithm=algorithm))
    samples = np.array([1e6, 4e6]) * BATCH * algorithm.workers
    below, above = (
        st.excess_risk(
            FEW, batch_size=BATCH, learning_rate=factor * edge, num_samples=samples, algorithm=algorithm
        ).total
        for factor in (0.99, 1.01)
    )
    assert below[1] == pytest.approx(below[0], rel=1e-6)
    assert above[1] > 10 * above[0] or np.isinf(above[1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("schedule", "average"), [("cosine", "last"), ("constant", "uniform")])
def test_the_best_learning_rate_is_that_of_a_scan(method, schedule, average):
    """No learning rate of a grid has less risk, and one has hardly more; twice the best one has more."""
    algorithm = algorithm_of(method, schedule, average)
    if not algorithm.linear:
        pytest.skip("nonlinear methods are searched in tests/critical: Adam's functions take minutes here")
    setting = {"batch_size": BATCH, "num_samples": 60 * BATCH * (algorithm.workers if algorithm.linear else 1)}
    best = st.optimal_learning_rate(FLAT, **setting, algorithm=algorithm)
    rates = best.learning_rate * np.append(np.geomspace(1e-3, 30, 120), np.linspace(0.9, 1.1, 21))
    risks = st.excess_risk(FLAT, **setting, learning_rate=rates, algorithm=algorithm).total
    least = np.nanmin(risks)
    assert least * (1 - 2e-3) <= best.risk <= least * (1 + 1e-6)
    twice = st.excess_risk(FLAT, **setting, learning_rate=2 * best.learning_rate, algorithm=algorithm).total
    assert not twice < 1.001 * best.risk
