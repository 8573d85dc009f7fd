"""Published numbers on learning rates, batch sizes and schedules, and quantities of 124M runs from their logs."""

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path(__file__).parents[1] / "data"


class Range(NamedTuple):
    """A published value with its 95% interval."""

    value: float
    low: float
    high: float


# `sgdtheory fit-rates` on the 1,911 dense runs of github.com/step-law/steplaw (arXiv 2503.04715; the file has no
# licence, so that only the fitted exponents are kept): γ* ∝ D^−c B^p below a kink at B ∝ D^κ N^ν.
STEP_LAW = {"c": Range(0.386, 0.297, 0.480), "p": Range(0.876, 0.770, 1.01), "κ": Range(0.710, 0.597, 0.821)}
# Slopes of ln γ* along ln D at fixed model size and batch size, in sequences, of the same runs.
STEP_LAW_ALONG_DATA = {32: -0.27, 64: -0.34, 128: -0.19, 192: -0.05, 256: 0.02, 352: 0.16, 512: 0.17, 1024: 0.24}
# Bits per byte on C4 by batch size and β₂ of two models, β₁ = 0.9062: github.com/marin-community/marin, issue 4567.
BETA2 = 0.95, 0.97, 0.99, 0.995, 0.999
BETA2_LOSSES = {
    "d1024": {
        64: (0.9780, 0.9759, 0.9732, 0.9722, 0.9728),
        128: (0.9743, 0.9736, 0.9727, 0.9725, 0.9734),
        256: (0.9761, 0.9748, 0.9759, 0.9760, 0.9783),
        512: (0.9826, 0.9830, 0.9831, 0.9859, 0.9917),
    },
    "d768": {
        64: (1.0369, 1.0336, 1.0298, 1.0286, 1.0293),
        128: (1.0344, 1.0330, 1.0309, 1.0314, 1.0322),
        256: (1.0348, 1.0345, 1.0340, 1.0342, 1.0385),
    },
}
# Steps of a 124M model to a validation loss of 3.28: spectral descent, which is Muon without momentum, and Muon;
# github.com/KellerJordan/modded-nanogpt (MIT), records/track_3_optimization, results 22 and 6.
STEPS_WITHOUT_MOMENTUM, STEPS_WITH_MOMENTUM = 8225, 3375
# Power Lines (arXiv 2505.13738): the best weight decay ∝ B, and B/(γ λ D) ∝ (tokens per parameter)^−0.527.
TIMESCALE_POWER = -0.527


SHARES = 0.1, 0.2, 0.4, 0.6, 0.8, 0.9
DURATIONS = 15_000, 25_000, 35_000, 50_000
LINEAR = {f"linear {share:.0%}": share for share in SHARES}  # name → share of the run that decays
# In the logs the linear decay over 100% comes after a warm-up of 0.6% of the steps.
WHOLE, ROOT, COSINE = "linear 100%", "1 − √ 20%", "cosine"
SCHEDULES = (*LINEAR, WHOLE, ROOT, COSINE)
NAMES = {  # of the table of logs
    **{f"linear {share:g}": name for name, share in LINEAR.items()},
    **{"linear 0.994": WHOLE, "1-sqrt 0.2": ROOT, "cosine": COSINE},
}
Losses = Mapping[tuple[int, str, float], float]  # (steps, schedule, peak learning rate) → loss


@cache
def losses_124m() -> tuple[dict[tuple[int, str, float], float], float]:
    """Return the final losses of the 124M runs that decay to 0, and the standard deviation between equal runs."""
    found = defaultdict(list)
    with (DATA / "decays_124M.csv").open(newline="") as file:
        for run in csv.DictReader(file):
            key = int(run["steps"]), NAMES.get(run["schedule"], ""), float(run["peak_learning_rate"])
            found[key].append(float(run["loss"]))
    squares = sum(np.var(each) * len(each) for each in found.values())
    freedom = sum(len(each) - 1 for each in found.values())
    return {key: float(np.mean(each)) for key, each in found.items()}, float(np.sqrt(squares / freedom))


