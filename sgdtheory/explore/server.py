"""The server: pages, downloads and programs, on this machine alone unless `host` says otherwise."""

import asyncio
import contextlib
import importlib.util
import ipaddress
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sgdtheory._common.arguments import whole_number
from sgdtheory.explore.layout import template_variables
from sgdtheory.explore.registry import PROGRAMS, TITLES
from sgdtheory.explore.sources import python_source
from sgdtheory.explore.state import State

DEFAULT_PORT = 5006
PORTS_TRIED = 50
# Messages below these levels, as of visitors who leave, are hidden.
LOGGED = {"bokeh": "WARNING", "tornado.access": "WARNING", "bokeh.server.views.ws": "ERROR"}
LONGEST_FILE = 600.0  # A download may take this many seconds to compute.
# To open a page keeps the server from all other visitors for half a second of processor time, longer on a busy machine.
# About half of it makes the document, which is what is measured: documents may take a quarter of the time.
SHARE_OPENING = 0.25
MOST_OPENING = 1.5  # Pages are refused if documents have taken this many seconds beyond their share.
# At most this many files wait for the two workers that make them. Each takes a worker a second or two, and its visitor
# waits for all files before it.
MOST_WAITING = 24
TEMPLATE = Path(__file__).with_name("page.html")


def make_server(*, host: str = "127.0.0.1", port: int | None = None) -> Any:
    """A Bokeh server of the explorer, listening; `server.run_until_shutdown()` serves, `server.explorer_url` is where.

    Args:
        host: address to listen at; 127.0.0.1 is heard by this machine alone.
        port: None: 5006, or the next that is free.

    Raises:
        ValueError: Bokeh is not installed, or one cannot listen there.
    """
    if importlib.util.find_spec("bokeh") is None:
        raise ValueError("the explorer needs Bokeh, which is not installed: pip install 'bokeh>=3.7' (extra [explore])")
    if port is not None and whole_number("port", port, 1) > 65535:
        raise ValueError(f"port must be at most 65535, got {port}")
    from sgdtheory.explore.workers import Workers

    for name, level in LOGGED.items():
        logging.getLogger(name).setLevel(level)
    workers = Workers()
    try:
        server = _listening(workers, host, port)
    except BaseException:
        workers.close()
        raise
    server.explorer_workers = workers
    server.explorer_url = f"http://{_shown(host)}:{server.port}/"
    return server


