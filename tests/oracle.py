"""High-precision oracles. They share no code and no formula with the library beyond THEORY.md T1–T3.

`parts` takes powers of the map of all second moments in interval arithmetic of hundreds of bits: every vector of every
worker is followed as its method defines it, and S of the average beside them. There is no closed form, no transform of
workers, and nothing of the library but the numbers in a method and in an average.
"""

import itertools
import math
from fractions import Fraction

import mpmath
from flint import arb, arb_mat, ctx, fmpq

import sgdtheory as st

BITS = 400  # Powers of 10¹² steps lose about 100 bits. `parts` takes four times as many where these are too few.
MOST_BITS = 6400
LOST = 1e-20  # A part is accepted if its radius is below this share of it.
NOTHING = 1e-60  # A part is accepted too if its radius is below this share of the larger part.


def exactly(number):
    """The ball of a float: a point."""
    value = Fraction(float(number))
    return arb(fmpq(value.numerator, value.denominator))


def units(size):
    """The rows of the identity."""
    return [[arb(int(i == j)) for j in range(size)] for i in range(size)]


class Direction:
    """A step in one direction: the mean's matrix, (b, c) of each gradient, and where workers talk a matrix after it."""

    def __init__(self, method, rate, eigenvalue):
        self.talk = None
        known = {
            "SGD": self.sgd,
            "HeavyBall": self.momentum,
            "Nesterov": self.momentum,
            "AcceleratedSGD": self.accelerated,
            "DelayedSGD": self.delayed,
            "LocalSGD": self.workers,
        }
        known.get(type(method).__name__, self.given)(method, exactly(rate), exactly(eigenvalue))

    def linear(self, A, b, c, output, start, eigenvalue):
        """`u ← A u − b g` with the gradient taken at cᵀu."""
        k = len(b)
        self.step = [[A[i][j] - eigenvalue * b[i] * c[j] for j in range(k)] for i in range(k)]
        self.gradients = [([-each for each in b], c)]
        self.output, self.start = output, start

    def given(self, method, rate, eigenvalue):
        """A method of a test, by its floats."""
        found = method.coefficients(float(rate.mid()), 0.0)
        A = [[exactly(each) for each in row] for row in found.A]
        vectors = ([exactly(each) for each in row] for row in (found.b, found.c, method.output, method.start))
        self.linear(A, *vectors, eigenvalue)

    def sgd(self, method, rate, eigenvalue):
        """(w − w*), and w* beside it where there is weight decay, with w_0 = 0."""
        if not method.weight_decay:
            return self.linear([[arb(1)]], [rate], [arb(1)], [arb(1)], [arb(1)], eigenvalue)
        shrink = rate * exactly(method.weight_decay)
        A = [[1 - shrink, -shrink], [arb(0), arb(1)]]
        return self.linear(A, [rate, arb(0)], *([arb(1), arb(0)],) * 2, [arb(1), arb(-1)], eigenvalue)

    def momentum(self, method, rate, eigenvalue):
        """`m ← βm + g`, and `w ← w − γm` or `w ← w − γ(g + βm)`."""
        beta, w = exactly(method.momentum), [arb(1), arb(0)]
        now, before = (arb(1), beta) if isinstance(method, st.HeavyBall) else (1 + beta, beta * beta)
        self.linear([[arb(1), -rate * before], [arb(0), beta]], [rate * now, arb(-1)], w, w, w, eigenvalue)

    def accelerated(self, method, rate, eigenvalue):
        """(x, v), y = αx + (1 − α)v, `x ← y − γg` and `v ← βy + (1 − β)v − long_step γ g`."""
        alpha, beta = exactly(method.coupling), exactly(method.forgetting)
        c = [alpha, 1 - alpha]
        A = [c, [beta * alpha, 1 - beta * alpha]]
        b = [rate, exactly(method.long_step) * rate]
        self.linear(A, b, c, [arb(1), arb(0)], [arb(1), arb(1)], eigenvalue)

    def delayed(self, method, rate, eigenvalue):
        """w_t … w_{t−τ}."""
        late = method.longest_delay
        unit = units(late + 1)
        A = [unit[max(i - 1, 0)] for i in range(late + 1)]
        self.linear(A, [rate * each for each in unit[0]], unit[late], unit[0], [arb(1)] * (late + 1), eigenvalue)

    def workers(self, method, rate, eigenvalue):
        """v_1 … v_K, b_1 … b_K, m and p."""
        K = method.num_workers
        beta, eta, mu = (
            exactly(each) for each in (method.inner_momentum, method.outer_learning_rate, method.outer_momentum)
        )
        m, p = 2 * K, 2 * K + 1
        unit, self.step, self.talk = (units(2 * K + 2) for _ in range(3))
        self.gradients = []
        for k in range(K):
            self.step[k][k], self.step[k][K + k] = 1 - rate * eigenvalue, -rate * beta
            self.step[K + k][k], self.step[K + k][K + k] = eigenvalue, beta
            self.gradients.append(([-rate * a + b for a, b in zip(unit[k], unit[K + k], strict=True)], unit[k]))
        mean = [arb(fmpq(1, K)) if i < K else arb(0) for i in range(2 * K + 2)]
        gap = [a - b for a, b in zip(unit[m], mean, strict=True)]
        push = [mu * a + b for a, b in zip(unit[p], gap, strict=True)]
        common = [a - eta * (b + mu * c) for a, b, c in zip(unit[m], gap, push, strict=True)]
        self.talk[p] = push
        for i in (m, *range(K)):
            self.talk[i] = list(common)
        self.output, self.start = mean, [arb(int(i < K or i == m)) for i in range(2 * K + 2)]


