"""`sgdtheory bounds`: what published bounds say of a setting, and how tight they are there."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.bounds import PublishedBound, catalogue
from sgdtheory.cli.output import print_json, print_tables
from sgdtheory.cli.settings import SettingsCommand
from sgdtheory.risk import excess_risk

SIGNS = {"upper": "≤", "lower": "≥", "both": "≍"}
ITERATES = {"UniformAverage": "mean", "TailAverage": "mean of the last half", "LastIterate": "last iterate"}


@dataclass(frozen=True, kw_only=True)
class BoundsCommand(SettingsCommand):
    """What published bounds on the risk of SGD say of one setting, beside the exact risk of what they bound.

    "printed": constants as printed, as quoted in full, or proved anew; "recalled": constants from memory, not refuted;
    "order": up to constants that the theorem does not name.
    """

    def run(self) -> None:
        """Compute and print."""
        settings = self.settings
        if any(np.ndim(value) for value in settings.values()):
            raise ValueError("batch-size, learning-rate and num-samples must have one value each for a table of bounds")
        algorithms = {bound.algorithm for bound in catalogue()}
        risks = {each: excess_risk(self.problem, **settings, algorithm=each).total for each in algorithms}
        rows = [self._row(bound, risks[bound.algorithm]) for bound in catalogue()]
        if self.json:
            print_json(settings | {"bounds": rows})
            return
        table = Table(title=self.problem_title)
        for name in ("bound", "of the", "exact risk", "bound on it", "exact/bound", "constants"):
            table.add_column(name)
        for row in rows:
            found = f"{SIGNS[row['side']]} {row['bound']:.4g}", f"{row['ratio']:.4g}"
            cells = found if row["applies"] else (f"needs {row['broken'][0]}", "")
            table.add_row(row["name"], row["iterate"], f"{row['risk']:.4g}", *cells, row["standing"])
        print_tables(table)

    def _row(self, bound: PublishedBound, risk: Any) -> dict[str, Any]:
        """Of one bound, beside the exact risk of its algorithm."""
        value = bound(self.problem, **self.settings)
        with np.errstate(all="ignore"):
            ratio = risk / value.total
        schedule = "" if bound.algorithm.schedule.flat else ", γ halved ten times"
        return {
            "name": bound.name,
            "side": bound.side,
            "standing": bound.standing,
            "source": bound.source,
            "iterate": ITERATES[type(bound.algorithm.average).__name__] + schedule,
            "risk": risk,
            "bound": value.total,
            "ratio": ratio,
            "applies": bool(value.applies),
            "broken": list(value.reasons),
        }
