"""Does the critical batch size move with model width, or with data? Its exponent, and a test that there is none.

Each group of measurements (a width, a target) has a law Y = a_w + b_w/B or a piecewise curve, and from it B*_w. Log
steps scatter around the laws with one standard deviation s, which holds what seeds, tuning on a grid, and the law's
lack of fit add; it is estimated from all groups together, with f = Σ_w (m_w − 2) degrees of freedom. It makes a
standard error of log B*_w through the derivative of log B*_w in each log Y, and of the slope of log B* on log size.
What all steps of a group share moves B*_w and is not in s, but shows in the scatter of the B*_w around their line:
there are two intervals of the slope, from s with f degrees of freedom and from that scatter with W − 2, and the wider
one holds its level whatever the groups share (THEORY.md, T14). Two groups have no such scatter: whatever they differ by
may be it, the slope's interval is unlimited and the verdict inconclusive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy import stats

from sgdtheory._common.arguments import checked_name, positive_array, positive_number, real_array
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table, between, number
from sgdtheory._common.shown import Shown
from sgdtheory.fits.conventions import SMALLEST, Convention, common_convention, one_convention
from sgdtheory.fits.searches import last_crossing
from sgdtheory.fits.steps_fit import fit_steps_law
from sgdtheory.fits.steps_measurement import StepsMeasurement

Method = Literal["law", "interpolation", "balance"]
METHODS: Mapping[Method, str] = {"law": "B* of the law", "interpolation": "B* interpolated", "balance": "b/a"}
VerdictName = Literal["holds", "fails", "inconclusive"]
Pair = tuple[float, float] | np.ndarray


@dataclass(frozen=True, eq=False)
class SizeDependence(Shown):
    """Dependence of B* on a size: `B* ∝ size^slope`.

    With two sizes the slope has no interval and the verdict is "inconclusive": nothing tells scatter of B* between them
    from a slope. `standard_error` is what the scatter of steps alone makes.

    Attributes:
        sizes: (W,) widths, or amounts of data.
        critical: (W,) B*.
        standard_errors: (W,) of log B*, by s alone.
        scatter: s, standard deviation of log steps around the laws.
        freedom: f, degrees of freedom of s.
        slope, standard_error: of log B* on log size; the error by s alone.
        birge: scatter of log B* around its line over what s makes expect, with W − 2 degrees of freedom; nan with two
            sizes, which have no scatter around a line.
        margin: |slope| above which the verdict is that B* moves.
        level: of the intervals.
        method: "law", "interpolation" or "balance".
    """

    figure: ClassVar[str] = "size_dependence"

    sizes: np.ndarray
    critical: np.ndarray
    standard_errors: np.ndarray
    scatter: float
    freedom: int
    slope: float
    standard_error: float
    birge: float
    margin: float
    level: float
    method: Method

    def reach(self, level: float) -> float:
        """Return the standard errors that an interval at `level` reaches to each side: max{t_f, birge · t_{W−2}}.

        t_ν is Student's quantile at (1 + level)/2 with ν degrees of freedom. The first alone is right where groups
        share nothing, the second alone whatever they share; the larger misses at most as often as either. With two
        sizes W − 2 = 0, and it is infinite.
        """
        if self.sizes.size == 2:
            return float("inf")
        place = (1 + level) / 2
        between = self.birge * float(stats.t.ppf(place, self.sizes.size - 2))
        return max(self._reach_by_steps(level), between)

    def _reach_by_steps(self, level: float) -> float:
        """t_f: what groups share left out."""
        return float(stats.t.ppf((1 + level) / 2, self.freedom))

    @property
    def critical_intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """(W,) lower and (W,) upper ends of the intervals of B*, at `level`; with two sizes by s alone."""
        reach = self._reach_by_steps(self.level) if self.sizes.size == 2 else self.reach(self.level)
        half = reach * self.standard_errors
        return self.critical * np.exp(-half), self.critical * np.exp(half)

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the slope, at `level`; from −inf to inf with two sizes."""
        return self._interval(self.level)

    @property
    def equivalence_interval(self) -> tuple[float, float]:
        """Interval of the slope at the level 2·level − 1: inside ±margin, it rejects |slope| ≥ margin at 1 − level."""
        return self._interval(2 * self.level - 1)

    def _interval(self, level: float) -> tuple[float, float]:
        reach = self.reach(level)
        half = reach * self.standard_error if np.isfinite(reach) else np.inf  # also of steps without scatter
        return self.slope - half, self.slope + half

    @property
    def verdict(self) -> VerdictName:
        """The verdict on the claim that B* does not move with the size.

        "holds" if two one-sided tests reject |slope| ≥ margin, else "fails" if slope = 0 is rejected; "inconclusive"
        with two sizes, whatever they are.
        """
        return _verdict(self.equivalence_interval, self.interval, self.margin)

    @property
    def remark(self) -> str:
        """Return why no other verdict is possible; empty if one is."""
        two = "two sizes cannot distinguish scatter of B* between sizes from a slope: measure three or more"
        return two if self.sizes.size == 2 else ""

    def sheet(self) -> Sheet:
        """B* at each size, the slope, and the verdict."""
        quantities = [
            Quantity("size", "size", self.sizes),
            Quantity("critical_batch_size", "B*", self.critical, np.transpose(self.critical_intervals)),
        ]
        verdict = (
            f"B* ∝ size^p, p = {number(self.slope)} ({between(*self.interval)} at {self.level:.0%}); "
            f"that B* does not move, |p| < {self.margin:g}: {self.verdict}"
        )
        table = Table(quantities, "groups", interval=f"{self.level:.0%}", legend=verdict)
        return Sheet("critical batch size against size", [table], [self.remark])


