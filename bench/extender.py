#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the extender: the time of kube-scheduler's requests, as kube-scheduler sees it, over HTTP.

Run it with the Python that Tonnage is installed in::

    python bench/extender.py
    python bench/extender.py --nodes 5000 --claims 4 --json
    python bench/extender.py --nodes 5000 --claims 1 --active 5000

``tonnage-api`` serves the extender from a ledger in PostgreSQL, which waits for the disk. Each node has a pool of its
own; half of the pools are too small for the pod, so half of the nodes get a reason. The requests have the names of the
nodes, and come one after the other on one connection, as those of a kube-scheduler with ``nodeCacheCapable``. The API
server of the cluster is that of the tests, a thread of this process. With ``--active`` others have so many claims on
the pools with room, in turns, before the first request.

============  ==========================================================================================  ===========
request       meaning                                                                                      budget
============  ==========================================================================================  ===========
first         the first filter of a process when it is ready                                               100 ms
filter        a pod with claims, nothing reserved                                                          p95 25 ms
prioritize    the scores for the same pod                                                                  none
reserving     a filter with ``extender_reserves``, another pod each time                                   p95 60 ms
two clients   the same from two connections at once, as those of two kube-schedulers                       none
no volumes    a filter of a pod without volumes                                                            p95 2 ms
============  ==========================================================================================  ===========

Exit status: 0; 1 if a request was not answered, or with other nodes than those with room; 3 with ``--check`` if a
budget was exceeded. The budgets are for a machine at rest.
"""

import argparse
import contextlib
import dataclasses
import functools
import http.client
import itertools
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import command
import psutil
import throughput_machine as machine

# isort: split
# After the module above, which adds the folder of the tests to the path.
import comparison_runner

from tests import servers
from tests.servers import base, ledger_schema
from tests.servers.kube_api import KubeApi
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db import database

COMMANDS = pathlib.Path(sys.executable).parent
DRIVER, CLASS, HOST = "disk.example.com", "fast", "kubernetes.io/hostname"
CLAIM_GI = 6
#: The number of claims that each of the others has.
CLAIMS_OF_HOLDER = 8

#: Budgets in milliseconds, by request: of the 95th percentile, and of the first request.
BUDGETS = {"first": 100.0, "filter": 25.0, "reserving": 60.0, "no volumes": 2.0}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Times of requests of one kind, in milliseconds.

    ``processor`` is that of the extender for one request, ``per_second`` the number of requests that all clients
    together have had answered in a second.
    """

    request: str
    calls: int
    processor: float
    per_second: float
    p50: float
    p95: float
    longest: float

    @classmethod
    def of(cls, request: str, seconds: Sequence[float], processor_seconds: float, duration: float) -> "Latency":
        """Return the figures of these times, and of the extender's processor time for all of them.

        ``duration`` is the seconds that all requests took together.
        """
        milliseconds = sorted(duration_s * 1000 for duration_s in seconds)
        p95 = (
            statistics.quantiles(milliseconds, n=20, method="inclusive")[-1]
            if len(milliseconds) > 1
            else milliseconds[0]
        )
        return cls(
            request=request,
            calls=len(milliseconds),
            processor=round(processor_seconds * 1000 / len(milliseconds), 2),
            per_second=round(len(milliseconds) / duration, 1),
            p50=round(statistics.median(milliseconds), 2),
            p95=round(p95, 2),
            longest=round(milliseconds[-1], 2),
        )

    @property
    def exceeded(self) -> bool:
        """Whether the budget is exceeded."""
        return self.p95 > BUDGETS.get(self.request, float("inf"))


