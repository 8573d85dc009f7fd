"""Advice on longer and shorter runs: exact risks, public runs, own laws, and what each rule keeps."""

import json
import math
from dataclasses import replace
from functools import cache
from importlib.resources import files

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.advice import duration
from sgdtheory.advice.duration import ADAPTIVE, IN_DURATION, LANGUAGE_MODELS, SGD, RateExponents, duration_factor
from sgdtheory.advice.learning_rate import FAMILIES
from sgdtheory.advice.row import Estimate
from tests.advice.test_change import SETUP
from tests.marks import slow

# d ln γ*/d ln T of a 124M language model at a fixed batch size, by the share of its linear decay: parabolas through the
# public logs of fabian-sp/lr-scheduling at 15,000 to 50,000 steps.
SLOPES_124M = {0.1: -0.264, 0.2: -0.296, 0.4: -0.251, 0.6: -0.327, 0.8: -0.303, 0.9: -0.361}
# The same along D on step-law's runs, by batch size in sequences; the kink of 10¹⁰ tokens is at 111.
SLOPES_STEP_LAW = {32: -0.27, 64: -0.34, 128: -0.19, 192: -0.05, 256: 0.02, 352: 0.16, 512: 0.17, 1024: 0.24}


# B* of Adam with a linear decay at D = 10⁴, by `st.critical_batch_size`, which takes longer than all else here.
ADAM_CRITICAL = {("adam", 1.5, 2.0): 55, ("adam", 2.0, 1.5): 67}


def advise(ratio, *, optimizer="adam", setup=SETUP, **more):
    data = setup["num_steps"] * setup["batch_size"]
    return st.change_batch_size(setup, new_num_samples=ratio * data, optimizer=optimizer, **more)


def rate_factor(change):
    """Factor of the learning rate: value, low, high."""
    row = change["learning_rate"]
    return tuple(each / row.old for each in (row.new, row.low, row.high))


@cache
def exact_change(name, capacity, source, share):
    """Batch size and B* at D = 10⁴, and the exact factor of the best γ when D grows to 10⁶."""
    methods = {"sgd": st.SGD(), "adam": st.Adam(0.9, 0.95)}
    decaying = {"schedule": st.Linear(), "average": st.LastIterate()}
    algorithm = st.Algorithm() if name == "average" else st.Algorithm(methods[name], **decaying)
    problem = st.PowerLaw(capacity, source)
    critical = ADAM_CRITICAL.get((name, capacity, source))
    if critical is None:
        critical = st.critical_batch_size(problem, num_samples=1e4, algorithm=algorithm, curve=False).batch_size
    batch = max(1, round(share * critical))
    rates = [
        float(st.optimal_learning_rate(problem, batch_size=batch, num_samples=data, algorithm=algorithm).learning_rate)
        for data in (1e4, 1e6)
    ]
    return batch, float(critical), rates[1] / rates[0]


PROBLEMS = [(1.5, 2.0), (2.0, 3.0), (2.0, 1.5), (1.5, 4.0)]


@pytest.mark.parametrize("share", [0.25, 4])
@pytest.mark.parametrize(
    ("name", "capacity", "source"),
    [("average", *PROBLEMS[0]), ("average", *PROBLEMS[1]), ("average", *PROBLEMS[2]), ("average", *PROBLEMS[3])]
    + [slow("sgd", *PROBLEMS[1]), slow("sgd", *PROBLEMS[2])]
    + [slow("adam", *PROBLEMS[0]), slow("adam", *PROBLEMS[2])],
)
def test_the_exact_best_rate_lies_in_the_range_below_and_above_b_star(name, capacity, source, share):
    """From D = 10⁴ to 10⁶, with and without B*; the range of a change the other way is the control."""
    batch, critical, exact = exact_change(name, capacity, source, share)
    family = "adam" if name == "adam" else "sgd"
    for known in (None, Estimate(critical, np.nan, np.nan)):
        _, low, high = duration_factor(family, batch, 100, known)
        assert low <= exact <= high
        if exact < 0.7:
            _, low, high = duration_factor(family, batch, 1 / 100, known)
            assert not low <= exact <= high


