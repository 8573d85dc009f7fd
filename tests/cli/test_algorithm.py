"""Algorithms in words: flags, texts and objects say the same; what does not matter or is missing is one sentence."""

import dataclasses
import re
import typing

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as some

import sgdtheory as st
from sgdtheory.algorithms import KINDS, algorithm_settings, algorithm_text, make_algorithm, parameters, settings_of_kind
from sgdtheory.cli.algorithm import AlgorithmFlags
from sgdtheory.cli.commands import command_named
from sgdtheory.cli.flags import field_texts
from tests.cli.text import RISK, records, strict_json

# Ranges of numbers that may lie beyond their sliders.
RANGES = {
    "weight_decay": (0.0, 1e3),
    "final": (0.0, 3.0),
    "exponent": (0.0, 5.0),
    "long_step": (0.0, 50.0),
    "window": (1e-9, 3.0),
}


def drawn(kind):
    """Return a strategy of a class of the registry: any floats in `RANGES` or those of its sliders, and its choices."""
    if kind is st.Stages:
        share = some.floats(0, 0.5)
        return some.builds(lambda u, *values: kind([0, u], values), some.floats(0.01, 0.99), share, share)
    fields = {}
    for name, said in parameters(kind).items():
        if said.slider:
            numbers = some.integers if isinstance(said.slider.step, int) else some.floats
            fields[name] = numbers(*RANGES.get(name, (said.slider.low, said.slider.high)))
        elif said.choice:
            fields[name] = some.sampled_from(said.choice.values or said.choice.words)
    return some.builds(or_rejected, some.just(kind), some.fixed_dictionaries(fields))


def or_rejected(kind, fields):
    """Return the object; numbers that are right one by one need not be together."""
    try:
        return kind(**fields)
    except ValueError:
        reject()


decays = some.builds(lambda decay: st.ExponentialAverage(decay=decay), some.floats(0, 0.5))  # They have no slider.
parts = {part: some.one_of(*map(drawn, kinds.values())) for part, kinds in KINDS.items()}
parts["average"] = parts["average"] | decays
algorithms = some.builds(st.Algorithm, **parts, clip_norm=some.none() | some.floats(1e-9, 1e9))


def having(part, setting):
    """Return the names of a part's kinds that have a setting, as an error lists them: "a, b or c"."""
    names = [name for name, kind in KINDS[part].items() if setting in settings_of_kind(part, kind)]
    return " or ".join([", ".join(names[:-1]), names[-1]])


HEAVY, LAST = st.HeavyBall(0.9), st.LastIterate()
UNUSED = " does not matter with"


def test_a_flag_of_several_meanings_has_the_text_of_each():
    """Lion's and Adam's β₁ are not the same thing, and one kind's text is not shown for the other."""
    texts = field_texts(AlgorithmFlags)
    for part, kinds in KINDS.items():
        if part == "batch_schedule":
            continue  # refers to the flags of the learning rate
        for name, kind in kinds.items():
            for setting, field in settings_of_kind(part, kind).items():
                said = parameters(kind)[field].text.removesuffix(".")
                assert said in texts[setting], (name, setting)


@pytest.mark.parametrize(
    ("part", "setting", "names"),
    [
        ("method", "momentum", {"heavy-ball", "nesterov", "sign", "normalized", "muon"}),
        ("method", "basis", {"sign", "adam", "lion"}),
        ("schedule", "final", {"cosine", "linear"}),
        ("schedule", "decay", {"wsd", "power"}),
    ],
)
def test_kinds_that_have_a_setting(part, setting, names):
    """The messages below list what `having` finds, so that it is compared with names that are written by hand."""
    assert names <= set(re.split(", | or ", having(part, setting)))


