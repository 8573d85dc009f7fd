"""The experiments width_limit and width_invariance at widths that take a GPU, as much of their grids as time allows.

All runs are one sweep into one store. They are ordered so that a part of them is of use already: all widths at three
batch sizes that lie far apart come before the others. Products of float32 are made in float32: at large widths the
differences that width_limit measures are as small as what TF32 rounds off.
"""

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax

from benchmarks._gpu.sizes import Sizes
from experiments import width_invariance, width_limit
from experiments._lib.network_sweeps import Task, task_configs
from experiments._lib.results import Result
from sgdtheory.sweep import Progress, Store, SweepTable, sweep
from sgdtheory.training import TrainConfig, TrainResult

CHECKPOINT_SECONDS = 120.0  # of a wide network it takes seconds
FEWEST = 3  # widths, and batch sizes of a width, that are fitted


class Cell(NamedTuple):
    """Runs that are of use together: one width, on a task at one batch size.

    Attributes:
        of: "width_limit", or the name of a task.
        width, batch_size: of the runs.
        configs: of the runs.
    """

    of: str
    width: int
    batch_size: int
    configs: list[TrainConfig]


def cells_of(sizes: Sizes) -> list[Cell]:
    """All runs, in the order in which they are trained."""
    limit, cells = sizes.limit, []
    configs = width_limit.configs_of(limit)
    for width in limit.widths:
        cells.append(Cell("width_limit", width, limit.batch_size, [each for each in configs if each.width == width]))
    for later in False, True:
        for name, task in sizes.tasks.items():
            configs = task_configs(task, parametrization="mup")
            chosen = [size for size in task.batch_sizes if (size in main_batch_sizes(task)) != later]
            for size, width in itertools.product(chosen, task.widths):
                own = [each for each in configs if (each.width, each.batch_size) == (width, size)]
                cells.append(Cell(name, width, size, own))
    return cells


def main_batch_sizes(task: Task) -> tuple[int, ...]:
    """The smallest, which is the reference, the middle and the largest one."""
    sizes = task.batch_sizes
    return sizes[0], sizes[len(sizes) // 2], sizes[-1]


def train(sizes: Sizes, store: Path, seconds: float, report: Callable[[Progress], None] | None = None) -> None:
    """Go on with the runs for so many seconds.

    Raises:
        KeyboardInterrupt: Ctrl-C came; what had begun goes on next time.
    """
    configs = [config for cell in cells_of(sizes) for config in cell.configs]
    ends = time.monotonic() + seconds
    with _float32_products(), ThreadPoolExecutor(sizes.threads) as executor:  # one compiles while another runs
        table = sweep(
            configs,
            store,
            executor=executor,
            checkpoint_seconds=CHECKPOINT_SECONDS,
            progress=report,
            max_seconds=seconds,
            keep_states=False,
        )
    if table.interrupted and time.monotonic() < ends:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _float32_products() -> Iterator[None]:
    """A context in which all threads multiply float32 as float32."""
    name = "jax_default_matmul_precision"
    before = getattr(jax.config, name)
    jax.config.update(name, "float32")
    try:
        yield
    finally:
        jax.config.update(name, before)


class Finished:
    """The runs of a store that have ended.

    Attributes:
        cells: of which every run has ended.
        runs, total: how many runs have ended, of how many.
    """

    def __init__(self, sizes: Sizes, store: Path):
        self._sizes, place, cells = sizes, Store(store), cells_of(sizes)
        everything = [config for cell in cells for config in cell.configs]
        found = {config.fingerprint: place.result(config) for config in everything}
        self._results = {name: result for name, result in found.items() if result is not None}
        self.cells = [cell for cell in cells if all(each.fingerprint in self._results for each in cell.configs)]
        self.runs, self.total = len(self._results), len(found)

    def results(self) -> dict[str, Result]:
        """Tables, figures and verdicts of the experiments, by name, as far as their runs go."""
        return {
            name: result
            for name, result in (("width_limit", self._limit()), ("width_invariance", self._invariance()))
            if result is not None
        }

    def configs(self) -> dict[str, width_limit.Config | width_invariance.Config]:
        """The experiments' configs, without what has not been trained."""
        done = {cell.width for cell in self.cells if cell.of == "width_limit"}
        neighbours = itertools.takewhile(done.__contains__, self._sizes.limit.widths)
        limit = replace(self._sizes.limit, widths=tuple(neighbours))
        tasks = {name: self._task(name) for name in self._sizes.tasks}
        kept = {name: task for name, task in tasks.items() if task.widths}
        return {"width_limit": limit, "width_invariance": width_invariance.Config(kept)}

    def _limit(self) -> Result | None:
        config = self.configs()["width_limit"]
        assert isinstance(config, width_limit.Config)
        if len(config.widths) < FEWEST:
            return None
        return width_limit.result_of(config, self._of(width_limit.configs_of(config)), seconds=0.0)

    def _invariance(self) -> Result | None:
        config = self.configs()["width_invariance"]
        assert isinstance(config, width_invariance.Config)
        found = []
        for name, task in config.tasks.items():
            cells = [cell for cell in self.cells if cell.of == name and cell.width in task.widths]
            configs = tuple(each for cell in cells for each in cell.configs)
            found += width_invariance.fits_of(config, name, "mup", SweepTable(configs, tuple(self._of(configs))))
        return width_invariance.result_of(config, found, seconds=0.0) if found else None

    def _task(self, name: str) -> Task:
        """The task, without widths at which there is too little to fit."""
        cells = [cell for cell in self.cells if cell.of == name]
        number = Counter(cell.width for cell in cells)
        widths = tuple(width for width in self._sizes.tasks[name].widths if number[width] >= FEWEST)
        return replace(self._sizes.tasks[name], widths=widths)

    def _of(self, configs: Sequence[TrainConfig]) -> list[TrainResult]:
        return [self._results[config.fingerprint] for config in configs]
