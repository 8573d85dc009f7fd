"""The Python beside a figure runs by itself and draws the numbers that the page shows."""

import csv
from dataclasses import dataclass, replace
from typing import Annotated

import jax
import matplotlib
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import KINDS, Parameter
from sgdtheory.explore import python_source
from sgdtheory.explore.downloads import figure_file, table_file
from sgdtheory.explore.panels import growth
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.registry import JOBS, PROGRAMS, TITLES
from sgdtheory.explore.spec import PanelSpec
from sgdtheory.explore.state import State
from tests.marks import EXHAUSTIVE, every_other

SMALL = {"num_samples": 100.0, "batch_size": 4, "num_features": 6}
STATES = {
    "default": State(num_samples=200.0, batch_size=8),
    "learning rate": replace(State(**SMALL), learning_rate=0.123, noise_variance=0.05, overhead=0.35),
    "preconditioned": replace(State(**SMALL), capacity=3.0, source=2.0, precondition=0.5),
    "two": replace(State(**SMALL), second="tail tail-fraction=0.25"),
    "not linear": replace(State(**SMALL), first="sign linear last", second="last", learning_rate=0.1, rate_factor=2.0),
    "the same twice": replace(State(**SMALL), second="sgd"),
    "stages": replace(
        State(**SMALL), first="stages stages=0:1,0.5:0.3 last", second="batch-schedule=stages batch-stages=0:1,0.5:4"
    ),
    "all parts": replace(
        State(**SMALL), first="heavy-ball momentum=0.5 wsd decay=0.3 warmup=0.1 exponential average-window=0.3"
    ),
}
LINES = {  # computation's answer → (x, y) of what is drawn
    "risk": [("batch_size", "risk"), ("batch_size", "bias"), ("batch_size", "variance")],
    "samples": [("batch_size", "samples_needed")],
    "growth": [("num_samples", "critical")],
    "path": [("num_samples", "average"), ("num_samples", "iterate")],
    "rate": [("learning_rate", "risk"), ("learning_rate", "bias"), ("learning_rate", "variance")],
    "simulated": [("num_samples", "risk")],
}


def answers(state, panel, slot):
    """The last of them."""
    told = []
    JOBS[PROGRAMS[panel].job].compute(state, slot, told.append)
    return [each for each in told if each.panel == panel][-1]


def run_program(program):
    names = {}
    with matplotlib.rc_context():
        exec(compile(program.rsplit("\n", 1)[0], "program.py", "exec"), names)
    return names


def drawn(figure):
    return [np.asarray(line.get_xydata(), dtype=float) for axes in figure.axes for line in axes.lines]


def holds(lines, x, y):
    """Return whether these points are on a drawn line, with y in the first one's units or in others."""
    points = np.stack([np.asarray(x, float), np.asarray(y, float)], axis=1)
    points = points[np.isfinite(points).all(1) & (points[:, 1] > 0)]
    for line in lines:
        line = line[np.unique(line[:, 0], return_index=True)[1]]
        kept = line[np.isin(line[:, 0].round(9), points[:, 0].round(9))]
        if kept.shape == points.shape and np.allclose(kept, points, rtol=1e-7, atol=0):
            return True
    return False


def check(state, panel):
    names = run_program(python_source(state, panel))
    lines = drawn(names["figure"])
    for slot in range(len(state.algorithms)):
        answer = answers(state, panel, slot)
        for x, y in LINES[panel]:
            if y in ("bias", "variance") and slot:
                continue  # of the first alone
            scale = state.num_samples if y == "samples_needed" else 1.0
            assert holds(lines, answer.columns[x], np.asarray(answer.columns[y]) / scale), (panel, slot, y)
    return names


def cases():
    """Every state with every panel; where B* takes long, or once more, every other panel is left to the slow tests."""
    for s, (name, state) in enumerate(STATES.items()):
        quick = state.quick(0) and not state.second
        for k, panel in enumerate(TITLES):
            slow = not quick and panel not in ("path", "rate")
            if not slow or EXHAUSTIVE or (s + k) % 2 == 0:
                yield pytest.param(name, panel, marks=[pytest.mark.slow] if slow else [])


@pytest.fixture
def few_sizes(monkeypatch):
    """B* at three data sizes instead of seven, for the page and for the program."""
    monkeypatch.setattr(growth, "GROWTH", 10.0 ** np.arange(-1, 1.5))
    monkeypatch.setattr(growth, "GROWTH_EXPONENTS", "-1, 2")


@pytest.mark.parametrize(("name", "panel"), list(cases()))
def test_a_program_draws_what_the_page_shows(name, panel, request):
    """With all data sizes where B* is quick."""
    state = STATES[name]
    if not state.quick(0) or state.second:
        request.getfixturevalue("few_sizes")
    check(state, panel)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "panel"),
    [pytest.param(preset, panel, id=f"{preset.name}-{panel}") for preset, panel in every_other(PRESETS, TITLES)],
)
@pytest.mark.usefixtures("few_sizes")
def test_programs_of_presets_draw_what_the_page_shows(preset, panel):
    """With up to 10³ samples, or four steps: B* of a ramp of the batch size, and of signSGD, takes long for more."""
    most = max(1e3, 4 * preset.state.batch_size)
    check(replace(preset.state, num_samples=min(preset.state.num_samples, most)), panel)


