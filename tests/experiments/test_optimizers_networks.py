"""Optimizers compared by tuned steps: the analysis of known steps, and a run of a size that says nothing."""

from dataclasses import replace

import numpy as np
import pytest

from experiments import optimizers_networks
from experiments._lib.network_sweeps import task_configs
from experiments.optimizers_networks import ARMS, CLAIMS, OTHER_SEEDS, Claim, Config, Row, answer, waste
from sgdtheory.fits import PairedRatio
from tests.experiments.test_ablations import TINY
from tests.figure_checks import check_figure

SIZES = np.array([2.0, 4, 8, 16, 32, 64, 128])
SCATTER = 0.02 * np.array([1, -1, 0.5, -1, 0.5, 1, -1])
CONFIG = Config({"teacher": replace(TINY, batch_sizes=(2, 4, 8, 16, 32, 64, 128))}, store=None)


def rows_of_law(arm, a, b, seeds=4, untuned=(), scatter=SCATTER):
    """Steps (a + b/B) of an optimizer, with a scatter that the law does not have and one of seeds."""
    return [
        Row("teacher", arm, size, seed, float((a + b / size) * np.exp(noise + 0.01 * seed)), size not in untuned, 1, "")
        for size, noise in zip(SIZES, scatter, strict=True)
        for seed in range(seeds)
    ]


def verdicts(**laws):
    """Verdict of each claim and of the controls; (a, b) of each optimizer, Adam's are 100 and 2000."""
    ab = dict.fromkeys(ARMS, (100.0, 2000.0)) | laws
    rows = [row for k, arm in enumerate(ARMS) for row in rows_of_law(arm, *ab[arm], scatter=np.roll(SCATTER, k))]
    found = optimizers_networks.verdicts_of(CONFIG, rows, "teacher", 0.0)
    return [each.verdict for each in found[: len(CLAIMS)]], [each.verdict for each in found[-2:]]


def test_claims_hold_of_laws_that_are_as_claimed():
    """b/a is what moves B*: SGD's an eighth of Adam's, Muon's eight times it; equal ones are the same."""
    claims, controls = verdicts(sgd=(800, 2000), muon=(12.5, 2000))
    assert [claims, controls] == [["holds"] * 4, ["holds"] * 2]


def test_claims_fail_of_laws_that_are_the_other_way_round():
    claims, _ = verdicts(sgd=(12.5, 2000), momentum=(800, 2000), sign=(12.5, 2000), muon=(800, 2000))
    assert claims == ["fails"] * 4


def test_equal_laws_are_no_evidence_for_an_order():
    claims, controls = verdicts()
    assert claims == ["inconclusive", "inconclusive", "holds", "inconclusive"]
    assert controls == ["holds", "holds"]


@pytest.mark.slow
def test_another_law_under_adams_name_fails_the_control():
    """B* 0.45 of Adam's: twice as large it is about Adam's, and nothing is seen."""
    assert verdicts(control=(800, 2000))[1] == ["fails", "inconclusive"]


def test_looks_are_counted():
    """Outside of the interval at 95%, within the one that counts four looks."""
    ratio = PairedRatio(1.0, 2.0, np.log(2), 0.24, 5)
    assert ratio.interval(0.95)[0] > 1
    above = Claim("adam", "muon", 1, "")
    assert answer(CONFIG, above, ratio) == "inconclusive"
    assert answer(CONFIG, above, replace(ratio, standard_error=0.15)) == "holds"


def test_batch_sizes_that_are_not_tuned_do_not_count():
    rows = rows_of_law("adam", 100, 2000) + rows_of_law("sgd", 100, 2000, untuned=(2, 4, 8, 16))
    assert optimizers_networks.critical_ratio(CONFIG, rows, "teacher", ("adam", "sgd")) is None
    sizes, steps = optimizers_networks.measured(rows, "teacher", "sgd")
    assert sizes.tolist() == [32, 64, 128]
    np.testing.assert_allclose(steps[:, 0], (100 + 2000 / 32) * np.exp(SCATTER[4] + 0.01 * np.arange(4)), rtol=1e-12)
    config = replace(CONFIG, arms=("adam", "sgd"))
    found = optimizers_networks.verdicts_of(config, rows, "teacher", 0.0)
    assert [each.verdict for each in found] == ["inconclusive", "holds", "inconclusive"]


def test_waste_is_measured_at_the_batch_size_that_is_best_for_the_other_seeds():
    """Data 6, 5, 4 and 6, 4, 5 of two seeds, B = 1, 2, 4: each is compared with the other's best."""
    found = waste(np.array([1.0, 2, 4]), np.array([[6, 2.5, 1], [6, 2, 1.25]]))
    assert found.log == pytest.approx(np.log(6 / 5))
    assert (found.error, found.seeds) == (0, 2)
    other = waste(np.array([1.0, 2]), np.array([[4.0, 1], [2.0, 1], [3.0, 1]]))
    logs = np.log([2, 1, 1.5])
    assert other.log == pytest.approx(logs.mean())
    assert other.error == pytest.approx(logs.std(ddof=1) / 3**0.5)
    low, high = other.interval(0.95)
    assert np.log(high) - other.log == pytest.approx(4.302653 * other.error)  # Student's t with 2 degrees of freedom
    assert low * high == pytest.approx(np.exp(2 * other.log))


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "holds"), (1.6, "fails"), (1.21, "inconclusive")])
def test_small_batches_that_waste_data(factor, verdict):
    """All batch sizes take the same data but for the smallest; seeds are 2% above and below in turns."""
    rows = [
        Row("teacher", "sign", size, seed, 1000 / size * (factor if size == 2 else 1) * np.exp(noise), 1, 1, "")
        for place, size in enumerate(SIZES)
        for seed, noise in enumerate(0.02 * (-1.0) ** (place + np.arange(6)))
    ]
    (found,) = optimizers_networks.verdicts_of(replace(CONFIG, arms=("sign",)), rows, "teacher", 0.0)
    assert found.verdict == verdict
    assert found.measured == pytest.approx(factor, rel=0.05)


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_optimizers_are_of_runs_that_there_are(scale):
    for task in optimizers_networks.SCALES[scale].tasks.values():
        config = task_configs(task)[0]
        kinds = [config.with_fields(**arm.fields).value("optimizer") for arm in ARMS.values()]
        assert kinds == ["sgd", "sgd", "adam", "sign", "muon", "adam"]
        assert config.network.with_role("hidden")  # which Muon is for
        assert max(each.seed for each in task_configs(task)) < OTHER_SEEDS


@pytest.mark.slow
def test_a_small_run_draws_and_is_judged_again_from_its_table(tmp_path):
    config = Config({"teacher": replace(TINY, fields=TINY.fields | {"depth": 2})}, rounds=1, store=str(tmp_path))
    result = optimizers_networks.run(config)
    assert result.columns.keys() == result.units.keys()
    assert set(result.columns["arm"]) == set(ARMS)
    seeds = result.columns["seed"][result.columns["arm"] == "control"]
    assert set(seeds) == {OTHER_SEEDS, OTHER_SEEDS + 1}
    check_figure(result.figures["optimizers_networks_teacher"])
    assert len(result.verdicts) == len(CLAIMS) + 5 + 2
