"""`sgdtheory coordcheck`: do activations keep their size as the width grows?"""

import sys
from typing import Annotated, Any

from sgdtheory import training
from sgdtheory.cli.function_command import Drawn, Keywords
from sgdtheory.cli.network import NetworkFlags
from sgdtheory.cli.output import announce_models

OPTIONS = Keywords(training.coordinate_check, "widths steps seeds tolerance zero_output")


def coordcheck(network: NetworkFlags, **options: Annotated[Any, OPTIONS]) -> Drawn:
    """Train networks of several widths for a few steps; print how the change of each layer's activations scales.

    The exit status is 1 if a slope is outside the tolerance.
    """
    config = network.config
    announce_models([config.value("entry_point")])
    found = training.coordinate_check(config, **options)
    return Drawn(found.sheet(), lambda: sys.exit(0 if found.passes else 1), found.plot)
