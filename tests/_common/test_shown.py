"""Results as tables in print and in a notebook: numbers, the ends of long tables, escapes, and results themselves."""

import dataclasses
import inspect
import json
from xml.etree import ElementTree

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.files import json_text
from sgdtheory._common.sheets import ABSENT, Quantity, Sheet, Table, as_html, as_text, between, number
from sgdtheory._common.shown import Shown

PROBLEM = st.PowerLaw(2.0, 3.0)
SETTING = {"batch_size": 8, "learning_rate": 0.5, "num_samples": 1e3}
WINGS = ("risk", "critical", "optimal", "fits", "bounds", "simulation", "training", "sweep", "data", "curves", "advice")
CONFIGS = (
    st.PowerLaw(2.0, 3.0, noise_variance=0.5),
    st.Algorithm(st.Adam(beta2=0.95), schedule=st.WSD(0.2, warmup=0.1), average=st.LastIterate()),
    st.Algorithm(st.SGD(), batch_schedule=st.Stages([0.0, 0.5], [1, 2]), average=st.TailAverage(0.3)),
    st.Convention(16, 0.1),
)


def steps_law():
    return st.fit_steps_law([16, 64, 256, 1024], [1000, 280, 100, 55])


def u_shaped():
    return st.fit_steps_law([16, 32, 64, 256, 1024], [29000, 10100, 4100, 1310, 720], optimal_batch_size=True)


def results():
    """Yield results that are quick to make, each with words that its table contains."""
    yield st.excess_risk(PROBLEM, **SETTING), "bias"
    yield st.risk_path(PROBLEM, points=20, **SETTING), "iterate"
    yield st.gradient_noise_scale(PROBLEM, **SETTING), "simple"
    yield st.critical_batch_size(PROBLEM, num_samples=[300, 600]), "1.2 D samples"
    yield st.theorem7(PROBLEM, **SETTING), "k*"
    yield st.compare(st.theorem7, [st.Setting(PROBLEM, 8, 0.1, [1e3, 1e4])]), "0 of 2 settings"
    yield st.bounds.catalogue(), "jain_2017"
    yield st.bounds.best(PROBLEM, **SETTING | {"learning_rate": 0.1}), "zou_2021"
    yield st.fit_power_law([1, 2, 3, 4], [1, 2.1, 2.9, 4.2]), "exponent p"
    yield steps_law(), "B*"
    yield u_shaped(), "the best one"
    yield st.size_dependence(st.example_measurements()), "fails"
    yield st.batch_ramp([steps_law(), st.fit_steps_law([16, 64, 256, 1024], [4000, 1080, 350, 165])]), "from sample"
    yield st.plan(steps_law(), 1000.0, devices=4), "choice"
    yield (
        st.change_batch_size({"batch_size": 64, "learning_rate": 1e-3}, new_batch_size=256, optimizer="adam"),
        "learning rate",
    )
    yield st.simulation.Simulation(np.array([1.0, 2.0]), np.ones(2), np.array(5), "float32"), "2 replicas"


@pytest.fixture(scope="module")
def made():
    return list(results())


def test_results_print_as_tables(made):
    for result, words in made:
        text = str(result)
        assert words in text, text
        assert max(map(len, text.splitlines())) < 160, text
        assert repr(result) != text


def test_results_show_in_a_notebook(made):
    for result, _ in made:
        shown = ElementTree.fromstring(f"<div>{result._repr_html_()}</div>")
        grids = [table.grid() for table in result.sheet().tables]
        assert len(shown.findall(".//tbody/tr")) == sum(len(rows) for _, rows in grids)
        assert all(len(row) == len(header) for header, rows in grids if header for row in rows)


def test_every_result_has_json_of_plain_numbers(made):
    """Every quantity has a key of its own, numbers have all of their digits, and remarks are sentences."""
    for result, _ in made:
        sheet = result.sheet()
        found = json.loads(json_text(sheet.json()))
        for table in sheet.tables:
            names = [each.name for each in table.quantities if each.name]
            assert len(set(names)) == len(names)
            records = found if not table.name else found[table.name]
            for record in records if isinstance(records, list) else [records]:
                assert set(names) <= set(record)
        assert all(isinstance(each, str) for each in found["notes"])


def test_those_with_a_figure_draw_it(made):
    for result, _ in made:
        if result.figure:
            assert result.plot().axes
    with pytest.raises(ValueError, match="Risk has none"):
        st.excess_risk(PROBLEM, **SETTING).plot()


def test_every_figure_is_one_of_the_wing():
    kinds = [kind for wing in WINGS for kind in vars_of(wing) if issubclass(kind, Shown)]
    assert len(kinds) >= 25
    for kind in kinds:
        assert dataclasses.is_dataclass(kind) or inspect.isabstract(kind) or kind.figure == ""
        assert not kind.figure or callable(getattr(st.plot, kind.figure))


def vars_of(wing):
    door = getattr(st, wing)
    return [each for name in door.__all__ if inspect.isclass(each := getattr(door, name))]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda each: type(each).__name__)
