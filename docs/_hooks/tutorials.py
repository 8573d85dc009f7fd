"""Tutorials: Markdown pages whose code is run when the site is built, and that can be downloaded as notebooks.

A page is written once, as Markdown that reads well where the repository is browsed. Every `python` block is a cell;
what it shows is put below it. Formulas between dollars become MathML, which browsers draw by themselves: nothing is
fetched. A cell that raises ends the build. What cells show is kept in `build/tutorials`, by the content of their code,
of the package and of what it computes with.
"""

import functools
import hashlib
import html
import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sgdtheory.cli.notebooks import FENCE, SOLUTION, notebooks

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
KEPT = ROOT / "build" / "tutorials"
CODE = r"(?P<code>^```.*?^```$|`[^`\n]+`)"
FORMULA = re.compile(CODE + r"|\$\$(?P<display>.+?)\$\$|(?<![\\$\w])\$(?P<inline>[^$\n]+?)\$", re.M | re.S)

Shown = Sequence[Mapping[str, str]]  # what a cell shows, as `run_cells` has it


# ---------------------------------------------------------------- a page and its cells


def cells(page: str) -> list[str]:
    """The code of a page in order, that of solutions too."""
    return [found["code"] for found in FENCE.finditer(page)]


def shown_by(pages: Mapping[str, str]) -> dict[str, list[Shown]]:
    """Name → what the page's cells show: kept from an earlier build, or run now, all that are left in one process.

    Raises:
        SystemExit: a cell raises.
    """
    files = {name: KEPT / f"{name}-{key(page)}.json" for name, page in pages.items()}
    left = [name for name, file in files.items() if not file.exists()]
    if left:
        runner = [sys.executable, "-m", "docs._hooks.run_cells"]
        programs = json.dumps([cells(pages[name]) for name in left])
        done = subprocess.run(runner, cwd=ROOT, input=programs, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"a cell of {', '.join(left)} raises: see above")
        KEPT.mkdir(parents=True, exist_ok=True)
        for name, found in zip(left, json.loads(done.stdout), strict=True):
            for old in KEPT.glob(f"{name}-*.json"):
                old.unlink()
            files[name].write_text(json.dumps(found), encoding="utf-8")
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items()}


def key(page: str) -> str:
    """Return a hash of the cells of a page and of everything that they may call."""
    return hashlib.sha256(f"{library()}{cells(page)}".encode()).hexdigest()[:16]


@functools.cache
def library() -> str:
    """Return a hash of the package's files, of what runs the cells, and of the versions of the numerical libraries."""
    files = [*sorted((ROOT / "sgdtheory").rglob("*.*")), Path(__file__).with_name("run_cells.py")]
    kept = [path for path in files if path.is_file() and "__pycache__" not in path.parts]
    versions = [sys.version, *(importlib.metadata.version(name) for name in ("numpy", "scipy", "jax", "matplotlib"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in kept) + repr(versions).encode()).hexdigest()


# ---------------------------------------------------------------- the page of the site


def with_outputs(page: str, shown: Sequence[Shown]) -> str:
    """The page with what each cell shows below it."""
    left = iter(shown)
    return FENCE.sub(lambda found: found[0] + "".join(as_html(each) for each in next(left)), page)


def as_html(shown: Mapping[str, str]) -> str:
    """Return the output of a cell as HTML without blank lines, which would end HTML in Markdown."""
    if "image/png" in shown:
        inside = f'<img alt="the figure that the cell draws" src="data:image/png;base64,{shown["image/png"]}">'
    elif "text/html" in shown:
        inside = shown["text/html"]
    else:
        text = html.escape(shown.get("stdout") or shown["text/plain"]).rstrip()
        inside = f"<pre><code>{text}</code></pre>"
    return '\n<div class="shown">{}</div>\n'.format(re.sub(r"\n\n+", "\n", inside))


def with_formulas(page: str) -> str:
    """The page with MathML in the place of TeX between dollars; code stays as it is."""
    from latex2mathml.converter import convert

    def drawn(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        display = found["display"]
        formula = convert(display or found["inline"], display="block" if display else "inline")
        kind = "div" if display else "span"  # Markdown ends a paragraph at a line that begins with <math>
        return f'<{kind} class="formula">{formula}</{kind}>'

    return FORMULA.sub(drawn, page)


def downloads(name: str, page: str) -> str:
    """The line below the heading that links to the notebook, and to the one without solutions where it has any."""
    links = [f"[Download the notebook]({name}.ipynb)"]
    if SOLUTION.search(page):
        links = [
            f"[Download the sheet with solutions folded away]({name}.ipynb)",
            f"[without solutions]({name}-without-solutions.ipynb)",
        ]
    return "{}: runs in Jupyter with `sgdtheory[testing]`\n".format(" · ".join(links))


# ---------------------------------------------------------------- the build


@functools.cache
def tutorials() -> dict[str, str]:
    """Name → text of each page."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}


def on_config(config: Any) -> None:
    """Forget what an earlier build of the same process has read."""
    tutorials.cache_clear()
    library.cache_clear()


def on_files(files: Any, config: Any) -> Any:
    """Add the notebooks."""
    from mkdocs.structure.files import File

    for name, page in tutorials().items():
        for file, content in notebooks(name, page).items():
            files.append(File.generated(config, f"tutorials/{file}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Run the cells, draw the formulas, and link to the notebook."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder != "tutorials":
        return markdown
    shown = shown_by(tutorials())[name]
    heading, _, rest = with_outputs(with_formulas(markdown), shown).partition("\n")
    return f"{heading}\n\n{downloads(name, markdown)}{rest}"
