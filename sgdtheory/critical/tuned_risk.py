"""The least risk over all stable learning rates: what every search for steps and batch sizes asks for."""

from typing import NamedTuple

import numpy as np

from sgdtheory._common.arguments import checked_problem
from sgdtheory.critical.risk_against_rate import RiskAgainstRate
from sgdtheory.critical.thresholds import BASIN, MEAN_RESOLVED, MOMENTS_RESOLVED
from sgdtheory.theory import Problem, one_minus_power, risk_parts, stability_edge


class Tuned(NamedTuple):
    """The best γ, the risk that it attains, and γ over the stability edge. Arrays (P,)."""

    rate: np.ndarray
    risk: np.ndarray
    share: np.ndarray


class TunedRisk:
    """`min_γ Δ(B, γ, n)` over the stable γ, for any real B ≥ 1 and many (B, n) at once.

    Holds what does not depend on B, γ and n: the searches of this wing know a problem by this object alone. (What is
    run on the problem, averaged SGD with a constant γ, is all in `risk` and `edge`.)

    Args:
        problem: PowerLaw, LeastSquares or any other Problem.

    Raises:
        ValueError: no signal in a direction with λ > 0.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = checked_problem(problem)
        self.initial_risk, self.largest_eigenvalue = problem.initial_risk, problem.largest_eigenvalue
        modes = problem.modes(MOMENTS_RESOLVED * max(self.largest_eigenvalue, 1e-300))
        if not modes.signal @ modes.eigenvalue > 0:
            raise ValueError(
                "problem must have signal in a direction with a positive eigenvalue: without it every step adds noise "
                f"and the best learning rate is 0, got an initial risk of {problem.initial_risk:g}"
            )
        ratio = modes.eigenvalue / self.largest_eigenvalue
        noise = modes.multiplicity @ ratio**2 * (2 * self.initial_risk + problem.noise_variance)
        self._first_gain = 1.5 * (modes.signal @ ratio) / noise

    def risk(self, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """Exact Δ for γ up to the edge or a little, of order 1/n, beyond; sooner with a relative error allowed."""
        return risk_parts(self.problem, batch, rate, steps, tolerance=tolerance, stable=True).sum(0)

    def edge(self, batch: np.ndarray) -> np.ndarray:
        """The largest stable γ."""
        return stability_edge(self.problem, batch)

    def least(self, batch: np.ndarray, steps: np.ndarray) -> Tuned:
        """The best of all learning rates for (P,) B and n: scan, then refine."""
        curve = RiskAgainstRate(self.risk, self.edge(batch), batch, steps)
        place, value = curve.minima(self._least_rate(curve))
        share = np.where(steps > 1, curve.share(place), 1.0)
        return Tuned(share * curve.edge, np.exp(value), share)

    def least_near(self, batch: np.ndarray, steps: np.ndarray, share: np.ndarray, before: np.ndarray) -> Tuned:
        """`least`, in one basin alone: that of the best γ/edge (`share`) with another number of steps, `before`.

        A scan where it is lost.
        """
        curve = RiskAgainstRate(self.risk, self.edge(batch), batch, steps)
        moved = np.minimum(np.where(share < 0.5, share * before / steps, share), 1.0)  # nγ or, near the edge, γ
        start = curve.place(moved)
        place, value, settled = curve.settle(start, np.arange(batch.size))
        lost = ~(settled & (np.abs(place - start) < BASIN))
        share = curve.share(place)
        found = Tuned(share * curve.edge, np.exp(value), share)
        if lost.any():
            for values, better in zip(found, self.least(batch[lost], steps[lost]), strict=True):
                values[lost] = better
        return found

    def out_of_reach(self, steps: float) -> float:
        """A risk that n steps leave, whatever B and stable γ.

        The mean of w̄ alone leaves `Σ s_i [(1 − (1 − x_i)^n)/(n x_i)]²`, x_i = γλ_i < 2λ_i/λ_1. For directions with
        2λ_i ≤ λ_1 that falls with x_i: their bias at x_i = 2λ_i/λ_1 is out of reach of any B, and it falls with n.
        """
        modes = self.problem.modes(MEAN_RESOLVED * self.largest_eigenvalue / steps)
        x = 2 * modes.eigenvalue / self.largest_eigenvalue
        x, signal = x[x <= 1], modes.signal[x <= 1]
        with np.errstate(all="ignore"):  # (1 − x)^n underflows, log 0 is meant
            mean = np.where(steps * x > 0, one_minus_power(x, steps) / np.where(steps * x > 0, steps * x, 1.0), 1.0)
        return float(signal @ mean**2)

    def _least_rate(self, curve: RiskAgainstRate) -> np.ndarray:
        """A tenth of the γ at which Δ is least if nothing is learnt but to first order, or that nγλ_1 = 1.

        For nγλ ≪ 1, (E1) is `Σ s_i − (n−1)γ Σ s_i λ_i + γ² (n−1)(2n−1)/(6nB) Σ λ_i² (Σ s + s_i + σ²) + …`.
        """
        first_order = np.minimum(self._first_gain * curve.batch, 1.0) / (curve.steps * self.largest_eigenvalue)
        return 0.1 * np.minimum(first_order, curve.edge)
