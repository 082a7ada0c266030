#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how the code is structured and prints the figures as a table.

The static figures come from the source files: modules per folder, import circles, names of modules, docstrings,
constructors, tests. The trips come from a real ``tonnage-standalone`` process (filesystem driver, SQLite, in-process
message bus) that runs under ``sys.setprofile``: the tool counts the files and functions of Tonnage that one request
passes. Periodic tasks that happen to run during a request are left out.

Run it with the Python of the test environment: ``.venv/bin/python tools/measure_structure.py [--static] [--json]``.
"""

import argparse
import ast
import collections
import configparser
import contextlib
import graphlib
import json
import pathlib
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Functions at which background work begins, by file name and function name. A trace skips each call of one, with all
#: that it calls, unless the trip is about that work.
_PERIODIC = {"run_periodic_tasks", "_keep_house", "check_terminal"}
_REPORTING = {"_report", "reports"}
_LISTING = {"_tell_list", "listings"}
_AUDITING = {"work", "_audit"}

#: Modules of one name that several rooms have by convention.
_CONVENTIONAL = {"__init__", "base", "options"}

#: Most arguments of a constructor, ``self`` not counted.
_MOST_ARGUMENTS = 7

_SCHEDULERS = re.compile(r"\b(SchedulerManager|SchedulerManager|SchedulerService)\(|\"tonnage-(standalone|scheduler)\"")


# Static figures


@dataclass(frozen=True)
class Module:
    """A Python file of a room, parsed."""

    path: pathlib.Path
    tree: ast.Module
    lines: int

    @property
    def room(self) -> str:
        """The folder at the top of the repository."""
        return self.path.parts[0]

    @property
    def name(self) -> str:
        """The dotted name under which the module is imported."""
        parts = self.path.with_suffix("").parts
        return ".".join(["tonnage", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def rooms() -> list[str]:
    """Return the folders at the top of the repository that setup.cfg maps into the package ``tonnage``."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    pairs = [line.split("=", 1) for line in parser["options"]["package_dir"].split("\n") if line]
    return sorted({folder.strip() for _, folder in pairs} - {"tonnage"})


def product_modules() -> list[Module]:
    """Return all modules of all rooms, without generated code."""
    return [
        Module(path.relative_to(ROOT), ast.parse(text), text.count("\n"))
        for room in rooms()
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
        for text in [path.read_text(encoding="utf-8")]
    ]


def modules_per_folder(modules: Sequence[Module]) -> dict[str, int]:
    """Return the number of modules in each folder. Database migrations and ``__init__`` modules do not count."""
    counted = [each.path for each in modules if each.path.stem != "__init__" and "versions" not in each.path.parts]
    return dict(collections.Counter(str(path.parent) for path in counted))


