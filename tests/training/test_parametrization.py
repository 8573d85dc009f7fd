"""The table of exponents, and what training cannot tell apart."""

import functools
import json

import jax
import numpy as np
import pytest

from sgdtheory.training import MUP, NTK, PARAMETRIZATIONS, STANDARD, Exponents, train
from sgdtheory.training.architectures.transformer import heads
from sgdtheory.training.network import Tensor
from sgdtheory.training.parametrization import ROLES, as_fields, factors, parametrization
from sgdtheory.training.tensors import draw, tensor_factors
from tests.runs import changed, run_of

TENSORS = {
    "in": Tensor((300, 64), "input", 100),
    "mid": Tensor((300, 300), "hidden", 32),
    "out": Tensor((300, 256), "output", 32),
    "gain": Tensor((8,), "vector", -1),
    "bias": Tensor((8,), "vector", 0),
}
SHARED = {"width": 32, "base_width": 8, "optimizer": "sgd", "averages": (0.5,)}
MLP = run_of(
    **SHARED, depth=2, input_dim=8, batch_size=8, holdout_size=64, max_steps=12, eval_every=4, learning_rate=0.01
)
TRANSFORMER = run_of(
    **SHARED, model="transformer", data="stdlib", depth=1, num_heads=2, context=8, batch_size=4, holdout_size=8,
    max_steps=6, eval_every=2, learning_rate=0.02,
)  # fmt: skip


def with_optimizer(config, name, **changes):
    """The same run with another optimizer, with an ε that matters where it has one."""
    epsilon = 1e-3 if config.value("model") == "mlp" else 1e-4
    return changed(config, optimizer=name, **({"epsilon": epsilon} if name in ("adam", "muon") else {}), **changes)


SETTINGS = {
    "mlp, sgd": changed(MLP, momentum=0.5),
    "mlp, adam": with_optimizer(MLP, "adam"),
    "mlp, adamw": with_optimizer(MLP, "adam", weight_decay=5.0),
    "mlp, muon": with_optimizer(MLP, "muon"),
    "mlp, sign, clipped": with_optimizer(MLP, "sign", momentum=0.5, clip_norm=0.5),
    "mlp, sgd, clipped": changed(MLP, momentum=0.5, clip_norm=0.5),
    "transformer, sgd": TRANSFORMER,
    "transformer, adam, clipped": with_optimizer(TRANSFORMER, "adam", clip_norm=0.5),
    "transformer, muon": with_optimizer(TRANSFORMER, "muon"),
}
RARE = "mlp, sgd", "transformer, sgd", "transformer, adam, clipped", "transformer, muon"  # what they say others say too
# The transformer trains with two optimizers: factors are applied to each tensor by the same code in every network.
RUNS = pytest.mark.parametrize(
    ("config", "optimizer"),
    [
        *(pytest.param(MLP, name, id=f"mlp-{name}") for name in ("adam", "muon", "sign", "sgd")),
        *(pytest.param(TRANSFORMER, name, id=f"transformer-{name}") for name in ("adam", "muon")),
    ],
)


# Factors of 4 times the base's width, as init², multiplier, SGD's and Adam's rate and Adam's ε. µP's are written down
# from Yang et al. 2022, Table 3: fan_in and fan_out of hidden weights are 4 times as large, the input's fan_in and the
# output's fan_out stay. Standard has 1/fan_in and one rate, NTK divides by the root of the width (T17). ε follows the
# gradient: of order 1/n from the output on down in µP, where the output is 1/n of a sum and moves by 1; of order
# 1/n^(1/2) with the multiplier of the output in NTK, and again of a hidden multiplier.
@pytest.mark.parametrize(
    ("table", "role", "variance", "multiplier", "sgd", "adam", "epsilon"),
    [
        *((MUP, role, 1, 1, 4, 1, 1 / 4) for role in ("input", "vector")),
        (MUP, "hidden", 1 / 4, 1, 1, 1 / 4, 1 / 4),
        (MUP, "output", 1 / 16, 1, 1 / 4, 1 / 4, 1),
        *((STANDARD, role, 1, 1, 1, 1, 1) for role in ("input", "vector")),
        *((STANDARD, role, 1 / 4, 1, 1, 1, 1) for role in ("hidden", "output")),
        *((NTK, role, 1, 1, 1, 1 / 2, 1 / 2) for role in ("input", "vector")),
        (NTK, "hidden", 1, 1 / 2, 1, 1 / 4, 1 / 4),
        (NTK, "output", 1, 1 / 2, 1, 1 / 2, 1 / 2),
    ],
)
def test_factors_at_four_times_the_base_width(table, role, variance, multiplier, sgd, adam, epsilon):
    by_sgd, by_adam = (factors(table.role(role), family, 4.0) for family in ("sgd", "adam"))
    assert (by_sgd.init**2, by_sgd.multiplier, by_sgd.rate, by_adam.sgd_rate) == (variance, multiplier, sgd, sgd)
    assert (by_adam.rate, by_adam.epsilon) == (adam, epsilon)


