# SPDX-License-Identifier: Apache-2.0
"""A cluster for tests of the API, in one process: a ledger, a scheduler behind a message bus, a storage in memory."""

import contextlib
import functools
import pathlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from falcon import testing
from oslo_config import cfg
from oslo_context.context import RequestContext

from tests.servers import ledger_schema
from tests.unit.api.conformance import Conformance
from tests.unit.scheduler import managers
from tonnage import enabled_extensions, extension
from tonnage.api import app, options
from tonnage.api.auth import authentication
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.extension_parts import ApiParts
from tonnage.api.http import middleware, request_context
from tonnage.filters.affinity import DifferentBackendFilter, SameBackendFilter
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.ledger.db import database
from tonnage.rpc import contract, serialization, transport
from tonnage.rpc import options as rpc_options
from tonnage.rpc.clients.bus_health import BusHealth
from tonnage.rpc.clients.command_sender import AgentClient, CommandSender
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import (
    BackendReport,
    Command,
    Commands,
    Hello,
    ListedVolume,
    Listing,
    Notice,
    NoticeCode,
    Outcome,
    Outcomes,
    Verb,
)
from tonnage.rpc.packed_reports import PackedReport
from tonnage.rpc.scheduler_server import SchedulerServer
from tonnage.scheduler import endpoints
from tonnage.scheduler.extension_parts import PartsBuilder

BACKEND = "box@disk"
POOLS: list[dict[str, Any]] = [
    {
        "pool_name": "thin",
        "total_capacity_gb": 1000,
        "free_capacity_gb": 1000,
        "max_over_subscription_ratio": 2.0,
        "thin_provisioning_support": True,
        "storage_protocol": "file",
        "driver_version": "1.0",
    },
    {
        "pool_name": "thick",
        "total_capacity_gb": 500,
        "free_capacity_gb": 500,
        "reserved_percentage": 10,
        "thick_provisioning_support": True,
        "storage_protocol": "block",
    },
]


#: The minor number of the microversion with the keys of Tonnage.
OWN_KEYS = 72

#: Statuses of a volume with an operation in progress.
OPERATION_STATUSES = ("creating", "extending", "deleting", "maintenance", "retyping")