def lowest(losses: Losses, steps: int, name: str, low: float = 0.0, high: float = np.inf) -> tuple[float, float]:
    """Return ln γ and loss at the lowest point of the parabola through three learning rates about the least loss.

    Args:
        losses: of the runs.
        steps: of the runs.
        name: of the schedule.
        low, high: the range of learning rates. If `low` is above 0, all of them enter, by least squares.
    """
    known = [(rate, loss) for (n, schedule, rate), loss in losses.items() if (n, schedule) == (steps, name)]
    x, y = np.array([(np.log(rate), loss) for rate, loss in sorted(known) if low <= rate <= high]).T
    middle = int(np.clip(y.argmin(), 1, x.size - 2))
    used = slice(None) if low > 0 else slice(middle - 1, middle + 2)
    square, slope, value = np.polyfit(x[used] - x[middle], y[used], 2)
    return float(x[middle] - slope / (2 * square)), float(value - slope**2 / (4 * square))


class Decays(NamedTuple):
    """Properties of learning-rate schedules, each at its best learning rate, from runs or from theory.

    Attributes:
        share: of a linear decay with the least loss.
        rate_ratio: best γ of a decay over 90% over that over 10%.
        root_gain: loss of the linear decay over 20% minus that of 1 − √, in units of the loss of the linear decay over
            10% minus the least one.
        cosine_loss: loss of a cosine minus that of the linear decay over 90%, in the same unit.
        duration: mean over the shares of −d ln γ*/d ln n at fixed B.
    """

    share: float
    rate_ratio: float
    root_gain: float
    cosine_loss: float
    duration: float


def decays(best: Callable[[str], tuple[float, float]], along: Callable[[str], float]) -> Decays:
    """Return what best learning rates say.

    Args:
        best: schedule → ln γ* and the loss there.
        along: schedule → −d ln γ*/d ln n.
    """
    every = {name: best(name) for name in SCHEDULES}
    share = min((*LINEAR, WHOLE), key=lambda name: every[name][1])
    unit = every["linear 10%"][1] - every[share][1]
    unit = unit if unit > 0 else np.nan  # a decay over 10% is the best
    return Decays(
        {**LINEAR, WHOLE: 1.0}[share],
        float(np.exp(every["linear 90%"][0] - every["linear 10%"][0])),
        (every["linear 20%"][1] - every[ROOT][1]) / unit,
        (every[COSINE][1] - every["linear 90%"][1]) / unit,
        float(np.mean([along(name) for name in LINEAR])),
    )


@cache
def decays_124m(replicas: int, seed: int) -> tuple[Decays, Decays, Decays]:
    """Return what the 124M runs say, and the ends of the 95% intervals that the scatter between equal runs makes.

    Learning rates are coarse, and the loss is no parabola. The interval of the exponent of the duration is therefore
    the union of two: that of the three learning rates that all durations have, and that of all from 0.0005 on.
    """
    losses, scatter = losses_124m()
    rng = np.random.default_rng(seed)
    ranges = {"low": 0.0, "high": 0.002}, {"low": 0.0005, "high": np.inf}

    def of(table: Losses, rates: Mapping[str, float]) -> Decays:
        def along(name: str) -> float:
            logs = [lowest(table, steps, name, **rates)[0] for steps in DURATIONS]
            return float(-np.polyfit(np.log(DURATIONS), logs, 1)[0])

        return decays(lambda name: lowest(table, max(DURATIONS), name), along)

    drawn = [{key: loss + scatter * rng.standard_normal() for key, loss in losses.items()} for _ in range(replicas)]
    ends = [np.quantile([of(table, rates) for table in drawn], (0.025, 0.975), axis=0) for rates in ranges]
    low, high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
    return of(losses, ranges[0]), Decays(*low.tolist()), Decays(*high.tolist())
