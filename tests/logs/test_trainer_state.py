"""Hugging Face's state of a run: written by its own class; batch size and warm-up from what lies beside it."""

import enum
import io
import json
import pickle
import shutil
import zipfile

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.logs.formats.pickled_numbers import pickled_numbers
from tests.logs import make_trainer_state
from tests.logs.writers import write_trainer_state

RUN = {10 * t: {"loss": 3 + 1 / t, "learning_rate": 1e-3} for t in range(1, 9)}


class Arguments:
    """Stands for TrainingArguments: torch.save pickles it by protocol 2, as an object with a dictionary."""

    def __init__(self, **numbers):
        self.output_dir = "gradient_accumulation_steps"  # a text that is a key of another
        vars(self).update(numbers)


class Trap:
    """Runs what it holds when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def write_arguments(path, **numbers):
    """Write arguments like torch.save: a zip archive that holds the pickle."""
    buffer = io.BytesIO()
    pickle.Pickler(buffer, protocol=2).dump(Arguments(**numbers))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("training_args/data.pkl", buffer.getvalue())
        archive.writestr("training_args/version", "3\n")


def test_what_transformers_writes():
    """The file that its class wrote: rows of training and of evaluation, the mean at the end left out."""
    (log,) = st.logs.read_logs(make_trainer_state.FILE)
    assert log.step.tolist() == [10, 20, 30, 40, 50, 60]
    np.testing.assert_allclose(log.loss, [3 + 20 / t for t in log.step], rtol=1e-15)
    np.testing.assert_allclose(log.evaluation_loss[1::2], [3.5 + 20 / t for t in (20, 40, 60)], rtol=1e-15)
    assert np.isnan(log.evaluation_loss[::2]).all()
    assert log.tokens.tolist() == [t * 64 * 512 for t in log.step]
    assert log.settings == {"micro_batch": 8, "num_steps": 60}
    assert set(log.unused) == {"epoch", "grad_norm", "eval_runtime"}
    (curve,) = st.read_training_log(make_trainer_state.FILE, sequence_length=512)
    assert curve.batch_size.tolist() == [64] * 6
    assert curve.warmup == 10  # its first rates lie on a line through 0
    assert curve.assumed == ()


@pytest.mark.slow
def test_the_file_is_what_the_class_writes_today(tmp_path):
    pytest.importorskip("transformers")
    make_trainer_state.write(tmp_path / "trainer_state.json")
    new, old = (st.logs.read_logs(each)[0] for each in (tmp_path / "trainer_state.json", make_trainer_state.FILE))
    for column in ("step", "loss", "evaluation_loss", "learning_rate", "tokens"):
        np.testing.assert_array_equal(getattr(new, column), getattr(old, column))
    assert new.settings == old.settings


def test_a_summary_alone_is_no_loss(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"log_history": [{"train_loss": 3.0, "train_runtime": 1.0, "step": 5}]}))
    assert not st.logs.read_logs(path)[0].has("loss")


@pytest.mark.parametrize("processes", [1, 4])
@pytest.mark.parametrize("kind", ["json", "bin", "plain pickle"])
def test_the_batch_of_all_devices(kind, processes, tmp_path):
    """Micro batch × accumulation × processes; arguments in the output folder, random states in the checkpoint."""
    folder = tmp_path / "out" / "checkpoint-80"
    write_trainer_state(folder / "trainer_state.json", RUN, num_steps=80)
    said = {
        "gradient_accumulation_steps": 16,
        "weight_decay": 0.1,
        "adam_beta2": 0.95,
        "warmup_steps": 300,
        "bf16": True,
    }
    if kind == "json":
        (tmp_path / "out" / "training_args.json").write_text(json.dumps(said))
    elif kind == "bin":
        write_arguments(folder / "training_args.bin", **said)
    else:
        (folder / "training_args.bin").write_bytes(pickle.dumps(Arguments(**said)))
    for number in range(processes):
        name = "rng_state.pth" if processes == 1 else f"rng_state_{number}.pth"
        (folder / name).write_bytes(b"")
    for place in (folder, tmp_path / "out", folder / "trainer_state.json"):
        (curve,) = st.read_training_log(place)
        assert curve.name == "out"
        assert curve.batch_size.tolist() == [8 * 16 * processes] * 8
        assert curve.warmup == 10  # of 300, those before the first row; the others are in its rates
    (log,) = st.logs.read_logs(folder)
    assert {
        "accumulation": 16,
        "world_size": processes,
        "weight_decay": 0.1,
        "beta2": 0.95,
    }.items() <= log.settings.items()


def test_what_is_missing_is_asked_for(tmp_path):
    """Not taken for 1: neither processes nor accumulated batches."""
    (curve,) = st.read_training_log(write_trainer_state(tmp_path / "trainer_state.json", RUN))
    assert curve.batch_size is None
    assert (
        "batch size not known: the log has the micro batch (8), but not the number of accumulated batches and number "
        "of processes; give the total over all devices, batch_size= (--batch-size)" in curve.assumed
    )


@pytest.mark.parametrize(
    ("said", "steps"),
    [({"warmup_ratio": 0.0301}, 31), ({"warmup_steps": 0.05}, 50), ({"warmup_steps": 1}, 1), ({}, None)],
)
def test_a_share_of_warm_up(said, steps, tmp_path):
    """The share is of the planned steps, rounded up as the Trainer does; newer versions have warmup_steps below 1."""
    path = write_trainer_state(tmp_path / "trainer_state.json", RUN)
    (tmp_path / "training_args.json").write_text(json.dumps(said | {"warmup_steps": said.get("warmup_steps", 0)}))
    assert (st.logs.read_logs(path)[0].settings.get("warmup") or None) == steps


def test_the_last_checkpoint_counts(tmp_path):
    """By number, not by name, before one that has no number; others without a state are passed over."""
    for steps in (90, 1000):
        run = {10 * t: {"loss": 1.0, "learning_rate": 1e-3} for t in range(1, steps // 10 + 1)}
        write_trainer_state(tmp_path / f"checkpoint-{steps}" / "trainer_state.json", run)
    (tmp_path / "checkpoint-2000").mkdir()
    for name, step in (("best", 7), ("0", 5)):
        write_trainer_state(tmp_path / "new" / f"checkpoint-{name}" / "trainer_state.json", {step: {"loss": 1.0}})
    assert st.logs.read_logs(tmp_path / "new")[0].step.tolist() == [5]
    assert st.logs.read_logs(tmp_path)[0].step[-1] == 1000
    shutil.copy(tmp_path / "checkpoint-90" / "trainer_state.json", tmp_path)
    assert st.logs.read_logs(tmp_path)[0].step[-1] == 90  # the folder's own


def test_no_pickle_is_run(tmp_path):
    """A trap that would write a file when it is unpickled; and its control, which does."""
    path = tmp_path / "training_args.bin"
    path.write_bytes(pickle.dumps({"gradient_accumulation_steps": 4, "x": Trap(tmp_path / "sprung")}, protocol=2))
    assert pickled_numbers(path, {"gradient_accumulation_steps"}) == {"gradient_accumulation_steps": 4}
    assert not (tmp_path / "sprung").exists()
    with path.open("rb") as file:
        pickle.load(file)["x"].close()
    assert (tmp_path / "sprung").exists()


class Choice(enum.Enum):
    """Choice of an optimizer as transformers stores it."""

    MUON = "muon"


def test_a_choice_is_read_too(tmp_path):
    path = tmp_path / "training_args.bin"
    path.write_bytes(pickle.dumps({"optim": Choice.MUON, "adam_beta1": 0.9, "name": "optim"}, protocol=2))
    assert pickled_numbers(path, {"optim", "adam_beta1"}) == {"optim": "muon", "adam_beta1": 0.9}


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_numbers_and_flags_are_those_of_pickle(tmp_path, protocol):
    given = {"rate": -1e-5, "steps": 3, "many": 1 << 40, "yes": True, "no": False, "zero": 0}
    path = tmp_path / "training_args.bin"
    path.write_bytes(pickle.dumps(given | {"text": "a"}, protocol=protocol))
    assert pickled_numbers(path, {*given, "text"}) == given


class Named:
    """A member of `Choice` as Python before 3.11.4 pickles it."""

    def __reduce__(self):
        return getattr, (Choice, "MUON")


def test_a_choice_by_its_name_is_read_too(tmp_path):
    path = tmp_path / "training_args.bin"
    path.write_bytes(pickle.dumps({"optim": Named(), "adam_beta1": 0.9}, protocol=2))
    assert pickled_numbers(path, {"optim", "adam_beta1"}) == {"optim": "muon", "adam_beta1": 0.9}


@pytest.mark.parametrize("content", [b"", b"no pickle at all", pickle.dumps([1, 2])[:-2], b"PK\x03\x04 no archive"])
def test_a_file_that_is_no_pickle_says_nothing(content, tmp_path):
    (tmp_path / "training_args.bin").write_bytes(content)
    assert pickled_numbers(tmp_path / "training_args.bin", {"a"}) == {}
