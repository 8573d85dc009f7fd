"""`assert_bound`: a bound as a property, whose counterexample is one that a person can check by hand."""

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase

from sgdtheory.algorithms import DEFAULT, Algorithm
from sgdtheory.bounds import Comparison, Setting, compare, description
from sgdtheory.problems import AbstractProblem
from sgdtheory.testing import strategies

SLACK = 1e-9  # relative: exact risks are right to 1e-10
PHASES = (Phase.explicit, Phase.generate, Phase.target, Phase.shrink)  # nobody asks which lines of this file have run


def assert_bound(
    bound: Callable[..., Any],
    *,
    within: float | None = None,
    upper: float | None = None,
    lower: float | None = None,
    quantity: str = "total",
    algorithm: Algorithm | None = None,
    settings: Any = None,
    max_examples: int = 1000,
    seed: int = 0,
) -> None:
    """Assert `lower ≤ exact/bound ≤ upper` at random settings; else fail with the simplest counterexample.

    Settings are drawn by Hypothesis, which pushes exact/bound towards both ends and shrinks what it finds: to one
    direction, B = 1, two steps, round numbers. Where the bound says that it does not apply it is not asked.

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
        max_examples: settings that are tried.
        seed: of the search: the same one tries the same settings.

    Raises:
        AssertionError: the bound does not hold.
        ValueError: limits that leave no room, a bound that applies at none of the settings, or as of `compare`.
    """
    low, high = _limits(bound, within, upper, lower)
    run = algorithm or description(bound).algorithm or DEFAULT
    asked = 0
    strategy = settings if settings is not None else strategies.settings()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=PHASES,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.nested_given),
    )
    @hypothesis.given(strategy)
    def holds(setting: Setting) -> None:
        nonlocal asked
        if run.workers > 1 and np.any(np.less(setting.num_samples, np.multiply(run.workers, setting.batch_size))):
            return  # too few samples for one step of all workers
        found = compare(bound, [setting], quantity=quantity, algorithm=run)
        ratio = found.ratio[found.applies & np.isfinite(found.bound) & ~np.isnan(found.ratio)]
        if ratio.size == 0:
            return
        asked += 1
        _push(ratio)
        if ratio.max() > high * (1 + SLACK) or ratio.min() < low * (1 - SLACK):
            raise AssertionError(_told(found, low, high, quantity, run))

    holds()
    if not asked:
        raise ValueError(
            f"the bound applies, with a finite value, at none of {max_examples} settings: pass settings= within its "
            "conditions, st.testing.settings(st.testing.problems(power_laws=False), edge=0.1) for example"
        )


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
