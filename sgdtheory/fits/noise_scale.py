"""The gradient noise scale from squared norms of gradients at two batch sizes, as a run logs them.

A gradient of b samples has `E‖g_b‖² = ‖G‖² + tr Σ/b` under every quadratic norm, so that with two batch sizes b < B

    ‖G‖² ≈ (B‖g_B‖² − b‖g_b‖²)/(B − b),    tr Σ ≈ (‖g_b‖² − ‖g_B‖²)/(1/b − 1/B)

are unbiased at every step (McCandlish et al. 2018, appendix A.1). Their ratio is not, nor are means of it: both are
averaged over steps first. The interval is Fieller's: with ρ the noise scale, `tr Σ − ρ‖G‖²` has the mean 0.
"""

import functools
from dataclasses import dataclass

import numpy as np
from scipy import signal, special

from sgdtheory._common.arguments import positive_array, real_array, share_between_0_and_1, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import ABSENT, Quantity, Sheet, Table, between, number
from sgdtheory._common.shown import Shown

# Rows form at most this many blocks: Student's t with 31 degrees of freedom is within 4% of a normal quantile.
BLOCKS = 32
# Rows form at least this many blocks, also if they are too short: the quantile of t(3) is 1.6 times a normal one.
FEWEST_BLOCKS = 4
# A block has this length in correlation times: neighbouring blocks then share a tenth of their variance.
MEMORIES = 5
FEWEST = 8  # With fewer rows means of squares are far from normal.


@dataclass(frozen=True, eq=False)
class NoiseScalePath:
    """The gradient noise scale along a run, window by window; made by `NoiseScaleFit.path`.

    Attributes:
        steps: (k,) mean step of each window.
        noise_scale: (k,) in samples; inf where ‖G‖² is not above 0.
        low, high: (k,) ends of each window's own interval.
        squared_gradient, trace: (k,) means of ‖G‖² and of tr Σ.
    """

    steps: np.ndarray
    noise_scale: np.ndarray
    low: np.ndarray
    high: np.ndarray
    squared_gradient: np.ndarray
    trace: np.ndarray


