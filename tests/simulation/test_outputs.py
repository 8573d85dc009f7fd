"""Several outputs, and Muon on them, against dense batches in NumPy, exact risks and what has to be the same."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

import sgdtheory as st
from sgdtheory.algorithms.coordinates import random_rotation
from sgdtheory.algorithms.muon import newton_schulz, polar
from sgdtheory.simulation.dynamics import Draw, Spectrum
from sgdtheory.simulation.simulator import key_words
from sgdtheory.simulation.task import random_directions
from sgdtheory.simulation.wishart import Wishart
from tests.marks import slow
from tests.simulation.small import PROBLEM, columns
from tests.simulation.statistical import FALSE_ALARM, normal_limit, standard_score, two_sample_p

KEY = jax.random.key(2)
LAST = st.LastIterate()
RATES = [0.3, 0.3, 0.15, 0.15]
BATCHES = [2, 2, 4, 4]
SHAPES = st.Stages([0, 0.5], [1, 0.5]), st.Stages([0, 1 / 3], [1, 2])
REPLICAS = 4000
METHODS = {
    "sgd": st.SGD(),
    "muon": st.Muon(0.0),
    "muon, momentum": st.Muon(0.6),
    "muon, Nesterov": st.Muon(0.9, nesterov=True),
    "muon, published": st.Muon(0.6, nesterov=True, newton_schulz=5),
    "normalized": st.NormalizedSGD(0.6),
    "rotated sign": st.SignSGD(0.6, basis="random"),
    "adam": st.Adam(0.6, 0.8, 0.1),
}
WRONG = {  # what a method must be told from
    "sgd": st.SGD(weight_decay=0.1),
    "muon": st.Muon(0.3),
    "muon, momentum": st.Muon(0.1),
    "muon, Nesterov": st.Muon(0.2, nesterov=True),
    "muon, published": st.Muon(0.6, nesterov=True),
    "normalized": st.NormalizedSGD(0.1),
    "rotated sign": st.SignSGD(0.6),
    "adam": st.Adam(0.6, 0.8, 0.5),
}
CASES = [
    ("muon", 2, "sufficient"),
    ("muon, momentum", 5, "sufficient"),
    ("muon, Nesterov", 2, "sufficient"),
    ("rotated sign", 2, "sufficient"),
    ("sgd", 5, "sufficient"),
    slow("muon, published", 5, "sufficient"),
    slow("normalized", 2, "sufficient"),
    slow("adam", 5, "sufficient"),
    slow("muon, momentum", 2, "explicit"),
]


def simulated(method, outputs, key=KEY, problem=PROBLEM, **options):
    setting = {"batch_size": 2, "learning_rate": 0.3, "num_samples": 24, "num_replicas": REPLICAS} | options
    average = setting.pop("average", LAST)
    shapes = setting.pop("shapes", (st.Constant(), st.Constant()))
    algorithm = st.Algorithm(method, *shapes, average=average, clip_norm=setting.pop("clip_norm", None))
    return st.simulate(key, problem, **setting, outputs=outputs, algorithm=algorithm)


def polars(matrices):
    left, _, right = np.linalg.svd(matrices, full_matrices=False)
    return left @ right


def quintics(matrices):
    """Five steps of the published iteration, on singular values."""
    left, size, right = np.linalg.svd(matrices, full_matrices=False)
    x = size / np.sqrt((size**2).sum(-1, keepdims=True))
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    return left * x[:, None, :] @ right


def textbook(rng, method, outputs, split, basis):
    """(R, 2) risks of the uniform average and of the last iterate: dense batches, (R, m, d) weights."""
    d = len(PROBLEM.eigenvalues)
    root = np.sqrt(PROBLEM.eigenvalues)
    away = split * np.sqrt(PROBLEM.signal) / root @ basis.T  # w − w*
    w = np.tile(away, (REPLICAS, 1, 1))
    m, v, path = np.zeros_like(w), np.zeros_like(w), [w]
    for step, (rate, batch) in enumerate(zip(RATES, BATCHES, strict=True)):
        x = rng.standard_normal((REPLICAS, batch, d)) * root @ basis.T
        noise = np.sqrt(PROBLEM.noise_variance / outputs) * rng.standard_normal((REPLICAS, batch, outputs))
        g = np.einsum("rbm,rbd->rmd", np.einsum("rbd,rmd->rbm", x, w) - noise, x) / batch
        beta = getattr(method, "momentum", getattr(method, "beta1", 0.0))
        m = beta * m + (1 - beta) * g
        if isinstance(method, st.SGD):
            moved = g + method.weight_decay * w
        elif isinstance(method, st.Muon):
            ahead = beta * m / (1 - beta ** (step + 2)) + (1 - beta) * g / (1 - beta ** (step + 1))
            seen = ahead if method.nesterov else m
            moved = quintics(seen) if method.newton_schulz else polars(seen)
        elif isinstance(method, st.NormalizedSGD):
            moved = m / np.sqrt((m**2).sum((1, 2), keepdims=True))
        elif isinstance(method, st.SignSGD):
            moved = np.sign(m)
        else:
            v = method.beta2 * v + (1 - method.beta2) * g**2
            size = np.sqrt(v / (1 - method.beta2 ** (step + 1))) + method.epsilon
            moved = m / (1 - beta ** (step + 1)) / size
        w = w - rate * moved
        path.append(w)
    both = np.stack([np.mean(path[:-1], 0), path[-1]])
    return ((both @ basis * root) ** 2).sum((2, 3)).T


@pytest.mark.parametrize(("name", "outputs", "sampler"), CASES)
def test_risks_have_the_law_of_dense_batches(name, outputs, sampler):
    """Batches of fewer rows than directions and of more, more outputs than directions and fewer; false alarm 1e-4."""
    method = METHODS[name]
    average = st.UniformAverage()
    options = {"num_samples": sum(BATCHES), "shapes": SHAPES, "average": average, "sampler": sampler}
    found = simulated(method, outputs, dtype="float64", **options)
    assert found.num_steps == len(BATCHES)
    split = random_directions(key_words(KEY), outputs, 3)

    def dense(which):
        rotated = getattr(which, "basis", "") == "random"
        basis = random_rotation(3, key_words(KEY).tolist()) if rotated else np.eye(3)
        return textbook(np.random.default_rng(1), which, outputs, split, basis).round(9)

    mine = columns(found).round(9)
    assert two_sample_p(mine, dense(method)) > FALSE_ALARM / len(CASES)
    assert two_sample_p(mine, dense(WRONG[name])) < 1e-6


@dataclass(frozen=True)
class OfFullRank(Wishart):
    """Columns beyond the B-th stay."""

    def gradient(self, spectrum, error, draw):
        return super().gradient(spectrum, error, draw._replace(batch=jnp.maximum(draw.batch, float(error.shape[1]))))


@dataclass(frozen=True)
class OneDegreeMore(Wishart):
    """χ_{B+1−k} in the place of χ_{B−k}: of batches of one row more, over B."""

    def gradient(self, spectrum, error, draw):
        more = draw._replace(batch=draw.batch + 1)
        return super().gradient(spectrum, error, more) * (more.batch / draw.batch)


@partial(jax.jit, static_argnums=0)
def increments(sampler, keys, batch, error):
    """(R, m, d) of one step at rate 1; compiled once for all batch sizes."""
    spectrum = Spectrum(np.array([1.0, 0.5, 0.1]), error, np.array(0.7))

    def one(key):
        return -sampler.gradient(spectrum, error, Draw(key, np.uint32(5), batch, ()))

    return jax.vmap(one)(keys)


def gradients(sampler, batch, dim=3, outputs=2, replicas=20_000):
    """(R, 6) numbers of what one step at rate 1 adds to u: both samplers see the same u."""
    error = np.random.default_rng(0).standard_normal((outputs, dim))
    keys = jax.random.key_data(jax.random.split(KEY, replicas)).astype(np.uint32)
    step = np.asarray(increments(sampler, keys, float(batch), error))
    size = np.linalg.svd(step, compute_uv=False)
    return np.column_stack([step[:, 0, 0], step[:, 1, 2], step[:, 0, 1] * step[:, 1, 1], size, size.prod(1)])


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
def test_a_step_has_the_law_of_a_batch(batch):
    """Entries, products and singular values of one step; false alarm 1e-4 over all batch sizes; two controls."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(2)
        root = np.sqrt([1.0, 0.5, 0.1])
        error = np.random.default_rng(0).standard_normal((2, 3))
        z = rng.standard_normal((20_000, batch, 3))
        residual = z @ error.T - 0.7 * rng.standard_normal((20_000, batch, 2))
        step = -np.swapaxes(residual, 1, 2) @ z / batch * root**2
        size = np.linalg.svd(step, compute_uv=False)
        dense = np.column_stack([step[:, 0, 0], step[:, 1, 2], step[:, 0, 1] * step[:, 1, 1], size, size.prod(1)])
        dense = dense.round(12)  # products of singular values that are 0 to rounding
        assert two_sample_p(gradients(Wishart(), batch).round(12), dense) > FALSE_ALARM / 4
        assert two_sample_p(gradients(OneDegreeMore(), batch).round(12), dense) < 1e-6
        if batch < 3:
            assert two_sample_p(gradients(OfFullRank(), batch).round(12), dense) < 1e-6


