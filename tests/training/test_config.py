"""Bad input of every field, and the config as JSON."""

import json
from dataclasses import replace

import pytest

import sgdtheory as st
from sgdtheory.training import MUP, Teacher, TrainConfig, flat_fields
from sgdtheory.training.config_file import read_config
from tests.runs import run_of

TEXT = {"model": "transformer", "data": "stdlib"}
WHOLE = ["width", "depth", "num_heads", "base_width", "context", "input_dim", "holdout_size", "batch_size", "max_steps"]
WHOLE += ["eval_every", "base_num_heads", "micro_batch", "schedule_steps", "num_samples"]
WHOLE += ["num_workers", "local_steps"]
SEEDS = ["seed", "data_seed", "task_seed"]
INF, NAN = float("inf"), float("nan")
RANGES = [  # names, values that are refused, what is said, a value at the edge that is taken
    (WHOLE, (0, -3, 1.5, NAN, INF), "a whole number of at least 1", None),
    (
        ["capacity", "source", "learning_rate", "clip_norm", "update_rms", "outer_learning_rate", "power"],
        (0, -1, INF, NAN),
        "positive and finite",
        None,
    ),
    (["noise_variance", "epsilon", "weight_decay", "final", "exponent"], (-0.1, INF, NAN), "at least 0 and finite", 0),
    (["momentum", "beta1", "beta2", "outer_momentum"], (1.0, -0.1, NAN), "at least 0 and below 1", 0),
    (["warmup", "decay"], (1.5, -0.1), "between 0 and 1", 1),
    (["target_loss"], (NAN, INF), "finite", None),
    (SEEDS, (2**32,), r"below 2\^32", 2**32 - 1),
    (SEEDS, (-1,), "a whole number of at least 0", 0),
]
OF_KINDS = {
    **dict.fromkeys(("num_heads", "base_num_heads", "context"), TEXT),
    "momentum": {"optimizer": "sgd"},
    "update_rms": {"optimizer": "muon"},
    **dict.fromkeys(("decay", "power"), {"schedule": "wsd"}),
    "final": {"schedule": "cosine"},
    "exponent": {"schedule": "power"},
    "stages": {"schedule": "stages"},
}


def with_field(name, value):
    """A config with one field, of kinds that have it."""
    return run_of(**{**OF_KINDS.get(name, {}), name: value})


@pytest.mark.parametrize(("names", "values", "words", "edge"), RANGES)
def test_numbers_lie_in_their_ranges(names, values, words, edge):
    for name in names:
        assert edge is None or with_field(name, edge).value(name) == edge
        for value in values:
            with pytest.raises(ValueError, match=f"^{name} must be {words}, got {value:.10g}"):
                with_field(name, value)


