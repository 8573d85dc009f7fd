"""The exact risk in ball arithmetic: the moments of constant-step SGD on nodes, step by step or by binary powers."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from sgdtheory.algorithms import SGD, Algorithm, Constant, LastIterate, TailAverage, UniformAverage
from sgdtheory.bounds.balls import flint

STEP_SECONDS = 6e-7  # One step of one node takes this many seconds (measured).
# One product of two numbers within a product of matrices takes this many seconds (measured at 384 bits).
POWER_SECONDS = 2e-8


class Node(NamedTuple):
    """Directions of one eigenvalue: λ, their Σ s_i and their Σ λ_i²; of one direction s_i and λ_i²."""

    eigenvalue: Any
    signal: Any
    squares: Any


class Run(NamedTuple):
    """Setting of a run: B, γ, n, the first averaged iterate (n: the last iterate is returned) and the noise."""

    batch: Any
    rate: Any
    steps: int
    first: int
    noise: Any


def first_averaged(algorithm: Algorithm, steps: int) -> int:
    """The first of n steps whose iterate counts.

    Raises:
        ValueError: another algorithm than certificates are for.
    """
    plain = isinstance(algorithm.method, SGD) and algorithm.method == SGD() and algorithm.clip_norm is None
    constant = algorithm.schedule == Constant() and algorithm.batch_schedule == Constant()
    known = isinstance(algorithm.average, UniformAverage | TailAverage | LastIterate)
    if not (plain and constant and known):
        raise ValueError(
            "certificates are for SGD with constant learning rate and batch size that returns its last iterate, a tail "
            f"average or the average of all iterates, got {algorithm}"
        )
    return int(algorithm.average.first(steps))


def seconds(num_nodes: int, steps: int) -> float:
    """Return the seconds that `risk` takes at some hundred bits."""
    return min(STEP_SECONDS * num_nodes * steps, _power_seconds(num_nodes, steps))


def risk(nodes: Sequence[Node], run: Run) -> Any:
    """Mean excess risk (THEORY.md T1–T4) as a ball, at the working precision.

    With `r` the risk that a node holds, `C = λ E[δ S]` and `T = Σ λ E S²`, S the sum of the iterates so far, and
    q = 1 − γλ:

        T ← T + Σ (r + 2C),  C ← q (C + r),  r ← (q² + γ²λ²/B) r + (γ²/B) Σλ² (Σ_j r_j + σ²)

    from left to right, and T/(number of iterates)² is the risk of their mean.
    """
    if _power_seconds(len(nodes), run.steps) < STEP_SECONDS * len(nodes) * run.steps:
        return _by_powers(nodes, run)
    return stepped(nodes, run)


def stepped(nodes: Sequence[Node], run: Run) -> Any:
    """`risk` step by step, for balls, power series of balls, or any numbers."""
    kept = [1 - run.rate * node.eigenvalue for node in nodes]
    gain = run.rate * run.rate / run.batch
    own = [q * q + gain * node.eigenvalue * node.eigenvalue for q, node in zip(kept, nodes, strict=True)]
    drive = [gain * node.squares for node in nodes]
    risks = [node.signal for node in nodes]
    cross = [0 * signal for signal in risks]
    square = 0 * run.noise
    for step in range(run.steps):
        present = sum(risks[1:], start=risks[0])
        if step >= run.first:
            square = square + present + 2 * sum(cross[1:], start=cross[0])
            cross = [q * (c + r) for q, c, r in zip(kept, cross, risks, strict=True)]
        noise = present + run.noise
        risks = [a * r + v * noise for a, r, v in zip(own, risks, drive, strict=True)]
    if run.first == run.steps:
        return sum(risks[1:], start=risks[0])
    return square / (run.steps - run.first) ** 2


def _power_seconds(num_nodes: int, steps: int) -> float:
    return 2 * math.log2(steps + 1) * (num_nodes + 1) ** 3 * POWER_SECONDS


class _Steps(NamedTuple):
    """Several steps as one map of m = (r, 1), C and T: `m ← A m`, `C ← k∘C + L m`, `T ← T + cᵀC + ℓᵀm`."""

    moments: Any  # A
    kept: list[Any]  # k
    crossing: Any  # L
    from_cross: Any  # c, a row
    from_moments: Any  # ℓ, a row

    def twice(self) -> "_Steps":
        """Return the maps of twice as many steps."""
        return _Steps(
            self.moments * self.moments,
            [q * q for q in self.kept],
            _rows_times(self.kept, self.crossing) + self.crossing * self.moments,
            self.from_cross + _columns_times(self.kept, self.from_cross),
            self.from_moments + self.from_cross * self.crossing + self.from_moments * self.moments,
        )

    def applied(self, moments: Any, cross: Any, square: Any) -> tuple[Any, Any, Any]:
        """M, C and T after these steps."""
        return (
            self.moments * moments,
            _rows_times(self.kept, cross) + self.crossing * moments,
            square + self.from_cross * cross + self.from_moments * moments,
        )


def _one_step(nodes: Sequence[Node], run: Run) -> _Steps:
    count = len(nodes)
    matrix = flint().arb_mat
    kept = [1 - run.rate * node.eigenvalue for node in nodes]
    gain = run.rate * run.rate / run.batch
    moments = matrix(count + 1, count + 1)
    crossing = matrix(count, count + 1)
    for i, (q, node) in enumerate(zip(kept, nodes, strict=True)):
        for j in range(count):
            moments[i, j] = gain * node.squares
        moments[i, i] += q * q + gain * node.eigenvalue * node.eigenvalue
        moments[i, count] = gain * node.squares * run.noise
        crossing[i, i] = q
    moments[count, count] = flint().arb(1)
    return _Steps(moments, kept, crossing, matrix([[2] * count]), matrix([[1] * count + [0]]))


def _by_powers(nodes: Sequence[Node], run: Run) -> Any:
    """`risk` by binary powers of the step."""
    count = len(nodes)
    matrix = flint().arb_mat
    step = _one_step(nodes, run)
    start = matrix([[node.signal] for node in nodes] + [[1]])
    cross = matrix(count, 1)
    square = matrix(1, 1)
    moments = _repeated(step, run.first, start, cross, square)[0]  # before the average begins
    if run.first == run.steps:
        return sum((moments[i, 0] for i in range(count)), start=flint().arb(0))
    averaged = run.steps - run.first
    return _repeated(step, averaged, moments, cross, square)[2][0, 0] / flint().arb(averaged) ** 2


def _repeated(step: _Steps, number: int, *state: Any) -> tuple[Any, ...]:
    """A step that many times, by doubling."""
    while number:
        if number & 1:
            state = step.applied(*state)
        number >>= 1
        if number:
            step = step.twice()
    return state


def _rows_times(factors: list[Any], matrix: Any) -> Any:
    return type(matrix)([[q * entry for entry in row] for q, row in zip(factors, matrix.tolist(), strict=True)])


def _columns_times(factors: list[Any], row: Any) -> Any:
    return type(row)([[q * entry for q, entry in zip(factors, row.entries(), strict=True)]])
