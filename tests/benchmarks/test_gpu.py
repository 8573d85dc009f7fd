"""The command for a GPU, rehearsed on a CPU at toy size: it stops in time, goes on, and measures nothing twice."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

import benchmarks.gpu as gpu
from benchmarks._gpu import agreement, device, goals, simulator, trainer, widths
from benchmarks._gpu.measurement import Measurement, Table
from benchmarks._gpu.sizes import FULL, TOY
from experiments._lib.redraw import FOLDER
from sgdtheory.training import TrainConfig
from tests.figure_checks import check_figure

CPU = jax.devices("cpu")[0]
OWN = device.Device("a GPU", "gpu", 1, "0", "full", 1, "3", "host", 2, 1e15, 3e12, "known", 1e15, 3e12)


def names_in(folder):
    return {path.name for path in folder.iterdir()}


# ------------------------------------------------------------------ the whole command


def call(folder):
    return gpu.main(["--toy", "--minutes", "20", "--output", str(folder)])


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Return the output of calls, killed in the middle of the measurements and of the runs, stopped in time, and ended.

    Each keeps what the calls before it measured.
    """
    folder = tmp_path_factory.mktemp("gpu")
    command = [sys.executable, "-m", "benchmarks.gpu", "--toy", "--output", str(folder)]
    kept = b""
    for there in "agreement.csv", "runs/*/result.json":
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None and not list(folder.glob(there)):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (folder / "agreement.csv").read_bytes().startswith(kept)
        kept = (folder / "agreement.csv").read_bytes()
    out = subprocess.run([*command, "--minutes", "0.01"], capture_output=True, text=True, check=True).stdout
    assert "the same command goes on" in out
    assert call(folder) == 0
    assert (folder / "agreement.csv").read_bytes().startswith(kept)
    return folder


@pytest.mark.slow
def test_everything_is_written(output):
    """By a command that was killed twice and stopped once."""
    names = {"device.json", "columns.json", "verdicts.json", "agreement.csv", "simulator.csv", "trainer.csv"}
    assert names | {"speed.png", "speed.pdf", "runs", "width_limit", "width_invariance"} == names_in(output)
    for name in "width_limit", "width_invariance":
        files = names_in(output / name)
        assert {"config.json", "columns.json", "data.csv", "verdicts.json"} <= files
        assert any(file.endswith(".png") for file in files)
    assert not list((output / "runs").rglob("*.npz"))
    rows = {name: Table(output / f"{name}.csv", units).rows for name, units in gpu.UNITS.items()}
    assert all(row["agrees"] == 1 for row in rows["agreement"])
    assert all(row["seconds"] > 0 for row in rows["simulator"])
    assert all(0 < row["utilization"] < 1 for row in rows["trainer"])
    found = json.loads((output / "verdicts.json").read_text())
    assert {each["verdict"] for each in found} == {"inconclusive"}  # a rehearsal says nothing
    assert json.loads((output / "device.json").read_text())["source"].startswith("measured here")


@pytest.mark.slow
def test_nothing_is_measured_twice(output, monkeypatch, capsys):
    before = {path: path.read_bytes() for path in output.glob("*.csv")}

    def forbidden(*arguments, **options):
        raise AssertionError("measured again")

    for module, name in ((agreement, "simulated"), (simulator, "simulator_step"), (trainer, "speed")):
        monkeypatch.setattr(module, name, forbidden)
    monkeypatch.setattr(device, "describe", forbidden)
    assert call(output) == 0
    assert {path: path.read_bytes() for path in output.glob("*.csv")} == before
    assert (
        f"all is measured, and all {len(list(output.glob('runs/*/result.json')))} runs have ended"
        in capsys.readouterr().out
    )


def test_bad_arguments(capsys):
    assert gpu.main(["--output", "nowhere"]) == 2  # the suite runs on a CPU
    assert "add --toy" in capsys.readouterr().err
    for arguments, text in (
        (["--minutes", "0"], "--minutes must be positive"),
        (["--peak-tflops", "9"], "must be given together"),
    ):
        with pytest.raises(SystemExit) as exit_:
            gpu.main(arguments)
        assert exit_.value.code == 2
        assert text in capsys.readouterr().err


