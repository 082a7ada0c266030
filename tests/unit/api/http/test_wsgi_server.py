# SPDX-License-Identifier: Apache-2.0
"""Requests of strangers to the built-in server: slow, endless, malformed and ambiguous ones."""

import asyncio
import contextlib
import errno
import http.client
import json
import logging
import resource
import select
import socket
import statistics
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.unit.api.cluster import Cluster, configuration, wait_until
from tests.unit.api.http.conftest import address, connection, kept_connection, start, start_limited
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http import wsgi_server
from tonnage.api.http.server import Server

POST = b"POST /v3/volumes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
GET = b"GET /v3/types HTTP/1.1\r\nHost: x\r\n"


def connect(server: Server, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(address(server), timeout=60)
    made.sendall(sent)
    return made


def exchange(server: Server, sent: bytes) -> tuple[bytes, bytes]:
    """Send bytes; return the status line of the response, and the other bytes until the server closes."""
    with connect(server) as one:
        with contextlib.suppress(ConnectionError):  # the server may close before it has read everything
            one.sendall(sent)
        status, _, rest = one.makefile("rb").read().partition(b"\r\n")
        return status, rest


def has_ended(one: socket.socket) -> bool:
    poll = select.poll()
    poll.register(one, select.POLLIN)
    return bool(poll.poll(0))


@pytest.fixture
def open_files() -> Iterator[None]:
    """Restore the limit of open files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def slow_clients(open_files: None) -> Iterator[list[socket.socket]]:
    """The connections of slow clients; a thread sends a byte on each of them, again and again."""
    made: list[socket.socket] = []
    ended = threading.Event()

    def drip() -> None:
        while not ended.wait(0.2):
            for each in list(made):
                with contextlib.suppress(OSError):
                    each.send(b"1")

    thread = threading.Thread(target=drip)
    thread.start()
    yield made
    ended.set()
    thread.join()
    for each in made:
        each.close()


def test_slow_clients_use_no_threads(cluster: Cluster, slow_clients: list[socket.socket]) -> None:
    application = app.build(configuration(), cluster.database, cluster.scheduler, authentication.noauth)
    server = start_limited(application, threads=2, client_timeout=300, transfer_timeout=300.0)
    for begun in (b"", b"G", GET + b"X-A: ", POST + b"Content-Length: 100000\r\n\r\n", CHUNKED + b"fff\r\n"):
        slow_clients += [connect(server, begun) for _ in range(200)]
    seconds = []
    for _ in range(9):
        answer = requests.get(f"{server.url}/healthcheck", timeout=60)
        assert answer.status_code == 200
        seconds.append(answer.elapsed.total_seconds())
    assert statistics.median(seconds) < 1, seconds
    assert not any(has_ended(each) for each in slow_clients)
    # A client that has sent nothing for long is served when it does.
    with connect(server) as late:
        late.sendall(GET + b"\r\n")
        assert late.recv(12) == b"HTTP/1.1 200"
    server.stop()


def large(environ: Any, start_response: Any) -> list[bytes]:
    """Answer more than sockets keep."""
    pieces = [bytes(2**18)] * (64 if environ["PATH_INFO"] == "/large" else 1)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return pieces


def test_clients_that_do_not_read_use_no_threads() -> None:
    server = start(large, osapi_volume_threads=2)
    silent = [connect(server, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(10)]
    for each in silent:
        assert each.recv(12) == b"HTTP/1.1 200"
    assert requests.get(server.url, timeout=60).content == bytes(2**18)
    assert silent[0].makefile("rb").read(2**24).endswith(bytes(2**20))
    for each in silent:
        each.close()
    server.stop()


def test_requests_of_a_client_that_has_gone_are_not_handled() -> None:
    handled = []
    entered, go_on = threading.Event(), threading.Event()

    def count(environ: Any, start_response: Any) -> list[bytes]:
        handled.append(environ["PATH_INFO"])
        entered.set()
        go_on.wait(60)
        start_response("200 OK", [])
        return []

    server = start(count)
    one = connect(server, (GET + b"\r\n") * 20)
    assert entered.wait(20)
    one.close()
    wait_until(lambda: not server_holds(server))
    go_on.set()
    server.stop()
    assert len(handled) < 20


def test_clients_that_read_slowly_are_disconnected() -> None:
    server = start_limited(large, transfer_timeout=0.5)
    with connect(server, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n") as one:
        wait_until(lambda: not server_holds(server))
        with contextlib.suppress(ConnectionError):
            assert len(one.makefile("rb").read()) < 2**24
    server.stop()


def server_holds(server: Server) -> bool:
    """Return whether a connection of a client to the server is open, by the system's table of connections."""
    port = f":{address(server)[1]:04X}"
    with open("/proc/net/tcp", encoding="ascii") as table:
        return any(fields[1].endswith(port) and fields[3] == "01" for fields in map(str.split, table))


@pytest.mark.parametrize("begun", [GET + b"X-A: ", POST + b"Content-Length: 100000\r\n\r\n", CHUNKED + b"fff\r\n"])
def test_clients_that_send_slowly_are_disconnected(
    slow_clients: list[socket.socket], begun: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_limited(large, client_timeout=1, transfer_timeout=0.5)
    slow_clients.append(connect(server, begun))
    wait_until(lambda: has_ended(slow_clients[0]))
    server.stop()
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    # Only the server's own loggers: a thread of an earlier test may still log.
    assert [record for record in warnings if record.name.startswith(("tonnage.api", "tornado"))] == []


def test_idle_connections_are_closed(cluster: Cluster) -> None:
    application = app.build(configuration(), cluster.database, cluster.scheduler, authentication.noauth)
    server = start(application, client_socket_timeout=1)
    silent, kept = connect(server), kept_connection(server)
    assert kept.sock is not None
    for one in (silent, kept.sock):
        assert one.recv(1) == b""
    silent.close()
    kept.close()
    server.stop()


def test_the_oldest_connections_make_room_for_new_ones() -> None:
    server = start_limited(large, max_files=7)
    silent = []
    for _ in range(5):
        silent.append(connect(server))
        silent.append(connect(server, GET + b"\r\n"))
        assert silent[-1].recv(12) == b"HTTP/1.1 200"
    assert [has_ended(each) for each in silent[::2]] == [True, True, True, False, False]
    for each in silent:
        each.close()
    server.stop()


class Exhaustion:
    """Lets the next attempts to accept a connection fail as those of a process without file descriptors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failures = self.attempts = 0
        accept = socket.socket.accept

        def fail(listening: socket.socket) -> tuple[socket.socket, Any]:
            self.attempts += 1
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return accept(listening)

        monkeypatch.setattr(socket.socket, "accept", fail)


def test_without_file_descriptors_an_idle_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_limited(large)
    first, second = kept_connection(server), kept_connection(server)
    exhaustion = Exhaustion(monkeypatch)
    exhaustion.failures = 1
    with connect(server, GET + b"\r\n") as third:
        assert third.recv(12) == b"HTTP/1.1 200"
    assert first.sock is not None
    assert second.sock is not None
    assert first.sock.recv(1) == b"", "the one that waited longest is closed"
    assert not has_ended(second.sock)
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "cannot open more files (Too many open files)" in record.getMessage()
    for each in (first, second):
        each.close()
    server.stop()


def test_without_file_descriptors_and_idle_connections_the_server_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wsgi_server, "_ACCEPT_PAUSE", 3600.0)
    server = start_limited(large)
    exhaustion = Exhaustion(monkeypatch)
    exhaustion.failures = 10**6
    with connect(server):
        wait_until(lambda: exhaustion.attempts > 0)
        for _ in range(20):  # turns of the event loop, each of which would accept
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), server._loop).result(60)
        assert exhaustion.attempts == 1
        assert len(caplog.records) == 1
        server.stop()


def test_a_server_that_has_paused_accepts_the_connections_that_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wsgi_server, "_ACCEPT_PAUSE", 0.01)
    server = start_limited(large)
    exhaustion = Exhaustion(monkeypatch)
    exhaustion.failures = 5
    with connect(server, GET + b"\r\n") as waiting:
        assert waiting.recv(12) == b"HTTP/1.1 200"
    assert exhaustion.failures == 0
    assert len(caplog.records) == 1
    server.stop()


def test_the_server_may_open_many_files(open_files: None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard > 1024
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    start(large).stop()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 16384), hard)


@pytest.mark.parametrize(
    "sent",
    [
        b"BREW\r\n\r\n",
        b"GET /v3/types HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /v3/types HTTP/1.1\r\n\r\n",
        b"GET /v3/types HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET /v3/types HTTP/1.1\r\nHost: x, y\r\n\r\n",
        b"GET / HTTP/3.0\r\nHost: x\r\n\r\n",
        GET + b"Transfer-Encoding: gzip\r\n\r\n",
        GET + b" folded: x\r\n\r\n",
        GET + b"X y: z\r\n\r\n",
        POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}}",
        POST + b"Content-Length: +2\r\n\r\n{}",
        POST + b"Content-Length: 0_2\r\n\r\n{}",
        POST + b"Content-Length: -1\r\n\r\n{}",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        *(
            CHUNKED + chunks
            for chunks in (
                b"zz\r\n",
                b"+2\r\n{}",
                b"0x2\r\n{}",
                b"-2\r\n{}",
                b" 2\r\n{}",
                b"2\r\n{}xx",
                b"F" * 18 + b"\r\n",
                b"0_2\r\n{}",
            )
        ),
        CHUNKED + b"2\r\n{}\r\n0\r\nDELETE /v3/volumes/x HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_malformed_and_ambiguous_requests_are_rejected(
    server: Server, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    status, rest = exchange(server, sent + b"GET /v3/types HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == b"HTTP/1.1 400 Bad Request"
    assert b"HTTP/1.1" not in rest
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    # Only the server's own loggers: a thread of an earlier test may still log.
    assert [record for record in warnings if record.name.startswith(("tonnage.api", "tornado"))] == []


def test_a_long_chunk_size_is_rejected(server: Server) -> None:
    with contextlib.suppress(ConnectionError):
        assert exchange(server, CHUNKED + b"1" * 1_000_000)[0] in (b"", b"HTTP/1.1 400 Bad Request")
    assert requests.get(f"{server.url}/v3/", timeout=20).status_code == 200


def test_endless_headers_are_rejected(server: Server) -> None:
    status, rest = exchange(server, GET + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 5000) for n in range(20)) + b"\r\n")
    assert status == b"HTTP/1.1 431 Request Header Fields Too Large"
    assert json.loads(rest.partition(b"\r\n\r\n")[2])["computeFault"]["code"] == 431
    with contextlib.suppress(ConnectionError):
        assert exchange(server, GET + b"X-A: " + b"y" * 2**20) == (b"", b"")


def test_an_unread_body_is_not_taken_for_a_request(server: Server) -> None:
    hidden = b"GET /v3/types HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(server, POST.replace(b"volumes", b"nowhere") + b"Transfer-Encoding: chunked\r\n\r\n") as one:
        one.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden))
        for status in (404, 200):
            answer = http.client.HTTPResponse(one)
            answer.begin()
            assert answer.status == status
            answer.read()
            one.sendall(b"GET /v3/types?limit=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


def test_a_chunked_body_is_read(server: Server) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"volume": '
        yield b'{"size": 1, "name": "in pieces"}}'

    headers = {"Content-Type": "application/json"}
    answer = requests.post(f"{server.url}/v3/volumes", data=chunks(), headers=headers, timeout=20)
    assert answer.status_code == 202, answer.text
    assert answer.json()["volume"]["name"] == "in pieces"


def test_large_bodies_are_rejected(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (b"x" * 500_000, (b"x" * 10000 for _ in range(50))):
        answer = requests.post(f"{server.url}/v3/volumes", data=body, headers=headers, timeout=20)
        assert (answer.status_code, answer.json()["overLimit"]["code"]) == (413, 413)


@pytest.mark.parametrize("head", [POST + b"Content-Length: 1000000000000\r\n\r\n", CHUNKED + b"7FFFFFFF\r\n"])
def test_the_server_does_not_wait_for_a_huge_body(server: Server, head: bytes) -> None:
    with connect(server, head) as one:
        with contextlib.suppress(ConnectionError):  # the server may close before all of it has been sent
            one.sendall(b"x" * 2**21)
        assert one.recv(12) == b"HTTP/1.1 413"


def test_the_server_keeps_little_of_a_large_body() -> None:
    sizes = []

    def measure(environ: Any, start_response: Any) -> list[bytes]:
        sizes.append(len(environ["wsgi.input"].read()))
        start_response("413 Too Large", [])
        return []

    server = start(measure)
    requests.post(server.url, data=b"x" * 500_000, timeout=20)
    limit = configuration().osapi_max_request_body_size
    assert sizes == [limit + 1]
    server.stop()


def test_connections_are_reused(server: Server) -> None:
    one = connection(server)
    for path, body, status in (
        ("/v3/types", None, 200),
        ("/v3/types", None, 200),
        ("/v3/nowhere", b"{}", 404),
        ("/v3/types", None, 200),
    ):
        one.request("GET", path, body=body)
        kept = one.sock
        answer = one.getresponse()
        answer.read()
        assert answer.status == status
        assert one.sock is kept is not None
    one.close()


def test_a_client_that_expects_a_continuation_gets_it(server: Server) -> None:
    with connect(server, POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n") as one:
        assert one.recv(100).startswith(b"HTTP/1.1 100 ")
        one.sendall(b"{}")
        assert one.recv(12) == b"HTTP/1.1 400"


def test_responses_have_no_body_where_there_must_be_none() -> None:
    def answer(environ: Any, start_response: Any) -> list[bytes]:
        start_response(environ["PATH_INFO"][1:] + " Status", [("Content-Type", "text/plain")])
        return [b"body"]

    server = start(answer)
    for method, status, length in (("HEAD", 200, "4"), ("GET", 204, None), ("GET", 304, None), ("GET", 200, "4")):
        one = connection(server)
        for _ in range(2):
            one.request(method, f"/{status}")
            got = one.getresponse()
            assert (got.status, got.getheader("Content-Length"), got.getheader("Server")) == (status, length, "tonnage")
            assert got.getheader("Date", "").endswith(" GMT")
            assert got.read() == (b"body" if (method, status) == ("GET", 200) else b"")
        one.close()
    server.stop()


def test_the_environment_of_a_request() -> None:
    seen: dict[str, Any] = {}

    def look(environ: Any, start_response: Any) -> list[bytes]:
        seen.update(environ)
        start_response("200 OK", [])
        return []

    server = start(look)
    sent = (
        b"POST /v3/%C3%A4%2Fb?c=%20d&e HTTP/1.1\r\nHost: x:1\r\nX-A: 1\r\nX-A: 2\r\nX_Forwarded_Proto: https\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    )
    assert exchange(server, sent)[0] == b"HTTP/1.1 200 OK"
    server.stop()
    assert seen.pop("wsgi.input").read() == b"{}"
    assert seen == {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/v3/\xc3\xa4/b",
        "QUERY_STRING": "c=%20d&e",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(address(server)[1]),
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": "text/plain",
        "CONTENT_LENGTH": "2",
        "HTTP_HOST": "x:1",
        "HTTP_X_A": "1,2",
        "HTTP_CONNECTION": "close",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }


def test_an_error_of_the_application_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    def fail(environ: Any, start_response: Any) -> list[bytes]:
        raise RuntimeError("out of order")

    server = start(fail)
    answer = requests.get(f"{server.url}/there", timeout=20)
    server.stop()
    assert (answer.status_code, answer.json()["computeFault"]["code"]) == (500, 500)
    assert "GET /there failed" in caplog.text
    assert "out of order" in caplog.text


def test_the_parts_of_a_response_are_closed() -> None:
    class Parts(list[bytes]):
        closed = False

        def close(self) -> None:
            self.closed = True

    parts = Parts([b"b", b"c"])

    def answer(environ: Any, start_response: Any) -> Parts:
        start_response("200 OK", [])(b"a")
        return parts

    server = start(answer)
    assert requests.get(server.url, timeout=20).content == b"abc"
    assert parts.closed
    server.stop()
