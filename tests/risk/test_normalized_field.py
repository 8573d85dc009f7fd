"""Normalized SGD's equivalent: one step against sampled gradients, runs against the simulator, limits."""

import jax
import numpy as np
import pytest
from scipy import special

import sgdtheory as st
from sgdtheory.risk import run_risks
from sgdtheory.risk.mean_field import chi
from sgdtheory.risk.mean_field.ensemble import Ensemble
from sgdtheory.risk.mean_field.field import ERROR, MEAN, VARIANCE, Known
from sgdtheory.risk.mean_field.normalized import SIDES, NormalizedField
from sgdtheory.risk.mean_field.signs import SignField

FIELD = NormalizedField()
LAST = st.LastIterate()
LINEAR = st.Algorithm(st.NormalizedSGD(), st.Linear(), average=LAST)
FALSE_ALARM = 4.5  # standard errors: 7e-6


def ensemble_of(eigenvalue, noise):
    """Return an ensemble with one direction that is left out, of no trace."""
    return Ensemble(
        np.append(np.sqrt(eigenvalue), 0.0),
        np.append(eigenvalue, 0.0),
        np.ones(eigenvalue.size + 1),
        np.zeros(eigenvalue.size + 1),
        0.0,
        noise,
    )


def stepped(eigenvalue, mean, variance, noise, batch, rate=1.0, sides=0.0):
    """(3, d) values before and after a step."""
    ensemble = ensemble_of(eigenvalue, noise)
    values = np.stack([np.append(each * np.ones(eigenvalue.size), 0.0) for each in (mean, variance, sides)])[:, None]
    loss = (values[MEAN] ** 2 + values[VARIANCE]) @ FIELD.totals(ensemble).T + [noise, 0.0]
    one = np.ones((1, 1))
    known = Known(0 * one, rate * one, batch * one, FIELD.looked_up(np.zeros(1), np.array([float(batch)])))
    known = known._replace(together=FIELD.together(ensemble, values, loss, known))
    after = values + FIELD.change(ensemble, values, loss, known)
    return values[:, 0, :-1], after[:, 0, :-1], FIELD.mixing(ensemble, values, loss, known)[0, 0, 0, :-1]


def sampled(eigenvalue, mean, noise, batch, size):
    """(size, d) u after a step of rate 1, from w that does not fluctuate: the law of a batch (THEORY.md T36)."""
    random = np.random.default_rng(0)
    loss = noise + (mean**2).sum()
    chi = np.sqrt(random.chisquare(batch, (size, 1)))
    law = np.eye(mean.size) - np.outer(mean, mean) / loss
    z = random.multivariate_normal(0 * mean, law, size)
    h = np.sqrt(eigenvalue) * (chi * mean + np.sqrt(loss) * z)
    return mean - np.sqrt(eigenvalue) * h / np.sqrt((h**2).sum(1, keepdims=True))


@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize(("capacity", "noise"), [(1.5, 1.0), (0.5, 0.01), (2.5, 0.1)])
def test_a_step_is_that_of_sampled_batches(batch, capacity, noise):
    """Means and variances; false alarm 7e-6 each. Half and twice the signal are found out."""
    index = np.arange(1.0, 7)
    eigenvalue = index**-capacity
    mean = 0.6 / index * [1, -1, 1, -1, 1, -1]
    found = sampled(eigenvalue, mean, noise, batch, 200_000)
    off = found.std(0) / np.sqrt(len(found))
    _, after, _ = stepped(eigenvalue, mean, 0.0, noise, batch)
    assert (np.abs(after[MEAN] - found.mean(0)) < FALSE_ALARM * off + 1e-4).all()
    spread = found.var(0)
    uncertain = ((found - found.mean(0)) ** 2).std(0) / np.sqrt(len(found))
    assert (np.abs(after[VARIANCE] - spread) < FALSE_ALARM * uncertain + 1e-3 * spread).all()
    _, other, _ = stepped(eigenvalue, mean, 0.0, 1.2 * noise + 0.1, batch)
    assert (np.abs(other[MEAN] - found.mean(0)) > FALSE_ALARM * off + 1e-4).any()


