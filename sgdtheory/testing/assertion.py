"""`assert_bound`: a bound as a property, whose counterexample is one that a person can check by hand."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from sgdtheory.algorithms import DEFAULT, Algorithm
from sgdtheory.bounds import Comparison, Setting, compare, description
from sgdtheory.problems import AbstractProblem
from sgdtheory.testing import strategies
from sgdtheory.testing.strategies import hypothesis  # not imported above, because this import's error names the extra

SLACK = 1e-9  # Ratios to a bound may differ by this fraction: exact risks are right to 1e-10.
PHASE, HEALTH = hypothesis.Phase, hypothesis.HealthCheck
RANDOM = (PHASE.generate, PHASE.shrink)
CLIMBING = (PHASE.generate, PHASE.target, PHASE.shrink)
# A random search has this many examples. After its first ten Hypothesis changes each one that it draws five times
# instead of drawing new ones: of 300 examples of one search with climbs 25 are new, of 30 searches of ten nearly all.
SHORT = 10
OPTIONS = hypothesis.settings(
    deadline=None,
    database=None,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=(HEALTH.too_slow, HEALTH.filter_too_much, HEALTH.nested_given),
)


def assert_bound(
    bound: Callable[..., Any],
    *,
    within: float | None = None,
    upper: float | None = None,
    lower: float | None = None,
    quantity: str = "total",
    algorithm: Algorithm | None = None,
    settings: Any = None,
    max_examples: int = 600,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Assert `lower ≤ exact/bound ≤ upper` at random settings; else fail with the simplest counterexample.

    Problems are drawn by Hypothesis, each with some B, n and γ, which are tried in all combinations. Hypothesis pushes
    exact/bound towards both ends and shrinks what it finds: to one direction, B = 1, two steps, round numbers. Where
    the bound says that it does not apply it is not asked.

    A bound that passes may be false where nothing is drawn. The default settings never have more than six directions,
    eigenvalues further apart than a factor of 1e6, λ_1 outside 1e-3 … 1e4, B > 1000, n > 1e9, γ below 1e-12 of the edge
    1/R² or above 1 − 1e-6 of it, or power laws whose exponents are not multiples of 0.1. A bound with an effective
    dimension needs `settings=st.testing.settings(st.testing.problems(largest_dim=30))`. A bound that is false at a
    single B or n, or at less than about one in 10,000 of the settings, is found by chance only.

    Example:
        >>> import sgdtheory as st
        >>> st.testing.assert_bound(st.bounds.bach_moulines_2013, max_examples=50)
        >>> half = lambda problem, **run: st.bounds.bach_moulines_2013(problem, **run).total / 1e3
        >>> try:
        ...     st.testing.assert_bound(half)
        ... except AssertionError as wrong:
        ...     print(str(wrong).splitlines()[0][:22])
        exact/bound = 1.8 × 10

    Args:
        bound: as for `compare`.
        within: k: the bound holds up to a factor of k, from above and from below.
        upper: largest exact/bound; None: 1, unless only `lower` is given or the bound is a lower one.
        lower: smallest exact/bound; None: not asked, unless the bound is a lower one (1).
        quantity: "total", "bias" or "variance".
        algorithm: whose risk; None: the bound's own, else averaged SGD.
        settings: a strategy of `Setting`s; None: `st.testing.settings()`.
        max_examples: problems that are tried, with up to 343 B, n and γ each; of a strategy that `st.testing.settings`
            did not make, settings.
        seed: of the search: the same one tries the same settings.
        progress: called with how far the search is, in words, at each problem: it takes some ten seconds.

    Raises:
        AssertionError: the bound does not hold.
        ValueError: limits that leave no room, a bound that applies at none of the settings, or as of `compare`.
    """
    __tracebackhide__ = True  # of pytest, which shows the caller's line and the counterexample
    low, high = _limits(bound, within, upper, lower)
    run = algorithm or description(bound).algorithm or DEFAULT
    asking = _Asking(bound, quantity, run)
    strategy = strategies.in_grids(settings if settings is not None else strategies.settings())

    tried = itertools.count(1)

    def holds(setting: Setting) -> None:
        number = next(tried)
        if progress:
            shrinks = number > max_examples  # Hypothesis looks for a simpler counterexample
            progress("making the counterexample simpler" if shrinks else f"problem {number} of {max_examples}")
        found = asking.extremes(setting)
        if found is None:
            return
        _push(found.ratio)
        if found.ratio.max() > high * (1 + SLACK) or found.ratio.min() < low * (1 - SLACK):
            raise _Counterexample(_told(found, low, high, quantity, run))

    message = _counterexample(holds, strategy, max_examples, seed)
    if message:
        raise AssertionError(message)  # without what Hypothesis adds: frames of its own, scores of its climbs
    if not asking.answers:
        raise ValueError(
            f"the bound applies, with a finite value, at none of {max_examples} settings: pass settings= within its "
            "conditions, st.testing.settings(st.testing.problems(power_laws=False), edge=0.1) for example"
        )