def size_dependence(
    measurements: Sequence[StepsMeasurement],
    *,
    convention: Convention = SMALLEST,
    margin: float = 0.2,
    level: float = 0.95,
    method: Method = "law",
) -> SizeDependence:
    """B* of every group, and the exponent of its size in it.

    >>> import sgdtheory as st
    >>> found = st.size_dependence(st.example_measurements(), convention=st.Convention(256))
    >>> round(found.slope, 2), [round(end, 2) for end in found.interval], found.verdict
    (0.47, [0.42, 0.52], 'fails')

    Args:
        measurements: one a group, each with a size and three batch sizes or more. Two sizes have a slope, but no
            verdict.
        convention: of B*; without a reference the smallest batch size that all have.
        margin: |slope| above which the verdict is that B* moves; "holds" excludes larger slopes.
        level: of the intervals.
        method: "law": B* = ω b/a + (1 + ω) B_ref of a fitted a + b/B (THEORY.md, T13); "interpolation": read off
            without a law, see `interpolated_critical_batch_size`; "balance": b/a, where both steps and data are twice
            their least, which depends on no convention and moves the most.

    Raises:
        ValueError: fewer than two sizes, too few batch sizes, no common reference, or a B* that is not finite.
    """
    checked_name("method", method, METHODS)
    sizes = real_array("size", [each.size for each in measurements])
    if len(set(sizes)) < 2 or not (sizes > 0).all() or not np.isfinite(sizes).all():
        raise ValueError(f"measurements must have at least two different positive sizes, got {sizes.tolist()}")
    if not 0.5 < level < 1:
        raise ValueError(f"level must be between 0.5 and 1, got {level:g}")
    margin = positive_number("margin", margin)
    for each in measurements:
        positive_array("batch_sizes", each.batch_sizes)
    if convention.reference is None:
        # One reference for all groups: with different ones B* would move by its convention.
        convention = common_convention([each.batch_sizes for each in measurements], None, convention.overhead)
        if convention.reference is None:
            raise ValueError("reference must be given: the groups have no batch size in common")
    laws = [fit_steps_law(each.batch_sizes, each.steps) for each in measurements]
    freedom = sum(law.steps.size - 2 for law in laws)
    # One scatter for all groups: a group alone often has one or two degrees of freedom.
    scatter = float(np.sqrt(sum((law.residuals**2).sum() for law in laws) / freedom))
    critical = np.array([_found(method, each.batch_sizes, each.steps, convention) for each in measurements])
    if not np.isfinite(critical).all():
        groups = [each.group for each, value in zip(measurements, critical, strict=True) if not np.isfinite(value)]
        raise ValueError(
            f"B* or b/a is outside of the batch sizes measured for {', '.join(groups)}: measure or tune more"
        )
    errors = scatter * np.array([log_sensitivity(each, convention, method) for each in measurements])
    slope, error, birge = _line(np.log(sizes), np.log(critical), errors)
    return SizeDependence(sizes, critical, errors, scatter, freedom, slope, error, birge, margin, level, method)


