"""Exact theory, bounds and scaling laws of mini-batch SGD, and the critical batch size."""

from sgdtheory._common.door import open_door
from sgdtheory._common.figures import figures_are_in

_find, __dir__, __all__ = open_door(__name__, __file__)
figures_are_in(lambda name: getattr(_find("plot"), name))


def __getattr__(name: str) -> object:
    """A public name, imported when it is asked for: `import sgdtheory` itself takes no time."""
    if name == "__version__":
        from sgdtheory._common.version import version

        return version()
    return _find(name)
