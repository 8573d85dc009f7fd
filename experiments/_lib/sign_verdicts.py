"""Predicted over observed risk of signs on frozen features: intervals, verdicts, and the picture."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from experiments._lib.panels import LEAST_WIDTH
from experiments._lib.results import Verdict, VerdictName
from sgdtheory.plotting.style import BLACK, GRAY, categories, legend, legend_below, log_axes, new_figure, tick_measured

SIGN = "signSGD"
GAUSSIAN = "signSGD, Gaussian rows"
SGD = "SGD"
ARMS = SIGN, GAUSSIAN, SGD
WORDS = {"tanh": "tanh", "relu": "ReLU"}
TICKS = 1e-3, 3e-3, 1e-2, 3e-2  # of γ
IN_VIEW = 5.0  # times the least risk: others say nothing of the best γ


class Row(NamedTuple):
    """One γ at one batch size, as in the experiment's `UNITS`."""

    activation: str
    arm: str
    batch_size: float
    learning_rate: float
    best: float
    observed: float
    error: float
    predicted: float
    stated: float
    aligned: float
    samples: float
    samples_error: float
    samples_predicted: float
    samples_aligned: float


class Rules(Protocol):
    """Fields of the experiment's config that the verdicts need."""

    @property
    def activations(self) -> tuple[str, ...]: ...
    @property
    def num_samples(self) -> int: ...
    @property
    def target(self) -> float: ...
    @property
    def margin(self) -> float: ...
    @property
    def level(self) -> float: ...


class Ratio(NamedTuple):
    """Predicted over observed in one cell, and the ends of its interval."""

    row: Row
    value: float
    low: float
    high: float


class Measure(NamedTuple):
    """A comparison of a row: predicted, observed, and the standard error of the observed one's logarithm."""

    predicted: Callable[[Row], float]
    observed: Callable[[Row], float]
    error: Callable[[Row], float]


def _relative(row: Row) -> float:
    return row.error / row.observed


RISK = Measure(lambda row: row.predicted, lambda row: row.observed, _relative)
ALIGNED = Measure(lambda row: row.aligned, lambda row: row.observed, _relative)
SAMPLES = Measure(lambda row: row.samples_predicted, lambda row: row.samples, lambda row: row.samples_error)


def ratios(rows: Sequence[Row], measure: Measure, level: float) -> list[Ratio]:
    """Return the ratios of all cells; their intervals hold simultaneously (Bonferroni)."""
    z = stats.norm.isf((1 - level) / 2 / max(len(rows), 1))
    found = []
    for row in rows:
        value = measure.predicted(row) / measure.observed(row)
        reach = np.exp(z * measure.error(row))
        found.append(Ratio(row, value, float(value / reach), float(value * reach)))
    return found


def answer(found: Sequence[Ratio], margin: float) -> VerdictName:
    """Holds if all intervals are within the margin, fails if one is outside of it."""
    if any(each.high < 1 / margin or each.low > margin for each in found):
        return "fails"
    inside = all(1 / margin <= each.low and each.high <= margin for each in found)
    return "holds" if found and inside else "inconclusive"


def near(rows: Sequence[Row], activation: str, arm: str) -> list[Row]:
    """Return the rows that have a prediction, B and γ increasing."""
    mine = [row for row in rows if (row.activation, row.arm) == (activation, arm) and np.isfinite(row.predicted)]
    return sorted(mine, key=lambda row: (row.batch_size, row.learning_rate))


def _at_best(rows: Sequence[Row], activation: str, arm: str) -> list[Row]:
    """Return the rows at the best γ of every B."""
    return [row for row in near(rows, activation, arm) if row.best]


# ------------------------------------------------------------------ verdicts


def verdicts(rows: Sequence[Row], rules: Rules, seconds: float) -> list[Verdict]:
    """Return the verdicts of every network: signs, their samples to the target, and the controls."""
    return [each for activation in rules.activations for each in _of_network(rows, rules, activation, seconds)]


def _of_network(rows: Sequence[Row], rules: Rules, activation: str, seconds: float) -> list[Verdict]:
    sign, gaussian, sgd = (near(rows, activation, arm) for arm in ARMS)
    best = _at_best(rows, activation, SIGN)
    where = f"{WORDS[activation]} features"
    after = f"excess risk after {rules.num_samples} samples"
    reached = f"samples to the risk {rules.target:g}, at the γ of the least risk"
    return [
        _agreement(rules, f"signSGD on {where}: the risk is predicted", after, sign, RISK, seconds),
        _agreement(rules, f"signSGD on {where}: samples to a risk are predicted", reached, best, SAMPLES),
        _agreement(rules, f"reference: SGD on {where}", after, sgd, RISK),
        _agreement(rules, f"control: signSGD with Gaussian features in place of {where}", after, gaussian, RISK),
        _control(rules, f"control: signSGD in eigenvector coordinates does not predict that on {where}", after, best),
    ]


def _agreement(
    rules: Rules, claim: str, what: str, rows: Sequence[Row], measure: Measure, seconds: float = 0.0
) -> Verdict:
    found = ratios(rows, measure, rules.level)
    return Verdict(
        claim,
        f"Predicted divided by observed {what}, at constant γ, for the last iterate. The intervals hold at "
        f"{rules.level:.0%} for all of them at once. Holds if all intervals are within a factor of {rules.margin:g}, "
        f"fails if one is outside: {_listed(found)}",
        f"1 within a factor of {rules.margin:g}",
        _span(found),
        _ends(found),
        answer(found, rules.margin),
        seconds,
    )


