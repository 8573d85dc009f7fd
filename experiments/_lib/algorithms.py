"""Schedules and averages that several experiments compare, by name, and their critical batch sizes."""

from typing import NamedTuple

import sgdtheory as st

LAST = st.LastIterate()
ALGORITHMS = {  # a schedule alone returns its last iterate, an average alone has a constant learning rate
    "uniform average": st.Algorithm(),
    "tail average, last half": st.Algorithm(average=st.TailAverage(0.5)),
    "exponential average, window n/10": st.Algorithm(average=st.ExponentialAverage(window=0.1)),
    "cosine": st.Algorithm(schedule=st.Cosine(), average=LAST),
    "linear": st.Algorithm(schedule=st.Linear(), average=LAST),
    "WSD": st.Algorithm(schedule=st.WSD(0.2), average=LAST),
    "power 3": st.Algorithm(schedule=st.PowerDecay(3.0), average=LAST),
    "schedule-free": st.Algorithm(st.ScheduleFree(0.9), average=LAST),
}
UNIFORM, TAIL, EXPONENTIAL = tuple(ALGORITHMS)[:3]


class Critical(NamedTuple):
    """One critical batch size.

    Attributes:
        capacity, source: a and b.
        algorithm: its name.
        num_samples: D.
        real_batch_size: B* without its rounding to whole samples.
        optimal_risk: R_opt(D) of that algorithm.
    """

    capacity: float
    source: float
    algorithm: str
    num_samples: float
    real_batch_size: float
    optimal_risk: float


def critical(pair: tuple[float, float], name: str, samples: float, algorithm: st.Algorithm) -> Critical:
    """B* of an algorithm on a power law at one data size."""
    found = st.critical_batch_size(st.PowerLaw(*pair), num_samples=samples, curve=False, algorithm=algorithm)
    return Critical(*pair, name, samples, found.real_batch_size, found.optimal_risk)
