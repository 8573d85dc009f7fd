import numpy as np
import pytest

import sgdtheory as st
from tests.cli.text import cells, strict_json
from tests.data.synthetic import power_law_rows


@pytest.fixture
def files(tmp_path):
    x, y = power_law_rows(np.random.default_rng(0), 1500, 20, 1.5, 2.0)
    np.save(tmp_path / "X.npy", x)
    np.save(tmp_path / "y.npy", y)
    return tmp_path / "X.npy", tmp_path / "y.npy"


@pytest.mark.slow
def test_features_json(run, files):
    found = run.json("features", *files, "--num-samples", 1000, 100, "--overhead", "40%")
    expected = st.problem_from_data(*map(np.load, files))
    critical = expected.critical_batch_size([100, 1000], overhead=0.4)
    assert found["num_samples"] == [100, 1000]  # sorted
    assert found["critical_batch_size"] == list(critical.batch_size)
    assert found["real_critical_batch_size"] == list(critical.real_batch_size)
    assert found["noise_probability"] < 1e-3
    np.testing.assert_allclose(found["interval"], critical.interval, rtol=1e-9)
    np.testing.assert_allclose(found["capacity"]["interval"], expected.capacity.interval, rtol=1e-9)
    assert (found["num_rows"], found["num_features"], found["num_targets"]) == (1500, 20, 1)
    assert found["noise_variance"] == pytest.approx(expected.noise_variance)
    edge = expected.max_stable_learning_rate(16)
    assert found["max_stable_learning_rate"]["16"] == pytest.approx(float(edge))


def test_features_tables_figure_and_spectrum(run, files, tmp_path):
    out = run("features", *files, "--plot", tmp_path / "s.png", "--write", tmp_path / "s.npz", "--simulate")
    assert "X.npy: 1500 rows of 20 features, 1 target" in out
    assert "capacity exponent a" in out
    row = cells(out[: out.index("SGD on the rows")], "1,000")
    low, high = row[2].split(" … ")
    assert 1 <= float(low) <= float(row[1]) <= float(high)
    simulated, exact, ratio = (cells(out[out.index("SGD on the rows") :], "1,000")[k] for k in (3, 4, 5))
    assert float(simulated.split(" ± ")[0]) / float(exact) == pytest.approx(float(ratio), abs=2e-3)
    assert 0.8 < float(ratio) < 1.25
    assert (tmp_path / "s.png").stat().st_size > 10_000
    problem = st.problem_from_data(*files).problem
    read = st.read_spectrum(tmp_path / "s.npz")
    np.testing.assert_array_equal(read.directions(), problem.directions())
    assert read.noise_variance == problem.noise_variance


def test_what_a_spectrum_file_gives(run, tmp_path):
    """risk, cbs and simulate as with the power law that it holds."""
    law, path = st.PowerLaw(2, 3, 6, 0.5), tmp_path / "spectrum.csv"
    st.problems.write_spectrum(law, path)
    by_file = ["--spectrum", path, "--noise-variance", 0.5]
    by_law = ["--capacity", 2, "--source", 3, "--dim", 6, "--noise-variance", 0.5]
    settings = ["--batch-size", 4, "--learning-rate", 0.2, "--num-samples", 200, "--json"]
    for name, words in (("risk", settings), ("simulate", [*settings, "--num-replicas", 16])):
        found, expected = (strict_json(run(name, *problem, *words)) for problem in (by_file, by_law))
        key = "risk" if name == "risk" else "mean"
        assert found[key] == pytest.approx(expected[key], rel=1e-6)
    found = run.json("cbs", *by_file, "--num-samples", 300)
    assert found["spectrum"].endswith("spectrum.csv")
    assert (found["dim"], found["noise_variance"]) == (6, 0.5)
    assert found["predicted_exponents"] == {"real_batch_size": None, "optimal_risk": None}
    expected = st.critical_batch_size(law, num_samples=300, curve=False).batch_size
    assert [row["critical_batch_size"] for row in found["rows"]] == [expected]
    assert "spectrum.csv: 6 directions, σ² = 0.5" in run("cbs", *by_file, "--num-samples", 300)


def test_noise_and_figure_of_a_spectrum_file(run, tmp_path):
    """Its name may have what would be mathematics in a title."""
    path = tmp_path / "$two$.npz"
    st.problems.write_spectrum(st.LeastSquares([1.0, 0.5], [1.0, 2.0], 0.3), path)
    words = ["cbs", "--spectrum", path, "--num-samples", 100, "--json"]
    assert strict_json(run(*words, "--plot", tmp_path / "two.png"))["noise_variance"] == 0.3
    assert (tmp_path / "two.png").exists()
    assert strict_json(run(*words, "--noise-variance", 2))["noise_variance"] == 2
