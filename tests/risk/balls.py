"""The risk from powers of the whole map of second moments, in interval arithmetic of hundreds of bits.

Every vector of every worker is followed as it is defined, S of the average beside them: no closed form, no transform of
workers, nothing of the library but the numbers in a method and in an average.
"""

import math
from fractions import Fraction

from flint import arb, arb_mat, ctx, fmpq

import sgdtheory as st

BITS = 700  # of which powers of 10¹² steps lose some 100
ZERO, ONE = arb(0), arb(1)


def exactly(number):
    """The ball of a float: a point."""
    value = Fraction(float(number))
    return arb(fmpq(value.numerator, value.denominator))


class Direction:
    """A step in one direction: the mean's matrix, (b, c) of each gradient, and where workers talk a matrix after it.

    Args:
        method: whose numbers are taken; none of its functions.
        rate: γ.
        eigenvalue: λ.
    """

    def __init__(self, method, rate, eigenvalue):
        self.talk = None
        rate, eigenvalue = exactly(rate), exactly(eigenvalue)
        {
            "SGD": self.sgd,
            "HeavyBall": self.momentum,
            "Nesterov": self.momentum,
            "DelayedSGD": self.delayed,
            "LocalSGD": self.workers,
        }[type(method).__name__](method, rate, eigenvalue)

    def sgd(self, method, rate, eigenvalue):
        """(w − w*, w*), with w_0 = 0 where there is weight decay."""
        decay = exactly(method.weight_decay)
        self.step = [[1 - rate * decay - rate * eigenvalue, -rate * decay], [ZERO, ONE]]
        self.gradients = [([-rate, ZERO], [ONE, ZERO])]
        self.output, self.start = [ONE, ZERO], [ONE, -ONE if method.weight_decay else ZERO]

    def momentum(self, method, rate, eigenvalue):
        """`m ← βm + g`, and `w ← w − γm` or `w ← w − γ(g + βm)`."""
        beta = exactly(method.momentum)
        now, before = (ONE, beta) if isinstance(method, st.HeavyBall) else (1 + beta, beta * beta)
        self.step = [[1 - rate * eigenvalue * now, -rate * before], [eigenvalue, beta]]
        self.gradients = [([-rate * now, ONE], [ONE, ZERO])]
        self.output, self.start = [ONE, ZERO], [ONE, ZERO]

    def delayed(self, method, rate, eigenvalue):
        """w_t … w_{t−τ}."""
        late = method.longest_delay
        self.step = [[ONE if j == i - 1 or i == j == 0 else ZERO for j in range(late + 1)] for i in range(late + 1)]
        self.step[0][late] -= rate * eigenvalue
        unit = [[ONE if i == j else ZERO for j in range(late + 1)] for i in range(late + 1)]
        self.gradients = [([-rate * each for each in unit[0]], unit[late])]
        self.output, self.start = unit[0], [ONE] * (late + 1)

    def workers(self, method, rate, eigenvalue):
        """v_1 … v_K, b_1 … b_K, m and p."""
        K = method.num_workers
        beta, eta, mu = (
            exactly(method.inner_momentum),
            exactly(method.outer_learning_rate),
            exactly(method.outer_momentum),
        )
        size, m, p = 2 * K + 2, 2 * K, 2 * K + 1
        unit = [[ONE if i == j else ZERO for j in range(size)] for i in range(size)]
        self.step = [list(row) for row in unit]
        self.talk = [list(row) for row in unit]
        self.gradients = []
        for k in range(K):
            self.step[k][k] = 1 - rate * eigenvalue
            self.step[k][K + k] = -rate * beta
            self.step[K + k][K + k] = beta
            self.step[K + k][k] = eigenvalue
            moved = [-rate * a + b for a, b in zip(unit[k], unit[K + k], strict=True)]
            self.gradients.append((moved, unit[k]))
        mean = [arb(fmpq(1, K)) if i < K else ZERO for i in range(size)]
        gap = [a - b for a, b in zip(unit[m], mean, strict=True)]
        push = [mu * a + b for a, b in zip(unit[p], gap, strict=True)]
        common = [a - eta * (b + mu * c) for a, b, c in zip(unit[m], gap, push, strict=True)]
        self.talk[m], self.talk[p] = common, push
        for k in range(K):
            self.talk[k] = list(common)
        self.output = mean
        self.start = [ONE if i < K or i == m else ZERO for i in range(size)]


