"""Proofs at one setting: exact risk, bound and their ratio enclosed in ball arithmetic."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.arguments import checked_name, positive_number, settings_arrays, single_number
from sgdtheory.algorithms import DEFAULT, Algorithm, checked_algorithm
from sgdtheory.bounds.ball_spectra import BallSpectrum, asked_in_balls, in_balls
from sgdtheory.bounds.balls import Ball, Enclosure, Undecided, flint
from sgdtheory.bounds.enclosed_risk import Node, Run, first_averaged, risk, seconds
from sgdtheory.bounds.node_rules import checked_nodes, single_nodes, systems
from sgdtheory.bounds.published import Description, PublishedBound, Statement, description
from sgdtheory.bounds.setting import Setting, as_setting
from sgdtheory.bounds.theorem_7 import theorem7, zhang_2024
from sgdtheory.problems import AbstractProblem, LeastSquares

TIGHT = 1e-30  # Precision doubles until an enclosure has this relative width: 30 digits are printed.
LEAST_BITS = 256
MOST_BITS = 4096
SHOWN_DIRECTIONS = 4
AFFORDABLE = 10.0  # One risk may take this many estimated seconds. An enclosure takes a few precisions, or two systems.
FIRST_ORDER = 2  # Each group begins with this many nodes.
ORDER_GAIN = 8.0  # One more node in each group narrows the enclosure by about this factor (measured).


@dataclass(frozen=True, repr=False)
class Certificate:
    """Proof of a bound, or of its failure, at one setting.

    Attributes:
        setting: problem, B, γ and D.
        steps: n.
        exact: the quantity of the exact risk, enclosed.
        bound: the bound's value, enclosed; None where it is not known.
        source: where the bound's value is from.
        side: of the risk on which the bound is: "upper", "lower" or "both".
        standing: of its constants: "verified", "unverified", or "order" where the theorem states none.
        doubts: why nothing is proven; empty where all conditions of the bound hold certainly.
    """

    setting: Setting
    steps: int
    exact: Enclosure
    bound: Enclosure | None
    source: str
    side: str
    standing: str = "verified"
    doubts: tuple[str, ...] = ()

    @property
    def ratio(self) -> Enclosure | None:
        """Exact / bound, enclosed; None without a positive bound."""
        if self.bound is None or self.bound.lower <= 0:
            return None
        least = max(self.exact.lower, Fraction(0))  # a risk is not negative, a ball may reach below 0
        return Enclosure(least / self.bound.upper, self.exact.upper / self.bound.lower)

    @property
    def judged(self) -> bool:
        """Return whether exact/bound decides that the bound holds: for bounds up to constant factors it does not."""
        return not self.doubts and self.side != "both" and self.standing != "order"

    @property
    def violates(self) -> bool:
        """Return whether the exact risk is certainly on the wrong side of the bound, whose conditions hold."""
        if self.ratio is None or not self.judged:
            return False
        return (self.side == "upper" and self.ratio.lower > 1) or (self.side == "lower" and self.ratio.upper < 1)

    @property
    def proves(self) -> str:
        """One sentence."""
        if self.ratio is None or not self.judged:
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
        return "\n".join([f"{'problem':<12} {problem_in_words(self.setting[0])}", *lines, self.proves])

    __repr__ = __str__


class Certificates(NamedTuple):
    """Proofs at the two extreme settings of a comparison."""

    lowest: Certificate
    highest: Certificate

    def __str__(self) -> str:
        """Both, one below the other."""
        return f"lowest exact/bound\n{self.lowest}\n\nhighest exact/bound\n{self.highest}"

    __repr__ = __str__


def certify(
    bound: Callable[..., Any],
    setting: Setting | Sequence[Any] | Mapping[str, Any],
    *,
    quantity: str = "total",
    algorithm: Algorithm | None = None,
    width: float = 1e-6,
) -> Certificate:
    """Enclose exact risk and bound at one setting in ball arithmetic: every digit printed is proven.

    All numbers of the setting are taken exactly. Finite spectra are followed direction by direction; power laws and
    long lists in groups, between two systems of nodes (THEORY.md T45). A published bound and its conditions are
    enclosed by the formula of its floats; of a function of your own the number that it returns is taken for exact.

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
        setting: a Setting of one point, a plain tuple `(problem, B, γ, D)` or a mapping with its field names.
        quantity: "total", "bias" or "variance"; published bounds are on the total alone.
        algorithm: whose risk; None: the bound's own, else averaged SGD. A bound proves nothing about other algorithms.
        width: relative width to which a power law's risk is refined, if that takes no more than about 20 s.

    Returns:
        Certificate.

    Raises:
        ValueError: an argument outside its range, or one that certificates are not for.
        ImportError: python-flint is missing.
    """
    arb = flint().arb
    about = zhang_2024 if bound is theorem7 else bound  # whose formula takes balls, and is its total
    own = checked_bound(bound, quantity)
    problem, *numbers = as_setting("setting", setting)
    batch, rate, samples = (single_number("setting", value) for value in settings_arrays(*numbers))
    steps = int(samples) // int(batch)
    point = Setting(problem, batch, rate, batch * steps)  # an incomplete last batch is dropped
    asked = checked_algorithm((own.algorithm or DEFAULT) if algorithm is None else algorithm, linear=False)
    run = Run(arb(batch), arb(rate), steps, first_averaged(asked, steps), arb(problem.noise_variance))
    try:
        exact = _exact(problem, run, quantity, positive_number("width", width))
    except Undecided as doubt:
        raise ValueError(f"the exact risk has no enclosure: {doubt}") from doubt
    formula = about if isinstance(about, PublishedBound) and quantity == "total" else None
    value, doubts = _published(formula, point, steps) if formula else _returned(bound, point, quantity)
    source = formula.name if formula else "the number returned"
    another = (_another(own.algorithm, asked),) if own.algorithm and own.algorithm != asked else ()
    return Certificate(point, steps, exact, value, source, own.side, own.standing, another + doubts)


def checked_bound(bound: object, quantity: str) -> Description:
    """Return a bound's description of itself, if it is a bound on this quantity."""
    checked_name("quantity", quantity, ("total", "bias", "variance"))
    if not callable(bound):
        raise ValueError(f"bound must be a PublishedBound, theorem7 or a function, got {bound!r}")
    if isinstance(bound, PublishedBound) and quantity != "total":
        raise ValueError(f"quantity must be total: {bound.name} is a bound on the whole risk, not on its {quantity}")
    return description(bound)


