"""Published tables and theory of repeated data, optimizers by batch size, weight decay by width, and small batches.

The verdicts are in `published_rest_verdicts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

import sgdtheory as st
from experiments._lib.published_numbers import BETA2, BETA2_LOSSES, Range
from experiments._lib.published_theory import ADAM, METHODS, SGD, SIGNUM, Pair, Row, last

# ------------------------------------------------------------------ published numbers

# Losses of 130M models by data (multiples of 20 tokens per parameter) and batch size in sequences of 4,096 tokens, 128
# first, each next one twice as large. All other settings are those that are best at 128, the learning rate too:
# github.com/marin-community/marin (Apache-2.0), experiments/optimizer_sweep/Analysis/PhaseI/tex, column BSZ.
MUON, ADAMW, LION = "Muon", "AdamW", "Lion"
BATCH_LOSSES = {
    ADAMW: {1: (3.529, 3.611), 2: (3.409, 3.437, 3.527), 4: (3.322, 3.331, 3.373, 3.480)},
    LION: {1: (3.552, 3.643), 2: (3.414, 3.447, 3.540), 4: (3.331, 3.346, 3.386, 3.492)},
    MUON: {1: (3.464, 3.504, 3.601, 3.811), 2: (3.369, 3.400, 3.465, 3.608)},
}
STEPS_AT_128 = 4960  # 2.6·10⁹ tokens, 20 per parameter, in batches of 128 sequences.
WARMUP_STEPS = 2000  # Of AdamW and Lion at every batch size; Muon has none.
# nanochat, github.com/karpathy/nanochat (MIT), dev/LOG.md, 2026-01-10: best weight decay of Muon by width. The code of
# that day has depth = width/64, batches of 2¹⁹ tokens, a learning rate of 0.02, and 8 tokens per parameter, where all
# parameters count, with two matrices of 2¹⁵ tokens × width.
WEIGHT_DECAYS = {512: 0.40, 768: 0.22, 1024: 0.10, 1280: 0.08}
NANOCHAT_POWER = -1.97
# `sgdtheory fit-rates` and `fit-law` on the 708 mixture-of-experts runs of github.com/step-law/steplaw,
# data/moe_lr_bs_loss.csv, with --batch-size bs --samples D --learning-rate lr --loss "smooth loss" --size Na, where Na
# is the number of active parameters: exponents of γ* ∝ D^−c B^p without a kink, growth of B* with D, and the p-value of
# a power law without a kink.
EXPERTS = {"c": Range(0.020, -0.034, 0.072), "p": Range(0.362, 0.272, 0.449), "B* by D": Range(0.470, 0.191, 1.24)}
EXPERTS_NO_KINK = 0.22
# The same fit of the dense runs with at most 2.84·10¹⁰ tokens and 32 to 512 sequences, a range that both have. Growth
# of B* with D: all dense runs.
DENSE = {"c": Range(-0.053, -0.202, 0.098), "p": Range(0.444, 0.208, 0.699), "B* by D": Range(0.579, 0.472, 0.660)}
DENSE_NO_KINK = 0.001
# Root mean square of ln γ* of the mixtures of experts about the kinked law of these dense runs, and about a power law.
EXPERTS_ABOUT_KINK, EXPERTS_ABOUT_POWER = 0.26, 0.19
# The joint law with r free on the 1,911 dense runs: r of the term G/B^r, and this term at 64 sequences over the mean
# loss there.
SMALL_BATCHES = Range(0.707, 0.575, 0.861)
SMALL_BATCH_SHARE = Range(0.0217, 0.0168, 0.0281)


def width_powers() -> tuple[Range, float]:
    """Return the power of the width in nanochat's best weight decays with its t interval, and that in the data."""
    width, decay = np.array([*WEIGHT_DECAYS.items()]).T
    fit: Any = stats.linregress(np.log(width), np.log(decay))
    half = float(stats.t.ppf(0.975, width.size - 2) * fit.stderr)
    parameters = 12 * (width / 64) * width**2 + 2 * 2**15 * width
    data = float(np.polyfit(np.log(width), np.log(parameters), 1)[0])
    return Range(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half), data


