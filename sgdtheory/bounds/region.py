"""Proofs over regions of settings, by branch and bound with balls."""

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.arguments import real_array, single_number, whole_array, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.bounds.ball_spectra import ListedBalls
from sgdtheory.bounds.balls import Undecided, flint
from sgdtheory.bounds.certificate import Certificate, certify, checked_bound, stated
from sgdtheory.bounds.enclosed_risk import Node, Run, first_averaged, stepped
from sgdtheory.bounds.published import PublishedBound
from sgdtheory.problems import LeastSquares

BITS = 128
DIGITS_SHOWN = 4

Range = float | tuple[float, float]


@dataclass(frozen=True, repr=False)
class RegionCertificate:
    """Shares of the volume of a region in which `lower ≤ exact/bound ≤ upper` is proven, refuted or open.

    Attributes:
        lower: as asked, 0 if not.
        upper: as asked, inf if not.
        proven: share where it is proven.
        outside: share where a condition of the bound certainly fails.
        open: what is left, boxes `{name: (from, to)}`.
        counterexample: a setting where it certainly fails; None if none was met.
        boxes: how many were looked at.
    """

    lower: float
    upper: float
    proven: float
    outside: float
    open: tuple[Mapping[str, Any], ...]
    counterexample: Certificate | None
    boxes: int

    @property
    def holds(self) -> bool:
        """Return whether the claim is proven wherever the conditions hold, and they hold somewhere."""
        return self.counterexample is None and not self.open and self.proven > 0

    @property
    def proves(self) -> str:
        """One sentence."""
        claim = " ≤ ".join(
            [f"{self.lower!r}"] * (self.lower > 0) + ["exact/bound"] + [f"{self.upper!r}"] * (self.upper < math.inf)
        )
        if self.counterexample is not None:
            return f"{claim} is refuted: {self.counterexample.attained}"
        if not (self.open or self.proven):
            return f"the bound applies nowhere here ({self.boxes} boxes)"
        outside = f", {_share(self.outside)} of the region are outside the bound's conditions" if self.outside else ""
        if self.holds:
            return f"{claim} is proven on the whole region ({self.boxes} boxes{outside})"
        left = f"{len(self.open)} boxes are left open"
        return f"{claim} is proven on {_share(self.proven)} of the region ({self.boxes} boxes{outside}), {left}"

    def __str__(self) -> str:
        """The sentence, and the largest boxes that are left."""
        rows = [", ".join(f"{name} {_shown(value)}" for name, value in box.items()) for box in self.open[:3]]
        return "\n".join([self.proves, *(f"  open: {row}" for row in rows)])

    __repr__ = __str__


class _Region(NamedTuple):
    """Quantities that are the same for all boxes of a region."""

    bound: PublishedBound
    batch: int
    dim: int
    lower: float
    upper: float
    widths: tuple[float, ...]  # of all ranges, 0 of numbers


class _Box(NamedTuple):
    """Ends of λ_1 … λ_d, s_1 … s_d, σ² and γ, at n steps."""

    steps: int
    ends: tuple[tuple[float, float], ...]

    @property
    def middle(self) -> tuple[float, ...]:
        """A point of it, exactly a float."""
        return tuple(low if low == high else (low + high) / 2 for low, high in self.ends)

    def halves(self, place: int) -> Iterator["_Box"]:
        """Cut in the middle of one side."""
        low, high = self.ends[place]
        middle = self.middle[place]
        for side in ((low, middle), (middle, high)):
            yield self._replace(ends=(*self.ends[:place], side, *self.ends[place + 1 :]))


class _Seen(NamedTuple):
    """Answer of balls about a box: "proven", "outside", "refuted" or "open"; and which side to cut then."""

    verdict: str
    cut: int = 0


