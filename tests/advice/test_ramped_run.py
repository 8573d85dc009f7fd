"""A run along a ramp against a loop over its steps, and its learning rates against their definition."""

import dataclasses

import numpy as np
import pytest

import sgdtheory as st

STAGES = [((0, 8), (80, 16)), ((0, 5), (7, 12), (40, 3)), ((0, 64),), ((0, 1), (1, 2))]


def run_along(stages, **settings):
    numbers = {"num_samples": 333, "learning_rate": 0.3, "exponent": 0.5, "warmup_samples": 50, "decay_samples": 100}
    return st.advice.RampedRun(stages, **(numbers | settings))


def loop(run):
    """Samples before each step, and after the last one."""
    seen = [0]
    while seen[-1] < run.num_samples:
        seen.append(seen[-1] + [size for start, size in run.stages if start <= seen[-1]][-1])
    return np.array(seen)


@pytest.mark.parametrize("stages", STAGES)
def test_steps_and_samples_are_those_of_a_loop(stages):
    run = run_along(stages)
    seen = loop(run)
    assert run.num_steps == seen.size - 1
    assert [run.samples_at(step) for step in range(seen.size)] == seen.tolist()
    assert run.samples_at(seen.size + 5) == seen[-1]
    for samples in range(seen[-1] + 1):
        assert run.steps_at(samples) == np.flatnonzero(seen >= samples)[0]
    assert run.steps_at(seen[-1] + 1) == run.num_steps
    assert run.warmup_steps == np.flatnonzero(seen >= 50)[0]
    assert run.decay_start_step == np.flatnonzero(seen >= 233)[0]
    assert run.decay_steps == run.num_steps - run.decay_start_step


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize(("warmup", "decay"), [(50, 100), (0, 100), (50, 0), (0, 0), (233, 100)])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_the_learning_rate_rises_holds_and_falls_in_samples(stages, warmup, decay, exponent):
    run = run_along(stages, warmup_samples=warmup, decay_samples=decay, exponent=exponent)
    for samples in (0, 1, 10, 39, 40, 79, 80, 200, 233, 300, 332, 333, 400):
        size = [size for start, size in stages if start <= samples][-1]
        rise = 1.0 if warmup == 0 else min(1.0, samples / warmup)
        fall = 1.0 if decay == 0 else min(1.0, max(0, 333 - samples) / decay)
        peak = 0.3 * (size / stages[-1][1]) ** exponent
        assert run.at(samples) == pytest.approx(peak * rise * fall)
    assert run.at([0, 1]).shape == (2,)


def test_defaults_and_what_is_shown():
    run = st.advice.RampedRun(((0, 4),), 100, 0.1)
    assert (run.exponent, run.warmup_samples, run.decay_samples, run.ramp) == (0.5, 0, 0, None)
    laws = [
        st.fit_steps_law([16, 64, 256], [a + b / batch for batch in (16, 64, 256)]) for a, b in ((50, 1e3), (90, 9e3))
    ]
    ramp = st.batch_ramp(laws)
    planned = st.advice.RampedRun.of_ramp(ramp, learning_rate=0.1)
    assert planned.ramp is ramp
    assert planned == dataclasses.replace(planned, ramp=None)
    assert "ramp" not in repr(planned)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_samples": 80}, "num_samples must be a whole number of at least 81"),
        ({"warmup_samples": 234}, "must fit into num_samples = 333, got 234 and 100"),
        ({"warmup_samples": -1}, "warmup_samples must be a whole number of at least 0"),
        ({"learning_rate": 0}, "learning_rate must be positive"),
    ],
)
def test_bad_runs(settings, words):
    with pytest.raises(ValueError, match=words):
        run_along(STAGES[0], **settings)


def test_the_least_that_a_run_may_be():
    assert run_along(((0, 8), (80, 1)), num_samples=81, warmup_samples=0, decay_samples=0).num_steps == 11
    with pytest.raises(ValueError, match="stages must be a whole number of at least 1"):
        run_along(((0, 0),))
    with pytest.raises(ValueError, match="stages must begin at 0 and have growing starts"):
        run_along(((0, 8), (0, 16)))


def test_another_ramp_has_the_rate_of_its_last_batch_size():
    run = run_along(((0, 8), (40, 12), (80, 16)))
    other = run.with_stages(((0, 4), (20, 50), (30, 144)))
    assert other.learning_rate == pytest.approx(0.3 * 3)
    assert (other.num_samples, other.warmup_samples, other.decay_samples, other.exponent) == (333, 50, 100, 0.5)
    np.testing.assert_allclose(other.at([200]), run.at([200]) * 3)
    linear = run.with_stages(((0, 4), (20, 144)), 1.0)
    assert (linear.learning_rate, linear.exponent) == (pytest.approx(0.3 * 9), 1.0)


def test_stages_alone_count_as_the_best_ramp_of_their_noise_scales():
    """𝓑 = B²/B_last: no other batch sizes that reach the same progress with as many samples take fewer steps."""
    run = run_along(((0, 32), (3200, 64), (9600, 256)), num_samples=40_000)
    target = run.target
    assert target.noise_scales.tolist() == [4, 16, 256]
    assert target.samples_needed(run.stages) == pytest.approx(40_000)
    sizes = np.array([32.0, 64, 256])
    steps = (1 + target.noise_scales / sizes) @ target.lengths
    assert steps == pytest.approx(3200 / 32 + 6400 / 64 + 30_400 / 256)
    rng = np.random.default_rng(0)
    for _ in range(100):
        others = sizes * np.exp(0.3 * rng.standard_normal(3))
        others *= (sizes @ target.lengths) / (others @ target.lengths)
        assert (1 + target.noise_scales / others) @ target.lengths >= steps * (1 - 1e-12)


def test_batch_sizes_in_place_of_a_ramp_are_multiples_of_its_unit_and_the_one_that_is_given():
    run = run_along(((0, 32), (3200, 48), (9600, 256)), num_samples=40_000)
    assert run.batch_unit == 16
    from sgdtheory.fits import megatron_stages

    for unit, whole in ((1, 16), (16, 16), (12, 48)):
        even = run.nearest_even(megatron_stages, unit)
        assert all(size % whole == 0 for _, size in even.stages)
    assert run.nearest_even(megatron_stages) == run.nearest_even(megatron_stages, 1)
    odd = run_along(((0, 7), (3200, 10), (9600, 31)), num_samples=40_000)
    assert odd.nearest_even(megatron_stages).start % 2 == 1
