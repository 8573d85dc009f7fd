"""Networks of one's own: roles from shapes, sizes over the width, the same training as the built-in network's."""

import functools
from dataclasses import replace

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.training import (
    MLP,
    MUP,
    PARAMETRIZATIONS,
    STANDARD,
    ConvNet,
    Custom,
    Lanes,
    TrainConfig,
    coordinate_check,
    from_equinox,
    from_flax,
    read_weights,
    resume,
    train,
)
from sgdtheory.training.architectures.custom import inferred_role
from sgdtheory.training.engine import init, initial_program, stacked
from tests.marks import slow
from tests.runs import changed, run_of
from tests.training import own_networks

CONFIG = TrainConfig(
    model=own_networks.net, width=48, base_width=12, batch_size=8, max_steps=8, holdout_size=32, averages=(0.9,)
)


def roles(model, **fields):
    """At the base width, where nothing is measured."""
    tensors = replace(CONFIG, model=model, width=12, **fields).network.tensors
    return {name.removeprefix("params/"): tensor.role for name, tensor in tensors.items()}


class Flax(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.relu(nn.Dense(self.width)(x))
        return nn.Dense(1)(x)


def flax_net():
    return from_flax(Flax, np.zeros((1, 64), np.float32))


def equinox_net(**options):
    return from_equinox(lambda key, width: eqx.nn.MLP(64, "scalar", width, depth=2, key=key), **options)


FILLED = Custom(
    init=lambda key, width: {"out": jnp.full((width, 1), 0.5 / width), "gain": jnp.full((2, width), 0.1)},
    apply=lambda params, x: (x[:, :1] * params["gain"].prod(0)) @ params["out"],
)
TOKENS = run_of(model="recurrent", data="tokens", tokens="-", vocabulary=11, context=5).data
OF_LAYERS = "vector", "input", "vector", "hidden", "fixed", "output"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            own_networks.net,
            dict(zip(("layers/0/bias", "layers/0/weight", "layers/1/bias", "layers/1/weight"), OF_LAYERS))
            | {"output": "output", "output_bias": "fixed"},
        ),
        (flax_net(), dict(zip((f"Dense_{k}/{part}" for k in range(3) for part in ("bias", "kernel")), OF_LAYERS))),
        (
            equinox_net(),
            dict(zip((f"layers/{k}/{part}" for k in range(3) for part in ("bias", "weight")), OF_LAYERS)),
        ),
        (FILLED, {"out": "output", "gain": "vector"}),  # the output's number depends on the width
    ],
    ids=["functions", "flax", "equinox", "filled"],
)
def test_roles_follow_from_shapes(model, expected):
    assert roles(model) == expected


def test_roles_that_are_given_come_first():
    assert roles(equinox_net(roles={"layers/2/bias": "vector"}))["layers/2/bias"] == "vector"


class Embedded(eqx.Module):
    embedding: eqx.nn.Embedding
    output: eqx.nn.Linear

    def __init__(self, key, width):
        first, last = jax.random.split(key)
        self.embedding = eqx.nn.Embedding(11, width, key=first)
        self.output = eqx.nn.Linear(width, 11, use_bias=False, key=last)

    def __call__(self, tokens):
        return jax.vmap(self.output)(jax.vmap(self.embedding)(tokens))


def test_an_equinox_embedding_is_an_input_though_it_lies_the_other_way():
    assert roles(from_equinox(Embedded), data=TOKENS) == {"embedding/weight": "input", "output/weight": "output"}


class Stacked(eqx.Module):
    """Layers of a stack, as `filter_vmap` makes them for a scan, and an output that starts at 0."""

    first: eqx.nn.Linear
    norms: eqx.nn.LayerNorm
    layers: eqx.nn.Linear
    output: jax.Array

    def __init__(self, key, width):
        first, layers = jax.random.split(key)
        self.first = eqx.nn.Linear(64, width, key=first)
        self.norms = eqx.filter_vmap(lambda _: eqx.nn.LayerNorm(width))(jnp.arange(3))
        self.layers = eqx.filter_vmap(lambda key: eqx.nn.Linear(width, width, key=key))(jax.random.split(layers, 3))
        self.output = jnp.zeros((1, width))

    def __call__(self, x):
        arrays, rest = eqx.partition((self.norms, self.layers), eqx.is_array)

        def step(x, arrays):
            norm, layer = eqx.combine(arrays, rest)
            return x + jax.nn.relu(layer(norm(x))), None

        return (self.output @ jax.lax.scan(step, self.first(x), arrays)[0])[0]


