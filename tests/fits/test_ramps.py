"""Batch ramps against runs step by step and against brute force."""

import numpy as np
import pytest

import sgdtheory as st

BATCHES = 2.0 ** np.arange(4, 14)
PLATEAUS, SLOPES = np.array([500.0, 1500.0, 4000.0]), np.array([1e5, 9e5, 6e6])


def law(a, b):
    return st.fit_steps_law(BATCHES, a + b / BATCHES)


def laws():
    return [law(a, b) for a, b in zip(PLATEAUS, SLOPES, strict=True)]


def run(batch_at, share=1.0):
    """(steps, samples) of a run whose noise scale jumps at the targets; a step with B makes 1/(1 + 𝓑/B) of progress."""
    ends, scales = PLATEAUS, np.diff(SLOPES, prepend=0) / np.diff(PLATEAUS, prepend=0)
    progress = steps = samples = 0.0
    while progress < ends[-1] * (1 - 1e-12):
        scale = scales[np.searchsorted(ends, progress, side="right")]
        batch = batch_at(samples)
        step = min(share, (ends[-1] - progress) * (1 + scale / batch))
        progress += step / (1 + scale / batch)
        steps, samples = steps + step, samples + step * batch
    return steps, samples


@pytest.mark.parametrize("num_samples", [None, 7e6, 2e7])
def test_the_ramp_takes_what_it_says(num_samples):
    ramp = st.batch_ramp(laws(), num_samples=num_samples, multiple=8)
    np.testing.assert_allclose(ramp.noise_scales, [200, 800, 2040], rtol=1e-6)
    steps, samples = run(lambda seen: ramp.batch_sizes[np.searchsorted(ramp.starts, seen, side="right") - 1])
    assert (steps, samples) == pytest.approx((ramp.steps, ramp.samples), rel=2e-3)
    assert ramp.samples == pytest.approx(num_samples or 6e6 * (1 + np.sqrt(ramp.product)), rel=0.02)
    assert ramp.steps < ramp.constant_steps == pytest.approx(4000 + 6e6 / ((ramp.samples - 6e6) / 4000))


def test_no_other_batch_sizes_with_as_many_samples_take_fewer_steps():
    ramp = st.batch_ramp(laws(), num_samples=1e7)
    lengths, rng = np.diff(PLATEAUS, prepend=0), np.random.default_rng(0)
    for _ in range(200):
        sizes = ramp.batch_sizes * np.exp(0.3 * rng.standard_normal(3))
        sizes *= (ramp.batch_sizes @ lengths) / (sizes @ lengths)
        assert ((1 + ramp.noise_scales / sizes) @ lengths) >= ramp.steps * (1 - 1e-5)
    least = (ramp.steps / 4000 - 1) * (ramp.samples / 6e6 - 1)
    assert least == pytest.approx(ramp.product, rel=1e-3)
    assert ramp.product < 1


def test_one_target_or_one_noise_scale_justify_one_batch_size():
    one = st.batch_ramp(laws()[-1:], multiple=4)
    assert one.pairs() == "0:1500"
    assert one.linear is None
    same = st.batch_ramp([law(1000, 1e6), law(3000, 3e6)])
    assert same.product == pytest.approx(1)
    assert same.batch_sizes.tolist() == [1000, 1000]
    assert same.steps == pytest.approx(same.constant_steps)


def exact_law(a, b):
    return st.fits.StepsLaw(a, b, 1.0, False, BATCHES, a + b / BATCHES)


@pytest.mark.parametrize(
    ("numbers", "scales"),
    [
        ([(500.0, 1e5), (500.0, 9e5), (4000.0, 6e6)], [9e5 / 500, 5.1e6 / 3500]),  # no step between the first two
        ([(500.0, 1e5), (1500.0, 1e5), (4000.0, 6e6)], [1e5 / 1500, 5.9e6 / 2500]),  # no sample between them
        ([(5000.0, 1e5), (6000.0, 9e5), (4000.0, 6e6)], [6e6 / 4000]),
        ([(4000.0, 6e6), (500.0, 1e5), (4100.0, 9e5)], [200, 5.9e6 / 3500]),  # in whatever order
    ],
)
def test_targets_that_do_not_grow_are_joined_with_the_next(numbers, scales):
    ramp = st.batch_ramp([exact_law(*each) for each in numbers])
    np.testing.assert_allclose(ramp.noise_scales, scales)
    assert ramp.remark.startswith(f"{3 - len(scales)} of 3 targets have an a or b no smaller than a later one's")
    assert st.batch_ramp(laws()).remark == ""
    assert ramp.starts[0] == 0


def test_any_number_of_samples_beyond_b_is_enough():
    laws = [exact_law(500.0, 1e5), exact_law(4000.0, 6e6)]
    assert st.batch_ramp(laws, num_samples=6e6 + 0.5).batch_sizes.tolist() == [1, 1]
    with pytest.raises(ValueError, match="num_samples must exceed b"):
        st.batch_ramp(laws, num_samples=6e6)


def test_batch_sizes_are_multiples_of_one_if_nothing_is_said():
    ramp = st.batch_ramp(laws())
    best = np.sqrt(6e6 / 4000 * ramp.noise_scales)  # √(r 𝓑), r = b/a
    assert ramp.batch_sizes.tolist() == np.round(best).tolist() == [548, 1095, 1749]


