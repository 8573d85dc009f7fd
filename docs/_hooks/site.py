"""Pages of the site beside the guides: those that stand elsewhere in the repository, the reference, the commands' help.

A page is written once, with links that work where the repository is browsed. Here the pages and figures outside `docs/`
are brought in, and links to them are turned; a link to any other file of the repository becomes plain text.
"""

import ast
import functools
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from docs._hooks.stable import stable_names  # noqa: E402  the path is set above

PAGES = {  # in the repository → on the site
    "README.md": "index.md",
    "THEORY.md": "theory.md",
    "FINDINGS.md": "findings.md",
    "CHANGELOG.md": "changelog.md",
    "experiments/recorded/README.md": "recorded.md",
}
FIGURES = "experiments/recorded"
INDEX = "FINDINGS.md"
FONT = "sgdtheory/explore/static/math.woff2"  # formulas of the tutorials, and of the explorer
WINGS = (
    "problems",
    "algorithms",
    "risk",
    "bounds",
    "critical",
    "optimal",
    "fits",
    "simulation",
    "testing",
    "training",
    "sweep",
    "plotting",
    "data",
    "curves",
    "logs",
    "advice",
    "explore",
)
HELP = "<!-- help of every command, at build -->"
EXPERIMENTS = "<!-- table of experiments, at build -->"
MORE = re.compile(r"<!-- more of (\w+), at build -->\n")
FINDING = re.compile(r"^- \[(?P<title>[^]]+)\]\(docs/(?P<page>findings/\w+\.md)\)", re.M)
POWER = re.compile(r"(?<=\w)\^(?P<power>−?\d+(?:\.\d+)?|\(−?\d[\d.]* ± [\d.]+\))|`[^`]*`")
PICTURE = re.compile(r'<picture>.*?<img alt="(?P<text>[^"]*)" src="(?P<target>[^"]*)"></picture>', re.S)
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Put the findings into the menu, as the index groups them."""
    index = (ROOT / INDEX).read_text(encoding="utf-8")
    config.nav = with_findings(config.nav, [{"All findings": PAGES[INDEX]}, *menu_of_findings(index)])
    return config


def menu_of_findings(index: str) -> list[dict[str, list[dict[str, str]]]]:
    """Question → its findings, short title → page, as the lines of the index have them."""
    questions = [part.partition("\n") for part in re.split(r"^## ", index, flags=re.M)[1:]]
    return [
        {name: [{each["title"].replace("\\", ""): each["page"]} for each in FINDING.finditer(lines)]}
        for name, _, lines in questions
    ]


def with_findings(menu: list[Any], findings: list[Any]) -> list[Any]:
    """The menu with the entries of the findings in the place of their index."""

    def entry(item: Any) -> Any:
        if not isinstance(item, dict):
            return item
        ((name, inside),) = item.items()
        if inside == PAGES[INDEX]:
            return {name: findings}
        return {name: with_findings(inside, findings) if isinstance(inside, list) else inside}

    return [entry(item) for item in menu]


def on_files(files: Any, config: Any) -> Any:
    """Bring in what lies outside `docs/`, and the pages of the reference."""
    from mkdocs.structure.files import File

    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    for path in sorted((ROOT / FIGURES).glob("*.png")):
        files.append(File.generated(config, f"figures/{path.name}", abs_src_path=str(path)))
    font = ROOT / FONT
    files.append(File.generated(config, font.name, abs_src_path=str(font)))
    for wing in WINGS:
        files.append(File.generated(config, f"api/{wing}.md", content=reference_page(wing)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links, and put in the commands' help and the table of experiments."""
    name = page.file.src_uri
    if name.startswith("api/"):
        return markdown
    sources = {site: source for source, site in PAGES.items()}
    markdown = PICTURE.sub(r"![\g<text>](\g<target>)", markdown)  # the site's style has dark figures by itself
    markdown = turned_links(markdown, sources.get(name, f"docs/{name}"), name)
    for place, lines in ((HELP, help_of_commands), (EXPERIMENTS, table_of_experiments)):
        if place in markdown:
            markdown = markdown.replace(place, "\n".join(lines()))
    if name == PAGES[INDEX] or name.startswith("findings/"):
        markdown = raised(markdown)
    return MORE.sub(lambda found: rows_of_kinds(found[1], markdown), markdown)


