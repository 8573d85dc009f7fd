"""Local steps: verdicts of made-up numbers and of the theory in small, and a run of a size that says nothing."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from experiments import local_sgd
from experiments._lib.local_sgd_networks import Task, unseen_best
from experiments._lib.local_sgd_theory import DILOCO, MEAN, Row, crossing, same_as_one_batch
from tests.figure_checks import check_figure

TASK = Task({"capacity": 1.5, "source": 2.0, "noise_variance": 1.0}, local_steps=(1, 8), num_seeds=4)
CONFIG = replace(local_sgd.SCALES["quick"], networks={"teacher": TASK})


@pytest.fixture(autouse=True)
def _known_risks(monkeypatch):
    """Exact risks, which take a second: they have a test of their own."""
    monkeypatch.setattr(local_sgd, "same_as_one_batch", lambda config, steps: 0.0 if steps == 1 else 0.1)


def made_up(lost=lambda steps: 1.0, gain=5.0, data=lambda steps: 1.2, features=1.0):
    """Rows: K·B* that is lost by H, DiLoCo's gain, data against H, and risks of features over the theory's."""
    rows = []
    for pair in CONFIG.exponents:
        for workers, steps in product(CONFIG.critical_workers, CONFIG.local_steps):
            rows.append(Row("critical", *pair, workers, steps, *MEAN, 1, np.nan, 0, 100 * lost(steps), 100))
            if steps in CONFIG.diloco_steps and workers in CONFIG.diloco_workers:
                rows.append(Row("critical", *pair, workers, steps, *DILOCO, 1, np.nan, 0, 100 * gain, 100))
        for workers, steps in product(CONFIG.workers, CONFIG.local_steps):
            rows.append(Row("data", *pair, workers, steps, *MEAN, 1, 1, 0, data(steps), np.nan))
    pair = CONFIG.exponents[0]
    rows += [Row("critical", *pair, 1, steps, *MEAN, 1, np.nan, 0, 100, 100) for steps in CONFIG.local_steps]
    grid = product(CONFIG.outer_steps, CONFIG.outer_rates, CONFIG.outer_momenta)
    rows += [Row("outer", *pair, 8, steps, eta, mu, 1, 1, 0, 1.2 - mu / 9, np.nan) for steps, eta, mu in grid]
    for outer, seed in product((MEAN, DILOCO), range(4)):
        for steps in CONFIG.frozen.local_steps:
            told = 1 + 0.02 * steps
            value = told * features * (1 + 1e-3 * seed * steps)
            rows.append(Row("features", np.nan, np.nan, 8, steps, *outer, 2, 1, seed, value, told))
        for workers, steps in ((8, 1), (8, 8), (1, 1)):
            loss = (1 + 0.05 * (steps - 1) / 7) * (2 if workers == 1 else 1) * (1 + 0.01 * seed)
            rows.append(Row("teacher", np.nan, np.nan, workers, steps, *outer, 4, 1, seed, loss, 1.05))
    return rows


def answers(rows):
    return {each.claim: each.verdict for each in local_sgd.verdicts_of(CONFIG, rows)}


def test_what_is_as_claimed_holds():
    found = answers(made_up())
    assert {verdict for claim, verdict in found.items() if "teacher" not in claim} == {"holds"}
    assert found["teacher, control: one worker alone has a larger loss"] == "holds"


def test_what_is_not_fails():
    found = answers(made_up(lost=lambda steps: 1 / steps, gain=1.0, data=lambda steps: 0.5 + steps))
    for pair in CONFIG.exponents:
        name = local_sgd._problem(pair)
        assert found[f"local steps do not change B*: {name}"] == "fails"
        assert found[f"local steps save time if a synchronisation costs one step: {name}"] == "fails"
    fewer = answers(made_up(data=lambda steps: 1.2 / steps))
    assert fewer["control: local steps never save time if synchronisation is free"] == "fails"


def test_no_useful_batch_is_said():
    rows = made_up(lost=lambda steps: math.nan if steps > 1 else 1.0)
    assert answers(rows)["local steps do not change B*: a = 2, b = 3"] == "fails"
    rows = made_up(lost=lambda steps: math.nan)
    assert answers(rows)["local steps do not change B*: a = 2, b = 3"] == "inconclusive"


def test_a_wrong_theory_of_features_is_refused():
    """Risks that grow twice as fast with H as told: 1.02 … 1.32 against 1.08 … 1.74."""
    rows = [row._replace(value=2 * row.value - 1) if row.part == "features" else row for row in made_up(features=1.0)]
    assert answers(rows)["features, the mean: the theory of their spectrum predicts the risk of local steps"] == "fails"


def test_crossing_of_a_known_law():
    """log(B/37.3) crosses 0 at 37.3; from 3 on it is above 0 already at 1 if the law begins at 0.5."""
    assert crossing(lambda size: math.log(size / 37.3), 100) == pytest.approx(37.3, rel=1e-9)
    assert crossing(lambda size: math.log(size / 37.3), 2) == pytest.approx(37.3, rel=1e-9)
    assert math.isnan(crossing(lambda size: math.log(size / 0.5), 8))


def test_one_batch_and_its_control():
    config = replace(CONFIG, exponents=((2.0, 3.0),), critical_workers=(4,))
    assert same_as_one_batch(config, 1) < 1e-8
    assert same_as_one_batch(config, 3) > 1e-3


def test_a_seed_has_no_say_in_its_own_choice():
    """Two rates, three seeds: seed 0 is best at rate 1 by itself, the others at rate 0."""
    losses = np.array([[[3.0], [1.0], [1.0]], [[0.0], [2.0], [2.0]]])
    found, rates = unseen_best(losses)
    assert found[0] == 3.0
    assert rates.tolist() == [0, 1, 1]


@pytest.mark.slow
def test_figures_have_no_defects():
    for figure in local_sgd.figures_of(CONFIG, made_up()).values():
        check_figure(figure)


@pytest.mark.slow
def test_a_small_run():
    task = replace(TASK, num_workers=2, max_steps=8, log2_rates=(-5.0, -4.0, -3.0), num_seeds=2)
    task = replace(task, fields=local_sgd.PERCEPTRON | {"width": 8, "holdout_size": 32})
    config = replace(
        CONFIG, exponents=((2.0, 3.0),), num_samples=1e4, workers=(2,), critical_workers=(2,), diloco_workers=(2,),
        local_steps=(1, 3),
        frozen=CONFIG.frozen._replace(local_steps=(1, 4), max_steps=16, num_seeds=3, num_inputs=2048),
        networks={"teacher": task}, processes=1,
    )  # fmt: skip
    result = local_sgd.run(config)
    assert len(result.verdicts) == 15
