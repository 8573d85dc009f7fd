"""Independent pieces of work on all cores."""

import contextlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from experiments._lib.interruption import hidden_from_children
from experiments._lib.progress import listening, report, tracked

TELL_SECONDS = 0.2  # between what a process says about how far it is


class WorkerError(Exception):
    """A process died."""


def map_on_cores(function: Callable[[Any], Any], items: Iterable[Any], processes: int | None = None) -> list[Any]:
    """`[function(item) for item in items]`, in as many fresh processes as there are cores; with 1, in this one.

    Processes are killed when this returns, by an error or by Ctrl-C as well: none outlives it, none is waited for.

    Raises:
        WorkerError: a process died.
    """
    items = list(items)
    number = min(processes or _cores(), len(items))
    if number < 2:
        return [function(item) for item in tracked(items)]
    found: dict[int, Any] = {}
    with _workers(number, function) as connections:
        for place, value in _answers(connections, items):
            found[place] = value
    return [found[place] for place in range(len(items))]


def _answers(connections: list[Connection], items: list[Any]) -> Iterator[tuple[int, Any]]:
    """(place, value) of every item, as they come; reports how far they all are."""
    left = iter(range(len(items)))
    working: dict[Connection, int] = {}
    shares = [0.0] * len(items)

    def give(connection: Connection) -> None:
        if (place := next(left, None)) is not None:
            connection.send(items[place])
            working[connection] = place

    for connection in connections:
        give(connection)
    while working:
        report(sum(shares) / len(shares))
        for connection in wait(list(working), TELL_SECONDS):  # Ctrl-C is looked for in between
            assert isinstance(connection, Connection)
            kind, content = _received(connection)
            if kind == "share":
                shares[working[connection]] = content
            elif kind == "error":
                raise content
            else:
                place = working.pop(connection)
                shares[place] = 1.0
                give(connection)
                yield place, content
    report(1.0)


def _received(connection: Connection) -> tuple[str, Any]:
    try:
        return connection.recv()
    except (EOFError, ConnectionResetError):
        raise WorkerError("a worker process died, out of memory perhaps") from None


@contextlib.contextmanager
def _workers(number: int, function: Callable[[Any], Any]) -> Iterator[list[Connection]]:
    """Connections to processes that answer an item with ("value", function(item)) or ("error", an exception).

    Before that they may say ("share", how much of it is done).
    """
    context = multiprocessing.get_context("spawn")  # threads of other libraries do not survive a fork
    processes, connections = [], []
    try:
        for _ in range(number):
            mine, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            with hidden_from_children():
                process.start()
            theirs.close()  # so that the end of the process is the end of the connection
            processes.append(process)
            connections.append(mine)
        for connection in connections:
            connection.send(function)
        yield connections
    finally:
        for process in processes:
            process.kill()
        for process, connection in zip(processes, connections, strict=False):
            process.join()
            connection.close()


def _work(connection: Connection) -> None:
    """Run in a process: the function first, then items until the other end is closed."""
    function = connection.recv()
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        told = time.perf_counter()

        def tell(stage: str, share: float) -> None:
            nonlocal told
            if time.perf_counter() - told > TELL_SECONDS:
                connection.send(("share", share))
                told = time.perf_counter()

        try:
            with listening(tell):
                answer = "value", function(item)
        except Exception as error:
            error.add_note(traceback.format_exc())  # a traceback does not travel
            answer = "error", error
        connection.send(answer)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
