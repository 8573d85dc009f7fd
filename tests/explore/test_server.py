"""The answers of the server, its visitors, and its end."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from sgdtheory.explore import python_source
from sgdtheory.explore.registry import TITLES
from sgdtheory.explore.server import make_server
from sgdtheory.explore.state import State
from tests.explore.conftest import Server
from tests.marks import slow

PATIENCE = 100.0  # seconds
SMALL = "D=300&B=4"


def get(url):
    """Status, type and content."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


@pytest.mark.parametrize(
    ("suffix", "kind", "begin"),
    [
        ("pdf", "application/pdf", b"%PDF"),
        ("png", "image/png", b"\x89PNG"),
        ("csv", "text/csv; charset=utf-8", b"algorithm,"),
    ],
)
def test_downloads(server, suffix, kind, begin):
    status, told, content = get(f"{server.url}download/path.{suffix}?{SMALL}")
    assert (status, told) == (200, kind)
    assert content.startswith(begin)


def test_programs(server):
    state = State(num_samples=300.0, batch_size=4, second="tail")
    for panel in TITLES:
        status, kind, content = get(f"{server.url}python/{panel}?{state.query}")
        assert (status, kind) == (200, "text/plain; charset=utf-8")
        assert content.decode() == python_source(state, panel) + "\n"


@pytest.mark.parametrize("route", ["python/path", "download/path.pdf", "download/path.csv"])
def test_a_bad_link_is_refused_in_a_sentence(server, route):
    """The links are those of one state; `test_state` has all of them."""
    queries = {
        "a=1": "a = 1, but",
        "second=" + quote("stages stages=x"): "second: ",
        "problem=1": "not part of a link",
        "a=" + "1" * 5000: "a must be a number",
    }
    for query, part in queries.items():
        status, kind, content = get(f"{server.url}{route}?{query}")
        assert (status, kind) == (400, "text/plain; charset=utf-8")
        assert part in content.decode()
        assert len(content) < 500
        assert content.count(b"\n") == 1
    status, _, content = get(f"{server.url}{route}?a=%ff")
    assert status == 400
    assert b"Traceback" not in content


def test_what_exceeds_the_server_is_refused_in_a_sentence():
    """Twenty pages and sixty files at once: some are served, the others are refused, and the server goes on."""
    own = Server()
    try:
        assert get(own.url)[0] == 200
        with ThreadPoolExecutor(80) as threads:
            pages = [threads.submit(get, own.url) for _ in range(20)]
            files = [threads.submit(get, f"{own.url}download/path.csv?{SMALL}&noise={1 + n}") for n in range(60)]
            pages, files = ([each.result() for each in found] for found in (pages, files))
        assert get(f"{own.url}python/path?{SMALL}")[0] == 200
    finally:
        own.close()
    assert {status for status, _, _ in files} == {200, 503}
    assert 200 in {status for status, _, _ in pages}
    for answers, sentence in ((pages, b"load it again in"), (files, b"many visitors wait for files")):
        assert {status for status, _, _ in answers} <= {200, 503}
        assert all(sentence in content for status, _, content in answers if status == 503)
    assert "Traceback" not in "".join(own.log)


def test_pages_are_opened_again_after_a_while(monkeypatch):
    from tornado.web import HTTPError

    from sgdtheory.explore import server as module

    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    openings = module.Openings()

    def open_one(seconds):
        openings.check()
        with openings.counted():
            now[0] += seconds
        now[0] += seconds  # of the page around the document

    open_one(3.0)
    for _ in range(3):
        with pytest.raises(HTTPError, match=r"many visitors are opening the page: load it again in \d s") as refused:
            [open_one(0.5) for _ in range(20)]
        now[0] += float(re.search(r"in (\d)", str(refused.value))[1])
        open_one(0.5)
        now[0] += 60.0
    for _ in range(20):  # one at a time, as quick as they can be watched
        open_one(0.25)
        now[0] += 1.0


def test_there_is_nothing_else(server):
    for path in ("python/secrets", "download/secrets.pdf", "download/path.exe", "download/../etc/passwd.csv"):
        status, _, content = get(server.url + path)
        assert status == 404, path
        assert b"Traceback" not in content


