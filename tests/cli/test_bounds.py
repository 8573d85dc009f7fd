import numpy as np
import pytest

import sgdtheory as st
from tests.cli.text import cells

COMMAND = ["bounds", "--capacity", 2, "--source", 3, "--dim", 20, "--batch-size", 1, "--learning-rate", 0.1]
SIZE = ["--num-samples", 1e4]


def test_json_and_table(run):
    """The library's numbers of every bound; the table shows those that apply, and what the others need."""
    found = run.json(*COMMAND, "--num-samples", 1e4)
    out = run(*COMMAND, "--num-samples", 1e4)
    problem = st.PowerLaw(2, 3, 20)
    setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 1e4}
    assert [row["name"] for row in found["bounds"]] == [bound.name for bound in st.bounds.catalogue()]
    for row, bound in zip(found["bounds"], st.bounds.catalogue(), strict=True):
        value = bound(problem, **setting)
        assert row["bound"] == value.total
        assert row["risk"] == st.excess_risk(problem, **setting, algorithm=bound.algorithm).total
        assert (row["applies"], row["broken"]) == (value.applies, list(value.reasons))
    assert cells(out, "zou_2021_lower")[3].startswith("≥ ")
    assert cells(out, "bach_moulines_2013")[3] == f"≤ {st.bounds.bach_moulines_2013(problem, **setting).total:.4g}"
    assert cells(out, "varre_2021")[3:] == ["needs σ² = 0", "—", "none stated"]


def test_an_infinite_problem(run):
    found = run.json(*COMMAND[:5], *COMMAND[7:], "--num-samples", 1e4)
    rows = {row["name"]: row for row in found["bounds"]}
    assert rows["bach_moulines_2013"]["bound"] == "inf"
    assert np.isfinite(rows["zou_2021"]["bound"])
    assert not rows["jain_2018"]["applies"]


@pytest.mark.parametrize("name", ["bounds", "schedule"])
def test_a_data_set_is_refused_in_words_of_the_command_line(name, fails):
    command = [*COMMAND, *SIZE] if name == "bounds" else [name, *COMMAND[1:5], "--num-samples", 320]
    assert "--samples must be left out: this command needs fresh samples" in fails(*command, "--samples", 100)


def test_a_wrong_number_of_samples_is_named_by_its_flag(fails):
    assert "--samples must be a whole number of at least 1" in fails("risk", *COMMAND[1:], *SIZE, "--samples", 0)
