"""Advice against what it is to keep, and against exact risks."""

import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import sgdtheory as st
from sgdtheory.advice.data_needed import noise_factor
from tests.marks import slow

SETUP = {
    "batch_size": 64,
    "learning_rate": 3e-4,
    "beta1": 0.9,
    "beta2": 0.95,
    "weight_decay": 0.1,
    "warmup_steps": 2000,
    "decay_steps": 10_000,
    "num_steps": 50_000,
}
FACTORS = [1 / 16, 1 / 4, 1.0, 2.0, 16.0]


def memory_of(samples, batch, beta):
    """Weight, in an average that forgets by β a step, of what is older than `samples`, by a loop."""
    weight = 1.0
    for _ in range(round(samples / batch)):
        weight *= beta
    return weight


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("optimizer", ["adam", "sign", "muon"])
def test_samples_are_kept(factor, optimizer):
    change = st.change_batch_size(SETUP, new_batch_size=64 * factor, optimizer=optimizer)
    new = change.settings
    for beta in ("beta1", "beta2")[: 2 if factor < 4 else 1]:
        kept = memory_of(64 * 16, 64, SETUP[beta])
        assert memory_of(64 * 16, new.batch_size, getattr(new, beta)) == pytest.approx(kept, rel=1e-9)
    shrink = [
        rate * decay / batch
        for rate, decay, batch in (
            (SETUP["learning_rate"], SETUP["weight_decay"], 64),
            (new.learning_rate, new.weight_decay, new.batch_size),
        )
    ]  # by which weights decay in a sample
    assert shrink[0] == pytest.approx(shrink[1])
    for name in ("warmup_steps", "decay_steps", "num_steps"):
        assert getattr(new, name) * new.batch_size == pytest.approx(SETUP[name] * 64)
    noise = [1.0, 1.0]  # variance of the average along which steps go, in variances of a gradient
    if optimizer != "adam":
        noise = [((1 - beta) ** 2 * beta ** (2 * np.arange(10_000))).sum() for beta in (SETUP["beta1"], new.beta1)]
    assert new.learning_rate == pytest.approx(3e-4 * (factor * noise[1] / noise[0]) ** 0.5)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("critical", [None, 10.0, 300.0, 1e5])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "sign", "muon"])
def test_a_range_holds_its_number(factor, critical, optimizer):
    setup = SETUP if critical is None else SETUP | {"critical_batch_size": critical}
    change = st.change_batch_size(setup, new_batch_size=64 * factor, optimizer=optimizer)
    for row in change.rows:
        if critical is not None and row.name in ("extra_data", "num_steps", "decay_steps", "timescale"):
            assert np.isnan([row.low, row.high]).all()  # a B* that is typed in has no interval
        else:
            assert row.low <= row.new * (1 + 1e-12) + 1e-12
            assert row.new <= row.high * (1 + 1e-12) + 1e-12
        assert row.reason
        assert row.source
    if factor == 1:
        assert all(row.new == pytest.approx(row.old) for row in change.rows)


def test_the_memory_of_v_is_not_cut_below_what_adam_needs():
    """β₂ = 0.8 at 16 times the batch, where 0.44 would keep the half-life: less risk, tuned; and a lower one stays."""
    advised = st.change_batch_size(SETUP, new_batch_size=64 * 16, optimizer="adam")
    assert (advised["beta2"].new, advised["beta2"].low) == (0.8, pytest.approx(0.95**16))
    assert st.change_batch_size(SETUP | {"beta2": 0.7}, new_batch_size=64 * 16, optimizer="adam")["beta2"].new == 0.7
    risks = []
    for beta2 in (0.8, 0.95**16):
        method = st.Adam(advised["beta1"].new, beta2)
        algorithm = st.Algorithm(method, schedule=st.Linear(), average=st.LastIterate())
        problem = st.PowerLaw(2.0, 1.5)
        risks.append(st.optimal_learning_rate(problem, batch_size=64, num_samples=1e5, algorithm=algorithm).risk)
    assert risks[0] < 0.99 * risks[1]


