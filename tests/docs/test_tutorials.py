"""The tutorials: they run, say what they print, and become notebooks. The site's build runs all of them."""

import json
import re

import pytest

from docs._hooks import tutorials
from docs._hooks.run_cells import run
from sgdtheory.cli.notebooks import NEEDS, notebook
from tests.docs.blocks import TUTORIALS, _same, disagreement, expected_of

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?")
PAGE = """# Is it?

What is $x^2$ of `$y$`, a [guide](../bounds.md)?

```python
import sgdtheory as st

print("a < b")
float(st.predicted_exponent(2.0, 3.0))
```

**0.33.** Because:

<details markdown="1">
<summary>Solution</summary>

$$1 - \\tfrac23$$

```python
st.example_measurements()[0].steps[0]
```

</details>
"""


def pages(quick):
    """A parameter for each tutorial; all but the shortest are slow."""
    return [
        pytest.param(page, id=page.stem, marks=[] if page.stem == quick else [pytest.mark.slow]) for page in TUTORIALS
    ]


@pytest.mark.parametrize("page", pages(quick="exercises"))
def test_a_tutorial_runs_and_says_what_it_prints(page):
    """Numbers in comments behind `print`, and in bold, are those that its cells show."""
    cells = tutorials.cells(page.read_text())
    shown = run(cells)
    for code, each in zip(cells, shown):
        expected = [said for line in code.split("\n") if line and (said := expected_of(line))]
        printed = "".join(part.get("stdout", "") for part in each)
        assert not expected or not disagreement("\n".join(expected), printed)
    found = numbers(" ".join(str(part.get("stdout") or part["text/plain"]) for each in shown for part in each))
    assert untold(page.read_text(), found) == []


def numbers(text):
    return NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3})", "", text))


def untold(page, found):
    """Numbers in bold that no cell shows."""
    bold = re.findall(r"\*\*(.+?)\*\*", tutorials.FENCE.sub("", page), re.S)
    return [number for text in bold for number in numbers(text) if not any(_same(number, each) for each in found)]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_begins_with_a_question_and_its_answer(page):
    """A heading that asks, a cell before the first section, a number in bold below it; at the end what to change."""
    text = page.read_text()
    first = re.split("^## ", tutorials.FENCE.sub("CELL", text), flags=re.M)[0]
    assert re.match(r"# .*\?\n", text)
    assert re.search(r"CELL\s+\*\*[^*]*\d[^*]*\*\*", first)
    assert 2 <= len(re.findall(r"^\d\. ", re.split("^## ", text, flags=re.M)[-1], re.M)) <= 3
    assert max(len(code.splitlines()) for code in tutorials.cells(text)) <= 20


def test_a_wrong_number_is_noticed():
    """Control of the tests above."""
    assert untold("**1,143 samples**, 36%", ["1143"]) == []
    assert untold("**1,144 samples**, **36%**", ["1143", "36.1"]) == ["1144"]


def test_what_cells_show_stands_below_them():
    pytest.importorskip("latex2mathml")
    shown = run(tutorials.cells(PAGE))
    assert shown[0] == [{"stdout": "a < b\n"}, {"text/plain": "0.33333333333333337"}]
    page = tutorials.with_outputs(tutorials.with_formulas(PAGE), shown)
    assert page.index("float(st.predicted") < page.index("a &lt; b") < page.index("<code>0.333") < page.index("**0.33")
    assert "`$y$`" in page
    assert '<span class="formula"><math' in page
    assert "(../bounds.md)" in page


def test_tables_and_figures_are_shown_as_in_a_notebook():
    code = "import sgdtheory as st\nlaw = st.fit_steps_law([1, 4, 16], [100, 30, 12])\nlaw"
    table, figure = run([code, "law.plot()"])
    assert table[0]["text/html"].startswith("<table>")
    assert figure[0]["image/png"].startswith("iVBOR")
    assert "\n\n" not in tutorials.as_html({"text/html": "<p>a</p>\n\n<p>b</p>"}).strip()


@pytest.mark.parametrize("code", ["1 / 0", "import nothing_at_all", "raise ValueError('no')"])
def test_a_cell_that_raises_ends_the_build(code):
    with pytest.raises(RuntimeError, match="cell 2 raises"):
        run(["1", code])


def test_a_build_runs_what_has_changed_alone(tmp_path, monkeypatch):
    """The build runs in another process, and fails if that process fails."""
    monkeypatch.setattr(tutorials, "KEPT", tmp_path)
    page = "# A?\n\n```python\n6 * 7\n```\n"
    assert tutorials.shown_by({"a": page}) == {"a": [[{"text/plain": "42"}]]}
    monkeypatch.setattr(tutorials.subprocess, "run", None)
    assert tutorials.shown_by({"a": f"{page}\nMore words.\n"}) == {"a": [[{"text/plain": "42"}]]}
    monkeypatch.undo()
    monkeypatch.setattr(tutorials, "KEPT", tmp_path)
    with pytest.raises(SystemExit, match="a cell of a raises"):
        tutorials.shown_by({"a": page.replace("6 * 7", "6 / 0")})


def test_the_notebook_holds_the_page():
    made = json.loads(notebook(PAGE))
    kinds = [cell["cell_type"] for cell in made["cells"]]
    assert kinds == ["markdown", "code", "markdown", "code", "markdown"]
    assert [cell["id"] for cell in made["cells"]] == [f"cell-{number}" for number in range(1, 6)]
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert made["cells"][0]["source"] == f"# Is it?\n\nWhat is $x^2$ of `$y$`, a guide?\n\n{NEEDS}"
    assert made["cells"][3]["source"] == "# your answer"
    assert "<details>" in made["cells"][4]["source"]
    assert "example_measurements" in made["cells"][4]["source"]
    assert "example_measurements" not in notebook(PAGE, solutions=False)
    assert "without-solutions" in tutorials.downloads("a", PAGE)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_notebooks_are_valid(page):
    """Jupyter's own schema accepts them, if it is installed."""
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(json.loads(notebook(page.read_text())))
