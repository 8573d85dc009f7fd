"""A wing's door: its public names stand once, in the stub beside its `__init__`, and are imported when asked for."""

import importlib
import sys

TYPE_CHECKING = False  # An import from typing would take most of the time until Ctrl-C is heard.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


def open_door(package: str, file: str) -> "tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]":
    """`__getattr__`, `__dir__` and `__all__` of a package, so that what needs JAX is not imported by what does not.

    Args:
        package: its `__name__`.
        file: its `__file__`. Beside it lies the stub that type checkers read, with a line `from .module import name as
            name` for each public name, or `from . import module as name` for a module.
    """
    with open(f"{file}i", encoding="utf-8") as stub:  # noqa: PTH123 (pathlib would be most of the time, too)
        lines = [line.split() for line in stub if line.startswith("from ")]
    origins = {public: (module.lstrip("."), name) for _, module, _, name, _, public in lines}

    def find(public: str) -> "Any":
        if public not in origins:
            # Python's own suggestion does not reach notebooks; obj=None keeps it from repeating this one.
            message = f"module {package} has no attribute {public}{_hint(public, origins)}"
            raise AttributeError(message, name=public, obj=None)
        module, name = origins[public]
        inner = importlib.import_module(f"{package}.{module or name}")
        value = getattr(inner, name) if module else inner
        if module:
            from sgdtheory._common.keywords import answer_misspelt  # takes milliseconds, which a name may cost

            answer_misspelt(value)
        setattr(sys.modules[package], public, value)  # found at once from now on
        return value

    names = sorted(origins)
    return find, lambda: names, names


def _hint(misspelt: str, names: "Iterable[str]") -> str:
    """Name the nearest public name, upper case or lower, or nothing."""
    if misspelt.startswith("_"):
        return ""  # programs ask modules for these, and expect not to find them
    import difflib  # takes milliseconds, which only a misspelt name costs

    written = {name.lower(): name for name in names}
    nearest = difflib.get_close_matches(misspelt.lower(), written, 1)
    return f" (did you mean {written[nearest[0]]}?)" if nearest else ""
