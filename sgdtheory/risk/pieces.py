"""How a run is taken apart: pieces without a kink inside, and how each of them is crossed."""

import numpy as np

from sgdtheory.algorithms import Course, steps_of_shape

STAGE_COST = 200.0  # steps that take as long as a stage in closed form: shorter ones are stepped through
MOST_PIECES = 256  # stages that a ramp of batch sizes is taken apart into: with more, and more steps, it is smooth
MOST_STEPS = 2e6  # that are taken one by one, some seconds


def pieces(course: Course) -> list[tuple[float, float]]:
    """Steps between kinks, where a shape's formula, the batch size or the average changes; all as one if too many."""
    n = course.num_steps
    edges = {0.0, n, course.first_averaged}
    if course.algorithm.schedule.smooth:
        edges |= set(steps_of_shape(course.algorithm.schedule, n))
    if course.algorithm.batch_schedule.smooth:
        edges |= set(steps_of_shape(course.algorithm.batch_schedule, n))
        starts, _ = course.batch_runs
        if starts.size * STAGE_COST <= n and starts.size <= MOST_PIECES:
            edges |= set(starts.tolist())
    kept = sorted(each for each in edges if 0 <= each <= n)
    if len(kept) * STAGE_COST > n:  # stepping is sooner done
        kept = sorted({0.0, course.first_averaged, n})
    return [(low, high) for low, high in zip(kept[:-1], kept[1:], strict=True) if high > low]


def kind_of(course: Course, low: float, high: float) -> str:
    """How a piece is crossed: "constant" in closed form, "smooth" on panels, or in "steps"."""
    algorithm, method = course.algorithm, course.algorithm.method
    if method.step_dependence == "any" or not (algorithm.schedule.smooth and algorithm.batch_schedule.smooth):
        return "steps"
    if any(
        low < edge < high
        for shape in (algorithm.schedule, algorithm.batch_schedule)
        for edge in steps_of_shape(shape, course.num_steps)
    ):
        return "steps"
    probes = np.unique(np.floor(np.linspace(low, high - 1, 5)))
    rates, batches = course.rates(probes), course.batches(probes)
    if np.ptp(batches) > 0 and course.rounded and course.num_steps <= MOST_STEPS:
        return "steps"  # a staircase of batch sizes, which stepping alone has exactly
    if np.ptp(batches) == 0 and np.ptp(rates) == 0 and method.step_dependence == "none":
        return "constant"
    return "smooth"
