"""`sgdtheory tutorials`: the tutorials as notebooks, and the files that the guides' commands read."""

import re
from pathlib import Path

from sgdtheory._common.files import write_atomically
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.cli.example_files import example_files
from sgdtheory.cli.notebooks import notebooks

PACKAGE = Path(__file__).resolve().parents[1]
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)^```$", re.M | re.S)  # The pattern matches a file on a page.


def tutorials(write: Path) -> Sheet:
    """Write the tutorials as notebooks, and the files that the guides' commands read.

    Files that already exist are kept as they are.

    Args:
        write: Folder to write to.
    """
    files = _files()
    kept = [name for name in files if (write / name).exists()]
    for name, (content, _) in files.items():
        if name not in kept:
            write_atomically(write / name, content)
    columns = [
        Quantity("file", "file", list(files)),
        Quantity("about", "what it is", [about for _, about in files.values()]),
    ]
    remarks = [f"kept, because they exist: {', '.join(kept)}"] if kept else []
    answer = f"{len(files) - len(kept)} files written to {write}"
    return Sheet("tutorials and files of the guides", [Table(columns, "files")], remarks, answer=answer)


def _files() -> dict[str, tuple[str | bytes, str]]:
    """Return file name → (content, what it is): notebooks, files that pages show, and made examples."""
    files: dict[str, tuple[str | bytes, str]] = {}
    # The pages lie beside the package in a clone, within it where a wheel was installed.
    docs = next((each for each in (PACKAGE.parent / "docs", PACKAGE / "docs") if (each / "tutorials").is_dir()), None)
    if docs is None:
        raise FileNotFoundError("this installation has no tutorials: install sgdtheory from a wheel or from a clone")
    for page in sorted((docs / "tutorials").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        for name, content in notebooks(page.stem, text).items():
            files[name] = content, f"notebook: {title}"
    for page in (docs.parent / "README.md", *sorted(docs.glob("*.md"))):
        if page.exists():
            for name, content in FILE.findall(page.read_text(encoding="utf-8")):
                files[name] = content, f"of the page {page.stem}"
    return files | example_files()
