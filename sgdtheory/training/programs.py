"""Compiled functions, of which the last alone are kept: on a CPU each holds memory maps, and a process has so many."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import jax

# Programs of each function that are kept when nobody holds them. One has 100 … 300 memory maps, or more, and Linux
# gives a process 65,530. With 2, twelve batch sizes leave 8 maps each; with 16 they left 95. Who alternates between
# more shapes holds their `Lanes`, or trains them by `train_many` or a sweep, which compile each program once.
KEPT = 2


class Programs:
    """A function that is compiled for each of the settings, hashable keyword arguments, that it is called with.

    `jax.jit` with static arguments keeps a program for all that it ever saw. Here the last `KEPT` that were asked for
    are kept, and those that somebody holds (`of`): who makes many calls holds the program as long.

    >>> from sgdtheory.training.programs import Programs
    >>> times = Programs(lambda x, *, factor: x * factor)
    >>> double = times.of(factor=2.0)
    >>> float(double(3.0)), double is times.of(factor=2.0)
    (6.0, True)
    """

    def __init__(self, function: Callable[..., Any], **options: Any):
        """The function, and options of `jax.jit`."""
        functools.update_wrapper(self, function)
        self._function, self._options = function, options
        self._lock = threading.Lock()  # threads that ask for one program get one, which is compiled once
        self._last: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self._held: WeakValueDictionary[Any, Callable[..., Any]] = WeakValueDictionary()

    def of(self, **settings: Any) -> Callable[..., Any]:
        """The function of the other arguments, compiled for these settings at its first call."""
        key = tuple(sorted(settings.items()))
        with self._lock:
            found = self._held.get(key)
            if found is None:
                found = jax.jit(functools.partial(self._function, **settings), **self._options)
            self._held[key] = self._last[key] = found
            self._last.move_to_end(key)
            while len(self._last) > KEPT:
                self._last.popitem(last=False)
        return found

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Call it."""
        return self.of(**settings)(*arguments)
