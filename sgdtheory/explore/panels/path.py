"""Loss curves: what a run returns, its last iterate and means of simulated runs; beneath them γ and B along the run."""

from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, number_of_steps
from sgdtheory.bounds import covered, theorem7
from sgdtheory.explore.formulas import filled
from sgdtheory.explore.panels.rate import stability_edge
from sgdtheory.explore.program import rate_lines, with_risk
from sgdtheory.explore.program import setting as setting_text
from sgdtheory.explore.rates import setting_rate
from sgdtheory.explore.spec import HEIGHT, LAW, Answer, Columns, Glyph, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import State, digits
from sgdtheory.risk import Risk, RiskPath, excess_risk, risk_path
from sgdtheory.simulation import simulate

PATH_POINTS = 80
REPLICAS = 128
CHECKED_POINTS = 16
MOST_SIMULATED = 200_000
LEAST_PROGRESS = 0.01  # A simulation answers after each further share of this size.
LOW_HEIGHT = 70  # Figures beneath the loss curves have this height in pixels.
X_AXIS = 35  # The lowest of these figures is this many pixels higher, for the numbers of its x axis.
ROUGH = 0.1  # A simulation is advised if the relative error is larger.
UNSTABLE = "γ = [rate] is above the stability limit [edge], and the risk grows without bound: lower γ"
UNSTABLE_PEAK = "The peak γ = [rate] is above the stability limit [edge]: the risk grows until γ has decayed"


def run(state: State, slot: int, tell: Tell) -> None:
    """The risk at the setting, and the loss curve up to it."""
    problem = state.problem
    algorithm = state.algorithms[slot]
    rate = setting_rate(state, slot)
    setting = {"batch_size": state.batch_size, "num_samples": state.num_samples}
    risk = excess_risk(problem, **setting, learning_rate=rate, algorithm=algorithm)
    edge = stability_edge(state, algorithm)
    marks = {name: float(getattr(risk, name)) for name in ("bias", "variance", "total")}
    marks |= {"learning_rate": rate, "missed": float(problem.approximation_risk)} | ({"edge": edge} if edge else {})
    sheets = [risk.sheet()]
    if covered(algorithm):
        bound = theorem7(problem, **setting, learning_rate=rate)
        marks["theorem7"] = float(bound.total)
        sheets.append(bound.sheet())
    path = risk_path(problem, **setting, learning_rate=rate, algorithm=algorithm, points=PATH_POINTS)
    marks["num_steps"] = float(path.num_steps[-1])
    words = _unstable(state, algorithm, rate, edge) if algorithm.linear else (_about(state, slot, risk),)
    columns = path_columns(path)
    columns |= {"relative_rate": columns["learning_rate"] / rate}
    tell(Answer("path", columns, marks, words, tuple(sheets)))


def path_columns(path: RiskPath) -> Columns:
    """Return the columns of a loss curve without its start, where there are no samples yet."""
    columns = {name: getattr(path, name) for name in ("num_steps", "num_samples", "learning_rate", "batch_size")}
    columns |= {"iterate": path.iterate.total, "average": path.average.total}
    return {name: np.asarray(values)[1:] for name, values in columns.items()}


def _unstable(state: State, algorithm: Algorithm, rate: float, edge: float) -> tuple[str, ...]:
    if not edge or rate <= edge or state.learning_rate is None:
        return ()
    values = {"rate": f"{rate:.3g}", "edge": f"{edge:.3g}"}
    return (filled(UNSTABLE if algorithm.schedule.flat else UNSTABLE_PEAK, values),)


def _about(state: State, slot: int, risk: Risk) -> str:
    """Return a sentence on how accurate the deterministic equivalent is."""
    error = float(risk.relative_error)
    words = f"{state.names[slot]}: its risk is that of a deterministic equivalent, accurate to about {error:.1%} here"
    return f"{words}; simulate it for a more accurate one" if error > ROUGH else words


def simulated(state: State, slot: int, tell: Tell) -> None:
    """Simulate risks along the run: means of replicas and their standard errors."""
    import jax  # half a second that the exact theory does not need

    algorithm = state.algorithms[slot]
    num_steps = number_of_steps(algorithm.batch_schedule, state.batch_size, state.num_samples, algorithm.workers)
    if num_steps > MOST_SIMULATED:
        raise ValueError(
            f"{num_steps:.3g} steps would take long to simulate; raise B or lower D until there are at most "
            f"{MOST_SIMULATED:,}"
        )
    if not algorithm.linear and state.problem.dim is None:
        raise ValueError(
            f"{state.names[slot]} can be simulated only with a finite number of features; untick “all features”"
        )
    rate = setting_rate(state, slot)
    setting: Any = {"batch_size": state.batch_size, "learning_rate": rate, "num_samples": state.num_samples}
    told = -np.inf

    def progress(share: float) -> None:
        nonlocal told
        if share >= told + LEAST_PROGRESS:
            told = share
            tell(Answer("simulated", {}, {"share": share}))

    progress(0.0)
    result = simulate(
        jax.random.key(0),
        state.problem,
        **setting,
        num_replicas=REPLICAS,
        algorithm=algorithm,
        trajectory=CHECKED_POINTS,
        progress=progress,
    )
    assert result.trajectory is not None, "a trajectory was asked for"
    steps, first = np.unique(result.trajectory.num_steps, return_index=True)
    risks = result.trajectory.excess_risk[first]
    finished = ~np.isnan(risks[-1])
    marks = {"share": 1.0, "replicas": float(finished.sum())}
    if finished.sum() < 2:
        tell(Answer("simulated", {}, marks, ("Stopped before two replicas had finished.",)))
        return
    with np.errstate(all="ignore"):
        mean = risks[:, finished].mean(1)
        error = risks[:, finished].std(1, ddof=1) / np.sqrt(finished.sum())
    samples = Course(algorithm, state.batch_size, rate, num_steps).samples(steps)
    low = np.maximum(mean - error, mean / 10)
    columns = {"num_steps": steps, "num_samples": samples, "risk": mean, "low": low, "high": mean + error}
    kept = np.isfinite(mean)
    words = () if state.has_risk(slot) else (f"{state.names[slot]}: simulated with γ = {rate:.3g}",)
    tell(Answer("simulated", {name: values[kept] for name, values in columns.items()}, marks, words))