def certify_region(
    bound: PublishedBound,
    *,
    eigenvalues: Sequence[Range],
    signal: Sequence[Range],
    noise_variance: Range,
    learning_rate: Range,
    batch_size: int = 1,
    num_steps: ArrayLike,
    lower: float = 0.0,
    upper: float = math.inf,
    quantity: str = "total",
    most_boxes: int = 10_000,
) -> RegionCertificate:
    """Prove `lower ≤ exact/bound ≤ upper` on a region of settings, or find where it fails.

    Every number of the problem, and γ, is a float or a range `(from, to)`. The region is cut into boxes until balls
    decide each: the ratio is enclosed by its value at the middle and the ranges of its derivatives, or by its range
    itself. That takes long where several numbers are free, or the ratio comes to `lower` or `upper` itself.

    Example:
        >>> import sgdtheory as st
        >>> region = dict(eigenvalues=[1.0, (0.1, 1.0)], signal=[1.0, 1.0], noise_variance=(0.5, 2.0), num_steps=[2, 4])
        >>> print(st.bounds.certify_region(st.bounds.bach_moulines_2013, learning_rate=0.1, upper=0.5, **region).holds)
        True

    Args:
        bound: a PublishedBound.
        eigenvalues: (d,) λ_1 ≥ λ_2 ≥ …, each a float or a range; ranges may touch, not overlap.
        signal: (d,) s_i, each a float or a range.
        noise_variance: σ², a float or a range.
        learning_rate: γ > 0, a float or a range.
        batch_size: B.
        num_steps: n, a whole number or several.
        lower: what exact/bound is at least.
        upper: what exact/bound is at most.
        quantity: "total": published bounds are on nothing else.
        most_boxes: how many to look at.

    Returns:
        RegionCertificate.

    Raises:
        ValueError: an argument outside its range, or nothing to prove.
        ImportError: python-flint is missing.
    """
    flint()
    if not isinstance(bound, PublishedBound):
        raise ValueError(f"bound must be a PublishedBound, whose formula can be enclosed, got {bound!r}")
    checked_bound(bound, quantity)
    eigenvalues = _listed("eigenvalues", eigenvalues)
    signal = _listed("signal", signal)
    ends = _ends(eigenvalues, signal, noise_variance, learning_rate)
    steps = [int(number) for number in np.unique(whole_array("num_steps", num_steps))]
    for number in steps:
        first_averaged(bound.algorithm, number)  # refuses other algorithms
    widths = tuple(high - low for low, high in ends)
    batch = whole_number("batch_size", batch_size, 1)
    most = whole_number("most_boxes", most_boxes, 1)
    region = _Region(bound, batch, len(eigenvalues), *_claimed(lower, upper), widths)
    with _derivatives():
        return _searched(region, [_Box(number, ends) for number in steps], most)


def _claimed(lower: float, upper: float) -> tuple[float, float]:
    lower = single_number("lower", lower)
    upper = single_number("upper", upper)
    if not (0 <= lower < math.inf and lower <= upper):
        raise ValueError(f"lower must be finite, not negative and at most upper, got {lower} and {upper}")
    if not (lower > 0 or upper < math.inf):
        raise ValueError("lower or upper must be given: there is nothing to prove")
    return lower, upper


def _listed(name: str, given: Any) -> list[Any]:
    try:
        return list(given)
    except TypeError:
        raise ValueError(f"{name} must list a number or a range for each direction, got {given!r}") from None


def _ends(eigenvalues: Any, signal: Any, noise: Any, rate: Any) -> tuple[tuple[float, float], ...]:
    if len(eigenvalues) != len(signal) or not len(signal):
        raise ValueError(f"signal must have one entry for each eigenvalue, got {len(signal)} for {len(eigenvalues)}")
    named = [("eigenvalues", each) for each in eigenvalues] + [("signal", each) for each in signal]
    ends = []
    for name, given in [*named, ("noise_variance", noise), ("learning_rate", rate)]:
        low, high = np.broadcast_to(real_array(name, given), 2) if np.size(given) in (1, 2) else (1.0, 0.0)
        if not (0 <= low <= high < math.inf) or (name == "learning_rate" and low == 0):
            raise ValueError(f"{name} must be a number or a range (from, to), finite and not negative, got {given!r}")
        ends.append((float(low), float(high)))
    if any(after[1] > before[0] for before, after in itertools.pairwise(ends[: len(eigenvalues)])):
        raise ValueError(f"eigenvalues must fall, and their ranges must not overlap, got {eigenvalues!r}")
    if all(low == high for low, high in ends):
        raise ValueError("at least one number must be a range (from, to); for a single setting there is certify")
    return tuple(ends)


def _searched(region: _Region, boxes: list[_Box], most: int) -> RegionCertificate:
    """The largest box first."""
    share = Fraction(1, len(boxes))
    queue = [(-share, number, box) for number, box in enumerate(boxes)]
    looked = 0
    done = {"proven": Fraction(0), "outside": Fraction(0)}
    whole: list[_Box] = []  # as small as floats allow
    refuted = None
    while queue and looked < most and refuted is None:
        size, _, box = heapq.heappop(queue)
        looked += 1
        seen = _look(region, box)
        if seen.verdict in done:
            done[seen.verdict] -= size
        elif seen.verdict == "refuted":
            heapq.heappush(queue, (size, 0, box))
            refuted = _at(region, box)
        elif box.middle[seen.cut] in box.ends[seen.cut]:
            whole.append(box)
        else:
            for half, part in enumerate(box.halves(seen.cut)):
                heapq.heappush(queue, (size / 2, len(boxes) + 2 * looked + half, part))
    left = tuple(_readable(region, box) for box in [*(box for *_, box in sorted(queue)), *whole])
    return RegionCertificate(
        region.lower, region.upper, float(done["proven"]), float(done["outside"]), left, refuted, looked
    )


