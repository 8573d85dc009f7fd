import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import sgdtheory as st
from experiments import (
    corollary8,
    corollary8_simulated,
    heavy_tails,
    overhead_convention,
    ratio_law,
    scaling_laws,
    simulation_vs_theory,
    theorem7,
    why,
)
from experiments._lib.results import Result, Verdict, write_result
from tests.figure_checks import check_figure

SMALL = theorem7.Config(
    num_problems=30, settings_per_problem=4, search_rounds=3, search_starts=4, search_trials=2, processes=1
)


@pytest.fixture(scope="module")
def small_result():
    return theorem7.run(SMALL)


def test_theorem7_samples_its_domain(small_result):
    points = small_result.columns
    problem_signal = [st.PowerLaw(a, b).initial_risk for a, b in zip(points["capacity"], points["source"], strict=True)]
    trace = [st.PowerLaw(a, 2.0).trace for a in points["capacity"]]
    assert points["num_steps"].min() >= 2
    assert points["num_steps"].max() <= 1e9
    assert np.all(points["noise_variance"] >= np.array(problem_signal) * (1 - 1e-12))
    limit = 0.5 * np.minimum(points["batch_size"] / trace, 1.0)
    share = points["learning_rate"] / limit
    assert share.min() >= 1e-3 * (1 - 1e-12)
    assert share.max() <= 1 + 1e-12


def test_theorem7_columns_are_what_they_say(small_result):
    points = small_result.columns
    for k in (0, 50, 119):
        problem = st.PowerLaw(points["capacity"][k], points["source"][k], noise_variance=points["noise_variance"][k])
        batch = points["batch_size"][k]
        setting = {"batch_size": batch, "learning_rate": points["learning_rate"][k]}
        comparison = st.compare(
            st.theorem7, [{"problem": problem, "num_samples": batch * points["num_steps"][k], **setting}]
        )
        assert points["total"][k] == pytest.approx(comparison.ratio[0], rel=1e-9)
        assert points["exact"][k] == pytest.approx(comparison.exact[0], rel=1e-9)


def test_theorem7_verdicts(small_result):
    verdicts = {v.claim: v for v in small_result.verdicts}
    claims = {
        "total": "Theorem 7, total",
        "full": "Theorem 7, total with cross term",
        "bias": "Theorem 7's proof, without the cross term the bias is not bounded",
        "bias_with_cross": "Theorem 7's proof, bias with cross term",
        "variance": "Theorem 7, variance",
    }
    for name, claim in claims.items():
        low, high = verdicts[claim].interval
        assert low <= small_result.columns[name].min() * (1 + 1e-9), name
        assert high >= small_result.columns[name].max() * (1 - 1e-9), name
    assert verdicts["Theorem 7, variance"].interval[0] >= 0.125 - 1e-9  # (n − 1)(2n − 1)/(6n²) at n = 2
    assert verdicts[claims["bias"]].verdict == "holds"
    assert verdicts["Theorem 7, one step"].verdict == "imprecise in the paper"  # the theorem has no word on n


def test_a_bias_that_is_bounded_is_found(small_result):
    """Negative control: the finding on the proof's decomposition can fail."""
    points = {**small_result.columns, "bias": small_result.columns["bias_with_cross"]}
    ends = [{name: float(values[k]) for name, values in points.items()} for k in np.argsort(points["bias"])[[0, -1]]]
    verdict = theorem7._verdict(SMALL, points, "bias", ends, 0.0)
    assert verdict.claim == "Theorem 7's proof, without the cross term the bias is not bounded"
    assert verdict.verdict == "fails"


@pytest.mark.slow
def test_a_wrong_theorem_fails(monkeypatch):
    """Negative control: the bound without its variance terms must not be called holding."""
    true_bound = st.theorem7

    def without_variance(*args, **kwargs):
        bound = true_bound(*args, **kwargs)
        return replace(bound, variance_head=0.0, variance_tail=1e-6 * bound.variance_tail)

    monkeypatch.setattr(theorem7.st, "theorem7", without_variance)
    verdict = theorem7.run(replace(SMALL, num_problems=20, search_rounds=1)).verdicts[0]
    assert verdict.claim == "Theorem 7, total"
    assert verdict.verdict == "fails"


@pytest.fixture(scope="module")
def scaling():
    return scaling_laws.run(scaling_laws.Config())


def test_scaling_laws_result(scaling):
    result = scaling
    for figure in result.figures.values():
        check_figure(figure)
    assert {v.verdict for v in result.verdicts} == {"holds"}
    assert len(result.columns["model"]) == 45
    exponent = result.verdicts[0]
    assert exponent.interval[0] < exponent.measured < exponent.interval[1]


SIMULATED = simulation_vs_theory.Config(
    exponents=((1.2, 1.5), (2.0, 3.0)),
    dim=16,
    batch_sizes=(1, 64),
    num_steps=(16, 64),
    num_replicas=1024,
    shown_batch_sizes=(1, 16),
    shown_steps=(4, 32),
    shown_replicas=64,
    method_replicas=512,
)


