"""B* against D, with Corollary 8's slope."""

from typing import Any

import numpy as np

from sgdtheory.critical import critical_batch_size, predicted_exponent
from sgdtheory.explore.legends import Entry
from sgdtheory.explore.spec import LAW, Answer, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import SLOTS, State, digits

GROWTH = 10.0 ** np.arange(-3, 3.5)  # data sizes over D at which B* is computed for its growth
GROWTH_EXPONENTS = f"-3, {len(GROWTH) - 3}"
MOST_SAMPLES = 1e15
LEAST_SAMPLES = 20.0


def growth_samples(num_samples: float) -> np.ndarray:
    """Data sizes for the growth of B*, from three decades below D to three above."""
    return np.unique(np.clip(num_samples * GROWTH, LEAST_SAMPLES, MOST_SAMPLES))


def growth(state: State, slot: int, tell: Tell) -> None:
    """Compute B* at data sizes around D, the nearest first, beside Corollary 8's exponent."""
    sizes = growth_samples(state.num_samples)
    exponent = float(predicted_exponent(state.preconditioned_capacity, state.source))
    order = sizes[np.argsort(np.abs(np.log(sizes / state.num_samples)), kind="stable")].tolist()
    setting = {"overhead": state.overhead, "algorithm": state.algorithms[slot], "curve": False}
    found = dict[float, float]()
    for samples in order:
        found[samples] = critical_batch_size(state.problem, num_samples=samples, **setting).real_batch_size
        columns = {"num_samples": np.array(sorted(found)), "critical": np.array([found[at] for at in sorted(found)])}
        tell(Answer("growth", columns, {"exponent": exponent, "share": len(found) / sizes.size}))


def draw(drawing: Any) -> None:
    """Points, thin lines through them, and the slope."""
    for slot in range(len(SLOTS)):
        drawing.line("critical", slot, width=0.5, hover=True)
    for slot in range(len(SLOTS)):
        drawing.marks("points", slot)
    drawing.line("theory", -1, "dashed", 0.7)
    drawing.add_legend(Entry("Corollary 8's slope, through the last", -1, "dashed", width=0.7), mark="star")


def show(drawing: Any, slot: int, answer: Answer) -> None:
    """Show `growth` at the data sizes computed so far."""
    samples = answer.columns["num_samples"]
    sizes = answer.columns["critical"]
    drawing.put("critical", slot, samples, sizes)
    drawing.put("points", slot, samples, sizes)
    drawing.fit(slot, samples, sizes, below=2.0)
    if slot == 0:
        ends = samples[[0, -1]]
        exponent = answer.marks["exponent"]
        drawing.put("theory", -1, ends, sizes[-1] * (ends / samples[-1]) ** exponent)
        words = f"Corollary 8: D^{exponent:.3f}"
        if samples.size > 1:
            slope = np.log(sizes[-1] / sizes[-2]) / np.log(samples[-1] / samples[-2])
            digits = 3 if answer.marks["share"] == 1 else 2
            words = f"B* ∝ D^{slope:.{digits}f} at large D; {words}".replace("D^-", "D^−")
        drawing.tell(words)


def program(state: State) -> str:
    """The figure in Python."""
    return f"""sizes = {digits(state.num_samples)} * 10.0 ** np.arange({GROWTH_EXPONENTS})
sizes = np.unique(np.clip(sizes, {LEAST_SAMPLES:g}, {MOST_SAMPLES:g}))
exponent = st.predicted_exponent({digits(state.preconditioned_capacity)}, {digits(state.source)})  # of averaged SGD
figure, axes = st.plot.new_figure(1, len(algorithms), width=4.8, height=3.9)
for axis, (name, algorithm) in zip(axes[0], algorithms.items()):
    setting = {{"overhead": {digits(state.overhead)}, "curve": False, "algorithm": algorithm}}
    critical = st.critical_batch_size(problem, num_samples=sizes, **setting)
    st.plot.critical_growth(critical, exponent=exponent, axes=axis)
    axis.set_title(name)"""


GROWS = Job("growth", growth, "growth of B*", (*LAW, "overhead"), turn=5, patient=False, answer="growth")
PANELS = (
    PanelSpec(
        "growth",
        ("data D (samples)", "critical batch size B* (samples)"),
        place=2,
        draw=draw,
        show=show,
        shows=("growth",),
        filled_by={"growth": ()},
        jobs=(GROWS,),
        programs={"growth": Program("Critical batch size against data", program, "growth")},
        titled_by="points",
        formula="B^* ∝ D^{1 − a / min(b, 2a + 1)}, a < b",
        told_by="growth",
    ),
)
