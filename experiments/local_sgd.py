"""What do local steps and DiLoCo's outer step cost if workers synchronise seldom, and when do they pay?"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from experiments._lib.answers import inside, worst
from experiments._lib.local_sgd_figures import figures_of
from experiments._lib.local_sgd_networks import Frozen, Task, frozen_rows, network_rows, ratio_of_means
from experiments._lib.local_sgd_theory import DILOCO, MEAN, REACH, Row, same_as_one_batch, theory_rows
from experiments._lib.progress import stage
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import columns_of, rows_of
from experiments.theory_meets_network import FIELDS as FROZEN

PERCEPTRON: dict[str, Any] = {
    "width": 32, "base_width": 32, "input_dim": 32, "noise_variance": 1.0, "holdout_size": 512, "optimizer": "sgd",
    "averages": (0.9, 0.98), "uniform_average": True,
}  # fmt: skip
TRANSFORMER: dict[str, Any] = {
    "model": "transformer", "data": "stdlib", "width": 32, "base_width": 32, "num_heads": 4, "depth": 1,
    "context": 32, "clip_norm": 1.0, "holdout_size": 64, "averages": (0.9,),
}  # fmt: skip
SGD_TASK = Task(PERCEPTRON, log2_rates=(-7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0), num_seeds=16)
ADAM_TASK = Task(
    PERCEPTRON | {"optimizer": "adam"}, log2_rates=(-9.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0), num_seeds=16
)
TEXT_RATES = -9.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0
TEXT_TASK = Task(TRANSFORMER, 4, 4, local_steps=(1, 8, 32), max_steps=128, log2_rates=TEXT_RATES, num_seeds=8)


@dataclass(frozen=True)
class Config:
    """Problems and settings of the exact theory, and networks.

    Attributes:
        exponents: (a, b) of the power laws; the outer step is tuned on the first.
        num_samples: D.
        workers, local_steps: K and H of the data at one batch of all workers.
        critical_workers: K of the B*.
        diloco_workers, diloco_steps: K and H of the B* with DiLoCo's outer step, which takes ten times as long.
        outer_workers, outer_steps, outer_rates, outer_momenta: K and H, and the grid of outer steps.
        costs: s, of a synchronisation in steps of a worker.
        frozen: the network with frozen features.
        networks: by name.
        overhead: of B*.
        margin: factor within which risks and B* count as the same.
        close: of the outer step: within it a risk counts as the best.
        level: of the intervals; those of networks count the looks.
        processes: of the exact theory; None: the cores.
    """

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 2.0), (2.0, 1.5))
    num_samples: float = 1e5
    workers: tuple[int, ...] = (2, 16)
    local_steps: tuple[int, ...] = (1, 3, 10)
    critical_workers: tuple[int, ...] = (2, 8)
    diloco_workers: tuple[int, ...] = (8,)
    diloco_steps: tuple[int, ...] = (1, 3)
    outer_steps: tuple[int, ...] = (1, 3)
    outer_workers: int = 8
    outer_rates: tuple[float, ...] = (0.7, 1.0)
    outer_momenta: tuple[float, ...] = (0.0, 0.9)
    costs: tuple[float, ...] = (0.0, 0.1, 1.0, 10.0, 100.0)
    frozen: Frozen = Frozen(FROZEN, 8, 2, (1, 4, 16), 128, 32, 1 << 14)
    networks: dict[str, Task] = field(default_factory=dict)
    overhead: float = 0.2
    margin: float = 1.1
    close: float = 1.01
    level: float = 0.95
    processes: int | None = None

    def __post_init__(self) -> None:
        """Turn lists and tables of a file back into tuples and configs."""
        object.__setattr__(self, "frozen", Frozen(*self.frozen))
        tasks = {name: Task(**task) if isinstance(task, dict) else task for name, task in self.networks.items()}
        object.__setattr__(self, "networks", tasks)


SCALES = {
    "quick": Config(),
    "full": Config(
        num_samples=1e6,
        workers=(2, 4, 8, 16, 32, 64),
        local_steps=(1, 3, 10, 30),
        critical_workers=(2, 8, 64),
        diloco_steps=(1, 3),
        outer_steps=(1, 10),
        outer_rates=(0.5, 0.7, 1.0),
        outer_momenta=(0.0, 0.5, 0.8, 0.9, 0.95),
        frozen=Frozen(FROZEN, 8, 2, (1, 4, 16, 64), 512, 128, 1 << 17),
        networks={"teacher, SGD": SGD_TASK, "teacher, Adam": ADAM_TASK, "text, Adam": TEXT_TASK},
    ),
}
UNITS = {
    "part": "critical: B*; data: samples to SGD's risk; outer: risks of outer steps; features, or a network's name",
    "capacity": "exponent a of the eigenvalues; nan: a network",
    "source": "exponent b of the initial risk; nan: a network",
    "num_workers": "K",
    "local_steps": "H, steps of a worker in a round",
    "outer_rate": "η of the outer step",
    "outer_momentum": "μ of the outer step",
    "batch_size": "B, samples of one worker; of B* between whole ones; nan: with B = 1 the risk is out of reach",
    "learning_rate": "γ: the best one (data: of 1.2 D samples)",
    "seed": "of a network's run",
    "value": "critical: K·B*, samples; data: samples to SGD's R_opt(D) over D, nan: above 120; outer: risk of 1.2 D "
    "over R_opt(D); else excess risk, or loss on the hold-out",
    "predicted": "critical: B* of SGD; features: exact risk by their spectrum; networks: theory's ratio to H = 1",
    "tuned": "networks: 1 if the best γ is inside of the grid",
}


def run(config: Config) -> Result:
    """Exact theory, frozen features, networks."""
    start = time.perf_counter()
    rows = theory_rows(config)
    seconds = time.perf_counter() - start
    with stage("frozen features", 0.6, 0.7):
        rows += frozen_rows(config.frozen)
    for place, (name, task) in enumerate(config.networks.items()):
        share = 0.3 / len(config.networks)
        with stage(name, 0.7 + place * share, 0.7 + (place + 1) * share):
            rows += network_rows(name, task)
    return Result(columns_of(rows), UNITS, figures_of(config, rows), tuple(verdicts_of(config, rows, seconds)))


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figures, from a recorded table."""
    return figures_of(config, rows_of(Row, recorded.rows))


