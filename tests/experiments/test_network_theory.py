"""Theory against a network's trained output layer: its pieces by independent computations, and all of it, tiny."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from experiments import theory_meets_network as experiment
from experiments._lib import frozen_features as frozen
from experiments._lib.results import write_result
from sgdtheory.training import read_weights, train

CONFIG = experiment.Config(
    fields=experiment.FIELDS | {"width": 6, "input_dim": 5},
    num_samples=(64, 256),
    batch_sizes=(4, 8, 16),
    num_seeds=24,
    steps_each=4,
    num_inputs=1 << 14,
    num_resamples=50,
)
OWN = CONFIG.run()
RATE, STEPS = np.array([0.1, 0.4]), np.array([1, 5, 24])


@pytest.fixture(scope="module")
def features():
    return frozen.features_of(OWN, CONFIG.num_inputs)


def gaussian(features, factor=1.0):
    """The same covariance with Gaussian fourth moments, T1, and independent noise."""
    h, dim = features.covariance, len(features.best)
    fourth = np.einsum("ij,kl->ijkl", h, h) + np.einsum("ik,jl->ijkl", h, h) + np.einsum("il,jk->ijkl", h, h)
    parts = {"fourth": factor * fourth.reshape(dim**2, dim**2), "residual": np.zeros_like(features.residual)}
    return features._replace(noise=features.problem.noise_variance * h, **parts)


def test_moments_of_gaussian_features_give_the_theory(features):
    found = frozen.moments_risk(gaussian(features), batch_size=4.0, learning_rate=RATE, steps=STEPS)
    exact = st.excess_risk(features.problem, batch_size=4, learning_rate=RATE[:, None], num_samples=4 * STEPS).total
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    wrong = frozen.moments_risk(gaussian(features, 1.1), batch_size=4.0, learning_rate=RATE, steps=STEPS)
    assert (np.abs(wrong / exact - 1)[:, 1:] > 1e-4).all()


def test_problem_of_the_features(features):
    error = features.start - features.best
    assert features.problem.initial_risk == pytest.approx(error @ features.covariance @ error, rel=1e-12)
    assert features.problem.trace == pytest.approx(np.trace(features.covariance), rel=1e-12)
    assert features.unit == 2 / 6  # the gradient's 2 and µP's rate r^−1 at r = 6
    assert features.problem.noise_variance > 2.0


@pytest.mark.slow
def test_measured_risk_is_that_of_the_trainers_weights(features, tmp_path):
    found = frozen.measured_risk(OWN, features, 8, RATE, STEPS, num_seeds=CONFIG.num_seeds)
    changes = {"learning_rate": float(RATE[1] / features.unit), "batch_size": 8, "max_steps": 24, "data_seed": 3}
    train(replace(OWN, **changes), tmp_path)
    error = np.asarray(read_weights(tmp_path, "uniform")["output"][:, 0], float) - features.best
    assert found[1, 3, -1] == pytest.approx(error @ features.covariance @ error, rel=1e-4)


def misfit(features, rate):
    """Standard errors between measured and exact risk, over seeds; steps and γ together, so that it is one test."""
    size, steps = 8, STEPS[1:]
    noise = frozen.label_noise(OWN, features, num_seeds=CONFIG.num_seeds, num_samples=size * STEPS[-1], apart=size)
    measured = frozen.measured_risk(OWN, features, size, RATE, steps, num_seeds=CONFIG.num_seeds)
    controlled = measured - frozen.control(features, noise, size, RATE, steps)
    exact = frozen.moments_risk(features, batch_size=size, learning_rate=rate, steps=steps)
    ratios = (controlled / exact[:, None]).mean(axis=(0, 2))
    plain = (measured / exact[:, None]).mean(axis=(0, 2))
    return [(each.mean() - 1) / each.std(ddof=1) * len(each) ** 0.5 for each in (ratios, plain)], ratios, plain


def test_the_network_follows_the_moments_of_its_features(features):
    """False alarm 1e-5 for each of two t-tests; a theory's γ without the gradient's factor 2 must not pass."""
    limit = stats.t.isf(0.5e-5, CONFIG.num_seeds - 1)
    found, controlled, plain = misfit(features, RATE)
    assert np.abs(found).max() < limit
    assert controlled.std() < 0.7 * plain.std()
    wrong, *_ = misfit(features, RATE / 2)
    assert abs(wrong[0]) > limit


def test_crossings_of_power_laws():
    """Risk c/n: the target is met at n = c/target; data D (B/8)^0.2: B* is where they are 1.2 D."""
    steps = np.array([10, 16, 30, 60])
    risks = np.array([[[5.0], [3.0]]]) / steps
    batch = experiment.Batch(8, RATE, steps, *[risks[0]] * 4)
    found = experiment.data_to_target(CONFIG, batch, risks, 250.0, 0.1)
    assert found == pytest.approx([8 * 30 / 250], rel=1e-12)
    assert np.isnan(experiment.data_to_target(CONFIG, batch, risks, 250.0, 0.01)).all()
    sizes = np.array([8, 16, 32, 64])
    assert experiment.critical(CONFIG, sizes, (sizes / 8) ** 0.2) == pytest.approx(8 * 1.2**5, rel=1e-12)
    assert experiment.critical(CONFIG, sizes, np.full(4, 1.3)) == pytest.approx(8)


@pytest.mark.slow
def test_the_experiment(tmp_path):
    result = experiment.run(replace(CONFIG, num_seeds=6))
    write_result(tmp_path, CONFIG, result)
    assert result.columns.keys() == result.units.keys()
    assert set(result.columns["num_samples"]) == {64, 256}
    for kind in ("measured", "controlled", "moments", "gaussian"):
        np.testing.assert_allclose(result.columns[kind], result.columns["gaussian"], rtol=0.9)
    assert [verdict.seconds > 0 for verdict in result.verdicts] == [True, False, False]
    assert (tmp_path / "theory_meets_network.png").stat().st_size > 1e4
