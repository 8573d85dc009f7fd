import pytest

import sgdtheory as st
from sgdtheory.optimal import named
from tests.cli.text import cells

SCHEDULE = ["schedule", "--capacity", 2, "--source", 3, "--num-samples", 320]


@pytest.fixture(scope="module")
def best():
    return st.optimal_schedule(st.PowerLaw(2, 3), num_samples=320, batch_size=16)


def test_json_has_the_optimum_and_the_losses(run, best):
    found = run.json(*SCHEDULE, "--batch-size", 16)
    assert found["risk"] == pytest.approx(best.risk, rel=1e-9)
    assert found["learning_rates"] == pytest.approx(best.learning_rate(found["fractions"]).tolist())
    assert set(found["batch_sizes"]) == {16}
    named = st.optimal.named_schedules(st.PowerLaw(2, 3), best)
    assert list(found["named"]) == list(named)
    assert found["named"]["cosine"]["loss"] == pytest.approx(named["cosine"].loss, rel=1e-6)


def test_tables_and_figure(run, best, tmp_path):
    out = run(*SCHEDULE, "--batch-size", 16, "--plot", tmp_path / "schedule.png")
    assert cells(out, "0.5") == ["0.5", f"{best.learning_rate(0.5):.4g}", "16"]
    assert "nearest: " in out
    assert (tmp_path / "schedule.png").stat().st_size > 10_000


def test_batch_sizes_are_found_too(run):
    found = run.json(*SCHEDULE, "--num-steps", 20)
    assert found["num_steps"] == 20
    assert found["batch_sizes"][-1] > 2 * found["batch_sizes"][3]


def test_of_a_method_that_is_not_linear(run, tmp_path, monkeypatch):
    """Its name and its remark beside the numbers, and in the table."""
    monkeypatch.setattr(named, "NAMED", {"linear": named.NAMED["linear"]})
    flags = ["--batch-size", 100, "--method", "adam", "--beta2", 0.95]
    best = st.optimal_schedule(st.PowerLaw(2, 3), num_samples=320, batch_size=100, method=st.Adam(beta2=0.95))
    found = run.json(*SCHEDULE, *flags)
    assert (found["method"], found["remark"]) == ("adam beta2=0.95", best.remark)
    assert found["risk"] == pytest.approx(best.risk, rel=1e-9)
    assert 0 < found["named"]["linear"]["loss"] < 1
    out = run(*SCHEDULE, *flags, "--plot", tmp_path / "adam.png")
    assert "adam beta2=0.95" in out