class Storage:
    """An agent that performs commands at once and reports them.

    In the context ``failing`` all commands fail. While ``paused`` is true, commands wait for :meth:`resume`; while
    ``purges_enabled`` is false, purges do.
    """

    def __init__(self, scheduler: SchedulerClient) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._sizes: dict[str, dict[str, float]] = {pool["pool_name"]: {} for pool in POOLS}
        self._ticks = 0
        self._seq = 0
        self.epoch = 0
        self._failure: str | None = None
        self.paused = False
        self.pending: list[Command] = []
        self.purges_enabled = True
        #: Sizes of the volumes in the pools that Tonnage does not manage, by pool and name.
        self.unmanaged: dict[str, dict[str, float]] = {pool["pool_name"]: {} for pool in POOLS}

    def register(self) -> None:
        """Register the backend and report its pools."""
        hello = Hello(backend=BACKEND, nonce="one", availability_zone="nova", driver="memory")
        self.epoch = self._scheduler.call(contract.HELLO, hello).epoch
        self.list_now(None)
        with self._lock:
            self._report()

    def run(self, context: Any, message: Any) -> None:
        """Handle several commands."""
        for packed in serialization.unpack(message, Commands).commands:
            command = serialization.unpack(packed, Command)
            with self._lock:
                is_pending = self.paused or (command.verb is Verb.PURGE and not self.purges_enabled)
                if is_pending:
                    self.pending.append(command)
            if not is_pending:
                self._finish(command)

    def sizes(self, pool: str) -> dict[str, float]:
        """Return the sizes of a pool's volumes by id, in GiB."""
        with self._lock:
            return dict(self._sizes[pool])

    def keep(self, names: Collection[str]) -> None:
        """Delete all other volumes, outside of Tonnage."""
        with self._lock:
            for sizes in self._sizes.values():
                for name in sizes.keys() - names:
                    del sizes[name]

    def report_now(self, context: Any) -> None: ...

    def list_now(self, context: Any) -> None:
        """Send a listing."""
        with self._lock:
            volumes = [
                ListedVolume(volume_id=name, pool=pool, size_gb=size)
                for pool, managed in self._sizes.items()
                for name, size in {**managed, **self.unmanaged[pool]}.items()
            ]
            tick = self._tick()
        self._scheduler.call(contract.LISTING, Listing(backend=BACKEND, epoch=self.epoch, tick=tick, volumes=volumes))

    def rejoin(self, context: Any) -> None: ...

    @contextlib.contextmanager
    def failing(self, message: str) -> Iterator[None]:
        """Let all commands fail with this message until the context ends."""
        self._failure = message
        try:
            yield
        finally:
            self._failure = None

    def resume(self) -> None:
        """Perform the pending commands."""
        with self._lock:
            self.paused = False
            pending, self.pending = self.pending, []
        for command in pending:
            self._finish(command)

    def notify(self, text: str) -> None:
        """Tell the schedulers that the storage cannot be used, instead of a report."""
        with self._lock:
            self._seq += 1
            notice = Notice(backend=BACKEND, epoch=self.epoch, seq=self._seq, code=NoticeCode.FAILING, text=text)
            self._scheduler.cast(contract.NOTICE, notice)

    def report(self) -> None:
        """Report."""
        with self._lock:
            self._report()

    def _finish(self, command: Command) -> None:
        with self._lock:
            outcome = self._work(command)
        # A scheduler handles outcomes of about the same time in one batch, so the lock is not held during the call.
        self._scheduler.call(contract.OUTCOMES, Outcomes(outcomes=[outcome]))
        with self._lock:
            self._report()

    def _work(self, command: Command) -> Outcome:
        sizes, failure = self._sizes[command.pool], self._failure
        if command.verb is Verb.MANAGE and command.reference not in self.unmanaged[command.pool]:
            failure = failure or f"there is no volume {command.reference}"
        if not failure:
            sizes.pop(command.volume_id, None)
            if command.verb is Verb.MANAGE:
                sizes[command.volume_id] = self.unmanaged[command.pool].pop(command.reference)
            elif command.verb not in (Verb.DELETE, Verb.PURGE):
                sizes[command.volume_id] = command.size_gb
        return Outcome(
            backend=BACKEND,
            epoch=command.epoch,
            claim_id=command.claim_id,
            ok=failure is None,
            end_tick=self._tick(),
            size_gb=float(sizes.get(command.volume_id, 0)),
            clean=failure is not None,
            message=failure or "",
        )

    def _report(self) -> None:
        self._seq += 1
        covers = self._tick()
        pools = []
        for pool in POOLS:
            used = sum(self._sizes[pool["pool_name"]].values())
            free = pool["free_capacity_gb"] - (used if pool.get("thick_provisioning_support") else 0)
            pools.append({**pool, "provisioned_capacity_gb": used, "free_capacity_gb": free})
        report = BackendReport(backend=BACKEND, epoch=self.epoch, seq=self._seq, covers=covers, pools=pools)
        self._scheduler.cast(contract.REPORT, PackedReport.of(report))

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks


class Cluster:
    """The services behind the API."""

    def __init__(
        self, folder: pathlib.Path, bus: transport.Transport, builders: Mapping[str, PartsBuilder] | None = None
    ) -> None:
        """``builders`` make the parts of extensions in the scheduler."""
        engine = database.create_engine(f"sqlite:///{folder}/ledger.sqlite")
        ledger_schema.create(engine)
        self.database = database.Database(engine)
        self.bus = bus
        self.scheduler = SchedulerClient(bus)
        # The bus is in this process, which may be slow.
        self.scheduler._health = BusHealth(bus, timeout=60.0)
        filters = (
            AvailabilityZoneFilter,
            CapabilitiesFilter,
            CapacityFilter,
            SameBackendFilter,
            DifferentBackendFilter,
        )
        self._sender = CommandSender(AgentClient(bus))
        # The storage reports only after commands, so its last report may be old.
        # A sweep looks at all volumes of a draining backend, however many the tests before have left.
        settings = managers.settings(host="box", service_down_time=3600.0, max_attempts=1, drain_concurrency=10_000)
        self._core = managers.manager(self.database, self._sender, settings, filters, builders=builders or {})
        self.storage = Storage(self.scheduler)
        self._servers = [
            SchedulerServer(bus, "box", endpoints.build(self._core)),
            transport.server(bus, transport.TOPIC_AGENT, BACKEND, self.storage),
        ]

    def start(self) -> None:
        """Start the services, and wait until the scheduler has a report of the pools."""
        self._core.start()
        self._sender.start(self._core)
        for server in self._servers:
            server.start()
        self.storage.register()
        client = self.client()
        wait_until(lambda: len(client.simulate_get("/v3/scheduler-stats/get_pools").json["pools"]) == len(POOLS))

    def stop(self) -> None:
        """Stop the storage, which sends its last outcomes to the scheduler, and then the scheduler."""
        for server in reversed(self._servers):
            server.stop()
            server.wait()
        self._core.stop()
        self._sender.stop()
        self.database.close()

    def client(
        self,
        *roles: str,
        project: str | None = None,
        user: str = "someone",
        **settings: Any,
    ) -> "Client":
        """Return a client of an application on this cluster.

        With ``roles``, the user has these roles in the project; without, noauth is used. ``settings`` are options, such
        as ``enabled_extensions``; by default none is enabled.
        """
        authenticator = authentication.noauth
        if roles:

            def authenticator(req: Any, url_project: str | None) -> RequestContext:
                return RequestContext(
                    user_id=user, project_id=project, roles=list(roles), request_id=request_context.request_id(req)
                )

        conf = configuration(**settings)
        return Client(app.build(conf, self.database, self.scheduler, authenticator))


