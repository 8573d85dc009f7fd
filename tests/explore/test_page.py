"""The page in a real browser: controls move panels, numbers are the library's, links reproduce a state."""

import contextlib
import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import TimeoutError as NotInTime

import sgdtheory as st
from sgdtheory.explore import python_source
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.state import NUMBERS, State, digits
from tests.marks import slow


def wait_for_value(page, name, value, rel=1e-9):
    """Until the page shows this number; says what it shows if it never does."""
    try:
        _wait_for_value(page, name, value, rel)
    except NotInTime as error:
        shown = page.page.locator(f"[data-name={name}]").all_inner_texts()
        told = page.text("status"), page.text("words")
        raise AssertionError(f"{name} is {shown}, not {value!r}; {told}; {page.errors}") from error


def _wait_for_value(page, name, value, rel):
    page.page.wait_for_function(
        """([name, value, rel]) => {
            const find = (root) => {
                const hit = root.querySelector(`[data-name=${name}]`);
                if (hit) return hit;
                for (const each of root.querySelectorAll("*"))
                    if (each.shadowRoot) { const found = find(each.shadowRoot); if (found) return found; }
            };
            const cell = find(document);
            return cell && Math.abs(Number(cell.dataset.value) - value) <= rel * Math.abs(value);
        }""",
        arg=[name, float(value), rel],
    )


def state_of(page):
    state, sentences = State.from_query(dict(parse_qsl(page.query)))
    assert sentences == []
    return state


def risk_of(state, slot=0):
    algorithm, setting = state.algorithms[slot], {"batch_size": state.batch_size, "num_samples": state.num_samples}
    rate = state.learning_rate
    if rate is None or not algorithm.linear:
        rate = st.optimal_learning_rate(state.problem, **setting, algorithm=algorithm).learning_rate
        rate *= 1 if algorithm.linear else state.rate_factor
    return float(st.excess_risk(state.problem, **setting, learning_rate=rate, algorithm=algorithm).total)


def told_of(lines, query):
    """Return the server's output without tracebacks of other visitors' sockets, which may break as they leave."""
    kept, foreign = [], False
    for line in lines:
        if line.startswith("Uncaught exception GET /ws"):
            foreign = query not in line
        if not foreign:
            kept.append(line)
        elif re.match(r"[\w.]+: ", line) or re.fullmatch(r"[\w.]+Error\n", line):
            foreign = False  # the last line of a traceback
    return "".join(kept)


def test_breaking_sockets_of_other_visitors_are_not_this_ones():
    foreign = ["Uncaught exception GET /ws?D=500 (127.0.0.1)\n", "Traceback:\n", "  File\n", "tornado.X: closed\n"]
    own = ["Uncaught exception GET /ws?D=2000 (127.0.0.1)\n", "  File\n"]
    assert told_of([*foreign, *own, "more\n"], "D=2000") == "".join([*own, "more\n"])


@pytest.mark.parametrize("whole", [False, slow(True)])
def test_a_walk(visit, server, whole):
    """One visitor tries all there is, or most of it: to open a page for each would take most of the time."""
    logged, start = len(server.log), "a=1.5&b=4&noise=0.5&D=500&B=4&rate=0.05"
    page = visit(start)
    check_numbers(page)
    move_sliders(page, SLIDERS if whole else ("num_samples",))
    download(page)
    if whole:
        choose_a_method(page)
        free_a_slider(page)
        choose_a_method_that_is_not_linear(page)
    add_an_algorithm(page)
    leave_a_bad_state(page)
    if whole:
        move_quickly(page)
        leave_it_out(page)
    show_python(page)
    assert told_of(server.log[logged:], start) == ""


def check_numbers(page):
    """They are the library's."""
    problem = st.PowerLaw(1.5, 4.0, noise_variance=0.5)
    risk = st.excess_risk(problem, batch_size=4, learning_rate=0.05, num_samples=500)
    found = {part: page.number(f"path-{part}-0") for part in ("bias", "variance", "total")}
    assert found == pytest.approx({part: float(getattr(risk, part)) for part in found}, rel=1e-12)
    critical = st.critical_batch_size(problem, num_samples=500, curve=False)
    assert page.number("samples-batch_size-0") == critical.batch_size
    assert page.number("samples-optimal_risk-0") == pytest.approx(critical.optimal_risk, rel=1e-12)


@contextlib.contextmanager
def a_move(page):
    """One after which the link is another one, and the risk that of its state."""
    before = page.query
    yield
    page.wait_for_link(f"?{before}", "!==")
    check_risk(page)


