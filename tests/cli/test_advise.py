import numpy as np
import pytest

import sgdtheory as st
from tests.cli.made import grid_of_losses, write_table
from tests.cli.text import cells

FLAGS = ["advise", "--batch-size", 64, "--new-batch-size", 256, "--learning-rate", 3e-4, "--beta2", 0.95]


def test_numbers_come_first_and_are_those_of_the_library(run):
    lines = run(*FLAGS, "--warmup", 2000, "--weight-decay", 0.1).splitlines()
    assert lines[0].startswith(
        "B* is not known: beyond it the extra data grow up to +300%. Measure it with `sgdtheory fit`"
    )
    assert "adam: batch size 64 → 256" in [line.strip() for line in lines]
    known = run(*FLAGS, "--critical-batch-size", 98, "--reference", 32).splitlines()
    assert known[0] == "B* = 98, 20% more data than at batch size 32"
    assert known[1].strip() == "adam: batch size 64 → 256"
    assert cells("\n".join(known), "extra data")[-1] == "—"
    found = run.json(*FLAGS, "--warmup", 2000, "--weight-decay", 0.1)
    setup = {"batch_size": 64, "learning_rate": 3e-4, "beta2": 0.95, "warmup_steps": 2000, "weight_decay": 0.1}
    change = st.change_batch_size(setup, new_batch_size=256, optimizer="adam")
    assert [row["new"] for row in found["rows"]] == [row.new for row in change.rows]
    assert found["unknown"] == list(change.unknown)
    for row in change.rows:
        assert any(row.reason[:30] in line for line in lines)


def test_a_grid_file(run, tmp_path):
    grid = grid_of_losses(2.0 ** np.arange(4, 9), 2.0 ** np.arange(16, 21), 2.0 ** np.arange(-4, 3), 0.3)
    found = run.json(*FLAGS, write_table(tmp_path / "grid.csv", grid))
    assert found["rows"][0]["new"] == pytest.approx(3e-4 * 4**0.3, rel=0.02)


def test_a_log_says_what_the_settings_are(run, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "step,loss,learning_rate,batch_size\n" + "".join(f"{k},{3 - k / 1e3},{1e-3},{64}\n" for k in range(1, 9))
    )
    found = run.json("advise", path, "--new-batch-size", 256, "--optimizer", "sgd")
    assert found["batch_size"] == 64
    assert found["rows"][0]["old"] == 1e-3


