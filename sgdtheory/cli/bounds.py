"""`sgdtheory bounds`: published bounds at a setting, and how tight they are there."""

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.bounds import PublishedBound, catalogue
from sgdtheory.cli.settings import ProblemFlags, SettingsFlags
from sgdtheory.risk import excess_risk

SIGNS = {"upper": "≤", "lower": "≥", "both": "≍"}
CONSTANTS = {"printed": "verified", "recalled": "not verified against the paper", "order": "none stated"}
ITERATES = {"UniformAverage": "mean", "TailAverage": "mean of the last half", "LastIterate": "last iterate"}


def bounds(regression: ProblemFlags, settings: SettingsFlags) -> Sheet:
    """Published bounds on the risk of SGD at one setting, beside the exact risk of what they bound.

    Constants are verified where they are printed in the paper, quoted in full elsewhere, or proved anew. No random
    setting refutes the others.
    """
    if any(np.ndim(value) for value in settings.values.values()):
        raise ValueError("batch_size, learning_rate and num_samples must have one value each for a table of bounds")
    found = catalogue()
    algorithms = {bound.algorithm for bound in found}
    risks = {each: excess_risk(regression.problem, **settings.values, algorithm=each).total for each in algorithms}
    values = [bound(regression.problem, **settings.values) for bound in found]
    risk = np.array([risks[bound.algorithm] for bound in found])
    bounded = np.array([value.total for value in values])
    with np.errstate(all="ignore"):
        ratio = risk / bounded
    applies = [bool(value.applies) for value in values]
    stated = [
        f"{SIGNS[bound.side]} {value.total:.4g}" if value.applies else f"needs {value.reasons[0]}"
        for bound, value in zip(found, values, strict=True)
    ]
    quantities = [
        Quantity("name", "bound", [bound.name for bound in found]),
        Quantity("iterate", "of the", [_iterate(bound) for bound in found]),
        Quantity("risk", "exact risk", risk),
        Quantity("bound", "bound", bounded),
        Quantity("", "bound on it", stated),
        Quantity("ratio", "ratio", ratio),
        Quantity("", "exact/bound", np.where(applies, ratio, np.nan)),
        Quantity("standing", "standing", [bound.standing for bound in found]),
        Quantity("", "constants", [CONSTANTS[bound.standing] for bound in found]),
        Quantity("side", "side", [bound.side for bound in found]),
        Quantity("source", "source", [bound.source for bound in found]),
        Quantity("applies", "applies", applies),
        Quantity("broken", "broken", [list(value.reasons) for value in values]),
    ]
    hidden = "bound", "ratio", "standing", "side", "source", "applies", "broken"
    return Sheet(regression.title, [Table(quantities, "bounds", hidden=hidden)], settings=settings.values)


def _iterate(bound: PublishedBound) -> str:
    """Return in words the weights whose risk is bounded, and their schedule."""
    schedule = "" if bound.algorithm.schedule.flat else ", γ halved ten times"
    return ITERATES[type(bound.algorithm.average).__name__] + schedule
