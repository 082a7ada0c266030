# SPDX-License-Identifier: Apache-2.0
"""Tests of the built-in server over real sockets."""

import http.client
import socket
import threading
import time
from concurrent import futures
from typing import Any

import pytest
import requests

from tests.unit.api.cluster import configuration, wait_until
from tests.unit.api.http.conftest import address, connection, kept_connection, start
from tonnage.api.http.server import ApiServer
from tonnage.capacity import errors


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
        return probe.connect_ex(address(server)) == 0


def test_a_stop_ends_requests_that_take_too_long() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def stuck(environ: Any, start_response: Any) -> list[bytes]:
        entered.set()
        go_on.wait(60)
        start_response("200 OK", [])
        return []

    server = start(stuck, osapi_volume_stop_timeout=1)
    one = connection(server)
    one.request("GET", "/")
    assert entered.wait(20)
    server.stop()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        one.getresponse()
    go_on.set()
    one.close()


def test_a_stop_does_not_wait_for_idle_and_slow_clients(server: ApiServer) -> None:
    silent, kept, slow = connection(server), kept_connection(server), connection(server)
    silent.connect()
    slow.putrequest("POST", "/v3/volumes")
    slow.putheader("Content-Length", "2")
    slow.endheaders()
    server.stop()
    for each in (silent, kept, slow):
        assert each.sock is not None
        assert each.sock.recv(1) == b""
        each.close()


def test_requests_before_the_stop_are_answered(server: ApiServer) -> None:
    """They are on idle connections, and on connections that only the system has accepted."""
    several = [*(kept_connection(server) for _ in range(20)), *(connection(server) for _ in range(20))]
    for each in several:
        each.request("GET", "/v3/")
    server.stop()
    for each in several:
        answer = each.getresponse()
        assert answer.status == 200
        answer.read()
        each.close()


def test_responses_of_a_stopping_server_close_the_connection() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(environ: Any, start_response: Any) -> list[bytes]:
        entered.set()
        go_on.wait(60)
        start_response("200 OK", [])
        return []

    server = start(slow)
    one = connection(server)
    one.request("GET", "/")
    assert entered.wait(20)
    with futures.ThreadPoolExecutor() as pool:
        stopped = pool.submit(server.stop)
        wait_until(lambda: not _listens(server))
        go_on.set()
        assert one.getresponse().getheader("Connection") == "close"
        stopped.result(20)
    one.close()


@pytest.mark.parametrize(("listen", "client"), [("::1", "::1"), ("::", "::ffff:127.0.0.1"), ("localhost", None)])
def test_names_and_ipv6_addresses_are_served(listen: str, client: str | None) -> None:
    def hello(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [environ["REMOTE_ADDR"].encode()]

    server = start(hello, osapi_volume_listen=listen)
    if listen == "::":
        assert requests.get(f"http://127.0.0.1:{address(server)[1]}", timeout=20).text == client
    else:
        assert requests.get(server.url, timeout=20).text in (client, "::1", "127.0.0.1")


def test_a_name_without_an_address_is_an_error() -> None:
    server = ApiServer(configuration(osapi_volume_listen="nowhere.invalid", osapi_volume_listen_port=0), lambda *_: [])
    with pytest.raises(errors.ConfigurationError, match=r"osapi_volume_listen = nowhere\.invalid.*an address"):
        server.start()


def test_many_clients_at_once(server: ApiServer) -> None:
    project = f"p{time.monotonic_ns()}"

    def create(number: int) -> int:
        body = {"volume": {"size": 1, "name": str(number)}}
        return requests.post(f"{server.url}/v3/{project}/volumes", json=body, timeout=60).status_code

    with futures.ThreadPoolExecutor(32) as pool:
        assert list(pool.map(create, range(64))) == [202] * 64
    volumes = requests.get(f"{server.url}/v3/{project}/volumes", timeout=20).json()["volumes"]
    assert sorted(int(volume["name"]) for volume in volumes) == list(range(64))
