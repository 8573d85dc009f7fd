"""Fields: the step of a nonlinear method in each direction, given the loss (THEORY.md T37, T38).

A direction's state is Gaussian: u and whatever the method keeps of it, with their means and covariances, and numbers
that do not fluctuate. Row 0 of its values is the mean of u, row 1 its variance; the others are the field's own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sgdtheory.risk.mean_field.closure import Closure
from sgdtheory.risk.mean_field.ensemble import Ensemble

ERROR = 2e-3  # relative, of equivalents whose closure is right: gains and means over χ are interpolated to some 1e-3
MEAN = 0
VARIANCE = 1


class Known(NamedTuple):
    """Number, rate, batch size and tables of P steps.

    Attributes:
        number, rate, batch: 0, 1, …, learning rates and batch sizes, (P, 1).
        table: what was looked up.
        together: what directions do to each other.
        smooth: whether values are to follow polynomials in the step number, on panels and between them.
    """

    number: np.ndarray
    rate: np.ndarray
    batch: np.ndarray
    table: tuple[np.ndarray, ...]
    together: tuple[np.ndarray, ...] = ()
    smooth: bool = False

    def at(self, rows: slice) -> "Known":
        """Return the entries of some of the steps."""
        return self._of_each(lambda each: each[rows])

    def repeated(self, times: int) -> "Known":
        """All steps again and again."""
        return self if times == 1 else self._of_each(lambda each: np.tile(each, (times, *[1] * (each.ndim - 1))))

    def _of_each(self, taken: Callable[[np.ndarray], np.ndarray]) -> "Known":
        """Return a copy with a function applied to every array, each of which has one row a step."""
        table = tuple(map(taken, self.table))
        together = tuple(map(taken, self.together))
        return Known(taken(self.number), taken(self.rate), taken(self.batch), table, together, self.smooth)


class Field(ABC):
    """A method's steps. P steps of K directions are done at once.

    Directions meet in `loss`, (P, Q): T = σ² + R, and what other sums of E u² the method sees (`totals`). What they do
    to each other beyond that, `together`, derivatives leave as it is.

    Attributes:
        first: steps after a kink, one by one.
        shortest: steps; fewer are sooner done one by one than on a panel.
        few: steps; up to so many the risk has several minima over γ.
        in_loss_alone: whether directions meet in the loss T and nowhere else.
    """

    first: float = 48.0
    shortest: float = 64.0
    few: float = 16.0
    in_loss_alone: bool = True

    def error(self, steps: float, batch: float) -> float:
        """Relative error of all risks after so many steps at B, beside what directions carry."""
        return ERROR

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """By how much a step may be wrong, from (q, P, K) values and the decay of means (P, K); 0 if it is linear."""
        nothing = np.zeros_like(decay)
        return Closure(nothing, nothing, nothing, nothing)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return tables of P rows for steps with these numbers and batch sizes, (P,) each."""
        return ()

    def totals(self, ensemble: Ensemble) -> np.ndarray:
        """(Q, K) weights of E u² in the sums that steps see, the risk first."""
        return ensemble.multiplicity[None]

    def together(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known
    ) -> tuple[np.ndarray, ...]:
        """Return what all directions do to each one beyond the loss: arrays of P rows."""
        return ()

    @abstractmethod
    def start(self, ensemble: Ensemble) -> np.ndarray:
        """(q, K) values at the start."""

    @abstractmethod
    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(q, P, K): values after the step less those before it."""

    @abstractmethod
    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(k, k, P, K) M of the k Gaussian parts x, u the first: the step makes Cov(x, S) into M Cov(x, S)."""

    @abstractmethod
    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """(k, …) Cov(x, u)."""

    @abstractmethod
    def scales(self, values: np.ndarray) -> np.ndarray:
        """Sizes of the values, positive: numerical derivatives take steps of shares of them."""


class Step(NamedTuple):
    """A step without memory, (P, K) each: `a ← a − drift`, `r ← (1 − 2 response) r + scatter`.

    Attributes:
        drift: mean of −Δu.
        response: its derivative by a: −Cov(u, Δu) = response · r for a Gaussian u.
        scatter: variance of Δu.
    """

    drift: np.ndarray
    response: np.ndarray
    scatter: np.ndarray


class MemorylessField(Field):
    """Field of a method without memory: u has a mean a and a variance r."""

    @abstractmethod
    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """Return the step from (2, P, K) values."""

    def start(self, ensemble: Ensemble) -> np.ndarray:
        """w_0."""
        return np.stack([ensemble.start, np.zeros_like(ensemble.start)])

    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(2, P, K)."""
        done = self.step(ensemble, values, loss, known)
        return np.stack([-done.drift, done.scatter - 2 * done.response * values[VARIANCE]])

    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """1 − response."""
        return (1 - self.step(ensemble, values, loss, known).response)[None, None]

    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """r."""
        return values[[VARIANCE]]

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Return the scales of a and r."""
        size = second_moment(values[MEAN], values[VARIANCE])
        return np.stack([np.sqrt(size), size])


