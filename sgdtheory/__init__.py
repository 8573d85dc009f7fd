"""Exact theory, bounds and scaling laws of mini-batch SGD, and the critical batch size."""

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """A public name, imported when it is asked for: `import sgdtheory` itself takes no time."""
    if name == "__version__":
        from sgdtheory._common.version import version

        return version()
    return _public(name)
