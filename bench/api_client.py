# SPDX-License-Identifier: Apache-2.0
"""The clients of the API benchmark.

Each client has one persistent connection and sends its next request after the answer.
"""

import argparse
import http.client
import json
import time
from typing import Any

import load

#: Without authentication both servers read user and project from this token. Cinder's URLs need hexadecimal projects.
_PROJECT = "00000000000000000000000000000001"
_HEADERS = {"X-Auth-Token": f"bench:{_PROJECT}", "Accept": "application/json"}
_VOLUME = json.dumps({"volume": {"size": 1, "name": "bench"}})

#: The microversion of each request: Cinder's latest, or the one with capacity factors.
_VERSIONS = {"volumes": "3.71", "pools": "3.71", "factors": "3.72"}

_TIMEOUT = 120


class ApiRequest:
    """An HTTP request and the status code of its answer."""

    def __init__(self, what: str) -> None:
        """Create the request.

        ``what`` is ``volumes``, to create one of 1 GiB, or ``pools`` or ``factors``, to list all pools in detail.
        """
        self._headers = {**_HEADERS, "OpenStack-API-Version": f"volume {_VERSIONS[what]}"}
        if what == "volumes":
            self._method, self._path, self._body = "POST", f"/v3/{_PROJECT}/volumes", _VOLUME
            self._headers["Content-Type"] = "application/json"
            self._status = 202
        else:
            self._method, self._body = "GET", None
            self._path = f"/v3/{_PROJECT}/scheduler-stats/get_pools?detail=True"
            self._status = 200

    def ask(self, connection: http.client.HTTPConnection) -> bytes:
        """Return the body of the answer. Raises RuntimeError for another status."""
        connection.request(self._method, self._path, self._body, self._headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != self._status:
            raise RuntimeError(f"{self._method} {self._path}: {answer.status} {said[:500].decode(errors='replace')}")
        return said


class Requests(load.Load):
    """A load of HTTP requests. Each thread has one connection."""

    def __init__(self, request: ApiRequest, port: int, in_flight: int) -> None:
        super().__init__(in_flight)
        self._request, self._port = request, port
        self._failures: list[str] = []
        self._bytes = 0

    def _others(self) -> dict[str, Any]:
        """Return the size of the last answer in bytes, and the failures."""
        return {"bytes": self._bytes, "failures": self._failures}

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT)
        while not self._stopping.is_set():
            began = time.perf_counter()
            try:
                said = self._request.ask(connection)
            except (OSError, http.client.HTTPException, RuntimeError) as error:
                with self._lock:
                    self._failures.append(f"{type(error).__name__}: {error}")
                # The next request opens a new connection.
                connection.close()
                continue
            seconds = time.perf_counter() - began
            with self._lock:
                self._seconds.append(seconds)
                self._bytes = len(said)
        connection.close()


def main() -> None:
    """Execute the benchmark's commands from standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--what", choices=list(_VERSIONS), required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    arguments = parser.parse_args()
    load.talk(Requests(ApiRequest(arguments.what), arguments.port, arguments.in_flight))


if __name__ == "__main__":
    main()