@pytest.mark.slow
def test_simulation_agrees_with_theory():
    """False alarm: 1e-5 (Bonferroni) and 1e-4 (Kolmogorov-Smirnov); the seed is fixed."""
    result = simulation_vs_theory.run(SIMULATED)
    assert [v.verdict for v in result.verdicts] == ["holds"] * 5
    assert result.columns["score"].size == 2 * 2 * 2 * 2 + 2 * 2 + 6 * 3 * 3 * 2
    assert set(result.figures) == {"points_line_bound", "quantiles"}


@pytest.mark.slow
def test_simulation_finds_a_wrong_theory(monkeypatch):
    """Negative control: the exact risk with σ off by √2 must be called failing."""
    true_risk = st.excess_risk

    def wrong_risk(problem, **setting):
        return true_risk(replace(problem, noise_variance=2 * problem.noise_variance), **setting)

    monkeypatch.setattr(simulation_vs_theory.st, "excess_risk", wrong_risk)
    verdicts = simulation_vs_theory.run(SIMULATED).verdicts
    assert [verdicts[0].verdict, verdicts[3].verdict] == ["fails", "fails"]


def test_ratio_law():
    result = ratio_law.run(ratio_law.Config(num_samples=(2**6, 2**10), num_replicas=256, simulated_steps=(2, 16)))
    assert [v.verdict for v in result.verdicts] == ["holds", "holds", "holds"]
    columns = result.columns
    first = columns["batch_size"] == 1
    assert np.all(columns["relative"][first] == 1)
    np.testing.assert_allclose(columns["learning_rate"], columns["ratio"] * columns["batch_size"])


@pytest.mark.slow
def test_heavy_tails():
    config = heavy_tails.Config(
        dim=8, num_replicas=512, num_steps=(4, 32), exact_steps=(4, 1024, 4096), freedoms=(4.1, 12.0)
    )
    result = heavy_tails.run(config)
    verdicts = {v.claim: v.verdict for v in result.verdicts}
    assert np.isinf(result.columns["ratio"]).any()  # twice as much is no more, but not bounded
    assert verdicts["risk with the law's fourth moment"] != "fails"
    assert verdicts["Theorem 7, elliptical data, γ over the fourth moment"] == "holds"
    assert verdicts["Theorem 7, elliptical data, γ as for Gaussian data is too large"] == "holds"


GROWTH = corollary8.Config(
    exponents=((3.0, 2.0), (2.0, 3.0)),
    per_decade=1.2,
    map_capacities=(1.5, 2.5),
    map_sources=(2.0, 3.0),
    map_decades=(6.0, 7.0),
)


@pytest.mark.slow
def test_corollary8():
    result = corollary8.run(GROWTH)
    assert {v.verdict for v in result.verdicts} == {"holds"}
    assert result.columns["batch_size"].size == 2 * 13 + 4 * 2
    assert set(result.figures) == {"growth", "map"}
    slopes = result.columns["local_exponent"][result.columns["in_map"] == 1]
    assert slopes.max() < 0.7


@pytest.mark.slow
def test_a_wrong_exponent_fails(monkeypatch):
    """Negative control: b/(b + a) in place of 1 − a/b for b > a."""
    case = corollary8._solve(0.2, ((2.0, 3.0), np.geomspace(1e2, 1e10, 13)))
    assert corollary8._exponent_verdict(GROWTH, case, case.fit(), 0.0).verdict == "holds"
    monkeypatch.setattr(corollary8.st, "predicted_exponent", lambda a, b: b / (a + b))
    assert corollary8._exponent_verdict(GROWTH, case, case.fit(), 0.0).verdict == "fails"


@pytest.mark.slow
def test_corollary8_simulated():
    """B* of simulations against the same protocol on exact risks; false alarm 1e-4, the seed is fixed."""
    config = corollary8_simulated.Config(
        dim=32, num_samples=(1e3, 1e4), reference_steps=128, num_replicas=128, pilot_replicas=16, num_resamples=100
    )
    result = corollary8_simulated.run(config)
    verdicts = {v.claim: v for v in result.verdicts}
    assert verdicts["B*, from simulations alone"].verdict == "holds"
    low, high = verdicts["exponent of B*, from simulations alone"].interval
    assert 0.3 < low < high < 1.0
    check_figure(result.figures["simulated"])


@pytest.mark.slow
def test_why():
    result = why.run(why.Config(num_samples=1e4, per_decade=4))
    check_figure(result.figures["why"])
    assert [v.verdict for v in result.verdicts] == ["holds", "holds"]
    tuned = result.columns["learning_rate_tuned"] == 1
    np.testing.assert_allclose(result.columns["risk"], result.columns["bias"] + result.columns["variance"])
    assert result.columns["risk"][tuned].min() == pytest.approx(result.columns["risk"][tuned][0], rel=1e-6)  # at B = 1


