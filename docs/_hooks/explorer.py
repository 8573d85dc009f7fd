"""The explorer's page without a server, on the site: made at build, and linked where the guide has its mark."""

import tempfile
from pathlib import Path
from typing import Any

GUIDE = "explorer.md"
NAME = "explore.html"
MARK = "<!-- the page itself, at build -->"
CHECKED = 8  # Random settings at which the page measures its accuracy; each takes a third of a second of the build.
LINK = f'<p><a class="md-button md-button--primary" href="../{NAME}">Open it: nothing to install</a></p>'


def on_files(files: Any, config: Any) -> Any:
    """Make the page, a file as it is."""
    from mkdocs.structure.files import File

    from sgdtheory.explore import export_page

    with tempfile.TemporaryDirectory() as folder:
        content = export_page(Path(folder) / NAME, checked=CHECKED).read_text(encoding="utf-8")
    files.append(File.generated(config, NAME, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Link it."""
    return markdown.replace(MARK, LINK) if page.file.src_uri == GUIDE else markdown
