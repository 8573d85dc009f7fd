"""Losses of the named schedules against the best one."""

from dataclasses import replace

import numpy as np

from sgdtheory.algorithms import (
    WSD,
    Algorithm,
    Constant,
    Cosine,
    LastIterate,
    Linear,
    PowerDecay,
    TailAverage,
    UniformAverage,
)
from sgdtheory.critical import TunedRisk, optimal_learning_rate
from sgdtheory.optimal.named_schedule import NamedSchedule
from sgdtheory.optimal.schedule import OptimalSchedule
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import stability_edge

LAST = LastIterate()
NAMED = {
    "constant": Algorithm(schedule=Constant(), average=LAST),
    "constant, uniform average": Algorithm(average=UniformAverage()),
    "constant, tail average": Algorithm(average=TailAverage(0.5)),
    "cosine": Algorithm(schedule=Cosine(), average=LAST),
    "linear": Algorithm(schedule=Linear(), average=LAST),
    "WSD": Algorithm(schedule=WSD(), average=LAST),
    "power 3": Algorithm(schedule=PowerDecay(3.0), average=LAST),
}


def named_schedules(problem: AbstractProblem, best: OptimalSchedule) -> dict[str, NamedSchedule]:
    """Schedules with a name, of the same method, with as many steps and samples as the best one, the least loss first.

    Their peaks are tuned up to the stability edge, if there is one, as those of the best one are. (Within some ten
    steps, with batches of thousands, a peak beyond it may do better: the first steps grow, the last ones shrink.)
    Their batch size is D/n, which need not be whole. An average of iterates may lose less than nothing: no last iterate
    does what it does.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.PowerLaw(2.0, 3.0)
        >>> best = st.optimal_schedule(problem, num_samples=16_000, batch_size=16)
        >>> for name, found in list(st.optimal.named_schedules(problem, best).items())[:3]:
        ...     print(f"{name}: {found.loss:.1%}")
        constant, uniform average: -25.2%
        constant, tail average: -13.9%
        cosine: 7.5%

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        best: of `optimal_schedule` for this problem.

    Returns:
        Name → NamedSchedule.
    """
    found = {}
    for name, plain in NAMED.items():
        algorithm = replace(plain, method=best.algorithm.method)
        batch = best.num_samples / best.num_steps
        if algorithm.linear:
            rate, risk = tuned_below_edge(problem, algorithm, batch, best.num_steps)
        else:
            setting = {"batch_size": batch, "num_samples": best.num_samples}
            tuned = optimal_learning_rate(problem, **setting, algorithm=algorithm)
            rate, risk = float(tuned.learning_rate), float(tuned.risk)
        found[name] = NamedSchedule(algorithm, rate, risk, risk / best.risk - 1)
    return dict(sorted(found.items(), key=lambda item: item[1].risk))


def tuned_below_edge(problem: AbstractProblem, algorithm: Algorithm, batch: float, steps: float) -> tuple[float, float]:
    """Return the best peak γ up to the stability edge, and the risk there, of a linear method at any real B."""
    batches, numbers = np.array([batch]), np.array([steps])
    tuned = TunedRisk(problem, algorithm)
    least = tuned.least(batches, numbers)
    edge = stability_edge(problem, batches)
    if least.rate[0] <= edge[0]:
        return float(least.rate[0]), float(least.risk[0])
    return float(edge[0]), float(tuned.risk(batches, edge, numbers)[0])
