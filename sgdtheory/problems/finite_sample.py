"""Training on a finite sample: the spectrum of its rows, and how risk and training loss depend on it (THEORY.md T42).

Let X be the N rows of features, ε the label noise, `Ĥ = XᵀX/N = Σ w_j v_j v_jᵀ`, and ŵ the least-squares fit of these
rows that is nearest to w_0. The mean of w over the order of the batches is `ŵ + f(Ĥ)(w_0 − ŵ)`, with f the response of
the algorithm's steps. The fluctuations around this mean are driven by the training loss.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sgdtheory.problems.modes import Modes
from sgdtheory.problems.problem import AbstractProblem, FiniteSampleProblem
from sgdtheory.problems.sample_equivalent import AveragedDrivers, apart, averaged_drivers

LARGEST_DRAWN = 2048  # A drawn sample has at most this many directions, whose eigenvectors then take 10 s.
MOST_DRAWN = 1e9  # The rows of a drawn sample have at most this many numbers, which then take a minute.
CHUNK = 1 << 20  # At most this many numbers of rows are in memory together.
NEGLIGIBLE = 1e-13  # Eigenvalues of Ĥ below this fraction of the largest one are rounding errors.
FEWEST_SAMPLES = 3  # A mean over samples needs at least this many samples: its noise has the factor N/(N − 2).


class Drivers(ABC):
    """Base class of the spectral quantities that determine the risk of multi-epoch training.

    Derived classes describe one sample or the mean over samples. J nodes stand for the positive eigenvalues of Ĥ, or
    for their density.

    Attributes:
        num_samples: N.
        weight: (J,) nodes w_j > 0.
        count: (J,) number of eigenvalues that a node stands for: `tr g(Ĥ) = Σ count_j g(w_j)` if g(0) = 0.
        excess: (J,) excess training loss of w_0: `(w_0 − ŵ)ᵀ Ĥ g(Ĥ) (w_0 − ŵ) = Σ excess_j g(w_j)`.
        seen: (J,) risk per unit of training loss that fluctuates in a node:
            `tr H g(Ĥ) = Σ seen_j count_j w_j g(w_j)`.
        least_loss: the least training loss, that of ŵ.
    """

    num_samples: float
    weight: np.ndarray
    count: np.ndarray
    excess: np.ndarray
    seen: np.ndarray
    least_loss: float

    @property
    def fourth(self) -> np.ndarray | None:
        """Fourth moments of single rows beyond those of orthogonal rows, as in `RowSample`; None if not known."""
        return None

    def relative_error_at(self, reach: float) -> float:
        """Return the relative error of risks after steps whose learning rates add up to `reach`."""
        return 0.0

    def interpolation_error(self, response: np.ndarray) -> np.ndarray:
        """Return the relative errors (…) of `mean_risk` from features of responses (…, J) between the nodes."""
        return np.zeros(response.shape[:-1])

    @abstractmethod
    def mean_risk(self, response: np.ndarray) -> np.ndarray:
        """Return the risks (…) of `ŵ + f(Ĥ)(w_0 − ŵ)` for responses f(w_j) (…, J)."""


@dataclass(frozen=True, eq=False)
class TrainingProblem(AbstractProblem):
    """A problem that is driven by the training loss of a sample, with the risk of the population (THEORY.md T42).

    Conditional on Ĥ, the whitened rows of a Gaussian sample are uniform on the orthonormal frames, with fourth moments
    `E z_j² z_k² = N/(N + 2) (1 + 2δ_jk)`. The second moments therefore evolve as in the one-epoch problem with
    eigenvalues w, N/(N − 2) directions for each, label noise `least_loss` and batch size B (N + 2)/(N − 2).
    """

    drivers: Drivers

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The least training loss."""
        return self.drivers.least_loss

    @property
    def largest_eigenvalue(self) -> float:
        """The largest eigenvalue of Ĥ."""
        return float(self.drivers.weight.max())

    def batch(self, size: np.ndarray) -> np.ndarray:
        """Return the batch sizes B (N + 2)/(N − 2), at which the one-epoch problem has the same gradient noise."""
        number = self.drivers.num_samples
        return size * ((number + 2) / (number - 2))

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the eigenvalues of Ĥ, or nodes of their density, and the excess training loss of w_0 in each."""
        return self.drivers.weight, self.drivers.excess

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return modes that sum to the population's risk, while `trained` gives the training loss that drives them."""
        given = self.drivers
        number = given.num_samples
        many = given.count * (number / (number - 2))
        return Modes(given.weight, many * given.seen, given.excess * given.seen, 1 / given.seen)


