"""Deterministic equivalents of SGD on N samples: what drives its risk, in the mean over samples (THEORY.md T42).

Everything that steps on fixed rows need is a spectral sum over the eigenvalues w of `Ĥ = XᵀX/N`. The mean of such a
sum over samples is an integral around them of its transform, in closed form through the ridge κ(z), or of a transform
in two ridges where H stands between two functions of Ĥ.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sgdtheory.problems.modes import Modes
from sgdtheory.problems.problem import AbstractProblem
from sgdtheory.problems.sample_contour import PLAIN, TURNING, Lens, Rule, contour, interpolation_error, real_nodes
from sgdtheory.problems.sample_resolvent import SampleResolvent, thinned

MARGIN = 0.05  # of the ends of the spectrum, that the lens reaches beyond
LONGER = 1.02  # of two runs whose risks give a slope
TINY = 1e-300
LEAST_RIDGE = 1e-3  # of the smallest node: with less, N_eff is the same
SMALLEST = 1e-15  # of the largest eigenvalue: what is smaller is never learnt, but by runs that are told
BELOW = 0.3  # of the least sampled eigenvalue: where the lens begins if that is not 0
SMOOTH = 0.2  # angle at which `seen` does not tell one bump of eigenvalues from the next, as the nodes do not
NEAREST = 1e-3  # of `floor`: κ on the contour
LEAST = 0.5  # of the κ at the lower edge: κ on the contour
APART = 0.25  # rows more than directions, where they are as many: a quarter of what the equivalent leaves out
STEP = 1e-3  # by which the modes are made finer
RESOLVED = 8.0  # times nearer to 0 than κ: below, modes may be a polynomial's


@dataclass(frozen=True)
class AveragedDrivers:
    """Spectral sums of N samples in the mean over samples, as sums over J real nodes.

    The weights are those of an interpolatory rule, of both signs where eigenvalues lie in narrow bumps between nodes:
    sums are right to some 1e-10, single terms mean nothing. `δ = w_0 − w*`.

    Attributes:
        num_samples: N.
        weight: (J,) nodes w > 0.
        count: (J,) of `tr g(Ĥ)`, g(0) = 0.
        test: (J,) of `tr H g(Ĥ)`, g(0) = 0.
        learnt: (J,) of `δᵀ Ĥ g(Ĥ) δ`.
        excess: (J,) of `(w_0 − ŵ)ᵀ Ĥ g(Ĥ) (w_0 − ŵ)`, ŵ the least-squares fit next to w_0.
        seen: (J,) `v_jᵀHv_j/w_j ≈ |κ(−w)|²/w²` (Ledoit & Péché 2011): risk for each unit of training loss.
        least_loss: `σ² (1 − rank/N)`, the loss of ŵ on the samples.
        pairs: (J, J) b, `cross` (J,) a and `fixed` c of `δᵀ f(Ĥ) H f(Ĥ) δ = c + 2 aᵀf + fᵀ b f`, f(0) = 1.
        noise_variance: σ², and the signal of directions without an eigenvalue.
        whole: Σ s_i, what the signal's risk begins with.
        rule: of the nodes.
    """

    num_samples: float
    weight: np.ndarray
    count: np.ndarray
    test: np.ndarray
    learnt: np.ndarray
    excess: np.ndarray
    seen: np.ndarray
    least_loss: float
    pairs: np.ndarray
    cross: np.ndarray
    fixed: float
    noise_variance: float
    whole: float
    rule: Rule

    def signal_risk(self, response: np.ndarray) -> np.ndarray:
        """`δᵀ f(Ĥ) H f(Ĥ) δ`, of responses f (…, J) at the nodes."""
        squares = np.einsum("...j,...j->...", response @ self.pairs, response)
        return self.fixed + 2 * response @ self.cross + squares

    def noise_risk(self, response: np.ndarray) -> np.ndarray:
        """`tr[H (1 − f(Ĥ))² Ĥ^{-1}] σ²/N`, of responses f (…, J) at the nodes."""
        share = self.noise_variance / self.num_samples
        return share * ((1 - response) ** 2 @ (self.test / self.weight))

    def mean_risk(self, response: np.ndarray) -> np.ndarray:
        """Excess risk of the mean over batches, of responses f (…, J) at the nodes: `1 − f` is what has been learnt."""
        return self.signal_risk(response) + self.noise_risk(response)

    def interpolation_error(self, response: np.ndarray) -> np.ndarray:
        """(…) relative error of `mean_risk` from responses (…, J) that turn within a panel, as momentum's may."""
        off = interpolation_error(response, self.rule)
        risk = np.maximum(self.mean_risk(response), TINY)
        share = off * np.sqrt(self.whole / risk)
        return 2 * share + share**2

    def effective_samples(self, reach: float) -> float:
        """`N_eff = N − df₂(κ)` at the ridge z = 1/Σγ, which a run of reach Σγ is like: `N dz/dκ`, κ = z/r(z).

        `r = 1 − df₁/N = 1 − (1/N) Σ_j n_j w_j/(w_j + z)` and `dκ/dz = (r − z dr/dz)/r²`.
        """
        z = max(1 / reach, LEAST_RIDGE * float(self.weight.min()))
        share = self.weight / (self.weight + z)
        ratio = 1 - float(self.count @ share) / self.num_samples
        return self.num_samples * ratio**2 / (ratio - float(self.count @ (share * (1 - share))) / self.num_samples)

    def relative_error_at(self, reach: float) -> float:
        """Return the measured relative error of the mean path's risk after Σγ = reach (THEORY.md T42).

        `(1 + β(β + 1))/N_eff` of the signal's part, which falls like reach^−β, and 1/N_eff of the noise's.
        """
        reaches = np.array([reach, LONGER * reach])
        response = np.exp(-np.multiply.outer(reaches, self.weight))
        signal = np.maximum(self.signal_risk(response), TINY)
        noise = float(self.noise_risk(response)[0])
        slope = max(float(np.log(signal[0] / signal[1])), 0.0) / math.log(LONGER)
        shares = (signal[0] * (1 + slope * (slope + 1)) + noise) / (signal[0] + noise)
        return float(shares / self.effective_samples(reach))