def _counterexample(holds: Callable[[Setting], None], strategy: Any, max_examples: int, seed: int) -> str:
    """Return the message of the simplest counterexample that Hypothesis finds, empty if there is none.

    Half of the examples are tried in short random searches, the others in one that climbs.
    """
    short = max_examples // (2 * SHORT)
    searches = [(SHORT, RANDOM)] * short + [(max_examples - SHORT * short, CLIMBING)]
    for number, (examples, phases) in enumerate(searches):

        @hypothesis.seed(f"{seed}-{number}")
        @hypothesis.settings(OPTIONS, max_examples=examples, phases=phases)
        @hypothesis.given(strategy)
        def search(setting: Setting) -> None:
            holds(setting)

        try:
            search()
        except _Counterexample as wrong:
            return str(wrong)
    return ""


class _Counterexample(Exception):
    """One that Hypothesis shrinks."""


class _Asking:
    """A bound and the exact risk at settings with arrays of B, γ and D.

    The bound is called with arrays, and again with the numbers of the extremes. One that was written for numbers, and
    says something else or nothing of arrays, is called with numbers alone from then on.

    Attributes:
        answers: of how many settings the bound said something.
    """

    def __init__(self, bound: Callable[..., Any], quantity: str, algorithm: Algorithm):
        self._bound, self._quantity, self._algorithm = bound, quantity, algorithm
        self._takes_arrays = True
        self.answers = 0

    def extremes(self, setting: Setting) -> Comparison | None:
        """Return the comparison at the largest and the smallest exact/bound, None where no setting has a ratio."""
        numbers = np.stack([np.ravel(each) for each in np.broadcast_arrays(*setting[1:])])
        enough = numbers[2] >= self._algorithm.workers * numbers[0]  # for one step of all workers
        numbers = numbers[:, enough]
        if not numbers.size:
            return None
        found = self._compared(setting.problem, numbers)
        ratio = np.where(found.applies & np.isfinite(found.bound), found.ratio, np.nan)
        if np.isnan(ratio).all():
            return None
        ends = np.unique([np.nanargmax(ratio), np.nanargmin(ratio)])
        told = self._compare(self._bound, [Setting(setting.problem, *numbers[:, place]) for place in ends])
        same = np.allclose(told.bound, found.bound[ends], rtol=SLACK, atol=0) and (told.applies == 1).all()
        if not same and self._takes_arrays:
            self._takes_arrays = False
            return self.extremes(setting)
        self.answers += 1
        return told

    def _compared(self, problem: AbstractProblem, numbers: np.ndarray) -> Comparison:
        setting = Setting(problem, *numbers)
        if not self.answers:
            self._compare(self._bound, [Setting(problem, *numbers[:, 0])])  # raises what is wrong with numbers, too
        if self._takes_arrays:
            try:
                return self._compare(self._bound, [setting])
            except Exception:  # A function that was written for numbers may fail in any way at arrays.
                self._takes_arrays = False
        # An error that numbers raise, too, is raised from here at every attempt, outside of the handler above:
        # Hypothesis replays a failure, and reports one with another context as a flaky test.
        self._compare(self._bound, [Setting(problem, *numbers[:, 0])])
        return self._compare(self._one_by_one, [setting])

    def _one_by_one(self, problem: AbstractProblem, **run: np.ndarray) -> SimpleNamespace:
        """The bound's values at the numbers of arrays."""
        rows = zip(*run.values(), strict=True)
        values = [self._bound(problem, **dict(zip(run, map(np.asarray, row), strict=True))) for row in rows]
        numbers = [float(getattr(value, self._quantity, value)) for value in values]
        applies = [bool(getattr(value, "applies", True)) for value in values]
        return SimpleNamespace(**{self._quantity: np.array(numbers), "applies": np.array(applies)})

    def _compare(self, bound: Callable[..., Any], settings: list[Setting]) -> Comparison:
        return compare(bound, settings, quantity=self._quantity, algorithm=self._algorithm)


