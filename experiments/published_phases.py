"""Which model size is best for a compute? Power-law random features with SGD and signSGD, and published exponents."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments._lib import published_phases as phases
from experiments._lib import published_signs as signs
from experiments._lib.processes import map_on_cores
from experiments._lib.published_phases_figure import phases_figure
from experiments._lib.published_phases_verdicts import phase_verdicts
from experiments._lib.published_theory import Row
from experiments._lib.results import Result
from experiments._lib.rows import columns_of, rows_of


@dataclass(frozen=True)
class Config:
    """Phases and sizes d of the model.

    Attributes:
        phases: names of phases of arXiv 2405.15074, as in `phases.PHASES`.
        phase_sizes: log2 of the smallest and of the largest d.
        octaves: of compute between two computes whose slope is taken.
        drawn_sizes: d of which W is drawn.
        sign_phases, sign_sizes: the same for signSGD.
        draws: number of draws of W.
        check_sizes: d at which small signals are compared with `st.SignSGD`.
        floor_sizes: d of the noise of signSGD.
    """

    phases: tuple[str, ...] = tuple(phase.name for phase in phases.PHASES)
    phase_sizes: tuple[float, float] = (4.0, 16.0)
    octaves: int = 4
    drawn_sizes: tuple[int, ...] = (64, 256)
    sign_phases: tuple[str, ...] = ("III", "Ia")
    sign_sizes: tuple[tuple[float, float], ...] = ((3.5, 11.5), (3.5, 10.0))
    draws: int = 4
    check_sizes: tuple[int, ...] = (16, 32)
    floor_sizes: tuple[int, ...] = (64, 256, 1024)


SCALES = {
    "quick": Config(
        phases=("II", "III"),
        phase_sizes=(4.0, 13.0),
        octaves=2,
        drawn_sizes=(64,),
        sign_phases=("III",),
        sign_sizes=((3.5, 9.0),),
        draws=2,
        check_sizes=(16,),
        floor_sizes=(64, 256),
    ),
    "full": Config(),
}
UNITS = {
    "question": "phases, drawn W, signs, noise; small signals: their loss over that of st.SignSGD",
    "method": "optimizer",
    "capacity": "2α, exponent a of the eigenvalues before W",
    "source": "2α + 2β, exponent b of the initial risk before W",
    "case": "d and the draw of W",
    "number": "n",
    "batch_size": "B, samples",
    "learning_rate": "γ; SGD: units of 1/λ_1; signs: of the weights",
    "risk": "excess risk there plus the least risk, units of y²; of small signals: a ratio",
}


def run(config: Config) -> Result:
    """Compute the losses of all sizes."""
    rows = [row for part in map_on_cores(partial(_solve, config), _items(config)) for row in part]
    return Result(columns_of(rows), UNITS, _figures(config, rows), tuple(phase_verdicts(config, rows)))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """Return the figure of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"published_phases": phases_figure(config, rows)}


def _items(config: Config) -> list[tuple[str, Any]]:
    """Return what is computed side by side, the largest first."""
    points = {point.name: point for point in signs.POINTS}
    items: list[tuple[str, Any]] = []
    for name, (first, last) in zip(config.sign_phases, config.sign_sizes, strict=True):
        items += [(signs.SIGNS, (points[name], size)) for size in reversed(phases.sizes_of(first, last))]
        items += [(signs.CHECK, (points[name], size)) for size in config.check_sizes]
    chosen = [phase for phase in phases.PHASES if phase.name in config.phases]
    items += [(phases.QUESTION, phase) for phase in chosen]
    items += [(phases.DRAWN, (phase, draw)) for phase in chosen for draw in range(config.draws)]
    return items + [(signs.FLOOR, (phase, size)) for phase in signs.FLOORS for size in config.floor_sizes]


def _solve(config: Config, item: tuple[str, Any]) -> list[Row]:
    question, about = item
    if question == phases.QUESTION:
        return phases.of_phase(about, phases.sizes_of(*config.phase_sizes))
    if question == phases.DRAWN:
        phase, draw = about
        return phases.of_phase(phase, config.drawn_sizes, draw, 1.0)
    phase, size = about
    if question == signs.SIGNS:
        return signs.of_size(phase, size, config.draws, (0.0, signs.DECAY))
    if question == signs.CHECK:
        return [signs.against_library(phase, size, float(steps)) for steps in (4 * size, 32 * size)]
    return [signs.floor_of(phase, size)]
