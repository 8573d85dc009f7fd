"""Laws of the loss in model size, data and batch size, and their least-squares fit (THEORY.md T48).

A law is a sum of terms `c_j f_j(N, D, B)`. The factors c_j ≥ 0 enter linearly. For given exponents they are found by
non-negative least squares, so that the search is over the exponents alone (variable projection).

The searches for the best and the critical batch size are at the end of this module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize

from sgdtheory.fits.searches import bisected, golden_section

# The limits of model and data meet with this sharpness k. Exact risks of averaged SGD with 64 to 4,096 features are
# fitted best by 2.3 (a = 2, b = 3), 2.6 (1.2, 1.8) and 3.5 (1.1, 1.5), and step-law's runs by 2.7 (T48).
BLEND = 2.5
# The loss that small batches add falls with this power of B, as does the stationary loss of a sign, or of Adam while
# noise dominates, at a learning rate that does not fall with B (T48). With a fitted power, step-law's runs prefer 0.5
# to 1.
SMALL_BATCH_POWER = 0.5
# The search has a least, a first and a largest value of each exponent, and of the logs of two scales, which count from
# the middle of a table. Scales at their ends move a crossover out of every table.
SEARCHED = {
    "α": (0.02, 0.3, 4.0),
    "β": (0.01, 0.25, 4.0),
    "k": (1.0, BLEND, 20.0),
    "log C": (-20.0, 1.0, 20.0),
    "log B_0": (-20.0, 2.0, 20.0),
    "κ": (0.0, 0.5, 0.95),
    "ν": (-2.0, 0.0, 2.0),
    "h": (0.2, 1.0, 8.0),
    "q": (0.02, 0.6, 4.0),
    "r": (0.05, SMALL_BATCH_POWER, 4.0),
}


@dataclass(frozen=True, eq=False)
class Settings:
    """Model size, data and batch size in logarithms, relative to the middle of a table; they broadcast."""

    log_size: np.ndarray
    log_samples: np.ndarray
    log_batch: np.ndarray

    def where(self, some: np.ndarray) -> "Settings":
        """Return some of the settings."""
        return Settings(self.log_size[some], self.log_samples[some], self.log_batch[some])


Exponents = Mapping[str, np.ndarray]
Terms = Callable[[Exponents, Settings], tuple[np.ndarray, ...]]


@dataclass(frozen=True, eq=False)
class LossShape:
    """The form of a law: its terms as functions of its exponents.

    Attributes:
        name: what tables call it.
        formula: for readers.
        terms: of exponents and settings; the first is 1, with the factor E.
        fitted: names of the exponents that are fitted, those of `SEARCHED`.
        factors: names of the factors c_j.
        fixed: exponents that are not fitted.
    """

    name: str
    formula: str
    terms: Terms
    fitted: tuple[str, ...]
    factors: tuple[str, ...]
    fixed: Exponents = field(default_factory=dict)

    @property
    def number_fitted(self) -> int:
        """Return the number of fitted parameters."""
        return len(self.fitted) + len(self.factors)

    @property
    def ranges(self) -> np.ndarray:
        """Return the least, first and largest value of each exponent, (3, p)."""
        return np.array([SEARCHED[name] for name in self.fitted]).T

    def columns(self, exponents: np.ndarray, settings: Settings) -> np.ndarray:
        """Return the terms f_j with the last axis j; exponents are (p, …), and broadcast with the settings."""
        values = {**self.fixed, **dict(zip(self.fitted, exponents, strict=True))}
        return np.stack(np.broadcast_arrays(*self.terms(values, settings)), axis=-1)


@dataclass(frozen=True, eq=False)
class LossLaw:
    """A law with its numbers, or as many laws as there are rows of exponents.

    Attributes:
        shape: its form.
        exponents: (p,) or (p, m, 1).
        factors: (j,) or (m, 1, j).
        squares: sum of squares of relative residuals, of the data that it was fitted to.
    """

    shape: LossShape
    exponents: np.ndarray
    factors: np.ndarray
    squares: float

    def loss(self, settings: Settings) -> np.ndarray:
        """Return the losses, of the shape of the settings or (m, points)."""
        return (self.shape.columns(self.exponents, settings) * self.factors).sum(-1)

    def exponent(self, name: str) -> np.ndarray:
        """Return one of the exponents; nan if the law does not have it."""
        return self.exponents[self.shape.fitted.index(name)] if name in self.shape.fitted else np.array(np.nan)


def fitted_law(shape: LossShape, settings: Settings, loss: np.ndarray, start: np.ndarray | None = None) -> LossLaw:
    """Fit a law to losses, (n,), by least squares of relative residuals.

    >>> import numpy as np
    >>> from sgdtheory import fits
    >>> size, samples = (each.ravel() for each in np.meshgrid(np.arange(-2.0, 3), np.arange(-2.0, 3)))
    >>> loss = 1.5 + np.exp(-0.3 * size) + np.exp(-0.4 * samples)
    >>> found = fits.fitted_law(fits.RIVALS[-1], fits.Settings(size, samples, 0 * size), loss)  # Chinchilla's law
    >>> found.exponents.round(2), found.factors.round(2)
    (array([0.3, 0.4]), array([1.5, 1. , 1. ]))

    Args:
        shape: the form of the law.
        settings, loss: of the data.
        start: (p,) exponents to begin with; None: the first values of `SEARCHED`.
    """
    low, first, high = shape.ranges
    # Differences over this distance give slopes to about 1e-6: their errors only slow the search down.
    move = 1e-6

    def weighted(exponents: np.ndarray) -> np.ndarray:
        return shape.columns(exponents, settings) / loss[:, None]

    def residuals(exponents: np.ndarray) -> np.ndarray:
        terms = weighted(exponents)
        return terms @ optimize.nnls(terms, ones)[0] - 1

    def slopes(exponents: np.ndarray) -> np.ndarray:
        """Return the (n, p) derivatives, in which factors follow the exponents to first order (Kaufman 1975)."""
        terms = weighted(exponents)
        factors = optimize.nnls(terms, ones)[0]
        moved = shape.columns((exponents + move * np.eye(first.size)).T[:, :, None], settings) / loss[:, None]
        by_exponents = ((moved - terms) @ factors).T / move
        basis = np.linalg.qr(terms[:, factors > 0])[0]
        return by_exponents - basis @ (basis.T @ by_exponents)

    ones = np.ones(loss.size)
    inside = 1e-6 * (high - low)
    begin = np.clip(first if start is None else start, low + inside, high - inside)
    # From the first values step-law's runs need 10 calls, and from random values 90% need fewer than 60.
    options: Any = {"jac": slopes, "x_scale": "jac", "max_nfev": 60}  # which SciPy's annotations do not have
    found: Any = optimize.least_squares(residuals, begin, bounds=(low, high), xtol=1e-6, ftol=1e-8, **options)
    factors = optimize.nnls(weighted(found.x), ones)[0]
    return LossLaw(shape, found.x, factors, float(2 * found.cost))


# ------------------------------------------------------------------ terms


def useful_samples(exponents: Exponents, at: Settings) -> np.ndarray:
    """Return ln D_e, the data with which vanishing batches reach the same loss.

    It solves D = D_e [1 + (B/B_k)^h]^{1/h} with B_k = B_0 D_e^κ N^ν: a monotone, concave or convex equation in ln D_e.
    """
    growth, sharpness = exponents["κ"], exponents["h"]
    over = at.log_batch - exponents["log B_0"] - exponents.get("ν", 0.0) * at.log_size
    useful = np.minimum(at.log_samples, (at.log_samples - over) / (1 - growth))
    for _ in range(6):  # Newton's steps begin within (log 2)/h of the root, and six leave 1e-12.
        beyond = sharpness * (over - growth * useful)
        excess = useful + np.logaddexp(0.0, beyond) / sharpness - at.log_samples
        useful = useful - excess / (1 - growth / (1 + np.exp(-beyond)))
    return useful


def _power(exponent: np.ndarray | float, log_value: np.ndarray) -> np.ndarray:
    """Return the power −exponent of a number given by its logarithm, finite at any exponents."""
    return np.exp(np.clip(-exponent * log_value, -300.0, 300.0))  # Its square is finite too.


def _joint(exponents: Exponents, at: Settings) -> tuple[np.ndarray, ...]:
    by_size = exponents["α"]
    by_samples = exponents.get("β", by_size / (1 + by_size))
    sharpness = exponents.get("k", BLEND)
    of_size = -by_size * at.log_size
    of_samples = -by_samples * (useful_samples(exponents, at) + exponents["log C"])
    larger = np.logaddexp(sharpness * of_size, sharpness * of_samples) / sharpness
    return np.ones(()), _power(-1.0, larger), _power(exponents.get("r", SMALL_BATCH_POWER), at.log_batch)


def _chinchilla(exponents: Exponents, at: Settings) -> tuple[np.ndarray, ...]:
    return np.ones(()), _power(exponents["α"], at.log_size), _power(exponents["β"], at.log_samples)


def _mccandlish(exponents: Exponents, at: Settings) -> tuple[np.ndarray, ...]:
    return np.ones(()), _power(exponents["α"], at.log_size), _power(exponents["β"], useful_samples(exponents, at))


def _three(exponents: Exponents, at: Settings) -> tuple[np.ndarray, ...]:
    steps = _power(exponents["q"], at.log_samples - at.log_batch)
    return np.ones(()), _power(exponents["α"], at.log_size), steps, _power(exponents["r"], at.log_batch)


def _four(exponents: Exponents, at: Settings) -> tuple[np.ndarray, ...]:
    return *_three(exponents, at), _power(exponents["β"], at.log_samples)


FREE = "α", "log C", "log B_0", "κ", "h"
BLENDED = "E + [(A N^−α)^k + (C D_e^−β)^k]^{1/k} + G/B^r, D = D_e [1 + (B/(B_0 D_e^κ N^ν))^h]^{1/h}"
JOINT = LossShape("joint law", f"{BLENDED}: β = α/(1 + α), k = 5/2, ν = 0, r = 1/2", _joint, FREE, ("E", "A", "G"))
# Each of these drops an assumption of the joint law.
FREED = tuple(
    LossShape(f"joint law, {name} free", f"{BLENDED}, {name} fitted", _joint, (*FREE, name), ("E", "A", "G"))
    for name in ("β", "k", "ν", "r")
)
RIVALS = (
    LossShape(
        "four powers",
        "E + A/N^α + C/D^β + F (B/D)^q + G/B^r",
        _four,
        ("α", "β", "q", "r"),
        ("E", "A", "F", "G", "C"),
    ),
    LossShape(
        "three powers",
        "E + A/N^α + F (B/D)^q + G/B^r (arXiv 2607.01487)",
        _three,
        ("α", "q", "r"),
        ("E", "A", "F", "G"),
    ),
    LossShape(
        "McCandlish",
        "E + A/N^α + C/D_e^β, D = D_e + B D_e^(1−κ)/B_0",
        _mccandlish,
        ("α", "β", "log B_0", "κ"),
        ("E", "A", "C"),
        {"h": np.ones(())},
    ),
    LossShape("Chinchilla", "E + A/N^α + C/D^β, without a batch size", _chinchilla, ("α", "β"), ("E", "A", "C")),
)


# ------------------------------------------------------------------ searches, for many laws and settings at once


# B* needs this fraction more data than the best batch size.
OVERHEAD = 0.2
# Batch sizes, data and model sizes are searched between these logarithms, which count from the middle of the table. No
# table comes near these ends, so that a number there is 0 or infinite.
NEAREST, FARTHEST = -15.0, 45.0


def best_batch(law: LossLaw, log_size: np.ndarray, log_samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ln B of the least loss at N and D, and that loss."""
    rows = np.broadcast_shapes(law.factors.shape[:-1], np.shape(log_size), np.shape(log_samples))

    def loss(log_batch: np.ndarray) -> np.ndarray:
        return law.loss(Settings(log_size, log_samples, log_batch))

    # The search is over −ln B: where small batches cost nothing, equal losses then lead to the smallest.
    best = -golden_section(lambda minus: loss(-minus), np.full(rows, -FARTHEST), np.full(rows, -NEAREST))
    return best, loss(best)


def log_critical(law: LossLaw, log_size: np.ndarray, log_samples: np.ndarray) -> np.ndarray:
    """Return ln B*; `FARTHEST` where large batches cost nothing."""
    best, least = best_batch(law, log_size, log_samples)
    more = log_samples + np.log1p(OVERHEAD)

    def within(log_batch: np.ndarray) -> np.ndarray:
        return law.loss(Settings(log_size, more, log_batch)) < least

    return bisected(within, best, np.full(best.shape, FARTHEST))


def growth(law: LossLaw, by_size: float, by_samples: float) -> np.ndarray:
    """Return the slope of ln B* along a direction of log N and log D, in the middle of the table."""
    step = 0.05  # in logs: errors of 1e-6 of the searches leave 2e-5 of the slope
    up, down = (log_critical(law, np.array(end * by_size), np.array(end * by_samples)) for end in (step, -step))
    return (up - down) / (2 * step)