def averaged_drivers(
    problem: AbstractProblem, num_samples: float, reach: float = math.inf, turning: bool = False
) -> AveragedDrivers:
    """The drivers of N samples, with κ(z) of T42 and `S(κ) = Σ s_i/(λ_i + κ)`.

    The transforms `Σ_j a_j/(w_j + z)` of what stands in front of g are `df₁(κ)` for Ĥ, `(κ/z) df₁(κ)` less its pole at
    0 for H, and S(κ) for `δᵀ Ĥ · δ`; that of the pairs `(v_jᵀδ) v_jᵀHv_k (v_kᵀδ)` is

        (κ₁κ₂/(z₁z₂)) Σ_i s_i/((λ_i + κ₁)(λ_i + κ₂)) / (1 − Σ_i λ_i²/((λ_i + κ₁)(λ_i + κ₂))/N),

    to relative order 1/(N − df₂).

    Args:
        problem: of any size.
        num_samples: N ≥ 1; inf is the limit, where Ĥ = H.
        reach: Σγ of the longest run: fewer nodes.
        turning: whether responses oscillate, as with momentum: more nodes.
    """
    rule = TURNING if turning else PLAIN
    spectrum = _Spectrum(problem)
    unit = spectrum.unit
    resolvent, lens = _resolved(spectrum, float(num_samples), reach * unit)
    curve = contour(lens, rule)
    nodes = real_nodes(lens, curve.v, rule)
    z = -curve.w
    kappa = resolvent.kappa(z)
    degrees = resolvent.degrees(kappa)
    # κ_0, where the lens begins beyond the pole at 0: what no row sees is then a part of its own
    level = resolvent.level() if lens.begin == 0 else 0.0
    pole = level * num_samples if level else 0.0
    lowest = np.array([level])

    def weights(transform: np.ndarray) -> np.ndarray:
        return -2 * (nodes.interpolation.T @ (curve.steps * transform)).real

    learnt = weights(resolvent.learnt(kappa))
    count = weights(degrees) / nodes.w
    noise = problem.noise_variance + spectrum.frozen
    return AveragedDrivers(
        num_samples=float(num_samples),
        weight=unit * nodes.w,
        count=count,
        test=unit * weights((kappa * degrees - pole) / z),
        learnt=learnt,
        excess=learnt + noise / num_samples * count,
        seen=np.abs(resolvent.kappa(-nodes.w * np.exp(-1j * SMOOTH)) / nodes.w) ** 2,
        least_loss=noise * spectrum.idle(num_samples),
        pairs=_pairs(resolvent, kappa, curve.steps * kappa / z, nodes.interpolation),
        cross=weights(kappa / z * level * resolvent.both(kappa, lowest)[:, 0]) if level else np.zeros_like(count),
        fixed=spectrum.frozen + (level**2 * float(resolvent.both(lowest, lowest)[0, 0]) if level else 0.0),
        noise_variance=noise,
        whole=problem.initial_risk,
        rule=rule,
    )


