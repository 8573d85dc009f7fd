"""Verdicts on the best learning rate over batch size and duration: published exponents and the exact theory."""

from collections.abc import Sequence
from typing import Any

from experiments._lib.published_numbers import STEP_LAW, STEP_LAW_ALONG_DATA, TIMESCALE_POWER, Range
from experiments._lib.published_theory import ADAM, FIXED_END, SGD, SIGN, KinkLaw, Pair, Row, kink_law, of, slope
from experiments._lib.results import Verdict, VerdictName

TOLERANCE = 0.03  # An exponent in a limit counts as reached within this, as in the other experiments.
BEYOND = 350  # Sequences from which on the published slopes along D are well above 0.


def named(pair: Pair) -> str:
    """Return the text that names a problem."""
    return f"a = {pair[0]:g}, b = {pair[1]:g}"


def span(values: Sequence[float]) -> tuple[float, float]:
    """Return the smallest and the largest value."""
    return float(min(values)), float(max(values))


def inside(values: Sequence[float], low: float, high: float) -> VerdictName:
    """Holds if all values are between the two, fails if none is."""
    within = [low <= value <= high for value in values]
    return "holds" if all(within) else "inconclusive" if any(within) else "fails"


Laws = dict[tuple[str, Pair, str], KinkLaw]


def fitted_laws(config: Any, rows: list[Row]) -> Laws:
    """Return the fitted law of each method, problem and end rate."""
    found: Laws = {}
    for method, pair in config.kinks:
        found[method, pair, "cosine"] = kink_law(of(rows, "kink", method, pair))
        for case in sorted({row.case for row in of(rows, "kink", FIXED_END, pair)} if method == ADAM else ()):
            found[FIXED_END, pair, case] = kink_law(of(rows, "kink", FIXED_END, pair, case))
    return found


def _exponents(laws: Laws, methods: Sequence[str], name: str) -> tuple[list[float], str]:
    """Return an exponent of the fitted laws, and a text with all of them."""
    chosen = {key: getattr(law, name) for key, law in laws.items() if key[0] in methods}
    text = "; ".join(
        f"{method if case == 'cosine' else f'Adam, {case}'}, {named(pair)}: {value:.3f}"
        for (method, pair, case), value in chosen.items()
    )
    return list(chosen.values()), text


def rises(laws: Laws, seconds: float) -> list[Verdict]:
    """Power of B below the kink."""
    published = STEP_LAW["p"]
    found = []
    for label, methods in (("SGD", (SGD,)), ("signSGD and Adam", (SIGN, ADAM))):
        values, text = _exponents(laws, methods, "batch_exponent")
        found.append(
            Verdict(
                f"γ* ∝ B^{published.value:.2f} below the kink (step-law): {label}",
                f"Exponent p of B in the law γ* ∝ D^−c B^p below the kink, from a fit to exact best learning rates "
                f"of a cosine decay to 0. Published is {published.value} "
                f"({published.low} … {published.high}). Holds if the theory is inside the interval on every problem, "
                f"fails if on none: {text}",
                f"{min(values):.3f} … {max(values):.3f}",
                published.value,
                (published.low, published.high),
                inside(values, published.low, published.high),
                seconds,
            )
        )
    return found


def growths(laws: Laws) -> Verdict:
    """Growth of the kink with D, of SGD."""
    published = STEP_LAW["κ"]
    values, text = _exponents(laws, (SGD,), "kink_exponent")
    falls, of_falls = _exponents(laws, (SGD,), "duration_exponent")
    return Verdict(
        f"the kink of γ* grows like D^{published.value:.2f} (step-law): SGD",
        f"Exponent κ of the kink in theory, {text}. It is the exponent c of the fall of γ* with D: {of_falls}. "
        f"Published are κ = {published.value} ({published.low} … {published.high}) and c = {STEP_LAW['c'].value} "
        f"({STEP_LAW['c'].low} … {STEP_LAW['c'].high}). The problems were chosen for this c. Holds if κ is inside its "
        f"interval. The largest difference of κ and c in theory is "
        f"{max(abs(one - other) for one, other in zip(values, falls, strict=True)):.3f}",
        f"{min(values):.3f} … {max(values):.3f}",
        published.value,
        (published.low, published.high),
        inside(values, published.low, published.high),
    )


def largest_batches(config: Any, rows: list[Row], method: str, pair: Pair) -> float:
    """Return the slope of ln γ* in ln D at the largest batch size that two durations or more have."""
    mine = of(rows, "kink", method, pair)
    sizes = [row.batch_size for row in mine if row.number == sorted(config.samples)[-2]]
    return slope([row for row in mine if row.batch_size == max(sizes)], lambda row: row.learning_rate)


