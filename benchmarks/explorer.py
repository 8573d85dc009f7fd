"""Speed of the explorer: `python -m benchmarks.explorer [--repeats 5] [--no-browser] [--toy]`.

What its page computes, as its workers do, for problems that were never seen before, as when a slider moves; and, where
there is a Chromium and the `[test]` extra, what a visitor waits for from a key press to another number on the page.
"""

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
from rich.console import Console
from rich.table import Table

from sgdtheory.explore import JOBS, State

GOALS = {"risks": 0.15, "B*": 0.5}  # seconds
RISKS = {"risk, loss curve": "run", "risk against γ": "rates", "R(D, B)": "tuned"}
LONG = 2.0  # seconds: what takes longer is not repeated
UNSEEN = 1e-7  # by which a problem's exponent differs from the one before
PROBLEMS = {
    "2, 3": State(),
    "1.2, 2": State(capacity=1.2, source=2.0),
    "1.5, 6": State(capacity=1.5, source=6.0),
    "2, 3, M = 64": State(num_features=64),
    "2, 3, D = 1e12": State(num_samples=1e12),
}
OTHERS = (
    "last",
    "tail",
    "linear last",
    "cosine last",
    "heavy-ball momentum=0.9",
    "sign linear last",
)  # of the first problem
PRESSED = {  # key press on a slider → numbers that change with it, by their names on the page
    "source": {"risk": "path-total-0", "B*": "samples-batch_size-0"},
    "learning_rate": {"risk": "path-total-0"},
}
FROM = "a=2&b=3&rate=0.1"
PRESSED_OTHERS = {"source": {"risk": "path-total-0", "B* to 1%": "samples-batch_size-0"}}
LONGEST = 60.0  # seconds that a number is waited for
WATCH = """names => { window.seen = new Promise(resolve => {
    const page = document.querySelector(".readings").shadowRoot, found = {};
    const value = name => page.querySelector(`[data-name="${name}"], [data-about="${name}"]`)?.dataset.value;
    const before = Object.fromEntries(names.map(name => [name, value(name)]));
    addEventListener("keydown", () => {
        const start = performance.now();
        const look = () => {
            for (const name of names)
                if (!(name in found) && value(name) !== undefined && value(name) !== before[name])
                    found[name] = (performance.now() - start) / 1000;
            const late = performance.now() - start > LONGEST;
            if (names.every(name => name in found) || late) resolve(found); else requestAnimationFrame(look);
        };
        look();
    }, { once: true, capture: true });
}); return true; }""".replace("LONGEST", f"{1000 * LONGEST:g}")


