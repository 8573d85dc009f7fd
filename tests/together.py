"""T20 step by step for many runs of different algorithms at once. Shares no code with the library."""

import numpy as np

import sgdtheory as st


def coefficients(method, rate):
    """A (n, 2, 2), b and c (n, 2), start and output (2,) of every step, by T21's sentences; unused entries are 0."""
    n = rate.size
    one, zero = np.ones(n), np.zeros(n)
    if isinstance(method, st.HeavyBall):
        beta = method.momentum
        return _rows([[one, -rate * beta], [zero, beta * one]], [rate, -one], [one, zero]), (1, 0), (1, 0)
    if isinstance(method, st.Nesterov):
        beta = method.momentum
        A = [[one, -rate * beta**2], [zero, beta * one]]
        return _rows(A, [rate * (1 + beta), -one], [one, zero]), (1, 0), (1, 0)
    if isinstance(method, st.ScheduleFree):
        share, beta = 1 / np.arange(1, n + 1), method.interpolation * one
        return _rows([[one, zero], [share, 1 - share]], [rate, share * rate], [1 - beta, beta]), (1, 1), (0, 1)
    if isinstance(method, st.AcceleratedSGD):
        alpha, beta = method.coupling * one, method.forgetting
        A = [[alpha, 1 - alpha], [beta * alpha, 1 - beta * alpha]]
        return _rows(A, [rate, method.long_step * rate], [alpha, 1 - alpha]), (1, 1), (1, 0)
    shrink = rate * method.weight_decay
    return _rows([[1 - shrink, -shrink], [zero, one]], [rate, zero], [one, zero]), (1, -1), (1, 0)


def _rows(A, b, c):
    return np.array(A).transpose(2, 0, 1), np.array(b).T, np.array(c).T


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
