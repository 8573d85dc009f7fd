"""The Python that makes the figure of each panel with public names only; downloads are made by running it."""

from sgdtheory.explore.program import constructor, problem, with_risk
from sgdtheory.explore.registry import JOBS, PROGRAMS
from sgdtheory.explore.state import State


def python_source(state: State, panel: str) -> str:
    """Return a program that makes the figure of a panel, as `figure`.

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
        panel: one of `PROGRAMS`: a panel, or "simulated": the loss curves with means of simulated runs.

    Raises:
        ValueError: the panel shows risks, and none of the algorithms has one in theory.
    """
    every = not JOBS[PROGRAMS[panel].job].needs_risk
    slots = range(len(state.algorithms)) if every else with_risk(state)
    if not slots:
        raise ValueError("; ".join(state.unknown))
    body = PROGRAMS[panel].body(state)
    imports = [f"import {name}" for name, used in (("jax", "jax."), ("numpy as np", "np.")) if used in body]
    listed = [f'    "{state.names[slot]}": {constructor(state.algorithms[slot], 4)},' for slot in slots]
    head = [*imports, "import sgdtheory as st", "", f"problem = {problem(state)}", "algorithms = {", *listed, "}"]
    return "\n".join([*head, body.rstrip(), f'st.plot.save(figure, "{panel}.pdf")'])
