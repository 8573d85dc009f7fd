"""Does the law of model size and data predict over-trained and larger models? Public losses, D/N from 5 to 2,270."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments._lib.over_trained import (
    CHINCHILLA,
    FREE_TIE,
    IN_SAMPLE,
    SHAPES,
    TIED,
    VARIANTS,
    Losses,
    errors,
    law_of,
    made_by,
    refit,
    resampled,
    rms,
    splits,
    tables,
)
from experiments._lib.over_trained_verdicts import over_training_figure, over_training_verdicts
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.fits import BLEND, LossLaw, TunedTable


@dataclass(frozen=True)
class Config:
    """Resampling of the intervals and of the control.

    Attributes:
        draws: tables of resampled model sizes of each interval.
        made: tables of losses from Chinchilla's law of each control.
        only: names of the tables; none: all.
        variants: changes of the tables under which the laws are fitted too, without intervals.
        level: of the intervals.
        seed: of both.
    """

    draws: int = 200
    made: int = 200
    only: tuple[str, ...] = ()
    variants: tuple[str, ...] = VARIANTS
    level: float = 0.95
    seed: int = 0


SCALES = {"quick": Config(draws=4, made=4, only=("Gemstones, cooled down",), variants=()), "full": Config()}
UNITS = {
    "table": "name of the table in experiments/data",
    "variant": "what was changed in the table; none: nothing",
    "split": "runs that are left out of the fit",
    "runs": "number of runs whose losses are predicted; in sample: all",
    "law": "form that is fitted to the other runs",
    "error": "rms of the logarithm of predicted over measured loss",
    "ratio": "error over that of Chinchilla's law",
    "ratio_low": "lower end of its interval, from resampled model sizes; nan: not computed",
    "ratio_high": "upper end of its interval",
    "alpha": "exponent of the model size",
    "beta": "exponent of the data",
    "tie": "β over α/(1 + α)",
    "tie_low": "lower end of its interval",
    "tie_high": "upper end of its interval",
    "sharpness": "k, with which the limits of model size and data meet; Chinchilla: nan",
    "sharpness_low": "lower end of its interval",
    "sharpness_high": "upper end of its interval",
    "floor": "E, nats per token",
    "made_ratio": "median of the ratio where Chinchilla's law made the losses; nan: not computed",
    "made_share": "share of these ratios that are at most the measured one",
    "p_value": "of the tie against β free, from resampled residuals; nan: not computed",
}


class Row(NamedTuple):
    """A law, fitted to a part of a table, as in `UNITS`."""

    table: str
    variant: str
    split: str
    runs: int
    law: str
    error: float
    ratio: float
    ratio_low: float
    ratio_high: float
    alpha: float
    beta: float
    tie: float
    tie_low: float
    tie_high: float
    sharpness: float
    sharpness_low: float
    sharpness_high: float
    floor: float
    made_ratio: float
    made_share: float
    p_value: float


def run(config: Config) -> Result:
    """Fit the laws to every part of every table, with intervals and a control; the changed tables without them."""
    start = time.perf_counter()
    items = [(name, variant, split) for variant in ("", *config.variants) for name, split in _parts(config, variant)]
    rows = [row for part in map_on_cores(partial(_fit, config), items) for row in part]
    verdicts = over_training_verdicts(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, {"over_training": over_training_figure(rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """Return the figure of a recorded table."""
    return {"over_training": over_training_figure(rows_of(Row, recorded.rows))}


def _parts(config: Config, variant: str) -> list[tuple[str, str]]:
    chosen = {name: table for name, table in tables(variant).items() if not config.only or name in config.only}
    return [(name, split) for name, table in chosen.items() for split in splits(table)]


def _fit(config: Config, item: tuple[str, str, str]) -> list[Row]:
    name, variant, split = item
    table = tables(variant)[name]
    out = splits(table)[split]
    laws = [law_of(shape, table, out) for shape in SHAPES]
    found = [rms(errors(law, table, _predicted(out))) for law in laws]
    tied, free, chinchilla = (SHAPES.index(shape) for shape in (TIED, FREE_TIE, CHINCHILLA))
    ends = np.full((2, len(laws), 3), np.nan)
    made, p_value = np.array([]), np.nan
    if not variant:  # the changed tables are only there to see how much the errors move
        tail = (1 - config.level) / 2
        ends = np.quantile(_drawn(table, out, laws, config.draws, config.seed), [tail, 1 - tail], axis=0)
        made = _made(table, out, laws, config)
        if split == IN_SAMPLE:
            whole = TunedTable(table.settings, table.loss)
            p_value = whole.chance_of_tie(laws[tied], laws[free], config.level, config.seed)
    rows = []
    for place, (law, error) in enumerate(zip(laws, found, strict=True)):
        alpha, beta, tie, sharpness = _exponents(law)
        ratio = error / found[chinchilla]
        controlled = place == tied and made.size
        (ratio_low, tie_low, sharpness_low), (ratio_high, tie_high, sharpness_high) = ends[:, place]
        rows.append(
            Row(
                table=name,
                variant=variant or "none",
                split=split,
                runs=_predicted(out).size,
                law=law.shape.name,
                error=error,
                ratio=ratio,
                ratio_low=ratio_low,
                ratio_high=ratio_high,
                alpha=alpha,
                beta=beta,
                tie=tie,
                tie_low=tie_low,
                tie_high=tie_high,
                sharpness=sharpness,
                sharpness_low=sharpness_low,
                sharpness_high=sharpness_high,
                floor=float(law.factors[0]),
                made_ratio=float(np.median(made)) if controlled else np.nan,
                made_share=float(np.mean(made <= ratio)) if controlled else np.nan,
                p_value=p_value if place == free else np.nan,
            )
        )
    return rows


def _predicted(out: np.ndarray) -> np.ndarray:
    """Return the places of the runs whose losses are predicted: in sample all."""
    return np.flatnonzero(out) if out.any() else np.arange(out.size)


def _exponents(law: LossLaw) -> tuple[float, float, float, float]:
    """Return α, β, β over α/(1 + α) and k."""
    alpha = float(law.exponent("α"))
    tied = alpha / (1 + alpha)
    beta = float(law.exponent("β")) if "β" in law.shape.fitted else tied
    fixed = np.nan if law.shape is CHINCHILLA else float(law.shape.fixed.get("k", BLEND))
    return alpha, beta, beta / tied, float(law.exponent("k")) if "k" in law.shape.fitted else fixed


def _drawn(table: Losses, out: np.ndarray, laws: Sequence[LossLaw], number: int, seed: int) -> np.ndarray:
    """Return (draws, laws, 3): ratio of errors, β over α/(1 + α) and k, from resampled model sizes."""
    found = []
    for kept, left in resampled(table, out, number, seed):
        again = [refit(law, table, kept) for law in laws]
        error = np.array([rms(errors(law, table, left)) for law in again])
        rest = [_exponents(law)[2:] for law in again]
        found.append(np.column_stack([error / error[SHAPES.index(CHINCHILLA)], rest]))
    return np.array(found)


def _made(table: Losses, out: np.ndarray, laws: Sequence[LossLaw], config: Config) -> np.ndarray:
    """Return (tables,) ratios of errors of the tied law where Chinchilla's law, fitted to all runs, made the losses."""
    kept, left = np.flatnonzero(~out), _predicted(out)
    # The tied law has fewer parameters: where this alone makes it better, ratios are below 1 here too.
    whole = law_of(CHINCHILLA, table, np.zeros_like(out))
    pair = [laws[SHAPES.index(shape)] for shape in (TIED, CHINCHILLA)]
    ratios = []
    for each in made_by(whole, table, config.made, config.seed):
        tied, other = (rms(errors(refit(law, each, kept), each, left)) for law in pair)
        ratios.append(tied / other)
    return np.array(ratios)
