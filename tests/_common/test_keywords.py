"""Calls of public functions and classes that Python refuses are answered with the keyword that was meant."""

import concurrent.futures
import copy
import dataclasses
import doctest
import functools
import importlib
import inspect
import multiprocessing
import pickle
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol

import jax
import pytest

import sgdtheory as st
from sgdtheory._common.keywords import answer_misspelt

DOORS = ["sgdtheory", *(f"sgdtheory.{path.parent.name}" for path in Path(st.__file__).parent.glob("*/__init__.pyi"))]
# Two that Hypothesis makes, which have closures, and three generators, two of them below contextlib's decorator.
UNANSWERED = {st.testing.algorithms, st.testing.problems}
UNANSWERED |= {st.risk.moved_thresholds, st.sweep.cluster_executor, st.fits.law_remarks}
BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


def public():
    """Full name → each public callable with a signature, once."""
    found = {}
    for door in sorted(DOORS):
        for name in importlib.import_module(door).__all__:
            entry = getattr(sys.modules[door], name)
            if isinstance(entry, ModuleType) or not callable(entry) or typing.get_origin(entry):
                continue
            if entry not in found.values():
                found[f"{door}.{name}"] = entry
    return found


PUBLIC = public()


def keywords(entry):
    """Arguments that can be given by name, if an unknown name is refused."""
    parameters = inspect.signature(entry).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return []
    return [each.name for each in parameters if each.kind in BY_NAME]


def misspellings(word, names):
    """The word with two letters in its middle exchanged, and with one letter of its middle dropped."""
    at = len(word) // 2
    swapped = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
    dropped = word[:at] + word[at + 1 :]
    return [each for each in (swapped, dropped) if len(word) > 2 and each not in names]


def refusal(function, *arguments, **options):
    with pytest.raises(TypeError) as caught:
        function(*arguments, **options)
    return str(caught.value)


def test_all_public_callables_are_here():
    """190 functions, 200 classes and 12 published bounds, when this was written."""
    assert sum(isinstance(entry, FunctionType) for entry in PUBLIC.values()) > 150
    assert sum(isinstance(entry, type) for entry in PUBLIC.values()) > 150
    assert {*PUBLIC.values()} >= {st.bounds.bach_2024, st.excess_risk, st.PowerLaw, st.Setting}


@pytest.mark.parametrize("name", [name for name, entry in PUBLIC.items() if entry not in UNANSWERED])
def test_a_misspelt_keyword_is_answered_with_the_nearest(name):
    entry = PUBLIC[name]
    names = keywords(entry)
    # One letter of `logs` is missing in `los`, and one of `loss`: either answer is right.
    ambiguous = {("los", "loss")}
    for word in names:
        for misspelt in misspellings(word, names):
            said = refusal(entry, **{misspelt: None})
            start = re.escape(f"got an unexpected keyword argument '{misspelt}'")
            if sys.version_info >= (3, 13) and re.search(rf"{start}\. Did you mean '\w+'\?$", said):
                continue  # Python's suggestion, which sometimes prefers another name
            nearest = re.search(rf"{start}; did you mean '(\w+)'\?$", said)
            assert nearest, said
            assert nearest[1] == word or (misspelt, nearest[1]) in ambiguous, said


@pytest.mark.parametrize(
    ("entry", "word", "answer"),
    [
        (st.PowerLaw, "noise", "PowerLaw() got an unexpected keyword argument 'noise'; did you mean 'noise_variance'?"),
        (st.excess_risk, "lr", "excess_risk() got an unexpected keyword argument 'lr'; did you mean 'learning_rate'?"),
        (
            st.excess_risk,
            "quux",
            "excess_risk() got an unexpected keyword argument 'quux'; other keywords are batch_size, learning_rate, "
            "num_samples, algorithm",
        ),
        (st.LastIterate, "last", "LastIterate() got an unexpected keyword argument 'last'"),
    ],
)
def test_what_is_answered(entry, word, answer):
    """A longer name, initials, nothing near, nothing at all."""
    given = (st.PowerLaw(2.0, 3.0),) if entry is st.excess_risk else ()
    assert refusal(entry, *given, **{word: 1}) == answer


def test_python_s_own_suggestion_is_the_only_one():
    """Python suggests by itself from 3.13 on."""
    said = refusal(st.PowerLaw, 2.0, 3.0, noise_varience=1)
    assert said.lower().count("did you mean 'noise_variance'?") == 1


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (
            lambda: st.excess_risk(st.PowerLaw(2.0, 3.0), 8, 0.1, 1e4),
            "excess_risk() takes 1 positional argument but 4 were given; write by keyword: batch_size=…, "
            "learning_rate=…, num_samples=…, algorithm=…",
        ),
        (
            lambda: st.PowerLaw(2.0, 3.0, None, 1.0, 0.0),
            "PowerLaw() takes from 3 to 5 positional arguments but 6 were given; write by keyword: "
            "approximation_risk=…",
        ),
        (
            lambda: st.Setting(1, 2, 3, 4, 5),
            "Setting() takes 5 positional arguments but 6 were given; its arguments are problem, batch_size, "
            "learning_rate, num_samples",
        ),
    ],
)
def test_too_many_positional_arguments(call, answer):
    assert refusal(call) == answer


