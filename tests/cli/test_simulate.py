import os
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.sheets import number
from sgdtheory.algorithms import make_algorithm
from tests.cli.text import strict_json
from tests.marks import slow

SIMULATE = ["simulate", "--capacity", 2, "--source", 3, "--batch-size", 4, "--learning-rate", 0.3]
SHORT = [*SIMULATE, "--dim", 20, "--num-samples", 400, 1000, "--num-replicas", 16]
PROBLEM = st.PowerLaw(2, 3, 20)
SETTINGS = {"batch_size": 4, "learning_rate": 0.3, "num_samples": np.array([400.0, 1000.0])}
PATIENCE = 300  # seconds


def library(problem=PROBLEM, seed=0, **options):
    return st.simulate(jax.random.key(seed), problem, **SETTINGS | {"num_replicas": 16} | options)


def rows(out):
    """The cells of the table's rows."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]


ALGORITHM = ["--method", "heavy-ball", "--momentum", 0.5, "--schedule", "wsd", "--decay", 0.3]
ALGORITHM += ["--batch-schedule", "linear", "--batch-final", 3, "--average", "last"]


def test_an_algorithm_is_simulated_beside_its_exact_risk(run):
    algorithm = st.Algorithm(st.HeavyBall(0.5), st.WSD(0.3), st.Linear(3), st.LastIterate())
    found = run.json(*SHORT, *ALGORITHM)
    expected, exact = library(algorithm=algorithm), st.excess_risk(PROBLEM, **SETTINGS, algorithm=algorithm)
    assert found["algorithm"] == "heavy-ball momentum=0.5 wsd decay=0.3 batch-schedule=linear batch-final=3 last"
    np.testing.assert_allclose(found["mean"], expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found["exact"], exact.total, rtol=1e-12)
    np.testing.assert_allclose(found["z"], expected.z_score(exact.total), rtol=1e-4)
    assert found["num_steps"] == expected.num_steps.tolist()
    assert (expected.num_steps < [100, 250]).all()  # the ramp takes the samples in fewer
    assert "bound" not in found
    out = run(*SHORT, *ALGORITHM)
    assert out.startswith("excess risk of the last iterate (total), sufficient sampler, gaussian data; heavy-ball")
    assert "bound" not in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "algorithm", "beside"),
    [
        (["--method", "sign"], st.Algorithm(st.SignSGD()), ["equivalent", "z"]),
        (["--method", "sign", "--quantity", "bias"], st.Algorithm(st.SignSGD()), []),
        (["--clip-norm", 0.5], st.Algorithm(clip_norm=0.5), []),
    ],
)
def test_methods_that_are_not_linear(run, flags, algorithm, beside):
    """Beside their simulation stands what theory knows of them: nothing, or an equivalent."""
    found = run.json(*SHORT, *flags)
    quantity = "bias" if "bias" in flags else "total"
    np.testing.assert_allclose(found["mean"], library(algorithm=algorithm, quantity=quantity).mean, rtol=1e-6)
    own = [name for name in ("exact", "equivalent", "z", "bound") if name in found]
    assert own == beside
    if beside:
        risk = st.excess_risk(PROBLEM, **SETTINGS, algorithm=algorithm).total
        np.testing.assert_array_equal(found["equivalent"], risk)
        assert "equivalent" in run(*SHORT, *flags)


@pytest.mark.parametrize(("method", "beside"), [("muon", []), slow("sgd", ["exact", "z", "bound"])])
def test_several_outputs(run, method, beside):
    """An equivalent is of one output; the exact risk of linear methods is that of any number."""
    algorithm = make_algorithm({"method": method})
    found = run.json(*SHORT, "--method", method, "--outputs", 3)
    np.testing.assert_allclose(found["mean"], library(algorithm=algorithm, outputs=3).mean, rtol=1e-6)
    assert found["outputs"] == 3
    assert [name for name in ("exact", "equivalent", "z", "bound") if name in found] == beside
    if method == "muon":
        assert ", gaussian data, 3 outputs; muon" in run(*SHORT, "--method", method, "--outputs", 3)


FLAGS = ["--seed", 3, "--quantity", "bias", "--sampler", "explicit", "--law", "rademacher", "--dtype", "float64"]
FLAGS += ["--simulated-dim", 19, "--num-replicas", 5, "--noise-variance", 0.25]


def test_json_is_what_the_library_returns(run):
    """Every flag is one of its options."""
    found = run.json(*SHORT, *FLAGS)
    problem = st.PowerLaw(2, 3, 20, 0.25)
    options = {"sampler": "explicit", "law": "rademacher", "dtype": "float64", "dim": 19, "num_replicas": 5}
    expected = library(problem, 3, quantity="bias", **options)
    exact = st.excess_risk(problem, **SETTINGS).bias
    names = ["batch_size", "learning_rate", "num_samples", "mean", "standard_error", "exact", "z", "bound"]
    counts = ["num_finished", "num_diverged", "num_steps"]
    assert sorted(found) == sorted([*names, "ratio", *counts, "truncation", "interrupted", "notes"])
    assert (found["batch_size"], found["learning_rate"], found["num_samples"]) == (4, 0.3, [400, 1000])
    np.testing.assert_allclose(found["mean"], expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found["standard_error"], expected.standard_error, rtol=1e-5)
    np.testing.assert_array_equal(found["exact"], exact)
    np.testing.assert_allclose(found["z"], expected.z_score(exact), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(found["bound"], st.theorem7(problem, **SETTINGS).bias)
    assert (found["num_finished"], found["num_diverged"], found["num_steps"]) == ([5, 5], [0, 0], [100, 250])
    assert found["truncation"]["dim"] == 19
    assert "exact risk and bound are those of Gaussian data" in found["notes"]


def test_table(notes):
    """A run without remarks prints the numbers of the JSON."""
    out, lines = notes(*SHORT)
    found = strict_json(notes(*SHORT, "--json")[0])
    assert lines == []
    assert "excess risk of the averaged iterate (total), sufficient sampler, gaussian data" in out
    for name in ("batch size B", "learning rate γ", "samples D", "simulated", "exact", "z", "bound", "exact/bound"):
        assert name in out
    names = "num_samples", "mean", "standard_error", "exact", "z", "bound"
    shown = rows(out)
    for row, *numbers in zip(shown, *(found[name] for name in names), strict=True):
        samples, mean, error, exact, z, bound = numbers
        assert row[:5] == ["4", "0.3", number(samples), f"{mean:.5g}", f"{error:.2g}"]
        assert row[5:] == [f"{exact:.5g}", f"{z:.3g}", f"{bound:.4g}", f"{exact / bound:.3g}"]
    assert len(shown) == 2


def test_notes_on_truncation(notes):
    """And one setting has scalars in JSON."""
    out, lines = notes(*SIMULATE, "--num-samples", 400, "--num-replicas", 16, "--json")
    expected = library(st.PowerLaw(2, 3), num_samples=400)
    kept = expected.truncation
    shift = np.abs(kept.shift / expected.standard_error).max()
    assert lines == [
        f"{kept.dim} directions simulated, the others frozen with risk {kept.tail_risk:.3g}; "
        f"this shifts means by {shift:.2g} standard errors at most"
    ]
    found = strict_json(out)
    assert (found["truncation"]["dim"], found["truncation"]["tail_risk"]) == (kept.dim, kept.tail_risk)
    np.testing.assert_array_equal(found["truncation"]["shift"], kept.shift)
    assert isinstance(found["mean"], float)
    assert (found["num_steps"], found["num_finished"]) == (100, 16)


def test_divergence_and_a_single_step_with_a_frozen_tail(notes):
    """Of one step nothing is random: the standard error is zero, and so is the shift."""
    arguments = [*SIMULATE[:-1], 0.3, 50, "--num-samples", 4000, "--num-replicas", 3]
    out, lines = notes(*arguments, "--json")
    found = strict_json(out)
    assert len(lines) == 2
    assert "nan" not in lines[0]
    assert lines[1] == "3 replicas diverged (beyond the range of float32)"
    assert found["num_diverged"] == [0, 3]
    assert found["mean"][0] > 0
    assert found["mean"][1] == found["standard_error"][1] == "inf"
    assert found["z"][1] is None
    assert rows(notes(*arguments)[0])[1][3] == "∞"
    out, lines = notes(*SIMULATE, "--num-samples", 4, "--num-replicas", 3, "--json")
    assert strict_json(out)["mean"] == pytest.approx(st.PowerLaw(2, 3).initial_risk, rel=1e-6)
    assert len(lines) == 1
    assert "nan" not in lines[0]


def start(*arguments, program=None):
    command = ["-m", "sgdtheory"] if program is None else ["-c", program]
    return subprocess.Popen(
        [sys.executable, *command, *map(str, arguments)],
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"}
        | {"JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def test_distributed_without_a_cluster_ends_with_one_line():
    process = start(*SHORT, "--distributed")
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert err.splitlines()[-1].startswith("sgdtheory: distributed: ")
    assert "give --coordinator, --num-processes and --process-id" in err


@pytest.mark.slow
def test_two_processes_print_once_what_one_prints(run):
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    cluster = ["--distributed", "--coordinator", f"localhost:{port}", "--num-processes", 2]
    processes = [start(*SHORT, "--json", *cluster, "--process-id", number) for number in range(2)]
    try:
        outputs = [process.communicate(timeout=PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], outputs
    found, expected = strict_json(outputs[0][0]), run.json(*SHORT)
    assert outputs[1][0] == ""
    assert list(found) == list(expected)
    for name in ("mean", "standard_error", "exact"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
    assert found["num_finished"] == [16, 16]


MARKED = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
from sgdtheory import cli
from sgdtheory.algorithms import make_algorithm
from sgdtheory.simulation import program

original = program._compiled_advance

def advance(*arguments):
    if int(arguments[8]) >= 100:  # in the middle of the long run
        pathlib.Path(sys.argv[1]).touch()
    return original(*arguments)

program._compiled_advance = advance
cli.main(sys.argv[2:])
"""


@pytest.mark.parametrize("flags", [pytest.param([], id="table"), pytest.param(["--json"], id="json")])
@pytest.mark.slow
def test_ctrl_c_prints_what_has_finished(tmp_path, flags):
    mark = tmp_path / "mark"
    arguments = [*SIMULATE, "--dim", 20, "--num-samples", 40, 4e9, "--num-replicas", 16, *flags]
    process = start(mark, *arguments, program=MARKED)
    try:
        deadline = time.monotonic() + PATIENCE
        while not mark.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err == "sgdtheory: note: interrupted: the means are over the replicas that had finished\n"
    if flags:
        found = strict_json(out)
        assert found["num_finished"] == [16, 0]
        assert found["mean"][0] > 0
        assert found["mean"][1] is found["standard_error"][1] is None
    else:
        assert [row[3] for row in rows(out)][1] == "—"


def test_a_learning_rate_next_to_the_edge_is_noted(notes):
    edge = float(st.max_stable_learning_rate(PROBLEM, batch_size=4))
    for share, noted in ((0.8, False), (0.95, True)):
        _, lines = notes(*SIMULATE[:-1], share * edge, *SHORT[len(SIMULATE) :])
        assert any("0.9 of the stability edge" in line for line in lines) == noted
