"""The mutation pass: what it changes, and that it tells a test that notices from one that does not."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks.mutants import EQUIVALENT, equivalents
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


@pytest.mark.parametrize("module", ["bounds/theorem_7", slow("risk/exact"), "problems/problem"])
def test_mutants_are_one_change_each_and_have_names_of_their_own(module):
    source = (ROOT / "sgdtheory" / f"{module}.py").read_text()
    found, original = mutants(source), ast.dump(ast.parse(source))
    assert [mutant.name for mutant in found] == names_of_mutants(source)
    assert len({mutant.name for mutant in found}) == len(found)
    assert all(ast.dump(ast.parse(mutant.source)) != original for mutant in found)


def test_equivalent_mutants_exist():
    for path, excused in tomllib.loads(EQUIVALENT.read_text()).items():
        assert set(excused) <= set(names_of_mutants((ROOT / path).read_text())), path
        assert all(excused.values())
    assert equivalents(Path(path)) == excused
    assert equivalents(Path("no such module")) == {}


@pytest.mark.slow
def test_a_test_that_notices_is_told_from_one_that_does_not(tmp_path):
    for folder in ("sgdtheory", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "sgdtheory" / "small.py").write_text("def f(x, y):\n    return x + y, x - y\n")
    test = "from sgdtheory.small import f\n\n\ndef test_f():\n    assert f(3, 1)[0] == 4\n"
    (tmp_path / "tests" / "test_small.py").write_text(test)
    command = [sys.executable, "-m", "benchmarks.mutants", "sgdtheory/small.py", "--jobs", "1"]
    for _ in range(2):  # the second time from the cache
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        assert "alive  f: x - y -> x + y" in done.stdout
        assert "x + y -> x - y" not in done.stdout
        assert "50.0%" in done.stdout
