"""Every figure of the library, of usual and of extreme inputs: no text on text, off the canvas or on the data."""

import matplotlib
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import plotting
from sgdtheory.fits.invariance import size_dependence
from sgdtheory.fits.steps_measurement import StepsMeasurement
from sgdtheory.training import CoordinateCheck, TrainResult
from tests.figure_checks import check_figure
from tests.marks import slow
from tests.runs import changed, run_of

USUAL = "usual", "twelve decades", "long names"
BATCHES = 2.0 ** np.arange(4, 12)


def seldom(cases, usual):
    """The cases, slow but for these."""
    return [case if case in usual else slow(case) for case in cases]


def measured(sizes, *, batches=BATCHES, names=None, growth=0.3, noise=0.03, a=50.0):
    """Steps to target of a law, one group a size."""
    rng = np.random.default_rng(0)
    sizes = np.asarray(sizes, float)
    names = names or [f"width {size:g}" for size in sizes]
    slopes = 100 * a * (sizes / sizes[0]) ** growth
    return [
        StepsMeasurement(name, size, batches, (a + b / batches) * np.exp(noise * rng.standard_normal(batches.size)))
        for name, size, b in zip(names, sizes, slopes, strict=True)
    ]


MEASURED = {
    "usual": measured([32, 64, 128]),
    "one group": measured([32]),
    "many groups": measured(np.round(np.geomspace(32, 4096, 40))),
    "long names": measured([32, 64], names=["a_name_from_a_file_that_goes_on_and_on", "$x_1$, a long one"]),
    "few batch sizes": measured([32, 64], batches=BATCHES[3:6]),
    "within 10%": measured([32, 64, 128], batches=np.array([100.0, 103.0, 106.0, 109.0]), noise=1e-3),
    "twelve decades": measured([1, 1e6, 1e12], batches=np.logspace(0, 12, 9), growth=0.9, noise=0.01),
    "no scatter": measured([32, 64, 128], growth=0.0, noise=0.0),
}


@pytest.mark.parametrize("case", seldom(MEASURED, USUAL))
def test_fits(case):
    groups = MEASURED[case]
    reference = float(groups[0].batch_sizes[1])
    laws = [st.fit_steps_law(each.batch_sizes, each.steps) for each in groups]
    sizes = [each.size for each in groups]
    critical = [law.critical_batch_size(reference) for law in laws]
    with_power = len(groups) > 1 and np.isfinite(critical).all()
    figure, axes = plotting.new_figure(1, 1 + with_power, width=4.8, height=3.9)
    if with_power:
        power = st.fit_power_law(sizes, critical)
        options = {"convention": st.Convention(reference), "forecasts": [2 * max(sizes), 8 * max(sizes)]}
        plotting.critical_batch_sizes(sizes, laws, fit=power, axes=axes[0, 1], **options)
    plotting.steps_laws(groups, laws, convention=st.Convention(reference), axes=axes[0, 0])
    check_figure(figure)


@pytest.mark.skipif(matplotlib.__version_info__ < (3, 11), reason="its legends take more room: one lies on a line")
@pytest.mark.parametrize("case", seldom([case for case in MEASURED if case != "few batch sizes"], USUAL))
@pytest.mark.parametrize("curvature", [0.0, 30.0])
def test_useful_range(case, curvature):
    """The figure has an optimum inside the batch sizes, or none."""
    groups = [changed(each, steps=each.steps * (1 + curvature / each.batch_sizes)) for each in MEASURED[case]]
    laws = [st.fit_steps_law(each.batch_sizes, each.steps, optimal_batch_size=True) for each in groups]
    figure, axes = plotting.new_figure(width=4.8, height=3.9)
    plotting.useful_range(groups, laws, axes=axes[0, 0])
    check_figure(figure)


@pytest.mark.parametrize(
    "case", seldom([case for case in MEASURED if case not in ("one group", "few batch sizes")], USUAL)
)
@pytest.mark.parametrize("number", [slow(1), 3])
def test_size_dependence(case, number):
    found = size_dependence(MEASURED[case])
    figure, axes = plotting.new_figure(width=4.8, height=3.9)
    curves = {f"loss {target:g}": changed(found, critical=found.critical / target) for target in (1, 0.8, 0.5)[:number]}
    options = {"title": "Does $B^*$ move with the width?", "verdicts": True}
    plotting.size_dependence(curves, size_label="width", axes=axes[0, 0], **options)
    check_figure(figure)
    assert [text.get_text().rsplit(", ")[1] for text in axes[0, 0].get_legend().get_texts()] == [found.verdict] * number


@pytest.mark.slow
def test_sizes_within_a_decade_can_be_read():
    """B* = 52 … 66 had one tick, 60."""
    found = size_dependence(measured([32, 64, 128, 256]))
    found = changed(found, critical=np.array([52.0, 60.0, 58.0, 66.0]), standard_errors=np.full(4, 0.02))
    axes = plotting.new_figure()[1][0, 0]
    plotting.size_dependence({"loss 0.1": found}, size_label="width", axes=axes)
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    assert len([tick for tick in axes.yaxis.get_majorticklocs() if low <= tick <= high]) > 3