@pytest.mark.parametrize("family", ["sgd", "sign", "adam"])
def test_the_carried_best_rates_lie_in_the_range(family):
    """γ* with a linear decay, a = 1.5 and b = 2, D = 10⁴ and 10⁶: `test_change` checks that these minimize the risk."""
    curves = json.loads((files("sgdtheory.advice") / "data" / "best_rates.json").read_text())
    short, long = (
        next(
            curve
            for curve in curves
            if (curve["optimizer"], curve["capacity"], curve["source"], curve["num_samples"])
            == (family, 1.5, 2.0, data)
        )
        for data in (1e4, 1e6)
    )
    critical = Estimate(short["critical_batch_size"], np.nan, np.nan)
    assert short["batch_sizes"][0] < critical.value / 16
    assert short["batch_sizes"][-1] > critical.value / 2
    for batch, before, after in zip(
        short["batch_sizes"], short["learning_rates"], long["learning_rates"], strict=False
    ):
        for known in (None, critical):
            _, low, high = duration_factor(family, batch, 100, known)
            assert low <= after / before <= high


def test_wrong_exponents_miss_the_exact_best_rate(monkeypatch):
    """c of 0.5 at least, or a fall by the power −c beyond the kink, and the plateau's exponent below it."""
    below, above = (exact_change("average", 2.0, 3.0, share) for share in (0.25, 4))
    assert below[2] == pytest.approx(100 ** -(1 - 2 / 3), rel=0.2)
    assert above[2] == pytest.approx(1, abs=0.1)
    for wrong, (batch, critical, exact) in (
        ((RateExponents(0.5, 1.0, 0.5), RateExponents(1.0, 1.0, 1.0)), below),
        ((RateExponents(0.0, 0.0, 0.0),), below),
        ((RateExponents(1 / 3, 0.0, 0.0),), above),
    ):
        monkeypatch.setitem(IN_DURATION, "sgd", SGD._replace(advised=wrong[0], extremes=wrong))
        _, low, high = duration_factor("sgd", batch, 100, Estimate(critical, np.nan, np.nan))
        assert not low <= exact <= high


def test_sgd_beyond_the_kink_does_not_diverge_in_a_longer_run():
    """At four times B* with a linear decay the advised γ is stable at D = 10⁶, and γ kept is not."""
    batch, critical, _ = exact_change("sgd", 2.0, 3.0, 4)
    algorithm = st.Algorithm(st.SGD(), schedule=st.Linear(), average=st.LastIterate())
    problem, at = st.PowerLaw(2.0, 3.0), {"batch_size": batch, "algorithm": algorithm}
    now = float(st.optimal_learning_rate(problem, num_samples=1e4, **at).learning_rate)
    factor = duration_factor("sgd", batch, 100, Estimate(critical, np.nan, np.nan)).value
    best = float(st.optimal_learning_rate(problem, num_samples=1e6, **at).risk)
    risks = [
        float(st.excess_risk(problem, learning_rate=rate, num_samples=1e6, **at).total) for rate in (now * factor, now)
    ]
    assert risks[0] < 1.1 * best
    assert risks[1] > 100 * best


def test_public_runs_lie_in_the_range():
    for slope in [*SLOPES_124M.values(), *SLOPES_STEP_LAW.values()]:
        _, low, high = duration_factor("adam", 64, 10, None)
        assert low <= 10**slope <= high
    for batch, slope in SLOPES_STEP_LAW.items():
        _, low, high = duration_factor("adam", batch, 10, Estimate(111 / 0.2, np.nan, np.nan))
        assert low <= 10**slope <= high
    value = duration_factor("adam", 64, 10, None).value
    assert value == pytest.approx(10**-0.35)
    assert 10**-0.47 < value < 10**-0.25


