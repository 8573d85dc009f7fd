"""The contract of a published bound: what it may ask of a problem, what it says, and where that was read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, get_args, overload

import numpy as np

from sgdtheory._common.arguments import Values, checked_name, checked_problem, samples_used, settings_arrays
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.algorithms import DEFAULT, Algorithm, LastIterate, TailAverage
from sgdtheory.problems import AbstractProblem, LeastSquares, SplitSpectrum

Side = Literal["upper", "lower", "both"]
Standing = Literal["verified", "unverified", "order"]


class Asked(NamedTuple):
    """One problem and settings: B, γ and the number of steps n, arrays of one shape.

    Statements are written in NumPy's functions of these alone, so that a certificate may put balls in their places.

    Attributes:
        spectrum: sums over directions; what is infinite there is infinite.
        batch: B.
        rate: γ.
        steps: n.
    """

    spectrum: SplitSpectrum
    batch: Any
    rate: Any
    steps: Any

    @property
    def noise(self) -> Any:
        """σ²."""
        return self.spectrum.noise_variance

    @property
    def dim(self) -> float:
        """d; inf of infinitely many directions."""
        return np.inf if self.spectrum.dim is None else float(self.spectrum.dim)

    @property
    def largest(self) -> Any:
        """λ_1."""
        return self.spectrum.largest_eigenvalue

    @property
    def smallest(self) -> Any:
        """μ = λ_d; 0 of infinitely many directions."""
        return 0.0 if self.spectrum.dim is None else self.spectrum.directions()[0][-1]

    @property
    def trace(self) -> Any:
        """tr H."""
        return self.spectrum.trace

    @property
    def fourth(self) -> Any:
        """R², the least number with `E Ĥ² ≼ R² H`, Ĥ = (1/B) Σ xxᵀ: `(tr H + 2λ_1)/B + (1 − 1/B) λ_1` if x is Gaussian.

        With B = 1 it is the R² of `E‖x‖² xxᵀ ≼ R² H`.
        """
        return self.largest + (self.trace + self.largest) / self.batch

    @property
    def noise_and_dim(self) -> Any:
        """σ²d, 0 without noise."""
        return self.noise * self.dim if self.spectrum.dim is not None or self.noise > 0 else self.noise

    def distance(self, power: int) -> Any:
        """`(w_0 − w*)ᵀ H^{1 − power} (w_0 − w*) = Σ s_i/λ_i^power`: 1 is ‖w_0 − w*‖²; it may be infinite."""
        if self.spectrum.dim is None:
            total = self.spectrum.head_signal(np.inf, power)
            return np.inf if total != total else total  # a divergent sum may come out as nan
        eigenvalues, signal = self.spectrum.directions()
        if any(signal[eigenvalues == 0] > 0):
            return np.inf
        return self.spectrum.head_signal(self.spectrum.dim, power)


class Statement(NamedTuple):
    """Statement of a theorem at settings.

    Attributes:
        value: of the bound on the excess risk R = ‖w − w*‖²_H, in units of y².
        conditions: of the theorem, in words → whether they hold.
    """

    value: Any
    conditions: Mapping[str, Any]


@dataclass(frozen=True)
class BoundValue(Generic[Values]):
    """A published bound at settings, each an array of their broadcast shape.

    Attributes:
        total: on the mean excess risk, in units of y²; inf or nan is possible where it does not apply.
        conditions: of the theorem, in words → whether they hold.
    """

    total: Values
    conditions: Mapping[str, np.ndarray | bool] = field(repr=False)

    @property
    def applies(self) -> Any:
        """Return whether all of the theorem's conditions hold."""
        return np.logical_and.reduce([np.asarray(holds) for holds in self.conditions.values()])[()]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The conditions that fail, at some of the settings or at all."""
        return tuple(words for words, holds in self.conditions.items() if not np.all(holds))


@dataclass(frozen=True, eq=False)
class PublishedBound:
    """Bound on the mean excess risk of one algorithm, as a theorem states it.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)
        >>> bound = st.bounds.bach_moulines_2013
        >>> found = bound(problem, batch_size=1, learning_rate=0.1, num_samples=[1e2, 1e4])
        >>> print(found.total, found.applies)
        [0.79925531 0.00799255] [ True  True]

    Attributes:
        name: as in the catalogue.
        side: of the risk on which it is; "both": up to constant factors, from above and from below.
        source: whose, where, which theorem.
        read: how far its statement was seen: in full, as another text quotes it, …
        about: what it bounds there, in the source's words and ours.
        batches: what it says of B > 1.
        standing: "verified": all constants are printed in the paper or in a text that quotes the theorem in full, or
            they were proved anew; "unverified": the constants are not verified against the paper, and no random
            setting refutes them; "order": the theorem states no constants, and factors of 1 stand for them.
        algorithm: whose risk it bounds.
        statement: its value and conditions.
    """

    name: str
    side: Side
    source: str
    read: str
    about: str
    batches: str
    statement: Callable[[Asked], Statement] = field(repr=False)
    algorithm: Algorithm = DEFAULT
    standing: Standing = "verified"

    @property
    def iterate(self) -> str:
        """Return in words the weights whose risk is bounded."""
        average = self.algorithm.average
        if isinstance(average, TailAverage):
            return "mean of last half" if average.fraction == 0.5 else f"mean of the last {average.fraction:.0%}"
        return "last iterate" if isinstance(average, LastIterate) else "mean"

    @overload
    def __call__(
        self, problem: AbstractProblem, *, batch_size: float, learning_rate: float, num_samples: float
    ) -> BoundValue[float]: ...
    @overload
    def __call__(
        self, problem: AbstractProblem, *, batch_size: ArrayLike, learning_rate: ArrayLike, num_samples: ArrayLike
    ) -> BoundValue[np.ndarray]: ...
    def __call__(
        self,
        problem: AbstractProblem,
        *,
        batch_size: ArrayLike,
        learning_rate: ArrayLike,
        num_samples: ArrayLike,
    ) -> BoundValue:
        """The bound at B, γ, D, which broadcast; of D the `B⌊D/B⌋` samples of whole steps count.

        Args:
            problem: PowerLaw, LeastSquares or your own AbstractProblem.
            batch_size: B, whole numbers ≥ 1.
            learning_rate: γ > 0, in units of 1/λ.
            num_samples: D ≥ B.

        Returns:
            BoundValue.

        Raises:
            ValueError: an argument outside its range.
        """
        batch, rate, samples = settings_arrays(batch_size, learning_rate, num_samples)
        steps = samples_used(batch, samples) / batch
        with np.errstate(all="ignore"):
            found = self.statement(Asked(split(problem), batch, rate, steps))
        conditions = {**found.conditions, "a finite value": np.isfinite(found.value)}
        return BoundValue(
            np.broadcast_to(found.value, batch.shape)[()],
            {words: np.broadcast_to(holds, batch.shape)[()] for words, holds in conditions.items()},
        )


def nowhere(asked: Asked, condition: str) -> Statement:
    """Return the statement of a theorem that does not cover this problem: no bound, and the condition that fails."""
    nothing = 0 * asked.rate
    return Statement(nothing + np.inf, {condition: nothing < 0})


def split(problem: AbstractProblem) -> SplitSpectrum:
    """The problem itself, or what its directions make of it."""
    checked_problem(problem)
    if isinstance(problem, SplitSpectrum):
        return problem
    return LeastSquares(*problem.directions(), problem.noise_variance)


class Description(NamedTuple):
    """A bound's description of itself; for a plain function, what is assumed of it.

    Attributes:
        side: as of a `PublishedBound`; "upper" unless said.
        standing: likewise; "verified" unless the bound says otherwise.
        algorithm: whose risk it bounds; None: not said.
    """

    side: str
    standing: str
    algorithm: Algorithm | None


def description(bound: object) -> Description:
    """The description of a PublishedBound, or of a function with attributes of these names.

    Raises:
        ValueError: a side or a standing that there is not.
    """
    return Description(
        checked_name("side", getattr(bound, "side", "upper"), get_args(Side)),
        checked_name("standing", getattr(bound, "standing", "verified"), get_args(Standing)),
        getattr(bound, "algorithm", None),
    )
