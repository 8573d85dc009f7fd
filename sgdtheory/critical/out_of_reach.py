"""Risks that n steps leave whatever the batch size and the learning rate: what searches need not look at.

Noise only adds to the risk of the mean path, `Σ_i s_i f_i(γ)²`. So its least value over all γ up to the largest stable
one is out of reach of n steps, with any B.
"""

from collections.abc import Callable

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.critical.patterns import whole_numbers
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import displacement, mean_paths, one_minus_power

# What a problem is asked for: where its modes may begin to merge (see `AbstractProblem.modes`).
MEAN_RESOLVED = 1e-3  # nγλ: the risk of the mean path is a polynomial of low degree in λ below
EACH_ASKED = 64.0  # steps: up to so many each number is asked about, since more may leave more
CELLS_A_STEP = 1.0, 4.0  # of the range of γ: with 4 no direction turns by more than π/4 in one
LEAST_CELLS = 16
RESOLVED_TURN = 1.0  # a direction that turns by more within a cell may be 0 there
CLOSE_ENOUGH = 1.01  # larger numbers of steps are found to this factor


class OutOfReach:
    """Bounds from below of `min_{B, γ} Δ(B, γ, n)`.

    Args:
        problem: its spectrum.
        algorithm: what is run.
        plain: whether it is the plain average of plain steps.
        largest_rate: the end of the range of γ for n steps without noise.
    """

    def __init__(
        self, problem: AbstractProblem, algorithm: Algorithm, plain: bool, largest_rate: Callable[[float], float]
    ) -> None:
        self.problem = problem
        self.algorithm = algorithm
        self.plain = plain
        self.largest_rate = largest_rate
        self._least: dict[tuple[float, float], float] = {}

    def fewest(self, risk: float, most: float) -> float:
        """The fewest steps that may reach a risk, or fewer; at most `most`."""
        low = 1.0
        high = most
        while high > CLOSE_ENOUGH * low + 1:
            middle = max(low + 1, float(np.floor(np.sqrt(low * high))))
            low, high = (middle, high) if self.of_any_rate(middle) > risk else (low, middle)
        each = whole_numbers(low, min(most, EACH_ASKED))
        possible = (steps for steps in each.tolist() if self._possible(steps, risk))
        return next(possible, max(low, min(most, EACH_ASKED)))

    def possible(self, steps: np.ndarray, risk: float) -> np.ndarray:
        """(K,) whether these numbers of steps may reach a risk."""
        return np.array([self._possible(each, risk) for each in steps.tolist()], dtype=bool)

    def _possible(self, steps: float, risk: float) -> bool:
        if self.plain or steps > EACH_ASKED:
            return self.of_any_rate(steps) <= risk
        return all(self.of_the_mean_path(steps, cells) <= risk for cells in CELLS_A_STEP)

    def of_the_mean_path(self, steps: float, cells_a_step: float) -> float:
        """The least `Σ_i s_i f_i(γ)²` over γ, bounded from below in cells of its range.

        f is a polynomial of degree n in γλ: with `γλ = γ_max λ_1 sin²(θ/2)` it turns by at most n for each unit of θ.
        In a cell in which it turns by less than 1 it is no nearer to 0 than at the nearer end, less the second
        differences there, unless it changes its sign. Oscillators turn by √(γλ) a step: where γ may be larger than
        2/λ_1 there are as many more cells.
        """
        if (steps, cells_a_step) not in self._least:
            turns = np.sqrt(max(self.largest_rate(steps) * self.problem.largest_eigenvalue / 2, 1.0))
            cells = max(cells_a_step * steps * turns, LEAST_CELLS)
            self._least[steps, cells_a_step] = self._of_the_mean_path(steps, cells)
        return self._least[steps, cells_a_step]

    def _of_the_mean_path(self, steps: float, cells: float) -> float:
        angle = np.linspace(0.0, np.pi, int(cells) + 1)
        share = np.sin(angle / 2) ** 2
        largest = self.largest_rate(steps)
        modes = self.problem.modes(MEAN_RESOLVED / (steps * largest))
        found = mean_paths(self.algorithm, modes.eigenvalue, largest * share, steps)
        found = np.nan_to_num(found, nan=0.0)
        relative = modes.eigenvalue / self.problem.largest_eigenvalue
        turn = steps * np.diff(2 * np.arcsin(np.sqrt(share[:, None] * relative)), axis=0)
        bend = np.abs(np.diff(found, 2, axis=0))
        bend = np.maximum(np.pad(bend, ((1, 0), (0, 0)), mode="edge"), np.pad(bend, ((0, 1), (0, 0)), mode="edge"))
        size = np.minimum(np.abs(found[1:]), np.abs(found[:-1])) - bend
        counts = (turn <= RESOLVED_TURN) & (found[1:] * found[:-1] > 0)
        return float((np.where(counts, np.maximum(size, 0.0), 0.0) ** 2 @ modes.signal).min())

    def of_any_rate(self, steps: float) -> float:
        """A bound that is sooner known, and falls with n.

        The mean of w̄ alone leaves `Σ s_i [(1 − (1 − x_i)^n)/(n x_i)]²`, x_i = γλ_i < 2λ_i/λ_1. For directions with
        2λ_i ≤ λ_1 that falls with x_i: their bias at x_i = 2λ_i/λ_1 is out of reach of any B, and it falls with n. Any
        method whose gradients displace by at most T in n steps leaves `(1 − Tλ)²` of directions with Tλ < 1.
        """
        if self.plain:
            return self._of_averages(steps)
        largest = max(self.largest_rate(2.0), self.largest_rate(steps))
        reach = 2 * displacement(self.algorithm.method, largest, steps)
        modes = self.problem.modes(MEAN_RESOLVED / max(reach, 1e-300))
        left = 1 - reach * modes.eigenvalue
        return float(modes.signal @ np.where(left > 0, left, 0.0) ** 2)

    def _of_averages(self, steps: float) -> float:
        modes = self.problem.modes(MEAN_RESOLVED * self.problem.largest_eigenvalue / steps)
        x = 2 * modes.eigenvalue / self.problem.largest_eigenvalue
        signal = modes.signal[x <= 1]
        x = x[x <= 1]
        with np.errstate(all="ignore"):  # (1 − x)^n underflows, log 0 is meant
            mean = np.where(steps * x > 0, one_minus_power(x, steps) / np.where(steps * x > 0, steps * x, 1.0), 1.0)
        return float(signal @ mean**2)
