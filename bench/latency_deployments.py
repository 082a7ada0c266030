# SPDX-License-Identifier: Apache-2.0
"""The deployments of the latency benchmark: a standalone, Tonnage's daemons, and Cinder's, all with sparse files."""

import http.client
import json
import pathlib
import subprocess
import sys

import cinder_peer
import counted_daemon
import latency_client
import throughput_machine as machine
import throughput_tonnage as tonnage

from tests.servers import base

_STANDALONE = """\
[DEFAULT]
host = standalone
state_path = {folder}/state
enabled_backends = files
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = {port}
auth_strategy = noauth
transport_url = kombu+memory://
quota_volumes = -1
quota_gigabytes = -1
[database]
connection = sqlite:///{folder}/tonnage.sqlite
[files]
volume_driver = filesystem
volume_backend_name = files
filesystem_path = {folder}/volumes
filesystem_size_limit_gb = 10000
filesystem_provisioning = thin
"""

_CINDER_MORE = """\
[DEFAULT]
enabled_backends = b1, b2
backend_stats_polling_interval = 10
executor_thread_pool_size = 64
osapi_volume_workers = 1
rootwrap_config = {etc}/rootwrap.conf
[database]
max_pool_size = 70
max_overflow = 10
[coordination]
backend_url = file://{folder}/coordination
[oslo_messaging_notifications]
driver = noop
[b1]
volume_driver = cinder_file_driver.FileDriver
volume_backend_name = b1
files_folder = {folder}/b1
[b2]
volume_driver = cinder_file_driver.FileDriver
volume_backend_name = b2
files_folder = {folder}/b2
"""


def pools(port: int) -> int:
    """Return the number of pools that the REST API shows, 0 if it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        path = f"/v3/{latency_client.PROJECT}/scheduler-stats/get_pools"
        connection.request("GET", path, headers=latency_client.HEADERS)
        answer = connection.getresponse()
        return len(json.loads(answer.read())["pools"]) if answer.status == 200 else 0
    except OSError:
        return 0
    finally:
        connection.close()


class Standalone(machine.ProcessGroup):
    """Scheduler, agent and REST API in one process, with SQLite."""

    def __enter__(self) -> "Standalone":
        super().__enter__()
        self.port = base.free_port()
        conf = self.folder / "tonnage.conf"
        conf.write_text(_STANDALONE.format(folder=self.folder, port=self.port))
        (self.folder / "volumes").mkdir()
        try:
            self.run("manage", tonnage.COMMANDS / "tonnage-manage", "--config-file", conf, "db", "sync")
            self.process = self._start(conf)
            self.groups = {"standalone": [self.process.pid]}
            self.until(lambda: pools(self.port) == 1, "the standalone to show its pool")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, conf: pathlib.Path) -> "subprocess.Popen[str]":
        return self.start("standalone", tonnage.COMMANDS / "tonnage-standalone", "--config-file", conf)


class CountedStandalone(Standalone):
    """The same, with counts of its statements."""

    def statements(self) -> counted_daemon.Counts:
        """Return the counts so far."""
        return counted_daemon.Counts.of_text(machine.ask(self.process, "count"))

    def _start(self, conf: pathlib.Path) -> "subprocess.Popen[str]":
        script = pathlib.Path(counted_daemon.__file__).absolute()
        return self.start("standalone", sys.executable, script, "standalone", "--config-file", conf, talks=True)


class Daemons(tonnage.Tonnage):
    """Scheduler, agents of two backends and REST API as processes, on a real database and a real message bus."""

    def __init__(self, database: str, bus: str) -> None:
        super().__init__(database, bus, tonnage.Shape(backends=2, pools=2))

    def start_agents(self) -> "subprocess.Popen[str]":
        """Start the agents, a process for each backend, and return at once."""
        sections = {}
        for name in self.shape.spread():
            folder = self.folder / name
            folder.mkdir()
            sections[name] = {
                "volume_driver": "filesystem",
                "volume_backend_name": name,
                "filesystem_path": folder,
                "filesystem_size_limit_gb": 10_000,
                "filesystem_provisioning": "thin",
            }
        conf = self._conf("agents", {"enabled_backends": ", ".join(sections)}, sections)
        return self._shop.start("agents", tonnage.COMMANDS / "tonnage-agent", "--config-file", conf)


class CinderDaemons(machine.Deployment):
    """cinder-api, cinder-scheduler and cinder-volume with two backends. Inside the context they know both pools."""

    def __init__(self, python: pathlib.Path, database: str, bus: str) -> None:
        super().__init__(database)
        self._python, self._database, self._bus = python, database, bus

    def _begin(self) -> None:
        shop, folder = self._shop, self._shop.folder
        etc = self._python.parents[1] / "etc" / "cinder"
        self.port = base.free_port()
        conf = folder / "cinder.conf"
        text = cinder_peer.CONF.format(
            bus=self._bus, database=self._database, folder=folder, name="all", etc=etc, port=self.port, timeout=60
        )
        more = folder / "more.conf"
        conf.write_text(text)
        more.write_text(_CINDER_MORE.format(folder=folder, etc=etc))
        (folder / "coordination").mkdir()
        words = ["--config-file", conf, "--config-file", more]
        shop.run("manage", self._python.with_name("cinder-manage"), *words, "db", "sync")
        drivers = {"PYTHONPATH": str(pathlib.Path(__file__).parent / "cinder_drivers")}
        self._pids = {
            name: [shop.start(name, self._python.with_name(f"cinder-{name}"), *words, variables=drivers).pid]
            for name in ("volume", "scheduler", "api")
        }
        shop.until(lambda: pools(self.port) == 2, "cinder-scheduler to know both pools", 180)

    def groups(self) -> dict[str, list[int]]:
        """Return the process ids of each daemon."""
        return dict(self._pids)
