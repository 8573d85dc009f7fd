"""Laws of several groups: the tables where sizes differ, and the answer on what is not determined."""

import numpy as np
import pytest

import sgdtheory as st

BATCHES = 4.0 ** np.arange(3, 7)
SIZES = 1e6, 16e6


def group(size, seed):
    """Steps to a target with B* ∝ size^½."""
    noise = np.random.default_rng(seed).normal(0.0, 0.005, BATCHES.size)
    return st.fits.StepsMeasurement(f"{size:g}", size, BATCHES, 1000 * (1 + 0.5 * size**0.5 / BATCHES) * np.exp(noise))


def laws_of(measurements, **options):
    laws = tuple(st.fit_steps_law(each.batch_sizes, each.steps) for each in measurements)
    return st.fits.LawsOfGroups(tuple(measurements), laws, st.fits.SMALLEST, **options)


def test_groups_of_different_sizes_have_a_power_law_and_other_conventions():
    found = laws_of([group(size, seed) for seed, size in enumerate(SIZES)], forecasts=(64e6,))
    sheet = found.sheet()
    assert [table.name for table in sheet.tables] == ["groups", "power_law", "forecasts", "sensitivity"]
    critical = [law.critical_batch_size(convention=st.fits.SMALLEST) for law in found.laws]
    expected = np.polyfit(np.log(SIZES), np.log(critical), 1)
    power = sheet.json()["power_law"]
    assert (power["exponent"], np.log(power["coefficient"])) == pytest.approx(tuple(expected))
    assert sheet.answer == ""
    same = laws_of([group(1e6, seed) for seed in range(2)])
    assert [table.name for table in same.sheet().tables] == ["groups"]
    with pytest.raises(ValueError, match="forecast needs a column of sizes"):
        laws_of([group(1e6, 0)], forecasts=(64e6,))


class Known:
    """A law of which only B* and its interval are asked."""

    def __init__(self, *ends):
        self.ends = ends

    def critical_batch_size(self, convention):
        return 100.0

    def interval(self, name, level, convention):
        return self.ends


@pytest.mark.parametrize("ends", [(0.0, 300.0), (30.0, np.inf), (0.0, np.inf)])
def test_an_interval_that_is_open_at_either_end_is_the_answer(ends):
    one, two = group(1e6, 0), group(4e6, 1)

    def answer(measurements, *laws):
        return st.fits.LawsOfGroups(measurements, laws, st.fits.SMALLEST)._answer()

    shown = {(0.0, 300.0): "0 … 300", (30.0, np.inf): "30 … ∞", (0.0, np.inf): "0 … ∞"}[ends]
    assert answer((one,), Known(*ends)) == f"B* is not determined: its 95% interval is {shown}"
    assert answer((one, two), Known(50.0, 200.0), Known(*ends)) == f"B* is not determined (95%) for 4e+06, {shown}"
    assert answer((one,), Known(50.0, 200.0)).startswith("B* = 100 (50 … 200, 95%), ")
