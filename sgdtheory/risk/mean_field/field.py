"""Fields: the step of a nonlinear method in each direction, given the loss (THEORY.md T37, T38).

The state of a direction is Gaussian: u and what the method remembers of it, described by means and covariances, and by
numbers that do not fluctuate. Row 0 of its values is the mean of u, row 1 its variance, and the field names the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sgdtheory.risk.mean_field.closure import Closure
from sgdtheory.risk.mean_field.ensemble import Ensemble

# Risks whose closure is right have this relative error: gains and means over χ are interpolated to about 1e-3.
ERROR = 2e-3
MEAN, VARIANCE = 0, 1  # The values of a direction have the mean and the variance of u in these rows.


class Known(NamedTuple):
    """Number, rate, batch size and tables of P steps.

    Attributes:
        number, rate, batch: (P, 1) numbers of the steps from 0 on, learning rates and batch sizes.
        table: arrays of P rows from `Field.looked_up`.
        together: arrays of P rows from `Field.together`.
        smooth: whether the change must be smooth in the step number, as on panels.
    """

    number: np.ndarray
    rate: np.ndarray
    batch: np.ndarray
    table: tuple[np.ndarray, ...]
    together: tuple[np.ndarray, ...] = ()
    smooth: bool = False

    def at(self, rows: slice) -> "Known":
        """Return the steps with these indices."""
        return self._of_each(lambda each: each[rows])

    def repeated(self, times: int) -> "Known":
        """Return all steps, repeated so many times."""
        return self if times == 1 else self._of_each(lambda each: np.tile(each, (times, *[1] * (each.ndim - 1))))

    def _of_each(self, taken: Callable[[np.ndarray], np.ndarray]) -> "Known":
        """Return a copy with a function applied to every array, each of which has one row a step."""
        table = tuple(map(taken, self.table))
        together = tuple(map(taken, self.together))
        return Known(taken(self.number), taken(self.rate), taken(self.batch), table, together, self.smooth)


class Field(ABC):
    """The step of a nonlinear method in every direction; P steps of K directions are computed at once.

    Directions are coupled by the sums `loss` (P, Q): T = σ² + R, and other sums of E u² that the method needs
    (`totals`). Newton's method takes further interactions (`together`) as given.

    Attributes:
        first: number of single steps after a kink.
        shortest: fewest steps of a panel; single steps take less time for fewer.
        rough_tail: largest share of the risk on a panel of a search that its two highest Legendre coefficients may
            have: longer panels save a third of the time, and risks are right to about 1e-5.
        few: number of steps up to which the risk may have several minima over γ.
        jagged: number of steps up to which they may be narrow.
        minima_memory: memory in steps of a method whose risk has many minima next to the γ with which coordinates can
            just reach the optimum, and which moves a coordinate by at most γ in a step; 0 of others.
        in_loss_alone: whether directions are coupled by the loss T alone.
        weight_decay: κ of a decoupled weight decay, `w ← (1 − γκ) w − …`, for runs that begin at w_0 = 0.
        first_compiled, shortest_compiled: the same two numbers where steps are compiled.
        compiled_from: so many single steps are taken in a compiled loop in searches, which repeat them. A loop begins
            after the first step, which may be a case of its own.
        compiled_batch: for smaller batch sizes no steps are compiled.
        compiled_runs: number of runs that one compiled loop computes side by side.
    """

    first: float = 48.0
    shortest: float = 64.0
    rough_tail: float = 1e-2
    # With 64 tuned risks of 65 to 250 steps of normalized SGD were up to 32% too high (11 of 42), of signs up to 1%.
    few: float = 256.0
    jagged: float = np.inf
    minima_memory: float = 0.0
    in_loss_alone: bool = True
    weight_decay: float = 0.0
    compiled_from: float = np.inf
    compiled_batch: float = 0.0
    compiled_runs: int = 1
    # A panel takes as long as a thousand compiled steps of a method with a memory. With a quarter as many of a panel
    # searches of Lion took 1.2 times and of signs with momentum 1.5 times as long; with twice as many of either or both
    # the same time.
    first_compiled: float = 512.0
    shortest_compiled: float = 1024.0

    def error(self, steps: float, batch: float) -> float:
        """Return the relative error of all risks after so many steps at B, beside the errors of the closure."""
        return ERROR

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Return the errors of the closure in a step, from values (q, P, K) and the decay of means (P, K).

        They are 0 for linear steps.
        """
        nothing = np.zeros_like(decay)
        return Closure(nothing, nothing, nothing, nothing)

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return tables of P rows for steps with these numbers and batch sizes, (P,) each."""
        return ()

    def compiled_table(self, ensemble: Ensemble, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return further tables of P rows, whose shapes a compiled loop has to know, for batch sizes (P, 1)."""
        return ()

    def totals(self, ensemble: Ensemble) -> np.ndarray:
        """Return the weights of E u² (Q, K) in the sums, of which the first is the risk."""
        return ensemble.multiplicity[None]

    def together(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known
    ) -> tuple[np.ndarray, ...]:
        """Return how all directions act on each one beyond the sums, as arrays of P rows."""
        return ()

    @abstractmethod
    def start(self, ensemble: Ensemble) -> np.ndarray:
        """Return the values (q, K) at the start."""

    @abstractmethod
    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the change of the values in the step, (q, P, K)."""

    @abstractmethod
    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return M (k, k, P, K) of the k Gaussian parts x, u the first: a step turns Cov(x, S) into M Cov(x, S)."""

    def turning(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the factors (P, K) of means that change their sign in a step and keep it on panels, 0 of others."""
        return np.zeros_like(values[MEAN])

    @abstractmethod
    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """Return Cov(x, u), (k, …)."""

    @abstractmethod
    def scales(self, values: np.ndarray) -> np.ndarray:
        """Return positive sizes of the values, to which the steps of numerical derivatives are relative."""


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
        """Return the values at w_0."""
        return np.stack([ensemble.start, np.zeros_like(ensemble.start)])

    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the change of mean and variance, (2, P, K)."""
        done = self.step(ensemble, values, loss, known)
        xp = values.__array_namespace__()
        return xp.stack([-done.drift, done.scatter - 2 * done.response * values[VARIANCE]])

    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return 1 − response."""
        return (1 - self.step(ensemble, values, loss, known).response)[None, None]

    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """Return r."""
        return values[VARIANCE : VARIANCE + 1]

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Return the scales of a and r."""
        size = second_moment(values[MEAN], values[VARIANCE])
        return np.stack([np.sqrt(size), size])


class Added(NamedTuple):
    """The gradient as it enters the memory, (P, K) each: `m ← βm + g`, `g = gain u + ν`.

    Attributes:
        gain: mean of g over u.
        noise: variance of ν.
        kept: (q − 5, P, K) new values of the other rows.
    """

    gain: np.ndarray
    noise: np.ndarray
    kept: np.ndarray


class Move(NamedTuple):
    """Change of u, (P, K) each: `u ← u − drift − older (m − E m) − newest (g − E g) + ε`, with m before the step.

    Attributes:
        drift: mean of −Δu.
        older: derivative of −Δu by the memory.
        newest: derivative of −Δu by the newest gradient.
        scatter: variance of ε.
    """

    drift: np.ndarray
    older: np.ndarray
    newest: np.ndarray
    scatter: np.ndarray


class MemoryField(Field):
    """Field of a method that keeps `m ← βm + (1 − β) g`, with g/√λ for g, as u is √λ (w − w*).

    Values are E u, Var u, E m, Cov(u, m), Var m, and rows of the field's own.

    Attributes:
        momentum: β.
        others: number of rows of the field's own.
        coupled_error: relative errors in coordinates that are not the eigenvectors, after many steps and among the
            first ones, as measured by benchmarks/equivalents.py.
    """

    shortest = 120.0
    few = 400.0  # runs overshoot for as long as the memory lasts
    # Repeated searches for B* take two thirds (Lion), half (Adam), a quarter (signs) of the time. Twelve steps of 25
    # runs take 7.5 ms compiled and 9.8 ms in NumPy (Lion), 5.8 and 6.3 ms (Adam); 58 take a quarter and half the time.
    compiled_from = 12.0
    # Eight runs in one loop take 4.5 (Lion), 3.8 (signs with momentum) and 6.8 (Adam) times as long as one.
    compiled_runs = 8
    momentum: float
    others = 0
    coupled_error: tuple[float, float]

    @abstractmethod
    def added(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Added:
        """Return the gradient as it enters m, from values (q, P, K)."""

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
        """Return the values at w_0 with m = 0."""
        values = np.zeros((5 + self.others, ensemble.start.size))
        values[MEAN] = ensemble.start
        return values

    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the change of the values (q, P, K), in which u and m follow the old m and the new gradient."""
        added = self.added(ensemble, values, loss, known)
        move = self.move(ensemble, values, loss, added, known)
        mean, variance, shared = self.new_memory(values, added)
        _, r, m, c, q = values[:5]
        beta, gain = self.momentum, added.gain
        # Covariances of −Δu: with the u before the step, and with the m after it.
        pulled = move.older * c + move.newest * gain * r
        with_new = move.older * (beta * q + gain * c)
        with_new = with_new + move.newest * (beta * gain * c + gain**2 * r + added.noise)
        followed = followed_variance(values, added, move.older, move.newest)
        of_mean = -move.drift
        of_variance = followed - 2 * pulled + move.scatter
        of_shared = shared - with_new - c
        if self.weight_decay:
            # The weights w shrink, that is u − u_0 with the u before the step, and u_0 is that of w = 0 (T55).
            shrink = known.rate * self.weight_decay
            of_mean = of_mean - shrink * (values[MEAN] - ensemble.start)
            of_variance = of_variance - shrink * ((2 - shrink) * r - 2 * pulled)
            of_shared = of_shared - shrink * shared
        xp = values.__array_namespace__()
        return xp.stack([of_mean, of_variance, mean - m, of_shared, variance - q, *(added.kept - values[5:])])

    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the mixing matrix of u and m."""
        added = self.added(ensemble, values, loss, known)
        move = self.move(ensemble, values, loss, added, known)
        xp = values.__array_namespace__()
        older, newest, gain = xp.broadcast_arrays(move.older, move.newest, added.gain)
        beta = xp.full_like(gain, self.momentum)
        stays = 1 - known.rate * self.weight_decay
        return xp.stack([xp.stack([stays - newest * gain, -older]), xp.stack([gain, beta])])

    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """Return Var u and Cov(u, m)."""
        return values[VARIANCE:4:2]

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Return the scales of all rows; the field's own are positive."""
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
