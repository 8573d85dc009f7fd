"""Single steps of equivalents in a compiled loop are those in NumPy."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk.mean_field.ensemble import ensemble, steepest
from sgdtheory.risk.mean_field.registry import field_of
from sgdtheory.risk.mean_field.solver import MeanField
from sgdtheory.risk.systems.moments import Keeping

PROBLEM = st.PowerLaw(1.8, 2.4, dim=200, noise_variance=0.5)


@pytest.mark.parametrize(
    ("method", "batch", "forgetting", "weight", "factors"),
    [
        (st.Lion(), 20, 0.0, 0.0, (1.0,)),
        (st.SignSGD(0.9), 3, 0.02, 0.02, (0.5, 1.0, 1.1, 1.5, 2.0)),  # more runs than a loop has room for
        (st.Adam(0.9, 0.95, 0.1, weight_decay=0.5), 8, 0.0, 1.0, (1.0, 1.3)),
    ],
    ids=["Lion", "signs, exponential average", "Adam, mean"],
)
def test_compiled_steps(method, batch, forgetting, weight, factors):
    field = field_of(method)
    course = Course(st.Algorithm(method, st.Cosine()), batch, 0.01, 300.0)
    modes = ensemble(PROBLEM, 6.0, steepest(PROBLEM, batch))
    in_numpy, compiled = (MeanField(modes, field, course, True, factors, rough) for rough in (False, True))
    keeping = Keeping(forgetting, weight)
    expected, found = (run.stepped(run.start(), keeping, 0, 300) for run in (in_numpy, compiled))
    assert compiled.compiled_from < 300 < in_numpy.compiled_from
    for name, value, exact in zip(found._fields, found, expected, strict=True):
        np.testing.assert_allclose(value, exact, rtol=1e-9, atol=1e-12 * np.abs(exact).max(initial=0), err_msg=name)