def test_a_number_is_no_text_and_no_truth_value():
    for name in sorted({name for names, *_ in RANGES for name in names}):
        for value, words in ("32", "'32'; write it without quotes"), (True, "True"):
            with pytest.raises(ValueError, match=rf"^{name} must be a number or an array of numbers, got {words}$"):
                with_field(name, value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"averages": (0.5, "0.9")}, "averages must be a number .* got '0.9'; write it without quotes$"),
        *(
            ({"averages": value}, "averages must be decay rates τ of at least 0 and below 1, got")
            for value in (1.0, -0.1, NAN, (0.5, 1.0))
        ),
        ({"uniform_average": "no"}, r"uniform_average must be true or false \(True or False\), got 'no'$"),
        (TEXT | {"data": "tokens", "tokens": 7}, "tokens must be the path of a token file, got 7; write it in quotes$"),
        (TEXT | {"data": "tokens"}, "tokens must be the path of a token file .*, got None"),
        ({"parametrization": {"name": "x"}}, r"parametrization must be one of .* or a table .* got \{'name': 'x'\}"),
        ({"stages": "0:1,0.5"}, "stages must be FRACTION:VALUE pairs with commas between them, such as .* '0:1,0.5'"),
        ({"stages": "0.5:1"}, "fractions must begin with 0, increase and stay below 1, got 0.5"),
        ({"stages": "0:-1"}, "values must be finite and not negative, got -1"),
        ({"stages": 3}, "stages must be FRACTION:VALUE pairs .*, got 3"),
        ({"schedule": "power"}, "exponent must be .*, got None"),
        ({"schedule": "stages"}, "stages must be .*, got None"),
        ({"model": "mpl"}, r"model must be one of mlp, residual, conv, .*, custom, got mpl \(did you mean mlp\?\)"),
        ({"activation": "rel"}, "activation must be one of relu, gelu, tanh, got rel"),
        ({"parametrization": "mpu"}, "parametrization must be one of standard, mup, ntk, got mpu"),
        ({"data": "teecher"}, "data must be one of teacher, digits, arrays, stdlib, tokens, got teecher"),
        ({"optimizer": "adamw"}, r"optimizer must be one of sgd, adam, sign, muon, got adamw \(did you mean adam\?\)"),
        (
            {"optimizer": "sgd", "update_rms": 0.1},
            "update_rms = 0.1 does not matter with optimizer sgd: leave it out, or take optimizer muon$",
        ),
        (
            {"optimizer": "muon", "trained": "output"},
            "optimizer muon moves hidden weights, of which trained = output trains none: take adam",
        ),
        ({"schedule": "cosin"}, "schedule must be one of constant, .* stages, schedule_free, got cosin"),
        ({"precision": "float16"}, "precision must be one of float32, bfloat16, got float16"),
        (
            {"model": "transformer", "data": "stdlib", "attention_kernel": "flash"},
            "attention_kernel must be one of xla, cudnn, got flash",
        ),
        ({"trained": "input"}, "trained must be one of all, output, got input"),
        ({"widht": 3}, r"a field of the config must be one of .*, got widht \(did you mean width\?\)"),
        ({"model": "transformer"}, "model transformer does not go with data teacher"),
        ({"data": "stdlib"}, "model mlp does not go with data stdlib"),
        (TEXT | {"width": 30}, "width must be num_heads = 4 times an even head size .*, got 30"),
        (TEXT | {"width": 36}, "width must be num_heads = 4 times an even head size .*, got 36"),
        (TEXT | {"base_width": 20}, "base_width must be base_num_heads = 4 times an even head size .*, got 20"),
        (TEXT | {"base_num_heads": 3}, "base_width must be base_num_heads = 3 times .*, got 64"),
        (TEXT | {"vocabulary": 300}, "vocabulary = 300 does not matter with data stdlib: leave it out, or .* tokens$"),
        (
            TEXT | {"data": "tokens", "tokens": "-", "vocabulary": 1},
            "vocabulary must be a whole number of at least 2, got 1",
        ),
        ({"micro_batch": 7}, "micro_batch must divide batch_size = 64, got 7; the next one that does is 8"),
        ({"micro_batch": 100}, "micro_batch must divide batch_size = 64, got 100; the next one that does is 64"),
        *(
            ({"schedule": name, "schedule_steps": 10, "max_steps": 11}, "max_steps must be at most schedule_steps = 10")
            for name in ("cosine", "wsd", "linear")
        ),
        (
            {"schedule": "wsd", "final": 0.1},
            "final = 0.1 does not matter with schedule wsd: leave it out, or take schedule cosine or schedule linear$",
        ),
        (
            {"schedule": "stages", "stages": "0:1", "warmup": 0.1},
            "warmup = 0.1 does not matter with schedule stages: leave it out, or take schedule constant or",
        ),
        (
            {"schedule": "wsd", "warmup": 0.5, "decay": 0.6},
            "warmup and decay must add up to at most 1, got 0.5 and 0.6",
        ),
        ({"schedule": "schedule_free", "beta1": 0}, "interpolation must be positive and below 1, got 0"),
        ({"max_steps": 2**31, "batch_size": 4}, r"max_steps times batch_size must be at most 2\^32 samples"),
    ],
)
def test_what_is_refused(fields, message):
    kinds = OF_KINDS["stages"] if "stages" in fields else {}
    with pytest.raises(ValueError, match=f"^{message}"):
        run_of(**kinds | fields)


