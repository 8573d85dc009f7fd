"""Reshuffled epochs against all orders of a few rows, against one pass, and against runs."""

from itertools import permutations, product

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems import mean_of_samples
from sgdtheory.risk.systems.reshuffled import (
    Moments,
    Sample,
    epoch,
    epoch_memory,
    epoch_steps,
    left_of_a_step,
    reshuffled_passes,
)

RATE = 0.35


def sample_of(x, y):
    """The sample from w_0 = 0, and the (d, J) eigenvectors and (J,) `(ŵ − w_0)_i` that its risk needs."""
    number = len(x)
    left, singular, vectors = np.linalg.svd(x, full_matrices=False)
    weight = singular**2 / number
    held = left.T @ y / np.sqrt(number)
    least = max(float(y @ y / number - held @ held), 0.0) if number > x.shape[1] else 0.0
    return Sample(weight, np.ones(weight.size), held**2, least, number), vectors.T, held / np.sqrt(weight)


def of_all_orders(x, y, *, batch, rate, steps):
    """Mean of w and training loss of the last iterate and of the average, over every order of every epoch."""
    number = len(x)
    length = number // batch
    epochs = -(-steps // length)
    cuts = np.arange(0, length * batch, batch)
    orders = {tuple(tuple(sorted(order[cut : cut + batch])) for cut in cuts) for order in permutations(range(number))}
    losses = []
    for several in product(sorted(orders), repeat=epochs):
        w = np.zeros(x.shape[1])
        total = np.zeros_like(w)
        for here in [list(rows) for order in several for rows in order][:steps]:
            total += w
            w = w - rate / batch * x[here].T @ (x[here] @ w - y[here])
        losses.append([(w, np.mean((x @ w - y) ** 2)), (total / steps, np.mean((x @ total / steps - y) ** 2))])
    return [
        (np.mean([each[place][0] for each in losses], axis=0), np.mean([each[place][1] for each in losses]))
        for place in range(2)
    ]


def with_replacement(sample, *, batch, rate, steps):
    """Return the risk of the last iterate with replacement: the wrong law."""
    held = sample.excess
    for _ in range(steps):
        loss = sample.least_loss + held.sum()
        held = (1 - rate * sample.weight) ** 2 * held + (rate * sample.weight) ** 2 / batch * loss
    return Moments((1 - rate * sample.weight) ** steps, held)


@pytest.mark.parametrize(("number", "batch", "steps"), [(4, 1, 3), (4, 1, 6), (4, 2, 4), (5, 2, 3)])
def test_orthogonal_rows_of_one_length_are_exact(number, batch, steps):
    """All orders, within epochs and beyond them, rows left out of a batch too; with replacement is far away."""
    rng = np.random.default_rng(0)
    x = 1.7 * np.linalg.qr(rng.standard_normal((number + 1, number)))[0].T
    y = rng.standard_normal(number)
    sample, vectors, away = sample_of(x, y)
    found = reshuffled_passes(sample, batch=batch, rate=RATE, steps=[steps], own=0.0)[0]
    for moments, (mean, loss) in zip(found, of_all_orders(x, y, batch=batch, rate=RATE, steps=steps), strict=True):
        np.testing.assert_allclose(vectors @ ((1 - moments.response) * away), mean, rtol=1e-10)
        np.testing.assert_allclose(sample.least_loss + moments.loss.sum(), loss, rtol=1e-8)
    wrong = with_replacement(sample, batch=batch, rate=RATE, steps=steps)
    assert abs(wrong.loss.sum() / found.last.loss.sum() - 1) > 0.02


@pytest.mark.parametrize("shape", [(5, 1), (5, 2), (3, 4)])
def test_a_batch_of_all_rows_is_gradient_descent(shape):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape)
    y = rng.standard_normal(shape[0])
    sample, vectors, away = sample_of(x, y)
    found = reshuffled_passes(sample, batch=shape[0], rate=RATE, steps=[4])[0]
    w = np.zeros(shape[1])
    for _ in range(4):
        w = w - RATE / shape[0] * x.T @ (x @ w - y)
    np.testing.assert_allclose(vectors @ ((1 - found.last.response) * away), w, rtol=1e-10)
    np.testing.assert_allclose(sample.least_loss + found.last.loss.sum(), np.mean((x @ w - y) ** 2), rtol=1e-10)
    np.testing.assert_allclose(found.average.loss, found.average.response**2 * sample.excess, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("dim", "batch"), [(1, 1), (2, 1), (2, 2)])
def test_five_rows_in_one_or_two_directions(dim, batch):
    """Far from many directions: the mean over 20 samples is four times as near to all orders' as the wrong law."""
    scatter = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((5, dim))
        y = x.sum(1) + rng.standard_normal(5)
        sample = sample_of(x, y)[0]
        steps = epoch_steps(5, batch)
        found = reshuffled_passes(sample, batch=batch, rate=0.1, steps=[steps])[0].last
        loss = of_all_orders(x, y, batch=batch, rate=0.1, steps=steps)[0][1]
        wrong = with_replacement(sample, batch=batch, rate=0.1, steps=steps)
        scatter.append(sample.least_loss + np.array([found.loss.sum(), wrong.loss.sum()]) - loss)
    right, wrong = np.abs(np.mean(scatter, axis=0))
    assert right < wrong / 4


