"""High-precision oracles. They share no code and no formula with the library beyond THEORY.md T1–T3."""

import mpmath


def powered(step, state, number):
    """step^number · state, by squaring."""
    remaining = int(number)
    while remaining:
        if remaining & 1:
            state = step * state
        remaining >>= 1
        if remaining:
            step = step * step
    return state


def risk(eigenvalues, signal, batch_size, learning_rate, num_steps, digits=80):
    """Bias and variance (σ² = 1) by powers of the one-step map of all second moments.

    State: r_i = λ_i E η_i², c_i = λ_i E η_i Σ_{τ<t} η_i(τ), the sum n² Δ so far, and the constant 1.
    """
    with mpmath.workdps(digits):
        d = len(eigenvalues)
        batch = mpmath.mpf(float(batch_size))
        x = [mpmath.mpf(float(learning_rate)) * mpmath.mpf(float(value)) for value in eigenvalues]
        total, one = 2 * d, 2 * d + 1
        step = mpmath.zeros(2 * d + 2, 2 * d + 2)
        for i in range(d):
            gain = x[i] ** 2 / batch
            for j in range(d):
                step[i, j] = gain
            step[i, i] += (1 - x[i]) ** 2 + gain
            step[i, one] = gain
            step[d + i, i] = step[d + i, d + i] = 1 - x[i]
            step[total, i], step[total, d + i] = 1, 2
        step[total, total] = step[one, one] = 1
        state = mpmath.zeros(2 * d + 2, 2)
        for i in range(d):
            state[i, 0] = mpmath.mpf(float(signal[i]))
        state[one, 1] = 1
        state = powered(step, state, num_steps)
        scale = mpmath.mpf(int(num_steps)) ** 2
        return state[total, 0] / scale, state[total, 1] / scale


def infinite_power_law_risk(capacity, source, batch_size, learning_rate, num_steps, digits=120):
    """Bias and variance (σ² = 1) with infinitely many directions: polynomials in λ and the Riemann zeta function.

    r_i(t) is a polynomial in x_i = γλ_i, times s_i or 1; a sum over directions turns x^k into γ^k ζ(ka + b) or
    γ^k ζ(ka). The cancellation is left to the digits.
    """
    with mpmath.workdps(digits):
        a, b, rate, batch = (mpmath.mpf(float(v)) for v in (capacity, source, learning_rate, batch_size))
        with_signal = [rate**k * mpmath.zeta(k * a + b) for k in range(3 * num_steps + 4)]
        without = [mpmath.mpf(0)] + [rate**k * mpmath.zeta(k * a) for k in range(1, 3 * num_steps + 4)]
        alpha, gain = [1, -2, 1 + 1 / batch], [0, 0, 1 / batch]
        weights = _averaging_weights(num_steps)
        results = []
        for noise in (0, 1):
            from_signal, from_counting = ([mpmath.mpf(1)], [mpmath.mpf(0)]) if noise == 0 else ([mpmath.mpf(0)],) * 2
            total = mpmath.mpf(0)
            for t in range(num_steps):
                weight = weights[num_steps - 1 - t]
                total += _dot(_times(from_signal, weight), with_signal) + _dot(_times(from_counting, weight), without)
                source_term = _dot(from_signal, with_signal) + _dot(from_counting, without) + noise
                from_signal = _times(from_signal, alpha)
                from_counting = _plus(_times(from_counting, alpha), [g * source_term for g in gain])
            results.append(total / mpmath.mpf(num_steps) ** 2)
        return tuple(results)


def _averaging_weights(num_steps):
    """[1 + 2 Σ_{k=1}^m (1 − x)^k for m = 0 … n − 1] as polynomials in x."""
    power, weight, weights = [mpmath.mpf(1)], [mpmath.mpf(1)], []
    for _ in range(num_steps):
        weights.append(weight)
        power = _times(power, [1, -1])
        weight = _plus(weight, [2 * value for value in power])
    return weights


def _times(p, q):
    product = [mpmath.mpf(0)] * (len(p) + len(q) - 1)
    for i, left in enumerate(p):
        for j, right in enumerate(q):
            product[i + j] += left * right
    return product


def _plus(p, q):
    longer, shorter = (p, q) if len(p) >= len(q) else (q, p)
    return [value + (shorter[i] if i < len(shorter) else 0) for i, value in enumerate(longer)]


def _dot(p, q):
    return mpmath.fdot(p, q[: len(p)])


def relative_error(value, exact):
    """|value/exact − 1| as a float; 0 where both are 0."""
    if exact == 0:
        return 0.0 if value == 0 else float("inf")
    return float(abs(mpmath.mpf(float(value)) / exact - 1))


