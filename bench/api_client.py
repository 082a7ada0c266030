# SPDX-License-Identifier: Apache-2.0
"""The clients of the API benchmark: each asks again once it is answered, over a connection of its own that stays."""

import argparse
import http.client
import json
import time
from typing import Any

import load

#: Both servers know a user and a project by such a token, and Cinder takes hexadecimal projects alone in addresses.
_PROJECT = "00000000000000000000000000000001"
_HEADERS = {"X-Auth-Token": f"bench:{_PROJECT}", "Accept": "application/json"}
_VOLUME = json.dumps({"volume": {"size": 1, "name": "bench"}})

#: By which version of the API each thing is asked for: the last that Cinder knows, and the one that came with factors.
_VERSIONS = {"volumes": "3.71", "pools": "3.71", "factors": "3.72"}

_TIMEOUT = 120


class Question:
    """A request, and the status that answers it."""

    def __init__(self, what: str) -> None:
        """``what`` is ``volumes``, to create one of 1 GiB, or ``pools`` or ``factors``, to see all pools in detail."""
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
        """Return what is answered. Raises RuntimeError for another status."""
        connection.request(self._method, self._path, self._body, self._headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != self._status:
            raise RuntimeError(f"{self._method} {self._path}: {answer.status} {said[:500].decode(errors='replace')}")
        return said


class Requests(load.Load):
    """Each thread has a connection."""

    def __init__(self, question: Question, port: int, in_flight: int) -> None:
        super().__init__(in_flight)
        self._question, self._port = question, port
        self._failures: list[str] = []
        self._bytes = 0

    def _others(self) -> dict[str, Any]:
        """Return how long the last answer was, and what was no answer."""
        return {"bytes": self._bytes, "failures": self._failures}

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT)
        while not self._stopping.is_set():
            began = time.perf_counter()
            try:
                said = self._question.ask(connection)
            except (OSError, http.client.HTTPException, RuntimeError) as error:
                with self._lock:
                    self._failures.append(f"{type(error).__name__}: {error}")
                # The next request opens it again.
                connection.close()
                continue
            seconds = time.perf_counter() - began
            with self._lock:
                self._seconds.append(seconds)
                self._bytes = len(said)
        connection.close()


def main() -> None:
    """Talk with the benchmark over the standard streams."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--what", choices=list(_VERSIONS), required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    arguments = parser.parse_args()
    load.talk(Requests(Question(arguments.what), arguments.port, arguments.in_flight))


if __name__ == "__main__":
    main()