@given(algorithms)
def test_a_text_is_read_as_what_was_written(algorithm):
    assert make_algorithm(algorithm_settings(algorithm_text(algorithm))) == algorithm


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        ("", st.Algorithm()),
        ("sgd", st.Algorithm()),
        ("cosine", st.Algorithm(schedule=st.Cosine())),
        ("heavy-ball momentum=0.9 schedule=wsd average=last", st.Algorithm(HEAVY, st.WSD(), average=LAST)),
        ("average=last  wsd decay=5e-1 heavy-ball momentum=.9", st.Algorithm(HEAVY, st.WSD(0.5), average=LAST)),
        ("wsd decay=0.1 power=0.5", st.Algorithm(schedule=st.WSD(0.1, power=0.5))),
        ("power exponent=2 decay=0.3", st.Algorithm(schedule=st.PowerDecay(2, decay=0.3))),
        (
            "linear final=0.1 batch-schedule=linear batch_final=8 tail tail-fraction=0.25",
            st.Algorithm(schedule=st.Linear(0.1), batch_schedule=st.Linear(8), average=st.TailAverage(0.25)),
        ),
        (
            "stages stages=0:1,0.5:0.3 batch-schedule=stages batch-stages=0:1,0.75:4",
            st.Algorithm(schedule=st.Stages([0, 0.5], [1, 0.3]), batch_schedule=st.Stages([0, 0.75], [1, 4])),
        ),
        (
            "accelerated coupling=0.9 forgetting=0.1 long-step=5 exponential average-window=0.1",
            st.Algorithm(st.AcceleratedSGD(0.9, 0.1, 5), average=st.ExponentialAverage(window=0.1)),
        ),
        ("sign", st.Algorithm(st.SignSGD())),
        (
            "sign basis=random momentum=0.9 last clip-norm=2",
            st.Algorithm(st.SignSGD(0.9, "random"), average=LAST, clip_norm=2.0),
        ),
        ("adam beta2=0.95 epsilon=1e-8", st.Algorithm(st.Adam(beta2=0.95, epsilon=1e-8))),
        ("muon nesterov=no", st.Algorithm(st.Muon())),
        ("nesterov=yes newton-schulz=5 muon", st.Algorithm(st.Muon(nesterov=True, newton_schulz=5))),
    ],
)
def test_texts(text, algorithm):
    assert make_algorithm(algorithm_settings(text)) == algorithm


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cosin", r"a word of an algorithm without = must be one of sgd, .*, got cosin \(did you mean cosine\?\)"),
        ("momentun=0.9", r"a setting of an algorithm must be one of method, .* \(did you mean momentum\?\)"),
        ("schedule=cosin", r"schedule must be one of constant, .*, got cosin \(did you mean cosine\?\)"),
        ("batch-schedule=ramp", "batch-schedule must be one of constant, .*, got ramp"),
        ("cosine wsd", "algorithm must say schedule once, got 'cosine wsd'"),
        ("heavy-ball momentum=a", "momentum of an algorithm must be a number, got 'a'"),
        ("momentum=", "momentum of an algorithm must be a number, got ''"),
        ("sign basis=rotated", "method sign: basis must be one of 'eigenvectors', 'random', got 'rotated'"),
        ("muon nesterov=maybe", "method muon: nesterov must be True or False, got 'maybe'"),
        ("muon newton-schulz=0.5", "method muon: newton-schulz must be"),
        ("clip-norm=0", "clip_norm must be positive and finite, got 0; leave it out not to clip"),
        ("stages stages=0-1", "schedule stages: stages must be FRACTION:VALUE pairs with commas .*, got '0-1'"),
    ],
)
def test_texts_that_are_none(text, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make_algorithm(algorithm_settings(text))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"momentum": 0.9},
            f"momentum = 0.9{UNUSED} method sgd: leave it out, or take method {having('method', 'momentum')}",
        ),
        (
            {"method": "normalized", "basis": "random"},
            f"basis = random{UNUSED} method normalized: leave it out, or take method {having('method', 'basis')}",
        ),
        (
            {"schedule": "wsd", "final": 0.1},
            f"final = 0.1{UNUSED} schedule wsd: leave it out, or take schedule {having('schedule', 'final')}",
        ),
        (
            {"batch_stages": "0:1"},
            f"batch-stages = 0:1{UNUSED} batch-schedule constant: leave it out, or take batch-schedule stages",
        ),
        (
            {"average": "last", "tail_fraction": 1.0},
            f"tail-fraction = 1{UNUSED} average last: leave it out, or take average tail",
        ),
        ({"method": "nesterov"}, "method nesterov needs momentum too"),
        ({"method": "accelerated", "forgetting": 0.1}, "method accelerated needs coupling, long-step too"),
        ({"schedule": "power"}, "schedule power needs exponent too"),
        ({"batch_schedule": "stages"}, "batch-schedule stages needs batch-stages too"),
        ({"average": "exponential"}, "average exponential needs average-decay or average-window too"),
        (
            {"average": "exponential", "average_decay": 1.0},
            "average exponential: average-decay of an average must be at least 0 and below 1, got 1",
        ),
        (
            {"batch_schedule": "wsd", "batch_warmup": 0.5, "batch_decay": 0.6},
            "batch-schedule wsd: batch-warmup and batch-decay must add up to at most 1, got 0.5 and 0.6: lower one "
            "of them",
        ),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        make_algorithm(settings)
    assert str(caught.value) == message