def main(argv: Sequence[str] | None = None) -> None:
    """Print one table of what is computed, one of what a visitor waits for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="times that each is computed, or a key pressed")
    parser.add_argument("--no-browser", action="store_true", help="only what is computed")
    parser.add_argument("--toy", action="store_true", help="a rehearsal: little data, one other algorithm")
    arguments = parser.parse_args(argv)
    console = Console(width=120)
    console.print(computed_table(arguments.repeats, arguments.toy))
    if not arguments.no_browser:
        missing = why_no_browser()
        pressed = (
            f"The page itself is not timed: {missing}." if missing else pressed_table(arguments.repeats, arguments.toy)
        )
        console.print(pressed)


def goals() -> str:
    """Return the goals in words."""
    return ", ".join(f"{what} {1000 * seconds:g} ms" for what, seconds in GOALS.items())


def milliseconds(seconds: float) -> str:
    """Without digits that mean nothing."""
    if np.isnan(seconds):
        return f"more than {1000 * LONGEST:,.0f}"
    return f"{1000 * seconds:,.0f}" if seconds >= 0.01 else f"{1000 * seconds:.1f}"


def computed_table(repeats: int, toy: bool = False) -> Table:
    """Medians of each computation, a row a problem and an algorithm."""
    rows = list(PROBLEMS.items())
    first, state = rows[0]
    rows += [(first, replace(state, first=each)) for each in OTHERS]
    if toy:
        rows = [("2, 3, D = 1e3", replace(state, num_samples=1e3, first=each)) for each in ("sgd", OTHERS[0])]
    table = Table(title=f"computed for the page, D = 1e6, ms, medians of one process (goals: {goals()})")
    for header in ("a, b", "algorithm", *RISKS, "B*", "B*, its curve"):
        table.add_column(header, justify="left" if header in ("a, b", "algorithm") else "right")
    slowest = dict.fromkeys(GOALS, 0.0)
    for name, state in rows:
        risks = [times(JOBS[each].compute, state, repeats)[1] for each in RISKS.values()]
        found = times(JOBS["critical"].compute, state, repeats)
        table.add_row(name, state.names[0], *map(milliseconds, risks), *map(milliseconds, found))
        if state.quick(0):
            slowest = {"risks": max(slowest["risks"], *risks), "B*": max(slowest["B*"], found[0])}
    table.caption = f"slowest of averaged SGD: {', '.join(f'{k} {milliseconds(v)} ms' for k, v in slowest.items())}"
    table.caption += f"; {os.cpu_count()} cores"
    return table


def times(computation: Callable[..., None], state: State, repeats: int) -> tuple[float, float]:
    """Median seconds to the first answer and to the last; the first call, which compiles, is not counted."""
    found: list[tuple[float, float]] = []
    for repeat in range(repeats + 1):
        unseen = replace(state, capacity=state.capacity + UNSEEN * (1 + repeat))
        told: list[float] = []

        def tell(answer: object, told: list[float] = told) -> None:
            told.append(time.perf_counter())

        start = time.perf_counter()
        computation(unseen, 0, tell)
        found.append((told[0] - start, time.perf_counter() - start))
        if repeat and found[-1][1] > LONG:
            return found[-1]
    first, last = np.median(found[1:], axis=0)
    return float(first), float(last)


def why_no_browser() -> str:
    """Why nothing can be pressed here; empty where it can."""
    try:
        from playwright import sync_api as _  # noqa: F401

        from tests.explore.conftest import CHROMIUM
    except ImportError as error:
        return f"{error.name} is not installed (the [test] extra)"
    return "" if CHROMIUM else "there is no Chromium"


def pressed_table(repeats: int, toy: bool = False) -> Table:
    """Medians from a key press on a slider to each number that changes."""
    from playwright.sync_api import sync_playwright

    from tests.explore.conftest import CHROMIUM, Server, Visit

    table = Table(title="from a key press to another number, ms", caption=f"a = 2, b = 3, D = 1e6; goals: {goals()}")
    for header in ("algorithm", "slider", "number", "median", "slowest"):
        table.add_column(header, justify="right" if header in ("median", "slowest") else "left")
    server = Server()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for algorithm in ("sgd", *(OTHERS[:1] if toy else OTHERS)):
                visit, default = Visit(browser, f"{server.url}?{FROM}&first={quote(algorithm)}"), algorithm == "sgd"
                for slider, numbers in (PRESSED if default else PRESSED_OTHERS).items():
                    found = [pressed(visit, slider, numbers, default) for _ in range(repeats + 1)][1:]
                    for number in numbers:
                        seconds = np.array([each[number] for each in found])
                        told = milliseconds(np.median(seconds)), milliseconds(seconds.max())
                        table.add_row(algorithm, slider, number, *told)
                visit.close()
            browser.close()
    finally:
        server.close()
    return table


def pressed(visit: Any, slider: str, numbers: Mapping[str, str], wait: bool) -> dict[str, float]:
    """Press a key when its numbers are there, exact: seconds to each number; nan where it did not change.

    The growth of B* takes other algorithms long, and may still be computed then, as for a visitor who moves on.
    """
    if wait:
        visit.wait_for_text("status", "Ready")
    for name in numbers.values():
        visit.number(name)
    visit.page.evaluate(WATCH, list(numbers.values()))
    visit.press(slider)
    seconds = visit.page.evaluate("window.seen")
    return {number: seconds.get(name, np.nan) for number, name in numbers.items()}


if __name__ == "__main__":
    main()
