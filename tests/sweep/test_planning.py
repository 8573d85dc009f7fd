"""Plans: the runs and steps that a sweep has, its time against the sweep itself, and the verdict with a pilot."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from sgdtheory.sweep import SweepTable, planning, power, sweep
from sgdtheory.sweep.pace import Taken
from sgdtheory.sweep.planning import PILOT_KINDS, Plan, measure, pilot_scatter, plan
from sgdtheory.sweep.power import Design, Scatter, Verdicts, verdict_probabilities
from sgdtheory.training import TrainConfig
from tests.cli.test_fit_sweep import make_store
from tests.runs import changed
from tests.sweep.small import BASE, CONFIGS, LANES

MANY = [
    changed(BASE, width=width, batch_size=batch, max_steps=3000, learning_rate=rate)
    for width in (8, 16)
    for batch in (2, 4, 8)
    for rate in (0.01, 0.02)
]


def test_runs_and_steps_that_are_left(tmp_path):
    sweep(CONFIGS[:2], tmp_path, lanes=LANES)
    found = plan([*CONFIGS, CONFIGS[0]], tmp_path, pilot_seconds=0.1)
    assert (found.runs, found.finished) == (len(CONFIGS), 2)
    assert found.steps == 40 * (len(CONFIGS) - 2)
    assert (found.scatter, found.verdicts, found.enough) == (None, None, None)
    with pytest.raises(ValueError, match="configs must be at least one, got none"):
        plan([])


def test_steps_that_are_left_are_those_of_runs_without_a_result(monkeypatch, tmp_path):
    timed = []
    monkeypatch.setattr(planning, "measure", lambda left, *arguments: timed.extend(left))
    monkeypatch.setattr(planning, "Countdown", lambda *arguments: SimpleNamespace(seconds_left=1.0))
    store = make_store(tmp_path / "store", widths=(32,), batches=(16, 40))
    done = SweepTable.from_store(store).configs
    more = [changed(each, max_steps=number, seed=1) for each, number in zip(done, (7, 20), strict=False)]
    found = plan([*done, *more, more[0]], store)
    assert (found.runs, found.finished, found.steps) == (len(done) + 2, len(done), 27)
    assert {config for unit in timed for config in unit} >= set(more)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, {"overhead": 0.2, "margin": 0.2, "level": 0.95}),
        ({"reference": 4, "level": 0.9}, {"overhead": 0.2, "margin": 0.2, "level": 0.9, "reference": 4}),
    ],
)
def test_what_predictions_are_asked_with(monkeypatch, options, asked):
    """A single number is the scatter of one seed, about laws whose b/a is in the middle of the batch sizes."""
    found = []
    monkeypatch.setattr(planning, "measure", lambda *arguments: None)
    monkeypatch.setattr(planning, "Countdown", lambda *arguments: SimpleNamespace(seconds_left=1.0))
    monkeypatch.setattr(planning, "verdict_probabilities", lambda *arguments, **named: found.append((arguments, named)))
    monkeypatch.setattr(planning, "enough", lambda *arguments, **named: found.append((arguments, named)))
    plan([changed(each, seed=seed) for each in MANY for seed in (0, 1)], scatter=0.05, **options)
    scatter = Scatter(0.05, 0.0, 0.0, 4.0)  # batch sizes 2, 4 and 8
    assert found == [
        (([8, 16], [2, 4, 8], scatter), {"num_seeds": 2, **asked}),
        (((8, 16), (2, 8), scatter), asked),
    ]


def test_a_unit_has_taken_as_many_steps_as_its_longest_run(monkeypatch):
    def advanced(runs, timer, report):
        for run, number in zip(runs, (7, 3), strict=True):
            run.num_steps = number
        return 0.25

    monkeypatch.setattr(planning, "Run", lambda config, path: SimpleNamespace(num_steps=0))
    monkeypatch.setattr(planning, "advance_runs", advanced)
    taken = planning._timed((BASE, BASE), 0.1)
    assert (taken.steps, taken.setup) == (7, 0.25)


def test_scatter_that_more_seeds_do_not_reduce(monkeypatch):
    """s² is 0.04 with 4 degrees of freedom, of which three seeds of variance 0.03 explain 0.01."""
    law = SimpleNamespace(steps=np.ones(6), residuals=np.full(4, 0.2), a=1.0, b=30.0)
    monkeypatch.setattr(power, "_of_seeds", lambda fit: (3, 0.03, 400))
    found = power.scatter_of(SimpleNamespace(laws=[law], dependence={}))
    assert (found.seeds, found.rest, found.between, found.balance) == pytest.approx((0.03**0.5, 0.03**0.5, 0.0, 30.0))


@pytest.mark.parametrize("kinds", [1, 3, PILOT_KINDS, 9])
def test_a_few_kinds_of_runs_are_timed_from_the_cheapest_to_the_dearest(monkeypatch, kinds):
    timed = []

    def taken(unit, seconds):
        timed.append(unit[0].batch_size)
        return Taken(10, 0.0, seconds)

    monkeypatch.setattr(planning, "_timed", taken)
    batches = [2**each for each in range(kinds)]
    units = [(changed(BASE, batch_size=batch, seed=seed),) for batch in batches for seed in (0, 1)]
    pace = measure(units, 0.5, 1)
    assert len(timed) == len(set(timed)) == len(pace.taken) == min(kinds, PILOT_KINDS)
    assert (timed[0], timed[-1]) == (batches[0], batches[-1])
    assert pace.step_seconds(units[0]) == pytest.approx(0.05)


@pytest.mark.slow
def test_the_time_is_about_that_of_the_sweep(tmp_path):
    expected = plan(MANY, pilot_seconds=0.5).seconds
    begin = time.perf_counter()
    sweep(MANY, tmp_path)
    taken = time.perf_counter() - begin
    assert taken / 3 < expected < 3 * taken


@pytest.mark.slow
def test_the_verdict_is_that_of_the_design():
    scatter = Scatter(0.05, 0.0, 0.0, 150.0)
    configs = [
        changed(BASE, width=width, batch_size=batch, seed=seed, max_steps=1)
        for width in (32, 64, 128, 256)
        for batch in (16, 40, 100, 250)
        for seed in (0, 1)
    ]
    found = plan(configs[:2], scatter=scatter, pilot_seconds=0.01)
    assert found.verdicts is None  # one width
    widths, batches = (32, 64, 128, 256), (16, 40, 100, 250)
    expected = verdict_probabilities(widths, batches, scatter, num_seeds=2, margin=0.3)
    slim = [config for config in configs if config.width == 32 or config.batch_size == 16]
    assert plan(slim, scatter=scatter, margin=0.3, pilot_seconds=0.01).verdicts == expected


@pytest.mark.parametrize(
    ("verdicts", "design", "remark"),
    [
        (None, None, "a verdict needs three widths and three batch sizes, or more"),
        (Verdicts(0.8, 0.1, 0.1), None, "no sweep of up to 12 widths, 8 batch sizes and 8 seeds in these ranges"),
        (
            Verdicts(0.8, 0.1, 0.1),
            Design((8, 64), (2, 4), 1, 0.8),
            "enough for 80%: widths 8, 64; batch sizes 2, 4",
        ),
    ],
)
def test_the_sheet_names_the_cheapest_design_or_says_why_there_is_none(verdicts, design, remark):
    sheet = Plan(9, 0, 36, 1.0, Scatter(0.1, 0.0, 0.0, 4.0), verdicts, design).sheet()
    assert "".join(sheet.notes).startswith(remark)
    assert len(sheet.tables) == 1 + (verdicts is not None)
    assert Plan(9, 0, 36, 1.0, None, None, None).sheet().notes == []


def test_the_scatter_of_a_pilot(tmp_path):
    found = pilot_scatter(make_store(tmp_path / "store", scatter=0.05))
    assert found.seeds == 0.0  # one seed: it is in the rest
    assert 0.02 < found.rest < 0.1
    assert found.balance == pytest.approx(150, rel=0.2)
    with pytest.raises(ValueError, match="a pilot needs four tuned batch sizes of a group"):
        pilot_scatter(make_store(tmp_path / "few", batches=(16, 40, 100), widths=(32,)))


def test_scatter_between_widths_is_that_of_critical_batch_sizes_around_a_line(tmp_path):
    """B* is ω b/a + 16 (1 + ω). b/a alternates between widths, and the steps hardly scatter; by default ω is 0.2."""
    balance = np.array([150, 300, 150, 300])
    for width, each in zip((32, 64, 128, 256), balance, strict=True):
        store = make_store(tmp_path / "store", widths=(width,), scatter=0.002, balance=each)
    for options, overhead in (({}, 0.2), ({"overhead": 0.4}, 0.4)):
        critical = np.log(overhead * balance + (1 + overhead) * 16)
        (squares,) = np.polyfit(range(4), critical, 1, full=True)[1]
        assert pilot_scatter(store, **options).between == pytest.approx((squares / 2) ** 0.5, rel=0.03)
    by_chance = pilot_scatter(make_store(tmp_path / "even"))
    assert by_chance.between == 0.0


def test_a_pilot_is_named(tmp_path):
    """Its name says which runs it is, and what it does not include; runs of another task are no pilot."""
    store = make_store(tmp_path / "store", scatter=0.05)
    one = TrainConfig(width=256, batch_size=50, seed=3, max_steps=7, target_loss=1.0)
    number = len(list(store.iterdir()))
    words = (
        f"of the pilot in {store} ({number} runs, 1 seed, at loss 1{{}}; with one seed it is unknown what more "
        "seeds average out, and the sweep may do better)"
    )
    assert pilot_scatter(store, like=[one]).source == words.format("")
    another = [one, changed(one, target_loss=0.1)]
    assert pilot_scatter(store, like=another).source == words.format(" where this sweep's is 0.1")
    for changes, said in (
        ({"noise_variance": 2.0}, "noise_variance is 0.1, not 2.0"),
        ({"model": "residual"}, "model is mlp, not residual"),
        ({"optimizer": "sgd"}, "optimizer is adam, not sgd"),
    ):
        with pytest.raises(ValueError, match=f"^the runs in {store} are no pilot of this sweep: their {said}$"):
            pilot_scatter(store, like=[changed(one, **changes)])
