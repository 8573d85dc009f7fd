"""signSGD without momentum, and the mean of a sign over the nodes of a quadrature (THEORY.md T37)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from sgdtheory.risk.mean_field.chi import chi_rules
from sgdtheory.risk.mean_field.closure import Closure, grain, shares
from sgdtheory.risk.mean_field.compiled_erf import erf_by_gaussian
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Known, MemorylessField, Step

# Signs are averaged in blocks of at most this many numbers, whose temporary arrays stay in the cache. With a tenth or
# ten times as many, 25 steps of 300 directions take two to three times as long. Results do not depend on it.
NUMBERS_IN_CACHE = 10_000
# Two signs differ by at most 2, so that the relative error of the scatter by rare jumps is no larger.
LARGEST_JUMP_ERROR = 2.0


@dataclass(frozen=True)
class SignErrorFactors:
    """Factors of the stated error of signSGD. Larger factors state larger errors.

    They are fitted to 891 simulated settings, of which the stated errors cover all but 5.

    Attributes:
        fluctuation: error of the pull over q; the derivation bounds it by 3/8.
        grain: error of the pull over s times the grain of the variance; the derivation bounds it by 1/3.
        saturation: error of the pull over s² B r/T_i.
        jumps: error of the scatter over that of rare jumps.
    """

    fluctuation: float = 0.25
    grain: float = 0.42
    saturation: float = 0.13
    jumps: float = 0.7


@dataclass(frozen=True)
class SignField(MemorylessField):
    """Step of signSGD, `w ← w − γ sign(g)`, in coordinates that are the eigenvectors."""

    factors = SignErrorFactors()

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Return the errors of the closure, which come from the pull and from rare jumps.

        A sign scatters by 1 − e², e its mean, whatever the law of u. Where e² is near 1 a direction's variance consists
        of rare jumps by 2γ√λ. A Gaussian of that variance behaves differently in the next step if the sign is certain
        after a jump too, that is if B γ²λ/T_i is not small.
        """
        share = shares(ensemble, values, loss, known.batch)
        factors = self.factors
        pull = factors.fluctuation * share.fluctuation + factors.saturation * share.saturated
        pull = pull + factors.grain * share.spread * grain(ensemble, values, known.rate)
        others = noise_of_others(values, loss)
        jump = np.minimum(known.batch * known.rate**2 * ensemble.spread / others, LARGEST_JUMP_ERROR)
        # A rate of 0 and a direction that learns nothing have no drift, and their sign counts as 0.
        sign = self.step(ensemble, values, loss, known).drift / np.maximum(known.rate * ensemble.root, TINY)
        return Closure(pull, factors.jumps * sign**2 * jump, np.zeros_like(pull), share.spread / 2)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the rules of χ, nodes and weights (P, M)."""
        return chi_rules(batch)

    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """Return the step of signs, whose variance is exact because E sign(g_i)² = 1."""
        others = noise_of_others(values, loss)
        sign, slope = gradient_signs(values[MEAN], values[VARIANCE], others, known.table)
        drift = known.rate * ensemble.root
        return Step(drift * sign, drift * slope, known.rate**2 * ensemble.spread * (1 - sign**2))


class GaussianAtNodes(NamedTuple):
    """Laws of Gaussian variables X in P steps and K directions, given N nodes of a quadrature.

    At a node X has the mean `Σ_d mean_by_d mean_d` and the variance `Σ_e variance_by_e variance_e`.

    Attributes:
        mean_by: (P, N, D) functions of the node.
        mean: (D, P, K) coefficients.
        variance_by: (P, N, E) functions of the node.
        variance: (E, P, K) coefficients.
    """

    mean_by: np.ndarray
    mean: np.ndarray
    variance_by: np.ndarray
    variance: np.ndarray


def mean_signs(law: GaussianAtNodes, weight: np.ndarray, stretch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return E sign(X), (P, K), and its derivatives by the coefficients of the mean, (D, P, K).

    With m and v the mean and the variance of X at a node,

        E sign(X) = Σ_nodes weight · mean over y of erf(y m/√(2v)).

    Args:
        law: X at the nodes.
        weight: (P, N) weights of the nodes.
        stretch: (P, Y) equally likely factors y of the mean.
    """
    if law.mean.__array_namespace__() is not np:  # a compiled loop, which needs no blocks
        return _mean_signs(law, weight, stretch)
    _, steps, size = law.mean.shape
    sign = np.empty((steps, size))
    slope = np.empty(law.mean.shape)
    # The directions of one step are divided only if they are very many.
    columns_at_once = max(1, NUMBERS_IN_CACHE // weight.shape[1])
    rows_at_once = max(1, columns_at_once // size)
    for top in range(0, steps, rows_at_once):
        rows = slice(top, top + rows_at_once)
        for left in range(0, size, columns_at_once):
            columns = slice(left, left + columns_at_once)
            block = law._replace(
                mean_by=law.mean_by[rows],
                mean=law.mean[:, rows, columns],
                variance_by=law.variance_by[rows],
                variance=law.variance[:, rows, columns],
            )
            sign[rows, columns], slope[:, rows, columns] = _mean_signs(block, weight[rows], stretch[rows])
    return sign, slope


def _mean_signs(law: GaussianAtNodes, weight: np.ndarray, stretch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `mean_signs` of all steps and directions at once."""
    xp = law.mean.__array_namespace__()
    by_sign = weight[:, None] / stretch.shape[1]
    by_slope = 2 / np.sqrt(np.pi) * by_sign * law.mean_by.swapaxes(1, 2)
    width = 1 / xp.sqrt(2 * xp.maximum(law.variance_by @ law.variance.swapaxes(0, 1), TINY))
    scaled = width * (law.mean_by @ law.mean.swapaxes(0, 1))
    factor = stretch[:, :, None, None]
    argument = factor * scaled[:, None]
    gaussian = xp.exp(-(argument**2))
    erf = special.erf(argument) if xp is np else erf_by_gaussian(argument, gaussian)
    # Products of matrices sum over the nodes, with their weights and with those of the derivatives.
    sign = (by_sign[:, None] @ erf).sum(1)
    slope = ((factor * by_slope[:, None]) @ (width[:, None] * gaussian)).sum(1)
    return sign[:, 0], slope.swapaxes(0, 1)


def noise_of_others(values: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Return T' = T − E u², (P, K), from values (q, P, K) and losses (P, 1)."""
    return values.__array_namespace__().maximum(loss - (values[MEAN] ** 2 + values[VARIANCE]), TINY)


def gradient_signs(
    mean: np.ndarray, variance: np.ndarray, noise: np.ndarray, rules: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return E sign(g) and its derivative by the mean a of u, (P, K), without momentum.

    g_i has the sign of `χ u_i + √T' z`, z ~ N(0, 1), so that

        E sign(g_i) = E_χ erf(χ a_i/√(2 (T' + χ² r_i))).

    Args:
        mean, variance: (P, K) a and r.
        noise: (P, K) T'.
        rules: nodes and weights (P, M) of `chi_rules` for P steps.
    """
    node, weight = rules
    chi = node[..., None]
    xp = mean.__array_namespace__()
    law = GaussianAtNodes(chi, mean[None], chi ** np.array([0, 2]), xp.stack([noise, variance]))
    sign, (slope,) = mean_signs(law, weight, np.ones((len(node), 1)))
    return sign, slope
