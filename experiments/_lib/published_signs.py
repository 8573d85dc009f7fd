"""signSGD on power-law random features (arXiv 2603.02069): the theory of signs where gradients are mostly noise.

At B = 1 the sign of a gradient is the sign of the residual times that of a feature. With features of covariance H,
h = diag H, the correlations Ĥ and T = loss, signs have exactly the second moment `S = (2/π) arcsin Ĥ`, and the mean
`(2/π) arcsin(Hδ/√(hT))` (THEORY.md T37). If signals are small this mean is linear, and signSGD is SGD preconditioned by
`h^−½` at the learning rate `γ' = (2/π)γ/√T`, which follows the loss. In the eigenvectors of `M = H^½ h^−½ H^½`, with
eigenvalues μ, and with `N = H^½ S H^½`, the risk is the sum of

    q_k ← (1 − 2γ'μ_k) q_k + γ² N_kk,

so that thousands of features are as cheap as their eigenvectors. `st.SignSGD` has no such restriction to small signals.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import sgdtheory as st
from experiments._lib.published_phases import (
    LAST,
    Frontier,
    Phase,
    balance,
    case_of,
    frontier,
    noise_term,
    problem_of,
    terms,
)
from experiments._lib.published_theory import SGD, SIGN, Row

DECAYED = "signSGD, decay"
SIGNS, CHECK, FLOOR = "signs", "small signals", "noise"  # Questions of the three kinds of rows, see `UNITS`.
SIGN_OCTAVES, SIGN_BESIDE = 2, 2  # The same as for SGD, over the fewer sizes for which signs are computed.
DECAY = 0.5  # Share of the steps of the linear decay.
PER_OCTAVE = 6  # Steps are taken together so many times per octave of time; 12 change the least losses by 0.1%.
FINAL = 40  # Times within the decay.
NARROWEST = 1 / 200  # Shortest of them, as a fraction of the decay.
RATES = 2.0 ** np.arange(-2, 2.1, 0.5)  # Learning rates around the best one of the number of steps before.
STEPS = np.arange(-5.0, 5.1, 1.0)  # Octaves of n around the balance.
CORRECTIONS = 2  # Iterations of γ' within steps that are taken together.

POINTS = (
    # n* of signSGD is that of SGD without the noise of early steps, which is Phase II's, up to a factor.
    Phase("III", 0.7, 1.2, offset=1.5),
    Phase("Ia", 1.0, 0.1, offset=-3.5),
)


class Modes(NamedTuple):
    """Signs on the features of one W, in the eigenvectors of M.

    Attributes:
        pull: (d,) μ.
        noise: (d,) diagonal of N.
        start: (d,) parts of the initial risk, in the mean over the signs of the target's coefficients.
        missed: least risk of the features.
    """

    pull: np.ndarray
    noise: np.ndarray
    start: np.ndarray
    missed: float


def rotation(size: int, draw: int) -> np.ndarray:
    """Return a (d, d) random rotation: the eigenvectors of features with a Gaussian W are uniform."""
    basis, triangle = np.linalg.qr(np.random.default_rng((size, draw)).standard_normal((size, size)))
    return basis * np.sign(np.diag(triangle))


def modes_of(problem: st.AbstractProblem, basis: np.ndarray) -> Modes:
    """Return the modes of a problem; row j of the basis is coordinate j in the problem's eigenvectors."""
    eigenvalues, signal = problem.directions()
    root = basis * np.sqrt(eigenvalues)
    covariance = root @ root.T
    diagonal = np.diag(covariance)
    correlations = covariance / np.sqrt(np.outer(diagonal, diagonal))
    signs = 2 / np.pi * np.arcsin(np.clip(correlations, -1, 1))
    pull, vectors = np.linalg.eigh(root.T @ (root / np.sqrt(diagonal)[:, None]))
    turned = root @ vectors
    noise = (turned * (signs @ turned)).sum(0)
    return Modes(np.maximum(pull, 0.0), noise, (vectors**2).T @ signal, problem.approximation_risk)


