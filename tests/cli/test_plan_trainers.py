"""Every trainer's settings multiply out to the batch sizes of the plan, by what the program prints."""

import ast
import itertools
import re

import numpy as np
import pytest

SEQUENCE = 512
TRAINERS = ["hf", "megatron", "megatron-rampup", "megatron-bridge", "torchtitan", "olmo", "maxtext"]
EXACT = {"hf", "megatron", "torchtitan"}  # take any stages
MACHINES = [  # devices, micro batch and the largest one
    (None, 1, None),
    (None, 8, None),
    ((2,), 8, 16),
    ((16,), 1, None),
    ((4, 12), 8, None),
]
TARGETS = {"constant": "3.2", "ramped": "2.9"}
# A constant batch size is the one stage of a ramp, which two of the machines show.
CASES = [("ramped", *machine) for machine in MACHINES]
CASES += [("constant", *machine) for machine in (MACHINES[0], MACHINES[3])]


@pytest.fixture
def steps_file(tmp_path):
    """Exact laws of three targets of one model."""
    rows = ["target,batch_size,steps"]
    for name, a, b in (("3.2", 500, 1e5), ("3.0", 1500, 9e5), ("2.9", 4000, 6e6)):
        rows += [f"{name},{batch},{a + b / batch}" for batch in 2 ** np.arange(4, 13)]
    (tmp_path / "throughput.csv").write_text("batch_size,samples_per_second\n1,1\n8,7\n128,60\n")
    (tmp_path / "steps.csv").write_text("\n".join(rows))
    return tmp_path / "steps.csv"


def printed(trainer, text):
    """(devices or None, batch sizes of the stages) as the settings multiply out."""
    if trainer == "hf":
        layouts = ast.literal_eval(re.search(r"LAYOUTS = (.*)", text)[1])
        sizes = [size for *_, size, _ in ast.literal_eval(re.search(r"STAGES = (.*)", text)[1])]
        assert sizes == [devices * per_device * accumulation for devices, per_device, accumulation in layouts]
        return layouts, sizes
    if trainer == "maxtext":
        values = dict(line.split(": ") for line in text.splitlines())
        devices = int(values["# devices"])
        last = devices * float(values["per_device_batch_size"])
        start = devices * float(values.get("per_device_batch_size_start", last / devices))
        step = devices * float(values.get("per_device_batch_size_increment", 0))
        per_device = [float(values[key]) for key in values if key.startswith("per_device")]
        assert per_device == [round(each) for each in per_device]
        return devices, np.arange(start, last + 1, step).tolist() if step else [last]
    if trainer in ("megatron-rampup", "megatron-bridge"):
        last = int(re.search(r"global.batch.size[ =](\d+)", text)[1])
        ramp = re.search(r"rampup.batch.size[ =]\[?(\d+),? (\d+),? (\d+)", text)
        start, step = (int(ramp[1]), int(ramp[2])) if ramp else (last, 1)
        return None, list(range(start, last + 1, step))
    if trainer == "megatron":
        pairs = re.search(r'schedule "([^"]*)"', text)[1].split()
        return None, [int(pair.split(":")[1]) for pair in pairs]
    if trainer == "olmo":
        return None, [each / SEQUENCE for each in ast.literal_eval(re.search(r"batch_sizes=(\[[^]]*\])", text)[1])]
    return None, [int(each) / SEQUENCE for each in re.findall(r"tokens_per_train_step (\d+)", text)]


@pytest.mark.parametrize(("kind", "devices", "micro", "most"), CASES)
def test_settings_multiply_out_to_the_planned_batch_sizes(run, steps_file, kind, devices, micro, most):
    flags = ["--group", "target", "--target", TARGETS[kind], "--learning-rate", 3e-4, "--sequence-length", SEQUENCE]
    flags += ["--throughput-table", steps_file.parent / "throughput.csv", "--micro-batch", micro]
    flags += [] if devices is None else ["--devices", *devices]
    flags += [] if most is None else ["--max-micro-batch", most]
    for trainer in TRAINERS:
        found = run.json("plan", steps_file, *flags, "--trainer", trainer)
        schedule = found["schedule"]
        choice = found["choice"]
        assert choice["devices"] * choice["micro_batch"] * choice["accumulation"] == choice["batch_size"]
        layouts, sizes = printed(trainer, schedule["text"])
        unit = micro * (1 if devices is None else choice["devices"])
        assert all(size % unit == 0 for size in sizes)
        planned = [size for size, _ in itertools.groupby(schedule["batch_sizes"])]
        assert (len(sizes) == 1) if kind == "constant" else (len(planned) > 1)
        if trainer in EXACT:
            assert sizes == planned
        elif len(sizes) > 1 and trainer != "olmo" and devices is not None:
            assert sizes[0] in planned
        if trainer == "maxtext":
            assert layouts == choice["devices"]
        if trainer == "hf":
            counts = [size // micro for size in sizes] if devices is None else [choice["devices"]] * len(sizes)
            assert [each[0] for each in layouts] == counts
            assert all(micro <= each[1] <= (most or each[1]) for each in layouts)
        assert schedule["trainer_steps"] <= (1 + unit / sizes[0]) * schedule["constant_steps"] + 1


def test_the_headline_and_the_settings_name_the_same_devices(run, steps_file):
    """Without --devices, where the settings once counted on one device, and the plan on as many as the batch feeds."""
    flags = ["--group", "target", "--target", "2.9", "--throughput", 4, "--micro-batch", 8, "--learning-rate", 3e-4]
    out = run("plan", steps_file, *flags, "--trainer", "maxtext")
    devices = int(re.search(r"= (\d+) devices × micro batch 8", out)[1])
    assert devices > 100
    assert f"# devices: {devices}\n" in out
    out = run("plan", steps_file, *flags, "--trainer", "hf")
    assert re.search(r"LAYOUTS = \[\((\d+), 8, 1\), \((\d+), 8, 1\), \((\d+), 8, 1\)\]", out)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_steps_that_are_printed_are_the_trainer_s(run, steps_file, trainer):
    flags = ["--group", "target", "--target", "2.9", "--throughput", 4, "--micro-batch", 8, "--learning-rate", 3e-4]
    flags += ["--sequence-length", SEQUENCE, "--trainer", trainer]
    steps = run.json("plan", steps_file, *flags)["schedule"]["trainer_steps"]
    out = run("plan", steps_file, *flags)
    assert f"{steps:,} steps, " in out
    if trainer in ("megatron-bridge", "maxtext"):
        assert int(re.search(r"(?:train_iters=|\nsteps: )(\d+)", out)[1]) == steps
