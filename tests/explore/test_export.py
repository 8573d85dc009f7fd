"""The page without a server: what it computes in the browser is Python's, and it says what it has not computed yet."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.cli import main
from sgdtheory.explore import TITLES, State, export_page
from sgdtheory.explore.export import page_text, random_states, reference
from tests.explore.test_page_look import POOR

CHECKED = 2  # random settings by default
PATIENCE = 100_000  # ms
LARGEST = 1_000_000  # bytes: to be sent by mail
WRONG = 1.001  # times a number of Python's: an error that the page has to see


@pytest.fixture(scope="module")
def references():
    return [reference(state) for state in random_states(CHECKED)]


@pytest.fixture(scope="module")
def exported(references, tmp_path_factory):
    """A page, the last of its references wrong."""
    wrong = references[-1] | {name: WRONG * references[-1][name] for name in ("total", "least")}
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page_text([*references, wrong]), encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser, exported):
    """`open_page(width, height)`: the page without a network; at the end it may have had no error, fetched nothing."""
    contexts, problems = [], []

    def opened(width=1280, height=900, link="", scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: message.type == "error" and problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "blob:")) or problems.append(request.url))
        page.goto(f"{exported.as_uri()}{link}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def ready(page):
    page.wait_for_function("app.fresh.size > 0 && !app.busy && !app.refusal")


def number(page, name):
    return float(page.locator(f"[data-name={name}]").get_attribute("data-value"))


def test_a_walk(open_page, references):
    """One visitor tries all there is."""
    page = open_page(link="#D=5000&B=4&b=4")
    ready(page)
    numbers_are_the_librarys(page, State(num_samples=5000.0, batch_size=4, source=4.0))
    it_measures_its_accuracy(page, references)
    nothing_old_beside_a_new_name(page)
    bad_states_are_refused(page)
    keys_of_a_lecture(page)


def numbers_are_the_librarys(page, state):
    problem, setting = state.problem, {"batch_size": state.batch_size, "num_samples": state.num_samples}
    best = st.optimal_learning_rate(problem, **setting).learning_rate
    risk = st.excess_risk(problem, **setting, learning_rate=best)
    for part in ("total", "bias", "variance"):  # the parts move with γ, which is known to 1e-5
        rel = 1e-8 if part == "total" else 1e-4
        assert number(page, f"path-{part}") == pytest.approx(float(getattr(risk, part)), rel=rel)
    critical = st.critical_batch_size(problem, num_samples=state.num_samples, curve=False)
    assert number(page, "samples-batch_size") == critical.batch_size
    assert number(page, "samples-num_steps") == critical.num_steps
    needed = page.evaluate("app.answers.samples.columns")
    sizes = np.array(needed["batch_size"])
    steps = np.array(needed["data_ratio"]) * state.num_samples / sizes
    some = [0, len(sizes) // 2, len(sizes) - 1]
    for n, enough in ((steps[some], True), (steps[some] - 1, False)):  # so many steps are enough, one less is not
        at = {"batch_size": sizes[some], "num_samples": np.round(n) * sizes[some]}
        risks = st.excess_risk(problem, **at, learning_rate=st.optimal_learning_rate(problem, **at).learning_rate).total
        assert ((risks <= critical.optimal_risk * (1 + 1e-8)) == enough).all()


def it_measures_its_accuracy(page, references):
    """The page reports right numbers as right, and the errors of wrong ones."""
    page.wait_for_function(f"app.checks.length === {len(references) + 1}")
    *right, wrong = page.evaluate("app.checks")
    for found in right:
        assert max(found["risk"], found["least"]) < 1e-7
        assert found["critical"] == 0
    for name in ("risk", "least"):
        assert wrong[name] == pytest.approx(1 - 1 / WRONG, rel=1e-3)
    assert "1e-3" in page.inner_text("#accuracy")


@pytest.mark.slow
def test_the_star_of_the_critical_batch_size_lies_on_the_line_and_a_bad_link_is_named(open_page):
    page = open_page(link="#a=1.1&b=6&D=100&noise=0&B=many&theta=0.5")
    ready(page)
    found = page.evaluate("app.answers.samples")
    sizes, ratios = (found["columns"][name] for name in ("batch_size", "data_ratio"))
    critical = st.critical_batch_size(st.PowerLaw(1.1, 6.0, noise_variance=1.0), num_samples=100)
    assert found["marks"]["batch_size"] == critical.batch_size
    assert ratios[sizes.index(critical.batch_size)] == pytest.approx(found["marks"]["data_ratio"], rel=1e-12)
    _, named = State.from_query({"noise": "0", "B": "many"})
    assert page.inner_text("#words").splitlines() == [*named, "'theta' is not part of a link to this page; remove it"]
    page.evaluate("set('num_samples', 200)")
    ready(page)
    assert page.inner_text("#words") == ""


STALE = """() => {
    set("capacity", 1.5);
    return {
        pale: document.querySelectorAll("main > section[data-waiting]").length,
        said: [...document.querySelectorAll(".caption")].map((each) => each.textContent).join(""),
        numbers: document.querySelectorAll("[data-value]").length,
        computing: document.querySelectorAll("[aria-label=computing]").length,
    };
}"""


def nothing_old_beside_a_new_name(page):
    """Check that old results are marked as soon as a control has moved, and so is the control."""
    assert page.evaluate(STALE) == {"pale": len(TITLES), "said": "", "numbers": 0, "computing": 10}
    ready(page)
    assert page.locator("section[data-waiting]").count() == 0
    assert page.locator("dd.changed").count() > 5
    assert page.locator("#control-capacity.moved").count() == 1
    off = page.locator("#control-learning_rate.off output")
    assert "best" in off.inner_text()
    assert page.locator("#control-learning_rate [type=range]").is_disabled()


def bad_states_are_refused(page):
    for state, part in (
        ("capacity: 1", "move a up"),
        ("batch_size: 65536, num_samples: 3000", "lower B or raise D"),
        ("noise_variance: 1e15, num_samples: 200", "too small to learn anything"),
    ):
        page.evaluate(f"change({{ ...START, {state} }}, '')")
        page.locator("#words", has_text=part).wait_for()
        assert page.locator("[data-value]").count() == page.locator(".chart svg").count() == 0
        page.evaluate("change({ ...START, num_samples: 3000 }, '')")
        page.wait_for_function("app.fresh.has('path')")
        assert page.inner_text("#words") == ""


def keys_of_a_lecture(page):
    page.keyboard.press("l")
    page.keyboard.press("2")
    shown = page.locator("main > section").filter(visible=True)
    assert [each.get_attribute("id") for each in shown.all()] == ["panel-samples"]
    assert page.locator("#panel-samples .chart").bounding_box()["height"] > 0.6 * 900
    page.wait_for_function("document.getElementById('numbers').getBoundingClientRect().bottom <= innerHeight")
    page.keyboard.press("]")
    assert page.evaluate("document.activeElement.id") == "slider-capacity"
    before = page.evaluate("app.state.capacity")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("app.state.capacity") > before
    page.keyboard.press("Escape")
    assert shown.count() == len(TITLES)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_layout(open_page, width, scheme):
    """It can be read, nothing lies beside the page, and on a phone a figure and sliders are on one screen."""
    height = 844 if width == 390 else 900
    page = open_page(width, height, scheme=scheme)
    ready(page)
    assert page.evaluate(POOR) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    shown = [each for each in page.locator("main > section").all() if each.is_visible()]
    assert len(shown) == (1 if width == 390 else len(TITLES))
    if width == 390:
        slider = page.locator("#slider-overhead")
        slider.scroll_into_view_if_needed()
        for box in (shown[0].locator(".chart svg").bounding_box(), slider.bounding_box()):
            assert 0 <= box["y"] < box["y"] + box["height"] <= height
        page.locator("[data-panel=growth]").click()
        assert page.locator("#panel-growth .chart svg").is_visible()


@pytest.mark.slow
def test_on_a_phone_held_across_a_whole_panel_is_on_the_screen(open_page):
    page = open_page(844, 390)
    ready(page)
    for name in TITLES:
        page.locator(f"[data-panel={name}]").click()
        for part in (".caption", ".chart svg", ".label-x"):
            box = page.locator(f"#panel-{name} {part}").bounding_box()
            assert 0 <= box["y"] < box["y"] + box["height"] <= 390, (name, part)


@pytest.mark.slow
def test_accuracy_at_random_settings(browser, tmp_path):
    """Sixty of them; an export has the first 24."""
    path = export_page(tmp_path / "page.html", checked=60)
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_function("app.checks.length === 60", timeout=4 * PATIENCE)
    checks = page.evaluate("app.checks")
    page.close()
    assert max(max(each["risk"], each["least"]) for each in checks) < 1e-8
    assert [each for each in checks if each["critical"]] == []


def test_an_export_is_small_and_fetches_nothing(exported):
    text = exported.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    assert "@@" not in text
    for word in ("<link", "<img", "src=", "import(", "@import"):
        assert word not in text


@pytest.mark.parametrize(
    ("name", "checked", "part"),
    [("page.txt", 1, "must end in .html"), ("folder.html", 1, "must be a file"), ("page.html", 0, "from 1 to 1000")],
)
def test_bad_arguments(tmp_path, name, checked, part):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ValueError, match=part):
        export_page(tmp_path / name, checked=checked)


def test_an_export_that_fails_leaves_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr("sgdtheory.explore.export.page_text", lambda references: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_page(path, checked=1)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_command(tmp_path, capsys):
    """It refuses in one line."""
    with pytest.raises(SystemExit) as ended:
        main(["explore", "--export", str(tmp_path / "page.pdf")])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "must end in .html" in said
