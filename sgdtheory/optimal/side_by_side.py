"""Runs of a few steps, many side by side: their exact risks and gradients at every step (THEORY.md T20, T26)."""

from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import AbstractAverage
from sgdtheory.problems import Modes

TOGETHER = 256  # runs, whose moments stay in the cache


class Risks(NamedTuple):
    """Risks (S,), and their derivatives by log γ_t and log B_t, (S, n) each."""

    risk: np.ndarray
    by_rate: np.ndarray
    by_batch: np.ndarray


class _Before(NamedTuple):
    """Of a step of all runs, (S, K): γλ, what noise adds, and the moments r and x before it."""

    x: np.ndarray
    shaken: np.ndarray
    risk: np.ndarray
    cross: np.ndarray


class Runs:
    """Runs of n steps with any learning rates and batch sizes, as `optimal.run.Run` with a knot at every step.

    Args:
        modes: directions, weighted.
        noise_variance: σ².
        num_steps: n.
        average: what is returned.
    """

    def __init__(self, modes: Modes, noise_variance: float, num_steps: int, average: AbstractAverage) -> None:
        self.modes, self.noise, self.num_steps = modes, noise_variance, num_steps
        self.first_averaged = int(np.ceil(average.first(num_steps)))
        self.at_start = average.starts_at_iterate()
        self.rho = 1 - average.forgetting(num_steps)
        self.omega = average.weight(num_steps)
        a, c = average.returned(num_steps, num_steps)
        self.weights = a**2, 2 * a * c, c**2  # of Σ r, Σ x and Σ S² in the risk of what is returned

    def risks(self, log_rate: np.ndarray, log_batch: np.ndarray) -> Risks:
        """For `log γ` and `log B`, (S, n) each."""
        pieces = range(0, len(log_rate), TOGETHER)
        found = [self._risks(*(np.exp(each[k : k + TOGETHER]) for each in (log_rate, log_batch))) for k in pieces]
        return Risks(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def _risks(self, rate: np.ndarray, batch: np.ndarray) -> Risks:
        before, *sums = self._forward(rate, batch)
        by_rate, by_batch = self._backward(before, batch)
        risk = sum(weight * each for weight, each in zip(self.weights, sums, strict=True) if weight)
        return Risks(np.asarray(risk), by_rate, by_batch)

    def _forward(self, rate: np.ndarray, batch: np.ndarray) -> tuple[list[_Before], np.ndarray, np.ndarray, np.ndarray]:
        """What each step begins with; and Σ r, Σ x and Σ S² at the end, (S,)."""
        risk = np.tile(self.modes.signal, (len(rate), 1))
        cross = risk.copy() if self.at_start else np.zeros_like(risk)
        square = cross.sum(1)
        kept = []
        for t in range(self.num_steps):
            x = rate[:, t, None] * self.modes.eigenvalue
            drive = (risk.sum(1) + self.noise)[:, None] * self.modes.multiplicity
            shaken = x**2 / batch[:, t, None] * (risk + drive)
            kept.append(_Before(x, shaken, risk, cross))
            if t >= self.first_averaged:
                square = self.rho**2 * square
                square = square + (2 * self.rho * self.omega * cross + self.omega**2 * risk).sum(1)
                cross = (1 - x) * (self.rho * cross + self.omega * risk)
            risk = (1 - x) ** 2 * risk + shaken
        return kept, risk.sum(1), cross.sum(1), square

    def _backward(self, kept: list[_Before], batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """T26: derivatives by log γ_t and log B_t."""
        risk = np.full_like(kept[-1].risk, self.weights[0])
        cross = np.full_like(risk, self.weights[1])
        square = self.weights[2]
        by_rate, by_batch = np.empty_like(batch), np.empty_like(batch)
        for t in range(self.num_steps - 1, -1, -1):
            x, shaken, here, with_sum = kept[t]
            v, left = x**2 / batch[:, t, None], 1 - x
            weighted = risk * shaken
            by_batch[:, t] = -weighted.sum(1)
            by_rate[:, t] = 2 * (weighted - risk * x * left * here).sum(1)
            risk = (left**2 + v) * risk + ((risk * v) @ self.modes.multiplicity)[:, None]
            if t >= self.first_averaged:
                by_rate[:, t] -= (cross * x * (self.rho * with_sum + self.omega * here)).sum(1)
                risk = risk + self.omega * left * cross + self.omega**2 * square
                cross = self.rho * left * cross + 2 * self.rho * self.omega * square
                square = self.rho**2 * square
        return by_rate, by_batch
