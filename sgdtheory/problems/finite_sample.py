"""What a finite sample makes of a problem: the spectrum of its rows, and how risk and training loss see it (T42).

With N rows X of features, label noise ε, `Ĥ = XᵀX/N = Σ w_j v_j v_jᵀ` and ŵ the least-squares fit of these rows that is
nearest to w_0, the mean of w over the order of the batches is `ŵ + f(Ĥ)(w_0 − ŵ)`, f the response of the algorithm's
steps, and what scatters around it is driven by the training loss.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sgdtheory.problems.modes import Modes
from sgdtheory.problems.problem import AbstractProblem, FiniteSampleProblem
from sgdtheory.problems.sample_equivalent import AveragedDrivers, apart, averaged_drivers

LARGEST_DRAWN = 2048  # directions of a drawn sample: its eigenvectors take 10 s
MOST_DRAWN = 1e9  # numbers in the rows of one: a minute
CHUNK = 1 << 20  # numbers of rows that are held at once
NEGLIGIBLE = 1e-13  # of the largest eigenvalue: smaller ones are rounding
FEWEST_SAMPLES = 3  # of the mean over samples


class Drivers(ABC):
    """What the risk of passes over a sample is made of: derive from it for other samples, or means over them.

    J nodes stand for the positive eigenvalues of Ĥ: for those of one sample, or for their density.

    Attributes:
        num_samples: N.
        weight: (J,) w_j > 0.
        count: (J,) how many eigenvalues each stands for: `tr g(Ĥ) = Σ count_j g(w_j)`, g(0) = 0.
        excess: (J,) `(w_0 − ŵ)ᵀ Ĥ g(Ĥ) (w_0 − ŵ) = Σ excess_j g(w_j)`: the training loss of w_0 above the least.
        seen: (J,) risk for each unit of loss that scatters in a node: `tr H g(Ĥ) = Σ seen_j count_j w_j g(w_j)`.
        least_loss: the least training loss.
    """

    num_samples: float
    weight: np.ndarray
    count: np.ndarray
    excess: np.ndarray
    seen: np.ndarray
    least_loss: float

    @property
    def fourth(self) -> np.ndarray | None:
        """Fourth moments of single rows beyond those of orthogonal ones, as `RowSample.fourth`; None if not known."""
        return None

    def relative_error_at(self, reach: float) -> float:
        """Of risks after steps whose γ add up to `reach`."""
        return 0.0

    def interpolation_error(self, response: np.ndarray) -> np.ndarray:
        """(…) relative error of `mean_risk` from responses that the nodes miss."""
        return np.zeros(response.shape[:-1])

    @abstractmethod
    def mean_risk(self, response: np.ndarray) -> np.ndarray:
        """(…) risk of `ŵ + f(Ĥ)(w_0 − ŵ)`, for responses (…, J) f(w_j)."""


@dataclass(frozen=True, eq=False)
class TrainingProblem(AbstractProblem):
    """The training loss of a sample as a problem of its own, whose risk is that of the population (THEORY.md T42).

    Given Ĥ the whitened rows of Gaussian samples are uniform on the orthonormal frames: their fourth moments are
    `E z_j² z_k² = N/(N + 2) (1 + 2δ_jk)`. So the second moments move as those of the plain problem with eigenvalues w,
    N/(N − 2) directions for each, label noise `least_loss` and batches of B (N + 2)/(N − 2).
    """

    drivers: Drivers

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The least training loss."""
        return self.drivers.least_loss

    @property
    def largest_eigenvalue(self) -> float:
        """Of Ĥ."""
        return float(self.drivers.weight.max())

    def batch(self, size: np.ndarray) -> np.ndarray:
        """Batch sizes that have the plain problem's noise."""
        number = self.drivers.num_samples
        return size * ((number + 2) / (number - 2))

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of Ĥ, or nodes of their density, and the training loss of w_0."""
        return self.drivers.weight, self.drivers.excess

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """In units of the risk, driven by the training loss."""
        given = self.drivers
        number = given.num_samples
        many = given.count * (number / (number - 2))
        return Modes(given.weight, many * given.seen, given.excess * given.seen, 1 / given.seen)


class RowSample(Drivers):
    """Of rows that are known, in the coordinates of the population's eigenvectors.

    Attributes:
        scale: (d,) √λ of the directions that move.
        start: (d,) w_0 − w*.
        frozen: risk of the directions without an eigenvalue, which is noise to the others.
    """

    scale: np.ndarray
    start: np.ndarray
    frozen: float = 0.0

    @abstractmethod
    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows (n, d) of features and (n,) label noise, some at a time."""

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """(J,) w, (d, J) v, (J,) `v_jᵀ(w_0 − ŵ)` and the least loss."""
        dim = self.scale.size
        few = self.num_samples < dim
        pull = np.zeros(dim)
        square = 0.0
        covariance = np.zeros((dim, dim)) if not few else np.empty(0)
        kept = []
        for features, noise in self.rows():
            residual = features @ self.start - noise
            pull += features.T @ residual
            square += float(residual @ residual)
            if few:
                kept.append(features)
            else:
                covariance += features.T @ features
        if few:
            x = np.concatenate(kept) / np.sqrt(self.num_samples)
            weight, left = np.linalg.eigh(x @ x.T)
            vectors = x.T @ left / np.sqrt(np.maximum(weight, np.finfo(float).tiny))
        else:
            weight, vectors = np.linalg.eigh(covariance / self.num_samples)
        kept_ones = weight > NEGLIGIBLE * weight.max(initial=0.0)
        weight = weight[kept_ones][::-1]
        vectors = vectors[:, kept_ones][:, ::-1]
        away = vectors.T @ pull / self.num_samples / weight
        least = square / self.num_samples - float(weight @ away**2)
        return weight, vectors, away, max(least, 0.0) if self.num_samples > weight.size else 0.0

    @property
    def weight(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(J,) eigenvalues of Ĥ, from the largest down."""
        return self._spectrum[0]

    @property
    def vectors(self) -> np.ndarray:
        """(d, J) eigenvectors."""
        return self._spectrum[1]

    @property
    def away(self) -> np.ndarray:
        """(J,) w_0 − ŵ along them."""
        return self._spectrum[2]

    @property
    def least_loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """|Xŵ − y|²/N."""
        return self._spectrum[3]

    @property
    def count(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One each."""
        return np.ones_like(self.weight)

    @cached_property
    def test(self) -> np.ndarray:
        """v_jᵀ H v_j."""
        return self.scale**2 @ self.vectors**2

    @property
    def seen(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """`v_jᵀ H v_j / w_j`."""
        return self.test / self.weight

    @property
    def excess(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """`w_j (v_jᵀ(w_0 − ŵ))²`."""
        return self.weight * self.away**2

    @cached_property
    def fourth(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(J + 1, J + 1) `mean z_i² z_j² − 1 − δ_ij` over the rows, `z_j = v_jᵀx/√w_j`.

        The last z is the residual of ŵ, in units in which its mean square is 1.
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
        if (
            not self.least_loss > 0
        ):  # no residual but rounding: a node that nothing drives, with moments of orthogonal rows
            squares[size] = 1.0
            moments[size] = moments[:, size] = squares / self.num_samples
        return self.num_samples * moments / squares / squares[:, None] - 1 - np.eye(size + 1)

    @cached_property
    def _shares(self) -> tuple[np.ndarray, np.ndarray]:
        """H^½ of ŵ − w*, (d,), and of the components of w_0 − ŵ, (d, J)."""
        parts = self.vectors * self.away
        return self.scale * (self.start - parts.sum(1)), self.scale[:, None] * parts

    def mean_risk(self, response: np.ndarray) -> np.ndarray:
        """`|H^½(ŵ − w* + Σ_j f_j v_j v_jᵀ(w_0 − ŵ))|²`."""
        return (self._error(response) ** 2).sum(-1) + self.frozen

    def _error(self, response: np.ndarray) -> np.ndarray:
        """(…, d) `H^½ (w − w*)` of mean weights."""
        fixed, parts = self._shares
        return fixed + response @ parts.T

    def risk_slope(self, response: np.ndarray) -> np.ndarray:
        """(…, J) `v_jᵀ H (w − w*)`: half of what the risk of mean weights changes by as they move along v_j."""
        return self._error(response) @ (self.scale[:, None] * self.vectors)


@dataclass(frozen=True, eq=False)
class DrawnSample(RowSample):
    """Of N Gaussian rows, in the coordinates of the population's eigenvectors."""

    problem: AbstractProblem
    size: int
    seed: int

    @property
    def num_samples(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """N."""
        return self.size

    @cached_property
    def _moving(self) -> np.ndarray:
        return self.problem.directions()[0] > 0

    @cached_property
    def scale(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(d,) √λ of the directions that move."""
        return np.sqrt(self.problem.directions()[0][self._moving])

    @cached_property
    def start(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(d,) w_0 − w*."""
        return np.sqrt(self.problem.directions()[1][self._moving]) / self.scale

    @cached_property
    def frozen(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Risk of the directions without an eigenvalue, which is noise to the others."""
        return float(self.problem.directions()[1][~self._moving].sum())

    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows (n, d) of features and (n,) label noise, some at a time."""
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
    """Of rows that somebody has, of a population of rows."""

    features: np.ndarray
    noise: np.ndarray
    scale: np.ndarray
    start: np.ndarray

    @property
    def num_samples(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """N."""
        return len(self.noise)

    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All at once."""
        yield self.features, self.noise


@dataclass(frozen=True, eq=False)
class MeanOfSamples(Drivers):
    """Of all samples of N rows, by deterministic equivalents.

    Every node is there twice, since its weights may have either sign and only what is linear in them means something:
    once with what noise makes of it, and once with the signal alone.
    """

    nodes: AveragedDrivers

    @property
    def num_samples(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """N."""
        return self.nodes.num_samples

    @cached_property
    def weight(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Nodes, twice."""
        return np.tile(self.nodes.weight, 2)

    @cached_property
    def count(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """And nothing."""
        return np.append(_not_0(self.nodes.count), np.zeros_like(self.nodes.count))

    @cached_property
    def excess(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of label noise that ŵ has learnt, and of signal."""
        noise = self.nodes.noise_variance / self.nodes.num_samples
        return np.append(noise * self.nodes.count, self.nodes.learnt)

    @cached_property
    def seen(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As noise scatters, and as single eigenvectors of Ĥ lie: `v_jᵀHv_j/w_j`, a smooth function of w."""
        return np.append(_not_0(self.nodes.test) / (_not_0(self.nodes.count) * self.nodes.weight), self.nodes.seen)

    def relative_error_at(self, reach: float) -> float:
        """What was measured on drawn samples."""
        return float(self.nodes.relative_error_at(reach))

    def interpolation_error(self, response: np.ndarray) -> np.ndarray:
        """That of real nodes."""
        return self.nodes.interpolation_error(response[..., : self.nodes.weight.size])

    @property
    def least_loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """σ²(1 − rank/N)."""
        return self.nodes.least_loss

    def mean_risk(self, response: np.ndarray) -> np.ndarray:
        """Risk of `ŵ + f(Ĥ)(w_0 − ŵ)`."""
        return self.nodes.mean_risk(response[..., : self.nodes.weight.size])


def _not_0(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.finfo(float).tiny, np.finfo(float).tiny, values)


def mean_of_samples(problem: FiniteSampleProblem, turning: bool = False) -> MeanOfSamples:
    """The mean over samples of a problem; `turning`: of responses that oscillate, as with momentum.

    Raises:
        ValueError: too few samples.
    """
    if problem.num_samples < FEWEST_SAMPLES:
        raise ValueError(
            f"num_samples must be at least {FEWEST_SAMPLES} for the mean over samples, got {problem.num_samples}; "
            "give a seed for one sample"
        )
    number = apart(problem.problem, problem.num_samples)
    return MeanOfSamples(averaged_drivers(problem.problem, number, turning=turning))


def drawn_sample(problem: FiniteSampleProblem) -> RowSample:
    """The sample of a problem with a seed, or of given rows.

    Raises:
        ValueError: too large to be drawn.
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