def verdicts_of(config: Config, rows: Sequence[Row], seconds: float = 0.0) -> list[Verdict]:
    """Every claim; those that need an exact risk are computed again."""
    found = _one_batch(config, seconds)
    for pair in config.exponents:
        found += [_critical(config, rows, pair), _pays(config, rows, pair)]
    found += [_free(config, rows), *_outer(config, rows), *_features(config, rows)]
    for name, task in config.networks.items():
        found += _network(config, rows, name, task)
    return found


def chosen(rows: Sequence[Row], part: str, **fixed: Any) -> list[Row]:
    """Rows of a part with these values."""
    return [row for row in rows if row.part == part and all(getattr(row, name) == v for name, v in fixed.items())]


def _problem(pair: tuple[float, float]) -> str:
    return f"a = {pair[0]:g}, b = {pair[1]:g}"


def _one_batch(config: Config, seconds: float) -> list[Verdict]:
    """H = 1 is one batch of K B; H = 3 is not."""
    same = same_as_one_batch(config, 1)
    apart = same_as_one_batch(config, 3)
    text = "Largest |R/R' − 1| over all problems and K at γ = 0.3, B = 2; R' is the risk of SGD with batches of K B"
    return [
        Verdict("H = 1 is one batch of K B", f"{text}. Holds below 1e-8", "0", same, None, _if(same < 1e-8), seconds),
        Verdict("control: three local steps change the risk", text, "above 1e-3", apart, None, _if(apart > 1e-3)),
    ]


def _if(condition: bool) -> VerdictName:
    return "holds" if condition else "fails"


