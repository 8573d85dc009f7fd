"""A type checker on a user's script, which lies outside the clone that `pip install -e` has installed."""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.docs.blocks import programs

ROOT = Path(__file__).parents[1]
RIGHT = """
from typing import assert_type

import jax.numpy as jnp
import numpy as np
import sgdtheory as st
from sgdtheory.training import TrainConfig

problem = st.PowerLaw(2.0, 3.0, noise_variance=1.0)
one = st.excess_risk(problem, batch_size=32, learning_rate=0.5, num_samples=1e4)
assert_type(one.total, float)
several = st.excess_risk(problem, batch_size=32, learning_rate=0.5, num_samples=[1e4, 1e6])
assert_type(several.total, np.ndarray)
print(several.total[0], several.bias.max(), several.relative_error[-1])
several = st.excess_risk(problem, batch_size=np.array([1, 2]), learning_rate=0.5, num_samples=1e4)
assert_type(several.bias, np.ndarray)
for size in np.geomspace(1e2, 1e4, 3):
    print(st.excess_risk(problem, batch_size=8, learning_rate=0.5, num_samples=size).total)

for sizes in ((1, 8), range(1, 8), [[1.0, 8.0]], [np.arange(8)], jnp.arange(8), jnp.float32(8), [np.int64(1), 8.0]):
    assert_type(st.excess_risk(problem, batch_size=sizes, learning_rate=[0.5], num_samples=[[1e4]]).total, np.ndarray)
assert_type(st.max_stable_learning_rate(problem, batch_size=8), float)
assert_type(st.max_stable_learning_rate(problem, batch_size=[1, 8]), np.ndarray)
assert_type(st.critical_batch_size(problem, num_samples=1e4).batch_size, float)
assert_type(st.critical_batch_size(problem, num_samples=[1e4, 1e5]).optimal_risk, np.ndarray)
assert_type(st.optimal_learning_rate(problem, batch_size=8, num_samples=1e4).learning_rate, float)
assert_type(st.optimal_learning_rate(problem, batch_size=[8, 16], num_samples=1e4).risk, np.ndarray)
scale = st.gradient_noise_scale(problem, batch_size=8, learning_rate=0.1, num_samples=(1e3, 1e4))
assert_type(scale.simple, np.ndarray)
assert_type(st.notions(problem, num_samples=[1e4, 1e5]).rate_batch_size, np.ndarray)
assert_type(st.theorem7(problem, batch_size=8, learning_rate=0.1, num_samples=1e4).total, float)
assert_type(st.bounds.best(problem, batch_size=8, learning_rate=[0.1, 0.2], num_samples=1e4).upper, np.ndarray)
assert_type(st.bounds.jain_2018(problem, batch_size=8, learning_rate=[0.1], num_samples=1e4).total, np.ndarray)
assert_type(TrainConfig(width=64).learning_rate, float)
"""
WRONG = """
import sgdtheory as st
from sgdtheory.training import TrainConfg  # wrong

problem = st.PowerLaw(2.0, 3.0)
st.exces_risk  # wrong
st.PowerLaw(2.0, 3.0, noise=1.0)  # wrong
one = st.excess_risk(problem, batch_size=32, learning_rate=0.5, num_samples=1e4)
one.totl  # wrong
one.total[0]  # wrong
one.total + 1
st.excess_risk(problem, batchsize=32, learning_rate=0.5, num_samples=1e4)  # wrong
st.excess_risk(problem, 32, 0.5, 1e4)  # wrong
st.excess_risk(problem, batch_size="32", learning_rate=0.5, num_samples=1e4)  # wrong
st.excess_risk(problem, batch_size=["32"], learning_rate=0.5, num_samples=1e4)  # wrong
st.max_stable_learning_rate(problem, batch_size="8")  # wrong
st.excess_risk(problem, batch_size=32, learning_rate=0.5)  # wrong
st.critical_batch_size(3.0, num_samples=1e4)  # wrong
st.critical_batch_size(problem, num_samples=1e4, algorithm="cosine")  # wrong
several = st.excess_risk(problem, batch_size=32, learning_rate=0.5, num_samples=[1e4, 1e6])
several.total[0].real
several.total.mena()  # wrong
"""
# Rules that judge how a page's program is written, or what else is installed, and not the library's types.
OWN = "reportMissingImports", "reportOptionalMemberAccess", "reportPossiblyUnboundVariable"


@pytest.fixture
def check(tmp_path):
    """[(file, line, message)] of pyright's errors in scripts, in an environment that has a clone's editable install."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed: pip install -e '.[dev]'")
    venv.create(tmp_path / "venv", symlinks=True)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    libraries = [folder for folder in sys.path if folder.endswith("site-packages")]
    (packages,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (packages / "a.pth").write_text("\n".join([*(str(ROOT / folder) for folder in build["dev-mode-dirs"]), *libraries]))
    scripts = tmp_path / "scripts"
    scripts.mkdir()

    def found(**programs):
        (scripts / "pyrightconfig.json").write_text(json.dumps(dict.fromkeys(OWN, "none")))
        for name, program in programs.items():
            (scripts / f"{name}.py").write_text(program)
        command = [
            sys.executable,
            "-m",
            "pyright",
            "--outputjson",
            "--pythonpath",
            tmp_path / "venv" / "bin" / "python",
        ]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, cwd=scripts, env=environment, capture_output=True, text=True)
        said = json.loads(done.stdout)
        assert said["summary"]["filesAnalyzed"] == len(programs)
        return [
            (Path(each["file"]).stem, each["range"]["start"]["line"], each["message"])
            for each in said["generalDiagnostics"]
            if each["severity"] == "error"
        ]

    return found


def test_a_users_mistakes_are_found_and_nothing_else(check):
    planted = [line for line, text in enumerate(WRONG.splitlines()) if text.endswith("# wrong")]
    errors = check(right=RIGHT, wrong=WRONG)
    assert [each for each in errors if each[0] == "right"] == []
    assert sorted({line for _, line, _ in errors}) == planted


@pytest.mark.slow
def test_programs_of_the_guides_have_no_errors(check):
    named = {f"{block.page.stem}_{block.line}".replace("-", "_"): block.code for block in programs("python")}
    assert check(**named) == []
