#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the files and functions of Tonnage that one request passes.

The requests go to a real ``tonnage-standalone`` process (filesystem driver, SQLite, in-process message bus) that runs
under ``sys.setprofile``. Background work that happens to run during a request is left out. ``measure_structure.py``
prints the figures.
"""

import contextlib
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, TextIO

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Functions at which background work begins, by qualified name. A trace skips each call of one, with all that it calls,
#: unless the trip is about that work.
_PERIODIC = {"DecisionThread._run_periodic_tasks", "_SignalReader._lost_terminal"}
_REPORTING = {
    "BackendAgent._rest",
    "BackendAgent._has_news",
    "BackendAgent._report",
    "SchedulerManager.report",
    "ReportHandler.reports",
}
_LISTING = {"ListingLoop._list_once", "SchedulerManager.listing", "Registration.listings"}
_AUDITING = {"AuditThread._audit_waiting"}
_BACKGROUND = _PERIODIC | _REPORTING | _LISTING | _AUDITING


@dataclass
class Trip:
    """The calls of Tonnage's functions during one request."""

    calls: list[tuple[str, str, str]] = field(default_factory=list)
    blocking: list[str] = field(default_factory=list)

    def figures(self, thread: str = "") -> tuple[int, int]:
        """Return the number of files and of functions that were passed, in threads of that name or in all."""
        passed = {(path, function) for name, path, function in self.calls if thread in name}
        return len({path for path, _ in passed}), len(passed)

    def files(self, thread: str = "") -> list[str]:
        """Return the files that were passed, sorted."""
        return sorted({path for name, path, _ in self.calls if thread in name})

    def functions(self) -> list[tuple[str, list[str]]]:
        """Return the files that were passed, sorted, each with its functions in the order of their first calls."""
        passed = dict.fromkeys((path, function) for _, path, function in self.calls)
        return [(path, [function for of, function in passed if of == path]) for path in self.files()]


