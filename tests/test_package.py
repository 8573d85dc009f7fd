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
import numpy as np
import jax
import matplotlib
import scipy.fft, scipy.integrate, scipy.linalg, scipy.optimize, scipy.special, scipy.stats

def state():
    return {
        "jax": {name: repr(value) for name, value in jax.config.values.items()},
        "errstate": np.geterr(),
        "print": repr(np.get_printoptions()),
        "numpy random": repr(np.random.get_state()),
        "random": repr(random.getstate()),
        "rcParams": {name: repr(value) for name, value in dict.items(matplotlib.rcParams)},
        "filters": repr(warnings.filters),
        "environment": dict(os.environ),
        "excepthook": repr(sys.excepthook),
        "signals": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)],
        "locale": repr(locale.setlocale(locale.LC_ALL)),
        "recursion": sys.getrecursionlimit(),
    }

changed = {}
for module in sys.argv[1:]:
    before = state()
    importlib.import_module(module)
    after = state()
    changed[module] = [name for name in before if before[name] != after[name]]
print(json.dumps(changed))
"""
ROOT = Path(__file__).parents[1]
BESIDE = """
import json
from importlib.util import find_spec
import sgdtheory as st
others = [name for name in ("tests", "experiments", "benchmarks", "paper_checks", "docs") if find_spec(name)]
print(json.dumps([st.PowerLaw(2.0, 3.0).capacity, st.__file__, others]))
"""
LOADED = """
import json, sys
import sgdtheory
print(json.dumps([name for name in sys.argv[1:] if name in sys.modules]))
"""


def answer(program, *arguments):
    command = [sys.executable, "-W", "error::DeprecationWarning:sgdtheory", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_import_changes_no_global_state():
    """NumPy, SciPy, JAX and Matplotlib are imported first: what they set themselves is theirs."""
    changed = answer(GLOBALS, "sgdtheory", "sgdtheory.plotting", "sgdtheory.cli")
    assert changed["sgdtheory"] == []
    # Other libraries come with these two; only the numerical ones' settings are at stake.
    numerical = {"jax", "errstate", "print", "numpy random", "rcParams"}
    assert not numerical & {*changed["sgdtheory.plotting"], *changed["sgdtheory.cli"]}


def test_import_is_light():
    assert answer(LOADED, *HEAVY) == []


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
    capacity, file, others = json.loads(done.stdout)
    assert (capacity, Path(file).resolve(), others) == (2.0, ROOT / "sgdtheory" / "__init__.py", [])


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


@pytest.mark.parametrize(
    ("module", "misspelt", "hint"),
    [
        (st, "exces_risk", " (did you mean excess_risk?)"),
        (st, "sgd", " (did you mean SGD?)"),
        (st.fits, "fit_step_law", " (did you mean fit_steps_law?)"),
        (st, "quux", ""),
        (st, "_excess_risk", ""),
    ],
)
def test_a_misspelt_name_is_answered_by_the_nearest(module, misspelt, hint):
    with pytest.raises(AttributeError) as error:
        getattr(module, misspelt)
    assert str(error.value) == f"module {module.__name__} has no attribute {misspelt}{hint}"
    program = f"import {module.__name__} as module\nmodule.{misspelt}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == f"AttributeError: {error.value}"  # the hint stands there once


def test_wings_are_attributes():
    """`st.risk` is there without an import of its own."""
    assert answer("import json, sgdtheory as st; print(json.dumps(st.risk.__name__))") == "sgdtheory.risk"


@pytest.mark.parametrize(
    "wing",
    ["problems", "algorithms", "risk", "bounds", "critical", "fits", "simulation", "training", "sweep", "plotting"],
)
def test_doors_open(wing):
    door = importlib.import_module(f"sgdtheory.{wing}")
    assert sorted(door.__all__) == door.__all__
    for name in door.__all__:
        assert not inspect.ismodule(getattr(door, name)), f"{name}: a module must not have the name of a function"