# ------------------------------------------------------------------ its parts


def test_agreement_notices_a_learning_rate_that_is_off():
    config = TrainConfig.from_fields({"width": 32, "batch_size": 16, "max_steps": 32, "averages": ()})
    tolerance = agreement.FEW * 32 * agreement.ROUNDING["float32"]

    def difference(other):
        pair = agreement.trained(CPU, config), agreement.trained(CPU, other)
        return np.max(np.abs(pair[1] / pair[0] - 1))

    assert difference(config) <= tolerance
    assert difference(replace(config, learning_rate=1.01 * config.learning_rate)) > tolerance
    risks = [agreement.simulated(CPU, 32, learning_rate=rate, dtype="float32") for rate in (0.2, 0.202)]
    assert np.min(np.abs(risks[1] / risks[0] - 1)) > tolerance


def test_measurements_wait_for_time_and_refusals_are_told(tmp_path, capsys):
    def refused():
        raise jax.errors.JaxRuntimeError("INTERNAL: no")

    part = [Measurement("slow", 1e6, lambda: {"seconds": 1.0}), Measurement("wrong", 1.0, refused)]
    part.append(Measurement("quick", 1.0, lambda: {"seconds": 2.0}))
    table = Table(tmp_path / "simulator.csv", simulator.UNITS)
    assert gpu.measure(part, table, FULL, gpu.Clock(1.0))
    assert [row["what"] for row in table.rows] == ["quick"]
    assert "slow: left for the next call, it may take 1000000 s" in capsys.readouterr().out
    again = Table(tmp_path / "simulator.csv", simulator.UNITS)
    assert "quick" in again
    assert again.value("quick", "seconds") == 2.0
    assert np.isnan(again.value("slow", "seconds"))


def test_another_device_is_measured_anew(tmp_path, monkeypatch):
    own = gpu.device_of(TOY, tmp_path, None)
    Table(tmp_path / "trainer.csv", trainer.UNITS).add("row", {"width": 8})
    assert gpu.device_of(TOY, tmp_path, None) == own
    assert (tmp_path / "trainer.csv").exists()
    other = gpu.device_of(TOY, tmp_path, device.Peak(1e12, 1e11))
    assert (other.peak_flops, other.source) == (1e12, "given on the command line")
    assert not (tmp_path / "trainer.csv").exists()
    assert names_in(tmp_path / "before-1") == {"device.json", "trainer.csv"}


@pytest.mark.parametrize(
    ("name", "flops", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12, 3.35e12),
        ("NVIDIA H100 PCIe", 756e12, 2.0e12),
        ("NVIDIA H100 NVL", 835e12, 3.9e12),
        ("NVIDIA H200", 989e12, 4.8e12),
        ("NVIDIA H200 NVL", 835e12, 4.8e12),
        ("NVIDIA A100-SXM4-80GB", 312e12, 2.039e12),
        ("NVIDIA A100-SXM4-40GB", 312e12, 1.555e12),
        ("NVIDIA A100 80GB PCIe", 312e12, 1.935e12),
    ],
)
def test_peaks(name, flops, bandwidth):
    nothing = device.Peak(1.0, 1.0)
    assert device._peaks(name, "gpu", None, nothing)[0] == device.Peak(flops, bandwidth)


def test_an_unknown_device_has_no_peak():
    peak, source = device._peaks("NVIDIA GH200 480GB", "gpu", None, device.Peak(1.0, 1.0))
    assert np.isnan(peak).all()
    assert "--peak-tflops" in source


def test_a_batch_that_fits():
    def too_large():
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    def broken():
        raise jax.errors.JaxRuntimeError("INTERNAL: broken")

    assert trainer.first_that_fits([too_large, lambda: {"batch_size": 8}]) == {"batch_size": 8}
    with pytest.raises(jax.errors.JaxRuntimeError, match="broken"):
        trainer.first_that_fits([broken, lambda: {}])
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        trainer.first_that_fits([too_large, too_large])


