"""B* of algorithms that return the last iterate, by brute force: every batch size of D samples, every number of steps.

The moments of two vectors, iterate and momentum, written once more for many γ at a time; without momentum the second
stays 0. Nothing is shared with the library but the end of the range of γ, which is a definition. Schedule-free SGD has
none: there γ goes from next to nothing to far beyond where its runs diverge.
"""

import warnings

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.tuned_risk import TunedRisk
from tests import brute_force
from tests.marks import half, sampled, slow

LAST, EXPONENTIAL = st.LastIterate(), st.ExponentialAverage(window=0.2)
PLACES = np.linspace(-14.0, 14.0, 400)  # of log(γ/(edge − γ)); minima are refined
FAR_BEYOND = 1e3  # times 1/λ_1: schedule-free is tried up to here,
FAR_PLACES = np.linspace(-20.0, 14.0, 2000)  # at places that are closer together than it turns
TIE = 3e-9  # relative: risks this close reach a target
MOST_TOGETHER = 16  # Settings in one array. One by one, 1,929 samples with momentum take 2.4 times as long.
SHAPES = {
    st.Constant(): lambda u: np.ones_like(u),
    st.Linear(): lambda u: 1 - u,
    st.PowerDecay(3): lambda u: (1 - u) ** 3,
    st.Cosine(): lambda u: (1 + np.cos(np.pi * u)) / 2,
}


def risks(problem, shape, momentum, batch, rates, steps):
    """Risks of w_n for (P, M) γ of P settings: m ← βm + g, w ← w − γ_t m, by E w², E wm, E m² of each direction."""
    eigenvalue, signal = problem.directions()
    rates, batch = rates[..., None], batch[:, None, None]
    ww = np.broadcast_to(signal, np.broadcast_shapes(rates.shape, signal.shape))
    wm, mm = np.zeros_like(ww), np.zeros_like(ww)
    for t in range(steps.max()):
        rate = rates * np.where(t < steps, SHAPES[shape](np.minimum(t / steps, 1)), 0)[:, None, None]  # ended: at rest
        noise = eigenvalue**2 / batch * (ww + ww.sum(-1, keepdims=True) + problem.noise_variance)
        if not momentum:
            ww = (1 - rate * eigenvalue) ** 2 * ww + rate**2 * noise
            continue
        pulled = eigenvalue**2 * ww + 2 * momentum * eigenvalue * wm
        new = momentum**2 * mm + pulled + noise  # E m², after the step
        cross = momentum * wm + eigenvalue * ww  # E w m, of the old w and the new m
        ww, wm, mm = ww - 2 * rate * cross + rate**2 * new, cross - rate * new, new
    return ww.sum(-1)


