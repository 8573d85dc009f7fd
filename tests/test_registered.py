"""Whatever has a name in a registry is exported, in a guide, in help, trainable if it can be, and has an example."""

import contextlib
import importlib
import inspect
import io
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sgdtheory as st
from sgdtheory import algorithms, cli, training
from tests.registered import instance
from tests.test_docstrings import RUN

ROOT = Path(__file__).parents[1]


class Registry(NamedTuple):
    """Registry, and the places where its entries have to appear.

    Attributes:
        entries: name → class, function or object.
        doors: packages that export each of them.
        page: guide that names each of them, by the class or function.
        commands: commands whose help names each of them, by the registry's name.
        example: whether each has a docstring of its own, with an example.
    """

    entries: dict[str, Any]
    doors: tuple[str, ...]
    page: str
    commands: tuple[str, ...] = ()
    example: bool = True


TOP = "sgdtheory", "sgdtheory.algorithms"
NETWORKS = ("sgdtheory.training",)
PROBLEMS = (st.PowerLaw, st.LeastSquares)
SHAPES = algorithms.KINDS["schedule"]
OWN_SCHEDULES = {name: kind for name, kind in training.KINDS["schedule"].items() if kind not in SHAPES.values()}
REGISTRIES = {
    "method": Registry(algorithms.KINDS["method"], TOP, "algorithms", ("risk", "simulate")),
    "schedule": Registry(SHAPES, (*TOP, *NETWORKS), "algorithms", ("risk", "simulate", "train")),
    "average": Registry(algorithms.KINDS["average"], TOP, "algorithms", ("risk", "simulate")),
    "model": Registry(training.KINDS["model"], NETWORKS, "your-model", ("train",)),
    "data": Registry(training.KINDS["data"], NETWORKS, "your-model", ("train",)),
    "optimizer": Registry(training.KINDS["optimizer"], NETWORKS, "training", ("train",)),
    "schedule of networks": Registry(OWN_SCHEDULES, NETWORKS, "training", ("train",)),
    "problem": Registry({kind.__name__: kind for kind in PROBLEMS}, ("sgdtheory", "sgdtheory.problems"), "exact-risk"),
    "bound": Registry({each.name: each for each in st.bounds.catalogue()}, ("sgdtheory.bounds",), "bounds", (), False),
}
EVERY = [(registry, name) for registry, found in REGISTRIES.items() for name in found.entries]


@cache
def help_of(command: str) -> str:
    """The whole help of a command, on one line."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        cli.main([command, "--help-all"])
    return " ".join(shown.getvalue().split())


def exported(door: str, entry: Any) -> bool:
    package = importlib.import_module(door)
    return any(getattr(package, name) is entry for name in package.__all__)


def complaints(registry: Registry, name: str) -> list[str]:
    """List the places where an entry of a registry is missing."""
    entry = registry.entries[name]
    public = getattr(entry, "__name__", name)
    page = ROOT / "docs" / f"{registry.page}.md"
    demands: list[tuple[bool, str]] = [(exported(door, entry), f"{door}/__init__.pyi") for door in registry.doors]
    demands.append((bool(re.search(rf"`[^`]*\b{public}\b[^`]*`", page.read_text())), f"docs/{page.name}"))
    for command in registry.commands:
        named = re.search(rf"[{{ ]{re.escape(name)}[,}}]", help_of(command))
        demands.append((bool(named), f"sgdtheory {command} --help"))
    if registry.example:
        demands.append((">>> " in (inspect.getdoc(entry) or ""), "an example in its docstring"))
        demands.append((entry in RUN.values(), "tests/test_docstrings.py, which runs examples"))
    return [place for fulfilled, place in demands if not fulfilled]


@pytest.mark.parametrize(("registry", "name"), EVERY)
def test_what_is_registered_is_everywhere(registry, name):
    missing = complaints(REGISTRIES[registry], name)
    assert not missing, f"{name} is missing in: {', '.join(missing)}"  # pytest shortens a list that it compares


def test_what_is_missing_is_named():
    """Control: a schedule that has a line in the registry and nothing else."""

    class InverseSqrt(algorithms.Shape):
        """Falls like 1/√t."""

    registry = REGISTRIES["schedule"]._replace(entries={"inverse-sqrt": InverseSqrt})
    assert complaints(registry, "inverse-sqrt") == [
        *(f"{door}/__init__.pyi" for door in registry.doors),
        "docs/algorithms.md",
        *(f"sgdtheory {command} --help" for command in registry.commands),
        "an example in its docstring",
        "tests/test_docstrings.py, which runs examples",
    ]


def test_every_exported_problem_is_in_the_list():
    """Problems that a user constructs: the others come from their methods."""
    kinds = [getattr(st, name) for name in st.__all__]
    constructed = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, st.AbstractProblem)]
    assert {*constructed} == {*PROBLEMS, st.AbstractProblem}


@pytest.mark.parametrize("name", SHAPES)
def test_every_schedule_trains_networks(name):
    """A run takes the object, and its flat fields, which files and flags hold, lead back to it."""
    config = training.TrainConfig(schedule=instance(SHAPES[name]), max_steps=100, schedule_steps=100)
    assert training.TrainConfig.from_fields(config.as_fields()) == config


def test_every_optimizer_of_networks_is_a_method_of_the_theory():
    assert set(training.KINDS["optimizer"]) <= set(algorithms.KINDS["method"])


def test_programs_of_log_formats_are_in_the_guide():
    """Programs that have a format of their own; other formats are written by many programs."""
    page = (ROOT / "docs" / "logs.md").read_text()
    named = [program for each in st.logs.FORMATS for program in each.programs if " " not in program]
    assert len(named) > 10
    assert [program for program in named if program not in page] == []
