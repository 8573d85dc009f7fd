"""T20 step by step for many runs at once, of different algorithms or of one. Shares no code with the library."""

import numpy as np

import sgdtheory as st


def coefficients(method, rate):
    """A (n, …, 2, 2), b and c (n, …, 2), start and output (2,) of every step, by T21; unused entries are 0."""
    one, zero = np.ones_like(rate), np.zeros_like(rate)
    if isinstance(method, st.HeavyBall):
        beta = method.momentum
        return _rows([[one, -rate * beta], [zero, beta * one]], [rate, -one], [one, zero]), (1, 0), (1, 0)
    if isinstance(method, st.Nesterov):
        beta = method.momentum
        A = [[one, -rate * beta**2], [zero, beta * one]]
        return _rows(A, [rate * (1 + beta), -one], [one, zero]), (1, 0), (1, 0)
    if isinstance(method, st.ScheduleFree):
        share, beta = 1 / one.cumsum(0), method.interpolation * one
        return _rows([[one, zero], [share, 1 - share]], [rate, share * rate], [1 - beta, beta]), (1, 1), (0, 1)
    if isinstance(method, st.AcceleratedSGD):
        alpha, beta = method.coupling * one, method.forgetting
        A = [[alpha, 1 - alpha], [beta * alpha, 1 - beta * alpha]]
        return _rows(A, [rate, method.long_step * rate], [alpha, 1 - alpha]), (1, 1), (1, 0)
    shrink = rate * method.weight_decay
    return _rows([[1 - shrink, -shrink], [zero, one]], [rate, zero], [one, zero]), (1, -1), (1, 0)


def _rows(A, b, c):
    return np.moveaxis(A, (0, 1), (-2, -1)), np.moveaxis(b, 0, -1), np.moveaxis(c, 0, -1)


def kept(average, n):
    """First step that counts, ρ and ω of `S ← ρS + ωw`, what S is divided by, and whether S begins as the iterate."""
    if isinstance(average, st.ExponentialAverage):
        tau = average.decay if average.decay is not None else 1 - 1 / max(average.window * n, 1.0)
        return 0, tau, 1 - tau, 1.0, True
    if isinstance(average, st.LastIterate):
        return n, 1.0, 1.0, 1.0, False
    many = int(np.ceil(average.fraction * n)) if isinstance(average, st.TailAverage) else n
    return n - many, 1.0, 1.0, many, False


def risks(runs):
    """Bias and variance, (2, R), of runs (problem, algorithm, peak batch, peak γ, n), by every step of all at once."""
    total, most = len(runs), max(n for *_, n in runs)
    d = max(problem.dim for problem, *_ in runs)
    eigenvalues, M = np.zeros((total, d)), np.zeros((3, 3, 2, total, d))
    A, gain, point = (np.zeros((most, *shape, total, 1)) for shape in ((3, 3), (3,), (3,)))
    inverse, end = np.zeros((most, total, 1)), np.zeros((3, total))
    norms, noise = np.ones(total), np.zeros(total)
    for r, (problem, algorithm, batch, rate, n) in enumerate(runs):
        size = problem.dim
        eigenvalues[r, :size], noise[r] = problem.eigenvalues, problem.noise_variance
        t = np.arange(n)
        (rows, start, output) = coefficients(algorithm.method, rate * algorithm.schedule.factors(t, n))
        A[:, :, :, r, 0] = np.eye(3)  # after its end a run stands still
        A[:n, :2, :2, r, 0], gain[:n, :2, r, 0], point[:n, :2, r, 0] = rows
        inverse[:n, r, 0] = 1 / np.maximum(1, np.rint(batch * algorithm.batch_schedule.factors(t, n)))
        first, rho, omega, norms[r], whole = kept(algorithm.average, n)
        A[first:n, 2, 2, r, 0], A[first:n, 2, :2, r, 0] = rho, omega * np.array(output)
        begin = np.array([*start, np.dot(output, start) if whole else 0.0])
        M[:, :, 0, r, :size] = np.multiply.outer(np.outer(begin, begin), problem.signal)
        end[:, r] = [0, 0, 1] if first < n else [*output, 0]
    for step in range(most):
        M = _after(M, eigenvalues, inverse[step], A[step], gain[step], point[step])
    parts = np.einsum("ijprk,ir,jr->pr", M, end, end) / norms**2
    return parts * np.array([np.ones(total), noise])


def _after(M, eigenvalues, inverse, A, b, c):
    """The moments (3, 3, 2, R, d) one step later; components come first, since products of small matrices are slow."""
    one = A - eigenvalues * b[:, None] * c
    met = sum(c[j] * M[j] for j in range(3))
    own = sum(c[j] * met[j] for j in range(3))
    seen = own + own.sum(-1, keepdims=True) + np.array([0.0, 1.0])[:, None, None]
    drive = eigenvalues**2 * inverse * seen
    half = sum(one[:, j, None, None] * M[j] for j in range(3))
    return sum(half[:, j, None] * one[:, j, None] for j in range(3)) + drive * (b[:, None] * b)[:, :, None]


def risks_of_rates(problem, algorithm, batch, rates, n):
    """Risks (R,) of one algorithm for an array of γ: the distinct moments alone, of bias and variance in one."""
    t = np.arange(n)
    x, signal = problem.eigenvalues, np.tile(problem.signal, (rates.size, 1))
    (A, b, c), start, output = coefficients(algorithm.method, algorithm.schedule.factors(t, n)[:, None] * rates)
    A, b, c = (np.moveaxis(rows, 1, -1)[..., None] for rows in (A, b, c))  # components come first
    inverse = 1 / np.maximum(1, np.rint(batch * algorithm.batch_schedule.factors(t, n)))
    first, rho, omega, norm, whole = kept(algorithm.average, n)
    o = output.index(1)
    own, cross, other = (product * signal for product in (start[0] ** 2, start[0] * start[1], start[1] ** 2))
    average = start[o] if whole else 0
    S0, S1, SS = (product * signal for product in (average * start[0], average * start[1], average**2))
    for step in range(n):
        c0, c1 = c[step]
        drift = c0**2 * own + 2 * c0 * c1 * cross + c1**2 * other
        drive = x**2 * inverse[step] * (drift + drift.sum(-1, keepdims=True) + problem.noise_variance)
        b0, b1 = b[step]
        (k00, k01), (k10, k11) = A[step] - x * b[step][:, None] * c[step]
        half = (
            (k00 * own + k01 * cross, k00 * cross + k01 * other),
            (k10 * own + k11 * cross, k10 * cross + k11 * other),
        )
        if step >= first:
            SS = rho**2 * SS + 2 * rho * omega * (S0, S1)[o] + omega**2 * (own, other)[o]
            S0, S1 = (
                rho * (k00 * S0 + k01 * S1) + omega * half[0][o],
                rho * (k10 * S0 + k11 * S1) + omega * half[1][o],
            )
        own = half[0][0] * k00 + half[0][1] * k01 + b0**2 * drive
        cross = half[0][0] * k10 + half[0][1] * k11 + b0 * b1 * drive
        other = half[1][0] * k10 + half[1][1] * k11 + b1**2 * drive
    return (SS if first < n else (own, other)[o]).sum(-1) / norm**2
