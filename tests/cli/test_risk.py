import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.sheets import number
from tests.cli.text import RISK, records, strict_json

SHOWN = {  # row of the table → name in JSON
    "batch size B": "batch_size",
    "learning rate γ": "learning_rate",
    "samples D": "num_samples",
    "excess risk": "risk",
    "bias": "bias",
    "variance": "variance",
    "Theorem 7's bound": "bound",
    "risk / bound": "ratio",
    "effective dimension k*": "effective_dimension",
    "largest stable γ": "max_stable_learning_rate",
}
TOO_LARGE = "γ too large: γ > ½ min{B/tr H, 1/‖H‖}"


def test_json_and_table(run):
    """The library's numbers; the table shows those of the JSON."""
    samples = np.array([1e3, 1e4, 1e6])
    arguments = [*RISK, "--num-samples", *samples, "--noise-variance", 2.5, "--dim", 50]
    found, out = run.json(*arguments), run(*arguments)
    problem = st.PowerLaw(2, 3, 50, 2.5)
    settings = {"batch_size": 16, "learning_rate": 0.3, "num_samples": samples}
    risk, bound = st.excess_risk(problem, **settings), st.theorem7(problem, **settings)
    expected = settings | {"risk": risk.total, "bias": risk.bias, "variance": risk.variance, "bound": bound.total}
    expected |= {"effective_dimension": bound.effective_dimension, "applies": bound.applies}
    expected |= {"max_stable_learning_rate": st.max_stable_learning_rate(problem, batch_size=16)}
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    np.testing.assert_allclose(found["ratio"], risk.total / bound.total, rtol=1e-14)
    assert found["batch_size"] == 16  # once, as it was given
    for row, name in SHOWN.items():
        assert records(out)[row] == [number(value, 6) for value in np.broadcast_to(found[name], 3)]
    assert "λ_i = i^−2, s_i = i^−3, σ² = 2.5" in out


def test_json_of_one_setting_is_scalar(run):
    """And the dimension may be infinite by name, and flags written with underscores and equals signs."""
    words = run(*RISK, "--num_samples=1e4", "--json")
    risk = st.excess_risk(st.PowerLaw(2, 3), batch_size=16, learning_rate=0.3, num_samples=1e4)
    assert strict_json(words)["risk"] == risk.total
    assert isinstance(strict_json(words)["applies"], bool)
    assert run(*RISK, "--num-samples", 1e4, "--json", "--dim", "None") == words


def test_an_infinite_risk_is_inf_in_json_and_has_its_sign_in_the_table(run):
    flags = [*RISK[:-1], 0.1, 50, "--num-samples", 1e6]
    found, out = run.json(*flags), run(*flags)
    assert [records(out)[name][1] for name in ("excess risk", "bias", "variance")] == ["∞"] * 3
    assert found["risk"][0] > 0
    assert [found[name][1] for name in ("risk", "bias", "variance", "ratio")] == ["inf"] * 4
    assert found["bound"][1] > 0


@pytest.mark.parametrize(
    ("rates", "noise", "applies", "end", "broken"),
    [
        ([0.1], 5, ["yes"], None, {}),
        ([0.1, 0.9], 5, ["yes", "no: γ too large"], f"— {TOO_LARGE}.", {"large_learning_rate": [False, True]}),
        (
            [5, 0.9, 0.1],  # beyond the edge, below it but too large for the theorem, and small enough; much signal
            0.5,
            ["no: γ unstable, γ too large, signal above noise", "no: γ too large, signal above noise"]
            + ["no: signal above noise"],
            f"— γ unstable: it is not below the largest stable one, and the risk grows without bound; {TOO_LARGE}; "
            "signal above noise: Σ s_i > σ².",
            {"unstable": [True, False, False], "large_learning_rate": [True, True, False], "large_signal": [True] * 3},
        ),
    ],
)
def test_why_the_theorem_does_not_apply_the_most_important_reason_first(run, rates, noise, applies, end, broken):
    flags = [*RISK[:-1], *rates, "--num-samples", 1e4, "--noise-variance", noise]
    out, found = run(*flags), run.json(*flags)["broken"]
    assert records(out)["theorem applies"] == applies
    if end is None:
        assert "does not apply" not in out
    else:
        assert " ".join(out.split()).endswith(f"Where the theorem does not apply {end}")
    assert [name for name in found if name in broken] == list(broken)
    shown = {name: np.broadcast_to(values, len(rates)).tolist() for name, values in found.items()}
    assert {name: values for name, values in shown.items() if any(values)} == broken


def test_passes_over_a_data_set(run):
    flags = "risk --capacity 1.5 --source 2 --dim 20 --batch-size 2 --learning-rate 0.1 --num-samples 400"
    found = run.json(*flags.split(), "--samples", "50", "--sample-seed", "1")
    finite = st.PowerLaw(1.5, 2.0, dim=20).with_samples(50, seed=1)
    expected = st.excess_risk(finite, batch_size=2, learning_rate=0.1, num_samples=400)
    assert found["risk"] == pytest.approx(float(expected.total))
    assert "bound" not in found