def method_step(method, rate, digits=80):
    """A, b, c, start and output of a method with constant coefficients, by its sentence in T21, in many digits."""
    with mpmath.workdps(digits):
        rate, one = mpmath.mpf(float(rate)), mpmath.mpf(1)
        name = type(method).__name__
        if name == "SGD":
            shrink = rate * mpmath.mpf(method.weight_decay)
            return [[1 - shrink, -shrink], [0, one]], [rate, 0], [1, 0], [1, -1], [1, 0]
        if name == "AcceleratedSGD":
            alpha, beta = mpmath.mpf(method.coupling), mpmath.mpf(method.forgetting)
            A = [[alpha, 1 - alpha], [beta * alpha, 1 - beta * alpha]]
            return A, [rate, mpmath.mpf(method.long_step) * rate], [alpha, 1 - alpha], [1, 1], [1, 0]
        beta = mpmath.mpf(method.momentum)
        if name == "HeavyBall":
            return [[one, -rate * beta], [0, beta]], [rate, -1], [1, 0], [1, 0], [1, 0]
        assert name == "Nesterov"
        return [[one, -rate * beta**2], [0, beta]], [rate * (1 + beta), -1], [1, 0], [1, 0], [1, 0]


def algorithm_risk(eigenvalues, signal, batch_size, stages, start, output, average, digits=80):
    """Bias and variance (σ² = 1) of any linear method by powers of the whole map of second moments, T20.

    State: the entries of every M_i of the enlarged state (u_i, S_i), and the constant 1.

    Args:
        eigenvalues, signal: λ_i, s_i.
        batch_size: B.
        stages: [(A, b, c, number of steps, ρ, ω)], S ← ρS + ω oᵀu; the average is S over the last stage's `norm`.
        start, output: of the method.
        average: None for the last iterate; "iterate" if S begins as oᵀu, "empty" as 0; the result is E λ S².
    """
    with mpmath.workdps(digits):
        mpf = mpmath.mpf
        k, d = len(start) + 1, len(eigenvalues)
        size = d * k * k + 1
        begin = [mpf(each) for each in start]
        begin.append(sum(mpf(o) * u for o, u in zip(output, begin, strict=True)) if average == "iterate" else 0)
        state = mpmath.zeros(size, 2)
        for i in range(d):
            for r in range(k):
                for s in range(k):
                    state[(i * k + r) * k + s, 0] = mpf(float(signal[i])) * begin[r] * begin[s]
        state[size - 1, 1] = 1
        for *coefficients, count, rho, omega in stages:
            step = _moments_step(eigenvalues, batch_size, coefficients, rho, omega, output)
            state = powered(step, state, count)
        weights = [mpf(o) for o in output] + [mpf(0)] if average is None else [mpf(0)] * (k - 1) + [mpf(1)]
        found = []
        for part in range(2):
            total = mpf(0)
            for i in range(d):
                for r in range(k):
                    for s in range(k):
                        total += weights[r] * weights[s] * state[(i * k + r) * k + s, part]
            found.append(total)
        return found


def _moments_step(eigenvalues, batch_size, coefficients, rho, omega, output):
    """One step of a stage as a matrix on the state of `algorithm_risk`, in the digits that are set."""
    mpf = mpmath.mpf
    A, b, c = coefficients
    k, d = len(output) + 1, len(eigenvalues)
    size = d * k * k + 1
    step = mpmath.zeros(size, size)
    step[size - 1, size - 1] = 1
    noise = [mpf(each) for each in b] + [mpf(0)]
    seen = [mpf(each) for each in c] + [mpf(0)]
    for i in range(d):
        eigenvalue = mpf(float(eigenvalues[i]))
        big = mpmath.zeros(k, k)
        for r in range(k - 1):
            for s in range(k - 1):
                big[r, s] = mpf(A[r][s]) - eigenvalue * noise[r] * seen[s]
            big[k - 1, r] = mpf(float(omega)) * mpf(output[r])
        big[k - 1, k - 1] = mpf(float(rho))
        gain = eigenvalue**2 / mpf(float(batch_size))
        for r in range(k):
            for s in range(k):
                row = (i * k + r) * k + s
                for p in range(k):
                    for q in range(k):
                        step[row, (i * k + p) * k + q] += big[r, p] * big[s, q]
                force = gain * noise[r] * noise[s]
                if force:
                    step[row, size - 1] += force
                    for p in range(k - 1):
                        for q in range(k - 1):
                            weight = force * seen[p] * seen[q]
                            step[row, (i * k + p) * k + q] += weight
                            for j in range(d):
                                step[row, (j * k + p) * k + q] += weight
    return step
