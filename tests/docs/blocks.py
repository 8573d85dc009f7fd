"""Code blocks of Markdown pages: which there are, what they print, and whether that is what the page says.

What a page may say before a fence, in an HTML comment that no reader sees:

- `<!-- slow -->`: the program runs with `pytest -m slow` alone;
- `<!-- continues -->`: the block belongs to the program of the block above it;
- `<!-- file: NAME -->`: the block is a file, which the page's programs find in their folder;
- `<!-- run -->`: the shell block is run, not parsed alone;
- `<!-- needs: MODULE -->`: the program runs where that is installed alone.

A printed line is held against the comment behind its `print`, up to a semicolon; what a whole program prints, against a
block marked `text` right below it. The page's numbers are the printed ones, rounded to the digits that the page
shows; words agree; punctuation does not count; "…" stands for anything.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).parents[2]
FINDINGS = sorted((ROOT / "docs" / "findings").glob("*.md"))
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "FINDINGS.md", *sorted((ROOT / "docs").glob("*.md")), *FINDINGS]

FENCE = re.compile(r"(?P<marks>(?:<!--[^>]*-->\n+)*)^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$", re.M | re.S)
MARK = re.compile(r"<!-- (slow|continues|run|file|needs): ?(.*?) ?-->|<!-- (slow|continues|run) -->")
TOKEN = re.compile(r"(?<![\w.])[-+−]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|…|[^\W_]+")
ANYTHING = "…"


@dataclass(frozen=True)
class Block:
    """A fenced block: its marks, its language, its code, and the lines before it on its page."""

    page: Path
    line: int
    language: str
    code: str
    marks: dict[str, str]
    output: str | None = None  # the block marked `text` right below it

    @property
    def name(self) -> str:
        """The page and the line, as they appear in the names of tests."""
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page in order, each with its output, each continuation within what it continues."""
    found: list[Block] = []
    text, end = page.read_text(), 0
    for match in FENCE.finditer(text):
        marks = {name or bare: value for name, value, bare in MARK.findall(match["marks"])}
        line = text.count("\n", 0, match.start("code"))
        block = Block(page, line, match["language"], match["code"], marks)
        alone = text[end : match.start()].strip()
        end = match.end()
        if block.language == "text" and found and not alone and not marks:
            found[-1] = replace(found[-1], output=(found[-1].output or "") + block.code)
        elif "continues" in marks:
            before = found[-1]
            gap = "\n" * (line - before.line - before.code.count("\n"))
            found[-1] = replace(before, code=before.code + gap + block.code, marks=before.marks | marks)
        else:
            found.append(block)
    return found


def programs(language: str) -> Iterator[Block]:
    """The blocks of all pages in a language, files left out."""
    for page in PAGES:
        yield from (block for block in blocks(page) if block.language == language and "file" not in block.marks)


def write_files(page: Path, folder: Path) -> None:
    """The files that a page shows."""
    for block in blocks(page):
        if "file" in block.marks:
            (folder / block.marks["file"]).write_text(block.code)


def expected_of(source: str) -> str | None:
    """Return the output that the comment behind the last line of a statement promises."""
    comment = source.splitlines()[-1].rpartition("  # ")[2] if "  # " in source.splitlines()[-1] else ""
    return comment.partition(";")[0] if source.startswith("print(") and comment else None


def disagreement(expected: str, printed: str) -> str | None:
    """Describe the difference between printed text and the page; None if they agree."""
    want, got = TOKEN.findall(expected), TOKEN.findall(printed)
    pattern = _alignment(want, got)
    return None if pattern else f"the page says {expected.strip()!r}, printed was {printed.strip()!r}"


def _alignment(want: list[str], got: list[str]) -> bool:
    """Return whether the tokens agree one by one, "…" standing for any number of them."""
    if not want:
        return not got
    if want[0] == ANYTHING:
        return any(_alignment(want[1:], got[k:]) for k in range(len(got) + 1))
    return bool(got) and _same(want[0], got[0]) and _alignment(want[1:], got[1:])


def _same(want: str, got: str) -> bool:
    try:
        shown, value = Decimal(want.replace("−", "-")), Decimal(got.replace("−", "-"))
    except ArithmeticError:
        return want == got
    if not (shown.is_finite() and value.is_finite()):
        return str(shown) == str(value)
    unit = Decimal(1).scaleb(int(shown.as_tuple().exponent))
    return 2 * abs(shown - value) <= unit
