"""Signs on frozen features: coordinates, steps and crossings by independent computations, verdicts of known rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from experiments import sign_features as experiment
from experiments._lib.frozen_features import Regression, features_of, regression_of
from experiments._lib.redraw import FOLDER, Recorded
from experiments._lib.rows import rows_of
from experiments._lib.sign_verdicts import GAUSSIAN, SGD, SIGN, Row, answer, figure, near, verdicts
from sgdtheory.training import TrainConfig
from tests.figure_checks import check_figure

CONFIG = experiment.Config(
    fields=experiment.FIELDS | {"width": 6, "input_dim": 5},
    activations=("tanh",),
    num_samples=256,
    batch_sizes=(8,),
    rates=(0.01, 0.02, 0.04, 0.08),
    sgd_rates=(0.05, 0.1, 0.2, 0.4),
    num_runs=32,
    num_inputs=1 << 12,
)
OWN = TrainConfig.from_fields({**CONFIG.fields, "activation": "tanh"})


@pytest.fixture(scope="module")
def regression():
    return regression_of(OWN, CONFIG.num_inputs)[0]


def test_regression_is_that_of_the_features_with_all_moments(regression):
    found = features_of(OWN, CONFIG.num_inputs)
    for name in Regression._fields[:-1]:
        np.testing.assert_array_equal(getattr(regression, name), getattr(found, name))
    assert repr(regression.problem) == repr(found.problem)


def test_coordinates_give_covariance_and_start_of_the_weights(regression):
    """H = Q Λ Qᵀ and w_0 − w* = Q √(s/λ): with one eigenvector turned round the start is another."""
    turn, values = experiment.coordinates(regression), regression.problem.eigenvalues
    start = np.sqrt(regression.problem.signal / values)
    np.testing.assert_allclose(turn * values @ turn.T, regression.covariance, atol=1e-12)
    np.testing.assert_allclose(turn @ start, regression.start - regression.best, atol=1e-10)
    wrong = turn * np.where(np.arange(6) == 0, -1, 1)
    assert np.abs(wrong @ start - (regression.start - regression.best)).max() > 0.01


@pytest.mark.parametrize("signs", [True, False])
def test_steps_are_those_of_sample_by_sample_loops(regression, signs):
    """Two pieces of data, read before, at and after the change of piece."""
    size, rates, steps = 256, np.array([0.01, 0.05]), np.array([0, 1, 4, 6])
    draw = experiment.network_rows(replace(CONFIG, num_runs=2), OWN, regression)
    found = experiment.observed(regression, draw, size, rates, steps, signs=signs)
    phi, labels = (np.concatenate(parts, axis=1) for parts in zip(draw(0), draw(1), strict=True))
    for rate_place, rate in enumerate(rates):
        for run in range(2):
            weights, risks = regression.start.copy(), []
            for step in range(7):
                error = weights - regression.best
                risks.append(error @ regression.covariance @ error)
                gradient = np.zeros(6)
                for sample in range(step * size, (step + 1) * size):
                    gradient += phi[run, sample] * (phi[run, sample] @ weights - labels[run, sample]) / size
                weights = weights - rate * (np.sign(gradient) if signs else gradient)
            np.testing.assert_allclose(found[rate_place, run], np.array(risks)[steps], rtol=1e-9)


def test_samples_of_the_network_are_those_of_its_moments(regression):
    """Mean of φ(y − ⟨w*, φ⟩) and of φφᵀ − H: z of each entry, false alarm 1e-4 of all 27; of other weights it fails."""
    draw = experiment.network_rows(CONFIG, OWN, regression_of(OWN, 1 << 18)[0])
    phi, labels = (part.reshape(-1, *part.shape[2:]) for part in draw(0))
    limit = stats.norm.isf(0.5e-4 / 27)
    upper = np.triu_indices(6)

    def misfit(found):
        normal = phi * (labels - phi @ found.best)[:, None]
        pairs = (phi[:, :, None] * phi[:, None, :] - found.covariance)[:, *upper]
        each = np.concatenate([normal, pairs], axis=1)
        return np.abs(each.mean(0) / (each.std(0) / len(each) ** 0.5)).max()

    exact = regression_of(OWN, 1 << 18)[0]
    assert misfit(exact) < limit
    assert misfit(exact._replace(best=exact.best + 0.05)) > limit
    assert misfit(exact._replace(covariance=1.05 * exact.covariance)) > limit


def test_gaussian_rows_follow_the_exact_theory_of_sgd(regression):
    """False alarm 1e-5 of one t-test; a problem with twice the noise must fail it."""
    config = replace(CONFIG, num_runs=256)
    rate, steps = np.array([0.1]), np.array([60])
    draw = experiment.gaussian_rows(config, regression)
    risks = experiment.observed(regression, draw, 8, rate, steps, signs=False)[0, :, 0]
    limit = stats.t.isf(0.5e-5, 255)

    def misfit(problem):
        algorithm = st.Algorithm(average=st.LastIterate())
        exact = st.excess_risk(problem, batch_size=8, learning_rate=0.1, num_samples=480, algorithm=algorithm).total
        return abs(risks.mean() - exact) / (risks.std(ddof=1) / 16)

    problem = regression.problem
    assert misfit(problem) < limit
    assert misfit(st.LeastSquares(problem.eigenvalues, problem.signal, 2 * problem.noise_variance)) > limit


def test_samples_to_a_risk():
    """exp(−n/10) is down to ½ at 10 log 2; a risk that stays above is never there."""
    samples = np.array([0.0, 4, 8, 16])
    found = experiment.samples_to(0.5, samples, np.stack([np.exp(-samples / 10), np.ones(4)]))
    assert found[0] == pytest.approx(10 * np.log(2), rel=1e-12)
    assert np.isnan(found[1])


def rows(predicted=1.1, error=0.01, aligned=0.5, samples=0.9):
    """Three γ at two batch sizes, of every arm; predicted over observed as given."""
    return [
        Row(
            *("tanh", arm, size, rate, float(rate == 0.2), 2.0, 2 * error, 2 * predicted, 0.02, 2 * aligned),
            *(50.0, error, 50 * samples, 100.0),
        )
        for arm in (SIGN, GAUSSIAN, SGD)
        for size in (4.0, 64.0)
        for rate in (0.1, 0.2, 0.4)
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["holds", "holds", "holds", "holds", "holds"]),
        ({"predicted": 1.5}, ["fails", "holds", "fails", "fails", "holds"]),
        ({"samples": 0.5}, ["holds", "fails", "holds", "holds", "holds"]),
        ({"predicted": 1.29}, ["inconclusive", "holds", "inconclusive", "inconclusive", "holds"]),
        ({"aligned": 1.0}, ["holds", "holds", "holds", "holds", "fails"]),
    ],
)
def test_verdicts_of_known_rows(changes, expected):
    found = verdicts(rows(**changes), CONFIG, 1.0)
    assert [each.verdict for each in found] == expected
    check_figure(figure(rows(**changes), CONFIG))


def test_one_cell_outside_fails_and_none_at_all_tells_nothing():
    table = rows()
    table[4] = table[4]._replace(predicted=2 * 0.7)
    assert verdicts(table, CONFIG, 0.0)[0].verdict == "fails"
    assert answer([], 1.3) == "inconclusive"


def test_a_small_run(regression):
    result = experiment.run(CONFIG)
    assert result.columns.keys() == result.units.keys()
    table = [Row(*each) for each in zip(*(result.columns[name] for name in Row._fields), strict=True)]
    assert len(near(table, "tanh", SIGN)) >= 2
    own = [row for row in table if row.arm == SIGN and np.isfinite(row.predicted)]
    assert all(abs(np.log(row.predicted / row.observed)) < 0.5 for row in own)
    assert len(result.verdicts) == 5
    check_figure(result.figures["sign_features"])


def test_recorded_rates_were_tuned():
    """The best γ of every arm and batch size lies inside its grid."""
    table = rows_of(Row, Recorded(FOLDER / "sign_features").rows)
    for row in (each for each in table if each.best):
        same = [each for each in table if each[:3] == row[:3]]
        rates = [each.learning_rate for each in same]
        assert min(rates) < row.learning_rate < max(rates)
        assert row.observed == min(each.observed for each in same if np.isfinite(each.observed))