@functools.cache
def parts(*names: str) -> list[ApiParts]:
    """Return the parts of the API, without a ledger behind them, with the named extensions."""
    return app.all_parts(configuration(enabled_extensions=names), ResourceContext(*[None] * 6))  # type: ignore[arg-type]


@functools.cache
def conformance() -> Conformance:
    """Return the check of responses against the OpenAPI document with all extensions."""
    names = sorted(extension.installed())
    return Conformance(app.openapi(configuration(enabled_extensions=names), parts(*names)).document)


class Client(testing.TestClient):
    """A client with microversions, that can wait for volumes. It checks all responses against the OpenAPI document."""

    def simulate_request(self, *args: Any, **kwargs: Any) -> testing.Result:
        """Send a request, and check the response."""
        answer = super().simulate_request(*args, **kwargs)
        method, path = args[:2]
        conformance().check(method, path, answer)
        return answer

    def at(self, method: str, path: str, minor: int, **kwargs: Any) -> testing.Result:
        """Send a request with microversion 3.``minor``."""
        headers = {"OpenStack-API-Version": f"volume 3.{minor}", **kwargs.pop("headers", {})}
        return self.simulate_request(method, path, headers=headers, **kwargs)

    def create(self, size: Any = 1, path: str = "/v3/volumes", **fields: Any) -> Any:
        """Create a volume and return it with its host and project."""
        answer = self.simulate_post(path, json={"volume": {"size": size, **fields}})
        assert answer.status_code == 202, answer.text
        return self.show(answer.json["volume"]["id"], path)

    def show(self, volume_id: str, path: str = "/v3/volumes") -> Any:
        """Return a volume with the keys of Tonnage, None if it does not exist."""
        answer = self.at("GET", f"{path}/{volume_id}", OWN_KEYS)
        return answer.json["volume"] if answer.status_code == 200 else None

    def wait_until_settled(self, volume_id: str) -> Any:
        """Wait until no operation on a volume is in progress, and return it, or None if it does not exist."""
        volume: Any = None

        def is_settled() -> bool:
            nonlocal volume
            volume = self.show(volume_id)
            return volume is None or volume["status"] not in OPERATION_STATUSES

        wait_until(is_settled)
        return volume

    def types(self) -> dict[str, str]:
        """Return the names of all types with their ids."""
        found = self.simulate_get("/v3/types?is_public=none").json["volume_types"]
        return {kind["name"]: kind["id"] for kind in found}


def configuration(files: Sequence[str] = (), **settings: Any) -> cfg.ConfigOpts:
    """Return a configuration with the options of the API and of the enabled extensions, by default none."""
    conf = cfg.ConfigOpts()
    options.register(conf)
    middleware.register(conf)
    rpc_options.register(conf)
    enabled_extensions.register(conf)
    conf.set_default(enabled_extensions.OPTION.name, [])
    conf([], project="tonnage", default_config_files=list(files), default_config_dirs=[])
    for name, value in settings.items():
        conf.set_override(name, value)
    enabled_extensions.register_options(conf)
    return conf


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until a condition is true. Fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.01)