@pytest.mark.parametrize("ratio", [0.03, 0.5, 1.0, 2.0, 300.0])
@pytest.mark.parametrize("law", [LANGUAGE_MODELS, SGD.advised, ADAPTIVE.advised, RateExponents(0.3, 0.5, 0.6)])
def test_a_factor_is_that_of_the_law(law, ratio):
    def log_rate(batch, data):
        return -law.fall * np.log(data) + law.rise * np.log(min(batch, 50 * data**law.growth))

    for batch in (1, 40, 50, 60, 1e6):
        found = law.log_change(math.log(batch), math.log(ratio), math.log(50))
        assert found == pytest.approx(log_rate(batch, ratio) - log_rate(batch, 1), abs=1e-12)
    plateau = (law.rise * law.growth - law.fall) * math.log(ratio)
    assert law.log_change(0.0, math.log(ratio), -math.inf) == pytest.approx(plateau)
    assert law.log_change(0.0, math.log(ratio), math.inf) == pytest.approx(-law.fall * math.log(ratio))


@pytest.mark.parametrize("optimizer", FAMILIES)
@pytest.mark.parametrize("critical", [None, 10.0, 64.0, 1e5])
@pytest.mark.parametrize("ratio", [1 / 30, 0.5, 7.0, 1000.0])
def test_ranges_hold_no_change_and_the_number(optimizer, critical, ratio):
    """Public runs exclude neither: the range contains 1, and what any B* leads to lies in that without B*."""
    setup = SETUP if critical is None else SETUP | {"critical_batch_size": critical}
    change = advise(ratio, optimizer=optimizer, setup=setup | {"warmup_steps": 10})
    value, low, high = rate_factor(change)
    assert low <= min(value, 1)
    assert high >= max(value, 1)
    for row in change.rows:
        assert row.low <= row.new * (1 + 1e-12)
        assert row.new <= row.high * (1 + 1e-12)
    _, least, most = rate_factor(advise(ratio, optimizer=optimizer, setup=SETUP | {"warmup_steps": 10}))
    assert least <= low * (1 + 1e-9)
    assert high <= most * (1 + 1e-9)
    assert change.settings.samples == pytest.approx(ratio * 64 * 50_000)
    assert change.settings.batch_size == 64
    assert change["beta1"].new == 0.9


def test_b_star_moves_with_the_data():
    """κ = 0.6 for Adam and 1/3 for SGD, from 0 to 1; what the reference adds does not move."""
    for optimizer, growth in (("adam", 0.6), ("sgd", 1 / 3)):
        row = advise(10, optimizer=optimizer, setup=SETUP | {"critical_batch_size": 100.0})["critical_batch_size"]
        assert row[1:5] == pytest.approx((100, 100 * 10**growth, 100, 1000))
    counted = SETUP | {"critical_batch_size": 100.0, "reference": 32.0}
    change = advise(10, setup=counted)
    assert change["critical_batch_size"].new == pytest.approx((100 - 38.4) * 10**0.6 + 38.4)
    assert change.settings.critical_batch_size == change["critical_batch_size"].new
    law = st.fit_steps_law([32, 128, 512, 2048], [94_900, 25_500, 8_050, 3_870])
    row = advise(10, fit=law)["critical_batch_size"]
    low, high = law.interval()
    assert (row.low, row.high) == pytest.approx((low, (high - 38.4) * 10 + 38.4))
    assert all(each.name != "critical_batch_size" for each in advise(10).rows)


def test_curves_have_b_star_at_any_data(monkeypatch):
    fit = object.__new__(st.curves.CurvesFit)

    def found(self, data):
        size = data / 1e4
        return st.curves.CurvesCriticalBatchSize(
            None, np.array([size]), np.array([[size / 2, size * 2]]), None, 1.0, ""
        )

    monkeypatch.setattr(st.curves.CurvesFit, "knows_batch_size", True)
    monkeypatch.setattr(st.curves.CurvesFit, "critical_batch_size", found)
    row = advise(4, fit=fit)["critical_batch_size"]
    assert row[1:5] == pytest.approx((320, 1280, 640, 2560))
    assert "the loss curves" in row.reason


