"""Loss curves: what a run returns, thin its iterates, simulated means; beneath them what γ and B were."""

from functools import partial
from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.bounds import covered, theorem7
from sgdtheory.critical import optimal_learning_rate
from sgdtheory.explore.appearance import number
from sgdtheory.explore.legends import Entry
from sgdtheory.explore.panels.rate import stability_edge
from sgdtheory.explore.program import rate_line
from sgdtheory.explore.program import setting as setting_text
from sgdtheory.explore.spec import HEIGHT, LAW, Answer, Columns, Job, PanelSpec, Program, Tell
from sgdtheory.explore.state import SLOTS, State
from sgdtheory.risk import RiskPath, excess_risk, risk_path
from sgdtheory.simulation import simulate

PATH_POINTS = 80
REPLICAS = 128
CHECKED_POINTS = 16
MOST_SIMULATED = 200_000
LEAST_PROGRESS = 0.01  # share of a simulation between two answers
LOW_HEIGHT = 110


def best_rate(state: State, algorithm: Algorithm) -> float:
    """The state's learning rate, or the best one."""
    if state.learning_rate is not None:
        return state.learning_rate
    setting = {"batch_size": state.batch_size, "num_samples": state.num_samples}
    return float(optimal_learning_rate(state.problem, **setting, algorithm=algorithm).learning_rate)


def run(state: State, slot: int, tell: Tell) -> None:
    """The risk at the setting, and the loss curve up to it."""
    problem = state.problem
    algorithm = state.algorithms[slot]
    rate = best_rate(state, state.algorithms[slot])
    setting = {"batch_size": state.batch_size, "num_samples": state.num_samples}
    risk = excess_risk(problem, **setting, learning_rate=rate, algorithm=algorithm)
    edge = stability_edge(state, algorithm)
    marks = {name: float(getattr(risk, name)) for name in ("bias", "variance", "total")}
    marks |= {"learning_rate": rate, "edge": edge, "missed": float(problem.approximation_risk)}
    if covered(algorithm):
        marks["theorem7"] = float(theorem7(problem, **setting, learning_rate=rate).total)
    path = risk_path(problem, **setting, learning_rate=rate, algorithm=algorithm, points=PATH_POINTS)
    marks["num_steps"] = float(path.num_steps[-1])
    tell(Answer("path", path_columns(path), marks, _unstable(state, algorithm, rate, edge)))


def path_columns(path: RiskPath) -> Columns:
    """A loss curve without its start, where there are no samples yet."""
    columns = {name: getattr(path, name) for name in ("num_steps", "num_samples", "learning_rate", "batch_size")}
    columns |= {"iterate": path.iterate.total, "average": path.average.total}
    return {name: np.asarray(values)[1:] for name, values in columns.items()}


def _unstable(state: State, algorithm: Algorithm, rate: float, edge: float) -> tuple[str, ...]:
    if rate <= edge or state.learning_rate is None:
        return ()
    if algorithm.schedule.flat:
        return (f"γ = {rate:.3g} is beyond the stability edge {edge:.3g}: the risk grows without bound. Lower γ.",)
    return (f"The peak γ = {rate:.3g} is beyond the stability edge {edge:.3g}: the risk grows until γ has come down.",)


def simulated(state: State, slot: int, tell: Tell) -> None:
    """Simulated risks along the run: means of replicas and their standard errors."""
    import jax  # half a second that the exact theory does not need

    algorithm = state.algorithms[slot]
    rate = best_rate(state, state.algorithms[slot])
    setting: Any = {"batch_size": state.batch_size, "learning_rate": rate, "num_samples": state.num_samples}
    path = risk_path(state.problem, **setting, algorithm=algorithm, points=200)
    if path.num_steps[-1] > MOST_SIMULATED:
        raise ValueError(
            f"n = {path.num_steps[-1]:.3g} steps would take long to simulate; raise B or lower D until there are at "
            f"most {MOST_SIMULATED:,}"
        )

    told = -1.0

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
    samples = np.interp(steps, path.num_steps, path.num_samples)
    low = np.maximum(mean - error, mean / 10)
    columns = {"num_steps": steps, "num_samples": samples, "risk": mean, "low": low, "high": mean + error}
    kept = np.isfinite(mean)
    tell(Answer("simulated", {name: values[kept] for name, values in columns.items()}, marks))