class Tracer:
    """Records calls of Tonnage's functions in all threads that start after :meth:`install`."""

    def __init__(self) -> None:
        self._trip: Trip | None = None
        self._skipped: frozenset[str] = frozenset()
        self._local = threading.local()
        self._paths: dict[CodeType, str] = {}
        self._rooms = {path.name for path in (ROOT / "tonnage").iterdir() if path.is_dir()}

    def install(self) -> None:
        """Trace this thread and all that are started from now on."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def begin(self, skipped: frozenset[str]) -> None:
        """Start to record; calls of the functions named in ``skipped`` are left out with all that they call."""
        self._skipped = skipped
        self._trip = Trip()

    def end(self) -> Trip:
        """Stop and return the record."""
        trip, self._trip = self._trip, None
        return trip or Trip()

    def _path(self, code: CodeType) -> str:
        """Return the path of a function's file from the top of the repository, "" if it is not Tonnage's."""
        if code not in self._paths:
            path = pathlib.Path(code.co_filename)
            found = ""
            if path.is_absolute() and path.suffix == ".py":
                with contextlib.suppress(ValueError):
                    found = str(path.resolve().relative_to(ROOT))
            of_room = found.partition("/")[0] in self._rooms
            self._paths[code] = found if of_room else "rpc call" if _is_rpc_call(code) else ""
        return self._paths[code]

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        trip = self._trip
        if trip is None:
            self._local.skipping = None
            return
        skipping = getattr(self._local, "skipping", None)
        if skipping is not None:
            if event == "return" and frame is skipping:
                self._local.skipping = None
            return
        if event != "call":
            return
        code = frame.f_code
        path = self._path(code)
        name = threading.current_thread().name
        # The main thread waits for the end of the process.
        if not path or name == "MainThread":
            return
        if path == "rpc call":
            trip.blocking.append(name)
        elif code.co_qualname.rpartition("<locals>.")[2] in self._skipped:
            self._local.skipping = frame
        elif not code.co_name.startswith("<"):
            trip.calls.append((name, path, code.co_qualname))


def _is_rpc_call(code: CodeType) -> bool:
    """Tell whether a function is the call of oslo.messaging that waits for an answer."""
    return code.co_filename.endswith("oslo_messaging/rpc/client.py") and code.co_qualname == "_BaseCallContext.call"


def serve(conf: str) -> None:
    """Run the standalone under the tracer. Lines on standard input begin and end a record."""
    tracer = Tracer()
    # The standalone forks the process of its API, which keeps a record of its own.
    to_api, of_parent = (end.makefile("rw") for end in socket.socketpair())
    os.register_at_fork(after_in_child=lambda: _start_control(tracer, of_parent, of_parent))
    # The forked process closes ``sys.stdin``, which a thread of this one must not be reading then.
    _start_control(tracer, os.fdopen(os.dup(sys.stdin.fileno())), sys.stdout, to_api)
    tracer.install()
    from tonnage.cli import start

    sys.argv = ["tonnage-standalone", "--config-file", conf]
    sys.exit(start.standalone())


def _start_control(tracer: Tracer, orders: TextIO, answers: TextIO, api: TextIO | None = None) -> None:
    """Follow orders on a thread of their own; forward them to the process of the API, and add its record."""

    def control() -> None:
        for line in orders:
            verb, _, names = line.strip().partition(" ")
            record: dict[str, list[Any]] = {"calls": [], "blocking": []}
            if verb == "begin":
                tracer.begin(frozenset(names.split()))
            else:
                trip = tracer.end()
                record = {"calls": trip.calls, "blocking": trip.blocking}
            if api is not None:
                print(line.strip(), file=api, flush=True)
                for name, calls in json.loads(api.readline()).items():
                    record[name] += calls
            print(json.dumps(record), file=answers, flush=True)

    threading.Thread(target=control, daemon=True, name="control").start()


_CONF = """
[DEFAULT]
host = here
state_path = {folder}
enabled_backends = files
backend_stats_polling_interval = {interval}
service_down_time = 600
scheduler_default_filters = {filters}
scheduler_default_weighers = CapacityWeigher
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = {port}
auth_strategy = noauth
transport_url = kombu+memory://
[database]
connection = sqlite:///{folder}/tonnage.sqlite
[files]
volume_driver = filesystem
volume_backend_name = files
filesystem_path = {folder}/volumes
filesystem_size_limit_gb = 20
filesystem_provisioning = thin
"""


_FILTERS = "AvailabilityZoneFilter, CapacityFilter, CapabilitiesFilter, SameBackendFilter, DifferentBackendFilter"


class Standalone:
    """A standalone under the tracer, with its folder and its port."""

    def __init__(self, folder: pathlib.Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._folder = folder
        self._conf = folder / "tonnage.conf"
        self._conf.write_text(
            _CONF.format(folder=folder, interval=5, port=self._port, filters=_FILTERS), encoding="utf-8"
        )
        program = [sys.executable, "-c", "from tonnage.cli import start; start.manage()"]
        (folder / "volumes").mkdir()
        subprocess.run(
            [*program, "--config-file", str(self._conf), "db", "sync"], check=True, stdout=subprocess.DEVNULL
        )
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(self._conf)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def wait_until_ready(self) -> None:
        """Wait for a first report."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, IndexError):
                if self.get("/scheduler-stats/get_pools?detail=true")["pools"][0]["capabilities"]["free_capacity_gb"]:
                    return
            time.sleep(0.5)
        raise SystemExit("the standalone does not answer; its log:\n" + (self._folder / "log").read_text())

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        # It closes the pipes as well.
        self._process.communicate(timeout=60)

    def _order(self, line: str) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the process has no pipes")
        stdin.write(line + "\n")
        stdin.flush()
        while not (said := stdout.readline()).startswith("{"):
            if not said:
                raise SystemExit("the standalone ended; its log:\n" + (self._folder / "log").read_text())
        answer: dict[str, Any] = json.loads(said)
        return answer

    @contextlib.contextmanager
    def traced(self, *skipped: str) -> Iterator[Trip]:
        """Record the calls of a block; the trip is filled when the block has ended."""
        trip = Trip()
        self._order("begin " + " ".join(skipped))
        yield trip
        answer = self._order("end")
        trip.calls += [(thread, path, function) for thread, path, function in answer["calls"]]
        trip.blocking += answer["blocking"]

    def _send(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/v3/demo{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  (the scheme is ours)
            text = answer.read()
        return json.loads(text) if text else None

    def get(self, path: str) -> Any:
        """Return the body of an answer."""
        return self._send("GET", path)

    def post(self, path: str, body: object) -> Any:
        """Send a body and return that of the answer."""
        return self._send("POST", path, body)

    def delete(self, path: str) -> None:
        """Send a DELETE."""
        self._send("DELETE", path)

    def row(self, query: str) -> Any:
        """Return the row that a query of the ledger finds, None if there is none."""
        with contextlib.closing(sqlite3.connect(f"file:{self._folder}/tonnage.sqlite?mode=ro", uri=True)) as base:
            return base.execute(query).fetchone()

    def wait_for_report(self) -> None:
        """Wait until the scheduler has applied one more report."""
        [seq] = self.row("SELECT report_seq FROM backends")
        self.wait_until_row(f"SELECT report_seq > {seq} FROM backends", lambda row: row == (1,))

    def wait_until_row(self, query: str, matches: Callable[[Any], bool]) -> None:
        """Wait until a query of the ledger returns a row that matches."""
        deadline = time.monotonic() + 60
        while not matches(self.row(query)):
            if time.monotonic() > deadline:
                raise SystemExit(f"nothing matched: {query}")
            time.sleep(0.05)
        # For the answers that follow the commit.
        time.sleep(0.3)


def _require_functions(names: Collection[str]) -> None:
    """Raise :class:`SystemExit` if a class or function that a trace skips has another name by now."""
    rooms = [path for path in (ROOT / "tonnage").iterdir() if path.is_dir()]
    texts = [path.read_text(encoding="utf-8") for room in rooms for path in room.resolve().rglob("*.py")]
    for name in names:
        owner, _, function = name.rpartition(".")
        if not any(f"def {function}(" in text and f"class {owner}" * bool(owner) in text for text in texts):
            raise SystemExit(f"no module has {name}: correct the names of the background work")


def trips() -> dict[str, Trip]:
    """Return the trips of a create, a report, a delete and an explanation."""
    _require_functions(_BACKGROUND)
    found: dict[str, Trip] = {}
    with tempfile.TemporaryDirectory() as folder:
        standalone = Standalone(pathlib.Path(folder))
        try:
            standalone.wait_until_ready()
            body = {"volume": {"name": "first", "size": 1}}
            for name in ("warm-up", "create"):
                with standalone.traced(*_BACKGROUND) as found["create"]:
                    volume = standalone.post("/volumes", {"volume": {"name": name, "size": 1}})["volume"]["id"]
                    status = f"SELECT status FROM volumes WHERE id = '{volume}'"
                    standalone.wait_until_row(status, lambda row: row == ("available",))
                standalone.wait_for_report()
                # Data in a volume: the next report has a smaller free capacity.
                with (pathlib.Path(folder) / "volumes" / volume).open("r+b") as file:
                    file.write(b"x" * 2**25)
                with standalone.traced(*(_BACKGROUND - _REPORTING)) as found["report"]:
                    standalone.wait_for_report()
                with standalone.traced(*_BACKGROUND) as found["explain"]:
                    standalone.post("/scheduler-stats/explain", body)
                with standalone.traced(*_BACKGROUND) as found["delete"]:
                    standalone.delete(f"/volumes/{volume}")
                    standalone.wait_until_row(status, lambda row: row is None or row == ("deleted",))
        finally:
            standalone.stop()
    return found


def trip_figures(found: Mapping[str, Trip]) -> dict[str, Any]:
    """Return the figures of the trips."""
    figures: dict[str, Any] = {}
    for name, trip in found.items():
        files, functions = trip.figures()
        figures[f"{name}: files / functions passed"] = f"{files} / {functions}"
    figures["create: files passed in the decision thread"] = found["create"].figures("decisions")[0]
    before = [name for name in found["report"].blocking if "agent" in name]
    figures["report: blocking calls of the agent"] = len(before)
    return figures


if __name__ == "__main__":
    serve(sys.argv[1])
