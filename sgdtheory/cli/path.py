"""`sgdtheory path`: the exact risk along a run, of several algorithms side by side."""

import functools
from typing import Any

import numpy as np

from sgdtheory._common.figures import figure_function
from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory.algorithms import Algorithm, algorithm_settings, algorithm_text, make_algorithm
from sgdtheory.cli.algorithm import EQUIVALENT, with_risk
from sgdtheory.cli.flags import Repeated
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.settings import ProblemFlags
from sgdtheory.risk import RiskPath, risk_path

ROWS = 12  # A table of several algorithms is printed at this many numbers of steps.
OWN = "batch_size", "learning_rate"  # An algorithm may have its own values of these settings.


def path(
    regression: ProblemFlags,
    batch_size: float,
    learning_rate: float,
    num_samples: float,
    algorithm: Repeated = (),
    points: int = 200,
) -> Drawn:
    """Exact excess risk along a run on power-law regression, of one algorithm or of several side by side.

    An algorithm is a short text: a method, a schedule and an average by their names, and what belongs to them as the
    flags of sgdtheory risk have it: "heavy-ball momentum=0.9 wsd decay=0.1 last". It may have its own learning-rate=
    and batch-size=, and the schedule of its batch size is batch-schedule=linear batch-final=8.

    Args:
        batch_size: Batch size B.
        learning_rate: Learning rate γ, in 1/λ_1; with {nonlinear} in units of the weights, √(s_i/λ_i).
        num_samples: Number of samples D.
        algorithm: Algorithm that is run, as a text; one --algorithm for each; None: sgd.
        points: Numbers of steps, log-spaced, in JSON and in the figure; a table shows a dozen that all have.
    """
    settings = {"batch_size": batch_size, "learning_rate": learning_rate, "num_samples": num_samples}
    runs = _runs(algorithm or ("sgd",))
    paths: dict[str, RiskPath] = {}
    together: dict[Any, dict[str, RiskPath]] = {}  # that have the same steps, and samples after each
    entries = []
    for name, (each, own) in runs.items():
        path = risk_path(regression.problem, **settings | own, algorithm=each, points=points)
        paths[name] = path
        together.setdefault((each.batch_schedule, own.get("batch_size", batch_size)), {})[name] = path
        entry: dict[str, Any] = {"name": name, "algorithm": algorithm_text(each)} | settings | own
        entry |= {"num_steps": path.num_steps, "num_samples": path.num_samples}
        for key, risk in {"risk": path.average, "iterate_risk": path.iterate}.items():
            entry |= {key: risk.total, f"{key}_bias": risk.bias, f"{key}_variance": risk.variance}
        entries.append(entry | {"learning_rates": path.learning_rate, "batch_sizes": path.batch_size})
    title = f"{regression.title}; B = {batch_size:g}, γ = {learning_rate:g}, D = {num_samples:g}"
    remark = "" if all(each.linear for each, _ in runs.values()) else EQUIVALENT
    tables = [_table(each) for each in together.values()]
    sheet = Sheet(title, tables, [remark], regression.in_json | {"paths": entries})
    return Drawn(
        sheet,
        draw=lambda: figure_function("risk_paths")(
            paths, title=f"{regression.title_in_mathematics}, $B = {batch_size:g}$"
        ),
    )


def _runs(texts: tuple[str, ...]) -> dict[str, tuple[Algorithm, dict[str, float]]]:
    """Return for each text its algorithm, and the batch size and learning rate that it has of its own."""
    found = {}
    for text in texts:
        name = " ".join(text.split())
        if name in found:
            raise ValueError(f"algorithm must be given once each, got {name!r} twice")
        try:
            settings = algorithm_settings(text, OWN)
            own = {each: settings.pop(each) for each in OWN if each in settings}
            found[name] = with_risk(make_algorithm(settings)), own
        except ValueError as error:
            raise ValueError(f"algorithm {name!r}: {error}") from None
    return found


def _table(paths: dict[str, RiskPath]) -> Table:
    """Return the table of algorithms whose runs have the same numbers of steps, at a dozen of them."""
    common = functools.reduce(np.intersect1d, [path.num_steps for path in paths.values()])
    steps = np.unique(common[np.linspace(0, common.size - 1, ROWS).round().astype(int)])
    places = {name: np.searchsorted(path.num_steps, steps) for name, path in paths.items()}
    first = next(iter(paths))
    quantities = [
        Quantity("", "steps", [number(each, 10) for each in steps]),
        Quantity("", "samples", [number(each, 10) for each in paths[first].num_samples[places[first]]]),
    ]
    for name, path in paths.items():
        quantities.append(Quantity("", name, np.asarray(path.average.total)[places[name]], digits=5))
    return Table(quantities, legend="excess risk of what the run returns")
