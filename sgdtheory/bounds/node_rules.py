"""Many directions between two systems of a hundred nodes: Gauss below, Radau above (THEORY.md T45)."""

import math
from typing import Any, NamedTuple

from sgdtheory.bounds.ball_spectra import BallSpectrum
from sgdtheory.bounds.balls import Undecided, flint
from sgdtheory.bounds.enclosed_risk import Node, Run

SINGLE = 12  # At least this many leading directions are nodes of their own.
GROUP_RATIO = 4.0  # Eigenvalues of a group differ by at most about this factor, so that a few nodes resolve it.
NEWTON_STEPS = 14  # Newton's method takes this many steps, from a digit or two to thousands.
RESTING = 0.5  # All directions with nγλ up to this value form one group.


class Systems(NamedTuple):
    """Nodes whose risk is at most, and at least, that of the spectrum."""

    lower: list[Node]
    upper: list[Node]


def single_nodes(spectrum: BallSpectrum, last: int) -> list[Node]:
    """Directions 1 … last one by one, but equal eigenvalues together."""
    merged: list[Node] = []
    for index in range(1, last + 1):
        value, signal = spectrum.direction(index)
        if merged and bool(merged[-1].eigenvalue == value):
            before = merged.pop()
            signal = before.signal + signal
            squares = before.squares + value * value
        else:
            squares = value * value
        merged.append(Node(value, signal, squares))
    return merged


def systems(spectrum: BallSpectrum, run: Run, order: int) -> Systems:
    """The first directions one by one, then groups with `order` nodes for signal and as many for noise."""
    cuts = _cuts(spectrum, run, order)
    head = single_nodes(spectrum, cuts[0])
    lower = list(head)
    upper = list(head)
    for before, last in zip(cuts, cuts[1:], strict=False):
        end = None if last == math.inf else int(last)
        top = spectrum.direction(before + 1)[0]
        bottom = flint().arb(0) if end is None else spectrum.direction(end)[0]
        for signal in (True, False):
            power = 0 if signal else 2
            moments = [spectrum.sum(before + 1, end, signal, power + k) / top**k for k in range(2 * order)]
            if signal and moments[0] == 0:
                continue
            for system, rule in ((lower, _gauss(moments)), (upper, _radau(moments, bottom / top))):
                system += [_node(top * place, weight, signal) for place, weight in rule]
    return Systems(lower, upper)


def _node(eigenvalue: Any, weight: Any, signal: bool) -> Node:
    zero = flint().arb(0)
    return Node(eigenvalue, weight, zero) if signal else Node(eigenvalue, zero, weight)


def _cuts(spectrum: BallSpectrum, run: Run, order: int) -> list[Any]:
    """The last direction of the head and of each group; the last of all may be infinite.

    Groups begin where γλ ≤ B/(B + 1), so that all that is summed is completely monotone in λ, and have more directions
    than nodes, which rules need.
    """
    calm = float(run.batch) / (float(run.batch) + 1) * (1 - 1e-12)  # which directions are in the head is a free choice
    end = math.inf if spectrum.dim is None else spectrum.dim

    def scaled(index: int) -> float:
        return float((run.rate * spectrum.direction(index)[0]).mid()) if index <= end else 0.0

    head = min(SINGLE, end)
    while head < end and scaled(int(head) + 1) > calm:
        head += 1
    cuts: list[Any] = [int(head)]
    while cuts[-1] < end:
        first = cuts[-1] + 1
        if run.steps * scaled(first) <= RESTING:
            cuts.append(end)
            break
        last = _group_end(scaled, first, scaled(first) / GROUP_RATIO)
        cuts.append(max(last, first + 2 * order))
    if len(cuts) > 1 and end - cuts[-2] <= 2 * order:
        return [int(end)] if len(cuts) == 2 else [*cuts[:-2], end]
    cuts[-1] = min(cuts[-1], end)
    return cuts


def _group_end(scaled: Any, first: int, least: float) -> int:
    """The last direction with γλ ≥ least, by doubling and halving."""
    reach = 1
    while scaled(first + reach) >= least:
        reach *= 2
    low = first
    high = first + reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if scaled(middle) >= least else (low, middle)
    return low


def _gauss(moments: list[Any]) -> list[tuple[Any, Any]]:
    """Places and weights of m nodes with these 2m moments `∫ u^k dμ`, all enclosed."""
    matrix = flint().arb_mat
    polynomial = flint().arb_poly
    order = len(moments) // 2
    # singular: fewer distinct eigenvalues than nodes, or too few digits
    hankel = matrix([[moments[j + k] for k in range(order)] for j in range(order)])
    lower = hankel.solve(matrix([[-moments[j + order]] for j in range(order)]))
    orthogonal = polynomial([lower[k, 0] for k in range(order)] + [1])
    places = [_refined(orthogonal, root.real.mid()) for root in orthogonal.complex_roots()]
    powers = matrix([[place**k for place in places] for k in range(order)])
    weights = powers.solve(matrix([[moment] for moment in moments[:order]]))
    return [(place, weights[j, 0]) for j, place in enumerate(places)]


def _radau(moments: list[Any], left: Any) -> list[tuple[Any, Any]]:
    """Return a Gauss–Radau rule with a node at the left end: Gauss's rule for `(u − left) dμ`, divided by u − left."""
    shifted = [after - left * moment for moment, after in zip(moments[:-2], moments[1:-1], strict=True)]
    inner = [(place, weight / (place - left)) for place, weight in _gauss(shifted)] if shifted else []
    rest = moments[0] - sum((weight for _, weight in inner), start=flint().arb(0))
    return [(left, rest), *inner]


def _refined(polynomial: Any, guess: Any) -> Any:
    """The root near a guess: Newton's steps, then a ball that one step in balls maps into itself has one root.

    Raises:
        Undecided: the working precision does not show one.
    """
    slope = polynomial.derivative()
    for _ in range(NEWTON_STEPS):
        guess = (guess - polynomial(guess) / slope(guess)).mid()
    ball = flint().arb(guess, abs(guess) * flint().arb(2) ** (-flint().ctx.prec // 2))
    smaller = guess - polynomial(guess) / slope(ball)
    if not ball.contains_interior(smaller):
        raise Undecided("the nodes of a rule are not resolved")
    return smaller


def checked_nodes(nodes: list[Node]) -> list[Node]:
    """Weights of Gauss's and Radau's rules are positive; here certainly so.

    Raises:
        Undecided: the working precision does not show it.
    """
    for node in nodes:
        if not (node.signal.lower() >= 0 and node.squares.lower() >= 0):
            raise Undecided("the weights of a rule are not resolved")
    return nodes
