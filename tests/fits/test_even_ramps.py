"""Ramps by equal increments against loops of the trainers' own rules, and against all ramps of the kind."""

import itertools
import math

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits import RampTarget, megatron_stages, stage_ends
from tests.fits.test_ramps import exact_law


def random_ramp(seed, multiple=None, longest=1000):
    """A ramp of two to four targets, as noise scales grow along a run."""
    rng = np.random.default_rng([20261127, seed])
    number = rng.integers(2, 5)
    lengths = np.exp(rng.uniform(np.log(longest / 10), np.log(longest), number))
    scales = np.sort(np.exp(rng.uniform(np.log(50), np.log(4000), number)))
    laws = [exact_law(*each) for each in zip(np.cumsum(lengths), np.cumsum(lengths * scales), strict=True)]
    unit = int(rng.choice([1, 8, 64])) if multiple is None else multiple
    return st.batch_ramp(laws, multiple=unit), np.cumsum(lengths), scales


def megatron_sizes(start, increment, samples, last, num_samples):
    """Batch size of every step, as `RampupBatchsizeNumMicroBatchesCalculator` updates it."""
    sizes = []
    consumed = 0
    while consumed < num_samples:
        if increment == 0 or consumed > samples:
            size = last
        else:
            size = start + int(consumed / (samples / ((last - start) // increment))) * increment
        assert size <= last
        sizes.append(size)
        consumed += size
    return sizes


def maxtext_sizes(start, increment, samples, last, num_samples):
    """Batch size of every step, as `RampupBatchManager` updates it."""
    sizes = []
    consumed = accumulated = 0
    size = start
    share = samples / ((last - start) // increment) if increment else math.inf
    while consumed < num_samples:
        sizes.append(size)
        consumed += size
        accumulated += size
        if accumulated >= share:
            size, accumulated = min(size + increment, last), 0
    return sizes


def reaches(sizes, ends, scales):
    """Return whether a run of these steps reaches the last target; a step at noise scale 𝓑 advances by 1/(1 + 𝓑/B)."""
    progress = 0.0
    for size, equal in itertools.groupby(sizes):
        left = float(len(list(equal)))
        while left > 0 and progress < ends[-1]:
            place = np.searchsorted(ends, progress, side="right")
            speed = 1 / (1 + scales[place] / size)
            share = min(left, (ends[place] - progress) / speed)
            progress = ends[place] if share < left else progress + share * speed
            left -= share
    return progress >= ends[-1] * (1 - 1e-9)


def written(ramp, trainer):
    """Steps of the trainer's text, by its own loop, and what the writer says of them."""
    run = st.advice.RampedRun.of_ramp(ramp, learning_rate=1e-3)
    if trainer == "megatron":
        note = st.advice.megatron_rampup(run)
        last = note.settings["global-batch-size"]
        numbers = [int(each) for each in note.settings.get("rampup-batch-size", f"{last} 0 0").split()]
        return megatron_sizes(*numbers, last, run.num_samples), note
    note = st.advice.maxtext(run)
    values = note.settings
    last = values["per_device_batch_size"]
    start = values.get("per_device_batch_size_start", last)
    numbers = start, values.get("per_device_batch_size_increment", 0), values.get("global_rampup_samples", 0), last
    return maxtext_sizes(*(int(each) for each in numbers), run.num_samples), note


@pytest.mark.parametrize("trainer", ["megatron", "maxtext"])
def test_written_ramps_take_the_planned_steps_and_reach_the_target(trainer):
    """40 random ramps, by the trainers' loops and a run step by step; a constant batch size is never faster."""
    excess = []
    for seed in range(40):
        ramp, ends, scales = random_ramp(seed)
        sizes, note = written(ramp, trainer)
        assert note.run.num_steps == len(sizes)
        assert reaches(sizes, ends, scales)
        constant = ramp.target.constant(ramp.multiple)
        assert len(sizes) <= constant.steps
        if len(note.run.stages) > 1:
            assert len(sizes) < ramp.constant_steps + 1
        if len(ramp.stages) > 1:
            excess.append(len(sizes) / ramp.steps - 1)
            planned = np.repeat(
                [size for _, size in ramp.stages], np.diff([end for end, _ in ends_of(ramp)], prepend=0)
            )
            assert reaches([*planned, planned[-1]], ends, scales)
            assert not reaches(planned[: round(0.995 * planned.size)], ends, scales)
    assert len(excess) > 30
    assert abs(np.median(excess)) < 0.01
    assert max(excess) < 0.08


def ends_of(ramp):
    return st.advice.RampedRun.of_ramp(ramp, learning_rate=1.0).stage_ends


def test_a_ramp_to_the_last_planned_start_is_no_such_ramp():
    """The control: ramp-up samples up to the start of the last stage, as the count of stages is matched."""
    steps = []
    for seed in range(40):
        ramp, _, _ = random_ramp(seed)
        if len(ramp.stages) < 3:
            continue
        start, last = ramp.stages[0][1], ramp.stages[-1][1]
        sizes = megatron_sizes(start, last - start, ramp.stages[-1][0], last, round(ramp.samples))
        steps.append(len(sizes) / ramp.constant_steps - 1)
    assert np.mean(np.array(steps) > 0) > 0.3
    assert max(steps) > 0.3


@pytest.mark.parametrize("seed", range(12))
def test_no_even_ramp_takes_fewer_steps(seed):
    """By brute force over increments and ramp-up samples, with the trainer's loop: to two steps."""
    ramp, ends, scales = random_ramp(seed, multiple=64, longest=200)
    found = written(ramp, "megatron")[0]
    start, last = ramp.stages[0][1], ramp.stages[-1][1]
    units = (last - start) // 64
    best = math.inf
    for count in range(1, units + 1):
        increment = 64 * round(units / count)
        end = start + count * increment
        for samples in np.geomspace(count, 2 * ramp.samples, 100).astype(int).tolist():
            sizes = megatron_sizes(start, increment, samples, end, round(ramp.samples))
            if len(sizes) < min(best, len(found) - 2) and reaches(sizes, ends, scales):
                best = len(sizes)
    assert best == math.inf


def test_a_plan_that_is_even_stays_as_it_is():
    run = st.advice.RampedRun(((0, 64), (640, 128), (1280, 192)), 10_000, 0.1)
    for write in (st.advice.megatron_rampup, st.advice.megatron_bridge):
        assert write(run).run.stages == run.stages
        assert not any("planned" in remark for remark in write(run).remarks)


def test_where_no_even_ramp_is_worth_it_the_constant_batch_size_is_written():
    for scales in ([500, 2000, 500], [2000, 500, 2000]):  # up and down, down and up
        ends = 1000 * np.arange(1, 4)
        laws = [exact_law(float(a), float(b)) for a, b in zip(ends, np.cumsum(1000 * np.array(scales)), strict=True)]
        ramp = st.batch_ramp(laws)
        assert ramp.steps < 0.98 * ramp.constant_steps
        assert ramp.linear is None
        size = ramp.even.last
        assert ramp.even.steps == -(-round(ramp.samples) // size) < ramp.constant_steps + 5
        assert reaches([size] * ramp.even.steps, ends, scales)
        assert not reaches([size + 1] * (round(ramp.samples) // (size + 1)), ends, scales)
    falling = st.advice.RampedRun(((0, 131), (13_100, 67)), 64_000, 0.1)
    for write in (st.advice.megatron_rampup, st.advice.megatron_bridge, st.advice.maxtext):
        note = write(falling)
        (stage,) = note.run.stages
        assert stage[0] == 0
        assert any(f"the constant batch size {stage[1]}, which is written" in remark for remark in note.remarks)
        assert "rampup" not in note.text
        assert note.run.learning_rate == pytest.approx(0.1 * (stage[1] / 67) ** 0.5)


def test_a_target_by_hand():
    """100 steps without noise at 𝓑 = 200, then 50 at 800; with batch size 100 at first, and 400 from sample 12,000 on.

    The first 12,000 samples do 40 of the steps, the next 60 take 600 samples each, and the last 50 take 1,200 each.
    """
    stages = (0, 100), (12_000, 400)
    target = RampTarget(np.array([100.0, 50.0]), np.array([200.0, 800.0]), 108_000)
    assert target.samples_needed(stages) == 12_000 + 36_000 + 60_000
    for missing, reached in ((0.0, True), (0.5, True), (0.51, False)):
        longer = RampTarget(target.lengths + [0.0, missing / 1200], target.noise_scales, 108_000)
        assert longer.is_reached(stages) == reached
    assert target.within((*stages, (107_999, 500), (108_000, 600))) == (*stages, (107_999, 500))
    assert target.constant_steps == pytest.approx(150 + 60_000 * 150 / 48_000)  # a = 150, b = 60,000
    constant = target.constant(7)
    assert (constant[:4], constant.stages, constant.last) == ((315, 0, 0, 0), ((0, 315),), 315)  # 48,000/150 = 320
    assert constant.steps == target.steps(((0, 315),)) == 343
    assert RampTarget(target.lengths, target.noise_scales, 60_100).constant(7).start == 7
    assert stage_ends(stages, 108_000) == ((120, 12_000), (360, 108_000))
    assert stage_ends(((0, 8), (20, 16), (21, 32)), 100) == ((3, 24), (3, 24), (6, 120))


@pytest.mark.parametrize(("count", "samples"), [(1, 7), (3, 1000), (7, 49), (10, 1001), (49, 4900), (3, 3)])
def test_stages_begin_with_the_first_sample_at_which_the_trainer_has_their_batch_size(count, samples):
    first = {}
    for consumed in range(samples + 2):
        first.setdefault(min(int(consumed / (samples / count)), count), consumed)
    assert megatron_stages(64, 32, count, samples) == tuple((begin, 64 + 32 * j) for j, begin in first.items())
