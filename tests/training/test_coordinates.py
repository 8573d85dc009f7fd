import functools
from dataclasses import replace

import jax
import numpy as np
import pytest

from sgdtheory.training import KINDS, MUP, CoordinateCheck, Custom, coordinate_check
from sgdtheory.training.coordinates import _last, _outputs
from sgdtheory.training.engine import init, initial_program, stacked
from sgdtheory.training.streams import stream
from tests.marks import EXHAUSTIVE, slow
from tests.runs import changed, run_of

MLP = run_of(batch_size=32, holdout_size=64)
TRANSFORMER = run_of(model="transformer", data="stdlib", batch_size=4, context=8, num_heads=2, depth=1, holdout_size=32)
RATES = {"adam": 0.003, "sgd": 0.03, "muon": 0.003, "sign": 0.003}
# Widths and steps. After 5 and 10 steps alone a wrong exponent of an output is no longer seen with signSGD: networks
# have learned the same.
SMALL, LARGE = ((64, 256), (3, 6)), ((128, 512), (3, 10))
# A transformer has 10 times as many weights as a perceptron of its width, and half the widths show the same. SGD alone
# needs the widths of perceptrons: under µP its slopes between widths of 32 and 128 reach 0.46.
NARROW = {"small": ((32, 128), (3, 6)), "large": ((64, 256), (5, 10))}
WIDE = {"small": SMALL, "large": LARGE}
# Perceptrons show at two sizes that standard parametrization and each wrong exponent fail. Transformers show it at the
# smaller one, where slopes scatter more: at larger widths and after more steps an exponent is wrong by the same 1/2.
STANDARD = [(MLP, optimizer, size) for size in WIDE for optimizer in RATES]
STANDARD += [(TRANSFORMER, optimizer, "small") for optimizer in RATES]
# A wrong exponent with Muon is checked at the smaller size alone, because its steps of wide matrices take 7 seconds.
WRONG = [case for case in STANDARD if case != (MLP, "muon", "large")]
# Of transformers Adam's alone are checked at the larger size too, as perceptrons are with every optimizer.
PASSING = [(MLP, optimizer, size) for size in WIDE for optimizer in RATES]
PASSING += [(TRANSFORMER, optimizer, "small") for optimizer in RATES] + [(TRANSFORMER, "adam", "large")]
if not EXHAUSTIVE:  # at the larger size Adam alone
    PASSING, STANDARD, WRONG = (
        [case for case in cases if "large" not in case or "adam" in case] for cases in (PASSING, STANDARD, WRONG)
    )
# What the others say in minutes, test_architectures.py and test_parametrization.py say of their factors at once.
QUICK = MLP, "sign", "small"


@functools.cache
def check(config, optimizer, parametrization, size):
    changes = {"optimizer": optimizer, "learning_rate": RATES[optimizer], "parametrization": parametrization}
    widths, steps = (NARROW if config is TRANSFORMER and optimizer != "sgd" else WIDE)[size]
    return coordinate_check(changed(config, **changes), widths=widths, steps=steps, seeds=8)


@pytest.mark.parametrize(("config", "optimizer", "size"), [case if case == QUICK else slow(*case) for case in PASSING])
def test_maximal_update_passes(config, optimizer, size):
    found = check(config, optimizer, "mup", size)
    assert found.passes, found.failures()


@pytest.mark.slow
@pytest.mark.parametrize(("config", "optimizer", "size"), STANDARD)
def test_standard_parametrization_fails(config, optimizer, size):
    assert not check(config, optimizer, "standard", size).passes


@pytest.mark.slow
@pytest.mark.parametrize("role", ["input", "hidden", "output", "vector"])
@pytest.mark.parametrize(("config", "optimizer", "size"), WRONG)
def test_one_wrong_exponent_fails(config, optimizer, size, role):
    name = f"{KINDS['optimizer'][optimizer].family}_rate"
    wrong = MUP.with_role(role, **{name: getattr(MUP.role(role), name) + 0.5})
    roles = {name: tensor.role for name, tensor in config.network.tensors.items()}
    failed = check(config, optimizer, wrong, size).failures()
    assert role in {roles[each.layer.partition(".")[0]] for each in failed if each.quantity == "own" and each.low > 0}


def test_adams_exponent_is_too_low_for_muon():
    failed = check(MLP, "muon", MUP.with_role("hidden", muon_rate=MUP.hidden.adam_rate), "small").failures()
    assert "hidden.0" in {each.layer for each in failed if each.quantity == "own" and each.certain and each.high < 0}


