"""Public names of a package that are imported when they are asked for."""

import importlib
from collections.abc import Callable
from typing import Any


def lazy_names(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, so that what needs JAX is not imported by what does not.

    Args:
        package: its `__name__`.
        modules: name → module of the package that defines it.
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package} has no attribute {name}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return find