def draw(drawing: Any) -> None:
    """Curves, points and their errors."""
    for slot in range(len(SLOTS)):
        drawing.line("average", slot, hover=True)
    for slot in range(len(SLOTS)):
        drawing.line("iterate", slot, width=0.4)
    for slot in range(len(SLOTS)):
        drawing.marks("simulated", slot, "circle", 6)
    for slot in range(len(SLOTS)):
        drawing.bars("errors", slot)
    points = Entry("simulated, with standard errors", 0, "", "circle", of="simulated")
    drawing.add_legend(Entry("thin: the iterate", 0, width=0.4), points)


def show(drawing: Any, slot: int, answer: Answer) -> None:
    """Lines of `path`, points of `simulated`."""
    columns = answer.columns
    marks = answer.marks
    if answer.panel == "simulated":
        if columns:
            kept = columns["risk"] > 0
            drawing.put("simulated", slot, columns["num_samples"], columns["risk"])
            drawing.put_bars("errors", slot, *(columns[name][kept] for name in ("num_samples", "low", "high")))
            drawing.name(drawing.names)
        return
    for name in ("average", "iterate"):
        drawing.put(name, slot, columns["num_samples"], columns[name])
    drawing.fit(slot, columns["num_samples"], np.concatenate([columns["average"], columns["iterate"]]), below=3.0)
    if slot == 0:
        steps = f"after {number(marks['num_steps'])} steps with γ = {marks['learning_rate']:.3g}"
        drawing.tell(f"Risk {number(marks['total'])} {steps}")


def program(state: State) -> str:
    """The figure in Python."""
    return f"""paths = {{}}
for name, algorithm in algorithms.items():
    setting = {setting_text(state, algorithm=True)}
{rate_line(state)}
    paths[name] = st.risk_path(problem, **setting, learning_rate=rate, points={PATH_POINTS})
figure = st.plot.risk_paths(paths)"""


def simulated_program(state: State) -> str:
    """The same with simulated means, in Python."""
    return f"""{program(state)}
for color, (name, algorithm) in zip(("#0072B2", "#D55E00"), algorithms.items()):
    setting = {setting_text(state, algorithm=True)}
{rate_line(state)}
    simulation = st.simulate(
        jax.random.key(0), problem, **setting, learning_rate=rate, num_replicas={REPLICAS}, trajectory={CHECKED_POINTS}
    )
    steps, risks = simulation.trajectory.num_steps, simulation.trajectory.excess_risk  # (K,) and (K, replicas)
    samples = np.interp(steps, paths[name].num_steps, paths[name].num_samples)
    error = risks.std(1, ddof=1) / risks.shape[1] ** 0.5
    figure.axes[0].errorbar(samples, risks.mean(1), error, fmt="o", ms=3, color=color)"""


def draw_input(column: str, drawing: Any) -> None:
    """A line an algorithm, without tools."""
    for slot in range(len(SLOTS)):
        drawing.line(column, slot)
    drawing.figure.toolbar_location = None
    drawing.figure.yaxis[0].ticker.desired_num_ticks = 3


def show_input(column: str, drawing: Any, slot: int, answer: Answer) -> None:
    """Of `path`."""
    values = answer.columns[column]
    drawing.put(column, slot, answer.columns["num_samples"], values)
    drawing.fit_from_0(slot, values)


def _input(name: str, column: str, labels: tuple[str, str], place: int) -> PanelSpec:
    """What the runs were told, beneath the loss curves."""
    return PanelSpec(
        name,
        labels,
        place=place,
        draw=partial(draw_input, column),
        show=partial(show_input, column),
        shows=("path",),
        filled_by={"run": ()},
        beneath="path",
        height=LOW_HEIGHT + (40 if labels[0] else 0),
        axes={"y_axis_type": "linear"},
    )


RUN = Job(
    "run", run, "loss curve", (*LAW, "batch_size", "learning_rate"), turn=0, lanes=("quick", "quick"), answer="path"
)
SIMULATED = Job("simulated", simulated, "simulation", None, turn=6)
PANELS = (
    PanelSpec(
        "path",
        ("", "excess risk (units of y²)"),
        place=3,
        draw=draw,
        show=show,
        shows=("path", "simulated"),
        filled_by={"run": ()},
        jobs=(RUN, SIMULATED),
        programs={
            "path": Program("Loss curves", program, "run"),
            "simulated": Program("Loss curves with simulated runs", simulated_program, "simulated"),
        },
        told_by="path",
        height=HEIGHT - 60,
    ),
    _input("path_rates", "learning_rate", ("", "γ (1/λ)"), 4),
    _input("path_batches", "batch_size", ("samples D", "B (samples)"), 5),
)
