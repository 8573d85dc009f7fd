import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.simulation import engine, program
from sgdtheory.simulation.dynamics import Spectrum
from sgdtheory.simulation.engine import simulate_runs
from sgdtheory.simulation.explicit import Explicit
from sgdtheory.simulation.laws import Gaussian
from sgdtheory.simulation.runs import Resources, Run
from sgdtheory.simulation.sufficient import Sufficient
from sgdtheory.simulation.task import Task

PROBLEM = st.LeastSquares([1.0, 0.5, 0.1], [1.0, 0.5, 2.0], 0.5)
LANE_BYTES = (engine.ARRAYS * 3 + Sufficient().numbers_a_lane(None)) * 4
SPECTRUM = Spectrum(*(np.asarray(a, np.float32) for a in ([1.0, 0.5, 0.1], [1.0, 0.7, 1.4], 0.5)))
TASK = Task(SPECTRUM, 1.0, 1.0, lambda course: Sufficient())
KEY = np.array([7, 8], np.uint32)


def simulated(**options):
    settings = {"batch_size": 4, "learning_rate": 0.5, "num_samples": 40, "num_replicas": 40} | options
    return st.simulate(jax.random.key(0), PROBLEM, **settings)


def run(number, steps, *, batch=4.0, rate=0.5, sampler=None):
    course = Course(st.Algorithm(), batch, rate, float(max(steps)))
    return Run(number, sampler or Sufficient(), np.array(steps), course)


def recorded(runs, num_replicas=6, memory_limit=1e9, report=lambda share: None):
    return simulate_runs(TASK, runs, num_replicas, KEY, Resources(tuple(jax.devices()), memory_limit, report))


@pytest.fixture
def interrupt_at(monkeypatch):
    """Ctrl-C arrives in the given call to the devices, counted from 0."""

    def set_up(number):
        calls, original = [], program._compiled_advance

        def advance(*arguments):
            calls.append(0)
            if len(calls) > number:
                raise KeyboardInterrupt
            return original(*arguments)

        monkeypatch.setattr(program, "_compiled_advance", advance)

    return set_up


def test_settings_that_had_finished_at_ctrl_c_keep_their_numbers(interrupt_at):
    """The short run first, whatever its place."""
    whole = simulated(num_samples=[40, 400, 4000], trajectory=2)
    interrupt_at(2)  # calls end at steps 1, 10, …
    found = simulated(num_samples=[40, 400, 4000], trajectory=2)
    np.testing.assert_array_equal(found.num_finished, [40, 0, 0])
    np.testing.assert_array_equal(found.excess_risk[0], whole.excess_risk[0])
    np.testing.assert_array_equal(np.isnan(found.mean), [False, True, True])
    np.testing.assert_array_equal(np.isnan(found.standard_error), [False, True, True])
    np.testing.assert_array_equal(found.trajectory.excess_risk[0], whole.trajectory.excess_risk[0])
    np.testing.assert_array_equal(found.trajectory.excess_risk[2, 0], whole.trajectory.excess_risk[2, 0])
    assert np.isnan(found.trajectory.excess_risk[2, 1]).all()


def test_ctrl_c_before_anything_has_finished(interrupt_at):
    interrupt_at(0)
    found = simulated()
    assert found.interrupted
    assert found.num_finished == 0
    assert np.isnan([found.mean, found.standard_error, found.z_score(1.0)]).all()


def test_other_exceptions_are_not_swallowed():
    def report(share):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recorded([run(0, [10])], memory_limit=3 * LANE_BYTES, report=report)


def test_progress_rises_to_one():
    shares = []
    recorded([run(0, [5, 300]), run(1, [40], batch=8.0)], memory_limit=3 * LANE_BYTES, report=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert shares[0] > 0


def test_runs_of_different_samplers_and_lengths_in_one_call():
    runs = [run(0, [300]), run(1, [3, 50], batch=2.0, sampler=Explicit(Gaussian(), 2)), run(2, [7], rate=0.1)]
    risks, interrupted = recorded(runs)
    assert not interrupted
    for mine, (average, last) in zip(runs, risks, strict=True):
        assert average.shape == last.shape == (mine.steps.size, 6)
        assert np.isfinite(average).all()
        assert np.isfinite(last).all()
    alone, _ = recorded([run(0, [300])])
    np.testing.assert_allclose(risks[0][0], alone[0][0], rtol=1e-5)
    assert not np.allclose(risks[2][0], alone[0][0], rtol=0.01)


@pytest.mark.parametrize(("limit", "size"), [(1, 1), (5.5 * LANE_BYTES, 5), (1e12, 40)])
def test_blocks_keep_within_the_memory_limit(limit, size):
    resources = Resources(tuple(jax.devices()), limit, lambda share: None)
    blocks = engine.make_blocks(TASK, [run(0, [10])], 40, resources)
    assert {block.size for block in blocks} == {size}
    np.testing.assert_array_equal(np.concatenate([block.lanes for block in blocks])[:, 1], np.arange(40))


def test_settings_of_one_shape_share_a_compiled_program():
    simulated(num_replicas=37)
    before = program._compiled_advance._cache_size()
    other = st.LeastSquares([3.0, 1.0, 0.5], [0.1, 0.5, 2.0], 0.1)
    others = (PROBLEM, 64, 0.3, 64e3, "bias"), (other, 1, 0.01, 7, "variance"), (other, 5, 0.1, 1003, "total")
    for problem, batch, rate, samples, quantity in others:
        settings = {"batch_size": batch, "learning_rate": rate, "num_samples": samples, "num_replicas": 37}
        st.simulate(jax.random.key(1), problem, **settings, quantity=quantity)
    simulated(num_replicas=37, num_samples=[40, 80, 160], trajectory=2)
    assert program._compiled_advance._cache_size() == before
    simulated(num_replicas=38)  # control: another shape
    assert program._compiled_advance._cache_size() == before + 1
