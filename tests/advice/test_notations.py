"""Batch ramps in trainers' notations: each parsed back and run through its trainer's loop, written from its source."""

import math
import re

import numpy as np
import pytest

import sgdtheory as st

RUNS = [
    st.advice.RampedRun(((0, 8), (80, 16)), 1600, 1.0, 0.5, 80, 320),  # the ramp of Megatron-Bridge's issue
    st.advice.RampedRun(((0, 256), (228_000, 576), (1_604_000, 896)), 9_000_000, 3e-4, 0.5, 200_000, 1_000_000),
    st.advice.RampedRun(((0, 64), (1000, 128), (7000, 256), (9000, 512)), 100_000, 0.1, 0.0, 5000, 20_000),
]


def loop(batch_size, num_samples):
    """[(samples before, batch size)] of every step until `num_samples` are seen."""
    steps, seen = [], 0
    while seen < num_samples:
        steps.append((seen, batch_size(seen)))
        seen += steps[-1][1]
    return steps


def check(run, steps):
    """Check that the planned run is the run that the trainer's loop makes."""
    assert run.num_steps == len(steps)
    before = np.array([seen for seen, _ in steps])
    assert run.stage_ends[-1][1] == sum(steps[-1])
    assert [run.samples_at(step) for step in range(len(steps))] == before.tolist()
    for samples in (0, 1, run.warmup_samples, run.num_samples - run.decay_samples, run.num_samples):
        after = np.append(before, sum(steps[-1]))
        assert run.steps_at(samples) == np.flatnonzero(after >= samples)[0]


def wsd(seen, warmup, total, decay):
    """WSD with linear ends, of one counter."""
    return min(1.0, seen / warmup, max(0.0, total - seen) / decay)


@pytest.mark.parametrize("run", RUNS)
def test_steps_are_those_of_a_loop(run):
    sizes = dict(run.stages)
    check(run, loop(lambda seen: sizes[max(start for start in sizes if start <= seen)], run.num_samples))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("length", [None, 2048])
