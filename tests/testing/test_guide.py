"""The guide's test file and workflow: what a stranger copies does what the guide says."""

import os
import subprocess
import sys

import yaml

from tests.docs.blocks import ROOT, blocks

GUIDE = ROOT / "docs" / "bounds.md"


def test_the_workflow_finds_the_counterexample(tmp_path):
    """The commands of the workflow but for installing, run on the guide's file: they fail with the guide's words."""
    files = {block.marks["file"]: block.code for block in blocks(GUIDE) if "file" in block.marks}
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    steps = yaml.safe_load(files["bounds.yml"])["jobs"]["bounds"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands[0].startswith("pip install 'sgdtheory[testing]'")
    assert commands[1:] == ["pytest test_my_bound.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *commands[1].split()], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1
    for words in ("Highest target score", "Falsifying example", "assertion.py", "_counterexample"):
        assert words not in done.stdout  # what of the library or of Hypothesis would stand above the message
    printed = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    told = GUIDE.read_text().split("and why:")[1].split("```text\n")[1].split("```")[0]
    for line in told.splitlines():
        assert any(each.endswith(line.strip()) for each in printed)
