"""Specification of a panel of the explorer: its computations, drawings and words, and the Python code beside it.

A file in `panels/` with a tuple `PANELS` adds its panels to the page. What a panel draws and says is data, from which
the server's page (Bokeh) and the exported page (SVG) are both made. The file imports no Bokeh: workers, which compute,
import it too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sgdtheory._common.sheets import Sheet
from sgdtheory.explore.state import SLOTS, State

LAW = "capacity", "source", "noise_variance", "precondition", "num_features", "num_samples"
HEIGHT = 280
BELOW = 30.0  # The y axis goes below the least value by this factor: a bias of 1e-20 of the risk is nothing to look at.
INK = -1  # What belongs to no algorithm has this index, and the colour of text.
Columns = dict[str, Any]  # (K,) arrays


@dataclass(frozen=True)
class Answer:
    """Results of one algorithm that a panel shows.

    Attributes:
        panel: name of the answer, which is that of a panel or "simulated".
        columns: (K,) arrays by name.
        marks: single numbers by name.
        words: sentences for the reader.
        sheets: the results' own tables, as the command line and notebooks show them.
    """

    panel: str
    columns: Columns = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    sheets: tuple[Sheet, ...] = ()


Tell = Callable[[Answer], None]


class Glyph(NamedTuple):
    """A line or a kind of point that a panel draws, on the server's page and on the exported one.

    Attributes:
        name: unique in its panel.
        kind: "line", "star", "circle", "bars", or a straight line across the panel: "level" (at y), "upright" (at x).
        answer: name of the answer that has its points.
        x, y: names of columns of the answer; error bars go from the column `y` to the column `top`.
        single: whether it is one point, so that x and y are marks; a straight line's place is a mark or a number.
        slots: places of the algorithms that have one; (INK,) for what belongs to no algorithm.
        words: its entry in the legend; "" stands for the names of the algorithms, None for no entry.
        dash: "solid", "dashed", "dotted" or "dotdash".
        width: of its line, relative to the usual one.
        size: of its points, in pixels.
        measured: whether the axes show all of it.
        hover: whether it shows its numbers under the pointer.
        optional: whether its entry is in the legend only while it has points.
    """

    name: str
    kind: str
    answer: str
    x: str | float = ""
    y: str | float = ""
    top: str = ""
    single: bool = False
    slots: tuple[int, ...] = tuple(range(len(SLOTS)))
    words: str | None = None
    dash: str = "solid"
    width: float = 1.0
    size: int = 16
    measured: bool = False
    hover: bool = False
    optional: bool = False

    @property
    def first(self) -> int:
        """Place of the algorithm whose colour the legend shows."""
        return self.slots[0]

    @property
    def across(self) -> bool:
        """Return whether the glyph is a straight line across the panel."""
        return self.kind in ("level", "upright")

    def place(self, slot: int) -> int | None:
        """Return the place under which it is drawn for an algorithm; None if it is not drawn for this one."""
        return INK if self.slots == (INK,) and slot == 0 else slot if slot in self.slots else None


@dataclass(frozen=True)
class Job:
    """A computation in a worker's process, which gives its answers as soon as it has them and may be stopped.

    Attributes:
        name: of the computation.
        compute: called with a state, an algorithm's place and a function that takes answers.
        words: what the page says while it waits.
        answer: name of the answers that it gives.
        depends_on: parts of the state, beside the algorithm; None: it is computed when a visitor asks for it.
        turn: computations with a smaller one come first.
        lanes: of quick algorithms (`State.quick`), and of others: "quick", "long", or "" where it is not computed.
        patient: whether one for an older position of a slider has some time to end before it is stopped.
        needs_risk: whether it is left out for an algorithm whose risk is not known.
    """

    name: str
    compute: Callable[[State, int, Tell], None]
    words: str
    answer: str
    depends_on: tuple[str, ...] | None
    turn: int
    lanes: tuple[str, str] = ("long", "long")
    patient: bool = True
    needs_risk: bool = True

    def lane(self, state: State, slot: int) -> str:
        """Return the name of the workers that compute it."""
        if self.needs_risk and not state.has_risk(slot):
            return ""
        return self.lanes[0 if state.quick(slot) else 1]

    def inputs(self, state: State, slot: int) -> tuple[Any, ...]:
        """Return all that it depends on: with the same inputs it need not be done again."""
        return (getattr(state, SLOTS[slot]), *(getattr(state, name) for name in self.depends_on or ()))


class Program(NamedTuple):
    """A figure to download: its title, the body of its Python, and the job whose last answer is its table."""

    title: str
    body: Callable[[State], str]
    job: str


@dataclass(frozen=True)
class PanelSpec:
    """A panel of the page.

    Attributes:
        name: of the panel.
        labels: of its axes, with formulas between dollar signs; "" for an axis without a label.
        place: panels with a smaller one come first.
        glyphs: what it draws.
        captions: titles that state the result, the most telling first: the first whose [numbers] are known is shown.
        told_by: name of the answer that has these numbers, of the first algorithm.
        jobs: computations made for it.
        programs: name → figure to download; that of the panel's name has its title, and only a panel beneath another
            one may do without.
        short: a name for the row of buttons.
        beneath: the panel under whose figure it stands, with the same x axis.
        height: of the figure, in pixels.
        formula: what is drawn, in the notation of `formulas`.
        linear: whether the y axis is linear, from 0.
        below: how far the y axis goes beneath the least measured value, as a factor.
        capped: whether a line's first value is the largest that the y axis shows of it.
        y_range, y_ticks: of the y axis, where the points do not decide.
    """

    name: str
    labels: tuple[str, str]
    place: int
    glyphs: Sequence[Glyph] = ()
    captions: Sequence[str] = ()
    told_by: str = ""
    jobs: tuple[Job, ...] = ()
    programs: Mapping[str, Program] = field(default_factory=dict)
    short: str = ""
    beneath: str = ""
    height: int = HEIGHT
    formula: str = ""
    linear: bool = False
    below: float = BELOW
    capped: bool = False
    y_range: tuple[float, float] | None = None
    y_ticks: Sequence[float] = ()

    def __post_init__(self) -> None:
        if not self.beneath and self.name not in self.programs:
            raise ValueError(
                f"programs must have one of the panel's name, {self.name!r}, whose title is the panel's; got "
                f"{sorted(self.programs)}"
            )

    @property
    def shows(self) -> set[str]:
        """Names of the answers that it draws."""
        return {glyph.answer for glyph in self.glyphs}
