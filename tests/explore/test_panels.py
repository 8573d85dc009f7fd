"""Numbers of the panels against the library and formulas, at settings where each takes a fraction of a second."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import sem

import sgdtheory as st
from sgdtheory.explore.downloads import figure_file, table_file
from sgdtheory.explore.panels import growth, path
from sgdtheory.explore.panels.risk import batch_sizes
from sgdtheory.explore.rates import setting_rate
from sgdtheory.explore.registry import JOBS
from sgdtheory.explore.sources import python_source
from sgdtheory.explore.state import State

SMALL = State(1.5, 4.0, 0.5, 200.0, 6, 4, 0.05, 0.3, second="linear last")
LAW = st.PowerLaw(1.5, 4.0, noise_variance=0.5).with_features(6)
BOTH = st.Algorithm(), st.Algorithm(schedule=st.Linear(), average=st.LastIterate())
SIGN = replace(SMALL, num_samples=20.0, num_features=3, first="sign linear last", second="last")


def told(name, state, slot=0):
    found = []
    JOBS[name].compute(state, slot, found.append)
    return found


def run_program(program):
    names = {}
    exec(compile(program.rsplit("\n", 1)[0], "program.py", "exec"), names)
    return names


# ---------------------------------------------------------------------- loss curves


@pytest.mark.parametrize("slot", [0, 1])
def test_a_loss_curve_is_the_librarys_from_the_first_step_on(slot):
    setting = {"batch_size": 4, "num_samples": 200, "learning_rate": 0.05}
    (answer,) = told("run", SMALL, slot)
    direct = st.risk_path(LAW, **setting, algorithm=BOTH[slot], points=path.PATH_POINTS)
    expected = {
        "num_steps": direct.num_steps,
        "num_samples": direct.num_samples,
        "iterate": direct.iterate.total,
        "average": direct.average.total,
        "learning_rate": direct.learning_rate,
        "relative_rate": direct.learning_rate / 0.05,
        "batch_size": direct.batch_size,
    }
    assert {name: values.tolist() for name, values in answer.columns.items()} == {
        name: pytest.approx(values[1:], rel=1e-12, nan_ok=True) for name, values in expected.items()
    }
    assert (answer.columns["num_steps"][0], answer.columns["num_samples"][0]) == (1, 4)
    if slot == 0:
        assert answer.marks["theorem7"] == pytest.approx(float(st.theorem7(LAW, **setting).total), rel=1e-12)
    else:
        assert "theorem7" not in answer.marks


def test_only_a_rate_above_the_stability_limit_is_told():
    edge = float(st.max_stable_learning_rate(LAW, batch_size=4))
    assert [bool(told("run", replace(SMALL, learning_rate=share * edge))[0].words) for share in (1.0, 1.001)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(("noise_variance", "rough"), [(1.0, False), (1e-3, True)])
def test_a_rough_risk_advises_to_simulate(noise_variance, rough):
    """That of a deterministic equivalent with an error of more than 10%."""
    state = replace(SIGN, num_samples=100.0, num_features=2, noise_variance=noise_variance)
    (words,) = told("run", state)[0].words
    assert (float(words.partition("about ")[2].partition("%")[0]) > 10) == rough
    assert words.endswith("simulate it for a more accurate one") == rough


@pytest.mark.parametrize(
    ("first", "learning_rate", "method", "factor"),
    [
        ("last", 0.123, None, 0.123),
        ("last", None, st.SGD(), 1.0),
        ("sign last", 0.123, st.SignSGD(), 2.0),
        ("last clip-norm=2", None, st.SGD(), 2.0),  # its risk is not known: the best γ without clipping
        ("normalized momentum=0.5 last", 0.123, st.SGD(), None),  # nothing is known: steps as long as those of SGD
    ],
)
def test_the_learning_rate_of_a_curve_and_of_its_program(first, learning_rate, method, factor):
    """The γ of the slider or the best one for linear methods, and twice the best one for others."""
    state = replace(SIGN, first=first, second="", learning_rate=learning_rate, rate_factor=2.0)
    if factor is None:
        factor = 2 * (state.problem.noise_variance * state.problem.trace / state.batch_size) ** 0.5
    best = 1.0
    if method:
        algorithm = st.Algorithm(method, average=st.LastIterate())
        best = st.optimal_learning_rate(state.problem, batch_size=4, num_samples=20, algorithm=algorithm).learning_rate
    assert setting_rate(state, 0) == pytest.approx(factor * best, rel=1e-9)
    if state.has_risk(0):
        assert run_program(python_source(state, "path"))["rate"] == pytest.approx(factor * best, rel=1e-9)
        assert told("run", state)[0].marks["learning_rate"] == pytest.approx(factor * best, rel=1e-9)


# ---------------------------------------------------------------------- simulated runs


@pytest.fixture
def simulated(monkeypatch):
    """`simulated(steps, risks, state)`: answers on simulated runs with these risks, (K,) steps and (K, R) risks."""

    def simulate(state, steps, risks):
        def pretend(key, problem, progress, **setting):
            assert setting["num_replicas"] == 128
            for share in np.arange(1, 1001) / 1000:
                progress(share)
            return SimpleNamespace(trajectory=SimpleNamespace(num_steps=np.array(steps), excess_risk=np.array(risks)))

        monkeypatch.setattr(path, "simulate", pretend)
        return told("simulated", state)

    return simulate


RISKS = np.array([[8.0, 1.0, 2.0, 5.0], [8.0, 1.0, 2.0, 5.0], [4.0, 0.01, 0.01, 0.02], [0.4, 0.3, np.nan, 0.5]])


def test_simulated_points_are_means_of_finished_runs_with_standard_errors(simulated):
    """A step that occurs twice has one point; an error bar ends at a tenth of the mean at the latest."""
    *_, answer = simulated(SMALL, [1, 1, 10, 50], RISKS)
    finished = RISKS[1:][:, [0, 1, 3]]
    mean, error = finished.mean(1), sem(finished, axis=1)
    assert answer.marks == {"share": 1.0, "replicas": 3.0}
    assert answer.columns["num_steps"].tolist() == [1, 10, 50]
    assert answer.columns["num_samples"].tolist() == [4, 40, 200]
    assert answer.columns["risk"] == pytest.approx(mean)
    assert answer.columns["high"] == pytest.approx(mean + error)
    assert answer.columns["low"] == pytest.approx([mean[0] - error[0], mean[1] / 10, mean[2] - error[2]])
    assert answer.words == ()


def test_two_runs_are_enough_for_points_and_one_is_not(simulated):
    assert simulated(SMALL, [1, 50], RISKS[[0, 2]][:, :2])[-1].columns["risk"].tolist() == [4.5, 2.005]
    (*_, answer) = simulated(SMALL, [1, 50], [[8.0, 1.0], [4.0, np.nan]])
    assert (answer.columns, answer.marks["replicas"]) == ({}, 1.0)
    assert answer.words == ("Stopped before two replicas had finished.",)


def test_points_before_an_average_begins_are_left_out(simulated):
    *_, answer = simulated(SMALL, [1, 50], [[np.nan, np.nan], [4.0, 2.0]])
    assert answer.columns["num_steps"].tolist() == [50]


def test_progress_of_a_simulation_is_told_by_the_percent(simulated):
    *progress, last = simulated(SMALL, [1, 50], RISKS[[0, 2]])
    shares = [each.marks["share"] for each in progress]
    assert (shares[0], last.marks["share"]) == (0.0, 1.0)
    assert 0.009 < np.diff(shares).min() <= np.diff(shares).max() < 0.012


@pytest.mark.parametrize(("num_samples", "refused"), [(800_000.0, False), (800_004.0, True)])
def test_a_simulation_has_at_most_200000_steps(num_samples, refused, simulated):
    state = replace(SMALL, num_samples=num_samples)
    if refused:
        with pytest.raises(ValueError, match=r"2e\+05 steps would take long to simulate; .* at most 200,000$"):
            simulated(state, [1, 50], RISKS[[0, 2]])
    else:
        assert simulated(state, [1, 50], RISKS[[0, 2]])[-1].columns


def test_methods_that_are_not_linear_need_a_finite_number_of_features(simulated):
    state = replace(SMALL, first="sign linear last", num_features=None)
    with pytest.raises(ValueError, match="only with a finite number of features"):
        simulated(state, [1, 50], RISKS[[0, 2]])
    for simulable in (replace(state, num_features=6), replace(state, first="last")):
        assert simulated(simulable, [1, 50], RISKS[[0, 2]])[-1].columns


UNKNOWN = "normalized momentum=0.5"  # there is no theory of its risk


@pytest.mark.parametrize(
    ("first", "second", "curves"),
    [("sgd", "last", 2), ("sgd", UNKNOWN, 1), (UNKNOWN, "last", 1), (UNKNOWN, "", 0), ("sgd", "", 1)],
)
def test_a_program_simulates_both_algorithms_and_draws_the_curves_that_are_known(first, second, curves, monkeypatch):
    trajectory = SimpleNamespace(num_steps=np.array([1, 10, 50]), excess_risk=RISKS[:3])
    monkeypatch.setattr(st, "simulate", lambda *arguments, **setting: SimpleNamespace(trajectory=trajectory))
    state = replace(SMALL, first=first, second=second)
    names = run_program(python_source(state, "simulated"))
    known = [name for slot, name in enumerate(state.names) if state.has_risk(slot)]
    assert len(known) == curves
    assert list(names.get("paths", {})) == known
    bars = names["figure"].axes[0].containers
    assert len(bars) == len(state.names)
    for each in bars:
        assert np.asarray(each[0].get_xydata()) == pytest.approx(np.c_[[4, 40, 200], RISKS[:3].mean(1)])
        (segments,) = (np.array(lines.get_segments()) for lines in each[2])
        assert np.diff(segments[:, :, 1])[:, 0] == pytest.approx(2 * sem(RISKS[:3], axis=1))


# ---------------------------------------------------------------------- risk against learning rate


def test_learning_rates_go_up_to_the_limit_and_are_dense_there():
    """From a ten-thousandth of the limit on; the distances to it, from 40% down to 0.2%, have ratios as small."""
    (answer,) = told("rates", SMALL)
    edge = answer.marks["edge"]
    shares = answer.columns["learning_rate"] / edge
    assert edge == pytest.approx(float(st.max_stable_learning_rate(LAW, batch_size=4)), rel=1e-12)
    assert (shares[0], shares[-1]) == pytest.approx((1e-4, 1.0), rel=1e-12)
    assert 1 < np.max(shares[1:] / shares[:-1]) < 10**0.101
    distances = 1 - shares[(shares > 0.599) & (shares < 1)]
    assert (distances[0], distances[-1]) == pytest.approx((0.4, 0.002), rel=1e-9)
    assert np.max(distances[:-1] / distances[1:]) < 10**0.101
    direct = st.excess_risk(LAW, batch_size=4, num_samples=200, learning_rate=answer.columns["learning_rate"])
    for name, values in (("risk", direct.total), ("bias", direct.bias), ("variance", direct.variance)):
        assert answer.columns[name] == pytest.approx(values, rel=1e-12)


def test_learning_rates_without_a_limit_are_around_the_best_one():
    """From 0.03 to 30 times the best one; where a risk takes long, a third of them comes first."""
    few, every = told("rates", SIGN)
    problem = LAW.with_features(3)
    algorithm = st.Algorithm(st.SignSGD(), st.Linear(), average=st.LastIterate())
    best = float(st.optimal_learning_rate(problem, batch_size=4, num_samples=20, algorithm=algorithm).learning_rate)
    rates = every.columns["learning_rate"]
    assert rates / best == pytest.approx(np.geomspace(0.03, 30, rates.size), rel=1e-9)
    assert few.columns["learning_rate"].tolist() == rates[::3].tolist()
    assert np.argmin(every.columns["risk"]) == np.argmin(np.abs(np.log(rates / best)))
    assert few.marks == every.marks == {}


def test_a_program_has_the_rates_of_each_kind_of_method():
    """Up to the limit of a method that has one, and around the best γ of a method that has none."""
    names = run_program(python_source(SIGN, "rate"))
    assert list(names["edges"]) == ["last"]
    for slot, name in enumerate(SIGN.names):
        answer = told("rates", SIGN, slot)[-1]
        rates, risk = names["lines"][name]
        assert rates == pytest.approx(answer.columns["learning_rate"], rel=1e-9)
        assert risk.total == pytest.approx(answer.columns["risk"], rel=1e-9)


# ---------------------------------------------------------------------- batch sizes


@pytest.mark.parametrize("num_samples", [1.0, 2.0, 3.0, 100.0, 1234.0, 1e6])
def test_batch_sizes_waste_few_samples(num_samples):
    """Whole ones from 1 to D/2, five a decade; none can be larger for its number of steps."""
    sizes = batch_sizes(num_samples)
    assert (sizes[0], sizes[-1]) == (1.0, max(1.0, num_samples // 2))
    assert np.all(np.diff(sizes) > 0)
    assert sizes.tolist() == (num_samples // (num_samples // sizes)).tolist()
    if num_samples >= 1000:
        assert 4 < (sizes.size - 1) / np.log10(num_samples / 2) < 6
        assert np.all(sizes[1:] - sizes[:-1] <= np.maximum(1.0, sizes[:-1]))


def test_the_tuned_risk_is_shown_with_its_best_rates_and_what_the_features_miss():
    few, every = told("tuned", replace(SMALL, num_samples=60.0), 1)
    assert set(few.columns["batch_size"]) < set(every.columns["batch_size"])
    sizes = every.columns["batch_size"]
    best = st.optimal_learning_rate(LAW, batch_size=sizes, num_samples=60, algorithm=BOTH[1])
    assert every.columns["learning_rate"] == pytest.approx(best.learning_rate, rel=1e-9)
    assert every.columns["risk"] == pytest.approx(best.risk, rel=1e-9)
    assert every.columns["bias"] + every.columns["variance"] == pytest.approx(best.risk, rel=1e-9)
    assert every.marks == {"missed": pytest.approx(float(LAW.approximation_risk), rel=1e-12)}


@pytest.mark.parametrize("slot", [0, 1])
def test_data_that_batch_sizes_need_are_relative_to_the_data(slot):
    """For averaged SGD at once, otherwise B* comes before the line of all batch sizes."""
    found = told("critical", replace(SMALL, num_samples=40.0), slot)
    direct = st.critical_batch_size(LAW, num_samples=40, overhead=0.3, algorithm=BOTH[slot])
    assert [bool(answer.columns) for answer in found] == ([True] if slot == 0 else [False, True])
    for answer in found:
        assert answer.marks["batch_size"] == direct.batch_size
        assert answer.marks["data_ratio"] == pytest.approx(direct.batch_size * direct.num_steps / 40, rel=1e-12)
        assert answer.marks["data_allowed"] == 1.3
        assert ("smallest_batch_size" in answer.marks) == (direct.smallest_batch_size > 1)
    columns = found[-1].columns
    assert columns["data_ratio"] == pytest.approx(direct.curve.samples_needed / 40, rel=1e-12)
    place = columns["batch_size"].tolist().index(direct.batch_size)
    assert columns["data_ratio"][place] == pytest.approx(found[-1].marks["data_ratio"], rel=1e-12), "the star's place"


# ---------------------------------------------------------------------- growth


def test_data_sizes_go_three_decades_down_and_up():
    assert growth.growth_samples(1e6) == pytest.approx([1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9])
    assert growth.growth_samples(1e3) == pytest.approx([20, 100, 1e3, 1e4, 1e5, 1e6]), "at least 20 samples"


def test_growth_has_corollary_8s_slope_through_its_last_point(monkeypatch):
    """The measured slope is that between the largest data sizes, once all are known."""
    monkeypatch.setattr(growth, "GROWTH", 10.0 ** np.arange(-1, 1.5))
    found = told("growth", SMALL)
    assert [answer.columns["num_samples"].tolist() for answer in found] == [[200], [20, 200], [20, 200, 2000]]
    assert [answer.marks["share"] for answer in found] == pytest.approx([1 / 3, 2 / 3, 1])
    for answer in found:
        sizes, critical, theory = (answer.columns[name] for name in ("num_samples", "critical", "theory"))
        assert theory[-1] == critical[-1]
        assert np.diff(np.log(theory)) == pytest.approx(st.predicted_exponent(1.5, 4.0) * np.diff(np.log(sizes)))
        assert ("slope" in answer.marks) == (answer is found[-1])
    direct = st.critical_batch_size(LAW, num_samples=[20, 200, 2000], overhead=0.3, curve=False).real_batch_size
    assert critical == pytest.approx(direct, rel=1e-9)
    assert found[-1].marks["slope"] == pytest.approx(np.log10(direct[2] / direct[1]))


# ---------------------------------------------------------------------- files


def test_a_file_is_the_figure_of_the_program():
    assert figure_file(SMALL, "path", "pdf").startswith(b"%PDF")


def table_of(state, panel):
    return list(csv.DictReader(table_file(state, panel).decode().splitlines()))


@pytest.mark.parametrize(("panel", "job"), [("path", "run"), ("rate", "rates")])
def test_a_table_has_the_last_answers_of_both_algorithms(panel, job):
    assert {row["algorithm"] for row in table_of(replace(SMALL, second=""), panel)} == {SMALL.names[0]}
    rows = table_of(SMALL, panel)
    answers = [told(job, SMALL, slot)[-1].columns for slot in range(2)]
    assert [*rows[0]] == ["algorithm", *answers[0], "query"]
    for name in answers[0]:
        values = np.concatenate([columns[name] for columns in answers])
        assert [float(row[name]) for row in rows] == pytest.approx(values, rel=1e-12, nan_ok=True)
    points = [len(next(iter(columns.values()))) for columns in answers]
    assert [row["algorithm"] for row in rows] == [SMALL.names[0]] * points[0] + [SMALL.names[1]] * points[1]
    assert {row["query"] for row in rows} == {SMALL.query}