def losses(modes: Modes, rates: np.ndarray, steps: float, decay: float = 0.0) -> np.ndarray:
    """Return the loss after n steps at each γ, constant or with a linear decay at the end."""
    stable = steps * (1 - decay)
    times = np.unique(np.round(np.geomspace(1, max(stable, 1), int(PER_OCTAVE * np.log2(max(stable, 2))) + 2)))
    if decay > 0:
        left = np.round((steps - stable) * np.geomspace(1, NARROWEST, FINAL))
        times = np.unique(np.concatenate([times, steps - left, [steps]]))
    parts = np.repeat(modes.start[None], rates.size, 0)
    before = 0.0
    for time in times[times > 0]:
        count, middle = time - before, (time + before) / 2
        gamma = rates[:, None] * (1.0 if middle <= stable else (steps - middle) / (steps - stable))
        start = total = parts.sum(1) + modes.missed
        for _ in range(CORRECTIONS + 1 if count > 1 else 1):
            shrink = 4 / np.pi * gamma / np.sqrt(np.sqrt(start * total))[:, None] * modes.pull
            # A mode cannot be learnt by more than all of it in one step; γ' adapts before this matters.
            kept = np.exp(count * np.log1p(-np.minimum(shrink, 1 - 1e-12)))
            noise = gamma**2 * modes.noise * np.where(shrink > 0, (1 - kept) / np.maximum(shrink, 1e-300), count)
            found = kept * parts + noise
            total = found.sum(1) + modes.missed
        parts, before = found, time
    return parts.sum(1) + modes.missed


def tuned(modes: Modes, steps: Sequence[float], first: float, decay: float = 0.0) -> list[tuple[float, float]]:
    """Return the best γ and its loss for increasing n, from a first guess of γ."""
    found = []
    centre = first
    for number in steps:
        while True:
            rates = centre * RATES
            values = np.log(losses(modes, rates, number, decay))
            place = int(values.argmin())
            if 0 < place < rates.size - 1:
                break
            centre = rates[place]
        fit = np.polynomial.Polynomial.fit(np.log(rates[place - 1 : place + 2]), values[place - 1 : place + 2], 2)
        best = float(fit.deriv().roots()[0].real)
        centre = float(np.exp(best))
        found.append((centre, float(np.exp(fit(best)))))
    return found


def of_size(phase: Phase, size: int, draws: int, decays: Sequence[float]) -> list[Row]:
    """Return the least losses of signSGD over γ at one model size, for several W, and those of SGD."""
    problem = problem_of(phase, size)
    middle = (phase.alpha / phase.beta if phase.name == "III" else 2 * phase.alpha) * np.log2(size) + phase.offset
    steps = np.unique(np.round(2.0 ** np.maximum(middle + STEPS, 3.0)))
    rate = phase.share / st.PowerLaw(*phase.pair).trace
    found = st.excess_risk(problem, batch_size=1, learning_rate=rate, num_samples=steps, algorithm=LAST)
    totals = (np.asarray(found.total) + problem.approximation_risk).tolist()
    rows = [
        Row(SIGNS, SGD, *phase.pair, case_of(size), number, 1, rate, loss)
        for number, loss in zip(steps.tolist(), totals, strict=True)
    ]
    for draw in range(draws):
        modes = modes_of(problem, rotation(size, draw))
        for decay in decays:
            best = tuned(modes, steps.tolist(), 0.1 * size**-0.5, decay)
            rows += [
                Row(SIGNS, DECAYED if decay else SIGN, *phase.pair, case_of(size, draw), number, 1, gamma, loss)
                for number, (gamma, loss) in zip(steps.tolist(), best, strict=True)
            ]
    return rows


# ------------------------------------------------------------------ frontiers and checks