def test_a_gpu_is_asked_for_both_kernels_of_attention():
    names = [each.name for each in trainer.measurements(FULL, OWN) if "transformer" in each.name]
    assert names == [trainer.transformer_name(width, kernel) for width in FULL.widths for kernel in ("xla", "cudnn")]
    config = trainer.transformer(FULL, 2048, 64, "cudnn")
    assert (config.value("attention_kernel"), config.precision) == ("cudnn", "bfloat16")


def test_the_grid_of_a_gpu():
    """A part of it is of use: after a third of the cells every width of every task has three batch sizes."""
    cells = widths.cells_of(FULL)
    runs = [config.fingerprint for cell in cells for config in cell.configs]
    assert len(runs) == len(set(runs)) == 9 * 2 * 16 + 6 * 5 * 5 * 3 + 4 * 4 * 4 * 3
    reach = {of: max(cell.width for cell in cells if cell.of == of) for of in ("width_limit", "teacher", "text")}
    assert reach == {"width_limit": 8192, "teacher": 4096, "text": 1024}
    early = [(cell.of, cell.width, cell.batch_size) for cell in cells[: 9 + 6 * 3 + 4 * 3]]
    assert {size for of, _, size in early if of == "teacher"} == {16, 100, 625}
    assert {size for of, _, size in early if of == "text"} == {4, 25, 64}
    assert max(config.network.num_weights for cell in cells for config in cell.configs) < 1e8
    assert trainer.transformer(FULL, 2048, 64).network.num_weights > 6e8


@pytest.mark.parametrize("measured", [True, False])
def test_figure_and_verdicts(tmp_path, measured):
    tables = {name: Table(tmp_path / f"{name}.csv", units) for name, units in gpu.UNITS.items()}
    if measured:
        for batch in FULL.step_batches:
            tables["simulator"].add(simulator.step_name(batch), {"seconds": 2e-4, "normals_per_second": 4e10})
        tables["simulator"].add(simulator.GENERATOR, {"seconds": 1.5e-4, "normals_per_second": 5.5e10})
        tables["agreement"].add("simulator", {"difference": 1e-6, "tolerance": 1e-5, "agrees": 1})
        for k, width in enumerate(FULL.widths):
            for kernel, gain in zip(trainer.KERNELS, (0.0, 0.15), strict=True):
                tables["trainer"].add(trainer.transformer_name(width, kernel), {"utilization": 0.05 + 0.15 * k + gain})
        for width in FULL.lane_widths:
            for lanes in 1, FULL.lanes:
                row = {"samples_per_second": 1e5 * lanes**0.7 / width**0.1}
                tables["trainer"].add(trainer.lanes_name(width, lanes), row)
    figure = goals.figure(tables, FULL, OWN)
    found = [each.verdict for each in goals.verdicts(tables, FULL, OWN)]
    assert found == ["holds" if measured else "inconclusive"] * 4
    if measured:
        check_figure(figure)
        slow = replace(OWN, name="b")
        tables["agreement"].add("trainer", {"difference": 2e-5, "tolerance": 1e-5, "agrees": 0})
        assert goals.verdicts(tables, FULL, slow)[0].verdict == "fails"


# ------------------------------------------------------------------ what was recorded


def test_the_guide_has_the_recorded_numbers():
    """The guide has the numbers and verdicts of the goals, in their order, as recorded on a GPU."""
    folder = FOLDER / "gpu"
    own, tables = device.read(folder), {name: Table(folder / f"{name}.csv", units) for name, units in gpu.UNITS.items()}
    assert own
    guide = (FOLDER.parents[1] / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert f"## One {own.name}" in guide
    lines = [line for line in guide.splitlines() if line.endswith(("**holds** |", "**fails** |"))]
    verdicts = goals.verdicts(tables, FULL, own)
    for line, found in zip(lines, verdicts, strict=True):
        shown = f"{100 * found.measured:.0f}%" if "peak" in line else f"{found.measured:.2f}"
        assert f" {shown}" in line
        assert f"**{found.verdict}**" in line
