"""Does computing in bfloat16 move the critical batch size?"""

from dataclasses import replace

from experiments.results import Result
from experiments.variants import SCALES, UNITS, Config, compare

__all__ = ["SCALES", "UNITS", "Config", "run"]


def run(config: Config) -> Result:
    """The same sweep in float32 and with bfloat16 layers."""
    words = "float32", "bfloat16"
    return compare(config, "precision", lambda each: replace(each, precision="bfloat16"), words)
