"""Find the figure of a result by its name: the package itself, which knows all subpackages, says where figures are."""

from collections.abc import Callable

_finders: list[Callable[[str], Callable[..., object]]] = []


def figures_are_in(find: Callable[[str], Callable[..., object]]) -> None:
    """Set the function that imports the function of `st.plot` with a name."""
    _finders[:] = [find]


def figure_function(name: str) -> Callable[..., object]:
    """Return the function of `st.plot` with this name; the package has set how when it was imported."""
    return _finders[0](name)
