"""`fit` and `fit-grid` on logs: wiring; the numbers are tested where they are made."""

import gzip

import pytest

from tests.cli.made import BATCHES, folder_of_logs, run_of
from tests.logs.text_writers import PRINTINGS


def test_from_a_folder_of_logs_to_the_critical_batch_size(run, tmp_path):
    folder = folder_of_logs(tmp_path / "runs", "key values")
    sizes = ["--batch-size", ",".join(f"bs{batch}/train={batch}" for batch in BATCHES)]
    found = run.json("fit", folder, "--target-loss", 3, *sizes, "--reference", 32)
    (group,) = found["groups"]
    assert group["b"] / group["a"] == pytest.approx(100, rel=0.02)
    assert group["critical_batch_size"] == pytest.approx(0.2 * 100 + 1.2 * 32, rel=0.02)
    assert [each["batch_size"] for each in found["runs"]] == [128, 32, 512]
    assert [each["steps"] for each in found["runs"]] == pytest.approx([712.5, 1650, 478.125], rel=0.01)


def test_the_table_of_runs(run, tmp_path):
    folder = folder_of_logs(tmp_path / "runs", "megatron")
    steps = tmp_path / "steps.csv"
    out = run("fit", folder, "--target-loss", 3, "--reference", 32, "--steps-csv", steps)
    assert "steps to loss 3, interpolated between training losses" in out
    assert "bs128/train 128 0.001 71" in " ".join(out.replace("│", " ").split())
    again = run.json("fit", steps, "--reference", 32)
    assert again["groups"][0]["b"] / again["groups"][0]["a"] == pytest.approx(100, rel=0.02)
    assert "Batch size" in run("plan", steps, "--throughput", 12)


def test_lines_of_tokens_and_their_length(run, tmp_path):
    folder = folder_of_logs(tmp_path / "runs", "olmo-core")
    found = run.json("fit", folder, "--target-loss", 3, "--sequence-length", 2048)
    assert sorted(each["batch_size"] for each in found["runs"]) == [*BATCHES]


def test_preview(run, tmp_path):
    folder = folder_of_logs(tmp_path / "runs", "nanogpt")
    for command in ("fit", "fit-grid"):
        out = run(command, folder, "--preview")
        assert "bs32/train: nanoGPT, 300 rows" in out
        assert ("no learning rate is logged" in out) == (command == "fit-grid")  # the other needs none
        assert "batch size not known" not in out


def test_preview_says_what_the_fit_would_stop_at(run, tmp_path):
    """The preview reads arguments like the fit: a number for each run is one, and a warm-up matters to neither."""
    folder = folder_of_logs(tmp_path / "runs", "olmo")
    out = run("fit", folder, "--preview", "--batch-size", "bs32/train=32,bs128/train=128")
    assert out.count("batch size not known") == 1
    assert "bs512/train: batch size not known" in out
    assert "warm-up" not in out
    assert "no training loss is recognized" not in out
    out = run("fit", folder, "--preview", "--batch-size", "8", "--loss", "eval")
    assert out.count("no evaluation loss is recognized") == len(BATCHES)


def test_a_grid_from_logs(run, tmp_path):
    """Constant rates: every point is the end of a run."""
    folder = folder_of_logs(tmp_path / "runs", "megatron")
    for batch in BATCHES:
        for rate in (5e-4, 2e-3):
            worse = run_of(batch, rate=rate)
            text = PRINTINGS["megatron"].text(worse._replace(loss=worse.loss * 1.02))
            (folder / f"bs{batch}" / f"{rate}.log").write_text(text)
    found = run.json("fit-grid", folder, "--target", 3, "--reference", 32)
    (target,) = found["targets"]
    assert target["b"] / target["a"] == pytest.approx(100, rel=0.05)


def test_a_grid_from_a_compressed_log_of_several_runs(run, tmp_path):
    """A file that is no CSV in UTF-8 may still be a log."""
    rows = [
        f"bs{batch},{batch},{step:g},1e-3,{loss:g}\n"
        for batch in BATCHES
        for step, loss in zip(*run_of(batch)[:2], strict=True)
    ]
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(gzip.compress(("run,batch_size,step,lr,loss\n" + "".join(rows)).encode()))
    (target,) = run.json("fit-grid", path, "--target", 3, "--reference", 32)["targets"]
    assert target["b"] / target["a"] == pytest.approx(100, rel=0.05)
