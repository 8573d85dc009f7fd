"""The least risk over all learning rates: what every search for steps and batch sizes asks for."""

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
from scipy.optimize import brentq

from sgdtheory._common.arguments import checked_problem
from sgdtheory.algorithms import SGD, Algorithm, LinearMethod, checked_algorithm
from sgdtheory.critical.edges import DivergingRates, Edges
from sgdtheory.critical.least_risk import Tuned
from sgdtheory.critical.mean_risks import MeanRisks
from sgdtheory.critical.out_of_reach import OutOfReach
from sgdtheory.critical.patterns import MOST_SWINGING, StepPatterns, patterns_of
from sgdtheory.critical.risk_against_rate import SCAN_ERROR, STEEPEST, STEEPEST_DIVERGING, RiskAgainstRate
from sgdtheory.critical.swings import LEAST_RISK, Swings
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import (
    COMPILED_FROM,
    displacement,
    growths_beyond,
    mean_risk,
    method_edge,
    run_risks,
)

# What a problem is asked for: where its modes may begin to merge (see `AbstractProblem.modes`).
MOMENTS_RESOLVED = 1e-2  # λ/λ_1: for Σ s λ and Σ λ², polynomials everywhere
LEADING = 8  # directions, those with most of the signal
NARROW = 16  # steps: of so few the basins may be narrower than that
BASIN = 1.0  # a followed minimum that has moved farther than this has been lost
MAY_SWING = 2.0  # times as many steps as swing as a rule: beside a very small risk they may
BEYOND_EDGE = 3.0  # times the stability edge: as far beyond it as peaks of schedules are looked for
ALLOWED_GROWTH = 3.0  # e^3 times the moments on the way are more than any optimum has
JUST_BEYOND = 0.01  # of the edge: where the rate of growth is measured
LARGEST_RISK = 1e9  # of the initial risk: all that diverges is the same
SHAPE_POINTS = 4096  # at which a batch schedule is averaged
LARGEST_BATCH = 1e15  # no noise is left: the largest γ of all
COMPILED_OFTEN = 100.0  # single steps that are compiled rather than taken one by one: searches take them often;
COMPILED_ALIKE = 32.0  # where all are alike, of several vectors
# (of methods that repeat as few as the engine takes by itself: rounds have a closed form)


