"""Samples that a batch size needs for the least risk, over D, with B*."""

from typing import Any

from sgdtheory.critical import (
    ApproximateCriticalBatchSize,
    CriticalBatchSize,
    approximate_critical_batch_size,
    critical_batch_size,
)
from sgdtheory.explore.appearance import about, number
from sgdtheory.explore.legends import Entry
from sgdtheory.explore.panels.risk import batch_sizes, missed
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


def ahead(state: State, slot: int, tell: Tell) -> None:
    """Compute approximate R(D, B) and B*, to be shown until the exact ones have come."""
    setting = {"num_samples": state.num_samples, "overhead": state.overhead, "algorithm": state.algorithms[slot]}
    found = approximate_critical_batch_size(state.problem, **setting)
    tell(Answer("samples", {}, critical_marks(found) | {"approximate": 1.0}))
    sizes = batch_sizes(state.num_samples)
    tell(Answer("risk", {"batch_size": sizes, "risk": found.risk_at(sizes)}, missed(state)))


def critical_marks(found: CriticalBatchSize | ApproximateCriticalBatchSize) -> dict[str, float]:
    """Its numbers."""
    names = "batch_size", "learning_rate", "num_steps", "optimal_risk", "optimal_batch_size", "num_samples", "overhead"
    marks = {name: float(getattr(found, name)) for name in names}
    least = float(getattr(found, "smallest_batch_size", 1.0))
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
        told = about(critical) if "approximate" in marks else f"= {number(critical)}"
        least = marks.get("smallest_batch_size")
        begin = f"from B = {number(least)} " if least else ""
        drawing.tell(f"B* {told}: {begin}up to here {100 * extra:g}% more data are enough")


def program(state: State) -> str:
    """The figure in Python."""
    return f"""figure, axes = st.plot.new_figure(1, len(algorithms), width=4.8, height=3.9)
for axis, (name, algorithm) in zip(axes[0], algorithms.items()):
    setting = {{"num_samples": {digits(state.num_samples)}, "overhead": {digits(state.overhead)}}}
    critical = st.critical_batch_size(problem, algorithm=algorithm, **setting)
    st.plot.data_overhead(critical, axes=axis)
    axis.set_title(f"{{name}}: $B^*$ = {{critical.batch_size:g}}")"""


CRITICAL = Job("critical", critical, "critical batch size", (*LAW, "overhead"), turn=4, answer="samples")
AHEAD = Job(
    "ahead",
    ahead,
    "first look",
    (*LAW, "overhead"),
    turn=1,
    lanes=("", "quick"),
    needs="exact risk",
    ahead_of={"risk": "tuned", "samples": "critical"},
)
PANELS = (
    PanelSpec(
        "samples",
        ("batch size B (samples)", "samples to reach R_opt(D), over D"),
        place=1,
        draw=draw,
        show=show,
        shows=("samples",),
        filled_by={"critical": ()},
        jobs=(CRITICAL, AHEAD),
        programs={"samples": Program("Data that a batch size needs", program, "critical")},
        titled_by="critical",
        formula="B^* = max B : B f_D(B) ≤ (1 + ω) D",
        told_by="samples",
    ),
)
