"""The least risk over all learning rates: what every search for steps and batch sizes asks for."""

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
from scipy.optimize import brentq

from sgdtheory._common.arguments import checked_problem
from sgdtheory.algorithms import SGD, Algorithm, checked_algorithm
from sgdtheory.critical.edges import DivergingRates, Edges
from sgdtheory.critical.oscillations import MeanPath, add_minima_of_mean, is_plain, oscillating_steps
from sgdtheory.critical.rate_search import GRID_ERROR, HOPELESS, LEAST_RISK, SETTLED, RateSearch, Tuned
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import COMPILED_FROM, growths_beyond, method_edge, run_risks

# Modes may be merged below this share of λ_1 (see `AbstractProblem.modes`): they give Σ s λ and Σ λ², polynomials.
MOMENTS_RESOLVED = 1e-2
# With more steps than this times B, |q|^n ≤ (1 − 4/B)^n has died out at the edge, and steps do not resonate there.
RESONANT = 4.0
# This many n in a row, over the fraction φ of a tail, have tails of both parities, and next to φn or next to φn + 1.
TAILS = 4.0
# The search reckons with these slopes of log Δ at most, without and with divergence: where γ goes on until runs
# diverge, the risk rises by orders of magnitude within a factor of γ. With 2, two of 800 random runs of schedule-free
# SGD missed a minimum by 1.5%.
STEEPEST, STEEPEST_DIVERGING = 2.0, 5.0
# An interval of positions this narrow hides no minimum, where slopes are STEEPEST.
FINEST = 0.6
# Peaks of schedules are searched up to this many stability edges beyond the edge, while the moments would grow by at
# most e^ALLOWED_GROWTH on the way. No optimum is known beyond.
BEYOND_EDGE, ALLOWED_GROWTH = 3.0, 3.0
# The rate of growth beyond the edge is measured at this share of the edge beyond it, where it is linear.
JUST_BEYOND = 0.01
# This many rounds look for minima with rough risks where runs need panels: then exact risks cost four times as much,
# and eight rounds leave a tenth of the minima of schedule-free SGD to exact ones. Closed forms cost about the same.
ROUGH_ROUNDS = 8
# The grid of a method that changes with the step has this relative error. With that of other grids, 1e-5, searches of
# schedule-free SGD take 1.5 times as long; with this one those of a cosine would take twice as long.
CHANGING_GRID_ERROR = 1e-2
LARGEST_RISK = 1e9  # Risks above this many initial risks are the same: the run diverges.
# Up to this many steps the bias bounds the risk of plain steps from below: the directions are merged for more.
FEW_PLAIN_STEPS = 64.0
SHAPE_POINTS = 4096  # A batch schedule is averaged over this many fractions of the steps.
# From this many single steps of a schedule on a search compiles them, because it takes them often: B* of a cosine at
# D = 10⁶ takes 1.4 instead of 2.4 s, after 3 s of compilation.
COMPILED_SCHEDULE = 100.0
# From this many single steps on, equal steps of a method with several vectors are compiled: heavy ball takes 1.2
# instead of 1.4 s.
COMPILED_MOMENTUM = 32.0


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
        shares = algorithm.average.returned(2.0, 2.0)
        # A sum of iterates holds w_0 alone after one step, which teaches nothing.
        self.first_steps = 1.0 if shares.iterate else 2.0
        self.averaged = shares.total != 0
        changing = algorithm.method.step_dependence not in ("none", "period")
        self.resonant = RESONANT if self.averaged or changing else 0.0
        self.oscillating = oscillating_steps(algorithm)
        on_panels = changing or not (algorithm.schedule.flat and algorithm.batch_schedule.flat)
        self._rough_rounds = ROUGH_ROUNDS if on_panels else 0
        self.plain = is_plain(algorithm)
        # Lengths ⌈φn⌉ of tails and ends of rounds and stages repeat after so many numbers of steps.
        fraction = getattr(algorithm.average, "fraction", 1.0)
        self.pattern = max(np.ceil(TAILS / fraction) if fraction < 1 else 0.0, float(algorithm.method.period))
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
        # nγλ_1/B of the least risk to second order in γ, where nothing is learnt yet.
        self._first_gain = 1.5 * (modes.signal @ ratio) / noise
        self._peaks = _Peaks(self.algorithm)
        self._grid_error = CHANGING_GRID_ERROR if changing else GRID_ERROR
        self._stable_edge = Edges(partial(method_edge, problem, algorithm.method), algorithm.method != SGD())
        self._diverging = DivergingRates(
            partial(self.risk, tolerance=self._grid_error),
            self.initial_risk,
            1 / self.largest_eigenvalue,
            self.first_steps,
            self.resonant,
            stretching=algorithm.schedule.smooth,
        )
        self._growths: dict[float, float] = {}
        self._compiled_from = COMPILED_FROM  # rounds and equal steps of one vector have closed forms
        if self.algorithm.method.period == 1 and not self.algorithm.constant:
            self._compiled_from = COMPILED_SCHEDULE
        elif self.algorithm.method.period == 1 and algorithm.method.vectors > 1:
            self._compiled_from = COMPILED_MOMENTUM
        self._directions = modes
        self._mean_path = MeanPath(algorithm, modes, self._largest)

    def risk(self, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """Exact Δ for γ up to the edge or a little, of order 1/n, beyond; sooner with a relative error allowed."""
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
            summed=True,
        )
        return np.minimum(found.parts.sum(0).reshape(batch.shape), self._largest)

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

    def least(
        self,
        batch: np.ndarray,
        steps: np.ndarray,
        goal: float = np.inf,
        window: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Tuned:
        """Return the best of all learning rates for (P,) B and n.

        Args:
            batch, steps: (P,) B ≥ 1, which need not be whole, and n.
            goal: a risk; pairs whose least one exceeds it more than `HOPELESS` times are known roughly.
            window: (P,) ends of the γ to look at first, if the risk is known to be larger beyond.
        """
        edge = self.edge(batch, steps)
        found = np.array([edge, np.full(batch.size, np.inf), np.zeros(batch.size), edge])
        means = {
            pair: self._mean_path(float(edge[pair]), float(steps[pair]))
            for pair in np.flatnonzero(steps <= self.oscillating).tolist()
        }
        for pair, (_, mean) in means.items():  # a bound from below, whatever B
            if mean.min() > HOPELESS * goal:
                found[1, pair] = mean.min()
        if self.plain and np.isfinite(goal):
            bound = self._least_bias(edge, steps)
            found[1] = np.where(bound > HOPELESS * goal, bound, found[1])
        left = np.flatnonzero(np.isinf(found[1]))
        if left.size:
            oscillating = {k: means[pair] for k, pair in enumerate(left.tolist()) if pair in means}
            first_order = np.minimum(self._first_gain * batch, 1.0) / (steps * self.largest_eigenvalue)
            first = 0.1 * np.minimum(first_order, edge)
            low, high = (first, edge) if window is None else (np.maximum(window[0], first), window[1])
            search = self._search(batch[left], steps[left], edge[left])
            windowed = np.zeros(batch.size, dtype=bool) if window is None else window[0] > 0
            search.begin(low[left], high[left], windowed[left])
            log_goal = np.log(max(goal, LEAST_RISK))
            search.cut(log_goal)
            add_minima_of_mean(search, oscillating, goal)
            search.refine(log_goal, SETTLED)
            found[:, left] = search.answers(log_goal)
        # Too few steps leave w_0 whatever γ: the end of the range stands for all of them.
        found[0] = np.where(steps >= self.first_steps, found[0], edge)
        return Tuned(*found)

    def _least_bias(self, edge: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return a bound from below on the (P,) risks of plain steps, whatever B and γ.

        The mean path of a direction falls with γ as long as γλ ≤ 1: the bias of those with edge λ ≤ 1, at the edge.
        """
        x = np.multiply.outer(edge, self._directions.eigenvalue)
        few = np.minimum(steps, FEW_PLAIN_STEPS)[:, None]
        fall = few * np.log1p(-np.minimum(x, 1 - 1e-12))
        left = -np.expm1(fall) / (few * x) if self.averaged else np.exp(fall)
        bias = np.where(x <= 1, left, 0.0) ** 2 @ self._directions.signal
        return np.where(steps <= FEW_PLAIN_STEPS, bias, 0.0)

    def _search(self, batch: np.ndarray, steps: np.ndarray, edge: np.ndarray) -> RateSearch:
        def risk(rate: np.ndarray, pair: np.ndarray, error: float) -> np.ndarray:
            return self.risk(batch[pair], rate, steps[pair], error)

        steepest = STEEPEST_DIVERGING if self._without_threshold else STEEPEST
        resonant = steps <= self.resonant * batch
        return RateSearch(risk, edge, steps, resonant, steepest, FINEST, self._rough_rounds, self._grid_error)


def _known(known: dict[float, float], keys: np.ndarray, look: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(P,) values of keys: those that are new are looked for together."""
    new = np.setdiff1d(keys, list(known))
    if new.size:
        known.update(zip(new.tolist(), look(new).tolist(), strict=True))
    return np.array([known[key] for key in keys.tolist()])


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
        return mean / self.level if self.level else np.array([self._peak(value) for value in mean.tolist()])

    def _peak(self, mean: float) -> float:
        factors = self.factors
        if mean <= 1:
            return 1 / float(factors.max())

        def excess(peak: float) -> float:
            return float(np.maximum(peak * factors, 1.0).mean()) - mean

        return float(brentq(excess, 0.0, mean / factors.mean() * 1.0000001, xtol=1e-13, rtol=1e-13))  # pyright: ignore
