# SPDX-License-Identifier: Apache-2.0
"""The tested cluster: real servers, schedulers and agents, each with its own configuration."""

import contextlib
import json
import pathlib
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa
from process_folder import ProcessFolder

from chaos.plan import Plan
from chaos.processes import Daemon
from tests import servers
from tests.servers.database import DatabaseServer
from tests.unit.rpc import bus
from tonnage import extension
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database, schema
from tonnage.rpc import contract
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import PoolQuery

_PROGRAMS = pathlib.Path(sys.executable).parent
_LAUNCHER = pathlib.Path(__file__).with_name("launcher.py")
_DATABASES: dict[str, type[DatabaseServer]] = {
    "postgresql": servers.PostgreSQL,
    "mariadb": servers.MariaDB,
    "galera": servers.Galera,
    "patroni": servers.Patroni,
}
_HOST = "box"
_READY = 180.0
#: Share of disturbed messages and operations in a run with faults.
_TROUBLE = 0.01


class Agent(Daemon):
    """One agent with one backend, whose clock, messages and driver can be disturbed."""

    def __init__(self, number: int, folder: ProcessFolder, seed: int) -> None:
        self.number = number
        self.backend = f"{_HOST}{number}@b{number}"
        self.conf = folder.path / f"agent{number}.conf"
        self.state = folder.path / f"agent{number}.json"
        self.tally = folder.path / f"agent{number}.tally"
        self._control = folder.path / f"agent{number}.control"
        self._values: dict[str, Any] = {}
        self._lock = threading.Lock()
        launcher: list[str | pathlib.Path] = [sys.executable, _LAUNCHER, self._control, self.tally, str(seed)]
        super().__init__(f"agent{number}", [*launcher, "--config-file", self.conf], folder)

    def control(self, **values: Any) -> None:
        """Change the disturbances of the agent, see :class:`chaos.launcher.Control`."""
        with self._lock:
            self._values.update(values)
            new = self._control.with_suffix(".new")
            new.write_text(json.dumps(self._values))
            new.replace(self._control)

    def tallied(self, what: str) -> int:
        """Return the number of reports with this disturbance."""
        return self.tally.read_text().split().count(what) if self.tally.exists() else 0

    def held(self) -> dict[str, dict[str, tuple[int, str]]]:
        """Return the content of its storage at one moment: size and provisioning type, by pool and volume id."""
        if not self.state.exists():
            return {}
        return {
            pool: {id: (int(kept["size_gb"]), str(kept["provisioning"])) for id, kept in volumes.items()}
            for pool, volumes in json.loads(self.state.read_text()).items()
        }


