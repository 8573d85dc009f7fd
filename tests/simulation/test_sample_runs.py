import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems import drawn_sample
from sgdtheory.simulation.task import of_sample
from tests.risk.passes import dense, gradient_steps, rows_of

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


@pytest.mark.parametrize("own", [True, False])
def test_replicas_share_the_rows_of_a_seed_alone(own):
    """In units in which signal and noise add up to 1; without a seed the rows of each replica are its own."""
    task = of_sample(problem().with_samples(12, seed=None if own else 0), np.array([7, 8], np.uint32), "float64")
    scale = np.sqrt(problem().initial_risk + 0.5)
    assert task.scale == pytest.approx(scale)
    rows = task.source.rows([0, 4], np.float64, task.scale)
    assert len(rows.features) == len(rows.noise) == 1 + (24 if own else 12)
    if own:
        alone = task.source.rows([4], np.float64, task.scale)
        np.testing.assert_array_equal(rows.features[12:], alone.features)
        assert not np.isclose(rows.features[:12, :6], alone.features[:12, :6]).any()
    else:
        sample = drawn_sample(problem().with_samples(12, seed=0))
        features, noise = rows_of(sample)
        np.testing.assert_allclose(rows.features[:12, :6] * sample.scale, features)
        np.testing.assert_allclose(rows.noise[:12] * scale, noise)


@pytest.mark.parametrize("replacement", [False, True])
def test_every_replica_reads_its_rows_one_step_after_the_other(replacement):
    """By hand in NumPy, with nine of ten rows an epoch in a new order; risks on the way, and an end within an epoch."""
    finite = problem().with_samples(10, seed=0, replacement=replacement)
    setting = {"batch_size": 3, "learning_rate": 0.2, "num_samples": 3 * 8, "num_replicas": 2, "dtype": "float64"}
    found = st.simulate(jax.random.key(0), finite, **setting, trajectory=3)
    sample = drawn_sample(finite)
    features, noise = rows_of(sample)
    words = np.asarray(jax.random.bits(jax.random.key(0), (2,), "uint32")).tolist()
    for replica in range(2):
        random = np.random.default_rng([*words, 1, replica])
        epochs = [random.integers(10, size=24)] if replacement else [random.permutation(10)[:9] for _ in range(3)]
        batches = np.concatenate(epochs)[:24].reshape(8, 3)
        assert replacement or all(np.unique(np.concatenate(batches[k : k + 3])).size == 9 for k in (0, 3))
        errors = gradient_steps(features, noise, sample.start, batches, 0.2)
        for number, step in enumerate(found.trajectory.num_steps):
            both = errors[step], errors[:step].mean(0)
            expected = [((sample.scale * each) ** 2).sum() for each in both]
            risks = found.trajectory.last_iterate_risk[number, replica], found.trajectory.excess_risk[number, replica]
            np.testing.assert_allclose(risks, expected, rtol=1e-10)


@pytest.mark.parametrize("seed", [0, None])
def test_the_memory_limit_does_not_change_the_numbers(seed):
    """Replicas one by one, over two runs of a batch size that varies: each begins its epochs anew."""
    finite = problem().with_samples(12, seed=seed, replacement=False)
    algorithm = st.Algorithm(st.HeavyBall(0.5), batch_schedule=st.Linear(final=3), average=st.TailAverage(0.5))
    setting = {"batch_size": [2, 3], "learning_rate": 0.1, "num_samples": 120, "num_replicas": 3}
    options = {"algorithm": algorithm, "dtype": "float64"}
    whole, parts = (st.simulate(jax.random.key(0), finite, **setting, **options, memory_limit=m) for m in (1e9, 1))
    np.testing.assert_allclose(whole.excess_risk, parts.excess_risk, rtol=1e-10)
    assert np.unique(whole.excess_risk).size == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantity": "bias"}, "quantity must be left at 'total'"),
        ({"law": "rademacher", "sampler": "explicit"}, "sampler must be left at 'sufficient'"),
        ({"algorithm": st.Algorithm(st.SignSGD())}, "algorithm must be linear"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        st.simulate(jax.random.key(0), problem().with_samples(12, seed=0), **SETTING, num_replicas=2, **options)