def noise_free(phase: Phase) -> tuple[float, float]:
    """Return the powers of f in d* and in L without the noise of early steps.

    Signs follow the loss, γ' ∝ γ/√T, and the best γ is that whose noise, γ² d tr H up to a constant, is of the size of
    the last loss. Then r = Σ γ' is proportional to n, as for SGD, but the noise of early steps is smaller by the ratio
    of the losses, so that it never counts. A decay does not change this: one step adds γ² d to T, so that
    `γ' ≤ C √(T_{t+1}/T_t)`, whose sum over n steps is at most C n for any γ_t.
    """
    found = balance([each for each in terms(phase.alpha, phase.beta) if each != noise_term(phase.alpha)])
    return found.size, found.loss


class Slopes(NamedTuple):
    """Slopes of ln d* and ln L in ln f between neighbouring computes, and their standard errors by the draws."""

    compute: np.ndarray
    size: np.ndarray
    size_error: np.ndarray
    loss: np.ndarray
    loss_error: np.ndarray


def slopes_of(rows: Sequence[Row], phase: Phase, method: str) -> Slopes:
    """Return the slopes of one method; errors are those of the mean over draws, 0 for SGD."""
    mine = [row for row in rows if (row.question, row.method, row.capacity, row.source) == (SIGNS, method, *phase.pair)]
    mean = sign_frontier(mine)
    draws = sorted({row.case.partition(", ")[2] for row in mine})
    own = [sign_frontier([row for row in mine if row.case.endswith(draw)]) for draw in draws]
    steps = np.diff(mean.compute)

    def spread(name: str) -> np.ndarray:
        tables = [dict(zip(each.compute.tolist(), getattr(each, name).tolist(), strict=True)) for each in own]
        values = [[table.get(compute, np.nan) for compute in mean.compute.tolist()] for table in tables]
        found = np.diff(np.array(values).reshape(len(own), -1), axis=1) / steps
        return np.nanstd(found, axis=0, ddof=1) / np.sqrt(np.isfinite(found).sum(0))

    several = len(own) > 1
    size_error, loss_error = (spread(name) if several else np.zeros(steps.size) for name in ("size", "loss"))
    return Slopes(mean.compute, np.diff(mean.size) / steps, size_error, np.diff(mean.loss) / steps, loss_error)


def sign_frontier(rows: Sequence[Row]) -> Frontier:
    """Return the frontier over the fewer sizes for which signs are computed."""
    return frontier(rows, octaves=SIGN_OCTAVES, beside=SIGN_BESIDE)


def against_library(phase: Phase, size: int, steps: float) -> Row:
    """Return the loss of small signals divided by that of `st.SignSGD`, at the best γ of the former."""
    problem = problem_of(phase, size)
    basis = rotation(size, 0)
    ((rate, loss),) = tuned(modes_of(problem, basis), [steps], 0.1 * size**-0.5)
    method = st.Algorithm(st.SignSGD(basis=basis), average=st.LastIterate())
    found = st.excess_risk(problem, batch_size=1, learning_rate=rate, num_samples=steps, algorithm=method)
    ratio = loss / (float(found.total) + problem.approximation_risk)
    return Row(CHECK, SIGN, *phase.pair, case_of(size, 0), steps, 1, rate, ratio)


FLOORS = Phase("III", 0.8, 1.2), Phase("Ic", 0.2, 1.0, 2.0)  # Points on both sides of α = ½.
FLOOR_RATE = 0.1  # γ at which the noise is much larger than the least risk.


def floor_of(phase: Phase, size: int) -> Row:
    """Return the noise of signSGD with small signals at a constant γ after infinitely many steps.

    Then `q_k = γ² N_kk/(2γ'μ_k)`, whose sum is `(π/4) γ √T tr h^½ S = (π/4) γ √T Σ_j √h_j`. With T = noise + missed
    this is an equation for √T.
    """
    problem = problem_of(phase, size)
    basis = rotation(size, 0)
    eigenvalues, _ = problem.directions()
    half = np.pi / 8 * FLOOR_RATE * np.sqrt((basis**2) @ eigenvalues).sum()
    noise = (half + np.sqrt(half**2 + problem.approximation_risk)) ** 2 - problem.approximation_risk
    return Row(FLOOR, SIGN, *phase.pair, case_of(size, 0), np.inf, 1, FLOOR_RATE, float(noise))