@pytest.mark.parametrize("samples", [slow([30.0]), [10.0, 15.0, 20.0], slow(list(np.arange(12.0, 39.0, 3.0)))])
def test_critical_batch_sizes(samples):
    critical = st.critical_batch_size(st.PowerLaw(2, 3, 10), num_samples=samples)
    title = r"$\lambda_i = i^{-2}$, $s_i = i^{-3}$, $\sigma^2 = 1$"
    check_figure(plotting.critical_batch_size(critical, exponent=1 / 3, title=title))


def trained(steps, losses, *, averages=(), target=None, **fields):
    """A run that ended with these losses."""
    config = run_of(averages=averages, target_loss=target, **fields)
    steps, nothing = np.asarray(steps), np.full(len(steps), np.nan)
    losses = np.asarray(losses, float)[:, None] * 1.1 ** np.arange(1 + len(averages))
    return TrainResult(config, "steps", int(steps[-1]), steps, losses, nothing, nothing, nothing, 100, 1.0, 1.0)


TRAINED = {
    "usual": trained([0, 1, 10, 100], [2, 1, 0.4, 0.1], averages=(0.9, 0.99), target=0.11),
    "target above": trained([0, 1, 10, 100], [1, 0.5, 0.4, 0.1], target=0.9),
    "rising": trained([0, 1, 10, 100], [0.1, 0.4, 0.5, 1.0], target=0.9),
    "one point": trained([0, 1], [1.0, 0.9], averages=(0.9,)),
    "within 1%": trained([0, 1, 2, 3], [1.01, 1.01, 1.005, 1.0], target=1.0),
    "twelve decades": trained([0, 1, 10, 1e9], [1e6, 1e6, 1.0, 1e-6], averages=(0.9, 0.99)),
    "many averages": trained(
        [0, 1, 10, 99], [2, 1, 0.4, 0.1], averages=tuple(1 - 2.0 ** -np.arange(1, 15)), target=1.0
    ),
    "diverged at once": trained([0, 1], [1.0, np.inf], target=0.5),
    "diverged": trained([0, 1, 2, 4], [1.0, 3.0, 50.0, np.inf], target=0.5),
}


@pytest.mark.parametrize("case", seldom(TRAINED, ("usual", "twelve decades", "many averages", "diverged")))
def test_training(case):
    check_figure(plotting.loss_curves(TRAINED[case]))


def test_the_target_of_a_training_run_is_named():
    axes = plotting.new_figure()[1][0, 0]
    plotting.loss_curves(TRAINED["usual"], axes=axes)
    names = ["iterate", "average, τ = 0.9", "average, τ = 0.99", "target 0.11"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == names


def checked(number, *, slope=0.0, widths=(64, 128, 256), still=False):
    """A coordinate check of `number` layers; the change of the last one has this slope, or does not move."""
    rng = np.random.default_rng(0)
    widths = np.array(widths)
    noise = np.exp(0.02 * rng.standard_normal((3, number, widths.size, 2, 4)))
    change = noise[0]
    change[-1] *= ((widths / widths[0]) ** slope)[:, None, None]
    change = np.where(still, 0.0, change)
    layers = (*(f"value.{k}" for k in range(number - 1)), "output")
    size = noise[1, :, :, 0]
    size[-1] *= (widths**-0.5)[:, None]
    return CoordinateCheck(run_of(), widths, np.array([1, 3]), layers, size, change, noise[2], 0.3, 0.95)


@pytest.mark.parametrize("number", [1, slow(5), slow(24)])
@pytest.mark.parametrize("slope", [slow(0.0), 1.0, slow(-3.0)])
def test_coordinates(number, slope):
    check = checked(number, slope=slope)
    figure = plotting.coordinates(check)
    check_figure(figure)
    assert check.passes == (slope == 0.0)
    title = figure.get_suptitle()
    assert ("passes" in title) == check.passes
    assert ("fails: 1 of " in title) == (not check.passes)


@pytest.mark.slow
def test_layers_that_do_not_move():
    figure = plotting.coordinates(checked(3, still=True))
    check_figure(figure)
    assert "passes" in figure.get_suptitle(), "what has no effect does not fail"
    assert any("no effect" in text.get_text() for axes in figure.axes for text in axes.texts)


def test_slopes_and_tolerance_are_shown():
    check = checked(2, slope=1.0)
    figure = plotting.coordinates(check)
    change = figure.axes[4]
    drawn = [line.get_xdata()[0] for line in change.lines if line.get_marker() in ("o", "X")]
    np.testing.assert_allclose(drawn, check.slopes("change")[0])
    assert [line.get_marker() for line in change.lines if line.get_marker() in ("o", "X")] == ["o", "X"]
    assert "tolerance 0.3" in change.get_xlabel()
