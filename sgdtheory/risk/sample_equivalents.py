"""Deterministic equivalents of SGD on N samples: what drives its risk, in the mean over samples (THEORY.md T42).

Everything that steps on fixed rows need is a spectral sum over the eigenvalues w of `Ĥ = XᵀX/N`, and the mean of such
a sum is an integral along a contour around them: weighted nodes, complex, that hold for all steps at once.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.sample_resolvent import SampleResolvent

ANGLE = 0.8  # of the contour from the positive axis, about half the way to where steps no longer shrink
DIGITS = 32.0  # of e, that the contour is right to
WIDEST = 4.0  # times the largest eigenvalue: where the contour's lens ends, if learning rates let it
NARROWEST = 1.05
RESOLVED = 8.0  # times nearer to 0 than κ: below, modes may be a polynomial's


class SampleSpectrum(NamedTuple):
    """The spectrum of Ĥ in the mean over samples, as J nodes: `Σ_i a_i F(w_i) ≈ Re Σ_j a_j F(w_j)` for F analytic.

    Attributes:
        nodes: (J,) complex w.
        test: (J,) of `a_i = v_iᵀ H v_i`, which add up to tr H.
        train: (J,) of `a_i = w_i`, which add up to tr H.
        learnt: (J,) of `a_i = w_i (v_iᵀδ)²`, which add up to Σ s_i.
        pairs: (2J, 2J) of `(v_iᵀδ) v_iᵀHv_k (v_kᵀδ)`, for the real and the imaginary parts of F at the nodes.
        frozen: signal of directions without an eigenvalue.
        num_samples: N.
    """

    nodes: np.ndarray
    test: np.ndarray
    train: np.ndarray
    learnt: np.ndarray
    pairs: np.ndarray
    frozen: float
    num_samples: float


class MeanPath(NamedTuple):
    """What the mean of SGD over its batches makes of N samples, in the mean over these, at T numbers of steps.

    Attributes:
        bias: (T,) excess risk that is linear in the signal.
        noise: (T,) excess risk that is linear in σ², for σ² = 1.
        train_bias, train_noise: (T,) the same of the mean loss of the samples.
    """

    bias: np.ndarray
    noise: np.ndarray
    train_bias: np.ndarray
    train_noise: np.ndarray


def sample_spectrum(
    problem: AbstractProblem, num_samples: float, largest_rate: float, reach: float
) -> SampleSpectrum:
    """Nodes for all functions of w like `Π_s (1 − γ_s w)`, `γ_s ≤ largest_rate`, `Σ_s γ_s ≤ reach`.

    Between −1/reach and the end of the lens, 2/γ if possible, the contour is an ellipse in `log ζ`,
    `ζ = (w + 1/reach)/(end − w)`, around the eigenvalues, which are real. At angles below π/2 no `|1 − γw|` is above 1
    but next to w = 0. The trapezoidal rule on it converges geometrically.

    With `S(κ) = Σ s_i/(λ_i + κ)` the transforms `Σ_i a_i/(w_i + z)` of test, train and learnt are
    `(κ/z) df₁(κ)`, `df₁(κ)` and `S(κ)`, and that of pairs is

        (κ₁κ₂/(z₁z₂)) Σ_i s_i/((λ_i + κ₁)(λ_i + κ₂)) / (1 − Σ_i λ_i²/((λ_i + κ₁)(λ_i + κ₂))/N).

    Args:
        problem: of any size.
        num_samples: N ≥ 1; inf is the limit, in which w_i = λ_i.
        largest_rate: γ, of any step.
        reach: Σγ of the longest run.
    """
    largest = SampleResolvent(problem.modes(problem.largest_eigenvalue / RESOLVED), num_samples).largest()
    reach = max(reach, 1 / largest)
    nodes, steps = _contour(largest, largest_rate, 1 / reach)
    smallest = float(np.abs(nodes).min()) * np.sin(ANGLE) / RESOLVED
    resolvent = SampleResolvent(problem.modes(smallest), num_samples)
    z = -nodes
    kappa = resolvent.kappa(z)
    degrees = resolvent.degrees(kappa)
    return SampleSpectrum(
        nodes=nodes,
        test=-2 * steps * kappa / z * degrees,
        train=-2 * steps * degrees,
        learnt=-2 * steps * resolvent.learnt(kappa),
        pairs=_pairs(resolvent, kappa, steps * kappa / z),
        frozen=resolvent.frozen,
        num_samples=float(num_samples),
    )


def _contour(largest: float, rate: float, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """(J,) w in the upper half plane around [0, largest], counterclockwise, and dw/(2πi); the lower half is conjugate."""
    end = min(max(2 / max(rate, 1e-300), NARROWEST * largest), WIDEST * largest)
    first = np.log(floor / end)
    last = np.log((largest + floor) / (end - largest))
    focus = (last - first) / 2
    spread = np.arcsinh(ANGLE / focus)
    count = int(np.ceil(DIGITS / 2 / spread)) + 2
    turn = np.pi * (np.arange(count) + 0.5) / count
    log_zeta = (first + last) / 2 + focus * np.cosh(spread) * np.cos(turn) + 1j * ANGLE * np.sin(turn)
    slope = -focus * np.cosh(spread) * np.sin(turn) + 1j * ANGLE * np.cos(turn)
    zeta = np.exp(log_zeta)
    nodes = (end * zeta - floor) / (1 + zeta)
    return nodes, (end + floor) * zeta / (1 + zeta) ** 2 * slope / (2j * count)


def _pairs(resolvent: SampleResolvent, kappa: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(2J, 2J): of both halves of the contour with both, as a form of real and imaginary parts."""
    inverse = 1 / (resolvent.eigenvalue + kappa[:, None])
    signal = inverse * resolvent.signal
    degrees = inverse * (resolvent.multiplicity * resolvent.eigenvalue**2 / resolvent.num_samples)

    def transform(other: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return steps[:, None] * scale * (signal @ other.T) / (1 - degrees @ other.T)

    same = transform(inverse, steps)
    across = transform(inverse.conj(), steps.conj())
    mixed = across.imag - same.imag
    return 2 * np.block([[across.real + same.real, mixed], [mixed.T, across.real - same.real]])


def mean_path(spectrum: SampleSpectrum, log_decay: np.ndarray) -> MeanPath:
    """Risk and loss of the mean path, from `f_t(w) = Π_{s<t} (1 − γ_s w)`.

    The mean error is `f(Ĥ) δ + Ĥ^{-1} (1 − f(Ĥ)) Xᵀε/N`, so that

        bias = δᵀ f H f δ,   noise = tr[H (1 − f)² Ĥ^{-1}]/N,   train: δᵀ Ĥ f² δ  and  1 + tr[f² − 1]/N.

    Args:
        spectrum: J nodes.
        log_decay: (T, J) complex `log f_t(w_j)`.
    """
    decay = np.exp(log_decay)
    lost = -np.expm1(log_decay)
    nodes = spectrum.nodes
    halves = np.concatenate([decay.real, decay.imag], axis=-1)
    return MeanPath(
        bias=np.einsum("tj,tj->t", halves @ spectrum.pairs, halves) + spectrum.frozen,
        noise=(lost**2 / nodes @ spectrum.test).real / spectrum.num_samples,
        train_bias=(decay**2 @ spectrum.learnt).real,
        train_noise=1 + (np.expm1(2 * log_decay) / nodes @ spectrum.train).real / spectrum.num_samples,
    )


def kernels(spectrum: SampleSpectrum, log_decay: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T,) `tr[H Ĥ f²]` and `tr[Ĥ² f²]`: what gradient noise of one step adds to risk and loss, times γ²L/B."""
    decay = np.exp(2 * log_decay) * spectrum.nodes
    return (decay @ spectrum.test).real, (decay @ spectrum.train).real


def log_decays(nodes: np.ndarray, rates: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(T, J) `log Π_{s<t} (1 − γ_s w_j)` at T numbers of steps.

    Args:
        nodes: (J,).
        rates: (n,) γ_s, or one for all.
        steps: (T,).
    """
    steps = np.asarray(steps, int)
    if np.ndim(rates) == 0:
        return np.multiply.outer(steps, np.log1p(-rates * nodes))
    total = np.cumsum(np.log1p(-np.multiply.outer(np.asarray(rates), nodes)), axis=0)
    return np.concatenate([np.zeros((1, nodes.size)), total])[steps]
