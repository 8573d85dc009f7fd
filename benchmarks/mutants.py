"""Do the tests notice? `python -m benchmarks.mutants sgdtheory/bounds/theorem_7.py` changes one operator at a time.

The mutants that survive are listed. Some of them change no result, but only a search grid or a tolerance. A folder in
place of the file, with `--sample 40`, gives the score of a subpackage: a mutant then meets the tests named after its
module first, the other tests of the subpackage after them, and if it survives these, all test files that name what the
module defines.

Whether tests may be deleted is a comparison: `--without` names them, the other tests run first, and the mutants that
survive meet those tests alone. A mutant that only they kill would come back to life.

Outcomes are kept in `results/mutants` as long as the module and its test files stay as they are (delete them after
changes elsewhere); a mutant that a test has killed meets that test first the next time.
"""

import ast
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Lock
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.mutations import Mutant, mutants

FILES = "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"  # of the project
PRELOADED = ["pytest", "numpy", "scipy.optimize", "scipy.stats", "mpmath", "hypothesis", "jax"]  # not what is mutated
OPTIONS = ["-o", "addopts=", "-m", "not slow", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is loaded before
LONGEST = 3600.0  # seconds that tests may take whose usual time is not known
MOST_FILES = 20  # test files: a name that more of them have, such as `settings`, does not tell whose tests they are
DEFINITIONS = ast.FunctionDef, ast.ClassDef
MEMORY = 12 * 2**30  # bytes that a mutant may take (browsers reserve far more address space than they use)


@dataclass(frozen=True)
class Outcome:
    """Result of one mutant: "killed", "slow" (ended by the time limit) or "alive", and the test that killed it."""

    state: str
    killer: str
    seconds: float
    fingerprint: str


class _Recorder:
    """A pytest plugin that keeps the first test that failed and the seconds that each test file took."""

    def __init__(self) -> None:
        self.failed = ""
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid.partition("::")[0]


def _run_tests(folder: str, options: list[str], answer: str) -> None:
    """Run the tests of a copy of the project in a separate process, and write the first failure's name to `answer`."""
    import hypothesis
    import pytest

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = False  # what is not mutated is compiled once
    os.environ["PYTHONPATH"] = folder
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    hypothesis.settings.register_profile("mutants", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])
    hypothesis.settings.load_profile("mutants")  # shrinking an example takes minutes
    recorder = _Recorder()
    status = pytest.main([*OPTIONS, "--rootdir", folder, *options], plugins=[recorder])
    Path(answer).write_text(json.dumps([int(status), recorder.failed, recorder.seconds]))


