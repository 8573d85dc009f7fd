"""A tag is released only where the package, the citation and the changelog have its version."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "release_version"
FILES = {
    "pyproject.toml": '[project]\nname = "sgdtheory"\nversion = "1.2.3"\n',
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\n",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.3 (2027-01-31)\n\n- New.\n\n## 1.2.2\n",
}


def released(folder, tag, **changed):
    """Return the script's answer for a repository with these files."""
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci")
    for name, text in (FILES | changed).items():
        (folder / name).write_text(text)
    done = subprocess.run([folder / ".ci" / SCRIPT.name, tag], capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("heading", ["## 1.2.3", "## 1.2.3 (2027-01-31)"])
def test_a_version_that_all_have_is_released(tmp_path, heading):
    assert released(tmp_path, "v1.2.3", **{"CHANGELOG.md": f"# Changelog\n\n{heading}\n"}) == (0, "")


@pytest.mark.parametrize(
    ("tag", "changed", "file"),
    [
        ("v1.2.4", {}, "pyproject.toml"),
        ("v1x2.3", {}, "pyproject.toml"),
        ("v1.2", {}, "pyproject.toml"),
        ("v1.2.3", {"CITATION.cff": "cff-version: 1.2.3\nversion: 1.2.0\n"}, "CITATION.cff"),
        ("v1.2.3", {"CHANGELOG.md": "# Changelog\n\n## 1.2.3 (unreleased)\n"}, "CHANGELOG.md"),
        ("v1.2.3", {"CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 1.2.3\n"}, "CHANGELOG.md"),
        ("v1.2.3", {"CHANGELOG.md": "# Changelog\n\n## 1.3.0 (unreleased)\n\n## 1.2.3\n"}, "CHANGELOG.md"),
    ],
)
def test_a_version_that_one_file_lacks_is_not(tmp_path, tag, changed, file):
    status, said = released(tmp_path, tag, **changed)
    assert status == 1
    assert said.startswith(file)


def test_the_repository_has_one_version():
    """The package has the changelog's newest version; later changes are unreleased."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    newest = headings[1] if headings[0] == "Unreleased" else headings[0]
    assert newest.partition(" (")[0] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
