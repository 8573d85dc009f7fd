"""`sgdtheory fit-sweep`: one notion of an interval, a sentence where nothing can be fitted, advice that works."""

import contextlib
import csv
import io
import shlex
from pathlib import Path

import numpy as np
import pytest

from sgdtheory import cli
from sgdtheory.plotting import style
from sgdtheory.training import TrainConfig, TrainResult
from sgdtheory.training.checkpoint import write_config, write_result

STEPS = np.unique(np.geomspace(1, 4000, 60).astype(int))
BATCHES = 16, 40, 100, 250, 625
RATES = 0.1, 0.2, 0.4


def run_of(config, steps):
    """A run whose loss is 1 at this many steps and goes like one over them, to 0.5 and below."""
    losses = steps / np.maximum(STEPS, 0.5)
    none = np.full(STEPS.size, np.nan)
    return TrainResult(config, "steps", 4000, STEPS, losses[:, None], none, none, none, 1, 0.0, 0.0)


def make_store(
    folder, *, widths=(32, 64, 128), batches=BATCHES, rates=RATES, scatter=0.05, best=0.2, target=1.0, balance=150
):
    """A store of hand-made runs with steps = 40 (1 + balance/B) at the best learning rate."""
    rng = np.random.default_rng(1)
    for width in widths:
        for batch in batches:
            steps = (40 + 40 * balance / batch) * np.exp(scatter * rng.standard_normal())
            for rate in rates:
                config = TrainConfig(width=width, batch_size=batch, learning_rate=rate, averages=(), target_loss=target)
                result = run_of(config, steps * (1 + abs(np.log2(rate / best))))
                write_config(folder / config.fingerprint, config)
                write_result(folder / config.fingerprint, result)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """For tests that read it."""
    return make_store(tmp_path_factory.mktemp("sweep"))


@pytest.fixture
def figures(monkeypatch):
    found, make = [], style.new_figure

    def noted(*arguments, **options):
        found.append(make(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(style, "new_figure", noted)
    return found


def bars(axes):
    """(low, high) of every error bar, curve by curve."""
    return [[tuple(ends[:, 1]) for ends in each[2][0].get_segments()] for each in axes.containers]


def ends(rows):
    return [tuple(row["critical_batch_size_interval"]) for row in rows]


def test_table_json_and_figure_show_the_same_intervals(run, figures, store, tmp_path):
    arguments = ["fit-sweep", store, "--target-loss", "1.0", "0.7"]
    found = run.json(*arguments, "--plot", tmp_path / "fit.png")
    ((_, axes),) = figures
    assert axes.shape == (1, 3)
    rows = found["groups"]
    by_width = [[row for row in rows if row["target_loss"] == target] for target in (1.0, 0.7)]
    by_data = [[row for row in rows if row["group"] == f"width {width}"] for width in (32, 64, 128)]
    for shown, wanted in ((axes[0, 1], by_width), (axes[0, 2], by_data)):
        for drawn, expected in zip(bars(shown), wanted, strict=True):
            np.testing.assert_allclose(drawn, ends(expected), rtol=1e-9)
    text = run(*arguments)
    for low, high in ends(rows):
        assert f"{low:.4g} … {high:.4g}" in text


def test_groups_share_their_scatter(run, store):
    """Together they have intervals of about one width; alone, each has that of its own scatter."""
    pooled = ends(run.json("fit-sweep", store)["groups"])
    alone = [ends(run.json("fit-sweep", store, "--where", f"width={width}")["groups"])[0] for width in (32, 64, 128)]
    widths = np.log([high / low for low, high in pooled])
    assert np.ptp(widths) < 0.2 * widths.mean()
    assert np.ptp([np.log(high / low) for low, high in alone]) > widths.mean() / 10


# ------------------------------------------------------------------ nothing to fit


NEEDED = "a group needs three tuned batch sizes"
NONE_REACHED = "of 10 batch sizes 0 are tuned, 0 have their best choice at the grid's end, 10 did not reach the"


@pytest.mark.parametrize(
    ("options", "flags", "message", "end"),
    [
        (
            {"best": 0.4},
            [],
            "of 15 batch sizes 0 are tuned, 15 have their best choice at the grid's end, 0 did not reach",
            "sgdtheory extend-sweep 'my store' --target-loss 1\n",
        ),
        ({"batches": (16, 40)}, [], f"{NEEDED}, it has 6; add batch sizes to the sweep", ""),
        (
            {"target": None},
            ["--target-loss", "1e-9", "--where", "width=32,64"],
            NONE_REACHED,
            "sgdtheory extend-sweep 'my store' --target-loss 1e-09 --where width=32,64\n",
        ),
    ],
)
def test_nothing_fitted_is_one_sentence_and_status_2(fails, tmp_path, monkeypatch, options, flags, message, end):
    monkeypatch.chdir(tmp_path)
    text = fails("fit-sweep", make_store(Path("my store"), **options), *flags)
    assert f"nothing to fit in my store: {NEEDED}" in text
    assert message in text
    assert text.endswith(end)
    if "target" in options:
        assert "target-loss must be given" in fails("extend-sweep", "my store")


def test_a_store_without_a_finished_run(fails, tmp_path):
    config = TrainConfig(target_loss=0.5)
    write_config(tmp_path / "store" / config.fingerprint, config)
    text = fails("fit-sweep", tmp_path / "store")
    assert text.endswith(f"nothing to fit in {tmp_path}/store: none of its 1 runs has ended; sweep first\n")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (["width=7"], "where width must be one of 32, 64, 128, got 7"),
        (["width"], "where must be FIELD=VALUE, as width=32 or width=32,64, got width"),
        (["witdh=7"], "(did you mean width?)"),
    ],
)
def test_filters_that_are_none(fails, store, where, message):
    assert message in fails("fit-sweep", store, "--where", *where)
    assert message in fails("show-sweep", store, "--where", *where)


