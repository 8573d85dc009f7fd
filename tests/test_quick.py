"""The quick check finds the tests that a change touches, and stops in time."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import quick


@pytest.mark.parametrize(
    ("dotted", "file"),
    [
        ("sgdtheory.excess_risk", "sgdtheory/risk/risk.py"),  # through two stubs
        ("sgdtheory.plot.critical_batch_size", "sgdtheory/plotting/critical.py"),  # a package under another name
        ("sgdtheory.Cosine.factors", "sgdtheory/algorithms/schedules.py"),
        ("sgdtheory.bounds.jain_2018", "sgdtheory/bounds/papers/jain_2018.py"),
        ("sgdtheory.risk", "sgdtheory/risk/__init__.py"),
        ("tests.brute_force", "tests/brute_force.py"),
        ("numpy.linalg", None),
    ],
)
def test_a_name_leads_to_the_file_that_defines_it(dotted, file):
    assert quick.defined_in(dotted) == (Path(file) if file else None)


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("sgdtheory/algorithms/schedules.py", "tests/risk/test_algorithm.py"),  # in another folder
        ("sgdtheory/bounds/theorem_7.py", "paper_checks/test_proof_of_theorem7.py"),
        ("sgdtheory/cli/fit.py", "tests/cli/test_fit.py"),
        ("tests/brute_force.py", "tests/critical/test_definition.py"),
        ("tests/test_quick.py", "tests/test_quick.py"),
    ],
)
def test_the_tests_of_a_module_are_among_the_nearest(changed, test):
    assert Path(test) in quick.tests_of([Path(changed)])[: quick.MOST_TEST_FILES]


def test_what_uses_a_module_is_typed_too():
    modules = quick.typed([Path("sgdtheory/bounds/published.py")])
    assert modules[0] == "sgdtheory/bounds/published.py"
    assert "sgdtheory/bounds/papers/jain_2018.py" in modules
    assert len(modules) <= quick.MOST_TYPED


def test_tests_beyond_the_time_are_left_out_and_counted(monkeypatch):
    """Each file has its share of the time, and what those before it leave."""
    now = 0.0
    monkeypatch.setattr(quick.time, "monotonic", lambda: now)
    items = [SimpleNamespace(path=path) for path in ("a", "a", "b", "b")]
    for seconds, left in ((0.2, [False, True, True, True]), (0.7, [False, False, False, True]), (60.0, [False] * 4)):
        selected, skipped = quick.Selected([], seconds), []
        selected.pytest_collection_finish(SimpleNamespace(items=items))
        for item in items:
            try:
                selected.pytest_runtest_setup(item)
                skipped.append(False)
                now += 0.3
            except pytest.skip.Exception:
                skipped.append(True)
        assert (skipped, selected.left) == (left, sum(left))
