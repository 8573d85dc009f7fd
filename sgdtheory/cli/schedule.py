"""`sgdtheory schedule`: the best learning rates and batch sizes, and what schedules with a name lose."""

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.algorithms import SGD, Algorithm, LastIterate, algorithm_text
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
    sheet = best.sheet()
    nearest = next(name for name, each in named.items() if each.algorithm.average == LastIterate())
    losses = Table(
        [
            Quantity("", "schedule", list(named)),
            Quantity("", "peak γ", [each.learning_rate for each in named.values()]),
            Quantity("", "excess risk", [each.risk for each in named.values()], digits=5),
            Quantity("", "over the least", [1 + each.loss for each in named.values()], digits=5),
        ],
        title=f"schedules with a name, peak γ tuned, B = {best.num_samples / best.num_steps:g}",
        legend=f"nearest: {nearest}, {named[nearest].loss:.1%} above the least risk of a last iterate",
    )
    settings = regression.in_json | ({"method": used} if used else {}) | dict(sheet.settings)
    settings["named"] = {
        name: {"learning_rate": each.learning_rate, "risk": each.risk, "loss": each.loss}
        for name, each in named.items()
    }
    run = f"{used and f'; {used}'}, $D = {num_samples:g}$, $n = {best.num_steps:g}$"
    return Drawn(
        Sheet(f"{title}: {sheet.title}", [*sheet.tables, losses], sheet.remarks, settings),
        draw=lambda: best.plot(named=named, title=f"{regression.title_in_mathematics}{run}"),
    )