@dataclass(frozen=True, eq=False)
class NoiseScaleFit(Shown):
    """The gradient noise scale `tr Σ/‖G‖²` of the logged steps; made by `fit_noise_scale` (THEORY.md T46).

    Attributes:
        steps: (n,) of the rows.
        squared_gradients, traces: (n,) unbiased estimates of ‖G‖² and of tr Σ, a row each, in any one unit.
        left_out: rows with a norm that was not logged, or not finite.
    """

    steps: np.ndarray
    squared_gradients: np.ndarray
    traces: np.ndarray
    left_out: int = 0

    @property
    def equal(self) -> int:
        """Return the number of rows with the same norm at both batch sizes."""
        return int((self.traces == 0).sum())

    @property
    def squared_gradient(self) -> float:
        """Mean of ‖G‖², without bias; noise may leave it below 0."""
        return float(self.squared_gradients.mean())

    @property
    def trace(self) -> float:
        """Mean of tr Σ, without bias."""
        return float(self.traces.mean())

    @property
    def noise_scale(self) -> float:
        """Mean of tr Σ over mean of ‖G‖², in the unit of the batch sizes; inf where ‖G‖² is not above 0."""
        return max(0.0, self.trace) / self.squared_gradient if self.squared_gradient > 0 else float("inf")

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Fieller's interval: the ρ ≥ 0 at which a t-test of blocks does not refute `E[tr Σ − ρ‖G‖²] = 0`.

        Blocks are consecutive rows. The test holds its level where they scatter unequally, as in a run whose gradients
        shrink (Ibragimov & Müller 2010), and where rows within a block depend on each other. A trend of ρ itself
        widens it.

        >>> import numpy as np
        >>> import sgdtheory as st
        >>> draw = np.random.default_rng(0)
        >>> micro = 1 + draw.standard_normal((500, 8, 20)) * 2  # (step, micro batch of 4, parameter), ‖G‖² = 20
        >>> norms = (micro**2).sum(2).mean(1), (micro.mean(1) ** 2).sum(1)  # tr Σ = 4 · 20 · 2²
        >>> found = st.fit_noise_scale(*norms, small_batch=4, large_batch=32)
        >>> [round(end, 1) for end in found.interval()]
        [15.4, 16.4]

        Args:
            level: confidence level in (0, 1).

        Returns:
            (low, high); high = inf where ‖G‖² may be 0; (nan, nan) where no ρ ≥ 0 fits, as with norms
            that were interchanged; (0, inf) where a norm is the same at both batch sizes.
        """
        quantile = special.stdtrit(self._blocks().shape[1] - 1, (1 + share_between_0_and_1("level", level)) / 2)
        if self.equal:
            return 0.0, float("inf")
        return _fieller(self._blocks(), float(quantile))

    @property
    def drift(self) -> float:
        """p-value of a test that the noise scale stands still along the run, against a trend.

        The statistic is `Σ_j (c_j − c̄) v_j (tr Σ_j − ρ‖G_j‖²)` over blocks in order: c_j = j, v_j one over the level of
        the block before, which makes early blocks count as late ones do, and c̄ the mean of c_j weighted with
        v_j‖G_j‖², so that ρ drops out. It is divided by the root of the sum of its squared terms and held against
        Student's t. nan where ‖G‖² cannot be distinguished from 0 at 95%.
        """
        blocks = self._blocks()
        if self.equal or not np.isfinite(_fieller(blocks, float(special.stdtrit(blocks.shape[1] - 1, 0.975)))[1]):
            return float("nan")
        squared, trace = blocks[:, 1:] / np.maximum(np.abs(blocks[:, :-1]).sum(0), 1e-300)
        place = np.arange(squared.size)
        leverage = squared / squared.sum()  # of a block on ρ, which makes it lie less off ρ than it did
        terms = (place - place @ leverage) * (trace - trace.sum() * leverage)
        squares = (terms / (1 - leverage)) ** 2
        share = terms.sum() ** 2 / max(squares.sum(), 1e-300)  # 0 … k; a function of Student's t where terms are alike
        freedom = squared.size - 2
        return float(2 * special.stdtr(freedom, -np.sqrt(freedom * share / max(squared.size - share, 1e-300))))

    @property
    def remark(self) -> str:
        """Reason to trust the number less than its interval suggests; "" if there is none."""
        if self.equal:
            return (
                f"{self.equal} of {self.steps.size} rows have the same norm at both batch sizes, so that the noise "
                "scale is unknown: give the column of the small batches and that of the large ones"
            )
        low, high = self.interval()
        reasons = []
        if np.isnan(low):
            reasons.append("no noise scale fits these norms: were they interchanged, clipped, or smoothed apart?")
        elif np.isinf(high):
            reasons.append(
                "‖G‖² cannot be distinguished from 0: log more steps or a larger large batch, and leave out the first "
                "steps if their gradients are far larger"
            )
        if self._heavy_tails:
            reasons.append(
                "the norms have heavy tails, so that a few rows decide tr Σ: the noise scale and its interval may be "
                "too low; log more rows"
            )
        if FEWEST_BLOCKS * MEMORIES * self._memory > self.steps.size and self._memory > 1:
            reasons.append("rows depend on each other, so that the interval is too narrow: give norms before smoothing")
        elif self.drift < 1e-3:  # the test needs blocks that are independent
            reasons.append("the noise scale moves along the run: see its path")
        return "; ".join(reasons)

    def path(self, num_windows: int = 8, level: float = 0.95) -> NoiseScalePath:
        """The noise scale of consecutive windows of rows, each with its own interval.

        Args:
            num_windows: at most as many as leave eight rows to each.
            level: of each interval alone, not of all together.
        """
        whole_number("num_windows", num_windows, 1)
        if self.steps.size < FEWEST * num_windows:
            raise ValueError(
                f"num_windows must leave {FEWEST} rows to each window, got {num_windows} for {self.steps.size} rows"
            )
        parts = [
            NoiseScaleFit(*rows)
            for rows in zip(
                *(np.array_split(each, num_windows) for each in (self.steps, self.squared_gradients, self.traces))
            )
        ]
        # Rows are in the order of their steps, so that parts are windows of the run.
        rows = [
            (part.steps.mean(), part.noise_scale, *part.interval(level), part.squared_gradient, part.trace)
            for part in parts
        ]
        return NoiseScalePath(*np.array(rows).T)

    def _blocks(self) -> np.ndarray:
        """(2, k) sums of ‖G‖² and tr Σ over blocks of rows, five times as long as rows depend on each other."""
        fitting = int(self.steps.size / (MEMORIES * self._memory)) if self._memory > 1 else BLOCKS
        number = min(BLOCKS, self.steps.size, max(FEWEST_BLOCKS, fitting))
        starts = np.linspace(0, self.steps.size, number + 1).astype(int)[:-1]
        return np.add.reduceat([self.squared_gradients, self.traces], starts, axis=1)

    @functools.cached_property
    def _memory(self) -> float:
        """Number of rows that count as one, (1 + r)/(1 − r) of the correlation r of neighbours; 1 if r may be chance.

        The correlation is that of S − ρG without its trend in each quarter of the run: a noise scale that moves is no
        dependence. In short logs the trends take most of it, while differences of rows keep theirs: −½ if rows are
        independent, near 0 if they were smoothed. A correlation counts if it exceeds chance by 3.9 standard deviations
        (1 in 10⁴), or that of differences by 2.6 (1 in 200), which sees short smoothed logs and no slow trend.
        """
        windows = np.linspace(0, self.steps.size, 4 + 1).astype(int)[:-1]
        ratio = self.trace / self.squared_gradient if self.squared_gradient else 0.0
        raw = self.traces - ratio * self.squared_gradients
        off = _over_levels(signal.detrend(raw, bp=windows[1:]), windows)
        products = off[1:] * off[:-1]
        by_rows = products.sum() >= 3.9 * np.sqrt(products @ products)
        steps = _over_levels(np.diff(raw), windows)
        of_steps = (steps[1:] @ steps[:-1]) / max(steps @ steps, 1e-300)
        # Bartlett's formula: for independent rows this correlation has the variance 1/(2 n).
        by_steps = of_steps + 0.5 >= 2.6 * np.sqrt(0.5 / steps.size)
        if not off.any() or not (by_rows or by_steps):
            return 1.0
        # Exponential smoothing makes it 1 + 2 of_steps; the trends of short windows take most of the other estimate.
        correlation = max(products.sum() / (off @ off), 1 + 2 * of_steps if by_steps else 0.0)
        correlation = float(np.clip(correlation, 0.0, 1 - 1 / off.size))
        return (1 + correlation) / (1 - correlation)

    @functools.cached_property
    def _heavy_tails(self) -> bool:
        """Return whether rows of tr Σ have an infinite variance: Hill's estimator of their tail index is below 2.

        The estimator takes the √n largest rows, and one row must have a tenth of the sum of squares. In 500 rows it
        finds t(3) in 82 of 100 logs and t(2.2) in all. False alarms of gradients of regression: 3 of 100 where norms
        are means over eight micro batches, 29 to 52 with a single one. Fewer than 400 rows cannot distinguish these.
        """
        if self.steps.size < 400 or self._memory > 1:
            return False
        # Rows count by the level and the scale of their eighth of the run: both follow a run whose norms fall.
        parts = [part - np.median(part) for part in np.array_split(self.traces, 8)]
        off = np.concatenate([part / max(np.median(np.abs(part)), 1e-300) for part in parts])
        largest = np.sort(off)[::-1][: int(np.sqrt(off.size)) + 1]
        if largest[-1] <= 0 or largest[0] ** 2 < 0.1 * (off @ off):
            return False
        return bool(np.log(largest[:-1] / largest[-1]).mean() > 1 / 2.0)

    def sheet(self, level: float = 0.95) -> Sheet:
        """Return the noise scale with its interval, and its path in at most eight windows.

        Windows have 32 rows or more: the interval of each then rests on 32 blocks, as that of the whole run does.
        """
        path = self.path(max(1, min(8, self.steps.size // BLOCKS)), level)
        quantities = [
            Quantity("", "mean step", np.round(path.steps)),
            Quantity("", "noise scale", path.noise_scale, np.stack([path.low, path.high], axis=-1)),
            Quantity("", "‖G‖²", path.squared_gradient),
            Quantity("", "tr Σ", path.trace),
        ]
        drift = f"Test for a constant noise scale: p = {self.drift:.2g}. " if np.isfinite(self.drift) else ""
        legend = f"{drift}The noise scale has the unit of the batch sizes."
        low, high = self.interval(level)
        settings = {
            "noise_scale": self.noise_scale,
            "interval": (low, high),
            "level": level,
            "rows": self.steps.size,
            "left_out": self.left_out,
            "squared_gradient": self.squared_gradient,
            "trace": self.trace,
            "drift": self.drift,
            "path": vars(path),
        }
        rows_have = "1 row has" if self.left_out == 1 else f"{self.left_out} rows have"
        missing = f"{rows_have} a norm that is missing or not finite: left out" if self.left_out else ""
        ends = ABSENT if np.isnan(low) else between(low, high)
        # Without an upper end the quotient says little, and the first line has the lower end instead.
        value = f"{number(self.noise_scale)} ({ends})"
        if np.isinf(high):
            value = f"at least {number(low)} ({level:.0%}), without an upper bound" if low > 0 else "not determined"
        title = f"gradient noise scale tr Σ/‖G‖²: {value}, {self.steps.size} rows"
        table = Table(quantities, interval=f"{level:.0%}", legend=legend)
        return Sheet(title, [table], [self.remark, missing], settings)


def fit_noise_scale(
    small_norms: ArrayLike,
    large_norms: ArrayLike,
    *,
    small_batch: ArrayLike,
    large_batch: ArrayLike,
    steps: ArrayLike | None = None,
) -> NoiseScaleFit:
    """Fit the gradient noise scale `tr Σ/‖G‖²` to squared gradient norms at two batch sizes (THEORY.md T46).

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> draw = np.random.default_rng(0)
    >>> micro = 1 + draw.standard_normal((500, 8, 20)) * 2  # (step, micro batch of 4, parameter), ‖G‖² = 20
    >>> small, large = (micro**2).sum(2).mean(1), (micro.mean(1) ** 2).sum(1)  # tr Σ = 4 · 20 · 2²
    >>> found = st.fit_noise_scale(small, large, small_batch=4, large_batch=32)
    >>> round(found.noise_scale, 1), round(found.squared_gradient, 1), round(found.trace)
    (15.9, 20.1, 319)

    Args:
        small_norms: (n,) ‖g_b‖² at each logged step, of one micro batch or averaged over micro batches (of the squares:
            never the square of an average). nan and inf (steps that mixed
            precision skipped) are left out.
        large_norms: (n,) ‖g_B‖² at the same steps, in the same unit; the small batch may be part of the large one.
            Both before clipping, under any one quadratic norm.
        small_batch, large_batch: b < B, samples (or sequences, or tokens) of the two; one number, or (n,) of a ramp.
        steps: (n,) of the rows; None: 0, 1, 2, …

    Returns:
        NoiseScaleFit.

    Raises:
        ValueError: lengths that differ, fewer than eight rows with both norms, norms that are not positive, or b ≥ B.

    Reference:
        McCandlish et al. 2018, "An Empirical Model of Large-Batch Training".
    """
    small, large = real_array("small_norms", small_norms), real_array("large_norms", large_norms)
    if small.ndim != 1 or small.shape != large.shape:
        raise ValueError(
            f"small_norms and large_norms must be one-dimensional and of one length, got shapes {small.shape} and "
            f"{large.shape}"
        )
    at = np.arange(small.size, dtype=float) if steps is None else _of_rows("steps", real_array("steps", steps), small)
    small_batch = _of_rows("small_batch", positive_array("small_batch", small_batch), small)
    large_batch = _of_rows("large_batch", positive_array("large_batch", large_batch), small)
    if (small_batch >= large_batch).any():
        raise ValueError("small_batch must be smaller than large_batch at every row")
    logged = np.isfinite(small) & np.isfinite(large)
    if logged.sum() < FEWEST:
        raise ValueError(
            f"small_norms and large_norms must have {FEWEST} rows with both, got {logged.sum()} of {small.size}: the "
            "others are nan or inf"
        )
    positive_array("small_norms", small[logged])
    positive_array("large_norms", large[logged])
    # The difference of two infinite norms would warn.
    small, large = (np.where(logged, each, np.nan) for each in (small, large))
    squared = (large_batch * large - small_batch * small) / (large_batch - small_batch)
    trace = (small - large) / (1 / small_batch - 1 / large_batch)
    order = np.argsort(at[logged], kind="stable")
    rows = (each[logged][order] for each in (at, squared, trace))
    return NoiseScaleFit(*rows, left_out=int(small.size - logged.sum()))


def _of_rows(name: str, value: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """`value` for each row."""
    if value.shape not in ((), rows.shape):
        raise ValueError(f"{name} must be one number or one a row, got shape {value.shape} for {rows.size} rows")
    return np.broadcast_to(value, rows.shape)


def _over_levels(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return values over their root sum of squares in each window."""
    level = np.add.reduceat(values**2, starts) + 1e-300
    return values / np.sqrt(np.repeat(level, np.diff(starts, append=values.size)))


