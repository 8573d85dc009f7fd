"""A server of the explorer in a process of its own, and a real browser, where there is one."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 120_000  # ms: many times what anything takes, on a slow machine too


class Server:
    """`sgdtheory explore` as a user starts it.

    Attributes:
        url: of the page.
        log: all that it has printed, line by line.
    """

    def __init__(self, *flags):
        command = [sys.executable, "-m", "sgdtheory", "explore", "--no-browser", *flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"PYTHONUTF8": "1"}
        )
        self.log = [self.process.stdout.readline()]
        found = re.search(r"http://\S+", self.log[0])
        assert found, f"an address, got {self.log[0] + self.process.stdout.read()}"
        self.url = found.group()
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.reader.join(30)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def server():
    """One for all tests of a worker."""
    own = Server()
    yield own
    own.close()


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


# Keeps in `waited` each state in which a panel has been while it waited for numbers, as "panel-samples:stale", and
# "panel-samples:come" once they are there.
WAITED = """window.waited = [];
new MutationObserver((changes) => {
  for (const { target } of changes) waited.push(target.id + ":" + (target.dataset.waiting ?? "come"));
}).observe(document, { subtree: true, attributeFilter: ["data-waiting"] });"""


class Visit:
    """A page in the browser, and what went wrong on it."""

    def __init__(self, browser, url, width=1280, height=900):
        self.context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.add_init_script(WAITED)
        self.errors = []
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(url)

    def number(self, name):
        """The number that the page shows under this name, `path-total-0`; waits until there is one."""
        return float(self.page.locator(f"[data-name={name}]").get_attribute("data-value"))

    def number_after(self, name, old):
        """The same once it has changed."""
        self.page.locator(f"[data-name={name}]:not([data-value='{old!r}'])").wait_for()
        return self.number(name)

    def press(self, control, key="ArrowRight", times=1):
        """Move a slider by keys."""
        self.page.locator(f".control-{control} .noUi-handle").focus()
        for _ in range(times):
            self.page.keyboard.press(key)

    def choose(self, control, value):
        """Choose from a list."""
        self.page.locator(f".control-{control} select").select_option(value)

    def text(self, name):
        """Return one of the page's texts: words, status, sentence, share."""
        return self.page.locator(f".{name} .bk-clearfix").inner_text()

    def wait_for_text(self, name, part):
        """Until a text has this in it."""
        self.page.locator(f".{name} .bk-clearfix", has_text=part).wait_for()

    def wait_for_none(self, selector):
        """Wait until nothing on the page matches the selector: each text of the page is drawn anew at its own time."""
        self.page.locator(selector).first.wait_for(state="detached")

    def wait_for_states(self, panel, *states):
        """Until a panel has been in these states, one after the other; it may have left the last one again."""
        self.page.wait_for_function(
            """([panel, states]) => {
                const left = [...states];
                for (const each of waited) if (each === `panel-${panel}:${left[0]}`) left.shift();
                return !left.length;
            }""",
            arg=[panel, list(states)],
        )

    def wait_for_no_words(self):
        """Wait until the page no longer says what is wrong."""
        self.page.locator(".words .bk-clearfix", has_text=re.compile(r"\S")).wait_for(state="detached")

    def wait_for_link(self, query, relation="==="):
        """Until the link has this query, or another one."""
        self.page.wait_for_function(f"location.search {relation} {query!r}")

    def wait_for_query(self, name, value):
        """Until the link says this of one part of the state; None: nothing."""
        value = "null" if value is None else repr(value)
        self.page.wait_for_function(f"new URLSearchParams(location.search).get({name!r}) === {value}")

    def wait_for_queries(self, wanted):
        """Until the link says all of these at once."""
        self.page.wait_for_function(
            """(wanted) => {
                const query = new URLSearchParams(location.search);
                return Object.entries(wanted).every(([name, value]) => query.get(name) === value);
            }""",
            arg=wanted,
        )

    @property
    def query(self):
        return self.page.url.partition("?")[2]

    def close(self):
        self.context.close()


@pytest.fixture
def visit(server, browser):
    """`visit(query)` opens a page; at the end none may have had an error."""
    with contextlib.ExitStack() as stack:
        visits = []

        def open_page(query="", **size):
            visits.append(Visit(browser, server.url + (f"?{query}" if query else ""), **size))
            stack.callback(visits[-1].close)
            return visits[-1]

        yield open_page
        assert [error for each in visits for error in each.errors] == []
