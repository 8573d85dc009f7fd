"""Moments after many equal steps, from any moments at their start, against the steps themselves."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems import Modes
from sgdtheory.risk.solvers import transforms
from sgdtheory.risk.solvers.renewal import after, ends_after
from sgdtheory.risk.systems.constant import make_stage, settling_steps
from sgdtheory.risk.systems.moments import Keeping, Moments, Steps, ends
from sgdtheory.risk.systems.one_step import nested, stacked, step, step_maps
from sgdtheory.risk.systems.runs import Coefficients
from tests.risk.test_elimination import TwoMomenta

NUMBERS = np.array([401.0, 300.0, 259.0, 350.0])
RATES = np.array([0.02, 0.3, 1.97, 1.45])  # slow, quick, turning at every step, and growing
SPECTRA = {
    "slow and fast": [1.0, 0.3, 0.02, 1e-4, 1e-7],
    "all learnt": [1.0, 0.8, 0.6, 0.5],  # what decays keeps its digits
}
KEPT = {"last": None, "sum": (0.0, 1.0), "exponential": (0.02, 0.02), "short": (0.3, 0.3)}


def begin(k, size):
    """Both parts, what crosses and what is summed are there already."""
    rng = np.random.default_rng(k)
    root = rng.normal(size=(2, NUMBERS.size, k, k, size))
    own = np.einsum("psijm,psljm->psilm", root, root)
    return Moments(own, rng.normal(size=(2, NUMBERS.size, k, size)), rng.uniform(1, 2, (2, NUMBERS.size)))


def case(method, kept, spectrum, trained=False, share=1.0):
    eigenvalue = np.array(SPECTRA[spectrum])
    some = np.random.default_rng(0).uniform(0.5, 1.5, (2, eigenvalue.size))
    modes = Modes(eigenvalue, some[0], np.ones(eigenvalue.size), some[1] if trained else None)
    matrices = method.matrices(share * RATES, np.zeros(RATES.size))
    here = Coefficients(matrices, np.array([4.0, 2.0, 2000.0, 3.0]))
    keeping = KEPT[kept] and Keeping(*np.repeat(np.array(KEPT[kept])[:, None], RATES.size, axis=1))
    output = np.array(method.output, dtype=float)
    return make_stage(here, modes, output, keeping), here, begin(output.size, eigenvalue.size)


def stepped(stage, here, moments):
    """One setting after the other, each so many times."""
    found = []
    averaged = stage.keeping is not None
    keeping = stage.keeping or Keeping(*np.zeros((2, RATES.size)))
    for place, number in enumerate(NUMBERS):
        some = np.array([place])
        steps = Steps(*(each[some] for each in here.matrices), here.batch[some], *keeping.select(some))
        maps = step_maps(steps, stage.modes.eigenvalue)
        state = nested(Moments(*(each[:, some] for each in moments)))
        for _ in range(int(number)):
            state = step(state, maps, stage.modes, tuple(stage.output), averaged)
        found.append(stacked(state))
    return Moments(*(np.concatenate(each, axis=1) for each in zip(*found, strict=True)))


def assert_close(found, expected, settled, floors):
    """Compare every part and setting that is stationary, relative to the largest of its modes, or to a floor."""
    for value, truth, floor in zip(found, expected, floors, strict=True):
        value, truth = value[:, settled], truth[:, settled]
        across = tuple(range(2, truth.ndim))
        size = np.abs(truth).max(across, keepdims=True) if across else np.abs(truth)
        assert (np.abs(value - truth) <= 1e-10 * np.maximum(size, floor)).all()


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize(
    ("method", "share", "trained"),
    [
        (st.SGD(), 1.0, False),
        (st.SGD(), 0.7, True),
        (st.SGD(weight_decay=0.02), 1.0, False),
        (st.HeavyBall(0.5), 0.5, False),
        (st.Nesterov(0.5), 0.4, True),
        (TwoMomenta(), 0.1, True),
    ],
    ids=["SGD", "trained", "decay", "momentum", "Nesterov", "two momenta"],
)
def test_many_steps_at_once(method, share, trained, spectrum, kept, monkeypatch):
    stage, here, moments = case(method, kept, spectrum, trained, share)
    expected = stepped(stage, here, moments)
    found = after(stage, moments, NUMBERS).moments
    settled = np.flatnonzero(settling_steps(stage.spectrum, stage.keeping) < NUMBERS)
    assert settled.size
    # of one vector all digits of what decays are kept; what turns, and what crosses, is next to what there was
    turning = stage.output.size > 1
    floors = 1e-3 * turning, 1e-3, 1e-30 * turning
    assert_close(found, expected, settled, floors)
    sums = ends_after(stage, moments, NUMBERS)
    what = slice(3 if stage.keeping else 1)  # of the iterate alone nothing crosses
    assert_close(sums[what], ends(expected, stage.output)[what], settled, floors[what])
    monkeypatch.setattr(transforms, "NUMBERS_AT_ONCE", 8)  # pieces of eight modes, if there are so many
    assert_close(after(stage, moments, NUMBERS).moments, found, settled, floors)
