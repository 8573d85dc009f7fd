"""R(D, B) with the learning rate tuned: bias, variance, and the least risk."""

from typing import Any

import numpy as np

from sgdtheory.critical import optimal_learning_rate
from sgdtheory.explore.appearance import number
from sgdtheory.explore.legends import Entry
from sgdtheory.explore.risk_lines import LINES, PARTS, draw_risks, put_risks
from sgdtheory.explore.spec import LAW, Answer, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import SLOTS, State, digits
from sgdtheory.risk import excess_risk

BATCHES_PER_DECADE = 5
EVERY = 5  # of them, first, where a risk takes long


def batch_sizes(num_samples: float) -> np.ndarray:
    """Whole batch sizes from 1 to D/2, that waste as few samples as can be: those of `CriticalBatchSize.curve`."""
    end = max(num_samples / 2, 1.0)
    grid = np.floor(np.geomspace(1.0, end, int(BATCHES_PER_DECADE * np.log10(end)) + 2))
    return np.unique(np.floor(num_samples / np.floor(num_samples / grid)))


def missed(state: State) -> dict[str, float]:
    """The risk that M features leave however much is learnt."""
    return {"missed": float(state.problem.approximation_risk)}


def tuned(state: State, slot: int, tell: Tell) -> None:
    """Compute R(D, B) at the best γ, with its bias and variance; where that takes long, at a few B first."""
    algorithm = state.algorithms[slot]
    sizes = batch_sizes(state.num_samples)
    for each in (sizes,) if state.quick(slot) else (sizes[::EVERY], sizes):
        setting = {"batch_size": each, "num_samples": state.num_samples}
        best = optimal_learning_rate(state.problem, **setting, algorithm=algorithm).learning_rate
        risk = excess_risk(state.problem, **setting, learning_rate=best, algorithm=algorithm)
        lines = {"batch_size": each, "learning_rate": best}
        lines |= {"risk": risk.total, "bias": risk.bias, "variance": risk.variance}
        tell(Answer("risk", lines, missed(state)))


def draw(drawing: Any) -> None:
    """Lines, stars, and what M features miss."""
    draw_risks(drawing)
    for slot in range(len(SLOTS)):
        drawing.marks("least", slot)
    drawing.span("missed", -1, "width", "dotted")
    drawing.add_legend(*PARTS, Entry("R_opt(D), the least risk", 0, "", "star"))


def show(drawing: Any, slot: int, answer: Answer) -> None:
    """Lines of `risk`; the star of `samples`."""
    if answer.panel == "samples":
        _show_least(drawing, slot, answer.marks)
        return
    columns = answer.columns
    put_risks(drawing, slot, columns["batch_size"], columns)
    drawing.fit(slot, columns["batch_size"], columns["risk"])
    if slot == 0:
        drawing.place_span("missed", -1, answer.marks["missed"])


def _show_least(drawing: Any, slot: int, marks: dict[str, float]) -> None:
    least, best = marks["optimal_risk"], marks["optimal_batch_size"]
    drawing.put("least", slot, best, least)
    if slot == 0:
        drawing.tell(f"The least risk is {number(least)}, at B = {number(best)}")


def program(state: State) -> str:
    """The figure in Python."""
    return f"""num_samples = {digits(state.num_samples)}
end = max(num_samples / 2, 1)
sizes = np.floor(np.geomspace(1, end, int({BATCHES_PER_DECADE} * np.log10(end)) + 2))
sizes = np.unique(np.floor(num_samples / np.floor(num_samples / sizes)))  # those that waste fewest samples
lines, best = {{}}, {{}}
for name, algorithm in algorithms.items():
    setting = {{"num_samples": num_samples, "algorithm": algorithm}}
    rates = st.optimal_learning_rate(problem, batch_size=sizes, **setting).learning_rate
    lines[name] = sizes, st.excess_risk(problem, batch_size=sizes, learning_rate=rates, **setting)
    best[name] = st.critical_batch_size(problem, overhead={digits(state.overhead)}, curve=False, **setting)
figure = st.plot.risk_against_batch_size(lines, best=best)"""


TUNED = Job("tuned", tuned, "risk against batch size", LAW, turn=3, lanes=("quick", "long"))
PANELS = (
    PanelSpec(
        "risk",
        ("batch size B (samples)", "excess risk R(D, B) (units of y²)"),
        place=0,
        draw=draw,
        show=show,
        shows=("risk", "samples"),
        filled_by={"tuned": LINES, "critical": ("least",)},
        jobs=(TUNED,),
        programs={"risk": Program("Risk against batch size", program, "tuned")},
        measured_by="risk",
        titled_by="least",
        formula="R(D, B) = min_γ Δ(B, γ, D)",
        told_by="samples",
    ),
)
