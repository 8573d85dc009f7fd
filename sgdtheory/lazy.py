"""Public names of a package that are imported when they are asked for."""

import importlib
import sys

TYPE_CHECKING = False  # as in the package's `__init__`, which imports this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def lazy_names(package: str, modules: dict[str, str]) -> "Callable[[str], Any]":
    """A package's `__getattr__`, so that what needs JAX is not imported by what does not.

    The modules themselves are attributes too, as they are of a package that imports them at once.

    Args:
        package: its `__name__`.
        modules: name → module of the package that defines it.
    """

    def find(name: str) -> "Any":
        if name in modules:
            value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        elif name in modules.values():
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package} has no attribute {name}")
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    return find