def _control(rules: Rules, claim: str, what: str, rows: Sequence[Row]) -> Verdict:
    """The wrong coordinates, by the same rule."""
    found = ratios(rows, ALIGNED, rules.level)
    return Verdict(
        claim,
        f"Predicted divided by observed {what} at the best γ, where the prediction is that of signSGD in eigenvector "
        f"coordinates. Holds if one interval is outside a factor of {rules.margin:g}: {_listed(found)}",
        f"outside of a factor of {rules.margin:g}",
        _span(found),
        _ends(found),
        "holds" if answer(found, rules.margin) == "fails" else "fails",
    )


def _listed(found: Sequence[Ratio]) -> str:
    """Every B, with the extremes over its γ."""
    texts = []
    for size in dict.fromkeys(each.row.batch_size for each in found):
        mine = [each for each in found if each.row.batch_size == size]
        ends = f"{min(each.low for each in mine):.3f} … {max(each.high for each in mine):.3f}"
        texts.append(f"B = {size:g}: {_span(mine)} ({ends}{f', {len(mine)} γ' if len(mine) > 1 else ''})")
    return "; ".join(texts)


def _span(found: Sequence[Ratio]) -> str:
    values = [each.value for each in found]
    return f"{min(values):.3f} … {max(values):.3f}" if len(values) > 1 else ", ".join(f"{each:.3f}" for each in values)


def _ends(found: Sequence[Ratio]) -> tuple[float, float] | None:
    return (min(each.low for each in found), max(each.high for each in found)) if found else None


# ------------------------------------------------------------------ figure


def figure(rows: Sequence[Row], rules: Rules) -> Figure:
    """A column a network: observed risk against γ, with the theory's; predicted over observed against B."""
    number = len(rules.activations)
    drawn, axes = new_figure(2, number, width=max(3.6, LEAST_WIDTH / number), height=2.9)
    for (above, below), activation in zip(axes.T, rules.activations, strict=True):
        above.set_title(f"{WORDS[activation]} features")
        _risks(above, rows, activation)
        _ratios(below, rows, activation, rules)
    axes[0, 0].set(ylabel="risk (units of $y^2$)")
    axes[1, 0].set(ylabel="predicted / observed risk")
    found = [
        f"{WORDS[activation]} {_span(ratios(_at_best(rows, activation, SIGN), RISK, rules.level))}"
        for activation in rules.activations
    ]
    title = "Signs on frozen features, predicted in the weights' coordinates"
    drawn.suptitle(f"{title}\npredicted over observed risk at the best γ: {', '.join(found)}", fontsize=9)
    legend_below(drawn, axes[1, 0], columns=2)
    for above in axes[0]:
        legend(above, ncols=2)
    return drawn


def _risks(axis: Axes, rows: Sequence[Row], activation: str) -> None:
    """signSGD at every B: observed, and the theory near the best γ."""
    mine = [row for row in rows if (row.activation, row.arm) == (activation, SIGN)]
    mine = [row for row in mine if row.observed < IN_VIEW * min(each.observed for each in mine)]
    sizes = sorted({row.batch_size for row in mine})
    for size, look in zip(sizes, categories(len(sizes)), strict=True):
        here = sorted((row for row in mine if row.batch_size == size), key=lambda row: row.learning_rate)
        rates = [row.learning_rate for row in here]
        axis.plot(rates, [row.observed for row in here], ms=4.0, label=f"B = {size:g}", **{**look, "ls": ""})
        axis.plot(rates, [row.predicted for row in here], color=look["color"], lw=1.2)
    log_axes(axis)
    low, high = axis.get_xlim()
    shown = [tick for tick in TICKS if low < tick < high]
    axis.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axis.set_xticks([], minor=True)
    axis.set(xlabel=r"$\gamma$ of signSGD; line: theory")


def _ratios(axis: Axes, rows: Sequence[Row], activation: str, rules: Rules) -> None:
    """At the best γ of every B, with intervals; in gray what counts as agreement."""
    agreed = f"within a factor of {rules.margin:g}"
    axis.axhspan(1 / rules.margin, rules.margin, color=GRAY, alpha=0.18, lw=0, label=agreed)
    axis.axhline(1.0, color=BLACK, ls=":", lw=1)
    lines: list[tuple[str, str, Measure]] = [(arm, arm, RISK) for arm in ARMS]
    lines.append(("theory in eigenvectors over signSGD", SIGN, ALIGNED))
    for place, ((label, arm, measure), look) in enumerate(zip(lines, categories(len(lines)), strict=True)):
        found = ratios(_at_best(rows, activation, arm), measure, rules.level)
        batch = np.array([each.row.batch_size for each in found]) * 1.06 ** (place - 1.5)  # side by side
        value, low, high = (np.array([getattr(each, name) for each in found]) for name in ("value", "low", "high"))
        settings: dict[str, Any] = {"ms": 4.0, "elinewidth": 0.8, **look}
        axis.errorbar(batch, value, (value - low, high - value), label=label, **settings)
    log_axes(axis)
    tick_measured(axis, [row.batch_size for row in near(rows, activation, SIGN)])
    axis.set(xlabel="batch size $B$ (samples)")