class _Spectrum:
    """A problem's modes in units of λ_1. Directions without an eigenvalue hold their risk, and are noise to the others.

    Attributes:
        unit: λ_1.
        frozen: signal of directions without an eigenvalue.
        rank: how many have one; None for infinitely many.
    """

    def __init__(self, problem: AbstractProblem) -> None:
        self.problem = problem
        self.unit = problem.largest_eigenvalue
        modes = problem.modes(self.unit)
        none = modes.eigenvalue == 0
        self.frozen = float(modes.signal[none].sum())
        self.rank = None if problem.dim is None else problem.dim - int(none.sum())

    def idle(self, num_samples: float) -> float:
        """1 − rank/N."""
        if self.rank is None or self.rank >= num_samples:
            return 0.0
        return 1 - self.rank / num_samples

    def modes(self, smallest: float) -> Modes:
        """Of the positive eigenvalues, for poles as near as −smallest."""
        modes = self.problem.modes(self.unit * smallest)
        some = modes.eigenvalue > 0
        return Modes(modes.eigenvalue[some] / self.unit, modes.multiplicity[some], modes.signal[some])


def apart(problem: AbstractProblem, num_samples: float) -> float:
    """N, or a little more of as many directions: Ĥ has eigenvalues down to 0, and with them what scatters no digits."""
    return num_samples + APART if _Spectrum(problem).rank == num_samples else num_samples


def _resolved(spectrum: _Spectrum, num_samples: float, reach: float) -> tuple[SampleResolvent, Lens]:
    """The spectrum's modes as finely as needed, and the lens around the sampled eigenvalues."""
    smallest = 1.0
    resolvent = SampleResolvent(spectrum.modes(smallest / RESOLVED), num_samples, smallest)
    high = resolvent.largest()
    end = (1 + MARGIN) * high
    floor = max(SMALLEST * high, min(1 / reach, high) if reach > 0 else high)
    while smallest > (finest := max(LEAST * resolvent.edge(), NEAREST * floor)):
        smallest = max(STEP * smallest, finest)
        resolvent = SampleResolvent(spectrum.modes(smallest / RESOLVED), num_samples, smallest)
    low = resolvent.smallest()
    lens = Lens(0.0, BELOW * low, high, end) if BELOW * low > floor else Lens(-floor, 0.0, high, end)
    return SampleResolvent(thinned(resolvent.modes), num_samples, smallest), lens


def _pairs(
    resolvent: SampleResolvent, kappa: np.ndarray, steps: np.ndarray, interpolation: sparse.csr_array
) -> np.ndarray:
    """(J, J): of both halves of a contour with both halves, on the real nodes."""
    to_nodes = interpolation.T.tocsr()
    same = to_nodes @ (steps[:, None] * steps * resolvent.both(kappa, kappa))
    across = to_nodes @ (steps[:, None] * steps.conj() * resolvent.both(kappa, kappa.conj()))
    return 2 * (to_nodes @ same.T + to_nodes.conj() @ across.T).real
