"""Commands on logs and measurements: what each refuses and why, and which keys its JSON has."""

import shlex

import numpy as np
import pytest

from tests.cli.test_fit_logs import folder_of_logs
from tests.cli.text import strict_json
from tests.data.synthetic import power_law_rows

REFUSALS = {  # command → part of the one line on standard error, with exit status 2
    "fit-curves log.csv --optimizer sgd --hold-out none": "hold-out must name curves, got none; there are log",
    "fit-curves log.csv --optimizer sgd --hold-out log": "hold-out must leave curves to fit",
    "fit-curves count.csv": "count: no column counts optimizer steps; name it, --step",
    "fit-curves --preview": "preview needs files: name logs",
    "fit-curves --example 1B": "model must be one of",
    "fit-curves log.csv --loss nll": "no log has a column 'nll'; there are: 'step'",
    "fit-curves none.csv": "cannot read",
    "forecast log.csv": "num-steps must be given: the log does not say",
    "forecast log.csv --num-steps 24000 --schedule cosinus": "cosinus",
    "forecast none.csv --num-steps 24000": "none.csv",
    "advise --new-batch-size 256 --batch-size 64": "the learning rate now is not known: give --learning-rate\n",
    "advise log.csv --new-batch-size 256": "the batch size now is not known: give --batch-size",
    "features none.npy y.npy": "features must be a file that exists",
    "features X.npy short.npy": "targets must have one row for each of the 150",
    "features X.npy y.npy --write s.txt": "write must end in .npz or .csv",
    "features X.npy y.npy --plot s.jpg": "plot must end in",
    "features": "features needs FEATURES, TARGETS too",
    "noise-scale log.csv --small-batch 4 --large-batch 32 --small-norms nope": "no log has a column 'nope'",
    "noise-scale --small-batch 4 --large-batch 32": "needs LOG",
    "noise-scale two.csv --small-batch 4 --large-batch 32": "holds 2 runs (a, b): give the log of one",
    "fit steps.csv --group g --level 1": "level must lie between 0 and 1, got 1",
    "fit steps.csv --group g --steps Z": "has no column 'Z'; its columns are: 'g', 'size', 'batch_size', 'steps'",
    "fit steps.csv --group g --plot figure.jpg": "plot must end in .png, .pdf or .svg, got figure.jpg",
    "fit steps.csv --group g --size size --forecast 100 0": "forecast",
    "fit steps.csv --group g --forecast 100": "forecast needs a column of sizes (--size)",
    "fit steps.csv": "line 6: batch_size 64 occurs twice, with different g; keep its best run, or name the column",
    "fit --group model": "give the file too",
    "fit --standard-error se": "give the file too",
    "fit steps.csv --data mlperf": "data names measurements of the package",
    "fit nothing.csv": "nothing.csv: No such file or directory",
    "fit --optimal-batch-size --fit-alpha": "--fit-alpha and --optimal-batch-size are two laws",
    "fit --pool-scatter": "give --optimal-batch-size too",
    "fit --example --json": "leave everything else out",
    "fit steps.csv --example": "leave everything else out",
    "fit --example --level 0.9": "leave everything else out",
    "fit runs --target-loss 3": "bs128/train: batch size not known",
    "fit runs --target-loss 3 --loss train": "or name of the run → B",
    "fit runs --target-loss 2.01 --batch-size 8": "is not reached at 3 batch sizes",
    "fit runs --target-loss 30 --batch-size 8": "all 3 runs are already below it at their first row (step 10 or",
    "fit runs --target-loss 3 --batch-size a=x": "run=64,other=256",
    "fit --target-loss 3": "--target-loss needs logs: name files or folders",
    "fit runs": "runs is a folder, not a table of measurements; add --target-loss LOSS",
    "fit runs/bs32/train.log": "train.log is a log, not a table of measurements; add --target-loss LOSS",
    "fit empty --target-loss 3": "holds no log of a known format",
    "fit-grid runs --sequence-length 2048": "no learning rate is logged",
    "fit-grid steps.csv": "has no column 'samples'; its columns are: 'g', 'size'",
    "fit-grid grid.csv --size size": "has no column 'size'; its columns are: 'batch_size', 'samples'",
    "fit-grid --json": "fit-grid needs a CSV file of losses, or logs",
    "fit-grid grid.csv --plot x.gif": "plot must end in .png, .pdf or .svg",
    "plan steps.csv --group g --throughput 2": "target must name the group to plan for, one of s, l",
    "plan steps.csv --group g --throughput 2 --target m": "target must be one of s, l, got m",
    "plan steps.csv --group g --throughput 2 --target s --throughput-table x.csv": "throughput-table, one of the two",
    "plan steps.csv --group g --throughput 2 --target s --deadline soon": "such as 72h, 3d or 90min, got soon",
    "plan steps.csv --group g --throughput 2 --target s --trainer hf": "learning-rate must be a number for trainer hf",
    "plan steps.csv --group g --throughput 2 --target s --trainer olmo --learning-rate 1": "sequence-length must be",
    "plan steps.csv --group g --throughput 2 --target s --plot x.jpg": "plot must end in .png, .pdf or .svg",
    "plan steps.csv --group g --target s": "give --throughput",
    "plan counts.csv --throughput 2": "has no column 'steps'",
    "plan none.csv --throughput 2": "cannot read",
    "plan log.csv --throughput 2 --schedule": "schedule needs several losses on the way: --target-loss",
    "plan log.csv --throughput 2 --optimizer sgd --target x": "target must be one of no group, got x",
}
KEYS = {  # command → keys of its JSON beside "notes"
    "advise log.csv --batch-size 64 --new-batch-size 256 --optimizer sgd": "optimizer batch_size "
    "new_batch_size headline unknown rows",
    "noise-scale norms.csv --small-batch 4 --large-batch 32": "noise_scale interval level rows left_out "
    "squared_gradient trace drift path",
    "fit steps.csv --group g --size size": "convention level groups power_law forecasts sensitivity",
    "fit-grid grid.csv": "groups convention level targets degradation laws",
    "plan steps.csv --group g --target s --throughput 2": "choice reachable knee knee_interval critical_batch_size "
    "critical_batch_size_interval smallest_batch_size smallest_batch_size_interval optimal_batch_size "
    "optimal_batch_size_interval max_micro_batch reference overhead level rows",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of every kind that the commands read."""
    place = tmp_path_factory.mktemp("files")
    rows = [f"{t},1e-3,{3 + 20 / t}" for t in range(10, 210, 10)]
    (place / "log.csv").write_text("\n".join(["step,learning_rate,loss", *rows]))
    (place / "count.csv").write_text("\n".join(["t,lr,loss", *rows]))
    (place / "counts.csv").write_text("batch_size,count\n8,100\n")
    norms = [f"{t},{9.5 + 0.1 * (t % 3)},{3 + 0.1 * (t % 2)}" for t in range(100)]
    (place / "norms.csv").write_text("\n".join(["step,small_norm,large_norm", *norms]))
    (place / "two.csv").write_text("run,step,small_norm,large_norm\na,1,2,1\na,2,2,1\nb,1,2,1\nb,2,2,1\n")
    steps = [
        f"{g},{size},{B},{a + 500 * a / B}" for g, size, a in (("s", 1, 90), ("l", 2, 99)) for B in (64, 256, 512, 1024)
    ]
    (place / "steps.csv").write_text("\n".join(["g,size,batch_size,steps", *steps]))
    B, D, rate = (each.ravel() for each in np.meshgrid(2.0 ** np.arange(4, 8), 2.0 ** np.arange(12, 16), [0.5, 1, 2]))
    loss = (2 + 30 * (D / (1 + B / 200)) ** -0.5) * (1 + 0.02 * np.log(rate) ** 2)
    grid = [",".join(f"{each:.12g}" for each in row) for row in zip(B, D, rate, loss, strict=True)]
    (place / "grid.csv").write_text("\n".join(["batch_size,samples,learning_rate,loss", *grid]))
    x, y = power_law_rows(np.random.default_rng(0), 150, 5, 1.5, 2.0)
    for name, values in (("X", x), ("y", y), ("short", np.zeros(10))):
        np.save(place / f"{name}.npy", values)
    (place / "empty").mkdir()
    folder_of_logs(place / "runs", "olmo")
    return place


@pytest.mark.parametrize("command", REFUSALS)
def test_refusals(fails, monkeypatch, folder, command):
    monkeypatch.chdir(folder)
    assert REFUSALS[command] in fails(*shlex.split(command))


@pytest.mark.parametrize("command", ["fit-curves", "forecast", "plan", "fit", "fit-grid"])
def test_previews(run, monkeypatch, folder, command):
    """The same of every command that reads logs, and nothing that its other flags ask for is missed."""
    monkeypatch.chdir(folder)
    machine = ["--throughput", 2] if command == "plan" else []
    assert run(command, "log.csv", "--preview", *machine).startswith("log: CSV, 20 rows")


@pytest.mark.parametrize("command", KEYS)
def test_keys(run, monkeypatch, folder, command):
    monkeypatch.chdir(folder)
    assert {*KEYS[command].split(), "notes"} == set(strict_json(run(*shlex.split(command), "--json")))