@pytest.mark.parametrize("table", PARAMETRIZATIONS.values())
@pytest.mark.parametrize("role", ROLES)
def test_muon_has_adams_rate_but_for_hidden_weights(table, role):
    """Yang et al. 2023: a hidden step of spectral norm 1 keeps what it does at every width, under any initial scale."""
    by_muon, by_adam = (factors(table.role(role), family, 4.0) for family in ("muon", "adam"))
    assert by_muon.rate == (1 if role == "hidden" else by_adam.rate)
    assert by_muon._replace(rate=by_adam.rate) == by_adam


@pytest.mark.parametrize("table", PARAMETRIZATIONS.values())
@pytest.mark.parametrize("family", ["sgd", "adam", "muon"])
def test_all_factors_are_one_at_the_base_width(table, family):
    for role in ROLES:
        assert set(factors(table.role(role), family, 1.0)) == {1.0}


@pytest.mark.parametrize(
    ("table", "variances"),
    [
        ("mup", {"in": 1 / 100, "mid": 1 / 128, "out": 1 / 512}),
        ("standard", {"in": 1 / 100, "mid": 1 / 128, "out": 1 / 128}),
        ("ntk", {"in": 1 / 100, "mid": 1 / 32, "out": 1 / 32}),
    ],
)
def test_variances_of_what_is_drawn(table, variances):
    weights = draw(TENSORS, changed(MLP, parametrization=table), jax.random.key(0))
    for name, variance in variances.items():
        number = weights[name].size
        score = (np.mean(np.asarray(weights[name], float) ** 2) / variance - 1) / np.sqrt(2 / number)
        assert abs(score) < 5  # false alarms: below 1e-6 each
    np.testing.assert_array_equal(weights["gain"], np.ones(8))
    np.testing.assert_array_equal(weights["bias"], np.zeros(8))


def test_draws_depend_on_name_and_seed():
    same = {"a": Tensor((50,), "input", 1), "b": Tensor((50,), "input", 1)}
    first, other = (draw(same, MLP, jax.random.key(seed)) for seed in (0, 1))
    assert not np.isclose(first["a"], first["b"]).any()
    assert not np.isclose(first["a"], other["a"]).any()
    np.testing.assert_array_equal(draw({"b": same["b"]}, MLP, jax.random.key(0))["b"], first["b"])


