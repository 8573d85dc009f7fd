"""Verdicts on published numbers, each against the exact theory of the same setting."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments._lib import published_rates as rates
from experiments._lib.published_numbers import (
    BETA2,
    BETA2_LOSSES,
    STEPS_WITH_MOMENTUM,
    STEPS_WITHOUT_MOMENTUM,
    Decays,
    Range,
    decays_124m,
)
from experiments._lib.published_rates import TOLERANCE, inside, named, span
from experiments._lib.published_rest_verdicts import rest_verdicts
from experiments._lib.published_theory import ADAM, SGD, Pair, Row, decays_of, of, slope, steps_ratio
from experiments._lib.results import Verdict


def every_verdict(config: Any, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    """Return all verdicts of a table."""
    laws = rates.fitted_laws(config, rows)
    found, low, high = decays_124m(config.replicas, config.seed)
    duration = Range(found.duration, low.duration, high.duration)
    return (
        *rates.rises(laws, seconds),
        rates.growths(laws),
        rates.plateau(config, rows),
        *([rates.fixed_end(laws)] if config.end_shares else []),
        *_schedules(config, rows, found, low, high),
        rates.durations(duration),
        *_beta2(config, rows),
        *rates.weight_decay(laws, duration),
        _peaks(config, rows),
        _epochs(config, rows),
        _momentum(config, rows),
        *rest_verdicts(config, rows),
    )


# ------------------------------------------------------------------ schedules of 124M models

QUANTITIES = {
    "share": (
        "the best share of a linear decay is 60% to 80%",
        "Share of the steps in which γ decays, with the least loss",
    ),
    "rate_ratio": (
        "the best γ of a decay over 90% is twice that over 10%",
        "Best γ of a linear decay over 90% of the steps divided by that of a decay over 10%",
    ),
    "root_gain": (
        "1 − √ beats linear over the last 20%",
        "Loss of a linear decay over 20% minus that of 1 − √, in units of what the best share gains on 10%",
    ),
    "cosine_loss": (
        "a cosine is as good as a linear decay over 90%",
        "Loss of a cosine minus that of a linear decay over 90%, in units of what the best share gains on 10%",
    ),
    "duration": (
        "γ* falls with the duration like n^−c at fixed B",
        "Exponent c, mean over six shares of a linear decay, at four durations (theory: two)",
    ),
}


def _schedules(config: Any, rows: list[Row], found: Decays, low: Decays, high: Decays) -> list[Verdict]:
    """Each quantity, and all of them on one problem."""
    cases = {(method, pair): decays_of(rows, method, pair) for method, pair, _ in config.schedules}
    fits = dict.fromkeys(cases, 0)
    verdicts = []
    for name, (claim, meaning) in QUANTITIES.items():
        interval = float(getattr(low, name)), float(getattr(high, name))
        values = {case: float(getattr(each, name)) for case, each in cases.items()}
        finite = [value for value in values.values() if np.isfinite(value)]
        for case, value in values.items():
            fits[case] += interval[0] <= value <= interval[1]
        text = "; ".join(
            f"{method}, {named(pair)}: " + (f"{value:.2f}" if np.isfinite(value) else "undefined, as 10% is the best")
            for (method, pair), value in values.items()
        )
        verdicts.append(
            Verdict(
                f"124M models: {claim}",
                f"{meaning}. The interval is that of the runs, from the scatter between equal runs. Holds if the "
                f"theory is inside it for every method and problem, fails if for none: {text}",
                f"{min(finite):.2f} … {max(finite):.2f}" if finite else "undefined",
                float(getattr(found, name)),
                interval,
                inside(list(values.values()), *interval),
            )
        )
    best = max(fits.values())
    which = "; ".join(f"{method}, {named(pair)}" for (method, pair), count in fits.items() if count == best)
    verdicts.append(
        Verdict(
            "124M models: one problem has all five properties of the schedules",
            f"Number of the five properties above that a method and problem has within the intervals of the runs. "
            f"Holds if one has all: {which} have {best}",
            str(len(QUANTITIES)),
            str(best),
            None,
            "holds" if best == len(QUANTITIES) else "fails",
        )
    )
    return verdicts


# ------------------------------------------------------------------ Adam's memories, weight decay


def best_beta2(losses: Sequence[float]) -> float:
    """Return the β₂ of the least loss in a row of the table."""
    return BETA2[int(np.argmin(losses))]


def beta2_losses(config: Any, rows: list[Row], pair: Pair) -> dict[float, list[float]]:
    """Return the risks of Adam by batch size, in the order of `BETA2`."""
    mine = {(row.batch_size, row.case): row.risk for row in of(rows, "beta2", ADAM, pair)}
    return {batch: [mine[batch, f"{beta2:g}"] for beta2 in BETA2] for batch in config.beta2_sizes}


def _beta2(config: Any, rows: list[Row]) -> list[Verdict]:
    """Best β₂ against B, and what a small β₂ costs."""
    published = {name: {size: best_beta2(row) for size, row in table.items()} for name, table in BETA2_LOSSES.items()}
    costs = {name: table[64][0] / min(table[64]) - 1 for name, table in BETA2_LOSSES.items()}
    falls, mine, texts = [], [], []
    for pair in config.beta2:
        table = beta2_losses(config, rows, pair)
        sizes = sorted(table)
        falls.append(best_beta2(table[sizes[-1]]) < best_beta2(table[sizes[0]]))
        mine.append(table[sizes[0]][0] / min(table[sizes[0]]) - 1)
        texts.append(f"{named(pair)}: " + ", ".join(f"{best_beta2(table[size]):g} (B = {size:g})" for size in sizes))
    of_runs = "; ".join(
        f"{name}: " + ", ".join(f"{best:g} (B = {size})" for size, best in row.items())
        for name, row in published.items()
    )
    return [
        Verdict(
            "the best β₂ falls as B grows",
            f"β₂ of the least loss among {', '.join(f'{each:g}' for each in BETA2)}. On public language models "
            f"{of_runs}. In theory, at the best γ and D = {config.beta2_samples:g} samples, {'; '.join(texts)}. Holds "
            f"if it falls on every problem, fails if on none",
            f"falls on {sum(falls)} of {len(falls)} problems",
            "falls",
            None,
            "holds" if all(falls) else "inconclusive" if any(falls) else "fails",
        ),
        Verdict(
            "the cost of β₂ = 0.95 at B = 64",
            f"Loss with β₂ = 0.95 divided by that with the best β₂, minus 1, at B = 64. On the public runs it is "
            f"{', '.join(f'{cost:.2%} ({name})' for name, cost in costs.items())} of the whole loss. In theory it is "
            f"the given fraction of the excess risk, which is only a part of the whole loss. Fails if the theory's "
            f"largest cost is below the smallest published one, and is inconclusive otherwise, because the part is not "
            f"known",
            f"{min(mine):.2%} … {max(mine):.2%}",
            f"{min(costs.values()):.2%} … {max(costs.values()):.2%}",
            span(list(costs.values())),
            "inconclusive" if max(mine) >= min(costs.values()) else "fails",
        ),
    ]


# ------------------------------------------------------------------ theorems, and momentum


def _peaks(config: Any, rows: list[Row]) -> Verdict:
    """arXiv 2602.06797: the peak of the best schedule, b ≥ a."""
    errors, texts = [], []
    for pair in config.peaks:
        found = slope(of(rows, "peak", SGD, pair), lambda row: row.learning_rate)
        expected = -(1 - pair[0] / pair[1])
        errors.append(found - expected)
        texts.append(f"{named(pair)}: {found:.3f} ({expected:.3f})")
    return _no_error(
        "the peak of the best schedule ∝ n^−(1 − a/b) (arXiv 2602.06797)",
        f"Slope of the best log γ in log n of the power decay (1 − t/n)^(2a − 1) at B = 1, between the two largest "
        f"n, with the theorem's exponent (s − 1 + 1/β)/(s + 1/β) in brackets; β = a and s = (b − 1)/a. Holds if all "
        f"are within ±{TOLERANCE:g}: {'; '.join(texts)}",
        errors,
    )


def _no_error(claim: str, statement: str, errors: list[float]) -> Verdict:
    """Return the verdict on exponents that should be those of a theorem."""
    measured = f"errors {min(errors):+.3f} … {max(errors):+.3f}"
    return Verdict(claim, statement, "error 0", measured, span(errors), inside(errors, -TOLERANCE, TOLERANCE))


def _epochs(config: Any, rows: list[Row]) -> Verdict:
    """arXiv 2506.08415: risks of one and of many epochs, b < a."""
    errors, texts = [], []
    for pair in config.epochs:
        once, often = (slope(of(rows, "epochs", SGD, pair, case), lambda row: row.risk) for case in ("fresh", "epochs"))
        a, b = pair
        expected = (1 - b) / b - (1 - b) / a
        errors.append(often - once - expected)
        texts.append(f"{named(pair)}: {often:.3f}, {once:.3f}, {often - once:.3f} ({expected:.3f})")
    return _no_error(
        "epochs change the power of N from (1 − b)/a to (1 − b)/b, for b < a (arXiv 2506.08415)",
        f"Slopes of the least log risk in log N over any number of epochs, over one epoch, and their difference, with "
        f"the theorem's difference in brackets, between the two largest N. Samples are drawn with replacement, B = 1. "
        f"Holds if all differences are within ±{TOLERANCE:g}: {'; '.join(texts)}",
        errors,
    )


def _momentum(config: Any, rows: list[Row]) -> Verdict:
    """Steps that momentum saves, at one batch size."""
    published = STEPS_WITHOUT_MOMENTUM / STEPS_WITH_MOMENTUM
    ratios = {
        (pair, batch): steps_ratio(rows, pair, batch) for pair in config.momentum for batch in config.momentum_sizes
    }
    text = "; ".join(f"{named(pair)}, B = {batch:g}: {ratio:.2f}" for (pair, batch), ratio in ratios.items())
    values = list(ratios.values())
    return Verdict(
        "without momentum 2.4 times the steps to a loss",
        f"Steps of spectral descent (Muon without momentum) divided by those of Muon, to a loss of 3.28 with 124M "
        f"parameters: {STEPS_WITHOUT_MOMENTUM}/{STEPS_WITH_MOMENTUM} = {published:.2f}. In theory, signSGD without "
        f"momentum and with β = 0.95, each at its best γ. Holds if the theory's largest ratio reaches the published "
        f"one: {text}",
        f"{min(values):.2f} … {max(values):.2f}",
        published,
        None,
        "holds" if max(values) >= published else "fails",
    )
