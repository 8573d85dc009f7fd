"""Risk of D samples against the learning rate, with the stability edge."""

import textwrap
from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.explore.legends import Entry
from sgdtheory.explore.program import setting as setting_text
from sgdtheory.explore.program import with_risk
from sgdtheory.explore.rates import best_rate
from sgdtheory.explore.risk_lines import LINES, PARTS, draw_risks, put_risks
from sgdtheory.explore.spec import LAW, Answer, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import SLOTS, State
from sgdtheory.risk import excess_risk, method_edge

# Over the edge, where γ against risk is computed; close to it the risk of few steps has narrow valleys.
RATES = np.union1d(np.geomspace(1e-4, 1.0, 41), 1 - np.geomspace(0.002, 0.4, 24))
MULTIPLES = np.geomspace(0.03, 30.0, 19)  # of the best γ, where there is no edge
EVERY = 3  # of them, first, where a risk takes long


def stability_edge(state: State, algorithm: Algorithm) -> float:
    """The largest stable learning rate of the method's constant steps at batch size B, whatever schedule it has.

    0 where there is none: steps do not grow with the gradient, or the method changes with the step.
    """
    if not has_edge(algorithm):
        return 0.0
    return float(method_edge(state.problem, algorithm.method, np.array([float(state.batch_size)]))[0])


def has_edge(algorithm: Algorithm) -> bool:
    """Return whether constant steps of the method have a stability edge."""
    return algorithm.linear and algorithm.method.step_dependence in ("none", "period")


def rates(state: State, slot: int, tell: Tell) -> None:
    """Risks at D of learning rates up to the edge, or around the best: a few first where one takes long."""
    algorithm = state.algorithms[slot]
    setting = {"batch_size": state.batch_size, "num_samples": state.num_samples}
    edge = stability_edge(state, algorithm)
    marks = {"edge": edge} if edge else {}
    every = edge * RATES if has_edge(algorithm) else best_rate(state, slot) * MULTIPLES
    for rates in (every,) if state.quick(slot) else (every[::EVERY], every):
        risk = excess_risk(state.problem, **setting, learning_rate=rates, algorithm=algorithm)
        columns = {"learning_rate": rates, "risk": risk.total, "bias": risk.bias, "variance": risk.variance}
        tell(Answer("rate", columns, marks))


def draw(drawing: Any) -> None:
    """Lines, the point of the loss curve, and the edges."""
    draw_risks(drawing)
    for slot in range(len(SLOTS)):
        drawing.marks("here", slot, "circle", 9)
    for slot in range(len(SLOTS)):
        drawing.span("edge", slot, "height", "dotted")
    drawing.add_legend(*PARTS, Entry("the γ of the loss curve", 0, "", "circle"))


def show(drawing: Any, slot: int, answer: Answer) -> None:
    """Lines of `rate`, the point of `path`."""
    columns, marks = answer.columns, answer.marks
    drawing.place_span("edge", slot, marks.get("edge", 0.0))
    if answer.panel == "path":
        drawing.put("here", slot, marks["learning_rate"], marks["total"])
        if slot == 0:
            edge = f"the stability edge is {marks['edge']:.4g}" if "edge" in marks else "there is no stability edge"
            drawing.tell(f"γ = {marks['learning_rate']:.4g}; {edge}")
        return
    rates, risks = columns["learning_rate"], columns["risk"]
    put_risks(drawing, slot, rates, columns)
    drawing.fit(slot, rates, np.minimum(risks, risks[0]))  # what explodes beyond the edge is not all to be seen


def program(state: State) -> str:
    """The figure in Python."""
    kinds = {has_edge(state.algorithms[slot]) for slot in with_risk(state)}
    lines = _EDGE.format(batch=float(state.batch_size)) if True in kinds else _AROUND
    if len(kinds) == 2:
        lines = "\n".join([_HAS_EDGE, _deeper(lines), "    else:", _deeper(_AROUND)])
    return f"""setting = {setting_text(state)}
lines, edges = {{}}, {{}}
for name, algorithm in algorithms.items():
{lines}
    lines[name] = rates, st.excess_risk(problem, learning_rate=rates, algorithm=algorithm, **setting)
figure = st.plot.risk_against_learning_rate(lines, edges=edges)"""


_HAS_EDGE = """    if algorithm.linear and algorithm.method.step_dependence in ("none", "period"):"""
_EDGE = """    edges[name] = st.risk.method_edge(problem, algorithm.method, np.array([{batch!r}]))[0]
    shares = np.union1d(np.geomspace(1e-4, 1, 41), 1 - np.geomspace(0.002, 0.4, 24))
    rates = edges[name] * shares"""
_AROUND = """    best = st.optimal_learning_rate(problem, algorithm=algorithm, **setting).learning_rate
    rates = best * np.geomspace(0.03, 30, 19)  # in units of the weights; there is no stability edge"""


def _deeper(lines: str) -> str:
    return textwrap.indent(lines, "    ")


LINES_JOB = Job("rates", rates, "risk against learning rate", (*LAW, "batch_size"), turn=2, lanes=("quick", "long"))
PANELS = (
    PanelSpec(
        "rate",
        ("peak γ (1/λ, or units of the weights)", "excess risk (units of y²)"),
        place=6,
        draw=draw,
        show=show,
        shows=("rate", "path"),
        filled_by={"rates": LINES, "run": ("here",)},
        jobs=(LINES_JOB,),
        programs={"rate": Program("Risk against learning rate", program, "rates")},
        measured_by="risk",
        titled_by="here",
        formula="Δ(B, γ, D),   Σ_i γ λ_i / (2B − (B + 1) γ λ_i) < 1",
        told_by="path",
    ),
)