def shared_names(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return the names of modules that stand in more than one room, with these rooms."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for each in modules:
        if each.path.stem not in _CONVENTIONAL:
            found[each.path.stem].add(each.room)
    return {stem: where for stem, where in found.items() if len(where) > 1}


def _is_typing_only(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the imports of a module, those inside functions too; imports for type checkers alone are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child
        elif not (isinstance(child, ast.If) and _is_typing_only(child)):
            yield from _imports(child)


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return the modules of Tonnage that each module imports."""
    names = {each.name for each in modules}
    graph: dict[str, set[str]] = {}
    for each in modules:
        found = {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in names else str(node.module)
            for node in _imports(each.tree)
            for alias in node.names
        }
        graph[each.name] = (found & names) - {each.name}
    return graph


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one import circle, none if there is no circle."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def arrows_up(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the imports that lead from a lower room to a higher one, by the layers of import-linter."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = tools["importlinter"]["contracts"][0]["layers"]
    floor = {room: number for number, layer in enumerate(reversed(layers)) for room in layer.split(" | ")}

    def height(module: str) -> int:
        return floor.get(module.split(".")[1] if "." in module else "", -1)

    return [f"{one} -> {other}" for one, others in graph.items() for other in others if height(one) < height(other)]


def _documented(modules: Sequence[Module]) -> Iterator[tuple[Module, ast.AST, str]]:
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield module, node, text


def docstrings_with_what(modules: Sequence[Module]) -> tuple[int, int]:
    """Return how many docstrings have the word "what", and how many docstrings there are."""
    texts = [text for _, _, text in _documented(modules)]
    return sum(1 for text in texts if re.search(r"\bwhat\b", text, re.IGNORECASE)), len(texts)


def module_docstrings_with_pronoun(modules: Sequence[Module]) -> list[str]:
    """Return the modules whose docstring begins with What, How or From."""
    return [
        str(module.path)
        for module, node, text in _documented(modules)
        if isinstance(node, ast.Module) and re.match(r"(What|How|From)\b", text)
    ]


def _functions(module: Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef))


def long_constructors(modules: Sequence[Module]) -> list[str]:
    """Return the constructors that take more than seven arguments."""
    found = []
    for module in modules:
        for node in _functions(module):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if node.name == "__init__" and len(arguments) - 1 > _MOST_ARGUMENTS:
                found.append(f"{module.path}:{node.lineno}")
    return found


def callable_parameters(modules: Sequence[Module]) -> list[str]:
    """Return the parameters of constructors that are annotated as ``Callable``. Clocks do not count."""
    return [
        f"{module.path}:{node.lineno} {argument.arg}"
        for module in modules
        for node in _functions(module)
        if node.name == "__init__"
        for argument in [*node.args.args, *node.args.kwonlyargs]
        if argument.annotation is not None
        and "Callable" in ast.unparse(argument.annotation)
        and argument.arg != "clock"
    ]


def test_figures() -> dict[str, Any]:
    """Return how often tests use private names and replace attributes, and the modules that start a small Tonnage."""
    private, patches = 0, 0
    harnesses = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                private += not own and node.attr.startswith("_") and not node.attr.startswith("__")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                patches += node.func.attr == "setattr"
        if not path.name.startswith("test_") and _SCHEDULERS.search(text):
            harnesses.append(str(path.relative_to(ROOT)))
    return {"private names used by tests": private, "setattr patches": patches, "harnesses": harnesses}


def static_figures() -> dict[str, Any]:
    """Return the figures that the source files give."""
    modules = product_modules()
    graph = import_graph(modules)
    folders = modules_per_folder(modules)
    what, docstrings = docstrings_with_what(modules)
    tests = test_figures()
    return {
        "product lines": sum(each.lines for each in modules),
        "modules in a folder, at most": max(folders.values()),
        "folders with more than 15 modules": sorted(name for name, number in folders.items() if number > 15),
        "import circle": circle(graph),
        "arrows up": arrows_up(graph),
        "module names in more than one room": len(shared_names(modules)),
        "docstrings with 'what', percent": round(100 * what / docstrings, 1),
        "module docstrings that begin with What, How, From": len(module_docstrings_with_pronoun(modules)),
        "constructors with 8 or more arguments": len(long_constructors(modules)),
        "constructor parameters that are callables": len(callable_parameters(modules)),
        "private names used by tests": tests["private names used by tests"],
        "setattr patches in tests": tests["setattr patches"],
        "harnesses": len(tests["harnesses"]),
    }


# Trips


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


class Tracer:
    """Records calls of Tonnage's functions in all threads that start after :meth:`install`."""

    def __init__(self) -> None:
        self._trip: Trip | None = None
        self._skipped: frozenset[str] = frozenset()
        self._local = threading.local()
        self._paths: dict[CodeType, str] = {}
        self._rooms = set(rooms())

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
        # The main thread waits for signals and looks at its terminal.
        if not path or name == "MainThread":
            return
        if path == "rpc call":
            trip.blocking.append(name)
        elif code.co_name in self._skipped:
            self._local.skipping = frame
        elif not code.co_name.startswith("<"):
            trip.calls.append((name, path, code.co_qualname))


def _is_rpc_call(code: CodeType) -> bool:
    """Tell whether a function is the call of oslo.messaging that waits for an answer."""
    return code.co_filename.endswith("oslo_messaging/rpc/client.py") and code.co_qualname == "_BaseCallContext.call"


def serve(conf: str) -> None:
    """Run the standalone under the tracer. Lines on standard input begin and end a record."""
    tracer = Tracer()

    def control() -> None:
        for line in sys.stdin:
            verb, _, names = line.strip().partition(" ")
            if verb == "begin":
                tracer.begin(frozenset(names.split()))
                print(json.dumps({}), flush=True)
            else:
                trip = tracer.end()
                print(json.dumps({"calls": trip.calls, "blocking": trip.blocking}), flush=True)

    threading.Thread(target=control, daemon=True, name="control").start()
    tracer.install()
    from tonnage.cli import start

    sys.argv = ["tonnage-standalone", "--config-file", conf]
    sys.exit(start.standalone())


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
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(self._conf)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "log").open("w"),
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
        self._process.wait(timeout=60)

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


def trips() -> dict[str, Trip]:
    """Return the trips of a create, a report, a delete and an explanation."""
    background = [*_PERIODIC, *_REPORTING, *_LISTING, *_AUDITING]
    found: dict[str, Trip] = {}
    with tempfile.TemporaryDirectory() as folder:
        standalone = Standalone(pathlib.Path(folder))
        try:
            standalone.wait_until_ready()
            body = {"volume": {"name": "first", "size": 1}}
            for name in ("warm-up", "create"):
                with standalone.traced(*background) as found["create"]:
                    volume = standalone.post("/volumes", {"volume": {"name": name, "size": 1}})["volume"]["id"]
                    status = f"SELECT status FROM volumes WHERE id = '{volume}'"
                    standalone.wait_until_row(status, lambda row: row == ("available",))
                standalone.wait_for_report()
                # Data in a volume: the next report has a smaller free capacity.
                with (pathlib.Path(folder) / "volumes" / volume).open("r+b") as file:
                    file.write(b"x" * 2**25)
                with standalone.traced(*_PERIODIC, *_AUDITING, *_LISTING) as found["report"]:
                    standalone.wait_for_report()
                with standalone.traced(*background) as found["explain"]:
                    standalone.post("/scheduler-stats/explain", body)
                with standalone.traced(*background) as found["delete"]:
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


def main() -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description="Measure the structure of the code.")
    parser.add_argument("--static", action="store_true", help="only the figures of the source files")
    parser.add_argument("--files", action="store_true", help="list the files that each trip passes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
    figures = static_figures()
    found = {} if args.static else trips()
    if found:
        figures.update(trip_figures(found))
    if args.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            print(f"{name:60} {value if value != [] else 'none'}")
    if args.files:
        for name, trip in found.items():
            print(f"\n{name}:", *trip.files(), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