def check_risk(page, slot=0):
    """The number shown becomes that of the state in the link."""
    wait_for_value(page, f"path-total-{slot}", risk_of(state_of(page), slot), 1e-8)


SLIDERS = "capacity", "source", "noise_variance", "num_samples", "batch_size", "learning_rate", "overhead"


def move_sliders(page, names):
    for name in names:
        before = state_of(page)
        with a_move(page):
            page.press(name)
        after = state_of(page)
        assert [part for part in NUMBERS if getattr(after, part) != getattr(before, part)] == [name]
    critical = st.critical_batch_size(
        after.problem, num_samples=after.num_samples, overhead=after.overhead, curve=False
    )
    wait_for_value(page, "samples-batch_size-0", critical.batch_size)


def free_a_slider(page):
    for box, query in (("num_features", "M"), ("learning_rate", "rate")):
        checkbox = page.page.locator(f".without-{box} input")
        given = checkbox.is_checked()
        for checked in (not given, given):
            with a_move(page):
                checkbox.set_checked(checked)
            assert (f"{query}=" in page.query) is not checked


def download(page):
    """Download the figure and the numbers that are shown."""
    state = state_of(page)
    for suffix, begin in (("pdf", b"%PDF"), ("csv", b"algorithm,")):
        with page.page.expect_download() as found:
            page.page.locator(f"#panel-rate a[href*='rate.{suffix}']").click()
        assert found.value.suggested_filename == f"rate.{suffix}"
        assert Path(found.value.path()).read_bytes().startswith(begin)
    assert state.query in Path(found.value.path()).read_text(encoding="utf-8")


def choose_a_method(page):
    """Its settings come with it, and go."""
    slider = page.page.locator(".control-first-momentum")
    with a_move(page):
        page.choose("first-method", "heavy-ball")
    slider.wait_for()
    with a_move(page):
        page.press("first-momentum", "ArrowLeft")
    assert state_of(page).first.startswith("heavy-ball momentum=0.89")
    with a_move(page):
        page.choose("first-method", "sgd")
    slider.wait_for(state="detached")
    assert state_of(page).first == "sgd"


def choose_a_method_that_is_not_linear(page):
    """It has a γ slider of its own, and of coordinates whose risk is not known that is said."""
    factor = page.page.locator(".control-rate_factor .noUi-target[disabled]")  # grey
    factor.wait_for()
    with a_move(page):
        page.choose("first-method", "sign")
    page.page.locator(".control-learning_rate .noUi-target[disabled]").wait_for()
    factor.wait_for(state="detached")
    for _ in range(3):  # one by one: the risk is awaited at the link of each, which may lag behind the keys
        with a_move(page):
            page.press("rate_factor")
    assert state_of(page).rate_factor == pytest.approx(10**0.06, rel=0.01)
    page.choose("first-method", "adam")
    page.page.locator(".control-first-beta2").wait_for()  # until then the coordinates are signSGD's
    page.choose("first-basis", "random")
    page.wait_for_query("first", "adam basis=random")
    page.wait_for_text("words", "its risk in these coordinates takes minutes")
    page.wait_for_none("[data-name=path-total-0]")
    with a_move(page):
        page.choose("first-method", "sgd")
    factor.wait_for()
    page.wait_for_no_words()


def add_an_algorithm(page):
    with a_move(page):
        page.choose("second-method", "sgd")
    page.page.locator(".control-second-average").wait_for()
    with a_move(page):
        page.choose("second-average", "tail")
    assert state_of(page).second.startswith("tail")
    check_risk(page, 1)


def leave_it_out(page):
    with a_move(page):
        page.choose("second-method", "(none)")
    page.page.locator("[data-name=path-total-1]").wait_for(state="detached")


def leave_a_bad_state(page):
    """A sentence says what is wrong; there is nothing to download."""
    page.press("capacity", "Home")
    page.wait_for_text("words", "is finite only for a > 1: move a up")
    page.wait_for_none("[data-name]")
    link = page.page.locator("#panel-risk footer a").first
    link.wait_for(state="hidden")
    page.press("capacity", times=8)
    page.wait_for_query("a", "1.2")
    check_risk(page)
    page.wait_for_no_words()
    link.wait_for(state="visible")
    assert "Traceback" not in page.page.content()