@pytest.mark.slow
@pytest.mark.parametrize("role", ["input", "hidden", "output"])
def test_one_wrong_initial_scale_fails(role):
    wrong = MUP.with_role(role, init=MUP.role(role).init + 0.5)
    failed = check(MLP, "adam", wrong, "large").failures()
    roles = {name: tensor.role for name, tensor in MLP.network.tensors.items()}
    assert role in {roles[layer.partition(".")[0]] for quantity, layer, *_ in failed if quantity == "size"}
    assert any(each.certain for each in failed)


@pytest.mark.slow
def test_the_first_step_moves_the_output_alone_and_is_left_out():
    settings = {"widths": (32, 64), "seeds": 3}
    config = changed(MLP, optimizer="sgd", learning_rate=0.01)
    found = coordinate_check(config, steps=(1, 2), **settings)
    output = found.layers.index("output")
    inner = np.delete(found.change, output, axis=0)
    assert (inner[:, :, 0] == 0).all()
    assert (inner[:, :, 1] > 0).all()
    np.testing.assert_allclose(np.delete(found.values("change"), output, axis=0), inner[:, :, 1], rtol=1e-5)
    np.testing.assert_allclose(found.change[output, :, 0], found.own[output, :, 0], rtol=1e-5)
    drawn = coordinate_check(config, steps=(1, 2), zero_output=False, **settings)
    assert (drawn.change > 0).all()
    np.testing.assert_array_equal(drawn.size, found.size)


