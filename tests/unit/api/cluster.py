# SPDX-License-Identifier: Apache-2.0
"""What the API talks to, in one process: a real ledger, a real scheduler behind a real bus, and a storage in memory."""

import contextlib
import functools
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from falcon import testing
from oslo_config import cfg
from oslo_context.context import RequestContext

from tests.unit.api.conformance import Conformance
from tonnage.api import app, options
from tonnage.api.auth import authentication, request_context
from tonnage.api.resource_context import ResourceContext
from tonnage.api.resources.discovery import OpenApi
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.affinity import DifferentBackendFilter, SameBackendFilter
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db import database, schema
from tonnage.rpc import serialization, transport
from tonnage.rpc.agent_client import AgentClient
from tonnage.rpc.batching.command_sender import Courier
from tonnage.rpc.bus_health import Pulse
from tonnage.rpc.messages import BackendReport, Command, Commands, Hello, Listing, Outcome, Verb
from tonnage.rpc.scheduler_client import SchedulerClient
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.endpoints import SchedulerEndpoint
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.settings import Settings
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

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


#: Statuses of a volume that an operation is under way on.
UNDER_WAY = ("creating", "extending", "deleting", "maintenance", "retyping")


class Storage:
    """An agent that does at once what it is told, and reports it; ``failing`` makes it refuse, ``hold`` makes it wait.

    It holds purges back while ``purge`` is false.
    """

    def __init__(self, scheduler: SchedulerClient) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._sizes: dict[str, dict[str, int]] = {pool["pool_name"]: {} for pool in POOLS}
        self._ticks = 0
        self._seq = 0
        self.epoch = 0
        self._fail: str | None = None
        self.hold = False
        self.held: list[Command] = []
        self.purge = True
        #: Sizes of what somebody else has put into the pools, by pool and name.
        self.strange: dict[str, dict[str, int]] = {pool["pool_name"]: {} for pool in POOLS}

    def join(self) -> None:
        """Introduce the backend and report its pools."""
        hello = Hello(backend=BACKEND, nonce="one", availability_zone="nova", driver="memory")
        self.epoch = self._scheduler.hello(hello).epoch
        self._scheduler.listing(Listing(backend=BACKEND, epoch=self.epoch, tick=self._tick(), volumes=[]))
        with self._lock:
            self._report()

    def run(self, context: Any, message: Any) -> None:
        """Take commands."""
        for command in serialization.unpack(message, Commands).commands:
            with self._lock:
                held = self.hold or (command.verb is Verb.PURGE and not self.purge)
                if held:
                    self.held.append(command)
            if not held:
                self._finish(command)

    def sizes(self, pool: str) -> dict[str, int]:
        """Return what volumes there are in a pool."""
        with self._lock:
            return dict(self._sizes[pool])

    def report_now(self, context: Any) -> None: ...

    def list_now(self, context: Any) -> None: ...

    def rejoin(self, context: Any) -> None: ...

    @contextlib.contextmanager
    def failing(self, words: str) -> Iterator[None]:
        """Have everything fail with these words, until the context ends."""
        self._fail = words
        try:
            yield
        finally:
            self._fail = None

    def release(self) -> None:
        """Do what was held back."""
        with self._lock:
            self.hold = False
            held, self.held = self.held, []
        for command in held:
            self._finish(command)

    def _finish(self, command: Command) -> None:
        with self._lock:
            outcome = self._work(command)
        # A scheduler takes in together what ends at about the same time, so nobody else is to wait for this answer.
        self._scheduler.outcomes([outcome])
        with self._lock:
            self._report()

    def _work(self, command: Command) -> Outcome:
        sizes = self._sizes[command.pool]
        if not self._fail:
            sizes.pop(command.volume_id, None)
            if command.verb is Verb.MANAGE:
                sizes[command.volume_id] = self.strange[command.pool].pop(command.reference)
            elif command.verb not in (Verb.DELETE, Verb.PURGE):
                sizes[command.volume_id] = command.size_gb
        return Outcome(
            backend=BACKEND,
            epoch=command.epoch,
            claim_id=command.claim_id,
            ok=self._fail is None,
            end_tick=self._tick(),
            size_gb=float(sizes.get(command.volume_id, 0)),
            clean=self._fail is not None,
            message=self._fail or "",
        )

    def _report(self) -> None:
        self._seq += 1
        covers = self._tick()
        pools = []
        for pool in POOLS:
            used = sum(self._sizes[pool["pool_name"]].values())
            free = pool["free_capacity_gb"] - (used if pool.get("thick_provisioning_support") else 0)
            pools.append({**pool, "provisioned_capacity_gb": used, "free_capacity_gb": free})
        self._scheduler.report(
            BackendReport(backend=BACKEND, epoch=self.epoch, seq=self._seq, covers=covers, pools=pools)
        )

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks


class Cluster:
    """Everything behind the API."""

    def __init__(self, folder: pathlib.Path, bus: transport.Transport) -> None:
        engine = database.create_engine(f"sqlite:///{folder}/ledger.sqlite")
        schema.sync(engine)
        self.database = database.Database(engine)
        self.bus = bus
        self.scheduler = SchedulerClient(bus)
        # The bus is in this process, which may stand still.
        self.scheduler._pulse = Pulse(lambda: transport.knock(bus), patience=60.0)
        values = SimpleNamespace(over_provisioning_calculation="cinder", capacity_weight_multiplier=1.0)
        kinds = (
            AvailabilityZoneFilter,
            CapabilitiesFilter,
            CapacityFilter,
            SameBackendFilter,
            DifferentBackendFilter,
        )
        self._sender = Courier(AgentClient(bus), lambda claim_ids: None)
        self._core = SchedulerManager(
            Settings(
                host="box",
                availability_zone="nova",
                calculation=Calculation.CINDER,
                default_ratio=20.0,
                # The storage reports when something happens there, which may be long ago.
                service_down_time=3600.0,
                max_attempts=1,
                batch_size=64,
                claim_lease=60.0,
            ),
            self.database,
            self._sender,
            Rules(
                FilterChain([kind(values) for kind in kinds]),
                WeigherChain([CapacityWeigher(values)]),
                Calculation.CINDER,
            ),
        )
        self.storage = Storage(self.scheduler)
        self._servers = [
            transport.server(bus, transport.TOPIC_SCHEDULER, "box", SchedulerEndpoint(self._core)),
            transport.server(bus, transport.TOPIC_AGENT, BACKEND, self.storage),
        ]

    def start(self) -> None:
        """Start, and wait until the pools are known."""
        self._core.start()
        self._sender.start()
        for server in self._servers:
            server.start()
        self.storage.join()
        client = self.client()
        wait_until(lambda: len(client.simulate_get("/v3/scheduler-stats/get_pools").json["pools"]) == len(POOLS))

    def stop(self) -> None:
        """Stop the storage while there is a scheduler to tell what it still ends, then the scheduler."""
        for server in reversed(self._servers):
            server.stop()
            server.wait()
        self._core.stop()
        self._sender.stop()
        self.database.close()

    def client(self, *roles: str, project: str | None = None, user: str = "someone", **settings: Any) -> "Client":
        """Return a client of an application on this cluster.

        With roles, whoever asks has these in that project; without, noauth decides. ``settings`` are options.
        """
        authenticator = authentication.noauth
        if roles:

            def authenticator(req: Any, url_project: str | None) -> RequestContext:
                return RequestContext(
                    user_id=user, project_id=project, roles=list(roles), request_id=request_context.request_id(req)
                )

        return Client(app.build(configuration(**settings), self.database, self.scheduler, authenticator))


@functools.cache
def conformance() -> Conformance:
    """Return what checks answers by the OpenAPI document."""
    routes = app.all_routes(configuration(), ResourceContext(*[None] * 5))  # type: ignore[arg-type]
    return Conformance(OpenApi(routes, "noauth").document)


class Client(testing.TestClient):
    """A client that speaks a microversion and waits for volumes. Every answer has to be one of the OpenAPI document."""

    def simulate_request(self, *args: Any, **kwargs: Any) -> testing.Result:
        """Send a request, and check the answer."""
        answer = super().simulate_request(*args, **kwargs)
        method, path = args[:2]
        conformance().check(method, path, answer)
        return answer

    def at(self, method: str, path: str, minor: int, **kwargs: Any) -> testing.Result:
        """Send a request by microversion 3.``minor``."""
        headers = {"OpenStack-API-Version": f"volume 3.{minor}", **kwargs.pop("headers", {})}
        return self.simulate_request(method, path, headers=headers, **kwargs)

    def create(self, size: Any = 1, path: str = "/v3/volumes", **fields: Any) -> Any:
        """Create a volume and return it as the answer shows it."""
        answer = self.simulate_post(path, json={"volume": {"size": size, **fields}})
        assert answer.status_code == 202, answer.text
        return answer.json["volume"]

    def show(self, volume_id: str) -> Any:
        """Return a volume, None if it is gone."""
        answer = self.simulate_get(f"/v3/volumes/{volume_id}")
        return answer.json["volume"] if answer.status_code == 200 else None

    def settled(self, volume_id: str) -> Any:
        """Wait until nothing is under way with a volume, and return it; None once it is gone."""
        volume: Any = None

        def rests() -> bool:
            nonlocal volume
            volume = self.show(volume_id)
            return volume is None or volume["status"] not in UNDER_WAY

        wait_until(rests)
        return volume

    def types(self) -> dict[str, str]:
        """Return the names of all types with their ids."""
        found = self.simulate_get("/v3/types?is_public=none").json["volume_types"]
        return {kind["name"]: kind["id"] for kind in found}


def configuration(files: Sequence[str] = (), **settings: Any) -> cfg.ConfigOpts:
    """Return a configuration with the options of the API."""
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], project="tonnage", default_config_files=list(files), default_config_dirs=[])
    for name, value in settings.items():
        conf.set_override(name, value)
    return conf


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Look again and again until it is so. Fails if it is not so in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.01)
