"""Does computing in bfloat16 move the critical batch size?"""

from dataclasses import replace

from matplotlib.figure import Figure

from experiments._lib.redraw import Recorded
from experiments._lib.results import Result
from experiments._lib.variants import SCALES, UNITS, Config, compare, figures

__all__ = ["SCALES", "UNITS", "WORDS", "Config", "redraw", "run"]

WORDS = "float32", "bfloat16"  # what a run is as it is, and changed


def run(config: Config) -> Result:
    """The same sweep in float32 and with bfloat16 layers."""
    return compare(config, "precision", lambda each: replace(each, precision="bfloat16"), WORDS)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figures, from a recorded table."""
    return figures(config, "precision", recorded.rows, WORDS)
