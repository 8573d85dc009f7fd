"""Files that commands read: logs of runs whose law is known, a grid of losses, steps, spectra and what is wrong."""

import json

import numpy as np

import sgdtheory as st
from tests.data.synthetic import power_law_rows
from tests.logs.text_writers import PRINTINGS, Run

BATCHES = 32, 128, 512
RAMP = 64, 256, 1024, 4096
BROKEN = {  # file → its content
    "empty.csv": "",
    "broken-header.csv": '"batch\nsize",steps\n64,1\n',
    "broken-cell.csv": 'batch_size,steps\n64,"1\n2"\n',
    "short-row.csv": "m,batch_size,steps\n,64\n",
    "text.npz": "no archive",
    "words.csv": "eigenvalues,signal\n1,x\n",
    "misspelt.toml": "[grid]\nwitdh = [8]",
    "counts.csv": "batch_size,count\n8,100\n",
    "two.csv": "run,step,small_norm,large_norm\na,1,2,1\na,2,2,1\nb,1,2,1\nb,2,2,1\n",
}
GRID = """
[fixed]
width = 8
base_width = 8
depth = 1
input_dim = 4
batch_size = 4
holdout_size = 16
max_steps = {steps}
eval_every = 20
averages = [0.9]
[grid]
learning_rate = [0.01, 0.03]
seed = [0, 1]
"""


def run_of(batch, length=3000, rate=1e-3):
    """Steps to a loss are ∝ 1 + 100/B; 400 (1 + 100/B) of them to loss 3."""
    steps = np.arange(10, length + 1, 10)
    loss = 2 + 20 * (steps / (1 + 100 / batch)) ** -0.5
    return Run(steps, loss, np.full(steps.size, rate), {}, batch, 2048, length)


def folder_of_logs(folder, printing):
    """A run a folder, all files of one name, beside other files."""
    for batch in BATCHES:
        (folder / f"bs{batch}").mkdir(parents=True)
        (folder / f"bs{batch}" / "train.log").write_text(PRINTINGS[printing].text(run_of(batch)))
    (folder / "README.md").write_text("# Runs, of ours\n\nA, b and c.\n")
    (folder / "config.json").write_text(json.dumps({"layers": 12}))
    return folder


def progress_to(loss):
    """Steps without noise to a loss."""
    return (20 / (loss - 2)) ** 2


def ramped_law(loss):
    """a and b: the noise scale grows along the run, so that a ramp saves steps."""
    return progress_to(loss), 10 * progress_to(loss) ** 1.5


def write_runs(folder, law, scatter=0.0):
    """Logs as CSV files in which the steps to every loss are a + b/B, times a wave of each run's own."""
    losses = np.linspace(5.0, 2.2, 400)
    a, b = np.array([law(loss) for loss in losses]).T
    folder.mkdir(exist_ok=True)
    for batch in RAMP:
        at = (a + b / batch) * np.exp(scatter * np.sin(4 * losses + batch))
        steps = np.unique(np.linspace(at[0], at[-1], 120).round())
        rows = zip(steps, np.interp(steps, at, losses), strict=True)
        lines = [f"{step:g},{loss:.7g},{2e-4 * (batch / 64) ** 0.5:g},{batch}" for step, loss in rows]
        (folder / f"bs{batch}.csv").write_text("\n".join(["step,loss,learning_rate,batch_size", *lines]))
    return folder


def grid_of_losses(batches, samples, rates, exponent):
    """Columns of a grid with B* of the law 1 + B/200 and best learning rates ∝ B^exponent."""
    B, D, rate = (each.ravel() for each in np.meshgrid(batches, samples, rates))
    loss = (2 + 30 * (D / (1 + B / 200)) ** -0.5) * (1 + 0.02 * np.log(rate / (B / 256) ** exponent) ** 2)
    return {"batch_size": B, "samples": D, "learning_rate": rate, "loss": loss}


def write_table(path, columns):
    """Write columns by their names as a CSV file."""
    np.savetxt(path, np.column_stack(list(columns.values())), "%.12g", ",", header=",".join(columns), comments="")
    return path


def write_folder(place):
    """Write a file of every kind."""
    for name, content in BROKEN.items():
        (place / name).write_text(content)
    rows = [f"{t},1e-3,{3 + 20 / t}" for t in range(10, 210, 10)]
    (place / "log.csv").write_text("\n".join(["step,learning_rate,loss", *rows]))
    (place / "count.csv").write_text("\n".join(["t,lr,loss", *rows]))
    norms = [f"{t},{9.5 + 0.1 * (t % 3)},{3 + 0.1 * (t % 2)}" for t in range(100)]
    (place / "norms.csv").write_text("\n".join(["step,small_norm,large_norm", *norms]))
    laws = [(g, size, B, a + 500 * a / B) for g, size, a in (("s", 1, 90), ("l", 2, 99)) for B in (64, 256, 512, 1024)]
    lines = [",".join(map(str, row)) for row in laws]
    (place / "steps.csv").write_text("\n".join(["g,size,batch_size,steps", *lines]))
    grid = grid_of_losses(2.0 ** np.arange(4, 8), 2.0 ** np.arange(12, 16), [0.5, 1, 2], 0.0)
    write_table(place / "grid.csv", grid)
    x, y = power_law_rows(np.random.default_rng(0), 150, 5, 1.5, 2.0)
    for name, values in (("X", x), ("y", y), ("short", np.zeros(10))):
        np.save(place / f"{name}.npy", values)
    st.problems.write_spectrum(st.LeastSquares([1.0], [1.0]), place / "spectrum.csv")
    (place / "grid.toml").write_text(GRID.format(steps=40))
    for name in ("empty", "folder.png"):
        (place / name).mkdir()
    folder_of_logs(place / "runs", "olmo")
    write_runs(place / "ramp", ramped_law)
    return place
