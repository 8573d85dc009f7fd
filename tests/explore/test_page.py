"""The page in a real browser: controls move panels, numbers are the library's, links reproduce a state."""

import pytest

import sgdtheory as st


def test_numbers_are_the_librarys(visit):
    page = visit("a=1.5&b=4&noise=0.5&D=50000&B=16&rate=0.05")
    problem = st.PowerLaw(1.5, 4.0, noise_variance=0.5)
    risk = st.excess_risk(problem, batch_size=16, learning_rate=0.05, num_samples=5e4)
    found = {part: page.number(f"path-{part}-0") for part in ("bias", "variance", "total")}
    assert found == pytest.approx({part: float(getattr(risk, part)) for part in found}, rel=1e-12)
    critical = st.critical_batch_size(problem, num_samples=5e4, curve=False)
    assert page.number("samples-batch_size-0") == critical.batch_size
    assert page.number("samples-optimal_risk-0") == pytest.approx(critical.optimal_risk, rel=1e-12)


def test_a_slider_moves_the_numbers_and_the_link(visit):
    page = visit("D=10000")
    before = page.number("path-total-0")
    page.press("source")
    after = page.number_after("path-total-0", before)
    problem, setting = st.PowerLaw(2.0, 3.05), {"batch_size": 32, "num_samples": 1e4}
    best = st.optimal_learning_rate(problem, **setting)
    assert after == pytest.approx(float(best.risk), rel=1e-8)
    page.page.wait_for_url("**/?b=3.05&D=10000")
