"""The best schedule of one problem and number of steps: its shape, and what schedules with a name lose against it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

import sgdtheory as st
from experiments._lib.kernel_law import KernelLaw
from sgdtheory.optimal import OptimalSchedule

Pair = tuple[float, float]
LAW = "law with the kernel"
POWER = "power 2a − 1"
LINEAR = "linear"
WSD = "WSD, decay 20%"
AVERAGES = "constant, uniform average", "constant, tail average"
NAMES = (*AVERAGES, "cosine", LINEAR, POWER, WSD, "WSD, decay 10%", "WSD, decay 5%", "WSD, decay 2%", LAW)
ALIKE = 0.99  # of the peak, of the edge
LEAST_U = 1e-4  # that is drawn
POINTS = 41  # of a window, at which its exponent is fitted


class Config(Protocol):
    """Settings of the measurement from the experiment's config, where each is explained."""

    @property
    def num_steps(self) -> Sequence[float]: ...
    @property
    def batch_size(self) -> float: ...
    @property
    def windows(self) -> Sequence[Pair]: ...
    @property
    def decay_shares(self) -> Sequence[float]: ...


class Row(NamedTuple):
    """One number, as in the `UNITS` of the experiment."""

    capacity: float
    source: float
    num_steps: float
    quantity: str
    at: float
    value: float


def measured(config: Config, item: tuple[Pair, float]) -> list[Row]:
    """Return for a problem and n: exponents by window, the schedule as it is drawn, and single numbers."""
    (capacity, source), steps = item
    problem, batch = st.PowerLaw(capacity, source), config.batch_size
    best = st.optimal_schedule(problem, num_samples=batch * steps, batch_size=int(batch))
    law = KernelLaw(problem, best, batch)
    risks = {LAW: law.risk(law.tuned), **_named(config, problem, best)}
    starts = list(best.from_starts.values())
    single = {
        "risk": best.risk,
        "peak": best.peak_learning_rate,
        "peak over the edge": best.peak_learning_rate / law.edge,
        "slope": best.slope,
        "apart": max(starts) / min(starts) - 1,
        "half": best.with_half_the_knots / best.risk - 1,
        "share at the peak": _share(best, ALIKE * best.peak_learning_rate),
        "share at the edge": _share(best, ALIKE * law.edge),
        "share of the decay": _decay(best),
        **{f"risk over the optimum: {name}": risk / best.risk for name, risk in risks.items()},
    }
    u = 1 - law.steps / steps
    found = [("exponent", low, exponent_of(u, law.found, (low, high))) for low, high in windows_of(config, steps)]
    found += [
        ("exponent of the law", low, exponent_of(u, law.tuned, (low, high))) for low, high in windows_of(config, steps)
    ]
    found += _curve_of("learning rate", u, law.found / law.found.max())
    if steps == max(config.num_steps):
        found += _curve_of("learning rate of the law", u, law.tuned / law.found.max())
    found += [(quantity, np.nan, value) for quantity, value in single.items()]
    return [Row(capacity, source, steps, name, float(at), float(value)) for name, at, value in found]


def _curve_of(quantity: str, u: np.ndarray, rates: np.ndarray) -> list[tuple[str, float, float]]:
    """Return the points of a schedule that are drawn, to the digits that can be seen."""
    seen = zip(u[u >= LEAST_U / 2], rates[u >= LEAST_U / 2], strict=True)
    return [(quantity, float(f"{at:.6g}"), float(f"{rate:.6g}")) for at, rate in seen]


def _named(config: Config, problem: st.PowerLaw, best: OptimalSchedule) -> dict[str, float]:
    """Risks of schedules with a name, peak tuned."""
    names = {"WSD": WSD} | ({"power 3": POWER} if problem.capacity == 2 else {})
    risks = {names.get(name, name): each.risk for name, each in st.optimal.named_schedules(problem, best).items()}
    more = {} if POWER in risks else {POWER: st.PowerDecay(2 * problem.capacity - 1)}
    if problem.source < problem.capacity:
        more |= {f"WSD, decay {share:.0%}": st.WSD(share) for share in config.decay_shares}
    for name, schedule in more.items():
        algorithm = st.Algorithm(schedule=schedule, average=st.LastIterate())
        tuned = st.optimal_learning_rate(
            problem, batch_size=config.batch_size, num_samples=best.num_samples, algorithm=algorithm
        )
        risks[name] = float(tuned.risk)
    return risks


def windows_of(config: Config, steps: float) -> list[Pair]:
    """Return the windows in which there are enough steps for an exponent."""
    return [window for window in config.windows if window[0] * steps >= 10]


def exponent_of(u: np.ndarray, rates: np.ndarray, window: Pair) -> float:
    """Slope of log γ against log u in a window, by least squares; between knots log γ is linear in log(u/(1 − u))."""
    at = np.geomspace(*window, POINTS)
    known = u < 1
    odds, log_rate = np.log(u[known] / (1 - u[known]))[::-1], np.log(rates[known])[::-1]
    return float(np.polyfit(np.log(at), np.interp(np.log(at / (1 - at)), odds, log_rate), 1)[0])


def _share(best: OptimalSchedule, least: float) -> float:
    """Share of the steps with γ_t at least so large."""
    return float(np.mean(best.learning_rate(np.linspace(0, 1, 20001)) >= least))


def _decay(best: OptimalSchedule) -> float:
    """u from which on γ is below half of its peak."""
    u = np.geomspace(2 / best.num_steps, 1, 20001)
    above = best.learning_rate(1 - u) >= best.peak_learning_rate / 2
    return float(u[above].min())
