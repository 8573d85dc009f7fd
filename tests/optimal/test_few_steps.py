"""The best schedule of a few steps against brute force: a recursion of its own, and searches from random starts."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import sgdtheory as st
from sgdtheory.optimal import few_steps
from sgdtheory.optimal.few_steps import few_steps_near
from sgdtheory.optimal.newton import Searches
from sgdtheory.optimal.search import Search
from tests.brute_force import one_direction
from tests.marks import EXHAUSTIVE, slow

CLOSE = 2e-5  # relative, of risks
CLOSE_BOTH = 5e-4  # where rates and batch sizes are free, and optima many and alike
DIRECTIONS = 30
OPTIONS = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-13, "gtol": 1e-9}
LAST, UNIFORM, TAIL = st.LastIterate(), st.UniformAverage(), st.TailAverage(0.4)
EXAMPLE = st.LeastSquares(np.arange(1, 31.0) ** -2, np.arange(1, 31.0) ** -6, 1.0)


@dataclass(frozen=True)
class Case:
    """A problem, and what is looked for: learning rates, batch sizes, or both."""

    problem: st.LeastSquares
    num_steps: int
    batch_size: int
    average: object
    free: str

    def found(self):
        setting = {"num_samples": self.num_steps * self.batch_size, "average": self.average}
        if self.free == "rates":
            return st.optimal_schedule(self.problem, batch_size=self.batch_size, **setting)
        alone = self.free == "batches"
        return st.optimal_schedule(self.problem, num_steps=self.num_steps, constant_learning_rate=alone, **setting)


def random_case(rng, most_steps):
    number = int(rng.integers(2, 9))
    eigenvalues = np.arange(1.0, number + 1) ** -rng.uniform(0.5, 3)
    if rng.random() < 0.3:
        eigenvalues = np.sort(rng.uniform(0.01, 1, number))[::-1]
    signal = eigenvalues ** rng.uniform(0.5, 3) * rng.uniform(0.3, 3, number)
    problem = st.LeastSquares(eigenvalues, signal, 10 ** rng.uniform(-2, 1))
    steps = int(np.round(np.exp(rng.uniform(np.log(2), np.log(most_steps)))))
    average = (LAST, LAST, UNIFORM, TAIL)[rng.integers(4)]
    free = ("rates", "rates", "both", "batches")[rng.integers(4)]
    return Case(problem, steps, int(10 ** rng.uniform(0.5, 4)), average, free)


def of_every_step(point, free, setting):
    """γ_t and B_t of shares of the edge and shares of the samples; steps that are not there have γ_t = 0."""
    steps, mean, there = setting["steps"], setting["mean"], setting["there"]
    share, raised = jnp.split(point, 2)
    raised = jax.nn.softmax(jnp.where(there, raised, -jnp.inf))
    log_sizes, log_edges = setting["log_sizes"], setting["log_edges"]
    middle = jnp.exp(jnp.interp(jnp.log(mean), log_sizes, log_edges))
    if free == "rates":
        return jnp.where(there, share * middle, 0.0), jnp.full(there.size, mean)
    if free == "both":
        batch = 1 + steps * (mean - 1) * raised
        return jnp.where(there, share * jnp.exp(jnp.interp(jnp.log(batch), log_sizes, log_edges)), 0.0), batch
    rate = share[0] * middle
    least = jnp.exp(jnp.interp(jnp.log(rate), log_edges, log_sizes))
    return jnp.where(there, rate, 0.0), least + steps * jnp.maximum(mean - least, 0.0) * raised


@partial(jax.jit, static_argnums=(1, 2))
@partial(jax.value_and_grad, argnums=0)
def log_risk(point, free, averaged, setting):
    """By the recursion of r, of the sum's cross moments, and of its square."""

    def step(moments, now):
        risk, cross, square = moments
        gamma, size, weight = now
        x = gamma * setting["eigenvalues"]
        square = square + 2 * weight * cross.sum() + weight**2 * risk.sum()
        cross = (1 - x) * (cross + weight * risk)
        shaken = x**2 / size * (risk + risk.sum() + setting["noise"])
        return ((1 - x) ** 2 * risk + shaken, cross, square), None

    rate, batch = of_every_step(point, free, setting)
    start = setting["signal"], jnp.zeros_like(setting["signal"]), 0.0
    (risk, _, square), _ = jax.lax.scan(step, start, (rate, batch, setting["weights"]))
    return jnp.log(square if averaged else risk.sum())