def plateau(config: Any, rows: list[Row]) -> Verdict:
    """Slopes along D beyond the kink."""
    slopes = {(method, pair): largest_batches(config, rows, method, pair) for method, pair in config.kinks}
    published = [value for batch, value in STEP_LAW_ALONG_DATA.items() if batch > BEYOND]
    text = "; ".join(f"{method}, {named(pair)}: {value:+.3f}" for (method, pair), value in slopes.items())
    return Verdict(
        "beyond the kink γ* rises with the duration (step-law)",
        f"Slope of ln γ* in ln D at fixed B. On the public runs it is {min(published):+.2f} … {max(published):+.2f} "
        f"from 352 sequences on. In theory at the largest B with runs of {config.least_steps:g} steps or more: {text}. "
        f"Holds if all slopes are in the published range, fails if none is",
        f"{min(slopes.values()):+.3f} … {max(slopes.values()):+.3f}",
        f"{min(published):+.2f} … {max(published):+.2f}",
        span(published),
        inside(list(slopes.values()), min(published), max(published)),
    )


def fixed_end(laws: Laws) -> Verdict:
    """An end rate that does not follow the peak."""
    published = STEP_LAW["p"]
    values, text = _exponents(laws, (FIXED_END,), "batch_exponent")
    return Verdict(
        "an end rate that is the same for all peaks explains p",
        f"Exponent p of Adam, as above, with cosines that end at one learning rate, which is the given fraction of "
        f"the smallest best peak. Holds if p is in the published interval: {text}",
        f"{min(values):.3f} … {max(values):.3f}",
        published.value,
        (published.low, published.high),
        inside(values, published.low, published.high),
    )


def durations(found: Range) -> Verdict:
    """The exponent c of two sets of public runs."""
    other = STEP_LAW["c"]
    apart = found.high < other.low or other.high < found.low
    return Verdict(
        "two sets of public runs have one exponent c",
        f"Exponent c of the fall of γ* with the duration at fixed model and batch size. On 124M models it is "
        f"{found.value:.3f} ({found.low:.3f} … {found.high:.3f}), and on step-law's runs {other.value} ({other.low} … "
        f"{other.high}). Holds if the intervals overlap",
        other.value,
        found.value,
        (found.low, found.high),
        "fails" if apart else "holds",
    )


def weight_decay(laws: Laws, duration: Range) -> list[Verdict]:
    """Power Lines, by T49: scale-invariant weights move by √(2γλ) in angle, which takes the part of γ of signs."""
    powers = [2 * value for value in _exponents(laws, (SIGN, ADAM), "batch_exponent")[0]]
    p, c = STEP_LAW["p"], STEP_LAW["c"]
    needed = TIMESCALE_POWER + 1
    ranges = {"step-law's runs": c, "124M models": duration}
    within = [each.low <= needed <= each.high for each in ranges.values()]
    text = "; ".join(f"{name}: {r.value - 1:.2f} ({r.low - 1:.2f} … {r.high - 1:.2f})" for name, r in ranges.items())
    return [
        Verdict(
            "the best weight decay ∝ B at fixed γ, model and data (Power Lines)",
            f"By T49 (scale-invariant weights) γλ ∝ B^(2p), where p is the exponent of the best γ in B without weight "
            f"decay. In theory 2p of signSGD and Adam is {min(powers):.3f} … {max(powers):.3f}. If the weight decay of "
            f"step-law's runs is the same, γλ of them is ∝ B^{p.value} ({p.low} … {p.high}), which agrees. Holds if "
            f"the theory's powers are within ±{TOLERANCE:g} of 1",
            f"{min(powers):.3f} … {max(powers):.3f}",
            1.0,
            None,
            inside(powers, 1 - TOLERANCE, 1 + TOLERANCE),
        ),
        Verdict(
            "the timescale B/(γλD) ∝ D^−0.527 (Power Lines)",
            f"At the same weight decay in all runs its exponent is c − 1 (T49), where c is the exponent of the fall of "
            f"γ* with D. By c of {text}. Published is {TIMESCALE_POWER}, as a power of tokens per parameter and "
            f"without an interval, so that c = {needed:.3f}. Holds if both intervals contain it, fails if none does",
            f"{c.value - 1:.2f}, {duration.value - 1:.2f}",
            TIMESCALE_POWER,
            None,
            "holds" if all(within) else "inconclusive" if any(within) else "fails",
        ),
    ]
