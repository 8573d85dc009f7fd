"""A check of what a change touches, in about a minute: `python -m tests.quick [PATHS …]`.

By default the change is what differs from `main`, files that are not committed included. The check runs

- ruff on everything;
- pyright on the changed modules and on those that use a name of theirs;
- the tests that use the changed modules, nearest first, each file for its share of the time: a test file that names a
  changed module is nearer than one that names a module which uses it;
- the programs and links of changed pages of the guides.

It says how many tests it left out. All of them run with `pytest`.
"""

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = "sgdtheory", "experiments", "benchmarks", "paper_checks", "tests"
HOUSE = "tests/test_wings.py"  # which subpackage may import which: any change may break it
PAGES = "tests/docs/test_blocks.py", "tests/docs/test_site.py"
EXAMPLES = "tests/test_docstrings.py"
# The tests may take so long. The graph of uses, Python and collection take about 20 s more on two cores.
SECONDS = 25.0
# Each test file has an equal share of the time, and what those before it leave. More files have shares below 2 s.
MOST_TEST_FILES = 12
# Pyright takes half a second for each module beside the 10 s that NumPy and JAX take.
MOST_TYPED = 40
IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n#]*)|import ([^\n#]*))", re.M)
EXAMPLE = re.compile(r"^ *(?:>>>|\.\.\.) .*$", re.M)
IMPORTED = re.compile(r"([\w.]+)(?: as (\w+))?")


# ---------------------------------------------------------------- who uses whom


