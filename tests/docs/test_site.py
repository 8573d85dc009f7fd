"""The pages: a short README, no dead links, and every public name and figure."""

import ast
import importlib.util
import re

import pytest

import sgdtheory as st
from experiments._lib.registry import EXPERIMENTS
from sgdtheory.algorithms import KINDS
from sgdtheory.cli.commands import COMMANDS
from sgdtheory.sweep import read_grid
from tests.docs.blocks import FINDINGS, PAGES, ROOT, TUTORIALS, blocks, write_files

LINK = re.compile(r"\]\(([^)\s]+)\)")
FIGURE = re.compile(r"!\[(\w+)\]\(\.\./experiments/recorded/(\w+)\.png\)")
RECORDED = ROOT / "experiments" / "recorded"
THEORY = sorted((ROOT / "docs" / "theory").glob("*.md"))
RUNS = {"first.toml": 45, "sweep.toml": 420}  # as the guide says


@pytest.fixture(scope="module")
def site():
    """The hook that brings in the pages which lie outside `docs/`."""
    spec = importlib.util.spec_from_file_location("site_hook", ROOT / "docs" / "_hooks" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 120


def test_lines_of_the_changelog_are_short():
    """A line is an item of a list or a row of a table, to be read at a glance."""
    assert max(map(len, (ROOT / "CHANGELOG.md").read_text().splitlines())) <= 240


@pytest.mark.parametrize(
    "page", [*PAGES, *TUTORIALS, *THEORY, ROOT / "THEORY.md", RECORDED / "README.md"], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    """Files, and headings by the name that code-hosting pages and the site give them."""
    for target in LINK.findall(page.read_text()):
        path, _, anchor = target.partition("#")
        if "://" not in target:
            linked = page.parent / path if path else page
            assert linked.exists(), target
            if anchor:
                assert anchor in anchors(linked), target


def anchors(page):
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    own = re.findall(r'<a id="(\w+)"></a>', text)
    return own + [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_tags_of_the_code_are_defined_once():
    """`THEORY.md T20` in the code is a link in the table of THEORY.md, to a page that defines it."""
    defined = [tag for page in THEORY for tag in re.findall(r'<a id="([TES]\d+)"></a>\*\*\(', page.read_text())]
    assert len(defined) == len(set(defined))
    used = set()
    for file in (ROOT / "sgdtheory").rglob("*.py"):
        for said in re.findall(r"THEORY\.md,? ((?:[TES]\d+(?:, | and | to |–|, and )?)+)", file.read_text()):
            used |= set(re.findall(r"[TES]\d+", said))
    assert used <= set(defined)
    assert set(re.findall(r"\[([TES]\d+)\]\(docs/theory/", (ROOT / "THEORY.md").read_text())) == set(defined)


def test_every_guide_is_linked_from_the_readme_or_a_page_that_is():
    linked = {name for page in PAGES for name in LINK.findall(page.read_text())}
    assert {page.name for page in PAGES[2:]} <= {name.split("/")[-1] for name in linked}


def test_reference_names_every_public_name(site):
    """Each wing's page, from its door; what `sgdtheory` has is on one of them."""
    listed = {name for wing in site.WINGS for _, name in site.exported(ROOT / "sgdtheory" / wing)}
    modules = {name for name in st.__all__ if type(getattr(st, name)).__name__ == "module"}
    assert set(st.__all__) - modules - {"__version__"} <= listed
    for wing in site.WINGS:
        page = site.reference_page(wing)
        for module, name in site.exported(ROOT / "sgdtheory" / wing):
            assert f"::: sgdtheory.{wing}.{module}.{name}\n" in page
            source = site._parsed(ROOT / "sgdtheory" / wing / f"{module.replace('.', '/')}.py")
            assert any(name in defined(node) for node in source.body), f"{module} does not define {name}"


def test_a_new_method_appears_in_its_table(site, monkeypatch):
    """A registered kind that the page does not name gets a row; the others have theirs."""

    class LookAhead(st.LinearMethod):
        """Gradients are taken ahead of the iterate."""

    page = (ROOT / "docs" / "algorithms.md").read_text()
    assert [site.rows_of_kinds(part, page) for part in ("method", "schedule", "average")] == ["", "", ""]
    monkeypatch.setitem(KINDS["method"], "look-ahead", LookAhead)
    row = "| `LookAhead`, by name `look-ahead` | Gradients are taken ahead of the iterate. |\n"
    assert site.rows_of_kinds("method", page) == row


def test_names_that_serve_two_wings_are_described_once(site):
    """Training's schedules are the theory's."""
    passed = site.passed_on(ROOT / "sgdtheory" / "training")
    assert passed.keys() == {"algorithms"}
    assert set(passed["algorithms"]) == {kind.__name__ for kind in KINDS["schedule"].values()}
    assert f"[{', '.join(passed['algorithms'])}](algorithms.md)" in site.reference_page("training")
    assert {("schedules", name) for name in passed["algorithms"]} <= set(
        site.exported(ROOT / "sgdtheory" / "algorithms")
    )
    assert [site.passed_on(ROOT / "sgdtheory" / wing) for wing in site.WINGS if wing != "training"].count({}) == len(
        site.WINGS
    ) - 1


def defined(node):
    """Names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for each in targets for target in ast.walk(each or ast.Pass()) if isinstance(target, ast.Name)]


def test_names_that_share_a_line_have_one_each_in_the_reference():
    """Every docstring of the library, as the reference's parser reads it; control: without the hook it does not."""
    griffe = pytest.importorskip("griffe")
    path = ROOT / "docs" / "_hooks" / "combined_names.py"
    spec = importlib.util.spec_from_file_location("combined_names", path)
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)

    def names(text):
        sections = griffe.Docstring(text).parse("google", warnings=False, warn_missing_types=False)
        kinds = {griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.attributes}
        return [item.name for section in sections if section.kind in kinds for item in section.value]

    combined = re.compile(r"^ +\w+, [\w, ]+: ", re.M)
    sources = (path.read_text() for path in (ROOT / "sgdtheory").rglob("*.py"))
    nodes = (node for source in sources if combined.search(source) for node in ast.walk(ast.parse(source)))
    texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    before = [text for text in texts if combined.search(text) and any(name.endswith(",") for name in names(text))]
    assert len(before) > 30
    for text in before:
        found = names("\n".join(hook.separated(text.splitlines())))
        shared = [name for line in combined.findall(text) for name in line.strip(" :").split(", ")]
        assert not any(name.endswith(",") for name in found)
        assert set(shared) <= set(found)
        assert len(found) == len(set(found))


def test_links_are_turned_for_the_site(site):
    text = "[a](../THEORY.md#b) ![b](../experiments/recorded/why.png) [c](bounds.md) [d](../LICENSE) [e](https://f)"
    turned = site.turned_links(text, "docs/sweeps.md", "sweeps.md")
    assert turned == "[a](theory.md#b) [![b](figures/why.png)](figures/why.png) [c](bounds.md) d [e](https://f)"
    assert site.turned_links("[a](docs/bounds.md)", "README.md", "index.md") == "[a](bounds.md)"
    both = '<picture><source srcset="dark.png">\n<img alt="b" src="experiments/recorded/why.png"></picture>'
    assert site.PICTURE.fullmatch(both).group("text", "target") == ("b", "experiments/recorded/why.png")
    assert site.PICTURE.search((ROOT / "README.md").read_text())


def test_powers_are_raised_but_in_code(site):
    text = "D^0.33 … w^−0.57, B^(0.73 ± 0.04), (1 − t/n)^p `x^2` γ^−0.79."
    shown = "D<sup>0.33</sup> … w<sup>−0.57</sup>, B<sup>(0.73 ± 0.04)</sup>, (1 − t/n)^p `x^2` γ<sup>−0.79</sup>."
    assert site.raised(text) == shown


def test_findings_stand_in_the_menu_by_question(site):
    """Under the name of the index, all of them, and nothing else moves."""
    lines = "- [B\\* one](docs/findings/one.md): 1 (0 … 2).\n- other\n", "- [Two](docs/findings/two.md): 2.\n"
    index = f"Words.\n\n## Why?\n\n{lines[0]}\n## How?\n\n{lines[1]}"
    menu = site.menu_of_findings(index)
    assert menu == [{"Why?": [{"B* one": "findings/one.md"}]}, {"How?": [{"Two": "findings/two.md"}]}]
    before = [{"Start": "index.md"}, {"Results": [{"Findings": "findings.md"}, {"Gallery": "gallery.md"}]}]
    after = [{"Start": "index.md"}, {"Results": [{"Findings": menu}, {"Gallery": "gallery.md"}]}]
    assert site.with_findings(before, menu) == after
    listed = [page for group in site.menu_of_findings((ROOT / "FINDINGS.md").read_text()) for page in group.values()]
    assert sorted(path for group in listed for each in group for path in each.values()) == [
        f"findings/{page.name}" for page in FINDINGS
    ]


def test_gallery_shows_every_recorded_figure():
    shown = FIGURE.findall((ROOT / "docs" / "gallery.md").read_text())
    assert all(text == name for text, name in shown)
    assert sorted(name for _, name in shown) == sorted(path.stem for path in RECORDED.glob("*.png"))


def test_commands_are_listed():
    listed = re.findall(r"^\| `([\w-]+)[^`]*` \|", (ROOT / "docs" / "commands.md").read_text(), re.M)
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_modules_and_experiments_exist(page):
    text = page.read_text()
    for module in set(re.findall(r"python -m ([a-z_][\w.]*)", text)):
        assert importlib.util.find_spec(module), module
    assert set(re.findall(r"--only ([a-z]\w*)", text)) <= set(EXPERIMENTS)


def test_grids_have_as_many_runs_as_the_guide_says(tmp_path):
    page = ROOT / "docs" / "sweeps.md"
    write_files(page, tmp_path)
    assert {path.name: len(read_grid(path)) for path in tmp_path.glob("*.toml")} == RUNS
    assert all(str(number) in page.read_text() for number in RUNS.values())


def test_shown_wings_exist():
    for path in re.findall(r"`(sgdtheory/\w+/)`", (ROOT / "docs" / "changing.md").read_text()):
        assert (ROOT / path).is_dir()


def test_blocks_are_found_with_their_marks_and_outputs():
    """The reader of the pages: without it the other tests would pass by seeing nothing."""
    page = ROOT / "docs" / "sweeps.md"
    found = blocks(page)
    assert [block.marks for block in found if "file" in block.marks] == [{"file": name} for name in RUNS]
    (script,) = [block for block in found if block.language == "python"]
    assert "slow" in script.marks
    assert script.output.startswith("45 runs")
    assert page.read_text().splitlines()[script.line] == script.code.splitlines()[0]


def test_the_menu_has_pages_that_there_are(site):
    """A page that the menu has and the site has not breaks its build."""
    menu = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    own = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {name for name in menu if name.startswith("api/")} == {f"api/{wing}.md" for wing in site.WINGS}
    assert {name for name in menu if not name.startswith("api/")} <= own | set(site.PAGES.values())


def test_drawn_pictures_are_dark_on_dark_pages(site):
    """The style's dark rule matches every picture but the explorer's screenshots, which show its own colours."""
    style = (site.ROOT / "docs" / "site.css").read_text()
    rule = next(
        line for line in style.splitlines() if line.startswith("[data-md-color-scheme=slate]") and "filter" in line
    )
    dark = [re.escape(text) + ("$" if kind == "$" else "") for kind, text in re.findall(r'src([*$])="([^"]+)"', rule)]
    left = set()
    for page in (site.ROOT / "docs").rglob("*.md"):
        name = str(page.relative_to(site.ROOT))
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", site.turned_links(page.read_text(), name, name[5:])):
            if not any(re.search(pattern, target) for pattern in dark):
                left.add(target.rpartition("/")[2])
    assert "explorer.png" in left  # the rule does not match everything
    assert {name for name in left if not name.startswith("explorer")} == set()