def test_there_and_back():
    """The median over problems comes back if B* is known, and so do the memories."""
    there = st.change_batch_size(SETUP | {"critical_batch_size": 300}, new_batch_size=128, optimizer="adam").settings
    back = st.change_batch_size(there, new_batch_size=64, optimizer="adam").settings
    for name, value in SETUP.items():
        rounding = 2.0 if name.endswith("steps") else 0.0  # half a step at twice the batch size, and half a step
        assert getattr(back, name) == pytest.approx(value, rel=1e-9, abs=rounding)


def test_sgd_keeps_its_momentum_and_its_rate_stops_at_b_star():
    changes = [
        st.change_batch_size(SETUP | {"critical_batch_size": size}, new_batch_size=1024, optimizer="momentum").settings
        for size in (1e6, 300, 10)
    ]
    rates = [each.learning_rate / 3e-4 for each in changes]
    assert {each.beta1 for each in changes} == {0.9}
    assert rates[0] == pytest.approx(16, rel=0.01)
    assert rates[0] > 3 * rates[1] > 3 * rates[2] > 3


def test_without_b_star_the_data_are_those_of_any():
    """Far below B* none, far beyond it the steps stay."""
    up, down = (
        st.change_batch_size(SETUP, new_batch_size=64 * factor, optimizer="sgd")["extra_data"] for factor in (4, 1 / 4)
    )
    assert (up.new, up.low, up.high) == (0, 0, 3)
    assert (down.new, down.low, down.high) == (0, -0.75, 0)
    known = {"batch_size": 64, "learning_rate": 0.1, "critical_batch_size": 1e-9}
    assert st.change_batch_size(known, new_batch_size=256, optimizer="sgd")["extra_data"].new == pytest.approx(3)


@pytest.mark.parametrize("number", [0, 2, 6, slow(12)])
def test_the_best_rates_that_are_carried(number):
    """By minimizing the risk over γ directly, without the search that made them."""
    text = (files("sgdtheory.advice") / "data" / "best_rates.json").read_text()
    each = json.loads(text)[number]
    method = {"sgd": st.SGD(), "sign": st.SignSGD(), "adam": st.Adam(0.9, 0.95)}[each["optimizer"]]
    algorithm = st.Algorithm(method, schedule=st.Linear(), average=st.LastIterate())
    problem = st.PowerLaw(each["capacity"], each["source"])
    for batch, rate in list(zip(each["batch_sizes"], each["learning_rates"], strict=True))[1:4:2]:

        def risk(log_rate, batch=batch):
            at = {"batch_size": batch, "num_samples": each["num_samples"], "algorithm": algorithm}
            return float(st.excess_risk(problem, learning_rate=np.exp(log_rate), **at).total)

        near = np.log(rate)
        found = minimize_scalar(risk, bounds=(near - 0.4, near + 0.4), method="bounded", options={"xatol": 1e-4})
        assert found.x == pytest.approx(near, abs=0.02)
        assert risk(near) <= found.fun * (1 + 1e-4)


@pytest.mark.parametrize(("name", "old", "new"), [("sgd", 4, 64), ("sgd", 64, 4), ("adam", 4, 64), slow("adam", 64, 4)])
def test_the_advised_setting_is_near_the_best_and_others_are_not(name, old, new):
    """γ kept, √B for SGD and B for Adam are the controls. B* is 100 and 400: SGD's rate stops within the change."""
    problem = st.PowerLaw(1.5, 2.0)
    betas = {"beta1": 0.9, "beta2": 0.95} if name == "adam" else {}

    def algorithm(setup):
        method = st.Adam(setup.beta1, setup.beta2) if name == "adam" else st.SGD()
        return st.Algorithm(method, schedule=st.Linear(), average=st.LastIterate())

    critical = {"sgd": 100, "adam": 400}[name]
    start = st.advice.TrainingSetup(batch_size=old, learning_rate=1.0, critical_batch_size=critical, **betas)
    best = st.optimal_learning_rate(problem, batch_size=old, num_samples=1e5, algorithm=algorithm(start))
    rate = float(best.learning_rate)
    advised = st.change_batch_size(replace(start, learning_rate=rate), new_batch_size=new, optimizer=name).settings
    at = {"batch_size": new, "num_samples": 1e5, "algorithm": algorithm(advised)}
    least = float(st.optimal_learning_rate(problem, **at).risk)

    def loss(rate):
        return float(st.excess_risk(problem, learning_rate=rate, **at).total) / least - 1

    assert loss(advised.learning_rate) < 0.02
    assert loss(rate) > 1
    assert loss(rate * (new / old) ** {"sgd": 0.5, "adam": 1.0}[name]) > 0.3