def raised(markdown: str) -> str:
    """Powers that are numbers, D^0.33, as the site can show them; code stays as it is."""
    return POWER.sub(lambda found: f"<sup>{found['power']}</sup>" if found["power"] else found[0], markdown)


def turned_links(markdown: str, source: str, name: str) -> str:
    """Links of the page `source` of the repository, as they have to be on the site, where it is called `name`."""

    def turned(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if not target or ":" in target:
            return match[0]
        place = site_name(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        if place is None:
            return match["text"]
        place = posixpath.relpath(place, posixpath.dirname(name) or ".")
        turned = f"{match['picture']}[{match['text']}]({place}{anchor})"
        return f"[{turned}]({place})" if match["picture"] else turned  # a phone shows it large

    return LINK.sub(turned, markdown)


def site_name(path: str) -> str | None:
    """Return the site's name for a file of the repository; None if the site does not have it."""
    if path in PAGES:
        return PAGES[path]
    if posixpath.dirname(path) == FIGURES and path.endswith(".png"):
        return f"figures/{posixpath.basename(path)}"
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def reference_page(wing: str) -> str:
    """The page of a wing: every name that its door exports, what is stable first."""
    package = ROOT / "sgdtheory" / wing
    about = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    top = {name for _, name in exported(ROOT / "sgdtheory")}
    used = stable_names().get(wing, frozenset()) - top
    found = list(exported(package))
    lines = [f"# sgdtheory.{wing}", "", about]
    groups = {
        "In `sgdtheory` itself: stable": top,
        f"In `sgdtheory.{wing}`: stable": used,
        f"In `sgdtheory.{wing}`: may change": {name for _, name in found} - top - used,
    }
    for heading, group in groups.items():
        names = [(module, name) for module, name in found if name in group]
        lines += ["", f"## {heading}"] if names else []
        for module, name in names:
            lines += ["", f"::: sgdtheory.{wing}.{module}.{name}"]
    for other, names in passed_on(package).items():
        lines += ["", f"## Of `sgdtheory.{other}`", "", f"[{', '.join(names)}]({other}.md)"]
    return "\n".join(lines) + "\n"


@functools.cache  # a page of the reference asks for it with every name
def passed_on(package: Path) -> dict[str, list[str]]:
    """Wing → its names that the door of another one exports too, for they serve both."""
    found: dict[str, list[str]] = {}
    for module, name in _names(package):
        for node in _parsed(package / f"{module.replace('.', '/')}.py").body:
            if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
                found.setdefault(str(node.module).split(".")[1], []).append(name)
    return found


def exported(package: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of what the door of a package exports, as its stub has it; not what it passes on."""
    others = {name for names in passed_on(package).values() for name in names} if package.name in WINGS else ()
    yield from ((module, name) for module, name in _names(package) if name not in others)


def _names(package: Path) -> Iterator[tuple[str, str]]:
    for node in _parsed(package / "__init__.pyi").body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.asname or alias.name) for alias in node.names)


@functools.cache  # a door's modules are asked for every name of it
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def help_of_commands() -> Iterator[str]:
    """A section for each command, with what its `--help-all` prints."""
    from sgdtheory.cli.commands import COMMANDS, command_named
    from sgdtheory.cli.help import command_help

    for name in COMMANDS:
        command = command_named(name)
        text = command_help(name, command, command.flags, 100, every_flag=True)
        yield from (f"## {name}", "", "```text", text, "```", "")


def rows_of_kinds(part: str, page: str) -> str:
    """Rows of a table of methods, schedules or averages: those that have a name and are not on the page yet."""
    from sgdtheory.algorithms import KINDS

    rows = []
    for name, kind in KINDS[part].items():
        if f"`{kind.__name__}(" not in page:
            about = (kind.__doc__ or "").splitlines()[0].replace("|", r"\|")
            rows.append(f"| `{kind.__name__}`, by name `{name}` | {about} |\n")
    return "".join(rows)


def table_of_experiments() -> Iterator[str]:
    """Yield the table of experiments: the question, and seconds on two cores at quick and at full scale."""
    sys.path.insert(0, str(ROOT))  # MkDocs takes back what a hook sets while it is loaded
    from experiments._lib.registry import EXPERIMENTS as registered

    yield from ("| experiment | what it asks | quick | full |", "| --- | --- | ---: | ---: |")
    for name, each in registered.items():
        question = re.sub(r"([*_|])", r"\\\1", each.question)
        yield f"| `{name}` | {question} | {each.quick:g} s | {each.full:g} s |"
