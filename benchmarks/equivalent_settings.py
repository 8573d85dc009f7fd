"""Random settings of nonlinear methods, over all that is accepted: few directions and steps, no noise, gaps."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import sgdtheory as st

# Methods and how often each is drawn.
METHODS = {
    "sign": 0.36,
    "signum": 0.14,
    "adam": 0.22,
    "adam-epsilon": 0.07,
    "normalized": 0.16,
    "rotated": 0.05,
}
SCHEDULES = (
    st.Constant(),
    st.Constant(warmup=0.1),
    st.Linear(),
    st.Linear(final=0.1, warmup=0.05),
    st.Cosine(),
    st.Cosine(warmup=0.1),
    st.WSD(0.3),
    st.Stages([0, 0.5], [1, 0.3]),
    st.PowerDecay(0.5),
)
AVERAGES = (
    *[st.LastIterate()] * 3,
    st.UniformAverage(),
    st.TailAverage(0.3),
    st.TailAverage(0.7),
    st.ExponentialAverage(window=0.1),
)
MOST_STEPS = 2000.0
MOST_BATCH = 2000.0
ROTATED = 40  # directions at most
TUNED = 0.45  # of the settings have the best γ that the equivalent finds


class Setting(NamedTuple):
    """One random setting, as `excess_risk` takes it, and the name of its method."""

    name: str
    problem: st.LeastSquares
    arguments: dict[str, Any]


def setting_of(seed: int, only: str | None = None) -> Setting:
    """Return the setting of a seed: spectrum, noise, method, B, n, schedule, average, and a tuned or random γ.

    Args:
        seed: of the random numbers.
        only: name of the method, one of `METHODS` or "adam-decay"; None: drawn.
    """
    random = np.random.default_rng([seed, 1])
    name = only or str(random.choice(list(METHODS), p=list(METHODS.values())))
    eigenvalue, signal = spectrum(random)
    if name == "rotated":
        eigenvalue, signal = eigenvalue[:ROTATED], signal[:ROTATED]
    problem = st.LeastSquares(eigenvalue, signal, noise(random))
    steps = max(int(MOST_STEPS ** random.uniform()), 1)
    batch = max(int(MOST_BATCH ** random.uniform()), 1)
    gradient = float(np.sqrt((signal.sum() + problem.noise_variance) / batch))
    method: Any = _method(name, random, gradient, eigenvalue.size)
    schedule = SCHEDULES[random.integers(len(SCHEDULES))]
    average = AVERAGES[random.integers(len(AVERAGES))]
    rate = 10 ** random.uniform(-0.7, 1.3) * np.sqrt(signal.sum()) / steps ** random.uniform(0.5, 1)
    rate *= 1 + getattr(method, "epsilon", 0.0) / gradient  # the same first step
    if name == "adam-decay":
        method = replace(method, weight_decay=decay(random, rate, steps))
    arguments = {
        "batch_size": batch,
        "num_samples": batch * steps,
        "algorithm": st.Algorithm(method, schedule=schedule, average=average),
    }
    if random.random() < TUNED:
        rate = st.optimal_learning_rate(problem, **arguments).learning_rate
    return Setting(name, problem, arguments | {"learning_rate": float(rate)})


def spectrum(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and signal: a power law, few, spiked, with a gap, exponential or flat; 1 to 200 directions."""
    kind = random.choice(["power", "few", "spiked", "gap", "exponential", "flat"], p=[0.5, 0.12, 0.1, 0.1, 0.1, 0.08])
    size = int(np.round(200 ** random.uniform()))
    few = int(random.integers(1, 9))
    places = np.arange(1.0, size + 1)
    if kind == "power":
        eigenvalue, signal = places ** -random.uniform(0.8, 3), places ** -random.uniform(0.5, 5)
    elif kind == "few":
        eigenvalue, signal = np.sort(10 ** random.uniform(-2, 0, few))[::-1], 10 ** random.uniform(-2, 0, few)
    elif kind in ("spiked", "gap"):
        low = random.uniform(-3, -0.5) if kind == "spiked" else random.uniform(-8, -2)
        eigenvalue = np.append(np.ones(few), np.full(size, 10**low))
        signal = 10 ** random.uniform(-1, 0, few + size) / (few + size)
    elif kind == "exponential":
        count = int(random.integers(3, 41))
        eigenvalue = random.uniform(0.3, 0.8) ** np.arange(count)
        signal = eigenvalue ** random.choice([0.0, random.uniform()])
    else:
        eigenvalue, signal = np.ones(size), np.ones(size)
    return eigenvalue, signal / signal.sum() * 10 ** random.uniform(-0.5, 0.5)


def decay(random: np.random.Generator, rate: float, steps: int) -> float:
    """Return κ with which a run at a constant γ shrinks weights by 1% to e^10 times, and a step by at most a half."""
    return min(10 ** random.uniform(-2, 1) / (rate * steps), 0.5 / rate)


def noise(random: np.random.Generator) -> float:
    """Return σ²: none, little, some or much."""
    low, high = ((-np.inf, -np.inf), (-4, -1), (-1, 0.5), (0.5, 2))[random.choice(4, p=[0.1, 0.2, 0.4, 0.3])]
    return float(10 ** random.uniform(low, high)) if np.isfinite(low) else 0.0


def _method(name: str, random: np.random.Generator, gradient: float, size: int) -> Any:
    """Return a method of a name with a random memory."""
    momentum = float(random.choice([0.5, 0.8, 0.9, 0.95, 0.99]))
    beta1 = float(random.choice([0.0, 0.5, 0.9, 0.95]))
    beta2 = float(random.choice([0.3, 0.95, 0.99, 0.999, 0.9999], p=[0.05, 0.3, 0.25, 0.3, 0.1]))
    adam = st.Adam(beta1 if beta1**2 < beta2 else 0.0, beta2)
    if name == "adam-epsilon" or (name == "adam-decay" and random.random() < 0.25):
        return st.Adam(adam.beta1, beta2, epsilon=gradient * 10 ** random.uniform(-3, 1))
    if name == "rotated":
        return st.SignSGD(basis=np.linalg.qr(random.standard_normal((size, size)))[0])
    plain = {"sign": st.SignSGD(), "signum": st.SignSGD(momentum), "normalized": st.NormalizedSGD(), "adam": adam}
    return plain[name.removesuffix("-decay")]
