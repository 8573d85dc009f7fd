"""Does accumulating gradients of micro-batches move the critical batch size?"""

from dataclasses import replace

from matplotlib.figure import Figure

from experiments._lib.redraw import Recorded
from experiments._lib.results import Result
from experiments._lib.variants import SCALES, UNITS, Config, compare, figures

__all__ = ["SCALES", "UNITS", "WORDS", "Config", "redraw", "run"]

WORDS = "whole batches", "four micro-batches"  # what a run is as it is, and changed


def run(config: Config) -> Result:
    """The same sweep with whole batches and with four micro-batches each."""
    return compare(config, "accumulation", lambda each: replace(each, micro_batch=each.batch_size // 4), WORDS)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figures, from a recorded table."""
    return figures(config, "accumulation", recorded.rows, WORDS)
