"""`assert_bound`: right bounds pass, wrong ones fail with a counterexample that is right and simple."""

import re
import subprocess
import sys

import hypothesis
import numpy as np
import pytest

import sgdtheory as st

bach_moulines = st.bounds.bach_moulines_2013
PLAIN = st.testing.settings(st.testing.problems(power_laws=False), most_steps=1e4)


def without_fourth_moment(problem, *, batch_size, learning_rate, num_samples):
    """Noise and start of averaged SGD, as if `x xᵀ` were H: wrong by the noise of the features."""
    eigenvalues, signal = problem.directions()
    start = (signal / eigenvalues).sum() / (learning_rate * num_samples / batch_size)
    return start + problem.noise_variance * eigenvalues.size / num_samples


def failure(bound, **options):
    with pytest.raises(AssertionError) as caught:
        st.testing.assert_bound(bound, settings=PLAIN, **options)
    return str(caught.value)


def number(text, after):
    return float(re.search(rf"{after} ([\d.e+-]+)", text)[1])


def test_a_published_bound_holds():
    st.testing.assert_bound(bach_moulines, max_examples=200)


def test_theorem_7_holds_up_to_a_factor_of_8_and_no_better_than_1_5():
    st.testing.assert_bound(st.bounds.zhang_2024, within=8, max_examples=150)
    with pytest.raises(AssertionError, match="exact/bound = .*, (above|below)"):
        st.testing.assert_bound(st.bounds.zhang_2024, within=1.2)


def test_a_wrong_bound_is_caught_and_shrunk():
    """Negative control: a true shape with a false constant, and a counterexample of one direction."""
    text = failure(without_fourth_moment)
    assert "LeastSquares(eigenvalues=[1.0], " in text
    assert "B = 1" in text
    assert number(text, "exact/bound =") > 1


def test_the_counterexample_is_worked_out_by_hand():
    """Two steps in one direction: what the message computes is the exact risk."""
    text = failure(
        lambda problem, **run: np.where(run["num_samples"] > run["batch_size"], 0.01, 2) * problem.initial_risk
    )
    assert "B = 1, γ = 0.3, D = 2 (2 steps)" in text
    assert "r_1 = (1 − γλ)² r_0 + (γλ)²/B (2 r_0 + σ²) = 0.67 " in text
    assert text.endswith("= 0.7675")
    assert number(text, "exact risk") == 0.7675


def exact(factor, **given):
    """The risk times a factor, as a bound."""
    return lambda problem, **run: factor * st.excess_risk(problem, **run, **given).total


def test_what_is_worked_out_by_hand_is_the_exact_risk_with_noise_too():
    setting = st.Setting(st.LeastSquares([0.7], [0.3], 0.4), 3, 0.5, 6)
    with pytest.raises(AssertionError) as caught:
        st.testing.assert_bound(exact(0.5), settings=hypothesis.strategies.just(setting), max_examples=4)
    text = str(caught.value)
    assert "exact/bound = 2, above 1" in text
    by_hand = float(text.rpartition("= ")[2])
    assert by_hand == pytest.approx(st.excess_risk(*setting[:1], **setting.run).total, rel=1e-9)
    assert number(text, "exact risk") == by_hand


def test_which_side_of_its_limits_a_ratio_is_on():
    both = {"within": 1.5, "settings": PLAIN, "max_examples": 20}
    st.testing.assert_bound(exact(1.4), **both)
    for factor, side in ((0.5, "exact/bound = 2, above 1.5"), (2.0, "exact/bound = 0.5, below 0.6666666667")):
        with pytest.raises(AssertionError, match=re.escape(side)):
            st.testing.assert_bound(exact(factor), **both)


def test_one_step_of_all_workers_is_asked_about():
    workers = st.Algorithm(st.LocalSGD(4, 2))
    one = hypothesis.strategies.just(st.Setting(st.LeastSquares([1.0], [1.0], 0.5), 3, 0.2, 12))
    with pytest.raises(AssertionError, match=r"D = 12 \(1 steps\)"):
        st.testing.assert_bound(exact(0.5, algorithm=workers), algorithm=workers, settings=one, max_examples=2)


def test_many_workers_are_asked_about_and_their_steps_counted():
    """Local SGD is worse than as many steps of SGD with all its samples a step, by the workers' drift."""

    def all_at_once(problem, *, batch_size, **run):
        return st.excess_risk(problem, batch_size=4 * batch_size, **run).total

    text = failure(all_at_once, algorithm=st.Algorithm(st.LocalSGD(4, 8)))
    samples, steps = re.search(r"B = 1, .* D = (\d+) \((\d+) steps\)", text).groups()
    assert int(samples) == 4 * int(steps)


