"""How the settings of a call become runs, and runs become blocks of lanes; what is read of rows."""

from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.simulation import engine
from sgdtheory.simulation.rows import RowReader, RowSource
from sgdtheory.simulation.runs import Resources, largest_batch, make_plan
from tests.simulation.test_engine import TASK, run


def settings(batch, rate, samples):
    values = np.broadcast_arrays(*(np.asarray(each, float) for each in (batch, rate, samples)))
    return dict(zip(("batch_size", "learning_rate", "num_samples"), values, strict=True))


def test_settings_that_differ_in_samples_alone_share_a_run_unless_steps_depend_on_their_number():
    several = settings([[4], [8]], 0.1, [16, 80])
    for algorithm, runs in (
        (st.Algorithm(), [0, 0, 1, 1]),
        (st.Algorithm(st.SGD(), st.Cosine()), [0, 1, 2, 3]),
        (st.Algorithm(average=st.TailAverage(0.5)), [0, 1, 2, 3]),
    ):
        plan = make_plan(several, 2, algorithm)
        assert plan.group.tolist() == runs
        assert plan.steps.tolist() == [[1, 4, 4], [1, 20, 20], [1, 2, 2], [1, 10, 10]]
        assert plan.batch_size[plan.group].tolist() == [4, 4, 8, 8]
        made = plan.runs(lambda course: None)
        assert made[0].steps.tolist() == ([1, 4, 20] if runs[1] == 0 else [1, 4])
        assert [each.course.num_steps for each in made] == ([20, 10] if runs[1] == 0 else [4, 20, 2, 10])


def test_steps_and_points_up_to_the_limits_are_taken():
    assert make_plan(settings(1, 0.1, 2**31 - 1), 0).steps.tolist() == [[2**31 - 1]]
    assert make_plan(settings(1, 0.1, 100), 10_000).steps.shape == (1, 10_001)
    with pytest.raises(ValueError, match="num_samples must be at most 2147483647 steps"):
        make_plan(settings(1, 0.1, 2**31), 0)
    with pytest.raises(ValueError, match="trajectory must be at most 10000, got 10001"):
        make_plan(settings(1, 0.1, 100), 10_001)


@pytest.mark.parametrize(
    ("shape", "largest"),
    [
        (st.Constant(), 6),
        (st.Linear(final=2.5), 15),
        (st.Linear(final=0.5), 6),
        (st.Stages([0, 0.5, 0.9], [0.1, 3.4, 0.2]), 20),
        (st.Stages([0], [0.01]), 1),
        (lambda step: 1 + (step == 2**20 + 7), 12),
    ],
)
def test_the_largest_batch_of_a_run(shape, largest):
    assert largest_batch(Course(st.Algorithm(batch_schedule=shape), 6.0, 0.1, 2.0**20 + 8)) == largest


def resources(memory_limit=1e12, devices=1, platform="cpu"):
    return Resources((SimpleNamespace(platform=platform),) * devices, memory_limit, lambda share: None)


def blocks_of(runs, num_replicas, **options):
    return engine.make_blocks(TASK, runs, num_replicas, resources(**options))


def test_runs_of_at_most_twice_the_length_share_blocks_and_short_ones_come_first():
    """A run's lanes are neighbours, in the order of the runs' numbers; stops are those of the block's runs."""
    runs = [run(0, [10, 201]), run(1, [100]), run(2, [50, 200]), run(3, [10, 100])]
    first, second = blocks_of(runs, 3)
    assert first.lanes.tolist() == [[number, replica] for number in (1, 2, 3) for replica in range(3)]
    assert second.lanes.tolist() == [[0, 0], [0, 1], [0, 2]]
    assert first.stops == {10: [(3, 0)], 50: [(2, 0)], 100: [(1, 0), (3, 1)], 200: [(2, 1)]}
    assert [block.length for block in (first, second)] == [200, 201]


@pytest.mark.parametrize(
    ("lanes", "options", "size"),
    [
        (40, {}, 40),
        (41, {"devices": 2}, 42),
        (20_000, {}, 8192),  # 512 numbers drawn ahead, 64 times those of a block on a CPU
        (20_000, {"platform": "other"}, 8192),
        (10**6, {"platform": "gpu", "devices": 2}, 10**6),
        (10**7, {"platform": "gpu"}, 2**20),
        (40, {"memory_limit": 7 * 4 * (8 * 3 + 512)}, 7),
        (40, {"memory_limit": 7 * 4 * (8 * 3 + 512) - 1}, 6),
        (40, {"memory_limit": 7 * 4 * (8 * 3 + 512), "devices": 2}, 6),
        (40, {"memory_limit": 1}, 1),
    ],
)
def test_lanes_of_a_block(lanes, options, size):
    """As many as are fast and fit: eight arrays of three weights each, in float32, and what is drawn ahead."""
    assert engine._block_size(run(0, [10]), TASK, lanes, resources(**options), exact=True) == size