def _fieller(blocks: np.ndarray, quantile: float) -> tuple[float, float]:
    """The least and the largest ρ ≥ 0 with `(S − ρG)² ≤ t² k var(S_j − ρG_j)`, G and S sums of k blocks; inf at most.

    That is `q(ρ) = q₀ + q₁ρ + q₂ρ² ≤ 0`. At ρ = ∞ it holds iff q₂ ≤ 0: iff G cannot be distinguished from 0.
    """
    squared, trace = blocks.sum(1)
    ((var_squared, shared), (_, var_trace)) = quantile**2 * blocks.shape[1] * np.cov(blocks)
    constant = trace**2 - var_trace
    linear = -2 * (trace * squared - shared)
    leading = squared**2 - var_squared
    within = constant <= 0, leading <= 0  # is ρ = 0 in the set, is ρ = ∞
    if all(within):
        return 0.0, float("inf")
    if not any(within) and min(squared, trace) <= 0:  # a ratio of wrong signs, both distinguished from 0
        return float("nan"), float("nan")
    root = np.sqrt(max(0.0, linear**2 - 4 * constant * leading))  # real, as ρ = S/G is in the set and not all ρ are
    towards = -(linear + np.copysign(root, linear)) / 2  # no difference of numbers that are alike
    if towards == 0:  # S is 0 in all blocks: so is ρ
        return 0.0, (float("inf") if within[1] else 0.0)
    ends = sorted(each for each in (towards / leading, constant / towards) if each >= 0)
    return (0.0 if within[0] else float(ends[0])), (float("inf") if within[1] else float(ends[-1]))
