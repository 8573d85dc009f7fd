"""Does computing in bfloat16 move the critical batch size?"""

from dataclasses import replace

from experiments._lib.results import Result
from experiments._lib.variants import SCALES, UNITS, Config, compare

__all__ = ["SCALES", "UNITS", "WORDS", "Config", "run"]

WORDS = "float32", "bfloat16"  # what a run is as it is, and changed


def run(config: Config) -> Result:
    """The same sweep in float32 and with bfloat16 layers."""
    return compare(config, "precision", lambda each: replace(each, precision="bfloat16"), WORDS)
