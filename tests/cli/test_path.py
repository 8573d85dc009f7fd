import numpy as np

import sgdtheory as st
from sgdtheory.algorithms import algorithm_settings, make_algorithm
from tests.cli.text import cells

PATH = ["path", "--capacity", 2, "--source", 3, "--batch-size", 16, "--learning-rate", 0.3, "--num-samples", 16000]
TEXTS = "cosine", "heavy-ball momentum=0.8 wsd last", "tail  tail-fraction=0.25"


def path_of(text, learning_rate=0.3, batch_size=16, points=200):
    setting = {"batch_size": batch_size, "learning_rate": learning_rate, "num_samples": 16000}
    algorithm = make_algorithm(algorithm_settings(text))
    return st.risk_path(st.PowerLaw(2, 3), **setting, algorithm=algorithm, points=points)


def flags(*texts):
    return [word for text in texts for word in ("--algorithm", text)]


def test_json_has_every_path_and_a_figure_shows_them(run, tmp_path):
    plot = tmp_path / "path.png"
    found = run.json(*PATH, *flags(*TEXTS), "--points", 20, "--plot", plot)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert (found["capacity"], found["source"], found["dim"], found["noise_variance"]) == (2, 3, None, 1)
    assert [path["name"] for path in found["paths"]] == [*TEXTS[:2], "tail tail-fraction=0.25"]
    for text, entry in zip(TEXTS, found["paths"], strict=True):
        path = path_of(text, points=20)
        assert (entry["batch_size"], entry["learning_rate"], entry["num_samples"][-1]) == (16, 0.3, 16000)
        assert make_algorithm(algorithm_settings(entry["algorithm"])) == make_algorithm(algorithm_settings(text))
        np.testing.assert_array_equal(entry["num_steps"], path.num_steps)
        np.testing.assert_array_equal(entry["learning_rates"], path.learning_rate)
        np.testing.assert_array_equal(entry["batch_sizes"], path.batch_size)
        for name, risk in (("risk", path.average), ("iterate_risk", path.iterate)):
            for suffix, part in (("", risk.total), ("_bias", risk.bias), ("_variance", risk.variance)):
                numbers = [np.nan if value is None else value for value in entry[f"{name}{suffix}"]]
                np.testing.assert_array_equal(numbers, part)
    assert found["paths"][2]["risk"][0] is None  # the average has not begun


def test_a_table_has_a_column_for_each_algorithm(run):
    out = run(*PATH, *flags(*TEXTS))
    assert out.startswith("λ_i = i^−2, s_i = i^−3, σ² = 1; B = 16, γ = 0.3, D = 16000\n")
    assert "tail tail-fraction=0.25" in out
    last = [path_of(text).average.total[-1] for text in TEXTS]
    assert cells(out, "1,000") == ["1,000", "16,000", *(f"{value:.5g}" for value in last)]
    assert cells(out, "0") == ["0", "0", "—", "1.2021", "—"]
    assert out.count("│ ") < 20 * 5
    assert out.endswith("excess risk of what the run returns\n")


def test_without_an_algorithm_it_is_averaged_sgd(run):
    out = run(*PATH)
    risk = st.excess_risk(st.PowerLaw(2, 3), batch_size=16, learning_rate=0.3, num_samples=16000)
    assert cells(out, "1,000")[1:] == ["16,000", f"{risk.total:.5g}"]
    assert run(*PATH, "--algorithm", "sgd") == out
    assert run(*PATH, "--algorithm", "sgd", "--json") == run(*PATH, "--json")


def test_algorithms_with_other_steps_have_tables_of_their_own(run):
    """A batch size of its own, or a schedule of it."""
    texts = "sgd", "batch-schedule=linear batch-final=4", "batch-size=64 learning-rate=0.5 last", "cosine"
    blocks = run(*PATH, *flags(*texts)).split("\n\n")
    assert len(blocks) == 3
    assert "sgd" in blocks[0]
    assert "cosine" in blocks[0]
    assert texts[1] in blocks[1]
    expected = path_of("last", batch_size=64, learning_rate=0.5).average.total[-1]
    assert cells(blocks[2], "250") == ["250", "16,000", f"{expected:.5g}"]
    entries = run.json(*PATH, *flags(*texts))["paths"]
    assert [(entry["batch_size"], entry["learning_rate"]) for entry in entries] == [(16, 0.3)] * 2 + [
        (64, 0.5),
        (16, 0.3),
    ]
    assert entries[2]["algorithm"] == "last"


def test_a_method_that_is_not_linear_stands_beside_one_that_is(notes):
    small = ["--dim", 8, "--num-samples", 320]
    out, lines = notes(*PATH, *small, *flags("last", "sign last learning-rate=0.05"))
    setting = {"batch_size": 16, "learning_rate": 0.05, "num_samples": 320}
    algorithm = st.Algorithm(st.SignSGD(), average=st.LastIterate())
    path = st.risk_path(st.PowerLaw(2, 3, 8), **setting, algorithm=algorithm)
    assert cells(out, "20")[-1] == f"{path.average.total[-1]:.5g}"
    assert lines[-1].endswith("a deterministic equivalent for many directions, not exact")