def test_slopes_are_least_squares_with_students_interval():
    found = check(MLP, "adam", "mup", "small")
    values = np.log(found.values("own"))
    for layer, slope, low, high in zip(range(len(found.layers)), *found.slopes("own"), strict=True):
        each = [np.polyfit(np.log(found.widths), values[layer, :, seed], 1)[0] for seed in range(8)]
        half = 2.364624 * np.std(each, ddof=1) / 8**0.5  # Student's t, 7 degrees of freedom, 97.5%
        np.testing.assert_allclose(
            [slope, low, high], [np.mean(each), np.mean(each) - half, np.mean(each) + half], 1e-5
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": (64, 64)}, "widths must be at least two different ones"),
        ({"seeds": 1}, "seeds must be at least 2"),
        ({"steps": (0, 3)}, "steps must be positive"),
        ({"steps": ()}, "steps must be positive"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        coordinate_check(MLP, **options)


def bottleneck(key, width):
    keys, normal = jax.random.split(key, 4), jax.random.normal
    return {
        "in": normal(keys[0], (64, width)) / 8,
        "narrow": normal(keys[1], (width, 8)) / width**0.5,
        "wide": normal(keys[2], (8, width)) / 8**0.5,
        "out": normal(keys[3], (width, 1)) / width**0.5,
    }


def through_it(params, x):
    x = jax.nn.silu(jax.nn.silu(x @ params["in"]) @ params["narrow"])
    return jax.nn.silu(x @ params["wide"]) @ params["out"]


def test_a_bottleneck_is_not_set_to_0():
    """Else nothing would move: its outputs would be 0, and so would what the last layer makes of them."""
    model = Custom(init=bottleneck, apply=through_it)
    config = replace(MLP, model=model, width=16, base_width=16)
    state = init(stacked([config]), config=initial_program(config))
    assert set(config.network.with_role("output")) == {"narrow", "out"}
    assert _last(state, stream(config).holdout()[0][:8], config=config) == ["out"]


def made(own):
    """A check of two widths, one step and two seeds in which every size is 1 and layers move like this (L, N)."""
    own = np.repeat(np.array(own, float)[:, :, None, None], 2, axis=3)
    scatter = np.array([1.0, 1.01])
    layers = tuple(f"layer {k}" for k in range(own.shape[0]))
    size = np.ones((*own.shape[:2], 2)) * scatter
    model = MLP.network.with_role("output")
    assert not set(layers) & set(model)
    steps, widths = np.array([1]), np.array([8, 16])
    return CoordinateCheck(MLP, widths, steps, layers, size, own * scatter, own * scatter, 0.3, 0.95)


def test_what_has_no_effect_does_not_fail_if_something_has():
    found = made([[1, 1], [0, 0]])
    assert found.without_effect == {("change", "layer 1"), ("own", "layer 1")}
    assert found.passes
    assert not made([[1, 2], [0, 0]]).passes  # a slope of 1 of the other
    assert not made([[0, 0], [0, 0]]).passes  # nothing moves: nothing is known
    assert not made([[1, 1], [np.nan, np.nan]]).passes


def test_an_output_that_starts_at_0_passes():
    """The size of the output before training has no slope, while a hidden layer that is 0 fails."""
    layers = (*MLP.network.ends, "hidden")
    size = np.ones((2, 2, 3))
    size[0] = 0.0
    flat = np.ones((2, 2, 1, 3)) * np.array([0.9, 1.0, 1.1])
    widths, steps = np.array([8, 16]), np.array([1])
    check = CoordinateCheck(MLP, widths, steps, layers, size, flat, flat, 0.3, 0.95)
    assert check.failures() == []
    swapped = CoordinateCheck(MLP, widths, steps, layers, size[::-1], flat, flat, 0.3, 0.95)
    assert {(failure.quantity, failure.layer) for failure in swapped.failures()} >= {("size", "hidden")}


@pytest.mark.parametrize(
    ("wide", "answer", "remark"),
    [
        ((1.0, 1.0), "passes", ""),
        ((2.0, 2.0), "fails: 2 slopes are not within ±0.3", ""),
        ((1.0, 1.6), "fails: 2 slopes are not within ±0.3", "none of them is outside for certain: take more seeds"),
    ],
)
def test_the_verdict_is_said_and_whether_it_is_certain(wide, answer, remark):
    """Changes of one layer at twice the width, by seed: slopes of 0, of 1, and of 0 and 0.7."""
    moves = np.array([1.0, 1.01]) * np.array([[[(1.0, 1.0)], [wide]]])
    check = CoordinateCheck(
        MLP, np.array([8, 16]), np.array([1]), ("layer",), np.ones((1, 2, 2)), moves, moves, 0.3, 0.95
    )
    sheet = check.sheet()
    assert sheet.answer.startswith(f"coordinate check {answer} (")
    assert "".join(sheet.remarks).startswith(remark)
    assert bool("".join(sheet.remarks)) == bool(remark)
    assert check.passes == (answer == "passes")


def test_a_single_step_fails_if_it_is_certainly_outside_and_is_named():
    """Changes that grow like width^−1, 0 and +1 after 1, 2 and 4 steps, and in the mean not at all."""
    scatter = np.array([1.0, 1.01, 0.99])
    moves = np.array([[1.0, 1.0, 1.0], [0.45, 1.0, 2.0]])[None, :, :, None] * scatter
    flat = np.ones((1, 2, 3, 3)) * scatter
    widths, steps, size = np.array([8, 16]), np.array([1, 2, 4]), np.ones((1, 2, 3)) * scatter
    check = CoordinateCheck(MLP, widths, steps, ("hidden.0",), size, moves, flat, 0.3, 0.95)
    (failure,) = check.failures()
    assert (failure.quantity, failure.layer, failure.step, failure.certain) == ("change", "hidden.0", 1, True)
    assert failure.slope == pytest.approx(np.log2(0.45))
    assert failure.low <= failure.slope <= failure.high < -0.3
    (table,) = check.sheet().tables
    cells = {each.label: each.value for each in table.quantities}
    assert cells["fails"] == ["change at step 1: -1.15"]
    assert cells["change"] == pytest.approx(np.log2(0.9) / 3)
    assert check.slopes("change", 4)[0] == pytest.approx(1.0)
    assert check.sheet().title == "mup, mlp, adam: slopes of log activation on log width (8, 16)"
    assert (table.interval, check.sheet().settings["steps"].tolist()) == ("95%", [1, 2, 4])
    assert check.sheet().answer == ("coordinate check fails: 1 slopes are not within ±0.3 (95% intervals over 3 seeds)")


def test_the_output_before_training_may_shrink_like_the_root_of_the_width():
    """It fails once its slope is certainly above tolerance − 1/2 = −0.2; other sizes stay within the tolerance."""
    scatter, flat = np.array([1.0, 1.001]), np.ones((2, 2, 1, 2)) * np.array([1.0, 1.001])
    for slope, fails in ((-0.5, False), (-0.9, False), (-0.25, False), (-0.15, True), (0.0, True)):
        size = np.stack([np.array([[1.0], [2**slope]]) * scatter, np.ones((2, 2)) * scatter])
        check = CoordinateCheck(
            MLP, np.array([8, 16]), np.array([1]), ("output", "hidden.0"), size, flat, flat, 0.3, 0.95
        )
        assert [(each.quantity, each.layer, each.certain) for each in check.failures()] == [
            ("size", "output", True)
        ] * fails


def test_a_stack_has_an_output_for_each_of_its_layers():
    config = changed(MLP, depth=4)
    params = {name: np.ones(tensor.shape, np.float32) for name, tensor in config.network.tensors.items()}
    found = _outputs(config, params, np.ones((3, config.data.input_dim), np.float32))
    assert [name for name in found if name.startswith("hidden.")] == ["hidden.0", "hidden.1", "hidden.2"]
