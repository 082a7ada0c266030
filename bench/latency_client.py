# SPDX-License-Identifier: Apache-2.0
"""The clients of the latency benchmark.

Each client creates a volume, polls it until it is available, deletes it, and polls it until it is gone.
"""

import argparse
import http.client
import json
import time
from typing import Any

import load

#: Without authentication both servers read user and project from this token. Cinder's URLs need hexadecimal projects.
PROJECT = "00000000000000000000000000000001"
HEADERS = {
    "X-Auth-Token": f"bench:{PROJECT}",
    "Accept": "application/json",
    "Content-Type": "application/json",
    "OpenStack-API-Version": "volume 3.71",
}
_VOLUME = json.dumps({"volume": {"size": 1, "name": "bench"}})

_TIMEOUT = 120

#: Seconds until a volume must be available, and until it must be gone.
_PATIENCE = 60.0


class _Api:
    """A connection to the REST API."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        self._connection.request(method, f"/v3/{PROJECT}{path}", body, HEADERS)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._connection.close()


class Lives(load.Load):
    """Volumes that are created and deleted one after another, by ``in_flight`` clients side by side.

    ``poll`` is the number of seconds between two polls of a client.
    """

    def __init__(self, port: int, in_flight: int, poll: float) -> None:
        super().__init__(in_flight)
        self._port, self._poll = port, poll
        self._available: list[float] = []
        self._gone: list[float] = []
        self._polls = 0
        self._failures: list[str] = []

    def _others(self) -> dict[str, Any]:
        """Return the seconds until available and until gone, the number of polls, and the failures."""
        found = {"available": self._available, "gone": self._gone}
        return {**found, "polls": self._polls, "failures": self._failures}

    def repeat(self, number: int) -> int:
        """Take so many lives one after another, in this thread, and return the number of polls."""
        api, polls = _Api(self._port), self._polls
        for _ in range(number):
            self._live(api)
        api.close()
        return self._polls - polls

    def _ask(self) -> None:
        api = _Api(self._port)
        while not self._stopping.is_set():
            try:
                answered, available, gone = self._live(api)
            except (OSError, http.client.HTTPException, RuntimeError) as error:
                with self._lock:
                    self._failures.append(f"{type(error).__name__}: {error}")
                api.close()
                continue
            with self._lock:
                self._seconds.append(answered)
                self._available.append(available)
                self._gone.append(gone)
        api.close()

    def _live(self, api: _Api) -> tuple[float, float, float]:
        """Create and delete a volume; return the seconds until the answer, until available and until gone."""
        began = time.perf_counter()
        status, said = api.ask("POST", "/volumes", _VOLUME)
        answered = time.perf_counter() - began
        if status != 202:
            raise RuntimeError(f"POST /volumes: {status} {said[:500].decode(errors='replace')}")
        path = f"/volumes/{json.loads(said)['volume']['id']}"
        self._wait(api, path, "available")
        available = time.perf_counter() - began
        began = time.perf_counter()
        status, said = api.ask("DELETE", path)
        if status != 202:
            raise RuntimeError(f"DELETE {path}: {status} {said[:500].decode(errors='replace')}")
        self._wait(api, path, None)
        return answered, available, time.perf_counter() - began

    def _wait(self, api: _Api, path: str, wanted: str | None) -> None:
        """Poll a volume until it has the wanted status; None: until it is gone."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            status, said = api.ask("GET", path)
            with self._lock:
                self._polls += 1
            seen = (
                None if status == 404 else json.loads(said)["volume"]["status"] if status == 200 else f"HTTP {status}"
            )
            if seen == wanted:
                return
            if seen == "error" or seen is None or time.monotonic() > deadline:
                raise RuntimeError(f"{path} is {seen}, not {wanted or 'gone'}")
            time.sleep(self._poll)


def _status(code: int, said: bytes) -> str | None:
    """Return the status of the volume in an answer, None if there is no such volume."""
    if code == 404:
        return None
    return str(json.loads(said)["volume"]["status"]) if code == 200 else f"HTTP {code}"


def main() -> None:
    """Execute the benchmark's commands from standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument("--poll", type=float, required=True)
    arguments = parser.parse_args()
    load.talk(Lives(arguments.port, arguments.in_flight, arguments.poll))


if __name__ == "__main__":
    main()