def test_both_change_as_one_after_the_other():
    """γ: first the data at the batch size now, then the batch size; steps are the new data in batches."""
    both = st.change_batch_size(SETUP, new_batch_size=256, new_num_samples=3.2e7, optimizer="adam")
    size = st.change_batch_size(SETUP, new_batch_size=256, optimizer="adam")
    for numbers in zip(rate_factor(both), rate_factor(size), rate_factor(advise(10)), strict=True):
        assert numbers[0] == pytest.approx(numbers[1] * numbers[2])
    assert both["num_steps"][1:5] == (50_000, 125_000, 125_000, 125_000)
    assert both["extra_data"].high == 3
    assert both["beta2"].new == size["beta2"].new
    assert both.sheet().title == "adam: batch size 64 → 256, data 3,200,000 → 32,000,000"
    assert advise(10).sheet().title == "adam: batch size 64, data 3,200,000 → 32,000,000"
    assert "Batch size: γ* ∝ √B" in both["learning_rate"].reason
    assert all(row.name != "extra_data" for row in advise(10).rows)


def test_there_and_back():
    there = advise(10).settings
    back = st.change_batch_size(there, new_num_samples=3.2e6, optimizer="adam").settings
    for name, value in SETUP.items():
        assert getattr(back, name) == pytest.approx(value, rel=1e-9)


def test_time_scales_of_weight_decay():
    """γλ ∝ B D^−0.473; the ends keep the memory in samples and its share of the run; τ by its definition."""
    setup = SETUP | {"num_steps": 50_000}
    change = st.change_batch_size(setup, new_batch_size=256, new_num_samples=3.2e7, optimizer="adamw")
    row, rate = change["weight_decay"], change["learning_rate"]
    shrink = 3e-4 * 0.1 / 64  # of the weights in a sample
    assert rate.new * row.new / 256 == pytest.approx(shrink * 10**-0.473, rel=1e-3)
    assert rate.low * row.high / 256 == pytest.approx(shrink)
    assert rate.high * row.low / 256 == pytest.approx(shrink / 10)
    scale = change["timescale"]
    assert scale.old == pytest.approx(64 / (3e-4 * 0.1 * 3.2e6))
    assert scale[2:5] == pytest.approx((scale.old * 10**-0.527, scale.old / 10, scale.old))
    assert change.settings.timescale == pytest.approx(scale.new)
    for kept, words in ((1, "in samples gives λ = "), (1 / 10, "the share τ gives ")):
        value = float(row.reason.split(words)[1].split(";")[0].split(",")[0])
        assert rate.new * value / 256 == pytest.approx(shrink * kept, rel=1e-3)
    kept = replace(change.settings, weight_decay=0.1).timescale
    assert float(row.reason.split("keeping λ itself gives τ = ")[1]) == pytest.approx(kept, rel=1e-3)
    none = advise(10, setup=SETUP | {"weight_decay": 0})["weight_decay"]
    assert none[1:5] == (0, 0, 0, 0)
    assert "0.22 at 20, 0.066 at 200 tokens per parameter" in scale.reason


def test_the_time_scale_of_a_run_is_told_where_it_is_known():
    same = st.change_batch_size(SETUP, new_batch_size=256, optimizer="adamw")["timescale"]
    assert same[1:5] == pytest.approx((2 / 3, 2 / 3, 1 / 6, 2 / 3))
    more = st.change_batch_size(SETUP | {"critical_batch_size": 200}, new_batch_size=256, optimizer="adamw")
    assert more["timescale"].new == pytest.approx(2 / 3 * 1064 / 1256)
    assert more.settings.timescale == pytest.approx(more["timescale"].new, rel=1e-4)
    assert "the last 67% of the run" in same.reason
    weak = st.change_batch_size(SETUP | {"weight_decay": 0.01}, new_batch_size=256, optimizer="adam")["timescale"]
    assert "the updates of the whole run, since the decay is weak" in weak.reason
    for other, optimizer in (
        (SETUP | {"weight_decay": 0}, "adam"),
        (SETUP | {"num_steps": None}, "adam"),
        (SETUP, "sgd"),
    ):
        change = st.change_batch_size(other | {"decay_steps": None}, new_batch_size=256, optimizer=optimizer)
        assert all(row.name != "timescale" for row in change.rows)