class Run:
    """Second moments of all directions beside σ², as one vector."""

    def __init__(self, method, problem, batch):
        self.method, self.problem, self.batch = method, problem, exactly(batch)
        self.eigenvalues = list(problem.eigenvalues)
        some = Direction(method, 1.0, 1.0)
        self.own = len(some.output)
        self.places = [(i, j) for i in range(self.own + 1) for j in range(i, self.own + 1)]
        self.size = len(self.places) * len(self.eigenvalues) + 1

    def number(self, direction, i, j):
        return direction * len(self.places) + self.places.index((min(i, j), max(i, j)))

    def begin(self, averaged_iterate):
        """Moments of the start; S is 0 or w_0."""
        found = [ZERO] * self.size
        for i, signal in enumerate(self.problem.signal):
            vector = [*Direction(self.method, 1.0, 1.0).start, ONE if averaged_iterate else ZERO]
            for a, b in self.places:
                found[self.number(i, a, b)] = exactly(signal) * vector[a] * vector[b]
        found[-1] = exactly(self.problem.noise_variance)
        return arb_mat([[each] for each in found])

    def linear(self, matrices):
        """The map of moments that matrices of the directions make."""
        found = [[ZERO] * self.size for _ in range(self.size)]
        found[-1][-1] = ONE
        for i, matrix in enumerate(matrices):
            for a, b in self.places:
                for c, d in self.places:
                    value = matrix[a][c] * matrix[b][d] + (matrix[a][d] * matrix[b][c] if c != d else 0)
                    found[self.number(i, a, b)][self.number(i, c, d)] = value
        return found

    def maps(self, rate, keep, weight):
        """Return the maps of a step, and of the synchronisation after it or None; `S ← keep·S + weight·w` before."""
        each = [Direction(self.method, rate, eigenvalue) for eigenvalue in self.eigenvalues]
        kept = [[[*row, ZERO] for row in one.step] + [[weight * o for o in one.output] + [keep]] for one in each]
        found = self.linear(kept)
        inner = [place for place in self.places if place[1] < self.own]
        for i, one in enumerate(each):
            strength = exactly(self.eigenvalues[i]) ** 2 / self.batch
            for b, c in one.gradients:
                for a, d in inner:
                    if b[a] * b[d] == 0:
                        continue
                    row = found[self.number(i, a, d)]
                    row[-1] += strength * b[a] * b[d]
                    for e, f in inner:
                        seen = strength * b[a] * b[d] * c[e] * c[f] * (1 if e == f else 2)
                        for j in range(len(each)):
                            row[self.number(j, e, f)] += seen * (2 if i == j else 1)
        if each[0].talk is None:
            return arb_mat(found), None
        last = [ZERO] * self.own + [ONE]
        return arb_mat(found), arb_mat(self.linear([[[*row, ZERO] for row in one.talk] + [last] for one in each]))


def after(matrix, number, state):
    """matrix^number state."""
    while number:
        if number & 1:
            state = matrix * state
        number >>= 1
        if number:
            matrix = matrix * matrix
    return state


def kept_from(average, steps):
    """First step that counts, and ρ, ω, and c of the average c S; c is None of the iterate."""
    if isinstance(average, st.LastIterate):
        return steps, ONE, ZERO, None
    if isinstance(average, st.ExponentialAverage):
        forgetting = 1 - exactly(average.decay) if average.window is None else 1 / (exactly(average.window) * steps)
        return 0, 1 - forgetting, forgetting, ONE
    first = steps - math.ceil(average.fraction * steps) if isinstance(average, st.TailAverage) else 0
    return first, ONE, ONE, ONE / (steps - first)


def risk(problem, method, average, batch, segments):
    """The exact risk of a run of (γ, number of steps) segments, as a float."""
    ctx.prec = BITS
    run = Run(method, problem, batch)
    steps = sum(number for _, number in segments)
    first, keep, weight, share = kept_from(average, steps)
    state = run.begin(isinstance(average, st.ExponentialAverage))
    period = method.local_steps if isinstance(method, st.LocalSGD) else 1
    low = 0
    for rate, number in segments:
        high = low + number
        for begin, end, counts in ((low, min(high, first), False), (max(low, first), high, True)):
            if end <= begin:
                continue
            step, talk = run.maps(rate, keep if counts else ONE, weight if counts else ZERO)
            whole = step if talk is None else talk * step
            while begin < end and begin % period:
                begin += 1
                state = (step if begin % period else whole) * state
            rounds, left = divmod(end - begin, period)
            if rounds:
                state = after(whole * step ** (period - 1) if period > 1 else whole, rounds, state)
            state = after(step, left, state)
        low = high
    return float(returned(run, state, share).mid())


def returned(run, state, share):
    total = ZERO
    output = Direction(run.method, 1.0, 1.0).output
    for i in range(len(run.eigenvalues)):
        if share is not None:
            total += share**2 * state[run.number(i, run.own, run.own), 0]
            continue
        for a in range(run.own):
            for b in range(run.own):
                total += output[a] * output[b] * state[run.number(i, a, b), 0]
    assert total.rad() < 1e-20 * abs(total.mid()), "more bits are needed"
    return total
