"""Compiled functions in a cache of fixed size, because each uses memory maps, and a process may have 65,530 of them."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import jax

# Number of programs of each function that are kept without a reference from outside. A program on a CPU has 100 to 300
# memory maps, and Linux gives a process 65,530. A loop over twelve batch sizes leaves 8 maps per batch size with a
# value of 2, and 95 with a value of 16. Callers that alternate between more shapes keep a reference to their `Lanes`.
KEPT = 2


class Programs:
    """A function that is compiled for each value of its settings, which are hashable keyword arguments.

    `jax.jit` with static arguments keeps a program for every value that it ever saw. Here the `KEPT` programs that were
    used last are kept, and those to which a caller of `of` has a reference.

    >>> from sgdtheory.training.programs import Programs
    >>> times = Programs(lambda x, *, factor: x * factor)
    >>> double = times.of(factor=2.0)
    >>> float(double(3.0)), double is times.of(factor=2.0)
    (6.0, True)
    """

    def __init__(self, function: Callable[..., Any], **options: Any):
        """Wrap a function, with options of `jax.jit`."""
        functools.update_wrapper(self, function)
        self._function, self._options = function, options
        self._lock = threading.Lock()  # Without it, threads that need the same program would compile it twice.
        self._last: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self._held: WeakValueDictionary[Any, Callable[..., Any]] = WeakValueDictionary()

    def of(self, **settings: Any) -> Callable[..., Any]:
        """Return the function of the remaining arguments, compiled for these settings at its first call."""
        key = tuple(sorted(settings.items()))
        with self._lock:
            program = self._held.get(key)
            if program is None:
                program = jax.jit(functools.partial(self._function, **settings), **self._options)
            self._held[key] = self._last[key] = program
            self._last.move_to_end(key)
            while len(self._last) > KEPT:
                self._last.popitem(last=False)
        return program

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Call the program of these settings."""
        return self.of(**settings)(*arguments)
