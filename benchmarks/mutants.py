"""Do the tests notice? `python -m benchmarks.mutants sgdtheory/bounds/theorem_7.py` changes one operator at a time.

The mutants that survive are listed. Some of them change no result, but only a search grid or a tolerance. Whether
tests may be deleted is a comparison: `--without` names them, the other tests run first, and the mutants that survive
meet those tests alone. A mutant that only they kill would come back to life.

Outcomes are kept in `results/mutants` as long as the module and its test files stay as they are (delete them after
changes elsewhere); a mutant that a test has killed meets that test first the next time.
"""

import hashlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
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

COPIED = "sgdtheory", "tests", "experiments", "paper_checks", "benchmarks", "pyproject.toml", "README.md", "THEORY.md"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "results", "*.png", ".*")
PRELOADED = ["pytest", "numpy", "scipy.optimize", "scipy.stats", "mpmath", "hypothesis", "jax"]  # not what is mutated
OPTIONS = ["-o", "addopts=", "-m", "not slow", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is loaded before
MEMORY = 12 * 2**30  # bytes of address space that a mutant may take


@dataclass(frozen=True)
class Outcome:
    """Result of one mutant: "killed", "slow" (ended by the time limit) or "alive", and the test that killed it."""

    state: str
    killer: str
    seconds: float
    fingerprint: str


class _Recorder:
    """A pytest plugin that keeps the first test that failed."""

    failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid.partition("::")[0]


def _run_tests(folder: str, options: list[str], answer: str) -> None:
    """Run the tests of a copy of the project in a separate process, and write the first failure's name to `answer`."""
    import hypothesis
    import pytest

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
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
    Path(answer).write_text(json.dumps([int(status), recorder.failed]))


class Project:
    """Copies of the project, one a worker, in which a module is replaced and its tests are run."""

    def __init__(self, root: Path, module: Path, options: list[str], jobs: int, scratch: Path) -> None:
        self.module, self.options, self.scratch = module, options, scratch
        self.free: SimpleQueue[Path] = SimpleQueue()
        for k in range(jobs):
            folder = scratch / str(k)
            folder.mkdir()
            for name in COPIED:
                if (root / name).is_dir():
                    shutil.copytree(root / name, folder / name, ignore=LEFT_OUT)
                elif (root / name).exists():
                    shutil.copy(root / name, folder / name)
            self.free.put(folder)
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes at a time
        self.context = get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)

    def outcome(self, source: str, first: str, limit: float, fingerprint: str = "") -> Outcome:
        """Run the tests, `first` before the others, on the module with another source."""
        folder = self.free.get()
        answer = folder / "answer.json"
        answer.unlink(missing_ok=True)
        (folder / self.module).write_text(source)
        for stale in (folder / self.module).parent.glob(f"__pycache__/{self.module.stem}.*"):
            stale.unlink()  # of another mutant written within the same second
        start = time.perf_counter()
        options = [first, *self.options] if first else self.options
        process = self.context.Process(target=_run_tests, args=(str(folder), options, str(answer)))
        process.start()
        process.join(limit)
        late = process.is_alive()
        if late:
            process.kill()
            process.join()
        seconds = time.perf_counter() - start
        status, failed = json.loads(answer.read_text()) if answer.exists() else (-1, "")
        self.free.put(folder)
        if status == 4 and first:  # the test that killed it before is no more
            return self.outcome(source, "", limit, fingerprint)
        state = "slow" if late else "alive" if status == 0 else "killed"
        return Outcome(state, failed, round(seconds, 2), fingerprint)


def own_tests(module: Path) -> list[str]:
    """The test files of a module: those named after it or, if there is none, all that import it."""
    folder = Path("tests", *module.parts[1:-1])
    found = sorted({*folder.glob(f"test_{module.stem}.py"), *folder.glob(f"test_{module.stem}_*.py")})
    if not found:
        dotted = ".".join(module.with_suffix("").parts)
        found = sorted(path for path in Path("tests").rglob("test_*.py") if dotted in path.read_text())
    if not found:
        raise SystemExit(f"no tests of {module} found; name them with --tests")
    return [str(path) for path in found]


