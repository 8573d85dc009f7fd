"""A problem's first M features at D samples: a row of a table, what theory says of it, the best M for a compute."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logit

import sgdtheory as st

Pair = tuple[float, float]
ALL = float("inf")  # as a model size
OVERHEAD = 0.2  # of B*
RISK_FACTOR = 2.0  # of the rate convention
FINEST = 1.005  # ratio of neighbouring model sizes at which the search for the best one ends


class Row(NamedTuple):
    """One model at one data size, as in `UNITS`; numbers that were not asked for are nan."""

    kind: str
    capacity: float
    source: float
    model_size: float
    num_samples: float
    real_batch_size: float
    optimal_risk: float
    approximation_risk: float
    effective_dimension: float
    rate_batch_size: float
    whole_rate_batch_size: float
    simple_noise_scale: float
    hessian_noise_scale: float
    interpolation_batch_size: float

    @property
    def pair(self) -> Pair:
        """a and b."""
        return self.capacity, self.source

    @property
    def whole_risk(self) -> float:
        """Above that of the best predictor of all features."""
        return self.optimal_risk + self.approximation_risk


UNITS = {
    "kind": "where it lies: on the grid of (M, D); on a line D ∝ M; at the M with the least whole risk for M·D, and "
    "all features at the same D; Gaussian features, elsewhere the first; a network's last layer, initial or trained",
    "capacity": "exponent a of the eigenvalues; nan for networks",
    "source": "exponent b of the initial risk; nan for networks",
    "model_size": "M, features; inf: all; the width of a network",
    "num_samples": "D, samples",
    "real_batch_size": "B* without its rounding, samples",
    "optimal_risk": "R_opt(D), excess over the best predictor of these features, units of y²",
    "approximation_risk": "of the best predictor of these features over that of all, units of y²",
    "effective_dimension": "k* of Theorem 7 at (B*, γ*)",
    "rate_batch_size": f"largest B with an excess risk of at most {RISK_FACTOR:g} R_opt, samples",
    "whole_rate_batch_size": f"the same with the approximation risk added: at most {RISK_FACTOR:g} times the least",
    "simple_noise_scale": "gradient noise scale at (B*, γ*) after D samples, samples",
    "hessian_noise_scale": "the same, weighted with the Hessian",
    "interpolation_batch_size": "m* = tr H/λ_1, samples",
}


def model_of(pair: Pair, size: float) -> tuple[st.AbstractProblem, float]:
    """The problem of the first M features, and their approximation risk; all of them for M = ∞."""
    whole = st.PowerLaw(*pair)
    if np.isinf(size):
        return whole, 0.0
    model = whole.with_features(int(size))
    return model, model.approximation_risk


def solved(kind: str, pair: Pair, size: float, samples: float, *, whole_rate: bool = False) -> Row:
    """One row, of a power law."""
    problem, missing = model_of(pair, size)
    return row_of(kind, pair, size, samples, problem, missing, whole_rate)


def row_of(
    kind: str,
    pair: Pair,
    size: float,
    samples: float,
    problem: st.AbstractProblem,
    missing: float,
    whole_rate: bool = False,
) -> Row:
    """One row, of any problem with an approximation risk.

    R + A ≤ 2 (R_opt + A) is R ≤ (2 + A/R_opt) R_opt: the rate convention for the whole risk is that of the excess risk
    at another factor. Definition 3 asks for R + A ≤ R_opt + A, so that B* is the same for both.
    """
    found = st.notions(problem, num_samples=samples, overhead=OVERHEAD, risk_factor=RISK_FACTOR)
    best = found.critical
    used = float(best.num_steps) * float(best.batch_size)
    setting = {"batch_size": best.batch_size, "learning_rate": best.learning_rate, "num_samples": used}
    whole = np.nan
    if whole_rate:
        factor = RISK_FACTOR + (RISK_FACTOR - 1) * missing / float(best.optimal_risk)
        again = st.critical_batch_size(problem, num_samples=samples, risk_factor=factor, curve=False)
        whole = float(again.rate_batch_size)
    return Row(
        kind,
        *pair,
        size,
        samples,
        real_batch_size=float(best.real_batch_size),
        optimal_risk=float(best.optimal_risk),
        approximation_risk=missing,
        effective_dimension=float(st.theorem7(problem, **setting).effective_dimension),
        rate_batch_size=float(best.rate_batch_size),
        whole_rate_batch_size=whole,
        simple_noise_scale=float(found.simple_noise_scale),
        hessian_noise_scale=float(found.hessian_noise_scale),
        interpolation_batch_size=float(found.interpolation_batch_size),
    )


def best_size(pair: Pair, compute: float) -> int:
    """The M with the least whole risk at M·D = C, M a whole number (to half a percent where it is large).

    The risk is that of B = 1, which attains R_opt here; steps in log M halve until no neighbour is better.
    """
    known: dict[int, float] = {}

    def risk(size: int) -> float:
        if size not in known:
            problem, missing = model_of(pair, size)
            best = st.optimal_learning_rate(problem, batch_size=1, num_samples=compute / size)
            known[size] = float(best.risk) + missing
        return known[size]

    size, ratio = max(1, round(limited_path(pair, compute))), 2.0
    while True:
        near = max(1, min(size - 1, round(size / ratio))), max(size + 1, round(size * ratio))
        better = min(near, key=risk)
        if risk(better) < risk(size):
            size = better
        elif ratio < FINEST or near in ((size - 1, size + 1), (1, size + 1)):
            return size
        else:
            ratio = ratio**0.5


# ------------------------------------------------------------------ what theory says (THEORY.md T31)


def limited(pair: Pair, size: float, samples: float) -> float:
    """B* where the model is the limit: (2/λ_1) [ω(1 + ω) D M σ_M² / Σ_{i≤M} s_i/λ_i²]^{1/2}."""
    problem, _ = model_of(pair, size)
    eigenvalues, signal = problem.directions()
    bias = float((signal / eigenvalues**2).sum())
    return 2 * (OVERHEAD * (1 + OVERHEAD) * samples * size * problem.noise_variance / bias) ** 0.5


def limited_path(pair: Pair, compute: float) -> float:
    """The M at which M^{1−b}/(b − 1) + σ² M²/C is least: the best model size while every feature is learnt."""
    return (compute / 2) ** (1 / (pair[1] + 1))


def size_exponent(pair: Pair) -> float:
    """The power of M in B*, where the model is the limit."""
    capacity, source = pair
    return (min(source, 2 * capacity + 1) - 2 * capacity) / 2


def random_exponent(pair: Pair) -> float:
    """The power of D in the number of Gaussian features from which on data are the limit: k*^max{1, m − a}."""
    capacity, source = pair
    learnt = min(source, 2 * capacity + 1)
    return max(1.0, learnt - capacity) / learnt


def path_exponents(pair: Pair) -> dict[str, float]:
    """Powers of C = M·D along the compute-optimal path."""
    capacity, source = pair
    return {
        "model_size": 1 / (source + 1),
        "real_batch_size": min((source - capacity) / (source + 1), 0.5),
        "whole_risk": -(source - 1) / (source + 1),
    }


# ------------------------------------------------------------------ lines of a table


def chosen(rows: Sequence[Row], **values: float | str | Pair) -> list[Row]:
    """The rows with these values of columns or properties, by increasing D and M."""
    mine = [row for row in rows if all(getattr(row, name) == value for name, value in values.items())]
    return sorted(mine, key=lambda row: (row.num_samples, row.model_size))


def column(rows: Sequence[Row], name: str) -> np.ndarray:
    """One value a row."""
    return np.array([getattr(row, name) for row in rows], float)


def effective(rows: Sequence[Row], pair: Pair) -> dict[float, float]:
    """D → k* of all features, of a problem on the grid."""
    return {row.num_samples: row.effective_dimension for row in chosen(rows, kind="grid", pair=pair, model_size=ALL)}


def mean_dimension(rows: Sequence[Row], kind: str, samples: float, widths: Sequence[float] | np.ndarray) -> np.ndarray:
    """Geometric mean over seeds of a network's k* at each width."""
    lines = [chosen(rows, kind=kind, num_samples=samples, model_size=width) for width in widths]
    return np.exp([np.log(column(line, "effective_dimension")).mean() for line in lines])


def enough(rows: Sequence[Row], pair: Pair, samples: float, share: float) -> float:
    """The number of Gaussian features from which on B* is at least that share of B* of all; nan where none is enough.

    Between two sizes log(r/(1 − r)) of the ratio r is linear in log M, as it is for r = M/(M + constant).
    """
    (whole,) = chosen(rows, kind="grid", pair=pair, num_samples=samples, model_size=ALL)
    line = chosen(rows, kind="gaussian", pair=pair, num_samples=samples)
    ratio, sizes = column(line, "real_batch_size") / whole.real_batch_size, np.log(column(line, "model_size"))
    last = int(np.flatnonzero(ratio < share)[-1])  # smaller models may have a larger B* again
    if last + 1 == len(line):
        return float("nan")
    return float(np.exp(np.interp(logit(share), logit(ratio[last : last + 2]), sizes[last : last + 2])))
