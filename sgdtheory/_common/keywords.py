"""A call of a public function or class that Python refuses is answered with the keyword that was meant."""

import functools
import inspect
import re
from types import FunctionType
from typing import Any

PACKAGE = __name__.partition(".")[0]


def _guard(*args: Any, _call: Any, _explain: Any, **kwargs: Any) -> Any:
    """Call `_call`: this code becomes the body of every public function, whose own body `_call` keeps."""
    try:
        return _call(*args, **kwargs)
    except TypeError as error:
        _explain(error, _call, len(args), kwargs)
        raise


def answer_misspelt(public: Any) -> None:
    """Let a public function or class say which keyword was meant if it is called with another one.

    A function stays the same object and gets another body, because pickle compares functions by identity, doctest
    looks at their globals, and modules have imported them before. A class gets another constructor, which cannot
    stay the same object: those of dataclasses have closures, to which the code of `_guard` does not fit.
    """
    if isinstance(public, type):
        _answer_class(public)
        return
    if _is_own(type(public)):  # a public object, such as a published bound
        public = vars(type(public)).get("__call__")
    while hasattr(public, "__wrapped__") and not _is_guarded(public):
        public = public.__wrapped__
    if not isinstance(public, FunctionType) or not _is_own(public) or _is_guarded(public):
        return
    # The code of `_guard` fits neither a closure nor a generator: such functions stay as they are.
    if not public.__closure__ and not inspect.isgeneratorfunction(public):
        inner = _copy(public, public.__qualname__)
        # The code comes last, and the defaults stay: another thread may be calling the function.
        public.__wrapped__ = inner  # pyright: ignore[reportFunctionMemberAccess]  # inspect reads its signature
        public.__kwdefaults__ = {**(public.__kwdefaults__ or {}), "_call": inner, "_explain": _explain}
        public.__code__ = _guard.__code__


def _answer_class(public: type) -> None:
    """Exchange the constructor where it is defined, which may be a base class of this package."""
    constructor = "__new__" if issubclass(public, tuple) else "__init__"
    owner = next(kind for kind in public.__mro__ if constructor in vars(kind))
    old = getattr(owner, constructor)
    if not _is_own(owner) or not isinstance(old, FunctionType) or _is_guarded(old):
        return
    if old.__module__ == "typing":
        return  # of a Protocol: typing looks whether it is still there
    # The globals of a NamedTuple's constructor have no builtins.
    guard = FunctionType(_guard.__code__, globals() if constructor == "__new__" else old.__globals__)
    guard.__kwdefaults__ = {"_call": _copy(old, owner.__qualname__), "_explain": _explain}
    functools.update_wrapper(guard, old)
    setattr(owner, constructor, staticmethod(guard) if constructor == "__new__" else guard)


def _is_own(public: Any) -> bool:
    return public.__module__.partition(".")[0] == PACKAGE


def _is_guarded(function: Any) -> bool:
    return getattr(function, "__code__", None) is _guard.__code__


def _copy(function: FunctionType, shown: str) -> FunctionType:
    """Return a function with the same body, which Python's errors call `shown`."""
    copy = FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
    functools.update_wrapper(copy, function)
    del copy.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]  # it would lead in a circle
    copy.__defaults__ = function.__defaults__
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = shown
    return copy


def _explain(error: TypeError, call: FunctionType, positions: int, given: dict[str, Any]) -> None:
    """Add a remedy to Python's words, if the call itself failed: an error from inside has a frame of the body."""
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return
    message = str(error)
    bound = call.__name__.startswith("__")  # to self or the class
    parameters = [*inspect.signature(call).parameters.values()][bound:]
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    by_position = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    left = [name for name in named if name not in given and name not in by_position[: positions - bound]]
    unexpected = re.search("got an unexpected keyword argument '(.*?)'", message)
    if unexpected:
        if "Did you mean" in message or not left:  # Python suggests by itself from version 3.13 on
            return
        nearest = _nearest(unexpected[1], left)
        remedy = f"did you mean '{nearest}'?" if nearest else f"other keywords are {', '.join(left)}"
    elif named and re.search("takes .* positional arguments? but .* given", message):
        written = ", ".join(f"{name}=…" for name in left)
        remedy = f"write by keyword: {written}" if left else f"its arguments are {', '.join(named)}"
    else:
        return
    error.args = (f"{message}; {remedy}",)


def _nearest(misspelt: str, names: list[str]) -> str | None:
    """Return the name with the most similar spelling; else one that contains it or has its initials (`lr`)."""
    import difflib  # takes milliseconds, which only a refused call costs

    said = misspelt.lower()
    written = {name.lower(): name for name in sorted(names, key=len)}
    # Two letters that changed places; difflib takes `lgos` for `loss` before `logs`.
    swapped = [said[:at] + said[at + 1 : at + 2] + said[at] + said[at + 2 :] for at in range(len(said))]
    contained = [name for name in written if min(len(said), len(name)) > 2 and (said in name or name in said)]
    initials = [name for name in written if said == "".join(word[:1] for word in name.split("_"))]
    near = [*filter(written.get, swapped), *difflib.get_close_matches(said, written, 1), *contained, *initials]
    return written[near[0]] if near else None
