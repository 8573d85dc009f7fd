"""Libraries that read formats for us, and that come with the extra `[logs]`."""

import importlib
from typing import Any


def needed(module: str, subject: str) -> Any:
    """Import a module now.

    Raises:
        ValueError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ValueError(
            f"{subject} are read by {package}, which is not installed: "
            "pip install 'tensorboard>=2.18' 'pyarrow>=16' (extra [logs])"
        ) from None