def risks_of_schedule_free(problem, beta, batch, rates, steps):
    """Risks of x_n for (P, M) γ, by the moments E z², E zx, E x² of each direction; inf where they overflow."""
    eigenvalue, signal = problem.directions()
    pulls, batch = rates[..., None] * eigenvalue, batch[:, None, None]
    zz = zx = xx = np.broadcast_to(signal, pulls.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(steps.max()):
            going = (t < steps)[:, None, None]
            pull, share = pulls * going, going / (t + 1)
            seen = (1 - beta) ** 2 * zz + 2 * beta * (1 - beta) * zx + beta**2 * xx
            noise = pull**2 / batch * (seen + seen.sum(-1, keepdims=True) + problem.noise_variance)
            own, other = 1 - pull * (1 - beta), -pull * beta
            new_zz = own**2 * zz + 2 * own * other * zx + other**2 * xx + noise
            new_zx = own * zx + other * xx  # E of the new z and the old x
            xx = (1 - share) ** 2 * xx + 2 * share * (1 - share) * new_zx + share**2 * new_zz
            zx = (1 - share) * new_zx + share * new_zz
            zz = new_zz
        return np.nan_to_num(xx.sum(-1), nan=np.inf)


def least(problem, algorithm, batch, steps):
    """(P,) min over γ for P batch sizes and numbers of steps."""
    if isinstance(algorithm.method, st.ScheduleFree):
        beta = algorithm.method.interpolation
        return brute_force.best_of_each(
            lambda rates: risks_of_schedule_free(problem, beta, batch, rates, steps),
            np.full(batch.size, FAR_BEYOND),
            FAR_PLACES,
        )
    momentum = getattr(algorithm.method, "momentum", 0.0)
    return brute_force.best_of_each(
        lambda rates: risks(problem, algorithm.schedule, momentum, batch, rates, steps),
        TunedRisk(problem, algorithm).edge(batch, steps.astype(float)),
        PLACES,
    )


def together(steps):
    """Slices of decreasing numbers of steps: few enough that none is much smaller than the first."""
    first = 0
    while first < steps.size:
        last = first + np.searchsorted(-steps[first : first + MOST_TOGETHER], -0.7 * steps[first], "right")
        yield slice(first, last)
        first = last


def answer(problem, algorithm, samples, overhead=0.2):
    """R_opt, the number of steps that attains it, and B*."""
    root = int(np.sqrt(samples)) + 1
    sizes = np.array(sorted({int(samples // n) for n in range(1, root + 1)} | set(range(1, root + 1))))
    steps = (samples // sizes).astype(int)
    risk = np.concatenate(
        [least(problem, algorithm, sizes[part].astype(float), steps[part]) for part in together(steps)]
    )
    optimal, best = risk.min(), int(steps[risk == risk.min()].min())
    budget = (1 + overhead) * samples * (1 + 1e-12)
    if best == 1:
        return optimal, 1, 0
    for first in range(2, 10**6, MOST_TOGETHER):
        steps = np.arange(first, first + MOST_TOGETHER)
        enough = least(problem, algorithm, budget // steps, steps) <= optimal * (1 + TIE)
        if enough.any():
            return optimal, best, int(budget // steps[enough.argmax()])
    raise AssertionError("no number of steps reaches R_opt")


def check(problem, algorithm, samples):
    optimal, steps, critical = answer(problem, algorithm, samples)
    given = {"num_samples": samples, "algorithm": algorithm, "curve": False}
    if steps == 1:
        with pytest.raises(ValueError, match=f"one step with all of them is not the best, got {samples:g}"):
            st.critical_batch_size(problem, **given)
        return
    found = st.critical_batch_size(problem, **given)
    assert found.optimal_risk == pytest.approx(optimal, rel=2e-8)
    assert found.batch_size == critical


def algorithm_of(shape, momentum=0.0):
    return st.Algorithm(st.HeavyBall(momentum) if momentum else st.SGD(), shape, average=LAST)


ONE = [1.0]
CASES = [
    ((ONE, ONE, 30.0), st.Constant(), 0.0, 500),  # one step is best
    (([1.0, 0.0305587], [0.02283404, 0.05009317], 10.264), st.Constant(), 0.0, 841),  # two; with 1.2 D one would do
    ((ONE, [0.15958671], 0.27782943), st.Cosine(), 0.0, 439),  # four, not eight
    ((ONE, [0.4075247], 0.11229736), st.Constant(), 0.9, 600),  # minima over γ that swing
]
LONGER = [
    ((ONE, [0.7709], 1.0), st.PowerDecay(3), 0.0, 996),  # four steps
    (([1.0, 0.88798833], [0.05610396, 0.94382175], 10.543), st.PowerDecay(3), 0.0, 3069),
    (([1.0, 0.81062811, 0.27917193], [0.448427, 0.16517905, 0.13324398], 0.121472), st.Linear(), 0.0, 3529),
    ((ONE, [0.4075247], 0.11229736), st.Constant(), 0.9, 20189),
    ((ONE, ONE, 30.0), st.Constant(), 0.0, 2000),
]


@pytest.mark.parametrize(("problem", "shape", "momentum", "samples"), [*CASES, *(slow(*case) for case in LONGER)])
def test_every_batch_size_and_every_number_of_steps(problem, shape, momentum, samples):
    check(st.LeastSquares(*problem[:2], noise_variance=problem[2]), algorithm_of(shape, momentum), samples)


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(24), 16))  # every schedule with every momentum
def test_random_problems(seed):
    """About half of these were wrong as long as small numbers of steps were not tried above 400 samples."""
    rng = np.random.default_rng(seed)
    number = rng.integers(1, 4)
    eigenvalues = np.sort(10.0 ** rng.uniform(-2, 0, number))[::-1]
    problem = st.LeastSquares(
        eigenvalues / eigenvalues[0], 10.0 ** rng.uniform(-2, 0, number), 10.0 ** rng.uniform(-1, 2)
    )
    shape = list(SHAPES)[seed % len(SHAPES)]
    check(problem, algorithm_of(shape, (0.0, 0.0, 0.6, 0.9)[seed // 4 % 4]), float(rng.integers(401, 2000)))


SCHEDULE_FREE = [  # in each of them γ* or R_opt is where γλ_1 exceeds 2
    slow(([1.0, 0.25, 0.11], [0.6, 0.3, 0.1], 0.1), 0.9, 300),
    (([1.0, 0.1], [0.3, 0.7], 0.01), 0.98, 200),
]


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "beta", "samples"), SCHEDULE_FREE)
def test_schedule_free(problem, beta, samples):
    check(st.LeastSquares(*problem), st.Algorithm(st.ScheduleFree(beta), average=LAST), samples)


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(12), 6))
def test_schedule_free_on_random_problems(seed):
    rng = np.random.default_rng(300 + seed)
    number = rng.integers(1, 5)
    eigenvalues = np.sort(10.0 ** rng.uniform(-2, 0, number))[::-1]
    noise = 10.0 ** rng.uniform(-2, 0.5)
    problem = st.LeastSquares(eigenvalues / eigenvalues[0], 10.0 ** rng.uniform(-2, 0, number), noise)
    beta = float(rng.choice([0.5, 0.9, 0.98]))
    check(problem, st.Algorithm(st.ScheduleFree(beta), average=LAST), float(rng.integers(100, 700)))


def test_one_step_with_more_samples_is_no_batch_size_but_remarked():
    (eigenvalues, signal, noise), *_, samples = CASES[1]
    found = st.critical_batch_size(
        st.LeastSquares(eigenvalues, signal, noise), num_samples=samples, algorithm=st.Algorithm(average=LAST)
    )
    assert found.batch_size == np.floor(1.2 * samples / 2)
    assert "one step with 1009.2 samples also reaches the optimal risk" in found.remark
    assert found.rate_batch_size == samples, "of D samples one step keeps the rate"


@pytest.mark.parametrize(
    ("method", "setting"), half([st.HeavyBall(0.9), st.Nesterov(0.9)], [(484, 50), (232, 87), (351, 62)])
)
def test_minima_that_swing_with_the_learning_rate(method, setting):
    """Scans at half decades of γ missed them by up to a factor of 3.4."""
    batch, steps = setting
    problem, algorithm = st.LeastSquares([1.0], [0.4075], 0.1123), st.Algorithm(method, average=LAST)
    best = st.optimal_learning_rate(problem, batch_size=batch, num_samples=batch * steps, algorithm=algorithm)
    edge = st.max_stable_learning_rate(problem, batch_size=batch, algorithm=algorithm)
    rates = edge * np.linspace(0.005, 1.0, 1500) ** 2
    dense = st.excess_risk(
        problem, batch_size=batch, learning_rate=rates, num_samples=batch * steps, algorithm=algorithm
    ).total
    assert best.risk <= dense.min(), "by a grid that is finer than the swings"
    assert best.risk == pytest.approx(dense.min(), rel=0.15)


def test_a_ramp_beyond_the_edge_is_no_optimum_and_warns_of_nothing():
    """Few nodes lose moments that grow by 1e38 on the way, and took them for 0: the least risk of all."""
    ramp = st.Algorithm(batch_schedule=st.Linear(final=8), average=LAST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = st.critical_batch_size(st.PowerLaw(2.0, 3.0), num_samples=1e5, algorithm=ramp, curve=False)
    cosine = st.Algorithm(schedule=st.Cosine(), average=LAST)
    other = st.critical_batch_size(st.PowerLaw(2.0, 3.0), num_samples=1e5, algorithm=cosine, curve=False)
    assert 1 < found.optimal_risk / other.optimal_risk < 4


def test_an_average_of_a_length_of_its_own_is_best_after_some_lengths():
    """1/(1 − 0.9) = 10 iterates: 79 steps are best, between numbers of steps that were too far apart to show it."""
    problem = st.LeastSquares([1.0], [0.1595867], 0.1219178)
    algorithm = st.Algorithm(schedule=st.WSD(0.2), average=st.ExponentialAverage(decay=0.9))
    sizes = np.unique(12408 // np.arange(70.0, 90.0))
    listed = st.optimal_learning_rate(problem, batch_size=sizes, num_samples=12408, algorithm=algorithm).risk
    found = st.critical_batch_size(problem, num_samples=12408, algorithm=algorithm, curve=False)
    assert found.optimal_risk <= listed.min() * (1 + 1e-8)


@pytest.mark.parametrize(
    ("problem", "schedule", "average", "samples"),
    [
        slow(  # ⌈n/2⌉ iterates: odd numbers of steps are better
            ([1.0, 0.12233], [0.116968, 0.208427], 40.8557), st.Cosine(warmup=0.1), st.TailAverage(0.5), 64550
        ),
        (([1.0, 0.4637, 0.14161], [0.39296, 0.48296, 0.01494], 0.47167), st.Constant(), EXPONENTIAL, 12549),  # 65 steps
    ],
)
def test_above_forty_steps_odd_numbers_count_too(problem, schedule, average, samples):
    """Even ones alone were tried where steps may resonate, as those of averaged SGD do."""
    problem, algorithm = st.LeastSquares(*problem), st.Algorithm(schedule=schedule, average=average)
    sizes = np.unique(samples // np.arange(41.0, 121.0))
    listed = st.optimal_learning_rate(problem, batch_size=sizes, num_samples=samples, algorithm=algorithm).risk
    found = st.critical_batch_size(problem, num_samples=samples, algorithm=algorithm, curve=False)
    assert found.optimal_risk <= listed.min() * (1 + 1e-8)
    assert (samples // sizes)[listed.argmin()] % 2 == 1


def test_stages_have_a_pattern_in_the_number_of_steps():
    """With B = 28 and 5,286 samples 187 steps are enough, and neither 188, the most, nor 183 to 186."""
    problem = st.LeastSquares([1.0, 0.166864, 0.0182592], [0.194714, 0.0163294, 0.366461], 4.88734)
    stages = st.Algorithm(schedule=st.Stages([0, 0.5, 0.75], [1, 0.3, 0.1]), average=st.TailAverage(0.5))
    found = st.critical_batch_size(problem, num_samples=4405, algorithm=stages, curve=False)
    assert (found.batch_size, found.num_steps) == (28, 187)


@pytest.mark.slow  # a minute
def test_under_a_decay_the_swings_of_momentum_last():
    """102 steps are enough, long after a constant learning rate would have forgotten its momentum."""
    problem = st.LeastSquares(
        [1.0, 0.6124469184244309], [0.08193684809643172, 0.012129645123701823], 0.10685858909434316
    )
    algorithm = st.Algorithm(st.AcceleratedSGD(0.9, 0.1, 5.0), st.PowerDecay(3, 0.1), average=LAST)
    found = st.critical_batch_size(problem, num_samples=70057, algorithm=algorithm, curve=False)
    assert found.num_steps == 102
    budget = 1.2 * 70057
    steps = np.array([101.0, 102.0])
    risk = TunedRisk(problem, algorithm).least(np.floor(budget / steps), steps).risk / found.optimal_risk
    np.testing.assert_array_equal(risk <= 1 + 1e-9, [False, True])


@pytest.mark.slow  # half a minute
def test_fewer_samples_than_steps_in_which_momentum_swings():
    problem = st.LeastSquares([1.0, 0.02748], [0.373154, 0.031857], 0.203255)
    algorithm = st.Algorithm(st.Nesterov(0.95), st.PowerDecay(3), average=st.TailAverage(0.5))
    found = st.critical_batch_size(problem, num_samples=666, algorithm=algorithm, curve=False)
    assert found.optimal_batch_size == 1
    assert found.optimal_risk == pytest.approx(0.0017104802801, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capacity", "source", "noise"), [(1.1, 2.0, 0.3), (2.0, 3.0, 1.0), (1.2, 3.0, 3.0), (3.0, 4.0, 1.0)]
)
def test_momentum_swings_on(capacity, source, noise):
    """A step more may raise the risk of momentum: the fewest sufficient steps are those of a list of all."""
    problem, samples = st.PowerLaw(capacity, source, 16, noise_variance=noise), 600.0
    given = {
        "num_samples": samples,
        "curve": False,
        "algorithm": st.Algorithm(method=st.HeavyBall(0.9), average=st.LastIterate()),
    }
    found = st.critical_batch_size(problem, **given)
    tuned = TunedRisk(problem, given["algorithm"])
    steps = np.arange(2.0, found.num_steps + 1)
    for batch, fewest in (
        (1.2 * samples / steps, 1.2 * samples / found.real_batch_size),
        (np.full(steps.size, found.batch_size), found.num_steps),
    ):
        enough = tuned.least(batch, steps).risk <= found.optimal_risk * (1 + 1e-12)
        assert steps[enough][0] == pytest.approx(fewest, rel=1e-9)


@pytest.mark.slow  # ten seconds
def test_batch_sizes_that_never_reach_it():
    """The average keeps e^−2 of w_0, which a few large steps of large batches cancel: others never are as good."""
    problem = st.PowerLaw(2.0, 4.0, noise_variance=0.1).with_features(4)
    algorithm = st.Algorithm(average=st.ExponentialAverage(window=0.5))
    found = st.critical_batch_size(problem, num_samples=500, algorithm=algorithm)
    never = np.isinf(found.curve.num_steps)
    assert never.any()
    assert not never.all()
    assert (found.curve.batch_size[never] < found.optimal_batch_size).all()
    assert np.isnan(found.curve.learning_rate_needed[never]).all()
    least = st.optimal_learning_rate(problem, batch_size=1, num_samples=[1e6, 1e9], algorithm=algorithm)
    assert (least.risk > 1.02 * found.optimal_risk).all()
    assert least.risk[0] == pytest.approx(least.risk[1], rel=1e-3), "and does not fall any more"
    assert found.batch_size <= found.curve.batch_size_at(0.5) <= found.curve.batch_size[-1]
