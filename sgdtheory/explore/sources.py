"""The Python that makes each panel's figure, by the library's public names alone; downloads are made by running it."""

from dataclasses import fields
from typing import Any

from sgdtheory.algorithms import Algorithm, Stages
from sgdtheory.explore.computations import (
    BATCHES_PER_DECADE,
    CHECKED_POINTS,
    GROWTH,
    LEAST_SAMPLES,
    MOST_SAMPLES,
    PATH_POINTS,
    REPLICAS,
)
from sgdtheory.explore.state import State, digits

PANELS = {  # name → what it shows
    "risk": "Risk against batch size",
    "samples": "Data that a batch size needs",
    "growth": "Critical batch size against data",
    "path": "Loss curves",
    "rate": "Risk against learning rate",
}
FIGURES = {**PANELS, "simulated": "Loss curves with simulated runs"}


def python_source(state: State, panel: str) -> str:
    """A program that makes the figure of a panel, as `figure`.

    >>> from sgdtheory.explore import State, python_source
    >>> print(python_source(State(), "path"))
    import sgdtheory as st
    <BLANKLINE>
    problem = st.PowerLaw(capacity=2, source=3, noise_variance=1)
    algorithms = {
        "sgd, averaged": st.Algorithm(),
    }
    paths = {}
    for name, algorithm in algorithms.items():
        setting = {"batch_size": 32, "num_samples": 1e+06, "algorithm": algorithm}
        rate = st.optimal_learning_rate(problem, **setting).learning_rate
        paths[name] = st.risk_path(problem, **setting, learning_rate=rate, points=80)
    figure = st.plot.risk_paths(paths)
    st.plot.save(figure, "path.pdf")

    Args:
        state: of the page.
        panel: one of `PANELS`, or "simulated": the loss curves with means of simulated runs.
    """
    bodies = {"risk": _risk, "samples": _samples, "growth": _growth, "path": _path, "rate": _rate}
    body = (bodies | {"simulated": _simulated})[panel](state)
    imports = [f"import {name}" for name, used in (("jax", "jax."), ("numpy as np", "np.")) if used in body]
    listed = [f'    "{name}": {_algorithm(each, 4)},' for name, each in zip(state.names, state.algorithms, strict=True)]
    head = [*imports, "import sgdtheory as st", "", f"problem = {_problem(state)}", "algorithms = {", *listed, "}"]
    return "\n".join([*head, body.rstrip(), f'st.plot.save(figure, "{panel}.pdf")'])


def _path(state: State) -> str:
    return f"""paths = {{}}
for name, algorithm in algorithms.items():
    setting = {_setting(state, algorithm=True)}
{_rate_of(state)}
    paths[name] = st.risk_path(problem, **setting, learning_rate=rate, points={PATH_POINTS})
figure = st.plot.risk_paths(paths)"""


def _rate(state: State) -> str:
    return f"""setting = {_setting(state)}
lines, edges = {{}}, {{}}
for name, algorithm in algorithms.items():
    edges[name] = st.risk.method_edge(problem, algorithm.method, np.array([{float(state.batch_size)!r}]))[0]
    shares = np.union1d(np.geomspace(1e-4, 1, 41), 1 - np.geomspace(0.002, 0.4, 24))
    rates = edges[name] * shares
    lines[name] = rates, st.excess_risk(problem, learning_rate=rates, algorithm=algorithm, **setting)
figure = st.plot.risk_against_learning_rate(lines, edges=edges)"""


def _risk(state: State) -> str:
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


def _samples(state: State) -> str:
    return f"""figure, axes = st.plot.new_figure(1, len(algorithms), width=4.8, height=3.9)
for axis, (name, algorithm) in zip(axes[0], algorithms.items()):
    setting = {{"num_samples": {digits(state.num_samples)}, "overhead": {digits(state.overhead)}}}
    critical = st.critical_batch_size(problem, algorithm=algorithm, **setting)
    st.plot.data_overhead(critical, axes=axis)
    axis.set_title(f"{{name}}: $B^*$ = {{critical.batch_size:g}}")"""


def _growth(state: State) -> str:
    return f"""sizes = {digits(state.num_samples)} * 10.0 ** np.arange({GROWTH_EXPONENTS})
sizes = np.unique(np.clip(sizes, {LEAST_SAMPLES:g}, {MOST_SAMPLES:g}))
exponent = st.predicted_exponent({digits(state.capacity)}, {digits(state.source)})  # of averaged SGD
figure, axes = st.plot.new_figure(1, len(algorithms), width=4.8, height=3.9)
for axis, (name, algorithm) in zip(axes[0], algorithms.items()):
    setting = {{"overhead": {digits(state.overhead)}, "curve": False, "algorithm": algorithm}}
    critical = st.critical_batch_size(problem, num_samples=sizes, **setting)
    st.plot.critical_growth(critical, exponent=exponent, axes=axis)
    axis.set_title(name)"""


def _simulated(state: State) -> str:
    return f"""{_path(state)}
for color, (name, algorithm) in zip(("#0072B2", "#D55E00"), algorithms.items()):
    setting = {_setting(state, algorithm=True)}
{_rate_of(state)}
    simulation = st.simulate(
        jax.random.key(0), problem, **setting, learning_rate=rate, num_replicas={REPLICAS}, trajectory={CHECKED_POINTS}
    )
    steps, risks = simulation.trajectory.num_steps, simulation.trajectory.excess_risk  # (K,) and (K, replicas)
    samples = np.interp(steps, paths[name].num_steps, paths[name].num_samples)
    error = risks.std(1, ddof=1) / risks.shape[1] ** 0.5
    figure.axes[0].errorbar(samples, risks.mean(1), error, fmt="o", ms=3, color=color)"""


GROWTH_EXPONENTS = f"-3, {len(GROWTH) - 3}"


def _setting(state: State, algorithm: bool = False) -> str:
    also = ', "algorithm": algorithm' if algorithm else ""
    return f'{{"batch_size": {digits(state.batch_size)}, "num_samples": {digits(state.num_samples)}{also}}}'


def _rate_of(state: State) -> str:
    if state.learning_rate is not None:
        return f"    rate = {state.learning_rate!r}"
    return "    rate = st.optimal_learning_rate(problem, **setting).learning_rate"


def _problem(state: State) -> str:
    law = f"capacity={digits(state.capacity)}, source={digits(state.source)}"
    made = f"st.PowerLaw({law}, noise_variance={digits(state.noise_variance)})"
    return made if state.num_features is None else f"{made}.with_features({state.num_features})"


def _algorithm(algorithm: Algorithm, indent: int = 0) -> str:
    """The constructor of what is not the default, a line a part where there are several."""
    parts = []
    for field in fields(Algorithm):
        part = getattr(algorithm, field.name)
        if part != getattr(Algorithm(), field.name):
            parts.append(f"{field.name}={_constructor(part)}")
    if len(parts) > 1:
        space = " " * indent
        return "\n".join(["st.Algorithm(", *(f"{space}    {part}," for part in parts), f"{space})"])
    return f"st.Algorithm({', '.join(parts)})"


def _constructor(part: Any) -> str:
    if isinstance(part, Stages):
        return f"st.Stages.from_text({part.text!r})"
    given = [field for field in fields(part) if getattr(part, field.name) != field.default]
    return f"st.{type(part).__name__}({', '.join(f'{each.name}={getattr(part, each.name)!r}' for each in given)})"
