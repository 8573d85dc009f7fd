"""Stable names can be called as before: `stable.json` has their names and parameters."""

import functools
import inspect
import json
import re
from pathlib import Path

import pytest

import sgdtheory as st
from docs._hooks.stable import stable_names

WINGS = ("advice", "algorithms", "bounds", "critical", "curves", "data", "explore", "fits", "logs", "optimal")
WINGS += ("plotting", "problems", "risk", "simulation", "sweep", "testing", "training")

RECORD = Path(__file__).parent / "stable.json"
BY_NAME = {"batch_size", "learning_rate", "num_samples", "num_steps", "target_loss", "target_risk"}  # of a run
BY_NAME |= {"new_batch_size", "small_batch", "large_batch", "micro_batch", "sequence_length", "num_devices"}
BY_NAME |= {
    "algorithm",
    "convention",
    "overhead",
    "risk_factor",
    "level",
    "quantity",
    "seed",
    "alpha",
    "by",
}  # of a computation
BY_NAME |= {"axes", "title", "size_label", "width", "height", "formats", "progress"}  # of what is shown
NO_FIGURE = {"new_figure", "save"}
# Figures of several panels.
PANELS = {"coordinates", "critical_batch_size", "laws_of_groups", "loss_grid", "optimal_schedule", "run_plan"}
PANELS |= {"scaled_steps", "sweep_fits"}
REMEDY = "deprecate it first (docs/stability.md), or record an addition with `python -m tests.docs.test_stable`"


def parameters(thing):
    """Name → how it may be given: "first" by position, "named" by keyword alone; with "=" where it may be left out."""
    if not callable(thing):
        return {}
    try:
        found = inspect.signature(thing).parameters.values()
    except ValueError:  # of what C or a type's machinery makes there is none
        return {}
    ways = {}
    for each in found:
        way = "named" if each.kind is each.KEYWORD_ONLY else "first"
        optional = each.default is not each.empty or each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        ways[each.name] = way + "=" * optional
    return ways


@functools.cache
def stable():
    """Full name → its parameters."""
    found = {name: parameters(getattr(st, name)) for name in st.__all__}
    for wing in WINGS:
        door = getattr(st, wing)
        names = stable_names().get(wing, frozenset()) & {*door.__all__}
        found |= {f"{wing}.{name}": parameters(getattr(door, name)) for name in names}
    return found


def broken(before, now):
    """List the changes that break a call which was right before."""
    for name, old in before.items():
        new = now.get(name)
        if new is None:
            yield f"{name} is gone"
            continue
        by_position = [key for key, way in old.items() if way.startswith("first")]
        if [key for key, way in new.items() if way.startswith("first")][: len(by_position)] != by_position:
            yield f"{name} takes {', '.join(new)} in another order than {', '.join(by_position)}"
        for key in old:
            if key not in new:
                yield f"{name} takes no {key} any more"
            elif old[key].endswith("=") and not new[key].endswith("="):
                yield f"{name} asks for {key}, which could be left out"
        for key in new.keys() - old.keys():
            if not new[key].endswith("="):
                yield f"{name} asks for {key}, which it did not"


def test_what_is_stable_stays_callable():
    complaints = list(broken(json.loads(RECORD.read_text()), stable()))
    assert complaints == [], f"{complaints}: {REMEDY}"


def test_additions_are_recorded():
    assert stable().keys() - json.loads(RECORD.read_text()).keys() == set(), REMEDY


def functions():
    """Full name → function, of all that is stable."""
    found = {name: functools.reduce(getattr, name.split("."), st) for name in stable()}
    return {name: thing for name, thing in found.items() if inspect.isfunction(thing)}


def test_settings_and_choices_are_given_by_name():
    """The object that a function works on comes first."""
    by_place = {(name, key) for name in functions() for key, way in stable()[name].items() if way.startswith("first")}
    assert {(name, key) for name, key in by_place if key in BY_NAME} == set()


def test_figures_take_a_title_and_those_of_one_panel_axes():
    for name in set(st.plotting.__all__) - NO_FIGURE:
        options = {key for key, way in parameters(getattr(st.plotting, name)).items() if way == "named="}
        assert {"title", "axes"} - options == ({"axes"} if name in PANELS else set()), name


def test_one_name_for_one_thing():
    """A function that is called as work goes on is named `progress` everywhere."""
    assert not {key for name in functions() for key in stable()[name]} & {"report", "callback", "n_steps", "max_steps"}


def test_every_argument_is_said_in_the_docstring():
    silent = [
        f"{name}: {key}"
        for name, function in functions().items()
        for key in stable()[name]
        if not re.search(rf"\b{key}\b", inspect.getdoc(function) or "")
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("now", "complaint"),
    [
        ({"a": "first", "b": "named="}, None),
        ({"a": "first", "b": "named=", "c": "named="}, None),
        ({"b": "first", "a": "first"}, "another order"),
        ({"a": "first"}, "no b any more"),
        ({"a": "first", "b": "named"}, "could be left out"),
        ({"a": "first", "b": "named=", "c": "named"}, "asks for c"),
    ],
)
def test_what_breaks_a_call_is_seen(now, complaint):
    found = list(broken({"f": {"a": "first", "b": "named="}}, {"f": now}))
    assert (found == []) if complaint is None else any(complaint in each for each in found)


if __name__ == "__main__":
    RECORD.write_text(json.dumps(dict(sorted(stable().items())), indent=1, ensure_ascii=False) + "\n")