def judge(
    module: Path, tests: list[str], jobs: int, chosen: Iterable[Mutant], without: tuple[str, ...] = ()
) -> dict[str, Outcome]:
    """An outcome for each mutant; those whose module and tests have not changed since come from the cache."""
    options = [*tests, *(f"--deselect={each}" for each in without)]
    selection = hashlib.sha256("\n".join(options).encode()).hexdigest()[:8]  # outcomes are those of these tests
    cache = Path("results", "mutants", "-".join([*module.with_suffix("").parts, selection]) + ".json")
    known = {name: Outcome(**value) for name, value in json.loads(cache.read_text()).items()} if cache.exists() else {}
    cache.parent.mkdir(parents=True, exist_ok=True)
    texts = "".join(Path(test.partition("::")[0]).read_text() for test in tests)
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as scratch, Console().status(f"{module}: its tests as they are") as status:
        project = Project(Path.cwd(), module, options, jobs, Path(scratch))
        baseline = project.outcome(module.read_text(), "", 3600.0)
        if baseline.state != "alive":
            raise SystemExit(f"the tests fail before anything is changed: {baseline.killer}")
        if project.outcome("raise ImportError\n", "", 3600.0).state == "alive":
            raise SystemExit(f"the tests do not use {module} of their copy")
        limit, lock = 30 + 5 * baseline.seconds, Lock()

        def keep() -> None:
            with lock:
                written = cache.with_suffix(".new")
                written.write_text(json.dumps({k: asdict(v) for k, v in (known | found).items()}, indent=1))
                written.replace(cache)

        def one(mutant: Mutant) -> None:
            fingerprint = hashlib.sha256((mutant.source + texts).encode()).hexdigest()[:16]
            before = known.get(mutant.name)
            if before and before.fingerprint == fingerprint:
                found[mutant.name] = before
            else:
                found[mutant.name] = project.outcome(mutant.source, before.killer if before else "", limit, fingerprint)
                keep()
            status.update(f"{module}: {len(found)} mutants, {sum(o.state == 'alive' for o in found.values())} alive")

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
    show: bool = False,
) -> None:
    """Change one operator of a module at a time and list the changes that its tests do not notice.

    Args:
        module: the file, from the project's root: sgdtheory/bounds/theorem_7.py
        tests: test files to run; those named after the module unless given.
        without: files or tests (`file::test`) that may be deleted; tells which mutants they alone kill.
        jobs: how many mutants are tried at a time.
        only: try those whose name has this in it.
        sample: try only so many, drawn at random but the same ones every time.
        show: list the mutants and try none.
    """
    every = mutants(module.read_text())
    console = Console(soft_wrap=True)
    if show:
        for mutant in every:
            console.print(f"{mutant.line:4d}  {mutant.name}", markup=False, highlight=False)
        return
    chosen = [mutant for mutant in every if only in mutant.name]
    if sample is not None and sample < len(chosen):
        chosen = Random(0).sample(chosen, sample)
    found = judge(module, list(tests) or own_tests(module), jobs, chosen, without)
    alive = [mutant for mutant in chosen if found[mutant.name].state == "alive"]
    again = judge(module, list(without), jobs, alive) if without and alive else {}
    back = [mutant for mutant in alive if mutant.name in again and again[mutant.name].state != "alive"]
    for mutant in alive:
        note = "back to life" if mutant in back else "alive"
        console.print(f"{module}:{mutant.line}  {note}  {mutant.name}", markup=False, highlight=False)
    table = Table("module", "mutants", "tried", "alive", "back to life", "killed")
    killed = f"{1 - len(alive) / max(len(chosen), 1):.1%}"
    table.add_row(str(module), str(len(every)), str(len(chosen)), str(len(alive)), str(len(back)), killed)
    console.print(table)


if __name__ == "__main__":
    tyro.cli(main)