def test_every_field_has_a_check():
    tested = {name for names, *_ in RANGES for name in names} | {"averages", "uniform_average", "parametrization"}
    tested |= {"model", "activation", "data", "optimizer", "stages", "schedule", "precision", "trained", "vocabulary"}
    tested |= {
        "attention_kernel",
        "tokens",
        "entry_point",
        "features",
        "targets",
    }  # the last three: test_custom.py, test_rows.py
    assert {field.name for field in flat_fields()} == tested


def test_averages_may_be_objects():
    averages = st.ExponentialAverage(0.5), 0.9, st.UniformAverage()
    assert TrainConfig(averages=averages) == run_of(averages=(0.5, 0.9), uniform_average=True)  # pyright: ignore
    assert TrainConfig(averages=st.ExponentialAverage(0.5)) == run_of(averages=(0.5,))  # pyright: ignore
    with pytest.raises(ValueError, match=r"^averages must have decay rates τ, got ExponentialAverage\(.*window=0.1\)"):
        TrainConfig(averages=(st.ExponentialAverage(window=0.1),))  # pyright: ignore
    with pytest.raises(ValueError, match=r"^averages must be a number or an array of numbers, got TailAverage"):
        TrainConfig(averages=(st.TailAverage(0.1),))  # pyright: ignore


def test_values_are_normalized():
    config = run_of(width=64.0, averages=[0.9, 0.5, 0.9], learning_rate=1, parametrization=MUP)
    assert config == run_of(width=64, averages=(0.5, 0.9), learning_rate=1.0, parametrization="mup")
    assert type(config.width) is int
    assert run_of(averages=0.5).average_names == ("iterate", "0.5")
    assert run_of(averages=(), uniform_average=True).average_names == ("iterate", "uniform")


@pytest.mark.parametrize(
    "config",
    [
        run_of(),
        run_of(averages=(), uniform_average=True, target_loss=0.5, micro_batch=8, clip_norm=0.1),
        run_of(parametrization=MUP.with_role("hidden", init=-0.25).rescaled("output", 0.5)),
        run_of(**TEXT, schedule="wsd", schedule_steps=2000),
        run_of(schedule="cosine", final=0.1, warmup=0.1),
        run_of(schedule="linear"),
        run_of(optimizer="sign", momentum=0.9),
        run_of(optimizer="muon", update_rms=0.1),
        run_of(optimizer="muon", momentum=0.0),
        run_of(schedule="power", exponent=1.5),
        run_of(schedule="stages", stages="0:1,0.3333333333333333:0.1"),
    ],
)
def test_json_keeps_every_field(config, tmp_path):
    text = json.dumps(config.as_fields())
    found = TrainConfig.from_fields(json.loads(text))
    assert found == config
    assert found.fingerprint == config.fingerprint
    (tmp_path / "config.json").write_text(text)
    assert read_config(tmp_path / "config.json") == config


def test_fingerprints_are_those_of_stores_that_0_1_0_wrote():
    text = run_of(**TEXT, schedule="wsd", micro_batch=8, parametrization="ntk")
    plain = run_of(width=32, averages=(0.8, 0.99), target_loss=0.12, learning_rate=0.0078125, seed=1)
    found = [config.fingerprint for config in (TrainConfig(), plain, text)]
    assert found == ["44136fa355b3", "9465ae08b005", "4d3f1a861013"]


