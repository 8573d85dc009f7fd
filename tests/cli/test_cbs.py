import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import cli
from tests.cli.text import cells, strict_json

PROBLEM = ["cbs", "--capacity", 2, "--source", 3, "--dim", 20]
COLUMNS = {
    "num_samples",
    "critical_batch_size",
    "num_steps",
    "learning_rate",
    "optimal_risk",
    "rate_batch_size",
    "simple_noise_scale",
    "hessian_noise_scale",
    "interpolation_batch_size",
    "real_batch_size",
    "optimal_batch_size",
    "optimal_learning_rate",
}


def test_cbs_json(run):
    flags = ["--noise-variance", 0.5, "--overhead", 0.4, "--risk-factor", 1.5, "--json"]
    found = strict_json(run(*PROBLEM, "--num-samples", 80, 40, *flags))
    problem, samples = st.PowerLaw(2, 3, 20, 0.5), np.array([40.0, 80.0])
    expected = st.notions(problem, samples, overhead=0.4, risk_factor=1.5)
    assert [set(row) for row in found["rows"]] == [COLUMNS] * 2
    columns = {name: [row[name] for row in found["rows"]] for name in COLUMNS}
    assert columns["num_samples"] == [40, 80]  # sorted
    for name in ("critical_batch_size", "rate_batch_size"):
        np.testing.assert_array_equal(columns[name], getattr(expected, name))
    for name in ("simple_noise_scale", "hessian_noise_scale"):
        np.testing.assert_allclose(columns[name], getattr(expected, name), rtol=1e-9)
    for name in ("num_steps", "learning_rate", "optimal_risk"):
        np.testing.assert_allclose(columns[name], getattr(expected.critical, name), rtol=1e-9)
    np.testing.assert_allclose(columns["interpolation_batch_size"], problem.trace, rtol=1e-12)
    assert found["predicted_exponents"] == {"real_batch_size": None, "optimal_risk": None}  # 20 directions
    for name in ("real_batch_size", "optimal_risk"):
        slope = np.diff(np.log(getattr(expected.critical, name))) / np.log(2)
        np.testing.assert_allclose(found["slopes"][name], slope, rtol=1e-9)
    settings = ("capacity", "source", "dim", "noise_variance", "overhead", "risk_factor")
    assert [found[name] for name in settings] == [2, 3, 20, 0.5, 0.4, 1.5]
    assert len(found["notes"]) == 1


def test_cbs_table(run):
    out = run(*PROBLEM, "--num-samples", 80, 40, 80, "--overhead", 0.4, "--risk-factor", 1.5)
    expected = st.notions(st.PowerLaw(2, 3, 20), [40.0, 80.0], overhead=0.4, risk_factor=1.5)
    assert "λ_i = i^−2, s_i = i^−3, σ² = 1, d = 20: B* at 40% overhead" in out
    assert "1.5 R_opt" in out
    for k, samples in enumerate(("40", "80")):
        whole = expected.critical_batch_size[k], expected.critical.num_steps[k]
        row = cells(out, samples)
        assert row[1:3] == [f"{value:.10g}" for value in whole]
        assert row[3:5] == [
            f"{value:.5g}" for value in (expected.critical.learning_rate[k], expected.critical.optimal_risk[k])
        ]
        assert row[5] == f"{expected.rate_batch_size[k]:.10g}"
        assert row[6:] == [
            f"{value:.5g}"
            for value in (
                expected.simple_noise_scale[k],
                expected.hessian_noise_scale[k],
                expected.interpolation_batch_size,
            )
        ]
    slopes = [
        np.diff(np.log(values))[0] / np.log(80 / 40)
        for values in (expected.critical.real_batch_size, expected.critical.optimal_risk)
    ]
    for name, slope in zip(("B*, not rounded", "R_opt"), slopes, strict=True):
        assert cells(out, name)[1:] == ["—", f"{slope:.4f}"]
    assert "40 … 80" in out


def test_one_data_size_of_infinitely_many_directions_has_no_slopes(run):
    arguments = ["cbs", "--capacity", 2, "--source", 3, "--num-samples", 20]
    out = run(*arguments)
    assert cells(out, "B*, not rounded")[1:] == ["0.3333"]
    assert cells(out, "R_opt")[1:] == ["-0.6667"]
    (row,) = strict_json(run(*arguments, "--json"))["rows"]
    expected = st.critical_batch_size(st.PowerLaw(2, 3), num_samples=20, curve=False)
    assert (row["critical_batch_size"], row["optimal_risk"]) == (expected.batch_size, expected.optimal_risk)


@pytest.mark.parametrize(
    ("flags", "notes"),
    [
        ([], []),
        (["--dim", 5], ["Corollary 8 is about infinitely many directions and label noise"]),
        (
            ["--noise-variance", 0],
            ["without label noise the critical batch size is limited by", "Corollary 8 is about"],
        ),
    ],
)
def test_notes(capsys, flags, notes):
    arguments = ["cbs", "--capacity", "2", "--source", "3", "--num-samples", "20", "--json", *map(str, flags)]
    cli.main(arguments)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert len(lines) == len(notes)
    assert all(line.startswith(f"sgdtheory: note: {note}") for line, note in zip(lines, notes, strict=True))
    assert [f"sgdtheory: note: {note}" for note in strict_json(out)["notes"]] == lines


def test_cbs_plot(run, tmp_path):
    path = tmp_path / "out" / "figure.v1.png"
    run(*PROBLEM, "--num-samples", 10, 20, "--plot", path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "at least one value"),
        ([100, "--risk-factor", 1], "risk_factor must be finite and greater than 1, got 1"),
        ([100, "--plot", "figure.jpg"], "plot must end in .png, .pdf or .svg, got figure.jpg"),
        ([20, "--plot", "/dev/null/figure.png"], "/dev/null"),
        ([20, "--plot", "folder.png"], "plot must name a file, got the folder"),
    ],
)
def test_bad_cbs(fails, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    assert message in fails(*PROBLEM, "--num-samples", *arguments)
