"""`sgdtheory forecast`: what it prints of a log, and how it follows one that grows."""

import json
import os
from functools import cache

import pytest

import sgdtheory as st
from sgdtheory import cli
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
    path = tmp_path / "run7.csv"
    path.write_text(HEADER + "".join(lines()[:14]))
    return path


@cache
def expected(count=14):
    run = st.example_loss_curves("100M")["cosine_24000"]
    rows = slice(None, count * EVERY, EVERY)
    head = st.LossCurve(run.step[rows], run.learning_rate[rows], run.loss[rows], warmup=2160)
    return st.curves.forecast_loss(
        head, num_steps=23_920, schedule=st.Cosine(final=0.1, warmup=2160 / 23_920), weight_decay=0.1, optimizer="adam"
    )


def test_the_number_comes_first(run, log, tmp_path):
    plot = tmp_path / "forecast.png"
    first, second = run("forecast", log, *PLAN, "--plot", plot).splitlines()[:2]
    assert first == expected().line
    assert second == f"now {expected().now:.4g} at step {expected().step:,}, 51% of the run"
    assert plot.stat().st_size > 10_000


def test_a_batch_size_that_is_not_needed_is_not_asked_for(log, capsys):
    cli.main(["forecast", str(log), *map(str, PLAN)])
    assert "batch size" not in capsys.readouterr().err


def test_columns_of_other_names(run, log):
    """Names of columns are asked for in every command that reads a log."""
    log.write_text(log.read_text().replace("step,learning_rate,loss", "count,rate,nll", 1))
    names = "--step", "count", "--learning-rate", "rate", "--loss", "nll"
    assert run("forecast", log, *PLAN, *names).splitlines()[0] == expected().line


def test_json(run, log):
    found = json.loads(run("forecast", log, *PLAN, "--json", "--level", "0.8"))
    assert found["loss"] == expected().loss
    assert found["level"] == 0.8
    assert found["band"][1] - found["band"][0] < expected().band[1] - expected().band[0]
    assert found["path"]["step"][-1] == 23_920


def test_what_the_log_says_is_not_asked_for(run, tmp_path):
    """Steps, schedule, warm-up and weight decay of Hugging Face's state and settings."""
    rows = [
        {"step": int(step), "learning_rate": float(rate), "loss": float(loss)}
        for step, rate, loss in (line.split(",") for line in lines()[:14])
    ]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": rows, "max_steps": 23_920}))
    out = run("forecast", path, *PLAN[2:])
    assert out.splitlines()[0] == expected().line


def test_a_warm_up_in_the_log_is_one_of_the_schedule(run, log):
    """Rows of the warm-up before those of the log."""
    warm = "".join(f"{t},{3e-4 * t / 2160:.17g},{8 - t / 500:.6g}\n" for t in range(60, 2160, 60))
    log.write_text(HEADER + warm + "".join(lines()[:14]))
    assert run("forecast", log, *PLAN[:4], *PLAN[6:]).splitlines()[0] == expected().line


def test_too_early_is_said(run, tmp_path):
    path = tmp_path / "young.csv"
    path.write_text(HEADER + "".join(lines()[:5]))
    out = run("forecast", path, *PLAN)
    assert out.startswith("final loss ")
    assert "\ntoo early: 5 rows after the warm-up are too few for 7 numbers" in out


def test_other_runs_are_fitted_too(run, log, tmp_path):
    whole = tmp_path / "other.csv"
    whole.write_text(HEADER + "".join(lines()))
    found = json.loads(run("forecast", log, *PLAN, "--also", whole, "--json"))
    assert found["step"] == expected().step


def test_runs_in_one_log_are_told_apart_by_name(run, fails, tmp_path):
    path = tmp_path / "runs.csv"
    rows = [f"a,{line}" for line in lines()[:14]] + [f"b,{line}" for line in lines()[:20]]
    path.write_text("run," + HEADER + "".join(rows))
    assert "run-name must say which run of " in fails("forecast", path, *PLAN, "--curve", "run")
    found = json.loads(run("forecast", path, *PLAN, "--curve", "run", "--run-name", "a", "--json"))
    assert found["step"] == expected().step


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


def test_following_prints_a_line_for_each_version_up_to_the_end(log, growing, capsys):
    rest = lines()[14:]
    half, other = rest[0][:-4], rest[0][-4:]  # its last line is half written at first
    growing(log, [half, other + "".join(rest[1:6]), "".join(rest[6:])])
    cli.main(["forecast", str(log), *PLAN, "--follow"])
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    for line, found in ((first, expected()), (second, expected(20))):
        early = f"; too early: {found.too_early}" if found.too_early else ""
        assert line == f"step {found.step:,}: {found.line}{early}"
    last = lines()[-1].split(",")
    assert err.strip().endswith(f"the run has ended at step {int(last[0]):,}, loss {float(last[2]):.4g}")


def test_following_waits_for_a_log(tmp_path, growing, capsys):
    """The log does not exist yet, and then has too few rows: one message for each."""
    path = tmp_path / "soon.csv"
    growing(path, [HEADER, lines()[0], "", "".join(lines()[1:14]), "".join(lines()[14:])])
    cli.main(["forecast", str(path), *PLAN[:2], "--warmup", "2160", "--optimizer", "sgd", "--follow", "--json"])
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    assert json.loads(line)["step"] == expected().step
    notes = err.splitlines()
    assert all(note.startswith("sgdtheory: note: ") for note in notes)
    assert len(notes) == len(set(notes))
    assert "soon.csv, which does not exist yet" in notes[0]
    assert "waiting: " in notes[1]
    assert "the run has ended" in notes[-1]


def test_a_line_that_is_being_written_is_left_out(tmp_path):
    """As long as it is: a writer may buffer; what ends as JSON does, is compressed or a folder is read as it is."""
    folder = tmp_path / "copies"
    folder.mkdir()
    path = tmp_path / "log.csv"
    path.write_text("1,2\n3,4\n5,")
    assert whole_lines(path, folder).read_text() == "1,2\n3,4\n"
    assert whole_lines(path, folder).name == "log.csv"
    for content in (b"1,2\n", b'{"a": 1}', b"[1]", b"", b"\x1f\x8bx"):
        path.write_bytes(content)
        assert whole_lines(path, folder) is path
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
