"""Verdicts on compute-optimal exponents of power-law random features, for SGD and for signSGD."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments._lib.answers import inside
from experiments._lib.exponents import LastSlope
from experiments._lib.published_phases import (
    DRAWN,
    FORMULAS,
    PHASES,
    PUBLISHED,
    QUESTION,
    Exponents,
    Phase,
    case_of,
    frontier,
    size_of,
)
from experiments._lib.published_rates import TOLERANCE
from experiments._lib.published_signs import (
    CHECK,
    DECAYED,
    FLOOR,
    FLOORS,
    POINTS,
    Slopes,
    noise_free,
    slopes_of,
)
from experiments._lib.published_theory import SGD, SIGN, Row
from experiments._lib.results import Verdict, VerdictName

PAPER, SIGN_PAPER = "arXiv 2405.15074", "arXiv 2603.02069"
CONTROLS = {"Ia": "II", "Ib": "Ia", "II": "III", "III": "II", "IVa": "III", "II/III": "Ia"}  # phase → another one
STANDARD_ERRORS = 2.0  # Differences of slopes count from so many standard errors of the mean over draws on.
AGREES = 0.1  # Relative error of small signals that leaves the exponents unchanged, and tolerance of the noise's power.


def phase_verdicts(config: Any, rows: Sequence[Row]) -> list[Verdict]:
    """Return the verdicts on the phases, their control, and those on signSGD."""
    phases = [each for each in PHASES if each.name in config.phases]
    found = {phase: _limits(rows, phase, config.octaves) for phase in phases}
    verdicts = [_phase(phase, *limits) for phase, limits in found.items()]
    verdicts += [_control(found), *_draws(rows)]
    points = [each for each in POINTS if each.name in config.sign_phases]
    for point in points:
        slopes = {method: slopes_of(rows, point, method) for method in (SGD, SIGN, DECAYED)}
        verdicts += _noise_dominates(point, slopes) if point.name == "III" else _noise_does_not(point, slopes)
    return [*verdicts, *_checks(rows)]


# ------------------------------------------------------------------ SGD


def _limits(rows: Sequence[Row], phase: Phase, octaves: int) -> tuple[LastSlope, LastSlope]:
    mine = [row for row in rows if (row.question, row.capacity, row.source) == (QUESTION, *phase.pair)]
    return frontier(mine, octaves).slopes()


def _judged(wanted: Exponents, size: LastSlope, loss: LastSlope) -> VerdictName:
    """Holds if both limits are within the tolerance, fails if one is outside."""
    both = size.verdict(wanted.size, TOLERANCE), loss.verdict(wanted.loss, TOLERANCE)
    return "fails" if "fails" in both else "holds" if both == ("holds", "holds") else "inconclusive"


def _shown(slope: LastSlope) -> str:
    return f"{slope.limit:.3f} ± {slope.half_width:.3f}" if np.isfinite(slope.half_width) else f"{slope.value:.3f}"


def _phase(phase: Phase, size: LastSlope, loss: LastSlope) -> Verdict:
    wanted = FORMULAS[phase.name](phase.alpha, phase.beta)
    source = "published" if phase.name in PUBLISHED else "those that balance the terms (not verified against the paper)"
    return Verdict(
        f"compute-optimal sizes, phase {phase.text} ({PAPER})",
        f"Exponents of the compute f = d n in the best model size d* and in the least loss, by exact risks of SGD at "
        f"B = 1 and constant γ with a deterministic equivalent of the features. The exponents are {source}. The last "
        f"slopes are {size.text} and {loss.text}; the intervals are those of their limits. Holds if both are within "
        f"±{TOLERANCE:g}, fails if one is outside",
        f"d* ∝ f^{wanted.size:.3f}, L ∝ f^{wanted.loss:.3f}",
        f"{_shown(size)}, {_shown(loss)}",
        loss.interval if np.isfinite(loss.half_width) else None,
        _judged(wanted, size, loss),
    )


def _control(found: dict[Phase, tuple[LastSlope, LastSlope]]) -> Verdict:
    """The exponents of another phase, by the same rule, where those of the phase itself hold."""
    answers = {
        phase.name: _judged(FORMULAS[CONTROLS[phase.name]](phase.alpha, phase.beta), *limits)
        for phase, limits in found.items()
        if phase.name in CONTROLS and _judged(FORMULAS[phase.name](phase.alpha, phase.beta), *limits) == "holds"
    }
    failing = sum(answer == "fails" for answer in answers.values())
    text = "; ".join(f"{name}: those of {CONTROLS[name]}, {answer}" for name, answer in answers.items())
    return Verdict(
        "control: compute-optimal exponents of another phase fail",
        f"The same limits against the formulas of another phase, where those of their own phase hold. Holds if all "
        f"fail, fails if one holds: {text}",
        f"{len(answers)} fail",
        f"{failing} fail",
        None,
        "fails" if "holds" in answers.values() else "holds" if answers and failing == len(answers) else "inconclusive",
    )


def _draws(rows: Sequence[Row]) -> list[Verdict]:
    """Losses of drawn W against those of the equivalent."""
    logs: dict[int, dict[tuple[float, float, str], list[float]]] = {}
    for row in rows:
        if row.question == DRAWN:
            size = size_of(row.case)
            alike = (QUESTION, row.capacity, row.source, case_of(size))
            mine = [each for each in rows if (each.question, each.capacity, each.source, each.case) == alike]
            steps, losses = np.log(sorted((each.number, each.risk) for each in mine)).T
            apart = float(np.log(row.risk) - np.interp(np.log(row.number), steps, losses))
            logs.setdefault(size, {}).setdefault((row.capacity, row.source, row.case), []).append(apart)
    if not logs:
        return []
    texts, unbiased = [], []
    for size, table in sorted(logs.items()):
        means = np.array([np.mean(each) for each in table.values()])
        error = float(means.std(ddof=1) / np.sqrt(means.size))
        unbiased.append(abs(means.mean()) <= STANDARD_ERRORS * error)
        texts.append(f"d = {size}: {means.mean():+.1%} ± {error:.1%}, of one draw {means.std(ddof=1):.1%}")
    return [
        Verdict(
            "drawn W have the mean loss of the deterministic equivalent",
            f"Mean of ln(loss of one drawn W divided by that of the equivalent) and its standard error over phases and "
            f"draws, and the standard deviation of one draw, for n within an octave of the best. Holds if the mean is "
            f"within {STANDARD_ERRORS:g} standard errors of 0 for all d: {'; '.join(texts)}",
            "0",
            texts[-1].partition(": ")[2],
            None,
            "holds" if all(unbiased) else "fails",
        )
    ]


# ------------------------------------------------------------------ signSGD


def _last(slopes: Slopes, name: str) -> tuple[float, float]:
    """Return the last slope and its standard error."""
    return float(getattr(slopes, name)[-1]), float(getattr(slopes, f"{name}_error")[-1])


def _apart(slopes: dict[str, Slopes], name: str, method: str, other: str) -> tuple[float, float]:
    """Return the difference of two last slopes and its standard error."""
    (mine, error), (its, another) = _last(slopes[method], name), _last(slopes[other], name)
    return mine - its, float(np.hypot(error, another))


def _ends(value: float, error: float) -> tuple[float, float]:
    return value - STANDARD_ERRORS * error, value + STANDARD_ERRORS * error


def _where(slopes: dict[str, Slopes]) -> str:
    low, high = slopes[SIGN].compute[-2:]
    return f"between f = 2^{low:.0f} and 2^{high:.0f}"


def _noise_dominates(point: Phase, slopes: dict[str, Slopes]) -> list[Verdict]:
    """Phase III, where SGD has the noise of early steps and signs have not."""
    (size, loss), sgd = noise_free(point), FORMULAS["III"](point.alpha, point.beta)
    steeper, error = _apart(slopes, "loss", SIGN, SGD)
    larger, spread = _apart(slopes, "size", SIGN, SGD)
    own, decayed = _last(slopes[SIGN], "loss")[0], _last(slopes[DECAYED], "loss")[0]
    grown, its = _last(slopes[SIGN], "size")[0], _last(slopes[SGD], "size")[0]
    settled = abs(its - sgd.size) <= TOLERANCE and abs(grown - size) <= TOLERANCE
    above = larger > STANDARD_ERRORS * spread
    return [
        Verdict(
            f"signSGD's loss falls faster with compute where SGD's noise dominates, {point.text} ({SIGN_PAPER})",
            f"Slope of ln L in ln f {_where(slopes)} of signSGD minus that of SGD, at the best γ of signSGD and a "
            f"constant one of SGD. signSGD has {own:.3f}, with a decay {decayed:.3f}. By T37 the limits are {loss:.3f} "
            f"and {sgd.loss:.3f}. The interval is ±{STANDARD_ERRORS:g} standard errors over draws of W. Holds if it is "
            f"below 0, fails if above",
            f"{loss - sgd.loss:.3f}",
            steeper,
            _ends(steeper, error),
            inside(_ends(steeper, error), -np.inf, 0.0),
        ),
        Verdict(
            f"signSGD's best model grows faster with compute than SGD's, {point.text} ({SIGN_PAPER})",
            f"The same of ln d*. signSGD has {grown:.3f} and SGD {its:.3f}; by T37 the limits are {size:.3f} and "
            f"{sgd.size:.3f}. Holds if the interval is above 0, fails if it is not although both slopes are within "
            f"±{TOLERANCE:g} of their limits",
            f"{size - sgd.size:.3f}",
            larger,
            _ends(larger, spread),
            "holds" if above else "fails" if settled else "inconclusive",
        ),
    ]


def _noise_does_not(point: Phase, slopes: dict[str, Slopes]) -> list[Verdict]:
    """Phase Ia, with fast features and slow targets."""
    wanted = FORMULAS["Ia"](point.alpha, point.beta)
    equal, error = _apart(slopes, "loss", SIGN, SGD)
    gaps = slopes[DECAYED].loss - np.interp(slopes[DECAYED].compute[1:], slopes[SGD].compute[1:], slopes[SGD].loss)
    decayed, spread = _apart(slopes, "loss", DECAYED, SGD)
    shrinks = abs(gaps[-1]) < abs(gaps[-min(3, gaps.size)])
    text = ", ".join(f"{gap:.3f}" for gap in gaps)
    return [
        Verdict(
            f"signSGD's loss falls as fast as SGD's elsewhere, {point.text} ({SIGN_PAPER})",
            f"Slope of ln L in ln f {_where(slopes)} of signSGD at the best constant γ minus that of SGD, whose limit "
            f"is {wanted.loss:.3f}. The interval is ±{STANDARD_ERRORS:g} standard errors over draws of W. Holds if it "
            f"is within ±{TOLERANCE:g}, fails if outside",
            0.0,
            equal,
            _ends(equal, error),
            inside(_ends(equal, error), -TOLERANCE, TOLERANCE),
        ),
        Verdict(
            f"a decay makes signSGD's slope steeper for fast features and slow targets, {point.text} ({SIGN_PAPER})",
            f"The same difference with a linear decay over the last half of the steps; by increasing compute it is "
            f"{text}. By T37 it tends to 0, since a decay does not change how far n steps can go. Holds if the last "
            f"one is below 0 and the differences do not shrink, fails if it is not below 0, else inconclusive",
            "below 0",
            decayed,
            _ends(decayed, spread),
            "fails" if _ends(decayed, spread)[1] >= 0 else "inconclusive" if shrinks else "holds",
        ),
    ]


def _checks(rows: Sequence[Row]) -> list[Verdict]:
    """The noise of signs, and small signals against the library."""
    verdicts = []
    ratios = [row.risk for row in rows if row.question == CHECK]
    if ratios:
        verdicts.append(
            Verdict(
                "signSGD with small signals has the loss of the whole theory",
                f"Loss at the best γ by the theory with a mean linear in the gradient, divided by that of "
                f"`st.SignSGD` in the same coordinates. Holds if all are within {AGREES:.0%} of 1",
                1.0,
                f"{min(ratios):.3f} … {max(ratios):.3f}",
                (min(ratios), max(ratios)),
                inside((min(ratios), max(ratios)), 1 - AGREES, 1 + AGREES),
            )
        )
    errors, texts = [], []
    for phase in FLOORS:
        mine = sorted(
            (np.log(size_of(row.case)), np.log(row.risk))
            for row in rows
            if (row.question, row.capacity, row.source) == (FLOOR, *phase.pair)
        )
        if len(mine) > 1:
            wanted = 2 - min(1.0, 2 * phase.alpha)
            power = float((mine[-1][1] - mine[0][1]) / (mine[-1][0] - mine[0][0]))
            errors.append(power - wanted)
            texts.append(f"α = {phase.alpha:g}: {power:.3f} ({wanted:.1f})")
    if errors:
        verdicts.append(
            Verdict(
                f"signSGD's noise at constant γ is ∝ γ² d^(2 − min(1, 2α)) ({SIGN_PAPER})",
                f"Power of d in the excess risk after infinitely many steps, between the smallest and the largest d, "
                f"with the published power in brackets. By T37 at B = 1 the noise is (π²/16) γ² (Σ_j √H_jj)² where it "
                f"is much larger than the least risk. Holds if all are within ±{AGREES:g}: {'; '.join(texts)}",
                "error 0",
                f"errors {min(errors):+.3f} … {max(errors):+.3f}",
                (min(errors), max(errors)),
                inside((min(errors), max(errors)), -AGREES, AGREES),
            )
        )
    return verdicts