def _look(region: _Region, box: _Box) -> _Seen:
    arb = flint().arb
    ranges = [arb(low).union(arb(high)) for low, high in box.ends]
    free = [place for place, (low, high) in enumerate(box.ends) if high > low]
    widest = max(free, key=lambda place: (box.ends[place][1] - box.ends[place][0]) / region.widths[place])
    middle = [arb(value) for value in box.middle]
    try:
        whole = _ratio(region, box.steps, ranges)
        at_middle = None if whole is None else _ratio(region, box.steps, middle)
    except Undecided:
        return _Seen("open", widest)
    if whole is None or at_middle is None:
        return _Seen("outside")
    if not whole.is_finite():
        return _Seen("open", widest)
    slopes = [_slope(region, box, ranges, place) * (ranges[place] - middle[place]) for place in free]
    near = sum(slopes, start=at_middle)
    if _within(region, whole) or _within(region, near):
        return _Seen("proven")
    if at_middle > region.upper or at_middle < region.lower:
        return _Seen("refuted")
    sizes = [float(abs(slope).upper()) for slope in slopes]
    known = all(map(math.isfinite, sizes)) and max(sizes) > 0
    return _Seen("open", free[int(np.argmax(sizes))] if known else widest)


def _slope(region: _Region, box: _Box, ranges: list[Any], place: int) -> Any:
    """The derivative of exact/bound by one number over the box, from series of two terms; nan where it has none."""
    series = flint().arb_series
    moving = [series([value, 1]) if k == place else value for k, value in enumerate(ranges)]
    try:
        return _ratio(region, box.steps, moving)[1]
    except (Undecided, ValueError):  # the larger of two that overlap; a root or a quotient of what may be 0
        return flint().arb.nan()


def _within(region: _Region, ratio: Any) -> bool:
    above = region.lower == 0 or bool(ratio >= region.lower)  # 0 is no claim, and balls reach below it
    return above and (region.upper == math.inf or bool(ratio <= region.upper))


def _ratio(region: _Region, steps: int, numbers: list[Any]) -> Any:
    """Exact/bound, a ball or a series; None where a condition of the bound certainly fails.

    Raises:
        Undecided: whether one does.
    """
    eigenvalues = numbers[: region.dim]
    signal = numbers[region.dim : 2 * region.dim]
    noise, rate = numbers[-2:]
    spectrum = ListedBalls(eigenvalues, signal, noise)
    found = stated(region.bound, spectrum, region.batch, rate, steps)
    if not all(found.conditions.values()):
        return None
    nodes = [Node(value, part, value * value) for value, part in zip(eigenvalues, signal, strict=True)]
    first = first_averaged(region.bound.algorithm, steps)
    return stepped(nodes, Run(flint().arb(region.batch), rate, steps, first, noise)) / found.value.value


def _at(region: _Region, box: _Box) -> Certificate:
    values = box.middle
    problem = LeastSquares(values[: region.dim], values[region.dim : 2 * region.dim], values[-2])
    setting = (problem, region.batch, values[-1], region.batch * box.steps)
    return certify(region.bound, setting)


def _readable(region: _Region, box: _Box) -> dict[str, Any]:
    count = range(1, region.dim + 1)
    names = [*(f"λ_{i}" for i in count), *(f"s_{i}" for i in count), "σ²", "γ"]
    free = {name: pair for name, pair in zip(names, box.ends, strict=True) if pair[1] > pair[0]}
    return free | {"n": box.steps}


def _shown(value: Any) -> str:
    return f"{value}" if isinstance(value, int) else f"{value[0]:.{DIGITS_SHOWN}g} … {value[1]:.{DIGITS_SHOWN}g}"


def _share(share: float) -> str:
    """Return a share in per cent, rounded down, so that 100% is all."""
    return f"{math.floor(1e6 * share) / 1e4:g}%"


@contextmanager
def _derivatives() -> Iterator[None]:
    """Series are a value and a slope."""
    context = flint().ctx
    cap = context.cap
    try:
        context.cap = 2
        with context.workprec(BITS):
            yield
    finally:
        context.cap = cap