def _listening(workers: Any, host: str, port: int | None) -> Any:
    """A server at the port asked for, or at the first from the default one on that is free."""
    from bokeh.application import Application
    from bokeh.application.handlers.function import FunctionHandler
    from bokeh.server.server import Server

    openings = Openings()

    class Pages(FunctionHandler):
        def process_request(self, request: Any) -> dict[str, Any]:
            """Refuse a page before any of it is made."""
            openings.check()
            return super().process_request(request)

    def open_page(document: Any) -> None:
        with openings.counted():
            _open_page(workers, document)

    problem = OSError()
    for each in [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED):
        try:
            socket.create_server((host, each), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
            return Server(
                {"/": Application(Pages(open_page))},
                address=host,
                port=each,
                allow_websocket_origin=_origins(host, each),
                extra_patterns=_routes(workers),
                check_unused_sessions_milliseconds=2000,
                unused_session_lifetime_milliseconds=5000,
            )
        except OSError as error:
            problem = error
    wanted = f"port {port}" if port is not None else f"ports from {DEFAULT_PORT} on"
    reason = os.strerror(problem.errno) if problem.errno and problem.errno > 0 else str(problem.strerror)
    raise ValueError(f"cannot listen at host {host!r}, {wanted} ({reason}): choose another host or port")


class Openings:
    """Seconds that documents took to make, beyond their share of the time that has passed."""

    def __init__(self) -> None:
        self._seconds, self._last, self._warm = 0.0, time.monotonic(), False

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count the time that a document takes to make; the first takes two seconds more, for imports."""
        begun = time.monotonic()
        yield
        self._pass()
        self._seconds += self._warm * (time.monotonic() - begun)
        self._warm = True

    def check(self) -> None:
        """Refuse a page that is opened soon after many others.

        Raises:
            tornado.web.HTTPError: 503, with a sentence.
        """
        from tornado.web import HTTPError

        self._pass()
        if self._seconds > MOST_OPENING:
            wait = 1 + (self._seconds - MOST_OPENING) / SHARE_OPENING
            raise HTTPError(503, reason=f"many visitors are opening the page: load it again in {wait:.0f} s")

    def _pass(self) -> None:
        now = time.monotonic()
        self._seconds, self._last = max(0.0, self._seconds - SHARE_OPENING * (now - self._last)), now


def _origins(host: str, port: int) -> list[str]:
    """Addresses of pages that may open a connection: this machine's names; any, where others may visit."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return [f"{name}:{port}" for name in ("localhost", "127.0.0.1", _shown(host))] if local else [f"*:{port}"]


def _shown(host: str) -> str:
    return {"0.0.0.0": "localhost", "::": "localhost"}.get(host, f"[{host}]" if ":" in host else host)


def _open_page(workers: Any, document: Any) -> None:
    from sgdtheory.explore.page import Page

    document.title = "sgdtheory: explorer"
    document.template = TEMPLATE.read_text(encoding="utf-8")
    document.template_variables.update(panels=TITLES, **template_variables())
    arguments = document.session_context.request.arguments
    query = {name: values[-1].decode(errors="replace") for name, values in arguments.items()}
    page = Page(document, workers, *State.from_query(query))
    document.on_session_destroyed(lambda context: page.close())


def _routes(workers: Any) -> list[tuple[str, Any]]:
    """`/download/PANEL.SUFFIX?STATE` and `/python/PANEL?STATE`."""
    from tornado.web import RequestHandler

    from sgdtheory.explore.downloads import FORMATS

    class Page(RequestHandler):
        def state(self) -> State | None:
            query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
            try:
                return _asked(query)
            except ValueError as error:
                self.refuse(str(error))
                return None

        def refuse(self, sentence: str, status: int = 400) -> None:
            self.set_status(status)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(sentence + "\n")

        def data_received(self, chunk: bytes) -> None:
            """Nothing is taken."""

    class Download(Page):
        async def get(self, panel: str, suffix: str) -> None:
            state = self.state()
            if state is None:
                return
            if workers.lanes["asked"].waiting >= MOST_WAITING:
                self.refuse("many visitors wait for files: ask again in a minute", 503)
                return
            name, arguments = ("table", ()) if suffix == "csv" else ("figure", (suffix,))
            try:
                content = await _computed(workers, self, name, (state.bare, panel, *arguments))
            except ValueError as error:
                self.refuse(str(error))
                return
            if content is None:
                return
            self.set_header("Content-Type", FORMATS[suffix])
            self.set_header("Content-Disposition", f'attachment; filename="{panel}.{suffix}"')
            self.finish(content)

        def on_connection_close(self) -> None:
            workers.stop(self)  # nobody waits for it any more

    class Program(Page):
        def get(self, panel: str) -> None:
            state = self.state()
            if state is None:
                return
            try:
                source = python_source(state, panel)
            except ValueError as error:
                self.refuse(str(error))
                return
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(source + "\n")

    named = "|".join(PROGRAMS)
    return [(rf"/download/({named})\.({'|'.join(FORMATS)})", Download), (rf"/python/({named})", Program)]


def _asked(query: dict[str, str]) -> State:
    """The state of a link.

    Raises:
        ValueError: there is none.
    """
    state, sentences = State.from_query(query)
    if sentences:
        raise ValueError("; ".join(sentences))
    return state.checked()


async def _computed(workers: Any, visitor: Any, name: str, arguments: tuple[Any, ...]) -> bytes | None:
    """A file that a worker makes for a visitor; None if it was stopped.

    Raises:
        ValueError: it cannot be made, or not in time.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Any] = loop.create_future()

    def settle(message: Any) -> None:
        if not found.done():
            found.set_result(message)

    def hear(message: Any) -> None:  # in another thread
        loop.call_soon_threadsafe(settle, message)

    workers.submit("asked", visitor, name, name, arguments, hear)
    try:
        message = await asyncio.wait_for(found, LONGEST_FILE)
    except (TimeoutError, asyncio.CancelledError):
        workers.stop(visitor)
        raise ValueError(f"the file was not ready after {LONGEST_FILE:g} s; look for less data") from None
    if message.kind == "stopped":
        return None
    if message.kind != "done":
        raise ValueError(str(message.content))
    return message.content
