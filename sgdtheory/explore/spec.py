"""What a panel of the page is: what it computes, draws, tells, and the Python beside it. To add one, write its file.

A file in `panels/` with a tuple `PANELS` is a part of the page. It imports no Bokeh: workers, which compute, import it
too; what draws comes to its functions as an argument.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sgdtheory.explore.state import SLOTS, State

LAW = "capacity", "source", "noise_variance", "precondition", "num_features", "num_samples"
HEIGHT = 310
Columns = dict[str, Any]  # (K,) arrays


@dataclass(frozen=True)
class Answer:
    """What a panel shows of one algorithm.

    Attributes:
        panel: its name.
        columns: (K,) arrays of its lines.
        marks: numbers of its marks and of its readings.
        words: sentences for its reader.
    """

    panel: str
    columns: Columns = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)
    words: tuple[str, ...] = ()


Tell = Callable[[Answer], None]


@dataclass(frozen=True)
class Job:
    """A computation, in a worker's process: it tells its answers as soon as it has them, and may end at any moment.

    Attributes:
        name: of it.
        compute: called with a state, an algorithm's place and what to tell answers to.
        words: what the page says it waits for.
        depends_on: parts of the state, beside the algorithm; None: it is computed when a visitor asks for it.
        turn: smaller ones come first.
        lanes: of quick algorithms (`State.quick`), and of others: "quick", "long", or "" where it is not computed.
        patient: whether an older position's may end before it is stopped.
        answer: its answer, if titles, marks and readings tell of that.
        needs_risk: whether it is left out for an algorithm whose risk is not known.
    """

    name: str
    compute: Callable[[State, int, Tell], None]
    words: str
    depends_on: tuple[str, ...] | None
    turn: int
    lanes: tuple[str, str] = ("long", "long")
    patient: bool = True
    answer: str = ""
    needs_risk: bool = True

    def lane(self, state: State, slot: int) -> str:
        """Where it is computed."""
        if self.needs_risk and not state.has_risk(slot):
            return ""
        return self.lanes[0 if state.quick(slot) else 1]

    def inputs(self, state: State, slot: int) -> tuple[Any, ...]:
        """What it depends on: with the same it need not be done again."""
        return (getattr(state, SLOTS[slot]), *(getattr(state, name) for name in self.depends_on or ()))


class Program(NamedTuple):
    """A figure to download: what it shows, the body of the Python that makes it, and the job whose last answer is
    its table.
    """

    title: str
    body: Callable[[State], str]
    job: str


@dataclass(frozen=True)
class PanelSpec:
    """A panel of the page.

    Attributes:
        name: of it.
        labels: of its axes.
        place: smaller ones come first on the page.
        draw: called with an empty `Drawing`: its lines, marks and legend.
        show: called with the drawing, an algorithm's place and an answer.
        shows: names of the answers that it shows.
        filled_by: job → names of what it draws here; (): all.
        jobs: that are computed for it.
        programs: name → figure to download; that of the panel's name has its title, and only one beneath another panel
            may do without.
        measured_by, titled_by: names of what the axes show all of, and of what the title tells of.
        told_by: the answer that the title and the marks `titled_by` come from.
        beneath: the panel under whose figure it stands, with the same x axis.
        height: in pixels.
        formula: what is drawn, in the words of `formulas`; its own title has it beneath.
        axes: further arguments of Bokeh's figure.
    """

    name: str
    labels: tuple[str, str]
    place: int
    draw: Callable[[Any], None]
    show: Callable[[Any, int, Answer], None]
    shows: tuple[str, ...]
    filled_by: Mapping[str, tuple[str, ...]]
    jobs: tuple[Job, ...] = ()
    programs: Mapping[str, Program] = field(default_factory=dict)
    measured_by: str = ""
    titled_by: str = ""
    told_by: str = ""
    beneath: str = ""
    height: int = HEIGHT
    formula: str = ""
    axes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.beneath and self.name not in self.programs:
            raise ValueError(
                f"programs must have one of the panel's name, {self.name!r}, whose title is the panel's; got "
                f"{sorted(self.programs)}"
            )