@dataclass(frozen=True)
class PairedRatio:
    """B* of one way of training over that of another, with seeds and data in common.

    Attributes:
        first, second: B* of each.
        log_ratio, standard_error: of log(second/first), from the scatter of the differences of their log steps.
        freedom: degrees of freedom of the scatter.
    """

    first: float
    second: float
    log_ratio: float
    standard_error: float
    freedom: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the ratio second/first."""
        half = float(stats.t.ppf((1 + level) / 2, self.freedom)) * self.standard_error
        return float(np.exp(self.log_ratio - half)), float(np.exp(self.log_ratio + half))

    def verdict(self, margin: float, level: float = 0.95) -> VerdictName:
        """Return the verdict on the claim that both B* are the same.

        "holds" if two one-sided tests at 1 − level reject a ratio outside of 1/margin … margin, else "fails" if the
        interval at `level` leaves 1 out.
        """
        inner, outer = (np.log(self.interval(each)) for each in (2 * level - 1, level))
        return _verdict(inner, outer, np.log(margin))


def paired_ratio(
    first: StepsMeasurement,
    second: StepsMeasurement,
    *,
    reference: float | None = None,
    overhead: float = 0.2,
    convention: Convention | None = None,
) -> PairedRatio:
    """Compare B* of two ways of training that were measured with the same seeds and batch sizes.

    What both have in common (a lucky seed, the law's lack of fit) cancels: log steps of the two differ from their laws'
    difference by a scatter of their own, which is what makes the standard error.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> batch_sizes = np.array([16, 64, 256, 1024, 4096])
    >>> plain = st.fits.StepsMeasurement("float32", 64, batch_sizes, np.array([4130, 1180, 443, 262, 215]))
    >>> rounded = st.fits.StepsMeasurement("bfloat16", 64, batch_sizes, np.array([4150, 1188, 446, 263, 216]))
    >>> found = st.fits.paired_ratio(plain, rounded, reference=16)
    >>> found.verdict(margin=1.25), [round(end, 2) for end in found.interval()]
    ('holds', [0.93, 1.07])

    Args:
        first, second: at the same batch sizes, four or more.
        reference, overhead: of B* by the law; without a reference the smallest batch size.
        convention: both at once, in place of the two numbers.

    Raises:
        ValueError: different batch sizes, or fewer than four.
    """
    if not np.array_equal(first.batch_sizes, second.batch_sizes) or first.steps.size < 4:
        raise ValueError("first and second must be measured at the same batch sizes, four or more")
    laws = [fit_steps_law(each.batch_sizes, each.steps) for each in (first, second)]
    freedom = first.steps.size - 2
    scatter = float(np.sqrt(((laws[1].residuals - laws[0].residuals) ** 2).sum() / freedom))
    convention = one_convention(convention, reference, overhead)
    before, after = (law.critical_batch_size(convention=convention) for law in laws)
    sensitivity = max(log_sensitivity(each, convention) for each in (first, second))
    return PairedRatio(before, after, float(np.log(after / before)), scatter * sensitivity, freedom)


def _verdict(inner: Pair, outer: Pair, margin: float) -> VerdictName:
    """Verdict: "holds" if `inner` lies inside of ±margin, else "fails" if `outer` leaves 0 out."""
    if -margin < inner[0] and inner[1] < margin:
        return "holds"
    return "fails" if outer[0] > 0 or outer[1] < 0 else "inconclusive"


def interpolated_critical_batch_size(
    batch_sizes: ArrayLike, steps: ArrayLike, convention: Convention = SMALLEST
) -> float:
    """B* without a law: where the data B·Y(B) last cross (1 + ω) times those of the reference.

    Between two batch sizes the data lie on a line in B, as those of a + b/B do, b + aB: for them B* is exact on any
    grid of batch sizes. (Lines in log B and log data are chords of a convex curve: with batch sizes a factor of 2.5
    apart they put B* up to 8% too low, by its place in the grid, which passes for a slope and matters where steps
    scatter by 1% or less.) Data that bend in B are read off too low: those of a + b/B^1.3 by up to 5%, exact risks of
    regression by up to 14%. The intervals of `size_dependence` allow for it, because such data do not follow the law
    and their misfit is in s: it comes to one standard error of B*, whatever the steps scatter by.

    >>> import numpy as np
    >>> from sgdtheory.fits import Convention, interpolated_critical_batch_size
    >>> batch_sizes = np.array([16, 40, 100, 250])
    >>> found = interpolated_critical_batch_size(batch_sizes, 300 * (1 + 150 / batch_sizes), Convention(16, 0.2))
    >>> round(found, 6)  # 0.2 · 150 + 1.2 · 16
    49.2

    Args:
        batch_sizes: (m,) increasing.
        steps: (m,) steps to the target.
        convention: of B*; its reference between the smallest batch size, which is the default, and the largest.

    Returns:
        B*, on a line between two batch sizes; nan if the largest batch size is still below it, or the reference
        outside of the measurements.
    """
    batch_sizes = real_array("batch_sizes", batch_sizes)
    reference, overhead = convention.reference_among(batch_sizes), convention.overhead
    data = batch_sizes * real_array("steps", steps)
    if not batch_sizes[0] <= reference <= batch_sizes[-1]:
        return float("nan")
    excess = data - (1 + overhead) * np.interp(reference, batch_sizes, data)
    found = last_crossing(batch_sizes, excess)
    # Without a crossing the largest batch size is still below B*, which has no number then.
    return found if np.isfinite(found) else float("nan")


def _found(method: Method, batch_sizes: np.ndarray, steps: np.ndarray, convention: Convention) -> float:
    """B* or b/a, by a method; nan where the measurements do not have it."""
    if method == "interpolation":
        return interpolated_critical_batch_size(batch_sizes, steps, convention)
    law = fit_steps_law(batch_sizes, steps)
    if method == "law":
        return law.critical_batch_size(convention=convention)
    return law.E_min / law.S_min if law.a and law.b else float("nan")


def log_sensitivity(measurement: StepsMeasurement, convention: Convention = SMALLEST, method: Method = "law") -> float:
    """(Σ_B (∂ log B* / ∂ log Y_B)²)^½: standard error of log B* over that of log steps.

    >>> import sgdtheory as st
    >>> from sgdtheory.fits import log_sensitivity
    >>> round(log_sensitivity(st.example_measurements()[0], st.Convention(256)), 2)
    0.62
    """
    slopes = []
    step = 1e-4  # of log steps: central differences are off by 1e-8, about as much as the roundings of fits make
    for place in range(measurement.steps.size):
        ends = []
        for sign in (-1, 1):
            steps = measurement.steps.copy()
            steps[place] *= np.exp(sign * step)
            ends.append(np.log(_found(method, measurement.batch_sizes, steps, convention)))
        slopes.append((ends[1] - ends[0]) / (2 * step))
    return float(np.linalg.norm(slopes))


def _line(x: np.ndarray, y: np.ndarray, errors: np.ndarray) -> tuple[float, float, float]:
    """Slope of weighted least squares, its standard error by `errors`, and the Birge ratio (nan of two points)."""
    weights = 1 / np.maximum(errors, 1e-12) ** 2
    mean_x, mean_y = (weights @ each / weights.sum() for each in (x, y))
    squares = weights @ (x - mean_x) ** 2
    slope = weights @ ((x - mean_x) * (y - mean_y)) / squares
    rest = y - mean_y - slope * (x - mean_x)
    birge = np.sqrt(weights @ rest**2 / (x.size - 2)) if x.size > 2 else np.nan
    return float(slope), float(squares**-0.5), float(birge)
