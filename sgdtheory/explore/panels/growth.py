"""The critical batch size B* against the data size D, beside the slope of Corollary 8."""

import numpy as np

from sgdtheory.critical import critical_batch_size, predicted_exponent
from sgdtheory.explore.spec import INK, LAW, Answer, Glyph, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import State, digits

GROWTH = 10.0 ** np.arange(-3, 3.5)  # B* is computed at these multiples of D to show its growth.
GROWTH_EXPONENTS = f"-3, {len(GROWTH) - 3}"
LEAST_SAMPLES = 20.0


def growth_samples(num_samples: float) -> np.ndarray:
    """Data sizes for the growth of B*, from three decades below D to three above."""
    return np.unique(np.maximum(num_samples * GROWTH, LEAST_SAMPLES))


def growth(state: State, slot: int, tell: Tell) -> None:
    """Compute B* at data sizes around D, the nearest first, beside Corollary 8's exponent."""
    sizes = growth_samples(state.num_samples)
    exponent = float(predicted_exponent(state.preconditioned_capacity, state.source))
    order = sizes[np.argsort(np.abs(np.log(sizes / state.num_samples)), kind="stable")].tolist()
    setting = {"overhead": state.overhead, "algorithm": state.algorithms[slot], "curve": False}
    found = dict[float, float]()
    for samples in order:
        found[samples] = critical_batch_size(state.problem, num_samples=samples, **setting).real_batch_size
        at = np.array(sorted(found))
        critical = np.array([found[each] for each in at])
        columns = {"num_samples": at, "critical": critical, "theory": critical[-1] * (at / at[-1]) ** exponent}
        marks = {"exponent": exponent, "share": len(found) / sizes.size}
        if len(found) == sizes.size:
            marks["slope"] = float(np.log(critical[-1] / critical[-2]) / np.log(at[-1] / at[-2]))
        tell(Answer("growth", columns, marks))


def program(state: State) -> str:
    """The figure in Python."""
    return f"""sizes = {digits(state.num_samples)} * 10.0 ** np.arange({GROWTH_EXPONENTS})
sizes = np.unique(np.maximum(sizes, {LEAST_SAMPLES:g}))
exponent = st.predicted_exponent({digits(state.preconditioned_capacity)}, {digits(state.source)})  # of averaged SGD
figure, axes = st.plot.new_figure(1, len(algorithms), width=4.8, height=3.9)
for axis, (name, algorithm) in zip(axes[0], algorithms.items()):
    setting = {{"overhead": {digits(state.overhead)}, "curve": False, "algorithm": algorithm}}
    critical = st.critical_batch_size(problem, num_samples=sizes, **setting)
    st.plot.critical_growth(critical, exponent=exponent, axes=axis)
    axis.set_title(name)"""


GROWS = Job("growth", growth, "growth of B*", "growth", (*LAW, "overhead"), turn=5, patient=False)
AT = "growth", "num_samples"
SLOPE = "slope of Corollary 8, anchored at the last point"
PANELS = (
    PanelSpec(
        "growth",
        ("data $D$ (samples)", "critical batch size $B^*$ (samples)"),
        place=2,
        glyphs=(
            Glyph("critical", "line", *AT, "critical", words="", width=0.5, measured=True, hover=True),
            Glyph("points", "star", *AT, "critical", words="computed"),
            Glyph("theory", "line", *AT, "theory", slots=(INK,), words=SLOPE, dash="dashed", width=0.7),
        ),
        captions=(
            "$B^* ∝ D^{[slope]}$ at the largest $D$; Corollary 8 predicts $D^{[exponent]}$",
            "Corollary 8 predicts $B^* ∝ D^{[exponent]}$",
        ),
        told_by="growth",
        jobs=(GROWS,),
        programs={"growth": Program("Critical batch size against data", program, "growth")},
        short="$B^*$ vs data",
        formula="B^* ∝ D^{1 − a / min(b, 2a + 1)}, a < b",
        below=2.0,
    ),
)
