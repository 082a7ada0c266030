# SPDX-License-Identifier: Apache-2.0
"""Benchmark of Tonnage's scheduler within one process: decisions and reports, alone and in the whole scheduler.

The filters and the weigher are the defaults, loaded as the scheduler loads them. ``pipeline`` is the whole scheduler as
its RPC server calls it, with decision thread and ledger (SQLite in memory), and ``rpc`` the same over an in-process
message bus.
"""

import argparse
import contextlib
import copy
import gc
import itertools
import json
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
import workload
from oslo_config import cfg
from oslo_messaging import conffixture
from oslo_serialization import jsonutils
from sqlalchemy import event, orm

from tonnage import extension
from tonnage.capacity.pool_stats import StatsColumns
from tonnage.capacity.pools.pool import pool_name
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.reports import validation
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db import database, schema
from tonnage.rpc import contract, serialization, transport
from tonnage.rpc import options as rpc_options
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import REPORT_STEP, BackendReport, CreateVolume, Hello, PoolQuery
from tonnage.rpc.packed_reports import PackedReport
from tonnage.rpc.scheduler_server import SchedulerServer
from tonnage.scheduler import endpoints
from tonnage.scheduler.configuration import plugins, settings
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.pool_selection import Rules

P = ParamSpec("P")
T = TypeVar("T")

#: Number of requests that the whole scheduler gets together: the default size of a batch.
_TOGETHER = 64

_SIZES = workload.sizes()


def configuration() -> cfg.ConfigOpts:
    """Return the default options, without quotas and silent backends."""
    conf = cfg.ConfigOpts()
    settings.register(conf)
    rpc_options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    for name in ("quota_volumes", "quota_gigabytes"):
        conf.set_override(name, -1)
    # No backend reports twice in a long measurement.
    conf.set_override("service_down_time", 86400)
    return conf


class Core:
    """The pool table with filters and weighers alone."""

    def __init__(self, pools: int) -> None:
        conf = configuration()
        chain = plugins.load_filters(conf)
        self._filters = FilterChain([BackendStateFilter(60.0), *chain.filters])
        self._weighers = plugins.load_weighers(conf)
        self.table = PoolTable()
        self._numbers = itertools.count()
        self.bytes_per_pool = (
            workload.allocated_bytes(lambda: (self.ingest(workload.reports(pools)), self.look())) // pools
        )

    def ingest(self, backends: dict[str, list[dict[str, Any]]]) -> None:
        """Validate a report of each backend and update the columns."""
        for backend, pools in backends.items():
            columns = StatsColumns.of(validation.validate(pools).pools)
            names = [pool_name(backend, name) for name in columns.name]
            self.table.put_columns(names, columns.by_field() | {"availability_zone": "nova"})

    def empty(self) -> None:
        """Remove all pools."""
        self.table = PoolTable()

    def forget(self) -> None:
        """Discard the cached results of earlier decisions."""
        self.table = self.table.snapshot()

    def look(self) -> int:
        """Decide one request without counting it. Raises LookupError if no pool fits."""
        request = Request(
            f"req-{next(self._numbers)}", next(_SIZES), volume_type="gold", extra_specs=dict(workload.EXTRA_SPECS)
        )
        index = self._weighers.rank(self.table, request, self._filters.candidates(self.table, request))
        if index is None:
            raise LookupError(request.describe())
        return index

    def decide(self) -> None:
        """Decide one request and count it in its pool."""
        self.table.claim(self.look(), 10, 0)


def packed(backend: str, pools: list[dict[str, Any]]) -> PackedReport:
    """Return the packed report of a backend, as it travels over the message bus."""
    return PackedReport.of(BackendReport(backend=backend, epoch=1, seq=1, covers=1, pools=pools))