def _limits(bound: Any, within: float | None, upper: float | None, lower: float | None) -> tuple[float, float]:
    if within is not None:
        if upper is not None or lower is not None or not within >= 1:
            raise ValueError(f"within must be at least 1 and stand alone, without upper and lower, got {within}")
        return 1 / within, within
    about = description(bound)
    if upper is None and lower is None:
        if about.side == "both" or about.standing == "order":
            raise ValueError("the bound holds up to constant factors: say within= which, 8 for example")
        return (1.0, np.inf) if about.side == "lower" else (0.0, 1.0)
    low = 0.0 if lower is None else lower
    high = np.inf if upper is None else upper
    if not 0 <= low < high:
        raise ValueError(f"lower must be at least 0 and below upper, got lower={low:g} and upper={high:g}")
    return low, high


def _push(ratio: np.ndarray) -> None:
    """Let Hypothesis climb towards both ends."""
    logs = np.log(np.clip(ratio, 1e-300, 1e300))
    hypothesis.target(float(logs.max()), label="exact/bound, from above")
    hypothesis.target(float(-logs.min()), label="exact/bound, from below")


def _told(found: Comparison, low: float, high: float, quantity: str, algorithm: Algorithm) -> str:
    """The counterexample in words, and worked out where that takes a few lines."""
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.fmax(found.ratio / high, low / found.ratio)
    place = int(np.nanargmax(np.where(found.applies, beyond, -np.inf)))
    setting = found.settings[place]
    batch, rate, samples = (float(value) for value in np.array(setting[1:]))
    limit = f"above {high:.10g}" if found.ratio[place] > high else f"below {low:.10g}"
    what = "" if quantity == "total" else f", of the {quantity} alone"
    lines = [
        f"exact/bound = {found.ratio[place]:.10g}, {limit}{what}, at",
        f"  {setting.problem}",
        f"  B = {batch:g}, γ = {rate:g}, D = {samples:g} ({samples / (algorithm.workers * batch):g} steps)",
        f"  exact risk {found.exact[place]:.10g}, bound {found.bound[place]:.10g}",
    ]
    if algorithm == DEFAULT and quantity == "total" and setting.problem.dim == 1 and samples == 2 * batch:
        lines += _worked_out(setting.problem, batch, rate)
    return "\n".join(lines)


def _worked_out(problem: AbstractProblem, batch: float, rate: float) -> list[str]:
    """One direction and two steps: w̄ = (w_0 + w_1)/2."""
    eigenvalues, signal = problem.directions()
    step = float(rate * eigenvalues[0])
    first = float(signal[0])
    noise = problem.noise_variance
    second = (1 - step) ** 2 * first + step**2 / batch * (2 * first + noise)
    mean = (first + 2 * (1 - step) * first + second) / 4
    return [
        f"by hand: r_0 = s = {first:g}",
        f"  r_1 = (1 − γλ)² r_0 + (γλ)²/B (2 r_0 + σ²) = {second:.10g}   (x Gaussian: E x⁴ = 3λ²)",
        f"  risk of (w_0 + w_1)/2 = (r_0 + 2 (1 − γλ) r_0 + r_1)/4 = {mean:.10g}",
    ]
