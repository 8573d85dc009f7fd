"""Power laws that a grid of losses shows: of the best learning rate, of batch sizes, in B, D and model size."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sgdtheory.fits.degradation import Degradation
from sgdtheory.fits.loss_targets import LossTarget
from sgdtheory.fits.power_law import PowerProduct, fit_power_product
from sgdtheory.fits.tuned_loss import TUNED, TunedLosses

BATCH_SIZE, SAMPLES, SIZE = "batch_size", "samples", "size"
Point = tuple[str, dict[str, float], float]  # group, what it is a power of, value


@dataclass(frozen=True, eq=False)
class GridLaw:
    """A quantity as a product of powers, of one group or of all of them.

    Attributes:
        quantity: "learning rate": the best γ; "best batch size": that of the least loss; "batch size within x%": the
            largest with that degradation; "critical batch size": B* at the targets.
        group: name of the group; "all" where the size of the groups is among the powers.
        fit: with an exponent for each of "batch_size", "samples" (D; of B* the data to the target at B_ref) and "size".
    """

    quantity: str
    group: str
    fit: PowerProduct


def grid_laws(
    groups: Sequence[TunedLosses], targets: Sequence[LossTarget], degradations: Sequence[Degradation]
) -> tuple[GridLaw, ...]:
    """All laws that there are enough points for: two more than numbers in the law."""
    sizes = {group.group: group.size for group in groups}
    quantities: dict[str, Iterable[Point]] = {
        "learning rate": (point for group in groups for point in _rates(group)),
        "best batch size": ((each.group, {SAMPLES: each.samples}, each.best_batch_size) for each in degradations),
        "critical batch size": ((each.group, {SAMPLES: each.samples}, each.critical_batch_size) for each in targets),
    }
    if degradations:
        within = ((each.group, {SAMPLES: each.samples}, each.batch_size) for each in degradations)
        quantities[f"batch size within {degradations[0].share:.3g}"] = within
    found = []
    for quantity, points in quantities.items():
        finite = [point for point in points if np.isfinite(point[2])]
        found += [GridLaw(quantity, name, fit) for name, fit in _fits(finite, sizes)]
    return tuple(found)


def _rates(group: TunedLosses) -> Iterator[Point]:
    """The best γ where it lies between rates."""
    for b, d in zip(*np.nonzero(group.state == TUNED), strict=True):
        where = {BATCH_SIZE: float(group.batch_sizes[b]), SAMPLES: float(group.samples[d])}
        yield group.group, where, float(group.learning_rate[b, d])


def _fits(points: list[Point], sizes: dict[str, float]) -> Iterator[tuple[str, PowerProduct]]:
    """(group, law) of each group and, where they have different sizes, of all with the size."""
    for name in sizes:
        fit = _fit([point for point in points if point[0] == name])
        if fit:
            yield name, fit
    if len(set(sizes.values())) > 1:
        fit = _fit([(name, {**where, SIZE: sizes[name]}, value) for name, where, value in points])
        if fit:
            yield "all", fit


def _fit(points: list[Point]) -> PowerProduct | None:
    """The law; None with too few points, such that do not tell the powers apart, or a size that is not known."""
    names = list(points[0][1]) if points else []
    if len(points) < len(names) + 3:
        return None
    x = {name: [where[name] for _, where, _ in points] for name in names}
    varying = {name: column for name, column in x.items() if len(set(column)) > 1}
    try:
        return fit_power_product(varying, [value for *_, value in points]) if varying else None
    except ValueError:
        return None
