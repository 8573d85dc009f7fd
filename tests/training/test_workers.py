"""Workers that take steps of their own: DiLoCo against NumPy, and what it is where workers always talk."""

import dataclasses
import functools
import json
from dataclasses import replace

import numpy as np
import pytest

from sgdtheory.cli.network import NetworkFlags
from sgdtheory.training import Lanes, TrainConfig, branch, read_weights, resume, train
from sgdtheory.training.config import ROUNDS
from sgdtheory.training.streams import stream
from sgdtheory.training.workers import mean
from tests.marks import slow
from tests.runs import changed, run_of
from tests.training.test_optimization import ADAM, EPSILON, SGD, gradient, initial

ONE = run_of(
    width=16, base_width=8, depth=1, input_dim=4, batch_size=6, holdout_size=8, max_steps=5, learning_rate=0.05,
    activation="tanh", averages=(), epsilon=1e-2,
)  # fmt: skip
DILOCO = {"num_workers": 3, "local_steps": 2, "outer_learning_rate": 0.7, "outer_momentum": 0.6}


def sgd_step(state, grad, name, rate, step, momentum):
    state[0] = momentum * state[0] + grad
    return rate * SGD[name] * state[0]


def adam_step(state, grad, name, rate, step, config):
    beta1, beta2, epsilon = (config.value(each) for each in ("beta1", "beta2", "epsilon"))
    state[0] = beta1 * state[0] + (1 - beta1) * grad
    state[1] = beta2 * state[1] + (1 - beta2) * grad**2
    mean = state[0] / (1 - beta1 ** (step + 1))
    root = np.sqrt(state[1] / (1 - beta2 ** (step + 1)))
    return rate * ADAM[name] * mean / (root + epsilon * EPSILON[name])


@functools.cache
def batches(size, steps):
    """The samples of every step, in the order of the workers."""
    data = stream(replace(ONE, batch_size=size))
    found = [data.batch(np.uint32(0), piece) for piece in data.chunk(0, 0, steps)]
    return [tuple(np.asarray(part, float) for part in each) for each in found]


@functools.cache
def beginning():
    return initial(ONE)


def by_hand(config, local_steps=None, forget=False, nesterov=True):
    """DiLoCo of explicit workers; the options are wrong laws."""
    workers, size = config.num_workers, config.batch_size
    local_steps = local_steps or config.local_steps
    common = dict(beginning())
    each = [dict(common) for _ in range(workers)]
    new = lambda: [{name: [0 * part, 0 * part] for name, part in common.items()} for _ in range(workers)]  # noqa: E731
    inner, buffer = new(), {name: 0 * part for name, part in common.items()}
    for t, (inputs, targets) in enumerate(batches(workers * size, config.max_steps)):
        for k in range(workers):
            own = slice(k * size, (k + 1) * size)
            for name, grad in gradient(each[k], inputs[own], targets[own])[1].items():
                rest = inner[k][name], grad, name, config.learning_rate, t
                adam = config.value("optimizer") == "adam"
                move = adam_step(*rest, config) if adam else sgd_step(*rest, config.value("momentum"))
                each[k][name] = each[k][name] - move
        if (t + 1) % local_steps == 0:
            for name in common:
                moved = common[name] - sum(worker[name] for worker in each) / workers
                buffer[name] = config.outer_momentum * buffer[name] + moved
                ahead = moved + config.outer_momentum * buffer[name] if nesterov else buffer[name]
                common[name] = common[name] - config.outer_learning_rate * ahead
            each = [dict(common) for _ in range(workers)]
            inner = new() if forget else inner
    return {name: sum(worker[name] for worker in each) / workers for name in common}


def distance(found, expected):
    """Largest difference over the largest move from the start."""
    start = beginning()
    moved = max(np.abs(expected[name] - start[name]).max() for name in start)
    return max(np.abs(found[name] - expected[name]).max() for name in start) / moved