class Client:
    """A kube-scheduler with one connection to an extender, which is the process ``pid``."""

    def __init__(self, pid: int, port: int, nodes: Sequence[str]) -> None:
        self.pid = pid
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._nodes = json.dumps(list(nodes))

    def ask(self, verb: str, uid: str, claims: Sequence[str]) -> tuple[float, Any]:
        """Send a request; return the seconds until its answer, and the answer.

        Raises :class:`command.BenchmarkError` for an error.
        """
        volumes = [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in claims]
        pod = {
            "metadata": {"name": f"pod-{uid}", "namespace": "default", "uid": uid},
            "spec": {"volumes": volumes, "containers": [{"name": "main", "image": "example.com/image"}]},
        }
        head = json.dumps({"Pod": pod, "Nodes": None})[:-1]
        body = f'{head}, "NodeNames": {self._nodes}}}'.encode()
        began = time.perf_counter()
        self._connection.request("POST", f"/k8s/{verb}", body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        raw = response.read()
        seconds = time.perf_counter() - began
        answer = json.loads(raw)
        if response.status != 200 or (verb == "filter" and answer["Error"]):
            raise command.BenchmarkError(f"{verb}: {response.status} {raw[:300]!r}")
        return seconds, answer

    def times(self, request: str, calls: int, ask: Callable[[int], float]) -> Latency:
        """Return the figures of some requests; ``ask`` sends one with a number, and returns its seconds."""
        before = machine.processor_seconds(self.pid)
        seconds = [ask(number) for number in range(calls)]
        return Latency.of(request, seconds, machine.processor_seconds(self.pid) - before, sum(seconds))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def together(request: str, calls: int, clients: Mapping[Client, Callable[[int], float]]) -> Latency:
    """Return the figures of the requests of several clients of one extender at the same time, all with other numbers.

    The times between the requests of a client are in the rate: each client decodes the answer first.
    """
    [pid] = {client.pid for client in clients}
    before, began = machine.processor_seconds(pid), time.perf_counter()
    with futures.ThreadPoolExecutor(len(clients)) as threads:
        parts = [
            threads.submit(lambda ask, first: [ask(number) for number in range(first, calls, len(clients))], ask, first)
            for first, ask in enumerate(clients.values())
        ]
        seconds = [seconds for part in parts for seconds in part.result()]
    whole = time.perf_counter() - began
    return Latency.of(request, seconds, machine.processor_seconds(pid) - before, whole)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--claims", type=int, default=2, help="claims of a pod")
    parser.add_argument("--active", type=int, default=0, help="claims of others that are active")
    parser.add_argument("--calls", type=int, default=400, help="requests of each kind")
    parser.add_argument("--check", action="store_true", help="end with status 3 if a budget was exceeded")
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    return parser.parse_args(words)


def fill(url: str, nodes: Sequence[str], claims: int, active: int) -> None:
    """Make a ledger with a pool for each node: one that is too small, and one with room for many pods, in turns.

    ``active`` is the number of claims of others on the latter.
    """
    engine = database.create_engine(url)
    ledger_schema.create(engine)
    small, large = f"{claims * CLAIM_GI - 1}Gi", f"{claims * CLAIM_GI * 1000}Gi"
    pools = [
        {
            "name": node,
            "capacity": large if number % 2 else small,
            "nodeTopology": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}]
            },
        }
        for number, node in enumerate(nodes)
    ]
    raw = {"spec": {"capacityTracking": True}, "status": {"storage": [{"storageClassName": CLASS, "pools": pools}]}}
    change = type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
    ledger = database.Database(engine)
    ledger.run(driver_rows.patch, DRIVER, change)
    queries, with_room = NodeQueries(ledger), itertools.cycle(nodes[1::2])
    for number in range(0, active, CLAIMS_OF_HOLDER):
        volumes = [Volume(f"v{n}", DRIVER, CLASS, 2**20) for n in range(number, min(active, number + CLAIMS_OF_HOLDER))]
        node = next(with_room)
        queries.claim(volumes, Nodes([Node(node, {HOST: node})]), f"other{number}", 3600.0)
    ledger.close()