def critical_ratios(config: Config, rows: Sequence[Row], pair: tuple[float, float]) -> dict[tuple[int, int], float]:
    """(K, H) → K·B* over that of H = 1, where workers that take their mean have one; nan: none is useful."""
    found = {}
    for workers in config.critical_workers:
        fixed: Any = {"capacity": pair[0], "source": pair[1], "num_workers": workers, "outer_momentum": 0.0}
        mine = {row.local_steps: row.value for row in chosen(rows, "critical", **fixed)}
        if np.isfinite(mine[1]):
            found |= {(workers, int(steps)): value / mine[1] for steps, value in mine.items() if steps > 1}
    return found


def _critical(config: Config, rows: Sequence[Row], pair: tuple[float, float]) -> Verdict:
    """Judge whether local steps leave K·B* as it is."""
    name = f"local steps do not change B*: {_problem(pair)}"
    ratios = critical_ratios(config, rows, pair)
    low, high = 1 / config.margin, config.margin
    predicted = f"1 within a factor of {config.margin:g}"
    if not ratios:
        text = "No number of workers has a useful batch size, not even with one sample per worker and H = 1"
        return Verdict(name, text, predicted, "—", None, "inconclusive")
    values = np.array(list(ratios.values()))
    lost = [f"K = {k}, H = {h}" for (k, h), value in ratios.items() if not np.isfinite(value)]
    none = f". No batch size is useful at {'; '.join(lost)}" if lost else ""
    known = values[np.isfinite(values)]
    where = f"D = {config.num_samples:.0e} and overhead {config.overhead:.0%}"
    text = f"K·B* divided by K·B* of H = 1 at {where}, for all K and H of the grid"
    if not known.size:
        return Verdict(name, text + none, predicted, "none", None, "fails")
    ends = float(known.min()), float(known.max())
    good = not lost and low <= ends[0] and ends[1] <= high
    return Verdict(name, text + none, predicted, f"{ends[0]:.3f} … {ends[1]:.3f}", ends, _if(good))


def times(config: Config, rows: Sequence[Row], pair: tuple[float, float], workers: int) -> np.ndarray:
    """(H, s) time to SGD's risk over that of H = 1 without cost: data times 1 + s/H."""
    fixed: Any = {"capacity": pair[0], "source": pair[1], "num_workers": workers}
    data = {row.local_steps: row.value for row in chosen(rows, "data", **fixed)}
    steps = np.array(config.local_steps, float)
    share = np.array([data[each] / data[1] for each in steps])
    return share[:, None] * (1 + np.array(config.costs) / steps[:, None])


def _pays(config: Config, rows: Sequence[Row], pair: tuple[float, float]) -> Verdict:
    """Judge whether local steps are faster if a synchronisation costs a step."""
    place = config.costs.index(1.0)
    ratios = {}
    for workers in config.workers:
        found = times(config, rows, pair, workers)[:, place]
        ratios[workers] = found[1:] / found[0]
    best = {workers: np.nanmin(value) if np.isfinite(value).any() else np.nan for workers, value in ratios.items()}
    values = np.array(list(best.values()))
    ends = float(np.nanmin(values)), float(np.nanmax(values))
    most = f"more than {REACH[-1]:g} D"
    words = ", ".join(f"K = {k}: {f'{value:.2f}' if np.isfinite(value) else most}" for k, value in best.items())
    text = (
        f"Time to SGD's R_opt(D) with the best H > 1 divided by that with H = 1, at the same K·B, if a "
        f"synchronisation takes as long as one step of a worker. Holds if all ratios are below 1: {words}"
    )
    return Verdict(
        f"local steps save time if a synchronisation costs one step: {_problem(pair)}",
        text,
        "below 1",
        f"{ends[0]:.3f} … {ends[1]:.3f}",
        ends,
        "holds" if (values < 1).all() else "fails",
    )


def _free(config: Config, rows: Sequence[Row]) -> Verdict:
    """Without cost nothing is to be gained."""
    place = config.costs.index(0.0)
    values = [times(config, rows, pair, k)[1:, place] for pair in config.exponents for k in config.workers]
    least = float(np.nanmin(np.array(values)))
    text = "Data to SGD's R_opt(D) with H > 1 divided by those with H = 1, all problems, K and H. Holds from 0.999 on"
    claim = "control: local steps never save time if synchronisation is free"
    return Verdict(claim, text, "at least 1", least, None, _if(least >= 0.999))


