"""Deterministic equivalents of SGD on N samples: the drivers of its risk in the mean over samples (THEORY.md T42).

Training on fixed rows depends on them only through spectral sums over the eigenvalues w of `Ĥ = XᵀX/N`. The mean of
such a sum over samples is a contour integral of its transform, which is known in closed form through the ridge κ(z).
Where H stands between two functions of Ĥ, the transform depends on two ridges.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sgdtheory.problems.modes import Modes
from sgdtheory.problems.problem import AbstractProblem
from sgdtheory.problems.sample_contour import PLAIN, TURNING, Lens, Rule, contour, interpolation_error, real_nodes
from sgdtheory.problems.sample_resolvent import SampleResolvent, thinned

MARGIN = 0.05  # The lens reaches this fraction beyond the upper end of the spectrum.
LONGER = 1.02  # The exponent β of the risk is measured between two reaches with this ratio.
TINY = 1e-300  # This replaces risks that underflow, so that their logarithms are finite.
LEAST_RIDGE = 1e-3  # N_eff no longer changes for ridges below this fraction of the smallest node.
SMALLEST = 1e-15  # Eigenvalues of Ĥ below this fraction of the largest are not resolved unless 1/reach is larger.
BELOW = 0.3  # The lens begins at this fraction of the smallest positive eigenvalue, if that is above the floor.
SMOOTH = 0.2  # `seen` is evaluated at this angle: it averages over single bumps of the density, as the nodes do.
NEAREST = 1e-3  # On the contour |κ| is at least this, relative to the floor of the lens.
LEAST = 0.5  # On the contour |κ| is at least this, relative to κ at the lower edge of the spectrum.
APART = 0.25  # This is added to N if there are as many directions: a quarter of what the equivalent neglects.
STEP = 1e-3  # The smallest resolved κ decreases by this factor until the modes are fine enough.
RESOLVED = 8.0  # Modes are exact for functions with poles nearer to 0 than κ by this factor.


@dataclass(frozen=True)
class AveragedDrivers:
    """Spectral sums in the mean over samples of N rows, as sums over J real nodes.

    The weights are those of an interpolatory rule. They have both signs if eigenvalues lie in narrow bumps between
    nodes, so that sums have an error of about 1e-10, while single terms have no meaning. `δ = w_0 − w*`.

    Attributes:
        num_samples: N.
        weight: (J,) nodes w > 0.
        count: (J,) weights of `tr g(Ĥ)`, g(0) = 0.
        test: (J,) weights of `tr H g(Ĥ)`, g(0) = 0.
        learnt: (J,) weights of `δᵀ Ĥ g(Ĥ) δ`.
        excess: (J,) weights of `(w_0 − ŵ)ᵀ Ĥ g(Ĥ) (w_0 − ŵ)`, with ŵ the least-squares fit nearest to w_0.
        seen: (J,) `v_jᵀHv_j/w_j ≈ |κ(−w)|²/w²` (Ledoit & Péché 2011), the risk per unit of training loss.
        least_loss: `σ² (1 − rank/N)`, the training loss of ŵ.
        pairs: (J, J) b, `cross` (J,) a and `fixed` c of `δᵀ f(Ĥ) H f(Ĥ) δ = c + 2 aᵀf + fᵀ b f`, f(0) = 1.
        noise_variance: σ² plus the signal of directions with λ = 0.
        whole: Σ s_i, the initial risk.
        rule: rule of the nodes.
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
        """Compute the signal's risk `δᵀ f(Ĥ) H f(Ĥ) δ` from responses f (…, J) at the nodes."""
        squares = np.einsum("...j,...j->...", response @ self.pairs, response)
        return self.fixed + 2 * response @ self.cross + squares

    def noise_risk(self, response: np.ndarray) -> np.ndarray:
        """Compute the risk of fitted noise, `tr[H (1 − f(Ĥ))² Ĥ^{-1}] σ²/N`, from responses f (…, J) at the nodes."""
        share = self.noise_variance / self.num_samples
        return share * ((1 - response) ** 2 @ (self.test / self.weight))

    def mean_risk(self, response: np.ndarray) -> np.ndarray:
        """Compute the excess risk of the mean weights over batches from responses f (…, J) at the nodes."""
        return self.signal_risk(response) + self.noise_risk(response)

    def interpolation_error(self, response: np.ndarray) -> np.ndarray:
        """Return the relative error (…) of `mean_risk` from responses (…, J) that oscillate within a panel."""
        off = interpolation_error(response, self.rule)
        risk = np.maximum(self.mean_risk(response), TINY)
        share = off * np.sqrt(self.whole / risk)
        return 2 * share + share**2

    def effective_samples(self, reach: float) -> float:
        """Compute `N_eff = N − df₂(κ) = N dz/dκ` at the ridge z = 1/Σγ, to which a run of reach Σγ is similar.

        Here κ = z/r(z), `r = 1 − df₁/N = 1 − (1/N) Σ_j n_j w_j/(w_j + z)` and `dκ/dz = (r − z dr/dz)/r²`.
        """
        z = max(1 / reach, LEAST_RIDGE * float(self.weight.min()))
        share = self.weight / (self.weight + z)
        ratio = 1 - float(self.count @ share) / self.num_samples
        return self.num_samples * ratio**2 / (ratio - float(self.count @ (share * (1 - share))) / self.num_samples)

    def relative_error_at(self, reach: float) -> float:
        """Return the measured relative error of the mean path's risk after Σγ = reach (THEORY.md T42).

        It is `(1 + β(β + 1))/N_eff` for the signal's part, which falls like reach^−β, and 1/N_eff for the noise's part.
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
    """Compute the spectral sums for samples of N rows from κ(z) of T42 and `S(κ) = Σ s_i/(λ_i + κ)`.

    Each sum `Σ_j a_j g(w_j)` follows from the transform `Σ_j a_j/(w_j + z)`. This is `df₁(κ)` for `tr Ĥ g(Ĥ)`,
    `(κ/z) df₁(κ)` without its pole at 0 for `tr H g(Ĥ)`, and S(κ) for `δᵀ Ĥ g(Ĥ) δ`. The transform of the pairs
    `(v_jᵀδ) v_jᵀHv_k (v_kᵀδ)` is

        (κ₁κ₂/(z₁z₂)) Σ_i s_i/((λ_i + κ₁)(λ_i + κ₂)) / (1 − Σ_i λ_i²/((λ_i + κ₁)(λ_i + κ₂))/N),

    with a relative error of order 1/(N − df₂).

    Args:
        problem: problem of the population, of any size.
        num_samples: N ≥ 1; inf is the limit in which Ĥ = H.
        reach: Σγ of the longest run; a finite value needs fewer nodes.
        turning: whether responses oscillate, as with momentum, which needs more nodes.
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
    # If the lens begins at 0, the pole there lies outside of the contour: the null space of Ĥ is treated separately.
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
    """The modes of a problem in units of λ_1, without directions of λ = 0, whose constant risk acts as label noise.

    Attributes:
        unit: λ_1.
        frozen: signal of the directions with λ = 0.
        rank: number of directions with λ > 0; None for infinitely many.
    """

    def __init__(self, problem: AbstractProblem) -> None:
        self.problem = problem
        self.unit = problem.largest_eigenvalue
        modes = problem.modes(self.unit)
        none = modes.eigenvalue == 0
        self.frozen = float(modes.signal[none].sum())
        self.rank = None if problem.dim is None else problem.dim - int(none.sum())

    def idle(self, num_samples: float) -> float:
        """Return 1 − rank/N, the fraction of noise that ŵ cannot fit; 0 if the rank is at least N."""
        if self.rank is None or self.rank >= num_samples:
            return 0.0
        return 1 - self.rank / num_samples

    def modes(self, smallest: float) -> Modes:
        """Return the modes of the positive eigenvalues, exact for functions with poles as near as −smallest."""
        modes = self.problem.modes(self.unit * smallest)
        positive = modes.eigenvalue > 0
        return Modes(modes.eigenvalue[positive] / self.unit, modes.multiplicity[positive], modes.signal[positive])


def apart(problem: AbstractProblem, num_samples: float) -> float:
    """Return N, slightly increased if the rank is N: eigenvalues of Ĥ reach 0 then, and fluctuations lose digits."""
    return num_samples + APART if _Spectrum(problem).rank == num_samples else num_samples


def _resolved(spectrum: _Spectrum, num_samples: float, reach: float) -> tuple[SampleResolvent, Lens]:
    """Return the spectrum's modes at the resolution that is needed, and the lens around the eigenvalues of Ĥ."""
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
    """Return (J, J) weights on the real nodes of the double integral over both halves of the contour."""
    to_nodes = interpolation.T.tocsr()
    same = to_nodes @ (steps[:, None] * steps * resolvent.both(kappa, kappa))
    across = to_nodes @ (steps[:, None] * steps.conj() * resolvent.both(kappa, kappa.conj()))
    return 2 * (to_nodes @ same.T + to_nodes.conj() @ across.T).real