class Cluster:
    """Servers and daemons. The context manager starts the servers, :meth:`start` the daemons."""

    def __init__(self, plan: Plan, say: Callable[[str], None], keep: bool = False) -> None:
        self.plan = plan
        self._say = say
        self._keep = keep
        self.database: DatabaseServer | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.folder = stack.enter_context(ProcessFolder("tonnage-torture-", self._keep))
            if self.plan.database == "sqlite":
                self.url = f"sqlite:///{self.folder.path / 'tonnage.sqlite'}"
            else:
                self._say(f"starting {_DATABASES[self.plan.database].name}")
                self.database = stack.enter_context(_DATABASES[self.plan.database]())
                self.url = stack.enter_context(self.database.database())
            self._say("starting RabbitMQ")
            self.broker = stack.enter_context(
                servers.RabbitMQ(managed=False) if self.plan.brokers == 1 else servers.RabbitMQCluster()
            )
            self.engine = database.create_engine(self.url)
            stack.callback(self.engine.dispose)
            schema.sync(self.engine, extension.installed())
            self._make_types()
            self.schedulers = [self._scheduler(number) for number in range(self.plan.schedulers)]
            self.agents = [Agent(number, self.folder, self.plan.seed) for number in range(self.plan.agents)]
            stack.callback(self._end)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def start(self) -> None:
        """Start the daemons and wait until every backend has reported."""
        draw = random.Random(f"{self.plan.seed} clocks")
        self._say(f"starting {len(self.schedulers)} schedulers")
        for scheduler in self.schedulers:
            scheduler.start()
        with self.client() as client:
            self._until(lambda: _answers(client), "a scheduler answers")
        self._say(f"starting {len(self.agents)} agents")
        for agent in self.agents:
            agent.conf.write_text(_render(self._agent_conf(agent)))
            wanted = self.plan.faults > 0
            agent.control(
                clock=draw.uniform(-600, 600) if wanted else 0.0,
                trouble=_TROUBLE if wanted else 0.0,
                linger=0.1 if wanted else 0.0,
            )
            agent.start()
        self._until(self._all_reported, "every backend has reported")

    @contextlib.contextmanager
    def client(self) -> Iterator[SchedulerClient]:
        """Yield a client of the schedulers, for any number of threads."""
        options = {"rpc_conn_pool_size": self.plan.threads + 8, **self._rabbit()}
        timeout = self.plan.timing.response_timeout
        with bus.memory_transport(timeout, self.broker.url, options) as transport:
            yield SchedulerClient(transport)

    def logs(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the log of each daemon."""
        for daemon in [*self.schedulers, *self.agents]:
            if daemon.log.exists():
                yield daemon.name, daemon.log.read_text(errors="replace")

    def _all_reported(self) -> bool:
        with self.engine.connect() as connection:
            count = connection.exec_driver_sql("SELECT COUNT(*) FROM pools WHERE present").scalar_one()
        return int(count) == len(self.plan.pools)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _READY
        while not condition():
            for daemon in [*self.schedulers, *self.agents]:
                if daemon.log.exists() and not daemon.running:
                    raise RuntimeError(f"{daemon.name} has ended: {daemon.log.read_text(errors='replace')[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {_READY:g} s: {what}")
            time.sleep(0.1)

    def _make_types(self) -> None:
        with sa.orm.Session(self.engine) as session, session.begin():
            for kind in ("thin", "thick"):
                specs = {"provisioning:type": kind, f"{kind}_provisioning_support": "<is> True"}
                session.add(
                    models.VolumeType(
                        id=kind, name=kind, specs=[models.ExtraSpec(key=key, value=specs[key]) for key in specs]
                    )
                )

    def _scheduler(self, number: int) -> Daemon:
        conf = self.folder.path / f"scheduler{number}.conf"
        conf.write_text(_render(self._common(f"scheduler{number}")))
        return Daemon(f"scheduler{number}", [_PROGRAMS / "tonnage-scheduler", "--config-file", conf], self.folder)

    def _common(self, host: str) -> dict[str, dict[str, Any]]:
        timing = self.plan.timing
        return {
            "DEFAULT": {
                "host": host,
                "state_path": self.folder.path,
                "transport_url": self.broker.url,
                "rpc_response_timeout": timing.response_timeout,
                "rpc_message_ttl": timing.message_ttl,
                "claim_lease": timing.claim_lease,
                "service_down_time": timing.service_down_time,
                "max_over_subscription_ratio": 1.0,
                "quota_volumes": -1,
                "quota_gigabytes": -1,
            },
            "database": {"connection": self.url},
            "oslo_messaging_rabbit": self._rabbit(),
        }

    def _rabbit(self) -> dict[str, Any]:
        """Return the options for the bus, with a copy of each queue on all nodes if there are several."""
        if self.plan.brokers == 1:
            return {}
        return {"rabbit_quorum_queue": True, "rabbit_transient_quorum_queue": True}

    def _agent_conf(self, agent: Agent) -> dict[str, dict[str, Any]]:
        sections = self._common(f"{_HOST}{agent.number}")
        sections.pop("database")
        pools = self.plan.agent_pools(agent.number)
        backend = f"b{agent.number}"
        sections["DEFAULT"] |= {
            "enabled_backends": backend,
            "backend_stats_polling_interval": self.plan.timing.polling_interval,
            "listing_interval": self.plan.timing.listing_interval,
        }
        exact = self.plan.faults == 0
        sections[backend] = {
            "volume_driver": "memory",
            "memory_pools": ", ".join(pool.name for pool in pools),
            "memory_state_file": agent.state,
            "memory_latency": 0.0 if exact else 0.02,
            "memory_failure_share": 0.0 if exact else 0.02,
        }
        for pool in pools:
            sections[f"{backend}:{pool.name}"] = {
                "memory_pool_size_gb": pool.size_gb,
                "memory_provisioning": pool.kind,
                "max_over_subscription_ratio": pool.ratio,
                "reserved_percentage": pool.reserved_percentage,
            }
        return sections

    def full_name(self, agent: int, pool: str) -> str:
        """Return the full name of a pool."""
        return f"{self.agents[agent].backend}#{pool}"

    def _end(self) -> None:
        for daemon in [*self.agents, *self.schedulers]:
            daemon.kill()


def _answers(client: SchedulerClient) -> bool:
    try:
        client.call(contract.GET_POOLS, PoolQuery())
    except errors.TonnageError:
        return False
    return True


def _render(sections: dict[str, dict[str, Any]]) -> str:
    return "\n".join(
        f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for section, options in sections.items()
    )
