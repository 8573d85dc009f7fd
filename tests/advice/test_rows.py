"""Numbers of single rows of advice, each by hand, and what a reader sees of them."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.advice.duration import duration_factor
from sgdtheory.advice.row import Estimate
from tests.advice.test_change import SETUP

NOW = {"batch_size": 64, "learning_rate": 0.01}
KAPPA = {1: np.pi**2 / 4, 2: 2.0, 4: 16 / 9}  # κ_B of signs (T37)


def change(new, optimizer="adam", fit=None, **more):
    return st.change_batch_size(NOW | more, new_batch_size=new, optimizer=optimizer, fit=fit)


@pytest.mark.parametrize(("old", "new"), [(1, 4), (4, 2), (2, 1)])
def test_signs_of_single_gradients_need_their_own_noise_in_data_too(old, new):
    """κ' (B' + 𝓑) over κ (B + 𝓑), with 𝓑 = B*/0.2; without B* 𝓑 lies anywhere."""
    waste = KAPPA[new] / KAPPA[old]
    row = change(new, "sign", batch_size=old, beta1=0, critical_batch_size=10.0)["extra_data"]
    assert row.new == pytest.approx(waste * (new + 50) / (old + 50) - 1)
    row = change(new, "sign", batch_size=old, beta1=0)["extra_data"]
    ends = sorted((waste - 1, waste * new / old - 1))
    assert (row.new, row.low, row.high) == pytest.approx((waste - 1, *ends))
    assert change(new, "sgd", batch_size=old, beta1=0, critical_batch_size=10.0)["extra_data"].new == pytest.approx(
        (new + 50) / (old + 50) - 1
    )


def test_memories_and_their_ranges():
    """From those kept in samples to those kept; momentum of SGD is kept; β₂ of Lion has no floor."""
    for optimizer, new in (("momentum", 0.9), ("adam", 0.9**4), ("signum", 0.9**4)):
        assert change(256, optimizer, beta1=0.9)["beta1"][1:5] == pytest.approx((0.9, new, 0.9**4, 0.9))
    assert change(16, "momentum", beta1=0.9)["beta1"][1:5] == pytest.approx((0.9, 0.9, 0.9, 0.9**0.25))
    for optimizer, new in (("adam", 0.8), ("lion", 0.9**4)):
        assert change(256, optimizer, beta2=0.9)["beta2"][1:5] == pytest.approx((0.9, new, 0.9**4, 0.9))
    for optimizer in ("sgd", "momentum"):
        assert {row.name for row in change(256, optimizer, beta2=0.9).rows} == {"learning_rate", "extra_data"}


def test_adam_is_told_by_a_weight_decay_too_but_not_by_none():
    assert change(128, None, weight_decay=0.1).optimizer == "adam"
    with pytest.raises(ValueError, match="the settings do not say which it is"):
        change(128, None, weight_decay=0)


@pytest.mark.parametrize(
    ("family", "batch", "size", "ratio", "value", "low", "high"),
    [
        # Adam's kink lies at 60, or 42: below it D^−0.35, and on its way beyond (B/kink)^0.92 of what it passes
        ("adam", 50, 300, 10, 10**-0.35, 0.1, 1.0),
        ("adam", 120, 300, 10, 10**-0.35 * 2**0.92, 0.1, 10**-0.35 * (120 / 42) ** 0.92),
        ("adam", 1e4, 300, 10, 1.0, 0.1, 10 ** (0.92 * 0.6 - 0.35)),
        ("adam", 1e4, 300, 0.1, 1.0, 10 ** (0.35 - 0.92 * 0.6), 10.0),
        # SGD's at 60, or 69, where D^−1/3, or 1/D, ends
        ("sgd", 50, 100, 10, 10 ** (-1 / 3), 0.1, 1.0),
        ("sgd", 100, 100, 10, 10 ** (-1 / 3) * 100 / 60, 100 / 69 / 10, 1.0),
        ("sgd", 1e4, 100, 10, 10**-0.05, 10**-0.05, 1.0),
        ("sgd", 60, 100, 0.1, 10**0.05, 1.0, 6.9 / 60 * 10),
    ],
)
def test_factors_of_more_data_around_the_kink(family, batch, size, ratio, value, low, high):
    """The ends lie farther by D^±0.05, for what finite durations differ by."""
    found = duration_factor(family, batch, ratio, Estimate(size, np.nan, np.nan))
    assert found == pytest.approx((value, low * 10**-0.05, high * 10**0.05))


def test_reasons_have_the_numbers_of_the_other_rule():
    longer = st.change_batch_size(SETUP, new_batch_size=128, new_num_samples=3.2e7, optimizer="adamw")
    assert "keeping its share of the run instead gives 10,000 steps" in longer["warmup_steps"].reason
    assert "keeping the samples of the decay instead gives 5,000 steps" in longer["decay_steps"].reason
    same = st.change_batch_size(SETUP, new_batch_size=128, optimizer="adamw")
    assert "keeping its share" not in same["warmup_steps"].reason
    assert all(any("here by 0.707, as the noise" in each for each in found.unknown) for found in (same, longer))
    assert not any("how γ* moves with D" in each for each in same.unknown)
    data = st.change_batch_size(SETUP, new_num_samples=3.2e7, optimizer="adamw")
    assert not any("here by" in each or "√B" in each for each in data.unknown)
    known = st.change_batch_size(SETUP | {"critical_batch_size": 50.0}, new_num_samples=3.2e7, optimizer="adamw")
    assert "the kink is taken at 0.2 B*" in known["learning_rate"].reason
    assert not any("beyond B*" in each for each in known.unknown)


def test_what_a_reader_sees_of_rows():
    """Shares of data in percent, steps without decimals, a dash where nothing says how far a number is known."""
    setup = NOW | {"beta2": 0.95, "warmup_steps": 3001, "num_steps": 20_000, "weight_decay": 0.1}
    _, cells = change(256, **setup | {"critical_batch_size": 1e3}).sheet().tables[0].grid()
    rows = {row[0]: row[1:] for row in cells}
    assert rows["extra data"] == ["", f"{5256 / 5064 - 1:+.1%}", "—"]
    assert rows["warm-up, steps"] == ["3,001", "750", "1 … 3,001"]
    assert rows["steps"] == ["20,000", f"{5000 * 5256 / 5064:,.0f}", "—"]
    assert rows["β₂"] == ["0.95", "0.8145", "0.8145 … 0.95"]
    unknown = {row[0]: row[1:] for row in change(256, **setup).sheet().tables[0].grid()[1]}
    assert unknown["extra data"] == ["", "+0.0%", "+0.0% … +300.0%"]
    assert unknown["steps"][2] == "5,000 … 20,000"


@pytest.mark.parametrize("overhead", [0.2, 0.5])
def test_a_table_of_steps_brings_its_b_star(overhead):
    """B* = ω 𝓑 + (1 + ω) B_ref, and its ends, of which none leaves less than nothing for 𝓑."""
    convention = st.fits.Convention(None, overhead)
    for ends in ((150.0, 400.0), (20.0, 400.0)):
        critical = st.fits.FittedCriticalBatchSize(250.0, *ends, convention, 0.95)
        table = st.fits.StepsTable([32, 64, 256], [9000, 5000, 2000], critical=critical)
        row = change(256, "sgd", fit=table)["extra_data"]
        scales = [max(0.0, size - (1 + overhead) * 32) / overhead for size in (250.0, *ends)]
        value, most, least = ((256 + scale) / (64 + scale) - 1 for scale in scales)
        assert (row.new, row.low, row.high) == pytest.approx((value, least, most))
        assert f"B* = 250 ({ends[0]:g} … 400), {overhead:.0%} more data than at batch size 32" in row.reason


def test_data_that_steps_do_not_have_up_to_one_step_more_or_less():
    for samples in (3200 - 64, 3200 + 64):
        assert st.advice.TrainingSetup(**NOW, num_steps=50, num_samples=samples).samples == samples
    for samples in (3200 - 65, 3200 + 65):
        with pytest.raises(ValueError, match="up to one step"):
            st.advice.TrainingSetup(**NOW, num_steps=50, num_samples=samples)


@pytest.mark.parametrize(("most", "remarked"), [(8, False), (7, True), (None, False)])
def test_the_share_of_a_device_that_maxtext_would_accumulate(most, remarked):
    """16 samples on 2 devices; trainers that accumulate have no such remark."""
    run = st.advice.RampedRun(((0, 8), (80, 16)), 1600, 1.0)
    machine = st.fits.Machine(st.fits.ConstantThroughput(1.0), (2,), 1, most)
    known = {"machine": machine, "devices": 2, "sequence_length": 512}
    remark = st.advice.in_settings_of("maxtext", run, **known).remarks[-1]
    assert remark.startswith("a device takes 8 samples at once") == remarked
    others = [each for name in ("megatron", "olmo") for each in st.advice.in_settings_of(name, run, **known).remarks]
    assert not any("a device takes" in each for each in others)
