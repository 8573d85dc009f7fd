"""Figures of the experiment on published bounds: how tight each is, and the best of them around an exact risk."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import sgdtheory as st
from experiments._lib.bound_domains import words
from sgdtheory.plotting.style import (
    BLACK,
    BLUE,
    GRAY,
    ORANGE,
    SMALL,
    STAR,
    VERMILLION,
    categories,
    log_axes,
    new_figure,
)

VIEW = 1e-6, 1e3  # of exact/bound: what lies beyond is an arrow
SIGNS = {"upper": "≤", "lower": "≥", "both": "≍"}
COLORS = {"upper": BLUE, "lower": VERMILLION}
HALF_HEIGHT = 0.3  # of a bar, in rows


def tightness(summaries: Sequence[Any]) -> Figure:
    """One row a bound: exact/bound at random settings, its extreme, and where that is."""
    groups = _groups(summaries)
    count = sum(len(each) + 1 for each in groups.values())
    figure, axes = new_figure(1, 1, width=12.0, height=0.36 * count + 1.5)
    axis = axes[0, 0]
    names: dict[float, str] = {}
    place = 0.0
    for group, members in groups.items():
        names[place] = group
        for summary in members:
            place += 1
            names[place] = _name(summary.bound)
            _row(axis, place, summary)
        place += 1
    axis.axvline(1.0, color=BLACK, lw=1)
    axis.set(ylim=(place - 0.4, -0.6), xlim=VIEW, xlabel="exact risk / bound")
    log_axes(axis, "x")
    axis.set_yticks(list(names), list(names.values()))
    axis.grid(visible=False, axis="y")
    for label in axis.get_yticklabels():
        if label.get_text() in groups:
            label.set_fontweight("bold")
    axis.tick_params(axis="y", length=0)
    figure.legend(handles=_key(), loc="outside lower center", ncols=5, frameon=False, fontsize=SMALL + 0.5)
    axis.set_title(_message(summaries), loc="left")
    return figure


def _groups(summaries: Sequence[Any]) -> dict[str, list[Any]]:
    """By the iterate whose risk is bounded, the tightest first."""
    found: dict[str, list[Any]] = {}
    for summary in summaries:
        average = summary.bound.algorithm.average
        name = {
            st.algorithms.UniformAverage: "mean of all iterates",
            st.TailAverage: "mean of the last half",
            st.LastIterate: "last iterate",
        }[type(average)]
        found.setdefault(name, []).append(summary)
    order = {"upper": 0, "both": 1, "lower": 2}
    for members in found.values():
        members.sort(key=lambda each: (order[each.bound.side], each.bound.standing == "order", -each.highest.ratio))
    return found


def _name(bound: st.bounds.PublishedBound) -> str:
    if bound.name == "defossez_bach_2015":
        return f"risk → {bound.name}"
    sign = "≲" if (bound.standing, bound.side) == ("order", "upper") else SIGNS[bound.side]
    return f"risk {sign} {bound.name}"


def _row(axis: Axes, place: float, summary: Any) -> None:
    """Range, quartiles and median, stars at the sharpened ends, and in words where the tightest is."""
    low, first, median, third, high = np.quantile(summary.ratio, [0, 0.25, 0.5, 0.75, 1], method="nearest")
    color = COLORS.get(summary.bound.side, GRAY)
    style: Any = {"verified": "-", "unverified": "-", "order": (0, (3, 2))}[summary.bound.standing]
    axis.plot(np.clip([low, high], *VIEW), [place] * 2, color=color, ls=style, lw=1, zorder=1)
    for value, marker in ((low, "<"), (high, ">")):
        if not VIEW[0] <= value <= VIEW[1]:
            inside = float(np.clip(value, VIEW[0] * 1.25, VIEW[1] / 1.25))
            axis.plot(inside, place, marker=marker, color=color, ms=5, ls="", zorder=3)
    left, right = np.clip([first, third], *VIEW)
    face = color if summary.bound.standing == "verified" else "white"
    bar: dict[str, Any] = {"height": 2 * HALF_HEIGHT, "facecolor": face, "edgecolor": color, "ls": style, "zorder": 2}
    axis.barh(place, right - left, left=left, alpha=0.75 if face == color else 1.0, **bar)
    if VIEW[0] < median < VIEW[1]:
        ends = place - HALF_HEIGHT, place + HALF_HEIGHT
        axis.plot([median] * 2, ends, color=BLACK, lw=1.8, zorder=3, solid_capstyle="butt")
    shown = (summary.lowest, summary.highest) if summary.bound.side == "both" else (summary.tightest,)
    for row in shown:
        if VIEW[0] < row.ratio < VIEW[1]:
            axis.plot(row.ratio, place, **{**STAR, "color": ORANGE, "zorder": 4})
    told = summary.tightest
    text = f"{told.ratio:.4g}: {words(told)}"
    axis.text(1.015, place, text, transform=axis.get_yaxis_transform(), va="center", fontsize=SMALL)


def _key() -> list[Any]:
    gray: dict[str, Any] = {"edgecolor": GRAY}
    return [
        Patch(facecolor=GRAY, alpha=0.75, label="constants verified", **gray),
        Patch(facecolor="white", label="constants not verified", **gray),
        Patch(facecolor="white", ls=(0, (3, 2)), label="no constants, or a limit", **gray),
        Line2D([], [], color=BLACK, lw=1.8, label="median; bar: quartiles; line: range at random settings"),
        Line2D([], [], color=ORANGE, **{k: v for k, v in STAR.items() if k != "zorder"}, label="extreme, by search"),
    ]


def _message(summaries: Sequence[Any]) -> str:
    sided = [each for each in summaries if each.bound.standing != "order"]
    broken = [each.bound.name for each in sided if not each.holds]
    uppers = [each for each in sided if each.bound.side == "upper"]
    near = sum(each.highest.ratio > 0.99 for each in uppers)
    held = f"None of {len(sided)} bounds with constants is violated" if not broken else f"Violated: {', '.join(broken)}"
    return f"{held}; {near} of {len(uppers)} upper ones come within 1% of the risk.  At right: the extreme, and where"


# ------------------------------------------------------------------ the best of each side

CAPACITY, SOURCE, DIM = 2.0, 4.0, 50
RATE = 0.13  # below 1/(2R²) and 1/(3 tr H): all bounds apply
STEPS = np.unique(np.geomspace(1, 1e9, 91).round())


def best_of_each_side() -> Figure:
    """Risk against steps with and without noise: every bound on the mean of all iterates, and the best on each side."""
    figure, axes = new_figure(1, 2, width=5.2, height=4.4)
    problem = st.PowerLaw(CAPACITY, SOURCE).truncated(DIM)
    noisy, plain = (
        _bounds_of(axis, st.LeastSquares(*problem.directions(), noise_variance=noise))
        for axis, noise in zip(axes[0], (2 * problem.initial_risk, 0.0), strict=True)
    )
    axes[0, 0].set(ylabel="excess risk (units of $y^2$)", title=r"noise, $\sigma^2 = 2 \Sigma_i s_i$")
    axes[0, 1].set_title(r"no noise, $\sigma^2 = 0$")
    figure.suptitle(
        f"At $n = 10^9$ the best published upper bound is {noisy[1]:.2g} times the exact risk ({plain[1]:.2g} without "
        f"label noise), the best lower bound 1/{1 / noisy[0]:.2g} (1/{1 / plain[0]:.2g})\n"
        f"$\\lambda_i = i^{{-{CAPACITY:g}}}$, $s_i = i^{{-{SOURCE:g}}}$, $d = {DIM}$, $B = 1$, $\\gamma = {RATE:g}$; "
        "averages of all iterates",
        fontsize=9,
    )
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=SMALL)
    return figure


def _bounds_of(axis: Axes, problem: st.LeastSquares) -> tuple[float, float]:
    """Draws them; the best lower and upper bound over the exact risk at the end."""
    setting: dict[str, Any] = {"batch_size": 1, "learning_rate": RATE, "num_samples": STEPS}
    best = st.bounds.best(problem, **setting, unverified=True)
    exact = np.asarray(st.excess_risk(problem, **setting).total)
    lower = np.where(np.asarray(best.lower) > 0, best.lower, np.nan)
    upper = np.where(np.isfinite(best.upper), best.upper, np.nan)
    axis.fill_between(STEPS, lower, upper, color=GRAY, alpha=0.18, lw=0, label="between the best of each side")
    own = [bound for bound in st.bounds.catalogue() if bound.algorithm == st.algorithms.DEFAULT]
    for bound, look in zip(own, categories(len(own)), strict=True):
        value = bound(problem, **setting)
        shown = np.where(value.applies, value.total, np.nan)
        color = GRAY if bound.side == "lower" else look["color"]
        axis.plot(STEPS, shown, lw=1, markevery=15, ms=4, label=_name(bound), **{**look, "color": color})
    axis.plot(STEPS, exact, color=BLACK, lw=2.2, label="exact risk")
    log_axes(axis)
    axis.set(xlabel="steps $n$")
    return float(lower[-1] / exact[-1]), float(upper[-1] / exact[-1])
