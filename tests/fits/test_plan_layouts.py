"""Plans with micro batches and accumulation against brute force over all devices × micro batch × accumulation."""

import itertools

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits.layouts import Machine

BATCHES = 2.0 ** np.arange(4, 9)
A, B = 300.0, 3e4
MICRO = {1: 0.05, 2: 0.07, 5: 0.11, 8: 0.22, 12: 0.30}  # seconds; a sample of 5 at once is the fastest
UPDATE = {2: 0.05, 4: 0.1, 6: 0.3}


def law():
    return st.fit_steps_law(BATCHES, A + B / BATCHES)


def measured():
    n, m, k = np.array(list(itertools.product(UPDATE, MICRO, (1, 3))), float).T
    time = k * np.array([MICRO[each] for each in m]) + np.array([UPDATE[each] for each in n])
    memory = 10 + 2.5 * m
    return st.fits.MeasuredThroughput(n, m, k, n * m * k / time, memory)


def every_run(counts, most, low, high, unit=1):
    """(B, n, m, k, hours) of all of them; t(m) by its own interpolation of m/t(m) in logs."""
    sizes = np.array(list(MICRO), float)
    rates = sizes / np.array(list(MICRO.values()))
    runs = []
    for n in counts:
        for m in range(unit, most + 1, unit):
            rate = np.exp(np.interp(np.log(m), np.log(sizes), np.log(rates)))
            for k in range(1, int(high // (n * m)) + 1):
                size = n * m * k
                if size >= low:
                    runs.append((size, n, m, k, (A + B / size) * (k * m / rate + UPDATE[n]) / 3600))
    return np.array(runs)


@pytest.mark.parametrize("deadline", [None, 0.05, 0.12, 0.3, 3.0])
@pytest.mark.parametrize(("counts", "unit"), [((2, 4, 6), 1), (4, 1), ((2, 6), 3)])
@pytest.mark.parametrize("most", [1, 5, 12])
def test_the_choice_is_the_best_of_all_layouts(counts, unit, most, deadline):
    if most < unit:
        return
    plan = st.plan(law(), measured(), devices=counts, micro_batch=unit, max_micro_batch=most, deadline=deadline)
    size, n, m, k, hours = every_run(np.atleast_1d(counts), most, 16, 256, unit).T
    assert size.min() >= unit * np.max(counts)  # batch sizes that feed all devices: brute force is all there is
    choice = plan.choice
    assert choice.devices * choice.micro_batch * choice.accumulation == choice.batch_size
    assert any((n == choice.devices) & (m == choice.micro_batch) & (k == choice.accumulation))
    if deadline is None:
        assert choice.hours * choice.device_hours == pytest.approx((hours * hours * n).min(), rel=1e-9)
    elif (hours <= deadline).any():
        assert choice.device_hours == pytest.approx((hours * n)[hours <= deadline].min(), rel=1e-9)
        assert choice.hours <= deadline
    else:
        assert not plan.reachable
        assert choice.hours == pytest.approx(hours.min(), rel=1e-9)


def test_every_row_is_the_best_layout_of_its_batch_size():
    plan = st.plan(law(), measured(), price=2)
    runs = every_run(UPDATE, 12, 16, 256)
    assert {row.batch_size for row in plan.rows} >= {16, 32, 64, 128, 256}
    for row in plan.rows:
        here = runs[runs[:, 0] == row.batch_size]
        best = here[np.argmin(here[:, 4] ** 2 * here[:, 1])]
        assert (row.devices, row.hours) == pytest.approx((best[1], best[4]))
        assert row.devices * row.micro_batch * row.accumulation == row.batch_size
        assert row.cost == pytest.approx(2 * row.hours * row.devices)


@pytest.mark.parametrize(("memory", "most"), [(40, 12), (22.6, 5), (22.4, 4)])
def test_memory_limits_the_micro_batch(memory, most):
    plan = st.plan(law(), measured(), memory=memory)
    assert plan.machine.most == most
    assert max(row.micro_batch for row in plan.rows) <= most
    both = st.plan(law(), measured(), memory=memory, max_micro_batch=2)
    assert both.machine.most == 2


def test_without_a_limit_no_more_is_taken_at_once_than_was_measured():
    assert st.plan(law(), measured()).machine.most == 12


def test_one_throughput_accumulates_too():
    """64 samples on 4 devices, 16 each, by tens that fit: 8 twice; from the table of times of 8."""
    plan = st.plan(law(), {2: 10.0, 8: 20.0, 16: 30.0}, devices=4, max_micro_batch=10)
    row = plan.at(64)
    assert (row.devices, row.micro_batch, row.accumulation) == (4, 8, 2)
    assert row.hours == pytest.approx((A + B / 64) * 2 * 8 / 20 / 3600)
    assert st.plan(law(), {2: 10.0, 8: 20.0, 16: 30.0}, devices=4).at(64).hours == pytest.approx(
        (A + B / 64) * 16 / 30 / 3600
    )


def test_batch_sizes_between_are_rounded_to_full_micro_batches():
    """5 samples at once are the fastest: 4 × 5 × k from 20 on, 4 × m below; 28 can be shared as it is."""
    plan = st.plan(law(), measured(), devices=4)
    assert plan.feasible([3, 7, 18, 28, 29, 31, 133]).tolist() == [3, 8, 16, 28, 20, 40, 140]


@pytest.mark.parametrize(("counts", "step"), [((1,), 3), (None, 3), ((4,), 12)])
def test_all_batch_sizes_of_a_small_range_are_candidates(counts, step):
    """Those that the devices can share, three samples at a time."""
    machine = Machine(st.plan(law(), measured()).machine.throughput, counts, 3, None)
    high = 19_666.0 * step
    found = machine.candidates(10.0, high)
    assert found[found % step == 0].tolist() == list(range(12, int(high) + 1, step))


def test_large_ranges_are_looked_at_in_part():
    big = st.fit_steps_law([1e4, 1e5, 1e6, 1e7], A + 3e7 / np.array([1e4, 1e5, 1e6, 1e7]))
    plan = st.plan(big, measured(), devices=4)
    assert plan.candidates.batch_size.size < 25_000
    assert (plan.candidates.batch_size % 20 == 0).all()
    assert np.isfinite(plan.candidates.hours).all()


def test_notes_on_what_was_measured():
    rough = st.fits.MeasuredThroughput([2, 2, 2], [1, 1, 1], [1, 2, 4], [10, 12, 30])
    notes = st.plan(law(), rough, devices=8).notes
    assert any("times of steps lie off k t(m) + u(n) by up to" in note for note in notes)
    assert any("nothing was measured on 8 devices: their communication is taken from 2" in note for note in notes)
    assert not any("nothing was measured" in note or "lie off" in note for note in st.plan(law(), measured()).notes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"throughput": 20, "memory": 80}, "memory needs a table of throughput with memory_gb, got a throughput"),
        (
            {"micro_batch": 4, "max_micro_batch": 2},
            "micro_batch must be at most 2, the largest that a device can take, got 4",
        ),
        ({"max_micro_batch": 0}, "max_micro_batch must be a whole number of at least 1, got 0"),
        ({"devices": (4, 0)}, "devices must be a whole number of at least 1, got 0"),
        (
            {"devices": (5, 7), "batch_sizes": (16, 17), "micro_batch": 5},
            "hold no multiple of 5 samples on each of 5 or 7",
        ),
        ({"memory": -1}, "memory must be positive and finite, got -1"),
    ],
)
def test_bad_machines(settings, message):
    with pytest.raises(ValueError, match=message):
        st.plan(**({"law": law(), "throughput": measured()} | settings))
