"""Exact theory, bounds and scaling laws of mini-batch SGD, and the critical batch size."""

from sgdtheory._common.door import open_door

_find, __dir__, __all__ = open_door(__name__, __file__)


def __getattr__(name: str) -> object:
    """A public name, imported when it is asked for: `import sgdtheory` itself takes no time."""
    if name == "__version__":
        from sgdtheory._common.version import version

        return version()
    return _find(name)
