"""Exact theory, bounds and scaling laws of mini-batch SGD, and the critical batch size."""

import lazy_loader

_public, _, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted([*_names, "plot"])


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> object:
    """A public name, imported when it is asked for: `import sgdtheory` itself takes no time."""
    if name == "__version__":
        from sgdtheory._common.version import version

        return version()
    return _public("plotting" if name == "plot" else name)