class Whole:
    """The whole scheduler, with its own ledger."""

    def __init__(self, pools: int) -> None:
        conf = configuration()
        # A file, because with SQLite's own in-memory database each thread would have another ledger.
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self._folder = tempfile.TemporaryDirectory(prefix="tonnage-bench-", dir=memory)
        self._engine = database.create_engine(f"sqlite:///{self._folder.name}/ledger.sqlite")
        schema.sync(self._engine, extension.installed())
        self.ledger = ledger = TimedDatabase(self._engine)
        self.sql = SqlTime(self._engine)
        agents: Any = SimpleNamespace(
            run=lambda *given: None, report_now=lambda *given: None, list_now=lambda *given: None
        )
        mine = settings.from_conf(conf)
        self.core = SchedulerManager(
            mine,
            ledger,
            agents,
            Rules(plugins.load_filters(conf), plugins.load_weighers(conf), mine.calculation),
        )
        self.core.start()
        ledger.run(lambda session: volume_types.create(session, "gold", specs=workload.EXTRA_SPECS) and None)
        self._seq = itertools.count(REPORT_STEP, REPORT_STEP)
        self._epochs: dict[str, int] = {}
        self.bytes_per_pool = workload.allocated_bytes(lambda: self.report(workload.reports(pools))) // pools
        gc.freeze()  # as the scheduler's process does

    def report(self, backends: dict[str, list[dict[str, Any]]]) -> None:
        """Send a report of each backend and wait until it is applied."""
        for name, pools in backends.items():
            if name not in self._epochs:
                hello = Hello(backend=name, nonce=str(uuid.uuid4()), availability_zone="nova", driver="bench")
                self._epochs[name] = self.core.hello(hello).epoch
            seq = next(self._seq)
            message = BackendReport(backend=name, epoch=self._epochs[name], seq=seq, covers=seq, pools=pools)
            self.core.report(PackedReport.of(message))
        for name, pools in backends.items():
            self._wait(pool_name(name, pools[-1]["pool_name"]), pools[-1]["free_capacity_gb"])

    def _wait(self, name: str, free: float) -> None:
        deadline = time.monotonic() + 600
        while not any(
            view.capabilities["free_capacity_gb"] == free for view in self.core.get_pools(PoolQuery(name=name))
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the report of {name} was not applied")
            time.sleep(0.02)

    def orders(self, number: int) -> list[CreateVolume]:
        """Return requests for ``number`` volumes."""
        return [
            CreateVolume(
                request_id=f"req-{uuid.uuid4()}",
                volume_id=str(uuid.uuid4()),
                size_gb=next(_SIZES),
                project_id="bench",
                volume_type="gold",
            )
            for _ in range(number)
        ]

    def place(self, number: int) -> None:
        """Place ``number`` volumes together. Raises LookupError if one is not placed."""
        for answer in self.core.handle_batch(self.orders(number)):
            if getattr(answer, "pool", None) is None:
                raise LookupError(str(answer))

    @contextlib.contextmanager
    def served(self) -> Iterator[SchedulerClient]:
        """Yield a client of this scheduler on a message bus in this process."""
        conf = configuration()
        with conffixture.ConfFixture(conf, transport_url="kombu+memory://"):
            conf.set_override("transport_url", "kombu+memory://")
            bus = transport.create(conf)
            server = SchedulerServer(bus, "bench", endpoints.build(self.core))
            server.start()
            yield SchedulerClient(bus)
            server.stop()
            server.wait()
            bus.cleanup()

    def stop(self) -> None:
        """Stop the scheduler and remove its ledger."""
        self.core.stop()
        self._engine.dispose()
        self._folder.cleanup()


class SqlTime:
    """The processor time of all SQL statements in all threads, in seconds."""

    def __init__(self, engine: sa.Engine) -> None:
        self.seconds = 0.0
        self._began = threading.local()
        event.listen(engine, "before_cursor_execute", self._begin)
        event.listen(engine, "after_cursor_execute", self._end)

    def _begin(self, *given: object) -> None:
        self._began.at = time.thread_time()

    def _end(self, *given: object) -> None:
        self.seconds += time.thread_time() - self._began.at


class TimedDatabase(database.Database):
    """The processor time of all transactions, in seconds: statements and the ledger's work for them."""

    seconds = 0.0

    def run(self, work: Callable[Concatenate[orm.Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a transaction."""
        began = time.thread_time()
        try:
            return super().run(work, *args, **kwargs)
        finally:
            self.seconds += time.thread_time() - began


def decisions(pools: int, seconds: float, whole: bool) -> dict[str, Any]:
    """Measure decisions."""
    core = Core(pools)
    found: dict[str, Any] = {
        "bytes_per_pool": core.bytes_per_pool,
        "decision_ms": workload.timed(core.decide, seconds),
        "unchanged_ms": workload.timed(core.look, seconds),
        "first_of_its_type_ms": workload.timed(core.look, 0, before=core.forget)["cpu_median"],
    }
    if whole:
        scheduler = Whole(pools)
        found["pipeline_ms"] = workload.timed(lambda: scheduler.place(1), seconds, clock=time.process_time)
        together = workload.timed(lambda: scheduler.place(_TOGETHER), seconds, clock=time.process_time)
        found["pipeline_of_64_ms"] = {key: together[key] / (1 if key == "count" else _TOGETHER) for key in together}
        with scheduler.served() as client:
            found["rpc_ms"] = workload.timed(
                lambda: client.call(contract.CREATE_VOLUME, scheduler.orders(1)[0]), seconds, clock=time.process_time
            )
        scheduler.stop()
    return found


def reports(pools: int, seconds: float, whole: bool) -> dict[str, Any]:
    """Measure the application of reports."""
    core, days = Core(pools), itertools.count(1)
    arrived: list[list[PackedReport]] = []
    waiting: list[dict[str, list[dict[str, Any]]]] = []
    taken_in = 0.0

    def arrive(day: int = 0) -> None:
        arrived.append([packed(*one) for one in workload.reports(pools, day).items()])

    def take_in() -> None:
        # Each report is decoded and then applied, as in production; only the application is measured here.
        nonlocal taken_in
        for message in arrived.pop():
            opened = {message.backend: message.unpack().pools}
            began = time.thread_time()
            core.ingest(opened)
            taken_in += time.thread_time() - began

    def taking_in(seconds: float, before: Callable[[], object]) -> dict[str, Any]:
        return workload.timed(take_in, seconds, before=before, clock=lambda: taken_in)

    def changed() -> None:
        waiting.append(workload.reports(pools, next(days)))

    found: dict[str, Any] = {
        "bytes_per_pool": core.bytes_per_pool,
        "first_ms": taking_in(0, lambda: (arrive(next(days)), core.empty())),
        "changed_ms": taking_in(seconds, lambda: arrive(next(days))),
        "same_ms": taking_in(seconds, arrive),
        "opening_ms": workload.timed(lambda: [each.unpack() for each in arrived.pop()], seconds, before=arrive),
        "after_ms": workload.timed(core.look, 0, before=lambda: (arrive(next(days)), take_in())),
    }
    if whole:
        scheduler = Whole(pools)
        found["whole_bytes_per_pool"] = scheduler.bytes_per_pool
        scheduler.sql.seconds = scheduler.ledger.seconds = 0.0
        timed = workload.timed(
            lambda: scheduler.report(waiting.pop()), seconds, before=changed, clock=time.process_time
        )
        found["whole_ms"] = timed
        found["whole_of_it_ledger_ms"] = round(scheduler.ledger.seconds / timed["count"] * 1000, 4)
        found["whole_of_it_sql_ms"] = round(scheduler.sql.seconds / timed["count"] * 1000, 4)
        last = workload.reports(pools, next(days))
        scheduler.report(copy.deepcopy(last))

        def hardly_changed() -> None:
            for listed in last.values():
                listed[-1]["free_capacity_gb"] -= 0.25
            waiting.append(copy.deepcopy(last))

        found["whole_unchanged_ms"] = workload.timed(
            lambda: scheduler.report(waiting.pop()), seconds, before=hardly_changed, clock=time.process_time
        )
        found["get_pools_ms"] = workload.timed(
            lambda: scheduler.core.get_pools(PoolQuery()), seconds, clock=time.process_time
        )
        found["get_pools_packed_ms"] = workload.timed(
            lambda: serialization.pack(scheduler.core.get_pools(PoolQuery())), seconds, clock=time.process_time
        )
        found["get_pools_json_ms"] = workload.timed(
            lambda: jsonutils.dumps(serialization.pack(scheduler.core.get_pools(PoolQuery()))),
            0,
            clock=time.process_time,
        )
        scheduler.stop()
    return found


def main() -> None:
    """Measure decisions or reports, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["decisions", "reports"])
    parser.add_argument("--pools", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--whole", action="store_true")
    args = parser.parse_args()
    measure = decisions if args.what == "decisions" else reports
    print(json.dumps(measure(args.pools, args.seconds, args.whole)))


if __name__ == "__main__":
    main()
