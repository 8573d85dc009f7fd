"""Compiled functions in a cache of fixed size, because each uses memory maps, and a process may have 65,530 of them."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import jax

# This many programs of each function are kept without a reference from outside. A program on a CPU has 100 to 300
# memory maps, and Linux gives a process 65,530. A loop over twelve batch sizes leaves 8 maps per batch size with a
# value of 2, and 95 with a value of 16. Callers that alternate between more shapes keep a reference to their `Lanes`.
KEPT = 2
# XLA compiles the random numbers of initial weights in a fifth of the time if LLVM stops after its first level of
# optimizations, and their bits are the same. Without the first level some bits differ, as no multiplication and
# addition become one operation.
FIRST_LEVEL = {"xla_backend_optimization_level": 1}


def quickly_compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return `jax.jit` of a function that runs few times: on a CPU it is compiled with fewer optimizations."""
    fewer = jax.default_backend() == "cpu" and not jax.config.read("jax_disable_most_optimizations")
    return jax.jit(function, compiler_options=FIRST_LEVEL if fewer else None, **options)


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

    def __init__(self, function: Callable[..., Any], *, runs_often: bool = True, **options: Any):
        """Wrap a function, with options of `jax.jit`; one that runs few times is `quickly_compiled`."""
        functools.update_wrapper(self, function)
        self._function, self._options = function, options
        self._jit = jax.jit if runs_often else quickly_compiled
        self._lock = threading.Lock()  # Without it, threads that need the same program would compile it twice.
        self._last: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self._held: WeakValueDictionary[Any, Callable[..., Any]] = WeakValueDictionary()

    def of(self, **settings: Any) -> Callable[..., Any]:
        """Return the function of the remaining arguments, compiled for these settings at its first call."""
        key = tuple(sorted(settings.items()))
        with self._lock:
            program = self._held.get(key)
            if program is None:
                program = self._jit(functools.partial(self._function, **settings), **self._options)
            self._held[key] = self._last[key] = program
            self._last.move_to_end(key)
            while len(self._last) > KEPT:
                self._last.popitem(last=False)
        return program

    def shapes(self, *arguments: Any, **settings: Any) -> Any:
        """Return the shapes of what the program of these settings returns.

        Compiled with options of its own, as a function that runs few times is, it cannot be traced inside of another.
        """
        return jax.eval_shape(functools.partial(self._function, **settings), *arguments)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Call the program of these settings."""
        return self.of(**settings)(*arguments)