@pytest.mark.slow
def test_gains_of_a_stack_are_no_outputs():
    """They have the shape of one, (layers, width); an output that starts at 0 is still taken for one."""
    found = roles(from_equinox(lambda key, width: Stacked(key, width)))
    vectors = dict.fromkeys(("first/bias", "norms/weight", "norms/bias", "layers/bias"), "vector")
    assert found == vectors | {"first/weight": "input", "layers/weight": "hidden", "output": "output"}


@pytest.mark.parametrize(
    ("small", "large", "layout", "role"),
    [
        ((64, 8), (64, 16), "in_out", "input"),
        ((64, 8), (64, 16), "out_in", "output"),
        ((8, 10), (16, 10), "in_out", "output"),
        ((8, 64), (16, 64), "out_in", "input"),
        ((3, 3, 1, 8), (3, 3, 1, 16), "in_out", "input"),
        ((1, 1, 8, 10), (1, 1, 16, 10), "in_out", "output"),
        ((8, 1, 3, 3), (16, 1, 3, 3), "out_in", "input"),
        ((8, 2, 4), (16, 2, 8), "in_out", "hidden"),
        ((3, 3, 8, 8), (3, 3, 16, 16), "out_in", "hidden"),
        ((8,), (16,), "in_out", "vector"),
        ((4, 8, 8), (8, 8, 8), "in_out", "vector"),  # blocks
        ((10,), (10,), "out_in", "fixed"),
        ((), (), "in_out", "fixed"),
    ],
)
def test_inferred_roles(small, large, layout, role):
    assert inferred_role(small, large, layout) == role


@functools.cache
def of_any_power(power):
    """The network of `own_networks` whose every tensor is drawn with another power of the width."""

    def drawn(key, width):
        tree = own_networks.init(key, width)
        return jax.tree.map(lambda leaf: leaf * (width / 12) ** power if eqx.is_array(leaf) else leaf, tree)

    return Custom(init=drawn, apply=own_networks.apply)


@pytest.mark.parametrize("power", [0.5, slow(0.0), slow(-0.25)])
def test_initial_sizes_are_the_parametrizations_whatever_init_does(power):
    at_base = {"layers/0/weight": 1 / 8, "layers/1/weight": 12**-0.5, "output": 12**-0.5}
    for table in PARAMETRIZATIONS:
        config = replace(CONFIG, model=of_any_power(power), parametrization=table, width=192)
        weights = init(stacked([config]), config=initial_program(config)).params
        for name, size in at_base.items():
            role = config.table.role(config.network.tensors[name].role)
            found = float(np.std(np.asarray(weights[name])))
            wide = 5 / np.sqrt(2 * weights[name].size)  # five standard errors: false alarm 6e-7 each
            assert abs(found / (size * 16**role.init) - 1) < wide + 0.03  # of the two sizes, 0.6% each, five times


def glorot(key, width):
    """Normal weights of variance 2/(in + out), no power of the width, and an output bias as Equinox draws it."""
    first, last, bias = jax.random.split(key, 3)
    drawn = jax.nn.initializers.glorot_normal()
    return {
        "in": drawn(first, (64, width)),
        "out": drawn(last, (width, 1)),
        "bias": jax.random.uniform(bias, (1,), minval=-1, maxval=1) / width**0.5,
    }


def test_initial_sizes_where_init_is_no_power_of_the_width():
    """Against the base width's formulas; from its power between 16 and 32 the first would be 0.72 of its size."""
    model = Custom(init=glorot, apply=lambda params, x: x @ params["in"] @ params["out"])
    network = replace(CONFIG, model=model, width=256, base_width=16).network
    assert network.initial is not None
    drawn = network.initial(jax.random.key(3))
    at_base = {"in": (2 / (64 + 16)) ** 0.5, "out": (2 / 17) ** 0.5}
    for name, size in at_base.items():
        wide = 5 / np.sqrt(2 * drawn[name].size)  # five standard errors: false alarm 6e-7 each
        assert abs(float(np.std(np.asarray(drawn[name]))) / size - 1) < wide + 0.04
    unscaled = glorot(jax.random.key(3), 256)
    np.testing.assert_allclose(drawn["bias"] / unscaled["bias"], (256 / 16) ** 0.5, rtol=0.03)