class TunedRisk:
    """`min_γ Δ(B, γ, n)` of an algorithm over its range of γ, for any real B ≥ 1 and many (B, n) at once.

    Holds what does not depend on B, γ and n: the searches of this wing know problem and algorithm by this object alone.
    Where the batch size varies, B is its mean over the run.

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        algorithm: what is run.

    Raises:
        ValueError: no signal in a direction with λ > 0.
    """

    def __init__(self, problem: AbstractProblem, algorithm: Algorithm = Algorithm()) -> None:  # noqa: B008 (frozen)
        self.problem = checked_problem(problem)
        self.algorithm = checked_algorithm(algorithm)
        self.patterns = patterns_of(algorithm)
        self.workers = algorithm.workers  # D and B are those of one worker here
        self.initial_risk = problem.initial_risk
        self._largest = LARGEST_RISK * self.initial_risk
        self.largest_eigenvalue = problem.largest_eigenvalue
        modes = problem.modes(MOMENTS_RESOLVED * max(self.largest_eigenvalue, 1e-300))
        if not modes.signal @ modes.eigenvalue > 0:
            raise ValueError(
                "problem must have signal in a direction with a positive eigenvalue: without it every step adds noise "
                f"and the best learning rate is 0, got an initial risk of {problem.initial_risk:g}"
            )
        ratio = modes.eigenvalue / self.largest_eigenvalue
        noise = modes.multiplicity @ ratio**2 * (2 * self.initial_risk + problem.noise_variance)
        self._first_gain = 1.5 * (modes.signal @ ratio) / noise
        self._peaks = _Peaks(self.algorithm)
        self._stable_edge = Edges(partial(method_edge, problem, algorithm.method), algorithm.method != SGD())
        self._diverging = DivergingRates(
            partial(self.risk, tolerance=SCAN_ERROR),
            self.initial_risk,
            1 / self.largest_eigenvalue,
            self.patterns.first_steps,
            self.patterns.resonant,
            stretching=algorithm.schedule.smooth,
        )
        self._growths: dict[float, float] = {}
        self._patterns: dict[float, StepPatterns] = {}
        repeats = self.algorithm.method.period > 1
        alike = COMPILED_ALIKE if self.algorithm.constant and algorithm.method.vectors > 1 else COMPILED_OFTEN
        self._compiled_from = COMPILED_FROM if repeats else alike
        self._leading = _leading(modes.eigenvalue, modes.signal)
        self.out_of_reach = OutOfReach(problem, self.algorithm, self.patterns.plain, self._largest_rate)

    def risk(self, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """Exact Δ for γ up to the edge or a little, of order 1/n, beyond; sooner with a relative error allowed."""
        return self.parts(batch, rate, steps, tolerance).sum(0)

    def parts(self, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """(2, …) bias and variance of `risk`."""
        found = run_risks(
            self.problem,
            self.algorithm,
            self._peaks(batch.ravel()),
            rate.ravel(),
            steps.ravel(),
            rounded=False,
            tolerance=tolerance,
            estimate=False,
            stable=self.algorithm.steady,  # up to the edge
            compiled_from=self._compiled_from,
        )
        parts = np.reshape(found.parts, (2, *batch.shape))
        return np.minimum(parts, self._largest)

    def mean_risk(self, rate: np.ndarray, steps: float) -> np.ndarray:
        """(G,) `Σ_i s_i (oᵀE u_i)²` of the leading directions after n steps, or of the average of their iterates.

        Where methods depend on the step, more than a thousand stand for as many times larger ones.
        """
        if self.patterns.swinging < np.inf:
            found = mean_risk(self.algorithm, *self._leading, rate, steps)
            return np.minimum(np.nan_to_num(found, nan=self._largest), self._largest)
        if steps > MOST_SWINGING:
            rate = rate * (steps / MOST_SWINGING)
            steps = MOST_SWINGING
        return self._swings(rate, steps)

    @cached_property
    def _swings(self) -> MeanRisks:
        return MeanRisks(self.algorithm, *self._leading, self._largest_rate, self._largest)

    def edge(self, batch: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """The end of the range of γ: the largest stable one.

        The peak of a schedule may pass that for a while: up to where the moments would grow by e^`ALLOWED_GROWTH`.
            Where the method changes with the step, or γ_t is a function of it, runs of n steps diverge at the end.
        """
        if self._without_threshold:
            return self._diverging(batch, steps)
        edge = self._stable_edge(batch) / self._largest_factor
        if self.algorithm.steady:
            return edge
        return edge * (1 + self._overshoot(_known(self._growths, batch, self._growths_beyond) * steps))

    @property
    def _without_threshold(self) -> bool:
        algorithm = self.algorithm
        return algorithm.method.step_dependence not in ("none", "period") or not algorithm.schedule.smooth

    def _largest_rate(self, steps: float) -> float:
        one = np.array([LARGEST_BATCH]), np.array([steps])
        return float((self._diverging.coarse if self._without_threshold else self.edge)(*one)[0])

    @cached_property
    def _factors(self) -> np.ndarray:
        """The schedule at many fractions of the steps, those next to its knots included."""
        return self.algorithm.schedule.at((np.arange(SHAPE_POINTS) + 0.5) / SHAPE_POINTS)

    @cached_property
    def _largest_factor(self) -> float:
        """Return the largest factor of γ in the schedule: 1 where γ is its peak."""
        schedule = self.algorithm.schedule
        ends = schedule.at(np.array([0.0, *schedule.knots()]))
        largest = float(max(self._factors.max(), ends.max()))
        return largest if largest > 0 else 1.0

    def _growths_beyond(self, batch: np.ndarray) -> np.ndarray:
        """Return the slope of the growth rate in (largest γ_t)/edge, beyond the edge."""
        rate = self._stable_edge(batch) * (1 + JUST_BEYOND)
        return growths_beyond(self.problem, self.algorithm.method, batch, rate) / JUST_BEYOND

    def _overshoot(self, speed: np.ndarray) -> np.ndarray:
        """δ with `speed · mean((1 + δ) f(u) − 1)₊ = ALLOWED_GROWTH`, f the schedule; at most `BEYOND_EDGE`."""
        with np.errstate(divide="ignore"):  # no growth: as far as is looked
            wanted = ALLOWED_GROWTH / speed
        return np.exp(np.interp(np.log(wanted), *self._means_beyond))

    @cached_property
    def _means_beyond(self) -> tuple[np.ndarray, np.ndarray]:
        """Logs of `mean((1 + δ) f(u) − 1)₊`, increasing, and of δ."""
        factors = self._factors / self._largest_factor
        trial = np.geomspace(1e-12, BEYOND_EDGE, 400)
        means = np.array([np.maximum((1 + delta) * factors - 1, 0.0).mean() for delta in trial])
        return np.log(np.maximum(means, 1e-300)), np.log(trial)

    def least(self, batch: np.ndarray, steps: np.ndarray) -> Tuned:
        """The best of all learning rates for (P,) B and n: scan, then refine."""
        curve = self._curve(batch, steps)
        place, value = curve.minima(self._least_rate(curve))
        share = np.where(steps >= self.patterns.first_steps, curve.share(place), 1.0)
        return Tuned(share * curve.edge, np.exp(value), share)

    def _curve(self, batch: np.ndarray, steps: np.ndarray) -> RiskAgainstRate:
        swings = None
        if until := self.patterns.swinging:
            swings = Swings(self.parts, self.mean_risk, partial(self._swing, steps), steps <= MAY_SWING * until)
        steepest = STEEPEST_DIVERGING if self._without_threshold else STEEPEST
        edge = self.edge(batch, steps)
        return RiskAgainstRate(self.risk, edge, batch, steps, self.patterns.resonant, swings, steepest)

    def _swing(self, steps: np.ndarray, risk: np.ndarray) -> np.ndarray:
        """(P,) whether what is left of early steps still makes the risk swing with γ, beside so much of it."""
        if not 0 < self.patterns.memory < np.inf:
            return steps <= self.patterns.swinging
        return steps <= np.array([self.patterns_at(each).swinging for each in risk.tolist()])

    def patterns_at(self, risk: float) -> StepPatterns:
        """Return how the least risk of this size depends on n: a small one shows oscillations for longer."""
        if not self.patterns.memory:
            return self.patterns
        left = 2 ** float(np.floor(np.log2(max(risk, LEAST_RISK) / self.initial_risk)))
        if left not in self._patterns:
            self._patterns[left] = patterns_of(self.algorithm, left)
        return self._patterns[left]

    def least_near(self, batch: np.ndarray, steps: np.ndarray, share: np.ndarray) -> Tuned:
        """`least`, in one basin alone: that of a γ/edge (`share`) nearby. A scan where it is lost."""
        curve = self._curve(batch, steps)
        start = curve.place(share)
        place, value, settled = curve.settle(start, np.arange(batch.size))
        lost = ~(settled & (np.abs(place - start) < BASIN))
        share = curve.share(place)
        found = Tuned(share * curve.edge, np.exp(value), share)
        if lost.any():
            for values, better in zip(found, self.least(batch[lost], steps[lost]), strict=True):
                values[lost] = better
        return found

    def roughly(self, batch: np.ndarray, steps: np.ndarray, rate: np.ndarray | None = None) -> Tuned:
        """`least` to some 1e-4, in one basin: that near the given γ, or the lowest of a few. Few steps get `least`."""
        best = np.empty((3, steps.size))
        many = steps > max(NARROW, self.patterns.memory)  # the basins of fewer may be narrower
        if many.any():
            best[:, many] = self._in_one_basin(batch[many], steps[many], None if rate is None else rate[many])
            many[many] = steps[many] > np.array([self.patterns_at(each).memory for each in best[1, many].tolist()])
        if (few := ~many).any():
            best[:, few] = self.least(batch[few], steps[few])
        return Tuned(*best)

    def _in_one_basin(self, batch: np.ndarray, steps: np.ndarray, rate: np.ndarray | None) -> Tuned:
        curve = RiskAgainstRate(self.risk, self.edge(batch, steps), batch, steps, 0.0)
        start = curve.lowest(self._least_rate(curve)) if rate is None else curve.place(np.minimum(rate / curve.edge, 1))
        place, value = curve.near(start)
        share = curve.share(place)
        return Tuned(share * curve.edge, np.exp(value), share)

    def _least_rate(self, curve: RiskAgainstRate) -> np.ndarray:
        """A tenth of the γ at which Δ is least if nothing is learnt but to first order, or that nγλ_1 = 1.

        For nγλ ≪ 1, (E1) is `Σ s_i − (n−1)γ Σ s_i λ_i + γ² (n−1)(2n−1)/(6nB) Σ λ_i² (Σ s + s_i + σ²) + …`. Methods with
        momentum go as far with a smaller γ.
        """
        first_order = np.minimum(self._first_gain * curve.batch, 1.0) / (curve.steps * self.largest_eigenvalue)
        if len(self.algorithm.method.start) > 1:
            first_order = first_order / _gains(self.algorithm.method, curve.steps)
        return 0.1 * np.minimum(first_order, curve.edge)


def _known(known: dict[float, float], keys: np.ndarray, look: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(P,) values of keys: those that are new are looked for together."""
    new = np.setdiff1d(keys, list(known))
    if new.size:
        known.update(zip(new.tolist(), look(new).tolist(), strict=True))
    return np.array([known[key] for key in keys.tolist()])


def _gains(method: LinearMethod, steps: np.ndarray) -> np.ndarray:
    """(P,) how much farther than SGD a method goes in n steps, or up to twice as many, with gradient 1."""
    rounded, place = np.unique(2 ** np.ceil(np.log2(steps)), return_inverse=True)
    reach = np.array([displacement(method, 1.0, each) for each in rounded.tolist()])
    return np.maximum(reach[place] / steps, 1.0)


def _leading(eigenvalue: np.ndarray, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and signals of the directions that hold most of the signal, a few."""
    most = np.argsort(signal)[::-1][:LEADING]
    return eigenvalue[most], signal[most]


class _Peaks:
    """Peak batch sizes of an algorithm with given mean batch sizes, which need not be whole."""

    def __init__(self, algorithm: Algorithm) -> None:
        fractions = (np.arange(SHAPE_POINTS) + 0.5) / SHAPE_POINTS
        shape = algorithm.batch_schedule
        if not shape.smooth:
            raise ValueError(
                "batch_schedule must be a shape of fractions of the steps where numbers of steps are tried, got a "
                "function of the step; write st.Schedule(lambda u: …), with u = t/n, or use Stages or a named shape"
            )
        self.factors = shape.at(fractions)
        if not (self.factors > 0).any():
            raise ValueError("batch_schedule must be positive somewhere, got 0 everywhere")
        self.level = float(self.factors[0]) if np.ptp(self.factors) == 0 else 0.0

    def __call__(self, mean: np.ndarray) -> np.ndarray:
        """(P,) B for which the mean of max(1, B g) is this; with a mean of 1 all batches are."""
        return mean / self.level if self.level else np.array([self._peak(each) for each in mean.tolist()])

    def _peak(self, mean: float) -> float:
        factors = self.factors
        if mean <= 1:
            return 1 / float(factors.max())

        def excess(peak: float) -> float:
            return float(np.maximum(peak * factors, 1.0).mean()) - mean

        return float(brentq(excess, 0.0, mean / factors.mean() * 1.0000001, xtol=1e-13, rtol=1e-13))  # pyright: ignore