def test_norm_and_angle_of_scale_invariant_weights():
    """T49 by a loop: steps orthogonal to the weights with entries of size 1, and decoupled decay."""
    random, size, rate, decay = np.random.default_rng(0), 4000, 0.02, 0.1
    weights = random.standard_normal(size) * 0.5
    for _ in range(round(5 / (2 * rate * decay))):
        step = random.standard_normal(size)
        step -= weights * (step @ weights) / (weights @ weights)
        before, weights = weights, (1 - rate * decay) * weights - rate * step
    assert weights @ weights == pytest.approx(rate * size / (2 * decay), rel=0.05)
    cosine = before @ weights / np.sqrt((before @ before) * (weights @ weights))
    assert np.arccos(cosine) == pytest.approx(np.sqrt(2 * rate * decay), rel=0.05)


def test_decay_keeps_its_share_and_warm_up_its_samples():
    longer = advise(10)
    assert longer["warmup_steps"][1:5] == (2000, 2000, 10, 20_000)
    assert longer["decay_steps"][1:5] == (10_000, 103_750, 10_000, 103_750)  # 10/48 of 498,000
    shorter = advise(0.1)
    assert shorter["warmup_steps"][1:5] == (2000, 2000, 10, 2000)
    assert shorter["decay_steps"][1:5] == (10_000, 625, 625, 10_000)
    whole = advise(10, setup=SETUP | {"decay_steps": 48_000})
    assert whole["decay_steps"].new + whole["warmup_steps"].new == whole["num_steps"].new == 500_000


@cache
def own_law(kink=True, durations=4):
    """Losses about γ* ∝ D^−0.3 B^0.5 up to a kink at 64 (D/4¹⁰)^0.4."""
    B, D, rate = np.meshgrid(2.0 ** np.arange(3, 12), 4.0 ** np.arange(10, 10 + durations), 2.0 ** np.arange(-12, 2))
    best = true_rate(B, D) if kink else 0.05 * (D / 4**10) ** -0.3 * B**0.5
    loss = (2 + D**-0.3) * (1 + 0.02 * np.log(rate / best) ** 2)
    columns = {"batch_size": B, "samples": D, "learning_rate": rate, "loss": loss}
    return st.fit_rates({name: column.ravel() for name, column in columns.items()}, compare=False)


def true_rate(batch, data):
    return 0.05 * (data / 4**10) ** -0.3 * np.minimum(batch, 64 * (data / 4**10) ** 0.4) ** 0.5


@pytest.mark.parametrize(
    ("old", "new"), [((16, 4**10), (16, 4**12)), ((1024, 4**10), (1024, 4**13)), ((8, 4**11), (512, 4**13))]
)
def test_an_own_law_replaces_public_runs(old, new):
    """On exact data of a law: its factor, in a short range that excludes what the law excludes."""
    current = {"batch_size": old[0], "num_samples": old[1], "learning_rate": 1e-3, "beta2": 0.95}
    change = st.change_batch_size(current, new_batch_size=new[0], new_num_samples=new[1], rate_law=own_law())
    exact = true_rate(*new) / true_rate(*old)
    value, low, high = rate_factor(change)
    assert value == pytest.approx(exact, rel=0.03)
    assert low <= exact * 1.03
    assert high >= exact / 1.03
    if old[0] == 16:
        assert high < 1  # γ kept is refuted
        wide = st.change_batch_size(current, new_num_samples=new[1])
        assert high / low < rate_factor(wide)[2] / rate_factor(wide)[1]
    row = change["critical_batch_size"]
    assert row.new / row.old == pytest.approx((new[1] / old[1]) ** 0.4, rel=0.05)
    assert row.low <= row.new <= row.high
    assert "by the law of your own runs" in change.headline
    assert not any("√B" in each or "B*: measure it" in each for each in change.unknown)


