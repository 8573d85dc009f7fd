"""Every code block of the README and the guides runs, and prints what its page says."""

import ast
import contextlib
import io
import pickle
import shlex
import subprocess
import sys

import pytest

from sgdtheory import cli
from sgdtheory.cli.parsing import parse
from sgdtheory.curves import theory_fit
from tests.conftest import quickly_compiled
from tests.docs.blocks import Block, disagreement, expected_of, programs, write_files


def cases(language: str):
    """A parameter for each program, slow where its page says so."""
    return [
        pytest.param(block, id=block.name, marks=[pytest.mark.slow] if "slow" in block.marks else [])
        for block in programs(language)
    ]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Programs run in an empty folder, with tables as wide as in a pipe."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


KEPT: dict[bytes, tuple] = {}  # (curves, law) and level, as bytes → the fit, or its intervals


@pytest.fixture(autouse=True)
def _fitted_once(monkeypatch):
    """Fit the same loss curves once, which takes 16 seconds: several programs of a page begin with one fit."""

    def once(compute, key, *arguments):
        key = pickle.dumps(key)
        if key not in KEPT:
            KEPT[key] = compute(*arguments)
        return KEPT[key]

    fit, intervals = theory_fit.fit_to, theory_fit.intervals
    monkeypatch.setattr(
        theory_fit, "fit_to", lambda curves, law, progress: once(fit, (curves, law), curves, law, progress)
    )
    # A fit in KEPT is never freed, so that no other one has its identity.
    monkeypatch.setattr(
        theory_fit, "intervals", lambda found, data, level: once(intervals, (id(found), level), found, data, level)
    )


@pytest.mark.parametrize("block", cases("python"))
def test_python_block(block: Block, folder):
    """It runs, and prints the numbers that the page shows, to the digits that it shows."""
    if "needs" in block.marks:
        pytest.importorskip(block.marks["needs"])
    write_files(block.page, folder)
    with compilation(block.code):
        if "__main__" in block.code:  # starts processes, which read it as a file
            (folder / "program.py").write_text(block.code)
            done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            printed, differences = done.stdout, []
        else:
            printed, differences = run_statements(block)
    if block.output is not None:
        differences.append(disagreement(block.output, printed))
    assert not list(filter(None, differences))


def compilation(code: str) -> contextlib.AbstractContextManager:
    """Return the context for a program or command: those that train networks compile small programs quickly."""
    words = "sgdtheory.training", "sgdtheory.sweep", "sgdtheory sweep", "sgdtheory train"
    return quickly_compiled() if any(each in code for each in words) else contextlib.nullcontext()


def run_statements(block: Block) -> tuple[str, list[str | None]]:
    """Run a program statement by statement; all that it prints, and where a statement printed something else."""
    code = "\n" * block.line + block.code
    names, everything, differences = {"__name__": "program"}, [], []
    for statement in ast.parse(code).body:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(ast.Module([statement], []), str(block.page), "exec"), names)
        everything.append(out.getvalue())
        lines = "\n".join(code.splitlines()[statement.lineno - 1 : statement.end_lineno])
        if (expected := expected_of(lines)) is not None:
            differences.append(disagreement(expected, out.getvalue()))
    return "".join(everything), differences


def commands(block: Block):
    """(arguments, file that takes the output or None) of each `sgdtheory` command of a shell block."""
    for line in block.code.replace("\\\n", " ").splitlines():
        for part in line.split("&&"):
            words = shlex.split(part, comments=True)
            if words[:1] == ["sgdtheory"]:
                end = words.index(">") if ">" in words else len(words)
                yield words[1:end], next(iter(words[end + 1 :]), None)


@pytest.mark.parametrize("block", cases("sh"))
def test_shell_block(block: Block, folder, capsys):
    """Its `sgdtheory` commands have these flags; those marked to be run say what the page says."""
    write_files(block.page, folder)
    printed = ""
    for arguments, file in commands(block):
        parse(arguments)
        if "run" in block.marks:
            with compilation(block.code):
                cli.main(arguments)
            out = capsys.readouterr().out
            printed += "" if file else out
            if file:
                (folder / file).write_text(out)
    if block.output is not None:
        assert not disagreement(block.output, printed)


@pytest.mark.parametrize(
    ("expected", "printed", "agrees"),
    [
        ("[0.70 1.1e8]", "[0.7039, 105799296.08]", True),
        ("0.70", "0.72", False),
        ("0.70", "0.706", False),
        ("0.71", "0.706", True),
        ("1.1", "1.0006", False),
        ("0.09", "0.0961", False),
        ("0.10", "0.0961", True),
        ("2.981", "2.9820", False),
        ("2e-3", "0.0024", True),
        ("2e-3", "0.0026", False),
        ("1143 (−0.5)", "1143.0 -0.5", True),
        ("1143", "1145", False),
        ("1143", "1143 7", False),
        ("1143 …", "1143 7 8", True),
        ("holds … 0.5", "holds 1 2 0.5", True),
        ("holds", "fails", False),
        ("[nan, 64]", "[nan, 64.0]", True),
        ("nan", "64", False),
        ("2", "", False),
    ],
)
def test_disagreement(expected, printed, agrees):
    """Numbers rounded to the last digit shown, words as they are, punctuation not at all."""
    assert (disagreement(expected, printed) is None) is agrees


def test_expected_of():
    """The expected output is the comment behind a print, up to a semicolon; other statements have none."""
    assert expected_of("print(a)  # 1, 2; as it should be") == "1, 2"
    assert expected_of("print(\n    a\n)  # 3") == "3"
    assert expected_of("print(a)") is None
    assert expected_of("a = 1  # one") is None
