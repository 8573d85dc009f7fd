"""Coverage of 95% intervals of `fit_steps_law` and `fit_noise_scale`, where their assumptions hold and where they fail.

A situation draws data sets with a known truth. Each set counts as covered if the interval holds the truth, and as
warned of if a remark says that the interval may not hold.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import sgdtheory as st
from sgdtheory.fits import SMALLEST, law_remarks, misfit_variance

SEED = 20261128
MICRO, PARTS = 4, 8  # samples in a micro batch, and micro batches in a step
WARNINGS = "the law's shape", "heavy tails", "depend on each other", "off the law", "the same norm"

Measured = tuple[tuple[float, float], bool]  # the interval, and whether a remark warns of it
Draw = Callable[[np.random.Generator], Measured]


class Situation(NamedTuple):
    """Data sets of one kind, with the truth that their intervals should hold."""

    name: str
    truth: float
    draw: Draw


class Coverage(NamedTuple):
    """Fractions of data sets that are covered, warned of, and one of both, and the median width of finite intervals."""

    covered: float
    warned: float
    either: float
    factor: float


# ------------------------------------------------------------------ steps to a target


class Quantity(NamedTuple):
    """A quantity of a law: its value, and its 95% interval."""

    value: Callable[[st.fits.StepsLaw], float]
    interval: Callable[[st.fits.StepsLaw], Iterable[float]]


CRITICAL = Quantity(lambda law: law.critical_batch_size(), lambda law: law.interval())
KNEE = Quantity(lambda law: law.knee, lambda law: law.interval("knee"))
STEPS_BEYOND = Quantity(  # at four times the largest batch size
    lambda law: float(law.predict(4 * law.batch_sizes[-1])),
    lambda law: np.ravel(law.steps_interval(4 * law.batch_sizes[-1])),
)
EXTRA_DATA = Quantity(  # at the largest batch size, compared with half of it; from 1 on, so that ends have a ratio
    lambda law: float(2 * law.predict(law.batch_sizes[-1]) / law.predict(law.batch_sizes[-2])),
    lambda law: (1 + end for end in law.extra_data_interval(law.batch_sizes[-2], law.batch_sizes[-1])),
)


def steps_situation(
    name: str,
    batch_sizes: np.ndarray,
    *,
    alpha: float = 1.0,
    alpha_range: tuple[float, float] | None = None,
    scatter: Callable[[np.ndarray], np.ndarray] | float = 0.02,
    errors: float | None = None,
    outlier: float = 1.0,
    misfit: bool = True,
    quantity: Quantity = CRITICAL,
) -> Situation:
    """Steps 300 + b/B^α whose terms are equal at the middle of the batch sizes.

    The exponents of `alpha_range` are those that the interval admits. Without `misfit` the errors that are given count
    as all of the scatter, a negative control.
    """
    middle = float(np.sqrt(batch_sizes[0] * batch_sizes[-1]))
    law = st.fits.StepsLaw(300.0, 300.0 * middle**alpha, alpha, False, batch_sizes, np.ones(batch_sizes.size))
    deviation = scatter(batch_sizes) if callable(scatter) else np.full(batch_sizes.size, scatter)

    def draw(random: np.random.Generator) -> Measured:
        steps = law.predict(batch_sizes) * np.exp(deviation * random.standard_normal(batch_sizes.size))
        steps[random.integers(batch_sizes.size)] *= outlier
        found = st.fit_steps_law(batch_sizes, steps, alpha_range=alpha_range, standard_errors=errors)
        if not misfit:
            found = replace(found, misfit=0.0)
        low, high = quantity.interval(found)
        return (float(low), float(high)), warned("; ".join(law_remarks(found, SMALLEST)))

    return Situation(name, quantity.value(law), draw)


def warned(remarks: str) -> bool:
    """Return whether remarks say that the interval may not contain the truth."""
    return any(text in remarks for text in WARNINGS)


def doubling(number: int, first: float = 8.0) -> np.ndarray:
    """(number,) batch sizes, each twice the one before."""
    return first * 2.0 ** np.arange(number)


def steps_situations() -> Iterator[Situation]:
    """Situations of `fit_steps_law`."""
    five, six = doubling(5, 32.0), doubling(6, 16.0)
    yield steps_situation("6 batch sizes, equal scatter 5%", six, scatter=0.05)
    yield steps_situation("6, scatter ∝ B^½, 5% at 512", six, scatter=lambda size: 0.05 * np.sqrt(size / 512))
    yield steps_situation("6, scatter 3%, one of them twice the steps", six, scatter=0.03, outlier=2.0)
    yield steps_situation("5, α = 0.8, scatter 2%", five, alpha=0.8)
    yield steps_situation("5, α = 0.8, scatter 2%, knee", five, alpha=0.8, quantity=KNEE)
    yield steps_situation("5, α = 0.8, scatter 2%, steps at 2048", five, alpha=0.8, quantity=STEPS_BEYOND)
    yield steps_situation("5, α = 0.8, scatter 2%, extra data", five, alpha=0.8, quantity=EXTRA_DATA)
    yield steps_situation("5, α = 1.3, scatter 2%", five, alpha=1.3)
    yield steps_situation("9, α = 0.8, scatter 2%", doubling(9, 16.0), alpha=0.8)
    yield steps_situation("9, α = 0.6, scatter 2%", doubling(9, 16.0), alpha=0.6)
    yield steps_situation("4, known errors 2%", 2.0 ** np.arange(4, 12, 2), errors=0.02)
    yield steps_situation("6, known errors 2%", six, errors=0.02)
    yield steps_situation("6, α = 0.8, known errors 2%", six, alpha=0.8, errors=0.02)
    yield steps_situation("6, errors of 1% given, 3% true", six, scatter=0.03, errors=0.01)


# ------------------------------------------------------------------ exponents


def exponent_table(replicas: int, numbers: tuple[int, ...]) -> Iterator[str]:
    """Rows of coverage for four true exponents, and of widths for α = 1, with α = 1 known or in the default's range."""
    if not numbers:
        return
    header = "batch sizes | scatter | α | 0.8 | 0.9 | 1 | 1.2 | high/low, median, α = 1 |"
    yield f"| {header}\n|{'---|' * header.count('|')}"
    for number in numbers:
        for scatter in (0.01, 0.02, 0.05):
            for label, alpha_range in (("known", (1.0, 1.0)), ("in the range", None)):
                options = {"alpha_range": alpha_range, "scatter": scatter}
                found = [
                    coverage(steps_situation("", doubling(number), alpha=alpha, **options), replicas)
                    for alpha in (0.8, 0.9, 1.0, 1.2)
                ]
                covered = " | ".join(f"{100 * each.covered:.1f}" for each in found)
                yield f"| {number} | {scatter:.0%} | {label} | {covered} | {found[2].factor:.3g} |"


