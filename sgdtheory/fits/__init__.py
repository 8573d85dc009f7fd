"""From measurements: the steps law, the critical batch size with an interval, and what it depends on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
