"""Steps to a target loss, which targets are taken, and intervals of B* from other runs and edges, one law at a time."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits.loss_targets import curves_of, default_targets, loss_target, useful_ranges_of
from sgdtheory.fits.tuned_loss import LossCurves

CONVENTION = st.Convention(8, 0.3)
BATCHES, BALANCE, POWER = np.array([4.0, 16.0, 40.0, 100.0]), 60.0, 0.2
SAMPLES = 10.0 ** np.arange(3, 8)


def curve_of(batch, samples=SAMPLES, shift=0.0):
    """log L = −0.2 log(D/(1 + B/60)): the steps to any loss are ∝ 1/60 + 1/B. Rows are shifted each."""
    log_losses = -POWER * np.log(samples / (1 + batch / BALANCE)) + np.atleast_1d(shift)[:, None]
    return LossCurves(samples, log_losses)


def tuned_of(batch_sizes=BATCHES, group="", size=np.nan) -> Any:
    return SimpleNamespace(batch_sizes=np.asarray(batch_sizes, float), group=group, size=size)


# ------------------------------------------------------------------ which targets


def test_curves_need_two_data_sizes():
    usable = np.array([[1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0]], bool)
    tuned: Any = SimpleNamespace(samples=np.array([1.0, 2.0, 4.0]), usable=lambda edges: usable)
    losses = -np.arange(24.0).reshape(2, 4, 3)
    found = curves_of(tuned, losses, False)
    assert list(found) == [0, 2]
    assert found[0].knots.tolist() == losses[:, 0].tolist()
    np.testing.assert_allclose(np.exp(found[2].log_samples), [1, 4])


@pytest.mark.parametrize("number", [3, 4])
def test_targets_lie_at_the_quarters_of_what_most_batch_sizes_reach(number):
    """Quarters are in log D of the first; the others begin and end at other losses, so that all reach a part of it."""
    curves = {place: curve_of(batch) for place, batch in enumerate(BATCHES[:number])}
    found = default_targets(tuned_of(), curves)
    (high, _), (_, low) = curves[0].knots[0, [0, -1]], curves[number - 1].knots[0, [0, -1]]
    expected = high + np.array([0.25, 0.5, 0.75]) * (low - high)  # log L is a line in log D
    step = POWER * np.log(SAMPLES[-1] / SAMPLES[0]) / 200
    np.testing.assert_allclose(np.log(found), expected, atol=step)
    assert found == sorted(found, reverse=True)
    assert found == [float(f"{each:.4g}") for each in found]
    assert found != [float(f"{each:.3g}") for each in found]


def test_targets_lie_alike_about_the_middle():
    """Three batch sizes share one curve, a line from 0 to −2, and all of them reach every loss."""
    curve = LossCurves(np.exp([0.0, 200.0]), np.array([[0.0, -2.0]]))
    found = np.log(default_targets(tuned_of(), {0: curve, 1: curve, 2: curve}))
    np.testing.assert_allclose(found + found[::-1], -2, atol=2e-4)
    np.testing.assert_allclose(found, [-0.5, -1, -1.5], atol=0.011)


def test_losses_that_fewer_batch_sizes_reach_are_no_targets():
    """The fourth ends early: three reach what it does not, and all four are asked for."""
    curves = {place: curve_of(batch) for place, batch in enumerate(BATCHES)}
    curves[3] = curve_of(BATCHES[3], SAMPLES[:3])
    found = np.log(default_targets(tuned_of(), curves))
    high, low = curves[0].knots[0, 0], curves[3].knots[0, -1]
    step = POWER * np.log(SAMPLES[-1] / SAMPLES[0]) / 200
    np.testing.assert_allclose(found, high + np.array([0.25, 0.5, 0.75]) * (low - high), atol=step)


def test_fewer_than_three_batch_sizes_have_no_target():
    assert default_targets(tuned_of(), {0: curve_of(4), 1: curve_of(16)}) == []
    apart = {0: curve_of(4), 1: curve_of(16), 2: curve_of(40, shift=9.0)}
    assert default_targets(tuned_of(), apart) == []


# ------------------------------------------------------------------ the fit at a target


def fit_at(target, curves, tuned=None, drawn=None, edges=None, level=0.8, noisy=True):
    """Rows of the curves of other runs come before the two of other edges."""
    others = {}
    for place, curve in curves.items():
        parts = (drawn or curves)[place], *([edges[place]] if edges else [curve] * 2)
        others[place] = LossCurves(np.exp(curve.log_samples), np.concatenate([part.knots for part in parts]))
    return loss_target(
        tuned_of() if tuned is None else tuned,
        target,
        curves,
        others,
        CONVENTION,
        level,
        noisy,
    )


def test_steps_law_and_critical_batch_size():
    curves = {place: curve_of(batch) for place, batch in enumerate(BATCHES)}
    target = 5000**-POWER
    found = fit_at(target, curves, tuned_of(group="m", size=7.0))
    assert (found.group, found.size, found.target, found.left_out) == ("m", 7.0, target, {})
    np.testing.assert_allclose(found.steps, 5000 * (1 + BATCHES / BALANCE) / BATCHES, rtol=1e-9)
    assert found.critical_batch_size == pytest.approx(0.3 * BALANCE + 1.3 * 8, rel=1e-6)
    assert found.samples == pytest.approx(5000 * (1 + 8 / BALANCE), rel=1e-6)
    assert found.scatter_interval == found.law.interval(level=0.8, convention=CONVENTION)
    assert found.measurement.group == f"m, loss {target:g}"
    assert fit_at(target, curves).measurement.group == f"loss {target:g}"


def test_what_is_left_out_and_why():
    tuned = tuned_of([4, 16, 40, 100, 300, 500])
    curves = {place: curve_of(batch) for place, batch in enumerate(BATCHES)}
    curves[3] = curve_of(100, SAMPLES[:3])  # ends above the target
    curves[4] = curve_of(300, SAMPLES[3:])  # begins below it
    target = 1e5**-POWER
    found = fit_at(target, curves, tuned)
    assert found.batch_sizes.tolist() == [4, 16, 40]
    least, first = (1e5 / (1 + 100 / 60)) ** -POWER, (1e6 / (1 + 300 / 60)) ** -POWER
    assert found.left_out == {
        100.0: f"its L* lies above, {least:.4g} at the least",
        300.0: f"its L* begins below, at {first:.4g}",
        500.0: "fewer than two data sizes with a tuned loss",
    }
    del curves[2]
    assert fit_at(target, curves, tuned) is None


@pytest.mark.parametrize("data", [1.3 * SAMPLES[0], 0.3 * SAMPLES[-1]])
def test_intervals_are_of_laws_fitted_one_by_one(data):
    """Curves of other runs are shifted; where one misses the target, its nearest data size counts."""
    random = np.random.default_rng(0)
    curves = {place: curve_of(batch) for place, batch in enumerate(BATCHES)}
    target = data**-POWER  # close to the beginning or the end of all curves
    shifts = 0.1 * random.standard_normal((41, 4))
    drawn = {place: curve_of(batch, shift=shifts[:, place]) for place, batch in enumerate(BATCHES)}
    edges = {place: curve_of(batch, shift=[0.02 * place, -0.02 * place]) for place, batch in enumerate(BATCHES)}
    found = fit_at(target, curves, drawn=drawn, edges=edges)

    def law_at(shift):
        needed = data * (1 + BATCHES / BALANCE) * np.exp(np.array(shift) / POWER)
        steps = np.clip(needed, SAMPLES[0], SAMPLES[-1]) / BATCHES
        return st.fit_steps_law(BATCHES, steps).critical_batch_size(convention=CONVENTION)

    ordered = np.sort([law_at(shift) for shift in shifts])
    assert found.resampled_interval == pytest.approx((ordered[3], ordered[36]), rel=1e-4)  # 4 of 41 beyond each
    both = law_at(0.02 * np.arange(4)), law_at(-0.02 * np.arange(4))
    assert found.edge_interval == pytest.approx((min(both), max(both)), rel=1e-5)
    assert min(both) < found.critical_batch_size < max(both)
    silent = fit_at(target, curves, drawn=drawn, edges=edges, noisy=False)
    assert np.isnan(silent.resampled_interval).all()
    assert silent.edge_interval == found.edge_interval
    logs = [np.log(np.array(each) / found.critical_batch_size) for each in (silent.scatter_interval, both)]
    expected = found.critical_batch_size * np.exp(np.array([-1, 1]) * np.hypot(logs[0], np.sort(logs[1])))
    assert silent.interval == pytest.approx(tuple(expected), rel=1e-6)


# ------------------------------------------------------------------ many laws at once


@pytest.mark.parametrize("ratio", [3.0, 300.0, 3e4])
@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_they_are_the_laws_one_by_one(ratio, noise):
    """The ratio b/a lies among the batch sizes, below and above them; some laws have no plateau, or no slope."""
    random = np.random.default_rng(int(ratio))
    batch_sizes = np.array([20.0, 30.0, 100.0, 400.0, 2000.0])
    steps = (1 + ratio / batch_sizes) * np.exp(noise * random.standard_normal((8, 5)))
    for convention in (st.Convention(50, 0.3), st.Convention(None, 2.0)):
        found = useful_ranges_of(batch_sizes, steps, convention, curved=False).critical_batch_size
        one_by_one = [st.fit_steps_law(batch_sizes, each).critical_batch_size(convention=convention) for each in steps]
        told = np.isfinite(found)
        np.testing.assert_array_equal(told, np.isfinite(one_by_one))
        np.testing.assert_allclose(found[told], np.array(one_by_one)[told], rtol=1e-6)


@pytest.mark.parametrize("ratio", [10.0, 1e9])
def test_a_plateau_is_absent_only_where_no_batch_size_shows_it(ratio):
    """b/a between the batch sizes 1 and 1e10."""
    batch_sizes = np.geomspace(1, 1e10, 9)
    steps = np.stack([1 + ratio / batch_sizes, 5 / batch_sizes])
    found = useful_ranges_of(batch_sizes, steps, st.Convention(1, 0.2), curved=False).critical_batch_size
    np.testing.assert_allclose(found, [0.2 * ratio + 1.2, np.inf], rtol=1e-6)