def measured_exponents() -> str:
    """Mean and standard deviation of log α in the tables of the package, with the errors of its fits taken off."""
    fits = [
        st.fit_steps_law(each.batch_sizes, each.steps, alpha=None)
        for data in ("c4", "mlperf")
        for each in st.example_measurements(data)
    ]
    logs = np.log([law.alpha for law in fits])
    ends = np.log([law.interval("alpha", 0.68) for law in fits])
    errors = (ends[:, 1] - ends[:, 0]) / 2 / np.sqrt([law.scatter.quantile(0.68) for law in fits])

    def least(weights: np.ndarray) -> float:
        return float((weights * (logs - np.average(logs, weights=weights)) ** 2).sum())

    square = misfit_variance(least, errors, logs.size - 1)
    mean = float(np.exp(np.average(logs, weights=1 / (errors**2 + square))))
    return f"{logs.size} tables of steps: mean exponent {mean:.3g}, standard deviation of log α {square**0.5:.2g}"


# ------------------------------------------------------------------ norms of gradients


def noise_situation(name: str, rows: int, *, tails: float | None = None, smoothing: float = 0.0) -> Situation:
    """Norms of gradients with 20 coordinates of mean 1 and noise of variance 4 a sample; noise scale 4.

    Args:
        name: of the situation.
        rows: n.
        tails: degrees of freedom of Student's t, of which the noise of a micro batch is; None: normal.
        smoothing: weight of the past in an exponential moving average of both norms.
    """

    def draw(random: np.random.Generator) -> Measured:
        before = int(8 / (1 - smoothing)) if smoothing else 0
        shape = rows + before, PARTS, 20
        noise = random.standard_normal(shape)
        if tails is not None:
            noise = random.standard_t(tails, shape) / np.sqrt(tails / (tails - 2))
        micro = 1 + noise  # the variance 4 of a sample over 4 samples
        norms = [(micro**2).sum(2).mean(1), (micro.mean(1) ** 2).sum(1)]
        if smoothing:
            weights = smoothing ** np.arange(before + 1)
            norms = [np.convolve(each, weights / weights.sum(), "valid") for each in norms]
        found = st.fit_noise_scale(*norms, small_batch=MICRO, large_batch=MICRO * PARTS)
        return found.interval(), warned(found.remark)

    return Situation(name, 4.0, draw)


def noise_situations() -> Iterator[Situation]:
    """Situations of `fit_noise_scale`."""
    yield noise_situation("500 rows, normal noise", 500)
    yield noise_situation("40 rows, normal noise", 40)
    yield noise_situation("500 rows, noise t(3)", 500, tails=3.0)
    yield noise_situation("500 rows, noise t(2.2)", 500, tails=2.2)
    yield noise_situation("40 rows, smoothed by 0.9", 40, smoothing=0.9)
    yield noise_situation("100 rows, smoothed by 0.9", 100, smoothing=0.9)
    yield noise_situation("500 rows, smoothed by 0.9", 500, smoothing=0.9)


def coverage(situation: Situation, replicas: int) -> Coverage:
    """Draw data sets and count."""
    random = np.random.default_rng(SEED)
    covered, said, factors = [], [], []
    for _ in range(replicas):
        (low, high), warning = situation.draw(random)
        covered.append(low <= situation.truth * (1 + 1e-9) and high >= situation.truth * (1 - 1e-9))
        said.append(warning)
        factors.append(high / low if low > 0 and np.isfinite(high) else np.inf)
    either = np.array(covered) | np.array(said)
    return Coverage(float(np.mean(covered)), float(np.mean(said)), float(either.mean()), float(np.median(factors)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=200)
    parser.add_argument("--only", default="", help="situations whose name contains this text")
    parser.add_argument(
        "--exponents", type=int, nargs="*", metavar="M", help="the table of exponents, of M batch sizes"
    )
    options = parser.parse_args()
    if options.exponents is not None:
        print(measured_exponents())
        for row in exponent_table(options.replicas, tuple(options.exponents)):
            print(row, flush=True)
        return
    print("| situation | covered | warned of | either | high/low, median |\n|---|---|---|---|---|")
    for situation in [*steps_situations(), *noise_situations()]:
        if options.only in situation.name:
            found = coverage(situation, options.replicas)
            percent = " | ".join(f"{100 * each:.1f}" for each in found[:3])
            print(f"| {situation.name} | {percent} | {found.factor:.3g} |", flush=True)