def test_lanes_of_blocks_of_several_groups_are_powers_of_two():
    assert {block.size for block in blocks_of([run(0, [10]), run(1, [100])], 33)} == {64}
    assert {block.size for block in blocks_of([run(0, [10]), run(1, [100])], 32)} == {32}
    assert {block.size for block in blocks_of([run(0, [10]), run(1, [20])], 33)} == {66}


def test_methods_with_more_to_keep_have_fewer_lanes():
    """Vectors take (k + 1)/2 times the memory; workers draw apart; rows of a replica's own come on top."""
    limit = resources(memory_limit=4e6)

    def size(method=None, own=None):
        made = run(0, [10])
        course = Course(st.Algorithm(method or st.SGD()), 4.0, 0.5, 10.0)
        made = engine.Run(0, made.sampler, made.steps, course)
        source = own and RowSource(5000, lambda replica: None, own == "shared", True, (1,))
        return engine._block_size(made, TASK._replace(source=source), 10**6, limit, exact=True)

    assert size() == 10**6 // (24 + 512)
    assert size(st.ScheduleFree(0.8)) == 10**6 // (24 * 3 // 2 + 512)
    assert size(st.LocalSGD(4, 2)) == 10**6 // (24 * 11 // 2 + 4 * 512)
    assert size(own="each") == 10**6 // (24 + 512 + 5000 * 4)
    assert size(own="shared") == size()


def test_results_of_a_gigabyte_are_taken_and_larger_ones_refused():
    """Four arrays of float64: risks of average and last iterate, and a copy; a larger memory limit allows more."""
    replicas = 10**9 // (4 * 8 * 3)
    runs = [run(0, [10, 20]), run(1, [30])]
    engine._check_room(runs, replicas, 1.0)
    with pytest.raises(ValueError, match="replicas, 3 times a risk, take 1 GB of results"):
        engine._check_room(runs, replicas + 1, 1.0)
    engine._check_room(runs, 2 * replicas, 2e9)


def source_of(calls, **options):
    def sample(replica):
        calls.append(replica)
        return np.full((4, 2), float(replica)), np.full(4, 10.0 * replica)

    return RowSource(
        **({"num_rows": 4, "sample": sample, "shared": False, "replacement": False, "seed": (1,)} | options)
    )


def test_rows_of_replicas_follow_each_other_with_zeros_at_the_end():
    """Those asked for last are kept; noise is in the units asked for."""
    calls = []
    rows = source_of(calls)
    for _ in range(2):
        found = rows.rows([3, 1], np.float32, 5.0)
        np.testing.assert_array_equal(found.features, np.repeat([3.0, 1.0, 0.0], [4, 4, 1])[:, None] * np.ones(2))
        np.testing.assert_array_equal(found.noise, np.repeat([6.0, 2.0, 0.0], [4, 4, 1]))
        assert found.features.dtype == found.noise.dtype == np.float32
    assert calls == [3, 1]
    assert source_of(calls, shared=True).rows([3, 1], np.float64, 1.0).noise.tolist() == [0.0] * 5


@pytest.mark.parametrize(("batch", "width"), [(1, 1), (2, 2), (3, 4), (4, 4), (9, 4)])
def test_a_batch_has_no_more_rows_than_the_sample(batch, width):
    """Its width is a power of two; with replacement it may have more."""
    course = Course(st.Algorithm(), float(batch), 0.1, 20.0)
    assert source_of([]).sampler(course).width == width
    assert source_of([], replacement=True).sampler(course).width == (16 if batch == 9 else width)


def test_what_does_not_fill_a_batch_is_left_out_of_an_epoch_unless_the_batch_size_varies():
    """Numbers begin at those of the replica; places beyond the batch have the filler."""
    growing = st.Algorithm(batch_schedule=st.Stages([0, 0.5], [1, 2 / 3]))
    for algorithm, batches, lengths in (
        (st.Algorithm(), [3, 3, 3], [3, 3, 3]),
        (growing, [3, 3, 2], [4, 4]),
    ):
        reader = RowReader(source_of([]), Course(algorithm, 3.0, 0.1, 4.0), 7, 2)
        table = np.concatenate([reader.table(np.array([float(each)]), 4, 99) for each in batches])
        assert [(row == 99).sum() for row in table] == [4 - each for each in batches]
        read = table[table != 99]
        orders = np.random.default_rng([1, 7])
        expected = np.concatenate([orders.permutation(4)[:length] for length in lengths])
        np.testing.assert_array_equal(read, 8 + expected[: read.size])
