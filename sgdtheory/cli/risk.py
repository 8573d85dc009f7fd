"""`sgdtheory risk` and `bounds`: exact risk and stability edge of a power law, and how tight published bounds are."""

from dataclasses import replace
from typing import Any

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.bounds import at_setting, covered, theorem7
from sgdtheory.cli.algorithm import AlgorithmFlags, with_risk
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.settings import ProblemFlags, SettingsFlags
from sgdtheory.risk import Risk, excess_risk

REASONS = {  # Theorem 7 does not apply for these reasons, the most important first; a cell has the short text.
    "unstable": ("γ unstable", "it is not below the largest stable one, and the risk grows without bound"),
    "large_learning_rate": ("γ too large", "γ > ½ min{B/tr H, 1/‖H‖}"),
    "large_signal": ("signal above noise", "Σ s_i > σ²"),
}


def risk(regression: ProblemFlags, settings: SettingsFlags, algorithm: AlgorithmFlags) -> Sheet:
    """Exact excess risk of averaged mini-batch SGD on power-law regression, beside Theorem 7's bound.

    Each of batch size, learning rate and number of samples takes one value or several of equal number. The theorem
    is about averaged SGD with a constant step, and is left out with another algorithm.
    """
    found = excess_risk(regression.problem, **settings.values, algorithm=with_risk(algorithm.made))
    sheet = found.sheet()
    (table,) = sheet.tables
    quantities = [*settings.quantities, *table.quantities]
    legends = [table.legend]
    said: dict[str, Any] = dict(algorithm.in_json)
    edge = settings.stability_limit(regression.problem, algorithm.made)
    if covered(algorithm.made) and regression.samples is None:
        compared, broken = _comparison(regression, settings, found, edge)
        quantities += compared
        said["broken"] = broken
        reasons = [": ".join(REASONS[name]) for name, each in broken.items() if np.any(each)]
        legends += [f"Where the theorem does not apply — {'; '.join(reasons)}."] if reasons else []
    elif edge is not None:
        quantities.append(_stable(edge))
    shown = Table(quantities, legend="\n".join(filter(None, legends)), hidden=[*table.hidden, "applies"])
    unstable = ""
    if edge is not None and np.any(settings.values["learning_rate"] >= edge):
        unstable = "a learning rate is not below the largest stable one: the risk of its run grows without bound"
    remarks = [unstable, *sheet.remarks, algorithm.remark]
    return Sheet(regression.title + algorithm.title, [shown], remarks, said)


def _comparison(
    regression: ProblemFlags, settings: SettingsFlags, found: Risk, edge: Any
) -> tuple[list[Quantity], dict[str, Any]]:
    """Return Theorem 7's bound beside the risk, and which of its conditions are broken."""
    bound = theorem7(regression.problem, **settings.values)
    broken = {
        "unstable": settings.values["learning_rate"] >= edge,
        "large_learning_rate": np.logical_not(bound.small_learning_rate),
        "large_signal": np.logical_not(bound.small_signal),
    }
    with np.errstate(all="ignore"):
        ratio = found.total / bound.total
    setups = zip(*(each.ravel() for each in np.broadcast_arrays(*broken.values())), strict=True)
    reasons = [[REASONS[name][0] for name, each in zip(broken, setup, strict=True) if each] for setup in setups]
    answers = [f"no: {', '.join(each)}" if each else "yes" for each in reasons]
    several = any(map(np.ndim, broken.values()))
    quantities = [
        Quantity("bound", "Theorem 7's bound", bound.total, digits=6),
        Quantity("ratio", "risk / bound", ratio, digits=6),
        Quantity("effective_dimension", "effective dimension k*", bound.effective_dimension),
        _stable(edge),
        Quantity("applies", "applies", bound.applies),
        Quantity("reasons", "theorem applies", answers if several else answers[0]),
    ]
    return quantities, broken


def _stable(edge: Any) -> Quantity:
    return Quantity("max_stable_learning_rate", "largest stable γ", edge, digits=6)


def bounds(regression: ProblemFlags, settings: SettingsFlags) -> Drawn:
    """Published bounds on the risk of SGD at one setting, beside the exact risk of what they bound.

    Constants are verified where they are printed in the paper, quoted in full elsewhere, or proved anew. No random
    setting refutes the others.
    """
    found = replace(at_setting(regression.fresh_problem, **settings.values), title=regression.title)
    return Drawn(found.sheet(), draw=found.plot)