def other_address():
    """Return an address of this machine other than 127.0.0.1, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.2" if sys.platform == "linux" else None


def test_nobody_else_can_connect(server):
    address, port = other_address(), int(server.url.rstrip("/").rpartition(":")[2])
    if address is None or address == "127.0.0.1":
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match="refused|unreachable|timed out"):
        socket.create_connection((address, port), timeout=10).close()
    socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()


def token_of(url):
    """Return the token of a session from its page."""
    content = get(url)[2].decode()
    return re.search(r'"token":"([^"]+)"', content)[1]


async def connect(url, origin, token):
    request = HTTPRequest(url.replace("http", "ws", 1) + "ws", headers={"Origin": origin}, connect_timeout=PATIENCE)
    return await websocket_connect(request, subprotocols=["bokeh", token])


def alone(function):
    """Return or raise the result of a call in a thread: the browser's event loop may run in the main one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function).result()


def run_alone(coroutine):
    return alone(partial(asyncio.run, coroutine))


def test_a_page_of_another_site_cannot_connect(server):
    token = token_of(server.url + "?" + SMALL)
    with pytest.raises(HTTPClientError, match="403"):
        run_alone(connect(server.url, "http://example.org", token))

    async def own():
        connection = await connect(server.url, server.url.rstrip("/"), token)
        message = await connection.read_message()
        connection.close()
        while await connection.read_message() is not None:
            pass  # until it is closed
        return message

    assert run_alone(own()) is not None
    server.log[:] = [line for line in server.log if "example.org" not in line and "403" not in line]


# A background job of a shell has Ctrl-C ignored.
LISTEN = """import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"""


def explore(*flags, **options):
    command = [sys.executable, "-c", LISTEN, "-m", "sgdtheory", "explore", "--no-browser", *flags]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUTF8": "1"},
        **options,
    )


@contextlib.contextmanager
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("--port", "taken"), ("--host", "203.0.113.7")])
def test_where_it_cannot_listen_it_says_so(flags):
    with taken_port() as port:
        flags = [str(port) if flag == "taken" else flag for flag in flags]
        process = explore(*flags)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert len(err.strip().splitlines()) == 1, err
    assert "host" in err or "port" in err


def test_a_port_that_is_taken_is_passed_over(monkeypatch):
    from sgdtheory.explore import server as module

    def first_free():
        found = module._listening(None, "127.0.0.1", None)
        found.stop()
        found.io_loop.close(all_fds=True)
        return found.port

    with taken_port() as port:
        monkeypatch.setattr(module, "DEFAULT_PORT", port)
        assert port < alone(first_free) < port + module.PORTS_TRIED


def children(pid):
    """Processes below one, from /proc."""
    found, parents = [], {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    below = [pid]
    while below:
        below = [child for child, parent in parents.items() if parent in below]
        found += below
    return found


def gone(pid):
    """Return whether the process has ended, even if its parent has not collected it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("how", [slow("Ctrl-C"), "Ctrl-C at once", slow("SIGTERM"), slow("SIGKILL")])
def test_it_ends_with_all_of_its_processes(how):
    process = explore(start_new_session=True)
    line = process.stdout.readline()
    assert "(Ctrl-C ends it)" in line
    url = line.split()[0]
    if how != "Ctrl-C at once":
        assert get(url + "python/path")[0] == 200
        token_of(url + "?first=last&D=1e9")  # a session that computes
        assert get(url + "download/path.csv?" + SMALL)[0] == 200, "workers have begun"
    own = children(process.pid)
    assert own
    if how.startswith("Ctrl-C"):
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all of the group
    else:
        process.send_signal(getattr(signal, how))
    out, err = process.communicate(timeout=PATIENCE)
    end = time.monotonic() + PATIENCE
    while not all(map(gone, own)):
        assert time.monotonic() < end, "processes that nobody ends"
        time.sleep(0.05)
    assert "Traceback" not in out + err, err
    if how.startswith("Ctrl-C"):
        assert process.returncode == 130, "as docs/commands.md says"
        assert err.strip() == "sgdtheory: interrupted"


def test_without_bokeh_it_says_what_to_install():
    code = "import sys; sys.modules['bokeh'] = None; from sgdtheory.cli import main; sys.exit(main())"
    process = subprocess.run(
        [sys.executable, "-c", code, "explore", "--no-browser"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert process.returncode == 2
    assert len(process.stderr.strip().splitlines()) == 1, process.stderr
    advice = re.search("pip install '(bokeh.*)'", process.stderr)
    assert advice, "which serves a clone and a wheel"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["explore"] == [advice[1]]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "::1"])
def test_the_page_that_is_told_may_connect(host):
    """The address that is printed is one from which its own page may open the connection."""
    if host == "::1":
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("no IPv6 on this machine")
    from sgdtheory.explore.server import _origins, _shown

    assert f"{_shown(host)}:5006" in _origins(host, 5006)


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_make_server_refuses_a_bad_port(port):
    with pytest.raises(ValueError, match=f"port must be .*, got {port}"):
        make_server(port=port)
