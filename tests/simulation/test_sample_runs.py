import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems import drawn_sample
from sgdtheory.simulation.sample_runs import _order
from tests.risk.passes import dense, rows_of

RARE = 3.9  # standard errors that one in 1e4 samples exceeds
SETTING = {"batch_size": 2, "learning_rate": 0.3, "num_samples": 240}


def problem(dim=6):
    return st.PowerLaw(1.2, 1.5, dim=dim, noise_variance=0.5)


@pytest.mark.parametrize(
    "algorithm",
    [
        st.Algorithm(),
        st.Algorithm(schedule=st.Cosine(), average=st.LastIterate()),
        st.Algorithm(average=st.ExponentialAverage(window=0.2)),
    ],
)
def test_risks_of_the_rows(algorithm):
    finite = problem().with_samples(12, seed=0)
    found = st.simulate(jax.random.key(0), finite, **SETTING, algorithm=algorithm, num_replicas=1500)
    assert abs(found.z_score(st.excess_risk(finite, **SETTING, algorithm=algorithm).total)) < RARE


def test_wrong_laws_fail():
    """Without the label noise that is fitted, with the population's covariance, of fresh samples."""
    finite = problem().with_samples(12, seed=0)
    sample = drawn_sample(finite)
    found = st.simulate(jax.random.key(1), finite, **SETTING, num_replicas=1500)
    given = *rows_of(sample), sample.start, sample.scale, 2, np.full(120, 0.3)
    assert abs(found.z_score(dense(*given)[1])) < RARE
    wrong = dense(*given, drive=False)[1], dense(*given, population=np.diag(sample.scale**2))[1]
    fresh = st.excess_risk(problem(), **SETTING).total
    assert all(abs(found.z_score(each)) > 5 for each in (*wrong, fresh))


def test_the_diagonal_theory_of_many_directions():
    finite = problem(300).with_samples(270, seed=0)
    setting = {"batch_size": 4, "learning_rate": 0.2, "num_samples": 600}
    algorithm = st.Algorithm(st.HeavyBall(0.5), average=st.TailAverage(0.5))
    found = st.simulate(jax.random.key(0), finite, **setting, algorithm=algorithm, num_replicas=60)
    risk = st.excess_risk(finite, **setting, algorithm=algorithm)
    assert abs(found.mean / risk.total - 1) < risk.relative_error + RARE * found.standard_error / found.mean


def test_without_a_seed_every_replica_has_its_own_rows():
    finite = problem(3).with_samples(12)
    gentle = SETTING | {"learning_rate": 0.1}
    found = st.simulate(jax.random.key(0), finite, **gentle, num_replicas=300)
    one = st.simulate(jax.random.key(0), finite.drawn(0), **gentle, num_replicas=300)
    assert np.std(found.excess_risk) > 2 * np.std(one.excess_risk)
    drawn = [st.excess_risk(finite.drawn(seed), **gentle).total for seed in range(200)]
    assert abs(found.mean - np.mean(drawn)) < RARE * np.hypot(found.standard_error, np.std(drawn) / np.sqrt(200))


def test_a_pass_without_replacement_is_a_permutation():
    following = _order(np.random.default_rng(0), 10, False, 9)
    drawn = np.concatenate([following(count) for count in (4, 5, 9, 9)]).reshape(3, 9)
    assert all(np.unique(row).size == 9 for row in drawn)
    assert len({tuple(row) for row in drawn}) == 3
    again = _order(np.random.default_rng(0), 10, True, 9)(1000)
    assert np.unique(again).size == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trajectory": 3}, "trajectory must be left at 0"),
        ({"law": "rademacher", "sampler": "explicit"}, "sampler must be left at 'sufficient'"),
        ({"algorithm": st.Algorithm(st.SignSGD())}, "algorithm must be linear"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        st.simulate(jax.random.key(0), problem().with_samples(12, seed=0), **SETTING, num_replicas=2, **options)
