"""What `pip install -e` puts on the path: `sgdtheory` alone, none of `tests`, `experiments` and `benchmarks` beside it.

A regular package, and not an import hook: those are asked last, after the folder of a clone that lies beside the script
and is called `sgdtheory` too has been taken for a namespace package.
"""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(__name__, Path(__file__).parents[2] / "sgdtheory" / "__init__.py")
_package = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _package  # this is what `import sgdtheory` returns
_spec.loader.exec_module(_package)
