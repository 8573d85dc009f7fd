"""Thresholds between the solvers: the one place that says from where on a run is solved in another way.

Most of them are a matter of time: on both sides of a threshold two solvers give the same risk, and
`python -m benchmarks.thresholds` prints how long each of them takes at half, once and twice the threshold. The others
keep digits, or refuse runs that would take too long.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Numbers of steps, rounds or unknowns from which on another solver is used.

    Attributes:
        few_steps: Constant segments of at most so many steps are stepped through, which has no error of a contour. At
            the threshold it takes 4 times as long for averaged SGD, and 1.6 times for heavy ball.
        together: Constant runs that are solved side by side are stepped through up to so many steps, because the steps
            of many runs share the cost of a call.
        together_smooth: The same for runs with a schedule, whose other solver, panels, is slower than a closed form.
        together_compiled: The same for runs with a schedule whose steps are compiled.
        compiled_from: So many steps or more are taken in a compiled loop: fewer take less time in NumPy than the
            compilation does.
        short_smooth: Smooth segments of at most so many steps are stepped through, faster than panels.
        short_oscillating: The same for methods that change with the step, times the cube of the order of a panel:
            their moments oscillate, so that panels are many.
        rounds_by_steps: At most so many rounds of local steps are stepped through.
        few_rounds: At most so many rounds are taken round by round, before the contour integral is used. So are rounds
            whose oscillations have not died out, three to nine times as fast as by compiled steps.
        stage_steps: A stage in closed form takes as long as so many steps: a schedule with shorter stages is stepped.
        most_stages: A ramp of batch sizes with more stages is treated as smooth.
        most_settling: Panels begin at the latest so many steps after a kink if moments overshoot or grow.
        most_steps: More steps are not taken one by one, which would take more than some seconds: the call refuses.
        delayed_like_any: Up to this delay a run is solved like any linear method, with a vector for each step of delay:
            as fast as the solver of long delays, and panels follow its schedules.
        delayed_by_steps: Delayed runs of at most so many steps are stepped through. Where oscillations last that long,
            the line integral takes as much time; where they do not, the contour takes a twentieth.
        adjugate_unknowns: Systems of at most so many unknowns are solved by determinants, for all points of a contour
            together; larger ones are eliminated at every point.
        whole_sample: Samples with at most so many directions keep the moments of all pairs of directions: 32 directions
            have 528 pairs, whose eigenvectors take a tenth of a second.
        diagonal_sample: Samples with at most so many directions keep the moments of each direction.
        sample_steps: So many steps of a sample with a schedule are taken one by one, in a second.
        exact_steps: So few steps change moments by at most 1e-11 of themselves when γ is rounded, 400 times the
            rounding unit for each where matrices are nearly defective: the error of rounding is then not estimated.

        largest_growth: A closed form is not used for moments that have grown by more than this factor while small ones
            still matter, because it would lose four digits of the small ones.
    """

    few_steps: float = 32
    together: float = 128.0
    together_smooth: float = 400.0
    together_compiled: float = 4096.0
    compiled_from: float = 4096.0
    short_smooth: float = 200.0
    short_oscillating: float = 16.0
    rounds_by_steps: int = 2
    few_rounds: int = 16
    stage_steps: float = 200.0
    most_stages: int = 256
    most_settling: float = 1e5
    most_steps: float = 2e6
    delayed_like_any: int = 2
    delayed_by_steps: float = 400.0
    adjugate_unknowns: int = 3
    whole_sample: int = 32
    diagonal_sample: int = 256
    sample_steps: float = 2e4
    exact_steps: float = 128
    largest_growth: float = 1e4


THRESHOLDS = Thresholds()


@contextlib.contextmanager
def moved_thresholds(**values: float) -> Iterator[None]:
    """Move thresholds for as long as the context is open, so that a test or a benchmark can force a solver.

    It has no effect on `COMPILED_FROM` and other defaults of arguments, which are read when modules are imported.

    >>> from sgdtheory.risk import THRESHOLDS, moved_thresholds
    >>> with moved_thresholds(few_steps=1e9):
    ...     THRESHOLDS.few_steps
    1000000000.0
    >>> THRESHOLDS.few_steps
    32

    Raises:
        AttributeError: a name that is not a threshold.
    """
    before = {name: getattr(THRESHOLDS, name) for name in values}
    for name, value in values.items():
        object.__setattr__(THRESHOLDS, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(THRESHOLDS, name, value)
