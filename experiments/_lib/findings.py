"""The pages of the findings: what recorded results hold is made from them, by `python -m experiments --findings`.

A page says where a table stands by two comments, which no reader sees:

- `<!-- made: NAME -->` … `<!-- end -->`: the table NAME of `MADE`;
- `<!-- made: verdicts EXPERIMENT -->` … `<!-- end -->`: its verdicts, a row a claim; behind a colon the texts, one of
  which a claim has to have in it, separated by semicolons.

The index, FINDINGS.md, has a line a page; the verdicts behind its dot are those of the page.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from experiments._lib import finding_tables, finding_tables_networks
from experiments._lib.finding_text import bold, claims, table_of_verdicts
from sgdtheory._common.files import write_atomically

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "FINDINGS.md"
PAGES = ROOT / "docs" / "findings"
MARK = re.compile(r"(<!-- made: (?P<what>.+?) -->\n).*?(<!-- end -->)", re.S)
VERDICTS = re.compile(r"verdicts (?P<name>\w+)(?:: (?P<about>.+))?")
LINE = re.compile(
    r"^(?P<line>- \[(?P<title>[^]]+)\]\(docs/findings/(?P<page>\w+)\.md\): .+?)(?: · (?P<verdicts>.+))?$", re.M
)
NAMED = re.compile(r"\*\*(holds|fails|inconclusive|imprecise in the paper)\*\*")
MADE: dict[str, Callable[[], str]] = finding_tables.MADE | finding_tables_networks.MADE


def update() -> list[Path]:
    """Write the tables of every page anew, and the verdicts of the index; the files that changed."""
    texts = {page: with_tables(page.read_text(encoding="utf-8")) for page in sorted(PAGES.glob("*.md"))}
    texts[INDEX] = with_verdicts(INDEX.read_text(encoding="utf-8"), {page.stem: text for page, text in texts.items()})
    changed = {path: text for path, text in texts.items() if text != path.read_text(encoding="utf-8")}
    return [write_atomically(path, text) for path, text in changed.items()]


def with_tables(page: str) -> str:
    """The text of a page with its tables as the recorded results have them."""
    return MARK.sub(lambda found: f"{found[1]}\n{made(found['what'])}\n\n{found[3]}", page)


def with_verdicts(index: str, pages: dict[str, str]) -> str:
    """The index with the verdicts of its pages, by name → text."""
    return LINE.sub(lambda found: f"{found['line']} · {verdicts_of(pages[found['page']])}", index)


def verdicts_of(page: str) -> str:
    """Count the verdicts of a page's recorded claims; without such claims, those that the page names."""
    asked = [VERDICTS.fullmatch(found["what"]) for found in MARK.finditer(page)]
    counts = Counter(each["verdict"] for found in asked if found for each in claims(*_chosen(found)))
    if counts:
        return ", ".join(f"{bold(name)} {number}" for name, number in sorted(counts.items(), key=_order))
    named = Counter(NAMED.findall(page))
    return ", ".join(bold(name) for name, _ in sorted(named.items(), key=_order)) or "no claim"


def made(what: str) -> str:
    """The table that a mark names.

    Raises:
        ValueError: there is none of that name, or no claim has the text that it asks for.
    """
    found = VERDICTS.fullmatch(what)
    if found:
        return table_of_verdicts(*_chosen(found))
    if what not in MADE:
        raise ValueError(f"made must be verdicts EXPERIMENT or one of {', '.join(sorted(MADE))}, got {what}")
    return MADE[what]()


def _chosen(found: re.Match[str]) -> tuple[str, tuple[str, ...]]:
    """The experiment, and the texts that its claims have to have."""
    return found["name"], tuple(found["about"].split("; ")) if found["about"] else ()


def _order(item: tuple[str, int]) -> int:
    return ("holds", "fails", "inconclusive", "imprecise in the paper").index(item[0])
