"""How finely runs are followed."""

from typing import NamedTuple

import numpy as np


class Resolution(NamedTuple):
    """How finely smooth pieces are followed.

    Attributes:
        order: p, points on a panel.
        ratio: of the distances of a panel's ends from the kink before it.
        modes: relative error that sums over directions may have.
        tail: share that the two highest Legendre coefficients of second moments may have on a panel; with more it is
            halved.
    """

    order: int
    ratio: float
    modes: float
    tail: float


# By measurement (tests/risk/test_algorithm_steps.py)
FINE = Resolution(9, 2.0, 0.0, 1e-6)  # relative error 1e-11 as a rule, 1e-8 next to the edge, some 1e-7 beyond it
ROUGH = Resolution(7, 2.0, 0.0, 1e-4)  # at least three times that, forty as a rule: for a bound of the error
FAST = Resolution(5, 3.0, 1e-6, np.inf)  # about 1e-5, for searches

# relative error → resolution
RESOLUTIONS = {0.0: FINE, 1e-5: FAST}


def resolution_within(tolerance: float) -> Resolution:
    """The roughest one whose relative error is below a tolerance."""
    return RESOLUTIONS[max(error for error in RESOLUTIONS if error <= tolerance)]