def measured(given: argparse.Namespace) -> Iterator[Latency]:
    """Yield the figures of each kind of request.

    Raises :class:`~throughput_machine.NotAvailable` without a PostgreSQL, and :class:`command.BenchmarkError`.
    """
    nodes = [f"node-{number}.example.com" for number in range(given.nodes)]
    names = [f"data-{number}" for number in range(given.claims)]
    with (
        machine.start(servers.PostgreSQL) as server,
        server.database() as url,
        KubeApi() as cluster,
        machine.ProcessGroup() as processes,
    ):
        fill(url, nodes, given.claims, given.active)
        for node in nodes:
            cluster.nodes[node] = {HOST: node}
        cluster.add_class(CLASS, DRIVER)
        for name in names:
            cluster.add_claim(name, f"{CLAIM_GI}Gi", CLASS)
        with_room = nodes[1::2]

        def extender(name: str, *, reserves: bool) -> Client:
            port = base.free_port()
            conf = processes.folder / f"{name}.conf"
            conf.write_text(
                f"[DEFAULT]\nosapi_volume_listen_port = {base.free_port()}\ntransport_url = kombu+memory://\n"
                f"[database]\nconnection = {url}\n"
                f"[kubernetes]\nextender = true\nextender_listen_port = {port}\nextender_reserves = {reserves}\n"
                f"kubeconfig = {cluster.kubeconfig(processes.folder)}\n",
                encoding="utf-8",
            )
            process = processes.start(name, COMMANDS / "tonnage-api", "--config-file", conf)
            processes.until(lambda: _is_ready(port), f"{name} to be ready")
            return Client(process.pid, port, nodes)

        plain = extender("plain", reserves=False)

        def filtered(number: int) -> float:
            seconds, answer = plain.ask("filter", "u0", names)
            if answer["NodeNames"] != with_room:
                raise command.BenchmarkError(
                    f"{len(answer['NodeNames'])} nodes fit, not the {len(with_room)} with room"
                )
            return seconds

        warm_up = given.calls // 10 + 1
        yield plain.times("first", 1, filtered)
        plain.times("", warm_up, filtered)
        yield plain.times("filter", given.calls, filtered)
        yield plain.times("prioritize", given.calls, lambda number: plain.ask("prioritize", "u0", names)[0])
        yield plain.times("no volumes", given.calls, lambda number: plain.ask("filter", "u0", [])[0])
        plain.close()
        reserving = extender("reserving", reserves=True)

        def reserve(number: int, client: Client = reserving, scheduler: str = "") -> float:
            seconds, answer = client.ask("filter", f"u{scheduler}{number}", names)
            if len(answer["NodeNames"]) != 1 or answer["NodeNames"][0] not in with_room:
                raise command.BenchmarkError(f"room is held on {answer['NodeNames']}")
            return seconds

        reserving.times("", warm_up, lambda number: reserve(-1 - number))
        yield reserving.times("reserving", given.calls, reserve)
        second = Client(reserving.pid, reserving.port, nodes)
        clients = {client: functools.partial(reserve, client=client, scheduler="s") for client in (reserving, second)}
        yield together("two clients", given.calls, clients)
        for client in clients:
            client.close()


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    return False


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    given = arguments(words)
    fsyncs = machine.fsyncs_per_second()
    psutil.cpu_percent()
    latencies, succeeded = command.collect(
        "extender.py", measured(given), lambda latency: f"{latency.request}: p50 {latency.p50} ms, p95 {latency.p95} ms"
    )
    busy = psutil.cpu_percent() / 100 * (os.cpu_count() or 1)
    about = {
        "nodes": given.nodes,
        "claims": given.claims,
        "active": given.active,
        "fsyncs": round(fsyncs),
        "busy_cpus": round(busy, 2),
        "load": [round(load, 2) for load in os.getloadavg()],
    }
    if given.json:
        print(json.dumps({**about, "requests": [dataclasses.asdict(latency) for latency in latencies]}))
    else:
        heads = ["request", "calls", "p50 ms", "p95 ms", "longest ms", "budget ms", "processor ms", "a second"]
        rows = [
            [
                *(
                    latency.request,
                    latency.calls,
                    latency.p50,
                    latency.p95,
                    latency.longest,
                    BUDGETS.get(latency.request, ""),
                ),
                *(latency.processor, latency.per_second),
            ]
            for latency in latencies
        ]
        print(comparison_runner.table(heads, rows))
        print(", ".join(f"{key} {value}" for key, value in about.items()))
    if not succeeded:
        return 1
    return 3 if given.check and any(latency.exceeded for latency in latencies) else 0


if __name__ == "__main__":
    sys.exit(main())