def test_what_small_batches_cost_signs():
    """T37's κ at 1, 2, 4 and its limit."""
    found = [noise_factor(batch) for batch in (1, 2, 4, 1e6)]
    assert found == pytest.approx([np.pi**2 / 4, 2, 16 / 9, np.pi / 2], rel=1e-5)
    setup = {"batch_size": 256, "learning_rate": 1.0, "beta1": 0}
    row = st.change_batch_size(setup, new_batch_size=1, optimizer="sign")["extra_data"]
    assert row.high == pytest.approx(np.pi / 2 - 1, abs=0.01)


@pytest.mark.parametrize("optimizer", ["muon", "lion", "signum", "sign"])
@pytest.mark.parametrize("beta1", [None, 0.9])
def test_signs_of_averages_do_not_get_the_data_law_of_signs_without_memory(optimizer, beta1):
    """0 is possible, at any change of batch size, and what is not known is said; β₁ = 0 of other methods is no sign."""
    setup = {"batch_size": 1, "learning_rate": 0.02} | ({} if beta1 is None else {"beta1": beta1})
    change = st.change_batch_size(setup, new_batch_size=64, optimizer=optimizer)
    row = change["extra_data"]
    assert (row.new, row.low) == (0, 0)
    assert row.high == pytest.approx(63)
    assert any(f"what small batches cost {optimizer}" in each for each in change.unknown)
    stated = st.change_batch_size(setup | {"beta1": 0}, new_batch_size=64, optimizer=optimizer)
    assert (stated["extra_data"].new == 0) == (optimizer != "sign")


def random_changes(seed):
    """Settings, a new batch size and an optimizer."""
    rng = np.random.default_rng([5, seed])
    batch = 10 ** rng.uniform(0, 5)
    new = batch * 10 ** rng.uniform(-3, 3)
    setup = {
        "batch_size": batch,
        "learning_rate": 10 ** rng.uniform(-5, 1),
        "beta1": rng.uniform(0, 0.99),
        "weight_decay": 0.1,
        "warmup_steps": 100,
        "decay_steps": 2000,
        "num_steps": max(1e4, 10 * new / batch),
    }
    return setup, new, str(rng.choice(["sgd", "momentum", "adam", "sign", "muon", "lion"])), rng


@pytest.mark.parametrize("seed", range(40))
def test_ranges_without_b_star_hold_the_answers_with_any(seed):
    """Without B* every range is wider: it contains all numbers and ranges that any B* leads to."""
    setup, new, optimizer, rng = random_changes(seed)
    without = st.change_batch_size(setup, new_batch_size=new, optimizer=optimizer)
    assert without.headline.startswith("B* is not known: beyond it")
    for size in (*10 ** rng.uniform(-4, 12, 10), setup["batch_size"], new):
        known = st.change_batch_size(setup | {"critical_batch_size": size}, new_batch_size=new, optimizer=optimizer)
        assert known.headline.startswith("B* = ")
        assert known.headline.endswith(
            "vanishing batch sizes need; if `fit` printed this B*, give its reference too (--reference)"
        )
        for wide, narrow in zip(without.rows, known.rows, strict=True):
            for number in (narrow.new, narrow.low, narrow.high):
                if not np.isnan(number):
                    assert wide.low - 1e-9 * abs(wide.low) <= number <= wide.high + 1e-9 * abs(wide.high), wide.name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"current": {"batch_size": 64}}, "learning_rate is missing"),
        ({"current": {"lr": 1}}, "must have names among"),
        ({"current": 3}, "TrainingSetup or a mapping"),
        ({"current": SETUP | {"beta2": 1.0}}, "beta2 must be at least 0 and below 1"),
        ({"current": SETUP | {"warmup_steps": -1}}, "warmup_steps must be at least 0"),
        ({"current": SETUP | {"batch_size": 0}}, "batch_size"),
        ({"new_batch_size": -1}, "new_batch_size"),
        ({"optimizer": "adagrad"}, "optimizer"),
        ({"optimizer": None, "current": {"batch_size": 64, "learning_rate": 1}}, 'optimizer="adam"'),
        ({"fit": 3}, "fit must be a LossGrid"),
        ({"level": 2}, "level"),
    ],
)
def test_bad_input(change, words):
    with pytest.raises(ValueError, match=words):
        st.change_batch_size(**({"current": SETUP, "new_batch_size": 128, "optimizer": "adam"} | change))