def setting_of(case, most_steps):
    """Return the arguments of `log_risk` beside a point."""
    problem, n, mean = case.problem, case.num_steps, float(case.batch_size)
    sizes, weights = np.geomspace(1, n * mean, 4000), np.zeros(most_steps)
    if case.average != LAST:
        weights[int(case.average.first(n)) : n] = 1 / (n - case.average.first(n))
    return {
        "eigenvalues": np.pad(problem.eigenvalues, (0, DIRECTIONS - problem.eigenvalues.size)),
        "signal": np.pad(problem.signal, (0, DIRECTIONS - problem.signal.size)),
        "noise": problem.noise_variance,
        "weights": weights,
        "steps": float(n),
        "mean": mean,
        "there": np.arange(most_steps) < n,
        "log_sizes": np.log(sizes),
        "log_edges": np.log(st.risk.stability_edge(problem, sizes)),
    }


def brute_force(case, rng, restarts, most_steps):
    """The least risk of L-BFGS from random starts, with the derivatives of JAX through every step."""
    with jax.enable_x64(True):
        setting = jax.tree.map(jnp.asarray, setting_of(case, most_steps))

        def value(point):
            return [np.asarray(each, float) for each in log_risk(point, case.free, case.average != LAST, setting)]

        ended = []
        for _ in range(restarts):
            share = np.where(rng.random(most_steps) < 0.3, 1.0, rng.uniform(0, 1, most_steps))
            bounds = [(1e-9, 1.0)] * most_steps + [(-15.0, 15.0)] * most_steps
            begin = np.append(share, rng.normal(size=most_steps))
            ended.append(minimize(value, begin, jac=True, bounds=bounds, method="L-BFGS-B", options=OPTIONS).fun)
    return float(np.exp(min(ended)))