class Run:
    """Second moments of all directions beside a constant, as two vectors: of the signal, and of σ² = 1."""

    def __init__(self, method, eigenvalues, signal):
        self.method, self.eigenvalues, self.signal = method, list(eigenvalues), list(signal)
        self.start, self.output = (getattr(Direction(method, 1.0, 1.0), name) for name in ("start", "output"))
        self.own = len(self.output)
        self.places = [(i, j) for i in range(self.own + 1) for j in range(i, self.own + 1)]
        self.numbers = {place: number for number, place in enumerate(self.places)}
        self.size = len(self.places) * len(self.eigenvalues) + 1

    def number(self, direction, i, j):
        return direction * len(self.places) + self.numbers[min(i, j), max(i, j)]

    def begin(self, averaged_iterate):
        """Moments of the start; S is 0 or the iterate."""
        first = sum((o * s for o, s in zip(self.output, self.start, strict=True)), arb(0))
        vector = [*self.start, first if averaged_iterate else arb(0)]
        found = [exactly(signal) * vector[a] * vector[b] for signal in self.signal for a, b in self.places]
        return arb_mat([*([each, 0] for each in found), [0, 1]])

    def linear(self, matrices):
        """The map of moments that matrices of the directions make."""
        found = [[arb(0)] * self.size for _ in range(self.size)]
        found[-1][-1] = arb(1)
        for i, matrix in enumerate(matrices):
            filled = [[(place, value) for place, value in enumerate(row) if value != 0] for row in matrix]
            for a, b in self.places:
                row = found[self.number(i, a, b)]
                for c, left in filled[a]:
                    for d, right in filled[b]:
                        row[self.number(i, c, d)] += left * right
        return found

    def maps(self, batch, rate, keep, weight):
        """Return the maps of a step, and of the synchronisation after it or None; `S ← keep·S + weight·w` before."""
        each = [Direction(self.method, rate, eigenvalue) for eigenvalue in self.eigenvalues]
        found = self.linear(
            [[[*row, arb(0)] for row in one.step] + [[weight * o for o in one.output] + [keep]] for one in each]
        )
        for i, one in enumerate(each):
            strength = exactly(self.eigenvalues[i]) ** 2 / exactly(batch)
            for b, c in one.gradients:
                moved, seen = ([place for place, value in enumerate(vector) if value != 0] for vector in (b, c))
                for a, d in self.places:
                    if a not in moved or d not in moved:
                        continue
                    row, force = found[self.number(i, a, d)], strength * b[a] * b[d]
                    row[-1] += force
                    for e, f in itertools.product(seen, repeat=2):
                        for j in range(len(each)):
                            row[self.number(j, e, f)] += force * c[e] * c[f] * (2 if i == j else 1)
        if each[0].talk is None:
            return arb_mat(found), None
        last = [arb(0)] * self.own + [arb(1)]
        return arb_mat(found), arb_mat(self.linear([[[*row, arb(0)] for row in one.talk] + [last] for one in each]))

    def returned(self, state, share, power):
        """Bias and variance: Σ λ^power of the squares of S times its share, or of the iterate where that is None."""
        weights = [*self.output, arb(0)] if share is None else [arb(0)] * self.own + [share]
        pairs = [(a, b) for a in range(self.own + 1) for b in range(self.own + 1) if weights[a] * weights[b] != 0]
        return [
            sum(
                exactly(value) ** power * weights[a] * weights[b] * state[self.number(i, a, b), part]
                for i, value in enumerate(self.eigenvalues)
                for a, b in pairs
            )
            for part in range(2)
        ]


