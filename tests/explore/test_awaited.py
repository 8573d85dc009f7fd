"""Missing and changed answers: no old number appears beside a new name."""

import sgdtheory as st
from sgdtheory.explore.ledger import Ledger
from sgdtheory.explore.registry import JOBS
from sgdtheory.explore.signals import awaited
from sgdtheory.explore.state import State
from sgdtheory.explore.texts import rates, readings, results

RUN, CRITICAL = ("run", 0), ("critical", 0)


def test_panels_that_are_awaited():
    ledger = Ledger()
    assert awaited(ledger) == ""
    ledger.begun(RUN, 1)
    assert awaited(ledger) == "path:stale rate:stale"
    assert ledger.admits(RUN, 1)
    assert awaited(ledger) == ""
    ledger.begun(RUN, 2)  # a slider has moved: what is drawn is of the older job
    ledger.begun(CRITICAL, 3)
    assert awaited(ledger) == "path:stale rate:stale risk:stale samples:stale"
    ledger.without_older(CRITICAL)  # it has been taken away
    assert awaited(ledger) == "path:stale rate:stale risk:empty samples:empty"
    assert not ledger.admits(CRITICAL, 2)
    assert awaited(ledger) == "path:stale rate:stale risk:empty samples:empty"
    assert ledger.ended(RUN, 2, whole=True)
    assert awaited(ledger) == "risk:empty samples:empty"


def test_a_panel_is_stale_if_either_algorithm_is():
    ledger = Ledger()
    for slot in (1, 0):
        ledger.begun(("critical", slot), slot)
    ledger.without_older(("critical", 0))
    assert awaited(ledger) == "risk:stale samples:stale"


def test_numbers_that_changed_are_marked():
    now = {("path", 0): {"total": 2.0, "bias": 1.0}}
    before = {("path", 0): {"total": 3.0, "bias": 1.0}}
    text = readings(["sgd"], now, before=before)
    assert 'class="changed" data-name="path-total-0"' in text
    assert text.count('class="changed"') == 1
    assert 'class="changed"' not in readings(["sgd"], now, pale=[("path", 0)], before=before)
    assert 'class="changed"' not in readings(["sgd"], now)  # the first numbers of a page


def test_tables_of_results_are_those_of_the_library():
    """Each under the name of its algorithm, without those of an earlier position of a slider."""
    told = []
    for name in ("run", "critical"):
        JOBS[name].compute(State(num_samples=1e3), 0, told.append)
    sheets = {(answer.panel, 0): answer.sheets for answer in told}
    problem, batch_size = State().problem, State().batch_size
    critical = st.critical_batch_size(problem, num_samples=1e3)
    rate = float(st.optimal_learning_rate(problem, batch_size=batch_size, num_samples=1e3).learning_rate)
    risk = st.excess_risk(problem, batch_size=batch_size, learning_rate=rate, num_samples=1e3)
    text = results(["sgd & co"], sheets)
    assert "<h3>sgd &amp; co</h3>" in text
    assert critical._repr_html_() in text
    assert risk._repr_html_() in text
    assert critical._repr_html_() not in results(["sgd"], sheets, pale=[("samples", 0)])
    assert results([], sheets) == ""


def test_rates_in_force():
    """The used learning rates are those of linear algorithms, whose γ has the slider's units, in this state."""
    state = State(first="sgd", second="sign")
    marks = {("path", slot): {"learning_rate": 0.5 + slot} for slot in range(2)}
    assert rates(state, marks, set()) == [0.5]
    assert rates(state, marks, {("path", 0)}) == []
    assert rates(state, {}, set()) == []