@pytest.mark.parametrize(
    ("optimizer", "critical", "words"),
    [
        ("adam", None, "measure it"),
        ("adam", 300.0, "try 0.0003 … 0.0048"),
        ("sgd", 300.0, "try half and twice"),
        ("sgd", 1e5, "the role of β₂"),
    ],
)
def test_what_is_not_known_is_said(optimizer, critical, words):
    setup = SETUP if critical is None else SETUP | {"critical_batch_size": critical}
    change = st.change_batch_size(setup, new_batch_size=64 * 16, optimizer=optimizer)
    assert any(words in each for each in change.unknown)
    assert ("may diverge" in change["learning_rate"].reason) == (optimizer == "sgd" and critical == 300.0)
    assert (optimizer == "adam") == any(row.name == "beta2" for row in change.rows)


def test_the_sheet_has_a_row_for_each_setting():
    """Now, new and range; a dash where a number rests on a B* that has no interval."""
    setup = {"batch_size": 64, "learning_rate": 0.01, "num_steps": 1000, "critical_batch_size": 1e9}
    change = st.change_batch_size(setup, new_batch_size=256, optimizer="sgd")
    sheet = change.sheet()
    assert sheet.title == "sgd: batch size 64 → 256"
    _, rows = sheet.tables[0].grid()
    assert [row[0] for row in rows] == ["learning rate", "steps", "extra data"]
    assert [row[1:3] for row in rows[:2]] == [["0.01", "0.04"], ["1,000", "250"]]
    assert [row[3] == "—" for row in rows] == [False, True, True]
    assert all(row.reason in sheet.tables[0].legend for row in change.rows)


@pytest.mark.parametrize(("new", "words"), [(256, "the extra data grow up to +300%."), (16, "up to 75% of the data")])
def test_the_headline_says_what_an_unknown_b_star_leaves_open(new, words):
    setup = {"batch_size": 64, "learning_rate": 0.01, "beta2": 0.95}
    change = st.change_batch_size(setup, new_batch_size=new)
    assert words in change.headline
    assert change.optimizer == "adam"  # by β₂


def test_what_is_known_is_not_asked_for():
    """β₂ of SGD counts only where it is given, √B but for SGD, and B* only where a batch size exceeds it."""

    def unknown(optimizer, new, **more):
        setup = {"batch_size": 64, "learning_rate": 0.01} | more
        return " ".join(st.change_batch_size(setup, new_batch_size=new, optimizer=optimizer).unknown)

    assert "SGD has none" in unknown("sgd", 256, beta2=0.9)
    assert "SGD has none" not in unknown("sgd", 256) + unknown("adam", 256, beta2=0.9)
    assert "what small batches cost sign" in unknown("sign", 256)
    assert "what small batches cost" not in unknown("sgd", 256) + unknown("sign", 256, beta1=0)
    assert "theory's √B" in unknown("adam", 256)
    assert "theory's √B" not in unknown("sgd", 256)
    for new in (16, 256):
        assert "how far γ may grow beyond B*" in unknown("sgd", new, critical_batch_size=30.0)
        assert "beyond B*" not in unknown("sgd", new, critical_batch_size=300.0)
        assert "B*: measure it" not in unknown("sgd", new, critical_batch_size=300.0)
