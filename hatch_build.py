"""Additions of a build to `pyproject.toml`: addresses of this repository, the link of an editable install, pages."""

import os
import re
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {
    "Homepage": "",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Documentation": "/tree/main/docs",
    "Issues": "/issues",
}


def repository() -> str | None:
    """Return the address of the repository, which GitHub's workflows know, or None elsewhere.

    It is not written down, so that a fork's package leads to the fork.
    """
    name = os.environ.get("GITHUB_REPOSITORY")
    return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}" if name else None


def absolute(readme: str, address: str, tag: str) -> str:
    """Return the README with its relative links and pictures made absolute: a package index has none of these files."""
    readme = re.sub(r"(!\[[^\]]*\]\(|\bsrc(?:set)?=\")(?!\w+:)", rf"\1{address}/raw/{tag}/", readme)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!\w+:|#)", rf"\1{address}/blob/{tag}/", readme)


class Metadata(MetadataHookInterface):
    """`readme` and `urls` of the project."""

    def update(self, metadata: dict) -> None:
        """Set both; without an address the README stays as it is."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        address = repository()
        if address:
            readme = absolute(readme, address, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
        metadata["urls"] = {name: address + page for name, page in PAGES.items()} if address else {}


class Files(BuildHookInterface):
    """Files of a build beside the package's own.

    `pip install -e` puts a folder on Python's path that holds a link to the package, and no `tests` or `docs`. It is a
    link because type checkers and editors follow it; they do not see an import hook.
    """

    def initialize(self, version: str, build_data: dict) -> None:
        """Make the link of an editable install, or add the pages of `sgdtheory tutorials` to a wheel.

        Git has not made the link in an unpacked archive, or on Windows without permission to make links.
        """
        if version != "editable" and self.target_name == "wheel":
            docs = Path(self.root, "docs")
            shown = (page for page in docs.glob("*.md") if "<!-- file: " in page.read_text(encoding="utf-8"))
            for page in (*docs.glob("tutorials/*.md"), *shown, Path(self.root, "README.md")):
                build_data["force_include"][str(page)] = f"sgdtheory/{page.relative_to(self.root).as_posix()}"
        link = Path(self.root, "editable", "sgdtheory")
        if version == "editable" and not link.is_dir():
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(Path("..", "sgdtheory"), target_is_directory=True)
