"""`sgdtheory cbs`: the critical batch size of a power law, beside Corollary 8 and other measures of a batch size."""

from typing import Annotated, Any

import numpy as np

from sgdtheory import critical
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.bounds import covered
from sgdtheory.cli.algorithm import AlgorithmFlags, with_risk
from sgdtheory.cli.function_command import Drawn, Keywords, Progress
from sgdtheory.cli.settings import Overhead, ProblemFlags

GROWING = {"real_batch_size": "B*, not rounded", "optimal_risk": "R_opt"}  # Corollary 8 predicts these exponents.


def cbs(
    drawn: bool,
    progress: Progress,
    regression: ProblemFlags,
    algorithm: AlgorithmFlags,
    num_samples: tuple[float, ...],
    overhead: Overhead = 0.2,
    **options: Annotated[Any, Keywords(critical.critical_batch_size, "risk_factor")],
) -> Drawn:
    """Critical batch size of power-law regression with the learning rate tuned, at one or several data sizes.

    Args:
        num_samples: Number of samples D, one or more.
        overhead: Extra data, relative to linear scaling from the optimal batch size, that defines B*: 0.2 or 20%.
    """
    found = critical.critical_batch_size(
        regression.problem,
        num_samples=np.unique(num_samples),
        overhead=overhead,
        algorithm=with_risk(algorithm.made),
        curve=drawn,
        progress=progress,
        **options,
    )
    sheet = found.sheet()
    (table,) = sheet.tables
    beside, legend = _noise_scales(regression, algorithm, found)
    hidden = [*table.hidden, *(each.name for each in beside if each.value is None)]
    table = Table([*table.quantities, *beside], "rows", legend=f"{table.legend};\n{legend}", hidden=hidden)
    outside = _outside_of_the_corollary(regression, algorithm)
    predicted: dict[str, float | None] = dict.fromkeys(GROWING)
    if not outside and regression.capacity and regression.source:
        exponents = regression.capacity * (1 - regression.precondition), regression.source  # THEORY.md T35
        laws = critical.predicted_exponent, critical.predicted_risk_exponent
        predicted = {name: float(law(*exponents)) for name, law in zip(GROWING, laws, strict=True)}
    with np.errstate(all="ignore"):
        slopes = {name: np.diff(np.log(getattr(found, name))) / np.diff(np.log(found.num_samples)) for name in GROWING}
    settings = regression.in_json | {"overhead": overhead} | options | algorithm.in_json
    settings |= {"predicted_exponents": predicted, "slopes": slopes}
    title = f"{regression.title}{algorithm.title}: B* at {100 * overhead:.3g}% overhead"
    tables = [table, _exponents(found.num_samples, predicted, slopes)]
    remarks = [algorithm.remark, *sheet.remarks, outside]
    return Drawn(
        Sheet(title, tables, remarks, settings),
        draw=lambda: found.plot(
            exponent=predicted["real_batch_size"], title=regression.title_in_mathematics + algorithm.title
        ),
    )


def _outside_of_the_corollary(regression: ProblemFlags, algorithm: AlgorithmFlags) -> str:
    """Return why Corollary 8 does not speak of the problem; empty if it does."""
    if regression.samples is not None:
        return "Corollary 8 is about samples that are all new; no exponents are predicted here"
    if not covered(algorithm.made):
        return "Corollary 8 is about averaged SGD with a constant step; no exponents are predicted here"
    if regression.spectrum is not None:
        return "Corollary 8 is about power laws; sgdtheory features fits their exponents to data"
    if regression.dim is not None or not regression.problem.noise_variance > 0:
        return "Corollary 8 is about infinitely many directions and label noise; no exponents are predicted here"
    return ""


def _noise_scales(
    regression: ProblemFlags, algorithm: AlgorithmFlags, found: critical.CriticalBatchSize
) -> tuple[list[Quantity], str]:
    """Return other measures of a batch size; theory knows the gradient's noise of linear methods with new samples."""
    known = algorithm.made.linear and regression.samples is None
    if known:
        notions = critical.notions_at(regression.problem, found, algorithm.made)
        simple, weighted = notions.simple_noise_scale, notions.hessian_noise_scale
    problem = regression.endless_problem
    quantities = [
        Quantity("simple_noise_scale", "noise scale", simple if known else None, digits=5),
        Quantity("hessian_noise_scale", "Hessian-weighted", weighted if known else None, digits=5),
        Quantity("interpolation_batch_size", "m*", problem.trace / problem.largest_eigenvalue, digits=5),
    ]
    return (
        quantities,
        "noise scale: tr Σ/‖g‖² of the gradient after D samples at B*, and tr HΣ/gᵀHg; m* = tr H/λ_1"
        if known
        else "m* = tr H/λ_1",
    )


def _exponents(samples: np.ndarray, predicted: dict[str, Any], slopes: dict[str, np.ndarray]) -> Table:
    """Return the table of exponents in D."""
    columns = [Quantity("", "", list(GROWING.values())), Quantity("", "Corollary 8", list(predicted.values()))]
    for place, (low, high) in enumerate(zip(samples, samples[1:], strict=False)):
        columns.append(Quantity("", f"{low:g} … {high:g}", [each[place] for each in slopes.values()]))
    title = "exponents in D: Corollary 8's for D → ∞, and from each D to the next"
    return Table(columns, title=title)