def move_quickly(page, share=0.25):
    """The last position counts, of however many."""
    moves = ("source", -40), ("noise_variance", -30), ("capacity", 40), ("batch_size", 8), ("capacity", -12)
    before = state_of(page)
    for name, times in moves:
        page.press(name, "ArrowRight" if times > 0 else "ArrowLeft", times=int(abs(times) * share))
    steps = {"source": -40, "noise_variance": -30, "capacity": 28, "batch_size": 8}
    wanted = {}
    for name, times in steps.items():
        number = NUMBERS[name]
        place = number.place(getattr(before, name)) + number.step * int(times * share)
        wanted[number.query] = digits(number.value(place))
    page.wait_for_queries(wanted)  # together: on the way one slider passes where it ends
    for slot in range(2):
        check_risk(page, slot)
    after = state_of(page)
    critical = st.critical_batch_size(after.problem, num_samples=after.num_samples, overhead=0.25, curve=False)
    wait_for_value(page, "samples-batch_size-0", critical.batch_size)


def show_python(page):
    """It follows the state."""
    code = page.page.locator("#code")
    page.page.locator("[data-python=path]").click()
    code.filter(has_text="num_samples").wait_for()
    assert code.text_content() == python_source(state_of(page), "path") + "\n"
    with a_move(page):
        page.press("source", "ArrowLeft")
    code.filter(has_text=f"source={state_of(page).source:g}").wait_for()


@pytest.mark.slow
def test_a_hundred_quick_moves(visit, server):
    logged = len(server.log)
    page = visit("b=6&D=2000&B=4&overhead=0.25&second=tail")
    page.number("path-total-1")
    move_quickly(page, share=1)
    assert told_of(server.log[logged:], "D=2000") == ""


@pytest.mark.slow  # ten seconds
def test_a_link_reproduces_a_state(visit):
    page = visit("D=1000&B=8&second=last&M=16")
    page.press("source", times=3)
    page.press("batch_size", "ArrowLeft")
    page.wait_for_query("b", "3.15")
    page.wait_for_query("B", "7")
    for slot in range(2):
        check_risk(page, slot)
    other = visit(page.query)
    for name in [f"{key}-{slot}" for key in ("path-total", "path-learning_rate", "path-edge") for slot in range(2)]:
        assert other.number(name) == page.number(name)
    assert titles(other) == titles(page)
    assert state_of(other) == state_of(page)


def titles(page):
    return page.page.locator(".bk-slider-title").all_inner_texts()


@pytest.mark.slow
def test_presets(visit):
    page = visit("D=500&colours=dark")
    page.number("path-total-0")
    for preset in (PRESETS[0], PRESETS[4]):
        page.choose("preset", preset.name)
        page.wait_for_text("sentence", max(preset.sentence.split("$")[::2], key=len).strip())
        wait_for_value(page, "path-total-0", risk_of(preset.state), 1e-8)
        page.wait_for_query("b", f"{preset.state.source:g}")
        assert state_of(page) == preset.state.looking_like(State(colours="dark"))


@pytest.mark.slow
def test_two_pages_do_not_mix(visit):
    one, two = visit("D=1000&b=3"), visit("D=1000&b=5")
    for page in (one, two, one, two):
        old = page.number("path-total-0")
        page.press("source")
        page.number_after("path-total-0", old)
    for page, source in ((one, "3.1"), (two, "5.1")):
        page.wait_for_query("b", source)
        wait_for_value(page, "path-total-0", risk_of(state_of(page)), 1e-8)


@pytest.mark.slow
def test_an_unstable_rate_and_a_bad_link_are_told(visit):
    page = visit("D=1000&B=8&rate=9&M=many")
    page.wait_for_text("words", "above the stability limit")
    page.wait_for_text("words", "M must be a number from 2 to")
    page.press("learning_rate", "Home")
    page.wait_for_query("M", None)
    page.wait_for_query("rate", "1e-05")
    check_risk(page)
    page.wait_for_no_words()


@pytest.mark.slow
def test_simulated_runs(visit):
    """A move takes the points away."""
    page = visit("D=500&B=4&rate=0.05")
    page.number("path-total-0")
    page.page.locator(".control-simulate button").click()
    page.wait_for_text("share", "Means of 128 simulated runs")
    with a_move(page):
        page.press("source")
    page.page.locator(".share .bk-clearfix", has_text=re.compile("^$")).wait_for(state="attached")


@pytest.mark.slow
def test_a_simulation_can_be_stopped(visit):
    page = visit("D=1e6&B=16&rate=0.05&second=last")
    page.number("path-total-1")
    button = page.page.locator(".control-simulate button")
    button.click()
    page.wait_for_text("share", "% simulated")
    button.filter(has_text="Stop").click()
    button.filter(has_text="Simulate").wait_for()
    old = page.number("path-total-0")
    page.press("source")
    page.number_after("path-total-0", old)
