import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.sheets import number
from tests.cli.text import cells, headings, strict_json

PROBLEM = ["cbs", "--capacity", 2, "--source", 3, "--dim", 20]
SHOWN = {  # name in JSON → heading of the table
    "critical_batch_size": "B*",
    "num_steps": "steps",
    "learning_rate": "γ at B*",
    "optimal_risk": "R_opt, y²",
    "rate_batch_size": "rate B",
    "simple_noise_scale": "noise scale",
    "hessian_noise_scale": "Hessian-weighted",
    "interpolation_batch_size": "m*",
}


def test_json_table_and_figure(run, tmp_path):
    """The library's numbers, sorted by D, each D once; the table shows those of the JSON."""
    flags = ["--noise-variance", 0.5, "--overhead", "40%", "--risk-factor", 1.5]
    arguments = [*PROBLEM, "--num-samples", 80, 40, 80, *flags]
    found, out = run.json(*arguments, "--plot", tmp_path / "out" / "a.v1.png"), run(*arguments)
    assert [path.read_bytes()[:4] for path in (tmp_path / "out").iterdir()] == [b"\x89PNG"]
    problem, samples = st.PowerLaw(2, 3, 20, 0.5), np.array([40.0, 80.0])
    expected = st.notions(problem, num_samples=samples, overhead=0.4, risk_factor=1.5)
    columns = {name: [row[name] for row in found["rows"]] for name in found["rows"][0]}
    more = {"num_samples", "real_batch_size", "optimal_batch_size", "optimal_learning_rate", "smallest_batch_size"}
    assert [set(row) for row in found["rows"]] == [{*SHOWN, *more}] * 2
    assert columns["num_samples"] == [40, 80]
    for name in SHOWN:
        holder = expected if hasattr(expected, name) else expected.critical
        np.testing.assert_allclose(columns[name], np.broadcast_to(getattr(holder, name), 2), rtol=1e-9)
    assert found["predicted_exponents"] == {"real_batch_size": None, "optimal_risk": None}  # 20 directions
    for name, shown in (("real_batch_size", "B*, not rounded"), ("optimal_risk", "R_opt")):
        slope = np.diff(np.log(getattr(expected.critical, name)))[0] / np.log(2)
        assert found["slopes"][name] == [pytest.approx(slope, rel=1e-9)]
        assert cells(out, shown)[1:] == ["—", f"{slope:.4g}"]
    settings = ("capacity", "source", "dim", "noise_variance", "overhead", "risk_factor")
    assert [found[name] for name in settings] == [2, 3, 20, 0.5, 0.4, 1.5]
    assert len(found["notes"]) == 1
    assert "λ_i = i^−2, s_i = i^−3, σ² = 0.5, d = 20: B* at 40% overhead" in out
    assert "1.5 R_opt" in out
    assert "40 … 80" in out
    for row in found["rows"]:
        shown = dict(zip(headings(out), cells(out, f"{row['num_samples']:g}"), strict=True))
        assert [shown[heading] for heading in SHOWN.values()] == [number(row[name], 5) for name in SHOWN]


def test_one_data_size_of_infinitely_many_directions_has_no_slopes(run):
    arguments = ["cbs", "--capacity", 2, "--source", 3, "--num-samples", 20]
    out = run(*arguments)
    assert cells(out, "B*, not rounded")[1:] == ["0.3333"]
    assert cells(out, "R_opt")[1:] == ["-0.6667"]
    (row,) = run.json(*arguments)["rows"]
    expected = st.critical_batch_size(st.PowerLaw(2, 3), num_samples=20, curve=False)
    assert (row["critical_batch_size"], row["optimal_risk"]) == (expected.batch_size, expected.optimal_risk)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], []),
        (["--dim", 5], ["Corollary 8 is about infinitely many directions and label noise"]),
        (
            ["--noise-variance", 0],
            ["without label noise only the stability limit bounds the critical batch size", "Corollary 8 is about"],
        ),
    ],
)
def test_notes(notes, flags, expected):
    out, lines = notes("cbs", "--capacity", 2, "--source", 3, "--num-samples", 20, "--json", *flags)
    assert all(line.startswith(note) for line, note in zip(lines, expected, strict=True))
    assert strict_json(out)["notes"] == lines


def test_a_preconditioner(run):
    flags = ["cbs", "--capacity", 3, "--source", 2, "--num-samples", "1e4"]
    found, out = run.json(*flags, "--precondition", 0.5), run(*flags, "--precondition", 0.5)
    assert found["precondition"] == 0.5
    assert [row["critical_batch_size"] for row in found["rows"]] == [21]
    assert found["predicted_exponents"] == {"real_batch_size": 0.25, "optimal_risk": -0.5}  # of a (1 − θ) = 1.5
    assert "preconditioned with θ = 0.5" in out
    assert "precondition" not in run.json(*flags)


def test_a_method_with_a_smallest_batch_size(run):
    """It has a column, and what is known of linear methods alone has none."""
    flags = [*PROBLEM, "--num-samples", 200, "--method", "sign", "--schedule", "linear", "--average", "last"]
    algorithm = st.Algorithm(st.SignSGD(), st.Linear(), average=st.LastIterate())
    expected = st.critical_batch_size(st.PowerLaw(2, 3, 20), num_samples=200, algorithm=algorithm, curve=False)
    found = run.json(*flags)
    (row,) = found["rows"]
    assert expected.smallest_batch_size > 1
    for name in ("smallest_batch_size", "optimal_risk"):
        assert row[name] == getattr(expected, name)
    assert row["critical_batch_size"] == expected.batch_size
    assert row["simple_noise_scale"] is row["hessian_noise_scale"] is None
    assert row["interpolation_batch_size"] == pytest.approx(expected_ratio := sum(k**-2.0 for k in range(1, 21)))
    assert found["notes"][0].endswith("a deterministic equivalent for many directions, not exact")
    out = run(*flags)
    assert "least B" in out
    assert "noise scale" not in out
    assert cells(out, "200")[-2:] == [f"{expected.smallest_batch_size:g}", f"{expected_ratio:.5g}"]
    assert "least B" not in run(*PROBLEM, "--num-samples", 40)