@pytest.mark.parametrize("batch", [1, 64])
def test_slopes_are_derivatives_of_means(batch):
    """`Cov(u, Δu) = −r ∂E Δu/∂a` for a Gaussian u (Stein)."""
    eigenvalue = np.arange(1.0, 6) ** -1.2
    mean = np.array([0.4, -0.1, 0.3, 0.0, 0.2])
    variance = np.array([0.1, 0.3, 0.0, 0.2, 0.1])
    _, _, mixing = stepped(eigenvalue, mean, variance, 0.3, batch)
    for place in range(mean.size):
        moved = 1e-5 * np.eye(mean.size)[place]
        high, low = (stepped(eigenvalue, mean + sign * moved, variance, 0.3, batch)[1] for sign in (1, -1))
        assert mixing[place] == pytest.approx((high - low)[MEAN, place] / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("batch", [1, 16, 4096])
@pytest.mark.parametrize(("noise", "variance"), [(1.0, 0.01), (0.01, 0.1), (1e-6, 0.3)])
def test_the_length_of_a_step(batch, noise, variance):
    """Σ_i E(h_i/‖h‖)² = 1."""
    index = np.arange(1.0, 40)
    eigenvalue = index**-1.7
    before, after, mixing = stepped(eigenvalue, 0.7 / index, variance / index, noise, batch, rate=1e-3)
    moved = after[MEAN] - before[MEAN]
    scatter = after[VARIANCE] - before[VARIANCE] + 2 * (1 - mixing) * before[VARIANCE]
    assert ((moved**2 + scatter) / eigenvalue).sum() == pytest.approx(1e-6, rel=2e-5)


@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize(("mean", "variance"), [(0.8, 0.02), (2.0, 1.5), (0.05, 1e-8)])
def test_one_direction_is_the_sign(monkeypatch, batch, mean, variance):
    """The number of nodes of χ is the same."""
    monkeypatch.setattr("sgdtheory.risk.mean_field.normalized.NODES_BY_BATCH", chi.NODES_BY_BATCH)
    eigenvalue = np.array([0.25])
    ensemble = ensemble_of(eigenvalue, 0.7)
    _, after, mixing = stepped(eigenvalue, mean, variance, 0.7, batch, rate=0.3)
    values = np.array([[[mean, 0.0]], [[variance, 0.0]]])
    loss = 0.7 + np.full((1, 1), mean**2 + variance)
    one = np.ones((1, 1))
    known = Known(0 * one, 0.3 * one, batch * one, SignField().looked_up(np.zeros(1), np.array([float(batch)])))
    sign = SignField().step(ensemble, values, loss, known)
    assert mean - after[MEAN] == pytest.approx(sign.drift[0, :1], rel=3e-4)
    assert 1 - mixing == pytest.approx(sign.response[0, :1], rel=3e-4, abs=1e-6)


@pytest.mark.parametrize("dim", [2, 5, 300])
def test_noise_alone_and_a_flat_spectrum_are_sgd(dim):
    """At the rate `γ E[1/‖g‖] (1 − 1/d)`: u turns g, and its part along g has no effect. B large: χ is √B."""
    batch = 1e6
    _, _, mixing = stepped(np.ones(dim), 0.0, 0.0, 1.0, batch, rate=1e-3)
    inverse = np.exp(special.gammaln((dim - 1) / 2) - special.gammaln(dim / 2)) / np.sqrt(2)
    assert 1 - mixing == pytest.approx(1e-3 * np.sqrt(batch) * inverse * (1 - 1 / dim), rel=1e-4)


def test_two_sides():
    """One direction far above its noise jumps across its optimum: a Gaussian about 0 becomes ±A, and the next step ends
    where it began. As a Gaussian E u² would be 0.36 after it, nine times as large.
    """
    eigenvalue = np.array([1.0, 0.01])
    _, after, _ = stepped(eigenvalue, 0.0, np.array([0.04, 0.0]), 1e-4, 1e4, rate=1.0)
    u = 0.2 * np.random.default_rng(0).standard_normal(400_000)
    u -= np.sign(u)
    square = (u**2).mean()
    away = np.sqrt((3 * square**2 - (u**4).mean()) / 2)
    assert after[VARIANCE, 0] == pytest.approx(square, rel=0.01)
    assert after[SIDES, 0] == pytest.approx(away, rel=0.02)
    _, again, _ = stepped(eigenvalue, 0.0, after[VARIANCE], 1e-4, 1e4, rate=1.0, sides=after[SIDES])
    u -= np.sign(u)
    assert again[VARIANCE, 0] == pytest.approx((u**2).mean(), rel=0.15)


@pytest.mark.parametrize("average", [st.LastIterate(), st.UniformAverage(), st.TailAverage(0.3)])
@pytest.mark.parametrize("tolerance", [0.0, 1e-5])
def test_panels_follow_two_sides(monkeypatch, average, tolerance):
    """After 128 steps the leading directions still jump: with Gaussians from there on the last risk is 34% less."""
    algorithm = st.Algorithm(st.NormalizedSGD(), schedule=st.Linear(), average=average)
    setting = [np.array([each]) for each in (1992.0, 1.1, 502.0)]

    def risk():
        return run_risks(st.PowerLaw(1.5, 2.0), algorithm, *setting, tolerance=tolerance).parts.sum()

    found = risk()
    monkeypatch.setattr(NormalizedField, "first", 502.0)  # every step by itself
    assert found == pytest.approx(risk(), rel=1e-4)


def test_a_run_whose_directions_jump_is_simulated():
    """The standard error of 64 runs is 0.5%, and the equivalent is 2% below their mean (with Gaussians 29% below)."""
    problem, algorithm = st.PowerLaw(1.5, 2.0, 300), LINEAR
    setting = {"batch_size": 1992, "learning_rate": 0.7, "num_samples": 1992 * 502, "algorithm": algorithm}
    found = st.simulate(jax.random.key(0), problem, **setting, num_replicas=64)
    assert st.excess_risk(problem, **setting).total == pytest.approx(found.mean, rel=0.05)


def test_small_steps_of_many_samples_are_sgd_at_the_rate_of_a_length_that_stays():
    """γ → 0: w hardly moves, and B → ∞: ‖g‖ is that of Hδ."""
    index = np.arange(1.0, 101)
    problem = st.LeastSquares(index**-1.5, index**-2.0)
    length = np.sqrt(np.sum(index**-3.5))
    setting = {"batch_size": 1e12, "num_samples": 5e12}
    found = st.excess_risk(problem, **setting, learning_rate=1e-5, algorithm=LINEAR).total
    sgd = st.excess_risk(
        problem, **setting, learning_rate=1e-5 / length, algorithm=st.Algorithm(schedule=st.Linear(), average=LAST)
    ).total
    assert problem.initial_risk - found == pytest.approx(problem.initial_risk - sgd, rel=1e-4)


def test_what_is_stated():
    setting = {"batch_size": 64, "num_samples": 64 * 200, "algorithm": LINEAR}
    problem = st.PowerLaw(1.5, 2.0, 100)
    small = st.excess_risk(problem, **setting, learning_rate=0.03)
    assert ERROR <= small.relative_error < 0.02
    setting = {"batch_size": 64, "num_samples": 64 * 128, "algorithm": LINEAR}
    jumping = st.excess_risk(st.PowerLaw(1.2, 1.23, 200, 0.4), **setting, learning_rate=1.4)
    assert jumping.relative_error > 0.05
    with pytest.raises(ValueError, match=r"where risks are exact, got NormalizedSGD\(momentum=0.5\)"):
        st.excess_risk(
            problem, batch_size=1, num_samples=50, learning_rate=0.01, algorithm=st.Algorithm(st.NormalizedSGD(0.5))
        )
