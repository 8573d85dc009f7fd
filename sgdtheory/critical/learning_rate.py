"""The optimal learning rate: the global minimum of the exact risk over (0, stability edge]."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.optimize import elementwise

from sgdtheory._common.arguments import checked_problem, settings_arrays
from sgdtheory.theory import Problem, risk_parts, stability_edge

RESOLVED = 1e-2  # λ/λ_1 below which the sums here are polynomials in λ to rounding error
RESONANT = 4.0  # with more than this many times B steps |q|^n, at most (1 − 4/B)^n, has died out
SPACING = np.log(10) / 2  # of the places that are scanned first, below half the edge
SPACING_ABOVE = np.log(100)  # above half the edge
STEEPEST = 2.0  # slope of log Δ: what lies between two places is taken to be no lower than this allows
FINEST = 0.3  # an interval this narrow hides no minimum
FINE_SPACING, FINE_PLACES = 0.3, 9  # next to the edge where steps resonate: up to n (1 − γ/edge) ≈ 14
CONTENDER = 5.0  # a local minimum of the scan this many times above the least one is not looked into
TOLERANCES = {"xatol": 1e-10, "xrtol": 0.0, "fatol": 1e-9, "frtol": 0.0}  # of place and log Δ; one is enough
PARABOLAS = 0.3, 0.1, 0.01  # distances of the points that a parabola goes through, when there is a guess of the place
CLOSE = 0.2  # numbers of steps closer than this, as a logarithm, do without the widest
BASIN = 1.0  # farther from a guess a parabola is not trusted


@dataclass(frozen=True)
class OptimalLearningRate:
    """The best constant learning rate, and the excess risk that it attains.

    Attributes:
        learning_rate: γ* ∈ (0, stability edge], in units of 1/λ.
        risk: exact excess risk at γ*, in units of y².
    """

    learning_rate: np.ndarray | float
    risk: np.ndarray | float


def optimal_learning_rate(problem: Problem, *, batch_size, num_samples) -> OptimalLearningRate:
    """γ ∈ (0, γ_max(B)] that minimises the exact excess risk Δ(B, γ, D), γ_max the stability edge (THEORY.md T5).

    The risk may have several minima (one for each scale of the spectrum, and, where large steps overshoot, narrow ones
    near the edge), be flat for decades or be smallest at the edge: it is scanned from where nothing is learnt up to the
    edge, and every minimum that may be the least one is refined. The risk returned exceeds the least one by less than
    1e-6 of it (1e-9 as a rule). Above the edge SGD diverges in time, but a few steps need not have suffered yet: such γ
    are not considered.

    Args:
        problem: PowerLaw, LeastSquares or any other Problem with a signal that can be learnt.
        batch_size: B, whole numbers ≥ 1; scalar or array.
        num_samples: D ≥ B; scalar or array. The two broadcast like NumPy arrays.

    Returns:
        OptimalLearningRate with arrays of the broadcast shape. With a single step (D < 2B) the risk does not
        depend on γ, and γ* is the edge.

    Raises:
        ValueError: an argument outside its range, or a problem without signal.
    """
    learnable(problem)
    batch, _, samples = settings_arrays(batch_size, 1.0, num_samples)
    if batch.size == 0:
        return OptimalLearningRate(np.empty(batch.shape), np.empty(batch.shape))
    best = tune(problem, batch.ravel(), np.floor_divide(samples, batch).ravel())
    return OptimalLearningRate(best.rate.reshape(batch.shape)[()], best.risk.reshape(batch.shape)[()])


def learnable(problem: Problem) -> Problem:
    """`problem`, if there is something to learn.

    Raises:
        ValueError: no signal in a direction with λ > 0.
    """
    modes = checked_problem(problem).modes(RESOLVED * max(problem.largest_eigenvalue, 1e-300))
    if not modes.signal @ modes.eigenvalue > 0:
        raise ValueError(
            "problem must have signal in a direction with a positive eigenvalue: without it every step adds noise "
            f"and the best learning rate is 0, got an initial risk of {problem.initial_risk:g}"
        )
    return problem


class Tuned(NamedTuple):
    """The best γ, the risk that it attains, and γ over the stability edge. Arrays (P,)."""

    rate: np.ndarray
    risk: np.ndarray
    share: np.ndarray


def tune(problem: Problem, batch: np.ndarray, steps: np.ndarray) -> Tuned:
    """The best of all learning rates for (P,) B (not necessarily whole) and n: scan, then refine."""
    curve = RiskAgainstRate(problem, batch, steps)
    place, value, setting = curve.scan()
    minimum = (value[1:-1] <= value[:-2]) & (value[1:-1] <= value[2:]) & (setting[:-2] == setting[2:])
    k = 1 + np.flatnonzero(minimum & (value <= _lowest(value, setting) + np.log(CONTENDER))[1:-1])
    setting, bracket = setting[k], tuple(place[k + shift] for shift in (-1, 0, 1))
    found = elementwise.find_minimum(curve, bracket, args=(setting,), tolerances=TOLERANCES)
    assert found.success.all(), "every bracket holds a minimum"
    order = np.lexsort((found.f_x, setting))
    setting, first = np.unique(setting[order], return_index=True)
    assert setting.size == steps.size, "every setting has a minimum"
    share = np.where(steps > 1, curve.share(found.x[order][first]), 1.0)
    return Tuned(share * curve.edge, np.exp(found.f_x[order][first]), share)


def _lowest(value: np.ndarray, setting: np.ndarray) -> np.ndarray:
    """(G,) for each place the least value of its setting; the places of a setting stand together."""
    return np.minimum.reduceat(value, np.flatnonzero(np.diff(setting, prepend=-1)))[setting]


def tune_near(problem: Problem, batch: np.ndarray, steps: np.ndarray, share: np.ndarray, before: np.ndarray) -> Tuned:
    """`tune`, in one basin alone: that of the best γ/edge (`share`) with another number of steps, `before`.

    Parabolas, each inside the one before; a scan where they do not fit.
    """
    curve = RiskAgainstRate(problem, batch, steps)
    place = curve.place(
        np.minimum(np.where(share < 0.5, share * before / steps, share), 1.0)
    )  # nγ or, near the edge, γ
    index, lost = np.arange(batch.size), np.zeros(batch.size, dtype=bool)
    for width in PARABOLAS[int(np.abs(np.log(steps / before)).max() < CLOSE) :]:
        left, here, right = curve(place + width * np.array([[-1.0], [0.0], [1.0]]), index)
        bend = left - 2 * here + right
        step = width / 2 * (left - right) / np.where(bend > 0, bend, np.inf)
        lost |= ~((bend > 0) & (np.abs(step) < BASIN) & (place + step < curve.end - 3 * width))
        place = np.where(lost, place, place + step)
    share = curve.share(place)
    found = Tuned(share * curve.edge, np.exp(curve(place, index)), share)
    if lost.any():
        for values, better in zip(found, tune(problem, batch[lost], steps[lost]), strict=True):
            values[lost] = better
    return found


class RiskAgainstRate:
    """log Δ for P settings as a function of a place on the line: `γ/edge = (1 + 1/n) / (1 + e^−place)`.

    The place is log(γ/edge) for small γ and −log(1 − γ/edge) near the edge, where directions that overshoot give the
    risk features down to 1 − γ/edge ≈ 1/n. Beyond the edge, at place log n, the risk goes on as its mirror image: so a
    minimum at the edge is one inside a bracket.
    """

    def __init__(self, problem: Problem, batch: np.ndarray, steps: np.ndarray) -> None:
        self.problem, self.batch, self.steps = problem, batch, steps
        self.fineness = np.maximum(steps, 2.0)  # a single step leaves the risk as it is, whatever γ
        self.edge, self.end = stability_edge(problem, batch), np.log(self.fineness)

    def place(self, share: np.ndarray) -> np.ndarray:
        """Places of (P,) γ/edge ≤ 1."""
        return np.log(share / (1 - share + 1 / self.fineness))

    def share(self, place: np.ndarray, setting: np.ndarray | slice = slice(None)) -> np.ndarray:
        """γ/edge at `place` of the settings with these indices."""
        end = self.end[setting]
        return np.minimum((1 + 1 / self.fineness[setting]) * special.expit(end - np.abs(place - end)), 1.0)

    def __call__(self, place: np.ndarray, setting: np.ndarray) -> np.ndarray:
        """log Δ at `place` of the settings with these indices."""
        setting = np.broadcast_to(setting, place.shape)
        rate = self.edge[setting] * self.share(place, setting)
        risk = risk_parts(self.problem, self.batch[setting], rate, self.steps[setting]).sum(0)
        assert not np.isnan(risk).any(), "a risk is a number: comparisons with nan would be false ever after"
        return np.log(np.maximum(risk, 1e-300))

    def scan(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places, increasing for each setting, log Δ there, and the setting that each belongs to: (G,) flat arrays."""
        start = self.place(self._least_rate() / self.edge)
        resonant = self.steps <= RESONANT * self.batch
        places = [_places(*ends) for ends in zip(start, self.end, resonant, strict=True)]
        setting = np.repeat(np.arange(len(places)), [one.size for one in places])
        place = np.concatenate(places)
        value = self(place, setting)
        while (after := self._where_more_may_hide(place, value, setting)).size:
            middle = (place[after - 1] + place[after]) / 2
            value = np.insert(value, after, self(middle, setting[after]))
            place, setting = np.insert(place, after, middle), np.insert(setting, after, setting[after])
        assert (np.diff(place) > 0)[np.diff(setting) == 0].all(), "places increase"
        return place, value, setting

    def _where_more_may_hide(self, place: np.ndarray, value: np.ndarray, setting: np.ndarray) -> np.ndarray:
        """The right ends of intervals, up to the edge, in which the risk may be less than anywhere seen."""
        width = np.where(np.diff(setting) == 0, np.diff(place), 0.0)
        bound = (value[:-1] + value[1:] - STEEPEST * width) / 2
        inside = place[1:] <= self.end[setting[1:]]
        return 1 + np.flatnonzero((width > FINEST) & inside & (bound < _lowest(value, setting)[1:]))

    def _least_rate(self) -> np.ndarray:
        """A tenth of the γ at which Δ is least if nothing is learnt but to first order, or that nγλ_1 = 1.

        For nγλ ≪ 1, (E1) is `Σ s_i − (n−1)γ Σ s_i λ_i + γ² (n−1)(2n−1)/(6nB) Σ λ_i² (Σ s + s_i + σ²) + …`.
        """
        problem, n, largest = self.problem, self.steps, self.problem.largest_eigenvalue
        modes = problem.modes(RESOLVED * largest)
        ratio = modes.eigenvalue / largest
        noise = modes.multiplicity @ ratio**2 * (2 * problem.initial_risk + problem.noise_variance)
        balance = 1.5 * self.batch * (modes.signal @ ratio) / (noise * n)
        return 0.1 * np.minimum(np.minimum(balance, 1 / n) / largest, self.edge)


def _places(start: float, end: float, resonant: bool) -> np.ndarray:
    """Places to scan: from one before `start`, the least γ of interest, to the edge, and the last in the mirror."""
    fine = end + FINE_SPACING * np.arange(-FINE_PLACES if resonant else 0, 1)
    split = min(fine[0], 0.0)  # few steps: the fine places reach below half the edge
    below = split - SPACING * np.arange(max(np.ceil((split - start) / SPACING), 0.0) + 1, 0.0, -1)
    above = np.linspace(split, fine[0], int(np.ceil((fine[0] - split) / SPACING_ABOVE)) + 1)[:-1]
    places = np.concatenate([below, above, fine])
    return np.append(places, 2 * end - places[-2])