def test_both_sides_and_parts():
    halves = lambda problem, **run: st.excess_risk(problem, **run).total / 2  # noqa: E731
    st.testing.assert_bound(halves, upper=2.0, lower=2.0 - 1e-6, settings=PLAIN, max_examples=50)
    assert number(failure(halves, lower=2.1), "exact/bound =") == pytest.approx(2.0)
    assert "of the bias alone" in failure(lambda problem, **run: 1e-9, quantity="bias")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within": 0.5}, "within must be at least 1 and stand alone"),
        ({"within": 2, "upper": 1}, "within must be at least 1 and stand alone"),
        ({"upper": 1.0, "lower": 2.0}, "lower must be at least 0 and below upper, got lower=2 and upper=1"),
        ({"lower": -1.0}, "lower must be at least 0"),
    ],
)
def test_bad_limits(options, message):
    with pytest.raises(ValueError, match=message):
        st.testing.assert_bound(bach_moulines, **options)


@pytest.mark.parametrize("bound", [st.bounds.zhang_2024, st.theorem7, st.bounds.wu_2022])
def test_an_order_needs_a_factor(bound):
    with pytest.raises(ValueError, match="say within= which"):
        st.testing.assert_bound(bound)


def test_a_bound_that_is_never_asked_does_not_pass():
    short = st.testing.settings(st.testing.problems(power_laws=False), most_steps=1000)
    with pytest.raises(ValueError, match="at none of 10 settings: pass settings="):
        st.testing.assert_bound(st.bounds.wu_2022, upper=2.0, settings=short, max_examples=10)
    with pytest.raises(ValueError, match="at none of 10 settings"):
        st.testing.assert_bound(lambda problem, **run: np.inf, settings=PLAIN, max_examples=10)


def of_numbers(problem, *, batch_size, learning_rate, num_samples):
    """Written for numbers: arrays of B, γ and n are ambiguous in `if`."""
    factor = 0.5 if num_samples > 1000 * batch_size else 2.0
    return (
        factor
        * st.excess_risk(problem, batch_size=batch_size, learning_rate=learning_rate, num_samples=num_samples).total
    )


def of_numbers_by_chance(problem, *, batch_size, learning_rate, num_samples):
    """Written for numbers: of arrays it returns one number, the least of all."""
    risk = st.excess_risk(problem, batch_size=batch_size, learning_rate=learning_rate, num_samples=num_samples).total
    return 1.5 * np.min(risk)


def test_a_bound_that_is_written_for_numbers_is_called_with_numbers():
    st.testing.assert_bound(of_numbers_by_chance, max_examples=30)
    text = failure(of_numbers)
    assert number(text, "exact/bound =") == pytest.approx(2.0)
    assert number(text, "D =") > 1000


def test_an_error_of_the_bound_is_its_own():
    def broken(problem, **run):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        st.testing.assert_bound(broken, max_examples=30)


def without_the_small_eigenvalues(problem, *, batch_size, learning_rate, num_samples):
    """2σ² max{k*, 1}/D, without (nγ)² Σ λ_i² of the directions behind k*: false with 30 equal eigenvalues."""
    learnt = problem.count_above(batch_size / (learning_rate * num_samples))
    return 2 * problem.noise_variance * np.maximum(learnt, 1) / num_samples


def test_a_bound_that_is_false_with_many_directions_alone_is_caught():
    settings = st.testing.settings(st.testing.problems(largest_dim=30))
    with pytest.raises(AssertionError, match=r"eigenvalues=\[1.0\] \* \d\d, "):
        st.testing.assert_bound(without_the_small_eigenvalues, quantity="variance", settings=settings)


def test_a_bound_that_needs_finitely_many_directions_fails_with_its_own_error():
    def finite(problem, **run):
        return problem.directions()[0].sum() * 1e9 * np.ones(np.shape(run["num_samples"]))

    with pytest.raises(ValueError, match="no list of directions") as caught:
        st.testing.assert_bound(finite, max_examples=60)
    assert any("problems(power_laws=False)" in note for note in caught.value.__notes__)


CORNERS = {
    "close eigenvalues": lambda problem, run: np.any(problem.directions()[0][1:] >= 0.99 * problem.largest_eigenvalue),
    "large batches": lambda problem, run: run["batch_size"] >= 100,
    "many steps": lambda problem, run: run["num_samples"] / run["batch_size"] >= 1e6,
    "near the edge": lambda problem, run: share_of_edge(problem, run) > 0.985,
    "other units": lambda problem, run: problem.largest_eigenvalue > 50,
    "many directions": lambda problem, run: problem.dim > 4,
}


def share_of_edge(problem, run):
    limit = problem.largest_eigenvalue
    return run["learning_rate"] * (limit + (problem.trace + limit) / run["batch_size"])


@pytest.mark.parametrize("name", CORNERS)
def test_what_is_wrong_in_a_corner_alone_is_found(name):
    """Twice the risk, but a sixth too small there."""

    def wrong(problem, **run):
        return st.excess_risk(problem, **run).total * np.where(CORNERS[name](problem, run), 1 / 1.2, 2)

    settings = st.testing.settings(st.testing.problems(power_laws=False))
    with pytest.raises(AssertionError, match="exact/bound = 1.2"):
        st.testing.assert_bound(wrong, settings=settings)


@pytest.mark.parametrize("name", ["assert_bound", "problems"])
def test_without_hypothesis_it_says_what_to_install(name):
    code = f"import sys; sys.modules['hypothesis'] = None; import sgdtheory as st; st.testing.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().splitlines()[-1].endswith("pip install 'hypothesis>=6.130' (extra [testing])")
