import numpy as np
import pytest

from sgdtheory import cli
from sgdtheory.cli import progress
from tests.cli.made import write_folder
from tests.cli.once import answer_once
from tests.cli.text import BATCHES, strict_json

NOTE = "sgdtheory: note: "


@pytest.fixture(scope="session")
def answers():
    """Collect the answers of the library to commands and their tests."""
    return {}


@pytest.fixture(autouse=True)
def _once(monkeypatch, answers):
    answer_once(monkeypatch, answers)


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    """Tables as wide as in a pipe, and no notes on progress, whatever the machine and its load are."""
    monkeypatch.setattr(progress, "FIRST", 1e6)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A file of every kind that commands read."""
    return write_folder(tmp_path_factory.mktemp("files"))


@pytest.fixture
def notes(capsys):
    """Standard output, and the notes on standard error, of a command that succeeds."""

    def run_command(*arguments):
        cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        lines = err.splitlines()
        assert all(line.startswith(NOTE) for line in lines)
        return out, [line.removeprefix(NOTE) for line in lines]

    return run_command


@pytest.fixture
def run(notes):
    """Standard output of a command that succeeds; `run.json` is what it prints with --json."""

    def run_command(*arguments):
        return notes(*arguments)[0]

    run_command.json = lambda *arguments: strict_json(run_command(*arguments, "--json"))
    return run_command


@pytest.fixture
def fails(capsys):
    """The one line on standard error of a command that ends with status 2."""

    def run_command(*arguments):
        with pytest.raises(SystemExit) as caught:
            cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert caught.value.code == 2
        assert out == ""
        assert err.startswith("sgdtheory: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        return err

    return run_command


@pytest.fixture
def table_file(tmp_path):
    """Three models, noisy, in columns of other names."""
    rng = np.random.default_rng(0)
    rows = ["model,N,B,Y"]
    for name, size, a in (("small", 10, 900), ("medium", 40, 1500), ("large", 160, 2400)):
        steps = (a + 3e5 * size / np.array(BATCHES)) * np.exp(0.04 * rng.standard_normal(5))
        rows += [f"{name},{size},{batch},{value!r}" for batch, value in zip(BATCHES, steps.tolist(), strict=True)]
    path = tmp_path / "steps.csv"
    path.write_text("\n".join(rows))
    return path
