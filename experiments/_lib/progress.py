"""Progress of an experiment, which it reports with `stage`, `tracked` and `report` to any listener.

    with stage("random settings", 0.0, 0.2):
        for problem in tracked(problems): ...

Everything is a share of a span. The span of an experiment is 0 … 1; a stage, or an item of `tracked`, is a span within
the present one, so that loops may be nested and functions need not know who calls them.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from experiments._lib.interruption import check

Item = TypeVar("Item")
Listener = Callable[[str, float], None]


class _Position:
    """Position of this process. One for all threads: training reports from its own."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.stage, self.low, self.high = "", 0.0, 1.0

    def tell(self, share: float) -> None:
        if self.listener is not None:
            self.listener(self.stage, self.low + share * (self.high - self.low))


_POSITION = _Position()


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """A context in which `listener(stage, share of the whole that is done)` is called now and then."""
    _POSITION.__init__()
    _POSITION.listener = listener
    try:
        yield
    finally:
        _POSITION.__init__()


def report(share: float) -> None:
    """Say which share of the present span is done."""
    check()
    _POSITION.tell(share)


@contextlib.contextmanager
def _span(low: float, high: float) -> Iterator[None]:
    """A part of the present span as the present one, from share `low` to share `high`."""
    before, length = (_POSITION.low, _POSITION.high), _POSITION.high - _POSITION.low
    _POSITION.low, _POSITION.high = before[0] + low * length, before[0] + high * length
    try:
        yield
    finally:
        _POSITION.low, _POSITION.high = before


@contextlib.contextmanager
def stage(name: str, low: float, high: float) -> Iterator[None]:
    """A named part of an experiment, from share `low` to share `high` of its time, roughly."""
    before, _POSITION.stage = _POSITION.stage, name
    try:
        with _span(low, high):
            report(0.0)
            yield
            report(1.0)
    finally:
        _POSITION.stage = before


def tracked(items: Iterable[Item], work: Sequence[float] | None = None) -> Iterator[Item]:
    """The items, each a part of the present span, in proportion to its `work`; of the same length without."""
    items = list(items)
    ends = np.cumsum([0.0, *(work or [1.0] * len(items))])
    for item, (low, high) in zip(items, itertools.pairwise((ends / max(ends[-1], 1e-300)).tolist()), strict=True):
        with _span(low, high):
            report(0.0)
            yield item
    report(1.0)