def test_a_filtered_store(run, store, tmp_path):
    found = run.json("fit-sweep", store, "--where", "width=32,128", "batch-size=16,40,100,250")
    assert [row["group"] for row in found["groups"]] == ["width 32", "width 128"]
    assert found["groups"][0]["batch_sizes"] == [16, 40, 100, 250]
    rows = run("show-sweep", store, "--where", "width=32", "learning_rate=0.1", "--csv", tmp_path / "t.csv")
    assert "5 runs in" in rows
    table = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert {(row["width"], row["learning_rate"]) for row in table} == {("32", "0.1")}


def test_loss_curves_of_a_store_are_a_grid_of_losses(run, store, tmp_path):
    run("show-sweep", store, "--losses", tmp_path / "grid.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "grid.csv").read_text())))
    assert {row["group"] for row in rows} == {"width 32", "width 64", "width 128"}
    names = ["--group", "group", "--size", "size", "--seed", "seed"]
    found = run.json("fit-grid", tmp_path / "grid.csv", *names)
    assert [group["size"] for group in found["groups"]] == [32, 64, 128]


# ------------------------------------------------------------------ advice that works

GRID = """
[fixed]
width = 8
base_width = 8
depth = 1
input_dim = 4
holdout_size = 16
max_steps = 24
eval_every = 4
averages = [0.5]
target_loss = {target}
[grid]
learning_rate = [0.01, 0.02]
batch_size = [2, 4, 8]
"""


@pytest.mark.slow
def test_the_advice_can_be_followed(run, fails, tmp_path, capsys):
    """A store in which nothing can be fitted leads to a fit by the commands that `fit-sweep` prints."""
    (tmp_path / "grid.toml").write_text(GRID.format(target=1.2))
    store = tmp_path / "store"
    run("sweep", tmp_path / "grid.toml", "--store", store)
    text, seen = fails("fit-sweep", store), []
    for _ in range(8):
        command = shlex.split(text.partition("fit again: sgdtheory ")[2])
        assert command[:2] == ["extend-sweep", str(store)]
        number = len(list(store.glob("*/result.json")))
        run(*command)
        seen.append(len(list(store.glob("*/result.json"))) - number)
        with contextlib.suppress(SystemExit):
            cli.main(["fit-sweep", str(store)])
        text = capsys.readouterr().err
        if "fit again" not in text:
            break
    assert min(seen) > 0
    assert "fit again" not in text
    assert "nothing to add" in run("extend-sweep", store)


@pytest.mark.slow
def test_a_lower_target_goes_on(run, fails, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID.format(target=1.6))
    store = tmp_path / "store"
    run("sweep", tmp_path / "grid.toml", "--store", store)
    assert "--target-loss must be at least 1.6" in fails("fit-sweep", store, "--target-loss", "1.2")
    stopped = run.json("show-sweep", store)["outcomes"]["target"]
    assert f"{stopped} runs in" in run("extend-sweep", store, "--target-loss", "1.2")
    assert "--target-loss must be" not in fails("fit-sweep", store, "--target-loss", "1.2")