@pytest.mark.parametrize(
    ("method", "outputs"),
    [(st.SGD(), 6), (st.HeavyBall(0.6), 2), slow(st.SGD(), 2), slow(st.HeavyBall(0.6), 6)],
)
def test_linear_methods_have_the_exact_risk(method, outputs):
    """The mean summed over outputs is the ordinary one; false alarm 1e-4 over the test.

    The control has m σ², at least 23 standard errors from the mean of 1,000 replicas, where the limit is 4.5.
    """
    setting = {"batch_size": [1, 2, 8], "learning_rate": 0.2, "num_samples": [20, 60, 300]}
    algorithm = st.Algorithm(method, st.Cosine(), average=st.TailAverage(0.5))
    options = {"num_replicas": 1000, "algorithm": algorithm}
    noisy = replace(PROBLEM, noise_variance=8.0)
    found = st.simulate(KEY, noisy, **setting, **options, outputs=outputs)
    exact = st.excess_risk(noisy, **setting, algorithm=algorithm).total
    limit = normal_limit(4 * 3)
    assert (abs(found.z_score(exact)) < limit).all()
    wrong = st.excess_risk(replace(noisy, noise_variance=8.0 * outputs), **setting, algorithm=algorithm).total
    assert (abs(found.z_score(wrong)) > 2 * limit).all()


