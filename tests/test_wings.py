"""The house: wings import upwards alone, through each other's doors, and no module imports in a circle."""

import functools
import graphlib
import re
from pathlib import Path

import pytest

from tests.quick import IMPORT, IMPORTED

ROOT = Path(__file__).parents[1]
WINGS = (
    "_common",
    "problems",
    "algorithms",
    "risk",
    "critical",
    "optimal",
    "fits",
    "simulation",
    "bounds",
    "testing",
    "training",
    "sweep",
    "plotting",
    "data",
    "curves",
    "logs",
    "advice",
    "explore",
    "cli",
)
OPEN = "sgdtheory._common.", "sgdtheory.plotting.style"  # modules that are everybody's
EXAMPLE = re.compile(r'^ *>>>.*(?:\n(?!.*""").*\S.*)*', re.M)  # of a docstring, with what it prints
OUTSIDE = "experiments", "benchmarks", "paper_checks"


def module_of(path, root=ROOT):
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports(path):
    """[(module, name or None)] of every import in a file, wherever it stands.

    By pattern: parsing all files takes ten times as long.
    """
    text = re.sub("#.*", "", EXAMPLE.sub("", path.read_text(encoding="utf-8")))
    assert not re.search(r"^[ \t]*from \.", text, re.M), f"{path}: a relative import"
    found = [
        (module or dotted, dotted if module else None)
        for module, names, modules in IMPORT.findall(text)
        for dotted, _ in IMPORTED.findall(names or modules)
    ]
    return [(module, name) for module, name in found if module.split(".")[0] in ("sgdtheory", "experiments")]


def wing_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "sgdtheory" else ""


@functools.cache
def door(wing):
    """The names that a wing's stub exports."""
    stub = (ROOT / "sgdtheory" / wing / "__init__.pyi").read_text()
    return set(re.findall(r"^from \S+ import \w+ as (\w+)$", stub, re.M))


@pytest.mark.parametrize("wing", [".", *WINGS[1:-1]])
def test_stubs_have_one_name_a_line(wing):
    """The package reads its stub in this form."""
    for line in (ROOT / "sgdtheory" / wing / "__init__.pyi").read_text().splitlines():
        if line.strip() and line != "__version__: str":
            assert re.fullmatch(r"from \.([\w.]*) import (\w+) as (\w+)", line)


def library(wing):
    return sorted((ROOT / "sgdtheory" / wing).rglob("*.py"))


def reach_ins(path, wing):
    """Imports of a file that go past the door of a wing that is not its own."""
    for module, name in imports(path):
        other = wing_of(module)
        if not other and module == "sgdtheory" and name in WINGS:
            continue  # the wing as a whole
        if other in ("", wing, "cli") or f"{module}.".startswith(OPEN[0]) or module == OPEN[1]:
            continue
        if module != f"sgdtheory.{other}" or name not in door(other) | {"style"}:
            yield f"{path.relative_to(ROOT)}: from {module} import {name}"


def test_every_module_lies_in_a_wing():
    flat = {path.name for path in (ROOT / "sgdtheory").glob("*.py")}
    assert flat == {"__init__.py", "__main__.py"}
    folders = {path.name for path in (ROOT / "sgdtheory").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(WINGS)


@pytest.mark.parametrize("wing", WINGS)
def test_imports_go_up_the_list_of_wings(wing):
    above = WINGS[: WINGS.index(wing) + 1]
    for path in library(wing):
        for module, name in imports(path):
            other = wing_of(module) or (name if name in WINGS else "")
            assert other in above, f"{path.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("wing", WINGS)
def test_a_wing_is_entered_by_its_door(wing):
    assert [line for path in library(wing) for line in reach_ins(path, wing)] == []


@pytest.mark.parametrize("folder", OUTSIDE)
def test_the_library_is_entered_by_its_doors(folder):
    assert [line for path in sorted((ROOT / folder).rglob("*.py")) for line in reach_ins(path, "")] == []


def circles(folders):
    """None, or the modules of one circle of imports."""
    graph = {}
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            targets = graph.setdefault(module_of(path), set())
            for module, name in imports(path):
                inner = f"{module}.{name}"
                file = ROOT / inner.replace(".", "/")
                targets.add(inner if file.with_suffix(".py").exists() else module)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_no_module_imports_in_a_circle():
    assert circles(["sgdtheory", "experiments"]) is None


def test_a_wrong_import_is_noticed(tmp_path):
    """Controls: past a door, and down the list."""
    file = tmp_path / "sgdtheory" / "risk" / "wrong.py"
    file.parent.mkdir(parents=True)
    file.write_text("def f():\n    from sgdtheory.critical.definition import critical_batch_size\n")
    (module, name) = imports(file)[0]
    assert WINGS.index(wing_of(module)) > WINGS.index("risk")
    assert name in door("critical")
    assert module != "sgdtheory.critical"
