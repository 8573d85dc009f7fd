import importlib
import inspect
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sgdtheory as st

HEAVY = ("numpy", "scipy", "jax", "matplotlib", "tyro", "rich", "pandas", "torch")
GLOBALS = """
import importlib, json, os, signal, sys, warnings, random, locale

def state():
    found = {
        "random": repr(random.getstate()),
        "filters": repr(warnings.filters),
        "environment": dict(os.environ),
        "excepthook": repr(sys.excepthook),
        "signals": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)],
        "locale": repr(locale.setlocale(locale.LC_ALL)),
        "recursion": sys.getrecursionlimit(),
    }
    if "jax" in sys.modules:
        found["jax"] = {name: repr(value) for name, value in jax.config.values.items()}
        found["errstate"] = np.geterr()
        found["print"] = repr(np.get_printoptions())
        found["numpy random"] = repr(np.random.get_state())
        found["rcParams"] = {name: repr(value) for name, value in dict.items(matplotlib.rcParams)}
    return found

def changes(module):
    before = state()
    importlib.import_module(module)
    after = state()
    return [name for name in before if before[name] != after[name]]

own = changes("sgdtheory")
loaded = [name for name in sys.argv[1:] if name in sys.modules]
wing = sys.modules["sgdtheory"].risk.__name__
import numpy as np
import jax
import matplotlib
print(json.dumps([own, loaded, wing, [*changes("sgdtheory.plotting"), *changes("sgdtheory.cli")]]))
"""
MISSPELT = [  # module, name, hint
    ("sgdtheory", "exces_risk", " (did you mean excess_risk?)"),
    ("sgdtheory", "sgd", " (did you mean SGD?)"),
    ("sgdtheory.fits", "fit_step_law", " (did you mean fit_steps_law?)"),
    ("sgdtheory", "quux", ""),
    ("sgdtheory", "_excess_risk", ""),
]
ATTRIBUTES = """
import importlib, json, sys
for module, name in json.loads(sys.argv[1]):
    try:
        getattr(importlib.import_module(module), name)
    except AttributeError:
        sys.excepthook(*sys.exc_info())  # with the hints of the interpreter
"""
ROOT = Path(__file__).parents[1]
BESIDE = """
import json
from importlib.util import find_spec
import sgdtheory as st
others = [name for name in ("tests", "experiments", "benchmarks", "paper_checks", "docs") if find_spec(name)]
print(json.dumps([st.risk.__name__, st.__file__, others]))
"""


def test_import_is_light_and_changes_no_global_state():
    """No library comes with the package; what NumPy, JAX and Matplotlib set themselves is theirs."""
    command = [sys.executable, "-W", "error::DeprecationWarning:sgdtheory", "-c", GLOBALS, *HEAVY]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    own, loaded, wing, others = json.loads(done.stdout)
    assert (own, loaded) == ([], [])
    assert wing == "sgdtheory.risk"  # an attribute, without an import of its own
    # Other libraries come with these two; only the numerical ones' settings are at stake.
    assert not {"jax", "errstate", "print", "numpy random", "rcParams"} & {*others}


def test_an_editable_install_offers_the_package_alone_beside_a_clone_too(tmp_path):
    """The clone's folder has the package's name: it must not be taken for it, nor what else it has be offered."""
    (tmp_path / "sgdtheory").symlink_to(ROOT, target_is_directory=True)
    (tmp_path / "script.py").write_text(BESIDE)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    added = [str(ROOT / folder) for folder in build["dev-mode-dirs"]]
    # Another clone may be installed in this environment, and the tests may run in the clone's folder.
    libraries = [folder for folder in sys.path if folder and not Path(folder, "sgdtheory").is_dir()]
    done = subprocess.run(
        [sys.executable, "-S", "script.py"],  # without site-packages, whose .pth files lead to an installed clone
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*libraries, *added])},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    wing, file, others = json.loads(done.stdout)
    assert (wing, Path(file).resolve(), others) == ("sgdtheory.risk", ROOT / "sgdtheory" / "__init__.py", [])


def test_public_names_and_their_methods_are_documented():
    for name in st.__all__:
        entry = getattr(st, name)
        text = inspect.getdoc(entry) or ""
        assert len(text) > 20, name
        assert not text.startswith(f"{name}("), "what a dataclass without a docstring gets"
        for method, value in vars(entry).items() if inspect.isclass(entry) else ():
            if not method.startswith("_") and (callable(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{method}"


def test_the_top_level_has_what_guides_use_and_no_more():
    """Results' classes and what few need lie under their wings; classes of the registries are not counted."""
    wings = {name for name in st.__all__ if inspect.ismodule(getattr(st, name)) and name != "plot"}
    registered = {kind.__name__ for kinds in st.algorithms.KINDS.values() for kind in kinds.values()}
    assert len(set(st.__all__) - wings - registered) <= 49


def test_public_names_are_sorted_and_complete():
    assert sorted(st.__all__) == st.__all__
    assert len(set(st.__all__)) == len(st.__all__)
    assert dir(st) == st.__all__


def test_a_misspelt_name_is_answered_by_the_nearest():
    """Once: the interpreter adds no hint of its own."""
    asked = json.dumps([(module, name) for module, name, _ in MISSPELT])
    done = subprocess.run([sys.executable, "-c", ATTRIBUTES, asked], capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if line.startswith("AttributeError: ")] == [
        f"AttributeError: module {module} has no attribute {name}{hint}" for module, name, hint in MISSPELT
    ]


@pytest.mark.parametrize(
    "wing",
    ["problems", "algorithms", "risk", "bounds", "critical", "fits", "simulation", "training", "sweep", "plotting"],
)
def test_doors_open(wing):
    door = importlib.import_module(f"sgdtheory.{wing}")
    assert sorted(door.__all__) == door.__all__
    for name in door.__all__:
        assert not inspect.ismodule(getattr(door, name)), f"{name}: a module must not have the name of a function"
