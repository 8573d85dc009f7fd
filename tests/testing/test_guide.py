"""The guide's test file and workflow: what a stranger copies does what the guide says."""

import os
import subprocess
import sys

import pytest
import yaml

from tests.docs.blocks import ROOT, blocks

GUIDE = ROOT / "docs" / "bounds.md"
FILES = {block.marks["file"]: block.code for block in blocks(GUIDE) if "file" in block.marks}
COMMAND = "pytest test_my_bound.py"


def test_the_workflow_installs_and_runs_the_file():
    steps = yaml.safe_load(FILES["bounds.yml"])["jobs"]["bounds"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands[0].startswith("pip install 'sgdtheory[testing]'")
    assert commands[1:] == [COMMAND]
    assert "test_my_bound.py" in FILES


@pytest.mark.slow
def test_the_workflow_finds_the_counterexample(tmp_path):
    """The command of the workflow, run on the guide's file: it fails with the guide's words."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *COMMAND.split()], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1
    for words in ("Highest target score", "Falsifying example", "assertion.py", "_counterexample"):
        assert words not in done.stdout  # what of the library or of Hypothesis would stand above the message
    printed = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    told = GUIDE.read_text().split("```text\n")[1].split("```")[0]
    for line in told.splitlines():
        assert any(each.endswith(line.strip()) for each in printed)