@pytest.mark.slow
def test_laws_of_targets_that_were_tuned_each_on_its_own_promise_too_little():
    """On regression, with the best learning rates at every batch size, they promise a few percent. The best ramp at the
    best learning rates, with as many samples, takes four fifths of the steps: its batches are largest where noise is
    left no time to average out, whatever the target.
    """
    problem, target = st.PowerLaw(2.0, 3.0), 0.01
    frontiers = [st.pareto(problem, target_risk=risk, points=6).optimal for risk in (0.1, 0.03, target)]
    ramp = st.batch_ramp(
        [st.fit_steps_law(each.num_samples / each.num_steps, each.num_steps) for each in frontiers],
        num_samples=1.5 * frontiers[-1].least_samples,
    )
    assert 0 < 1 - ramp.steps / ramp.constant_steps < 0.05
    samples, steps = np.log(frontiers[-1].num_samples[::-1]), np.log(frontiers[-1].num_steps[::-1])
    constant = np.exp(np.interp(np.log(ramp.samples), samples, steps))
    best = st.optimal_schedule(problem, num_samples=ramp.samples, num_steps=round(0.8 * constant))
    assert best.risk < target


# ------------------------------------------------------------------ notations


def test_pairs_in_samples_and_in_tokens():
    ramp = st.batch_ramp(laws(), multiple=64)
    assert ramp.pairs() == "0:576 388000:1088 2276000:1728"
    pairs = [pair.split(":") for pair in ramp.pairs(2048).split()]
    assert [int(start) for start, _ in pairs] == [0, 388000 * 2048, 2276000 * 2048]
    assert ramp.pairs(1) == ramp.pairs()


@pytest.mark.parametrize("multiple", [1, 8, 64, 96])
def test_the_linear_ramp_by_the_rule_of_its_trainers(multiple):
    """Increments are multiples too, and lead to the last batch size; stages have equal numbers of samples."""
    ramp = st.batch_ramp(laws(), multiple=multiple)
    first, increment, samples = ramp.linear
    last = ramp.even.last
    assert (last - first) % increment == 0
    assert first % multiple == increment % multiple == 0
    each = samples / ((last - first) / increment)

    def batch_at(seen):
        return min(last, first + int(seen / each) * increment)

    assert batch_at(0) == ramp.batch_sizes[0]
    assert batch_at(samples + 1) == last
    assert batch_at(samples - 1) < last


def test_stages_of_one_batch_size_are_one_stage():
    """𝓑 of 1000 and 1010 rounds to one multiple of 64: no notation has a stage without effect."""
    three = [law(500.0, 1e5), law(1500.0, 1.1e6), law(4000.0, 3.625e6)]
    ramp = st.batch_ramp(three, multiple=64)
    assert ramp.batch_sizes[1] == ramp.batch_sizes[2]
    assert ramp.stages == ((0, int(ramp.batch_sizes[0])), (round(ramp.starts[1]), int(ramp.batch_sizes[1])))
    assert ramp.pairs() == " ".join(f"{start}:{size}" for start, size in ramp.stages)
    assert len(st.batch_ramp(three, multiple=1024).stages) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.batch_ramp([]), "laws must be one StepsLaw a target, with α = 1 and both a and b above 0"),
        (lambda: st.batch_ramp([law(0, 1e6)]), "laws must be one StepsLaw a target"),
        (lambda: st.batch_ramp([*laws(), law(0, 1e6)]), "laws must be one StepsLaw a target"),
        (lambda: st.batch_ramp([law(5, 0)]), "laws must be one StepsLaw a target"),
        (lambda: st.batch_ramp([exact_law(5.0, 1e6), (5, 1e6)]), "laws must be one StepsLaw a target"),
        (lambda: st.batch_ramp([st.fit_steps_law(BATCHES, 5 + 1e6 / BATCHES, alpha=1.3)]), "laws must be one StepsLaw"),
        (lambda: st.batch_ramp(laws(), num_samples=5e6), r"num_samples must exceed b = 6e\+06 of the last target"),
        (lambda: st.batch_ramp(laws(), multiple=0), "multiple must be a whole number of at least 1, got 0"),
        (lambda: st.batch_ramp(laws()).pairs(0.5), "sequence_length must be a whole number of at least 1"),
    ],
)
def test_bad_ramps(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_remark_names_stages_beyond_the_measured_batch_sizes():
    def law(a, b, most):
        batches = np.array([64.0, 256.0, 1024.0, 4096.0])
        return st.fit_steps_law(batches[batches <= most], (a + b / batches)[batches <= most])

    targets = (500, 1e5), (1500, 9e5), (4000, 6e6)
    assert st.batch_ramp([law(*each, 4096) for each in targets], multiple=64).remark == ""
    ramp = st.batch_ramp([law(*each, 1024) for each in targets], multiple=64)
    assert ramp.stages[-2:] == ((388000, 1088), (2276000, 1728))
    assert ramp.remark.startswith("batch sizes 1,088, 1,728 lie outside of those measured, 64 … 1,024: ")
