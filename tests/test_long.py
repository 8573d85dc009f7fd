"""The list of long cases names tests that there are, so that a renamed test is not left out or kept in unseen."""

from tests.conftest import MEASURED, long_tests

ROOT = MEASURED.parents[1]


def test_listed_cases_belong_to_functions_that_there_are():
    functions = {name.partition("[")[0] for name in long_tests()}
    for name in functions:
        file, _, function = name.partition("::")
        assert f"def {function.rpartition('::')[2]}(" in (ROOT / file).read_text(), name


def test_no_case_is_named_by_the_line_of_a_page():
    """A page that grows by a line above would run it again: a long program has the mark `slow` on its page."""
    assert [name for name in long_tests() if name.startswith("tests/docs/test_blocks.py")] == []
