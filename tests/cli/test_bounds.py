import numpy as np

import sgdtheory as st
from tests.cli.text import cells

COMMAND = ["bounds", "--capacity", 2, "--source", 3, "--dim", 20, "--batch-size", 1, "--learning-rate", 0.1]


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