def program(state: State) -> str:
    """The figure in Python."""
    return f"""paths = {{}}
for name, algorithm in algorithms.items():
    setting = {setting_text(state, algorithm=True)}
{rate_lines(state, with_risk(state))}
    paths[name] = st.risk_path(problem, **setting, learning_rate=rate, points={PATH_POINTS})
figure = st.plot.risk_paths(paths)"""


def simulated_program(state: State) -> str:
    """Return the program with simulated means, in Python; it has these alone for an algorithm without a line."""
    slots = range(len(state.algorithms))
    lines = with_risk(state)
    begin = program(state) if lines else _EMPTY
    if 0 < len(lines) < len(slots):
        begin = begin.replace("algorithms.items():", f"algorithms.items():\n{_only(state.names[lines[0]])}")
    return f"""{begin}
for color, (name, algorithm) in zip(("#0072B2", "#D55E00"), algorithms.items()):
    setting = {setting_text(state, algorithm=True)}
{rate_lines(state, slots)}
    simulation = st.simulate(
        jax.random.key(0), problem, **setting, learning_rate=rate, num_replicas={REPLICAS}, trajectory={CHECKED_POINTS}
    )
    steps, risks = simulation.trajectory.num_steps, simulation.trajectory.excess_risk  # (K,) and (K, replicas)
    samples = st.algorithms.Course(algorithm, {digits(state.batch_size)}, rate, steps[-1]).samples(steps)
    error = risks.std(1, ddof=1) / risks.shape[1] ** 0.5
    figure.axes[0].errorbar(samples, risks.mean(1), error, fmt="o", ms=3, color=color)"""


_EMPTY = """figure, axes = st.plot.new_figure(1, 1, width=5.2, height=3.4)
axes[0, 0].set(xscale="log", yscale="log", xlabel="samples $D$", ylabel="excess risk (units of $y^2$)")"""


def _only(name: str) -> str:
    """Lines that leave the other algorithm out of a loop."""
    return f"""    if name != "{name}":
        continue"""


def _input(name: str, column: str, labels: tuple[str, str], place: int) -> PanelSpec:
    """Return the panel of an input of the runs, beneath the loss curves."""
    line = Glyph(name, "line", "path", "num_samples", column, measured=True)
    height = LOW_HEIGHT + (X_AXIS if labels[0] else 0)
    return PanelSpec(name, labels, place, (line,), beneath="path", height=height, linear=True)


RUN = Job(
    "run",
    run,
    "loss curve",
    "path",
    (*LAW, "batch_size", "learning_rate", "rate_factor"),
    turn=0,
    lanes=("quick", "quick"),
)
SIMULATED = Job("simulated", simulated, "simulation", "simulated", None, turn=6, needs_risk=False)
THIN = {"words": "thin line: last iterate", "width": 0.4}
POINTS = {"words": "mean of simulated runs, with its standard error", "size": 6, "optional": True}
PANELS = (
    PanelSpec(
        "path",
        ("", "excess risk (units of $y²$)"),
        place=3,
        glyphs=(
            Glyph("average", "line", "path", "num_samples", "average", words="", measured=True, hover=True),
            Glyph("iterate", "line", "path", "num_samples", "iterate", measured=True, **THIN),
            Glyph("simulated", "circle", "simulated", "num_samples", "risk", measured=True, **POINTS),
            Glyph("errors", "bars", "simulated", "num_samples", "low", "high", width=0.6),
        ),
        captions=("Risk [total] after [num_steps] steps with $γ$ = [learning_rate]",),
        told_by="path",
        jobs=(RUN, SIMULATED),
        programs={
            "path": Program("Loss curves", program, "run"),
            "simulated": Program("Loss curves with simulated runs", simulated_program, "simulated"),
        },
        short="Loss curves",
        formula="Δ(B, γ, n) = E L(w) − L(w^*)",
        height=HEIGHT - 60,
        below=3.0,
    ),
    _input("path_rates", "relative_rate", ("", "$γ$ / peak"), 4),
    _input("path_batches", "batch_size", ("samples $D$", "$B$ (samples)"), 5),
)