def test_files_and_hashes_do_not_know_of_what_0_1_0_did_not_have():
    cosine = run_of(schedule="cosine", warmup=0.1)
    text = json.dumps(cosine.as_fields())
    assert (cosine.fingerprint, cosine.trajectory) == ("0da04ede77c6", "0da04ede77c6")
    assert '"schedule": "cosine", "warmup": 0.1, "max_steps"' in text
    assert cosine.value("final") == 0
    other = cosine.with_fields(final=0.1)
    assert other.fingerprint != cosine.fingerprint
    assert other.as_fields()["final"] == 0.1
    assert other.with_fields(final=0) == cosine
    wsd = run_of(schedule="wsd", warmup=0.2, decay=0.3)
    assert '"schedule": "wsd", "warmup": 0.2, "decay": 0.3, "max_steps"' in json.dumps(wsd.as_fields())
    power = run_of(schedule="power", exponent=2.0)
    assert "decay" not in power.as_fields()
    for differing in (wsd.with_fields(power=0.5), power.with_fields(decay=0.2)):
        assert TrainConfig.from_fields(differing.as_fields()) == differing
        assert differing.fingerprint not in {wsd.fingerprint, power.fingerprint}


def test_what_iterates_depend_on():
    """Stages and warm-ups depend on the duration; a constant rate does not."""
    for fields in ({"schedule": "stages", "stages": "0:1,0.5:0.1"}, {"schedule": "linear"}, {"warmup": 0.1}):
        assert len({run_of(**fields, max_steps=steps).trajectory for steps in (60, 80)}) == 2
    assert len({run_of(max_steps=steps).trajectory for steps in (60, 80)}) == 1


def test_a_number_of_samples_leaves_the_hashes_of_fresh_data():
    """The hash in the first line was computed by the version before the field was there."""
    fresh = TrainConfig(data=Teacher(input_dim=32), learning_rate=0.01)
    assert "num_samples" not in fresh.as_fields()
    assert (fresh.fingerprint, fresh.trajectory) == ("6cca93a846be", "6cca93a846be")
    fixed = TrainConfig(data=Teacher(input_dim=32, num_samples=4096), learning_rate=0.01)
    assert TrainConfig.from_fields(fixed.as_fields()) == fixed
    assert fixed.as_fields()["num_samples"] == fixed.value("num_samples") == 4096
    assert not {fixed.fingerprint, fixed.trajectory} & {fresh.fingerprint, fresh.trajectory}


def test_fingerprints():
    assert run_of().fingerprint == run_of(parametrization=MUP, averages=(0.99, 0.9)).fingerprint
    assert len(run_of().fingerprint) == 12
    others = [run_of(seed=1), run_of(width=256), run_of(averages=(0.9,)), run_of(epsilon=0)]
    others.append(run_of(parametrization=MUP.with_role("hidden", init=-0.25)))
    assert len({each.fingerprint for each in [run_of(), *others]}) == 6


@pytest.mark.parametrize("content", ["", "{", "[1]", b"\xff\xfe"])
def test_damaged_config_file(content, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"config.json is not the config of a run|a field of the config"):
        read_config(path)
    with pytest.raises(ValueError, match="is not the directory of a run: it has no config.json"):
        read_config(tmp_path / "none" / "config.json")


def test_equal_parametrizations_have_one_fingerprint():
    whole, plain = (MUP.with_role("hidden", init=zero, adam_rate=one) for zero, one in ((0, -1), (-0.0, -1.0)))
    other = MUP.with_role("hidden", init=0.0, adam_rate=-1.0)
    assert whole == plain == other
    assert len({TrainConfig(parametrization=each).fingerprint for each in (whole, plain, other)}) == 1
    tables = [replace(MUP, name="own", attention=exponent) for exponent in (-1, -1.0)]
    assert len({TrainConfig(parametrization=each).fingerprint for each in tables}) == 1
    assert run_of(noise_variance=-0.0).fingerprint == run_of(noise_variance=0).fingerprint
    assert run_of(averages=[-0.0]).fingerprint == run_of(averages=[0]).fingerprint
