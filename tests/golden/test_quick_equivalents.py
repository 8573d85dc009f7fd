"""Quick runs of equivalents and over finite samples: their risks and stated errors are those that were kept."""

import numpy as np
import pytest

from tests.golden.files import FILES, read
from tests.golden.results import risk_results
from tests.golden.settings import NONLINEAR
from tests.golden.test_golden import EQUIVALENT

QUICK = 0.02  # seconds of processor time
REFITTED = "signum", "rotated"  # the factors of their stated errors have been fitted again since
STATED = 2e-3  # of a stated error: a factor of it that changes by 1% is noticed where it matters


def _cases():
    """Return the quick records that state an error which is not that of rounding."""
    for place, record in enumerate(read(FILES["risks"])):
        known = record["family"] in NONLINEAR or "samples" in record["problem"]
        if known and record["seconds"] < QUICK and 1e-4 < record["results"]["relative_error"] < np.inf:
            yield pytest.param(record, id=f"{place}-{record['family']}")


@pytest.mark.parametrize("record", list(_cases()))
def test_risks_and_stated_errors_are_those_that_were_kept(record):
    kept, found = record["results"], risk_results(record)
    for prefix in [name.removesuffix("bias") for name in kept if name.endswith("bias")]:
        bias, variance, error = (
            np.array([each[prefix + name] for each in (found, kept)], dtype=float)
            for name in ("bias", "variance", "relative_error")
        )
        for part in (bias, variance):
            here, there = part / (bias + variance)[1]
            np.testing.assert_allclose(here, there, rtol=0, atol=EQUIVALENT)
        if record["family"] not in REFITTED:
            np.testing.assert_allclose(error[0], error[1], rtol=STATED, atol=1e-8)
