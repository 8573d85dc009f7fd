"""Branching a run: against the exact moments of a network with frozen features, numpy's own steps, and known laws."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from experiments._lib import frozen_features as frozen
from sgdtheory.training import Branches, Lanes, TeacherStream, branch, branching, train
from sgdtheory.training.branching import _fieller
from tests.runs import changed, run_of

FROZEN = run_of(
    width=6, base_width=1, depth=1, activation="tanh", input_dim=5, capacity=0.75, source=2.0, noise_variance=1.0,
    holdout_size=64, trained="output", optimizer="sgd", averages=(), batch_size=4, learning_rate=0.7,
)  # fmt: skip
STEPS, FACTORS, CATCH_UP, SEEDS = np.array([8, 32]), np.array([1, 2, 4, 8]), 64, 128
ALARM = 1e-5
MLP = run_of(
    width=8, base_width=8, depth=1, input_dim=4, batch_size=4, holdout_size=16, max_steps=64, averages=(0.5,),
    micro_batch=2, target_loss=1e-9,
)  # fmt: skip


@pytest.fixture(scope="module")
def features():
    return frozen.features_of(FROZEN, 1 << 14)


@pytest.fixture(scope="module")
def branches():
    runs = [replace(FROZEN, data_seed=seed) for seed in range(SEEDS)]
    return branch(runs, STEPS, factors=FACTORS, catch_up=CATCH_UP)


def exact_losses(features, rate_exponent=1.0, batch_exponent=1.0):
    """(T, K) expected loss on the hold-out, from the first two moments of the weights, step by step."""
    inputs, targets = TeacherStream(FROZEN.data, 1, FROZEN.holdout_size).holdout()
    phi = frozen.activations(FROZEN, inputs.astype(float) @ features.inner)
    missed = targets - phi @ features.best
    h, gamma, found = features.covariance, features.unit * FROZEN.learning_rate, []

    def stepped(mean, second, rate, batch_size, number):
        for _ in range(number):
            keep = np.eye(len(mean)) - rate * h
            fresh = (features.fourth @ second.reshape(-1) - 2 * features.residual @ mean).reshape(h.shape)
            second, mean = (
                keep @ second @ keep + rate**2 / batch_size * (fresh + features.noise - h @ second @ h),
                keep @ mean,
            )
        return mean, second

    for step in STEPS:
        mean = features.start - features.best
        begun, row = stepped(mean, np.outer(mean, mean), gamma, FROZEN.batch_size, step), []
        for factor in FACTORS:
            size = factor * FROZEN.batch_size
            noisy = factor**batch_exponent * FROZEN.batch_size
            mean, second = stepped(*begun, gamma * factor**rate_exponent, noisy, CATCH_UP // size)
            row.append(np.mean(np.einsum("mi,ij,mj->m", phi, second, phi) - 2 * missed * (phi @ mean) + missed**2))
        found.append(row)
    return np.array(found)


def worst(branches, exact):
    """Largest |t| of mean losses over runs against the exact ones."""
    error = branches.losses.std(axis=2, ddof=1) / SEEDS**0.5
    return np.abs((branches.losses.mean(axis=2) - exact) / error).max()


@pytest.mark.slow
def test_losses_are_those_of_the_exact_moments(features, branches):
    """False alarm 1e-5 for eight t-tests at once; another rule for γ, or batches that do not grow, must not pass."""
    limit = stats.t.isf(ALARM / 2 / branches.losses[:, :, 0].size, SEEDS - 1)
    assert branches.rate_exponent == 1.0
    assert worst(branches, exact_losses(features)) < limit
    assert worst(branches, exact_losses(features, rate_exponent=0.5)) > limit
    assert worst(branches, exact_losses(features, batch_exponent=0.0)) > limit


@pytest.mark.slow
def test_critical_batch_size_is_that_of_the_exact_moments(features, branches):
    """The exact one lies in the interval, false alarm 1e-4 for four; that of another tolerance must not."""
    exact = replace(branches, losses=exact_losses(features)[:, :, None])
    for tolerance in 0.05, 0.2:
        found = branches.critical_batch_size(tolerance, level=1 - 2.5e-5)
        true = exact.critical_batch_size(tolerance)
        assert np.isfinite(true.batch_size).all()
        assert np.isnan(true.low).all()
        assert ((found.low <= true.batch_size) & (true.batch_size <= found.high)).all()
        other = exact.critical_batch_size(6 * tolerance if tolerance < 0.1 else tolerance / 6)
        assert not ((found.low <= other.batch_size) & (other.batch_size <= found.high)).any()
    np.testing.assert_array_equal(found.samples, STEPS * 4)


def test_a_branch_sees_the_samples_that_the_run_goes_on_with(features):
    """Steps of numpy on single samples of the stream, from the run's own weights."""
    runs = [replace(FROZEN, data_seed=seed) for seed in (3, 4)]
    found = branch(runs, 8, factors=(1, 4), catch_up=16, rate_exponent=0.25).losses[0, 1]
    lanes, draw = Lanes(runs), jax.jit(TeacherStream(FROZEN.data, 1, FROZEN.holdout_size).batch)
    lanes.advance(8)
    inputs, targets = lanes._stream.holdout()
    for run, weights, loss in zip(runs, lanes.weights()["output"][:, :, 0], found, strict=True):
        samples = [draw(jnp.uint32(run.data_seed), jnp.uint32(8 * 4 + place)) for place in range(16)]
        x, y = (np.concatenate([np.asarray(pair[part], float) for pair in samples]) for part in (0, 1))
        phi, multiplier = frozen.activations(run, x @ features.inner), frozen.output_factors(run).multiplier
        effective = multiplier * weights.astype(float)
        effective -= 4**0.25 * run.learning_rate * features.unit * phi.T @ (phi @ effective - y) / 16
        predicted = frozen.activations(run, inputs.astype(float) @ features.inner) @ effective
        assert loss == pytest.approx(np.mean((predicted - targets) ** 2), rel=1e-4)