def test_megatron(run, length):
    text = st.advice.megatron(run, sequence_length=length).text
    pairs = [pair.split(":") for pair in re.search(r'schedule "([^"]*)"', text)[1].split()]
    schedule = [(int(start) // (length or 1), int(size)) for start, size in pairs]
    flags = {name: float(value) for name, value in re.findall(r"--(\S+) ([\d.e+-]+)", text)}
    steps = loop(lambda seen: [size for start, size in schedule if seen >= start][-1], flags["train-samples"])
    check(run, steps)
    peaks = run.peak_learning_rates / run.learning_rate
    stage = [[size for _, size in run.stages].index(size) for _, size in steps]
    rates = [
        wsd(s, flags["lr-warmup-samples"], flags["lr-decay-samples"], flags["lr-wsd-decay-samples"]) for s, _ in steps
    ]
    np.testing.assert_allclose(run.at([s for s, _ in steps]), flags["lr"] * peaks[stage] * rates, rtol=1e-12)


def rampup(start, increment, samples, last):
    """Batch size of Megatron's linear ramp."""
    share = samples / ((last - start) // increment)
    return lambda seen: last if seen > samples else start + int(seen / share) * increment


@pytest.mark.parametrize("run", RUNS)
def test_megatron_before_2026(run):
    note = st.advice.megatron_rampup(run)
    numbers = [int(part) for part in re.search(r"rampup-batch-size (\d+ \d+ \d+)", note.text)[1].split()]
    last = int(re.search(r"global-batch-size (\d+)", note.text)[1])
    check(note.run, loop(rampup(*numbers, last), run.num_samples))
    assert (note.run.stages == run.stages) == (not any("nearest" in remark for remark in note.remarks))


@pytest.mark.parametrize("run", RUNS)
def test_megatron_bridge_ends_its_decay(run):
    """Its scheduler counts samples, made from iterations by the last batch size; naive iterations are the control."""
    note = st.advice.megatron_bridge(run)
    values = note.settings
    last = values["train.global_batch_size"]
    batch = rampup(*values["train.rampup_batch_size"], last)
    steps, seen = [], 0
    for _ in range(values["train.train_iters"]):
        steps.append((seen, batch(seen)))
        seen += steps[-1][1]
    check(note.run, steps)
    names = "lr_warmup_iters", "lr_decay_iters", "lr_wsd_decay_iters"
    written = [values[f"scheduler.{name}"] * last for name in names]
    planned = [run.warmup_samples, run.num_samples, run.decay_samples]
    np.testing.assert_allclose(written, planned, atol=last / 2)
    naive = [note.run.warmup_steps * last, note.run.num_steps * last, note.run.decay_steps * last]
    assert wsd(seen, *written) <= 1.5 * last / run.decay_samples
    assert wsd(seen, *naive) > 0.2 or run.num_samples > 1e5  # the decay stops part of the way


def test_the_bridges_example():
    """100 iterations at B = 16 with 20 of decay: the control stops half-way, as its issue reports."""
    run = st.advice.RampedRun(((0, 8), (160, 16)), 160 + 80 * 16, 1.0, 0.0, 80, 320)
    assert (run.num_steps, run.warmup_steps, run.decay_steps) == (100, 10, 20)
    assert wsd(run.num_samples, 10 * 16, 100 * 16, 20 * 16) == 0.5
    values = st.advice.megatron_bridge(run).settings
    assert values["train.train_iters"] == 100
    assert values["train.rampup_batch_size"] == [8, 8, 160]
    assert (values["scheduler.lr_warmup_iters"], values["scheduler.lr_decay_iters"]) == (5, 90)
    assert values["scheduler.lr_wsd_decay_iters"] == 20


@pytest.mark.parametrize("run", RUNS)
def test_olmo_core(run):
    length = 4096
    note = st.advice.olmo_core(run, sequence_length=length)
    sizes = [int(each) for each in re.search(r"batch_sizes=\[([^]]*)", note.text)[1].split(",")]
    starts = [int(each) for each in re.findall(r"Duration\.tokens\((\d+)\)", note.text.splitlines()[0])]
    rate = float(re.search(r"lr=(\S+)", note.text)[1])
    warmup, decay, end = (
        int(re.search(rf"{key}=\D*(\d+)", note.text)[1]) for key in ("warmup", "decay", "max_duration")
    )
    seen, size, taken = 0, sizes[0], []
    while seen < end:
        target = [each for each, start in zip(sizes, starts, strict=True) if seen >= start][-1]
        if target > size:
            assert target % size == 0
            if (seen // size) % (target // size) == 0:  # batches_processed, counted anew at each change
                rate *= math.sqrt(target / size)
                size = target
        taken.append((seen // length, size // length, rate * wsd(seen, warmup, end, decay)))
        seen += size
    check(note.run, [each[:2] for each in taken])
    np.testing.assert_allclose(note.run.at([each[0] for each in taken]), [each[2] for each in taken], rtol=1e-5)


@pytest.mark.parametrize("run", RUNS)
def test_maxtext(run):
    devices = 4
    note = st.advice.maxtext(run, num_devices=devices)
    values = dict(line.split(": ") for line in note.text.splitlines())
    assert values["# devices"] == "4"
    start, increment, last = (
        devices * float(values[f"per_device_batch_size{end}"]) for end in ("_start", "_increment", "")
    )
    share = int(values["global_rampup_samples"]) / ((last - start) // increment)
    size, accumulated, seen, steps = start, 0, 0, []
    for _ in range(int(values["steps"])):
        steps.append((int(seen), int(size)))
        seen += size
        accumulated += size
        if accumulated >= share:
            size, accumulated = min(size + increment, last), 0
    check(note.run, steps)
    whole = int(values["learning_rate_schedule_steps"])
    assert int(whole * float(values["warmup_steps_fraction"])) == note.run.warmup_steps
    assert int(whole * float(values["wsd_decay_steps_fraction"])) == note.run.decay_steps


@pytest.mark.parametrize("run", RUNS)
def test_stages_as_runs(run):
    """torchtitan and Hugging Face: steps at which stages end, and the schedule of the whole."""
    titan = st.advice.torchtitan(run, sequence_length=8)
    lines = [dict(re.findall(r"--(\S+) (\S+)", line)) for line in titan.text.splitlines()]
    steps, seen = [], 0
    for line in lines:
        for _ in range(len(steps), int(line["training.steps"])):
            steps.append((seen, int(line["training.num_tokens_per_train_step"]) // 8))
            seen += steps[-1][1]
    check(run, steps)
    assert round(run.num_steps * float(lines[0]["lr_scheduler.decay_ratio"])) == run.decay_steps
    note = st.advice.hugging_face(run, micro_batch=8)
    scope = {}
    exec(note.text, scope)
    ends = [end for _, end, *_ in scope["STAGES"]]
    assert ends == [end for end, _ in run.stage_ends]
    accumulated = note.settings["gradient_accumulation_steps"]
    assert [size for _, size in steps] == [
        8 * accumulated[np.searchsorted(ends, k, "right")] for k in range(len(steps))
    ]
    rates = run.learning_rate * np.array([scope["factor"](step) for step in range(run.num_steps)])
    np.testing.assert_allclose(rates, run.at([seen for seen, _ in steps]), rtol=1e-12)


def test_a_ramp_of_laws_and_its_learning_rates():
    batches = np.array([64, 256, 1024, 4096])
    laws = [st.fit_steps_law(batches, a + b / batches) for a, b in ((500, 1e5), (1500, 9e5), (4000, 6e6))]
    ramp = st.batch_ramp(laws, num_samples=9e6, multiple=64)
    run = st.advice.RampedRun.of_ramp(ramp, learning_rate=3e-4, exponent=0.5)
    assert st.advice.megatron(run).settings["step-batch-size-schedule"] == ramp.pairs()
    np.testing.assert_allclose(run.peak_learning_rates, 3e-4 * np.sqrt(ramp.batch_sizes / ramp.batch_sizes[-1]))
    assert run.num_steps == pytest.approx(ramp.steps, abs=3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stages": ((1, 8),)}, "stages must begin at 0"),
        ({"stages": ((0, 8), (90, 16), (80, 32))}, "growing starts"),
        ({"num_samples": 80}, "num_samples"),
        ({"warmup_samples": 1500, "decay_samples": 200}, "must fit into num_samples"),
        ({"learning_rate": 0.0}, "learning_rate"),
    ],
)
def test_bad_input(change, words):
    good = {"stages": ((0, 8), (80, 16)), "num_samples": 1600, "learning_rate": 1.0}
    with pytest.raises(ValueError, match=words):
        st.advice.RampedRun(**(good | change))


def test_what_a_trainer_cannot_write():
    falling = st.advice.RampedRun(((0, 16), (80, 8)), 1600, 1.0)
    with pytest.raises(ValueError, match="micro_batch must divide"):
        st.advice.hugging_face(falling, micro_batch=3)
    with pytest.raises(ValueError, match="num_devices must divide micro_batch, samples of all devices, got 3 and 8"):
        st.advice.hugging_face(falling, micro_batch=8, num_devices=3)
    with pytest.raises(ValueError, match="micro_batch must be one number or 2, one for each stage, got 3"):
        st.advice.hugging_face(falling, micro_batch=[8, 8, 8])
    assert [size for _, size in st.advice.olmo_core(falling, sequence_length=1).run.stages] == [16, 8]


SMALL = RUNS[0]
CONSTANT = st.advice.RampedRun(((0, 16),), 1600, 1.0)


def test_many_numbers_are_cut_to_three():
    numbers = list("0123456")
    assert st.advice.in_words(numbers[:6]) == "0, 1, 2, 3, 4, 5"
    assert st.advice.in_words(numbers) == "0, 1, …, 6"


def test_starts_are_in_the_unit_that_megatron_reads():
    assert st.advice.megatron(SMALL).remarks[0] == "starts are samples"
    in_tokens = st.advice.megatron(SMALL, sequence_length=2048).remarks[0]
    assert in_tokens == "starts are tokens, as Megatron-LM reads them with --seq-length 2048"


def test_a_trainer_with_one_learning_rate_leaves_out_those_of_the_stages():
    """Also where γ ∝ B; not where γ stays, or the batch size does."""
    (remark,) = st.advice.megatron_rampup(SMALL).remarks
    assert remark.startswith("Megatron-LM has one peak learning rate")
    assert "0.707, 1" in remark
    linear = st.advice.RampedRun(SMALL.stages, 1600, 1.0, 1.0)
    assert "0.5, 1" in st.advice.megatron_rampup(linear).remarks[0]
    kept = st.advice.RampedRun(SMALL.stages, 1600, 1.0, 0.0)
    for run in (kept, CONSTANT):
        assert st.advice.megatron_rampup(run).remarks == ()


def test_a_constant_batch_size_is_written_where_no_ramp_takes_fewer_steps():
    """On 16 devices no batch size of MaxText is below 16; stages of one size are written without a ramp everywhere."""
    note = st.advice.maxtext(SMALL, num_devices=16)
    assert note.run.stages == ((0, 16),)
    assert "enable_rampup_batch_size" not in note.settings
    assert note.settings["per_device_batch_size"] == 1
    assert note.remarks[1].endswith("constant batch size 16, which is written: 100 steps, planned were 105")
    for write in (st.advice.megatron_rampup, st.advice.megatron_bridge, st.advice.maxtext):
        note = write(CONSTANT)
        assert "ramp" not in note.text
        assert note.run == CONSTANT


def test_maxtext_runs_on_one_device_unless_told_otherwise():
    """Without warm-up its share is 0, not half a step."""
    note = st.advice.maxtext(SMALL)
    assert note.text == st.advice.maxtext(SMALL, num_devices=1).text
    assert note.settings["per_device_batch_size"] == 16
    assert note.settings["enable_rampup_batch_size"] is True
    assert "enable_rampup_batch_size: true" in note.text
    assert st.advice.maxtext(CONSTANT).settings["warmup_steps_fraction"] == 0
    assert "wsd_decay_steps_fraction" not in st.advice.maxtext(CONSTANT).settings


def test_layouts_of_hugging_face_multiply_to_the_batch_sizes():
    """Devices × samples of one × accumulation, whole numbers; one device and one sample by default."""
    note = st.advice.hugging_face(SMALL, micro_batch=8, num_devices=2)
    assert "LAYOUTS = [(2, 4, 1), (2, 4, 2)]" in note.text
    names = "devices", "per_device_train_batch_size", "gradient_accumulation_steps"
    assert [note.settings[name] for name in names] == [[2, 2], [4, 4], [1, 2]]
    alone = st.advice.hugging_face(SMALL).settings
    assert [alone[name] for name in names] == [[1, 1], [1, 1], [8, 16]]
    several = st.advice.hugging_face(SMALL, micro_batch=[4, 16], num_devices=[1, 4]).settings
    assert [several[name] for name in names] == [[1, 4], [4, 4], [2, 1]]


def test_no_ramp_by_whole_factors_takes_fewer_steps_than_that_of_olmo_core():
    """Brute force over first batch sizes, factors and starts; the second stage a step earlier misses the target."""
    run = RUNS[1]
    note = st.advice.olmo_core(run, sequence_length=1)
    target = run.target
    assert target.is_reached(note.run.stages)
    (_, first), (start, second) = note.run.stages
    assert not target.is_reached(((0, first), (start - second, second)))
    steps = []
    for size in range(64, 897, 64):
        steps.append(target.steps(((0, size),)) if target.is_reached(((0, size),)) else math.inf)
        for factor in (2, 3, 4):
            for begin in range(0, 9_000_000, 100_000):
                stages = ((0, size), (factor * size * math.ceil((begin + 1) / (factor * size)), factor * size))
                if target.is_reached(stages):
                    steps.append(target.steps(stages))
    assert note.run.num_steps <= min(steps) <= 1.02 * note.run.num_steps


def test_olmo_core_says_where_it_moves_the_learning_rate_otherwise():
    for run, other in ((RUNS[1], False), (RUNS[2], True)):
        remarks = st.advice.olmo_core(run, sequence_length=1).remarks
        assert ("OLMo-core has γ ∝ √B alone, not B^0" in remarks) == other


@pytest.mark.parametrize(
    ("trainer", "write", "remark"),
    [
        ("hf", lambda run: st.advice.hugging_face(run, micro_batch=[8, 16], num_devices=[1, 2]), "run on 1, 2 devices"),
        ("megatron", lambda run: st.advice.megatron(run, sequence_length=512), "feed 1, 2 devices, but one run keeps"),
        ("megatron-rampup", st.advice.megatron_rampup, "feed 1, 2 devices, but one run keeps"),
        ("megatron-bridge", st.advice.megatron_bridge, "feed 1, 2 devices, but one run keeps"),
        ("torchtitan", lambda run: st.advice.torchtitan(run, sequence_length=512), "run on 1, 2 devices"),
        ("olmo", lambda run: st.advice.olmo_core(run, sequence_length=512), "feed 1, 2 devices, but one run keeps"),
        ("maxtext", lambda run: st.advice.maxtext(run, num_devices=2), ""),
    ],
)
def test_any_trainer_by_its_name(trainer, write, remark):
    """Its own function writes; a remark names the devices where the plan has as many as a batch feeds."""
    run, known = RUNS[0], {"devices": 2, "sequence_length": 512}
    endless, given = (st.fits.Machine(st.fits.ConstantThroughput(1.0), counts, 8, None) for counts in (None, (2,)))
    found, expected = st.advice.in_settings_of(trainer, run, machine=endless, **known), write(run)
    assert (found.trainer, found.text, found.settings) == (expected.trainer, expected.text, expected.settings)
    more = found.remarks[len(expected.remarks) :]
    assert len(more) == bool(remark)
    assert remark in "".join(more)
    assert not any("feed" in each for each in st.advice.in_settings_of(trainer, run, machine=given, **known).remarks)
