"""A few eigenvalues that stand for all modes on a panel: rational interpolation in λ.

What p collocation points make of a mode is X(λ)⁻¹ times polynomials of λ, and X(λ) a matrix polynomial. So it is
N(λ)/det X(λ), with polynomials N, and interpolated at nodes λ_m by

    f(λ) = Σ_m W_m(λ) f(λ_m),    W_m ∝ v_m det X(λ_m)/(λ − λ_m),    v_m = 1/Π_{l≠m} (λ_m − λ_l),    Σ_m W_m = 1

(the barycentric formula), exactly where N and det X are of lower degree than there are nodes: for SGD 2p + 1 nodes are
enough, however many modes there are. The nodes are zeros of a rational Chebyshev function with p poles where those of
the panel are, about λ = −(p + 1)/(the way γ t of the panel), and the others at infinity, so that no digits are lost.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import StepMatrices
from sgdtheory.risk.solvers.collocation import Averaging, Responses, responses
from sgdtheory.risk.systems.moments import Keeping
from sgdtheory.risk.systems.runs import Coefficients

# Modes above this share of the largest eigenvalue stand for themselves, because they may be next to the stability
# threshold.
FAST_MODES = 0.1
# A second vector that decays by less than this exponent on a panel has products with the first whose poles lie apart.
SLOW = 1.2
# The degrees of N(λ) and det X(λ) exceed 2p by at most this number, one of them for the factor 1 + λ/μ.
SPARE_DEGREES = 2
HALVINGS = 10  # A node is located by this many halvings of an interval of log λ, to 2%: any nodes near the zeros do.
# Rounding errors grow by Σ|W|: where that exceeds this bound all modes are solved instead.
LEBESGUE = 100.0


class Slow(NamedTuple):
    """By how much a unit of λ adds to the decay of the slowest direction of a mode that decays at all, λ small; (L,).

    And whether there are others that do not decay, as the optimum beside which weight decay holds the weights: their
    products with it decay half as fast as its square.
    """

    slope: np.ndarray
    beside_fixed: bool


def slow_decay(matrices: StepMatrices) -> Slow:
    """On L panels from the mean of their steps, (L, p, …): the lowest coefficients of det(s + 1 − A + λ b cᵀ) in s."""
    decay = matrices.decay.mean(1)
    full = decay + (matrices.b[..., :, None] * matrices.c[..., None, :]).mean(1)
    k = decay.shape[-1]
    size = next((size for size in range(k, 1, -1) if _minors(full, size).any()), 1)
    fixed = _minors(decay, size)
    rest = _minors(decay, size - 1)
    with np.errstate(all="ignore"):
        return Slow((_minors(full, size) - fixed) / rest, size < k)


def _minors(matrix: np.ndarray, size: int) -> np.ndarray:
    """Return (L,) sums of the principal minors of this size."""
    k = matrix.shape[-1]
    if size <= 1:
        return matrix.trace(axis1=1, axis2=2) if size else np.ones(matrix.shape[0])
    chosen_rows = map(list, combinations(range(k), size))
    return np.sum([np.linalg.det(matrix[:, rows][:, :, rows]) for rows in chosen_rows], axis=0)


class ReducedModes(NamedTuple):
    """Answers of m nodes in λ on L panels, which stand for those of K modes.

    Answers fall as 1/λ where λ is large, those of x to M as 1/λ². Their digits are kept where what is interpolated does
    not fall: it is (1 + λ/μ) times the answers, and that again for x.

    Attributes:
        answers: of the nodes.
        weights: (L, m, K) of their answers at the modes; None where these stand for themselves.
        falloff: (L, K) 1/(1 + λ/μ) at the modes, by which M is multiplied before x is made of it.
        inverse_falloff: (L, m) 1 + λ/μ at the nodes, by which these answers are.
    """

    answers: Responses
    weights: np.ndarray | None
    falloff: np.ndarray
    inverse_falloff: np.ndarray


def reduce_modes(nodes: np.ndarray, steps: Coefficients, modes: np.ndarray, run: Averaging) -> ReducedModes | None:
    """L panels with nodes (L, p + 1) and L p equations `steps`, eigenvalues (K,); None if all of them do better."""
    panels = nodes.shape[0]
    order = nodes.shape[1] - 1
    fast = modes > FAST_MODES * modes.max()
    slow = np.flatnonzero(~fast)
    large = np.flatnonzero(fast)
    matrices = StepMatrices(*(each.reshape(panels, order, *each.shape[1:]) for each in steps.matrices))
    poles = _poles(nodes, matrices, run.keeping)
    degree = order + SPARE_DEGREES
    if slow.size <= order * len(poles) + degree:
        return None
    result = interpolation_nodes(float(modes[slow].max()), poles, order, degree)
    sampled = np.concatenate([np.tile(modes[large], (panels, 1)), result], axis=1)
    answers = responses(nodes, steps, sampled, run)
    inverse_falloff = 1 + sampled / poles[0][:, None]
    falloff = 1 / (1 + modes / poles[0][:, None])
    spread = np.zeros((panels, sampled.shape[1], modes.size))
    spread[:, large.size :] = interpolation_weights(result, answers.determinant[:, large.size :], modes)
    spread[:, large.size :, large] = 0.0
    if not np.abs(spread).sum(1).max() < LEBESGUE:
        return None
    spread *= inverse_falloff[:, :, None]
    spread *= falloff[:, None]
    spread[:, np.arange(large.size), large] = 1.0
    return ReducedModes(answers, spread, falloff, inverse_falloff)


def _poles(nodes: np.ndarray, matrices: StepMatrices, keeping: Keeping | None) -> list[np.ndarray]:
    """−λ at which moments would grow by e^(p + 1) on a panel, (L,) each.

    Of squares of the slowest direction; of its products with what else is slow, the optimum beside which weight decay
    holds the weights or a second vector that hardly decays on a panel; and of x of an average.
    """
    reach = nodes.shape[1] / (nodes[:, -1] - nodes[:, 0])
    result = [_pole(matrices, reach / 2)]
    decays = np.sort(np.abs(np.linalg.eigvals(matrices.decay.mean(1))))
    slow = (decays[:, 1:2].T * (nodes[:, -1] - nodes[:, 0]) < SLOW).any()
    if slow or slow_decay(matrices).beside_fixed:
        result.append((_pole_of_product if matrices.b.shape[2] == 2 else _pole)(matrices, reach))
    if keeping is not None:
        result.append(_pole(matrices, reach + keeping.forgetting))
    return result


def _pole_of_product(matrices: StepMatrices, rate: np.ndarray) -> np.ndarray:
    """Return (L,) −λ at which the product of both directions grows by about a factor of 1 + `rate` a step.

    It grows by the trace of A − λ b cᵀ − 1 where both grow slowly.
    """
    decay, b, c = (each.mean(1) for each in matrices)
    with np.errstate(all="ignore"):
        return (rate + decay.trace(axis1=1, axis2=2)) / (b * c).sum(1)


def _pole(matrices: StepMatrices, rate: np.ndarray) -> np.ndarray:
    """Return (L,) −λ at which A − λ b cᵀ grows by a factor of 1 + `rate` a step: `λ cᵀ(rate + 1 − A)⁻¹ b = −1`."""
    decay, b, c = (each.mean(1) for each in matrices)
    response = np.linalg.solve(decay + rate[:, None, None] * np.eye(b.shape[1]), b[..., None])[..., 0]
    with np.errstate(all="ignore"):
        return 1 / (c * response).sum(1)


def interpolation_nodes(top: float, poles: list[np.ndarray], order: int, degree: int) -> np.ndarray:
    """Return (L, m) nodes in (0, top] for functions with p poles near each −`poles`, (L,), and `degree` at infinity."""
    scales = [1 / (1 / pole + 1 / top) for pole in poles]  # of u = λ/(1 − λ/top), to which (0, top) is (0, ∞)
    powers = [order] * len(poles) + [degree + 1]
    scales.append(np.full_like(scales[0], top))
    low = np.log(np.minimum.reduce(scales) * 1e-5)
    high = np.log(np.maximum.reduce(scales) * 1e5)
    aim = (np.arange(sum(powers)) + 0.5) * (np.pi / 2)
    middle = np.repeat(((low + high) / 2)[:, None], aim.size, axis=1)
    width = (high - low)[:, None] / 4
    for _ in range(HALVINGS):
        phase = sum(
            power * np.arctan(np.exp((middle - np.log(scale)[:, None]) / 2))
            for power, scale in zip(powers, scales, strict=True)
        )
        middle = middle + np.where(phase < aim, width, -width)
        width = width / 2
    result = np.exp(middle)
    return result / (1 + result / top)


def interpolation_weights(nodes: np.ndarray, determinant: np.ndarray, eigenvalue: np.ndarray) -> np.ndarray:
    """Return (L, m, K) W_m(λ) of nodes (L, m) with determinants (L, m)."""
    gaps = nodes[:, :, None] - nodes[:, None]
    gaps += np.eye(nodes.shape[1])
    log = np.log(np.abs(determinant)) - np.log(np.abs(gaps)).sum(2)
    factor = np.sign(determinant) * np.exp(log - log.max(1, keepdims=True))
    factor[:, 1::2] *= -1
    result = eigenvalue - nodes[:, :, None]
    result[result == 0] = np.finfo(float).tiny  # W is 1 there
    np.divide(factor[:, :, None], result, out=result)
    result /= result.sum(1, keepdims=True)
    return result
