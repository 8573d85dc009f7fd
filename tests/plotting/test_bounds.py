"""The figure of published bounds shows each of them relative to the exact risk, or why it does not apply."""

import numpy as np
import pytest

import sgdtheory as st

SETTING = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 1e5}


def test_every_bound_has_its_place_relative_to_the_exact_risk():
    problem = st.PowerLaw(2.0, 3.0, dim=50)
    found = st.bounds.at_setting(problem, **SETTING)
    axes = found.plot(title="here").axes[0]
    assert axes.get_title() == "here"
    assert [label.get_text() for label in axes.get_yticklabels()] == [bound.name for bound in found.bounds]
    marks = {line.get_ydata()[0]: line for line in axes.lines if len(line.get_xdata()) == 1}
    reasons = {text.get_position()[1]: text.get_text() for text in axes.texts}
    assert set(marks) | set(reasons) == set(range(len(found.bounds)))
    for place, bound in enumerate(found.bounds):
        value = bound(problem, **SETTING)
        assert (place in marks) == bool(value.applies)
        if place in reasons:
            assert reasons[place] == f"needs {value.reasons[0]}"
            continue
        risk = st.excess_risk(problem, **SETTING, algorithm=bound.algorithm).total
        assert marks[place].get_xdata()[0] == pytest.approx(value.total / risk, rel=1e-12)
        assert marks[place].get_marker() == {"upper": "<", "lower": ">", "both": "D"}[bound.side]
        assert (marks[place].get_markerfacecolor() == "white") == (bound.standing != "verified")
        low, high = axes.get_xlim()
        assert low < marks[place].get_xdata()[0] < high


def test_a_run_that_diverges_has_a_figure_without_bounds():
    found = st.bounds.at_setting(st.PowerLaw(2.0, 3.0, dim=5), batch_size=1, learning_rate=30.0, num_samples=1e5)
    axes = found.plot().axes[0]
    assert len(axes.texts) == len(found.bounds)
    assert np.isfinite(axes.get_xlim()).all()