def weights_of(*configs):
    """Weights of the runs of one program, side by side."""
    lanes = Lanes(configs)
    lanes.advance(configs[0].max_steps)
    found = lanes.weights()
    return [{name: part[row] for name, part in found.items()} for row in range(len(configs))]


@pytest.mark.parametrize("inner", [{"optimizer": "sgd", "momentum": 0.7}, slow({})])
def test_diloco_by_hand(inner):
    """Five steps of rounds of two: the run ends within a round, at the workers' mean."""
    config = changed(ONE, **DILOCO, **inner)
    always = changed(config, **ROUNDS | {"num_workers": 3})
    found, talking = weights_of(config, always)
    assert distance(found, by_hand(config)) < 1e-5
    for wrong in ({"local_steps": 3}, {"forget": True}, {"nesterov": False}):
        assert distance(found, by_hand(config, **wrong)) > 1e-2, wrong
    # Workers with SGD that always talk have one large batch; Adam's squares are each worker's.
    large = by_hand(changed(config, **ROUNDS | {"batch_size": 18}))
    assert (distance(talking, large) < 1e-5) == ("momentum" in inner)
    assert distance(found, large) > 1e-2


def test_one_worker_that_only_takes_its_own_mean_is_plain_training():
    """Also with an outer step after every step, which leaves nothing out: a momentum of 1e-30."""
    config = changed(ONE, max_steps=7)
    (plain,) = weights_of(config)
    *same, other = weights_of(
        changed(config, local_steps=3), changed(config, outer_momentum=1e-30), changed(config, outer_momentum=0.5)
    )
    assert all(distance(each, plain) < 1e-5 for each in same)
    assert distance(other, plain) > 1e-2


@pytest.mark.slow
def test_a_run_goes_on_within_a_round(tmp_path):
    """Weights, buffers and the common weights are kept."""
    config = changed(ONE, **DILOCO, optimizer="sgd", momentum=0.7)
    train(replace(config, max_steps=3), tmp_path)
    resume(tmp_path, max_steps=5)
    assert distance(read_weights(tmp_path), by_hand(config)) < 1e-5


def test_workers_that_agree_have_their_weights_as_mean():
    """To the bit, or weights that are not trained would drift."""
    part = np.random.default_rng(0).standard_normal(99).astype(np.float32)
    np.testing.assert_array_equal(mean({"w": np.stack(3 * [part])})["w"], part)


def test_a_plain_run_is_what_it_was():
    """Its hash and its file are those that it had before there were workers."""
    assert TrainConfig().fingerprint == TrainConfig().trajectory == "44136fa355b3"
    assert run_of(batch_size=7, clip_norm=0.5).fingerprint == "0edcb207a2d5"
    assert not ROUNDS.keys() & run_of().as_fields().keys()
    config = changed(ONE, **DILOCO)
    assert config.fingerprint != ONE.fingerprint
    assert TrainConfig.from_fields(json.loads(json.dumps(config.as_fields()))) == config


def test_what_does_not_go_with_workers_is_said():
    with pytest.raises(ValueError, match="schedule schedule_free does not go with workers that take steps"):
        changed(ONE, schedule="schedule_free", local_steps=2)
    with pytest.raises(ValueError, match=r"runs that branch must have one worker.* got num_workers = 1 and local_st"):
        branch([changed(ONE, local_steps=2)], (32, 64), catch_up=96)
    with pytest.raises(ValueError, match=r"at most 2\^32 samples, got 1048576 and 2048, of each of 4 workers"):
        changed(ONE, max_steps=2**20, batch_size=2**11, num_workers=4)


def test_flags_are_made_from_the_fields():
    """They are in the optimizer's group of `train` and `sweep`."""
    assert set(ROUNDS) <= set(NetworkFlags.FLAG_GROUPS["optimizer"])
    assert set(ROUNDS) <= {field.name for field in dataclasses.fields(NetworkFlags)}