def test_many_more_rows_than_steps_are_one_pass():
    """N → ∞ at a fixed number of steps: the exact moments of fresh rows (T2)."""
    problem = st.LeastSquares([1.0, 0.5, 0.2, 0.1], [0.4, 0.2, 0.3, 0.1], noise_variance=0.3)
    weight, excess = problem.directions()
    sample = Sample(weight, np.ones(4), excess, 0.3, 1e11)
    found = epoch(epoch_memory(sample, 3, RATE, 12, 1.0), 12)
    held = np.append(excess, 0.3)
    for average, moment, scale in ((st.LastIterate(), found.moment, 1), (st.UniformAverage(), found.square, 144)):
        exact = st.excess_risk(
            problem, batch_size=3, learning_rate=RATE, num_samples=36, algorithm=st.Algorithm(average=average)
        )
        np.testing.assert_allclose((moment @ held)[:-1].sum() / scale, exact.total, rtol=1e-7)


def mean_risks(problem, number, batch, rate, steps):
    """Risks of last iterate and average, in the mean over samples."""
    drivers = mean_of_samples(problem.with_samples(number, replacement=False))
    sample = Sample(drivers.weight, drivers.count, drivers.excess, drivers.least_loss, number)
    found = reshuffled_passes(sample, batch=batch, rate=rate, steps=[steps])[0]
    return [
        drivers.mean_risk(each.response) + (each.loss - each.response**2 * drivers.excess) @ drivers.seen
        for each in found
    ]


@pytest.mark.parametrize(("capacity", "source", "noise", "share"), [(1.5, 2.0, 1.0, 0.1), (2.0, 1.5, 0.01, 0.6)])
def test_the_first_epoch_is_one_pass_over_fresh_rows(capacity, source, noise, share):
    """The mean over samples after half an epoch and a whole one; what is left out falls like 1/N."""
    problem = st.PowerLaw(capacity, source, noise_variance=noise)
    batch = 8
    rate = share * float(st.max_stable_learning_rate(problem, batch_size=batch))
    for number, steps in ((64, 8), (512, 32), (512, 64)):
        found = mean_risks(problem, number, batch, rate, steps)
        setting = {"batch_size": batch, "learning_rate": rate, "num_samples": steps * batch}
        for risk, average in zip(found, (st.LastIterate(), st.UniformAverage()), strict=True):
            algorithm = st.Algorithm(average=average)
            np.testing.assert_allclose(
                risk, st.excess_risk(problem, **setting, algorithm=algorithm).total, rtol=0.8 / number
            )
            if number == 512:
                wrong = st.excess_risk(problem.with_samples(number), **setting, algorithm=algorithm).total
                assert wrong / risk > 1 + 4 / number


def test_the_memory_of_a_row_is_that_of_fresh_rows():
    """`(γ/B) tr H(1 − γH)^r`, in the mean over samples."""
    problem = st.LeastSquares(np.arange(1.0, 101) ** -1.2, np.ones(100), noise_variance=0.0)
    drivers = mean_of_samples(problem.with_samples(150))
    found = left_of_a_step(drivers.weight, drivers.count, 2, RATE, 150, 8)
    values = problem.directions()[0][:, None]
    np.testing.assert_allclose(found, RATE / 2 * (values * (1 - RATE * values) ** np.arange(8)).sum(0), rtol=1e-6)


def test_runs_that_share_their_epochs_are_those_alone():
    """Ends within an epoch, several learning rates, one of them beyond the edge."""
    problem = st.LeastSquares([1.0, 0.5, 0.2], [0.4, 0.2, 0.3], noise_variance=0.3).with_samples(12, replacement=False)
    rates = [0.2, 0.5, 50.0]
    samples = [60, 24, 42]
    found = st.excess_risk(problem, batch_size=4, learning_rate=np.array(rates)[:, None], num_samples=samples)
    alone = [
        [st.excess_risk(problem, batch_size=4, learning_rate=rate, num_samples=size).total for size in samples]
        for rate in rates
    ]
    np.testing.assert_allclose(found.total, alone, rtol=1e-9)


def test_what_takes_too_many_steps_is_refused():
    sample = Sample(np.ones(1), np.ones(1), np.ones(1), 1.0, 5000)
    with pytest.raises(ValueError, match="batch_size must be at least N/1024 for reshuffled passes, N = 5000, got 2"):
        reshuffled_passes(sample, batch=2, rate=0.1, steps=[10])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("number", "rate"), [(16, 1e10), (32, 1e6)])
def test_an_epoch_that_overflows_has_an_infinite_risk(number, rate):
    """The memory of an epoch is not a number at this learning rate, far beyond the stability threshold."""
    problem = st.PowerLaw(1.5, 2.0, dim=4).with_samples(number, replacement=False)
    risk = st.excess_risk(
        problem,
        batch_size=1,
        learning_rate=rate,
        num_samples=2 * number,
        algorithm=st.Algorithm(average=st.LastIterate()),
    )
    assert risk.total == np.inf
