import numpy as np
import pytest

from sgdtheory.simulation.runs import LARGEST_STEPS, make_plan


def plan(batch_size, learning_rate, num_samples, trajectory=0):
    arrays = np.broadcast_arrays(*(np.asarray(a, float) for a in (batch_size, learning_rate, num_samples)))
    return make_plan(dict(zip(("batch_size", "learning_rate", "num_samples"), arrays, strict=True)), trajectory)


def test_one_setting_is_one_run():
    made = plan(4, 0.5, 403)
    assert made.shape == ()
    np.testing.assert_array_equal(made.steps, [[100]])
    (run,) = made.runs(lambda course: ("sampler", course.batch))
    assert (run.number, run.sampler, run.course.batch, run.course.rate) == (0, ("sampler", 4.0), 4.0, 0.5)
    np.testing.assert_array_equal(run.steps, [100])


def test_settings_that_differ_in_samples_alone_share_a_run():
    made = plan([[1], [2]], 0.5, [[10, 20, 40]])
    assert made.shape == (2, 3)
    runs = made.runs(lambda course: None)
    assert [run.course.batch for run in runs] == [1.0, 2.0]
    np.testing.assert_array_equal(runs[0].steps, [10, 20, 40])
    np.testing.assert_array_equal(runs[1].steps, [5, 10, 20])


def test_runs_are_numbered_in_order_of_appearance():
    made = plan([8, 1, 8, 1], [0.1, 0.2, 0.1, 0.1], [8, 8, 16, 16])
    np.testing.assert_array_equal(made.group, [0, 1, 0, 2])
    np.testing.assert_array_equal(made.learning_rate, [0.1, 0.2, 0.1])


def test_steps_in_between_are_log_spaced_and_belong_to_the_run():
    made = plan(1, 0.5, [100, 10_000], trajectory=3)
    np.testing.assert_array_equal(made.steps, [[1, 10, 100, 100], [1, 100, 10_000, 10_000]])
    (run,) = made.runs(lambda course: None)
    np.testing.assert_array_equal(run.steps, [1, 10, 100, 10_000])


@pytest.mark.parametrize(("samples", "trajectory"), [(1, 1), (1, 5), (2, 7), (37, 1), (37, 40)])
def test_steps_in_between_stay_within_the_run(samples, trajectory):
    steps = plan(1, 0.5, samples, trajectory).steps[0]
    assert steps.size == trajectory + 1
    assert (np.diff(steps) >= 0).all()
    assert steps[0] == 1 or trajectory == 0
    assert steps[-1] == samples


def test_gather_puts_every_number_where_it_was_asked_for():
    made = plan([[1], [2]], [0.5, 0.1, 0.5], [[8, 8, 24]], trajectory=2)
    runs = made.runs(lambda course: None)
    risks = [1000 * run.number + run.steps[:, None] + np.array([0.0, 0.5]) for run in runs]
    table = made.gather(runs, risks)
    assert table.shape == (2, 3, 3, 2)
    for place in np.ndindex(2, 3):
        number = made.group.reshape(2, 3)[place]
        steps = made.steps.reshape(2, 3, 3)[place]
        np.testing.assert_array_equal(table[place], 1000 * number + steps[:, None] + np.array([0.0, 0.5]))


def test_too_many_steps():
    with pytest.raises(
        ValueError, match="num_samples must be at most 2147483647 steps of batch_size, got num_samples "
    ):
        plan([1, 2], 0.5, [10, 2.0 * (LARGEST_STEPS + 1.0)])
    assert plan(2, 0.5, 2.0 * LARGEST_STEPS).steps[0, 0] == LARGEST_STEPS
