"""Advice by a law of one's own runs, which is given, against the formula at all ends of its intervals."""

from itertools import product

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits.rate_law import BestRates, RateLaw

FALL, RISE, GROWTH, SHARPNESS, KINK, CENTRE = 0.3, 0.5, 0.4, 2.0, 64.0, 1e6
FALLS, RISES, GROWTHS = (0.25, 0.37), (0.4, 0.56), (0.2, 0.5)
SAMPLES, KINKS = np.array([1e6, 1e7]), np.array([[50.0, 80.0], [110.0, 300.0]])


def law(growths=GROWTHS, kinks=KINKS, kink=KINK):
    """As `fit_rates` returns it, from runs at B = 8 … 512 and D = 10⁶ … 10⁷."""
    batches = np.log([8.0, 512.0])
    return st.fits.LearningRateLaw(
        groups=(),
        rates=BestRates(np.zeros(2, int), batches, np.log(SAMPLES), *np.zeros((4, 2))),
        law=RateLaw(np.zeros(1), FALL, RISE, np.log(kink), GROWTH, 0.0, -3.0, SHARPNESS, np.log(CENTRE)),
        duration_exponent=FALL,
        duration_interval=FALLS,
        batch_exponent=RISE,
        batch_interval=RISES,
        kink_exponent=GROWTH,
        kink_exponent_interval=growths,
        size_exponent=np.nan,
        size_interval=(np.nan, np.nan),
        samples=SAMPLES,
        kinks=kink * (SAMPLES / CENTRE) ** GROWTH,
        kink_intervals=kinks,
        no_kink=float(kink != KINK),  # a p-value
        deviation=0.05,
        comparisons=(),
        left_out=(),
        level=0.95,
    )


def best_rate(batch, data, fall, rise, kink):
    return data**-fall * (batch**-SHARPNESS + kink**-SHARPNESS) ** (-rise / SHARPNESS)


def advised(old, new, own):
    current = {"batch_size": old[0], "num_samples": old[1], "learning_rate": 1e-3}
    return st.change_batch_size(current, new_batch_size=new[0], new_num_samples=new[1], optimizer="adam", rate_law=own)


@pytest.mark.parametrize(
    ("old", "new"), [((16.0, 1e6), (16.0, 3e7)), ((400.0, 8e6), (50.0, 5e5)), ((64.0, 3e6), (256.0, 3e6))]
)
@pytest.mark.parametrize("growths", [GROWTHS, (-np.inf, 0.5), (0.2, np.inf)])
def test_the_factor_and_its_range_are_those_of_the_formula(old, new, growths):
    """The kink of the nearest duration is carried to D by κ, which lies between 0 and 1 where its interval is open."""
    change = advised(old, new, law(growths))
    row = change["learning_rate"]
    kink, later = (KINK * (run[1] / CENTRE) ** GROWTH for run in (old, new))
    value = best_rate(*new, FALL, RISE, later) / best_rate(*old, FALL, RISE, kink)
    near = int(abs(np.log(old[1] / SAMPLES)).argmin())
    known = max(growths[0], 0.0), min(growths[1], 1.0)
    ends, kinks_then = [value], [later]
    for fall, rise, end, growth in product(FALLS, RISES, KINKS[near], known):
        before, after = (end * (run[1] / SAMPLES[near]) ** growth for run in (old, new))
        ends.append(best_rate(*new, fall, rise, after) / best_rate(*old, fall, rise, before))
        kinks_then.append(after)
    assert (row.new, row.low, row.high) == pytest.approx((1e-3 * value, 1e-3 * min(ends), 1e-3 * max(ends)))
    size = change["critical_batch_size"]
    assert size[1:5] == pytest.approx((kink, later, min(kinks_then), max(kinks_then)))


def test_a_law_without_a_kink_is_a_power_law():
    own = law(kinks=np.full((2, 2), np.inf), kink=1e20)
    row = advised((16.0, 1e6), (64.0, 1e7), own)["learning_rate"]
    ends = [10**-fall * 4**rise for fall, rise in product(FALLS, RISES)]
    assert row[2:5] == pytest.approx((1e-3 * 10**-FALL * 4**RISE, 1e-3 * min(ends), 1e-3 * max(ends)))
    assert "your runs show no kink" in row.reason


def test_batch_sizes_and_data_beyond_the_runs_are_told():
    told = [advised(old, new, law()).unknown for old, new in (((8, 1e6), (512, 1e7)), ((16, 2e6), (600, 8e5)))]
    beyond = [[each.split(" still holds at ")[1] for each in said if "law of your runs" in each] for said in told]
    assert beyond == [[], ["600", "800,000"]]
