"""Quick runs of equivalents and over finite samples: their risks and stated errors are those that were kept."""

import numpy as np
import pytest

import sgdtheory as st
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


# What the records have not, or with other factors: steps, and bias, variance and stated error as they were when all
# equivalents had been compared with simulations.
SIX = st.LeastSquares(np.arange(1.0, 7) ** -1.2, 0.5 * np.arange(1.0, 7) ** -1.6, 0.1)
SHORT = st.Linear(), st.LastIterate()
TAIL = st.Constant(), st.TailAverage(0.5)
OTHERS = [
    (st.SignSGD(0.8), SHORT, 12, (0.21646443562675677, 0.022610927899566046, 0.05486956735877159)),
    (st.SignSGD(0.8), TAIL, 40, (0.00021344919528951505, 0.023354208271412165, 0.5158983521067881)),
    (st.Lion(0.9, 0.99), SHORT, 12, (0.2651339378447407, 0.0185548857469775, 0.07454317922614745)),
    (st.Lion(0.5, 0.8), TAIL, 40, (0.00026618516517527336, 0.016592219915119135, 0.11088266663441357)),
    (st.Adam(0.9, 0.99, epsilon=0.3), SHORT, 12, (0.5185430987343835, 0.012479961395100297, 0.07975322229190529)),
    (st.Adam(0.9, 0.99, epsilon=0.3), TAIL, 40, (0.06291443998292293, 0.017732471975306117, 0.2811820265290281)),
    (st.Adam(0.5, 0.9, weight_decay=0.1), TAIL, 40, (0.013065431897891134, 0.00840755082621902, 0.19562445398491085)),
    (st.SignSGD(basis="random"), TAIL, 40, (0.022274663223259605, 0.01837805442783188, 0.04418526137545424)),
    (st.SignSGD(0.7, basis="random"), SHORT, 12, (0.22422139733674876, 0.022833602365914536, 0.1558258181146894)),
    (st.Adam(0.9, 0.99, basis="random"), SHORT, 12, (0.31501399355465376, 0.035880565936220014, 0.15865081926422744)),
    (
        st.Adam(0.5, 0.9, epsilon=0.2, basis="random"),
        TAIL,
        40,
        (0.08087230933307027, 0.00842097910999738, 0.15525005255673083),
    ),
    (st.Lion(0.9, 0.95, basis="random"), TAIL, 40, (0.03373733768216905, 0.06792188378590888, 0.22712023707158596)),
]


LONG = 1500  # steps, on panels
PANELS = 2e-4  # of a risk, by which panels may differ
COSINE = st.Cosine(), st.TailAverage(0.5)
OTHERS += [
    (st.SignSGD(), SHORT, LONG, (8.308836150113596e-07, 0.0004856364316575601, 0.002070604489015743)),
    (st.SignSGD(0.8), COSINE, LONG, (2.7594201343985887e-18, 0.0003778895785990312, 0.030544159033194938)),
    (st.Lion(0.9, 0.99), COSINE, LONG, (7.778666770834312e-09, 0.0004279754097680211, 0.5732646508650898)),
    (st.Adam(0.9, 0.99), COSINE, LONG, (1.6900146970728874e-07, 0.00031099489365971696, 0.0090310495141076)),
    (st.NormalizedSGD(), SHORT, LONG, (0.0030343584739697007, 0.00024991364081114746, 0.005428392623013468)),
    (st.SignSGD(basis="random"), SHORT, LONG, (5.809037094858577e-05, 0.0005151400699733028, 0.022541395472280942)),
]


@pytest.mark.parametrize(("method", "rest", "steps", "kept"), OTHERS, ids=lambda value: str(value)[:40])
def test_methods_without_a_record_are_as_they_were(method, rest, steps, kept):
    """With a tenth of γ where steps are many."""
    setting = {"batch_size": 3, "learning_rate": 0.006 if steps == LONG else 0.06, "num_samples": 3 * steps}
    found = st.excess_risk(SIX, **setting, algorithm=st.Algorithm(method, rest[0], average=rest[1]))
    allowed = (PANELS if steps == LONG else EQUIVALENT) * (kept[0] + kept[1])
    assert (found.bias, found.variance) == pytest.approx(kept[:2], rel=0, abs=allowed)
    assert found.relative_error == pytest.approx(kept[2], rel=STATED)