def test_an_own_law_without_a_kink_and_beyond_its_runs():
    current = {"batch_size": 16, "num_samples": 4**10, "learning_rate": 1e-3}
    change = st.change_batch_size(
        current, new_batch_size=8192, new_num_samples=4**15, optimizer="adam", rate_law=own_law(kink=False)
    )
    assert rate_factor(change)[0] == pytest.approx(4 ** (-0.3 * 5) * 512**0.5, rel=0.03)
    assert all(row.name != "critical_batch_size" for row in change.rows)
    assert [each.split(" still holds at ")[1] for each in change.unknown if "the law of your runs" in each] == [
        "8,192",
        f"{4**15:.4g}",
    ]
    assert "your runs show no kink" in change["learning_rate"].reason
    size = st.change_batch_size(current, new_batch_size=64, optimizer="adam", rate_law=own_law(kink=False))
    assert rate_factor(size)[0] == pytest.approx(2, rel=0.02)


def test_a_kink_that_does_not_determine_its_growth():
    """The interval of κ is open: B* then moves as without a law, and the range of γ has κ from 0 to 1."""
    law = replace(own_law(), kink_exponent=math.nan, kink_exponent_interval=(-math.inf, math.inf))
    change = advise(10, rate_law=law, setup=SETUP | {"critical_batch_size": 100.0})
    assert change["critical_batch_size"][1:5] == pytest.approx((100, 100 * 10**0.6, 100, 1000))
    assert "do not determine how the kink moves" in change["learning_rate"].reason
    assert rate_factor(change)[1] < rate_factor(advise(10, rate_law=own_law()))[1]
    own = advise(10, rate_law=own_law(), setup=SETUP | {"critical_batch_size": 100.0})["critical_batch_size"]
    assert own.new == pytest.approx(100 * 10**0.4, rel=0.05)
    assert own.high < 300


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "nothing changes: give new_batch_size, new_num_samples, or both"),
        ({"new_num_samples": -1}, "new_num_samples must be"),
        ({"new_num_samples": math.nan}, "new_num_samples must be"),
        ({"new_num_samples": 10}, "new_num_samples must be at least the batch size, 64, got 10"),
        (
            {"new_num_samples": 1e5},
            "the warm-up must be shorter than the new run, whose data are 100000, got 128000 samp",
        ),
        ({"new_num_samples": 128_000}, "the warm-up must be shorter than the new run, whose data are 128000"),
        (
            {"current": SETUP | {"num_steps": 1500}, "new_num_samples": 1e7},
            "the warm-up must be shorter than the run,",
        ),
        (
            {"current": SETUP | {"num_steps": None}, "new_num_samples": 1e7},
            "needs the data of the run now: give num_samp",
        ),
        (
            {"current": SETUP | {"num_samples": 1e9}, "new_batch_size": 8},
            "num_samples must be num_steps × batch_size = 3",
        ),
        ({"new_batch_size": 128, "rate_law": 3}, "rate_law must be the result of fit_rates, got int"),
    ],
)
def test_bad_input(change, words):
    with pytest.raises(ValueError, match=words):
        st.change_batch_size(**({"current": SETUP, "optimizer": "adam"} | change))


def test_a_law_needs_exponents_and_the_data_of_the_run():
    with pytest.raises(ValueError, match="rate_law must know how γ\\* moves with the duration"):
        advise(10, rate_law=own_law(durations=1))
    with pytest.raises(ValueError, match="rate_law needs the data of the run now"):
        st.change_batch_size(SETUP | {"num_steps": None}, new_batch_size=8, optimizer="adam", rate_law=own_law())


def test_the_first_line_is_the_answer_and_json_has_all():
    change = advise(10)
    assert change.headline == (
        "10 times the data: learning rate 0.0003 → 0.000134 (2.674e-05 … 0.0005359). B* is not known: fit a law to "
        "your own runs (fit-rates), which gives a shorter range"
    )
    known = advise(10, setup=SETUP | {"critical_batch_size": 1e4}).headline
    assert "Now B* = 10,000, 20% more data than vanishing batch sizes need" in known
    found = change.sheet().json()
    assert (found["num_samples"], found["new_num_samples"]) == (3.2e6, 3.2e7)
    assert {row["name"] for row in found["rows"]} >= {"learning_rate", "timescale", "num_steps"}
    assert json.dumps(found["rows"][0]["new"])
    assert any("how γ* moves with D on your task" in each for each in change.unknown)
    assert duration.times_the_data(0.5) == "0.5 times the data"
