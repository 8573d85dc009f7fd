"""What tells one number of steps from the next, of each algorithm."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.patterns import _memory, patterns_of

LAST = st.LastIterate()


@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_momentum_is_forgotten_to_a_millionth(momentum):
    found = _memory(st.HeavyBall(momentum))
    assert momentum**found == pytest.approx(1e-6)
    assert _memory(st.SGD()) == 0
    assert _memory(st.ScheduleFree()) == 0
    assert patterns_of(st.Algorithm(st.HeavyBall(momentum), average=LAST)).rippling == found


def test_what_resonates_and_from_where_steps_count():
    assert (patterns_of(st.Algorithm()).first_steps, patterns_of(st.Algorithm()).resonant) == (2, 4)
    last = patterns_of(st.Algorithm(average=LAST))
    assert (last.first_steps, last.resonant, last.rippling) == (1, 0, 0)
    assert patterns_of(st.Algorithm(st.ScheduleFree(), average=LAST)).resonant == 4


@pytest.mark.parametrize(("momentum", "until"), [(0.5, 10), (0.9, None), (0.99, 1)])
def test_swings_of_early_steps_are_kept_by_an_average(momentum, until):
    """Ten times as long as momentum remembers, but no longer than 1000 steps or its memory."""
    memory = np.log(1e-6) / np.log(momentum)
    wanted = 1000.0 if until is None else until * memory
    for algorithm in (st.Algorithm(st.HeavyBall(momentum)), st.Algorithm(st.HeavyBall(momentum), st.Cosine())):
        assert patterns_of(algorithm).rippling == pytest.approx(wanted)
    assert patterns_of(st.Algorithm(st.ScheduleFree(), average=LAST)).rippling == 1000


def test_tails_of_all_iterates_are_no_tails():
    for fraction, told in ((0.4, 0.4), (1.0, 0.0)):
        assert patterns_of(st.Algorithm(average=st.TailAverage(fraction))).fraction == told


def test_an_average_of_a_hundred_steps_decides_up_to_two_thousand():
    found = patterns_of(st.Algorithm(average=st.ExponentialAverage(decay=0.99))).averaged
    assert found == pytest.approx(2000)
    assert patterns_of(st.Algorithm()).averaged == 0


@pytest.mark.parametrize(
    ("algorithm", "batch", "alike", "others"),
    [
        (st.Algorithm(), 100.0, (200, 202), (201, 401)),
        (st.Algorithm(), 10.0, (200, 201), ()),
        (st.Algorithm(average=LAST), 100.0, (200, 201), ()),
        (st.Algorithm(average=st.TailAverage(0.5)), 100.0, (200, 204), (201, 202, 203, 401)),
        (st.Algorithm(average=st.TailAverage(0.5)), 10.0, (200, 201, 203), ()),
    ],
)
def test_numbers_of_steps_of_a_kind(algorithm, batch, alike, others):
    """Where steps resonate, n ≤ 4B, as odd or even, and so are the lengths of tails: 200 and 204 leave 100 and 102."""
    found = patterns_of(algorithm)

    def kinds(steps):
        return found.kind(np.full(len(steps), batch), np.array(steps, dtype=float)).tolist()

    assert len(set(kinds(alike))) == 1
    assert not set(kinds(others)) & set(kinds(alike))
    assert np.isnan(kinds((2, 40))).all()
    assert np.isfinite(kinds((41,))).all()


def test_where_momentum_swings_every_number_of_steps_is_another():
    found = patterns_of(st.Algorithm(st.HeavyBall(0.9), average=LAST))
    steps = np.array([np.floor(found.rippling), np.floor(found.rippling) + 1])
    assert np.isnan(found.kind(np.ones(2), steps)).tolist() == [True, False]