@pytest.mark.parametrize("name", PUBLIC)
def test_public_callables_can_be_pickled_and_show_their_signature(name):
    entry = PUBLIC[name]
    assert not {"_call", "_explain"} & {*inspect.signature(entry).parameters}
    if isinstance(entry, FunctionType | type) and "<locals>" not in entry.__qualname__:
        assert pickle.loads(pickle.dumps(entry)) is entry
        assert copy.deepcopy(entry) is entry
        assert inspect.getsource(entry).lstrip().startswith(("def ", "class ", "@"))


@pytest.mark.slow
def test_other_processes_find_the_functions():
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        future = pool.submit(st.excess_risk, st.PowerLaw(2.0, 3.0), batch_size=1, learning_rate=0.1, num_samples=1e3)
        assert future.result() == st.excess_risk(
            st.PowerLaw(2.0, 3.0), batch_size=1, learning_rate=0.1, num_samples=1e3
        )
        assert pool.submit(copy.copy, st.excess_risk).result() is st.excess_risk


class Point(NamedTuple):
    """Public class of the tests, as the others here: the mechanism exchanges their constructors."""

    across: float
    upwards: float = 0.0


class Base:
    def __init__(self, across: float) -> None:
        self.across = across


class Heir(Base):
    """Has the constructor of the other class."""


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    across: float
    upwards: list[float] = dataclasses.field(default_factory=list)


class Contract(Protocol):
    across: float


class Fulfilled(Contract):
    def __init__(self, across: float) -> None:
        self.across = across


def doubled(across: float, *, factor: "Callable[[float], float] | None" = None) -> float:
    """Return twice the number.

    >>> 1 + 1
    2
    """
    return 2 * (factor(across) if factor else across)


@pytest.fixture(autouse=True)
def own(monkeypatch):
    """The package of this test."""
    monkeypatch.setattr("sgdtheory._common.keywords.PACKAGE", "tests")


def as_shown(entry):
    function = entry
    if isinstance(entry, type):
        function = entry.__new__ if entry is Point else entry.__init__
    tests = doctest.DocTestFinder().find(entry, module=sys.modules[__name__])
    return (
        inspect.signature(entry),
        typing.get_type_hints(function),
        inspect.getsource(entry),
        inspect.getdoc(entry),
        function.__name__,
        function.__qualname__,
        function.__module__,
        function.__annotations__,
        function.__defaults__ if entry is function else None,
        [(each.name, each.filename, len(each.examples)) for each in tests],
    )


@pytest.mark.parametrize("entry", [doubled, Base, Heir, Frozen, Point, Fulfilled])
def test_what_python_tells_of_a_callable_stays(entry):
    before = as_shown(entry)
    for _ in range(2):  # through two doors
        answer_misspelt(entry)
    assert as_shown(entry) == before
    made = entry(1.0)
    assert made == 2.0 if entry is doubled else made.across == 1.0
    if entry is not doubled:
        assert copy.deepcopy(made).across == pickle.loads(pickle.dumps(made)).across == 1.0
    assert "did you mean 'across'?" in refusal(entry, acros=1.0).replace("Did", "did")


def test_a_constructor_is_exchanged_once():
    answer_misspelt(Base)
    constructor = Base.__init__
    answer_misspelt(Heir)
    assert Heir.__init__ is Base.__init__ is constructor


def test_subclasses_of_users_work():
    answer_misspelt(Base)
    answer_misspelt(Frozen)
    answer_misspelt(Contract)

    class Own(Base):
        def __init__(self, *, down: float, **rest: Any) -> None:
            super().__init__(**rest)
            self.down = down

    @dataclasses.dataclass(frozen=True)
    class Deeper(Frozen):
        depth: float = 0.0

    class Signed(Contract):
        pass

    assert (Own(down=1.0, across=2.0).across, Deeper(1.0, depth=3.0).depth) == (2.0, 3.0)
    assert "did you mean 'across'?" in refusal(Own, down=1.0, acros=2.0).replace("Did", "did")
    assert Signed()
    assert dataclasses.replace(Frozen(1.0), across=2.0).across == 2.0
    assert Point(1.0)._replace(upwards=2.0) == (1.0, 2.0)


def test_errors_from_inside_are_not_changed():
    """Also of a wrong call there, unless a public function is called."""
    answer_misspelt(doubled)

    def without(number):
        return number

    def wrong(number):
        return without(number, nunber=1)

    assert re.fullmatch(
        r"\S+without\(\) got an unexpected .* 'nunber'(. Did you mean 'number'\?)?", refusal(doubled, 1.0, factor=wrong)
    )
    error = TypeError("takes 1 positional argument but 2 were given")

    def raises(number):
        raise error

    with pytest.raises(TypeError) as caught:
        doubled(1.0, factor=raises)
    assert caught.value is error
    assert error.args == ("takes 1 positional argument but 2 were given",)
    assert refusal(doubled, 1.0, factor=None, quux=1) == "doubled() got an unexpected keyword argument 'quux'"
    assert refusal(doubled) == "doubled() missing 1 required positional argument: 'across'"


def test_generators_are_left_alone():
    assert inspect.isgeneratorfunction(st.fits.law_remarks)


def test_functions_of_others_are_left_alone():
    code = functools.wraps.__code__
    answer_misspelt(functools.wraps)
    assert functools.wraps.__code__ is code


def test_jax_transforms_public_functions():
    answer_misspelt(doubled)
    assert float(jax.jit(doubled, static_argnames="factor")(2.0)) == 4.0
    assert float(jax.grad(doubled)(2.0)) == 2.0
    assert jax.vmap(doubled)(jax.numpy.arange(2.0)).tolist() == [0.0, 2.0]
