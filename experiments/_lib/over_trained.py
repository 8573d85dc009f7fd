"""Losses of models of several sizes with little and much data: the tables, the fitted laws, and the splits."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sgdtheory.fits import JOINT, RIVALS, Exponents, LossLaw, LossShape, Settings, TunedTable, fitted_law

DATA = Path(__file__).parents[1] / "data"
FILES = "over_training.csv", "gemstones.csv"
WITHOUT_EMBEDDING = "sizes without embeddings"
WARMED_UP = "without runs that end in their warm-up"
VARIANTS = WITHOUT_EMBEDDING, WARMED_UP
IN_SAMPLE = "in sample"
LARGEST_SIZE = "largest size left out"
OVER_TRAINED = "D/N > 100 left out"
LARGEST_QUARTER = "largest quarter of sizes left out"
OVER = 100.0  # samples per parameter from which a model counts as over-trained, five times Chinchilla's 20
MANY_SIZES = 12  # from which a quarter of the sizes is more than the largest one or two
FEWEST_SIZES = 3  # E, A and α need three sizes


@dataclass(frozen=True, eq=False)
class Losses:
    """A table of losses, (n,): model size N (parameters), data D (tokens) and loss (nats per token)."""

    size: np.ndarray
    samples: np.ndarray
    loss: np.ndarray

    @property
    def settings(self) -> Settings:
        """Return the settings in logarithms, relative to the middle of the table; the batch size plays no part."""
        size, samples = np.log(self.size), np.log(self.samples)
        return Settings(size - size.mean(), samples - samples.mean(), np.zeros(self.size.size))

    def with_loss(self, loss: np.ndarray) -> "Losses":
        """Return the same runs with other losses."""
        return Losses(self.size, self.samples, loss)


# A batch size B_0 beyond all others, with which D_e is D to all digits.
NO_COST = {"log B_0": np.full((), 50.0), "κ": np.zeros(()), "h": np.ones(())}


def _blend(exponents: Exponents, at: Settings) -> tuple[np.ndarray, ...]:
    """Return the terms of the joint law that depend on model size and data, where no batch size costs data."""
    return JOINT.terms({**exponents, **NO_COST}, at)[:2]


FORMULA = "E + [(A N^−α)^k + (C D^−β)^k]^{1/k}"
OWN = "α", "log C"
FACTORS = "E", "A"
TIED = LossShape("tied law", f"{FORMULA}, β = α/(1 + α), k = 5/2", _blend, OWN, FACTORS)
FREE_TIE = LossShape("β free", f"{FORMULA}, k = 5/2", _blend, (*OWN, "β"), FACTORS)
FREE_SHARPNESS = LossShape("k free", f"{FORMULA}, β = α/(1 + α)", _blend, (*OWN, "k"), FACTORS)
FREE_BOTH = LossShape("β and k free", FORMULA, _blend, (*OWN, "β", "k"), FACTORS)
# Between the two laws: it has the tie of the one and the sum of the other.
TIED_SUM = LossShape("tied sum", "E + A N^−α + C D^−β, β = α/(1 + α)", _blend, OWN, FACTORS, {"k": np.ones(())})
CHINCHILLA = next(each for each in RIVALS if each.name == "Chinchilla")
SHAPES = TIED, CHINCHILLA, TIED_SUM, FREE_TIE, FREE_SHARPNESS, FREE_BOTH


@cache
def tables(variant: str = "") -> dict[str, Losses]:
    """Return the tables by name, of which a variant changes some: these alone are then returned."""
    columns: dict[str, list[tuple[float, ...]]] = {}
    for file in FILES:
        with (DATA / file).open(newline="", encoding="utf-8") as opened:
            for row in csv.DictReader(opened):
                if (variant and "warmed_up" not in row) or (variant == WARMED_UP and row["warmed_up"] == "0"):
                    continue
                size = row["size_without_embedding" if variant == WITHOUT_EMBEDDING else "size"]
                columns.setdefault(row["table"], []).append((float(size), float(row["samples"]), float(row["loss"])))
    return {name: Losses(*np.array(rows).T) for name, rows in columns.items()}


def splits(table: Losses) -> dict[str, np.ndarray]:
    """Return (n,) truth values by split: which runs are left out of the fit."""
    sizes = np.unique(table.size)
    found = {
        IN_SAMPLE: np.zeros(table.size.size, dtype=bool),
        LARGEST_SIZE: table.size == sizes[-1],
        OVER_TRAINED: table.samples / table.size > OVER,
    }
    if sizes.size >= MANY_SIZES:
        found[LARGEST_QUARTER] = table.size >= sizes[-(sizes.size // 4)]
    return found


def law_of(shape: LossShape, table: Losses, out: np.ndarray) -> LossLaw:
    """Fit a law to the runs that are not left out, from several starts."""
    return TunedTable(table.settings.where(~out), table.loss[~out]).fitted(shape)


def refit(law: LossLaw, table: Losses, chosen: np.ndarray) -> LossLaw:
    """Fit a law again to chosen runs (places, with repetitions), from its own exponents and from the first values."""
    at, loss = table.settings.where(chosen), table.loss[chosen]
    return min((fitted_law(law.shape, at, loss, each) for each in (law.exponents, None)), key=lambda law: law.squares)


def errors(law: LossLaw, table: Losses, chosen: np.ndarray) -> np.ndarray:
    """Return the logarithm of predicted over measured losses of chosen runs."""
    return np.log(law.loss(table.settings.where(chosen)) / table.loss[chosen])


def rms(values: np.ndarray) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(values**2)))


def resampled(table: Losses, out: np.ndarray, number: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (places to fit to, places to predict) with model sizes drawn with replacement, whole.

    Sizes that are left out altogether are drawn among themselves. Runs of one size may share what a law gets wrong.
    """
    random = np.random.default_rng(seed)
    every = np.unique(table.size)
    gone = np.array([out[table.size == size].all() for size in every])
    places = np.arange(out.size)
    while number:
        drawn = [random.choice(group, group.size) for group in (every[~gone], every[gone]) if group.size]
        chosen = np.concatenate([places[table.size == size] for size in np.concatenate(drawn)])
        kept, left = chosen[~out[chosen]], chosen[out[chosen]]
        if np.unique(table.size[kept]).size < FEWEST_SIZES or (out.any() and not left.size):
            continue
        number -= 1
        yield kept, left if out.any() else kept


def made_by(law: LossLaw, table: Losses, number: int, seed: int) -> Iterator[Losses]:
    """Yield tables with the losses of a law and its residuals: those of a size get one random sign."""
    random = np.random.default_rng(seed)
    fit = law.loss(table.settings)
    rest = np.log(table.loss / fit)
    group = np.unique(table.size, return_inverse=True)[1]
    for signs in random.choice([-1.0, 1.0], (number, group.max() + 1)):
        yield table.with_loss(fit * np.exp(signs[group] * rest))
