"""Errors of deterministic equivalents against simulated means, random settings: `python -m benchmarks.equivalents`.

The table is that of docs/equivalents.md.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

import sgdtheory as st
from benchmarks.equivalent_settings import METHODS as ANY_METHOD
from benchmarks.equivalent_settings import decay, setting_of

BATCHES = 1, 2, 4, 16, 64, 256, 1024, 4096
SCHEDULES = st.Constant(), st.Linear(), st.Cosine(warmup=0.1), st.WSD(0.3), st.Stages([0, 0.5], [1, 0.3])
AVERAGES = st.LastIterate(), st.UniformAverage(), st.TailAverage(0.3)
DIMENSIONS = 100, 300
COUPLED_DIMENSIONS = 60, 100, 200
Draw = Callable[[np.random.Generator], tuple[st.AbstractProblem, st.NonlinearMethod]]


class Found(NamedTuple):
    """One random setting: relative error of the equivalent, the one that it states, and of the simulated mean."""

    batch: int
    error: float
    stated: float
    noise: float


def sign(_: np.random.Generator, __: float) -> st.SignSGD:
    """signSGD."""
    return st.SignSGD()


def adam(random: np.random.Generator, _: float) -> st.Adam:
    """Adam with a random memory."""
    beta1 = float(random.choice([0.0, 0.9, 0.95]))
    return st.Adam(beta1, float(random.choice([0.95, 0.99, 0.999])))


def softened(random: np.random.Generator, gradient: float) -> st.Adam:
    """Adam with ε between 1e-3 and 10 of the first gradient that it divides."""
    return replace(adam(random, gradient), epsilon=gradient * 10 ** random.uniform(-3, 1))


def signum(random: np.random.Generator, _: float) -> st.SignSGD:
    """signSGD with momentum."""
    return st.SignSGD(float(random.choice([0.8, 0.9, 0.95])))


def lion(random: np.random.Generator, _: float) -> st.Lion:
    """Lion with a random memory."""
    return st.Lion(float(random.choice([0.5, 0.9, 0.95])), float(random.choice([0.9, 0.99, 0.999])))


def normalized(_: np.random.Generator, gradient: float) -> st.NormalizedSGD:
    """Normalized SGD."""
    return st.NormalizedSGD()


def power_law(
    random: np.random.Generator, dimensions: tuple[int, ...], capacity: tuple[float, float] = (1.05, 2.5)
) -> st.PowerLaw:
    """Random exponents, number of directions and noise."""
    a = random.uniform(*capacity)
    b = random.uniform(1.1, 4.0)
    return st.PowerLaw(a, b, int(random.choice(dimensions)), 10 ** random.uniform(-1, 1))


def rotated(random: np.random.Generator) -> tuple[st.AbstractProblem, st.NonlinearMethod]:
    """signSGD in coordinates that are a random rotation, or features with correlations 0.9^|i−j|, one time in four."""
    problem, basis = rotation(random)
    return problem, st.SignSGD(basis=basis)


def rotated_with_memory(random: np.random.Generator) -> tuple[st.AbstractProblem, st.NonlinearMethod]:
    """Adam, or one time in four signs with momentum, in such coordinates."""
    problem, basis = rotation(random)
    return problem, replace(signum(random, 0.0) if random.random() < 0.25 else adam(random, 0.0), basis=basis)


def rotated_adam(random: np.random.Generator) -> tuple[st.AbstractProblem, st.NonlinearMethod]:
    """Adam in such coordinates."""
    problem, basis = rotation(random)
    return problem, replace(adam(random, 0.0), basis=basis)


def rotation(random: np.random.Generator) -> tuple[st.AbstractProblem, np.ndarray]:
    """A problem and coordinates."""
    problem = power_law(random, COUPLED_DIMENSIONS)
    places = np.arange(problem.dim or 0)
    if random.random() < 0.25:
        eigenvalue, vectors = np.linalg.eigh(0.9 ** np.abs(np.subtract.outer(places, places)))
        signal = problem.directions()[1]
        return st.LeastSquares(eigenvalue[::-1], signal, problem.noise_variance), vectors[:, ::-1]
    q, r = np.linalg.qr(random.standard_normal((places.size, places.size)))
    return problem, q * np.sign(np.diag(r))


def half_edge(problem: st.AbstractProblem, rows: np.ndarray, batch: int) -> float:
    """Half of the γ beyond which means overshoot more and more while noise dominates.

    `E sign(g_j) ≤ √(2B/π) u_j/σ`, and so `w − w*` becomes (1 − γ √(2B/π)/σ D^−½ H) of it, D the diagonal of H.
    """
    hessian = rows * problem.directions()[0] @ rows.T
    root = np.diag(hessian) ** -0.25
    largest = np.linalg.eigvalsh(root[:, None] * hessian * root)[-1]
    return float(np.sqrt(problem.noise_variance * np.pi / (2 * batch)) / largest)


class Kind(NamedTuple):
    """Ranges from which random settings are drawn, and the method.

    Attributes:
        method: whose coordinates are eigenvectors, drawn last; from the root mean square of gradients where λ = 1, too.
        drawn: a problem and a method together, where they are not.
        capacity: range of a.
        rate: range of log₁₀ of γ n over √R_0.
        decays: whether the method has a random weight decay.
    """

    method: Callable[[np.random.Generator, float], Any] = sign
    drawn: Draw | None = None
    capacity: tuple[float, float] = (1.05, 2.5)
    rate: tuple[float, float] = (-0.5, 1.0)
    decays: bool = False


METHODS = {
    "sign": Kind(sign),
    "signum": Kind(signum),
    "lion": Kind(lion),
    "adam": Kind(adam),
    "adam-epsilon": Kind(softened),
    "adam-decay": Kind(adam, decays=True),
    # every direction but the first few moves less than γ
    "normalized": Kind(normalized, capacity=(0.6, 2.5), rate=(-0.5, 2.0)),
    "rotated": Kind(drawn=rotated),
    "rotated-memory": Kind(drawn=rotated_with_memory),
    "rotated-decay": Kind(drawn=rotated_adam, decays=True),
}


def one(seed: int, replicas: int, method: str) -> Found:
    """A random power law, schedule, average, B, γ and n, computed and simulated."""
    random = np.random.default_rng(seed)
    kind = METHODS[method]
    problem, drawn = kind.drawn(random) if kind.drawn else (power_law(random, DIMENSIONS, kind.capacity), None)
    batch = int(random.choice(BATCHES))
    steps = int(10 ** random.uniform(1.5, 3.2))
    schedule = SCHEDULES[random.integers(len(SCHEDULES))]
    average = AVERAGES[random.integers(len(AVERAGES))]
    gradient = float(np.sqrt((problem.initial_risk + problem.noise_variance) / batch))
    stepping: Any = drawn or kind.method(random, gradient)
    rate = 10 ** random.uniform(*kind.rate) * np.sqrt(problem.initial_risk) / steps
    rate *= 1 + getattr(stepping, "epsilon", 0.0) / gradient  # the same first step
    if not isinstance(stepping.basis, str):
        rate = min(rate, half_edge(problem, stepping.basis.rows, batch))
    if kind.decays:
        stepping = replace(stepping, weight_decay=decay(random, rate, steps))
    algorithm = st.Algorithm(stepping, schedule=schedule, average=average)
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps, "algorithm": algorithm}
    expected = st.excess_risk(problem, **setting)
    found = st.simulate(jax.random.key(seed), problem, **setting, num_replicas=replicas)
    error = float(expected.total / found.mean - 1)
    return Found(batch, error, float(expected.relative_error), float(found.standard_error / found.mean))


def one_of_all(seed: int, replicas: int, only: str | None = None) -> tuple[str, Found]:
    """A random setting of any method or of one, over all that is accepted, computed and simulated."""
    name, problem, arguments = setting_of(seed, only)
    expected = st.excess_risk(problem, **arguments)
    found = st.simulate(jax.random.key(seed), problem, **arguments, num_replicas=replicas)
    error = float(expected.total / found.mean - 1)
    noise = float(found.standard_error / found.mean)
    return name, Found(arguments["batch_size"], error, float(expected.relative_error), noise)


def table_of_all(found: list[tuple[str, Found]]) -> str:
    """By method: medians of errors and of what is stated, how often that is inf, and how often errors are beyond it.

    Errors are beyond it by more than three standard errors of the simulated mean.
    """
    lines = ["method        settings  median  90%      median stated  inf  beyond what is stated"]
    for name in ("all", *dict.fromkeys(sorted(each for each, _ in found))):
        some = [each for method, each in found if name in ("all", method)]
        raw, stated, noise = (np.array(each) for each in zip(*((abs(e.error), e.stated, e.noise) for e in some)))
        beyond = (raw - 3 * noise > stated + 1e-9).sum()
        lines.append(
            f"{name:13} {len(some):8}  {np.median(raw):.2%}  {np.quantile(raw, 0.9):7.2%}"
            f"  {np.median(stated):13.2%} {np.isinf(stated).sum():4}  {beyond}"
        )
    return "\n".join(lines)


def table(found: list[Found]) -> str:
    """Return a table of errors by batch size: median, 90%, and how many exceed 2% and three standard errors.

    The last column counts those that are beyond the error that is stated, and three standard errors.
    """
    lines = ["B      settings  median  90%     beyond 2%  beyond what is stated"]
    for batch in (None, *BATCHES):
        some = [each for each in found if batch in (None, each.batch)]
        if some:
            beyond = np.array([abs(each.error) - 3 * each.noise for each in some])
            stated = np.array([each.stated for each in some])
            raw = np.abs([each.error for each in some])
            name = "all" if batch is None else str(batch)
            lines.append(
                f"{name:6} {len(some):8}  {np.median(raw):.2%}   {np.quantile(raw, 0.9):.2%}"
                f"   {(beyond > 0.02).sum():9}  {(beyond > stated).sum()}"
            )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--replicas", type=int, default=256)
    parser.add_argument(
        "--method", choices=["all", *METHODS], default="all", help="all: any, over all that is accepted"
    )
    parser.add_argument("--kind", choices=[*ANY_METHOD, "adam-decay"], help="with --method all: this method alone")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.settings)
    if arguments.method == "all":
        every = []
        for seed in seeds:
            name, one_found = one_of_all(seed, arguments.replicas, arguments.kind)
            every.append((name, one_found))
            print(
                f"{seed:4} {name:13} {one_found.error:+.3%} ± {one_found.noise:.3%}, {one_found.stated:.1%}", flush=True
            )
        print(table_of_all(every))
        return
    found = []
    for seed in seeds:
        found.append(one(seed, arguments.replicas, arguments.method))
        print(
            f"{seed:4} B = {found[-1].batch:5}  {found[-1].error:+.3%} ± {found[-1].noise:.3%}, {found[-1].stated:.1%}",
            flush=True,
        )
    print(table(found))


if __name__ == "__main__":
    main()
