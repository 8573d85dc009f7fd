"""Proofs at one setting: exact risk, bound and their ratio enclosed in ball arithmetic."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.arguments import checked_name, positive_number, samples_used, settings_arrays, single_number
from sgdtheory.algorithms import DEFAULT, Algorithm
from sgdtheory.bounds.ball_spectra import BallSpectrum, asked_in_balls, in_balls
from sgdtheory.bounds.balls import Ball, Enclosure, Undecided, flint
from sgdtheory.bounds.enclosed_risk import Node, Run, first_averaged, risk, seconds
from sgdtheory.bounds.node_rules import checked_nodes, single_nodes, systems
from sgdtheory.bounds.published import PublishedBound
from sgdtheory.bounds.theorem_7 import theorem7, zhang_2024
from sgdtheory.problems import LeastSquares

TIGHT = 1e-30  # relative width of what is limited by the working precision alone: as many digits are printed
LEAST_BITS, MOST_BITS = 256, 4096
SHOWN_DIRECTIONS = 4
MOST_SECONDS = 20.0  # estimated, for one exact risk
FIRST_ORDER, ORDER_GAIN = 2, 8.0  # nodes of each group, and by how much one more narrows what lies between, measured


@dataclass(frozen=True, repr=False)
class Certificate:
    """What is proven at one setting.

    Attributes:
        setting: problem, B, γ and D.
        steps: n.
        exact: the quantity of the exact risk, enclosed.
        bound: the bound's value, enclosed; None where it is not known.
        source: where the bound's value is from.
        side: of the risk on which the bound is: "upper", "lower" or "both".
        doubts: why nothing is proven; empty where all conditions of the bound hold certainly.
    """

    setting: Any
    steps: int
    exact: Enclosure
    bound: Enclosure | None
    source: str
    side: str
    doubts: tuple[str, ...] = ()

    @property
    def ratio(self) -> Enclosure | None:
        """Exact / bound, enclosed; None without a positive bound."""
        if self.bound is None or self.bound.lower <= 0:
            return None
        least = max(self.exact.lower, Fraction(0))  # a risk is not negative, a ball may reach below 0
        return Enclosure(least / self.bound.upper, self.exact.upper / self.bound.lower)

    @property
    def violates(self) -> bool:
        """Whether the exact risk is certainly on the wrong side of the bound, whose conditions hold."""
        if self.ratio is None or self.doubts:
            return False
        return (self.side == "upper" and self.ratio.lower > 1) or (self.side == "lower" and self.ratio.upper < 1)

    @property
    def proves(self) -> str:
        """One sentence."""
        if self.doubts or self.ratio is None or self.side == "both":
            return self.attained
        if self.violates:
            return f"{self.attained}: the bound is violated"
        holds = self.ratio.upper <= 1 if self.side == "upper" else self.ratio.lower >= 1
        return f"{self.attained}: {'the bound holds' if holds else 'whether the bound holds here is not decided'}"

    @property
    def attained(self) -> str:
        """The ratio and where, without a verdict on the bound."""
        problem, batch, rate, _ = self.setting
        dim = "∞" if problem.dim is None else problem.dim
        place = f"d = {dim}, B = {batch:g}, γ = {rate!r}, n = {self.steps}"
        if self.doubts or self.ratio is None:
            return f"nothing is proven at {place}: {'; '.join(self.doubts or ('the bound may be 0',))}"
        certain = f"certain to {self.ratio.digits} digits" if self.ratio.digits else "certain"
        return f"exact/bound = {self.ratio} ({certain}) at {place}"

    def __str__(self) -> str:
        """The problem, three enclosures and the sentence."""
        rows = {"exact": self.exact, "bound": self.bound, "exact/bound": self.ratio}
        lines = [f"{name:<12} {value if value is not None else 'not known'}" for name, value in rows.items()]
        lines[1] += f"  ({self.source})"
        return "\n".join([f"{'problem':<12} {_named(self.setting[0])}", *lines, self.proves])

    __repr__ = __str__


class Certificates(NamedTuple):
    """What is proven at the two extreme settings of a comparison."""

    lowest: Certificate
    highest: Certificate

    def __str__(self) -> str:
        """Both, one below the other."""
        return f"lowest exact/bound\n{self.lowest}\n\nhighest exact/bound\n{self.highest}"

    __repr__ = __str__


def certify(
    bound: Callable[..., Any],
    setting: Sequence[Any],
    *,
    quantity: str = "total",
    algorithm: Algorithm | None = None,
    width: float = 1e-6,
) -> Certificate:
    """Enclose exact risk and bound at one setting in ball arithmetic: every digit printed is proven.

    All numbers of the setting are float64 and taken exactly. Finite spectra are followed direction by direction; power
    laws and long lists in groups, between two systems of nodes (THEORY.md T45). The value of a published bound and its
    conditions are enclosed by the same formula that gives its floats; a function of your own is asked once, and the
    number that it returns is taken for exact.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)
        >>> found = st.bounds.certify(st.bounds.bach_moulines_2013, (problem, 1, 0.1, 7))
        >>> print(found)
        problem      eigenvalues [1.0, 0.5], signal [1.0, 1.0], noise variance 1.0
        exact        1.35752898157076176887327941666…
        bound        11.4179330572516389621095252138…  (bach_moulines_2013)
        exact/bound  0.118894459685816959019272663954…
        exact/bound = 0.118894459685816959019272663954… (certain to 30 digits)
        at d = 2, B = 1, γ = 0.1, n = 7: the bound holds

    Args:
        bound: a PublishedBound, `theorem7`, or a function as `compare` takes it.
        setting: `(problem, batch_size, learning_rate, num_samples)`, a Setting, of one point.
        quantity: "total", "bias" or "variance".
        algorithm: whose risk; None: the bound's own, if it is a published one, else averaged SGD.
        width: relative width to which a power law's risk is refined, if that takes no more than about 20 s.

    Returns:
        Certificate.

    Raises:
        ValueError: an argument outside its range, an algorithm or a problem that certificates are not for.
        ImportError: python-flint is missing: pip install 'sgdtheory[certified]'.
    """
    flint()
    checked_name("quantity", quantity, ("total", "bias", "variance"))
    problem, *numbers = setting
    batch, rate, samples = (single_number("setting", value) for value in settings_arrays(*numbers))
    steps = int(samples_used(np.array(batch), np.array(samples))) // int(batch)
    samples = batch * steps
    point = (problem, batch, rate, samples)
    first = first_averaged(algorithm or getattr(bound, "algorithm", DEFAULT), steps)
    try:
        exact = _exact(point, steps, first, quantity, positive_number("width", width))
    except Undecided as doubt:
        raise ValueError(f"the exact risk has no enclosure: {doubt}") from doubt
    published = zhang_2024 if bound is theorem7 and quantity == "total" else bound
    if isinstance(published, PublishedBound):
        value, doubts = _published(published, point, steps)
        return Certificate(point, steps, exact, value, published.name, published.side, doubts)
    value, doubts = _returned(bound, point, quantity)
    return Certificate(point, steps, exact, value, "the number returned", getattr(bound, "side", "upper"), doubts)


def _exact(point: tuple[Any, ...], steps: int, first: int, quantity: str, wanted: float) -> Enclosure:
    """The exact quantity: on all directions if that is affordable, else between two systems of nodes."""
    problem, batch, rate, _ = point
    arb, limit = flint().arb, MOST_SECONDS / 2  # a few precisions, or two systems
    noise = 0.0 if quantity == "bias" else problem.noise_variance

    def parts(nodes: list[Node]) -> list[Node]:
        alone = [node._replace(signal=arb(0)) if quantity == "variance" else node for node in nodes]
        return [node for node in alone if not (node.signal == 0 and node.squares == 0)] or alone[:1]

    def every(spectrum: BallSpectrum, run: Run) -> Ball:
        return Ball(risk(parts(single_nodes(spectrum, spectrum.dim or 0)), run))

    if problem.dim is not None and seconds(_distinct(problem), steps) <= limit:
        return _precise(lambda: every(in_balls(problem), Run(arb(batch), arb(rate), steps, first, arb(noise))))
    order, best = FIRST_ORDER, None
    while True:
        with flint().ctx.workprec(128 + 64 * order):
            run = Run(arb(batch), arb(rate), steps, first, arb(noise))
            try:
                lower, upper = (parts(checked_nodes(each)) for each in systems(in_balls(problem), run, order))
            except (Undecided, ZeroDivisionError):
                break
            ends = [Ball(risk(nodes, run)).enclosure for nodes in (lower, upper)]
        found = Enclosure(ends[0].lower, ends[1].upper)
        best = found if best is None else Enclosure(max(best.lower, found.lower), min(best.upper, found.upper))
        if best.width <= wanted:
            break
        following = order + max(math.ceil(math.log(best.width / wanted, ORDER_GAIN)), 1)
        while following > order and seconds(len(upper) * following // order, steps) > limit:
            following -= 1
        if following == order:
            break
        order = following
    if best is None:
        raise ValueError(f"no certificate for {problem!r}: its tail has too few distinct eigenvalues to be grouped")
    return best


def _precise(ball: Callable[[], Ball]) -> Enclosure:
    """A ball computed with more and more bits, until it is tight.

    Raises:
        Undecided: it has no finite ends, or a comparison stays open, with all of them.
    """
    bits = LEAST_BITS
    while True:
        with flint().ctx.workprec(bits):
            try:
                found = ball().enclosure
                if found.width <= TIGHT or 2 * bits > MOST_BITS:
                    return found
            except Undecided:
                if 2 * bits > MOST_BITS:
                    raise
        bits *= 2


def _published(bound: PublishedBound, point: tuple[Any, ...], steps: int) -> tuple[Enclosure | None, tuple[str, ...]]:
    """Value, and the conditions that do not hold certainly."""
    problem, batch, rate, _ = point
    failing: list[str] = []

    def value() -> Ball:
        found = bound.statement(asked_in_balls(in_balls(problem), batch, rate, steps))
        failing[:] = [f"{words} does not hold" for words, holds in found.conditions.items() if not holds]
        return Ball(found.value)

    try:
        return _precise(value), tuple(failing)
    except Undecided as doubt:
        return None, (str(doubt),)
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{bound.name} uses a function that has no enclosure: {error}") from error


def _returned(bound: Callable[..., Any], point: tuple[Any, ...], quantity: str) -> tuple[Enclosure, tuple[str, ...]]:
    """The float that a plain function returns, taken exactly."""
    problem, batch, rate, samples = point
    value = bound(problem, batch_size=np.array(batch), learning_rate=np.array(rate), num_samples=np.array(samples))
    number = single_number("bound", np.asarray(getattr(value, quantity, value)).item())
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"bound must return a finite number that is not negative to be certified, got {number}")
    doubts = () if np.all(getattr(value, "applies", True)) else ("the function says that it does not apply",)
    return Enclosure(Fraction(number), Fraction(number)), doubts


def _distinct(problem: Any) -> int:
    """How many nodes a finite spectrum has."""
    if isinstance(problem, LeastSquares):
        return len(np.unique(problem.eigenvalues))
    return problem.dim


def _named(problem: Any) -> str:
    """A problem as it would be written down."""
    if not isinstance(problem, LeastSquares):
        return repr(problem)
    if len(problem.eigenvalues) > SHOWN_DIRECTIONS:
        return f"{problem.dim} directions, noise variance {problem.noise_variance!r}"
    lists = (", ".join(map(repr, map(float, values))) for values in problem.directions())
    return "eigenvalues [{}], signal [{}], ".format(*lists) + f"noise variance {problem.noise_variance!r}"