def as_ours(weights):
    """Weights of the built-in perceptron in the place of ours; leading axes are runs and layers."""
    return {
        "layers/0/weight": weights["input"],
        "layers/0/bias": weights["input_bias"],
        "layers/1/weight": weights["hidden"][:, 0],
        "layers/1/bias": weights["hidden_bias"][:, 0],
        "output": weights["output"],
        "output_bias": jnp.zeros((1, 1)),
    }


def without_output_bias(params, inputs):
    return own_networks.apply(params | {"output_bias": jnp.zeros(1)}, inputs)


@pytest.mark.parametrize("optimizer", ["adam", slow("sgd")])
@pytest.mark.parametrize("table", ["mup", slow("standard"), slow("ntk")])
def test_trains_as_the_built_in_network_does(optimizer, table):
    """Same initial weights, same data: the same losses."""
    built_in = changed(replace(CONFIG, model=MLP(depth=2)), optimizer=optimizer, parametrization=table)
    own = replace(built_in, model=Custom(init=own_networks.init, apply=without_output_bias))
    theirs, ours = (init(stacked([config]), config=initial_program(config)) for config in (built_in, own))
    same, averages = as_ours(theirs.params), as_ours(jax.tree.map(lambda part: part[:, 0], theirs.averages))
    ours = ours._replace(params=same, averages={name: part[:, None] for name, part in averages.items()})
    both = Lanes([built_in]), Lanes([own], states=[jax.tree.map(lambda part: np.asarray(part[0]), ours)])
    for lanes in both:
        lanes.advance(8)
    np.testing.assert_allclose(both[1].evaluate(), both[0].evaluate(), rtol=2e-4)


def test_a_run_in_files_is_resumed_by_its_entry_point(tmp_path):
    config = replace(CONFIG, width=12)
    whole = train(replace(config, max_steps=16, schedule_steps=8))
    train(config, tmp_path)
    result = resume(tmp_path, max_steps=16, entry_point=own_networks.net.entry_point)
    np.testing.assert_array_equal(result.losses[-1], whole.losses[-1])
    weights = read_weights(tmp_path, entry_point=own_networks.net.entry_point)
    assert weights["layers/1/weight"].shape == (12, 12)
    named = TrainConfig.from_fields(config.as_fields())
    assert named.fingerprint == config.fingerprint
    assert named.imported() == config
    assert changed(config, width=96).model is own_networks.net
    assert config.fingerprint != changed(config, model="mlp").fingerprint


def test_a_model_without_an_entry_point_is_trained_but_not_kept(tmp_path):
    config = replace(CONFIG, model=own_networks.nameless, width=12)
    assert train(config).outcome == "steps"
    assert changed(config, width=24).model is own_networks.nameless
    for kept in (lambda: train(config, tmp_path), lambda: config.fingerprint):
        with pytest.raises(ValueError, match="kept in files by the place where the model is found"):
            kept()


@pytest.mark.slow
@pytest.mark.parametrize("make", [flax_net, equinox_net])
def test_coordinate_check_of_modules(make):
    """It passes, and fails with an exponent that is wrong and in standard parametrization."""
    config = replace(CONFIG, model=make(), batch_size=32)
    sizes = {"widths": (64, 512), "steps": (3, 10), "seeds": 8}
    right = coordinate_check(config, **sizes)
    assert right.passes, right.failures()
    assert not any("bias" in layer and layer.startswith("layers/2") for layer in right.layers)
    wrong = MUP.with_role("hidden", adam_rate=0.0)
    assert not coordinate_check(replace(config, parametrization=wrong), **sizes).passes