def test_averaged_sgd_of_infinitely_many_directions():
    """Directions outside the simulation are noise of each output, and its risk; false alarm 1e-4."""
    law = st.PowerLaw(2.0, 1.5)
    setting = {"batch_size": 4, "learning_rate": 0.3, "num_samples": 80}
    found = st.simulate(KEY, law, **setting, num_replicas=64, outputs=3)
    assert found.truncation.tail_risk > 0.01
    assert abs(found.z_score(st.excess_risk(law, **setting).total)) < normal_limit(1)


@pytest.mark.parametrize("method", [slow(st.SignSGD(0.5)), st.Adam(0.5, 0.8)])
def test_what_looks_at_each_weight_does_to_an_output_what_it_does_alone(method):
    """The mean is the sum over outputs, each an ordinary problem; false alarm 1e-4 over both; the control has 4γ."""
    split = random_directions(key_words(KEY), 3, 3)
    parts = [st.LeastSquares(PROBLEM.eigenvalues, PROBLEM.signal * row**2, PROBLEM.noise_variance / 3) for row in split]
    alone = [simulated(method, 1, key=jax.random.key(8 + k), problem=part) for k, part in enumerate(parts)]
    found = simulated(method, 3)
    mean = sum(each.mean for each in alone)
    error = np.sqrt(sum(each.standard_error**2 for each in (found, *alone)))
    assert abs(found.mean - mean) / error < normal_limit(2)
    assert abs(simulated(method, 3, learning_rate=1.2).mean - mean) / error > 10


@pytest.mark.parametrize(("batch", "clip_norm"), [slow(1, None), slow(7, None), (2, 0.5)])
def test_muon_of_one_output_is_normalized_sgd(batch, clip_norm):
    options = {"batch_size": batch, "num_samples": batch * 20, "num_replicas": 8, "dtype": "float64"}
    options |= {"shapes": SHAPES, "average": st.TailAverage(0.5), "clip_norm": clip_norm}
    found, other = (simulated(each, 1, **options).excess_risk for each in (st.Muon(0.7), st.NormalizedSGD(0.7)))
    np.testing.assert_allclose(found, other, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-20, 1e12])
@pytest.mark.parametrize("unit", [1e-30, 1e9])
@pytest.mark.parametrize("method", [st.Muon(0.5), st.Muon(0.5, newton_schulz=5)])
def test_units_do_not_matter(method, unit, scale):
    """The units of y² and of λ do not matter."""
    other = st.LeastSquares(unit * PROBLEM.eigenvalues, scale * PROBLEM.signal, scale * PROBLEM.noise_variance)
    options = {"num_replicas": 8, "dtype": "float64"}
    found = simulated(method, 2, problem=other, learning_rate=0.3 * np.sqrt(scale / unit), **options)
    np.testing.assert_allclose(found.excess_risk, scale * simulated(method, 2, **options).excess_risk, rtol=1e-6)


