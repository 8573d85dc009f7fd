"""`sgdtheory bounds`: published bounds at a setting, and how tight they are there."""

from dataclasses import replace

from sgdtheory.bounds import at_setting
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.settings import ProblemFlags, SettingsFlags


def bounds(regression: ProblemFlags, settings: SettingsFlags) -> Drawn:
    """Published bounds on the risk of SGD at one setting, beside the exact risk of what they bound.

    Constants are verified where they are printed in the paper, quoted in full elsewhere, or proved anew. No random
    setting refutes the others.
    """
    found = replace(at_setting(regression.fresh_problem, **settings.values), title=regression.title)
    return Drawn(found.sheet(), draw=found.plot)