@pytest.mark.slow
def test_the_best_and_the_critical_batch_size_are_marked():
    state = STATES["default"]
    critical = [answers(state, "samples", slot).marks for slot in range(1)]
    ends = {tuple(line[0]) for line in drawn(run_program(python_source(state, "risk"))["figure"]) if len(line) == 1}
    assert {(each["optimal_batch_size"], each["optimal_risk"]) for each in critical} <= ends
    titles = [axes.get_title() for axes in run_program(python_source(state, "samples"))["figure"].axes]
    assert all(title.endswith(f"= {each['batch_size']:g}") for title, each in zip(titles, critical, strict=True))


@dataclass(frozen=True)
class LookAhead(st.LinearMethod):
    """Registered, without a name in the library itself."""

    start, output = (1, 0), (1, 0)
    share: Annotated[float, Parameter("share.")] = 0.5

    def coefficients(self, rate, step):
        return st.Coefficients(A=[[1, 0], [0, 0]], b=[rate, rate], c=[1, -self.share])


def test_a_program_finds_a_method_that_only_the_registry_has(monkeypatch):
    monkeypatch.setitem(KINDS["method"], "look-ahead", LookAhead)
    state = State(**SMALL, first="look-ahead share=0.25 last")
    assert 'method=st.algorithms.KINDS["method"]["look-ahead"](share=0.25)' in python_source(state, "rate")
    names = run_program(python_source(state, "rate"))
    (algorithm,) = names["algorithms"].values()
    assert algorithm == st.Algorithm(LookAhead(0.25), average=st.LastIterate())


@pytest.mark.parametrize("second", ["", "sgd"])
def test_what_has_no_risk_is_in_no_program_but_the_simulation(second):
    state = replace(State(**SMALL), first="normalized momentum=0.5", second=second)
    for panel in TITLES:
        if second:
            assert "NormalizedSGD" not in python_source(state, panel)
            continue
        for refused in (python_source, table_file):
            with pytest.raises(ValueError, match="^normalized momentum=0.5: there is no theory of its risk"):
                refused(state, panel)
    program = python_source(state, "simulated")
    assert "st.NormalizedSGD(momentum=0.5)" in program
    compile(program, "program.py", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("second", ["", "sgd"])
def test_what_has_no_risk_is_simulated_as_on_the_page(second):
    check(replace(State(**SMALL), first="normalized momentum=0.5", second=second), "simulated")


def test_the_edge_is_drawn():
    state = STATES["two"]
    edges = [answers(state, "rate", slot).marks["edge"] for slot in range(2)]
    names = run_program(python_source(state, "rate"))
    assert list(names["edges"].values()) == pytest.approx(edges, rel=1e-12)


@pytest.mark.slow
def test_the_simulated_points_are_the_pages():
    assert jax.config.jax_platforms in (None, "", "cpu")
    check(replace(State(**SMALL), num_samples=100.0, second="last"), "simulated")


@pytest.mark.parametrize(
    "state", [*STATES.values(), *(preset.state for preset in PRESETS)], ids=lambda state: state.query[:40] or "default"
)
def test_programs_can_be_read(state):
    for panel in PROGRAMS:
        program = python_source(state, panel)
        compile(program, "program.py", "exec")
        assert max(map(len, program.splitlines())) <= 120
        assert "sgdtheory." not in program, "public names alone"
        assert program.splitlines()[-1] == f'st.plot.save(figure, "{panel}.pdf")'


def test_a_program_names_one_part_of_an_algorithm_in_its_line_and_several_in_lines_of_their_own():
    program = python_source(State(first="last", second="tail linear"), "path")
    assert '"last": st.Algorithm(average=st.LastIterate()),' in program
    assert (
        """: st.Algorithm(
        schedule=st.Linear(),
        average=st.TailAverage(),
    ),"""
        in program
    )


def test_a_program_that_was_copied_saves_its_figure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with matplotlib.rc_context():
        exec(python_source(STATES["default"], "path"), {})
    assert (tmp_path / "path.pdf").read_bytes().startswith(b"%PDF")


def test_a_file_is_what_the_program_draws_and_a_table_what_the_page_shows():
    state = STATES["two"]
    assert figure_file(state, "rate", "png").startswith(b"\x89PNG")
    rows = list(csv.DictReader(table_file(state, "rate").decode().splitlines()))
    assert len(rows) == 2 * len(answers(state, "rate", 0).columns["risk"])
    assert {row["algorithm"] for row in rows} == set(state.names)
    assert all(row["query"] == state.query for row in rows)
    assert [float(row["risk"]) for row in rows] == pytest.approx(
        np.concatenate([answers(state, "rate", slot).columns["risk"] for slot in range(2)]), rel=1e-12
    )


def test_a_panel_of_its_own_has_a_program_that_names_it():
    """Without a title it would not be on the page."""
    given = {"labels": ("x", "y"), "place": 9}
    with pytest.raises(ValueError, match=r"one of the panel's name, 'edge', .* got \[\]"):
        PanelSpec("edge", **given)
    assert PanelSpec("edge", **given, beneath="rate").beneath == "rate"