@dataclass(frozen=True)
class Tried:
    """A mutant of `module`, and the test files that it meets, in this order."""

    module: Path
    mutant: Mutant
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its module and what is changed there."""
        return f"{self.module}: {self.mutant.name}"


class Project:
    """Copies of the project, one a worker, in which a module is replaced and tests are run."""

    def __init__(self, root: Path, jobs: int, scratch: Path) -> None:
        self.free: SimpleQueue[Path] = SimpleQueue()
        self.seconds: dict[str, float] = {}
        for k in range(jobs):
            folder = scratch / str(k)
            folder.mkdir()
            for name in subprocess.check_output(FILES, cwd=root, text=True).rstrip("\0").split("\0"):
                if (root / name).exists():  # A deleted file is listed until that is committed.
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(root / name, folder / name, follow_symlinks=False)
            self.free.put(folder)
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes at a time
        self.context = get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)

    def outcome(self, module: Path, source: str, options: list[str], limit: float, fingerprint: str = "") -> Outcome:
        """Run tests, for at most `limit` seconds, on a module with another source."""
        folder = self.free.get()
        answer = folder / "answer.json"
        answer.unlink(missing_ok=True)
        original = (folder / module).read_text()
        _write(folder / module, source)
        start = time.perf_counter()
        process = self.context.Process(target=_run_tests, args=(str(folder), options, str(answer)))
        process.start()
        process.join(limit)
        late = process.is_alive()
        if late:
            process.kill()
            process.join()
        seconds = time.perf_counter() - start
        status, failed, self.seconds = json.loads(answer.read_text()) if answer.exists() else (-1, "", {})
        _write(folder / module, original)
        self.free.put(folder)
        if status == 4 and "::" in options[0]:  # the test that killed it before is no more
            return self.outcome(module, source, options[1:], limit, fingerprint)
        state = "slow" if late else "alive" if status == 0 else "killed"
        return Outcome(state, failed, round(seconds, 2), fingerprint)

    def confirmed(self, tried: Tried, options: list[str], limit: float, fingerprint: str) -> Outcome:
        """Run tests of which it is not known that they pass without a change.

        A test kills the mutant if it passes on the module as it is. If not, its file is left out, and the others run.
        """
        left = list(options)
        while left:
            outcome = self.outcome(tried.module, tried.mutant.source, left, limit, fingerprint)
            if outcome.state != "killed":
                return outcome
            if self.outcome(tried.module, tried.module.read_text(), [outcome.killer], limit).state == "alive":
                return outcome
            file = outcome.killer.partition("::")[0]
            left = [option for option in left if option.partition("::")[0] != file]
        return Outcome("alive", "", 0.0, fingerprint)


def _write(module: Path, source: str) -> None:
    """Replace a module, and its compiled file, which may be of another source written within the same second."""
    module.write_text(source)
    for stale in module.parent.glob(f"__pycache__/{module.stem}.*"):
        stale.unlink()


def own_tests(module: Path) -> list[str]:
    """The test files of a module: those named after it or, if there is none, all that import it."""
    folder = Path("tests", *module.parts[1:-1])
    found = sorted({*folder.glob(f"test_{module.stem}.py"), *folder.glob(f"test_{module.stem}_*.py")})
    if not found:
        dotted = ".".join(module.with_suffix("").parts)
        found = sorted(path for path in Path("tests").rglob("test_*.py") if dotted in path.read_text())
    return [str(path) for path in found]


def subpackage_tests(module: Path) -> list[str]:
    """The test files of a module, of its subpackage, and those that compare all algorithms, in this order."""
    places = f"{module.parts[1]}/**/test_*.py", "golden/test_*.py", "test_agreement.py"
    others = [str(path) for place in places for path in sorted(Path("tests").glob(place))]
    return list(dict.fromkeys([*own_tests(module), *others]))


def tests_elsewhere(tried: Tried) -> tuple[str, ...]:
    """The other test files that name public functions or classes of the module, those that name most of them first."""
    defined = [node.name for node in ast.parse(tried.module.read_text()).body if isinstance(node, DEFINITIONS)]
    files = [path for folder in ("tests", "paper_checks") for path in sorted(Path(folder).rglob("test_*.py"))]
    words = {str(path): set(re.findall(r"\w+", path.read_text())) for path in files}
    files_of = {name: [test for test in words if name in words[test]] for name in defined if name[0] != "_"}
    telling = (tests for tests in files_of.values() if len(tests) <= MOST_FILES)
    number = Counter(test for tests in telling for test in tests if test not in tried.tests)
    return tuple(test for test, _ in number.most_common())


def judge(
    name: str, chosen: list[Tried], jobs: int, without: tuple[str, ...] = (), checked: bool = True
) -> dict[str, Outcome]:
    """An outcome for each mutant; those whose module and tests have not changed since come from the cache.

    With `checked` all tests have to pass as they are first; without it only a test that kills a mutant has to.
    """
    tests = list(dict.fromkeys(test for tried in chosen for test in tried.tests))
    left_out = [f"--deselect={each}" for each in without]
    selection = hashlib.sha256("\n".join([*tests, *left_out]).encode()).hexdigest()[:8]  # outcomes are of these tests
    cache = Path("results", "mutants", f"{name}-{selection}.json")
    known = {name: Outcome(**value) for name, value in json.loads(cache.read_text()).items()} if cache.exists() else {}
    cache.parent.mkdir(parents=True, exist_ok=True)
    texts = {test: Path(test.partition("::")[0]).read_text() for test in tests}
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as scratch, Console().status(f"{name}: its tests as they are") as status:
        project = Project(Path.cwd(), jobs, Path(scratch))
        module, seconds = chosen[0].module, {}
        if checked:
            baseline = project.outcome(module, module.read_text(), [*tests, *left_out], LONGEST)
            if baseline.state != "alive":
                raise SystemExit(f"the tests fail before anything is changed: {baseline.killer}")
            seconds = project.seconds
            if project.outcome(module, "raise ImportError\n", [*chosen[0].tests, *left_out], LONGEST).state == "alive":
                raise SystemExit(f"the tests do not use {module} of their copy")
        lock = Lock()

        def keep() -> None:
            with lock:
                written = cache.with_suffix(".new")
                written.write_text(json.dumps({k: asdict(v) for k, v in (known | found).items()}, indent=1))
                written.replace(cache)

        def one(tried: Tried) -> None:
            words = "".join([tried.mutant.source, *(texts[test] for test in tried.tests)])
            fingerprint = hashlib.sha256(words.encode()).hexdigest()[:16]
            before = known.get(tried.name)
            if before and before.fingerprint == fingerprint:
                found[tried.name] = before
            else:
                first = [before.killer] if before and before.killer else []
                options = [*first, *tried.tests, *left_out]
                if checked:
                    limit = 30 + 5 * sum(seconds.get(test.partition("::")[0], 0.0) for test in tried.tests)
                    outcome = project.outcome(tried.module, tried.mutant.source, options, limit, fingerprint)
                else:
                    outcome = project.confirmed(tried, options, LONGEST, fingerprint)
                found[tried.name] = outcome
                keep()
            status.update(f"{name}: {len(found)} mutants, {sum(o.state == 'alive' for o in found.values())} alive")

        with ThreadPoolExecutor(jobs) as executor:
            list(executor.map(one, chosen))
    return found


def main(
    module: tyro.conf.Positional[Path],
    tests: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    jobs: int = 2,
    only: str = "",
    sample: int | None = None,
    seed: int = 0,
    show: bool = False,
) -> None:
    """Change one operator of a module at a time and list the changes that its tests do not notice.

    Args:
        module: the file, from the project's root: sgdtheory/bounds/theorem_7.py; or a folder, for all files in it.
        tests: test files to run; by default those named after the module. For a folder the others of the subpackage
            come after them, and what survives meets the files elsewhere that name what the module defines.
        without: files or tests (`file::test`) that may be deleted; tells which mutants they alone kill.
        jobs: how many mutants are tried at a time.
        only: try those whose name has this in it.
        sample: try only so many, drawn at random.
        seed: of the draw, the same mutants every time. A score on mutants that tests were written for is too high:
            another seed draws others.
        show: list the mutants and try none.
    """
    files = sorted(module.rglob("*.py")) if module.is_dir() else [module]
    every = [(file, mutant) for file in files for mutant in mutants(file.read_text())]
    console = Console(soft_wrap=True)
    if show:
        for file, mutant in every:
            console.print(f"{file}:{mutant.line:<4d}  {mutant.name}", markup=False, highlight=False)
        return
    drawn = [(file, mutant) for file, mutant in every if only in mutant.name]
    if sample is not None and sample < len(drawn):
        drawn = Random(seed).sample(drawn, sample)
    tests_of = subpackage_tests if module.is_dir() else own_tests
    chosen = [Tried(file, mutant, tests or tuple(tests_of(file))) for file, mutant in drawn]
    untested = {str(tried.module) for tried in chosen if not tried.tests}
    if untested:
        raise SystemExit(f"no tests of {', '.join(sorted(untested))} found; name them with --tests")
    name = "-".join(module.with_suffix("").parts)
    found = judge(name, chosen, jobs, without) if chosen else {}
    alive = [tried for tried in chosen if found[tried.name].state == "alive"]
    if module.is_dir() and not tests:
        for tried in alive:
            others = replace(tried, tests=tests_elsewhere(tried))
            if others.tests:
                found |= judge(f"{name}-elsewhere", [others], jobs, checked=False)
        alive = [tried for tried in alive if found[tried.name].state == "alive"]
    again = judge(name, [replace(tried, tests=without) for tried in alive], jobs) if without and alive else {}
    back = [tried for tried in alive if tried.name in again and again[tried.name].state != "alive"]
    for tried in alive:
        note = "back to life" if tried in back else "alive"
        console.print(f"{tried.module}:{tried.mutant.line}  {note}  {tried.mutant.name}", markup=False, highlight=False)
    table = Table("module", "mutants", "tried", "alive", "back to life", "killed")
    killed = f"{1 - len(alive) / max(len(chosen), 1):.1%}"
    table.add_row(str(module), str(len(every)), str(len(chosen)), str(len(alive)), str(len(back)), killed)
    console.print(table)


if __name__ == "__main__":
    tyro.cli(main)
