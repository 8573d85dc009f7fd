"""Fit of one law of the loss in model size, data and batch size, at the best learning rate (THEORY.md T48)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sgdtheory._common.arguments import share_between_0_and_1, whole_number
from sgdtheory.fits.joint_draws import TunedTable, drawn
from sgdtheory.fits.joint_law import ComparedLaw, JointLaw
from sgdtheory.fits.joint_shapes import FREED, JOINT, RIVALS, LossLaw, Settings
from sgdtheory.fits.loss_noise import tuned_groups

# Laws whose errors at left-out pairs are up to this multiple of the least take part in the intervals.
AS_GOOD = 1.5
# A fit needs this many more settings than it has parameters, so that residuals are left to estimate the scatter from.
SPARE = 4
SIZES = 2  # Fewer model sizes do not determine an exponent of N.
BATCHES = 3  # Fewer batch sizes do not determine a minimum over B.


def fit_joint_law(
    table: Mapping[str, Any] | Sequence[Any], *, level: float = 0.95, edges: bool = False, seed: int = 0
) -> JointLaw:
    """Fit one law of the loss in model size, data and batch size to a grid of losses (THEORY.md T48).

        L(N, D, B) = E + [(A N^−α)^k + (C D_e^−β)^k]^{1/k} + G/√B,    β = α/(1 + α),    k = 5/2
        D = D_e [1 + (B/(B_0 D_e^κ))^h]^{1/h}

    D_e is the data with which vanishing batches reach the same loss, up to their own cost G/√B. The loss of each
    setting (N, D, B) is the lowest point of a parabola in log γ, as in `fit_loss_grid`. D is the data of whole runs.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> logs = np.meshgrid([8, 8.5, 9], [9.5, 10, 10.5, 11], [1.5, 2, 2.5, 3, 3.5])
    >>> N, D, B = (10 ** each.ravel() for each in logs)
    >>> useful = D / (1 + B / 500)
    >>> loss = 1 + ((N / 1e6) ** -0.75 + (useful / 1e7) ** -0.577) ** 0.4 + 0.2 * B**-0.5  # α = 0.3, β = 0.3/1.3
    >>> columns = {"size": N, "samples": D, "batch_size": B, "learning_rate": np.ones_like(N), "loss": loss}
    >>> found = st.fit_joint_law(columns)
    >>> round(found.size_exponent.value, 2), round(found.growth_exponent.value, 2)
    (0.3, 0.0)
    >>> round(found.critical_batch_size(1e9, 1e11).batch_size)
    613

    Args:
        table: columns by name (a dict, a pandas DataFrame, what `read_loss_grid` returns) or rows: size (N),
            batch_size, samples (D), learning_rate, loss (positive; nan or inf of a run that diverged), perhaps seed.
        level: level of the confidence intervals.
        edges: use losses whose best learning rate lies at an end of those that were run, too.
        seed: of the resampling.

    Returns:
        JointLaw.

    Raises:
        ValueError: the table is malformed or without model sizes, or it has too few model sizes, batch sizes or
            settings with a known best learning rate.
    """
    level = share_between_0_and_1("level", level)
    seed = whole_number("seed", seed, 0)
    every = []
    settings = 0
    for group, _ in tuned_groups(table):
        settings += len(group.cells)
        batch, data = np.nonzero(group.usable(edges))
        size = np.full(batch.size, group.size)
        every.append(np.stack([size, group.samples[data], group.batch_sizes[batch], group.loss[batch, data]]))
    found = np.concatenate(every, axis=1)
    _check(found)
    logs = np.log(found[:3])
    losses = found[3]
    # Relative to the middle of the table, exponents and factors depend less on each other.
    centre = float(logs[0].mean()), float(logs[1].mean()), float(logs[2].mean())
    at = Settings(*(each - middle for each, middle in zip(logs, centre, strict=True)))
    of_table = TunedTable(at, losses)
    law = of_table.fitted(JOINT)
    freed = [of_table.fitted(shape, np.append(law.exponents, shape.ranges[1, -1])) for shape in FREED]
    fits = {each: _compared(of_table, each) for each in (law, *freed, *(of_table.fitted(shape) for shape in RIVALS))}
    # A law with one parameter more predicts pairs a little better by chance. It is taken only if it is better by a
    # factor of 1.5.
    taken = min((law, *freed), key=lambda each: fits[each].pairs * (1.0 if each is not law else 1 / AS_GOOD))
    best = min(each.pairs for each in fits.values())
    others = tuple(each for each, compared in fits.items() if compared.pairs <= AS_GOOD * best)
    draws = drawn(of_table, taken, others, level, seed)
    tied = of_table.chance_of_tie(law, freed[0], level, seed)
    compared = fits.pop(taken), *fits.values()
    columns = found[0], found[1], found[2], found[3]
    return JointLaw(*columns, draws, compared, tied, centre, settings - losses.size, level)


def _compared(table: TunedTable, law: LossLaw) -> ComparedLaw:
    shape = law.shape
    errors = float(np.sqrt(law.squares / table.loss.size)), table.largest_held_out(law), table.pairs_held_out(law)
    return ComparedLaw(shape.name, shape.formula, shape.number_fitted, *errors, float(law.factors[0]))


def _check(found: np.ndarray) -> None:
    """Require enough settings (4, n) for the law."""
    if np.isnan(found[0]).any():
        raise ValueError(
            "table must have a column size, the number of parameters of the model; for one model take fit_loss_grid"
        )
    sizes = np.unique(found[0]).size
    batches = np.unique(found[2]).size
    needed = JOINT.number_fitted + SPARE
    if sizes < SIZES or batches < BATCHES or found.shape[1] < needed:
        raise ValueError(
            f"table must have best learning rates between others at {SIZES} model sizes, {BATCHES} batch sizes and in "
            f"{needed} settings, got {sizes}, {batches} and {found.shape[1]}; run more, or take fit_loss_grid"
        )
