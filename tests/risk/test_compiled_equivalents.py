"""Single steps of equivalents in a compiled loop are those in NumPy."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import PanelMemory, run_risks
from sgdtheory.risk.mean_field.ensemble import ensemble, steepest
from sgdtheory.risk.mean_field.registry import field_of
from sgdtheory.risk.mean_field.solver import MeanField
from sgdtheory.risk.systems.moments import Keeping
from tests.marks import slow

PROBLEM = st.PowerLaw(1.8, 2.4, dim=200, noise_variance=0.5)


@pytest.mark.parametrize(
    ("method", "rate", "batch", "forgetting", "weight", "factors"),
    [
        (st.Lion(), 0.01, 20, 0.0, 0.0, (1.0,)),
        (st.Lion(), 0.01, 20, 0.0, 1.0, (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0)),  # one more than fits in a loop
        (st.SignSGD(0.9), 0.01, 3, 0.02, 0.02, (0.5, 1.0, 1.1, 1.5, 2.0)),  # fewer, but most of those
        (st.Adam(0.9, 0.95, 0.1, weight_decay=0.5), 0.01, 8, 0.0, 1.0, (1.0, 1.3)),
        (st.NormalizedSGD(), 0.3, 500, 0.0, 0.0, (1.0,)),  # some directions jump to and fro
        (st.NormalizedSGD(), 0.03, 20, 0.02, 0.02, (0.5, 1.0)),
    ],
    ids=[
        "Lion",
        "nine runs of Lion",
        "signs, exponential average",
        "Adam, mean",
        "normalized",
        "normalized, exponential average",
    ],
)
def test_compiled_steps(method, rate, batch, forgetting, weight, factors):
    """Compiled steps of normalized SGD do not leave out the nodes beyond the end of its integrals, e^−14 of them."""
    field = field_of(method)
    course = Course(st.Algorithm(method, st.Cosine()), batch, rate, 300.0)
    modes = ensemble(PROBLEM, 6.0, steepest(PROBLEM, batch))
    in_numpy, compiled = (MeanField(modes, field, course, True, factors, rough) for rough in (False, True))
    keeping = Keeping(forgetting, weight)
    expected, found = (run.stepped(run.start(), keeping, 0, 300) for run in (in_numpy, compiled))
    assert compiled.compiled_from < 300 < in_numpy.compiled_from
    for name, value, exact in zip(found._fields, found, expected, strict=True):
        close = 1e-6 if isinstance(method, st.NormalizedSGD) else 1e-9
        nothing = 1e-3 * close * np.abs(exact).max(initial=0)
        np.testing.assert_allclose(value, exact, rtol=close, atol=nothing, err_msg=name)


@pytest.mark.parametrize(
    ("method", "batch", "steps", "rate"),
    [(st.Lion(), 150, 7972, 2.55e-4), slow(st.NormalizedSGD(), 250, 4000, 0.47)],
)
def test_runs_that_remember_the_panels_of_the_run_before(method, batch, steps, rate, monkeypatch):
    """Their risks are those of other runs to what a search settles, and they try fewer panels."""
    problem = st.PowerLaw(2.0, 3.0)
    algorithm = st.Algorithm(method, st.Linear(), average=st.LastIterate())
    tried = []
    panel = MeanField._panel
    monkeypatch.setattr(MeanField, "_panel", lambda *arguments: tried.append(1) or panel(*arguments))
    memory = PanelMemory()
    counts = []
    # The rates and numbers of steps of a search: first far apart, then close, then another number of steps.
    for factor, number in ((1.0, steps), (1.3, steps), (1.02, steps), (1.01, steps), (1.0, steps + 40)):
        setting = (np.array([float(batch)]), np.array([rate * factor]), np.array([float(number)]))
        options = {"rounded": False, "tolerance": 1e-5, "estimate": False}
        found = []
        for kept in (memory, None):
            tried.clear()
            found.append(run_risks(problem, algorithm, *setting, memory=kept, **options).parts.sum())
            counts.append(len(tried))
        assert found[0] == pytest.approx(found[1], rel=3e-4)
    # Even places are runs with a memory: the last two found all of their panels in it.
    assert counts[6] <= counts[7]
    assert counts[8] <= counts[9]
    assert counts[6] + counts[8] < 0.8 * (counts[7] + counts[9])
