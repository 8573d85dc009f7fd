"""T20 as it stands: k×k second moments of every direction, step after step. Shares no code with the library."""

import numpy as np


def table(method, schedule, batch_schedule, batch, rate, num_steps):
    """A, b, c and B of every step, from the objects' public meaning alone."""
    factor = np.array([float(schedule.factors(t, num_steps)) for t in range(num_steps)])
    sizes = np.array([float(batch_schedule.factors(t, num_steps)) for t in range(num_steps)]) * batch
    rows = []
    for t in range(num_steps):
        A, b, c = (np.array(part, dtype=float) for part in method.coefficients(rate * factor[t], float(t))[:3])
        rows.append((A, b, c, max(1.0, float(np.round(sizes[t])))))
    return rows


def moments(eigenvalues, signal, start, rows, average=None, output=None, noise=1.0):
    """Yields, before every step and at the end, M (…, d, k + 1, k + 1) with the average as the last entry of the state.

    signal, noise: (…, d) and (…) of cases that are stepped side by side.
    average: None, or a function t → (ρ_t, ω_t) with S ← ρ S + ω oᵀu; a pair ("exponential", τ) begins at S = oᵀu.
    """
    eigenvalues, signal = np.asarray(eigenvalues, dtype=float), np.asarray(signal, dtype=float)
    noise = np.asarray(noise, dtype=float)[..., None]
    k = len(start)
    first = np.append(start, 0.0)
    keep = average
    if isinstance(average, tuple):
        first[-1] = np.dot(output, start)
        keep = lambda t: (average[1], 1 - average[1])  # noqa: E731
    M = signal[..., None, None] * np.outer(first, first)
    yield M
    for t, (A, b, c, batch) in enumerate(rows):
        rho, omega = keep(t) if keep else (0.0, 0.0)
        big = np.zeros((k + 1, k + 1))
        big[:k, :k], big[k, :k], big[k, k] = A, omega * np.asarray(output, dtype=float) if keep else 0.0, rho
        noise_in, seen = np.append(b, 0.0), np.append(c, 0.0)
        step = big - eigenvalues[:, None, None] * np.outer(noise_in, seen)
        own = M @ seen @ seen
        drive = eigenvalues**2 / batch * (own + own.sum(-1, keepdims=True) + noise)
        M = step @ M @ step.transpose(0, 2, 1) + drive[..., None, None] * np.outer(noise_in, noise_in)
        yield M


def keeping(name, value, num_steps):
    """(ρ_t, ω_t) of an average by its definition, as a running mean."""
    if name == "uniform":
        return lambda t: (t / (t + 1), 1 / (t + 1))
    if name == "tail":
        first = num_steps - int(np.ceil(value * num_steps))
        return lambda t: ((t - first) / (t - first + 1), 1 / (t - first + 1)) if t >= first else (0.0, 0.0)
    return ("exponential", value)


def risk(problem, algorithm, *, batch, rate, num_steps, average):
    """(bias, variance) at the end; average is "last" or (name, value)."""
    method, output = algorithm.method, np.asarray(algorithm.method.output, dtype=float)
    eigenvalues, signal = problem.directions()
    rows = table(method, algorithm.schedule, algorithm.batch_schedule, batch, rate, num_steps)
    keep = None if average == "last" else keeping(*average, num_steps)
    weights = np.append(output, 0.0) if keep is None else np.append(0 * output, 1.0)
    parts = np.array([signal, 0 * signal]), np.array([0.0, problem.noise_variance])
    *_, end = moments(eigenvalues, parts[0], method.start, rows, keep, output, parts[1])
    return (end @ weights @ weights).sum(-1)
