# SPDX-License-Identifier: Apache-2.0
"""Tests of the built-in server over real sockets."""

import contextlib
import http.client
import json
import logging
import os
import pathlib
import select
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import cheroot.connections
import pytest
import requests
from cheroot import wsgi

from tests.servers import ledger_schema
from tests.unit.api.cluster import Cluster, configuration, wait_until
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http import connections, faults
from tonnage.api.http.server import ApiServer
from tonnage.capacity import errors
from tonnage.ledger.db import database


def start(application: Any, **settings: Any) -> ApiServer:
    server = ApiServer(configuration(osapi_volume_listen_port=0, **settings), application)
    server.start()
    return server


@pytest.fixture
def server(cluster: Cluster) -> Iterator[ApiServer]:
    made = start(app.build(configuration(), cluster.database, cluster.scheduler, authentication.noauth))
    yield made
    made.stop()


def connection(server: ApiServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=20)


def test_the_server_serves_the_application(server: ApiServer) -> None:
    answer = requests.get(f"{server.url}/v3/", timeout=20)
    assert answer.json()["versions"][0]["links"][0]["href"] == f"{server.url}/v3/"
    assert answer.headers["Server"] == "tonnage"


def test_a_port_in_use_is_one_clear_error(server: ApiServer) -> None:
    port = int(server.url.rpartition(":")[2])
    second = ApiServer(configuration(osapi_volume_listen_port=port), lambda *_: [])
    with pytest.raises(errors.ConfigurationError) as raised:
        second.start()
    assert f"osapi_volume_listen_port = {port}: Address already in use" in raised.value.message
    assert "\n" not in raised.value.message
    second.stop()


def test_clients_that_connect_before_the_start_are_served_after_it() -> None:
    def hello(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
        return [b"hello"]

    server = ApiServer(configuration(osapi_volume_listen_port=0), hello)
    server.listen()
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.request("GET", "/")
    server.start()
    assert connection.getresponse().status == 200
    connection.close()
    server.stop()


def test_an_address_of_another_machine_is_an_error() -> None:
    server = ApiServer(configuration(osapi_volume_listen="192.0.2.1", osapi_volume_listen_port=0), lambda *_: [])
    with pytest.raises(errors.ConfigurationError, match=r"osapi_volume_listen = 192\.0\.2\.1.* an address"):
        server.start()
    server.stop()


def test_a_stop_waits_for_accepted_requests() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(environ: Any, start_response: Any) -> list[bytes]:
        entered.set()
        go_on.wait(20)
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "4")])
        return [b"done"]

    server = start(slow)
    with futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(requests.get, server.url, timeout=20)
        assert entered.wait(20)
        stopped = pool.submit(server.stop)
        wait_until(lambda: not _listens(server))
        assert not stopped.done()
        go_on.set()
        assert answer.result(20).text == "done"
        stopped.result(20)


def _listens(server: ApiServer) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(server.url.rpartition(":")[2]))) == 0


