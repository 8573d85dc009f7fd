"""Samples that a batch size needs for the least risk, over D, with B*."""

from typing import Any

from sgdtheory.critical import CriticalBatchSize, critical_batch_size
from sgdtheory.explore.appearance import number
from sgdtheory.explore.legends import Entry
from sgdtheory.explore.spec import LAW, Answer, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import SLOTS, State, digits

TIMES = [1, 1.5, 2, 3, 5, 10, 20]  # marked on the axis of samples over D


def critical(state: State, slot: int, tell: Tell) -> None:
    """B* and R_opt at D, and the samples that each batch size needs."""
    setting = {"num_samples": state.num_samples, "overhead": state.overhead, "algorithm": state.algorithms[slot]}
    for curve in (True,) if state.quick(slot) else (False, True):
        found = critical_batch_size(state.problem, **setting, curve=curve)
        names = "batch_size", "num_steps", "samples_needed", "overhead"
        columns = {name: getattr(found.curve, name) for name in names} if curve else {}
        tell(Answer("samples", columns, critical_marks(found), (found.remark,) if found.remark else ()))


def critical_marks(found: CriticalBatchSize) -> dict[str, float]:
    """Return the numbers of a critical batch size by name."""
    names = "batch_size", "learning_rate", "num_steps", "optimal_risk", "optimal_batch_size", "num_samples", "overhead"
    marks = {name: float(getattr(found, name)) for name in names}
    least = float(found.smallest_batch_size)
    return marks | ({"smallest_batch_size": least} if least > 1 else {})


def draw(drawing: Any) -> None:
    """The line of each algorithm, its B*, and what counts as no more and as enough."""
    for slot in range(len(SLOTS)):
        drawing.line("needed", slot, hover=True)
    for slot in range(len(SLOTS)):
        drawing.marks("critical", slot)
    drawing.mark_y_axis(TIMES)
    drawing.set_range("y", 0.8, 30.0)
    drawing.span("linear", -1, "width", "dashed")
    drawing.span("more", -1, "width", "dotted")
    drawing.add_legend(Entry("B*, the largest within the dotted line", 0, "", "star"))


def show(drawing: Any, slot: int, answer: Answer) -> None:
    """Show `samples`: B* first, and the line once it is computed."""
    marks, columns = answer.marks, answer.columns
    samples, extra = marks["num_samples"], marks["overhead"]
    if columns:
        drawing.put("needed", slot, columns["batch_size"], columns["samples_needed"] / samples)
        drawing.fit(slot, columns["batch_size"])
    else:
        drawing.clear(slot, ("needed",))  # of another state
    drawing.put("critical", slot, marks["batch_size"], marks["batch_size"] * marks["num_steps"] / samples)
    drawing.place_span("linear", -1, 1.0)
    drawing.place_span("more", -1, 1 + extra)
    drawing.set_range("y", 0.8, max(30.0, 2 * (1 + extra)))
    if slot == 0:
        critical = marks["batch_size"]
        least = marks.get("smallest_batch_size")
        begin = f"from B = {number(least)} " if least else ""
        drawing.tell(f"B* = {number(critical)}: {begin}up to here {100 * extra:g}% more data are enough")


def program(state: State) -> str:
    """The figure in Python."""
    return f"""figure, axes = st.plot.new_figure(1, len(algorithms), width=4.8, height=3.9)
for axis, (name, algorithm) in zip(axes[0], algorithms.items()):
    setting = {{"num_samples": {digits(state.num_samples)}, "overhead": {digits(state.overhead)}}}
    critical = st.critical_batch_size(problem, algorithm=algorithm, **setting)
    st.plot.data_overhead(critical, axes=axis)
    axis.set_title(f"{{name}}: $B^*$ = {{critical.batch_size:g}}")"""


CRITICAL = Job("critical", critical, "critical batch size", (*LAW, "overhead"), turn=4, answer="samples")
PANELS = (
    PanelSpec(
        "samples",
        ("batch size B (samples)", "samples to reach R_opt(D), over D"),
        place=1,
        draw=draw,
        show=show,
        shows=("samples",),
        filled_by={"critical": ()},
        jobs=(CRITICAL,),
        programs={"samples": Program("Data that a batch size needs", program, "critical")},
        titled_by="critical",
        formula="B^* = max B : B f_D(B) ≤ (1 + ω) D",
        told_by="samples",
    ),
)
