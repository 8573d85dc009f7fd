"""A sweep of tiny networks that the tests of this folder share, here and in processes of their own."""

import json
import subprocess
import sys

from tests.runs import changed, run_of

BASE = run_of(
    width=8, base_width=8, depth=1, input_dim=4, batch_size=4, holdout_size=16, max_steps=40, eval_every=20,
    averages=(0.9,),
)  # fmt: skip
CONFIGS = [changed(BASE, learning_rate=rate, seed=seed) for rate in (0.003, 0.01, 0.03) for seed in (0, 1)]
LONG = [changed(config, max_steps=5000) for config in CONFIGS]
LANES = 2
PROGRAM = """
import json, sys
from sgdtheory.sweep import sweep
from sgdtheory.training import TrainConfig

with open(sys.argv[2]) as file:
    configs = [TrainConfig.from_fields(fields) for fields in json.load(file)]
table = sweep(configs, sys.argv[1], lanes=2, checkpoint_seconds=0.05)
print(json.dumps({"csv": table.to_csv(), "notes": table.notes}))
"""


def start(store, configs, tmp_path):
    """A sweep in a process of its own; it prints the table and notes as JSON."""
    path = tmp_path / "configs.json"
    path.write_text(json.dumps([config.as_fields() for config in configs]))
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(store), str(path)], stdout=subprocess.PIPE, text=True)


def finish(process):
    """Return the output of a sweep that ends well."""
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return json.loads(out)


def curves(store, configs):
    """Contents of the runs' curves."""
    return {config.fingerprint: (store / config.fingerprint / "curve.csv").read_bytes() for config in configs}
