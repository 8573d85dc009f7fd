"""Verdicts and figure of DANA and momentum schedules: exponents of published theory and those of exact risks.

Numbers in brackets are those of arXiv.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.published_dana import (
    CONSTANT,
    DECAYING,
    FREE,
    MOMENTUM,
    Momentum,
    acceleration,
    exponent,
    final_exponent,
    path_of,
    steps_to_half,
)
from experiments._lib.published_rates import TOLERANCE, inside, named, span
from experiments._lib.published_theory import SGD, Pair, Row, of
from experiments._lib.results import Verdict
from sgdtheory.plotting.style import categories, legend, log_axes, new_figure


def momentum_verdicts(config: Momentum, rows: list[Row]) -> tuple[Verdict, ...]:
    """Return all verdicts of these rows."""
    return (
        _exponents(
            config,
            rows,
            MOMENTUM,
            "DANA: constant momentum leaves the exponent of SGD as it is (2505.16098)",
            "SGD with momentum 0.9 and a tenth of its buffer in each step",
            exponent,
        ),
        _exponents(
            config,
            rows,
            FREE,
            "DANA: schedule-free SGD has the exponent of SGD (2505.16098)",
            "Schedule-free SGD with β = 0.9",
            exponent,
        ),
        _exponents(
            config,
            rows,
            DECAYING,
            "DANA: DANA-decaying multiplies the exponent by 2 − 1/a (2410.04228, 2505.16098)",
            "DANA-decaying, whose effective time is n^(2 − 1/a)",
            lambda pair: acceleration(pair) * exponent(pair),
        ),
        _transition(config, rows),
        _exponents(
            config,
            rows,
            CONSTANT,
            "DANA: after that DANA-constant doubles the exponent (derived here)",
            "DANA-constant on the largest d, whose effective time is n²/d",
            lambda pair: 2 * exponent(pair),
        ),
        *([_hard(config, rows)] if config.hard else []),
        *([_critical(config, rows)] if config.critical else []),
    )


def _exponents(
    config: Momentum, rows: list[Row], method: str, claim: str, setting: str, predicted: Callable[[Pair], float]
) -> Verdict:
    """Exponents of n at the end of paths, minus those of theory."""
    directions = config.sizes[-1] if method == CONSTANT else config.directions
    errors, texts = [], []
    for pair in config.wide if method == CONSTANT else config.paths:
        found = final_exponent(rows, method, pair, directions)
        plain = final_exponent(rows, SGD, pair, config.directions)
        errors.append(found - predicted(pair))
        texts.append(f"{named(pair)}: {found:.3f} ({predicted(pair):.3f}; SGD {plain:.3f})")
    return Verdict(
        claim,
        f"{setting}, at B = 1 and without label noise, on d = {directions:g} directions: exponent of n in the risk "
        f"over the last factor of 10 in n, with the predicted one and that of SGD in brackets. Holds if all are "
        f"within ±{TOLERANCE:g} of the prediction: {'; '.join(texts)}",
        "error 0",
        f"errors {min(errors):+.3f} … {max(errors):+.3f}",
        span(errors),
        inside(errors, -TOLERANCE, TOLERANCE),
    )


def _transition(config: Momentum, rows: list[Row]) -> Verdict:
    """Steps after which DANA-constant has half of SGD's risk, over d."""
    powers, texts = [], []
    for pair in config.wide:
        steps = [steps_to_half(rows, pair, size, config.directions) for size in config.sizes]
        powers.append(float(np.polyfit(np.log(config.sizes), np.log(steps), 1)[0]))
        per_direction = ", ".join(f"{n / size:.1f} d" for n, size in zip(steps, config.sizes, strict=True))
        texts.append(f"{named(pair)}: {powers[-1]:.3f} ({per_direction})")
    return Verdict(
        "DANA: DANA-constant accelerates from some multiple of d steps on (2505.16098)",
        f"Power of d in the number of steps after which DANA-constant has half the risk of SGD, with the steps at "
        f"d = {', '.join(f'{size:g}' for size in config.sizes)} in brackets. Holds if all powers are within "
        f"±{TOLERANCE:g} of 1: {'; '.join(texts)}",
        1.0,
        f"{min(powers):.3f} … {max(powers):.3f}",
        span(powers),
        inside(powers, 1 - TOLERANCE, 1 + TOLERANCE),
    )


def _slopes(config: Momentum, rows: list[Row], pair: Pair) -> list[float]:
    """Return the exponents of n in the least risks of SGD and DANA-decaying, between the two largest n."""
    low, high = sorted(config.hard_steps)[-2:]
    found = []
    for method in (SGD, DECAYING):
        risk = {row.number: row.risk for row in of(rows, "hard", method, pair)}
        found.append(float(np.log(risk[low] / risk[high]) / np.log(high / low)))
    return found


