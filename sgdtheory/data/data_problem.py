"""`problem_from_data`: the least-squares problem of features and targets, estimated without the bias of noise."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq

from sgdtheory._common.arguments import positive_array, share_between_0_and_1, whole_array, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.interval import Interval
from sgdtheory._common.rows import Rows, checked_rows
from sgdtheory._common.sheets import Quantity, Sheet, Table, between
from sgdtheory._common.shown import Shown
from sgdtheory.critical import critical_batch_size, predicted_exponent
from sgdtheory.data.cross_fit import (
    Spectrum,
    cross_fitted_spectrum,
    noise_probability,
    pooled_signal,
    sample_spectrum,
)
from sgdtheory.data.data_critical import DataCriticalBatchSize
from sgdtheory.data.doubts import LIKE_NOISE, MOST_UNCERTAIN, remark_on
from sgdtheory.data.exponents import (
    FEWEST_DIRECTIONS,
    LEFT_BIAS,
    Exponent,
    Jackknife,
    bins_within,
    capacity_exponent,
    resolved_directions,
    source_exponent,
)
from sgdtheory.data.moments import GROUPS, grouped_moments
from sgdtheory.data.samples import samples_of_rows
from sgdtheory.data.shape import Kurtosis, kurtosis_of
from sgdtheory.problems import FiniteSampleProblem, LeastSquares

ABOVE_ONE, LARGE = 1 + 1e-9, 1e9
FEWEST_ROWS = 16
BATCHES = 1, 16, 256  # A sheet has the stable learning rates of these batch sizes.
MOST_COLUMNS = 4096  # Features may have this many columns: the covariances of 16 groups then take 2 GiB.
ROWS_PER_DIRECTION = 8  # Exponents are fitted to at most one direction for this many rows (χ times as many if χ > 1).
NO_EXPONENT = float("nan"), (-np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class DataProblem(Shown):
    """A problem with the spectrum, signal and noise of data; made by `problem_from_data`.

    Attributes:
        problem: a LeastSquares, for everything that takes a problem.
        capacity, source: exponents a of `λ_i ∝ i^−a` and b of `s_i ∝ i^−b`, with interval and range.
        noise_variance: σ² of the label noise, summed over targets: what no direction that is resolved explains.
        predicted_exponent: Corollary 8's `1 − a/min{b, 2a + 1}` of B*, 0 for b ≤ a, with its interval; nan where a or b
            is not above 1.
        kurtosis: shape of the data, `spread` χ and `own` δ (THEORY.md S2).
        num_rows: N.
        num_targets: k.
        constant_columns: features that hold one value, counted from 0: an intercept, or nothing.
        noise_probability: how often targets that are noise alone would look as much like signal as these (THEORY.md
            T32), no less than 1/5000; above 1/1000 the signal is not resolved. 0 with `cross_fit=False`, since rows
            that are the population have no noise of sampling.
        remark: what a reader should know; empty if nothing.
    """

    problem: LeastSquares
    capacity: Exponent
    source: Exponent
    noise_variance: float
    predicted_exponent: Interval
    kurtosis: Kurtosis
    num_rows: int
    num_targets: int
    constant_columns: tuple[int, ...]
    noise_probability: float
    remark: str
    level: float
    resolved: bool = field(repr=False)
    spectrum: Spectrum = field(repr=False)
    left_out: tuple[Spectrum, ...] = field(repr=False)
    rows: Rows = field(repr=False)

    def with_samples(self, num_samples: int | None = None, seed: int = 0) -> FiniteSampleProblem:
        """Training on these rows, or on some, over and over: batches are drawn with replacement (THEORY.md T42).

        The population is all rows: risks are `(w − ŵ)ᵀH(w − ŵ)` with H = XᵀX/N and ŵ the fit of all of them, which with
        all rows is what `simulate_data` measures. Exact for up to 32 directions or rows, whatever their law.

        Example:
            >>> import numpy as np
            >>> import sgdtheory as st
            >>> random = np.random.default_rng(0)
            >>> x = random.standard_t(5, (1000, 8)) * np.arange(1.0, 9) ** -0.75
            >>> found = st.problem_from_data(x, x @ np.ones(8) + random.standard_normal(1000))
            >>> setting = dict(batch_size=2, learning_rate=0.05, num_samples=2000)
            >>> risks = [st.excess_risk(found.with_samples(size), **setting).total for size in (1000, 50)]
            >>> print(np.round(risks, 3))
            [0.024 0.287]

        Args:
            num_samples: how many of the rows; by default all.
            seed: of their choice.

        Returns:
            FiniteSampleProblem, for risks of SGD with any schedule and average, and for `simulate`.

        Raises:
            ValueError: more rows than there are, or several targets.
        """
        return samples_of_rows(self.rows, num_samples, seed)

    @cached_property
    def _problems(self) -> tuple[LeastSquares, ...]:
        return tuple(_problem(each) for each in self.left_out)

    def critical_batch_size(self, num_samples: ArrayLike, **options: Any) -> DataCriticalBatchSize:
        """B* at data sizes D, with intervals from leaving one group of rows out at a time.

        Args:
            num_samples: D; scalar or array.
            options: of `critical_batch_size`: overhead, risk_factor, algorithm.

        Returns:
            DataCriticalBatchSize, with arrays of the number of data sizes.

        Raises:
            ValueError: as `critical_batch_size`; no signal is resolved.
        """
        samples = np.atleast_1d(positive_array("num_samples", num_samples))
        if not self.problem.initial_risk > 0:
            raise ValueError(
                f"targets must have a part that {self.num_rows} rows distinguish from noise, got none; "
                "add rows or check the pairing"
            )
        critical = critical_batch_size(self.problem, num_samples=samples, curve=False, **options)
        whole = np.asarray(critical.batch_size)
        real = np.asarray(critical.real_batch_size)
        if self.resolved and all(problem.initial_risk > 0 for problem in self._problems):
            interval = self._interval(np.log(real), samples, options)
            interval[:, 0] = np.minimum(interval[:, 0], whole)
        else:  # noise drowns what signal there is
            interval = np.tile([1.0, np.inf], (samples.size, 1))
        return DataCriticalBatchSize(samples, whole, real, interval, critical, self.level)

    def _interval(self, value: np.ndarray, samples: np.ndarray, options: dict[str, Any]) -> np.ndarray:
        """(K, 2) of B* by the jackknife of its logarithm, (K,) `value`; not below 1."""
        found = [critical_batch_size(each, num_samples=samples, curve=False, **options) for each in self._problems]
        others = np.log([each.real_batch_size for each in found])
        count = len(others)
        bias = (count - 1) * (others.mean(0) - value)
        error = np.sqrt((count - 1) * others.var(0))
        reach = Jackknife(0, 0, 0, count).quantile(self.level) * np.hypot(error, LEFT_BIAS * bias)
        return np.maximum(np.exp(np.stack([value - reach, value + reach], axis=-1)), 1.0)

    def max_stable_learning_rate(self, batch_size: ArrayLike) -> np.ndarray:
        """Largest stable γ of data of this shape: T5 with S2's χ and δ, `Σ_i χ x_i/(B(2 − x_i) − (δ − 1) x_i) = 1`.

        Smaller than that of Gaussian data where tails are heavy.

        Args:
            batch_size: B; scalar or array.

        Returns:
            γ, in units of 1/λ, of the shape of `batch_size`.
        """
        sizes = whole_array("batch_size", batch_size)
        return np.array([self._edge(float(size)) for size in sizes.flat]).reshape(sizes.shape)[()]

    def _edge(self, size: float) -> float:
        own, spread, share = self.kurtosis.own, self.kurtosis.spread, self.problem.eigenvalues
        share = share[share > 0] / share[0]
        pole = 2 * size / (size + max(own - 1, 0.0))  # of x_1, where the first denominator vanishes

        def excess(fraction: float) -> float:
            x = fraction * pole * share
            return float((spread * x / (size * (2 - x) - (own - 1) * x)).sum()) - 1

        last = 1 - 1e-12
        root = brentq(excess, 0.0, last, xtol=1e-14) if excess(last) > 0 else 1.0
        return float(root * pole / self.problem.largest_eigenvalue)  # pyright: ignore[reportOperatorIssue]

    def plot(self, *, title: str = "") -> Any:
        """Spectrum and signal against the number of the direction, with the fitted power laws; a matplotlib Figure."""
        from sgdtheory.data.figure import spectrum_figure

        return spectrum_figure(self.spectrum, self.left_out, self.capacity, self.source, title=title)

    def sheet(self) -> Sheet:
        """Return exponents with their intervals, noise, shape and the stable learning rates."""
        a, b, c = self.capacity, self.source, self.predicted_exponent
        kurtosis = f"{self.kurtosis.spread:.3g}, {self.kurtosis.own:.3g}"
        stable = {str(batch): float(self.max_stable_learning_rate(batch)) for batch in BATCHES}
        quantities = [
            Quantity("", f"capacity exponent a, λ_i ∝ i^−a for i = {between(*a.range)}", a.value, a.interval),
            Quantity("", f"source exponent b, s_i ∝ i^−b for i = {between(*b.range)}", b.value, b.interval),
            Quantity("", "predicted exponent c, B* ∝ D^c", c.value, c.interval),
            Quantity("trace", "tr H", self.problem.trace),
            Quantity("initial_risk", "signal Σ s_i", self.problem.initial_risk),
            Quantity("noise_variance", "noise variance σ²", self.noise_variance),
            Quantity("", "kurtosis: of the norm χ, along directions δ (Gaussian: 1, 2)", kurtosis),
            *(Quantity("", f"largest stable γ at B = {batch}", rate) for batch, rate in stable.items()),
        ]
        exponents = {"capacity": a, "source": b}
        names = "value", "interval", "range", "scatter"
        settings = {
            "num_rows": self.num_rows,
            "num_features": self.problem.dim,
            "num_targets": self.num_targets,
            **{key: {name: getattr(each, name) for name in names} for key, each in exponents.items()},
            "predicted_exponent": vars(c),
            "noise_probability": self.noise_probability,
            "kurtosis": self.kurtosis._asdict(),
            "max_stable_learning_rate": stable,
        }
        targets = "1 target" if self.num_targets == 1 else f"{self.num_targets} targets"
        title = f"{self.num_rows} rows of {self.problem.dim} features, {targets}"
        return Sheet(title, [Table(quantities, interval=f"{self.level:.0%}")], [self.remark], settings)


def problem_from_data(
    features: Any,
    targets: Any,
    *,
    cross_fit: bool = True,
    fit_range: tuple[int, int] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> DataProblem:
    """The least-squares problem of rows of features and targets: spectrum, signal, noise, exponents (THEORY.md T32).

    The population's `H = E xxᵀ` and `s_i = λ_i ⟨v_i, w*⟩²`, with w_0 = 0, are estimated without the bias of noise:
    directions from one half of the rows, what lies along them from the other. Targets add up: the risk is linear in
    signal and noise. Nothing is centred: add a constant column for an intercept. Files are read in one pass a piece at
    a time, so they may be larger than memory.

    Args:
        features: (N, d) array or path of a `.npy` file, N ≥ 16 rows and d ≤ 4096 columns.
        targets: (N,) or (N, k) array or path of a `.npy` file.
        cross_fit: False takes the rows themselves for the population. `problem` then has the eigenvalues of XᵀX/N, the
            signal of the least-squares fit along them and its mean squared residual, as SGD meets them that draws from
            these rows with replacement. They are biased for what the rows were drawn from. Directions with an
            eigenvalue below 1e-12 of the largest count as noise.
        fit_range: first and last direction of the fits of exponents; by default 1 to as many as N rows resolve.
        level: of the intervals.
        seed: of the split.

    Returns:
        DataProblem.

    Raises:
        ValueError: not arrays of these shapes, numbers that are not finite, or all features 0.

    Example:
        >>> import numpy as np
        >>> import sgdtheory as st
        >>> index, random = np.arange(1.0, 101), np.random.default_rng(0)
        >>> x = random.standard_normal((20_000, 100)) * index**-1.0  # λ_i = i^−2
        >>> y = x @ index**-0.25 + random.standard_normal(20_000)  # s_i = i^−2.5
        >>> found = st.problem_from_data(x, y)
        >>> print(f"a = {found.capacity.value:.2f}, b = {found.source.value:.1f}, σ² = {found.noise_variance:.2f}")
        a = 2.00, b = 2.5, σ² = 0.99
        >>> critical = found.critical_batch_size(1e4)
        >>> print(critical.real_batch_size.round(1), critical.interval.round(1))
        [13.3] [[ 9.9 17.8]]

    Reference:
        THEORY.md T31, T32; the split is that of Bun, Bouchaud & Potters 2017 (Physics Reports 666), section 8.
    """
    rows = _rows(features, targets)
    level = share_between_0_and_1("level", level)
    seed = whole_number("seed", seed, 0)
    moments = grouped_moments(rows, seed)
    everything = np.ones(GROUPS, dtype=bool)
    if not moments.covariance.any():
        raise ValueError("features must not all be 0: there is nothing to learn from; check how they were made")
    if not moments.square.any():
        raise ValueError("targets must not all be 0: there is nothing to learn; check how they were made")
    estimate = cross_fitted_spectrum if cross_fit else sample_spectrum
    whole = estimate(moments, everything)
    left_out = tuple(estimate(moments, np.arange(GROUPS) != group) for group in range(GROUPS))
    problem = _problem(whole)
    kurtosis = kurtosis_of(rows, *np.linalg.eigh(moments.mean(everything)[0]))
    bounds = _bounds(fit_range, whole, left_out, kurtosis.spread)
    noise = noise_probability(moments, seed) if cross_fit else 0.0
    uncertainty = moments.uncertainty()
    exponents = _exponents(whole, left_out, bounds, kurtosis.spread, level)
    if uncertainty[0] > MOST_UNCERTAIN:
        exponents = _unknown(exponents[0]), _unknown(exponents[1])
    elif noise > LIKE_NOISE or uncertainty[1] > MOST_UNCERTAIN:
        exponents = exponents[0], _unknown(exponents[1])
    return DataProblem(
        problem=problem,
        capacity=exponents[0],
        source=exponents[1],
        noise_variance=problem.noise_variance,
        predicted_exponent=_predicted(*exponents),
        kurtosis=kurtosis,
        num_rows=len(rows),
        num_targets=rows.targets.shape[1],
        constant_columns=moments.constant,
        noise_probability=noise,
        remark=remark_on(moments, whole, rows.features.shape[1], exponents, noise),
        level=level,
        resolved=noise <= LIKE_NOISE and max(uncertainty) <= MOST_UNCERTAIN,
        spectrum=whole,
        left_out=left_out,
        rows=rows,
    )


def _rows(features: Any, targets: Any) -> Rows:
    rows = checked_rows(features, targets)
    size, dim = rows.features.shape
    if size < FEWEST_ROWS:
        raise ValueError(f"features must have at least {FEWEST_ROWS} rows to be split, got {size}; add rows")
    if dim > MOST_COLUMNS:
        raise ValueError(
            f"features must have at most {MOST_COLUMNS} columns, got {dim}; take leading principal components or a "
            "random projection of them"
        )
    return rows


def _problem(spectrum: Spectrum) -> LeastSquares:
    signal = pooled_signal(spectrum)
    return LeastSquares(spectrum.eigenvalues, signal, max(spectrum.square - float(signal.sum()), 0.0))


def _bounds(
    fit_range: tuple[int, int] | None, whole: Spectrum, left_out: tuple[Spectrum, ...], spread: float
) -> tuple[int, int]:
    positive = int(np.count_nonzero(whole.eigenvalues))
    if fit_range is not None:
        first, last = (whole_number("fit_range", value, 1) for value in fit_range)
        if not first + FEWEST_DIRECTIONS - 1 <= last <= positive:
            raise ValueError(
                f"fit_range must span at least {FEWEST_DIRECTIONS} of the {positive} directions with variance, got "
                f"{first} to {last}"
            )
        return first, last
    most = min(positive, int(whole.rows / (ROWS_PER_DIRECTION * max(spread, 1.0))))
    return 1, resolved_directions(whole, left_out, most) if most > FEWEST_DIRECTIONS else max(most, 1)


def _exponents(
    whole: Spectrum, left_out: tuple[Spectrum, ...], bounds: tuple[int, int], spread: float, level: float
) -> tuple[Exponent, Exponent]:
    if bounds[1] - bounds[0] + 1 < FEWEST_DIRECTIONS:
        unknown = Exponent(*NO_EXPONENT, bounds, 0.0)
        return unknown, unknown
    bins = bins_within(*bounds)
    capacity = capacity_exponent(whole, left_out, bins, max(spread, 0.5), level)
    return capacity, source_exponent(whole, left_out, bins, 2.0, level)


def _unknown(exponent: Exponent) -> Exponent:
    return Exponent(*NO_EXPONENT, exponent.range, 0.0)


def _predicted(capacity: Exponent, source: Exponent) -> Interval:
    """c and its ends over the box of the two intervals, in which it falls with a and rises with b."""
    unknown = Interval(float("nan"), (float("nan"), float("nan")))
    if not (capacity.value > 1 and source.value > 1):
        return unknown

    a, b = (np.clip([*each.interval, each.value], ABOVE_ONE, LARGE) for each in (capacity, source))
    low, high, value = (float(predicted_exponent(*pair)) for pair in ((a[1], b[0]), (a[0], b[1]), (a[2], b[2])))
    return Interval(value, (low, high))
