"""The mutation pass: what it changes, and that it tells a test that notices from one that does not."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mutations import mutants, names_of_mutants
from tests.marks import slow

ROOT = Path(__file__).parents[2]

SOURCE = '''
"""A text with 1 + 1."""
LIMIT: dict[int, int] | None = None

@cache(maxsize=3)
def f(x: "1 + 1", size=2.0, *, flag=True) -> 3:
    if x <= 0 and not flag:
        raise ValueError(f"{x + 1} below {0}")
    return min(-x, x / size), np.floor(x)[0]

@overload
def f(x, size=3.0): ...

def g(x, y):
    return dict(zip(x, y, strict=True))
'''


def changes(source):
    return [name.partition(": ")[2] for name in names_of_mutants(source)]


def test_every_kind_of_change_and_nothing_that_says_nothing():
    assert sorted(changes(SOURCE)) == sorted(
        [
            "size=2.0 -> size=4.0",
            "flag=True -> flag=False",
            "x <= 0 and (not flag) -> x <= 0 or not flag",
            "x <= 0 -> x < 0",
            "x <= 0 -> x > 0",
            "x <= 0 -> x <= 1",
            "not flag -> not not flag",
            "min(-x, x / size) -> max(-x, x / size)",
            "-x -> +x",
            "x / size -> x * size",
            "np.floor(x) -> np.ceil(x)",
            "np.floor(x)[0] -> np.floor(x)[1]",
        ]
    )


@pytest.mark.parametrize("module", ["bounds/theorem_7", slow("risk/stability"), "problems/problem"])
def test_mutants_are_one_change_each_and_have_names_of_their_own(module):
    source = (ROOT / "sgdtheory" / f"{module}.py").read_text()
    found, original = mutants(source), ast.dump(ast.parse(source))
    assert [mutant.name for mutant in found] == names_of_mutants(source)
    assert len({mutant.name for mutant in found}) == len(found)
    assert all(ast.dump(ast.parse(mutant.source)) != original for mutant in found)


def tried(project, module, *flags):
    """Return what the command prints of a module in a project of its own, whose files git lists."""
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.mutants", module, "--jobs", "1", *flags],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_test_that_notices_is_told_from_one_that_does_not(tmp_path):
    for folder in ("sgdtheory", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "sgdtheory" / "small.py").write_text("def f(x, y):\n    return x + y, x - y\n")
    begin = "from sgdtheory.small import f\n\n\n"
    sums, differences = (f"def test_{k}():\n    assert f(3, 1)[{k}] == {value}\n" for k, value in enumerate((4, 2)))
    (tmp_path / "tests" / "test_small.py").write_text(begin + sums)
    (tmp_path / "tests" / "test_more.py").write_text(begin + differences)
    several = ["--tests", "tests/test_small.py", "tests/test_more.py", "--without", "tests/test_more.py"]
    cases = ([], "alive"), ([], "alive"), (several, "back to life")  # the second one from the cache
    for flags, note in cases:
        out = tried(tmp_path, "sgdtheory/small.py", *flags)
        assert f"{note}  f: x - y -> x + y" in out
        assert "x + y -> x - y" not in out
        assert "50.0%" in out


@pytest.mark.slow
def test_survivors_of_a_subpackage_meet_tests_elsewhere_that_pass_without_a_change(tmp_path):
    for folder in ("sgdtheory", "sgdtheory/part", "tests", "tests/part", "tests/other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "sgdtheory" / "part" / "one.py").write_text("def g(x, y):\n    return x * y, x / y, x // y\n")
    begin = "from sgdtheory.part.one import g\n\n\ndef test_g():\n    assert "
    for file, claim in (
        ("part/test_one", "g(3, 2)[0] == 6"),
        ("other/test_quotient", "g(3, 2)[1] == 1.5"),
        ("other/test_wrong", "g(3, 2)[2] == 2"),
    ):
        (tmp_path / "tests" / f"{file}.py").write_text(f"{begin}{claim}\n")
    out = tried(tmp_path, "sgdtheory/part")
    assert [line for line in out.splitlines() if "alive  " in line] == [
        "sgdtheory/part/one.py:2  alive  g: x // y -> x / y"
    ]
    assert "66.7%" in out
