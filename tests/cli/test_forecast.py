"""`sgdtheory forecast`: what it prints of a log, and how it follows one that grows."""

import json
import os

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.cli.growing_files import versions, whole_lines

HEADER = "step,learning_rate,loss\n"
PLAN = "--num-steps", "23920", "--schedule", "cosine final=0.1", "--warmup", "2160", "--weight-decay", "0.1"
EVERY = 6  # of the rows of the public run


def lines():
    run = st.example_loss_curves("100M")["cosine_24000"]
    rows = zip(run.step[::EVERY], run.learning_rate[::EVERY], run.loss[::EVERY], strict=True)
    return [f"{step:.0f},{rate:.17g},{loss:.6g}\n" for step, rate, loss in rows]


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "run7.csv", HEADER, lines()[:14])


def write(path, header, rows):
    path.write_text(header + "".join(rows))
    return path


@pytest.fixture
def asked(monkeypatch):
    """Curves and options of each forecast, which is made up of them."""
    seen = []

    def forecast(given, *, num_steps, level, **options):
        seen.append((given, {"num_steps": num_steps, **options}))
        run, early = given[-1], "few rows" if given[-1].step.size < 20 else ""
        loss, step = float(run.loss[-1]), int(run.step[-1])
        path = st.curves.LossPrediction(run.step, *[run.loss] * 4)
        return st.curves.Forecast(num_steps, loss, (1.0, 9.0), level, step, loss, 0.1, early, "", path, run)

    monkeypatch.setattr(st.curves, "forecast_loss", forecast)
    return seen


SCHEDULE = st.Cosine(final=0.1, warmup=2160 / 23_920)
OPTIONS = {"num_steps": 23_920, "schedule": SCHEDULE, "weight_decay": 0.1, "optimizer": "adam"}


def head_of(count=14):
    run = st.example_loss_curves("100M")["cosine_24000"]
    rows = slice(None, count * EVERY, EVERY)
    return st.LossCurve(run.step[rows], run.learning_rate[rows], run.loss[rows], warmup=2160)


def assert_asked(asked, count=14):
    """The last forecast was of the first rows of the public run, with the options of the plan."""
    (*_, run), options = asked[-1]
    assert options == OPTIONS
    expected = head_of(count)
    assert run.warmup == expected.warmup
    for name in ("step", "learning_rate", "loss"):
        np.testing.assert_allclose(getattr(run, name), getattr(expected, name), rtol=1e-5)


def test_the_number_comes_first(run, log, tmp_path):
    """A fit, with its number, its figure and its JSON."""
    plot = tmp_path / "forecast.png"
    expected = st.curves.forecast_loss(head_of(), **OPTIONS, level=0.8)
    out = run("forecast", log, *PLAN, "--level", "0.8", "--plot", plot)
    assert out.splitlines()[:2] == [expected.line, f"now {expected.now:.4g} at step {expected.step:,}, 51% of the run"]
    assert plot.stat().st_size > 10_000
    found = run.json("forecast", log, *PLAN, "--level", "0.8")
    assert (found["loss"], found["band"], found["level"]) == (expected.loss, [*expected.band], 0.8)
    assert found["path"]["step"][-1] == 23_920


def test_a_batch_size_that_is_not_needed_is_not_asked_for(notes, asked, log):
    assert not any("batch size" in line for line in notes("forecast", log, *PLAN)[1])


def test_columns_of_other_names(run, asked, tmp_path):
    """Names of columns are asked for in every command that reads a log."""
    log = write(tmp_path / "a.csv", "count,rate,nll\n", lines()[:14])
    run("forecast", log, *PLAN, "--step", "count", "--learning-rate", "rate", "--loss", "nll")
    assert_asked(asked)


def test_what_the_log_says_is_not_asked_for(run, asked, tmp_path):
    """Steps, schedule, warm-up and weight decay of Hugging Face's state and settings."""
    cells = [map(float, line.split(",")) for line in lines()[:14]]
    rows = [{"step": int(step), "learning_rate": rate, "loss": loss} for step, rate, loss in cells]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": rows, "max_steps": 23_920}))
    run("forecast", path, *PLAN[2:])
    assert_asked(asked)


def test_a_warm_up_in_the_log_is_one_of_the_schedule(run, asked, tmp_path):
    """Rows of the warm-up before those of the log."""
    warm = [f"{t},{3e-4 * t / 2160:.17g},{8 - t / 500:.6g}\n" for t in range(60, 2160, 60)]
    run("forecast", write(tmp_path / "a.csv", HEADER, warm + lines()[:14]), *PLAN[:4], *PLAN[6:])
    assert asked[-1][1] == OPTIONS
    assert asked[-1][0][-1].step[-1] == head_of().step[-1]


@pytest.mark.parametrize(
    ("style", "schedule"), [("minus_sqrt", st.WSD(power=0.5)), ("linear", st.WSD())], ids=["1 − √", "linear"]
)
def test_the_decay_that_megatron_prints(run, asked, tmp_path, style, schedule):
    """Its names of WSD and of 1 − √, in the arguments of a log."""
    arguments = {"lr_decay_style": "WSD", "lr_wsd_decay_style": style, "optimizer": "adam", "weight_decay": 0.1}
    text = "------ arguments ------\n" + "".join(f"  {name} ..... {value}\n" for name, value in arguments.items())
    cells = [line.strip().split(",") for line in lines()[:14]]
    rows = [
        f" iteration {step}/ 23920 | elapsed time per iteration (ms): 9.0 | learning rate: {rate} | lm loss: {loss} |\n"
        for step, rate, loss in cells
    ]
    run("forecast", write(tmp_path / "megatron.log", text, rows), "--warmup", "0")
    assert asked[-1][1]["schedule"] == schedule


