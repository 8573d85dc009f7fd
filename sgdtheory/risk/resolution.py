"""How finely runs are followed."""

from typing import NamedTuple

import numpy as np

from sgdtheory.risk.contour import QUIET_CONTOUR, Contour, contour_within


class Resolution(NamedTuple):
    """How finely smooth pieces are followed.

    Attributes:
        order: p, points on a panel.
        ratio: of the distances of a panel's ends from the kink before it.
        modes: relative error that sums over directions may have.
        tail: share that the two highest Legendre coefficients of second moments may have on a panel; with more it is
            halved.
        turn: radians by which moments may turn on a panel (`turning`).
        still: error of the way that is left to the end, which may then be a single panel.
        contour: of closed forms.
    """

    order: int
    ratio: float
    modes: float
    tail: float
    turn: float
    still: float
    contour: Contour


# By measurement (tests/risk/test_algorithm_steps.py, tests/risk/test_tolerances.py)
# error 1e-11 as a rule, 1e-8 next to the edge, 1e-7 beyond it
FINE = Resolution(9, 2.0, 0.0, 1e-6, 2.5, 1e-12, QUIET_CONTOUR)
# at least three times that, forty as a rule: bounds the error
ROUGH = Resolution(7, 2.0, 0.0, 1e-4, 2.5, 1e-11, QUIET_CONTOUR)
# about 1e-8, for searches
CLOSE = Resolution(8, 2.0, 1e-8, 1e-5, 3.0, 1e-10, contour_within(1e-8))
# about 1e-5, to begin them with
FAST = Resolution(5, 3.0, 1e-6, np.inf, 2.0, 1e-7, contour_within(1e-8))

# relative error → resolution
RESOLUTIONS = {0.0: FINE, 1e-8: CLOSE, 1e-5: FAST}


def resolution_within(tolerance: float) -> Resolution:
    """The roughest one whose relative error is below a tolerance."""
    return RESOLUTIONS[max(error for error in RESOLUTIONS if error <= tolerance)]