@pytest.mark.slow
def test_coordinate_check_finds_a_wrong_role():
    config = replace(CONFIG, model=replace(own_networks.nameless, roles={"layers/1/weight": "input"}), batch_size=32)
    check = coordinate_check(config, widths=(64, 512), steps=(3, 10), seeds=8)
    assert "layers/1/weight" in {failure.layer for failure in check.failures() if failure.certain}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainConfig(model=ConvNet()), "conv does not go with data teacher: it takes images, as data digits"),
        (lambda: Custom(init=3, apply=own_networks.apply), "init must be a function, got 3"),
        (lambda: Custom(init=init, apply=own_networks.apply, roles={"x": "hiden"}), "did you mean hidden"),
        (lambda: Custom(init=init, apply=own_networks.apply, layout="oi"), "layout must be one of"),
        (lambda: Custom.from_place("own_networks"), "entry_point must be module:name"),
        (lambda: Custom.from_place("tests.training.own_networks:nothing"), "cannot be imported"),
        (lambda: Custom.from_place("tests.training.own_networks:init"), "must be a Custom model, got function"),
        (lambda: Custom.from_place("tests.training.own_networks:nameless"), "must say so"),
    ],
)
def test_bad_models(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"roles": lambda tree: {"output": "outptu"}},
            "the role of output must be one of input, hidden, output, vector, fixed, got outptu",
        ),
        ({"roles": {"nothing": "input"}}, "roles has 'nothing', which is no tensor of the model: it has layers/0/bias"),
        ({"apply": lambda tree, x: x}, r"must return outputs of shape \(B\) for these data, got \(B, 64\)"),
        ({"activations": lambda tree, x: {}}, "activations must have what every tensor makes, but lacks layers/0"),
        ({"init": lambda key, width: {f"{width}": jnp.ones(width)}}, "weights of the same names at every width"),
    ],
)
def test_bad_networks(changes, message):
    config = replace(CONFIG, model=replace(own_networks.nameless, **changes), width=12)
    with pytest.raises(ValueError, match=message):
        _ = config.network


def test_networks_that_are_kept_hold_no_weights():
    """They are cached by width; their weights were kept too."""
    network = replace(CONFIG, width=12).network
    sizes = [leaf.size for leaf in jax.tree.leaves(network.apply.args) if eqx.is_array(leaf)]
    assert sizes == []


def test_a_flax_module_with_state_is_refused():
    model = from_flax(lambda width: nn.Sequential([nn.Dense(width), nn.BatchNorm(False)]), np.zeros((1, 64)))
    with pytest.raises(ValueError, match="without state, but it keeps batch_stats"):
        _ = replace(CONFIG, model=model).network


class Attention(nn.Module):
    """Flax's default attention over eight parts of a sample; heads of 16, of which there are more the wider it is."""

    width: int

    @nn.compact
    def __call__(self, x):
        parts = nn.Dense(self.width)(x.reshape(*x.shape[:-1], 8, 8))
        parts = parts + nn.MultiHeadDotProductAttention(num_heads=self.width // 16)(parts)
        return nn.Dense(1)(nn.relu(nn.Dense(self.width)(parts)).mean(axis=-2))


class Blocks(nn.Module):
    """A hidden layer of 8 × 8 blocks, of which there are more the wider it is."""

    width: int

    @nn.compact
    def __call__(self, x):
        number = self.width // 8
        lecun = nn.initializers.lecun_normal(in_axis=1, out_axis=2, batch_axis=(0,))
        blocks = self.param("blocks", lecun, (number, 8, 8))
        hidden = nn.relu(nn.Dense(self.width)(x)).reshape(-1, number, 8)
        hidden = nn.relu(jnp.einsum("bni,nio->bno", hidden, blocks)).reshape(-1, self.width)
        return nn.Dense(1)(nn.relu(nn.Dense(self.width)(hidden)))


class Bottleneck(nn.Module):
    """A layer of eight units at every width."""

    width: int

    @nn.compact
    def __call__(self, x):
        narrow = nn.Dense(8)(nn.relu(nn.Dense(self.width)(x)))
        return nn.Dense(1)(nn.relu(nn.Dense(self.width)(narrow)))


@pytest.mark.slow  # up to half a minute each
@pytest.mark.parametrize(
    ("module", "widths", "steps", "idle"),
    [
        (Attention, (64, 256), (10, 20), {"params/MultiHeadDotProductAttention_0/key/bias"}),
        (Blocks, (64, 512), (3, 6), set()),
        (Bottleneck, (64, 1024), (10, 20), set()),
    ],
    ids=["attention", "blocks", "bottleneck"],
)
def test_the_check_of_other_layers(module, widths, steps, idle):
    """Key biases have no effect on a softmax, which is no failure. Standard parametrization fails: the control."""
    model = from_flax(module, np.zeros((1, 64), np.float32))
    config = run_of(batch_size=32, holdout_size=64, optimizer="adam", learning_rate=0.003)
    sizes = {"widths": widths, "steps": steps, "seeds": 16}
    check = coordinate_check(replace(config, model=model), **sizes)
    assert check.passes, check.failures()
    assert {layer for _, layer in check.without_effect} == idle
    # Only the built-in transformer uses the table's exponent of attention. With µP's, both tables share the programs of
    # the smaller width.
    standard = replace(config, model=model, parametrization=replace(STANDARD, attention=MUP.attention))
    assert any(failure.certain for failure in coordinate_check(standard, **sizes).failures())
