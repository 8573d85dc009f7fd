"""Loss curves: the lines are the paths' numbers, each algorithm in one colour, nothing lies on anything."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import plotting as plot
from tests.figure_checks import check_figure
from tests.marks import slow
from tests.plotting.panels import legend_of

ALGORITHMS = {
    "sgd": st.Algorithm(),
    "cosine last": st.Algorithm(schedule=st.Cosine(), average=st.LastIterate()),
    "a name_that goes on and on, as long as the words of an algorithm may well be = 0.123456789": st.Algorithm(
        schedule=st.WSD(0.1, warmup=0.1), average=st.TailAverage(0.3)
    ),
}
RAMP = st.Algorithm(batch_schedule=st.Linear(8), average=st.LastIterate())
SETTING = {"batch_size": 4, "learning_rate": 0.5, "num_samples": 4000}


def path_of(algorithm, points=40, **setting):
    return st.risk_path(st.PowerLaw(2, 3), **SETTING | setting, algorithm=algorithm, points=points)


@pytest.fixture(scope="module")
def paths():
    return {name: path_of(algorithm) for name, algorithm in ALGORITHMS.items()}


def test_lines_are_the_risks_of_the_path(paths):
    figure = plot.risk_paths(paths, title="a power law")
    risks, rates = figure.axes
    thin, thick, last, iterate, tail = risks.lines[:5]
    sgd, cosine, wsd = paths.values()
    for line, path, risk in (
        (thin, sgd, sgd.iterate),
        (thick, sgd, sgd.average),
        (last, cosine, cosine.iterate),
        (iterate, wsd, wsd.iterate),
        (tail, wsd, wsd.average),
    ):
        np.testing.assert_array_equal(line.get_xydata(), np.stack([path.num_samples, risk.total], axis=1)[1:])
    assert [line.get_linewidth() < 1 for line in risks.lines] == [True, False, False, True, False, True]
    for line, path in zip(rates.lines, paths.values(), strict=True):
        expected = np.stack([path.num_samples, path.learning_rate], axis=1)[1:]
        np.testing.assert_array_equal(line.get_xydata(), expected)
    colors = [line.get_color() for line in rates.lines]
    assert [thick.get_color(), last.get_color(), tail.get_color()] == colors
    assert [thin.get_color(), iterate.get_color()] == [colors[0], colors[2]]
    assert len(set(colors)) == 3
    assert (risks.get_xscale(), risks.get_yscale(), rates.get_xscale()) == ("log", "log", "log")
    assert rates.get_yscale() == "linear"  # it begins and ends with 0
    assert (risks.get_ylabel(), rates.get_xlabel()) == ("excess risk (units of $y^2$)", "samples $D$")
    assert rates.get_ylabel() == "learning rate\n$\\gamma_t$ ($1/\\lambda$)"
    assert risks.get_title() == "a power law"
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["sgd", "cosine last"]


def test_a_batch_size_that_varies_has_a_panel(paths):
    figure = plot.risk_paths(paths | {"ramp": path_of(RAMP)})
    assert [panel.get_ylabel().split("\n")[0] for panel in figure.axes[1:]] == ["learning rate", "batch size"]
    np.testing.assert_array_equal(figure.axes[2].lines[-1].get_ydata(), path_of(RAMP).batch_size[1:])


def test_thin_lines_are_named_where_there_are_any(paths):
    (legend,) = plot.risk_paths({"cosine last": paths["cosine last"]}).legends
    assert [text.get_text() for text in legend.get_texts()] == ["cosine last"]


@pytest.mark.slow
def test_panels_of_yours(axes, paths):
    figure = plot.risk_paths({"sgd": paths["sgd"]}, axes=axes)
    assert figure.axes == [axes]
    assert legend_of(axes) == ["sgd", "thin line: last iterate"]
    assert axes.get_xlabel() == "samples $D$"
    _, grid = plot.new_figure(3, 1)
    plot.risk_paths({"ramp": path_of(RAMP)}, axes=list(grid[:, 0]))
    assert all(panel.lines for panel in grid[:, 0])


@pytest.mark.parametrize("case", ["three", slow("twelve"), slow("one step"), "diverging", "tiny"])
def test_nothing_lies_on_anything(paths, case):
    found = {
        "three": lambda: paths,
        "twelve": lambda: {f"cosine final={k / 12:.3g} last": path_of(ALGORITHMS["cosine last"]) for k in range(12)},
        "one step": lambda: {"sgd": path_of(ALGORITHMS["sgd"], num_samples=4)},
        "diverging": lambda: {"sgd": path_of(ALGORITHMS["sgd"], learning_rate=3.0), "ramp": path_of(RAMP)},
        "tiny": lambda: {"sgd": path_of(ALGORITHMS["sgd"], learning_rate=1e-9)},
    }[case]()
    check_figure(plot.risk_paths(found, title="$\\lambda_i = i^{-2}$"))


def test_no_paths():
    with pytest.raises(ValueError, match="paths must hold at least one path, got none; make them by risk_path"):
        plot.risk_paths({})
