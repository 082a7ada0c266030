# SPDX-License-Identifier: Apache-2.0
"""Tests of the client of the REST API."""

import socket
import threading

import pytest

from tonnage.capacity import errors
from tonnage.cli.rest import api_client


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"[]", "the answer has no volumes"),
        (b'{"rows": []}', "the answer has no volumes"),
        (b"<html>", "Expecting value"),
    ],
)
def test_an_answer_of_another_server_is_reported_on_one_line(answer: bytes, problem: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(errors.Unavailable, match=f"^there is no answer at {url}/v3/volumes \\({problem}") as raised:
            api_client.ApiClient(url).get("/volumes", "volumes")
        thread.join(30)
    assert raised.value.message.endswith("or name its configuration with --config-file")


def test_a_server_that_is_no_rest_api_is_reported_on_one_line() -> None:
    """The URL has to be quoted, and another kind of server may listen at it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            errors.Unavailable, match=r"^there is no answer at http://.*/v3/a%20b%2Fc/.* \(220 mail\.example"
        ):
            api_client.ApiClient(url, "a b/c").post("/scheduler-stats/what-if", {"requests": []}, "outlooks")
        thread.join(30)


def test_credentials_are_not_sent_to_the_target_of_a_redirect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        url, elsewhere = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in (server, other))

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(
                    f"HTTP/1.1 302 Found\r\nLocation: {elsewhere}/\r\nContent-Length: 0\r\n\r\n".encode()
                )

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(errors.InvalidInput) as caught:
            api_client.ApiClient(url).get("/types", "volume_types")
        thread.join(30)
        assert caught.value.message == f"the REST API is not at {url}/v3/types but, as is said there, at {elsewhere}/"
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