def test_remarks_on_the_log_are_said(notes, asked, tmp_path):
    rows = [line.replace("\n", ",1\n") for line in lines()[:14]]
    _, said = notes("forecast", write(tmp_path / "a.csv", "step,learning_rate,loss,loss\n", rows), *PLAN)
    assert any("2 columns are called 'loss'" in line for line in said)


def test_too_early_is_said(run, asked, tmp_path):
    out = run("forecast", write(tmp_path / "young.csv", HEADER, lines()[:5]), *PLAN)
    assert out.startswith("final loss ")
    assert "\ntoo early: few rows" in out


def test_other_runs_are_fitted_too(run, asked, log, tmp_path):
    run("forecast", log, *PLAN, "--also", write(tmp_path / "other.csv", HEADER, lines()))
    assert [curve.name for curve in asked[-1][0]] == ["other", "run7"]
    assert_asked(asked)


def test_runs_in_one_log_are_told_apart_by_name(run, asked, fails, tmp_path):
    rows = [f"a,{line}" for line in lines()[:14]] + [f"b,{line}" for line in lines()[:20]]
    path = write(tmp_path / "runs.csv", f"run,{HEADER}", rows)
    assert "run-name must say which run of " in fails("forecast", path, *PLAN, "--curve", "run")
    run("forecast", path, *PLAN, "--curve", "run", "--run-name", "a")
    assert_asked(asked)


# ------------------------------------------------------------------ a log that grows


@pytest.fixture
def growing(monkeypatch):
    """Append text to a file each time that the command sleeps; the command must end before the text is used up."""

    def start(path, parts):
        parts = iter(parts)

        def sleep(seconds):
            assert seconds > 0
            with path.open("a") as file:
                file.write(next(parts))
            os.utime(path)

        monkeypatch.setattr("sgdtheory.cli.forecast.time.sleep", sleep)

    return start


def test_following_prints_a_line_for_each_version_up_to_the_end(notes, asked, log, growing):
    rest = lines()[14:]
    half, other = rest[0][:-4], rest[0][-4:]  # its last line is half written at first
    growing(log, [half, other + "".join(rest[1:6]), "".join(rest[6:])])
    out, said = notes("forecast", log, *PLAN, "--follow")
    for line, head, early in zip(out.splitlines(), map(head_of, (14, 20)), ("; too early: few rows", ""), strict=True):
        answer = f"final loss {head.loss[-1]:.4g} (1 … 9) at step 23,920, 95%"
        assert line == f"step {head.step[-1]:,.0f}: {answer}{early}"
    assert_asked(asked, 20)
    last = lines()[-1].split(",")
    assert said[-1].endswith(f"the run has ended at step {int(last[0]):,}, loss {float(last[2]):.4g}")


def test_following_waits_for_a_log(notes, asked, tmp_path, growing):
    """The log does not exist yet, and then has too few rows: one message for each."""
    path = tmp_path / "soon.csv"
    growing(path, [HEADER, lines()[0], "", "".join(lines()[1:14]), "".join(lines()[14:])])
    out, said = notes("forecast", path, *PLAN[:2], "--warmup", 2160, "--optimizer", "sgd", "--follow", "--json")
    (line,) = out.splitlines()
    assert json.loads(line)["step"] == head_of().step[-1]
    assert len(said) == len(set(said))
    assert "soon.csv, which does not exist yet" in said[0]
    assert "waiting: " in said[1]
    assert "the run has ended" in said[-1]


def test_a_line_that_is_being_written_is_left_out(tmp_path):
    """As long as it is: a writer may buffer; what ends as JSON does, is compressed or a folder is read as it is."""
    folder = tmp_path / "copies"
    folder.mkdir()
    path = tmp_path / "log.csv"
    path.write_text("1,2\n3,4\n5,")
    assert whole_lines(path, folder).read_text() == "1,2\n3,4\n"
    assert whole_lines(path, folder).name == "log.csv"
    for content in (b"1,2\n", b'{"a": 1}', b"[1]", b"", b"\x1f\x8bx", 63 * b"x" + b"\0y"):
        path.write_bytes(content)
        assert whole_lines(path, folder) is path
    path.write_bytes(b"1,2\n" + 60 * b"x" + b"\0y")  # no text has a zero among its first 64 bytes
    assert whole_lines(path, folder).read_bytes() == b"1,2\n"
    assert whole_lines(folder, folder) is folder


def test_versions(tmp_path):
    """A missing log is waited for, and an unchanged one is not read again."""
    folder = tmp_path / "events"
    looks = []

    def wait():
        looks.append(1)
        if len(looks) == 2:
            folder.mkdir()
            (folder / "one").write_bytes(b"x")
        if len(looks) == 5:
            (folder / "two").write_bytes(b"y")

    found = versions(folder, wait)
    next(found)
    assert len(looks) == 2
    next(found)
    assert len(looks) == 5
