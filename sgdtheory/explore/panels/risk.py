"""The risk R(D, B) with the learning rate tuned, its bias and variance, and the least risk over B."""

import numpy as np

from sgdtheory.critical import optimal_learning_rate
from sgdtheory.explore.risk_lines import risk_lines
from sgdtheory.explore.spec import INK, LAW, Answer, Glyph, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import State, digits
from sgdtheory.risk import excess_risk

BATCHES_PER_DECADE = 5
EVERY = 5  # Every fifth batch size comes first where a risk takes long.


def batch_sizes(num_samples: float) -> np.ndarray:
    """Return whole batch sizes from 1 to D/2 that waste few samples, those of `CriticalBatchSize.curve`."""
    end = max(num_samples / 2, 1.0)
    grid = np.floor(np.geomspace(1.0, end, int(BATCHES_PER_DECADE * np.log10(end)) + 2))
    return np.unique(np.floor(num_samples / np.floor(num_samples / grid)))


def missed(state: State) -> dict[str, float]:
    """Return the approximation error of M features, which remains however much is learnt."""
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


TUNED = Job("tuned", tuned, "risk against batch size", "risk", LAW, turn=3, lanes=("quick", "long"))
LEAST = "$R_{opt}(D)$, the least risk"
PANELS = (
    PanelSpec(
        "risk",
        ("batch size $B$ (samples)", "excess risk $R(D, B)$ (units of $y²$)"),
        place=0,
        glyphs=(
            *risk_lines("risk", "batch_size"),
            Glyph("least", "star", "samples", "optimal_batch_size", "optimal_risk", words=LEAST, single=True),
            Glyph("missed", "level", "risk", y="missed", slots=(INK,), dash="dotted", width=0.7),
        ),
        captions=("The least risk is [optimal_risk], at $B$ = [optimal_batch_size]",),
        told_by="samples",
        jobs=(TUNED,),
        programs={"risk": Program("Risk against batch size", program, "tuned")},
        short="Risk vs $B$",
        formula="R(D, B) = min_γ Δ(B, γ, D)",
    ),
)