def _another(own: Algorithm, asked: Algorithm) -> str:
    """Return in words how the algorithm of a bound differs from the one that was asked about."""
    names = [each.name for each in fields(own) if getattr(own, each.name) != getattr(asked, each.name)]
    here, there = (", ".join(f"{name}={getattr(each, name)}" for name in names) for each in (own, asked))
    return f"the bound is about {here}, not about {there}"


def _exact(problem: Any, run: Run, quantity: str, wanted: float) -> Enclosure:
    """The exact quantity: on all directions if that is affordable, else between two systems of nodes."""
    if quantity == "bias":
        run = run._replace(noise=flint().arb(0))
    spectrum = in_balls(problem)
    if problem.dim is None or seconds(_distinct(problem), run.steps) > AFFORDABLE:
        found = _refined(spectrum, run, quantity, wanted)
        if found is None:
            raise ValueError(f"no certificate for {problem!r}: its tail has too few distinct eigenvalues to be grouped")
        return found

    def every() -> Ball:
        return Ball(risk(_parts(single_nodes(spectrum, problem.dim), quantity), run))

    return _precise(every)


def _refined(spectrum: BallSpectrum, run: Run, quantity: str, wanted: float) -> Enclosure | None:
    """Between systems of more and more nodes, until it is as tight as wanted, or more nodes take too long.

    None: not even the first systems are resolved.
    """
    order = FIRST_ORDER
    best = None
    while True:
        with flint().ctx.workprec(128 + 64 * order):
            try:
                lower, upper = (_parts(checked_nodes(each), quantity) for each in systems(spectrum, run, order))
            except (Undecided, ZeroDivisionError):
                break
            ends = [Ball(risk(nodes, run)).enclosure for nodes in (lower, upper)]
        least = max(ends[0].lower, Fraction(0))  # a risk is not negative, a ball may reach below 0
        most = ends[1].upper
        best = Enclosure(max(best.lower, least), min(best.upper, most)) if best else Enclosure(least, most)
        further = order if best.width <= wanted else _next_order(order, best.width, wanted, len(upper), run.steps)
        if further == order:
            break
        order = further
    return best


