"""The interface: what is returned, what it depends on, and what is refused."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import multihost_utils

import sgdtheory as st
from sgdtheory._common.counter_random import threefry
from sgdtheory.algorithms import Course
from sgdtheory.simulation.dynamics import STEPS, Dynamics, Replica, Spectrum, Table, begin, carry, risks, step
from sgdtheory.simulation.explicit import Explicit
from sgdtheory.simulation.laws import Gaussian
from sgdtheory.simulation.simulator import _check_same_call
from sgdtheory.simulation.sufficient import Sufficient
from sgdtheory.simulation.task import samplers
from sgdtheory.simulation.wishart import Wishart
from tests.marks import half, slow
from tests.simulation.small import KEY, PROBLEM, columns, simulated


def test_one_step_is_the_start():
    found = simulated(num_samples=[4, 7])
    np.testing.assert_allclose(found.excess_risk, PROBLEM.initial_risk, rtol=1e-6)
    np.testing.assert_array_equal(found.num_steps, [1, 1])


@pytest.mark.parametrize(("scale", "unit"), [(1e-60, 1e100), (1e-5, 1e9), (1e30, 1e-40)])
def test_units_do_not_matter(scale, unit):
    """The units of y² and of λ do not matter."""
    found = simulated()
    other = st.LeastSquares(unit * PROBLEM.eigenvalues, scale * PROBLEM.signal, scale * PROBLEM.noise_variance)
    np.testing.assert_allclose(simulated(other, learning_rate=0.5 / unit).excess_risk, scale * found.excess_risk, 1e-5)


@pytest.mark.parametrize(
    ("problem", "risk"),
    [
        (st.LeastSquares(np.zeros(3), np.zeros(3), 0.0), 0.0),
        (st.LeastSquares([1.0, 0.5, 0.1], np.zeros(3), 0.0), 0.0),
        (st.LeastSquares(np.zeros(3), [1.0, 2.0, 0.0], 3.0), 3.0),
    ],
)
def test_problems_in_which_nothing_happens(problem, risk):
    found = simulated(problem)
    np.testing.assert_allclose(found.excess_risk, risk, rtol=1e-6)
    assert abs(found.z_score(risk)) < 1


def raises(key, batch_size):
    raise ZeroDivisionError


def test_precision_and_compilation_are_as_they_were():
    simulated(dtype="float64")
    with pytest.raises(ZeroDivisionError):
        simulated(dtype="float64", sampler="explicit", law=raises)
    with pytest.raises(ValueError, match="dim must be at least"):
        simulated(st.PowerLaw(2, 1.5, 10), dtype="float64", dim=2)
    assert not jax.config.jax_enable_x64
    assert not jax.config.jax_disable_jit
    assert jnp.ones(1).dtype == np.float32


def test_whoever_works_in_double_precision_gets_the_same_numbers_and_stays_there():
    expected = [simulated(dtype=dtype).excess_risk for dtype in ("float32", "float64")]
    with jax.enable_x64(True):
        found = [simulated(dtype=dtype).excess_risk for dtype in ("float32", "float64")]
        assert jnp.ones(1).dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_inside_disable_jit_nothing_changes():
    with jax.disable_jit():
        found = simulated()
        assert jax.config.jax_disable_jit
    np.testing.assert_allclose(found.excess_risk, simulated().excess_risk, rtol=1e-5)


@pytest.mark.parametrize("compiled", [jax.jit, slow(lambda function: function)])
def test_init_draws_and_step_by_hand_are_simulate(compiled):
    """Replica r of run k has the key threefry(bits of the key, (k, r)); step t has the draws of t − t mod 64."""
    replica, run, steps = 4, 1, 66
    batch, rate = 8.0, 0.25
    found = simulated(batch_size=[4, 8], learning_rate=[0.5, rate], num_samples=[4 * steps, 8 * steps])
    scale = np.sqrt(PROBLEM.initial_risk + PROBLEM.noise_variance)
    arrays = PROBLEM.eigenvalues, np.sqrt(PROBLEM.signal) / scale, np.sqrt(PROBLEM.noise_variance) / scale
    spectrum = Spectrum(*(np.asarray(a, np.float32) for a in arrays), output=np.ones(1, np.float32))
    words = np.asarray(jax.random.bits(KEY, (2,), "uint32"))
    lane_key = np.stack(threefry((words[:1], words[1:]), *np.uint32([[run], [replica]])), axis=1)
    sgd = Dynamics()
    row = Table(*(np.float32(each) for each in ([[[0]]], [[rate]], [[1]], [batch])))
    mine = Replica(lane_key[0], 0, np.uint32(0), np.float32(0), np.float32(1), np.float32(0), np.uint32(0))
    state = begin(sgd, spectrum, mine)
    draw, one = compiled(Sufficient().ahead), compiled(partial(step, sgd, Sufficient()))
    for number in range(steps):
        if number % STEPS == 0:
            draws = draw(lane_key, np.float32([batch]), np.uint32(number))
        state = one(spectrum, mine, state, np.uint32(number), row, draws[number % STEPS, 0])
    average, last = risks(sgd, spectrum, carry(state), np.float32(0), np.float32(steps))
    np.testing.assert_allclose(scale**2 * average, found.excess_risk[run, replica], rtol=2e-5)
    np.testing.assert_allclose(scale**2 * last, found.last_iterate_risk[run, replica], rtol=2e-5)


@pytest.mark.parametrize(
    ("memory_limit", "sampler"), [(1, "sufficient"), slow(3e4, "sufficient"), slow(1e3, "explicit")]
)
def test_memory_limit_does_not_change_the_numbers(memory_limit, sampler):
    batches = [[2], [5]] if sampler == "sufficient" else 4
    options = {"batch_size": batches, "num_samples": [50, 500], "sampler": sampler}
    whole, parts = simulated(**options), simulated(**options, memory_limit=memory_limit)
    np.testing.assert_allclose(columns(whole), columns(parts), rtol=1e-5)


def test_the_first_setting_does_not_depend_on_the_others():
    alone = simulated()
    grid = simulated(batch_size=[[4], [16]], learning_rate=[0.5, 0.1, 0.5], num_samples=400)
    assert grid.excess_risk.shape == (2, 3, 10)
    np.testing.assert_allclose(grid.excess_risk[0, 0], alone.excess_risk, rtol=1e-5)
    np.testing.assert_array_equal(grid.excess_risk[0, 2], grid.excess_risk[0, 0])
    assert not np.isclose(grid.excess_risk[0, 0], simulated(learning_rate=[0.1, 0.5]).excess_risk[1], rtol=1e-3).any()


def test_another_key_gives_other_numbers_and_the_same_key_the_same():
    first, again = simulated(), simulated()
    np.testing.assert_array_equal(first.excess_risk, again.excess_risk)
    assert not np.isclose(first.excess_risk, simulated(key=jax.random.key(1)).excess_risk, rtol=1e-4).any()


def test_legacy_keys():
    with_new = simulated(key=jax.random.key(5)).excess_risk
    np.testing.assert_array_equal(simulated(key=jax.random.PRNGKey(5)).excess_risk, with_new)
    np.testing.assert_array_equal(simulated(key=np.array([0, 5], np.uint32)).excess_risk, with_new)
    assert np.isfinite(simulated(key=jax.random.key(5, impl="rbg")).excess_risk).all()


@pytest.mark.parametrize("sampler", ["sufficient", "explicit"])
def test_samples_as_checkpoints_are_the_runs_of_as_many_samples(sampler):
    samples = [4, 100, 403, 1000]
    together = simulated(num_samples=samples, sampler=sampler)
    np.testing.assert_array_equal(together.num_steps, [1, 25, 100, 250])
    for place, value in enumerate(samples):
        np.testing.assert_allclose(
            columns(simulated(num_samples=value, sampler=sampler)),
            np.column_stack([together.excess_risk[place], together.last_iterate_risk[place]]),
            rtol=1e-5,
        )


def test_trajectory_is_the_risk_at_steps_in_between():
    found = simulated(batch_size=[[4], [8]], num_samples=[400, 4000], trajectory=5)
    path = found.trajectory
    assert path.num_steps.shape == (2, 2, 5)
    assert path.excess_risk.shape == path.last_iterate_risk.shape == (2, 2, 5, 10)
    np.testing.assert_array_equal(path.num_steps[..., 0], 1)
    np.testing.assert_array_equal(path.num_steps[..., -1], found.num_steps)
    np.testing.assert_array_equal(path.excess_risk[..., -1, :], found.excess_risk)
    np.testing.assert_array_equal(path.last_iterate_risk[..., -1, :], found.last_iterate_risk)
    np.testing.assert_array_equal(path.num_steps[1, 1], [1, 5, 22, 106, 500])
    single = simulated(batch_size=[4, 8], num_samples=[88, 8 * 22])
    np.testing.assert_allclose(path.excess_risk[1, 1, 2], single.excess_risk[1], rtol=1e-5)
    np.testing.assert_allclose(path.last_iterate_risk[1, 1, 2], single.last_iterate_risk[1], rtol=1e-5)
    assert simulated().trajectory is None


def test_a_setting_beyond_the_edge_diverges_alone():
    settings = {"num_samples": 4000, "num_replicas": 7}
    found = simulated(learning_rate=[0.5, 8.0, 0.4], **settings)
    np.testing.assert_array_equal(found.diverged, [[False] * 7, [True] * 7, [False] * 7])
    np.testing.assert_array_equal(found.excess_risk[1], np.inf)
    np.testing.assert_array_equal(found.last_iterate_risk[1], np.inf)
    np.testing.assert_array_equal(np.isinf(found.mean), [False, True, False])
    assert np.isinf(found.standard_error[1])
    np.testing.assert_array_equal(np.isnan(found.z_score([0.1, np.inf, 0.1])), [False, True, False])
    without = simulated(learning_rate=[0.5, 0.6, 0.4], **settings)
    np.testing.assert_allclose(found.excess_risk[[0, 2]], without.excess_risk[[0, 2]], rtol=1e-5)


@pytest.mark.parametrize(("num_steps", "dtype"), half([20, 100, 200, 300, 500, 2000], ["float32", "float64"]))
def test_anywhere_on_the_way_to_infinity_there_are_no_warnings(dtype, num_steps):
    found = simulated(learning_rate=5.0, num_samples=4 * num_steps, dtype=dtype)
    assert not np.isnan(found.excess_risk).any()
    assert found.mean > 1e3
    assert found.standard_error > 0
    assert np.isnan(found.z_score(1.0)) == np.isinf(found.mean)


def test_absurd_learning_rates_diverge_and_tiny_ones_stay_at_the_start():
    for dtype in ("float32", "float64"):
        assert all(simulated(learning_rate=rate, dtype=dtype).diverged.all() for rate in (1e10, 1e30, 1e60, 1e300))
    for rate in (1e-10, 1e-60, 1e-300):
        np.testing.assert_allclose(simulated(learning_rate=rate).excess_risk, PROBLEM.initial_risk, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 2.5}, "batch_size must be a whole number of at least 1, got 2.5"),
        ({"batch_size": 1e31, "num_samples": 1e33}, r"batch_size must be at most 1e\+30 for this sampler, got 1e\+31"),
        (
            {"batch_size": 2.0**31, "num_samples": 2.0**33, "sampler": "explicit"},
            r"batch_size must be at most 1.07374e\+09 for this sampler, got 2.14748e\+09",
        ),
        ({"learning_rate": 0}, "learning_rate must be positive and finite, got 0"),
        ({"learning_rate": []}, "batch_size, learning_rate and num_samples must hold at least one"),
        ({"num_samples": 3}, r"num_samples must be at least batch_size \(one step\), got num_samples 3.0 with"),
        ({"num_samples": [400, 300]}, "num_samples must not decrease along its last axis, got 300 after 400; sort it"),
        ({"num_samples": [[1e3, 1e4], [1e4, 1e3]]}, "got 1000 after 10000; sort it"),
        ({"num_samples": [400, 1e12]}, r"must be at most 2147483647 steps of batch_size, got num_samples 1e\+12"),
        ({"batch_size": [1, 2], "learning_rate": [0.1] * 3}, r"must broadcast against each other, got shapes \(2,\), "),
        ({"num_replicas": 0}, "num_replicas must be a whole number of at least 1, got 0"),
        ({"num_replicas": 10**12}, "num_replicas must be smaller: 1e.12 replicas, .* GB of results"),
        ({"sampler": None}, "sampler must be one of 'sufficient', 'explicit', got None"),
        ({"quantity": "risk"}, "quantity must be one of 'total', 'bias', 'variance', got 'risk'"),
        ({"dtype": "float16"}, "dtype must be one of 'float32', 'float64', got 'float16'"),
        ({"dim": 0}, "dim must be a whole number of at least 1, got 0"),
        (
            {"dim": 1, "num_replicas": 1000},
            "dim must be at least 3 for these settings: with 1 of 3 directions the",
        ),
        ({"problem": st.PowerLaw(2.0, 3.0, 10**9), "dim": 10**9}, "dim must be smaller: one replica of 1e.09"),
        ({"trajectory": -1}, "trajectory must be a whole number of at least 0, got -1"),
        ({"trajectory": 10**9}, "trajectory must be at most 10000, got 1e.09"),
        ({"memory_limit": np.inf}, "memory_limit must be positive and finite, got inf"),
        ({"key": 0}, r"key must be a JAX key, for example jax.random.key\(0\), got 0"),
        ({"key": np.arange(3, dtype=np.uint32)}, "key must be a JAX key"),
        ({"key": jax.random.split(KEY, 3)}, "key must be a JAX key"),
        ({"problem": None}, "problem must be a PowerLaw, a LeastSquares or your own AbstractProblem, got None"),
    ],
)
def test_bad_input(options, message):
    """Whole and positive numbers are tested in tests/_common/test_arguments.py; laws in test_laws.py."""
    with pytest.raises(ValueError, match=message):
        simulated(**options)


def test_results_are_numpy_arrays_of_float64_and_print_in_one_line():
    found = simulated(batch_size=[4, 8], trajectory=2, dtype=np.float64)
    for array in (found.excess_risk, found.last_iterate_risk, found.trajectory.excess_risk):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
    assert found.num_steps.dtype.kind == "i"
    assert found.dtype == "float64"
    assert repr(found).startswith("Simulation(mean=")
    assert "\n" not in repr(found)


def test_progress_is_shown_on_a_terminal_alone(monkeypatch, capsys):
    simulated(progress=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert np.isfinite(simulated(progress=True).mean)
    assert capsys.readouterr().out == ""


def test_every_process_has_to_make_the_same_call(monkeypatch):
    """Of three processes the last has a digest that differs in one byte; digests that agree pass."""

    def gathered(digest):
        return np.stack([digest, digest, digest ^ (np.arange(digest.size) == changed).astype(np.uint8)])

    monkeypatch.setattr(jax, "process_count", lambda: 3)
    monkeypatch.setattr(multihost_utils, "process_allgather", gathered)
    changed = 5
    with pytest.raises(ValueError, match="the same call: key, problem or settings of process 2 are not those of 0"):
        simulated()
    changed = -1
    _check_same_call("anything")


def test_samplers_go_by_their_name_the_outputs_and_the_batch_schedule():
    growing = st.Algorithm(batch_schedule=st.Linear(final=5))
    for name, outputs, algorithm, expected in (
        ("sufficient", 1, growing, Sufficient()),
        ("sufficient", 2, growing, Wishart()),
        ("explicit", 1, st.Algorithm(), Explicit(Gaussian(), 6)),
        ("explicit", 1, growing, Explicit(Gaussian(), 32, varying=True)),
    ):
        chosen = samplers(name, "gaussian", PROBLEM, KEY, outputs)
        assert chosen(Course(algorithm, 6.0, 0.1, 20.0)) == expected