class RowSample(Drivers):
    """The drivers of a sample whose rows are known, in the eigenbasis of the population covariance.

    Attributes:
        scale: (d,) √λ of the directions with λ > 0.
        start: (d,) w_0 − w*.
        frozen: risk of the directions with λ = 0, which acts as label noise on the others.
    """

    scale: np.ndarray
    start: np.ndarray
    frozen: float = 0.0

    @abstractmethod
    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate rows (n, d) of features and (n,) label noise in chunks."""

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Eigenvalues w (J,), eigenvectors v (d, J), `v_jᵀ(w_0 − ŵ)` (J,) and the least training loss."""
        dim = self.scale.size
        few = self.num_samples < dim
        pull = np.zeros(dim)
        square = 0.0
        covariance = np.zeros((dim, dim)) if not few else np.empty(0)
        chunks = []
        for features, noise in self.rows():
            residual = features @ self.start - noise
            pull += features.T @ residual
            square += float(residual @ residual)
            if few:
                chunks.append(features)
            else:
                covariance += features.T @ features
        if few:
            # With fewer rows than directions, the N × N matrix XXᵀ/N has the same positive eigenvalues and is smaller.
            x = np.concatenate(chunks) / np.sqrt(self.num_samples)
            weight, left = np.linalg.eigh(x @ x.T)
            vectors = x.T @ left / np.sqrt(np.maximum(weight, np.finfo(float).tiny))
        else:
            weight, vectors = np.linalg.eigh(covariance / self.num_samples)
        positive = weight > NEGLIGIBLE * weight.max(initial=0.0)
        weight = weight[positive][::-1]
        vectors = vectors[:, positive][:, ::-1]
        away = vectors.T @ pull / self.num_samples / weight
        least = square / self.num_samples - float(weight @ away**2)
        return weight, vectors, away, max(least, 0.0) if self.num_samples > weight.size else 0.0

    @property
    def weight(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(J,) positive eigenvalues of Ĥ in decreasing order."""
        return self._spectrum[0]

    @property
    def vectors(self) -> np.ndarray:
        """(d, J) eigenvectors of Ĥ."""
        return self._spectrum[1]

    @property
    def away(self) -> np.ndarray:
        """(J,) components of w_0 − ŵ along the eigenvectors of Ĥ."""
        return self._spectrum[2]

    @property
    def least_loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Least training loss |Xŵ − y|²/N."""
        return self._spectrum[3]

    @property
    def count(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(J,) ones, as each node is one eigenvalue."""
        return np.ones_like(self.weight)

    @cached_property
    def test(self) -> np.ndarray:
        """(J,) `v_jᵀ H v_j`, the population's curvature along the eigenvectors of Ĥ."""
        return self.scale**2 @ self.vectors**2

    @property
    def seen(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(J,) `v_jᵀ H v_j / w_j`, the risk per unit of training loss along each eigenvector."""
        return self.test / self.weight

    @property
    def excess(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(J,) `w_j (v_jᵀ(w_0 − ŵ))²`, the excess training loss of w_0 along each eigenvector."""
        return self.weight * self.away**2

    @cached_property
    def fourth(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(J + 1, J + 1) fourth moments `mean z_i² z_j² − 1 − δ_ij` over the rows, `z_j = v_jᵀx/√w_j`.

        The last z is the residual of ŵ, scaled to a mean square of 1.
        """
        size = self.weight.size
        fitted = self.vectors @ self.away  # w_0 − ŵ
        moments = np.zeros((size + 1, size + 1))
        squares = np.zeros(size + 1)
        for features, noise in self.rows():
            rows = np.empty((len(noise), size + 1))
            rows[:, :size] = (features @ self.vectors) ** 2
            rows[:, size] = (noise - features @ (self.start - fitted)) ** 2
            squares += rows.sum(0)
            moments += rows.T @ rows
        if not self.least_loss > 0:
            # The residual of ŵ is rounding: its node has no loss to drive it, and gets the moments of orthogonal rows.
            squares[size] = 1.0
            moments[size] = moments[:, size] = squares / self.num_samples
        return self.num_samples * moments / squares / squares[:, None] - 1 - np.eye(size + 1)

    @cached_property
    def _shares(self) -> tuple[np.ndarray, np.ndarray]:
        """`H^½ (ŵ − w*)` (d,), and H^½ times the components of w_0 − ŵ along each eigenvector (d, J)."""
        parts = self.vectors * self.away
        return self.scale * (self.start - parts.sum(1)), self.scale[:, None] * parts

    def mean_risk(self, response: np.ndarray) -> np.ndarray:
        """Return the risk of the mean weights, `|H^½(ŵ − w* + Σ_j f_j v_j v_jᵀ(w_0 − ŵ))|²`, for responses f (…, J)."""
        return (self._error(response) ** 2).sum(-1) + self.frozen

    def _error(self, response: np.ndarray) -> np.ndarray:
        """Return `H^½ (w − w*)` (…, d) of the mean weights."""
        fixed, parts = self._shares
        return fixed + response @ parts.T

    def risk_slope(self, response: np.ndarray) -> np.ndarray:
        """Return `v_jᵀ H (w − w*)` (…, J), half the derivative of the risk as mean weights move along v_j."""
        return self._error(response) @ (self.scale[:, None] * self.vectors)


@dataclass(frozen=True, eq=False)
class DrawnSample(RowSample):
    """The drivers of N Gaussian rows that are drawn with a seed, in the eigenbasis of the population covariance."""

    problem: AbstractProblem
    size: int
    seed: int

    @property
    def num_samples(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number N of samples."""
        return self.size

    @cached_property
    def _moving(self) -> np.ndarray:
        return self.problem.directions()[0] > 0

    @cached_property
    def scale(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(d,) √λ of the directions with λ > 0."""
        return np.sqrt(self.problem.directions()[0][self._moving])

    @cached_property
    def start(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(d,) w_0 − w*."""
        return np.sqrt(self.problem.directions()[1][self._moving]) / self.scale

    @cached_property
    def frozen(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Risk of the directions with λ = 0, which acts as label noise on the others."""
        return float(self.problem.directions()[1][~self._moving].sum())

    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Draw rows (n, d) of features and (n,) label noise in chunks."""
        random = np.random.default_rng(self.seed)
        dim = self._moving.size
        step = max(CHUNK // (dim + 1), 1)
        frozen = np.sqrt(self.problem.directions()[1][~self._moving])
        for first in range(0, self.size, step):
            drawn = random.standard_normal((min(step, self.size - first), dim + 1))
            features = drawn[:, :dim]
            noise = np.sqrt(self.problem.noise_variance) * drawn[:, dim] - features[:, ~self._moving] @ frozen
            yield features[:, self._moving] * self.scale, noise


@dataclass(frozen=True, eq=False)
class GivenSample(RowSample):
    """The drivers of given rows, in the eigenbasis of the rows' population."""

    features: np.ndarray
    noise: np.ndarray
    scale: np.ndarray
    start: np.ndarray

    @property
    def num_samples(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number N of samples."""
        return len(self.noise)

    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Return all rows in one chunk."""
        yield self.features, self.noise


@dataclass(frozen=True, eq=False)
class MeanOfSamples(Drivers):
    """The drivers in the mean over all samples of N rows, by deterministic equivalents.

    Every node occurs twice, once for the effect of label noise and once for the signal alone. The weights of a node may
    have either sign, so that only quantities linear in them are meaningful, and products of the two are not.
    """

    nodes: AveragedDrivers

    @property
    def num_samples(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number N of samples."""
        return self.nodes.num_samples

    @cached_property
    def weight(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(2J,) nodes, each of them twice."""
        return np.tile(self.nodes.weight, 2)

    @cached_property
    def count(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(2J,) number of eigenvalues of each node, and 0 for its second occurrence."""
        return np.append(_not_0(self.nodes.count), np.zeros_like(self.nodes.count))

    @cached_property
    def excess(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(2J,) excess training loss of w_0 from the label noise that ŵ fits, and from the signal."""
        noise = self.nodes.noise_variance / self.nodes.num_samples
        return np.append(noise * self.nodes.count, self.nodes.learnt)

    @cached_property
    def seen(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(2J,) risk per unit of training loss: on average over fluctuations, and `v_jᵀHv_j/w_j` as a function of w."""
        return np.append(_not_0(self.nodes.test) / (_not_0(self.nodes.count) * self.nodes.weight), self.nodes.seen)

    def relative_error_at(self, reach: float) -> float:
        """Return the relative error of risks after Σγ = reach, as measured on drawn samples."""
        return float(self.nodes.relative_error_at(reach))

    def interpolation_error(self, response: np.ndarray) -> np.ndarray:
        """Return the relative error of `mean_risk` from features of responses between the nodes."""
        return self.nodes.interpolation_error(response[..., : self.nodes.weight.size])

    @property
    def least_loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Least training loss σ²(1 − rank/N)."""
        return self.nodes.least_loss

    def mean_risk(self, response: np.ndarray) -> np.ndarray:
        """Return the risk of `ŵ + f(Ĥ)(w_0 − ŵ)` for responses f at the nodes."""
        return self.nodes.mean_risk(response[..., : self.nodes.weight.size])


def _not_0(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.finfo(float).tiny, np.finfo(float).tiny, values)


def mean_of_samples(problem: FiniteSampleProblem, turning: bool = False) -> MeanOfSamples:
    """Return the drivers in the mean over samples; `turning` is for responses that oscillate, as with momentum.

    Raises:
        ValueError: if there are too few samples.
    """
    if problem.num_samples < FEWEST_SAMPLES:
        raise ValueError(
            f"num_samples must be at least {FEWEST_SAMPLES} for the mean over samples, got {problem.num_samples}; "
            "give a seed for one sample"
        )
    number = apart(problem.problem, problem.num_samples)
    return MeanOfSamples(averaged_drivers(problem.problem, number, turning=turning))


def drawn_sample(problem: FiniteSampleProblem) -> RowSample:
    """Return the drivers of the sample that a problem's seed draws, or of its given rows.

    Raises:
        ValueError: if the sample is too large to be drawn.
    """
    if problem.rows is not None:
        return problem.rows
    assert problem.seed is not None, "means over samples are not drawn"
    dim = problem.dim
    if dim is None or dim > LARGEST_DRAWN:
        raise ValueError(
            f"problem must have at most {LARGEST_DRAWN} directions for a sample to be drawn, got "
            f"{'infinitely many' if dim is None else dim}; truncate it, or give no seed for the mean over samples"
        )
    if problem.num_samples * dim > MOST_DRAWN:
        raise ValueError(
            f"num_samples must be at most {MOST_DRAWN / dim:.3g} for a sample of {dim} directions to be drawn, got "
            f"{problem.num_samples}; give no seed for the mean over samples"
        )
    return DrawnSample(problem.problem, problem.num_samples, problem.seed)
