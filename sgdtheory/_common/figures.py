"""Find the figure of a result by its name: the package itself, which knows all subpackages, says where figures are."""

from collections.abc import Callable
from typing import Any

_find: Callable[[str], Any] | None = None


def figures_are_in(find: Callable[[str], Any]) -> None:
    """Set the function that imports the function of `st.plot` with a name."""
    global _find
    _find = find


def figure_function(name: str) -> Callable[..., Any]:
    """Return the function of `st.plot` with this name."""
    assert _find is not None, "the package sets it when it is imported"
    return _find(name)