def _hard(config: Momentum, rows: list[Row]) -> Verdict:
    """arXiv 2602.04774: a momentum schedule improves the exponent for b < a."""
    gains, texts = [], []
    for pair in config.hard:
        plain, found = _slopes(config, rows, pair)
        a, b = pair
        bias, best = (b - 1) / a, (b - 1) / b
        gains.append(found - plain)
        texts.append(f"{named(pair)}: {found:.3f}, {plain:.3f} (at most {min(acceleration(pair) * bias, best):.3f})")
    low, high = sorted(config.hard_steps)[-2:]
    return Verdict(
        "momentum schedules improve the exponent in the hard phase (2602.04774)",
        f"DANA-decaying as the momentum schedule, for b < a, with label noise and a linear decay at B = 1. Exponent "
        f"of n in the least risk over γ, between n = {low:g} and {high:g}, and that of SGD; in brackets the smaller of "
        f"two exponents: of the bias, (2 − 1/a)(b − 1)/a, and of any method, (b − 1)/b. The gain is DANA's minus "
        f"SGD's. "
        f"Holds if it exceeds {TOLERANCE:g} on all problems, fails if on none: {'; '.join(texts)}",
        "above 0",
        f"{min(gains):+.3f} … {max(gains):+.3f}",
        span(gains),
        inside(gains, TOLERANCE, np.inf),
    )


def _critical(config: Momentum, rows: list[Row]) -> Verdict:
    """Return the verdict on whether DANA-decaying has a larger B* than SGD."""
    ratios, texts = [], []
    for pair in config.critical:
        sizes = [of(rows, "critical", method, pair)[0].batch_size for method in (SGD, DECAYING)]
        ratios.append(sizes[1] / sizes[0])
        texts.append(f"{named(pair)}: {sizes[1]:g} and {sizes[0]:g}")
    return Verdict(
        "DANA: DANA-decaying raises B*",
        f"B* of DANA-decaying divided by that of SGD, with a linear decay, label noise and "
        f"D = {config.critical_samples:g} samples. Holds if it is above 1 on all problems, fails if on none: "
        f"{'; '.join(texts)}",
        "above 1",
        f"{min(ratios):.2f} … {max(ratios):.2f}",
        span(ratios),
        inside(ratios, np.nextafter(1.0, 2.0), np.inf),
    )


# ------------------------------------------------------------------ figure


def momentum_figure(config: Momentum, rows: list[Row]) -> Figure:
    """Risks along n divided by SGD's power law, and exponents against those of theory."""
    drawn, axes = new_figure(1, 2, width=4.4, height=3.6)
    _paths(axes[0, 0], config, rows)
    _comparison(axes[0, 1], config, rows)
    drawn.suptitle("Momentum on power laws without label noise, B = 1", fontsize=10)
    return drawn


def _paths(axis: Axes, config: Momentum, rows: list[Row]) -> None:
    """Risk over n^−e, e the exponent of SGD."""
    pair = config.wide[0]
    names = [(method, config.directions) for method in (SGD, MOMENTUM, FREE, DECAYING)]
    names += [(CONSTANT, size) for size in config.sizes]
    for (method, size), style in zip(names, categories(len(names)), strict=True):
        n, risk = path_of(rows, method, pair, size)
        label = f"{method}, $d = 10^{{{np.log10(size):g}}}$" if method == CONSTANT else method
        late = n >= 10
        height = (risk * n ** exponent(pair))[late]
        order = 3 if method == SGD else 2  # DANA-constant is the same at first
        axis.plot(n[late], height, lw=1, ms=3, markevery=5, label=label, zorder=order, **style)
    axis.set(
        xlabel="steps $n$",
        ylabel=rf"excess risk $\times\ n^{{{exponent(pair):g}}}$",
        title=f"$a = {pair[0]:g}$, $b = {pair[1]:g}$; $d = 10^{{{np.log10(config.directions):g}}}$ otherwise",
    )
    log_axes(axis)
    legend(axis, fontsize=6)


def _comparison(axis: Axes, config: Momentum, rows: list[Row]) -> None:
    """Exponents at the end of the paths against the exponent of SGD in theory, with the predictions as a line."""
    expected: dict[str, Callable[[Pair], float]] = {
        MOMENTUM: exponent,
        FREE: exponent,
        DECAYING: lambda pair: acceleration(pair) * exponent(pair),
        CONSTANT: lambda pair: 2 * exponent(pair),
    }
    everything: list[Any] = []
    for (method, predicted), style in zip(expected.items(), categories(len(expected) + 1)[1:], strict=True):
        pairs = config.wide if method == CONSTANT else config.paths
        size = config.sizes[-1] if method == CONSTANT else config.directions
        points = [(predicted(pair), final_exponent(rows, method, pair, size)) for pair in pairs]
        everything += points
        marked = {**style, "ls": ""}
        axis.plot(*np.array(points).T, ms=6 if method != FREE else 3, label=method, **marked)
    ends = [min(map(min, everything)), max(map(max, everything))]
    axis.plot(ends, ends, color="0.6", lw=0.8, zorder=0)
    axis.set(xlabel="exponent of $n$ in theory", ylabel="exponent of exact risks", title="last factor of 10 in $n$")
    legend(axis, fontsize=6)