def _next_order(order: int, width: float, wanted: float, num_nodes: int, steps: int) -> int:
    """The order that should reach the width that is wanted, or the highest that is affordable; at least this one."""
    missing = (math.log(width) - math.log(wanted)) / math.log(ORDER_GAIN)
    further = order + max(math.ceil(missing), 1)
    while further > order and seconds(num_nodes * further // order, steps) > AFFORDABLE:
        further -= 1
    return further


def _parts(nodes: list[Node], quantity: str) -> list[Node]:
    """The nodes that move this quantity: of a variance without their signal."""
    if quantity == "variance":
        nodes = [node._replace(signal=flint().arb(0)) for node in nodes]
    return [node for node in nodes if not (node.signal == 0 and node.squares == 0)] or nodes[:1]


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


def _published(bound: PublishedBound, point: Setting, steps: int) -> tuple[Enclosure | None, tuple[str, ...]]:
    """Value, and the conditions that do not hold certainly."""
    problem, batch, rate, _ = point
    failing: list[str] = []

    def value() -> Ball:
        found = stated(bound, in_balls(problem), batch, rate, steps)
        failing[:] = [f"{words} does not hold" for words, holds in found.conditions.items() if not holds]
        return found.value

    try:
        return _precise(value), tuple(failing)
    except Undecided as doubt:  # where a condition fails the value need be no number
        return None, tuple(failing) or (str(doubt),)


def stated(bound: PublishedBound, spectrum: BallSpectrum, batch: Any, rate: Any, steps: int) -> Statement:
    """Return the statement of a bound for balls, whose value is a Ball.

    Raises:
        ValueError: its formula uses a function that balls have not.
    """
    try:
        found = bound.statement(asked_in_balls(spectrum, batch, rate, steps))
        value = Ball(found.value)
        value.constant.is_finite()  # a number at all
        return found._replace(value=value)
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{bound.name} uses a function that has no enclosure: {error}") from error


def _returned(bound: Callable[..., Any], point: Setting, quantity: str) -> tuple[Enclosure, tuple[str, ...]]:
    """The float that a plain function returns, taken exactly."""
    value = bound(point.problem, **{name: np.array(number) for name, number in point.run.items()})
    number = single_number("bound", np.asarray(getattr(value, quantity, value)).item())
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"bound must return a finite number that is not negative to be certified, got {number}")
    doubts = () if np.all(getattr(value, "applies", True)) else ("the function says that it does not apply",)
    return Enclosure(Fraction(number), Fraction(number)), doubts


def _distinct(problem: Any) -> int:
    """Return the number of nodes of a finite spectrum."""
    if isinstance(problem, LeastSquares):
        return len(np.unique(problem.eigenvalues))
    return problem.dim


def problem_in_words(problem: AbstractProblem) -> str:
    """Return the numbers of a problem, or only their count if there are many."""
    if not isinstance(problem, LeastSquares):
        return repr(problem)
    if len(problem.eigenvalues) > SHOWN_DIRECTIONS:
        return f"{problem.dim} directions, noise variance {problem.noise_variance!r}"
    lists = (", ".join(map(repr, map(float, values))) for values in problem.directions())
    return "eigenvalues [{}], signal [{}], ".format(*lists) + f"noise variance {problem.noise_variance!r}"
