"""Does B* depend on the model size or on the data size? Exact for the first M features of a power law."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.last_layer import last_layers
from experiments._lib.model_size_config import Config, Networks
from experiments._lib.model_size_figures import figures
from experiments._lib.model_size_verdicts import verdicts
from experiments._lib.model_sizes import ALL, UNITS, Pair, Row, best_size, row_of, solved
from experiments._lib.network_sweeps import TEACHER
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.training import TrainConfig

SCALES = {
    "quick": Config(
        exponents=((2.0, 3.0), (2.0, 6.0)),
        model_sizes=(4, 22, 464, 2154),
        num_samples=(1e4, 1e6, 1e8, 1e10),
        samples_per_feature=(20.0,),
        together=(1e4, 1e6, 1e8, 1e10),
        notion_samples=1e8,
        gaussian_sizes=(),
        gaussian_samples=(),
        compute=(1e6, 1e9, 1e12, 1e15),
        networks=Networks(
            task=replace(TEACHER, widths=(128, 256)),
            num_samples=(1000.0, 4000.0),
            trained_samples=(0,),
            num_seeds=1,
            num_inputs=4096,
        ),
    ),
    "full": Config(),
}


def run(config: Config) -> Result:
    """Solve over the plane, along the paths, and for the networks' features."""
    start = time.perf_counter()
    items = [
        *_network_items(config),
        *(("gaussian", *item, 0.0) for item in product(config.exponents, reversed(config.gaussian_sizes))),
        *(("compute", pair, ALL, each) for pair, each in product(config.exponents, config.compute)),
        *_together(config),
        *(("grid", *item) for item in product(config.exponents, (*config.model_sizes, ALL), config.num_samples)),
    ]
    rows = [row for some in map_on_cores(partial(_solve, config), items) for row in some]
    judged = tuple(verdicts(config, rows, time.perf_counter() - start))
    return Result(columns_of(rows), UNITS, figures(config, rows), judged)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return figures(config, rows_of(Row, recorded.rows))


def _network_items(config: Config) -> Iterator[tuple]:
    nowhere = np.nan, np.nan
    for width, trained in product(config.networks.task.widths, config.networks.trained_samples):
        yield f"network, {'trained' if trained else 'initial'}", nowhere, width, trained


def _together(config: Config) -> Iterator[tuple[str, Pair, float, float]]:
    """M = D/κ for every κ, as long as there are as many features as the grid has at least."""
    for pair, ratio, samples in product(config.exponents, config.samples_per_feature, config.together):
        if samples / ratio >= min(config.model_sizes):
            yield f"D = {ratio:g} M", pair, round(samples / ratio), samples


def _solve(config: Config, item: tuple[str, Pair, float, float]) -> list[Row]:
    kind, pair, size, samples = item
    if kind.startswith("network"):
        return _network_rows(config, kind, int(size), int(samples))
    if kind == "gaussian":
        model = st.PowerLaw(*pair).with_features(int(size), kind="gaussian")
        missing = model.approximation_risk
        return [row_of(kind, pair, size, each, model, missing) for each in config.gaussian_samples]
    if kind == "compute":
        size = best_size(pair, samples)
        return [solved(kind, pair, size, samples / size), solved(f"{kind}, all features", pair, ALL, samples / size)]
    return [solved(kind, pair, size, samples, whole_rate=kind == "grid" and samples == config.notion_samples)]


def _network_rows(config: Config, kind: str, width: int, trained: int) -> list[Row]:
    """k* of the features of every seed, at every D."""
    own = config.networks
    fields = {"width": width, "batch_size": own.task.batch_sizes[0], "learning_rate": 2.0**own.task.log2_rate}
    steps = trained // own.task.batch_sizes[0]
    fields |= {"max_steps": max(1, steps), "eval_every": max(1, steps)}
    configs = [
        TrainConfig.from_fields({**own.task.fields, **fields, "seed": seed, "data_seed": seed})
        for seed in range(own.num_seeds)
    ]
    layers = last_layers(configs, steps, own.num_inputs)
    return [
        row_of(kind, (np.nan, np.nan), width, samples, layer.problem, layer.approximation_risk)
        for layer, samples in product(layers, own.num_samples)
    ]