def files() -> list[Path]:
    """All Python files, by their path in the repository."""
    return [path.relative_to(ROOT) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def names_used(path: Path) -> set[str]:
    """Dotted names that a file imports, and attributes of modules: `sgdtheory.excess_risk` of `st.excess_risk`.

    By pattern: parsing a thousand files takes ten times as long. Examples in docstrings do not count: modules that a
    class documents itself with are not modules that it uses.
    """
    text = EXAMPLE.sub("", (ROOT / path).read_text(encoding="utf-8"))
    bound: dict[str, str] = {}
    for module, names, modules in IMPORT.findall(text):
        for dotted, alias in IMPORTED.findall(names or modules):
            whole = f"{module}.{dotted}" if module else dotted
            if whole.partition(".")[0] in FOLDERS:
                bound[alias or dotted] = whole
    attributes = re.findall(rf"(?<![\w.])({'|'.join(map(re.escape, bound))})\.([\w.]+)", text) if bound else []
    return {*bound.values(), *(f"{bound[name]}.{chain}".rstrip(".") for name, chain in attributes)}


@cache
def stub(package: Path) -> dict[str, str]:
    """Public name → dotted name below the package, as its stub has it."""
    file = ROOT / package / "__init__.pyi"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return {line[5]: f"{line[1]}.{line[3]}".lstrip(".") for line in lines if line[:1] == ["from"]}


@cache
def defined_in(dotted: str) -> Path | None:
    """The file that defines a dotted name, through the stubs of packages; None if it is not in the repository."""
    place, rest = Path(), dotted.split(".")
    while rest:
        rest = [*stub(place).get(rest[0], rest[0]).split("."), *rest[1:]]
        module = place / rest.pop(0)
        if (ROOT / module).with_suffix(".py").is_file():
            return module.with_suffix(".py")
        if not (ROOT / module).is_dir():
            break  # a name that the package's __init__ defines, or no name of the repository
        place = module
    return place / "__init__.py" if (ROOT / place / "__init__.py").is_file() else None


@cache
def uses() -> dict[Path, dict[Path, int]]:
    """File → the files that it uses, with the number of their names that it uses."""
    found: dict[Path, dict[Path, int]] = {}
    for path in files():
        targets = [target for name in names_used(path) if (target := defined_in(name)) not in (None, path)]
        found[path] = {target: targets.count(target) for target in targets if target}
    return found


def distances(changed: Iterable[Path]) -> dict[Path, int]:
    """File → number of uses between it and the nearest changed file, for all that depend on one."""
    found = dict.fromkeys(changed, 0)
    step, last = 0, set(found)
    while last:
        step += 1
        last = {path for path, used in uses().items() if path not in found and last & used.keys()}
        found |= dict.fromkeys(last, step)
    return found


def is_test(path: Path) -> bool:
    """Return whether pytest collects a file."""
    return path.name.startswith("test_") and path.parts[0] in ("tests", "paper_checks")


def tests_of(changed: list[Path]) -> list[Path]:
    """The test files that depend on a change: nearest first, then those that use most names of the changed files.

    A file's own test comes first, also if it calls a command by name and imports nothing.
    """
    own = {Path("tests", *path.parts[1:-1], f"test_{path.name}") for path in changed} & uses().keys()
    steps = distances(changed)
    names = {path: sum(uses()[path].get(each, 0) for each in changed) for path in {*steps, *own} & uses().keys()}
    tests = [path for path in names if is_test(path)]
    return sorted(tests, key=lambda path: (path not in own, steps.get(path, 0), -names[path], path))


# ---------------------------------------------------------------- what has changed


def changed_files() -> list[Path]:
    """Files that differ from where this branch left `main`, or from the last commit where there is no `main`."""
    base = git("merge-base", "HEAD", "main") or git("merge-base", "HEAD", "origin/main") or ["HEAD"]
    return sorted({*git("diff", "--name-only", *base), *git("ls-files", "--others", "--exclude-standard")})


def git(*arguments: str) -> list[Path]:
    """The lines that git prints, as paths; none where it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return [Path(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []


def expanded(paths: Iterable[Path]) -> Iterator[Path]:
    """Files, of folders those below, by their path in the repository."""
    for path in paths:
        inside = path.resolve().relative_to(ROOT)
        yield from [each for each in files() if inside in each.parents] if path.is_dir() else [inside]


# ---------------------------------------------------------------- the checks


class Selected:
    """Plugin of pytest: of pages and docstrings the changed ones, and of each file as many tests as its time allows."""

    def __init__(self, changed: list[Path], seconds: float) -> None:
        self.pages = [path.name for path in changed if path.suffix == ".md"]
        self.modules = {".".join(path.with_suffix("").parts) for path in changed}
        self.seconds = seconds
        self.left = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the programs, links and examples of what has not changed."""
        items[:] = [item for item in items if self.wanted(item)]

    def wanted(self, item: pytest.Item) -> bool:
        """Return whether an item of the tests of pages and examples is about a changed file; other items are."""
        file, _, case = item.nodeid.partition("[")
        if file.startswith(PAGES):
            return any(case.startswith(page) for page in self.pages)
        if file.startswith(EXAMPLES):
            from tests.test_docstrings import RUN

            return getattr(RUN.get(case.rstrip("]")), "__module__", None) in self.modules
        return True

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin to count the time."""
        self.end = time.monotonic() + self.seconds
        self.files = list(dict.fromkeys(item.path for item in session.items))
        self.file, self.file_end = None, 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test whose file has used its share of the time."""
        now = time.monotonic()
        if item.path != self.file:
            self.file = item.path
            self.file_end = now + (self.end - now) / (len(self.files) - self.files.index(item.path))
        if now > self.file_end:
            self.left += 1
            pytest.skip("its file has used its share of the time")


def typed(changed: list[Path]) -> list[str]:
    """The changed modules that pyright checks, and those that use them."""
    steps = distances(changed)
    near = sorted((path for path, step in steps.items() if step < 2), key=lambda path: (steps[path], path))
    of_pyright = [path for path in near if path.suffix in (".py", ".pyi") and path.parts[0] in FOLDERS[:-1]]
    return [str(path) for path in of_pyright[:MOST_TYPED] if (ROOT / path).is_file()]


def main(arguments: list[str] | None = None) -> int:
    """Check a change; return 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; without any, what differs from main")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"time for tests (default: {SECONDS:g})")
    given = parser.parse_args(arguments)
    changed = list(expanded(given.paths)) if given.paths else changed_files()
    if not changed:
        print("nothing differs from main; name files or folders to check")
        return 0
    selected = Selected(changed, given.seconds)
    ruff = [
        subprocess.run([sys.executable, "-m", "ruff", *rule, "."], cwd=ROOT)
        for rule in (["check", "-q"], ["format", "-q", "--check"])
    ]
    modules = typed(changed)
    pyright = None
    if modules and importlib.util.find_spec("pyright"):
        pyright = subprocess.Popen(
            [sys.executable, "-m", "pyright", *modules], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
    reached = tests_of(changed)
    run = [str(path) for path in reached[:MOST_TEST_FILES]]
    run += [HOUSE, *(PAGES if selected.pages else ()), *([EXAMPLES] if modules else ())]
    status = pytest.main(["-q", "-n", "0", "-rfE", "--rootdir", str(ROOT), *dict.fromkeys(run)], plugins=[selected])
    said = pyright.communicate()[0] if pyright else "pyright: not run\n"
    print(said, end="")
    print(f"of {len(reached)} test files that depend on the change the nearest {MOST_TEST_FILES} were taken")
    print(f"{selected.left} tests were left out, as their share of the time was over; pytest runs all")
    return int(bool(status or any(each.returncode for each in ruff) or (pyright and pyright.returncode)))


if __name__ == "__main__":
    sys.exit(main())
