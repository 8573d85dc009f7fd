"""The data that each batch size needs to reach the least risk, relative to D, and B*."""

from sgdtheory.critical import CriticalBatchSize, critical_batch_size
from sgdtheory.explore.spec import INK, LAW, Answer, Glyph, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import State, digits


def critical(state: State, slot: int, tell: Tell) -> None:
    """Compute B* and R_opt at D, and the data that each batch size needs."""
    setting = {"num_samples": state.num_samples, "overhead": state.overhead, "algorithm": state.algorithms[slot]}
    for curve in (True,) if state.quick(slot) else (False, True):
        found = critical_batch_size(state.problem, **setting, curve=curve)
        names = "batch_size", "num_steps", "samples_needed", "overhead"
        columns = {name: getattr(found.curve, name) for name in names} if curve else {}
        if curve:
            columns["data_ratio"] = columns["samples_needed"] / state.num_samples
        words = (found.remark,) if found.remark else ()
        tell(Answer("samples", columns, critical_marks(found), words, (found.sheet(),)))


def critical_marks(found: CriticalBatchSize) -> dict[str, float]:
    """Return the numbers of a critical batch size by name."""
    names = "batch_size", "learning_rate", "num_steps", "optimal_risk", "optimal_batch_size", "num_samples", "overhead"
    marks = {name: float(getattr(found, name)) for name in names}
    marks["data_ratio"] = marks["batch_size"] * marks["num_steps"] / marks["num_samples"]
    marks["data_allowed"] = 1 + marks["overhead"]
    least = float(found.smallest_batch_size)
    return marks | ({"smallest_batch_size": least} if least > 1 else {})


def program(state: State) -> str:
    """The figure in Python."""
    return f"""figure, axes = st.plot.new_figure(1, len(algorithms), width=4.8, height=3.9)
for axis, (name, algorithm) in zip(axes[0], algorithms.items()):
    setting = {{"num_samples": {digits(state.num_samples)}, "overhead": {digits(state.overhead)}}}
    critical = st.critical_batch_size(problem, algorithm=algorithm, **setting)
    st.plot.data_overhead(critical, axes=axis)
    axis.set_title(f"{{name}}: $B^*$ = {{critical.batch_size:g}}")"""


CRITICAL = Job("critical", critical, "critical batch size", "samples", (*LAW, "overhead"), turn=4)
ACROSS = {"slots": (INK,), "width": 0.7}
RESULT = "$B^*$ = [batch_size]: the largest $B$ with at most [overhead%] more data"
LARGEST = "$B^*$, the largest $B$ that needs no more"
PANELS = (
    PanelSpec(
        "samples",
        ("batch size $B$ (samples)", "data needed to reach $R_{opt}(D)$, relative to $D$"),
        place=1,
        glyphs=(
            Glyph("needed", "line", "samples", "batch_size", "data_ratio", words="", measured=True, hover=True),
            Glyph("linear", "level", "samples", y=1.0, dash="dashed", **ACROSS),
            Glyph("allowed", "level", "samples", y="data_allowed", words="$(1 + ω) D$", dash="dotted", **ACROSS),
            Glyph("critical", "star", "samples", "batch_size", "data_ratio", words=LARGEST, single=True),
        ),
        captions=(
            f"{RESULT}; the smallest is [smallest_batch_size]",
            RESULT,
        ),
        told_by="samples",
        jobs=(CRITICAL,),
        programs={"samples": Program("Data needed against batch size", program, "critical")},
        short="Data vs $B$",
        formula="B^* = max B : B f_D(B) ≤ (1 + ω) D",
        y_range=(0.8, 30.0),
        y_ticks=(1, 1.5, 2, 3, 5, 10, 20),
    ),
)
