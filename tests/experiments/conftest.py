"""Small experiments run in the process of the tests: a fresh process imports and compiles for longer than they run."""

import pickle
from collections.abc import Iterable, Iterator

import pytest

from experiments._lib import processes
from experiments._lib.progress import tracked

IN_PROCESSES = "test_processes", "test_interruption", "test_experiment_progress"  # They test the processes themselves.


def as_sent(items: Iterable) -> Iterator:
    """Yield each item as another process receives it, so that what cannot be sent to one is an error here too."""
    for item in tracked(list(items)):
        yield pickle.loads(pickle.dumps(item))


@pytest.fixture(scope="module", autouse=True)
def _one_process(request):
    """Let `map_on_cores` see one core, but where processes themselves are tested."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__.rpartition(".")[2] not in IN_PROCESSES:
            patch.setattr(processes, "_cores", lambda: 1)
            patch.setattr(processes, "tracked", as_sent)
        yield