def test_every_setting_has_a_flag_and_every_kind_is_a_choice():
    hints = typing.get_type_hints(AlgorithmFlags)
    kinds = [(part, kind) for part, kinds in KINDS.items() for kind in kinds.values()]
    settings = {name for part, kind in kinds for name in settings_of_kind(part, kind)}
    assert set(hints) == settings | set(KINDS)
    assert {part: typing.get_args(hints[part]) for part in KINDS} == {part: (*kinds,) for part, kinds in KINDS.items()}
    assert all(AlgorithmFlags.__dataclass_fields__[name].default is None for name in settings)
    defaults = {field.name: field.default for field in dataclasses.fields(AlgorithmFlags) if field.name in KINDS}
    assert make_algorithm(defaults) == st.Algorithm()


FLAGS = ["--method", "heavy-ball", "--momentum", 0.8, "--schedule", "stages", "--stages", "0:1,0.5:0.3"]
FLAGS += ["--batch-schedule", "linear", "--batch-final", 3, "--average", "tail", "--tail-fraction", 0.3]
SAME = "heavy-ball momentum=0.8 stages stages=0:1,0.5:0.3 batch-schedule=linear batch-final=3 tail tail-fraction=0.3"


def test_the_risk_of_an_algorithm(run):
    samples = np.array([1e3, 1e4])
    settings = {"batch_size": 16, "learning_rate": 0.3, "num_samples": samples}
    risk = st.excess_risk(st.PowerLaw(2, 3), **settings, algorithm=make_algorithm(algorithm_settings(SAME)))
    found = run.json(*RISK, "--num-samples", *samples, *FLAGS)
    assert list(found) == ["algorithm", *settings, "risk", "bias", "variance", "relative_error", "notes"]
    assert found["algorithm"] == SAME
    for name in ("bias", "variance", "relative_error"):
        np.testing.assert_array_equal(found[name], getattr(risk, name))
    out = run(*RISK, "--num-samples", *samples, *FLAGS)
    assert out.startswith(f"λ_i = i^−2, s_i = i^−3, σ² = 1; {SAME}\n")
    assert records(out)["excess risk"] == [f"{value:.6g}" for value in risk.total]
    assert "Theorem" not in out


HEAVY_BALL = ["--method", "heavy-ball", "--momentum", 0.9]
NO_EDGE = [*HEAVY_BALL, "--schedule", "cosine"], ["--dim", 10, "--method", "sign", "--average", "last"]


def test_linear_methods_at_a_constant_rate_have_a_stability_edge(run):
    edge = st.max_stable_learning_rate(st.PowerLaw(2, 3), batch_size=16, algorithm=st.Algorithm(HEAVY))
    settings = [*RISK, "--num-samples", 1e4, "--json"]
    assert strict_json(run(*settings, *HEAVY_BALL))["max_stable_learning_rate"] == edge
    for flags in NO_EDGE:
        assert "max_stable_learning_rate" not in strict_json(run(*settings, *flags))


def test_the_critical_batch_size_of_an_algorithm(run):
    problem, algorithm = st.PowerLaw(2, 3, 5), st.Algorithm(schedule=st.Cosine(), average=st.LastIterate())
    flags = ["cbs", "--capacity", 2, "--source", 3, "--dim", 5, "--num-samples", 40]
    last = ["--schedule", "cosine", "--average", "last"]
    found = run.json(*flags, *last)
    expected = st.notions(problem, num_samples=40, algorithm=algorithm)
    assert found["algorithm"] == "cosine last"
    (row,) = found["rows"]
    for name in ("critical_batch_size", "rate_batch_size", "simple_noise_scale", "interpolation_batch_size"):
        assert row[name] == getattr(expected, name)
    assert row["real_batch_size"] == expected.critical.real_batch_size
    assert set(found["predicted_exponents"].values()) == {None}
    assert found["notes"][-1].startswith("Corollary 8 is about averaged SGD with a constant step")
    default = run.json(*flags)
    assert "algorithm" not in default
    assert default["rows"][0].keys() == row.keys()
    assert default["rows"][0]["optimal_risk"] != row["optimal_risk"]
    assert ", d = 5; cosine last: B* at 20% overhead" in run(*flags, *last)


def test_help_says_which_default_is_whose():
    texts = field_texts(AlgorithmFlags)
    of_momentum, of_dana = texts["momentum"].split(" dana: ")
    assert of_momentum.endswith(", muon: momentum β (default: 0 with sign, normalized, 0.95 with muon).")
    assert of_dana == "final momentum β (default: 1)."
    assert texts["nesterov"] == "muon: whether to use the momentum of the next step (Nesterov) (default: no)."
    assert texts["beta1"].endswith(" (default: 0.9).")


def test_help_says_in_which_units_learning_rates_are():
    """The help states the units of γ for every registered method that is not linear."""
    names = [name for name, kind in KINDS["method"].items() if issubclass(kind, st.NonlinearMethod)]
    for command in map(command_named, ("risk", "path")):
        (text,) = (flag.text for flag in command.flags if flag.name == "learning_rate")
        assert f"with {', '.join(names)} in units of the weights" in text
