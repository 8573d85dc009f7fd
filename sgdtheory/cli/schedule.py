"""`sgdtheory schedule`: the best learning rates and batch sizes, and what schedules with a name lose."""

from dataclasses import replace

from sgdtheory.algorithms import SGD, Algorithm, algorithm_text
from sgdtheory.cli.algorithm import MethodFlags
from sgdtheory.cli.function_command import Drawn, Progress
from sgdtheory.cli.settings import ProblemFlags
from sgdtheory.optimal import named_schedules, optimal_schedule


def schedule(
    progress: Progress,
    regression: ProblemFlags,
    method: MethodFlags,
    num_samples: float,
    batch_size: float | None = None,
    num_steps: int | None = None,
) -> Drawn:
    """Find the schedule that leaves the last iterate of SGD, signs or Adam the least risk on power-law regression.

    Learning rates of SGD are searched up to the stability edge: a few steps with one beyond it may have less risk.
    With --batch-size the learning rates alone are found, with --num-steps the batch sizes of SGD too. Schedules with a
    name, their peaks tuned, are listed by what they lose; averages of the iterates may do better than any last one.

    Args:
        num_samples: Number of samples D.
        batch_size: Batch size B of all steps.
        num_steps: Number of steps n, without a batch size: batch sizes B_t that add up to D are found too.
    """
    progress("looking for the best schedule")
    best = optimal_schedule(
        regression.fresh_problem,
        num_samples=num_samples,
        batch_size=batch_size,
        num_steps=num_steps,
        method=method.made,
    )
    progress("tuning schedules with a name")
    named = named_schedules(regression.problem, best)
    used = "" if method.made == SGD() else algorithm_text(Algorithm(method.made))
    title = f"{regression.title}{used and f'; {used}'}"
    sheet = best.sheet(named)
    settings = regression.in_json | ({"method": used} if used else {}) | dict(sheet.settings)
    run = f"{used and f'; {used}'}, $D = {num_samples:g}$, $n = {best.num_steps:g}$"
    return Drawn(
        replace(sheet, title=f"{title}: {sheet.title}", settings=settings),
        draw=lambda: best.plot(named=named, title=f"{regression.title_in_mathematics}{run}"),
    )
