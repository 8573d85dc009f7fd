"""What lines, markers, bands, texts and legends of each figure look like: widths, sizes, dashes and shades, as written.

They are what tells a law from its forecast and a measurement from a bound; a change of them is a change of the figure.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.lines import Line2D

import sgdtheory as st
from sgdtheory import plotting as plot
from sgdtheory.fits.rate_law import BestRates, RateLaw
from sgdtheory.risk import Risk
from tests.fits.test_loss_grid import RATES, table
from tests.plotting.panels import replace_legends
from tests.plotting.test_fits import BATCHES, SIZES, groups_and_laws
from tests.plotting.test_library_figures import TRAINED, checked


@pytest.fixture(autouse=True)
def _without_placed_legends(monkeypatch):
    """Legends whose places are searched for take longer than all else."""
    replace_legends(monkeypatch, *2 * [lambda *arguments, **options: None])


def look_of(part):
    """Width, dashes, marker, its size, and what is above what; of a band, its shade."""
    shade = f" a{part.get_alpha():g}" if part.get_alpha() else ""
    if isinstance(part, Line2D):
        marker = "" if part.get_marker() == "None" else f"{part.get_marker()}{part.get_markersize():g}"
        edge = f"e{part.get_markeredgewidth():g}" if marker else ""
        line = "" if part.get_linestyle() == "None" else f"{part.get_linestyle()}{part.get_linewidth():g}"
        return f"{line}{marker}{edge} z{part.get_zorder():g}{shade}"
    return f"{type(part).__name__[:4]} {np.ravel(part.get_linewidth()).max():g}{shade}"


def looks_of(axes):
    parts = {look_of(part) for part in (*axes.lines, *axes.collections, *axes.patches)}
    parts |= {f"text {text.get_fontsize():g} {text.get_va()}" for text in axes.texts}
    if box := axes.get_legend():
        anchor = box.get_bbox_to_anchor().transformed(axes.transAxes.inverted())
        size = {text.get_fontsize() for text in box.get_texts()}
        parts.add(f"legend {box.get_frame_on()} {np.round(anchor.bounds[:2], 3).tolist()} {box._ncols} {size}")
    return ", ".join(sorted(parts))


def u_shaped():
    steps = 2 + 300 / BATCHES + 80000 / BATCHES**2
    group = st.fits.StepsMeasurement("one", 1.0, BATCHES, steps)
    return plot.useful_range([group], [st.fit_steps_law(BATCHES, steps, optimal_batch_size=True)])


def rates():
    log_batch, side, zeros = np.log([8.0, 32.0, 128.0]), np.array([0, -1, 1]), np.zeros(3)
    found = BestRates(zeros.astype(int), log_batch, zeros + np.log(1e4), zeros, np.arange(3.0), side, zeros)
    law = RateLaw(np.array([-2.0]), 0.3, 0.5, np.log(40.0), 0.4, 0.0, -3.0, 3.0, np.log(1e4))
    return plot.best_rates(SimpleNamespace(rates=found, law=law, has_kink=True))


def losses():
    return st.fit_loss_grid(table(rates=RATES[RATES <= 2]), convention=st.Convention(16), targets=[2.05, 2.1])


def joint():
    law = SimpleNamespace(
        sizes=np.ones(3), samples=np.ones(3), batch_sizes=np.array([1.0, 2.0, 4.0]), losses=np.ones(3),
        loss=lambda size, samples, batch: 1 + 0 * np.asarray(batch),
        critical_batch_size=lambda size, samples: SimpleNamespace(batch_size=2.0),
    )  # fmt: skip
    return plot.joint_law(law)


def planned():
    steps = 500 + 3e4 / BATCHES + 500 * 300**2 / BATCHES**2
    law = st.fit_steps_law(BATCHES, steps * (1 + 0.1 * np.cos(np.arange(9))), optimal_batch_size=True)
    return st.plan(law, 12, price=2, deadline=4)


def scaled():
    groups, _ = groups_and_laws(noise=0.01)
    laws = [st.fit_steps_law(each.batch_sizes, each.steps, standard_errors=np.full(9, 0.02)) for each in groups]
    return plot.scaled_steps(groups, laws)


def path():
    ramp = st.Algorithm(batch_schedule=st.Linear(8))
    setting = {"batch_size": 4, "learning_rate": 0.5, "num_samples": 400}
    return plot.risk_paths({"a": st.risk_path(st.PowerLaw(2, 3), **setting, algorithm=ramp, points=9)})


def published():
    setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 1e5}
    return st.bounds.at_setting(st.PowerLaw(2.0, 3.0, dim=50), **setting).plot()


def schedule():
    best = SimpleNamespace(
        batch_size=lambda fraction: 4 + 8 * fraction,
        learning_rate=lambda fraction: 0.5 - 0.5 * fraction,
        peak_learning_rate=0.5, num_samples=800.0, num_steps=100.0,
    )  # fmt: skip
    named = {"cosine": SimpleNamespace(learning_rate=0.4, algorithm=st.Algorithm(st.SGD(), st.Cosine()), loss=0.25)}
    return plot.optimal_schedule(best, named=named)


def pareto():
    way = SimpleNamespace(
        num_steps=np.array([10.0, 20.0, 90.0]), num_samples=np.array([900.0, 200.0, 110.0]),
        least_steps=8.0, least_samples=100.0, critical_batch_size=12.5,
    )  # fmt: skip
    return plot.pareto(SimpleNamespace(averaged=way, power=way, optimal=way, target_risk=0.05))


RISK = Risk(np.array([0.1, 0.2]), np.array([0.3, 0.4]), np.zeros(2))
BEST = SimpleNamespace(optimal_batch_size=2.0, optimal_risk=0.5)
CRITICAL = SimpleNamespace(
    curves=(SimpleNamespace(batch_size=np.ones(1), samples_needed=np.ones(1)),),
    num_samples=1.0, batch_size=1.0, num_steps=1.0, overhead=0.2, real_batch_size=1.0,
)  # fmt: skip
FIGURES = {
    "steps": lambda: plot.steps_laws(*groups_and_laws()),
    "useful range": u_shaped,
    "critical": lambda: plot.critical_batch_sizes(SIZES, groups_and_laws()[1], forecasts=[1e3]),
    "unlimited": lambda: plot.critical_batch_sizes(SIZES, groups_and_laws((30, 40, 50), noise=0.1, seed=1)[1]),
    "scaled": scaled,
    "dependence": lambda: plot.size_dependence(st.size_dependence(groups_and_laws()[0])),
    "map": lambda: plot.loss_grid(losses()),
    "joint": joint,
    "rates": rates,
    "plan": lambda: plot.run_plan(planned()),
    "path": path,
    "schedule": schedule,
    "pareto": pareto,
    "batch": lambda: plot.risk_against_batch_size({"a": ([1, 2], RISK)}, best={"a": BEST}),
    "rate": lambda: plot.risk_against_learning_rate({"a": ([1, 2], RISK)}, edges={"a": 2.0}),
    "overhead": lambda: plot.data_overhead(CRITICAL),
    "growth": lambda: plot.critical_growth(CRITICAL, exponent=0.5),
    "bounds": published,
    "training": lambda: plot.loss_curves(TRAINED["usual"]),
    "coordinates": lambda: plot.coordinates(checked(2, slope=1.0)),
}

LOOKS = {
    "steps": "*11e0.6 z3, --1 z2, -1.5 z2, o3.5e1 z2",
    "useful range": "*11e0.6 z3, -0.7 z2, -2.8 z2, :1 z2, D5e0.5 z3, D5e1 z2, o3.5e1 z2",
    "critical": (
        "*10e0.5 z2.1, *6e1 z2.1, --1 z2, -1.5 z2, D5e1 z3.1, Fill 0 a0.12, Fill 0 a0.25, Line 1.5, _6e0.5 z2, _6e1 z3"
    ),
    "unlimited": "*10e0.5 z2.1, *6e1 z2.1, --1 z2, -1.5 z2, Fill 0 a0.12, Fill 0 a0.25, Line 1.5, ^7e1 z2, _6e0.5 z2",
    "scaled": (
        "-1 z1, Line 0.8, ^4e0.5 z2.1, _4e0.5 z2, o4e0.5 z2.1, s4e0.5 z2.1 | -1 z1, Line 0.8, ^4e0.5 z2.1, _4e0.5 "
        "z2, o4e0.5 z2.1, s4e0.5 z2.1"
    ),
    "dependence": "-1 z2, Line 1.5, _4e1 z2, o4e1 z2.1",
    "map": (
        "*11e0.6 z3, -1.6 z2, -3.4 z2, Quad 1, legend False [0.5, -0.16] 2 {7.5}, x5e1 z2 | -0.8 z2, -1.5o3e1 "
        "z2.1, :1 z2, Line 1.5, _4e1 z2, legend False [1.0, 1.0] 1 {7.5} | Line 0.4, Quad 1"
    ),
    "joint": "*11e0.6 z3, -1.5 z2, legend False [1.0, 0.5] 1 {8.33}, o3.5e1 z2 a0.8",
    "rates": "*11e0.6 z3, -1.5 z2, ^3.5e1 z2 a0.8, legend False [0.0, 0.0] 1 {8.33}, o3.5e1 z2 a0.8, v3.5e1 z2 a0.8",
    "plan": (
        "*11e0.6 z3, --1.1 z2, -.1.1 z2, -1.5 z2, :1.1 z2, :1.2 z2, Fill 0 a0.18, Rect 0 a0.07, Rect 0 a0.12 | "
        "*11e0.6 z3, --1.1 z2, -.1.1 z2, -1.5 z2, :1.1 z2, Fill 0 a0.18, Rect 0 a0.07, Rect 0 a0.12"
    ),
    "path": "-0.6 z2, -1.5 z2 | -1.5 z2 | -1.5 z2",
    "schedule": "-0.9 z2, -2 z2 | --0.8 z2, -2 z2 | -2 z2, Rect 1, text 8 center",
    "pareto": "--0.8 z2, -1.5^6e1 z2, -1.5o6e1 z2, -1.5s6e1 z2",
    "batch": "*11e0.6 z3, --0.8 z2, -.0.8 z2, -1.5 z2",
    "rate": "--0.8 z2, -.0.8 z2, -1.5 z2, :1.2 z2",
    "overhead": "*11e0.6 z3, --1 z2, -1.5 z2, :1 z2",
    "growth": "*11e0.6 z3, -1 z2",
    "bounds": "--1 z2, -1 z2, <6e1 z2, >6e1 z2, D6e1 z2, o6e1 z2, text 7.5 center",
    "training": "--1 z2, -1.5^3e1 z2, -1.5o3e1 z2, -1.5s3e1 z2",
    "coordinates": (
        "-1o4e1 z2, -1s4e1 z2 | -1o4e1 z2, -1s4e1 z2 | -1o4e1 z2, -1s4e1 z2 | -0.8 z2, Fill 0 a0.18, Line 1.5, "
        "o5e1 z2.1, |4e1 z2 | -0.8 z2, Fill 0 a0.18, Line 1.5, X5e1 z2.1, o5e1 z2.1, |4e1 z2 | -0.8 z2, Fill 0 "
        "a0.18, Line 1.5, o5e1 z2.1, |4e1 z2"
    ),
}


INCHES = {  # of the figures that are not 4.8 by 3.9
    "scaled": (6.4, 6.0), "map": (10.4, 3.9), "joint": (6.4, 3.9), "plan": (8.4, 3.7), "path": (5.2, 6.0),
    "schedule": (12.0, 3.6), "bounds": (7.2, 4.26), "training": (5.2, 3.8), "coordinates": (10.2, 5.2),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_looks(name):
    figure = FIGURES[name]()
    assert [looks_of(axes) for axes in figure.axes] == LOOKS[name].split(" | ")
    assert tuple(figure.get_size_inches()) == pytest.approx(INCHES.get(name, (4.8, 3.9)))
    sizes = {axes.title.get_fontsize() for axes in figure.axes if axes.get_title()}
    assert sizes <= {9.5}