def test_the_branch_of_the_same_batch_size_is_the_run():
    """Its losses and its gradient noise scale, with averages and targets left out, wherever checkpoints lie."""
    runs = [replace(MLP, seed=seed, data_seed=seed + 5) for seed in (0, 1)]
    found = branch(runs, (8, 16), factors=(1, 2, 8), catch_up=(64, 96))
    assert found.losses.shape == (2, 3, 2)
    assert found.rate_exponent == 0.5
    np.testing.assert_array_equal(found.catch_up, (64, 96))
    for row, run in enumerate(runs):
        for place, end in enumerate((24, 40)):
            result = train(changed(run, max_steps=end, target_loss=None))
            assert found.losses[place, 0, row] == pytest.approx(result.curve()[-1], rel=1e-5)
            since = result.steps > found.steps[place]
            length = np.diff(result.steps, prepend=0)[since]
            for name in "squared_gradient", "gradient_variance":
                mean = np.average(getattr(result, name)[since], weights=length)
                assert getattr(found, name)[place, row] == pytest.approx(mean, rel=1e-4)
    scale = found.noise_scale()
    assert scale.batch_size[1] == pytest.approx(found.gradient_variance[1].mean() / found.squared_gradient[1].mean())


@pytest.mark.parametrize(
    ("optimizer", "given", "power"), [("sgd", None, 1.0), ("adam", None, 0.5), ("sign", None, 0.5), ("adam", 0.7, 0.7)]
)
def test_learning_rates_of_branches(monkeypatch, optimizer, given, power):
    """k^p times that of the run, for a half of the steps with k = 2; by default p is 1 for SGD and ½ for others."""
    asked = []
    one = np.ones((1, 1))
    monkeypatch.setattr(branching, "_trunk", lambda *arguments: ([], one, np.ones((1, 1, 2))))
    monkeypatch.setattr(branching, "_branch_losses", lambda *arguments: asked.append(arguments[2:]) or one)
    found = branch(
        [run_of(optimizer=optimizer, batch_size=8)], [4], factors=[1, 2, 4], catch_up=64, rate_exponent=given
    )
    assert found.rate_exponent == power
    assert [(lengths.tolist(), factor, rate) for lengths, factor, rate in asked] == [
        ([4], 2, 2**power),
        ([2], 4, 4**power),
    ]


def made(losses, gradients=None):
    """Branches of a table, at batch size 4."""
    losses = np.asarray(losses, float)
    pair = np.full((2, *losses[:, 0].shape), np.nan) if gradients is None else gradients
    return Branches(MLP, np.arange(1, len(losses) + 1) * 8, np.full(len(losses), 64), FACTORS, 0.5, losses, *pair)


def test_where_the_loss_crosses_the_tolerance():
    excess = [[0, 0.01, 0.02, 0.06], [0, 0.08, 0, 0], [0, 0, 0, 0], [0, 0, np.nan, 0], [0, -0.5, np.inf, np.nan]]
    one = made(2 * (1 + np.array(excess)[:, :, None]))
    np.testing.assert_allclose(one.critical_batch_size(0.04).batch_size, [4 * 4 * 2**0.5, 4 * 2**0.5, np.inf, 8, 8])
    np.testing.assert_allclose(one.critical_batch_size(0.08, relative=False).batch_size[0], 4 * 4 * 2**0.5)
    np.testing.assert_allclose(one.excess[:2], excess[:2], atol=1e-12)
    assert np.isnan(one.noise_scale().batch_size).all()