@pytest.mark.slow
def test_overhead_convention():
    result = overhead_convention.run(overhead_convention.Config(num_samples=(1e7, 1e8), references=(1.0, 64.0)))
    assert "fails" not in {v.verdict for v in result.verdicts}
    regression = [k for k, data in enumerate(result.columns["data"]) if data == "regression"]
    assert len(regression) == 2 * 5 * 2
    assert set(result.figures) == {"conventions"}


def test_results_are_written_whole(tmp_path, small_result):
    write_result(tmp_path / "theorem7", SMALL, replace(small_result, figures={"tightness": Figure((1, 1))}))
    names = {path.name for path in (tmp_path / "theorem7").iterdir()}
    assert names == {"config.json", "columns.json", "data.csv", "verdicts.json", "tightness.png", "tightness.pdf"}
    with (tmp_path / "theorem7" / "data.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    assert float(rows[17]["total"]) == small_result.columns["total"][17]
    assert set(rows[0]) == set(json.loads((tmp_path / "theorem7" / "columns.json").read_text()))
    assert json.loads((tmp_path / "theorem7" / "config.json").read_text())["num_problems"] == 30
    verdict = json.loads((tmp_path / "theorem7" / "verdicts.json").read_text())[0]
    assert set(verdict) == {"claim", "statement", "predicted", "measured", "interval", "verdict", "seconds"}


def test_figures_of_an_earlier_run_go(tmp_path):
    (tmp_path / "old.png").write_bytes(b"")
    write_result(tmp_path, SMALL, Result({"x": [1]}, {"x": ""}))
    assert not (tmp_path / "old.png").exists()


def test_data_and_verdicts_are_kept_before_figures_are_drawn(tmp_path):
    class Undrawable:
        def savefig(self, *args, **settings):
            raise KeyboardInterrupt

    kept = []
    result = Result({"x": [1]}, {"x": ""}, {"figure": Undrawable()}, ())
    with pytest.raises(KeyboardInterrupt):
        write_result(tmp_path, SMALL, result, lambda: kept.append(sorted(path.name for path in tmp_path.iterdir())))
    assert kept == [["columns.json", "config.json", "data.csv", "verdicts.json"]]


def test_columns_without_units_are_refused(tmp_path):
    with pytest.raises(ValueError, match="units must name every column"):
        write_result(tmp_path, SMALL, Result({"x": [1]}, {}))


def test_main_writes_a_report_and_exits_0(monkeypatch, tmp_path, capsys, scaling):
    from experiments._lib import command

    drawn = replace(scaling, figures={"steps_laws": Figure((1, 1))})
    monkeypatch.setattr(scaling_laws, "run", lambda config: drawn)
    monkeypatch.setattr(sys, "argv", ["experiments", "--only", "scaling_laws", "--output", str(tmp_path)])
    assert command.main() == 0
    assert "scaling_laws (1 of 1): 3 hold" in capsys.readouterr().out
    report = (tmp_path / "report.md").read_text()
    assert "![steps_laws](scaling_laws/steps_laws.png)" in report
    assert (tmp_path / "scaling_laws" / "steps_laws.png").exists()


def test_main_exits_1_if_a_claim_fails(monkeypatch, tmp_path):
    from experiments._lib import command

    failing = Verdict("claim", "statement", 1.0, 2.0, (1.5, 2.5), "fails")
    monkeypatch.setattr(scaling_laws, "run", lambda config: Result({}, {}, {}, (failing,)))
    monkeypatch.setattr(sys, "argv", ["experiments", "--only", "scaling_laws", "--output", str(tmp_path)])
    assert command.main() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--only", "theorem8"),
            "only must be one of scaling_laws, why, overhead_convention, mlperf, loss_curves, forecasts, "
            "forecasts_unseen, over_training, ratio_law, model_size, theorem7, bounds, simulation_vs_theory, "
            "heavy_tails, "
            "corollary8, corollary8_simulated, ramp_or_decay, schedules, optimizers, small_batches, rate_rule, "
            "muon, published, published_momentum, published_phases, epochs, sign_features, optimal_ramp, weight_decay, "
            "averages, momentum, delay, local_sgd, "
            "optimal_schedule, optimal_exponents, curves_batch_size, width_limit, width_invariance, "
            "learning_rate_transfer, averaging, data_scaling, branching, theory_meets_network, data_law, "
            "real_features, precision, accumulation, ablations, epochs_networks, optimizers_networks, "
            "trained_features, got theorem8",
        ),
        (("--only", "scaling_laws", "--output", "/proc/nowhere"), "cannot write results to /proc/nowhere"),
    ],
)
def test_main_bad_input(arguments, message, monkeypatch, capsys):
    from experiments._lib import command

    monkeypatch.setattr(sys, "argv", ["experiments", *arguments])
    assert command.main() == 2
    assert message in capsys.readouterr().err