def test_logs_at_several_batch_sizes_are_a_grid(run, tmp_path):
    """Ends of runs on a law with γ* ∝ B^0.3, as logs; the settings come from flags."""
    grid = grid_of_losses((16, 64, 256), (2**16, 2**18, 2**20), 2.0 ** np.arange(-4, 3), 0.3)
    for number, (B, D, rate, loss) in enumerate(zip(*grid.values(), strict=True)):
        rows = [f"{k},{loss * D / (B * k)},{rate * (D - B * k + B) / D},{B}" for k in (D // (2 * B), D // B)]
        (tmp_path / f"run{number}.csv").write_text("\n".join(["step,loss,learning_rate,batch_size", *rows]))
    found = run.json(*FLAGS, tmp_path)
    assert found["rows"][0]["new"] == pytest.approx(3e-4 * 4**0.3, rel=0.05)


def test_the_optimizer_is_the_one_that_the_log_names_unless_a_flag_says_another(run, notes, tmp_path):
    path = tmp_path / "log"
    lines = ["Config param opt_type: muon", "Config param learning_rate: 0.01", "Config param adam_b1: 0.9"]
    lines += [f"completed step: {k}, seconds: 0.9, loss: {3 - k / 100:.3f}, total_weights: 1" for k in range(9)]
    path.write_text("\n".join(lines))
    flags = ["advise", path, "--new-batch-size", 256, "--batch-size", 64]
    assert run.json(*flags)["optimizer"] == "muon"
    assert run.json(*flags, "--optimizer", "sgd")["rows"][0]["new"] == pytest.approx(0.04)
    _, lines = notes(*flags, "--optimizer", "sgd")
    assert "the log names the optimizer muon, but --optimizer sgd overrides it" in lines
    path.write_text(path.read_text().replace("muon", "shampoo"))
    out, lines = notes(*flags)
    assert "adam: batch size 64 → 256" in [line.strip() for line in out.splitlines()]
    assert any("optimizer shampoo is not known here; Adam is assumed, since MaxText trains" in each for each in lines)


def test_b_star_is_the_one_that_fit_prints(run, tmp_path):
    """The number and the reference agree; passed back to `advise`, they lead to the same data."""
    batches, steps = [32, 128, 512, 2048], [94_900, 25_500, 8_050, 3_870]
    path = tmp_path / "steps.csv"
    path.write_text("batch_size,steps\n" + "".join(f"{b},{s}\n" for b, s in zip(batches, steps, strict=True)))
    (printed,) = run.json("fit", path)["groups"]
    size = printed["critical_batch_size"]
    setup = {"batch_size": 32, "learning_rate": 3e-4}
    of_fit = st.change_batch_size(setup, new_batch_size=64, optimizer="adam", fit=st.fit_steps_law(batches, steps))[
        "extra_data"
    ]
    assert f"B* = {size:.4g} (" in of_fit.reason
    assert "20% more data than at batch size 32" in of_fit.reason
    flags = ["advise", "--batch-size", 32, "--new-batch-size", 64, "--learning-rate", 3e-4, "--optimizer", "adam"]
    found = run.json(*flags, "--critical-batch-size", size, "--reference", 32)
    assert found["rows"][-1]["new"] == pytest.approx(of_fit.new)


LONGER = ["advise", "--batch-size", 64, "--learning-rate", 3e-4, "--optimizer", "adamw", "--num-samples", "3.2e6"]


def test_a_longer_run(run):
    """The answer is the first line; the numbers are those of the library."""
    flags = [*LONGER, "--new-num-samples", "3.2e7", "--weight-decay", 0.1, "--warmup", 2000]
    lines = run(*flags).splitlines()
    assert lines[0].startswith("10 times the data: learning rate 0.0003 → 0.000134 (2.674e-05 … 0.0005359)")
    assert lines[1].strip() == "adamw: batch size 64, data 3,200,000 → 32,000,000"
    assert cells("\n".join(lines), "τ of AdamW, share of the run")[1:3] == ["0.6667", "0.1981"]
    current = {"batch_size": 64, "learning_rate": 3e-4, "num_samples": 3.2e6, "weight_decay": 0.1, "warmup_steps": 2000}
    change = st.change_batch_size(current, new_num_samples=3.2e7, optimizer="adamw")
    assert [row["new"] for row in run.json(*flags)["rows"]] == [row.new for row in change.rows]
    both = run.json(*flags, "--new-batch-size", 256)
    assert (both["new_batch_size"], both["new_num_samples"]) == (256, 3.2e7)
    assert run(*flags, "--new-batch-size", 256).startswith(
        "10 times the data and 4 times the batch size: learning rate"
    )


def test_a_grid_has_its_own_law_of_duration(run, tmp_path):
    """γ* ∝ B^0.3 whatever the duration: γ is kept in a longer run, in a range that excludes D^−0.35."""
    grid = grid_of_losses(2.0 ** np.arange(4, 9), 2.0 ** np.arange(16, 21), 2.0 ** np.arange(-4, 3), 0.3)
    path = write_table(tmp_path / "grid.csv", grid)
    found = run.json(*LONGER, "--new-num-samples", "6.4e6", "--new-batch-size", 128, path)
    row = found["rows"][0]
    assert row["new"] == pytest.approx(3e-4 * 2**0.3, rel=0.02)
    assert row["low"] > 3e-4 * 2 ** (0.3 - 0.35)
    assert row["source"].startswith("your runs, fit_rates")


def grid_with_a_kink(seed):
    """γ* = 0.01 D^−0.3 (B^−2 + B_D^−2)^−0.3 and B_D = 100 (D/2^18)^0.5, two runs a point, noise of 0.2%."""
    random = np.random.default_rng(seed)
    batch, samples, apart = (
        each.ravel()
        for each in np.meshgrid(2.0 ** np.arange(3, 12), 2.0 ** np.arange(15, 22, 2), np.log(2) * np.arange(-3, 4))
    )
    best = best_rate_with_a_kink(batch, samples)
    loss = (
        (2 + 30 * (samples / (1 + batch / 200)) ** -0.5)
        * (1 + 0.02 * apart**2)
        * (1 + 0.002 * random.normal(size=batch.size))
    )
    return {"batch_size": batch, "samples": samples, "learning_rate": best * np.exp(apart), "loss": loss}


def best_rate_with_a_kink(batch, samples):
    kink = 100 * (samples / 2.0**18) ** 0.5
    return 0.01 * samples**-0.3 * (batch**-2.0 + kink**-2.0) ** -0.3


@pytest.mark.parametrize(("old", "new"), [(8, 64), (512, 2048)])
def test_a_new_batch_size_follows_the_kink_of_a_grid(run, tmp_path, old, new):
    """The interval of one power of B for all batch sizes of the grid misses the truth on both sides of the kink."""
    path = write_table(tmp_path / "grid.csv", grid_with_a_kink(1))
    now, truth = best_rate_with_a_kink(np.array([old, new]), 2.0**19)
    flags = ["--batch-size", old, "--new-batch-size", new, "--learning-rate", now, "--optimizer", "adam", path]
    row = run.json("advise", "--num-samples", 2**19, *flags)["rows"][0]
    assert row["new"] == pytest.approx(truth, rel=0.05)
    # The range takes the sharpness of the kink for known, which is 2% here.
    assert row["low"] / 1.02 <= truth <= row["high"] * 1.02
    one_power = run.json("advise", *flags)["rows"][0]
    assert not one_power["low"] / 1.2 <= truth <= one_power["high"] * 1.2


def test_a_grid_without_a_law_of_duration_says_why(notes, tmp_path):
    grid = grid_of_losses((16, 64, 256), (2**16, 2**18, 2**20), 2.0 ** np.arange(-4, 3), 0.3)
    out, lines = notes(*LONGER, "--new-num-samples", "6.4e6", write_table(tmp_path / "grid.csv", grid))
    assert "public language-model runs" in out
    assert any("the runs have no law of the best learning rate: table must have" in line for line in lines)


def test_the_data_of_a_flag_replace_the_steps_of_a_log(run, tmp_path):
    path = tmp_path / "log"
    lines = ["Config param opt_type: adamw", "Config param learning_rate: 0.001", "Config param steps: 1000"]
    lines += [f"completed step: {k}, seconds: 0.9, loss: {3 - k / 100:.3f}, total_weights: 1" for k in range(9)]
    path.write_text("\n".join(lines))
    flags = ["advise", path, "--batch-size", 64, "--new-num-samples", 640_000]
    assert run.json(*flags)["num_samples"] == 64_000
    assert run.json(*flags, "--num-samples", 128_000)["num_samples"] == 128_000


def test_logs_of_a_longer_run(run, fails, tmp_path):
    """A log at one batch size has the settings; of several, a flag names the one now."""
    for size in (64, 256):
        rows = "".join(f"{k},{3 - k / 1e3},{1e-3},{size}\n" for k in range(1, 9))
        (tmp_path / f"bs{size}.csv").write_text(f"step,loss,learning_rate,batch_size\n{rows}")
    flags = ["--new-num-samples", 1e5, "--num-samples", 1e4, "--optimizer", "sgd"]
    found = run.json("advise", tmp_path / "bs64.csv", *flags)
    assert (found["batch_size"], found["new_batch_size"]) == (64, 64)
    assert "the logs have several batch sizes, 64, 256: name the one now with --batch-size" in fails(
        "advise", tmp_path, *flags
    )
    assert run.json("advise", tmp_path, *flags, "--batch-size", 256)["batch_size"] == 256