@pytest.mark.parametrize("doublings", [2.0, 1.45])
def test_intervals_cover_as_often_as_they_say(doublings):
    """400 checkpoints at 90%, by the binomial's quantile 1e-5; if B* lies between factors they cover more often.

    Scatter that branches share does not widen them.
    """
    rng, number, size = np.random.default_rng(0), 400, 6
    shared = rng.normal(0, 0.3, (number, 1, size))
    excess = 0.05 * np.log2(FACTORS)[:, None] + rng.normal(0, 0.02, (number, len(FACTORS), size))
    excess[:, 0] = 0.0
    found = made(3 + shared + excess).critical_batch_size(0.05 * doublings, relative=False, level=0.9)
    true = 4 * 2**doublings
    least, most = stats.binom.ppf([1e-5, 1 - 1e-5], number, 0.9)
    covered = int(((found.low <= true) & (true <= found.high)).sum())
    assert least <= covered <= (most if doublings == 2 else number)
    assert int(((found.low <= 1.5 * true) & (1.5 * true <= found.high)).sum()) < least
    assert np.median(found.high / found.low) < 2


def test_interval_of_the_noise_scale():
    """Fieller's, of a ratio 50 whose denominator scatters: coverage as above; open where ‖g‖² may be 0."""
    rng, number, size = np.random.default_rng(1), 400, 8
    squared, trace = rng.normal(1, 0.6, (number, size)), rng.normal(50, 5, (number, size))
    found = made(np.ones((number, 4, size)), (squared, trace)).noise_scale(level=0.9)
    covered = int(((found.low <= 50) & (found.high >= 50)).sum())
    least, most = stats.binom.ppf([5e-5, 1 - 5e-5], number, 0.9)
    assert least <= covered <= most
    assert int(((found.low <= 100) & (found.high >= 100)).sum()) < least
    open_ended = made(np.ones((1, 4, 3)), (np.array([[1.0, -1, 0.1]]), np.full((1, 3), 50.0))).noise_scale()
    assert open_ended.high[0] == np.inf
    assert 0 < open_ended.low[0] < 1500


@pytest.mark.parametrize("seeds", [2, 3, 9])
def test_fiellers_interval_ends_where_a_t_test_rejects(seeds):
    """|mean(trace − r squared)| is t standard errors at both ends; the mean of `squared` is below 1."""
    rng = np.random.default_rng(0)
    trace, squared = rng.normal(3, 0.01, seeds), rng.normal(0.5, 0.002, seeds)
    low, high = _fieller(trace, squared, 0.9)
    assert low < trace.mean() / squared.mean() < high
    for ratio in (low, high):
        rest = trace - ratio * squared
        assert abs(rest.mean()) * seeds**0.5 / rest.std(ddof=1) == pytest.approx(stats.t.ppf(0.95, seeds - 1), rel=1e-6)
    for missing in ((trace[:1], squared[:1]), (trace, np.full(seeds, np.inf)), (np.full(seeds, np.nan), squared)):
        assert np.isnan(_fieller(*missing, 0.9)).all()


def test_what_cannot_branch_is_refused():
    run, good = changed(MLP, batch_size=4), {"steps": 8, "factors": (1, 2), "catch_up": 16}
    cases = [
        ([], {}, "^configs must be at least one, got none$"),
        ([run, changed(run, learning_rate=0.1)], {}, "seed and data_seed alone, got different learning_rate$"),
        ([changed(run, schedule="cosine")], {}, "^schedule must be Constant for runs that branch, got Cosine"),
        ([run], {"factors": (2, 4)}, r"^factors must be two or more that increase from 1, got \[2, 4\]$"),
        ([run], {"factors": (1,)}, "^factors must be two or more"),
        ([run], {"steps": (8, 4)}, r"^steps must increase, got \[8, 4\]$"),
        ([run], {"steps": 9}, r"^steps must be multiples of 2, that every factor divides, got \[9\]$"),
        ([run], {"catch_up": 12}, r"^catch_up must be a multiple of 8, batch_size times 2, got \[12\]$"),
        ([run], {"catch_up": (8, 8)}, "^catch_up must be one number or one for each of 1 steps, got 2$"),
        ([changed(run, warmup=0.5)], {}, "^steps must lie after the warm-up, which ends at 32, got 8$"),
        ([run], {"steps": 1.5}, "^steps must be a whole number"),
    ]
    for runs, change, words in cases:
        with pytest.raises(ValueError, match=words):
            branch(runs, **(good | change))
    with pytest.raises(ValueError, match="^tolerance must be"):
        made(np.ones((1, 4, 2))).critical_batch_size(0.0)
    with pytest.raises(ValueError, match="^level must lie between 0 and 1"):
        made(np.ones((1, 4, 2))).critical_batch_size(level=1.0)
