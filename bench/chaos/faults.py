# SPDX-License-Identifier: Apache-2.0
"""The faults during a run. The seed determines their kinds and targets."""

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable

from chaos.cluster import Agent, Cluster
from chaos.processes import Daemon
from tests.servers import patroni
from tests.servers.nodes import NodeCluster
from tests.servers.patroni import Patroni

#: Delay or age of a disturbed report, and duration of the disturbance of an agent's reports, in seconds.
_REPORT_SECONDS = 2.0
_TROUBLE_SECONDS = 4.0
#: Longest wait in seconds for the effect of a fault of reports. A killed agent sends its next report late.
_STRIKES_WITHIN = 150.0
_REPORTS = ("delayed", "duplicated", "reordered", "backdated")


class Faults:
    """The thread that causes faults: fault *i* of *n* begins when *i / (n + 1)* of the requests are done.

    Faults overlap, but each target has one fault at a time. ``struck`` counts the faults with an effect, by kind.
    """

    def __init__(self, cluster: Cluster, done: Callable[[], int], failed: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._done = done
        self._failed = failed
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._running: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._strikes: dict[str, Callable[[random.Random], bool]] = {
            "kill_scheduler": lambda draw: self._kill(draw, cluster.schedulers),
            "kill_agent": lambda draw: self._kill(draw, cluster.agents),
            "stop_scheduler": lambda draw: self._freeze(draw, cluster.schedulers),
            "stop_agent": lambda draw: self._freeze(draw, cluster.agents),
            "broker_restart": self._restart_broker,
            "database_restart": self._restart_database,
            **{f"{kind}_reports": self._reports(kind) for kind in _REPORTS},
            "clock_jump": self._jump,
        }
        # A node at a time, so that the others are a majority.
        if isinstance(cluster.database, Patroni):
            self._strikes |= self._fail_overs(cluster.database)
        elif isinstance(cluster.database, NodeCluster):
            self._strikes |= self._node_strikes("database", cluster.database)
        if isinstance(cluster.broker, NodeCluster):
            self._strikes |= self._node_strikes("broker", cluster.broker)
        self.struck: Counter[str] = Counter(dict.fromkeys(self._strikes, 0))

    def start(self) -> None:
        """Start the faults."""
        self._thread.start()

    def stop(self, at_once: bool) -> None:
        """Wait for the last fault, or with ``at_once`` cause no further ones; then wait until all targets recover."""
        if at_once:
            self._stopping.set()
        self._thread.join()
        for thread in self._running:
            thread.join()
        self._revive()
        for agent in self._cluster.agents:
            agent.control(reports=None, trouble=0.0, linger=0.0)

    def _run(self) -> None:
        plan = self._cluster.plan
        draw = random.Random(f"{plan.seed} faults")
        kinds: list[str] = []
        while len(kinds) < plan.faults:
            each = list(self._strikes)
            draw.shuffle(each)
            kinds += each
        for number, kind in enumerate(kinds[: plan.faults], 1):
            due = plan.requests * number / (plan.faults + 1)
            while self._done() < due:
                self._revive()
                if self._stopping.wait(0.02):
                    return
            thread = threading.Thread(target=self._strike, args=(kind, random.Random(f"{plan.seed} {number}")))
            thread.start()
            self._running.append(thread)

    def _revive(self) -> None:
        for daemon in [*self._cluster.schedulers, *self._cluster.agents]:
            with self._lock:
                if daemon.name in self._busy:
                    continue
                self._busy.add(daemon.name)
            try:
                daemon.revive()
            finally:
                self._give_back(daemon.name)

    def _strike(self, kind: str, draw: random.Random) -> None:
        try:
            if self._strikes[kind](draw):
                with self._lock:
                    self.struck[kind] += 1
        except Exception as error:
            self._failed(f"fault {kind}: {type(error).__name__}: {error}")

    def _take(self, draw: random.Random, names: list[str]) -> str | None:
        """Wait for a target without a fault; reserve it and return its name, None at the stop."""
        while True:
            with self._lock:
                free = [name for name in names if name not in self._busy]
                if free:
                    name = draw.choice(free)
                    self._busy.add(name)
                    return name
            if self._stopping.wait(0.05):
                return None

    def _give_back(self, name: str) -> None:
        with self._lock:
            self._busy.discard(name)

    def _target(self, draw: random.Random, daemons: list[Daemon] | list[Agent]) -> Daemon | None:
        name = self._take(draw, [daemon.name for daemon in daemons])
        return next((daemon for daemon in daemons if daemon.name == name), None)

    def _kill(self, draw: random.Random, daemons: list[Daemon] | list[Agent]) -> bool:
        daemon = self._target(draw, daemons)
        if daemon is None:
            return False
        try:
            if draw.random() < 0.3:
                daemon.kill_workers()
                return True
            daemon.kill()
            time.sleep(draw.uniform(0.0, 3.0))
            daemon.start()
            return True
        finally:
            self._give_back(daemon.name)

    def _freeze(self, draw: random.Random, daemons: list[Daemon] | list[Agent]) -> bool:
        """Stop workers for longer than a lease, sometimes longer than ``service_down_time``."""
        daemon = self._target(draw, daemons)
        if daemon is None:
            return False
        timing = self._cluster.plan.timing
        try:
            while not (workers := daemon.freeze()):  # the daemon is starting
                daemon.revive()
                if self._stopping.wait(0.1):
                    return False
            time.sleep(draw.uniform(timing.claim_lease + 0.5, timing.service_down_time + 2))
            daemon.thaw(workers)
            return True
        finally:
            self._give_back(daemon.name)

    def _restart_broker(self, draw: random.Random) -> bool:
        if self._take(draw, ["broker"]) is None:
            return False
        try:
            broker = self._cluster.broker
            (broker.kill if draw.random() < 0.5 else broker.stop)()
            broker.start()
            return True
        finally:
            self._give_back("broker")

    def _restart_database(self, draw: random.Random) -> bool:
        if self._take(draw, ["database"]) is None:
            return False
        try:
            database = self._cluster.database
            if database is None:
                self._hold_sqlite(draw.uniform(1.0, 4.0))
                return True
            (database.kill if draw.random() < 0.5 else database.stop)()
            time.sleep(draw.uniform(0.0, 1.0))
            database.start()
            return True
        finally:
            self._give_back("database")

    def _node_strikes(self, target: str, servers: NodeCluster) -> dict[str, Callable[[random.Random], bool]]:
        """Return the faults of a node: it is killed, frozen, or cut off from the other nodes."""

        def on_any(disturb: Callable[[int], None], longest: float) -> Callable[[random.Random], bool]:
            return self._disturb(
                target, lambda draw: draw.randrange(servers.size), disturb, servers.restore_node, (0.5, longest)
            )

        return {
            f"{target}_node_kill": on_any(servers.kill_node, 5.0),
            f"{target}_node_stop": on_any(servers.freeze_node, 12.0),
            f"{target}_node_cut": on_any(servers.network.cut, 15.0),
        }

    def _fail_overs(self, servers: Patroni) -> dict[str, Callable[[random.Random], bool]]:
        """Return the faults that make a standby the primary, and those of a standby and of etcd."""

        def on_primary(disturb: Callable[[int], None], shortest: float) -> Callable[[random.Random], bool]:
            seconds = (shortest, patroni.TTL + 8.0)
            return self._disturb(
                "database", lambda draw: servers.require_primary(), disturb, servers.restore_node, seconds
            )

        def standby(draw: random.Random) -> int:
            return draw.choice([node for node in range(servers.size) if node != servers.require_primary()])

        return {
            "primary_kill": on_primary(servers.kill_node, 0.5),
            "primary_stop": on_primary(servers.freeze_node, patroni.TTL + 2.0),
            "primary_cut": on_primary(servers.cut_node, patroni.TTL + 2.0),
            "switch_over": on_primary(servers.switch_over, 0.5),
            "standby_kill": self._disturb("database", standby, servers.kill_node, servers.restore_node, (0.5, 10.0)),
            "etcd_kill": self._disturb(
                "database", lambda draw: 0, lambda _: servers.kill_etcd(), lambda _: servers.start(), (0.5, 10.0)
            ),
        }

    def _disturb(
        self,
        target: str,
        choose: Callable[[random.Random], int],
        disturb: Callable[[int], None],
        restore: Callable[[int], None],
        seconds: tuple[float, float],
    ) -> Callable[[random.Random], bool]:
        """Return a fault that disturbs a node of the target for a time between two bounds in seconds."""

        def strike(draw: random.Random) -> bool:
            if self._take(draw, [target]) is None:
                return False
            node = choose(draw)
            try:
                disturb(node)
                time.sleep(draw.uniform(*seconds))
                return True
            finally:
                restore(node)
                self._give_back(target)

        return strike

    def _hold_sqlite(self, seconds: float) -> None:
        """Hold the write lock of SQLite, which is not a server that could be restarted."""
        connection = sqlite3.connect(self._cluster.folder.path / "tonnage.sqlite", isolation_level=None, timeout=60)
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
        connection.close()

    def _reports(self, kind: str) -> Callable[[random.Random], bool]:
        def strike(draw: random.Random) -> bool:
            name = self._take(draw, [f"{agent.name} reports" for agent in self._cluster.agents])
            if name is None:
                return False
            agent = next(agent for agent in self._cluster.agents if name == f"{agent.name} reports")
            before = agent.tallied(kind)
            try:
                agent.control(reports=(kind, _REPORT_SECONDS))
                # The fault counts after it has changed a report.
                deadline = time.monotonic() + _STRIKES_WITHIN
                time.sleep(_TROUBLE_SECONDS)
                while agent.tallied(kind) == before and time.monotonic() < deadline:
                    if self._stopping.wait(0.1):
                        break
                return agent.tallied(kind) > before
            finally:
                agent.control(reports=None)
                self._give_back(name)

        return strike

    def _jump(self, draw: random.Random) -> bool:
        agent = draw.choice(self._cluster.agents)
        agent.control(clock=draw.choice((-1, 1)) * draw.uniform(1, 3600))
        return True
