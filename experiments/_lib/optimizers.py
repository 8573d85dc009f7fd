"""Optimizers that several experiments compare, by name: each returns the last iterate of a linear decay."""

from collections.abc import Iterator, Sequence
from typing import Any

import sgdtheory as st
from sgdtheory.plotting.style import categories

Pair = tuple[float, float]
SGD = "SGD"
PRECONDITIONED = "SGD, θ = ½"
SIGN = "signSGD"
SLOW = "Adam, β₂ = 0.999"
FAST = "Adam, β₂ = 0.95"
POWER = 0.5  # θ of a preconditioner; sign and Adam have it where noise dominates (T35, T37)


def decayed(method: Any) -> st.Algorithm:
    """Linear decay to 0, last iterate."""
    return st.Algorithm(method, schedule=st.Linear(), average=st.LastIterate())


METHODS = {
    SGD: decayed(st.SGD()),
    PRECONDITIONED: decayed(st.SGD()),
    SIGN: decayed(st.SignSGD()),
    SLOW: decayed(st.Adam(beta1=0.9, beta2=0.999)),
    FAST: decayed(st.Adam(beta1=0.9, beta2=0.95)),
}
NAMES = tuple(METHODS)


def problem_of(pair: Pair, name: str) -> st.AbstractProblem:
    """The power law, preconditioned where the method's name says so."""
    plain = st.PowerLaw(*pair)
    return plain.preconditioned(POWER) if name == PRECONDITIONED else plain


def seen_capacity(pair: Pair, name: str) -> float:
    """a' of T35: a of plain SGD, a(1 − θ) of the others."""
    return pair[0] * (1.0 if name == SGD else 1 - POWER)


def looks(names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names, each with a look that is its own in every figure."""
    every = dict(zip(NAMES, categories(len(NAMES)), strict=True))
    return ((name, every[name]) for name in names)
