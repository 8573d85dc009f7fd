"""The number of steps that the samples allow, and the samples of each step, by counting."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course, first_step, number_of_steps
from sgdtheory.algorithms.course import numbers_of_steps, samples_of


@pytest.mark.parametrize("samples", [9, 100, 12345, 3e6, 1e9])
@pytest.mark.parametrize(
    "shape",
    [
        st.Linear(final=4.0),
        st.Cosine(),
        st.Stages([0, 0.5, 0.75], [0.1, 0.5, 1]),
        st.Constant(warmup=0.3),
        st.Stages([0], [0.4]),
    ],
    ids=str,
)
def test_number_of_steps_is_the_largest_that_the_samples_allow(shape, samples):
    batch = 9.0

    def used(n):
        total = 0.0
        for begin in range(0, int(n), 2**20):
            t = np.arange(begin, min(begin + 2**20, int(n)))
            total += np.maximum(1, np.rint(batch * shape.factors(t, n))).sum()
        return total

    steps = number_of_steps(shape, batch, samples)
    if steps < 2e7:
        assert used(steps) <= samples
        assert all(used(steps + more) > samples for more in (1, 2))
    elif steps < 1e8:
        assert used(steps) == pytest.approx(samples, rel=1e-6)


SHORT_PEAK = st.Stages([0, 0.33, 0.66], [0.01, 1, 0.01])  # with a step more one step of the peak may fall away
TWO_PEAKS = st.Stages([0, 0.2, 0.4, 0.6, 0.8], [0.02, 1, 0.03, 1, 0.05])


@pytest.mark.parametrize(
    ("shape", "batch", "most"),
    [
        (SHORT_PEAK, 5.0, 60),
        (SHORT_PEAK, 40.0, 150),
        (TWO_PEAKS, 13.3, 200),
        (st.Stages([0, 0.45, 0.6], [0.05, 1, 0.3]), 20.0, 100),
        (st.Stages([0, 0.45, 0.6], [0.05, 1, 0.3]), 100.0, 130),
        (st.Stages([0, 0.45, 0.6], [0.05, 1, 0.3]), 13.3, 450),
        (st.Stages([0, 0.3, 0.45, 0.55], [0.1, 1, 0.05, 0.1]), 20.0, 60),
        (st.Constant(warmup=0.3), 9.0, 60),
        (st.Linear(), 1.0, 60),  # batches of one all along
    ],
    ids=[
        "short peak",
        "high peak",
        "two peaks",
        "a step more may fit again",
        "two more",
        "two more of many",
        "or several more",
        "warm-up",
        "ones",
    ],
)
def test_every_number_of_steps_of_few_samples(shape, batch, most):
    """Sums of all numbers of steps, which need not grow from one to the next."""
    t, sums = np.arange(most), []
    for n in 1 + t:
        sums.append(np.maximum(1, np.rint(batch * shape.factors(t[:n], n))).sum())
    for samples in np.arange(sums[0], most + 1, 0.5):
        assert number_of_steps(shape, batch, samples) == 1 + np.flatnonzero(np.array(sums) <= samples)[-1]


def up_and_down(step):
    """A function of the step that comes back to where it was."""
    return 1 + (np.asarray(step) % 7) / 3


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize(
    "shape",
    [
        st.Constant(),
        st.Stages([0], [0.7]),
        st.Stages([0], [0.1]),
        st.Linear(final=4.0),
        st.WSD(0.4),
        st.WSD(0.4, power=0.5),
        st.Stages([0, 0.3], [1, 2.3]),
        up_and_down,
    ],
    ids=["constant", "flat", "less than one", "linear", "WSD", "1 − √", "stages", "function"],
)
def test_samples_are_the_sum_of_the_batches_before(shape, rounded):
    """Whole or, between them, real batch sizes; runs of equal ones are there where they can be told apart."""
    n, batch = 300, 5.4
    course = Course(st.Algorithm(batch_schedule=shape), batch, 0.1, n, rounded)
    t = np.arange(n)
    real = batch * course.algorithm.batch_schedule.factors(t, n)
    sizes = np.maximum(np.rint(real) if rounded else real, 1.0)
    np.testing.assert_allclose(course.batches(t), sizes, rtol=1e-14)
    np.testing.assert_allclose(course.samples(np.append(t, n)), np.append(0, np.cumsum(sizes)), rtol=1e-13)
    starts, values = course.batch_runs
    if course.constant_batch or (course.algorithm.batch_schedule.smooth and rounded):
        np.testing.assert_allclose(np.repeat(values, np.diff(starts, append=n).astype(int)), sizes, rtol=1e-14)
    else:
        assert starts.size == values.size == 0


def test_samples_of_very_many_real_batches_are_tabulated():
    """A ramp from 5 to 20: the sizes of some steps stand for those about them."""
    n = 200_000
    course = Course(st.Algorithm(batch_schedule=st.Linear(final=4.0)), 5.0, 0.1, n, rounded=False)
    step = np.array([0, 1, 77, 99_999, 150_000, n])
    np.testing.assert_allclose(course.samples(step), 5 * step + 7.5 * step * (step - 1) / n, rtol=1e-4)


@pytest.mark.parametrize("cycles", [0.3, 100, 1000])
def test_the_steps_of_a_function_are_counted(cycles):
    """Batches of 9, 12, … 27 again and again: 126 samples in seven steps."""
    shape = st.Algorithm(batch_schedule=up_and_down).batch_schedule
    sums = np.cumsum(np.tile(9 + 3.0 * np.arange(7), 1001))
    for samples in [*(126 * cycles + np.array([0, 8, 9, 20, 21])), sums[1022], sums[1023] - 1, sums[1023], sums[1024]]:
        assert number_of_steps(shape, 9.0, samples) == np.flatnonzero(sums <= samples)[-1] + 1


@pytest.mark.parametrize(
    "shape", [st.Constant(), st.Stages([0], [0.4]), st.Linear(final=3.0), up_and_down], ids=["1", "2", "linear", "any"]
)
def test_arrays_of_batches_and_samples_are_taken_one_by_one(shape):
    shape = st.Algorithm(batch_schedule=shape).batch_schedule
    batch, samples = np.array([[1.0, 7.0, 2.5], [3.0, 30.0, 9.0]]), np.array([[50.0, 64.0, 333.3], [3e3, 1e3, 9e4]])
    each = [[number_of_steps(shape, *pair) for pair in zip(*row, strict=True)] for row in zip(batch, samples)]
    np.testing.assert_array_equal(numbers_of_steps(shape, batch, samples), each)
    assert numbers_of_steps(shape, batch[:0], samples[:0]).shape == (0, 3)
    with pytest.raises(ValueError, match="num_samples must be enough for one step .*, got 1"):
        numbers_of_steps(shape, batch, np.where(batch == 30, 1.0, samples))


def test_rates_and_matrices_are_those_of_the_schedule():
    """γ_t = γ (1 − t/n)."""
    course = Course(st.Algorithm(schedule=st.Linear()), 2.0, 0.3, 10)
    assert course.rounded
    t = np.array([0, 1, 9])
    np.testing.assert_allclose(course.rates(t), [0.3, 0.27, 0.03], rtol=1e-14)
    for found, expected in zip(
        course.matrices(t), course.algorithm.method.matrices(np.array([0.3, 0.27, 0.03]), t), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("average", "first"), [(st.TailAverage(0.3), 7), (st.LastIterate(), 10), (st.UniformAverage(), 0)]
)
def test_the_first_step_of_the_average_is_never_after_the_last(average, first):
    assert Course(st.Algorithm(average=average), 2.0, 0.3, 10).first_averaged == first


@pytest.mark.parametrize("steps", [1, 7, 100, 365])
def test_the_first_step_of_a_fraction_counts_as_its_quotient_does(steps):
    """`0.07 · 100 > 7` in floats, but 7/100 is 0.07; the next float needs a step more."""
    for t in range(steps):
        assert first_step(t / steps, steps) == t
        assert first_step(np.nextafter(t / steps, 1.0), steps) == t + 1
    assert first_step(1.0, steps) == steps


def test_where_the_quotient_is_below_the_product():
    """`0.55 · 100` is 55 + 7e-15, and `5e-324 · 7 > 0` where `1/7` is far above."""
    assert first_step(0.55, 100) == 55
    assert first_step(5e-324, 7) == 1


def test_batches_of_too_many_sizes_have_no_runs():
    """A ramp from 1 to 33 000 passes more than 2^15 = 32 768 whole numbers, one to 32 500 fewer."""
    for final, told in ((2e4, True), (32_500.0, True), (33_000.0, False), (1e5, False)):
        course = Course(st.Algorithm(batch_schedule=st.Linear(final=final)), 1.0, 0.1, 1e6)
        assert [each.size > 0 for each in course.batch_runs] == [told, told]


@pytest.mark.parametrize("steps", [50, 2**16, 2**16 + 1, 300_000])
@pytest.mark.parametrize(
    "shape",
    [
        st.Linear(final=2e5),
        st.WSD(0.3),
        st.WSD(0.3, power=0.5),
        st.Cosine(warmup=0.1),
        st.Linear(),
        st.PowerDecay(4),
        st.PowerDecay(0.4),  # up to 2e-7 off on nodes that are not dense at the end of the run
    ],
    ids=str,
)
def test_samples_of_many_sizes_are_an_integral(shape, steps):
    """Sizes up to 2·10^5, too many to tell apart: rounded ones add up to it, up to 3e-8; few are added."""
    batch = 1.0 if shape == st.Linear(final=2e5) else 2e5
    each = np.maximum(np.rint(batch * shape.factors(np.arange(steps), steps)), 1)
    assert samples_of(shape, batch, steps) == pytest.approx(each.sum(), rel=3e-8)


@pytest.mark.parametrize(
    ("shape", "first"),
    [
        (st.Stages([0], [0.7]), 9),
        (st.Linear(final=4.0), 13),
        (st.Stages([0, 0.01], [7.0, 0.01]), 91),
        (up_and_down, 13),
    ],
)
def test_too_few_samples_for_one_step_are_refused(shape, first):
    """B = 13: the first batch takes all there are, or more."""
    shape = st.Algorithm(batch_schedule=shape).batch_schedule
    assert number_of_steps(shape, 13.0, first) == 1
    for samples in (first - 1, first - 0.5, 2):
        with pytest.raises(ValueError, match=f"num_samples must be enough for one step .*, got {samples:g}"):
            number_of_steps(shape, 13.0, samples)


def test_samples_of_a_line_are_an_integral_to_the_last_one():
    """Σ B (1 + t/n) = n B + B (n − 1)/2, of too many sizes to be told apart: 1.05·10^10 samples."""
    assert samples_of(st.Linear(final=2), 1e5, 7e4) == pytest.approx(7e9 + 5e4 * 69_999, abs=0.01)


def test_samples_are_shared_by_all_workers():
    """Three workers with batches of four: twelve samples a step."""
    constant, growing = st.Constant(), st.Linear(final=3)
    for samples, steps in ((12, 1), (23.9, 1), (24, 2), (120, 10)):
        assert number_of_steps(constant, 4.0, samples, workers=3) == steps
        assert number_of_steps(growing, 4.0, samples, workers=3) == number_of_steps(growing, 4.0, samples / 3)
    several = np.array([4.0, 8.0])
    np.testing.assert_array_equal(numbers_of_steps(constant, several, np.array([48.0, 48.0]), 3), [4, 2])
    for short in ([11.0, 48.0], [48.0, 23.0]):
        with pytest.raises(ValueError, match=f"one step of all 3 workers, got {min(short):g} with batch_size"):
            numbers_of_steps(constant, several, np.array(short), 3)
    course = Course(st.Algorithm(st.LocalSGD(3, 2)), 4.0, 0.1, 10.0)
    np.testing.assert_array_equal(course.samples(np.array([0, 1, 10])), [0, 12, 120])
