"""`sgdtheory coordcheck`: do activations keep their size as the width grows?"""

import sys

from sgdtheory import training
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.network import NetworkFlags
from sgdtheory.cli.output import announce_models
from sgdtheory.training import TOLERANCE


def coordcheck(
    network: NetworkFlags,
    widths: tuple[int, ...] = (64, 128, 256, 512),
    steps: tuple[int, ...] = (1, 3, 10, 30),
    seeds: int = 8,
    tolerance: float = TOLERANCE,
    zero_output: bool = True,
) -> Drawn:
    """Train networks of several widths for a few steps; print how the change of each layer's activations scales.

    The exit status is 1 if a slope is outside the tolerance.

    Args:
        widths: Widths; the smallest is the base width.
        steps: Steps after which to look.
        seeds: Number of initial weights for each width.
        tolerance: Largest slope that passes.
        zero_output: Train from output weights of 0, to which the initial output tends under µP.
    """
    config = network.config
    announce_models([config.value("entry_point")])
    found = training.coordinate_check(
        config, widths=widths, steps=steps, seeds=seeds, tolerance=tolerance, zero_output=zero_output
    )

    return Drawn(found.sheet(), lambda: sys.exit(0 if found.passes else 1), found.plot)
