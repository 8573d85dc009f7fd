"""Priors from other runs are the recorded fits, without units."""

import numpy as np
import pytest

import sgdtheory as st
from experiments._lib.redraw import FOLDER, Recorded
from sgdtheory._common.files import csv_number
from sgdtheory.curves.experience import PUBLIC, prior_of
from sgdtheory.curves.laws.theory import TheoryLaw

LAWS = {"theory": 0.1, "theory, weights of constant norm": None}
RATE = 3e-4


def recorded(model, law):
    """Numbers of the experiment `loss_curves`."""
    rows = [
        row
        for row in Recorded(FOLDER / "loss_curves").rows
        if (row["model"], row["law"], row["quantity"]) == (model, law, "number")
    ]
    found = {row["name"]: csv_number(row["value"]) for row in rows if row["weight_decay"] in ("0.1", "")}
    return found | {"floor": found["irreducible_loss"]}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("model", PUBLIC.decayed)
def test_features_are_those_of_the_recorded_fits(model, law):
    numbers = recorded(model, law)
    loss = st.example_loss_curves(model)["cosine_24000"].loss[-1]
    known = PUBLIC.constant if LAWS[law] is None else PUBLIC.decayed
    found = known[model]
    assert found.capacity == pytest.approx(numbers["capacity"] - 1, rel=1e-4)
    assert found.source == pytest.approx(numbers["source"] - 1, rel=1e-4)
    assert found.signal == pytest.approx(numbers["signal"] / loss, rel=1e-4)
    assert found.noise == pytest.approx(numbers["noise"] * numbers["step_size"] / loss, rel=1e-4)
    assert found.step_size == pytest.approx(numbers["step_size"], rel=1e-4)
    assert found.floor == pytest.approx(numbers["floor"] / loss, rel=1e-4)
    if LAWS[law] is not None:
        assert found.growth == pytest.approx(numbers["growth"] / (2 * 0.1 * RATE), rel=1e-4)


@pytest.mark.parametrize("decay", [None, 0.1])
@pytest.mark.parametrize("batch", [1.0, 64.0])
def test_a_run_like_the_one_that_is_known_is_expected(decay, batch):
    """Numbers of the fit, in units of its loss and batch size, lie at the centre."""
    law = TheoryLaw(decay)
    experience = PUBLIC.without(("25M", "400M"), doubt=0.1)
    loss = st.example_loss_curves("100M")["cosine_24000"].loss[-1]
    found = law.values(prior_of(law, experience, loss, batch, RATE).coordinates[None])
    numbers = recorded("100M", next(name for name, each in LAWS.items() if each == decay))
    for name, value in found.items():
        expected = numbers[name] * (batch if name == "noise" else 1.0)
        assert value[0] == pytest.approx(expected, rel=3e-4)


def test_a_number_is_known_within_its_factor():
    """One standard deviation off in each feature alone."""
    law = TheoryLaw(0.1)
    prior = prior_of(law, PUBLIC, 3.0, 1.0, RATE)
    change = {"source": 0.5, "step_size": 1.0, "floor": 0.15}
    for k, name in enumerate(law.names):
        off = np.zeros(len(law.names))
        off[k] = change.get(name, 0.7)
        if name == "step_size":
            off[law.names.index("noise")] = -1.0  # at the same noise that it adds
        deviations = prior.matrix @ (prior.coordinates + off) - prior.centre
        np.testing.assert_allclose(deviations, np.eye(len(law.names))[k], atol=1e-9)


def test_without_weight_decay_norms_have_a_scale():
    prior = prior_of(TheoryLaw(0.0), PUBLIC, 3.0, 1.0, RATE)
    assert np.isfinite(prior.centre).all()


def test_models_are_left_out():
    left = PUBLIC.without(("25M",), doubt=0.2)
    assert list(left.decayed) == list(left.constant) == ["100M", "400M"]
    assert left.doubt == 0.2