def _outer(config: Config, rows: Sequence[Row]) -> list[Verdict]:
    """Judge the effect of outer momentum on B* and on the best outer step."""
    fixed: Any = dict(zip(("capacity", "source"), config.exponents[0], strict=True))
    own = [row.value for row in chosen(rows, "critical", num_workers=1, **fixed)]
    plain = [row.predicted for row in chosen(rows, "critical", num_workers=1, **fixed)]
    same = float(np.max(np.abs(np.array(own) / plain - 1)))
    found = [_raised(config, rows, pair) for pair in config.exponents]
    found.append(
        Verdict(
            "control: one worker that takes its own mean has SGD's B*",
            "Largest |B*/B' − 1| at K = 1, η = 1, μ = 0, all H; B' is SGD's B*. Holds below 3%, as B is a whole number",
            "0",
            same,
            None,
            _if(same < 0.03),
        )
    )
    return found + [_best_outer(config, rows, steps) for steps in config.outer_steps]


def _raised(config: Config, rows: Sequence[Row], pair: tuple[float, float]) -> Verdict:
    """B* with DiLoCo's outer step over that with the mean."""
    fixed: Any = {"capacity": pair[0], "source": pair[1]}
    gains = []
    for row in chosen(rows, "critical", outer_momentum=DILOCO[1], **fixed):
        rest = {"num_workers": row.num_workers, "local_steps": row.local_steps, "outer_momentum": 0.0}
        (mean,) = chosen(rows, "critical", **rest, **fixed)
        gains.append(row.value / (mean.value if np.isfinite(mean.value) else mean.predicted))
    workers = ", ".join(map(str, config.diloco_workers))
    steps = ", ".join(map(str, config.diloco_steps))
    lost = sum(not np.isfinite(gain) for gain in gains)
    known = [gain for gain in gains if np.isfinite(gain)]
    ends = float(min(known, default=np.nan)), float(max(known, default=np.nan))
    return Verdict(
        f"DiLoCo's outer step raises B*: {_problem(pair)}",
        f"K·B* with η = {DILOCO[0]:g}, μ = {DILOCO[1]:g} divided by that with the mean, or by SGD's B* if the mean "
        f"has no useful batch size, at K = {workers}, H = {steps}. {lost} of {len(gains)} cases have none",
        f"above {config.margin:g}",
        f"{ends[0]:.2f} … {ends[1]:.2f}",
        ends,
        _if(not lost and ends[0] > config.margin),
    )


def _best_outer(config: Config, rows: Sequence[Row], steps: int) -> Verdict:
    """Judge whether η = 0.7, μ = 0.9 is the best outer step."""
    mine = {(row.outer_rate, row.outer_momentum): row.value for row in chosen(rows, "outer", local_steps=steps)}
    best = min(mine, key=lambda each: mine[each])
    ratio = mine[DILOCO] / mine[best]
    return Verdict(
        f"DiLoCo's η and μ are the best: H = {steps}",
        f"Risk with η = {DILOCO[0]:g} and μ = {DILOCO[1]:g} divided by the least risk of the grid, both after 1.2 D "
        f"samples with the best γ and K·B near SGD's B*. The least risk has η = {best[0]:g} and μ = {best[1]:g}. The "
        f"mean has {mine[MEAN] / mine[best]:.3f} times the least risk",
        f"at most {config.close:g}",
        ratio,
        None,
        _if(ratio <= config.close),
    )


def _ratio(rows: Sequence[Row], base: Sequence[Row], level: float) -> tuple[float, tuple[float, float]]:
    """Ratio of the means over seeds, which is what theory tells, and its interval by Student's t."""
    value, error = ratio_of_means(rows, base)
    half = float(stats.t.ppf((1 + level) / 2, len(rows) - 1)) * error
    return value, (value - half, value + half)