def beaten(seed, cases, most_steps, restarts):
    """By how much brute force is better than what was found, in each case."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(cases):
        case = random_case(rng, most_steps)
        found.append((case.found().risk / brute_force(case, rng, restarts, most_steps) - 1, case))
    return found


def allowed(case):
    return CLOSE_BOTH if case.free == "both" else CLOSE


def test_no_order_of_the_steps_is_better():
    """The example of a referee: the smooth search ended at 3.357e-3."""
    best = st.optimal_schedule(EXAMPLE, num_samples=3000, batch_size=1000)
    least = brute_force(Case(EXAMPLE, 3, 1000, LAST, "rates"), np.random.default_rng(0), 20, 3)
    assert best.risk == pytest.approx(least, rel=CLOSE)
    assert best.risk < 3.2434e-3
    assert best.with_half_the_knots > 3.3e-3  # control: a local optimum
    assert max(best.from_starts.values()) > 3.3e-3
    assert 1 < best.agreeing < best.searches


def test_brute_force_finds_nothing_better():
    for excess, case in beaten(1, 4, 6, 8):
        assert excess < allowed(case), case


@pytest.mark.slow
def test_brute_force_finds_nothing_better_in_many_cases():
    worst = beaten(2, 25 if EXHAUSTIVE else 12, 16, 30) + beaten(3, 3 if EXHAUSTIVE else 2, 64, 10)
    assert all(excess < allowed(case) for excess, case in worst), max(worst, key=lambda item: item[0])


OF_THE_LAST = st.LeastSquares([1.0, 0.354, 0.193, 0.125], [1.88, 0.0526, 0.0134, 0.0106], 0.0259)
OF_THE_MEAN = st.LeastSquares([1.0, 0.127, 0.038, 0.016], [2.82, 0.168, 0.0881, 0.0336], 2.63)
KNOWN = [  # cases, and γ_t over the edge, the best that hundreds of searches by brute force have found
    pytest.param(
        Case(OF_THE_LAST, 25, 60, LAST, "rates"),
        "0.514 1 1 0.5652 1 1 1 0.7315 1 0.7898 0.7096 0.603 0.4997 0.4135 0.3432 0.2829 0.2307 0.1875 0.1536 0.1276 "
        "0.1078 0.0925 0.0806 0.0712 0.0635",
        id="last iterate",
    ),
    slow(
        Case(OF_THE_MEAN, 39, 112, UNIFORM, "rates"),
        "1 1 1 0.692 1 1 1 1 1 1 1 1 1 1 1 0.844 1 1 1 1 0.839 1 1 1 1 0.868 1 1 0.885 1 1 0.912 0.942 0.981 0.963 "
        "0.942 0.904 0.719 0.003",
        id="uniform average",
    ),
]


@pytest.mark.parametrize(("case", "shares"), KNOWN)
def test_the_best_of_some_thirty_steps_is_found(case, shares):
    """Too few starts ended 3·10⁻⁵ and 4·10⁻⁵ above these, with short steps in other places."""
    point = np.append(np.array(shares.split(), float), np.zeros(case.num_steps))
    with jax.enable_x64(True):
        setting = jax.tree.map(jnp.asarray, setting_of(case, case.num_steps))
        known = float(np.exp(log_risk(point, case.free, case.average != LAST, setting)[0]))
    assert case.found().risk == pytest.approx(known, rel=2e-6)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_a_search_for_batch_sizes_ends_at_an_optimum(share):
    """A common factor of all shares changes nothing: searches that were free to vary it got stuck on the way."""
    search = Search(EXAMPLE, 4, 4 * 81.0, True, UNIFORM, True)
    begin = np.array([[np.log(share), 0.0, 0.1, 0.2, 0.3]])
    searches = Searches(search.schedules(), begin)
    before = searches.here.value[0]
    ended = searches.ended(1e-9)
    assert ended.value[0] < before - 0.1
    assert ended.steepest[0] < 1e-4


def test_the_best_of_several_searches_is_returned():
    schedules = Search(EXAMPLE, 9, 9 * 500.0, False, LAST).schedules()
    begin = np.log(np.random.default_rng(0).uniform(0.02, 1, (6, schedules.rates)))
    alone = [few_steps_near(schedules, each[None]).risk for each in begin]
    together = few_steps_near(schedules, begin)
    assert max(alone) > min(alone) * (1 + 1e-9)  # they end differently, if only by what they leave to gain
    assert together.risk == pytest.approx(min(alone), rel=1e-10)
    assert together.searches == together.agreeing == len(begin)


# ------------------------------------------------------------------ where searches begin, and what they try


def test_orders_put_one_step_elsewhere_or_exchange_two():
    every = list(range(5))
    wanted = set()
    for one in range(5):
        for other in range(5):
            rest = every[:one] + every[one + 1 :]
            wanted.add((*rest[:other], one, *rest[other:]))
            exchanged = every.copy()
            exchanged[one], exchanged[other] = other, one
            wanted.add(tuple(exchanged))
    found = [tuple(each) for each in few_steps._orders(5).tolist()]
    assert set(found) == wanted - {tuple(every)}
    assert len(found) == 5 * 4 + 4 * 3 / 2


@pytest.mark.parametrize("free", ["rates", "both", "batches"])
def test_moves_of_a_schedule(free):
    """Steps in other orders, with their batches where these vary, and single rates changed, to the edge or below."""
    n = 4
    schedules = Search(EXAMPLE, n, n * 40.0, free != "rates", LAST, free == "batches").schedules()
    rates, batches = np.array([-0.1, -0.2, -0.3, -0.4])[: schedules.rates], np.array([-4.0, -3.0, -2.0, -1.0])
    found = few_steps._moves(schedules, rates if free == "rates" else np.append(rates, batches))
    orders = few_steps._orders(n)
    changed = np.array(
        [
            np.where(np.arange(n) == k, np.log(to), -0.1 * np.arange(1, 5))
            for to in (1, 0.5, 0.25, 0.1, 0.01)
            for k in range(n)
        ]
    )
    if free == "batches":
        wanted = np.column_stack([np.full(len(orders), -0.1), batches[orders]])
    elif free == "rates":
        wanted = np.concatenate([rates[orders], changed])
    else:
        with_batches = np.hstack([changed, np.tile(batches, (len(changed), 1))])
        wanted = np.concatenate([np.hstack([rates[orders], batches[orders]]), with_batches])
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
def test_chebyshevs_steps_are_the_inverse_roots(steps):
    """The steps are inverse roots of Chebyshev's polynomial on [low, 1], up to the threshold, 2; in three orders."""
    found = few_steps._chebyshev(steps)
    assert len(found) == 9
    for low in (0.3, 0.03, 0.003):
        rising, falling, mixed = (found[f"Chebyshev's from {low:g}, {name}"] for name in ("rising", "falling", "mixed"))
        assert (np.diff(rising) >= 0).all()
        np.testing.assert_array_equal(falling, rising[::-1])
        np.testing.assert_array_equal(np.sort(mixed), rising)
        np.testing.assert_array_equal(mixed[::2], rising[: (steps + 1) // 2])
        np.testing.assert_array_equal(mixed[1::2], rising[(steps + 1) // 2 :][::-1])
        roots = 0.5 / rising[rising < 1]
        place = (2 * roots - 1 - low) / (1 - low)
        np.testing.assert_allclose(np.cos(steps * np.arccos(place)), 0, atol=1e-9)
        assert np.unique(roots.round(9)).size == roots.size
        every = (1 + low) / 2 + (1 - low) / 2 * np.cos(np.pi * (np.arange(steps) + 0.5) / steps)
        assert (every <= 0.5).sum() == (rising == 1).sum()


@pytest.mark.parametrize("free", ["rates", "both", "batches"])
def test_starts_keep_to_the_edge_and_differ(free):
    """They are what their names say; batches rise towards the end, but in some of the random starts."""
    n = 6
    schedules = Search(EXAMPLE, n, n * 40.0, free != "rates", LAST, free == "batches").schedules()
    begin = few_steps._starts(schedules, np.random.default_rng(0))
    assert len(begin) == (12 if free == "batches" else 7 + 9) + 40
    assert list(begin)[-1] == "random 40"
    share = {name: np.exp(point[: schedules.rates]) for name, point in begin.items()}
    every = np.array(list(share.values()))
    assert (every <= 1 + 1e-12).all()
    assert (every >= 1e-6 * (1 - 1e-9)).all()
    assert np.unique(every.round(9), axis=0).shape[0] > 12
    if free == "batches":
        np.testing.assert_allclose(every[:12, 0], np.geomspace(0.02, 1, 12))
    else:
        u = (np.arange(n) + 0.5) / n
        np.testing.assert_allclose(share["linear decay"], 0.3 * (1 - u))
        np.testing.assert_allclose(share["constant"], 0.5)
        np.testing.assert_allclose(share["small"], 0.01)
        np.testing.assert_allclose(share["large, linear decay"], 0.9 * (1 - u))
        np.testing.assert_allclose(share["next to the edge"], 0.95)
        np.testing.assert_allclose(share["cosine"], 0.45 * (1 + np.cos(np.pi * u)))
        np.testing.assert_allclose(share["late decay"], np.minimum(0.95, 2 * (1 - u)))
    if free != "rates":
        batches = np.array(list(begin.values()))[:, schedules.rates :]
        assert (np.diff(batches[:-20], axis=1) >= 0).all()
        assert (np.diff(batches[-20:], axis=1) < 0).any()


def test_few_steps_of_one_direction():
    """Its least risk is known; searches near its optimum find it again."""
    problem, n, batch = st.LeastSquares([1.0], [2.0], 0.3), 5, 3.0
    risk, _ = one_direction(2.0, 0.3, batch, n)
    schedules = Search(problem, n, n * batch, False, LAST).schedules()
    found = few_steps.few_steps(schedules)
    assert found.risk == pytest.approx(risk, rel=1e-9)
    assert found.slope < 1e-5
    assert found.agreeing == found.searches >= 12  # there is one optimum
    assert len(found.from_starts) == 7 + 9 + 40
    assert min(found.from_starts.values()) == pytest.approx(risk, rel=1e-4)
    assert len(found.varied) in (2, 3)  # the best one, and those of the searches, rounded up or down
    assert np.exp(schedules(found.varied[:1]).value[0]) == pytest.approx(risk, rel=1e-9)
    np.testing.assert_allclose(np.exp(found.log_batch), batch)
    np.testing.assert_array_equal(found.log_rate, schedules.steps(found.varied[:1])[0][0])
    near = few_steps.few_steps_near(schedules, found.varied - 0.05)
    assert near.risk == pytest.approx(risk, rel=1e-7)
    assert (near.from_starts, near.searches) == ({}, len(found.varied))


def test_different_optima_are_kept_to_begin_other_searches_with():
    """The best one first, and then others, the best of them first: every one that differs by more than rounding."""
    case = KNOWN[0].values[0]
    n, batch = 8, float(case.batch_size)
    schedules = Search(case.problem, n, n * batch, False, LAST).schedules()
    begin = np.log(np.random.default_rng(1).uniform(0.02, 1, (24, n)))
    found = few_steps_near(schedules, begin)
    first, *others = schedules(found.varied).value
    assert np.exp(first) == pytest.approx(found.risk, rel=1e-12)
    ended = np.sort(Searches(schedules, begin).ended(few_steps.ROUGH_GAIN).value)
    different = ended[np.append(True, np.diff(ended) > 2e-6)]
    print(different, others)
    assert 2 < different.size < 8
    assert (np.abs(different[:, None] - others).min(1) < 2e-6).all()
    assert (np.diff(others) >= 0).all()
    assert len(others) <= 8


def test_a_constant_rate_has_no_steps_to_exchange():
    """At one batch size every search that goes on ends at the best learning rate, and nothing else is tried."""
    setting = {"num_samples": 5 * 16, "batch_size": 16}
    found = st.optimal_schedule(EXAMPLE, **setting, constant_learning_rate=True)
    best = st.optimal_learning_rate(EXAMPLE, **setting, algorithm=st.Algorithm(average=LAST))
    assert found.risk == pytest.approx(best.risk, rel=1e-7)
    assert found.peak_learning_rate == pytest.approx(best.learning_rate, rel=1e-3)
    assert found.searches == found.agreeing == few_steps.KEPT
    assert len(found.from_starts) == 12 + 40
