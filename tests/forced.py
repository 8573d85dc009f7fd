"""Thresholds that leave segments to one solver wherever it can be used, so that tests can compare the solvers."""

from sgdtheory.risk import moved_thresholds

NEVER = 1e9  # A threshold that no run of a test exceeds.

# Name in PROPAGATORS → thresholds. A new solver needs its own line, and its threshold in the lines of those that it
# takes segments from; `test_every_solver_has_its_pair` fails until both are there.
FORCED = {
    "steps": {"few_steps": NEVER, "short_smooth": NEVER, "rounds_by_steps": NEVER, "delayed_by_steps": NEVER},
    "constant": {"few_steps": 0, "delayed_by_steps": 0},
    "rounds": {"rounds_by_steps": 0, "few_rounds": 0},
    "smooth": {"short_smooth": 0, "short_oscillating": 0},
}


def forced(solver):
    """Return a context in which segments are propagated by this solver wherever it can be used."""
    return moved_thresholds(**FORCED[solver])