def powered(step, state, number):
    """step^number · state, by squaring."""
    while number:
        if number & 1:
            state = step * state
        number >>= 1
        if number:
            step = step * step
    return state


def kept_from(average, steps):
    """First step that counts, and ρ, ω, and c of the average c S; c is None of the iterate."""
    if isinstance(average, st.LastIterate):
        return steps, arb(1), arb(0), None
    if isinstance(average, st.ExponentialAverage):
        forgetting = 1 - exactly(average.decay) if average.window is None else 1 / (exactly(average.window) * steps)
        return 0, 1 - forgetting, forgetting, arb(1)
    first = steps - math.ceil(average.fraction * steps) if isinstance(average, st.TailAverage) else 0
    return first, arb(1), arb(1), arb(1) / (steps - first)


def moments_after(run, average, segments):
    """Moments after (B, γ, number of steps) segments, and the share of S in what is returned."""
    first, keep, weight, share = kept_from(average, sum(number for *_, number in segments))
    state = run.begin(isinstance(average, st.ExponentialAverage))
    period = getattr(run.method, "local_steps", 1)
    low = 0
    for batch, rate, number in segments:
        high = low + number
        for begin, end, counts in ((low, min(high, first), False), (max(low, first), high, True)):
            if end <= begin:
                continue
            step, talk = run.maps(batch, rate, keep if counts else arb(1), weight if counts else arb(0))
            whole = step if talk is None else talk * step
            while begin < end and begin % period:
                begin += 1
                state = (step if begin % period else whole) * state
            rounds, left = divmod(end - begin, period)
            if rounds:
                state = powered(whole * step ** (period - 1) if period > 1 else whole, state, rounds)
            state = powered(step, state, left)
        low = high
    return state, share


def parts(problem, algorithm, segments, power=0):
    """Bias and variance (σ² = 1) as balls after (B, γ, number of steps) segments; directions count λ^power times."""
    bits = BITS
    while True:
        ctx.prec = bits
        run = Run(algorithm.method, *problem.directions())
        found = run.returned(*moments_after(run, algorithm.average, segments), power)
        counts = found if problem.noise_variance else found[:1]
        floor = NOTHING * max(abs(each.mid()) for each in counts)
        if all(each.rad() <= max(LOST * abs(each.mid()), floor) for each in counts):
            return found
        bits *= 4
        assert bits <= MOST_BITS, "more bits are needed"


def risk(problem, algorithm, segments):
    """The exact risk after (B, γ, number of steps) segments, as a float."""
    bias, variance = parts(problem, algorithm, segments)
    return float((bias + exactly(problem.noise_variance) * variance).mid())


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
    """|value/exact − 1| as a float, of a number of many digits; 0 where both are 0."""
    if exact == 0:
        return 0.0 if value == 0 else float("inf")
    number = exactly(value) if isinstance(exact, arb) else mpmath.mpf(float(value))
    return float(abs(number / exact - 1))