def cost_power(losses: dict[str, dict[int, tuple[float, ...]]]) -> float:
    """Return r of the cost c/B^r of β₂ = 0.95 against the best β₂, with c of each model, by least squares."""
    costs = [(B, row[0] - min(row), model) for model, table in losses.items() for B, row in table.items()]
    models = np.array([model for _, _, model in costs])
    batch, cost = np.array([each[:2] for each in costs]).T

    def squares(power: float) -> float:
        fall = (batch / batch.min()) ** -power
        total = 0.0
        for model in losses:
            mine, shape = cost[models == model], fall[models == model]
            total += float(mine @ mine - (mine @ shape) ** 2 / (shape @ shape))
        return total

    found: Any = optimize.minimize_scalar(squares, bounds=(0.0, 6.0), method="bounded")
    return float(found.x)


def published_cost_power(replicas: int, seed: int) -> Range:
    """Return r of the published table, with the interval that its scatter about parabolas in ln(1 − β₂) makes."""
    x = np.log(1 - np.array(BETA2))
    rows = np.array([row for table in BETA2_LOSSES.values() for row in table.values()])
    rest = rows.T - np.vander(x, 3) @ np.polyfit(x, rows.T, 2)
    scatter = np.sqrt((rest**2).sum() / (rest.size - 3 * len(rows)))
    rng = np.random.default_rng(seed)
    drawn = [
        cost_power(
            {
                model: {B: tuple(row + scatter * rng.standard_normal(len(row))) for B, row in table.items()}
                for model, table in BETA2_LOSSES.items()
            }
        )
        for _ in range(replicas)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    return Range(cost_power(BETA2_LOSSES), low, high)


# ------------------------------------------------------------------ theory

FLAT: Pair = (0.0, 0.0)  # The strongly convex problem: eight equal eigenvalues.
DIRECTIONS = 8
LAST, AVERAGED = "last", "averaged"
RETURNED = {LAST: st.Algorithm(average=st.LastIterate()), AVERAGED: st.Algorithm()}
FEW = 2  # Epochs at which E(K, N) should be near K.
# Epochs over N^power, the growth of the limit of E. As E comes up to its limit like 1/E = 1/K + 1/E(∞) and is at most
# 2.4 N^power, more epochs raise it by less than 0.3%.
EPOCHS_OVER_LIMIT = 1000.0
NO_WARMUP = "AdamW, no warm-up"
BATCH_METHODS: dict[str, tuple[Any, float]] = {  # with the steps of the warm-up
    ADAMW: (st.Adam(beta1=0.9, beta2=0.98), WARMUP_STEPS),
    NO_WARMUP: (st.Adam(beta1=0.9, beta2=0.98), 0),
    LION: (st.Lion(beta1=0.9, beta2=0.95), WARMUP_STEPS),
    SIGNUM: (METHODS[SIGNUM], 0),
}
SHORT, LONG = 0.95, 0.999  # β₂ with a cost that depends on B, and one that costs small batches 0.1% of the data (T38).
SIZES = 1.0, 2.0, 4.0, 16.0


@dataclass(frozen=True)
class Rest:
    """Problems and settings of the theory of these tables.

    Attributes:
        repeated: problems of E(K, N), besides the strongly convex one.
        repeated_sizes: N at which its limit for many epochs is computed.
        reshuffled_sizes: N at which it is computed for 2 reshuffled epochs.
        batches, multiples: problems of the comparison of optimizers, and data as in `BATCH_LOSSES`.
        first_batch: samples that stand for 128 sequences.
        small, small_samples: problems and D of the cost of β₂ = 0.95.
    """

    repeated: tuple[Pair, ...] = ((1.5, 2.0), (2.0, 2.5), (2.0, 1.5))
    repeated_sizes: tuple[int, ...] = (256, 1024, 4096)
    reshuffled_sizes: tuple[int, ...] = (64, 256)
    batches: tuple[Pair, ...] = ((1.2, 1.5), (1.5, 1.2), (2.0, 1.5))
    multiples: tuple[int, ...] = (1, 2)
    first_batch: float = 16.0
    small: tuple[Pair, ...] = ((1.2, 1.5), (1.5, 1.2), (2.0, 1.5))
    small_samples: float = 1e6


QUICK = Rest(
    repeated=((1.5, 2.0),),
    repeated_sizes=(64, 256),
    reshuffled_sizes=(32, 64),
    batches=(),  # Adam and Lion take most of the time of these tables.
    multiples=(1,),
    small=(),
)


def problem_of(pair: Pair) -> Any:
    """Return the problem with these exponents; the strongly convex one for `FLAT`, with signals of 1 in all."""
    if pair == FLAT:
        return st.LeastSquares(np.ones(DIRECTIONS), np.full(DIRECTIONS, 1 / DIRECTIONS))
    return st.PowerLaw(*pair)


def limit_power(pair: Pair, returned: str) -> float:
    """Return the power of N in the limit of E(K, N) for many epochs, b ≤ 2a + 1; 0 of the strongly convex problem."""
    a, b = pair
    if pair == FLAT:
        return 0.0
    return (a - 1) / b if returned == LAST else max(a / b - 1, 0.0)


def of_repeated(config: Rest, pair: Pair) -> list[Row]:
    """Return least risks of one epoch over n fresh samples, and of many epochs over N, at B = 1."""
    problem = problem_of(pair)
    rows = []
    for returned, algorithm in RETURNED.items():
        sizes = np.array(config.repeated_sizes)
        powers = sizes ** limit_power(pair, returned)
        # E comes up to at most 2.4 N^power on all of these problems: fresh samples up to 4 N^(1 + power) are enough.
        epochs = 2 ** np.ceil(np.log2(EPOCHS_OVER_LIMIT * powers))
        fresh = np.geomspace(min((*config.reshuffled_sizes, sizes[0])), 4 * sizes[-1] * powers[-1], 40).round()
        found = st.optimal_learning_rate(problem, batch_size=1, num_samples=fresh, algorithm=algorithm)
        best = np.asarray(found.learning_rate), np.asarray(found.risk)
        rows += [
            Row("repeated", SGD, *pair, f"{returned}, fresh", number, 1, rate, risk)
            for number, rate, risk in zip(fresh.tolist(), best[0].tolist(), best[1].tolist(), strict=True)
        ]
        for size, number in zip(config.repeated_sizes, epochs.tolist(), strict=True):
            again = problem.with_samples(size)
            found = st.optimal_learning_rate(again, batch_size=1, num_samples=size * number, algorithm=algorithm)
            case = f"{returned}, many epochs"
            rows.append(Row("repeated", SGD, *pair, case, size, 1, float(found.learning_rate), float(found.risk)))
    if pair != FLAT:
        rows += [_reshuffled(pair, size) for size in config.reshuffled_sizes]
    return rows


def _reshuffled(pair: Pair, size: int) -> Row:
    """Return the least risk of two reshuffled epochs, searched about the best γ of epochs with replacement."""
    algorithm = RETURNED[LAST]
    problem = st.PowerLaw(*pair)
    run: dict[str, Any] = {"batch_size": 1, "num_samples": size * FEW, "algorithm": algorithm}
    middle = np.log(float(st.optimal_learning_rate(problem.with_samples(size), **run).learning_rate))
    again = problem.with_samples(size, replacement=False)

    def log_risk(log_rate: float) -> float:
        return float(np.log(st.excess_risk(again, learning_rate=float(np.exp(log_rate)), **run).total))

    # Best rates are 1.00 to 1.12 times those with replacement, and a risk near its minimum hardly depends on γ.
    found: Any = optimize.minimize_scalar(
        log_risk, bounds=(middle - 0.7, middle + 0.4), method="bounded", options={"xatol": 0.02}
    )
    return Row("repeated", SGD, *pair, "last, 2 reshuffled epochs", size, 1, np.exp(found.x), np.exp(found.fun))


def reuse(rows: Sequence[Row], pair: Pair, case: str) -> dict[float, float]:
    """Return E by N: the fresh samples with which one epoch reaches the risk of the case, over N."""
    mine = [row for row in rows if row.question == "repeated" and (row.capacity, row.source) == pair]
    fresh = sorted((row.number, row.risk) for row in mine if row.case == f"{case.split(',')[0]}, fresh")
    samples, risks = np.log(fresh).T
    return {
        row.number: float(np.exp(np.interp(-np.log(row.risk), -risks, samples)) / row.number)
        for row in mine
        if row.case == case
    }


def flat_limit(size: float) -> float:
    """Return the limit of E on the strongly convex problem with the last iterate at a constant γ.

    Its risk is γσ²d/2 + e^(−2γn) ‖w_0 − w*‖² (T2, small γ), least at γ = ln(4n/(σ²d))/(2n), and many epochs leave
    σ²d/N. E is therefore [ln(4EN/d) + 1]/4, for σ² = 1 and ‖w_0 − w*‖ = 1.
    """
    limit = 1.0
    for _ in range(100):
        limit = (np.log(4 * limit * size / DIRECTIONS) + 1) / 4
    return float(limit)


def of_batches(config: Rest, pair: Pair) -> list[Row]:
    """Return risks at the γ that is best at the first batch size, over batch sizes that double."""
    rows = []
    for method, (optimizer, warmup) in BATCH_METHODS.items():
        for multiple in config.multiples:
            steps = STEPS_AT_128 * multiple
            samples = config.first_batch * steps
            rate = None
            for doublings in range(len(BATCH_LOSSES[ADAMW][multiple])):
                batch = config.first_batch * 2**doublings
                shape = st.Linear(warmup=warmup / (steps / 2**doublings))
                run: dict[str, Any] = {"batch_size": batch, "num_samples": samples, "algorithm": last(optimizer, shape)}
                if rate is None:
                    rate = float(st.optimal_learning_rate(st.PowerLaw(*pair), **run).learning_rate)
                risk = float(st.excess_risk(st.PowerLaw(*pair), learning_rate=rate, **run).total)
                rows.append(Row("batches", method, *pair, f"{multiple}× data", samples, batch, rate, risk))
    return rows


def increases(rows: Sequence[Row], method: str, pair: Pair, multiple: int) -> np.ndarray:
    """Return the increases in risk over that of the first batch size."""
    mine = [row for row in rows if (row.question, row.method) == ("batches", method)]
    mine = [row for row in mine if (row.capacity, row.source) == pair and row.case == f"{multiple}× data"]
    risks = np.array([row.risk for row in sorted(mine, key=lambda row: row.batch_size)])
    return risks[1:] - risks[0]


def of_small(config: Rest, pair: Pair) -> list[Row]:
    """Return least risks of Adam with β₂ = 0.95 and 0.999 at small batch sizes."""
    rows = []
    for beta2 in (SHORT, LONG):
        algorithm = last(st.Adam(beta1=0.9, beta2=beta2), st.Linear())
        run: dict[str, Any] = {"batch_size": np.array(SIZES), "num_samples": config.small_samples}
        found = st.optimal_learning_rate(st.PowerLaw(*pair), algorithm=algorithm, **run)
        best = np.asarray(found.learning_rate).tolist(), np.asarray(found.risk).tolist()
        rows += [
            Row("small", ADAM, *pair, f"{beta2:g}", config.small_samples, batch, rate, risk)
            for batch, rate, risk in zip(SIZES, *best, strict=True)
        ]
    return rows


def small_costs(rows: Sequence[Row], pair: Pair) -> tuple[float, float]:
    """Return the power r by which the extra cost of β₂ = 0.95 falls with B, from B = 1, 2 and 4, and the cost at B = 1.

    r is that of a cost c_0 + c_1/B^r. The cost at B = 1 is what it exceeds that at B = 16 by.
    """
    mine = [row for row in rows if row.question == "small" and (row.capacity, row.source) == pair]
    risk = {(row.case, row.batch_size): row.risk for row in mine}
    one, two, four, sixteen = (risk[f"{SHORT:g}", size] / risk[f"{LONG:g}", size] for size in SIZES)
    return float(np.log2((one - two) / (two - four))), one - sixteen
