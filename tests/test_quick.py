"""The quick check finds the tests that a change touches, and stops in time."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import quick

ROOT = Path(__file__).parents[1]


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


def test_tests_beyond_the_time_are_left_out_and_counted(tmp_path):
    """Each file has its share; what is run still fails where it should."""
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(
            "import time\n\ndef test_1():\n    time.sleep(0.3)\n\ndef test_2():\n    raise ValueError\n"
        )
    program = (
        "import pytest\nfrom tests.quick import Selected\nfrom pathlib import Path\n"
        "for seconds in (0.2, 60.0):\n    selected = Selected([], seconds)\n"
        f"    status = pytest.main(['-q', '-c', '/dev/null', {str(tmp_path)!r}], plugins=[selected])\n"
        "    print(int(status), selected.left)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert [line for line in done.stdout.splitlines() if line in ("0 3", "1 0")] == ["0 3", "1 0"]
