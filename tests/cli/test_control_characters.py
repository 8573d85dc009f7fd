"""Names that others chose reach no terminal as control characters; output and errors go where an encoding is poor."""

import contextlib
import csv
import json
import os
import subprocess
import sys

import pytest

import sgdtheory as st
from sgdtheory import cli
from sgdtheory._common.printable import one_line, printable, shortened
from tests import marks

EVIL = "a\nsgdtheory: note: all is well \x1b[2J\x1b]0;title\x07x\x9b31m\u202ey\r"
RUN = range(10, 400, 10)


def write_steps(path):
    rows = [(EVIL, 1, batch, 900 + 3e5 / batch * (1 + 0.01 * k)) for k, batch in enumerate((16, 64, 256, 1024))]
    rows += [(f"other {EVIL}", 2, batch, 1900 + 6e5 / batch) for batch in (16, 64, 256, 1024)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("model", "size", "batch_size", "steps"), *rows])
    return path


def write_log(path):
    rows = [{"run": EVIL, "step": t, "loss": 2 + 10 / t, "learning_rate": 0.01, f"z{EVIL}": 1} for t in RUN]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def is_clean(text):
    return all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "STEPS", "--group", "model"),
        ("plan", "STEPS", "--group", "model", "--target", "none", "--throughput", "4", "--micro-batch", "8"),
        ("fit-curves", "LOG", "--preview"),
        ("fit-curves", "LOG", "--loss", "none"),
        ("forecast", "LOG", "--preview"),
        ("advise", "LOG", "--new-batch-size", "64"),
        ("fit", "LOG", "--preview"),
        ("fit-grid", "LOG", "--preview"),
        ("fit-grid", "LOG"),
        ("show-sweep", "NAMED"),
        ("noise-scale", "LOG", "--small-batch", "1", "--large-batch", "8"),
    ],
    ids=" ".join,
)
def test_commands_print_no_control_characters(words, tmp_path, capsys):
    named = tmp_path / EVIL
    named.mkdir()
    files = {"STEPS": write_steps(tmp_path / "steps.csv"), "LOG": write_log(tmp_path / "log"), "NAMED": named}
    with contextlib.suppress(SystemExit):
        cli.main([str(files.get(word, word)) for word in words])
    out, err = capsys.readouterr()
    assert out + err
    assert is_clean(out)
    assert is_clean(err)
    assert "\nsgdtheory: note: all is well" not in f"\n{out}\n{err}"


def test_what_python_prints(tmp_path):
    shown = str(st.logs.preview(write_log(tmp_path / "log")))
    assert is_clean(shown)
    assert "\nsgdtheory" not in shown
    steps = write_steps(tmp_path / "steps.csv")
    (first, _) = st.read_measurements(steps, steps="steps", group="model")
    assert first.group == EVIL.rstrip()  # data stay as they are


def test_spelling():
    assert printable("\x1b[31mα\tβ\n\x9b\u2028\udce9\x7f") == "\\x1b[31mα\tβ\n\\x9b\\u2028\\udce9\\x7f"
    assert one_line("a\n\tb") == "a\\n\\tb"
    assert printable("é ∞ 漢字 👩‍👩‍👧 نص") == "é ∞ 漢字 👩‍👩‍👧 نص"
    assert shortened("x" * 399) == "x" * 399
    assert shortened(f"no {'x' * 5000} here") == f"no {'x' * 150}…{'x' * 50} here"


@pytest.mark.parametrize(
    "environment", [{}, *map(marks.slow, [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1:strict"}])]
)
def test_output_in_the_locale_of_c(environment):
    """Without UTF-8 anywhere, as in a container or a cron job: letters that the encoding lacks are spelt out."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **environment}
    known = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
    command = [sys.executable, "-m", "sgdtheory", "parametrizations"]
    result = subprocess.run(command, env=known | plain, capture_output=True)
    assert result.returncode == 0, result.stderr
    assert b"hidden" in result.stdout
    assert result.stdout.isascii() or environment.get("PYTHONIOENCODING", "").startswith("latin")
