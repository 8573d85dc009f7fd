"""What stated errors of equivalents mean for the best γ and for B*, where the tuned risk is a formula of B and n."""

from types import SimpleNamespace

import numpy as np
import pytest

from sgdtheory.critical.definition import _solve_equivalent
from sgdtheory.critical.stated_errors import remark_on_errors, remark_on_rates
from sgdtheory.critical.step_lines import Line
from sgdtheory.critical.tuned_equivalent import Tuned
from sgdtheory.critical.useful_batches import Setting, Useful
from tests.critical.test_useful_batches import CLOSE, KnownRisk, alternating, least_step, wasteful

WRONG = "the deterministic equivalent is inaccurate here; simulate it"
SHAKEN = "single steps overshoot the optimum and return; simulate it"


class StatedRisk(KnownRisk):
    """A known risk with stated errors; `own` is the least that single steps leave unexplained."""

    def __init__(self, of, errors, own=None):
        super().__init__(of)
        self.errors = np.array(errors)
        self.asked = []
        self.field = own and SimpleNamespace(error=lambda steps, batch: own if (steps, batch) == (500.0, 24.0) else 9.0)

    def exact(self, batch, rate, steps):
        self.asked.append((batch.tolist(), rate.tolist(), steps.tolist()))
        return np.exp(self.of(batch, steps)), self.errors


def remark(errors, own=None, samples=1e4, largest=24.0):
    """The remark on R_opt = 1/500, where n steps leave 1/n with 12,400 samples."""
    tuned = StatedRisk(lambda b, n: -np.log(n), errors, own)
    settings = Setting(10.0, 1000.0, Tuned(0.1, 1 / 500)), Setting(largest, 500.0, Tuned(0.3, 1 / 500))
    line = Line(tuned, 12_400.0)
    for steps in (2.0, 30.0):
        line(np.log(steps))
    found = remark_on_errors(tuned, Useful(*settings, 24.8, 1.0, 40.0, False, line), samples)
    assert tuned.asked == [([10.0, largest], [0.1, 0.3], [1000.0, 500.0])]
    return found


def test_errors_of_both_risks_bound_the_critical_batch_size():
    """With a fourth more or less of it R_opt is what 400 and 625 steps leave: 12,400 samples are 31 and 19.8 a step."""
    begin = "the stated error of the risk at B* is 25%, that of the optimal risk 6%: "
    assert remark([0.06, 0.25]) == f"{begin}{WRONG}; B* lies between 19 and 30"
    assert remark([0.06, 0.25], own=0.26) == f"{begin}{WRONG}; B* lies between 19 and 30"
    assert remark([0.06, 0.25], own=0.24) == f"{begin}{SHAKEN}; B* lies between 19 and 30"
    assert remark([0.25, 0.06]).endswith("B* lies between 19 and 30")
    assert remark([0.06, 0.25], samples=28.0).endswith("between 19 and 28")
    assert remark([0.06, 0.25], largest=40.0).endswith("between 19 and 40")
    assert remark([0.06, 3.0]).startswith("the stated error of the risk at B* is a factor of 4,")
    assert remark([0.06, 3.0]).endswith("between 1 and 98")  # 125 steps leave four times as much


def test_errors_that_are_small_or_infinite():
    assert remark([0.049, 0.0]) == ""
    assert remark([0.05, 0.0]).startswith("the stated error of the risk at B* is 0%, that of the optimal risk 5%")
    said = "the stated error of the risk at {} is infinite, so B* is unknown; simulate it"
    places = {(np.inf, 0.2): "the optimum", (0.2, np.inf): "B*", (np.inf, np.inf): "the optimum and at B*"}
    for errors, place in places.items():
        assert remark(list(errors)) == said.format(place)


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ([0.049, 0.01], ""),
        ([0.05, 0.01], "the stated error of the risk at γ* is 5%, at batch_size 3 and 70 steps: "),
        ([0.1, 0.94], "the stated error of the risk at γ* is 94%, at batch_size 8 and 20 steps: "),
        ([0.1, 1.5], "the stated error of the risk at γ* is a factor of 2.5, at batch_size 8 and 20 steps: "),
        ([0.1], "the stated error of the risk at γ* is 10%: "),
        ([0.1, np.inf], "the stated error of the risk at γ* is infinite, at batch_size 8 and 20 steps; simulate it"),
    ],
)
def test_the_worst_learning_rate_is_told(errors, text):
    size = len(errors)
    tuned = SimpleNamespace(field=None)
    found = remark_on_rates(tuned, np.array([3.0, 8.0])[:size], np.array([70.0, 20.0])[:size], np.array(errors))
    assert found == text + (WRONG if text.endswith(": ") else "")


@pytest.mark.parametrize("samples", [120.0, 400.0])
def test_the_curve_of_an_equivalent(samples):
    """Risks with all samples, and the fewest steps to R_opt; one step that does is told."""
    of = alternating(wasteful(1.2, 0.5, 0.6))
    found = _solve_equivalent(StatedRisk(of, [0.0, 0.0]), samples, 0.2, 2.0, True)
    curve = found.curve
    sizes = curve.batch_size
    assert sizes[0] == 1
    assert sizes[-1] == round(min(10 * found.batch_size, samples / 2))
    assert len(sizes) <= 10
    with_all = np.floor(samples / sizes)
    np.testing.assert_allclose(np.log(curve.risk), of(sizes, with_all), rtol=1e-12)
    np.testing.assert_array_equal(curve.learning_rate, 1 / with_all)
    level = np.log(found.optimal_risk) + 1e-12
    expected = [least_step(of, size, level, 1e5, 1.0) for size in sizes.tolist()]
    np.testing.assert_allclose(curve.num_steps, expected, rtol=CLOSE, atol=1)
    np.testing.assert_array_equal(curve.learning_rate_needed, 1 / curve.num_steps)
    np.testing.assert_array_equal(curve.samples_needed, sizes * curve.num_steps)
    np.testing.assert_allclose(curve.overhead, sizes * curve.num_steps / samples - 1, atol=1e-15)
    assert (found.num_samples, found.overhead, found.risk_factor, found.remark) == (samples, 0.2, 2.0, "")
    assert found.learning_rate == 1 / found.num_steps
    assert found.optimal_learning_rate == 1 / np.floor(samples / found.optimal_batch_size)


def test_one_step_that_reaches_the_optimal_risk_is_told():
    tuned = StatedRisk(lambda b, n: np.where(n == 1, 0.1, 0.0) - np.log(b * n), [0.0, 0.1])
    found = _solve_equivalent(tuned, 99.0, 0.2, 2.0, False)
    assert found.remark.startswith("one step with 118.8 samples also reaches the optimal risk; B* is the largest batch")
    assert "; the stated error of the risk at B* is 10%" in found.remark
    assert found.curves == ()