def test_configs_are_what_their_repr_says(config):
    assert eval(repr(config), {"inf": np.inf} | {name: getattr(st, name) for name in st.__all__}) == config


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (12, "12"),
        (0.00123456, "0.001235"),
        (12345.6, "1.235e+04"),
        (3e9, "3e+09"),
        (np.inf, "∞"),
        (-np.inf, "−∞"),
        (np.nan, "—"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_intervals():
    assert between(1, np.inf) == "1 … ∞"


def test_intervals_with_ends_that_are_not_known():
    ends = [[np.nan, np.nan], [None, None], [np.nan, 2.5], [0.5, None], [1.0, np.inf]]
    sheet = Sheet("t", [Table([Quantity("x", "x", np.arange(5.0), ends)])])
    cells = [line.split(maxsplit=1)[1] for line in as_text(sheet).splitlines()[-5:]]
    assert cells[0] == cells[1] == ABSENT
    assert cells[2:] == [between(np.nan, 2.5), between(0.5, np.nan), "1 … ∞"]


def table(*columns, **options):
    return Table([Quantity(name, name, value, *more) for name, value, *more in columns], **options)


def test_long_tables_show_both_ends():
    sheet = Sheet("t", [table(("x", np.arange(100)), ("y", 1.5))], ["", "a note"])
    first = [line.split()[0] for line in as_text(sheet).splitlines()]
    assert first == ["t", "x", "0", "1", "2", "3", "4", "5", "…", "94", "95", "96", "97", "98", "99", "a"]
    assert len(sheet.json()["x"]) == 100
    assert sheet.json()["notes"] == ["a note"]


def test_text_aligns_numbers_at_the_right_and_words_at_the_left():
    sheet = Sheet("title", [table(("name", ["a", "long name"]), ("value", [1, 1000]))], ["note"])
    assert as_text(sheet) == "title\n  name       value\n  a              1\n  long name  1,000\nnote"


def test_a_single_record_has_a_line_for_each_quantity():
    """Intervals stand beside their values; what is not known is a dash."""
    interval = (1.23456, np.inf)
    sheet = Sheet("", [table(("a", 2.0, interval), ("b", None), ("c", True), ("d", 1.0, (np.nan, np.nan)))])
    rows = [line.split("  ") for line in as_text(sheet).splitlines()]
    assert [[each.strip() for each in row if each] for row in rows] == [
        ["value", "95%"],
        ["a", "2", "1.235 … ∞"],
        ["b", "—"],
        ["c", "yes"],
        ["d", "1", "—"],
    ]
    assert sheet.json() == {
        **{"a": 2.0, "a_interval": interval, "b": None, "c": True, "d": 1.0},
        **{"d_interval": (np.nan, np.nan), "notes": []},
    }


def test_records_of_a_table_with_a_name_are_a_list_in_json():
    sheet = Sheet("", [table(("x", [1, 2], [(0, 1), (1, 3)]), ("y", "same"), name="rows", hidden=["y"])])
    assert sheet.json()["rows"] == [
        {"x": 1, "x_interval": (0, 1), "y": "same"},
        {"x": 2, "x_interval": (1, 3), "y": "same"},
    ]
    assert as_text(sheet) == "  x    95%\n  1  0 … 1\n  2  1 … 3"


def test_html_is_escaped():
    assert "<b>" not in as_html(Sheet("<b>", [Table([Quantity("b", "<b>", "<b>")], title="<b>")], ["<b>"]))


def test_a_result_must_say_what_its_table_holds():
    with pytest.raises(NotImplementedError):
        str(Shown())


def test_numbers_have_thousands_from_1000_to_a_milliard():
    values = 999.0, 1000.0, 999_999_999.0, 1e9, -1000.0, 1000.5, 0.0
    assert [number(value) for value in values] == ["999", "1,000", "999,999,999", "1e+09", "-1,000", "1000", "0"]
    assert [number(1234.5678, digits) for digits in (2, 6)] == ["1.2e+03", "1234.57"]
    assert Quantity("", "", 1.0).digits == 4
    assert Table([]).interval == "95%"


@pytest.mark.parametrize(("rows", "shown"), [(12, "01234567891011"), (13, "012345…789101112")])
def test_thirteen_rows_are_shown_by_their_ends(rows, shown):
    lines = as_text(Sheet("", [table(("x", [f"{k} x" for k in range(rows)]))])).splitlines()[1:]
    assert "".join(line.split()[0] for line in lines) == shown


def test_remarks_and_legends_break_at_a_hundred_characters():
    sheet = Sheet("", [table(("x", [1, 2]), legend="w " * 80)], ["v " * 80])
    lengths = [len(line) for line in as_text(sheet).splitlines()[3:]]
    assert lengths == [99, 59, 99, 59]


def test_a_title_stands_above_the_first_table_alone():
    tables = table(("x", [1]), title="first"), table(("x", [1])), table(("x", [1]), title="last")
    part = Sheet("part", [table(("x", [1]))], ["of the part", "note"], {"k": 2})
    sheet = Sheet("all", tables, ["note"], {"j": 1}, [part])
    assert [each.title for each in sheet.flat()] == ["all; first", "", "last", "part"]
    assert sheet.notes == ["note", "of the part"]
    assert sheet.json() == {"j": 1, "x": [1], "groups": [{"k": 2, "x": [1]}], "notes": ["note", "of the part"]}