def test_silent_connections_use_no_threads(cluster: Cluster) -> None:
    application = app.build(configuration(), cluster.database, cluster.scheduler, authentication.noauth)
    server = start(application, osapi_volume_threads=2)
    silent = [socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) for _ in range(30)]
    assert requests.get(f"{server.url}/v3", timeout=15).status_code == 200
    # A connection that sends a request late is served.
    silent[0].settimeout(20)
    silent[0].sendall(b"GET /v3 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert silent[0].recv(12) == b"HTTP/1.1 200"
    for each in silent:
        each.close()
    server.stop()


def test_idle_connections_are_closed(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = connection(server)
    silent.connect()
    kept = idle_connection(server, 2)
    for seconds, gone in (
        (connections.CLIENT_TIMEOUT + 5, {silent}),
        (configuration().client_socket_timeout + 5, {silent, kept}),
    ):
        later = types.SimpleNamespace(time=lambda: time.time() + seconds, sleep=time.sleep)  # noqa: B023
        monkeypatch.setattr(cheroot.connections, "time", later)
        wait_until(lambda: {each for each in (silent, kept) if _has_ended(each)} == gone)  # noqa: B023
    silent.close()
    kept.close()


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    assert connection.sock is not None
    return bool(select.select([connection.sock], [], [], 0)[0])


def test_a_chunked_body_is_read(server: ApiServer) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"volume": '
        yield b'{"size": 1, "name": "in pieces"}}'

    answer = requests.post(
        f"{server.url}/v3/volumes", data=chunks(), headers={"Content-Type": "application/json"}, timeout=20
    )
    assert answer.status_code == 202, answer.text
    assert answer.json()["volume"]["name"] == "in pieces"


def test_a_chunked_body_is_bounded(server: ApiServer) -> None:
    answer = requests.post(
        f"{server.url}/v3/volumes",
        data=(b"x" * 10000 for _ in range(20)),
        headers={"Content-Type": "application/json"},
        timeout=20,
    )
    assert answer.status_code == 413
    assert answer.json()["overLimit"]["code"] == 413


def test_a_body_that_is_too_large_gets_a_response(server: ApiServer) -> None:
    answer = requests.post(f"{server.url}/v3/volumes", data=b"x" * 500_000, timeout=20)
    assert answer.status_code == 413
    assert answer.json()["overLimit"]["code"] == 413


def test_the_server_does_not_wait_for_a_huge_body(server: ApiServer) -> None:
    one = connection(server)
    one.putrequest("POST", "/v3/nowhere")
    one.putheader("Content-Length", str(10**12))
    one.endheaders()
    with contextlib.suppress(ConnectionError):  # it may have closed before all of it has been sent
        one.send(b"x" * 2**21)
    assert one.getresponse().status == 413
    one.close()


def test_connections_are_reused(server: ApiServer) -> None:
    one = connection(server)
    for _ in range(3):
        one.request("GET", "/v3/types")
        answer = one.getresponse()
        answer.read()
        assert answer.status == 200
    one.request("GET", "/v3/nowhere", body=b"{}")
    answer = one.getresponse()
    assert (answer.status, b"itemNotFound" in answer.read()) == (404, True)
    one.request("GET", "/v3/types")
    assert one.getresponse().status == 200
    one.close()


def test_the_number_of_idle_connections_is_limited(cluster: Cluster) -> None:
    server = start(
        app.build(configuration(), cluster.database, cluster.scheduler, authentication.noauth), osapi_volume_threads=2
    )
    several = [idle_connection(server), idle_connection(server, 2), connection(server)]
    several[2].request("GET", "/v3/")
    answer = several[2].getresponse()
    answer.read()
    assert answer.getheader("Connection") == "close"
    assert not any(_has_ended(each) for each in several[:2])
    for each in several:
        each.close()
    server.stop()


def test_a_request_before_the_close_of_its_connection_is_answered(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection was idle for too long, and the client uses it again before the server has closed it."""
    blocked, go_on = threading.Event(), threading.Event()
    take = wsgi.Server.process_conn

    def take_later(*args: Any) -> None:
        blocked.set()
        assert go_on.wait(20)
        take(*args)

    one, other = idle_connection(server), idle_connection(server, 2)
    monkeypatch.setattr(wsgi.Server, "process_conn", take_later)
    one.request("GET", "/v3/")
    assert blocked.wait(20)
    seconds = configuration().client_socket_timeout + 5
    later = types.SimpleNamespace(time=lambda: time.time() + seconds, sleep=time.sleep)
    monkeypatch.setattr(cheroot.connections, "time", later)
    other.request("GET", "/v3/")
    go_on.set()
    for each in (one, other):
        assert each.getresponse().status == 200
        each.close()


def idle_connection(server: ApiServer, number: int = 1) -> http.client.HTTPConnection:
    """Return a connection that is idle after a response; it is the server's ``number``-th connection."""
    made = connection(server)
    made.request("GET", "/v3/")
    made.getresponse().read()
    wait_until(lambda: server.wsgi_server._connections._num_connections == number)
    return made


def test_a_connection_with_input_is_closed_when_the_server_stops(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request arrives before the server waits for input again, and no thread is left to answer it."""
    blocked, go_on = threading.Event(), threading.Event()
    put = server.wsgi_server.put_conn

    def put_later(conn: Any) -> None:
        if conn.last_used is not None:
            blocked.set()
            assert go_on.wait(20)
        put(conn)

    one = idle_connection(server)
    monkeypatch.setattr(server.wsgi_server, "put_conn", put_later)
    one.request("GET", "/v3/")
    one.getresponse().read()
    assert blocked.wait(20)
    with futures.ThreadPoolExecutor() as pool:
        stopped = pool.submit(server.stop)
        wait_until(lambda: not _listens(server))
        one.request("GET", "/v3/")
        time.sleep(0.2)
        go_on.set()
        stopped.result(20)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        one.getresponse()
    one.close()


def test_a_request_before_the_stop_of_the_server_is_answered(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request arrives when the server no longer waits for requests but still has threads."""
    one = idle_connection(server)
    stop = cheroot.connections.ConnectionManager.stop

    def ask(manager: Any) -> None:
        stop(manager)
        one.request("GET", "/v3/")
        wait_until(lambda: bool(select.select([one.sock], [one.sock], [], 0)[1]))
        time.sleep(0.1)

    monkeypatch.setattr(cheroot.connections.ConnectionManager, "stop", ask)
    server.stop()
    answer = one.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (200, "close")
    answer.read()
    one.close()


@pytest.mark.parametrize("says", [b"", b"GET /v3/ HTTP/1.0\r\n\r\n"])
def test_connections_made_while_the_server_stops(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    """A client that has sent a request gets a response; the server does not wait for others."""
    one, other = socket.socketpair()
    other.sendall(says)
    stop = cheroot.connections.ConnectionManager.stop

    def connect(manager: Any) -> None:
        stop(manager)
        server.wsgi_server.process_conn(connections.Connection(server.wsgi_server, one))

    monkeypatch.setattr(cheroot.connections.ConnectionManager, "stop", connect)
    server.stop()
    other.settimeout(20)
    assert other.recv(12)[9:] == (b"200" if says else b"")
    other.close()


def test_endless_headers_are_rejected(server: ApiServer) -> None:
    one = connection(server)
    one.putrequest("GET", "/v3/types")
    for number in range(20):
        one.putheader(f"X-{number}", "y" * 5000)
    one.endheaders()
    assert one.getresponse().status == 413
    one.close()


def send_raw(server: ApiServer, *parts: bytes, pause: float = 0.0) -> tuple[int, Any]:
    """Send parts one after another until there is a response; return its status and body. The connection then ends."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as one:
        for part in parts:
            one.sendall(part)
            if pause and select.select([one], [], [], pause)[0]:
                break
        answer = http.client.HTTPResponse(one)
        answer.begin()
        body = answer.read()
        assert answer.headers["Content-Type"] == "application/json"
        assert one.recv(1) == b""
        return answer.status, json.loads(body)


POST = b"POST /v3/volumes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("begun", [POST + b"X-A: ", POST + b"Content-Length: 100000\r\n\r\n{"])
def test_clients_that_send_slowly_time_out(
    server: ApiServer, begun: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "CLIENT_TIMEOUT", 0.5)
    began = time.monotonic()
    status, body = send_raw(server, begun, *[b" "] * 1000, pause=0.1)
    assert (status, body["computeFault"]["code"]) == (408, 408)
    assert 0.4 < time.monotonic() - began < 60, "all of it takes 100 s"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def serves_small_response(server: ApiServer) -> bool:
    with contextlib.suppress(requests.RequestException):
        return requests.get(f"{server.url}/small", timeout=60).content == bytes(2**18)
    return False


def test_clients_that_read_slowly_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLIENT_TIMEOUT", 0.5)

    def large(environ: Any, start_response: Any) -> list[bytes]:
        pieces = [bytes(2**18)] * (1 if environ["PATH_INFO"] == "/small" else 64)  # more than sockets keep
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(sum(map(len, pieces))))])
        return pieces

    server = start(large, osapi_volume_threads=1)
    done = threading.Event()
    with socket.socket() as one, futures.ThreadPoolExecutor() as pool:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        one.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")

        def sip() -> None:
            while not done.wait(0.02):
                one.recv(512)

        sipping = pool.submit(sip)
        try:
            # The server does not wait for stalled clients, and this machine may be slow.
            wait_until(lambda: serves_small_response(server), 120)
        finally:
            done.set()
        sipping.exception(20)
    server.stop()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"BREW\r\n\r\n", 400),
        (b"GET //v3/types HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /v3/types HTTP/1.1\r\nHost x\r\n\r\n", 400),
        (b"GET /v3/types HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/3.0\r\n\r\n", 505),
    ],
)
def test_errors_before_the_application_have_the_format_of_the_api(server: ApiServer, sent: bytes, status: int) -> None:
    answered, body = send_raw(server, sent)
    [(name, error)] = body.items()
    assert (answered, name, error["code"]) == (status, faults.name(status), status)
    assert error["message"]


@pytest.mark.parametrize(
    ("chunks", "status"),
    [(b"zz\r\n", 400), (b"2\r\n{}xx", 400), (b"7FFFFFFF\r\n{", 413), (b"FFFFFFFFFFFFFFFFFF\r\n{", 413)],
)
def test_malformed_chunks_are_rejected(
    server: ApiServer, chunks: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    answered, body = send_raw(server, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert (answered, body[faults.name(status)]["code"]) == (status, status)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_long_chunk_size_is_rejected(server: ApiServer) -> None:
    status, body = send_raw(server, POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 1_000_000)
    assert (status, body["badRequest"]["message"]) == (400, "The request's body cannot be read: a line without an end.")


def test_errors_repeat_only_the_start_of_unreadable_input(server: ApiServer) -> None:
    status, body = send_raw(server, POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"z" * 1000 + b"\r\n")
    assert status == 400
    assert len(body["badRequest"]["message"]) < 200


def test_bytes_after_a_chunked_body_are_not_taken_for_a_request(server: ApiServer) -> None:
    chunked = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    trailer = b"DELETE /v3/volumes/x HTTP/1.1\r\nHost: x\r\n\r\n"
    assert send_raw(server, POST + chunked + trailer)[0] == 400


def test_an_unread_body_is_not_taken_for_a_request(server: ApiServer) -> None:
    hidden = b"GET /v3/types HTTP/1.1\r\nHost: x\r\n\r\n"
    size = f"{len(hidden):x}".encode()
    sent = POST.replace(b"volumes", b"nowhere") + b"Transfer-Encoding: chunked\r\n\r\n"
    assert send_raw(server, sent + size + b"\r\n" + hidden + b"\r\n0\r\n\r\n")[0] == 404


def test_many_clients_at_once(server: ApiServer) -> None:
    project = f"p{time.monotonic_ns()}"

    def create(number: int) -> int:
        body = {"volume": {"size": 1, "name": str(number)}}
        return requests.post(f"{server.url}/v3/{project}/volumes", json=body, timeout=60).status_code

    with futures.ThreadPoolExecutor(32) as pool:
        assert list(pool.map(create, range(64))) == [202] * 64
    volumes = requests.get(f"{server.url}/v3/{project}/volumes", timeout=20).json()["volumes"]
    assert sorted(int(volume["name"]) for volume in volumes) == list(range(64))


def test_any_wsgi_server_can_load_the_application(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    engine.dispose()
    conf = tmp_path / "tonnage.conf"
    conf.write_text(
        "[DEFAULT]\ntransport_url = kombu+memory://\nnoauth_on_any_address = true\n"
        f"[database]\nconnection = sqlite:///{tmp_path}/ledger.sqlite\n"
    )
    program = (
        "import wsgiref.util, tonnage.api.wsgi as wsgi\n"
        "environ = {'PATH_INFO': '/v3/types'}\n"
        "wsgiref.util.setup_testing_defaults(environ)\n"
        "print(b''.join(wsgi.application(environ, lambda status, headers: print(status))).decode())\n"
    )
    environ = {**os.environ, "TONNAGE_CONFIG_FILES": str(conf)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["200 OK", '{"volume_types":[]}']