def test_a_huge_batch_is_the_path_without_noise():
    """Muon on the mean gradient ΔH, by hand."""
    options = {"batch_size": 2.0**99, "num_samples": 2.0**99 * 6, "num_replicas": 2, "dtype": "float64"}
    found = simulated(st.Muon(0.0), 2, **options)
    weights = random_directions(key_words(KEY), 2, 3) * np.sqrt(PROBLEM.signal / PROBLEM.eigenvalues)
    for _ in range(6):
        weights = weights - 0.3 * linalg.polar(weights * PROBLEM.eigenvalues)[0]
    np.testing.assert_allclose(found.excess_risk, (PROBLEM.eigenvalues * weights**2).sum(), rtol=1e-9)


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5), (1, 6)])
def test_polar(shape):
    """Against scipy, and against the quintic's values on singular values."""
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal(shape)
    with jax.enable_x64(True):
        np.testing.assert_allclose(polar(jnp.asarray(matrix)), linalg.polar(matrix)[0], atol=1e-12)
        np.testing.assert_allclose(newton_schulz(jnp.asarray(matrix), 5), quintics(matrix[None])[0], atol=1e-12)


def test_nesterov_looks_at_what_momentum_will_be():
    """Return the polar factor of the mean of buffer and gradient, with both bias corrections, in the eighth step."""
    rng = np.random.default_rng(5)
    gradient, kept = rng.standard_normal((2, 3, 5))
    with jax.enable_x64(True):
        for nesterov in (False, True):
            found, (m,) = st.Muon(0.9, nesterov=nesterov).direction(jnp.asarray(gradient), (jnp.asarray(kept),), 7)
            np.testing.assert_allclose(m, 0.9 * kept + 0.1 * gradient, rtol=1e-12)
            seen = 0.9 * m / (1 - 0.9**9) + 0.1 * gradient / (1 - 0.9**8) if nesterov else m
            np.testing.assert_allclose(found, linalg.polar(np.asarray(seen))[0], atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_polar_below_the_rank(dtype):
    """A matrix of two outer products has two singular values 1; the others, of rounding, are 0."""
    rng = np.random.default_rng(4)
    left, right = rng.standard_normal((5, 2)), rng.standard_normal((2, 8))
    with jax.enable_x64(dtype == "float64"):
        found = np.asarray(polar(jnp.asarray((left @ right).astype(dtype))))
        nothing = np.asarray(polar(jnp.zeros((3, 4), dtype)))
    np.testing.assert_allclose(np.linalg.svd(found, compute_uv=False), [1, 1, 0, 0, 0], atol=1e-5)
    projection = np.linalg.pinv(right) @ right
    np.testing.assert_allclose(found.T @ found, projection, atol=1e-4 if dtype == "float32" else 1e-12)
    assert (nothing == 0).all()


def test_directions():
    """(m, d), columns of length 1, the first row positive, others symmetric and independent; false alarm 1e-4."""
    split = random_directions(np.array([3, 4], np.uint32), 40, 500)
    np.testing.assert_allclose((split**2).sum(0), 1, rtol=1e-12)
    assert (split[0] > 0).all()
    scores = [
        standard_score(split[1:].reshape(-1, 1), 0.0),
        standard_score((split[1:-1] * split[2:]).reshape(-1, 1), 0.0),
        standard_score((split**2).T, 1 / 40),
    ]
    assert (abs(np.concatenate(scores)) < normal_limit(42)).all()
    assert (split != random_directions(np.array([3, 5], np.uint32), 40, 500)).any()
    assert (random_directions(np.array([3, 4], np.uint32), 1, 5) == 1).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: st.Muon(1.0), "momentum must be at least 0 and below 1, got 1"),
        (lambda: st.Muon(nesterov=1), "nesterov must be True or False, got 1"),
        (lambda: st.Muon(newton_schulz=-1), "newton_schulz must be"),
        (lambda: simulated(st.Muon(), 0), "outputs must be"),
        (lambda: simulated(st.Muon(), 2, problem=st.PowerLaw(2, 3, 5000)), "dim must be at most 4096 for several out"),
        (lambda: simulated(st.Muon(), 2, problem=st.PowerLaw(2, 3)), "dim must be given for a method without an exact"),
        (
            lambda: simulated(st.SGD(), 10**5, problem=st.PowerLaw(2, 3, 4000)),
            r"dim must be smaller: one replica of 4e\+08 weights takes",
        ),
    ],
)
def test_what_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