def _within(interval: tuple[float, float], value: float, margin: float) -> VerdictName:
    """Judge whether an interval is within a factor of a value, outside of it, or neither."""
    return inside(interval, value / margin, value * margin)


def _features(config: Config, rows: Sequence[Row]) -> list[Verdict]:
    """Ratios of risks against H = 1 of frozen features, and what the theory says of them."""
    found = []
    looks = 2 * (len(config.frozen.local_steps) - 1)
    level = 1 - (1 - config.level) / looks
    for words, outer in (("the mean", MEAN), ("DiLoCo", DILOCO)):
        base = chosen(rows, "features", local_steps=1, outer_momentum=outer[1])
        answers = []
        texts = []
        wrong = []
        for steps in config.frozen.local_steps[1:]:
            mine = chosen(rows, "features", local_steps=steps, outer_momentum=outer[1])
            value, interval = _ratio(mine, base, level)
            predicted = mine[0].predicted / base[0].predicted
            answers.append(_within(interval, predicted, config.margin))
            wrong.append(_within(interval, 1.0, config.margin))
            texts.append(f"H = {steps}: {value:.3f} ({interval[0]:.3f} … {interval[1]:.3f}), theory {predicted:.3f}")
        verdict = worst(answers)
        found.append(
            Verdict(
                f"features, {words}: the theory of their spectrum predicts the risk of local steps",
                f"Risk divided by the risk of H = 1, at one γ and with {len(base)} common seeds. The {level:.2%} "
                f"intervals correct for {looks} comparisons: {'; '.join(texts)}",
                f"theory within a factor of {config.margin:g}",
                texts[-1],
                None,
                verdict,
            )
        )
        if outer == MEAN:
            seen = "The same test that all H have the risk of H = 1. Holds if it is rejected for at least one H"
            verdict = _if("fails" in wrong)
            found.append(
                Verdict("features, control: no effect of H is rejected", seen, "rejected", texts[-1], None, verdict)
            )
    return found


def _network(config: Config, rows: Sequence[Row], name: str, task: Task) -> list[Verdict]:
    """Losses of a network against those of workers that always talk."""
    looks = 2 * (len(task.local_steps) - 1)
    level = 1 - (1 - config.level) / looks
    found = []
    for words, outer in (("the mean", MEAN), ("DiLoCo", DILOCO)):
        base = chosen(rows, name, num_workers=task.num_workers, local_steps=1, outer_momentum=outer[1])
        steps = task.local_steps[-1]
        mine = chosen(rows, name, num_workers=task.num_workers, local_steps=steps, outer_momentum=outer[1])
        value, interval = _ratio(mine, base, level)
        theory = bool(np.isfinite(mine[0].predicted))
        predicted = mine[0].predicted if theory else 1.0
        resolved = np.mean([row.tuned for row in (*base, *mine)])
        said = "The power law of the inputs predicts" if theory else "No theory predicts it; without an effect it is"
        text = (
            f"Loss with H = {steps} divided by the loss with H = 1, both tuned, for K = {task.num_workers} workers "
            f"and {len(base)} seeds. The {level:.2%} interval corrects for {looks} comparisons. {said} "
            f"{predicted:.3f}. {resolved:.0%} of the best γ are inside the grid"
        )
        claim = (
            f"{name}: {words} loses by local steps as the theory predicts"
            if theory
            else f"{name}: {words} loses nothing"
        )
        verdict = _within(interval, predicted, config.margin)
        found.append(Verdict(claim, text, f"{predicted:.3f} within {config.margin:g}", value, interval, verdict))
    base = chosen(rows, name, num_workers=task.num_workers, local_steps=1, outer_momentum=0.0)
    value, interval = _ratio(chosen(rows, name, num_workers=1), base, level)
    text = (
        f"Loss after one worker's {task.max_steps} steps, on a K-th of the data, divided by the loss of K workers "
        f"with H = 1. The interval is at {level:.2%}"
    )
    verdict = _if(interval[0] > 1)
    claim = f"{name}, control: one worker alone has a larger loss"
    return [*found, Verdict(claim, text, "above 1", value, interval, verdict)]
