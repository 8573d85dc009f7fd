"""The project as the package index and an editable install show it."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXTRAS = re.compile(r"(?:sgdtheory|['\" ]\.)\[([\w,]+)\]")
LINK = re.compile(r"\]\(([^)\s]*)")


@pytest.fixture
def metadata(monkeypatch):
    """The project's metadata as a build writes it, for an address of the repository or for none."""
    pytest.importorskip("hatchling")
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    def built(address):
        monkeypatch.setenv("GITHUB_REPOSITORY", address)
        monkeypatch.delenv("GITHUB_SERVER_URL", raising=False)
        return ProjectMetadata(str(ROOT), PluginManager()).core

    return built


def test_a_release_leads_to_its_repository(metadata):
    """Links and pictures of the long description are absolute, and lead to the files of the released version."""
    core = metadata("owner/name")
    assert core.urls["Homepage"] == "https://github.com/owner/name"
    assert len(core.urls) == 4
    home = "https://github.com/owner/name"
    relative = LINK.findall((ROOT / "README.md").read_text())
    for before, after in zip(relative, LINK.findall(core.readme), strict=True):
        kind = "raw" if before.endswith(".png") else "blob"
        assert after == (before if ":" in before else f"{home}/{kind}/v{PROJECT['version']}/{before}")
    assert core.readme_content_type == "text/markdown"
    assert core.readme.count(f"{home}/raw/") >= 3  # pictures, one of them light and dark
    assert not re.search(r'src(set)?="(?!https)', core.readme)


def test_a_build_elsewhere_keeps_the_readme(metadata):
    core = metadata("")
    assert core.urls == {}
    assert core.readme == (ROOT / "README.md").read_text()


def test_a_wheel_has_the_pages_that_tutorials_reads(tmp_path):
    """Each tutorial, and each page that shows a file."""
    pytest.importorskip("hatchling")
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = [page for page in pages if "<!-- file: " in page.read_text()]
    assert len(shown) > 3
    for page in [*shown, *(ROOT / "docs" / "tutorials").glob("*.md")]:
        assert f"sgdtheory/{page.relative_to(ROOT).as_posix()}" in names


def test_extras_that_pages_name_exist():
    extras = PROJECT["optional-dependencies"]
    named = {
        (page.name, extra) for page in PAGES for group in EXTRAS.findall(page.read_text()) for extra in group.split(",")
    }
    assert len(named) > 5
    assert {(page, extra) for page, extra in named if extra not in extras} == set()


def test_packages_that_errors_name_are_those_of_the_extra_that_they_name():
    extras = PROJECT["optional-dependencies"]
    named = []
    for path in (ROOT / "sgdtheory").rglob("*.py"):
        for packages, extra in re.findall(r"pip install ((?:'[^']*' ?)+)\(extra \[(\w+)\]\)", path.read_text()):
            named.append(extra)
            assert set(re.findall(r"'([^']*)'", packages)) <= set(extras[extra]), path
    assert sorted(named) == ["certified", "cluster", "cluster", "explore", "logs", "testing"]


def test_recipes_that_install_from_an_index_say_how_until_then():
    """The first release is not on the index: each page says what to install instead."""
    for page in PAGES:
        text = page.read_text()
        if re.search(r"pip install '?sgdtheory", text):
            assert "sgdtheory[" not in text or "git+https" in text, page.name