@pytest.mark.parametrize(
    ("table", "width", "number", "scale"),
    [
        ("mup", 32, 2, 1 / 8),  # heads of 16 and at the base of 4: 4/16 of 1/√4
        ("mup", 8, 2, 1 / 2),
        ("mup", 32, 8, 1 / 2),
        ("standard", 32, 2, 1 / 4),
        ("standard", 8, 2, 1 / 2),
        ("standard", 32, 8, 1 / 2),
    ],
)
def test_attention_scale(table, width, number, scale):
    exponent = PARAMETRIZATIONS[table].attention
    assert heads(width, number, TRANSFORMER.base_width, 2, exponent) == (number, width // number, scale)


trained = functools.cache(train)


def same_as_the_first(config, tables):
    first = trained(config)
    start, end = first.losses[0, 0], first.losses[-1, 0]
    assert abs(end - start) > 1e-3 * start  # it trains
    for table in tables:
        other = train(changed(config, parametrization=table))
        assert other.outcome == "steps"
        # width ratio 4 and shifts of 1/2: the factors are powers of two, and rounding commutes with them
        np.testing.assert_allclose(other.losses, first.losses, rtol=2e-6)
        np.testing.assert_allclose(other.train_loss, first.train_loss, rtol=2e-6)


@pytest.mark.parametrize(
    "setting", [pytest.param(name, marks=[pytest.mark.slow] * (name in RARE)) for name in SETTINGS]
)
def test_rescaled_tables_train_the_same_network(setting):
    table = SETTINGS[setting].table
    for role, shift in zip(ROLES, (0.5, -0.5, 1.0, -1.0), strict=True):
        table = table.rescaled(role, shift)
    same_as_the_first(SETTINGS[setting], [table])


@pytest.mark.slow
@RUNS
def test_each_role_can_be_rescaled_alone(config, optimizer):
    config = with_optimizer(config, optimizer, clip_norm=0.5)
    same_as_the_first(config, [config.table.rescaled(role, 0.5) for role in ROLES])


@pytest.mark.slow
def test_rescaling_by_no_power_of_two_is_the_same_to_rounding():
    config = with_optimizer(MLP, "adam", width=24)
    table = config.table
    for role, shift in zip(ROLES, (0.3, -0.4, 0.7, 1.1), strict=True):
        table = table.rescaled(role, shift)
    first, other = train(config), train(changed(config, parametrization=table))
    np.testing.assert_allclose(other.losses, first.losses, rtol=3e-5)


@pytest.mark.slow
@pytest.mark.parametrize("exponent", ["multiplier", "rate"])
@pytest.mark.parametrize("role", ROLES)
@RUNS
def test_one_wrong_exponent_trains_another_network(config, optimizer, role, exponent):
    config = with_optimizer(config, optimizer)
    name = exponent if exponent == "multiplier" else f"{config.optimizer.family}_rate"
    wrong = config.table.with_role(role, **{name: getattr(config.table.role(role), name) + 0.5})
    base, found = (trained(each).losses[-1, 0] for each in (config, changed(config, parametrization=wrong)))
    assert abs(found - base) > 2e-5 * base  # ten times what equivalent tables may differ by


def test_rescaled_exponents_by_hand():
    before = Exponents(multiplier=1.0, init=2.0, sgd_rate=3.0, adam_rate=4.0, muon_rate=6.0, adam_epsilon=5.0)
    after = Exponents(multiplier=1.5, init=1.5, sgd_rate=2.0, adam_rate=3.5, muon_rate=5.5, adam_epsilon=5.5)
    assert before.rescaled(0.5) == after


def test_clipping_clips():  # or its invariance would say nothing
    clipped, free = (trained(changed(MLP, momentum=0.5, clip_norm=norm)).losses[-1, 0] for norm in (0.5, None))
    assert abs(clipped - free) > 1e-4 * free


def test_parametrization_by_name_and_by_fields():
    assert parametrization("mup") is MUP
    assert parametrization(NTK) is NTK
    custom = MUP.with_role("hidden", init=-0.25)
    assert as_fields(custom)["hidden"]["init"] == -0.25
    assert parametrization(json.loads(json.dumps(as_fields(custom)))) == custom
    assert as_fields(MUP) == as_fields("mup") == "mup"
    assert custom.role("hidden").adam_rate == -1
    assert custom.role("output") == MUP.role("output")
    with pytest.raises(ValueError, match="parametrization must be one of standard, mup, ntk"):
        parametrization("mpu")


def test_tensor_factors_take_the_role_of_each_tensor():
    found = tensor_factors(TENSORS, changed(MLP, optimizer="adam"))
    assert {name: each.rate for name, each in found.items()} == {
        "in": 1,
        "mid": 1 / 4,
        "out": 1 / 4,
        "gain": 1,
        "bias": 1,
    }
