"""The risk of D samples against the learning rate, up to the stability limit."""

import textwrap

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.explore.program import setting as setting_text
from sgdtheory.explore.program import with_risk
from sgdtheory.explore.rates import best_rate
from sgdtheory.explore.risk_lines import risk_lines
from sgdtheory.explore.spec import LAW, Answer, Glyph, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import State
from sgdtheory.risk import excess_risk, method_edge

# The risk is drawn at these learning rates relative to the stability limit; close to it the risk of few steps has
# narrow minima.
RATES = np.union1d(np.geomspace(1e-4, 1.0, 41), 1 - np.geomspace(0.002, 0.4, 24))
MULTIPLES = np.geomspace(0.03, 30.0, 19)  # Where there is no limit, learning rates are these multiples of the best one.
EVERY = 3  # Every third learning rate comes first where a risk takes long.


def stability_edge(state: State, algorithm: Algorithm) -> float:
    """Return the largest stable learning rate of the method's constant steps at batch size B, whatever its schedule.

    It is 0 where there is none: steps do not grow with the gradient, or the method changes with the step.
    """
    if not has_edge(algorithm):
        return 0.0
    return float(method_edge(state.problem, algorithm.method, np.array([float(state.batch_size)]))[0])


def has_edge(algorithm: Algorithm) -> bool:
    """Return whether constant steps of the method have a stability limit."""
    return algorithm.linear and algorithm.method.step_dependence in ("none", "period")


def rates(state: State, slot: int, tell: Tell) -> None:
    """Compute the risk at learning rates up to the limit or around the best one, at a few first where it takes long."""
    algorithm = state.algorithms[slot]
    setting = {"batch_size": state.batch_size, "num_samples": state.num_samples}
    edge = stability_edge(state, algorithm)
    marks = {"edge": edge} if edge else {}
    every = edge * RATES if has_edge(algorithm) else best_rate(state, slot) * MULTIPLES
    for rates in (every,) if state.quick(slot) else (every[::EVERY], every):
        risk = excess_risk(state.problem, **setting, learning_rate=rates, algorithm=algorithm)
        columns = {"learning_rate": rates, "risk": risk.total, "bias": risk.bias, "variance": risk.variance}
        tell(Answer("rate", columns, marks))


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
    rates = best * np.geomspace(0.03, 30, 19)  # in units of the weights; there is no stability limit"""


def _deeper(lines: str) -> str:
    return textwrap.indent(lines, "    ")


OTHER_UNITS = ", or units of the weights"  # signSGD, Adam and Muon have these units of γ.
HERE = "the $γ$ of the loss curve"
LANES = "quick", "long"
RATES_JOB = Job("rates", rates, "risk against learning rate", "rate", (*LAW, "batch_size"), turn=2, lanes=LANES)
PANELS = (
    PanelSpec(
        "rate",
        (f"peak learning rate $γ$ ($1/λ${OTHER_UNITS})", "excess risk (units of $y²$)"),
        place=6,
        glyphs=(
            *risk_lines("rate", "learning_rate"),
            Glyph("here", "circle", "path", "learning_rate", "total", words=HERE, size=9, single=True),
            Glyph("edge", "upright", "path", x="edge", words="stability limit", dash="dotted", width=0.7),
        ),
        captions=(
            "$γ$ = [learning_rate]; the stability limit is [edge]",
            "$γ$ = [learning_rate]; this method has no stability limit",
        ),
        told_by="path",
        jobs=(RATES_JOB,),
        programs={"rate": Program("Risk against learning rate", program, "rates")},
        short="Risk vs $γ$",
        formula="Δ(B, γ, D),   Σ_i γ λ_i / (2B − (B + 1) γ λ_i) < 1",
        capped=True,
    ),
)
