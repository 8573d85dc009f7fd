"""Compute-optimal model sizes of power-law random features (arXiv 2405.15074), by the exact risk of SGD.

The inputs are `x_j = j^−α z_j` with z_j ~ N(0, 1), j ≤ v, and the target is `Σ_j j^−β x_j`. The model sees the d
features Wᵀx, where W has independent entries of variance 1/d, and is trained by one-pass SGD with batches of one sample
at a constant learning rate γ. For a fixed W this is one of the library's problems: the features have the eigenvalues
of their covariance, and the part of the target that they miss is independent Gaussian label noise. Without W the
problem is the power law with a = 2α and b = 2α + 2β. The loss is the excess risk plus the least risk of the features.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

import sgdtheory as st
from experiments._lib.exponents import LastSlope, settling
from experiments._lib.published_theory import SGD, Pair, Row

QUESTION, DRAWN = "phases", "drawn W"  # Questions of the rows of the equivalent and of drawn W, see `UNITS`.
BESIDE = 3  # Half-octaves of d on each side of the lowest one that the fit of the minimum uses.
DEGREE = 5  # Degree of ln L in ln d of that fit. With 4 or 6 the verdicts are the same; with 4 slopes scatter by 0.001.
REACH = 6.0  # Octaves of n, on each side of the balance, at which a model's loss is computed.


class Phase(NamedTuple):
    """A point of the (α, β) plane.

    Attributes:
        name: of the phase.
        alpha, beta: α and β.
        hidden: v/d; inf where α > ½ makes the trace finite.
        share: γ times the trace, or times its leading power v^(1 − 2α)/(1 − 2α) for α < ½.
        offset: log2 n of the best model, less the exponent times log2 d: where its losses are computed.
    """

    name: str
    alpha: float
    beta: float
    hidden: float = np.inf
    share: float = 0.5
    offset: float = 0.0

    @property
    def pair(self) -> Pair:
        """Exponents a and b of the problem before W."""
        return round(2 * self.alpha, 12), round(2 * (self.alpha + self.beta), 12)

    @property
    def text(self) -> str:
        """The point in words."""
        return f"{self.name}, α = {self.alpha:g}, β = {self.beta:g}"


class Exponents(NamedTuple):
    """Powers of the compute f in the best model size d* and in the least loss L."""

    size: float
    loss: float


PHASES = (
    Phase("Ia", 0.8, 0.2, offset=-3.0),
    Phase("Ib", 0.4, 0.3, 2.0, offset=3.0),
    Phase("Ic", 0.24, 0.6, 2.0, offset=3.5),
    Phase("II", 0.9, 0.7, offset=-1.0),
    Phase("III", 1.0, 1.5),
    Phase("IVa", 0.35, 2.0, 1.2, 1.2, 3.0),
    Phase("IVb", 0.27, 0.7, 2.0, 1.2, 0.5),
    Phase("II/III", 0.7, 0.7, offset=-1.0),
)
FORMULAS: dict[str, Callable[[float, float], Exponents]] = {
    "Ia": lambda a, b: Exponents(1 / (2 * a + 1), (1 / (2 * a + 1) - 1) * (1 + b / a - 1 / (2 * a))),
    "Ib": lambda a, b: Exponents(0.5, 0.5 - a - b),
    "Ic": lambda a, b: Exponents(
        (2 * a + 2 * b - 1) / (6 * a + 4 * b - 4 * a * b - 2),
        -2 * a * (2 * a + 2 * b - 1) / (6 * a + 4 * b - 4 * a * b - 2),
    ),
    "II": lambda a, b: Exponents(b / (a + b), -(2 * a + 2 * b - 1) / (2 * (a + b))),
    "III": lambda a, b: Exponents(0.5, (1 - 4 * a) / (4 * a)),
    "IVa": lambda a, b: Exponents(0.5, -a),
    "IVb": lambda a, b: Exponents(
        (b - a) / (2 * b - a - 2 * a * b), -(1 - 2 * a) * (2 * a + 2 * b - 1) / (2 * (2 * b - a - 2 * a * b))
    ),
}
FORMULAS["II/III"] = FORMULAS["III"]
# Phases whose formulas are cited as published. Those of the others are known only as the balance of the terms.
PUBLISHED = {"Ia", "Ib", "II", "III", "II/III"}


def phase_of(alpha: float, beta: float) -> str:
    """Return the phase of a point, α + β > ½, off the boundaries."""
    if alpha > 0.5:
        return "Ia" if beta < 0.5 else "II" if beta < alpha else "III"
    if beta < 0.5:
        return "Ib"
    return "Ic" if alpha < 0.25 else "IVb" if alpha < 1 - 0.5**0.5 else "IVa"


def terms(alpha: float, beta: float) -> list[tuple[float, float]]:
    """Return the powers of (d, n) in every term of the loss.

    With r = γn, where γ ∝ d^−max(0, 1 − 2α): the directions that are not learnt, `r^−(2α + 2β − 1)/(2α)`; the target
    that the features miss, `d^−2α + max(0, 1 − 2β)`; the part of learnt directions in weaker features,
    `r^−(1 − 1/(2α))/d` for α, β > ½; and the noise of early steps, `γ r^−(2 − 1/(2α))` for α > ¼.
    """
    rate = -max(0.0, 1 - 2 * alpha)

    def of_time(power: float) -> tuple[float, float]:
        return rate * power, power

    found = [of_time(-(2 * alpha + 2 * beta - 1) / (2 * alpha)), (-2 * alpha + max(0.0, 1 - 2 * beta), 0.0)]
    if alpha > 0.5 and beta > 0.5:
        size, time = of_time(1 / (2 * alpha) - 1)
        found.append((size - 1, time))
    return [*found, noise_term(alpha)] if alpha > 0.25 else found


def noise_term(alpha: float) -> tuple[float, float]:
    """Return the powers of (d, n) in the noise of early steps."""
    rate, power = -max(0.0, 1 - 2 * alpha), 1 / (2 * alpha) - 2
    return rate * (1 + power), power


def balance(powers: Sequence[tuple[float, float]]) -> Exponents:
    """Return the exponents at which the largest of terms d^p n^q is least, for d n = f.

    With d = f^x term i is f^(q_i + (p_i − q_i) x), and the least maximum of such lines lies where two of them meet.
    """
    lines = [(time, size - time) for size, time in powers]
    meetings = [(c1 - c0) / (m0 - m1) for (c0, m0), (c1, m1) in combinations(lines, 2) if m0 != m1]
    found = [Exponents(x, max(start + slope * x for start, slope in lines)) for x in meetings if 0 < x < 1]
    return min(found, key=lambda each: each.loss)


# ------------------------------------------------------------------ losses and frontiers


def problem_of(phase: Phase, size: int, seed: int | None = None) -> st.AbstractProblem:
    """Return the problem of d features: of one drawn W, or by the deterministic equivalent of many features."""
    dim = None if np.isinf(phase.hidden) else round(phase.hidden * size)
    return st.PowerLaw(*phase.pair, dim=dim, noise_variance=0.0).with_features(size, kind="gaussian", seed=seed)


def learning_rate(phase: Phase, size: int) -> float:
    """Return γ: a share of the inverse trace, without its lower-order terms for α < ½."""
    if np.isinf(phase.hidden):
        return phase.share / st.PowerLaw(*phase.pair).trace
    exponent = 1 - 2 * phase.alpha
    return phase.share * exponent * round(phase.hidden * size) ** -exponent


def sizes_of(first: float, last: float) -> list[int]:
    """Return model sizes at half-octaves between powers of two."""
    return [round(2.0 ** (half / 2)) for half in range(round(2 * first), round(2 * last) + 1)]


def of_phase(phase: Phase, sizes: Sequence[int], seed: int | None = None, reach: float = REACH) -> list[Row]:
    """Return the loss of all model sizes around the balance of the terms, in steps of half an octave of n.

    Args:
        phase: the point.
        sizes: d.
        seed: of W; None for the deterministic equivalent.
        reach: octaves of n on each side.
    """
    wanted = FORMULAS[phase.name](phase.alpha, phase.beta)
    rows = []
    for size in sizes:
        problem, rate = problem_of(phase, size, seed), learning_rate(phase, size)
        # At the balance n = d^(1/x − 1) up to a constant; r = γn is what has to be large.
        middle = (1 / wanted.size - 1) * np.log2(size) + phase.offset
        steps = np.unique(np.round(2.0 ** np.arange(max(2.0, middle - reach), middle + reach + 0.1, 0.5)))
        found = st.excess_risk(problem, batch_size=1, learning_rate=rate, num_samples=steps, algorithm=LAST)
        losses = np.asarray(found.total) + problem.approximation_risk
        question, case = QUESTION if seed is None else DRAWN, case_of(size, seed)
        table = zip(steps.tolist(), losses.tolist(), strict=True)
        rows += [Row(question, SGD, *phase.pair, case, number, 1, rate, loss) for number, loss in table]
    return rows


LAST = st.Algorithm(average=st.LastIterate())


def case_of(size: int, draw: int | None = None) -> str:
    """Return the text of a model size, and of the draw of W."""
    return f"d = {size}" if draw is None else f"d = {size}, draw {draw}"


def size_of(case: str) -> int:
    """Return d of such a text."""
    return int(case.split(",")[0].removeprefix("d = "))


class Frontier(NamedTuple):
    """Best model sizes and least losses over compute, as base-2 logarithms."""

    compute: np.ndarray
    size: np.ndarray
    loss: np.ndarray

    def slopes(self) -> tuple[LastSlope, LastSlope]:
        """Return the slopes of ln d* and of ln L in ln f, and what they extrapolate to.

        Raises:
            ValueError: if there are fewer than three computes.
        """
        if self.compute.size < 3:
            raise ValueError(f"the frontier must have at least three computes, got {self.compute}; take more sizes")
        steps = np.diff(self.compute)
        return settling(np.diff(self.size) / steps), settling(np.diff(self.loss) / steps)


def frontier(rows: Sequence[Row], octaves: int, beside: int = BESIDE) -> Frontier:
    """Return the least loss over d at each compute, where sizes on both sides are known; of draws the mean ln L.

    Args:
        rows: of one method and problem.
        octaves: between two computes.
        beside: number of sizes on each side of the lowest one that the fit of the minimum uses.
    """
    curves: dict[int, CubicSpline] = {}
    for size in sorted({size_of(row.case) for row in rows}):
        mine = [(row.number, row.risk) for row in rows if size_of(row.case) == size]
        steps = sorted({number for number, _ in mine})
        means = [np.log2([loss for number, loss in mine if number == each]).mean() for each in steps]
        curves[size] = CubicSpline(np.log2(steps), means)
    if not curves:
        return Frontier(*np.empty((3, 0)))
    logs = np.log2(list(curves))
    ends = [log + curve.x[[0, -1]] for log, curve in zip(logs, curves.values(), strict=True)]
    last = int(max(end for _, end in ends))
    found = []
    for compute in range(last % octaves, last + 1, octaves):
        known = [place for place, (low, high) in enumerate(ends) if low <= compute <= high]
        minimum = _least(logs[known], np.array([list(curves.values())[k](compute - logs[k]) for k in known]), beside)
        if minimum is not None:
            found.append((compute, *minimum))
    table = np.array(found).reshape(-1, 3)
    gaps = np.flatnonzero(np.diff(table[:, 0]) > octaves)  # Limits of slopes need computes at equal ratios.
    return Frontier(*table[gaps[-1] + 1 if gaps.size else 0 :].T)


def _least(logs: np.ndarray, losses: np.ndarray, beside: int) -> tuple[float, float] | None:
    """Return the minimum of a polynomial through the losses next to the lowest; None too close to an end."""
    if not losses.size:
        return None
    place = int(losses.argmin())
    if place < beside or place + beside >= losses.size:
        return None
    near = slice(place - beside, place + beside + 1)
    fit = np.polynomial.Polynomial.fit(logs[near], losses[near], min(DEGREE, 2 * beside - 1))
    fine = np.linspace(logs[place - 1], logs[place + 1], 2001)
    best = fine[fit(fine).argmin()]
    return float(best), float(fit(best))
