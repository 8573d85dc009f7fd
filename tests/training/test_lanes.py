"""Runs of one program side by side, without files: the trainer's own steps, one call or many."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.training import Lanes, engine, train_many
from sgdtheory.training import lanes as lanes_module
from tests.runs import changed, run_of

BASE = run_of(
    width=8, base_width=8, depth=1, input_dim=4, batch_size=4, holdout_size=16, max_steps=12, eval_every=5,
    averages=(0.5,), uniform_average=True,
)  # fmt: skip
CONFIGS = [changed(BASE, learning_rate=rate, data_seed=seed) for rate in (0.01, 0.1) for seed in (0, 1)]


def test_lanes_do_the_trainers_steps():
    lanes = Lanes(CONFIGS)
    assert (lanes.step, lanes.shared, lanes.longest) == (0, False, 5)
    before = lanes.evaluate()
    lanes.advance(12)
    assert lanes.step == 12
    for row, result in enumerate(train_many(CONFIGS)):
        np.testing.assert_allclose(before[row], result.losses[0], rtol=1e-5)
        np.testing.assert_allclose(lanes.evaluate()[row], result.losses[-1], rtol=1e-5)
    sums, failed = lanes.sums()
    assert sums.shape == (4, 3)
    assert (failed == -1).all()
    lanes.clear_sums()
    assert (lanes.sums()[0] == 0).all()


def test_states_go_on_with_the_same_bits():
    whole, half = Lanes(CONFIGS), Lanes(CONFIGS)
    whole.advance(9)
    half.advance(4)
    rest = Lanes(CONFIGS, states=half.states())
    assert rest.step == 4
    rest.advance(5)
    for name, part in whole.weights("uniform").items():
        np.testing.assert_array_equal(rest.weights("uniform")[name], part)
    assert {part.shape[0] for part in whole.weights().values()} == {4}


def test_other_programs_are_refused():
    with pytest.raises(ValueError, match="^configs must be of one program .* got different width$"):
        Lanes([BASE, changed(BASE, width=16)])
    with pytest.raises(ValueError, match="got different optimizer|beta1|beta2|epsilon"):
        Lanes([BASE, changed(BASE, optimizer="sgd")])
    with pytest.raises(ValueError, match="got different eval_every, max_steps or the number of averages$"):
        Lanes([BASE, changed(BASE, eval_every=6)])
    with pytest.raises(ValueError, match="^configs must be at least one, got none$"):
        Lanes([])


def test_a_call_is_as_long_as_its_data_allow(monkeypatch):
    """A step of the teacher's samples is a number of four bytes for each of four runs, or for all that share data."""
    one = [changed(each, data_seed=0) for each in CONFIGS]
    for setting, value, sizes in ("CHUNK_BYTES", 50, (3, 5)), ("CHUNK_BYTES", 15, (1, 3)), ("LONGEST_CHUNK", 2, (2, 2)):
        with monkeypatch.context() as patch:
            patch.setattr(lanes_module, setting, value)
            assert (Lanes(CONFIGS).longest, Lanes(one).longest) == sizes
    assert Lanes(one).shared
    assert Lanes(one, longest=7).longest == 7


@pytest.mark.parametrize("rows", [1, 6, 7, 12])
def test_a_mean_in_pieces_is_the_mean(rows, monkeypatch):
    """Twenty input numbers at once are six rows of three."""
    monkeypatch.setattr(engine, "PIECE", 20)
    inputs, targets = np.random.default_rng(0).standard_normal((2, rows, 3)).astype(np.float32)
    seen = []

    def loss(part, wanted):
        seen.append(part.shape[0])
        return ((part - wanted) ** 2).mean()

    found = engine._mean_in_pieces(loss, jnp.asarray(inputs), jnp.asarray(targets))
    np.testing.assert_allclose(found, ((inputs - targets) ** 2).mean(), rtol=1e-5)
    assert set(seen) == {6, rows % 6} - {0} if rows > 6 else {rows}


def test_steps_are_asked_for_in_pieces():
    """Seven steps from the third on, at most three at a time; the devices are not needed for that."""
    asked = []
    lanes = SimpleNamespace(step=3, longest=3)
    lanes.pieces = lambda number: min(number, lanes.longest)

    def run(number):
        asked.append(number)
        lanes.step += number

    lanes.run = run
    Lanes.advance(lanes, 7)
    assert (asked, lanes.step) == ([3, 3, 1], 10)
    for number in (0, -1):
        assert Lanes.pieces(lanes, number) == (None, 0)
