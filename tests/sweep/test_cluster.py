"""Sweeps on the workers of a dask cluster, one of which is killed; what is said where there is no cluster."""

import contextlib
import gc
import json
import os
import re
import subprocess
import sys
from concurrent.futures import CancelledError

import pytest

from sgdtheory.sweep import cluster, cluster_executor, sweep
from tests.sweep.small import LANES, LONG

distributed = pytest.importorskip("distributed", reason="not installed: pip install -e '.[cluster]'")
KilledWorker = distributed.KilledWorker

PROGRAM = """
import json, os, signal, sys, threading, time
from pathlib import Path
from distributed import LocalCluster
from sgdtheory.sweep import cluster_executor, sweep
from sgdtheory.training import TrainConfig

def main():
    store = Path(sys.argv[1])
    with open(sys.argv[2]) as file:
        configs = [TrainConfig.from_fields(fields) for fields in json.load(file)]
    killed = []
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as local:
        def kill():
            while not list(store.glob("*/checkpoint.npz")):
                time.sleep(0.01)
            process = local.workers[0].process.pid
            open_runs = len(configs) - len(list(store.glob("*/result.json")))
            os.kill(process, signal.SIGKILL)
            killed.append(open_runs)
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        with cluster_executor(local.scheduler_address) as executor:
            table = sweep(configs, store, executor=executor, lanes=2, checkpoint_seconds=0.05)
        thread.join()
    print(json.dumps({"csv": table.to_csv(), "notes": table.notes, "killed": killed}))

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_a_worker_is_killed(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "configs.json").write_text(json.dumps([config.as_fields() for config in LONG]))
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "store"), str(tmp_path / "configs.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("killed")[0] > 0  # while runs were open
    assert found == {"csv": sweep(LONG, tmp_path / "alone", lanes=LANES).to_csv(), "notes": []}


@pytest.mark.parametrize(
    ("place", "jobs", "missing", "message"),
    [
        ("127.0.0.1:9", 1, (), "cluster must be a running dask scheduler's HOST:PORT, got 127.0.0.1:9: "),
        ("a:1", 0, (), "jobs must be a whole number of at least 1, got 0"),
        ("localhost:1", 1, ("distributed",), r"pip install 'distributed>=2024\.1' \(extra \[cluster\]\)"),
    ],
)
def test_where_there_is_no_cluster(monkeypatch, place, jobs, missing, message):
    monkeypatch.setattr(cluster, "TIMEOUT", "1s")
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=message) as error, cluster_executor(place, jobs):
        pass
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore:unclosed cluster:ResourceWarning")  # dask's own, half made
def test_slurm_that_is_not_configured():
    try:
        with cluster_executor("slurm"):
            message = ""
    except ValueError as error:
        message = str(error)
    gc.collect()
    assert re.fullmatch(r"cluster slurm could not be started \(.*cores.*\): set jobqueue.slurm in .*", message)


class FakeClient(contextlib.nullcontext):
    """Client of a scheduler that takes anything."""

    def __init__(self, *arguments, **options):
        super().__init__(self)

    def get_executor(self, **options):
        return contextlib.nullcontext()


@pytest.mark.parametrize("loss", [KilledWorker("unit", None, 3), CancelledError()])
def test_workers_or_a_scheduler_that_are_lost_for_good_are_an_oserror(monkeypatch, loss):
    monkeypatch.setattr("distributed.Client", FakeClient)
    with (
        pytest.raises(OSError, match="^workers of the cluster died .*; finished runs stay, run"),
        cluster_executor("a"),
    ):
        raise loss