class Added(NamedTuple):
    """What a gradient adds to the memory, (P, K) each: `m ← βm + g`, `g = gain u + ν`.

    Attributes:
        gain: mean of g over u.
        noise: variance of ν.
        kept: (q − 5, P, K) new values of what else is kept.
    """

    gain: np.ndarray
    noise: np.ndarray
    kept: np.ndarray


class Move(NamedTuple):
    """Change of u, (P, K) each: `u ← u − drift − older (m − E m) − newest (g − E g) + ε`, with m before the step.

    Attributes:
        drift: mean of −Δu.
        older: how −Δu follows the memory.
        newest: how it follows the newest gradient, beside.
        scatter: variance of ε.
    """

    drift: np.ndarray
    older: np.ndarray
    newest: np.ndarray
    scatter: np.ndarray


class MemoryField(Field):
    """Field of a method that keeps `m ← βm + (1 − β) g`, with g/√λ for g, as u is √λ (w − w*).

    Values are E u, Var u, E m, Cov(u, m), Var m, and what else it keeps.

    Attributes:
        momentum: β.
        others: number of values that it keeps besides.
        coupled_error: relative errors in coordinates that are not the eigenvectors, after many steps and among the
            first ones, as measured by benchmarks/equivalents.py.
    """

    shortest = 120.0
    few = 400.0  # runs overshoot
    momentum: float
    others = 0
    coupled_error: tuple[float, float]

    @abstractmethod
    def added(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Added:
        """Return what the gradient adds to m, from (q, P, K) values."""

    @abstractmethod
    def move(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, added: Added, known: Known) -> Move:
        """Return the change of u, from the values before the step and what the gradient adds to m."""

    def new_memory(self, values: np.ndarray, added: Added) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return E m and Var m after the step, and Cov(u, m) with the u before it."""
        a, r, m, c, q = values[:5]
        beta, gain = self.momentum, added.gain
        variance = beta**2 * q + 2 * beta * gain * c + gain**2 * r + added.noise
        return beta * m + gain * a, variance, beta * c + gain * r

    def start(self, ensemble: Ensemble) -> np.ndarray:
        """w_0, and m = 0."""
        values = np.zeros((5 + self.others, ensemble.start.size))
        values[MEAN] = ensemble.start
        return values

    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(q, P, K): u and m follow the old m and the new gradient."""
        added = self.added(ensemble, values, loss, known)
        move = self.move(ensemble, values, loss, added, known)
        mean, variance, shared = self.new_memory(values, added)
        _, r, m, c, q = values[:5]
        beta, gain = self.momentum, added.gain
        pulled = move.older * c + move.newest * gain * r
        with_new = move.older * (beta * q + gain * c)
        with_new = with_new + move.newest * (beta * gain * c + gain**2 * r + added.noise)
        followed = followed_variance(values, added, move.older, move.newest)
        return np.stack(
            [
                -move.drift,
                followed - 2 * pulled + move.scatter,
                mean - m,
                shared - with_new - c,
                variance - q,
                *(added.kept - values[5:]),
            ]
        )

    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the mixing matrix of u and m."""
        added = self.added(ensemble, values, loss, known)
        move = self.move(ensemble, values, loss, added, known)
        older, newest, gain = np.broadcast_arrays(move.older, move.newest, added.gain)
        beta = np.full_like(gain, self.momentum)
        return np.stack([np.stack([1 - newest * gain, -older]), np.stack([gain, beta])])

    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """Var u and Cov(u, m)."""
        return values[[VARIANCE, 3]]

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Return the scales of all rows; what else is kept is positive."""
        own = second_moment(values[MEAN], values[VARIANCE])
        kept = second_moment(values[2], values[4])
        return np.stack([np.sqrt(own), own, np.sqrt(kept), np.sqrt(own) * np.sqrt(kept), kept, *_positive(values[5:])])


def followed_variance(values: np.ndarray, added: Added, older: np.ndarray, newest: np.ndarray) -> np.ndarray:
    """Return the variance of `older m + newest g`, m before the step and g what the gradient adds to it."""
    _, r, _, c, q = values[:5]
    both = added.gain * (added.gain * r * newest + 2 * older * c)
    return older**2 * q + newest * (both + newest * added.noise)


def second_moment(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return a² + |r| as a positive scale."""
    return _positive(mean**2 + np.abs(variance))


def _positive(values: np.ndarray) -> np.ndarray:
    return values + np.finfo(float).tiny
