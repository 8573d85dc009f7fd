"""Passes over a finite sample the slow way, in the coordinates of the weights: shares no code with the library."""

import itertools

import numpy as np


def rows_of(sample):
    """(N, d) features and (N,) label noise of a drawn sample."""
    return tuple(np.concatenate(each) for each in zip(*sample.rows(), strict=True))


def gradient_steps(features, noise, start, batches, rate):
    """Every iterate w_t − w*, w_0 first, of batches of rows that are told."""
    errors = [start]
    for rows in batches:
        x = features[list(rows)]
        residual = x @ errors[-1] - noise[list(rows)]
        errors.append(errors[-1] - rate * x.T @ residual / len(rows))
    return np.array(errors)


def enumerated(features, noise, start, scale, batch, rate, steps):
    """Mean risks of the last iterate and of the average over all sequences of batches."""
    draws = list(itertools.product(range(len(features)), repeat=batch))
    risks = []
    for batches in itertools.product(draws, repeat=steps):
        errors = gradient_steps(features, noise, start, batches, rate)
        risks.append([np.sum((scale * each) ** 2) for each in (errors[-1], errors[:-1].mean(0))])
    return np.mean(risks, axis=0)


def dense(features, noise, start, scale, batch, rates, *, fourth=True, drive=True, population=None):
    """Risks of the last iterate and of the average by second moments of (w − w*, sum, 1), or of a wrong law.

    Without `fourth` the noise is that of one Gaussian direction more; without `drive` labels pull nowhere in the mean;
    with `population` it is the population's covariance that noise has.
    """
    dim = start.size
    rows = np.column_stack([features, np.zeros((len(features), dim)), -noise])
    if not drive:
        rows[:, -1] = 0.0
    mean = rows.T @ rows / len(rows)
    state = np.concatenate([start, np.zeros(dim), [1.0]])
    second = np.outer(state, state)
    moved = np.zeros((2 * dim + 1, 2 * dim + 1))
    moved[:dim, :dim] = np.eye(dim)
    sums = np.eye(2 * dim + 1)
    sums[dim : 2 * dim, :dim] = np.eye(dim)
    for rate in rates:
        if fourth and population is None:
            seen = np.einsum("ni,ij,nj->n", rows, second, rows)
            noisy = (rows * seen[:, None]).T @ rows / len(rows)
        else:
            loss = np.trace(mean @ second)
            here = mean.copy()
            if population is not None:
                here[:dim, :dim] = population
            noisy = here * loss
        pull = moved @ mean
        step = sums - rate * pull
        second = step @ second @ step.T + rate**2 / batch * moved @ (noisy - mean @ second @ mean) @ moved
    square = np.diag(second)
    return np.array([scale**2 @ square[:dim], scale**2 @ square[dim : 2 * dim] / len(rates) ** 2])


def diagonal(weight, count, excess, least_loss, seen, number, batch, rate, steps):
    """Σ seen m of iterate and average by T42's recursion of the nodes' losses."""
    x = rate * weight
    kept = number / (number + 2)
    loss = excess.astype(float)
    injected = []
    for _ in range(steps):
        total = least_loss + loss.sum()
        noise = x**2 / batch * (kept * (count * total + 2 * loss) - loss)
        injected.append(noise)
        loss = (1 - x) ** 2 * loss + noise
    later = steps - 1 - np.arange(steps)
    spread = (1 - (1 - x) ** later[:, None]) / x
    mean = (1 - (1 - x) ** steps) / x
    average = (np.array(injected) * spread**2).sum(0) + excess * mean**2
    return np.array([seen @ loss, seen @ average / steps**2])
